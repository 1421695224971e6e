# Copyright 2026 The elmo_hf authors. All rights reserved.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""The recurrence of the biLSTM: a reference that reads like the equations, and a fast one that gives the same numbers.

The fast one takes its steps by torch or, on a CPU, by compiled code (`native_elmo.cpp`), and on a GPU by
kernels in Triton (`triton_elmo.py`). A third one is for `torch.export` alone: no step of it depends on what the batch
holds.

Shape notation: `B` sentences, `T` words, `N` words of the batch without padding, `P` width of one direction's output,
`C` width of the cell. The leading 2 is the direction: 0 reads a sentence from its first word, 1 from its last.
"""

import itertools
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from .graphs_elmo import graph_steps
from .native_elmo import NotCompiledError, fits, is_trained, load, native_back, native_reading, native_steps, widens
from .triton_elmo import kernels_fit, kernels_missing, triton_back, triton_steps


# what FEWEST_ROWS is for the products of all words
FEWEST_ROWS_IN_STEP = 4


class LstmWeights(NamedTuple):
    """What one step needs: `recurrent` `[2, P, 4 * C]`, `output` `[2, C, P]` or `None`, and the two clips."""

    recurrent: torch.Tensor
    output: torch.Tensor | None
    cell_clip: float | None
    projection_clip: float | None


class InputProjections(NamedTuple):
    """The input's share of the gates: a linear module for each direction, and what the forget gates get besides.

    To forget little at first (Jozefowicz et al. 2015) is not part of the bias, so that files go there and back intact.
    """

    modules: Iterable[nn.Module]
    forget_bias: float

    def shares(self, below: torch.Tensor) -> torch.Tensor:
        """Compute the shares of all words, `[2, n, 4 * C]`, from what the layer below says of them, `[2, n, D]`."""
        inputs = torch.stack([project(rows) for project, rows in zip(self.modules, below, strict=True)])
        return self.forgetting_less(inputs)

    def forgetting_less(self, gates: torch.Tensor) -> torch.Tensor:
        """Add the forget bias to the gates `[..., 4 * C]`, in place."""
        cell_width = gates.shape[-1] // 4
        gates[..., cell_width : 2 * cell_width] += self.forget_bias
        return gates

    def weights(self) -> tuple[list[torch.Tensor], torch.Tensor] | None:
        """Return the weights of both directions, and the biases `[2, 4 * C]` in float32.

        `None` if the modules do more than multiply.
        """
        weights: list[torch.Tensor] = []
        biases: list[torch.Tensor] = []
        for module in self.modules:
            if not isinstance(module, nn.Linear) or type(module).forward is not nn.Linear.forward:
                return None
            if "forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks:
                return None
            weights.append(module.weight)
            biases.append(module.bias)
        # in half precision the sum would be rounded
        return weights, self.forgetting_less(torch.stack(biases).float())


def read_words(
    below: torch.Tensor,
    projections: InputProjections,
    steps: list[int] | torch.Tensor,
    state: tuple[torch.Tensor, torch.Tensor],
    weights: LstmWeights,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Run both directions of a layer over packed words.

    Where nothing is to be trained the compiled code does all of it, and never holds the inputs of all steps.

    Args:
        below: `[2, N + spare, D]`, what the layer below says of each packed word.
        projections: The input's share of the gates.
        steps: As in `recurrence`, and so are the others, the result and the errors.
        state: See `steps`.
        weights: See `steps`.
    """
    if not isinstance(steps, torch.Tensor):
        plain = readable(below, projections, state, weights)
        if plain is not None:
            return native_reading(below, plain, steps, state, weights[:2], weights[2:])
    inputs = projections.shares(below)
    # mixed precision has narrowed them
    return recurrence(inputs, steps, (state[0].to(inputs), state[1].to(inputs)), weights)


