"""`model.tokenization_elmo`: a word is a token, with its characters, through padding, truncation and saving."""

import copy
import json
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model.test_characters_elmo import spell, words
from transformers import AutoTokenizer, DataCollatorForTokenClassification, DataCollatorWithPadding, pipeline

from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoTokenizer


# ids 1 to 7
VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "."]
BOS, EOS, UNK = 1, 2, 3


@pytest.fixture(scope="module")
def tokenizer() -> ElmoTokenizer:
    return ElmoTokenizer(VOCABULARY)


def rows(*spelled: str | None, width: int = 50) -> list[list[int]]:
    """Spell words; `None` is padding."""
    return [[0] * width if word is None else spell(word, width) for word in spelled]


# ids, characters, masks


def test_a_batch_of_words_by_hand() -> None:
    tokenizer = ElmoTokenizer(VOCABULARY, max_characters_per_token=6)

    batch = tokenizer([["the", "cat"], ["ä"]], is_split_into_words=True, padding=True, return_tensors="np")

    assert batch["input_ids"].tolist() == [[1, 4, 5, 2], [1, 3, 2, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    begin, end, padding = [259, 257, 260, 261, 261, 261], [259, 258, 260, 261, 261, 261], [0] * 6
    assert batch["char_ids"].tolist() == [
        [begin, [259, 117, 105, 102, 260, 261], [259, 100, 98, 117, 260, 261], end],
        [begin, [259, 196, 165, 260, 261, 261], end, padding],
    ]
    assert {value.dtype for value in batch.values()} == {np.dtype(np.int64)}


def test_raw_text_gives_words_and_offsets(tokenizer: ElmoTokenizer) -> None:
    text = "the  cat sat."

    encoded = tokenizer(text, return_offsets_mapping=True)

    assert encoded["input_ids"] == [BOS, 4, 5, 6, 7, EOS]
    assert encoded["char_ids"] == rows("<S>", "the", "cat", "sat", ".", "</S>")
    assert encoded["offset_mapping"] == [(0, 0), (0, 3), (5, 8), (9, 12), (12, 13), (0, 0)]
    assert encoded.word_ids() == [None, 0, 1, 2, 3, None]


def test_without_a_vocabulary_every_word_is_unknown() -> None:
    assert ElmoTokenizer()("the cat")["input_ids"] == [1, 3, 3, 2]


def test_tokens_are_the_words_themselves(tokenizer: ElmoTokenizer) -> None:
    batch = tokenizer([["Zürich", "", "the"], ["a\ud800"]], is_split_into_words=True, padding=True)

    assert batch.tokens(0) == ["<S>", "Zürich", "", "the", "</S>"]
    assert batch.tokens(1) == ["<S>", "a\ud800", "</S>", "<PAD>", "<PAD>"]
    assert tokenizer.tokenize("Zürich isn't") == ["Zürich", "isn", "'t"]
    assert pickle.loads(pickle.dumps(batch)).tokens(1) == batch.tokens(1)  # noqa: S301 - our own


def test_a_given_word_is_one_token_whatever_it_holds(tokenizer: ElmoTokenizer) -> None:
    sentence = ["Hà Nội", "x.y, z", "<S>", "<PAD>", "", "\n", "x<S>y", "<UNK>", "\0"]

    encoded = tokenizer(sentence, is_split_into_words=True, return_offsets_mapping=True)

    assert encoded["input_ids"] == [BOS, 3, 3, BOS, 3, 3, 3, 3, UNK, 3, EOS]
    assert encoded["char_ids"] == rows("<S>", *sentence, "</S>")
    assert encoded.word_ids() == [None, *range(9), None]
    assert encoded["offset_mapping"] == [(0, 0), *((0, len(word)) for word in sentence), (0, 0)]


def test_special_words_in_raw_text_count_only_where_they_stand_alone(tokenizer: ElmoTokenizer) -> None:
    encoded = tokenizer("<S> x<S>y <PAD> </S>", add_special_tokens=False)

    assert encoded.tokens() == ["<S>", "x", "<", "S", ">", "y", "<PAD>", "</S>"]
    assert encoded["input_ids"] == [BOS, 3, 3, 3, 3, 3, UNK, EOS]
    assert encoded["char_ids"][6] == spell("<PAD>", 50)
    assert encoded["attention_mask"] == [1] * 8


def test_lone_surrogates_keep_the_offsets(tokenizer: ElmoTokenizer) -> None:
    text = "a\ud800b \udfff the."

    encoded = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)

    assert [text[start:end] for start, end in encoded["offset_mapping"]] == ["a\ud800b", "\udfff", "the", "."]
    assert encoded["char_ids"] == rows("ab", "", "the", ".")


@settings(derandomize=True, database=None, max_examples=150, deadline=None)
@given(st.lists(st.lists(words, max_size=5), min_size=1, max_size=4), st.sampled_from(["left", "right"]))
def test_any_words_keep_their_rows(tokenizer: ElmoTokenizer, sentences: list[list[str]], side: str) -> None:
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, padding_side=side, return_tensors="np")

    longest = max(map(len, sentences)) + 2
    ids = {word: line for line, word in enumerate(VOCABULARY, 1)}
    for number, sentence in enumerate(sentences):
        framed: list[str | None] = ["<S>", *sentence, "</S>"]
        padding: list[str | None] = [None] * (longest - len(framed))
        row = framed + padding if side == "right" else padding + framed
        assert batch["char_ids"][number].tolist() == rows(*row)
        assert batch["input_ids"][number].tolist() == [0 if word is None else ids.get(word, UNK) for word in row]
        assert batch["attention_mask"][number].tolist() == [int(word is not None) for word in row]


