"""`elmo_hf.recurrence_elmo`: the fast path and the readable one agree in outputs, states and gradients."""

import importlib

import pytest
import torch

from elmo_hf.recurrence_elmo import (
    RECURRENCES,
    LstmWeights,
    all_places,
    pack_words,
    packed_recurrence,
    recurrence,
    reference_recurrence,
    scanned_recurrence,
)


def random_layer(
    lengths: list[int], *, width: int = 3, cell: int = 5, projected: bool = True, clip: float | None = 0.4
) -> tuple[torch.Tensor, list[int], tuple[torch.Tensor, torch.Tensor], LstmWeights]:
    """Asymmetric inputs in float64, large enough that the clips fire."""
    generator = torch.Generator().manual_seed(len(lengths))
    width = width if projected else cell
    mask = torch.arange(max(lengths, default=0)) < torch.tensor(lengths)[:, None]
    packing = pack_words(mask)

    def tensor(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)

    weights = LstmWeights(tensor(2, width, 4 * cell), tensor(2, cell, width) if projected else None, clip, clip)
    state = (tensor(2, len(lengths), width), tensor(2, len(lengths), cell))
    return tensor(2, packing.words.shape[1], 4 * cell), packing.steps, state, weights


CASES = [
    pytest.param({"lengths": [1]}, id="one word"),
    pytest.param({"lengths": [4, 7, 2]}, id="unequal"),
    pytest.param({"lengths": [0, 3, 0, 5]}, id="empty sentences"),
    pytest.param({"lengths": [6, 6], "projected": False}, id="no projection"),
    pytest.param({"lengths": [2, 9, 1], "clip": None}, id="no clips"),
    pytest.param({"lengths": [63]}, id="long"),
]


@pytest.mark.parametrize("case", CASES)
def test_packed_agrees_with_reference(case: dict) -> None:
    inputs, steps, state, weights = random_layer(**case)

    fast, fast_state = packed_recurrence(inputs, steps, state, weights)
    slow, slow_state = reference_recurrence(inputs, steps, state, weights)

    torch.testing.assert_close(fast, slow, atol=1e-12, rtol=0)
    torch.testing.assert_close(fast_state, slow_state, atol=1e-12, rtol=0)


@pytest.mark.parametrize("case", CASES)
def test_gradients_agree_with_reference(case: dict) -> None:
    inputs, steps, state, weights = random_layer(**case)
    leaves = [inputs, *state, *(weight for weight in weights[:2] if weight is not None)]

    def gradients(run: object) -> tuple[torch.Tensor, ...]:
        outputs, (hidden, cell) = run(inputs, steps, state, weights)
        # unequal shares, so that swapped halves cannot cancel
        share = torch.linspace(1, 2, outputs.numel(), dtype=torch.float64).reshape(outputs.shape)
        loss = (outputs * share).sum() + (3 * hidden).sum() + (5 * cell).sum()
        return torch.autograd.grad(loss, leaves)

    torch.testing.assert_close(gradients(packed_recurrence), gradients(reference_recurrence), atol=1e-10, rtol=0)


def test_gradcheck() -> None:
    inputs, steps, state, weights = random_layer([3, 1, 2], width=2, cell=3, clip=None)

    def run(*leaves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        gates, hidden, cell, recurrent, output = leaves
        outputs, ended = packed_recurrence(gates, steps, (hidden, cell), LstmWeights(recurrent, output, None, None))
        return outputs, *ended

    assert torch.autograd.gradcheck(run, (inputs, *state, weights.recurrent, weights.output))


def test_the_environment_chooses_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = random_layer([3, 2])
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "reference")
    monkeypatch.delitem(RECURRENCES, "packed")

    outputs, _ = recurrence(*arguments)

    torch.testing.assert_close(outputs, reference_recurrence(*arguments)[0])


def test_an_unknown_recurrence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "fast")

    with pytest.raises(ValueError, match="'fast'; it can be one of packed, reference"):
        recurrence(*random_layer([3, 2]))


def test_packs_words_wherever_the_padding_is() -> None:
    # a hole, padding at the left, nothing, padding at the right
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()

    packing = pack_words(mask)

    assert packing.sentences.tolist() == [0, 1, 3, 2]
    assert packing.steps == [3, 2, 1]
    # position = 4 * sentence + word
    assert packing.words[:, :6].tolist() == [[0, 6, 12, 2, 7, 3], [3, 7, 12, 2, 6, 0]]


@pytest.mark.parametrize("clip", [0.4, None])
@pytest.mark.parametrize("projected", [True, False])
def test_the_loop_of_an_export_agrees_with_the_reference(
    clip: float | None, projected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plain_scan(step: object, state: object, places: tuple) -> tuple:
        outputs = []
        for place in zip(*places, strict=True):
            state, output = step(state, place)
            outputs.append(output)
        return state, torch.stack(outputs)

    # the package holds a function under the name of this module
    monkeypatch.setattr(importlib.import_module("torch._higher_order_ops.scan"), "scan", plain_scan)
    # holes, nothing, and padding at either side
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]]).bool()
    width, cell = (3, 5) if projected else (5, 5)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64)

    weights = LstmWeights(random(2, width, 4 * cell), random(2, cell, width) if projected else None, clip, clip)
    state = random(2, 4, width), random(2, 4, cell)
    inputs = random(2, mask.numel(), 4 * cell)
    every, packed = all_places(mask), pack_words(mask)

    outputs, ended = scanned_recurrence(
        inputs.gather(1, every.words[..., None].expand(inputs.shape)), every.steps, state, weights
    )

    few = packed.words[..., None].expand(2, -1, 4 * cell)
    sorted_state = tuple(part[:, packed.sentences] for part in state)
    wanted, wanted_ended = reference_recurrence(inputs.gather(1, few), packed.steps, sorted_state, weights)
    ways = torch.arange(2)[:, None]
    places = torch.zeros(mask.numel(), 2, width, dtype=torch.float64)
    torch.testing.assert_close(
        places.index_put((every.words, ways), outputs),
        places.index_put((packed.words[:, : wanted.shape[1]], ways), wanted),
    )
    torch.testing.assert_close(tuple(part[:, packed.sentences] for part in ended), wanted_ended)
    assert outputs.isfinite().all()
