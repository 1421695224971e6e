"""A card is rendered and recognised, and a card that somebody wrote stays."""

from pathlib import Path

import pytest
from huggingface_hub.repocard_data import CardData

from elmo_hf import ElmoError
from elmo_hf.hub.cards import Card, code_block, complete_card, is_unedited, render_card, split_card, table
from elmo_hf.hub.folder_card import make_card


WANTED = {"license": "mit", "library_name": "transformers", "tags": ["elmo"], "base_model": None}


def test_a_card_is_rendered() -> None:
    blocks = ["Vectors.", "## Use", code_block("import elmo_hf\n", "python"), table(("a", ""), [("x|y\nz", 1)])]

    card = render_card(Card("Tiny", blocks, CardData(license="mit")))

    assert card == (
        "---\nlicense: mit\n---\n\n# Tiny\n\nVectors.\n\n## Use\n\n"
        "```python\nimport elmo_hf\n```\n\n| a | |\n|---|---|\n| x\\|y z | 1 |\n"
    )
    assert not is_unedited(card)
    assert is_unedited(render_card(Card("Tiny", blocks, CardData(), generated=True)))


def test_one_knows_what_nobody_has_edited(bilm_model: Path) -> None:
    draft, made = (bilm_model / "README.md").read_text(encoding="utf-8"), make_card(bilm_model, "ann/tiny", {"a": 1})

    for card in (draft, made, made.replace("\n", "\r\n"), made.replace("a: 1", "a: 1\nlicense: mit")):
        assert is_unedited(card)
    for card in ("", "# Mine\n", made + "More.\n", made.replace("ELMo", "My ELMo", 1), draft + "More.\n"):
        assert not is_unedited(card)
    assert not is_unedited(draft.replace("path/to/this/folder", "ann/tiny"))


@pytest.mark.parametrize(
    ("old", "new", "added"),
    [
        ("# Mine\n", "---\nlicense: mit\nlibrary_name: transformers\ntags:\n- elmo\n---\n\n# Mine\n", 3),
        ("", "---\nlicense: mit\nlibrary_name: transformers\ntags:\n- elmo\n---\n\n", 3),
        (
            "---\n# why\ntags: [ 'own' ]\nlicense: \n---\nText\n---\n",
            "---\n# why\ntags: [ 'own' ]\nlicense: mit\nlibrary_name: transformers\n---\nText\n---\n",
            2,
        ),
        ("---\n---\nText", "---\nlicense: mit\nlibrary_name: transformers\ntags:\n- elmo\n---\nText", 3),
        (
            "\ufeff---\r\nlicense: mit\r\ntags:\r\n- own\r\n---\r\nText",
            "---\r\nlicense: mit\r\ntags:\r\n- own\r\nlibrary_name: transformers\r\n---\r\nText",
            1,
        ),
        (
            "---\nlicense: gpl\nlibrary_name: x\ntags: [y]\n---\npath/to/this/folder",
            "---\nlicense: gpl\nlibrary_name: x\ntags: [y]\n---\nann/tiny",
            0,
        ),
    ],
    ids=["no head", "empty", "comments", "empty head", "windows", "all there"],
)
def test_a_card_is_completed_and_kept(old: str, new: str, added: int) -> None:
    card, names = complete_card(old, "ann/tiny", WANTED)

    assert card == new
    assert len(names) == added
    assert {"license", "library_name", "tags"} <= split_card(card)[1].keys()
    assert complete_card(card, "ann/tiny", WANTED) == (card, [])


@pytest.mark.parametrize("head", ["a: [", "just words", "1: 2", "a: b: c"])
def test_damaged_metadata_are_named(head: str) -> None:
    with pytest.raises(ElmoError, match=r"README\.md has metadata that cannot be read \(.+\): correct them"):
        complete_card(f"---\n{head}\n---\n", "ann/tiny", WANTED)
