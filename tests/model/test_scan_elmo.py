"""`model.scan_elmo`: the loop of an export agrees with the readable recurrence."""

import pytest
import torch

from elmo_hf.model.packing_elmo import pack_words
from elmo_hf.model.recurrence_elmo import LstmCall, LstmWeights, reference_lstm
from elmo_hf.model.scan_elmo import pack_grid, scan_lstm


@pytest.mark.parametrize("clip", [0.4, None])
@pytest.mark.parametrize("projected", [True, False])
def test_the_loop_of_an_export_agrees_with_the_reference(clip: float | None, projected: bool) -> None:
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


@pytest.mark.parametrize("direction", [0, 1])
def test_the_loop_of_a_layer_with_a_highway_agrees_with_the_reference(direction: int) -> None:
    mask, width = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 1], [0, 1, 0, 0]]).bool(), 5
    inputs, carried = (torch.randn(1, mask.numel(), size, dtype=torch.float64) for size in (5 * width, width))
    weights = LstmWeights(torch.randn(1, width, 5 * width, dtype=torch.float64), None, None, None)
    state = (torch.zeros(1, 3, width, dtype=torch.float64),) * 2
    every, packed = pack_grid(mask).one_way(direction), pack_words(mask).one_way(direction)

    outputs, _ = scan_lstm(inputs[:, every.words[0]], every.is_word, state, weights, carried[:, every.words[0]])

    few = packed.words[0]
    wanted, _ = reference_lstm(LstmCall(inputs[:, few], None, packed.batch_sizes, state, weights, carried[:, few]))
    places = torch.zeros(mask.numel(), width, dtype=torch.float64)
    torch.testing.assert_close(
        places.index_put((every.words[0],), outputs[0]),
        places.index_put((few[: wanted.shape[1]],), wanted[0]),
    )
