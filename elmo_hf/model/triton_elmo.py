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
"""The recurrence on a GPU: products by torch, and all else of a step by the kernels in `kernels_elmo`.

Memory is taken once a layer, and nothing in a step waits for the GPU. Before they are used, the kernels have to
agree with torch on the device and in the dtype at hand; where they do not, or cannot be compiled, torch computes.
The shapes are those of `recurrence_elmo`.
"""

import functools
import itertools
import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from transformers.utils import logging


logger = logging.get_logger(__name__)

# columns of a program: 4 numbers for each of its 128 threads
BLOCK = 512
# how far the kernels may be from torch, as a share of the largest number; products may be in TF32
TOLERANCES = {torch.float32: 5e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}

Steps = Callable[..., tuple[torch.Tensor, ...]]


class Room(NamedTuple):
    """The tensors of a layer, all contiguous; `R` rows of which a step takes those that run.

    Attributes:
        inputs: `[2, N + spare, 4 * C]`, the input's share of the gates.
        starts: `[T + 1]`, int32, where the words of each step begin, and where the last end.
        hidden: `[2, R, P]`, the state, before and after a step.
        cell: `[2, R, C]`, as `hidden`.
        product: `[2, R, 4 * C]`, the hidden state's share of the gates.
        squashed: `[2, R, C]`, `o * tanh(cell)`.
        projected: `[2, R, P]`, its projection; itself where there is none.
        outputs: `[2, N, P]`, the hidden states of all words.
        gates: `[2, N, 4 * C]`, after their non-linearities, if they are kept.
        cells: `[2, N, C]`, if they are kept.
    """

    inputs: torch.Tensor
    starts: torch.Tensor
    hidden: torch.Tensor
    cell: torch.Tensor
    product: torch.Tensor
    squashed: torch.Tensor
    projected: torch.Tensor
    outputs: torch.Tensor
    gates: torch.Tensor
    cells: torch.Tensor


def take_room(
    inputs: torch.Tensor,
    starts: torch.Tensor,
    state: tuple[torch.Tensor, torch.Tensor],
    words: int,
    *,
    projects: bool,
    keeps: bool,
) -> Room:
    """Take the memory of a layer; `state` becomes part of it and is written to."""
    hidden, cell = state
    rows, width, cell_width = hidden.shape[1], hidden.shape[2], cell.shape[2]
    squashed = torch.empty_like(cell)
    kept = words if keeps else 0
    return Room(
        inputs=inputs,
        starts=starts,
        hidden=hidden,
        cell=cell,
        product=inputs.new_empty(2, rows, 4 * cell_width),
        squashed=squashed,
        projected=torch.empty_like(hidden) if projects else squashed,
        outputs=inputs.new_empty(2, words, width),
        gates=inputs.new_empty(2, kept, 4 * cell_width),
        cells=inputs.new_empty(2, kept, cell_width),
    )


def take_steps(
    room: Room,
    rows: list[int],
    matrices: tuple[torch.Tensor, torch.Tensor | None],
    clips: tuple[float | None, float | None],
    *,
    keeps: bool,
) -> None:
    """Take steps of so many rows each; of the rows, `room.starts` says which run."""
    from .kernels_elmo import step_gates, step_hidden

    recurrent, output = matrices
    cell_clip, projection_clip = limits(clips, room.cell.dtype)
    sentences, width = room.hidden.shape[1:]
    words, cell_width = room.outputs.shape[1], room.cell.shape[2]
    for time, running in enumerate(rows):
        torch.bmm(room.hidden[:, :running], recurrent, out=room.product[:, :running])
        step_gates[grid(running, cell_width)](
            room.inputs,
            room.product,
            room.starts,
            room.cell,
            room.squashed,
            room.gates,
            room.cells,
            time,
            room.inputs.shape[1],
            words,
            sentences,
            cell_width,
            cell_clip,
            keeps=keeps,
            block=BLOCK,
        )
        if output is not None:
            torch.bmm(room.squashed[:, :running], output, out=room.projected[:, :running])
        step_hidden[grid(running, width)](
            room.projected,
            room.starts,
            room.hidden,
            room.outputs,
            time,
            words,
            sentences,
            width,
            math.inf if output is None else projection_clip,
            block=BLOCK,
        )


def limits(clips: tuple[float | None, float | None], dtype: torch.dtype) -> list[float]:
    """Round the clips to numbers of a dtype, so that what was clipped is known by it; infinity where there is none."""
    return [math.inf if limit is None else torch.tensor(limit, dtype=dtype, device="cpu").item() for limit in clips]