@settings(derandomize=True, database=None, max_examples=150, deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_any_text_gives_the_words_of_its_offsets(tokenizer: ElmoTokenizer, text: str) -> None:
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)

    cut = [text[start:end] for start, end in encoded["offset_mapping"]]
    assert encoded.tokens() == tokenizer.tokenize(text) == cut
    assert encoded["char_ids"] == rows(*cut)
    assert "".join(cut) == "".join(text.split())


def test_tokenize_does_not_depend_on_the_call_before() -> None:
    tokenizer = ElmoTokenizer(mask_token="<MASK>")
    tokenizer.add_tokens(["New York"])
    text = "in New York, a<MASK> is <S> </S> ."
    words = ["in", "New York", ",", "a", "<MASK>", "is", "<S>", "</S>", "."]

    assert tokenizer.tokenize(text) == words
    assert tokenizer(text, truncation=True, max_length=4, padding="max_length").tokens() != words
    assert tokenizer.tokenize("a") == ["a"]
    assert tokenizer(text, split_special_tokens=True, add_special_tokens=False).tokens() != words
    assert tokenizer.tokenize(text) == words


# shapes of input and output


@pytest.mark.parametrize("kind", ["np", "pt"])
@pytest.mark.parametrize(
    ("text", "options", "shape"),
    [
        pytest.param("the cat", {}, (1, 4), id="one text"),
        pytest.param("", {}, (1, 2), id="empty text"),
        pytest.param("", {"add_special_tokens": False}, (1, 0), id="nothing"),
        pytest.param([], {}, (0, 0), id="empty batch"),
        pytest.param([], {"is_split_into_words": True}, (1, 2), id="empty sentence"),
        pytest.param([[], ["a"]], {"is_split_into_words": True, "padding": True}, (2, 3), id="one of two empty"),
        pytest.param(["a"], {"is_split_into_words": True}, (1, 3), id="one word"),
        pytest.param(["a", "a b"], {"padding": True, "pad_to_multiple_of": 8}, (2, 8), id="multiple"),
        pytest.param(["a", "a b"], {"padding": "max_length", "max_length": 6}, (2, 6), id="length"),
    ],
)
def test_shapes(
    tokenizer: ElmoTokenizer, text: Any, options: dict[str, Any], shape: tuple[int, int], kind: str
) -> None:
    batch = tokenizer(text, return_tensors=kind, **options)

    assert {key: tuple(value.shape) for key, value in batch.items()} == {
        "input_ids": shape,
        "attention_mask": shape,
        "char_ids": (*shape, 50),
    }
    assert {str(value.dtype).removeprefix("torch.") for value in batch.values()} == {"int64"}


