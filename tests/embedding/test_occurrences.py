"""`embedding.occurrences`: which word of a sentence is meant."""

import pytest

from elmo_hf import ElmoError
from elmo_hf.embedding.occurrences import Occurrence, check_position, find_word


WORDS = ["The", "bank", "of", "a", "Bank", "."]


def test_marks_a_word_in_its_sentence() -> None:
    assert Occurrence(WORDS, 1).marked() == "The [bank] of a Bank ."
    assert Occurrence(WORDS, 5).marked() == "The bank of a Bank [.]"


@pytest.mark.parametrize(("word", "number", "position"), [("the", None, 0), ("BANK", 1, 1), ("bank", 2, 4)])
def test_finds_a_word_in_upper_and_lower_case(word: str, number: int | None, position: int) -> None:
    assert find_word(WORDS, word, number).position == position


@pytest.mark.parametrize(
    ("word", "number", "message"),
    [
        ("river", None, r"^The sentence 'The bank of a Bank \.' has no word 'river': give one of its words\.$"),
        ("bank", None, r"has the word 'bank' 2 times: choose an occurrence from 1 to 2\.$"),
        ("bank", 3, r"has no occurrence 3 of 'bank': choose one from 1 to 2\.$"),
        ("bank", 0, r"has no occurrence 0 of 'bank'"),
    ],
)
def test_a_word_that_is_not_there_or_not_clear_is_named(word: str, number: int | None, message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        find_word(WORDS, word, number)


@pytest.mark.parametrize("position", [-1, 2])
def test_a_position_outside_a_sentence_is_named(position: int) -> None:
    check_position(["a", "b"], 1)
    with pytest.raises(
        ElmoError, match=rf"^The position {position} is none of a sentence of 2 words: count from 0\.$"
    ):
        check_position(["a", "b"], position)
