"""`model.characters_elmo`: words become rows of bytes as in bilm-tf, or of code points as in ELMoForManyLangs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf.model.characters_elmo import BYTES, DictionarySpelling, number_characters


def spell(word: str, width: int) -> list[int]:
    """Write one word as the original programs do, a row at a time."""
    content = [byte + 1 for byte in word.encode("utf-8", "ignore")[: width - 2]]
    content = {"<S>": [257], "</S>": [258]}.get(word, content)
    row = [259, *content, 260]
    while len(row) < width:
        row.append(261)
    return row


# any code point, lone surrogates too, and the words with a meaning
words = st.one_of(
    st.text(st.characters(exclude_categories=())), st.sampled_from(["", "<S>", "</S>", "<UNK>", "<PAD>", "\0"])
)


@settings(derandomize=True, database=None, max_examples=300)
@given(st.lists(words, max_size=8), st.integers(3, 60))
def test_spells_any_words_as_the_originals_do(given_words: list[str], width: int) -> None:
    ids = BYTES.words_to_char_ids(given_words, width)

    assert ids.shape == (len(given_words), width)
    assert ids.dtype == np.int64
    assert ids.tolist() == [spell(word, width) for word in given_words]


@pytest.mark.parametrize(
    ("word", "row"),
    [
        pytest.param("cat", [259, 100, 98, 117, 260, 261, 261, 261], id="letters"),
        pytest.param("", [259, 260, 261, 261, 261, 261, 261, 261], id="empty"),
        pytest.param("<S>", [259, 257, 260, 261, 261, 261, 261, 261], id="begin"),
        pytest.param("</S>", [259, 258, 260, 261, 261, 261, 261, 261], id="end"),
        pytest.param("<s>", [259, 61, 116, 63, 260, 261, 261, 261], id="other case"),
        pytest.param("\0\0", [259, 1, 1, 260, 261, 261, 261, 261], id="NUL bytes"),
        pytest.param("\ud800a", [259, 98, 260, 261, 261, 261, 261, 261], id="lone surrogate"),
        pytest.param("abcdef", [259, 98, 99, 100, 101, 102, 103, 260], id="just fits"),
        pytest.param("abcdefg", [259, 98, 99, 100, 101, 102, 103, 260], id="cut"),
        pytest.param("中国人", [259, 229, 185, 174, 230, 156, 190, 260], id="cut between characters"),
        pytest.param("a中国", [259, 98, 229, 185, 174, 230, 156, 260], id="cut inside a character"),
    ],
)
def test_rows_written_by_hand(word: str, row: list[int]) -> None:
    assert BYTES.words_to_char_ids([word], 8).tolist() == [row]


@settings(derandomize=True, database=None, max_examples=200)
@given(st.lists(st.text(), min_size=1, max_size=8))
def test_words_that_fit_come_back(given_words: list[str]) -> None:
    longest = max(len(word.encode()) for word in given_words)

    ids = BYTES.words_to_char_ids(given_words, longest + 3)

    assert BYTES.are_char_ids(ids)
    assert BYTES.char_ids_to_words(ids) == given_words


def test_a_cut_character_shows_as_the_replacement_character() -> None:
    assert BYTES.char_ids_to_words(BYTES.words_to_char_ids(["a中国"], 8)) == ["a中\N{REPLACEMENT CHARACTER}"]


def test_a_row_of_zeros_is_no_word() -> None:
    ids = np.concatenate([BYTES.words_to_char_ids(["a"], 5), np.zeros((1, 5), dtype=np.int64)])

    assert BYTES.are_char_ids(ids)
    assert BYTES.char_ids_to_words(ids) == ["a", None]


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param([[0, 0, 0]], id="nothing but padding"),
        pytest.param([[1, 5, 2], [1, 2, 0]], id="word ids"),
        pytest.param([[259, 98, 261]], id="no end"),
        pytest.param([[259, 260, 98]], id="letters after the end"),
        pytest.param([[259, 98, 257, 260]], id="boundary inside a word"),
        pytest.param([[259, 0, 260]], id="zero inside a word"),
        pytest.param([[259, 260, 260]], id="two ends"),
        pytest.param([[259, 260]], id="too narrow"),
        pytest.param([[259, 98, 260], [5, 6, 7]], id="one row not framed"),
    ],
)
def test_what_no_tokenizer_wrote_is_not_taken_for_characters(ids: list[list[int]]) -> None:
    assert not BYTES.are_char_ids(np.array(ids))


# characters by dictionary

NUMBERS = {
    character: number
    for number, character in enumerate(("a", "b", "\0", "\u3000", "日", *DictionarySpelling.required))
}
DICTIONARY = DictionarySpelling(NUMBERS)


def spell_by_dictionary(word: str, width: int) -> list[int]:
    """Write one word as ELMoForManyLangs does, with ids one more."""
    content = [NUMBERS.get(character, NUMBERS["<oov>"]) for character in word][: width - 2]
    content = [NUMBERS[word]] if word in ("<bos>", "<eos>") else content
    row = [NUMBERS["<eow>"], *content, NUMBERS["<bow>"]]
    return [number + 1 for number in row + [NUMBERS["<pad>"]] * (width - len(row))]


known = st.text("ab\0\u3000日")
words_for_a_dictionary = st.one_of(words, known, st.sampled_from(["<bos>", "<eos>", "<pad>", "a\0", "\0"]))


@settings(derandomize=True, database=None, max_examples=300)
@given(st.lists(words_for_a_dictionary, max_size=8), st.integers(3, 60))
def test_spells_any_words_by_a_dictionary(given_words: list[str], width: int) -> None:
    ids = DICTIONARY.words_to_char_ids(given_words, width)

    assert ids.dtype == np.int64
    assert ids.tolist() == [spell_by_dictionary(word, width) for word in given_words]


@settings(derandomize=True, database=None, max_examples=100)
@given(st.lists(st.one_of(known, st.sampled_from(["<bos>", "<eos>"])), min_size=1, max_size=8))
def test_words_of_known_characters_come_back(given_words: list[str]) -> None:
    ids = DICTIONARY.words_to_char_ids(given_words, max(map(len, given_words)) + 3)

    assert DICTIONARY.are_char_ids(ids)
    assert DICTIONARY.char_ids_to_words(ids) == given_words


def test_an_unknown_character_shows_as_the_replacement_character() -> None:
    ids = np.concatenate([DICTIONARY.words_to_char_ids(["axb"], 6), np.zeros((1, 6), dtype=np.int64)])

    assert DICTIONARY.char_ids_to_words(ids) == ["a\N{REPLACEMENT CHARACTER}b", None]


def test_ids_of_bytes_are_none_of_the_dictionary() -> None:
    assert not DICTIONARY.are_char_ids(BYTES.words_to_char_ids(["a"], 6))
    assert not BYTES.are_char_ids(DICTIONARY.words_to_char_ids(["a"], 6))


def test_a_dictionary_without_its_marks_is_named() -> None:
    with pytest.raises(ValueError, match="char_vocab lacks <pad>, <oov>: give the whole dictionary"):
        DictionarySpelling({"a": 0, "<bow>": 1, "<eow>": 2, "<bos>": 3, "<eos>": 4})


def test_a_list_is_numbered_from_0() -> None:
    assert number_characters(["a", "日"]) == {"a": 0, "日": 1}
    assert number_characters({"日": 7}) == {"日": 7}