def test_sentences_of_several_lengths_are_arrays_of_their_own(tokenizer: ElmoTokenizer) -> None:
    batch = tokenizer(["a", "a b"], return_tensors="np")

    assert [row.shape for row in batch["char_ids"]] == [(3, 50), (4, 50)]
    with pytest.raises(ValueError, match="padding=True"):
        tokenizer(["a", "a b"], return_tensors="pt")


def test_keys_can_be_left_out_and_added(tokenizer: ElmoTokenizer) -> None:
    encoded = tokenizer(
        "the cat",
        return_attention_mask=False,
        return_char_ids=False,
        return_special_tokens_mask=True,
        return_length=True,
    )

    assert dict(encoded) == {"input_ids": [1, 4, 5, 2], "special_tokens_mask": [1, 0, 0, 1], "length": [4]}


@pytest.mark.parametrize(
    ("first", "second", "options"),
    [
        pytest.param("the cat", "sat", {}, id="texts"),
        pytest.param(["the cat"], ["sat"], {}, id="batch"),
        pytest.param([("the cat", "sat")], None, {}, id="batch of pairs"),
        pytest.param(["the", "cat"], ["sat"], {"is_split_into_words": True}, id="words"),
        pytest.param([(["the", "cat"], ["sat"])], None, {"is_split_into_words": True}, id="batch of pairs of words"),
    ],
)
def test_pairs(tokenizer: ElmoTokenizer, first: Any, second: Any, options: dict[str, Any]) -> None:
    batch = tokenizer(first, second, return_token_type_ids=True, return_tensors="np", **options)

    assert batch["input_ids"].tolist() == [[1, 4, 5, 2, 1, 6, 2]]
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 1]]
    assert batch["char_ids"][0].tolist() == rows("<S>", "the", "cat", "</S>", "<S>", "sat", "</S>")


@pytest.mark.parametrize("strategy", ["longest_first", "only_second"])
def test_truncation_of_pairs(tokenizer: ElmoTokenizer, strategy: str) -> None:
    encoded = tokenizer("a b", "c d e f", truncation=strategy, max_length=8)

    assert encoded.tokens() == ["<S>", "a", "b", "</S>", "<S>", "c", "d", "</S>"]
    assert encoded["char_ids"] == rows(*encoded.tokens())


@pytest.mark.parametrize("is_split_into_words", [True, False])
def test_overflow_keeps_words_and_characters_together(tokenizer: ElmoTokenizer, is_split_into_words: bool) -> None:
    sentences = ["a b c d e", "f"]

    batch = tokenizer(
        [sentence.split() for sentence in sentences] if is_split_into_words else sentences,
        is_split_into_words=is_split_into_words,
        truncation=True,
        max_length=5,
        stride=1,
        return_overflowing_tokens=True,
        padding=True,
        return_tensors="np",
    )

    expected = [["<S>", "a", "b", "c", "</S>"], ["<S>", "c", "d", "e", "</S>"], ["<S>", "f", "</S>", None, None]]
    assert batch["overflow_to_sample_mapping"].tolist() == [0, 0, 1]
    assert batch["char_ids"].tolist() == [rows(*row) for row in expected]
    assert batch.word_ids(1) == [None, 2, 3, 4, None]


def test_truncation_on_the_left() -> None:
    tokenizer = ElmoTokenizer(truncation_side="left")

    assert tokenizer("a b c", truncation=True, max_length=4).tokens() == ["<S>", "b", "c", "</S>"]


