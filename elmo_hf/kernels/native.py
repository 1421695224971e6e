"""The compiled recurrence and linear maps for CPUs: `cpp/recurrence.cpp`.

setup.py builds it for several levels of instructions.
"""

import ctypes
import functools
import math
import os
from pathlib import Path

import torch
from torch import nn
from transformers.utils import logging

from elmo_hf.errors import ElmoError, one_line
from elmo_hf.int8 import Int8Rows, ScaledIntegers

from .contract import Gradients, LinearMaps, LstmCall, LstmWeights, Output, Saved


logger = logging.get_logger(__name__)

# setup.py builds the libraries beside their source
FOLDER = Path(__file__).with_name("cpp")

# the lowest first; "plain" is the only one of processors other than x86-64
LEVELS = ("plain", "x86-64-v2", "x86-64-v3", "x86-64-v4")
# the highest level for each of torch's names of what the processor and the system allow; no processor has AVX2 and
# FMA, or what torch asks of AVX-512, without the rest
HIGHEST = {"AVX2": "x86-64-v3", "AVX512": "x86-64-v4"}

# how many times as long torch takes: docs/performance.md, "The compiled code"
SLOWER = "1.3 to 4.8"

# `elmo_job_version` of the libraries that this file can call
JOB_VERSION = 5

# largest allowed distance between two levels, whose numbers are below 1
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 2e-2}

# the function for each dtype of the weights
FORWARD = {
    torch.float32: "elmo_forward",
    torch.bfloat16: "elmo_forward_bfloat16",
    torch.int8: "elmo_forward_int8",
}
BACKWARD = {torch.float32: "elmo_backward", torch.bfloat16: "elmo_backward_bfloat16"}
LINEAR = {torch.float32: "elmo_linear", torch.bfloat16: "elmo_linear_bfloat16"}
# what is added to the names of those that multiply bfloat16 as it is, with both factors in bfloat16
PRODUCTS = "_products"
TABLES = FORWARD, BACKWARD, LINEAR
RUNS = [
    *(name for table in TABLES for name in table.values()),
    *(table[torch.bfloat16] + PRODUCTS for table in TABLES),
]


class NotBuiltError(RuntimeError):
    """This installation has no compiled recurrence that runs here; the message says why."""


