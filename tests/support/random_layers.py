"""Layers of random numbers for the recurrences, and their gradients."""

from collections.abc import Callable

import torch
from torch import nn

from elmo_hf.model.packing_elmo import pack_words
from elmo_hf.model.recurrence_elmo import (
    InputProjections,
    LstmCall,
    LstmWeights,
    backends,
    differentiable_lstm,
    run_lstm,
)


# the gate inputs are given as they are
IDENTITY = InputProjections([nn.Identity(), nn.Identity()])


def random_layer(
    lengths: list[int],
    *,
    width: int = 3,
    cell: int = 5,
    projected: bool = True,
    clip: float | None = 0.4,
    highway: bool = False,
) -> LstmCall:
    """Asymmetric inputs in float64, large enough that the clips fire.

    A layer with a highway reads in one direction, with dropout and without a projection.
    """
    generator = torch.Generator().manual_seed(len(lengths))
    projected = projected and not highway
    width = width if projected else cell
    directions, gates = (1, 5) if highway else (2, 4)
    mask = torch.arange(max(lengths, default=0)) < torch.tensor(lengths)[:, None]
    packing = pack_words(mask)

    def tensor(*shape: int, scale: float = 1) -> torch.Tensor:
        return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()

    # a layer of larger sums is chaotic: it multiplies the rounding of its first words by thousands
    recurrent = tensor(directions, width, gates * cell, scale=min(1, (2 / width) ** 0.5))
    output = tensor(2, cell, width, scale=min(1, (2 / cell) ** 0.5)) if projected else None
    weights = LstmWeights(recurrent, output, clip, clip)
    state = (tensor(directions, len(lengths), width), tensor(directions, len(lengths), cell))
    inputs = tensor(directions, packing.words.shape[1], gates * cell)
    call = LstmCall(inputs, None, packing.batch_sizes, state, weights)
    if not highway:
        return call
    kept = torch.rand(1, len(lengths), width, generator=generator, dtype=torch.float64) > 0.3
    return call._replace(carried=tensor(1, packing.words.shape[1], cell), dropout=kept / 0.7)


def run(call: LstmCall) -> tuple:
    """Run a layer as the models do, by the backend that the environment chooses."""
    return run_lstm(call.inputs, IDENTITY, call.batch_sizes, call.state, call.weights)


def run_by(name: str) -> Callable[[LstmCall], tuple]:
    """Return a function that runs a layer by the backend of that name."""
    backend = next(backend for backend in backends() if backend.name == name)
    return lambda call: differentiable_lstm(backend, call, call.inputs, IDENTITY)


def leaves(call: LstmCall) -> list[torch.Tensor]:
    """The tensors of a layer that get gradients."""
    return [part for part in (call.inputs, *call.state, *call.weights[:2], call.carried) if part is not None]


def gradients(result: tuple, call: LstmCall) -> tuple:
    """Of a sum over all that a recurrence returned."""
    outputs, (hidden, cell) = result
    # unequal shares, so that swapped halves cannot cancel
    share = torch.linspace(1, 2, outputs.numel(), dtype=outputs.dtype).reshape(outputs.shape)
    loss = (outputs * share).sum() + (3 * hidden).sum() + (5 * cell).sum()
    return torch.autograd.grad(loss, leaves(call))


def converted(call: LstmCall, dtype: torch.dtype) -> LstmCall:
    """The same numbers in another dtype, as leaves of their own."""

    def changed(part: torch.Tensor | None) -> torch.Tensor | None:
        return None if part is None else part.detach().to(dtype).requires_grad_()

    inputs, hidden, cell, recurrent, output, carried = map(
        changed, (call.inputs, *call.state, *call.weights[:2], call.carried)
    )
    weights = LstmWeights(recurrent, output, *call.weights[2:])
    dropout = None if call.dropout is None else call.dropout.to(dtype)
    return call._replace(inputs=inputs, state=(hidden, cell), weights=weights, carried=carried, dropout=dropout)


def single(call: LstmCall) -> LstmCall:
    """The same numbers in float32."""
    return converted(call, torch.float32)
