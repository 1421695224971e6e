"""`embedding.vectors` computes the right vectors in the right order, however sentences are batched."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from elmo_hf.embedding import Sentence, embed, parse_layer
from elmo_hf.errors import ElmoError
from support.sentence_vectors import TOLERANCE, Loaded, alone


SENTENCES = [["The", "bank"], [], ["a", "b", "c", "d", "e"], ["The", "bank"], [""], ["a / b"], ["日本語"] * 3]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 32])
def test_each_sentence_has_its_own_vectors_in_the_given_order(batch_size: int, loaded: Loaded) -> None:
    vectors = list(embed(*loaded, SENTENCES, batch_size=batch_size))

    assert [array.shape for array in vectors] == [(len(words), 8) for words in SENTENCES]
    for array, words in zip(vectors, SENTENCES, strict=True):
        np.testing.assert_allclose(array, alone(loaded, words)[0], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("layer", "index"), [("top", 2), (0, 0), (1, 1), ("2", 2)])
def test_a_layer_is_that_of_the_model(layer: str | int, index: int, loaded: Loaded) -> None:
    (array,) = embed(*loaded, [["The", "bank"]], layers=layer)

    np.testing.assert_array_equal(array, alone(loaded, ["The", "bank"])[1][index])


def test_all_layers_come_as_one_array(loaded: Loaded) -> None:
    vectors = list(embed(*loaded, SENTENCES, layers="all"))

    assert [array.shape for array in vectors] == [(3, len(words), 8) for words in SENTENCES]
    np.testing.assert_allclose(vectors[2], alone(loaded, SENTENCES[2])[1], rtol=0, atol=TOLERANCE)


def test_layers_are_summed(loaded: Loaded) -> None:
    summed = list(embed(*loaded, SENTENCES, layers="sum"))

    for array, layers in zip(summed, embed(*loaded, SENTENCES, layers="all"), strict=True):
        np.testing.assert_allclose(array, layers.sum(axis=0), rtol=0, atol=1e-6)
        assert array.dtype == np.float32


def test_raw_text_is_split_by_the_tokenizer(loaded: Loaded) -> None:
    (raw,) = embed(*loaded, ["The EU-wide bank."])
    (split,) = embed(*loaded, [["The", "EU-wide", "bank", "."]])

    np.testing.assert_array_equal(raw, split)


def test_a_sentence_is_embedded_by_its_words(loaded: Loaded) -> None:
    (given,) = embed(*loaded, [Sentence("The bank.", ["The", "bank."])])
    (split,) = embed(*loaded, [["The", "bank."]])

    np.testing.assert_array_equal(given, split)


def test_a_tokenizer_may_pad_on_the_left(loaded: Loaded) -> None:
    model, tokenizer = loaded
    left = AutoTokenizer.from_pretrained(tokenizer.name_or_path, padding_side="left")

    for array, words in zip(embed(model, left, SENTENCES), SENTENCES, strict=True):
        np.testing.assert_allclose(array, alone(loaded, words)[0], rtol=0, atol=TOLERANCE)


def test_a_generator_is_read_as_far_as_needed(loaded: Loaded) -> None:
    read = 0

    def endless() -> Iterator[list[str]]:
        nonlocal read
        for read in itertools.count(1):  # noqa: B007 - counts what is taken
            yield ["The", "bank"]

    list(itertools.islice(embed(*loaded, endless(), batch_size=2), 100))

    assert read < 200


def test_no_sentences_give_no_vectors(loaded: Loaded) -> None:
    assert list(embed(*loaded, [])) == []


def test_vectors_need_no_gradient_and_are_float32(loaded: Loaded) -> None:
    model = AutoModel.from_pretrained(loaded[0].name_or_path, dtype=torch.bfloat16)

    (array,) = embed(model, loaded[1], [["The"]])

    assert array.dtype == np.float32


def test_a_model_in_training_mode_is_refused(loaded: Loaded) -> None:
    model = AutoModel.from_pretrained(loaded[0].name_or_path).train()

    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        next(embed(model, loaded[1], [["The"]]))


@pytest.mark.parametrize("layer", ["3", -1, "best", "", "1.0"])
def test_a_layer_that_is_not_there_is_named(layer: str | int) -> None:
    with pytest.raises(ElmoError, match=r"no layer .* from 0 to 2"):
        parse_layer(layer, 2)


def test_batches_of_nothing_are_refused(loaded: Loaded) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        next(embed(*loaded, [["The"]], batch_size=0))


def test_one_text_is_no_list_of_texts(loaded: Loaded) -> None:
    with pytest.raises(ElmoError, match="put it in a list"):
        next(embed(*loaded, "The bank"))


def test_long_sentences_come_in_smaller_batches(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    monkeypatch.setattr(loaded[0], "forward", spy_on(loaded[0].forward, shapes))

    vectors = list(embed(*loaded, [["w"] * 300, *[["w"] * 30] * 8], batch_size=4))

    # at most 4 * 128 words, padding included
    assert shapes == [(1, 302), (4, 32), (4, 32)]
    assert [len(array) for array in vectors] == [300, *[30] * 8]


def spy_on(forward: Callable[..., object], shapes: list[tuple[int, ...]]) -> Callable[..., object]:
    """Note the shape of what a model is given."""

    def noting(**batch: torch.Tensor) -> object:
        shapes.append(tuple(batch["input_ids"].shape))
        return forward(**batch)

    return noting


def test_too_little_memory_is_named(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")

    monkeypatch.setattr(loaded[0], "forward", fail)

    with pytest.raises(ElmoError, match=r"not enough memory for a sentence of 2 words: compute it where"):
        next(embed(*loaded, [["a", "b"]]))
