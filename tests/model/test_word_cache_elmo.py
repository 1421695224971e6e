"""`ElmoModel.cache_words`: the same bits as without, and never those of weights that have changed."""

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from elmo_hf import ElmoModel
from support.tiny_models import batch, tensors, tiny_model


BATCHES = [batch([5, 3]), batch([7, 7, 1]), batch([5, 3]), batch([9, 2, 4])]


def vectors(model: ElmoModel) -> list[torch.Tensor]:
    with torch.no_grad():
        return [part for one in BATCHES for part in tensors(model(**one))]


def same(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many words were encoded in each call."""
    counts: list[int] = []
    encode = ElmoModel(tiny_model().config).token_encoder.__class__.encode_all

    def counting(self: object, distinct: torch.Tensor) -> torch.Tensor:
        counts.append(len(distinct))
        return encode(self, distinct)

    monkeypatch.setattr("elmo_hf.model.token_encoder_elmo.ElmoTokenEncoder.encode_all", counting)
    return counts


@pytest.mark.parametrize("capacity", [1, 4, 9, 12, 1000])
@pytest.mark.parametrize("fields", [{}, {"char_embedding_dim": 0, "word_embedding_dim": 8, "char_filters": []}])
def test_the_bits_are_those_without(capacity: int, fields: dict) -> None:
    model = tiny_model(**fields)
    wanted = vectors(model)
    model.cache_words(capacity)

    assert same(vectors(model), wanted)
    assert same(vectors(model), wanted)
    model.cache_words(0)
    assert model.token_encoder.cache is None


def test_known_words_are_not_encoded_again(encoded: list[int]) -> None:
    model = tiny_model()
    model.cache_words(1000)
    vectors(model)
    encoded.clear()

    vectors(model)

    assert encoded == []


def step(model: ElmoModel) -> None:
    optimizer = torch.optim.SGD(model.token_encoder.parameters(), lr=0.5)
    model(**BATCHES[0]).last_hidden_state.sum().backward()
    optimizer.step()


def load(model: ElmoModel) -> None:
    model.load_state_dict({name: 2 * weight for name, weight in model.state_dict().items()})


def replace(model: ElmoModel) -> None:
    model.token_encoder.projection.weight.data = 2 * model.token_encoder.projection.weight.data


def widen(model: ElmoModel) -> None:
    model.double()


@pytest.mark.parametrize("change", [step, load, replace, widen])
def test_weights_that_change_make_it_start_anew(change: Callable) -> None:
    model = tiny_model()
    model.cache_words(1000)
    vectors(model)

    change(model)

    found = vectors(model)
    model.cache_words(0)
    assert same(found, vectors(model))


def test_inference_mode_and_mixed_precision_keep_apart() -> None:
    model = tiny_model()
    wanted = vectors(model)
    model.cache_words(1000)

    with torch.inference_mode():
        assert same(tensors(model(**BATCHES[0])), wanted[: len(tensors(model(**BATCHES[0])))])
    with torch.autocast("cpu", torch.bfloat16):
        vectors(model)
    assert same(vectors(model), wanted)


def test_a_model_made_in_inference_mode_is_not_remembered(encoded: list[int]) -> None:
    with torch.inference_mode():
        model = tiny_model()
        model.cache_words(1000)
        vectors(model)
        vectors(model)

    assert len(encoded) == 2 * len(BATCHES)


def test_gradients_flow_as_without() -> None:
    model = tiny_model()
    model.cache_words(1000)
    vectors(model)

    step(model)

    assert all(weight.grad is not None for weight in model.token_encoder.parameters())


def test_copies_are_empty_and_threads_share() -> None:
    model = tiny_model()
    wanted = vectors(model)
    model.cache_words(9)
    vectors(model)

    sent = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own
    for twin in (copy.deepcopy(model), sent):
        assert twin.token_encoder.cache.capacity == 9
        assert not twin.token_encoder.cache.places
    with ThreadPoolExecutor(4) as threads:
        assert all(same(found, wanted) for found in threads.map(lambda _: vectors(model), range(16)))


def test_a_wrong_capacity_is_named() -> None:
    with pytest.raises(ValueError, match="`capacity` is -1"):
        tiny_model().cache_words(-1)
