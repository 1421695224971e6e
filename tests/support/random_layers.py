"""Layers of random numbers for the recurrences, and their gradients."""

import torch

from elmo_hf.model.packing_elmo import pack_words
from elmo_hf.model.recurrence_elmo import LstmWeights


def random_layer(
    lengths: list[int], *, width: int = 3, cell: int = 5, projected: bool = True, clip: float | None = 0.4
) -> tuple[torch.Tensor, list[int], tuple[torch.Tensor, torch.Tensor], LstmWeights]:
    """Asymmetric inputs in float64, large enough that the clips fire."""
    generator = torch.Generator().manual_seed(len(lengths))
    width = width if projected else cell
    mask = torch.arange(max(lengths, default=0)) < torch.tensor(lengths)[:, None]
    packing = pack_words(mask)

    def tensor(*shape: int, scale: float = 1) -> torch.Tensor:
        return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()

    # sums of many terms are not larger than those of few: a layer of large ones is chaotic
    recurrent = tensor(2, width, 4 * cell, scale=min(1, (5 / width) ** 0.5))
    output = tensor(2, cell, width, scale=min(1, (5 / cell) ** 0.5)) if projected else None
    weights = LstmWeights(recurrent, output, clip, clip)
    state = (tensor(2, len(lengths), width), tensor(2, len(lengths), cell))
    return tensor(2, packing.words.shape[1], 4 * cell), packing.steps, state, weights


def gradients(run: object, inputs: torch.Tensor, steps: list[int], state: tuple, weights: LstmWeights) -> tuple:
    """Of a sum over all that the recurrence returns."""
    return slopes(run(inputs, steps, state, weights), inputs, steps, state, weights)


def slopes(result: tuple, inputs: torch.Tensor, _steps: list[int], state: tuple, weights: LstmWeights) -> tuple:
    """Of a sum over all that a recurrence returned."""
    outputs, (hidden, cell) = result
    # unequal shares, so that swapped halves cannot cancel
    share = torch.linspace(1, 2, outputs.numel(), dtype=outputs.dtype).reshape(outputs.shape)
    loss = (outputs * share).sum() + (3 * hidden).sum() + (5 * cell).sum()
    return torch.autograd.grad(loss, [inputs, *state, *(weight for weight in weights[:2] if weight is not None)])


def single(layer: tuple) -> tuple:
    """The same numbers in float32."""
    inputs, steps, state, weights = layer
    matrices = [None if matrix is None else matrix.detach().float().requires_grad_() for matrix in weights[:2]]
    leaves = [part.detach().float().requires_grad_() for part in (inputs, *state)]
    return leaves[0], steps, (leaves[1], leaves[2]), LstmWeights(*matrices, *weights[2:])
