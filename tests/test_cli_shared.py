"""`elmo_hf.cli_shared`: names of models, and text that a terminal shows as it is meant."""

import logging
from pathlib import Path

import pytest

from elmo_hf import ELMO_TINY_EN
from elmo_hf.cli_shared import model_folder, notes_held_back, printable, width_of


def test_the_model_of_the_package_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert model_folder("elmo-tiny-en") == ELMO_TINY_EN
    assert model_folder("other") == Path("other")
    # a folder of that name comes first
    Path("elmo-tiny-en").mkdir()
    assert model_folder("elmo-tiny-en") == Path("elmo-tiny-en")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Hà Nội 日本", "Hà Nội 日本"),
        ("a\x1b[31mb\n\u202e", r"a\x1b[31mb\n\u202e"),
        ("\u0646\u200c\u0647", "\u0646\u200c\u0647"),
        ("\udcff", r"\udcff"),
    ],
    ids=["text", "control", "joiner", "surrogate"],
)
def test_what_would_disturb_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(("text", "columns"), [("bank", 4), ("日本", 4), ("e\u0301", 1), ("", 0)])
def test_counts_columns(text: str, columns: int) -> None:
    assert width_of(text) == columns


def test_notes_are_shown_at_last_and_not_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("elmo_hf_conversion.config")
    with notes_held_back():
        logger.warning("a note")
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err == "a note\n"

    def fail() -> None:
        with notes_held_back():
            logger.warning("a note")
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    assert capsys.readouterr().err == ""