@pytest.mark.parametrize("padding", [False, True, "max_length"])
@pytest.mark.parametrize("is_split_into_words", [True, False])
def test_a_huge_maximum_is_none(tokenizer: ElmoTokenizer, is_split_into_words: bool, padding: bool | str) -> None:
    text = ["a", "b"] if is_split_into_words else "a b"
    options = {"is_split_into_words": is_split_into_words, "padding": padding, "truncation": True}

    encoded = tokenizer(text, max_length=tokenizer.model_max_length, **options)

    assert encoded.tokens() == ["<S>", "a", "b", "</S>"]
    assert tokenizer.pad(encoded, padding="max_length", max_length=2**64)["input_ids"] == encoded["input_ids"]


@pytest.mark.parametrize("is_split_into_words", [True, False])
def test_a_maximum_counts_down_to_the_boundary_tokens(tokenizer: ElmoTokenizer, is_split_into_words: bool) -> None:
    first, second = (["a", "b"], ["c"]) if is_split_into_words else ("a b", "c")
    options = {"is_split_into_words": is_split_into_words, "truncation": True}

    def tokens(*texts: Any, **more: Any) -> list[str]:
        return tokenizer(*texts, **options, **more).tokens()

    assert tokens(first, max_length=3) == ["<S>", "a", "</S>"]
    assert tokens(first, max_length=2) == ["<S>", "</S>"]
    assert tokens(first, second, max_length=4) == ["<S>", "</S>"] * 2
    assert tokens(first, max_length=1, add_special_tokens=False) == ["a"]
    assert tokens(first, max_length=0, add_special_tokens=False) == []


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a b"], {"max_length": 1}, r"max_length is 1, but there are 2 boundary tokens: give 2 or more\."),
        (["a b"], {"max_length": 0}, r"max_length is 0, but there are 2 boundary tokens"),
        (["a b"], {"max_length": -1, "add_special_tokens": False}, r"max_length is -1, but there are 0 boundary"),
        (["a b", "c"], {"max_length": 3}, r"max_length is 3, but there are 4 boundary tokens"),
        (
            ["a b"],
            {"max_length": 3, "stride": 1},
            r"stride is 1, but max_length 3 leaves 1 for words: give a smaller",
        ),
        (
            ["a b c"],
            {"max_length": 2, "return_overflowing_tokens": True},
            r"max_length is 2, which the boundary tokens take: with return_overflowing_tokens, give 3 or more",
        ),
        (["a b"], {"max_length": 3, "stride": 9}, r"stride is 9, but max_length 3 leaves 1 for words"),
        (["a b"], {"max_length": 9, "stride": -1}, r"stride is -1, but max_length 9"),
        (["a b c", "d e f"], {"max_length": 8, "stride": 2}, r"'longest_first' to max_length 8 with stride 2 fails"),
        (
            ["a b c", "d e f"],
            {"max_length": 9, "stride": 2, "truncation": "only_second"},
            r"'only_second' to max_length 9 with stride 2 fails \(.*\): give another max_length",
        ),
        (
            ["a b c", "d"],
            {"max_length": 6, "truncation": "only_second"},
            r"'only_second' to max_length 6 with stride 0",
        ),
        (["a b c"], {"max_length": 4, "truncation": "only_second"}, r"'only_second' to max_length 4 with stride 0"),
    ],
)
@pytest.mark.parametrize("is_split_into_words", [True, False])
def test_a_truncation_without_room_is_refused(
    tokenizer: ElmoTokenizer, texts: list[str], options: dict[str, Any], message: str, is_split_into_words: bool
) -> None:
    given = [text.split() for text in texts] if is_split_into_words else texts

    with pytest.raises(ValueError, match=message):
        tokenizer(*given, **{"is_split_into_words": is_split_into_words, "truncation": True, **options})


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (["a", None], {}, "sentence 1 is a NoneType: give a str"),
        ([["a", 1.5]], {"is_split_into_words": True}, r"sentence 0: word 1 is 1\.5, a float"),
        ([["a"], [b"b"]], {"is_split_into_words": True}, "sentence 1: word 0 is b'b', a bytes"),
        ([["a"], "b"], {"is_split_into_words": True}, "sentence 1 is a str: with is_split_into_words=True"),
        ([["a", "b", "c"]], {}, "sentence 0 is a list: give is_split_into_words=True"),
    ],
)
def test_what_is_no_word_is_named(tokenizer: ElmoTokenizer, text: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tokenizer(text, **options)


def test_words_to_char_ids(tokenizer: ElmoTokenizer) -> None:
    assert tokenizer.words_to_char_ids(("the", "")).tolist() == rows("the", "")
    assert tokenizer.words_to_char_ids([]).shape == (0, 50)
    with pytest.raises(TypeError, match="takes a list of words, got str 'the'"):
        tokenizer.words_to_char_ids("the")
    with pytest.raises(TypeError, match="words: word 0 is None"):
        tokenizer.words_to_char_ids([None])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_characters_per_token": 2}, "max_characters_per_token is 2; a word needs 3"),
        ({"max_characters_per_token": "50"}, "max_characters_per_token is '50'; give an int"),
        ({"pre_tokenizer": "spacy"}, "pre_tokenizer is 'spacy'; it can be one of"),
    ],
)
def test_options_out_of_range_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ElmoTokenizer(**options)