def readable(
    below: torch.Tensor,
    projections: InputProjections,
    state: tuple[torch.Tensor, torch.Tensor],
    weights: LstmWeights,
) -> tuple[list[torch.Tensor], torch.Tensor] | None:
    """Return `projections.weights()` if the compiled code can do all of a layer, and the environment wants it."""
    tensors = below, *state, weights.recurrent, weights.output
    dtype = torch.bfloat16 if widens(below) else torch.float32
    if is_trained(*tensors) or torch.is_autocast_enabled(below.device.type) or not fits(*tensors, dtype=dtype):
        return None
    plain = projections.weights()
    if plain is None or is_trained(*plain[0], plain[1]) or not fits(*plain[0], dtype=dtype):
        return None
    wanted = (os.environ.get("ELMO_HF_RECURRENCE") or "native") == "native"
    # last, because it compiles
    return plain if wanted and not isinstance(load(), NotCompiledError) else None


def recurrence(
    inputs: torch.Tensor,
    steps: list[int] | torch.Tensor,
    state: tuple[torch.Tensor, torch.Tensor],
    weights: LstmWeights,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Run both directions of a layer over packed words, of whose gates the input's share is known.

    On a CPU compiled code does it, where there is a compiler, and on a GPU kernels in Triton, where there is Triton,
    else torch. `ELMO_HF_RECURRENCE` in the environment forces `native`, which is the compiled code for float32,
    `triton`, which is the kernels, `graphs`, which is the kernels in CUDA graphs, `packed`, which is torch, or
    `reference`, the slow, readable path.

    Args:
        inputs: `[2, N + spare, 4 * C]`, the input's share of the gates i, f, g, o, with the bias.
        steps: The number of running sentences at each time, or the places of words, as in `Packing`.
        state: `[2, B, P]` and `[2, B, C]`, the hidden and cell state to start from, longest sentence first.
        weights: The weights of the step.

    Returns:
        The hidden states `[2, N, P]`, and the state after each sentence's last word, in the form of `state`.

    Raises:
        ValueError: If the environment names no recurrence, or the compiled one and it cannot be had.
    """
    if isinstance(steps, torch.Tensor):
        return scanned_recurrence(inputs, steps, state, weights)
    forced = os.environ.get("ELMO_HF_RECURRENCE")
    name = forced or ("triton" if inputs.is_cuda else "native")
    if name not in RECURRENCES:
        raise ValueError(f"ELMO_HF_RECURRENCE is {name!r}; it can be one of {', '.join(sorted(RECURRENCES))}.")
    if missing := why_missing(name, inputs, state, weights):
        if forced:
            raise ValueError(f"ELMO_HF_RECURRENCE is {name!r}, but there is no compiled recurrence: {missing}.")
        name = "packed"
    return RECURRENCES[name](inputs, steps, state, weights)


def why_missing(
    name: str, inputs: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor], weights: LstmWeights
) -> str | None:
    """Tell why the code of a recurrence cannot be had; `None` where it can, or where it is not for such numbers."""
    if name == "native" and inputs.device.type == "cpu" and isinstance(missing := load(), NotCompiledError):
        return str(missing)
    if name in ("triton", "graphs") and kernels_fit(inputs, *state, weights.recurrent, weights.output):
        return kernels_missing(inputs.device, inputs.dtype, (torch_steps, torch_back))
    return None


def reference_recurrence(
    inputs: torch.Tensor, steps: list[int], state: tuple[torch.Tensor, torch.Tensor], weights: LstmWeights
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Run one direction of one sentence after another, word by word; arguments and result as in `recurrence`."""
    outputs = state[0].new_zeros(2, sum(steps), state[0].shape[2])
    last_hidden, last_cell = state[0].clone(), state[1].clone()
    starts = [sum(steps[:time]) for time in range(len(steps))]
    for direction in range(2):
        for sentence in range(state[0].shape[1]):
            hidden, cell = state[0][direction, sentence], state[1][direction, sentence]
            for start, running in zip(starts, steps, strict=True):
                if sentence >= running:
                    break
                gates = inputs[direction, start + sentence] + hidden @ weights.recurrent[direction]
                i, f, g, o = gates.chunk(4)
                cell = clip(f.sigmoid() * cell + i.sigmoid() * g.tanh(), weights.cell_clip)
                hidden = o.sigmoid() * cell.tanh()
                if weights.output is not None:
                    hidden = clip(hidden @ weights.output[direction], weights.projection_clip)
                outputs[direction, start + sentence] = hidden
            last_hidden[direction, sentence], last_cell[direction, sentence] = hidden, cell
    return outputs, (last_hidden, last_cell)


def scanned_recurrence(
    inputs: torch.Tensor, words: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor], weights: LstmWeights
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Come to all places, padding too, and stay as it was at padding; arguments and result as in `recurrence`.

    The loop is one operation of the exported program, so that it has as many steps as a batch has words.
    """
    # not public yet, and only exports need it
    from torch._higher_order_ops.scan import scan

    def step(
        state: tuple[torch.Tensor, torch.Tensor], place: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        (hidden, cell), (share, is_word) = state, place
        i, f, g, o = torch.baddbmm(share, hidden, weights.recurrent).chunk(4, dim=2)
        # [2, B, C]
        next_cell = clip(f.sigmoid() * cell + i.sigmoid() * g.tanh(), weights.cell_clip)
        # [2, B, P]
        next_hidden = o.sigmoid() * next_cell.tanh()
        if weights.output is not None:
            next_hidden = clip(torch.bmm(next_hidden, weights.output), weights.projection_clip)
        ended = torch.where(is_word, next_hidden, hidden), torch.where(is_word, next_cell, cell)
        return ended, next_hidden * is_word

    length, _, batch_size = words.shape
    # [T, 2, B, 4 * C]
    shares = inputs.reshape(2, length, batch_size, inputs.shape[2]).transpose(0, 1)
    state, outputs = scan(step, state, (shares, words[..., None]))
    # [T, 2, B, P] -> [2, T * B, P]
    return outputs.transpose(0, 1).reshape(2, length * batch_size, outputs.shape[3]), state


def packed_recurrence(
    inputs: torch.Tensor, steps: list[int], state: tuple[torch.Tensor, torch.Tensor], weights: LstmWeights
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Run both directions of all running sentences in one product a step; arguments and result as in `recurrence`."""
    return differentiable((torch_steps, torch_back), inputs, steps, state, weights)


def native_recurrence(
    inputs: torch.Tensor, steps: list[int], state: tuple[torch.Tensor, torch.Tensor], weights: LstmWeights
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Do what `packed_recurrence` does by compiled code, where the numbers are in float32 on a CPU."""
    if not fits(inputs, *state, weights.recurrent, weights.output):
        return packed_recurrence(inputs, steps, state, weights)
    return differentiable((native_steps, native_back), inputs, steps, state, weights)


def triton_recurrence(
    inputs: torch.Tensor, steps: list[int], state: tuple[torch.Tensor, torch.Tensor], weights: LstmWeights
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Do what `packed_recurrence` does by kernels in Triton, where the numbers are on a GPU and up to float32."""
    if not kernels_fit(inputs, *state, weights.recurrent, weights.output):
        return packed_recurrence(inputs, steps, state, weights)
    forward = graph_steps if os.environ.get("ELMO_HF_RECURRENCE") == "graphs" else triton_steps
    return differentiable((forward, triton_back), inputs, steps, state, weights)


def differentiable(
    ways: tuple[Any, Any],
    inputs: torch.Tensor,
    steps: list[int],
    state: tuple[torch.Tensor, torch.Tensor],
    weights: LstmWeights,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Run all steps by functions that have the arguments and results of `torch_steps` and `torch_back`."""
    outputs, hidden, cell = PackedRecurrence.apply(
        inputs,
        *state,
        weights.recurrent,
        weights.output,
        ways,
        steps,
        (weights.cell_clip, weights.projection_clip),
        torch.is_grad_enabled(),
    )
    return outputs, (hidden, cell)


def torch_steps(
    inputs: torch.Tensor,
    steps: list[int],
    state: tuple[torch.Tensor, torch.Tensor],
    matrices: tuple[torch.Tensor, torch.Tensor | None],
    clips: tuple[float | None, float | None],
    keeps: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run all steps of a layer.

    Args:
        inputs: As in `recurrence`, and so are `steps` and `state`.
        steps: See `inputs`.
        state: See `inputs`.
        matrices: The recurrent and the output weights, in the dtype of `inputs`.
        clips: Of the cell, and of the projection.
        keeps: Whether to keep what the backward pass needs.

    Returns:
        The hidden states `[2, N, P]`, the state after each sentence's last word `[2, B, P]` and `[2, B, C]`; and if
        kept, the gates after their non-linearities `[2, N, 4 * C]` and the cells `[2, N, C]`.
    """
    (hidden, cell), (recurrent, output) = state, matrices
    alive, start = hidden.shape[1], 0
    width, size = cell.shape[2], sum(steps)
    # [2, rows, P], [2, rows, C]
    hidden, cell = (nn.functional.pad(part, (0, 0, 0, max(FEWEST_ROWS_IN_STEP - alive, 0))) for part in (hidden, cell))
    # [2, N, 4 * C] and [2, N, C], each with the rows that fill up a step
    room = inputs.shape[1] if keeps else 0
    gates_kept, cells_kept = inputs.new_empty(2, room, 4 * width), inputs.new_empty(2, room, width)
    outputs, ended = [], []
    for running in steps:
        if running < alive:
            # the shortest sentences come last, and keep the state they ended with
            ended.append((hidden[:, running:alive], cell[:, running:alive]))
            alive = running
        rows = max(running, FEWEST_ROWS_IN_STEP)
        # [2, rows, 4 * C]
        words = slice(start, start + rows)
        gates = torch.baddbmm(inputs[:, words], hidden[:, :rows], recurrent)
        i, f, g, o = gates.chunk(4, dim=2)
        for gate in (i, f, o):
            gate.sigmoid_()
        g.tanh_()
        # [2, rows, C]
        cell = clip(f * cell[:, :rows] + i * g, clips[0])
        hidden = o * cell.tanh()
        if output is not None:
            # [2, rows, P]
            hidden = clip(torch.bmm(hidden, output), clips[1])
        if keeps:
            gates_kept[:, words], cells_kept[:, words] = gates, cell
        outputs.append(hidden[:, :running])
        start += running
    ended.append((hidden[:, :alive], cell[:, :alive]))
    hiddens, cells = zip(*reversed(ended), strict=True)
    packed = torch.cat(outputs, dim=1) if outputs else hidden[:, :0]
    return packed, torch.cat(hiddens, dim=1), torch.cat(cells, dim=1), gates_kept[:, :size], cells_kept[:, :size]


def torch_back(
    kept: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    steps: list[int],
    first_cell: torch.Tensor,
    matrices: tuple[torch.Tensor, torch.Tensor | None],
    clips: tuple[float | None, float | None],
    slopes: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Go back through all steps of a layer.

    Args:
        kept: The gates and cells that `torch_steps` kept, and the hidden states it returned.
        steps: As in `torch_steps`, and so are `matrices` and `clips`.
        first_cell: The cells that were started from.
        matrices: See `steps`.
        clips: See `steps`.
        slopes: Of the hidden states, and of the state after each sentence's last word.

    Returns:
        The slopes of the inputs `[2, N, 4 * C]`, of the hidden states before their clip `[2, N, P]`, and of the state
        that was started from `[2, B, P]` and `[2, B, C]`.
    """
    gates, cells, outputs = kept
    starts = list(itertools.accumulate(steps, initial=0))
    i, f, g, o = gates.chunk(4, dim=2)
    squashed = cells.tanh()
    # [2, N, 4, C]: from the slope of the cell to those of i, f and g, and from the slope of o * tanh(cell) to o's
    factors = torch.stack(
        [g * i * (1 - i), _before(first_cell, cells, steps) * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o)],
        dim=2,
    )
    # from the slope of o * tanh(cell) to the cell's, and from the cell's to that of the cell before
    to_cell, to_before = o * (1 - squashed * squashed), f
    if clips[0] is not None:
        # nothing flows back into what was clipped
        inside = cells.abs() < clips[0]
        factors[:, :, :3] *= inside[:, :, None]
        to_before = f * inside
    inside_outputs = None
    if matrices[1] is not None and clips[1] is not None:
        inside_outputs = outputs.abs() < clips[1]
    result = torch.empty_like(factors)
    # [2, N, P]; [2, B, P] and [2, B, C]: what flows back from the step after, or from the state at a sentence's end
    outputs_slope, hidden_slope, cell_slope = (part.clone() for part in slopes)
    back, narrow = matrices[0].transpose(1, 2), None if matrices[1] is None else matrices[1].transpose(1, 2)
    for start, running in zip(reversed(starts[:-1]), reversed(steps), strict=True):
        words = slice(start, start + running)
        # [2, n, P]
        hidden = outputs_slope[:, words]
        hidden += hidden_slope[:, :running]
        if inside_outputs is not None:
            hidden *= inside_outputs[:, words]
        # [2, n, C]
        middle = hidden if narrow is None else torch.bmm(hidden, narrow)
        cell = cell_slope[:, :running]
        cell += middle * to_cell[:, words]
        torch.mul(factors[:, words, :3], cell[:, :, None], out=result[:, words, :3])
        torch.mul(factors[:, words, 3], middle, out=result[:, words, 3])
        cell *= to_before[:, words]
        # [2, n, P]
        hidden_slope[:, :running] = torch.bmm(result[:, words].flatten(2), back)
    return result.flatten(2), outputs_slope, hidden_slope, cell_slope


class PackedRecurrence(torch.autograd.Function):
    """All steps of a layer, with a backward pass by hand.

    Backwards, only what each step needs from the next one is computed step by step. The factors of the non-linearities
    and the gradients of the weights are computed for all words at once.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        hidden: torch.Tensor,
        cell: torch.Tensor,
        recurrent: torch.Tensor,
        output: torch.Tensor | None,
        ways: tuple[Any, Any],
        steps: list[int],
        clips: tuple[float | None, float | None],
        enabled: bool,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the hidden states `[2, N, P]`, and the state after each sentence's last word."""
        keeps = enabled and any(ctx.needs_input_grad)
        with torch.autocast(inputs.device.type, enabled=False):
            # the products of mixed precision are those of the inputs
            matrices = recurrent.to(inputs.dtype), None if output is None else output.to(inputs.dtype)
            packed, *last, gates, cells = ways[0](inputs, steps, (hidden, cell), matrices, clips, keeps)
        if keeps:
            ctx.save_for_backward(gates, cells, packed, hidden, cell, recurrent, output)
            ctx.back, ctx.steps, ctx.clips, ctx.spare = ways[1], steps, clips, inputs.shape[1] - sum(steps)
        return packed, *last

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, outputs_slope: torch.Tensor, hidden_slope: torch.Tensor, cell_slope: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of `inputs`, the state and the weights."""
        gates, cells, outputs, first_hidden, first_cell, recurrent, output = ctx.saved_tensors
        matrices = recurrent.to(outputs.dtype), None if output is None else output.to(outputs.dtype)
        incoming = outputs_slope, hidden_slope.to(outputs.dtype), cell_slope.to(cells.dtype)
        slopes, outputs_slope, hidden_slope, cell_slope = ctx.back(
            (gates, cells, outputs), ctx.steps, first_cell.to(cells.dtype), matrices, ctx.clips, incoming
        )
        hidden_before = _before(first_hidden, outputs, ctx.steps)
        recurrent_slope = torch.bmm(hidden_before.transpose(1, 2), slopes).to(recurrent.dtype)
        output_slope = None
        if output is not None:
            squashed = gates[:, :, 3 * cells.shape[2] :] * cells.tanh()
            output_slope = torch.bmm(squashed.transpose(1, 2), outputs_slope).to(output.dtype)
        inputs_slope = nn.functional.pad(slopes, (0, 0, 0, ctx.spare))
        state_slopes = hidden_slope.to(first_hidden.dtype), cell_slope.to(first_cell.dtype)
        return inputs_slope, *state_slopes, recurrent_slope, output_slope, None, None, None, None


def _before(first: torch.Tensor, later: torch.Tensor, steps: list[int]) -> torch.Tensor:
    """What each packed word started from, `[2, N, width]`: the state `first`, then what the step before left."""
    starts = itertools.accumulate(steps, initial=0)
    earlier = [later[:, start : start + running] for start, running in zip(starts, steps[1:], strict=False)]
    return torch.cat([first[:, : max(steps[:1], default=0)].to(later), *earlier], dim=1)


def clip(values: torch.Tensor, limit: float | None) -> torch.Tensor:
    """Keep values within plus and minus `limit`; `None` leaves them."""
    if limit is None:
        return values
    return values.clamp(-limit, limit)


RECURRENCES = {
    "graphs": triton_recurrence,
    "native": native_recurrence,
    "packed": packed_recurrence,
    "reference": reference_recurrence,
    "triton": triton_recurrence,
}

__all__ = ["InputProjections", "LstmWeights", "read_words", "recurrence"]
