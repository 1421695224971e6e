"""`model.word_encoder_elmo`: words that NumPy encodes give what Rust gives."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers.processors import ByteLevel, TemplateProcessing

from elmo_hf import ElmoTokenizer
from elmo_hf.model import word_encoder_elmo
from elmo_hf.model.word_encoder_elmo import WordEncoder


CHARACTERS = ["<bow>", "<eow>", "<pad>", "<oov>", "<bos>", "<eos>", "a", "b", "c"]
SENTENCES = [
    ["The", "cat", "sat", "."],
    [],
    ["", "a\ud800b", "日本", "x" * 80],
    ["<S>", "</S>", "<UNK>", "<PAD>", "<MASK>", "cat", "cat"],
    [" ", "\u200b", "a b", "\ue000", "\0"],
]
OPTIONS = {
    "padding": [True, False],
    "padding_side": [None, "left"],
    "return_tensors": [None, "np", "pt"],
    "add_special_tokens": [True, False],
    "return_attention_mask": [None, False],
}
BATCHES: dict[str, Any] = {
    "many": SENTENCES,
    "pairs of one length": [["a", "b"], ("c", "d")],
    "one of a batch": [["cat", "x"]],
    "one": ["The", "cat"],
    "one without words": [],
    "only empty ones": [[], []],
}


def tokenizers() -> dict[str, ElmoTokenizer]:
    shortened = ElmoTokenizer(["cat", "The"])
    shortened.model_input_names = ["input_ids"]
    return {
        "characters": ElmoTokenizer(),
        "words": ElmoTokenizer(["cat", "The", "<PAD>", "x" * 80], mask_token="<MASK>"),
        "dictionary": ElmoTokenizer(["cat"], 8, char_vocab=CHARACTERS),
        "no end": ElmoTokenizer(["cat"], add_eos_token=False),
        "ids only": shortened,
        "left": ElmoTokenizer(padding_side="left"),
    }


TOKENIZERS = tokenizers()


def seen(tokenizer: ElmoTokenizer, batch: Any, options: dict) -> Any:
    """Return all that a caller can see, or the error."""
    try:
        found = tokenizer(batch, is_split_into_words=True, **options)
    except ValueError as error:
        return str(error)
    count = len(found.encodings)
    return {
        "data": {key: (type(value), getattr(value, "dtype", None), str(value)) for key, value in found.items()},
        "keys": list(found.keys()),
        "rest": (found.is_fast, found.n_sequences),
        "each": [
            (found.tokens(row), found.word_ids(row), found.sequence_ids(row), found[row].offsets, found[row].ids)
            for row in range(count)
        ],
    }


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES.keys())
@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_result_is_that_of_rust(name: str, batch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = TOKENIZERS[name]
    calls = [dict(zip(OPTIONS, values, strict=True)) for values in itertools.product(*OPTIONS.values())]
    found = [seen(tokenizer, batch, options) for options in calls]

    monkeypatch.setattr(WordEncoder, "for_call", lambda *_: None)

    for options, one in zip(calls, found, strict=True):
        assert one == seen(tokenizer, batch, options), options


@pytest.mark.parametrize(
    "options",
    [
        {"truncation": True, "max_length": 4},
        {"padding": "max_length", "max_length": 12},
        {"padding": True, "pad_to_multiple_of": 8},
        {"padding": True, "return_special_tokens_mask": True},
        {"padding": True, "return_offsets_mapping": True},
        {"padding": True, "return_length": True},
        {"padding": True, "return_token_type_ids": True},
        {"padding": True, "return_overflowing_tokens": True, "truncation": True, "max_length": 5},
    ],
    ids=" ".join,
)
def test_rust_handles_what_numpy_cannot(options: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WordEncoder, "index_words", None)

    assert len(ElmoTokenizer()(SENTENCES, is_split_into_words=True, **options)["input_ids"]) >= len(SENTENCES)


def test_a_template_of_the_user_is_used() -> None:
    tokenizer = ElmoTokenizer(["cat", "The"])
    marks = [(word, tokenizer.convert_tokens_to_ids(word)) for word in ("<S>", "</S>")]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing("</S> </S> $A <S>", None, special_tokens=marks)

    assert tokenizer(["cat"], is_split_into_words=True).tokens() == ["</S>", "</S>", "cat", "<S>"]


def test_rust_handles_another_post_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = ElmoTokenizer(["cat", "The"])
    tokenizer.backend_tokenizer.post_processor = ByteLevel()
    monkeypatch.setattr(WordEncoder, "index_words", None)

    assert tokenizer(["cat"], is_split_into_words=True)["input_ids"] == [1]


def test_rust_handles_a_sentence_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = ElmoTokenizer(model_max_length=4)
    monkeypatch.setattr(WordEncoder, "index_words", None)

    assert len(tokenizer(["a", "b", "c"], is_split_into_words=True)["input_ids"]) == 5


def test_sentences_of_several_lengths_need_no_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_encoder_elmo, "prepare_for_rust", None)

    batch = ElmoTokenizer(padding_side="left")([["a"], ["b", "c"]], is_split_into_words=True)

    assert [len(ids) for ids in batch["char_ids"]] == [3, 4]
    assert batch["attention_mask"] == [[1, 1, 1], [1, 1, 1, 1]]
    assert batch.tokens(0) == ["<S>", "a", "</S>"]


def test_a_wrong_padding_side_raises_at_once() -> None:
    with pytest.raises(ValueError, match="center"):
        ElmoTokenizer()([["a"], ["b", "c"]], is_split_into_words=True, padding=True, padding_side="center")


def test_encodings_use_the_settings_at_the_time_of_the_call() -> None:
    tokenizer = ElmoTokenizer(["cat"])
    batch = tokenizer([["cat", "x"], ["cat"]], is_split_into_words=True, padding=True)
    tokenizer.pad_token, tokenizer.padding_side = "cat", "left"
    tokenizer.backend_tokenizer.post_processor = ByteLevel()

    assert batch[1].tokens == ["<S>", "cat", "</S>", "<PAD>"]


def test_encodings_use_the_words_at_the_time_of_the_call() -> None:
    sentences = [["The", "cat"], ["sat"]]
    batch = ElmoTokenizer()(sentences, is_split_into_words=True, padding=True)
    sentences[0][0] = "A"
    sentences[1].append("down")

    sent = pickle.loads(pickle.dumps(batch))  # noqa: S301 - our own

    for one in (batch, sent):
        assert one.tokens(0) == ["<S>", "The", "cat", "</S>"]
        assert one.word_ids(1) == [None, 0, None, None]
    assert "encodings" in batch.__getstate__()


def test_rust_runs_only_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = ElmoTokenizer()([["a"], ["b", "c"]], is_split_into_words=True, padding=True, return_tensors="pt")
    calls = []
    monkeypatch.setattr(word_encoder_elmo, "prepare_for_rust", lambda example: calls.append(example) or example[0])

    assert batch.to("cpu")["input_ids"].dtype == torch.int64
    assert np.asarray(batch["char_ids"]).shape == (2, 4, 50)
    assert not calls
    assert len(batch.encodings) == len(calls) == 2