# padding of what is encoded already


def as_kind(encoded: Any, kind: str) -> dict[str, Any]:
    make: dict[str, Callable[[Any], Any]] = {"lists": list, "np": np.array, "pt": torch.tensor}
    return {key: make[kind](value) for key, value in encoded.items()}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", ["lists", "np", "pt"])
@pytest.mark.parametrize("asked", [None, "np", "pt"])
def test_pad_gives_what_a_call_gives(tokenizer: ElmoTokenizer, kind: str, asked: str | None, side: str) -> None:
    texts, options = ["the cat sat", "", "x"], {"padding": True, "pad_to_multiple_of": 4, "padding_side": side}
    examples = [as_kind(tokenizer(text), kind) for text in texts]

    padded = tokenizer.pad(examples, return_tensors=asked, **options)

    expected = tokenizer(texts, return_tensors="np", **options)
    kinds = {"lists": list, "np": np.ndarray, "pt": torch.Tensor}
    for key, value in expected.items():
        assert isinstance(padded[key], kinds[asked or kind])
        np.testing.assert_array_equal(np.asarray(padded[key]), value)


@pytest.mark.parametrize("kind", ["lists", "np", "pt"])
def test_pad_takes_one_example(tokenizer: ElmoTokenizer, kind: str) -> None:
    padded = tokenizer.pad(as_kind(tokenizer("the"), kind), padding="max_length", max_length=5, padding_side="left")

    assert np.asarray(padded["input_ids"]).tolist() == [0, 0, 1, 4, 2]
    assert np.asarray(padded["char_ids"]).tolist() == rows(None, None, "<S>", "the", "</S>")


def test_pad_leaves_its_input_alone_and_takes_a_mapping(tokenizer: ElmoTokenizer) -> None:
    encoded = tokenizer(["the", "the cat"])
    before = copy.deepcopy(dict(encoded))

    padded = tokenizer.pad(encoded, return_tensors="np")

    assert dict(encoded) == before
    assert padded["char_ids"].tolist() == [rows("<S>", "the", "</S>", None), rows("<S>", "the", "cat", "</S>")]


def test_pad_names_characters_of_another_width(tokenizer: ElmoTokenizer) -> None:
    narrow = ElmoTokenizer(max_characters_per_token=10)("the")

    with pytest.raises(ValueError, match=r"char_ids of sentence 0 are \[3, 10\]; .* need \[3, 50\]"):
        tokenizer.pad([narrow])


