"""What the Hub would refuse in the metadata of a card is refused before anything is sent."""

import pytest

from elmo_hf import ElmoError
from elmo_hf.hub.metadata import check_language, check_license, check_metadata


def test_licences_and_languages_of_the_hub() -> None:
    assert [check_license(name) for name in ("Apache-2.0", "cc-by-4.0", "other")] == [
        "apache-2.0",
        "cc-by-4.0",
        "other",
    ]
    assert check_language([]) is None
    assert check_language("en") == check_language(["en"]) == "en"
    assert check_language(["de", "nds", "multilingual"]) == ["de", "nds", "multilingual"]


@pytest.mark.parametrize(
    ("license", "near"),
    [("apache2.0", "apache-2.0"), ("CC BY 4.0", "cc-by-4.0"), ("gpl-v3", "gpl-3.0"), ("?", "apache-2.0")],
)
def test_a_licence_that_the_hub_does_not_know_is_refused_with_one_that_it_does(license: str, near: str) -> None:
    with pytest.raises(
        ElmoError, match=rf"^'{license}' is no licence .+, such as {near}, or other,".replace("?", r"\?")
    ):
        check_license(license)


@pytest.mark.parametrize(
    ("code", "near"), [("english", "en"), ("EN", "en"), ("jp", "ja"), ("en-US", "en"), ("", "en")]
)
def test_what_is_no_code_of_a_language_is_refused(code: str, near: str) -> None:
    with pytest.raises(ElmoError, match=rf"^'{code}' is no language code: .+ such as {near},"):
        check_language([code])


@pytest.mark.parametrize(
    "metadata",
    [{"license": "free"}, {"language": ["english"]}, {"base_model": "a/b/c"}, {"datasets": ["x y"]}],
    ids=str,
)
def test_metadata_of_a_card_name_the_card(metadata: dict[str, object]) -> None:
    check_metadata({"license": "mit", "language": ["en"], "base_model": "ann/x", "datasets": ["imdb"]}, "README.md")
    with pytest.raises(ElmoError, match=r"^README\.md: "):
        check_metadata(metadata, "README.md")
