"""The compiled recurrence for CPUs: `native.cpp`, which is compiled once on each machine."""

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

from .contract import Gradients, LstmCall, LstmWeights, Output, Saved


logger = logging.get_logger(__name__)

SOURCE = Path(__file__).with_name("native.cpp")
FLAGS = ["-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-pthread", "-shared", "-fPIC"]
SECONDS_TO_COMPILE = 120


class NotCompiledError(RuntimeError):
    """The recurrence cannot be compiled on this machine; the message says why."""


class Job(ctypes.Structure):
    """The C++ `Job`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("inputs", "below", "forward", "backward", "bias")),
        *((name, ctypes.c_void_p) for name in ("carried", "dropout", "recurrent", "output", "hidden", "cell")),
        *((name, ctypes.c_void_p) for name in ("outputs", "gates", "cells", "outputs_gradient")),
        *((name, ctypes.c_void_p) for name in ("hidden_gradient", "cell_gradient", "gradients", "batch_sizes")),
        *((name, ctypes.c_int64) for name in ("length", "sentences", "words", "rows", "input_width", "width")),
        *((name, ctypes.c_int64) for name in ("cell_width", "threads", "directions")),
        *((name, ctypes.c_float) for name in ("cell_clip", "projection_clip")),
    ]


def run(command: list[str], failure: str) -> str:
    """Run a compiler and return its output.

    Args:
        command: The command and its arguments.
        failure: The beginning of the message if the command fails.

    Raises:
        NotCompiledError: If the command fails.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS_TO_COMPILE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotCompiledError(f"{failure}: {error}") from error
    if done.returncode:
        raise NotCompiledError(f"{failure}: {(done.stderr.strip() or 'it says nothing').splitlines()[0]}")
    return done.stdout


def compiled() -> Path:
    """Compile the recurrence for this processor unless that was done before, and return the library's path.

    The library is where torch keeps its extensions: in `TORCH_EXTENSIONS_DIR`, or `~/.cache/torch_extensions`.

    Raises:
        NotCompiledError: If there is no compiler, or it fails.
    """
    if not SOURCE.is_file():
        raise NotCompiledError(f"{SOURCE} is missing; install elmo_hf again")
    compiler = shutil.which(os.environ.get("CXX") or "c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise NotCompiledError("there is no C++ compiler; install g++ or clang++")
    # the compiler's version and the processor's features, so that machines can share the folder
    seen = run([compiler, *FLAGS, "-dM", "-E", "-x", "c++", os.devnull], f"{compiler} fails")
    key = hashlib.sha256("\0".join([SOURCE.read_text(encoding="utf-8"), *FLAGS, seen]).encode()).hexdigest()[:16]
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or Path.home() / ".cache" / "torch_extensions"
    library = Path(root) / "elmo_hf" / f"recurrence-{key}.so"
    if not library.is_file():
        try:
            library.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=library.parent) as folder:
                made = Path(folder) / library.name
                logger.info(f"elmo_hf compiles its recurrence for this processor with {compiler}; this happens once")
                run([compiler, *FLAGS, str(SOURCE), "-o", str(made)], f"{compiler} cannot compile {SOURCE}")
                made.replace(library)
        except OSError as error:
            raise NotCompiledError(f"{library.parent} cannot be written: {error}") from error
    return library


@functools.cache
def load() -> ctypes.CDLL | NotCompiledError:
    """Load the compiled recurrence once; return the reason if it cannot be compiled."""
    try:
        library = ctypes.CDLL(str(compiled()))
        for name in ("elmo_forward", "elmo_forward_bfloat16", "elmo_backward", "elmo_has_bfloat16_products"):
            getattr(library, name).restype = ctypes.c_bool
    except (NotCompiledError, OSError, RuntimeError) as error:
        return NotCompiledError(str(error))
    logger.info("elmo_hf runs its compiled recurrence on the CPU in float32")
    return library