@pytest.mark.parametrize("side", ["left", "right"])
def test_labels_stay_with_their_words(side: str) -> None:
    tokenizer = ElmoTokenizer(VOCABULARY, padding_side=side)
    features = []
    for sentence in (["the", "Hà Nội", ""], ["cat"]):
        encoded = dict(tokenizer(sentence, is_split_into_words=True))
        word_ids = tokenizer(sentence, is_split_into_words=True).word_ids()
        features.append({**encoded, "labels": [-100 if word is None else 10 + word for word in word_ids]})

    batch = DataCollatorForTokenClassification(tokenizer)(features)

    second = [-100, 10, -100, -100, -100] if side == "right" else [-100, -100, -100, 10, -100]
    assert batch["labels"].tolist() == [[-100, 10, 11, 12, -100], second]
    assert batch["char_ids"][1][second.index(10)].tolist() == spell("cat", 50)


def test_collator_with_padding(tokenizer: ElmoTokenizer) -> None:
    batch = DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8)([tokenizer("the cat"), tokenizer("x")])

    assert batch["char_ids"].shape == (2, 8, 50)


# back to words


@pytest.mark.parametrize("convert", [np.array, np.ndarray.tolist, torch.from_numpy])
def test_decode_word_and_character_ids(tokenizer: ElmoTokenizer, convert: Callable[[np.ndarray], Any]) -> None:
    batch = tokenizer([["the", "Zürich"], ["<PAD>"]], is_split_into_words=True, padding=True, return_tensors="np")
    ids, characters = convert(batch["input_ids"]), convert(batch["char_ids"])

    assert tokenizer.batch_decode(ids) == ["<S> the <UNK> </S>", "<S> <UNK> </S> <PAD>"]
    assert tokenizer.decode(ids[0], skip_special_tokens=True) == "the"
    assert tokenizer.batch_decode(characters) == ["<S> the Zürich </S>", "<S> <PAD> </S> <PAD>"]
    assert tokenizer.decode(characters, skip_special_tokens=True) == ["the Zürich", "<PAD>"]
    assert tokenizer.decode(characters[0]) == "<S> the Zürich </S>"


def test_decode_odd_ids(tokenizer: ElmoTokenizer) -> None:
    assert tokenizer.decode(5) == "cat"
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode([[4], [5, 6]]) == ["the", "cat sat"]
    assert tokenizer.decode([[], rows("a")]) == ["", "a"]
    assert tokenizer.decode(np.zeros((1, 50), dtype=int)) == [" ".join(["<PAD>"] * 50)]
    with pytest.raises(ValueError, match="no character ids: a row is not framed"):
        tokenizer.decode([[[4] * 50]])


# saving, copying, threads, pipelines


def pickled(tokenizer: ElmoTokenizer) -> ElmoTokenizer:
    return pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 - our own


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_copies_encode_alike(copied: Callable[[ElmoTokenizer], ElmoTokenizer]) -> None:
    tokenizer = ElmoTokenizer(VOCABULARY, 12, "whitespace", padding_side="left")
    options = {"padding": "max_length", "max_length": 9}

    assert dict(copied(tokenizer)("the cat. x", **options)) == dict(tokenizer("the cat. x", **options))


