"""`embedding.lazy_model`: a model that is loaded when it is used, and whose weights are never copied."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from elmo_hf import ElmoError
from elmo_hf.embedding.lazy_model import LazyModel
from elmo_hf.embedding.loading import load
from support.cli_runs import vectors_of


SENTENCES = [["The", "bank"], [], ["It", "rained", "."]]


def test_gives_each_word_its_vector(bilm_model: Path) -> None:
    model = LazyModel(bilm_model)

    first, second, third = model.embed(SENTENCES)

    np.testing.assert_allclose(first, vectors_of(bilm_model, SENTENCES[0]), atol=1e-5)
    np.testing.assert_allclose(third, vectors_of(bilm_model, SENTENCES[2]), atol=1e-5)
    assert second.shape == (0, model.width) == (0, 8)


def test_a_loaded_model_is_not_loaded_again(bilm_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = next(LazyModel(bilm_model).embed(SENTENCES))
    loaded = load(bilm_model)
    monkeypatch.setattr("elmo_hf.embedding.lazy_model.load", None)

    first = next(LazyModel(bilm_model, loaded=loaded).embed(SENTENCES))

    np.testing.assert_array_equal(first, expected)


def test_all_layers_are_concatenated(bilm_model: Path) -> None:
    model = LazyModel(bilm_model, layers="all")
    each = [next(LazyModel(bilm_model, layers=layer).embed(SENTENCES)) for layer in range(3)]

    first, second, _ = model.embed(SENTENCES)

    np.testing.assert_allclose(first, np.concatenate(each, axis=1), atol=1e-6)
    assert second.shape == (0, model.width) == (0, 24)


def test_is_pickled_without_its_weights(bilm_model: Path) -> None:
    model = LazyModel(bilm_model, layers="top", batch_size=2)
    expected = next(model.embed(SENTENCES))

    pickled = pickle.dumps(model)

    assert len(pickled) < 1000
    np.testing.assert_array_equal(next(pickle.loads(pickled).embed(SENTENCES)), expected)  # noqa: S301 - our own


@pytest.mark.parametrize(
    ("name", "layer", "message"),
    [("absent", "mix", "absent is not a model folder"), ("elmo-small-en", 3, "There is no layer '3'")],
)
def test_what_is_not_there_is_named_at_once(name: str, layer: int, message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        LazyModel(name, layers=layer)
