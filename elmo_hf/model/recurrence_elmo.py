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
"""The recurrence of the biLSTMs: a reference that reads like the equations, and fast backends that compute the same.

`run_lstm` asks the backends in order: the compiled code and the Triton kernels of an installed elmo_hf, then torch,
which takes everything. `ELMO_HF_RECURRENCE` in the environment chooses one by name. The backends compute first
derivatives by hand; whatever asks for more goes through the reference, which torch differentiates to any order.

Shape notation: `B` sentences, `T` words, `N` words of the batch without padding, `D` width of the layer below, `P`
width of one direction's output, `C` width of the cell, `G` gates: 4, or 5 with a highway. The leading 2 is the
direction: 0 reads a sentence from its first word, 1 from its last. A layer that reads in one direction has 1 there.
"""

import functools
import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn
from transformers.utils import logging

from .kernels_elmo import find_kernels, is_trained, is_transformed, recompute_gradients
from .packing_elmo import Packing, gather_words, scatter_words
from .scan_elmo import Grid, clip, scan_lstm


logger = logging.get_logger(__name__)

# as FEWEST_ROWS of the packing, for the products of one step
FEWEST_ROWS_IN_STEP = 4

# the values of ELMO_HF_RECURRENCE
NAMES = ("native", "packed", "reference", "triton")


class LstmWeights(NamedTuple):
    """The weights of a step and its clips.

    Attributes:
        recurrent: `[2, P, G * C]`.
        output: The projection, `[2, C, P]`; `None` if there is none.
        cell_clip: The limit of the cell; `None` if it is not clipped.
        projection_clip: The limit of the projected hidden state; `None` if it is not clipped.
    """

    recurrent: torch.Tensor
    output: torch.Tensor | None
    cell_clip: float | None
    projection_clip: float | None

    def to(self, dtype: torch.dtype) -> "LstmWeights":
        """Return the weights in another dtype."""
        output = None if self.output is None else self.output.to(dtype)
        return self._replace(recurrent=self.recurrent.to(dtype), output=output)


class InputProjections(NamedTuple):
    """The maps from the layer below to the inputs of the gates.

    Attributes:
        modules: A linear module for each direction.
        forget_bias: Added to the inputs of the forget gates, so that an untrained LSTM forgets little (Jozefowicz et
            al. 2015). It is not part of the bias, so that weights are saved as the original files have them.
        highways: A linear module for each direction, for what a highway carries around the cell; none without one.
    """

    modules: Iterable[nn.Module]
    forget_bias: float = 0.0
    highways: Iterable[nn.Module] = ()

    def apply(self, below: torch.Tensor) -> torch.Tensor:
        """Compute the gate inputs of packed words: `[2, n, D]` to `[2, n, G * C]`."""
        return self.add_forget_bias(stack([project(rows) for project, rows in zip(self.modules, below, strict=True)]))

    @torch.no_grad()
    def apply_linear(self, below: torch.Tensor) -> torch.Tensor:
        """Do what `apply` does where `are_linear`, without a graph for gradients and without a copy of the result."""
        device, dtype = below.device.type, below.dtype
        # mixed precision leaves float64 alone
        if torch.is_autocast_enabled(device) and dtype != torch.float64:
            dtype = torch.get_autocast_dtype(device)
        weights, biases = ([part.to(dtype) for part in self.parameters()[n::2]] for n in range(2))
        gates = below.new_empty(*below.shape[:2], len(weights[0]), dtype=dtype)
        for rows, weight, bias, result in zip(below.to(dtype), weights, biases, gates, strict=True):
            torch.addmm(bias, rows, weight.T, out=result)
        return self.add_forget_bias(gates)

    def carry(self, below: torch.Tensor) -> torch.Tensor | None:
        """Compute what highways carry around the cell: `[2, n, D]` to `[2, n, C]`; `None` without them."""
        carried = [project(rows) for project, rows in zip(self.highways, below, strict=False)]
        return stack(carried) if carried else None

    def are_linear(self) -> bool:
        """Return whether the modules are linear maps and nothing more."""
        return all(
            isinstance(module, nn.Linear)
            and type(module).forward is nn.Linear.forward
            and "forward" not in vars(module)
            and not (module._forward_hooks or module._forward_pre_hooks)
            for module in self.modules
        )

    def parameters(self) -> list[torch.Tensor]:
        """Return the weight and the bias of each direction; a parametrized module computes them for this."""
        return [getattr(module, name) for module in self.modules for name in ("weight", "bias")]

    def linear_maps(self) -> "LinearMaps | None":
        """Return the modules' weights and biases as tensors; `None` if a module does more than a linear map."""
        if not self.are_linear():
            return None
        parameters = self.parameters()
        # float32 does not round the sum
        bias = self.add_forget_bias(torch.stack(parameters[1::2]).float())
        return LinearMaps(parameters[::2], bias)

    def add_forget_bias(self, gates: torch.Tensor) -> torch.Tensor:
        """Add the forget bias to gates `[..., G * C]` in place."""
        # the backward pass of an addition in place copies all gradients
        if self.forget_bias:
            cell_width = gates.shape[-1] // (5 if self.highways else 4)
            gates[..., cell_width : 2 * cell_width] += self.forget_bias
        return gates