def test_saved_and_loaded_again(tmp_path: Path) -> None:
    tokenizer = ElmoTokenizer(VOCABULARY, 12, "whitespace", model_max_length=7)
    # settings of one call are none of the tokenizer
    tokenizer("a b", padding="max_length", max_length=5, truncation=True)
    tokenizer.save_pretrained(tmp_path)

    loaded = AutoTokenizer.from_pretrained(tmp_path)

    assert dict(loaded("the cat. <S>")) == dict(tokenizer("the cat. <S>"))
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert (loaded.max_characters_per_token, loaded.pre_tokenizer, loaded.model_max_length) == (12, "whitespace", 7)
    assert "sat" not in (tmp_path / "tokenizer_config.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(("option", "words"), [({}, ["a", "b", "."]), ({"pre_tokenizer": "whitespace"}, ["a.b", "."])])
def test_a_checkpoint_keeps_its_own_cut_unless_another_is_asked_for(
    option: dict[str, str], words: list[str], tmp_path: Path
) -> None:
    ElmoTokenizer().save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    # as another version of this package may cut
    saved["pre_tokenizer"]["pattern"]["Regex"] = r"(?#moses)[a-z]|\.(?=$)"
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved), encoding="utf-8")

    assert ElmoTokenizer.from_pretrained(tmp_path, **option).tokenize("a.b .") == words


def test_options_of_from_pretrained_win(tmp_path: Path) -> None:
    ElmoTokenizer(VOCABULARY).save_pretrained(tmp_path)

    loaded = ElmoTokenizer.from_pretrained(tmp_path, pre_tokenizer="whitespace", max_characters_per_token=9)

    assert loaded("cat.").tokens() == ["<S>", "cat.", "</S>"]
    assert np.array(loaded("cat.")["char_ids"]).shape == (3, 9)


def test_a_folder_without_a_vocabulary_is_named(tmp_path: Path) -> None:
    ElmoTokenizer(VOCABULARY).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").unlink()

    with pytest.raises(ValueError, match=r"has no tokenizer\.json"):
        ElmoTokenizer.from_pretrained(tmp_path)


def test_boundaries_can_be_left_out_for_good(tmp_path: Path) -> None:
    ElmoTokenizer(VOCABULARY, add_bos_token=False).save_pretrained(tmp_path)

    loaded = ElmoTokenizer.from_pretrained(tmp_path)

    assert loaded("cat").tokens() == ["cat", "</S>"]
    assert (loaded.add_bos_token, loaded.add_eos_token) == (False, True)


def test_the_vocabulary_can_be_written_for_bilm_tf(tmp_path: Path) -> None:
    (path,) = ElmoTokenizer(VOCABULARY).save_vocabulary(str(tmp_path))

    assert Path(path).read_text(encoding="utf-8").split("\n") == [*VOCABULARY, ""]


def test_a_vocabulary_can_be_learnt(tokenizer: ElmoTokenizer) -> None:
    learnt = tokenizer.train_new_from_iterator(["The dog, the dog.", "the dog's"], vocab_size=6)

    assert learnt.get_vocab() == {"<PAD>": 0, "<S>": 1, "</S>": 2, "<UNK>": 3, "dog": 4, "the": 5}
    assert learnt("the dogs")["input_ids"] == [1, 5, 3, 2]


def test_added_words_are_found_in_text_but_not_inside_given_words() -> None:
    tokenizer = ElmoTokenizer(VOCABULARY)
    tokenizer.add_tokens(["New York"])

    assert tokenizer("the New York cat")["input_ids"] == [1, 4, 8, 5, 2]
    assert tokenizer(["New York", "New Yorker"], is_split_into_words=True)["input_ids"] == [1, 8, 3, 2]


MASK_IDS = {"behind the words": (VOCABULARY, 8), "a word": ([*VOCABULARY, "<MASK>", "dog"], 8)}