class Job(ctypes.Structure):
    """The C++ `Job`. Whoever changes its fields raises `JOB_VERSION`."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("inputs", "below", "forward", "backward", "bias")),
        *((name, ctypes.c_void_p) for name in ("carried", "dropout", "recurrent", "output")),
        *((f"{name}_scales", ctypes.c_void_p) for name in ("forward", "backward", "recurrent", "output")),
        *((name, ctypes.c_void_p) for name in ("hidden", "cell")),
        *((name, ctypes.c_void_p) for name in ("outputs", "gates", "cells", "outputs_gradient")),
        *((name, ctypes.c_void_p) for name in ("hidden_gradient", "cell_gradient", "gradients", "batch_sizes")),
        *((name, ctypes.c_int64) for name in ("length", "sentences", "words", "rows", "input_width", "width")),
        *((name, ctypes.c_int64) for name in ("cell_width", "threads", "directions")),
        *((name, ctypes.c_float) for name in ("cell_clip", "projection_clip")),
    ]


def usable_libraries() -> dict[str, Path]:
    """Return the libraries that this processor and system can run, by their levels, the highest level first."""
    highest = HIGHEST.get(torch.backends.cpu.get_cpu_capability(), "x86-64-v2")
    levels = LEVELS[LEVELS.index(highest) :: -1]
    # the rest of a name is the system's: `.abi3.so`, `.pyd`
    return {level: path for level in levels for path in sorted(FOLDER.glob(f"{level}.*"))}


def find_libraries() -> list[Path]:
    """Return the libraries to try, the highest level first, or the one of the level in `ELMO_HF_LEVEL`.

    Raises:
        ElmoError: If `ELMO_HF_LEVEL` names a level that this machine cannot run.
        NotBuiltError: If there is no library.
    """
    libraries = usable_libraries()
    if not libraries:
        raise NotBuiltError(f"{FOLDER} has no library for this processor")
    forced = os.environ.get("ELMO_HF_LEVEL")
    if forced and forced not in libraries:
        raise ElmoError(f"ELMO_HF_LEVEL is {forced!r}; on this machine it can be one of {', '.join(libraries)}.")
    return [libraries[forced]] if forced else list(libraries.values())


def open_library(path: Path) -> ctypes.CDLL:
    """Open a library and check that it takes this file's `Job`.

    Raises:
        NotBuiltError: If it does not, or cannot be opened.
    """
    try:
        library = ctypes.CDLL(str(path))
        version = library.elmo_job_version()
    except (OSError, AttributeError) as error:
        raise NotBuiltError(f"{path} cannot be used: {one_line(error)}") from error
    if version != JOB_VERSION:
        raise NotBuiltError(f"{path} has version {version}, and this elmo_hf needs {JOB_VERSION}")
    for name in (*RUNS, "elmo_has_tiles"):
        getattr(library, name).restype = ctypes.c_bool
    return library


@functools.cache
def load() -> ctypes.CDLL | NotBuiltError:
    """Open the compiled recurrence once; without one, warn once and return the reason.

    Raises:
        ElmoError: If `ELMO_HF_LEVEL` names a level that this machine cannot run.
    """
    try:
        library = choose_library(find_libraries())
    except NotBuiltError as error:
        logger.warning(
            f"elmo_hf computes LSTMs on this CPU by torch, which takes {SLOWER} times as long as its compiled code: "
            f"{error}. Install a wheel of elmo_hf for this machine, or its source again where there is a C++ "
            "compiler, with `pip install --force-reinstall --no-deps --no-cache-dir`."
        )
        return error
    return library


def choose_library(paths: list[Path]) -> ctypes.CDLL:
    """Open the first library that computes what the last one does, or the last one itself.

    Raises:
        NotBuiltError: If a library cannot be used.
    """
    *higher, lowest = paths
    for path in higher:
        library = open_library(path)
        if agree(library, open_library(lowest)):
            break
        logger.warning(
            f"elmo_hf does not use {path}, which computes other numbers than {lowest.name} on this machine."
        )
    else:
        path, library = lowest, open_library(lowest)
    logger.info(f"elmo_hf runs its compiled recurrence on the CPU: {path.name}")
    return library


def agree(one: ctypes.CDLL, other: ctypes.CDLL) -> bool:
    """Return whether two libraries compute the same small layer, in each dtype of weights, and its gradients."""
    pairs = zip(compute_small_layers(one), compute_small_layers(other), strict=True)
    # a distance that is not a number is not below either
    return all((mine - theirs).abs().max() <= TOLERANCES[mine.dtype] for mine, theirs in pairs)


@torch.no_grad()
@torch.autocast("cpu", enabled=False)
def compute_small_layers(library: ctypes.CDLL) -> list[torch.Tensor]:
    """Run a library on layers with odd sizes, and with as many sentences as each of its products takes."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return 0.1 * torch.randn(shape, generator=generator)

    batch_sizes, width, cell_width = [15, 14, 2, 1], 21, 37
    inputs, state = random(2, sum(batch_sizes), width), (random(2, 15, width), random(2, 15, cell_width))
    maps = LinearMaps([random(4 * cell_width, width), random(4 * cell_width, width)], random(2, 4 * cell_width))
    recurrent, projection = random(2, width, 4 * cell_width), random(2, cell_width, width)
    weights = LstmWeights(recurrent, projection, 0.2, 0.1)
    gates = torch.baddbmm(maps.bias[:, None], inputs, torch.stack(maps.weights).mT)
    found = []

    def as_integers(weight: torch.Tensor) -> torch.Tensor:
        return ScaledIntegers(*Int8Rows((1,)).right_inverse(weight))

    kinds = [(torch.Tensor.float, False), (as_integers, False)]
    kinds += [(torch.Tensor.bfloat16, products) for products in (False, True)]
    for store, products in kinds:
        backend = NativeBackend(library, products)
        own = weights._replace(recurrent=store(recurrent), output=store(projection))
        own_maps = maps._replace(weights=[store(weight) for weight in maps.weights])
        dtype = own.recurrent.dtype
        own_state = (state[0].to(dtype), state[1].to(dtype))
        output, final = backend.forward(LstmCall(inputs.to(dtype), own_maps, batch_sizes, own_state, own), None)
        found += [output, *final]
        if store is as_integers:
            continue
        own_gates = gates.to(dtype)
        buffers = torch.empty_like(own_gates), random(2, sum(batch_sizes), cell_width).to(dtype)
        output, final = backend.forward(LstmCall(own_gates, None, batch_sizes, own_state, own), buffers)
        saved = Saved(*buffers, output, *own_state)
        found += [output, *backend.backward(saved, batch_sizes, own, (output, *final))]
        found.append(compute_linear(library, inputs.to(dtype), own_maps.weights[0], maps.bias[0], products))
    return found


