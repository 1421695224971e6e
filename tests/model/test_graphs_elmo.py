"""`model.graphs_elmo`, by Triton's interpreter: what a graph would launch is run step by step."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import MagicMock

import pytest
import torch
from torch import nn

from elmo_hf.model import graphs_elmo
from elmo_hf.model.graphs_elmo import Chunks, graph_steps
from elmo_hf.model.recurrence_elmo import LstmWeights, reference_recurrence, triton_recurrence
from support.random_layers import gradients, random_layer, single


pytestmark = pytest.mark.usefixtures("interpreter")


@pytest.fixture(autouse=True)
def chunks(monkeypatch: pytest.MonkeyPatch) -> Chunks:
    """No graphs yet, of few sentences and steps."""
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "graphs")
    monkeypatch.setattr(graphs_elmo, "STEPS", 2)
    monkeypatch.setattr(graphs_elmo, "FEWEST_SENTENCES", 2)
    monkeypatch.setattr(graphs_elmo, "MOST_SENTENCES", 4)
    monkeypatch.setattr(graphs_elmo, "CHUNKS", Chunks())
    return graphs_elmo.CHUNKS


def lasting(layer: tuple) -> tuple:
    """The same layer in float32, with parameters, as a model's are."""
    inputs, steps, state, weights = single(layer)
    matrices = [None if matrix is None else nn.Parameter(matrix) for matrix in weights[:2]]
    return inputs, steps, state, LstmWeights(*matrices, *weights[2:])


def assert_agrees(found: tuple, layer: tuple) -> None:
    (fast, fast_state), (slow, slow_state) = found, reference_recurrence(*layer)
    torch.testing.assert_close(fast.double(), slow.detach(), atol=2e-6, rtol=1e-5)
    for one, other in zip(fast_state, slow_state, strict=True):
        torch.testing.assert_close(one.double(), other.detach(), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("projected", [True, False])
def test_one_graph_serves_sentences_of_all_lengths(projected: bool, chunks: Chunks) -> None:
    weights = lasting(random_layer([1], projected=projected))[3]

    # full, fewer after more, sentences without words, shorter and longer than a graph
    for lengths in ([3, 1], [1, 0], [0, 5, 0, 2, 0, 1]):
        inputs, steps, state, _ = random_layer(lengths, projected=projected)
        layer = single((inputs, steps, state, weights))[:3]
        with torch.no_grad():
            found = triton_recurrence(*layer, weights)
        exact = LstmWeights(*(None if part is None else part.double() for part in weights[:2]), *weights[2:])
        assert_agrees(found, (inputs, steps, state, exact))

    # for 2 and for 4 sentences
    assert len(chunks.made) == 2


def test_weights_may_change_where_they_are(chunks: Chunks) -> None:
    layer = random_layer([3, 2])
    inputs, steps, state, weights = lasting(layer)

    with torch.no_grad():
        triton_recurrence(inputs, steps, state, weights)
        weights.recurrent.mul_(-0.5)
        found = triton_recurrence(inputs, steps, state, weights)

    changed = layer[3]._replace(recurrent=layer[3].recurrent * -0.5)
    assert_agrees(found, (*layer[:3], changed))
    assert len(chunks.made) == 1


def test_what_was_made_in_inference_mode_serves_outside(chunks: Chunks) -> None:
    layer = random_layer([3, 2])
    given = lasting(layer)

    with torch.inference_mode():
        triton_recurrence(*given)
    with torch.no_grad():
        found = triton_recurrence(*given)

    assert_agrees(found, layer)
    assert len(chunks.made) == 1


def test_the_graph_unused_for_longest_goes(monkeypatch: pytest.MonkeyPatch, chunks: Chunks) -> None:
    monkeypatch.setattr(graphs_elmo, "MOST_GRAPHS", 2)
    layers = [lasting(random_layer([1])) for _ in range(3)]

    with torch.no_grad():
        for number in (0, 1, 0, 2):
            triton_recurrence(*layers[number])

    weights = [key[5][0][0] for key in chunks.made]
    assert weights == [layers[number][3].recurrent.data_ptr() for number in (0, 2)]


def failing_launch(*_: object) -> None:
    raise RuntimeError("operation not permitted when stream is capturing")


@pytest.mark.parametrize("why", ["gradients", "many sentences", "weights of a moment", "no graph", "no words"])
def test_single_steps_where_there_is_no_graph(why: str, monkeypatch: pytest.MonkeyPatch, chunks: Chunks) -> None:
    lengths = {"many sentences": [2, 1, 1, 1, 1], "no words": [0, 0]}.get(why, [3, 2])
    layer = random_layer(lengths)
    given = single(layer) if why == "weights of a moment" else lasting(layer)
    if why == "no graph":
        monkeypatch.setattr(graphs_elmo, "Launch", failing_launch)

    if why == "gradients":
        for one, other in zip(
            gradients(triton_recurrence, *given), gradients(reference_recurrence, *layer), strict=True
        ):
            torch.testing.assert_close(one.double(), other, atol=1e-4, rtol=1e-4)
    with torch.set_grad_enabled(why == "gradients"):
        for _ in range(2):
            assert_agrees(triton_recurrence(*given), layer)

    assert list(chunks.made.values()) == ([None] if why == "no graph" else [])


def test_on_a_gpu_the_function_is_run_once_before_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    happened = []

    @contextmanager
    def capture(*_: object, **options: object) -> Iterator[None]:
        happened.append(options["capture_error_mode"])
        yield

    def function() -> None:
        happened.append("function")

    monkeypatch.setattr(torch, "cuda", MagicMock(graph=capture))
    monkeypatch.setattr(torch.cuda.CUDAGraph.return_value, "replay", lambda: happened.append("replay"))
    kept = weakref.ref(function)

    launch = graphs_elmo.Launch(function, torch.device("cuda", 1))
    del function
    launch.run()

    assert happened == ["function", "thread_local", "function", "replay"]
    assert kept() is None


def test_arguments_are_left_as_they_are() -> None:
    inputs, steps, state, weights = lasting(random_layer([3, 2]))
    before = [part.detach().clone() for part in (inputs, *state)]

    with torch.no_grad():
        graph_steps(inputs, steps, state, tuple(weights[:2]), tuple(weights[2:]), False)

    assert all(torch.equal(one, other) for one, other in zip(before, (inputs, *state), strict=True))