def grid(rows: int, columns: int) -> tuple[int, int, int]:
    """Count the programs of a kernel: rows, directions and blocks of columns."""
    return rows, 2, -(-columns // BLOCK)


def to_device(numbers: list[Any], device: torch.device) -> torch.Tensor:
    """Bring integers to a device without waiting for it."""
    return torch.tensor(numbers, dtype=torch.int32, device="cpu").to(device, non_blocking=True)


def triton_steps(
    inputs: torch.Tensor,
    steps: list[int],
    state: tuple[torch.Tensor, torch.Tensor],
    matrices: tuple[torch.Tensor, torch.Tensor | None],
    clips: tuple[float | None, float | None],
    keeps: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run all steps of a layer by the kernels; arguments and result as in `torch_steps` of the recurrence."""
    starts = to_device([0, *itertools.accumulate(steps)], inputs.device)
    # both are written to: they become the state at the end
    hidden, cell = (part.to(inputs.dtype).clone(memory_format=torch.contiguous_format) for part in state)
    projects = matrices[1] is not None
    room = take_room(inputs.contiguous(), starts, (hidden, cell), sum(steps), projects=projects, keeps=keeps)
    with torch.cuda.device_of(inputs):
        take_steps(room, steps, matrices, clips, keeps=keeps)
    return room.outputs, room.hidden, room.cell, room.gates, room.cells


def triton_back(
    kept: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    steps: list[int],
    first_cell: torch.Tensor,
    matrices: tuple[torch.Tensor, torch.Tensor | None],
    clips: tuple[float | None, float | None],
    slopes: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Go back through all steps by the kernels; arguments and result as in `torch_back` of the recurrence."""
    from .kernels_elmo import back_gates

    gates, cells, outputs = (part.contiguous() for part in kept)
    first_cell = first_cell.contiguous()
    recurrent, output = matrices
    sentences, cell_width = first_cell.shape[1:]
    cell_clip, projection_clip = limits(clips, cells.dtype)
    # written to: the slopes of the projections' results, and of the state that was started from
    outputs_slope, hidden_slope, cell_slope = (part.clone(memory_format=torch.contiguous_format) for part in slopes)
    inside = None
    if output is not None and clips[1] is not None:
        inside = (outputs.abs() < projection_clip).to(outputs.dtype)
        outputs_slope *= inside
    squashed_slope, result = torch.empty_like(cell_slope), torch.empty_like(gates)
    starts = [0, *itertools.accumulate(steps)]
    with torch.cuda.device_of(gates):
        for time in reversed(range(len(steps))):
            start, running = starts[time], steps[time]
            # [2, n, P]
            hidden = outputs_slope[:, start : start + running]
            if inside is None:
                hidden += hidden_slope[:, :running]
            else:
                hidden.addcmul_(hidden_slope[:, :running], inside[:, start : start + running])
            # [2, n, C]
            if output is None:
                squashed_slope[:, :running] = hidden
            else:
                torch.bmm(hidden, output.transpose(1, 2), out=squashed_slope[:, :running])
            back_gates[grid(running, cell_width)](
                gates,
                cells,
                first_cell,
                squashed_slope,
                cell_slope,
                result,
                start,
                starts[time - 1] if time else -1,
                cells.shape[1],
                sentences,
                cell_width,
                cell_clip,
                block=BLOCK,
            )
            # [2, n, P]
            words = result[:, start : start + running]
            torch.bmm(words, recurrent.transpose(1, 2), out=hidden_slope[:, :running])
    return result, outputs_slope, hidden_slope, cell_slope


def kernels_fit(inputs: torch.Tensor, *others: torch.Tensor | None) -> bool:
    """Tell whether tensors are what the kernels read: plain ones on one GPU, up to float32.

    Triton's interpreter reads those on a CPU.
    """
    device = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    return (
        inputs.device.type == device
        and inputs.dtype in TOLERANCES
        and not torch.compiler.is_compiling()
        and all(
            tensor is None or (type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device == inputs.device)
            for tensor in (inputs, *others)
        )
    )


@functools.cache
def kernels_missing(device: torch.device, dtype: torch.dtype, by_torch: tuple[Steps, Steps]) -> str | None:
    """Compare the kernels with torch, once; tell why they cannot be used, or give `None`. Logs which.

    Args:
        device: Where to compute.
        dtype: Of the inputs.
        by_torch: `torch_steps` and `torch_back` of the recurrence.
    """
    try:
        with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, enabled=False):
            far = distance(device, dtype, by_torch)
        # no number is not near either
        reason = None if far <= TOLERANCES[dtype] else f"the kernels are {far:.2g} from torch"
    # whatever a driver, a compiler or another version of Triton does: torch can go on
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        logger.debug("Triton fails", exc_info=True)
    if reason is None:
        logger.info(f"elmo_hf computes recurrences in {dtype} on {device} by its kernels in Triton")
    else:
        logger.info(f"elmo_hf computes recurrences in {dtype} on {device} by torch, not Triton: {reason}")
    return reason


def distance(device: torch.device, dtype: torch.dtype, by_torch: tuple[Steps, Steps]) -> float:
    """Measure how far results and slopes of a small layer are from torch's, as a share of the largest of each."""
    generator = torch.Generator(device="cpu").manual_seed(0)
    steps, width, cell_width = [3, 3, 2], 24, 40

    def random(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=generator, device="cpu") / 2).to(device, dtype)

    # torch reads some rows more
    inputs, state = random(2, sum(steps) + 16, 4 * cell_width), (random(2, 4, width), random(2, 4, cell_width))
    matrices, clips = (random(2, width, 4 * cell_width), random(2, cell_width, width)), (0.5, 0.5)
    slopes = random(2, sum(steps), width), random(2, 4, width), random(2, 4, cell_width)
    forward = [run(inputs, steps, state, matrices, clips, True) for run in (by_torch[0], triton_steps)]
    outputs, _, _, gates, cells = forward[0]
    kept = gates, cells, outputs
    backward = [run(kept, steps, state[1], matrices, clips, slopes) for run in (by_torch[1], triton_back)]
    pairs = itertools.chain(zip(*forward, strict=True), zip(*backward, strict=True))
    return max(((one - other).abs().max() / one.abs().max()).item() for one, other in pairs)


__all__ = [
    "Room",
    "kernels_fit",
    "kernels_missing",
    "take_room",
    "take_steps",
    "to_device",
    "triton_back",
    "triton_steps",
]