class NativeBackend:
    """The compiled code, for plain float32 tensors on a CPU; in inference it computes the gate inputs too."""

    name = "native"

    def missing(self, call: LstmCall) -> str | None:
        """Return why the recurrence cannot be compiled; `None` if it can, or if the call is for another device."""
        library = load() if call.inputs.device.type == "cpu" else None
        return str(library) if isinstance(library, NotCompiledError) else None

    def declines(self, call: LstmCall) -> str | None:
        """Return why the compiled code does not take a call; `None` if it does."""
        dtype, tensors = torch.float32, [
            call.inputs, *call.state, call.weights.recurrent, call.weights.output, call.carried, call.dropout
        ]  # fmt: skip
        if call.projections is not None:
            tensors += call.projections.weights
            if call.inputs.dtype == torch.bfloat16 and fits(*tensors, dtype=torch.bfloat16) and widens(call.inputs):
                return None
        return None if fits(*tensors, dtype=dtype) else "it takes plain float32 tensors on a CPU"

    def forward(self, call: LstmCall, buffers: tuple[torch.Tensor, torch.Tensor] | None) -> Output:
        """Run all steps; see `Backend.forward`. With bfloat16 inputs, all sums are in float32."""
        dtype, inputs = call.inputs.dtype, call.inputs.float().contiguous()
        # copies, which become the final state
        hidden, cell = (
            part.to(torch.float32, copy=True, memory_format=torch.contiguous_format) for part in call.state
        )
        outputs = hidden.new_empty(len(hidden), sum(call.batch_sizes), hidden.shape[2])
        tensors = {"hidden": hidden, "cell": cell, "outputs": outputs} | more_tensors(call)
        if buffers is not None:
            tensors["gates"], tensors["cells"] = buffers
        if call.projections is None:
            tensors["inputs"] = inputs
        else:
            # of one direction, the forward one is the only one
            names = ("forward", "backward")[: len(hidden)]
            tensors |= dict(zip(names, (part.contiguous() for part in call.projections.weights), strict=True))
            tensors |= {"below": inputs, "bias": call.projections.bias.contiguous()}
        run_job(
            "elmo_forward" if dtype == torch.float32 else "elmo_forward_bfloat16",
            call.batch_sizes,
            call.weights,
            tensors,
        )
        return outputs.to(dtype), (hidden.to(dtype), cell.to(dtype))

    def backward(
        self,
        saved: Saved,
        batch_sizes: list[int],
        weights: LstmWeights,
        gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> Gradients:
        """Run all steps backward; see `Backend.backward`."""
        # copies, which become the gradients of the projected hidden states and of the initial state
        outputs, hidden, cell = (part.clone(memory_format=torch.contiguous_format) for part in gradients)
        result = torch.empty_like(saved.gates, memory_format=torch.contiguous_format)
        tensors = {
            "gates": saved.gates.contiguous(),
            "cells": saved.cells.contiguous(),
            "outputs": saved.outputs.contiguous(),
            "cell": saved.initial_cell.contiguous(),
            "outputs_gradient": outputs,
            "hidden_gradient": hidden,
            "cell_gradient": cell,
            "gradients": result,
            **more_tensors(saved),
        }
        run_job("elmo_backward", batch_sizes, weights, tensors)
        return result, outputs, hidden, cell


def more_tensors(source: LstmCall | Saved) -> dict[str, torch.Tensor]:
    """Return what a call, or what it saved, has of `carried` and `dropout`, in float32."""
    given = {"carried": source.carried, "dropout": source.dropout}
    return {name: tensor.float().contiguous() for name, tensor in given.items() if tensor is not None}


def run_job(function: str, batch_sizes: list[int], weights: LstmWeights, tensors: dict[str, torch.Tensor]) -> None:
    """Call a function of the compiled code.

    Args:
        function: Its name.
        batch_sizes: The number of running sentences at each time.
        weights: The weights of a step.
        tensors: Contiguous tensors by the names of the fields of `Job`.

    Raises:
        NotCompiledError: If there is no compiled code.
        MemoryError: If there is not enough memory.
    """
    library = load()
    if isinstance(library, NotCompiledError):
        raise library
    # held here until the call is over
    tensors = {**tensors, "recurrent": weights.recurrent.contiguous()}
    tensors["batch_sizes"] = torch.tensor(batch_sizes, dtype=torch.int64)
    if weights.output is not None:
        tensors["output"] = weights.output.contiguous()
    job = Job(
        **{field: tensor.data_ptr() for field, tensor in tensors.items()},
        length=len(batch_sizes),
        sentences=tensors["cell"].shape[1],
        words=sum(batch_sizes),
        # the backward pass reads what is carried only
        rows=next((tensors[name].shape[1] for name in ("inputs", "below", "carried") if name in tensors), 0),
        input_width=tensors["below"].shape[2] if "below" in tensors else 0,
        width=weights.recurrent.shape[1],
        cell_width=tensors["cell"].shape[2],
        threads=torch.get_num_threads(),
        directions=len(tensors["cell"]),
        cell_clip=math.inf if weights.cell_clip is None else weights.cell_clip,
        projection_clip=math.inf if weights.projection_clip is None else weights.projection_clip,
    )
    if not getattr(library, function)(ctypes.byref(job)):
        raise MemoryError("There is not enough memory for this batch: take fewer sentences at a time.")


def fits(*tensors: torch.Tensor | None, dtype: torch.dtype) -> bool:
    """Return whether all tensors are plain ones on the CPU, of one dtype; the compiled code reads their memory."""
    return all(
        tensor is None
        or (type(tensor) in (torch.Tensor, nn.Parameter) and tensor.device.type == "cpu" and tensor.dtype == dtype)
        for tensor in tensors
    )


def widens(tensor: torch.Tensor) -> bool:
    """Return whether products of a tensor are faster in float32: bfloat16, on a CPU without bfloat16 products."""
    if tensor.dtype != torch.bfloat16 or tensor.device.type != "cpu":
        return False
    library = load()
    return not isinstance(library, NotCompiledError) and not library.elmo_has_bfloat16_products()


def widened_linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor | None:
    """Compute `nn.functional.linear` in float32 and round the result, or return `None` where that is not faster."""
    if not widens(rows):
        return None
    wide_bias = None if bias is None else bias.float()
    return nn.functional.linear(rows.float(), weight.float(), wide_bias).to(rows.dtype)


__all__ = ["NativeBackend", "NotCompiledError", "load", "widened_linear", "widens"]
