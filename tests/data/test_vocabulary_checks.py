"""Vocabularies that were split in another way are found, and those that were not are not."""

import pytest

from elmo_hf.data.vocabulary_checks import ends_in_punctuation, find_punctuated, find_unknown


@pytest.mark.parametrize(
    "word", ["hoy,", "(EFE).).", "(EFE)", "¿Quién?»", "wait…", "said:”", "सच।", "لماذا؟", "好。", "3)"]
)
def test_punctuation_that_tokenizers_separate(word: str) -> None:
    # a period alone may be that of an abbreviation
    assert ends_in_punctuation(word) is not word.endswith(".")


@pytest.mark.parametrize(
    "word",
    [
        "",
        ",",
        "...",
        "»,",
        "word",
        "U.S.",
        "l'",
        "l\u2019",
        "non-",
        "un\u2010",
        "low@@",
        "25%",
        "C#",
        "https://a.b/",
        "གཞུང་",
        "e\u0301",
    ],
)
def test_punctuation_that_belongs_to_a_word(word: str) -> None:
    assert not ends_in_punctuation(word)


def test_a_vocabulary_of_raw_text_is_found_by_its_share_of_words_with_punctuation() -> None:
    words = [f"word{number}" for number in range(98)]

    assert find_punctuated([]) is None
    assert find_punctuated([*words, "hoy,", "U.S."]) is None
    assert find_punctuated([*words, "hoy,", "no!"]) is None
    share, example = find_punctuated([*words[1:], "hoy,", "no!", "(EFE)"])
    assert (share, example) == (0.03, "hoy,")


def test_a_vocabulary_that_leaves_too_many_words_is_found() -> None:
    # every other sentence has a word of its own: a vocabulary of a half leaves one word of four in the other
    sentences = [["the", "king", "sleeps", f"w{number}"] for number in range(100)]
    whole = ["<S>", "</S>", "<UNK>", "the", "king", "sleeps"]

    assert find_unknown(sentences, [*whole, *(f"w{number}" for number in range(100))]) is None
    # as many as expected
    assert find_unknown(sentences, whole) is None
    share, expected, example = find_unknown(sentences, [*whole[:3], "The", *whole[4:]])
    assert (share, expected, example) == (0.5, 0.25, "the")


@pytest.mark.parametrize("sentences", [[], [["a"]], [["a"], ["b"]]])
def test_a_text_that_is_too_short_to_tell_is_in_order(sentences: list[list[str]]) -> None:
    assert find_unknown(sentences, ["c"]) is None
