"""`embedding.sentences`: text, words, or both become a sentence with both."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from elmo_hf import ElmoError, ElmoTokenizer
from elmo_hf.embedding.sentences import Sentence, check_sentences, read_sentence, split_words


class Frame:
    """What frames of pandas and polars have in common: iterating over one gives the names of its columns."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns
        self.shape = (len(next(iter(columns.values()))), len(columns))

    def __iter__(self) -> Iterable[str]:
        return iter(self.columns)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        cells = np.empty(self.shape, dtype=object)
        for number, column in enumerate(self.columns.values()):
            cells[:, number] = column
        return cells


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("It rained.", Sentence("It rained.", ["It", "rained", "."])),
        (["New York", "."], Sentence("New York .", ["New York", "."])),
        (Sentence("It rained.", ["It", "rained."]), Sentence("It rained.", ["It", "rained."])),
        (Sentence("MKT", ["M", "K", "T"], "sp|P1"), Sentence("MKT", ["M", "K", "T"], "sp|P1")),
        ("", Sentence("", [])),
        ([], Sentence("", [])),
    ],
    ids=["text", "words", "both", "with a key", "empty text", "no words"],
)
def test_knows_text_and_words(given: str | list[str] | Sentence, expected: Sentence) -> None:
    tokenizer = ElmoTokenizer()

    assert read_sentence(given, tokenizer) == expected
    assert split_words(given, tokenizer) == expected.words


@pytest.mark.parametrize("given", ["a \ud800 b", ["\ud800"]])
def test_half_a_character_is_named(given: str | list[str]) -> None:
    with pytest.raises(ElmoError, match="holds half of a character"):
        read_sentence(given, ElmoTokenizer())


@pytest.mark.parametrize(
    "given",
    [
        ["It rained.", "No."],
        iter(["It rained.", "No."]),
        np.array(["It rained.", "No."]),
        np.array([["It rained."], ["No."]]),
        np.array([["It rained."], ["No."]], dtype=object),
        Frame(text=["It rained.", "No."]),
    ],
    ids=["list", "iterator", "array", "2-D array", "2-D array of objects", "frame"],
)
def test_one_column_is_the_sentences(given: Iterable[Any]) -> None:
    assert list(check_sentences(given)) == ["It rained.", "No."]


def test_the_cells_of_a_column_may_be_lists_of_words() -> None:
    assert list(check_sentences(Frame(words=[["It", "rained"], []]))) == [["It", "rained"], []]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("It rained.", r"The sentences are one text: put it in a list\."),
        ({"text": ["It rained."]}, r"The sentences are a dict: give the column"),
        (Frame(text=["a"], more=["b"]), r"The sentences are a Frame of shape \(1, 2\): give the column"),
        (np.array([["a", "b"]]), r"ndarray of shape \(1, 2\): give the column"),
        (np.array([[["a"]]]), r"ndarray of shape \(1, 1, 1\)"),
        (np.array("a"), r"ndarray of shape \(\)"),
        (["a", None], r"Sentence 1 is None: give a text or a list of words\."),
        ([{"text": "a"}], r"Sentence 0 is \{'text': 'a'\}: give a text"),
        ([b"a"], r"Sentence 0 is b'a': give a text"),
        (np.array([[1.0]]), r"Sentence 0 is 1\.0: give a text"),
    ],
    ids=["text", "dict", "frame", "2-D", "3-D", "0-D", "missing", "rows", "bytes", "numbers"],
)
def test_what_would_be_misread_is_refused(given: Iterable[Any], message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        list(check_sentences(given))


@pytest.mark.parametrize("key", ["", "a\x00b", "a\nb", "\ud800", "k" * 1001, "__metadata__", "."])
def test_a_key_that_cannot_name_an_array_is_refused(key: str) -> None:
    with pytest.raises(ElmoError, match=r"The key '.* cannot be the name of an array: give one of 1 to 1,000"):
        read_sentence(Sentence("a", ["a"], key), ElmoTokenizer())