class NativeBackend:
    """The compiled code, for plain tensors on a CPU, in float32 or bfloat16.

    In inference it computes the gate inputs too, and weights may also be in int8. Sums, cells and non-linearities are
    in float32, whatever the dtype.

    Args:
        library: The library to run; by default the one that `load` returns.
        products: Whether it multiplies bfloat16 as it is; by default, where the processor has tiles for that.
    """

    name = "native"

    def __init__(self, library: ctypes.CDLL | None = None, products: bool | None = None) -> None:
        self.library, self.products = library, products

    def missing(self, call: LstmCall) -> str | None:
        """Return why there is no compiled code; `None` if there is, or if the call is for another device."""
        library = load() if call.inputs.device.type == "cpu" else None
        return str(library) if isinstance(library, NotBuiltError) else None

    def declines(self, call: LstmCall) -> str | None:
        """Return why the compiled code does not take a call; `None` if it does."""
        tensors = [call.inputs, *call.state, call.carried, call.dropout]
        weights = [call.weights.recurrent, call.weights.output]
        if call.projections is not None:
            weights += call.projections.weights
            if fits(*tensors, *weights, dtype=torch.bfloat16):
                return None
            if all(weight is None or isinstance(weight, ScaledIntegers) for weight in weights):
                # the integers are where their scales are
                weights = [weight.scales for weight in weights if isinstance(weight, ScaledIntegers)]
        elif fits(*tensors, dtype=torch.bfloat16):
            # mixed precision narrows weights in float32 for the call
            kinds = (torch.bfloat16, torch.float32)
            if all(any(fits(weight, dtype=kind) for kind in kinds) for weight in weights):
                return None
        fitting = fits(*tensors, *weights, dtype=torch.float32)
        return None if fitting else "it takes plain tensors on a CPU, in float32 or bfloat16"

    def forward(self, call: LstmCall, buffers: tuple[torch.Tensor, torch.Tensor] | None) -> Output:
        """Run all steps; see `Backend.forward`. All sums are in float32, also those of bfloat16."""
        inputs = call.inputs.contiguous()
        # copies, which become the final state
        hidden, cell = (
            part.to(torch.float32, copy=True, memory_format=torch.contiguous_format) for part in call.state
        )
        outputs = inputs.new_empty(len(hidden), sum(call.batch_sizes), hidden.shape[2])
        tensors = {"hidden": hidden, "cell": cell, "outputs": outputs} | more_tensors(call)
        tensors |= zip(("gates", "cells"), buffers or (), strict=False)
        if call.projections is None:
            tensors["inputs"] = inputs
        else:
            # of one direction, the forward one is the only one
            names = ("forward", "backward")[: len(hidden)]
            for name, weight in zip(names, call.projections.weights, strict=True):
                tensors |= stored(name, weight)
            tensors |= {"below": inputs, "bias": call.projections.bias.contiguous()}
        integers = isinstance(call.weights.recurrent, ScaledIntegers)
        function = FORWARD[torch.int8 if integers else inputs.dtype] + kind_of_products(inputs.dtype, self.products)
        run_job(function, call.batch_sizes, call.weights, tensors, self.library)
        return outputs, (hidden.to(inputs.dtype), cell.to(inputs.dtype))

    def backward(
        self,
        saved: Saved,
        batch_sizes: list[int],
        weights: LstmWeights,
        gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> Gradients:
        """Run all steps backward; see `Backend.backward`. All sums are in float32, also those of bfloat16."""
        dtype = saved.outputs.dtype
        # copies, which become the gradients of the projected hidden states and of the initial state
        outputs = gradients[0].to(dtype, copy=True, memory_format=torch.contiguous_format)
        hidden, cell = (
            part.to(torch.float32, copy=True, memory_format=torch.contiguous_format) for part in gradients[1:]
        )
        gates = saved.gates.contiguous()
        result = torch.empty_like(gates)
        tensors = {
            "gates": gates,
            "cells": saved.cells.contiguous(),
            "outputs": saved.outputs.contiguous(),
            "cell": saved.initial_cell.float().contiguous(),
            "outputs_gradient": outputs,
            "hidden_gradient": hidden,
            "cell_gradient": cell,
            "gradients": result,
            **more_tensors(saved),
        }
        run_job(BACKWARD[dtype] + kind_of_products(dtype, self.products), batch_sizes, weights, tensors, self.library)
        return result, outputs, hidden.to(dtype), cell.to(dtype)


def kind_of_products(dtype: torch.dtype, products: bool | None) -> str:
    """Return what is added to the name of a function: whether it multiplies bfloat16 as it is."""
    return PRODUCTS if dtype == torch.bfloat16 and (has_tiles() if products is None else products) else ""


def more_tensors(source: LstmCall | Saved) -> dict[str, torch.Tensor]:
    """Return what a call, or what it saved, has of `carried`, and of `dropout`, in float32."""
    given = {"carried": source.carried, "dropout": None if source.dropout is None else source.dropout.float()}
    return {name: tensor.contiguous() for name, tensor in given.items() if tensor is not None}


def stored(name: str, weight: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a weight by the name of its field, and its scales if it consists of integers."""
    if isinstance(weight, ScaledIntegers):
        return {name: weight.integers.contiguous(), f"{name}_scales": weight.scales.contiguous()}
    return {name: weight.contiguous()}


def run_job(
    function: str,
    batch_sizes: list[int],
    weights: LstmWeights,
    tensors: dict[str, torch.Tensor],
    library: ctypes.CDLL | NotBuiltError | None = None,
) -> None:
    """Call a function of the compiled code.

    Args:
        function: Its name.
        batch_sizes: The number of running sentences at each time.
        weights: The weights of a step.
        tensors: Contiguous tensors by the names of the fields of `Job`.
        library: The library; by default the one that `load` returns.

    Raises:
        NotBuiltError: If there is no compiled code.
        MemoryError: If there is not enough memory.
    """
    library = load() if library is None else library
    if isinstance(library, NotBuiltError):
        raise library
    # held here until the call is over
    tensors = {**tensors, **stored("recurrent", weights.recurrent)}
    tensors["batch_sizes"] = torch.tensor(batch_sizes, dtype=torch.int64)
    if weights.output is not None:
        tensors |= stored("output", weights.output)
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
    run(library, function, job)


def fits(*tensors: torch.Tensor | None, dtype: torch.dtype) -> bool:
    """Return whether all tensors are plain ones on the CPU, of one dtype; the compiled code reads their memory."""
    if torch._C._len_torch_dispatch_stack():
        # who watches torch's operations, or replaces them, would see none
        return False
    return all(
        tensor is None
        or (
            type(tensor) in (torch.Tensor, nn.Parameter)
            and tensor.device.type == "cpu"
            and tensor.dtype == dtype
            and tensor.layout == torch.strided
            and not tensor.is_neg()
            # a tensor's memory can be taken away
            and (tensor.untyped_storage().nbytes() > 0 or not tensor.numel())
        )
        for tensor in tensors
    )


def has_tiles() -> bool:
    """Return whether this processor and system multiply bfloat16 on AMX tiles, and there is compiled code for it."""
    library = load()
    return not isinstance(library, NotBuiltError) and library.elmo_has_tiles()


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor | None:
    """Compute `nn.functional.linear` with sums in float32, in one order however many rows and threads there are.

    Args:
        rows: `[..., D]`, which need no gradient.
        weight: `[n, D]`.
        bias: `[n]`, or `None`.

    Returns:
        `[..., n]`, or `None` where there is no compiled code for these tensors.

    Raises:
        MemoryError: If there is not enough memory.
    """
    if not any(fits(rows, weight, bias, dtype=dtype) for dtype in LINEAR):
        return None
    if weight.ndim != 2 or not weight.shape[1] or rows.shape[-1:] != weight.shape[1:]:
        # torch says what is wrong
        return None
    if bias is not None and bias.shape != weight.shape[:1]:
        return None
    library = load()
    return None if isinstance(library, NotBuiltError) else compute_linear(library, rows, weight, bias)


def compute_linear(
    library: ctypes.CDLL,
    rows: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    products: bool | None = None,
) -> torch.Tensor:
    """Do what `linear` does by a library; `products` is as for `NativeBackend`.

    Raises:
        MemoryError: If there is not enough memory.
    """
    width, depth = weight.shape
    # held here until the call is over
    tensors = {"below": rows.contiguous(), "forward": weight.contiguous()}
    if bias is not None:
        tensors["bias"] = bias.float().contiguous()
    outputs = tensors["outputs"] = rows.new_empty(*rows.shape[:-1], width)
    job = Job(
        **{field: tensor.data_ptr() for field, tensor in tensors.items()},
        words=rows.shape[:-1].numel(),
        input_width=depth,
        width=width,
        threads=torch.get_num_threads(),
    )
    run(library, LINEAR[rows.dtype] + kind_of_products(rows.dtype, products), job)
    return outputs


def run(library: ctypes.CDLL, function: str, job: Job) -> None:
    """Call a function of the compiled code.

    Raises:
        MemoryError: If there is not enough memory.
    """
    if not getattr(library, function)(ctypes.byref(job)):
        raise MemoryError("There is not enough memory for this batch: take fewer sentences at a time.")


__all__ = ["NativeBackend", "NotBuiltError", "linear", "load", "usable_libraries"]
