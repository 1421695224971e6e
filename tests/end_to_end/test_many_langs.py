"""Models of ELMoForManyLangs from end to end: their tokenizer, and every kind of them against plain loops."""

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

from elmo_hf import ElmoTokenizer
from elmo_hf_conversion import convert
from support.many_langs_format import CHARACTERS, WORDS, compute, spell, write_many_langs


NUMBERS = {character: number for number, character in enumerate(CHARACTERS)}
WIDTH = 12

SENTENCES: list[list[str]] = [
    ["the", "bad", "tea", "."],
    [],
    ["", "日", "\u3000", "naïve", "日本語"],
    # the word that is cut is looked up as it is cut
    ["abcdeabcde", "abcdeabcdeXYZ", "the" * 9, "<bos>", "<oov>", "<eos>"],
]


@pytest.fixture(scope="module")
def tokenizer() -> ElmoTokenizer:
    return ElmoTokenizer(WORDS, WIDTH, char_vocab=CHARACTERS)


def rows(*words: str | None) -> list[list[int]]:
    """Spell words, ids one more than in the dictionary; `None` is padding."""
    return [[0] * WIDTH if word is None else [n + 1 for n in spell(word, NUMBERS, WIDTH)] for word in words]


# the tokenizer


def test_a_batch_of_words_by_hand() -> None:
    marks = ["<oov>", "<bos>", "<eos>", "<pad>", "<bow>", "<eow>"]
    tokenizer = ElmoTokenizer(["<oov>", "<bos>", "<eos>", "ab"], 4, char_vocab=["a", "b", *marks])

    batch = tokenizer([["abc"], ["b", "x"]], is_split_into_words=True, padding=True, return_tensors="np")

    # <bos> is word 2 and <eos> 3; abc is cut to ab, word 4; the others are <oov>, word 1
    assert batch["input_ids"].tolist() == [[2, 4, 3, 0], [2, 1, 1, 3]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    # a word begins with the id of <eow>, 8, and ends with that of <bow>, 7; a is 1, b 2, <oov> 3, <pad> 6
    begin, end = [8, 4, 7, 6], [8, 5, 7, 6]
    assert batch["char_ids"].tolist() == [
        [begin, [8, 1, 2, 7], end, [0, 0, 0, 0]],
        [begin, [8, 2, 7, 6], [8, 3, 7, 6], end],
    ]


@settings(derandomize=True, database=None, max_examples=150, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=()) | st.sampled_from("abcä日")), max_size=6))
def test_any_words_keep_their_rows(tokenizer: ElmoTokenizer, words: list[str]) -> None:
    encoded = tokenizer(words, is_split_into_words=True)

    numbers = {word: number for number, word in enumerate(WORDS)}
    framed = ["<bos>", *words, "<eos>"]
    assert encoded["char_ids"] == rows(*framed)
    assert encoded["input_ids"] == [numbers.get(word[: WIDTH - 2], 0) + 1 for word in framed]
    assert encoded.tokens() == framed


def test_raw_text(tokenizer: ElmoTokenizer) -> None:
    encoded = tokenizer("the tea. <bos>", return_offsets_mapping=True)

    assert encoded.tokens() == ["<bos>", "the", "tea", ".", "<bos>", "<eos>"]
    assert encoded["offset_mapping"] == [(0, 0), (0, 3), (4, 7), (7, 8), (9, 14), (0, 0)]
    assert encoded["char_ids"] == rows(*encoded.tokens())
    assert tokenizer.words_to_char_ids(["tea"]).tolist() == rows("tea")


def test_the_special_words_are_those_of_the_model(tokenizer: ElmoTokenizer) -> None:
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token) == ("<bos>", "<eos>", "<oov>")
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (2, 3, 1)
    assert (tokenizer.pad_token_id, len(tokenizer)) == (0, len(WORDS) + 1)


def test_decode_character_and_word_ids(tokenizer: ElmoTokenizer) -> None:
    batch = tokenizer([["the", "日本"], ["<pad>"]], is_split_into_words=True, padding=True, return_tensors="pt")

    # p is not in the dictionary
    assert tokenizer.decode(batch["char_ids"]) == [
        "<bos> the 日\ufffd <eos>",
        "<bos> \ufffd\ufffdad\ufffd <eos> <PAD>",
    ]
    assert tokenizer.decode(batch["char_ids"][0], skip_special_tokens=True) == "the 日\ufffd"
    assert tokenizer.decode(batch["input_ids"][1]) == "<bos> <pad> <eos> <PAD>"


def test_a_word_of_padding_is_a_word(tokenizer: ElmoTokenizer) -> None:
    encoded = tokenizer(["<pad>"], is_split_into_words=True, padding="max_length", max_length=4)

    assert encoded["input_ids"] == [2, 4, 3, 0]
    assert encoded["attention_mask"] == [1, 1, 1, 0]


