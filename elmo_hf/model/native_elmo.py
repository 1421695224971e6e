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
"""The compiled recurrence: `native_elmo.cpp`, compiled once on each machine, and called.

Only the installed package has the C++ file; code that came with a checkpoint computes by torch alone.
"""

import ctypes
import functools
import hashlib
import math
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import nn
from transformers.utils import logging


logger = logging.get_logger(__name__)

SOURCE = Path(__file__).with_name("native_elmo.cpp")
FLAGS = ["-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-pthread", "-shared", "-fPIC"]
SECONDS_TO_COMPILE = 120


class NotCompiledError(RuntimeError):
    """There is no compiled recurrence, and why."""


class Job(ctypes.Structure):
    """The C++ `Job`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("inputs", "below", "forward", "backward", "bias")),
        *((name, ctypes.c_void_p) for name in ("recurrent", "output", "hidden", "cell")),
        *((name, ctypes.c_void_p) for name in ("outputs", "gates", "cells", "outputs_slope")),
        *((name, ctypes.c_void_p) for name in ("hidden_slope", "cell_slope", "slopes", "steps")),
        *((name, ctypes.c_int64) for name in ("length", "sentences", "words", "rows", "input_width", "width")),
        *((name, ctypes.c_int64) for name in ("cell_width", "threads")),
        *((name, ctypes.c_float) for name in ("cell_clip", "projection_clip")),
    ]


def run(command: list[str], what: str) -> str:
    """Run a compiler; return what it prints."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS_TO_COMPILE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotCompiledError(f"{what}: {error}") from error
    if done.returncode:
        raise NotCompiledError(f"{what}: {(done.stderr.strip() or 'it says nothing').splitlines()[0]}")
    return done.stdout


def compiled() -> Path:
    """Compile the recurrence for this processor, unless that was done before; return the library.

    It lies where torch keeps what it compiles: in `TORCH_EXTENSIONS_DIR`, or `~/.cache/torch_extensions`.

    Raises:
        NotCompiledError: If there is no compiler, or it fails.
    """
    if not SOURCE.is_file():
        raise NotCompiledError("the code came with a checkpoint; install elmo_hf")
    compiler = shutil.which(os.environ.get("CXX") or "c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise NotCompiledError("there is no C++ compiler; install g++ or clang++")
    # what the compiler is and what the processor can, so that machines may share the folder
    seen = run([compiler, *FLAGS, "-dM", "-E", "-x", "c++", os.devnull], f"{compiler} fails")
    key = hashlib.sha256("\0".join([SOURCE.read_text(encoding="utf-8"), *FLAGS, seen]).encode()).hexdigest()[:16]
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or Path.home() / ".cache" / "torch_extensions"
    library = Path(root) / "elmo_hf" / f"recurrence-{key}.so"
    if not library.is_file():
        try:
            library.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=library.parent) as folder:
                made = Path(folder) / library.name
                logger.info(f"elmo_hf compiles its recurrence for this processor with {compiler}, once")
                run([compiler, *FLAGS, str(SOURCE), "-o", str(made)], f"{compiler} cannot compile {SOURCE}")
                made.replace(library)
        except OSError as error:
            raise NotCompiledError(f"{library.parent} cannot be written: {error}") from error
    return library


@functools.cache
def load() -> ctypes.CDLL | NotCompiledError:
    """Load the compiled recurrence, or tell why there is none; logs which, once."""
    try:
        library = ctypes.CDLL(str(compiled()))
        for name in ("elmo_recurrence", "elmo_recurrence_of_halves", "elmo_back", "elmo_multiplies_halves"):
            getattr(library, name).restype = ctypes.c_bool
    except (NotCompiledError, OSError, RuntimeError) as error:
        logger.info(f"elmo_hf computes recurrences by torch, since there is no compiled one: {error}")
        return NotCompiledError(str(error))
    logger.info("elmo_hf computes recurrences in float32 on the CPU by its compiled code")
    return library


def fits(*tensors: torch.Tensor | None, dtype: torch.dtype = torch.float32) -> bool:
    """Tell whether tensors are what the compiled recurrence reads: plain ones on the CPU, of one dtype."""
    return all(
        tensor is None
        or (type(tensor) in (torch.Tensor, nn.Parameter) and tensor.device.type == "cpu" and tensor.dtype == dtype)
        for tensor in tensors
    )


def is_trained(*tensors: torch.Tensor | None) -> bool:
    """Tell whether gradients may flow into one of some tensors."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def widens(tensor: torch.Tensor) -> bool:
    """Tell whether products of a tensor are faster in float32: of bfloat16, on a CPU that does not multiply it."""
    if tensor.dtype != torch.bfloat16 or tensor.device.type != "cpu":
        return False
    library = load()
    return not isinstance(library, NotCompiledError) and not library.elmo_multiplies_halves()


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Multiply `[..., D]` by the transpose of `[n, D]`; in float32 where that is faster and nothing is trained."""
    if is_trained(rows, weight, bias) or not widens(rows):
        return nn.functional.linear(rows, weight, bias)
    wide = None if bias is None else bias.float()
    return nn.functional.linear(rows.float(), weight.float(), wide).to(rows.dtype)