def stack(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack what each direction has; of one direction, this is no copy."""
    return torch.stack(tuple(parts)) if len(parts) > 1 else parts[0][None]


class LinearMaps(NamedTuple):
    """The maps from the layer below to the inputs of the gates, as tensors.

    Attributes:
        weights: The weight of each direction, `[G * C, D]`.
        bias: `[2, G * C]` in float32, the forget bias included.
    """

    weights: list[torch.Tensor]
    bias: torch.Tensor


class LstmCall(NamedTuple):
    """One layer to run over packed words.

    Attributes:
        inputs: `[2, N + spare, G * C]`, the inputs of the gates i, f, g, o, and r with a highway, with the bias; with
            `projections`, `[2, N + spare, D]`, the output of the layer below.
        projections: The maps from `inputs` to gate inputs, or `None`.
        batch_sizes: The number of running sentences at each time.
        state: `[2, B, P]` and `[2, B, C]`, the initial hidden and cell state, longest sentence first.
        weights: The weights of a step.
        carried: `[2, N + spare, C]`, what a highway carries around the cell: the hidden state is `r` times that of an
            LSTM and `1 - r` times this. `None` without a highway. A layer with one has no projection.
        dropout: `[2, B, P]`, factors of every hidden state of a sentence, longest sentence first. `None` without
            dropout. A layer with it has no projection.
    """

    inputs: torch.Tensor
    projections: LinearMaps | None
    batch_sizes: list[int]
    state: tuple[torch.Tensor, torch.Tensor]
    weights: LstmWeights
    carried: torch.Tensor | None = None
    dropout: torch.Tensor | None = None


class Saved(NamedTuple):
    """What the backward pass reads.

    Attributes:
        gates: `[2, N, G * C]`, after their non-linearities.
        cells: `[2, N, C]`.
        outputs: `[2, N, P]`, the hidden states.
        initial_hidden: `[2, B, P]`.
        initial_cell: `[2, B, C]`.
        carried: As in the call.
        dropout: As in the call.
    """

    gates: torch.Tensor
    cells: torch.Tensor
    outputs: torch.Tensor
    initial_hidden: torch.Tensor
    initial_cell: torch.Tensor
    carried: torch.Tensor | None = None
    dropout: torch.Tensor | None = None


# the hidden states `[2, N, P]`, and the state after each sentence's last word
Output = tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]
# of the gate inputs `[2, N, G * C]`, the hidden states before clip and dropout `[2, N, P]`, and the initial state
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class Backend(Protocol):
    """One implementation of the recurrence. `TorchBackend` documents the arguments."""

    name: str

    def missing(self, call: LstmCall) -> str | None:
        """Return why this machine cannot run the backend on the call's device and dtype; `None` if it can."""

    def declines(self, call: LstmCall) -> str | None:
        """Return why the backend does not take a call; `None` if it does."""

    def forward(self, call: LstmCall, buffers: tuple[torch.Tensor, torch.Tensor] | None) -> Output:
        """Run all steps."""

    def backward(
        self,
        saved: Saved,
        batch_sizes: list[int],
        weights: LstmWeights,
        gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> Gradients:
        """Run all steps backward."""


def read_sentences(
    vectors: torch.Tensor,
    packing: Packing | Grid,
    projections: InputProjections,
    weights: LstmWeights,
    state: tuple[torch.Tensor, torch.Tensor] | None = None,
    dropout: torch.Tensor | None = None,
) -> Output:
    """Run both directions of a layer, or the only one, over the sentences of a batch.

    Args:
        vectors: `[B, T, 2, D]`, what each direction reads.
        packing: Where the words are.
        projections: The maps to the inputs of the gates.
        weights: The weights of a step.
        state: The initial hidden and cell state, `[B, 2, P]` and `[B, 2, C]`; zero if absent.
        dropout: `[B, 2, P]`, factors of every hidden state of a sentence; `None` without dropout.

    Returns:
        The hidden states `[B, T, 2, P]`, zero at padding, and the state after each direction's last word, in the form
        of `state`.

    Raises:
        ValueError: As `run_lstm`.
    """
    # [2, N + spare, D]
    below = gather_words(vectors, packing)
    if state is None:
        directions, width, _ = weights.recurrent.shape
        cell_width = width if weights.output is None else weights.output.shape[1]
        shape = directions, vectors.shape[0]
        initial = below.new_zeros(*shape, width), below.new_zeros(*shape, cell_width)
    else:
        hidden, cell = (part.to(below)[packing.sentences].transpose(0, 1) for part in state)
        initial = hidden, cell
    if isinstance(packing, Grid):
        inputs = projections.apply(below)
        initial = initial[0].to(inputs), initial[1].to(inputs)
        outputs, final = scan_lstm(inputs, packing.is_word, initial, weights, projections.carry(below))
    else:
        if dropout is not None:
            dropout = dropout[packing.sentences].transpose(0, 1)
        outputs, final = run_lstm(below, projections, packing.batch_sizes, initial, weights, dropout)
    order = packing.sentences.argsort()
    hidden, cell = (part.transpose(0, 1)[order] for part in final)
    return scatter_words(outputs, packing, vectors.shape[:2]), (hidden, cell)


def run_lstm(
    below: torch.Tensor,
    projections: InputProjections,
    batch_sizes: list[int],
    state: tuple[torch.Tensor, torch.Tensor],
    weights: LstmWeights,
    dropout: torch.Tensor | None = None,
) -> Output:
    """Run both directions of a layer, or the only one, over packed words.

    Args:
        below: `[2, N + spare, D]`, the output of the layer below.
        projections: The maps to the inputs of the gates.
        batch_sizes: The number of running sentences at each time.
        state: `[2, B, P]` and `[2, B, C]`, the initial hidden and cell state, longest sentence first.
        weights: The weights of a step.
        dropout: As in `LstmCall`.

    Returns:
        The hidden states `[2, N, P]`, and the state after each sentence's last word, in the form of `state`.

    Raises:
        ValueError: If `ELMO_HF_RECURRENCE` names no backend, or one that this machine cannot run.
    """
    carried = projections.carry(below)
    # without gradients, a backend can compute the gate inputs a few steps at a time
    if is_inference(below, projections, state, weights) and (maps := projections.linear_maps()) is not None:
        call = LstmCall(below, maps, batch_sizes, state, weights, carried, dropout)
        if (backend := choose_backend(call)) is not None:
            return backend.forward(call, None)
    # `LstmFunction` knows the gradients of linear maps
    linear = not is_transformed() and projections.are_linear()
    inputs = projections.apply_linear(below) if linear else projections.apply(below)
    # weights that are stored as integers become numbers once, and not at each step
    weights = weights.to(weights.recurrent.dtype)
    # mixed precision has narrowed them
    dropout = None if dropout is None else dropout.to(inputs)
    state = state[0].to(inputs), state[1].to(inputs)
    call = LstmCall(inputs, None, batch_sizes, state, weights, carried, dropout)
    backend = None if is_transformed() else choose_backend(call)
    if backend is None:
        return reference_lstm(call._replace(inputs=projections.apply(below)) if linear else call)
    return differentiable_lstm(backend, call, below, projections)


def is_inference(
    below: torch.Tensor,
    projections: InputProjections,
    state: tuple[torch.Tensor, torch.Tensor],
    weights: LstmWeights,
) -> bool:
    """Return whether a layer needs neither gradients nor mixed precision, which narrows the projections."""
    modules = [*projections.modules, *projections.highways]
    parameters = [parameter for module in modules for parameter in module.parameters()]
    tensors = below, *state, weights.recurrent, weights.output, *parameters
    return not is_trained(*tensors) and not torch.is_autocast_enabled(below.device.type)


@functools.cache
def backends() -> tuple[Backend, ...]:
    """Return the backends of this installation in the order in which they are asked; torch is the last."""
    torch_backend, kernels = TorchBackend(), find_kernels()
    return (*(kernels.make_backends(torch_backend) if kernels else ()), torch_backend)


def choose_backend(call: LstmCall) -> Backend | None:
    """Return the first backend that takes a call; `None` stands for the reference, or if none takes projections.

    Raises:
        ValueError: If `ELMO_HF_RECURRENCE` names no backend, or one that this machine cannot run.
    """
    forced = os.environ.get("ELMO_HF_RECURRENCE")
    if forced and forced not in NAMES:
        raise ValueError(f"ELMO_HF_RECURRENCE is {forced!r}; it can be one of {', '.join(NAMES)}.")
    if forced == "reference":
        return None
    chosen = [backend for backend in backends() if not forced or backend.name in (forced, "packed")]
    if forced and (
        missing := chosen[0].missing(call) if chosen[0].name == forced else "no elmo_hf with its kernels is installed"
    ):
        raise ValueError(f"ELMO_HF_RECURRENCE is {forced!r}, but this recurrence cannot be used: {missing}.")
    for backend in chosen:
        reason = backend.declines(call) or backend.missing(call)
        if reason is None:
            return backend
        if call.projections is None:
            logger.info_once(f"elmo_hf does not compute a recurrence by its {backend.name!r} code: {reason}")
    return None


def reference_lstm(call: LstmCall) -> Output:
    """Run one direction of one sentence after another, word by word; result as in `run_lstm`.

    Torch differentiates it to any order, in `torch.func` too. `call.projections` must be `None`.
    """
    inputs, _, batch_sizes, state, weights, carried, dropout = call
    weights, directions = weights.to(inputs.dtype), inputs.shape[0]
    starts = list(itertools.accumulate(batch_sizes, initial=0))
    outputs: list[list[Any]] = [[None] * starts[-1] for _ in range(directions)]
    final: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in range(directions)]
    for direction in range(directions):
        for sentence in range(state[0].shape[1]):
            hidden, cell = state[0][direction, sentence], state[1][direction, sentence]
            for start, running in zip(starts, batch_sizes, strict=False):
                if sentence >= running:
                    break
                gates = inputs[direction, start + sentence] + hidden @ weights.recurrent[direction]
                i, f, g, o, *r = gates.split(len(cell))
                cell = clip(f.sigmoid() * cell + i.sigmoid() * g.tanh(), weights.cell_clip)
                hidden = o.sigmoid() * cell.tanh()
                if carried is not None:
                    share = r[0].sigmoid()
                    hidden = share * hidden + (1 - share) * carried[direction, start + sentence]
                if weights.output is not None:
                    hidden = clip(hidden @ weights.output[direction], weights.projection_clip)
                if dropout is not None:
                    hidden = hidden * dropout[direction, sentence]
                outputs[direction][start + sentence] = hidden
            final[direction].append((hidden, cell))
    if not state[0].shape[1]:
        return inputs.new_zeros(directions, 0, state[0].shape[2]), state
    hidden, cell = (torch.stack([torch.stack([pair[n] for pair in part]) for part in final]) for n in range(2))
    if not starts[-1]:
        return inputs.new_zeros(directions, 0, state[0].shape[2]), (hidden, cell)
    return torch.stack([torch.stack(rows) for rows in outputs]), (hidden, cell)


class TorchBackend:
    """The recurrence by torch, for every device and dtype: all running sentences in one product a step."""

    name = "packed"

    def missing(self, call: LstmCall) -> None:
        """Return `None`: torch is always there."""

    def declines(self, call: LstmCall) -> str | None:
        """Decline to compute gate inputs step by step, which is no faster by torch."""
        return None if call.projections is None else "it takes gate inputs only"

    def forward(self, call: LstmCall, buffers: tuple[torch.Tensor, torch.Tensor] | None) -> Output:
        """Run all steps.

        Args:
            call: The layer. Its weights have the dtype of its inputs.
            buffers: `gates` and `cells` of `Saved`, to be filled; `None` if no backward pass follows.

        Returns:
            The hidden states `[2, N, P]`, and the state after each sentence's last word, as in `call`.
        """
        inputs, _, batch_sizes, (hidden, cell), weights, carried, dropout = call
        alive, start = hidden.shape[1], 0
        padding = (0, 0, 0, max(FEWEST_ROWS_IN_STEP - alive, 0))
        # [2, rows, P], [2, rows, C]
        hidden, cell = nn.functional.pad(hidden, padding), nn.functional.pad(cell, padding)
        dropout = None if dropout is None else nn.functional.pad(dropout, padding)
        outputs, ended = [], []
        for running in batch_sizes:
            if running < alive:
                # the shortest sentences come last and keep their final state
                ended.append((hidden[:, running:alive], cell[:, running:alive]))
                alive = running
            rows = max(running, FEWEST_ROWS_IN_STEP)
            # [2, rows, G * C]
            gates = torch.baddbmm(inputs[:, start : start + rows], hidden[:, :rows], weights.recurrent)
            i, f, g, o, *r = gates.split(cell.shape[2], dim=2)
            for gate in (i, f, o, *r):
                gate.sigmoid_()
            g.tanh_()
            # [2, rows, C]
            cell = clip(f * cell[:, :rows] + i * g, weights.cell_clip)
            hidden = o * cell.tanh()
            if carried is not None:
                # `torch.lerp` rounds otherwise at the end of a tensor than before
                around = carried[:, start : start + rows]
                hidden = around + r[0] * (hidden - around)
            if weights.output is not None:
                # [2, rows, P]
                hidden = clip(torch.bmm(hidden, weights.output), weights.projection_clip)
            if dropout is not None:
                hidden = hidden * dropout[:, :rows]
            if buffers is not None:
                for buffer, values in zip(buffers, (gates, cell), strict=True):
                    buffer[:, start : start + running] = values[:, :running]
            outputs.append(hidden[:, :running])
            start += running
        ended.append((hidden[:, :alive], cell[:, :alive]))
        hiddens, cells = zip(*reversed(ended), strict=True)
        packed = torch.cat(outputs, dim=1) if outputs else hidden[:, :0]
        return packed, (torch.cat(hiddens, dim=1), torch.cat(cells, dim=1))

    def backward(
        self,
        saved: Saved,
        batch_sizes: list[int],
        weights: LstmWeights,
        gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> Gradients:
        """Run all steps backward.

        Only what a step needs from the next one is computed step by step, the factors of the non-linearities for all
        words at once.

        Args:
            saved: What the forward pass saved.
            batch_sizes: As in the call.
            weights: As in the call.
            gradients: Of the hidden states `[2, N, P]`, and of the final state `[2, B, P]` and `[2, B, C]`.

        Returns:
            The gradients of the gate inputs `[2, N, G * C]`, of the hidden states before clip and dropout
            `[2, N, P]`, and of the initial state `[2, B, P]` and `[2, B, C]`.
        """
        to_gates, to_cell, to_previous = gate_factors(saved, batch_sizes, weights)
        inside = None
        if weights.output is not None and weights.projection_clip is not None:
            inside = saved.outputs.abs() < weights.projection_clip
        result = torch.empty_like(to_gates)
        # what flows back from the next step, or from the final state
        outputs_gradient, hidden_gradient, cell_gradient = (part.clone() for part in gradients)
        recurrent = weights.recurrent.transpose(1, 2)
        output = None if weights.output is None else weights.output.transpose(1, 2)
        starts = list(itertools.accumulate(batch_sizes, initial=0))
        for start, running in zip(reversed(starts[:-1]), reversed(batch_sizes), strict=True):
            words = slice(start, start + running)
            # [2, n, P]
            hidden = outputs_gradient[:, words]
            hidden += hidden_gradient[:, :running]
            if saved.dropout is not None:
                hidden *= saved.dropout[:, :running]
            if inside is not None:
                hidden *= inside[:, words]
            # [2, n, C]
            squashed = hidden if output is None else torch.bmm(hidden, output)
            cell = cell_gradient[:, :running]
            cell += squashed * to_cell[:, words]
            torch.mul(to_gates[:, words, :3], cell[:, :, None], out=result[:, words, :3])
            torch.mul(to_gates[:, words, 3:], squashed[:, :, None], out=result[:, words, 3:])
            cell *= to_previous[:, words]
            # [2, n, P]
            hidden_gradient[:, :running] = torch.bmm(result[:, words].flatten(2), recurrent)
        return result.flatten(2), outputs_gradient, hidden_gradient, cell_gradient


def gate_factors(
    saved: Saved, batch_sizes: list[int], weights: LstmWeights
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the local derivatives of the gates and cells of all words.

    Args:
        saved: What the forward pass saved.
        batch_sizes: As in the call.
        weights: As in the call.

    Returns:
        `[2, N, G, C]`, the factors from the gradient of the cell to those of i, f and g, and from the gradient of the
        hidden state before its projection to those of o and r; `[2, N, C]`, from the gradient of this hidden state to
        that of the cell; `[2, N, C]`, from the gradient of the cell to that of the previous cell.
    """
    i, f, g, o, *r = saved.gates.split(saved.cells.shape[2], dim=2)
    squashed, before = saved.cells.tanh(), previous(saved.initial_cell, saved.cells, batch_sizes)
    factors = [g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o)]
    to_cell, to_previous = o * (1 - squashed * squashed), f
    if saved.carried is not None:
        share, around = r[0], saved.carried[:, : saved.cells.shape[1]]
        factors = [*factors[:3], share * factors[3], (o * squashed - around) * share * (1 - share)]
        to_cell = share * to_cell
    to_gates = torch.stack(factors, dim=2)
    if weights.cell_clip is not None:
        # a clipped cell passes no gradient
        inside = saved.cells.abs() < weights.cell_clip
        to_gates[:, :, :3] *= inside[:, :, None]
        to_previous = f * inside
    return to_gates, to_cell, to_previous


def previous(initial: torch.Tensor, later: torch.Tensor, batch_sizes: list[int]) -> torch.Tensor:
    """Return the state from which each packed word started, `[2, N, width]`.

    Args:
        initial: `[2, B, width]`, the state before the first words.
        later: `[2, N, width]`, the states after all words.
        batch_sizes: The number of running sentences at each time.
    """
    starts = itertools.accumulate(batch_sizes, initial=0)
    earlier = [later[:, start : start + running] for start, running in zip(starts, batch_sizes[1:], strict=False)]
    return torch.cat([initial[:, : max(batch_sizes[:1], default=0)].to(later), *earlier], dim=1)


def differentiable_lstm(
    backend: Backend, call: LstmCall, below: torch.Tensor, projections: InputProjections
) -> Output:
    """Run a backend so that gradients flow through it.

    Args:
        backend: The backend.
        call: The layer, with its gate inputs. If the projections are linear, no gradient flows into these.
        below: `[2, N + spare, D]`, from which they were computed.
        projections: By which they were computed.
    """
    sources = [below, *projections.parameters()] if projections.are_linear() else []
    weights = call.weights
    outputs, hidden, cell = LstmFunction.apply(
        (backend, call.batch_sizes, weights.cell_clip, weights.projection_clip, projections.forget_bias),
        torch.is_grad_enabled(),
        call.inputs,
        *call.state,
        call.carried,
        call.dropout,
        weights.recurrent,
        weights.output,
        *sources,
    )
    return outputs, (hidden, cell)


class LstmFunction(torch.autograd.Function):
    """A layer with the backward pass of a backend.

    Gradients flow into the sources of the gate inputs, or into the inputs themselves if no sources are given. The
    backend's gradients are constants to torch. When a graph of the gradients is asked for, the reference computes them
    instead, from the sources, so that the gate inputs need not be saved.
    """

    @staticmethod
    def forward(
        ctx: Any,
        options: tuple[Backend, list[int], float | None, float | None, float],
        grad_enabled: bool,
        inputs: torch.Tensor,
        hidden: torch.Tensor,
        cell: torch.Tensor,
        carried: torch.Tensor | None,
        dropout: torch.Tensor | None,
        recurrent: torch.Tensor,
        output: torch.Tensor | None,
        *sources: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the hidden states `[2, N, P]`, and the state after each sentence's last word."""
        backend, batch_sizes, cell_clip, projection_clip, _ = options
        # the products of mixed precision are those of the inputs
        weights = LstmWeights(recurrent, output, cell_clip, projection_clip).to(inputs.dtype)
        call, buffers = LstmCall(inputs, None, batch_sizes, (hidden, cell), weights, carried, dropout), None
        if grad_enabled and any(ctx.needs_input_grad):
            directions, _, gates = inputs.shape
            words = sum(batch_sizes)
            buffers = inputs.new_empty(directions, words, gates), inputs.new_empty(directions, words, cell.shape[2])
        with torch.autocast(inputs.device.type, enabled=False):
            outputs, final = backend.forward(call, buffers)
        if buffers is not None:
            ctx.save_for_backward(*buffers, outputs, hidden, cell, carried, dropout, recurrent, output, *sources)
            ctx.options, ctx.spare = options, inputs.shape[1] - words
        return outputs, *final

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of the gate inputs, the initial state, what is carried, the weights and the sources."""
        # gradient checkpointing lets them be read only once
        tensors = ctx.saved_tensors
        *saved, recurrent, output = tensors[:9]
        sources = tensors[9:]
        _, _, cell_clip, projection_clip, _ = ctx.options
        weights = LstmWeights(recurrent, output, cell_clip, projection_clip)
        to_inputs, to_sources = None, list[torch.Tensor | None]()
        # `create_graph=True`
        if torch.is_grad_enabled():
            found = differentiable_gradients(ctx.options, Saved(*saved), weights, sources, gradients)
            found, to_sources = found[:5], found[5:]
        else:
            to_gates, *found = backend_gradients(ctx.options, Saved(*saved), weights, ctx.spare, gradients)
            if sources:
                to_sources = source_gradients(to_gates, sources, ctx.needs_input_grad[9:])
            else:
                to_inputs = with_spare(to_gates, ctx.spare)
        to_hidden, to_cell, to_carried, *weight_gradients = found
        return None, None, to_inputs, to_hidden, to_cell, to_carried, None, *weight_gradients, *to_sources


def backend_gradients(
    options: tuple[Backend, list[int], float | None, float | None, float],
    saved: Saved,
    weights: LstmWeights,
    spare: int,
    gradients: tuple[torch.Tensor, ...],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor, torch.Tensor | None]:
    """Compute the gradients of a layer by its backend, those of the weights for all words at once.

    Args:
        options: As of `LstmFunction.forward`.
        saved: What the forward pass saved.
        weights: As they were given.
        spare: The number of rows of the gate inputs beyond the words.
        gradients: Of the hidden states `[2, N, P]`, and of the final state `[2, B, P]` and `[2, B, C]`.

    Returns:
        The gradients of the gate inputs, without spare rows, of the initial state, of what is carried, and of the
        recurrent and output weights.
    """
    backend, batch_sizes = options[:2]
    dtype, first_hidden, first_cell = saved.outputs.dtype, saved.initial_hidden, saved.initial_cell
    cell_width = saved.cells.shape[2]
    outputs_gradient, hidden_gradient, cell_gradient = gradients
    incoming = outputs_gradient, hidden_gradient.to(dtype), cell_gradient.to(dtype)
    saved = saved._replace(initial_cell=first_cell.to(dtype))
    inputs_gradient, projected_gradient, hidden_gradient, cell_gradient = backend.backward(
        saved, batch_sizes, weights.to(dtype), incoming
    )
    before = previous(first_hidden, saved.outputs, batch_sizes)
    recurrent_gradient = torch.bmm(before.transpose(1, 2), inputs_gradient).to(weights.recurrent.dtype)
    carried_gradient = output_gradient = None
    if saved.carried is not None:
        carried_gradient = (1 - saved.gates[:, :, 4 * cell_width :]) * projected_gradient
        carried_gradient = with_spare(carried_gradient, spare)
    if weights.output is not None:
        # torch's tanh of bfloat16 takes three times as long as that of float32
        cells = saved.cells.to(torch.promote_types(dtype, torch.float32)).tanh()
        squashed = saved.gates[:, :, 3 * cell_width : 4 * cell_width] * cells.to(dtype)
        output_gradient = torch.bmm(squashed.transpose(1, 2), projected_gradient).to(weights.output.dtype)
    return (
        inputs_gradient,
        hidden_gradient.to(first_hidden.dtype),
        cell_gradient.to(first_cell.dtype),
        carried_gradient,
        recurrent_gradient,
        output_gradient,
    )


def source_gradients(
    to_gates: torch.Tensor, sources: tuple[torch.Tensor, ...], wanted: Sequence[bool]
) -> list[torch.Tensor | None]:
    """Compute the gradients of what the gate inputs were computed from by linear maps.

    Args:
        to_gates: The gradients of the gate inputs, `[2, N, G * C]`.
        sources: The output of the layer below, `[2, N + spare, D]`, and the weight and bias of each direction.
        wanted: Which of them need a gradient.

    Returns:
        The gradient of each source, `None` where it needs none.
    """
    below, *parameters = sources
    words, dtype = to_gates.shape[1], to_gates.dtype
    to_below = None
    if wanted[0]:
        # the spare rows are read by no word
        to_below = torch.zeros_like(below, memory_format=torch.contiguous_format)
        for gradient, weight, result in zip(to_gates, parameters[::2], to_below, strict=True):
            result[:words] = gradient @ weight.to(dtype)
    found = [to_below]
    for n, parameter in enumerate(parameters):
        gradient = to_gates[n // 2]
        if not wanted[n + 1]:
            found.append(None)
        elif n % 2:
            found.append(gradient.sum(dim=0).to(parameter.dtype))
        else:
            found.append((gradient.T @ below[n // 2, :words].to(dtype)).to(parameter.dtype))
    return found


def with_spare(gradients: torch.Tensor, spare: int) -> torch.Tensor:
    """Append rows of zeros to `[2, N, ...]`; `pad` would write all of the other rows twice."""
    return torch.cat([gradients, gradients.new_zeros(len(gradients), spare, *gradients.shape[2:])], dim=1)


def differentiable_gradients(
    options: tuple[Backend, list[int], float | None, float | None, float],
    saved: Saved,
    weights: LstmWeights,
    sources: tuple[torch.Tensor, ...],
    gradients: tuple[torch.Tensor, ...],
) -> list[torch.Tensor | None]:
    """Compute the gradients of a layer so that they can be differentiated again.

    Args:
        options: As of `LstmFunction.forward`.
        saved: What the forward pass saved.
        weights: As they were given.
        sources: The output of the layer below, and the weight and bias of each direction's projection.
        gradients: Of the hidden states `[2, N, P]`, and of the final state `[2, B, P]` and `[2, B, C]`.

    Returns:
        The gradients of the initial state, what is carried, the recurrent and output weights, and the sources.

    Raises:
        RuntimeError: If the gate inputs cannot be computed again.
    """
    if not sources:
        raise RuntimeError(
            "This layer's input projections are no plain linear maps, so its gradients have no graph: for second "
            "derivatives set ELMO_HF_RECURRENCE=reference."
        )
    _, batch_sizes, cell_clip, projection_clip, forget_bias = options
    cell_width = saved.cells.shape[2]

    def run(
        hidden: torch.Tensor,
        cell: torch.Tensor,
        carried: torch.Tensor | None,
        recurrent: torch.Tensor,
        output: torch.Tensor | None,
        below: torch.Tensor,
        *parameters: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        products = [nn.functional.linear(rows, *parameters[2 * n : 2 * n + 2]) for n, rows in enumerate(below)]
        inputs = torch.stack(products)
        inputs[..., cell_width : 2 * cell_width] += forget_bias
        weights = LstmWeights(recurrent, output, cell_clip, projection_clip)
        state = hidden.to(inputs), cell.to(inputs)
        outputs, final = reference_lstm(LstmCall(inputs, None, batch_sizes, state, weights, carried, saved.dropout))
        return outputs, *final

    with torch.autocast(sources[0].device.type, enabled=False):
        initial = saved.initial_hidden, saved.initial_cell
        arguments = (*initial, saved.carried, weights.recurrent, weights.output, *sources)
        return recompute_gradients(run, arguments, gradients)


__all__ = [
    "InputProjections",
    "LstmCall",
    "LstmWeights",
    "Saved",
    "TorchBackend",
    "backends",
    "read_sentences",
    "reference_lstm",
    "run_lstm",
]