def saved(tokenizer: ElmoTokenizer, folder: Path) -> ElmoTokenizer:
    tokenizer.save_pretrained(folder / "first")
    AutoTokenizer.from_pretrained(folder / "first").save_pretrained(folder / "second")
    return AutoTokenizer.from_pretrained(folder / "second")


def pickled(tokenizer: ElmoTokenizer, folder: Path) -> ElmoTokenizer:  # noqa: ARG001 - as the others
    return pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 - our own


def copied(tokenizer: ElmoTokenizer, folder: Path) -> ElmoTokenizer:  # noqa: ARG001 - as the others
    return copy.deepcopy(tokenizer)


@pytest.mark.parametrize("carry", [saved, pickled, copied])
def test_the_dictionary_travels(
    carry: Callable[[ElmoTokenizer, Path], ElmoTokenizer], tokenizer: ElmoTokenizer, tmp_path: Path
) -> None:
    other = carry(tokenizer, tmp_path)

    assert other.char_numbers == NUMBERS
    for sentence in SENTENCES:
        assert dict(other(sentence, is_split_into_words=True)) == dict(tokenizer(sentence, is_split_into_words=True))


def test_the_dictionary_has_a_file_of_its_own(tokenizer: ElmoTokenizer, tmp_path: Path) -> None:
    files = tokenizer.save_pretrained(tmp_path, filename_prefix="x")

    assert str(tmp_path / "x-char_vocab.json") in files
    assert json.loads((tmp_path / "x-char_vocab.json").read_text()) == NUMBERS
    assert "日" not in (tmp_path / "x-tokenizer_config.json").read_text(encoding="utf-8")


def test_a_folder_without_its_dictionary_is_named(tokenizer: ElmoTokenizer, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "char_vocab.json").unlink()

    with pytest.raises(ValueError, match=r"has no char_vocab\.json"):
        AutoTokenizer.from_pretrained(tmp_path)


def test_a_dictionary_left_in_the_folder_is_not_taken_for_the_tokenizer_s(
    tokenizer: ElmoTokenizer, tmp_path: Path
) -> None:
    tokenizer.save_pretrained(tmp_path)
    ElmoTokenizer().save_pretrained(tmp_path)

    assert AutoTokenizer.from_pretrained(tmp_path).char_numbers is None


def test_a_vocabulary_can_be_learnt(tokenizer: ElmoTokenizer) -> None:
    learnt = tokenizer.train_new_from_iterator(["The tea, the tea.", "the tea"], vocab_size=6)

    assert learnt.get_vocab() == {"<PAD>": 0, "<oov>": 1, "<bos>": 2, "<eos>": 3, "tea": 4, "the": 5}
    assert learnt("the tea")["char_ids"] == rows("<bos>", "the", "tea", "<eos>")


@pytest.mark.parametrize(
    ("char_vocab", "error", "message"),
    [
        (["a", "<bow>", "<eow>", "<pad>"], ValueError, "char_vocab lacks <oov>, <bos>, <eos>"),
        ([1], TypeError, "char_vocab: 1 is a int; a character is a str"),
        ({"a": "0"}, ValueError, "char_vocab: the number of 'a' is '0'"),
        ({"a": -1}, ValueError, "char_vocab: the number of 'a' is -1"),
        ("abc", TypeError, "char_vocab is a str"),
    ],
)
def test_what_is_no_dictionary_is_named(char_vocab: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ElmoTokenizer(char_vocab=char_vocab)


# every kind of model


KINDS: dict[str, dict[str, Any]] = {
    "joined": {},
    "characters": {"word_dim": 0},
    "words": {"char_dim": 0},
    "equal-widths": {"dim": 4, "word_dim": 0, "filters": ((1, 2), (2, 2))},
    "words-as-wide-as-the-output": {"char_dim": 0, "word_dim": 4},
    "no-clip-one-layer-tanh": {"clip": 0, "n_layers": 1, "activation": "tanh", "n_highway": 0},
    "old-pickles": {"new_format": False},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_is_that_of_plain_loops(kind: str, tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path / "original", **KINDS[kind])

    convert([folder], tmp_path / "model")

    # weights this large magnify what float32 rounds
    model = AutoModel.from_pretrained(tmp_path / "model", dtype=torch.float64)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    batch = tokenizer(SENTENCES, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.inference_mode():
        output = model(**batch, output_hidden_states=True)
    for i, words in enumerate(SENTENCES):
        expected = compute(folder, words)
        actual = torch.stack(output.hidden_states)[:, i, : len(words) + 2].numpy()
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)
        # the default of that program: the mean of the layers
        mixed = output.last_hidden_state[i, : len(words) + 2].numpy()
        np.testing.assert_allclose(mixed, expected.mean(axis=0), rtol=0, atol=1e-6)
        assert not output.last_hidden_state[i, len(words) + 2 :].any()


def test_the_clips_fire_in_this_test(tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path)

    assert np.isclose(np.abs(compute(folder, SENTENCES[3])[1]), 3).any()
