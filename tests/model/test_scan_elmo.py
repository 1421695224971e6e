"""`model.scan_elmo`: the loop of an export agrees with the readable recurrence."""

import importlib

import pytest
import torch

from elmo_hf.model.packing_elmo import pack_words
from elmo_hf.model.recurrence_elmo import LstmCall, LstmWeights, reference_lstm
from elmo_hf.model.scan_elmo import pack_grid, scan_lstm


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
    every, packed = pack_grid(mask), pack_words(mask)

    outputs, ended = scan_lstm(
        inputs.gather(1, every.words[..., None].expand(inputs.shape)), every.is_word, state, weights
    )

    few = packed.words[..., None].expand(2, -1, 4 * cell)
    sorted_state = tuple(part[:, packed.sentences] for part in state)
    call = LstmCall(inputs.gather(1, few), None, packed.batch_sizes, sorted_state, weights)
    wanted, wanted_ended = reference_lstm(call)
    directions = torch.arange(2)[:, None]
    places = torch.zeros(mask.numel(), 2, width, dtype=torch.float64)
    torch.testing.assert_close(
        places.index_put((every.words, directions), outputs),
        places.index_put((packed.words[:, : wanted.shape[1]], directions), wanted),
    )
    torch.testing.assert_close(tuple(part[:, packed.sentences] for part in ended), wanted_ended)
    assert outputs.isfinite().all()