def loaded(tokenizer: ElmoTokenizer, folder: Path) -> ElmoTokenizer:
    tokenizer.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    "after", [lambda one, _: one, lambda one, _: pickled(one), loaded], ids=["", "pickled", "saved"]
)
@pytest.mark.parametrize(("vocabulary", "number"), MASK_IDS.values(), ids=MASK_IDS)
def test_a_mask_is_one_word(vocabulary: list[str], number: int, after: Callable, tmp_path: Path) -> None:
    tokenizer = after(ElmoTokenizer(vocabulary, mask_token="<MASK>"), tmp_path)

    assert (tokenizer.mask_token, tokenizer.mask_token_id) == ("<MASK>", number)
    # what a model has rows for: the mask is not among it, unless it is a word
    assert tokenizer.vocab_size == len(vocabulary) + 1
    batch = tokenizer(["the <MASK>.", "<MASK>"], padding=True)
    assert batch["input_ids"] == [[1, 4, number, 7, 2], [1, number, 2, 0, 0]]
    assert batch["char_ids"] == [rows("<S>", "the", "<MASK>", ".", "</S>"), rows("<S>", "<MASK>", "</S>", None, None)]
    assert batch.tokens(0) == ["<S>", "the", "<MASK>", ".", "</S>"]
    words = tokenizer(["the", "<MASK>", "."], is_split_into_words=True, truncation=True, max_length=4)
    assert words["input_ids"] == [1, 4, number, 2]
    assert words["char_ids"] == rows("<S>", "the", "<MASK>", "</S>")
    assert tokenizer.decode([4, number, 7]) == "the <MASK> ."


def test_a_saved_tokenizer_can_be_given_a_mask(tmp_path: Path) -> None:
    ElmoTokenizer(VOCABULARY).save_pretrained(tmp_path)

    tokenizer = AutoTokenizer.from_pretrained(tmp_path, mask_token="<MASK>")

    assert tokenizer("the <MASK>.")["input_ids"] == [1, 4, 8, 7, 2]
    assert (tokenizer.vocab_size, len(tokenizer)) == (8, 9)


def test_by_default_there_is_no_mask(tokenizer: ElmoTokenizer) -> None:
    assert (tokenizer.mask_token, tokenizer.mask_token_id) == (None, None)
    assert tokenizer("<MASK>").tokens() == ["<S>", "<", "MASK", ">", "</S>"]


@pytest.mark.parametrize(("vocabulary", "_"), MASK_IDS.values(), ids=MASK_IDS)
def test_a_mask_behind_the_words_is_no_line_for_bilm_tf(vocabulary: list[str], _: int, tmp_path: Path) -> None:
    (path,) = ElmoTokenizer(vocabulary, mask_token="<MASK>").save_vocabulary(str(tmp_path))

    assert Path(path).read_text(encoding="utf-8").split("\n") == [*vocabulary, ""]


def test_threads_do_not_change_each_others_settings(tokenizer: ElmoTokenizer) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: tokenizer([["a b", ""], ["c.d"]], is_split_into_words=True, padding=True),
        lambda: tokenizer(["a. b", "c"], padding="max_length", max_length=9, padding_side="left"),
        lambda: tokenizer("a b c d", truncation=True, max_length=4),
        lambda: tokenizer("a b"),
    ]
    expected, wrong = [dict(call()) for call in calls], []

    def work(start: int) -> None:
        turns = range(start, start + 100)
        wrong.extend(turn for turn in turns if dict(calls[turn % 4]()) != expected[turn % 4])

    threads = [threading.Thread(target=work, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
def test_the_pipeline_takes_known_words_for_words(tokenizer: ElmoTokenizer, strategy: str) -> None:
    config = ElmoConfig(
        vocab_size=len(tokenizer),
        hidden_size=4,
        intermediate_size=4,
        char_embedding_dim=2,
        char_filters=[[1, 3]],
        num_labels=5,
    )
    model = ElmoForTokenClassification(config).eval()
    # every word gets another label, so that none are joined
    model.forward = lambda **inputs: {"logits": torch.eye(5)[torch.arange(inputs["input_ids"].shape[1]) % 5][None]}
    tag = pipeline(
        "token-classification", model=model, tokenizer=tokenizer, aggregation_strategy=strategy, ignore_labels=[]
    )

    found = [(entity["word"], entity["start"], entity["end"]) for entity in tag("the (cat) sat.")]

    assert found == [("the", 0, 3), ("(", 4, 5), ("cat", 5, 8), (")", 8, 9), ("sat", 10, 13), (".", 13, 14)]
