"""`task_vocab_elmo`: the ids of a task's words, through every path of the tokenizer, padding, saving and threads."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, DataCollatorForTokenClassification

from elmo_hf import ElmoTokenizer
from elmo_hf.model.task_vocab_elmo import TaskVocab


VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "."]
# ids 2 to 6
WORDS = ["cat", "the", "sat", "Cat", "New York"]


@pytest.fixture(scope="module")
def tokenizer() -> ElmoTokenizer:
    return ElmoTokenizer(VOCABULARY, task_vocab=WORDS)


def test_words_are_found_as_they_are_or_in_lower_case() -> None:
    assert list(TaskVocab(WORDS).look_up(["cat", "Cat", "CAT", "dog"])) == [2, 5, 1, 1]
    assert list(TaskVocab(WORDS, "lower").look_up(["cat", "Cat", "CAT", "The", "dog"])) == [2, 5, 2, 3, 1]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"task_vocab": "cat"}, TypeError, r"^task_vocab is a str; give a list of words\.$"),
        ({"task_vocab": ["a", 1]}, TypeError, r"^task_vocab: word 1 is 1, a int; a word is a str\.$"),
        ({"task_vocab": ["a", "b", "a"]}, ValueError, r"^task_vocab has the word 'a' twice: leave one out\.$"),
        (
            {"task_vocab": [], "task_lookup": "any"},
            ValueError,
            r"^task_lookup is 'any'; it can be one of exact, lower",
        ),
        ({"task_lookup": "lower", "name_or_path": "my-model"}, ValueError, r"^my-model has no task_vocab\.json: save"),
    ],
)
def test_what_is_no_vocabulary_is_named(options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        ElmoTokenizer(VOCABULARY, **options)


@pytest.mark.parametrize("side", ["left", "right"])
def test_words_and_raw_text_give_the_same_ids(tokenizer: ElmoTokenizer, side: str) -> None:
    options = {"padding": True, "padding_side": side, "return_tensors": "np"}

    of_words = tokenizer([["the", "cat", "."], ["Cat"]], is_split_into_words=True, **options)
    of_text = tokenizer(["the cat.", "Cat"], **options)
    # only Rust knows what this gives
    by_rust = tokenizer(
        [["the", "cat", "."], ["Cat"]], is_split_into_words=True, truncation=True, max_length=9, **options
    )

    second = [1, 5, 1, 0, 0] if side == "right" else [0, 0, 1, 5, 1]
    for batch in (of_words, of_text, by_rust):
        assert batch["task_word_ids"].tolist() == [[1, 3, 2, 1, 1], second]
        assert batch["task_word_ids"].dtype == np.int64
        assert list(batch) == ["input_ids", "attention_mask", "char_ids", "task_word_ids"]


def test_a_tokenizer_without_words_of_a_task_returns_none_of_them() -> None:
    assert "task_word_ids" not in ElmoTokenizer(VOCABULARY)("the cat")
    assert "task_word_ids" not in ElmoTokenizer.model_input_names


def test_single_examples_lists_tensors_and_pairs(tokenizer: ElmoTokenizer) -> None:
    assert tokenizer("the cat")["task_word_ids"] == [1, 3, 2, 1]
    assert tokenizer([["New York"]], is_split_into_words=True)["task_word_ids"] == [[1, 6, 1]]
    assert torch.equal(tokenizer("sat", return_tensors="pt")["task_word_ids"], torch.tensor([[1, 4, 1]]))
    assert tokenizer("the cat", "sat")["task_word_ids"] == [1, 3, 2, 1, 1, 4, 1]
    assert tokenizer("the cat", add_special_tokens=False)["task_word_ids"] == [3, 2]
    assert tokenizer([], is_split_into_words=True)["task_word_ids"] == [1, 1]
    assert tokenizer([])["task_word_ids"] == []


def test_overflow_keeps_words_and_their_ids_together(tokenizer: ElmoTokenizer) -> None:
    batch = tokenizer("the cat sat the cat", truncation=True, max_length=4, stride=1, return_overflowing_tokens=True)

    assert batch["task_word_ids"] == [[1, 3, 2, 1], [1, 2, 4, 1], [1, 4, 3, 1], [1, 3, 2, 1]]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("make", [list, np.array, torch.tensor])
def test_pad_gives_what_a_call_gives(tokenizer: ElmoTokenizer, make: Any, side: str) -> None:
    texts, options = ["the cat sat", "", "x"], {"padding": True, "pad_to_multiple_of": 4, "padding_side": side}
    examples = [{name: make(value) for name, value in tokenizer(text).items()} for text in texts]

    padded = tokenizer.pad(examples, **options)
    alone = tokenizer.pad(examples[0], padding="max_length", max_length=7, padding_side=side)

    expected = tokenizer(texts, return_tensors="np", **options)
    np.testing.assert_array_equal(np.asarray(padded["task_word_ids"]), expected["task_word_ids"])
    np.testing.assert_array_equal(np.asarray(alone["task_word_ids"]) != 0, np.asarray(alone["attention_mask"]) != 0)


def test_a_collator_pads_them(tokenizer: ElmoTokenizer) -> None:
    rows = [{**tokenizer(text), "labels": [0] * len(tokenizer(text)["input_ids"])} for text in ("the cat", "sat")]

    batch = DataCollatorForTokenClassification(tokenizer)(rows)

    assert batch["task_word_ids"].tolist() == [[1, 3, 2, 1], [1, 4, 1, 0]]


def test_pad_names_ids_that_do_not_fit(tokenizer: ElmoTokenizer) -> None:
    with pytest.raises(ValueError, match=r"^task_word_ids of sentence 0 are \[2\]; its 3 input_ids need \[3\]\.$"):
        tokenizer.pad([{**tokenizer("the"), "task_word_ids": [1, 2]}])


def test_saved_words_come_back_whatever_they_hold(tmp_path: Path) -> None:
    words = ["a\nb", "\u2028", " ", "", "\ud800", "\x00", '"', "Hà Nội", "<S>", "\ufeff", "e\u0301"]
    tokenizer = ElmoTokenizer(VOCABULARY, task_vocab=words, task_lookup="lower")
    tokenizer.save_pretrained(tmp_path)

    loaded = AutoTokenizer.from_pretrained(tmp_path)

    assert json.loads((tmp_path / "task_vocab.json").read_text(encoding="utf-8")) == words
    assert json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))["task_vocab"] is None
    assert loaded(words, is_split_into_words=True)["task_word_ids"] == [10, *range(2, 13), 1]
    assert loaded.task_lookup == "lower"
    again = tmp_path / "again"
    loaded.save_pretrained(again)
    assert (again / "task_vocab.json").read_bytes() == (tmp_path / "task_vocab.json").read_bytes()
    (tmp_path / "task_vocab.json").unlink()
    with pytest.raises(ValueError, match=r"has no task_vocab\.json: save the tokenizer there\.$"):
        ElmoTokenizer.from_pretrained(tmp_path)


def test_a_language_models_tokenizer_gets_the_words_of_a_task(tmp_path: Path) -> None:
    ElmoTokenizer(VOCABULARY).save_pretrained(tmp_path)

    loaded = ElmoTokenizer.from_pretrained(tmp_path, task_vocab=["cat"])

    assert loaded("The cat")["task_word_ids"] == [1, 1, 2, 1]


def test_a_new_language_vocabulary_leaves_the_words_of_the_task(tokenizer: ElmoTokenizer) -> None:
    trained = tokenizer.train_new_from_iterator(["a cat sat"], 9)

    assert trained("cat")["task_word_ids"] == [1, 2, 1]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301 - our own
def test_copies_and_threads_encode_alike(tokenizer: ElmoTokenizer, copied: Any) -> None:
    texts = ["the cat sat", "Cat", "", "x the"] * 20
    expected = [tokenizer(text)["task_word_ids"] for text in texts]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: copied(tokenizer)(text)["task_word_ids"], texts)) == expected