def call(
    name: str,
    steps: list[int],
    matrices: tuple[torch.Tensor, torch.Tensor | None],
    clips: tuple[float | None, float | None],
    **tensors: torch.Tensor,
) -> None:
    """Call a function of the compiled code with tensors, all contiguous, by the names of the fields of `Job`.

    Raises:
        NotCompiledError: If there is no compiled code.
        MemoryError: If there is not enough memory.
    """
    library = load()
    if isinstance(library, NotCompiledError):
        raise library
    recurrent, output = matrices[0].contiguous(), None if matrices[1] is None else matrices[1].contiguous()
    running = torch.tensor(steps, dtype=torch.int64)
    given = {**tensors, "recurrent": recurrent, "steps": running} | ({} if output is None else {"output": output})
    job = Job(
        **{field: tensor.data_ptr() for field, tensor in given.items()},
        length=len(steps),
        sentences=tensors["cell"].shape[1],
        words=sum(steps),
        rows=next((tensors[name].shape[1] for name in ("inputs", "below") if name in tensors), 0),
        input_width=tensors["below"].shape[2] if "below" in tensors else 0,
        width=recurrent.shape[1],
        cell_width=tensors["cell"].shape[2],
        threads=torch.get_num_threads(),
        cell_clip=math.inf if clips[0] is None else clips[0],
        projection_clip=math.inf if clips[1] is None else clips[1],
    )
    if not getattr(library, name)(ctypes.byref(job)):
        raise MemoryError("There is not enough memory for this batch: take fewer sentences at a time.")


def native_steps(
    inputs: torch.Tensor,
    steps: list[int],
    state: tuple[torch.Tensor, torch.Tensor],
    matrices: tuple[torch.Tensor, torch.Tensor | None],
    clips: tuple[float | None, float | None],
    keeps: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run all steps of a layer by the compiled code; arguments and result as in `torch_steps` of the recurrence."""
    # both are written to: they become the state at the end
    hidden, cell = (part.clone(memory_format=torch.contiguous_format) for part in state)
    cell_width, words = cell.shape[2], sum(steps)
    outputs = inputs.new_empty(2, words, hidden.shape[2])
    kept = {}
    if keeps:
        kept = {"gates": inputs.new_empty(2, words, 4 * cell_width), "cells": inputs.new_empty(2, words, cell_width)}
    tensors = {"inputs": inputs.contiguous(), "hidden": hidden, "cell": cell, "outputs": outputs, **kept}
    call("elmo_recurrence", steps, matrices, clips, **tensors)
    nothing = inputs.new_empty(0)
    return outputs, hidden, cell, kept.get("gates", nothing), kept.get("cells", nothing)


def native_reading(
    below: torch.Tensor,
    projections: tuple[list[torch.Tensor], torch.Tensor],
    steps: list[int],
    state: tuple[torch.Tensor, torch.Tensor],
    matrices: tuple[torch.Tensor, torch.Tensor | None],
    clips: tuple[float | None, float | None],
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Run all steps of a layer, the input's share of the gates too, by the compiled code.

    Args:
        below: `[2, N + spare, D]`, what the layer below says of each packed word.
        projections: The input weights of both directions, `[4 * C, D]` each, and the biases, `[2, 4 * C]` in float32.
        steps: As in `torch_steps` of the recurrence, and so are the others. All but the biases are in one dtype:
            float32, or bfloat16, which is widened.
        state: See `steps`.
        matrices: See `steps`.
        clips: See `steps`.

    Returns:
        The hidden states `[2, N, P]`, and the state after each sentence's last word.
    """
    (forward, backward), bias = projections
    # copies: they become the state at the end
    hidden, cell = (part.to(torch.float32, copy=True, memory_format=torch.contiguous_format) for part in state)
    outputs = hidden.new_empty(2, sum(steps), hidden.shape[2])
    call(
        "elmo_recurrence" if below.dtype == torch.float32 else "elmo_recurrence_of_halves",
        steps,
        matrices,
        clips,
        below=below.float().contiguous(),
        forward=forward.contiguous(),
        backward=backward.contiguous(),
        bias=bias.contiguous(),
        hidden=hidden,
        cell=cell,
        outputs=outputs,
    )
    return outputs.to(below.dtype), (hidden.to(below.dtype), cell.to(below.dtype))


def native_back(
    kept: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    steps: list[int],
    first_cell: torch.Tensor,
    matrices: tuple[torch.Tensor, torch.Tensor | None],
    clips: tuple[float | None, float | None],
    slopes: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Go back through all steps by the compiled code; arguments and result as in `torch_back` of the recurrence."""
    gates, cells, outputs = (part.contiguous() for part in kept)
    # written to: the slopes of the projections' results, and of the state that was started from
    through, hidden, cell = (part.clone(memory_format=torch.contiguous_format) for part in slopes)
    result = torch.empty_like(gates)
    tensors = {"gates": gates, "cells": cells, "outputs": outputs, "cell": first_cell.contiguous(), "slopes": result}
    call(
        "elmo_back",
        steps,
        matrices,
        clips,
        outputs_slope=through,
        hidden_slope=hidden,
        cell_slope=cell,
        **tensors,
    )
    return result, through, hidden, cell


__all__ = [
    "NotCompiledError",
    "fits",
    "is_trained",
    "linear",
    "load",
    "native_back",
    "native_reading",
    "native_steps",
    "widens",
]
