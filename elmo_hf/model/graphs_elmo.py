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
"""The recurrence on a GPU with one launch for several steps: CUDA graphs, for inference and when asked for.

A graph has the addresses of its tensors in it, so it works in memory of its own: the inputs of some steps are copied
to it, and the results from it. It takes as many sentences as it was made for, in every step; the kernels leave those
that have ended as they are, so that one graph serves sentences of all lengths. The weights it reads where they are: it
is for those addresses only, and whoever calls it holds what is there.
"""

import functools
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import nn
from transformers.utils import logging

from .triton_elmo import Room, take_room, take_steps, to_device, triton_steps


logger = logging.get_logger(__name__)

# of one graph
STEPS = 8
# with more, a step keeps the GPU busy for longer than its launches take
MOST_SENTENCES = 128
FEWEST_SENTENCES = 8
# the one unused for longest goes
MOST_GRAPHS = 8

Key = tuple[object, ...]


class Launch:
    """A function on tensors that stay where they are: a CUDA graph of it, or the function itself without a GPU."""

    def __init__(self, function: Callable[[], None], device: torch.device) -> None:
        self.run = function
        if device.type != "cuda":
            return
        # kernels are compiled before, not while the graph is made
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            function()
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # other threads, such as those that load data, may go on
        with torch.cuda.graph(graph, stream=capture_stream(device), capture_error_mode="thread_local"):
            function()
        # not the function, which would keep the weights
        self.run = graph.replay


@functools.cache
def capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream on which a device's graphs are made: torch's own is on the device that comes first."""
    return torch.cuda.Stream(device)


class Chunk:
    """`STEPS` steps of a layer for up to `rows` sentences."""

    def __init__(
        self,
        inputs: torch.Tensor,
        rows: int,
        matrices: tuple[torch.Tensor, torch.Tensor | None],
        clips: tuple[float | None, float | None],
    ) -> None:
        width, words = matrices[0].shape[1], rows * STEPS
        # what is made in inference mode could not be written to outside of it
        with torch.inference_mode(False), torch.no_grad():
            self.room = take_room(
                inputs.new_zeros(2, words, inputs.shape[2]),
                torch.zeros(STEPS + 1, dtype=torch.int32, device=inputs.device),
                (inputs.new_zeros(2, rows, width), inputs.new_zeros(2, rows, inputs.shape[2] // 4)),
                words,
                projects=matrices[1] is not None,
                keeps=False,
            )
            room = self.room
            self.launch = Launch(lambda: take_steps(room, [rows] * STEPS, matrices, clips, keeps=False), inputs.device)


class Chunks:
    """The graphs that were made, by what is in them."""

    def __init__(self) -> None:
        self.made: OrderedDict[Key, Chunk | None] = OrderedDict()
        # a graph and its memory are one caller's at a time
        self.lock = threading.Lock()

    def find(
        self,
        inputs: torch.Tensor,
        sentences: int,
        matrices: tuple[torch.Tensor, torch.Tensor | None],
        clips: tuple[float | None, float | None],
    ) -> Chunk | None:
        """Return the graph for so many sentences, made if need be; `None` where that failed before."""
        rows = max(FEWEST_SENTENCES, 1 << (sentences - 1).bit_length())
        stream = torch.cuda.current_stream(inputs.device).cuda_stream if inputs.is_cuda else 0
        weights = tuple(
            (matrix.data_ptr(), matrix.shape, matrix.stride()) for matrix in matrices if matrix is not None
        )
        key = (rows, inputs.dtype, inputs.device, stream, clips, weights, torch.get_float32_matmul_precision())
        if key not in self.made:
            if len(self.made) >= MOST_GRAPHS:
                if inputs.is_cuda:
                    # it may still be running
                    torch.cuda.synchronize(inputs.device)
                self.made.popitem(last=False)
            try:
                self.made[key] = Chunk(inputs, rows, matrices, clips)
            except RuntimeError as error:
                logger.warning(f"elmo_hf takes single steps, since a CUDA graph cannot be made: {error}")
                self.made[key] = None
        self.made.move_to_end(key)
        return self.made[key]


CHUNKS = Chunks()


def graph_steps(
    inputs: torch.Tensor,
    steps: list[int],
    state: tuple[torch.Tensor, torch.Tensor],
    matrices: tuple[torch.Tensor, torch.Tensor | None],
    clips: tuple[float | None, float | None],
    keeps: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run all steps of a layer by graphs; arguments and result as in `torch_steps` of the recurrence.

    Single steps by `triton_steps` where a backward pass will follow, for more than `MOST_SENTENCES`, and for weights
    that are made anew for each call, as mixed precision does.
    """
    lasting = all(matrix is None or isinstance(matrix, nn.Parameter) for matrix in matrices)
    if keeps or not lasting or not steps or steps[0] > MOST_SENTENCES:
        return triton_steps(inputs, steps, state, matrices, clips, keeps)
    with CHUNKS.lock, torch.cuda.device_of(inputs):
        chunk = CHUNKS.find(inputs, steps[0], matrices, clips)
        if chunk is not None:
            return *run_chunks(chunk, inputs, steps, state), inputs.new_empty(0), inputs.new_empty(0)
    return triton_steps(inputs, steps, state, matrices, clips, keeps)


def run_chunks(
    chunk: Chunk, inputs: torch.Tensor, steps: list[int], state: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run all steps by one graph, `STEPS` at a time; return all hidden states and the last state of each sentence."""
    room: Room = chunk.room
    running = steps[0]
    outputs = inputs.new_empty(2, sum(steps), room.hidden.shape[2])
    room.hidden[:, :running], room.cell[:, :running] = state[0][:, :running], state[1][:, :running]
    # at the end, steps without words
    parts = [(steps[first : first + STEPS] + [0] * STEPS)[:STEPS] for first in range(0, len(steps), STEPS)]
    # [chunks, STEPS + 1]
    starts = to_device([[0, *itertools.accumulate(part)] for part in parts], inputs.device)
    begin = 0
    for part, begins in zip(parts, starts, strict=True):
        words = sum(part)
        room.starts.copy_(begins)
        room.inputs[:, :words] = inputs[:, begin : begin + words]
        chunk.launch.run()
        outputs[:, begin : begin + words] = room.outputs[:, :words]
        begin += words
    hidden, cell = (part.to(inputs.dtype, copy=True) for part in state)
    hidden[:, :running], cell[:, :running] = room.hidden[:, :running], room.cell[:, :running]
    return outputs, hidden, cell


__all__ = ["graph_steps"]
