"""`embedding.sentences`: text, words, or both become a sentence with both."""

import pytest

from elmo_hf import ElmoError, ElmoTokenizer
from elmo_hf.embedding.sentences import Sentence, read_sentence, split_words


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("It rained.", Sentence("It rained.", ["It", "rained", "."])),
        (["New York", "."], Sentence("New York .", ["New York", "."])),
        (Sentence("It rained.", ["It", "rained."]), Sentence("It rained.", ["It", "rained."])),
        ("", Sentence("", [])),
        ([], Sentence("", [])),
    ],
    ids=["text", "words", "both", "empty text", "no words"],
)
def test_knows_text_and_words(given: str | list[str] | Sentence, expected: Sentence) -> None:
    tokenizer = ElmoTokenizer()

    assert read_sentence(given, tokenizer) == expected
    assert split_words(given, tokenizer) == expected.words


@pytest.mark.parametrize("given", ["a \ud800 b", ["\ud800"]])
def test_half_a_character_is_named(given: str | list[str]) -> None:
    with pytest.raises(ElmoError, match="holds half of a character"):
        read_sentence(given, ElmoTokenizer())
