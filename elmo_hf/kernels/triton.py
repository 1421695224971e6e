"""The recurrence on a GPU: products by torch, and all else of a step by the kernels in `triton_kernels`.

The memory of a layer is allocated once, and no step waits for the GPU. The kernels are used on a device and in a dtype
only if they agree with torch there; otherwise the backend declines and says why. Shapes are those of `contract`.
"""

import functools
import itertools
import math
import os
from typing import Any, NamedTuple

import torch
from transformers.utils import logging

from .contract import Backend, Gradients, LstmCall, LstmWeights, Output, Saved


logger = logging.get_logger(__name__)

# columns per program: 4 numbers for each of its 128 threads
BLOCK = 512
# largest allowed distance of the kernels from torch, relative to the largest number; products may be in TF32
TOLERANCES = {torch.float32: 5e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}


class TritonBackend:
    """The Triton kernels, for plain tensors on one GPU in float32, float16 or bfloat16.

    Args:
        torch_backend: The torch implementation, with which the kernels are compared before they are used.
    """

    name = "triton"

    def __init__(self, torch_backend: Backend) -> None:
        self.torch_backend: Any = torch_backend

    def missing(self, call: LstmCall) -> str | None:
        """Return why the kernels cannot run on the call's GPU in its dtype; `None` if they can, or without a GPU."""
        if reads(call.inputs):
            return check_kernels(call.inputs.device, call.inputs.dtype, self.torch_backend)
        return None

    def declines(self, call: LstmCall) -> str | None:
        """Return why the kernels do not take a call; `None` if they do."""
        if call.projections is not None:
            return "torch computes the gate inputs"
        if torch.compiler.is_compiling():
            return "torch.compile is tracing"
        if call.carried is not None or call.dropout is not None or len(call.inputs) != 2:
            return "it takes layers of two directions without highways and dropout"
        others = (*call.state, call.weights.recurrent, call.weights.output)
        plain = all(
            tensor is None
            or (type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device == call.inputs.device)
            for tensor in (call.inputs, *others)
        )
        return None if plain and reads(call.inputs) else "it takes plain tensors of up to 32 bits on one GPU"

    def forward(self, call: LstmCall, buffers: tuple[torch.Tensor, torch.Tensor] | None) -> Output:
        """Run all steps; see `Backend.forward`."""
        layer = allocate(call, buffers)
        with torch.cuda.device_of(call.inputs):
            run_steps(layer, call.batch_sizes, call.weights, save=buffers is not None)
        return layer.outputs, (layer.hidden, layer.cell)

    def backward(
        self,
        saved: Saved,
        batch_sizes: list[int],
        weights: LstmWeights,
        gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> Gradients:
        """Run all steps backward; see `Backend.backward`."""
        return run_steps_backward(saved, batch_sizes, weights, gradients)


class Layer(NamedTuple):
    """The contiguous tensors of a layer; a step uses as many of its `B` rows as it has running sentences.

    Attributes:
        inputs: `[2, N + spare, 4 * C]`, the gate inputs.
        starts: `[T + 1]`, int32, where the words of each step begin, and where the last ones end.
        hidden: `[2, B, P]`, the state before and after a step.
        cell: `[2, B, C]`, likewise.
        product: `[2, B, 4 * C]`, the hidden state times the recurrent weights.
        squashed: `[2, B, C]`, `o * tanh(cell)`.
        projected: `[2, B, P]`, its projection; `squashed` itself if there is none.
        outputs: `[2, N, P]`, the hidden states of all words.
        gates: `[2, N, 4 * C]`, after their non-linearities; empty if no backward pass follows.
        cells: `[2, N, C]`; empty if no backward pass follows.
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


def allocate(call: LstmCall, buffers: tuple[torch.Tensor, torch.Tensor] | None) -> Layer:
    """Allocate the memory of a layer."""
    inputs = call.inputs.contiguous()
    # copies, which become the final state
    hidden, cell = (part.to(inputs.dtype).clone(memory_format=torch.contiguous_format) for part in call.state)
    squashed = torch.empty_like(cell)
    gates, cells = buffers or (inputs.new_empty(0), inputs.new_empty(0))
    return Layer(
        inputs=inputs,
        starts=to_device([0, *itertools.accumulate(call.batch_sizes)], inputs.device),
        hidden=hidden,
        cell=cell,
        product=inputs.new_empty(2, hidden.shape[1], 4 * cell.shape[2]),
        squashed=squashed,
        projected=squashed if call.weights.output is None else torch.empty_like(hidden),
        outputs=inputs.new_empty(2, sum(call.batch_sizes), hidden.shape[2]),
        gates=gates,
        cells=cells,
    )


def run_steps(layer: Layer, batch_sizes: list[int], weights: LstmWeights, *, save: bool) -> None:
    """Run all steps, each on its first `batch_sizes[time]` rows."""
    from .triton_kernels import step_gates, step_hidden

    cell_clip, projection_clip = round_clips(weights, layer.cell.dtype)
    sentences, width = layer.hidden.shape[1:]
    words, cell_width = layer.outputs.shape[1], layer.cell.shape[2]
    for time, running in enumerate(batch_sizes):
        torch.bmm(layer.hidden[:, :running], weights.recurrent, out=layer.product[:, :running])
        step_gates[grid(running, cell_width)](
            layer.inputs,
            layer.product,
            layer.starts,
            layer.cell,
            layer.squashed,
            layer.gates,
            layer.cells,
            time,
            layer.inputs.shape[1],
            words,
            sentences,
            cell_width,
            cell_clip,
            save=save,
            block=BLOCK,
        )
        if weights.output is not None:
            torch.bmm(layer.squashed[:, :running], weights.output, out=layer.projected[:, :running])
        step_hidden[grid(running, width)](
            layer.projected,
            layer.starts,
            layer.hidden,
            layer.outputs,
            time,
            words,
            sentences,
            width,
            math.inf if weights.output is None else projection_clip,
            block=BLOCK,
        )


def run_steps_backward(
    saved: Saved,
    batch_sizes: list[int],
    weights: LstmWeights,
    gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> Gradients:
    """Run all steps backward; arguments and result as in `Backend.backward`."""
    from .triton_kernels import backward_gates

    gates, cells, first_cell = saved.gates.contiguous(), saved.cells.contiguous(), saved.initial_cell.contiguous()
    sentences, cell_width = first_cell.shape[1:]
    cell_clip, projection_clip = round_clips(weights, cells.dtype)
    # copies, which become the gradients of the projected hidden states and of the initial state
    outputs_gradient, hidden_gradient, cell_gradient = (
        part.clone(memory_format=torch.contiguous_format) for part in gradients
    )
    inside = None
    if weights.output is not None and weights.projection_clip is not None:
        inside = (saved.outputs.abs() < projection_clip).to(saved.outputs.dtype)
        outputs_gradient *= inside
    squashed_gradient, result = torch.empty_like(cell_gradient), torch.empty_like(gates)
    starts = [0, *itertools.accumulate(batch_sizes)]
    with torch.cuda.device_of(gates):
        for time in reversed(range(len(batch_sizes))):
            start, running = starts[time], batch_sizes[time]
            # [2, n, P]
            hidden = outputs_gradient[:, start : start + running]
            if inside is None:
                hidden += hidden_gradient[:, :running]
            else:
                hidden.addcmul_(hidden_gradient[:, :running], inside[:, start : start + running])
            # [2, n, C]
            if weights.output is None:
                squashed_gradient[:, :running] = hidden
            else:
                torch.bmm(hidden, weights.output.transpose(1, 2), out=squashed_gradient[:, :running])
            backward_gates[grid(running, cell_width)](
                gates,
                cells,
                first_cell,
                squashed_gradient,
                cell_gradient,
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
            torch.bmm(words, weights.recurrent.transpose(1, 2), out=hidden_gradient[:, :running])
    return result, outputs_gradient, hidden_gradient, cell_gradient


def round_clips(weights: LstmWeights, dtype: torch.dtype) -> list[float]:
    """Round the clips to a dtype, so that clipped numbers equal them exactly; infinity if there is no clip."""
    return [
        math.inf if limit is None else torch.tensor(limit, dtype=dtype, device="cpu").item()
        for limit in (weights.cell_clip, weights.projection_clip)
    ]


def grid(rows: int, columns: int) -> tuple[int, int, int]:
    """Return the number of programs of a kernel: rows, directions and blocks of columns."""
    return rows, 2, -(-columns // BLOCK)


def to_device(numbers: list[int], device: torch.device) -> torch.Tensor:
    """Copy integers to a device without waiting for it."""
    return torch.tensor(numbers, dtype=torch.int32, device="cpu").to(device, non_blocking=True)


def reads(tensor: torch.Tensor) -> bool:
    """Return whether the kernels read the tensor's device and dtype; Triton's interpreter reads the CPU's."""
    device = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    return tensor.device.type == device and tensor.dtype in TOLERANCES


@functools.cache
def check_kernels(device: torch.device, dtype: torch.dtype, torch_backend: Any) -> str | None:
    """Compare the kernels with torch once per device and dtype; return why they cannot be used, or `None`."""
    try:
        with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, enabled=False):
            distance = measure_distance(device, dtype, torch_backend)
    # any failure of a driver, a compiler or another version of Triton: torch can go on
    except Exception as error:
        logger.debug("Triton fails", exc_info=True)
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    # NaN fails this comparison
    if distance <= TOLERANCES[dtype]:
        logger.info(f"elmo_hf runs its Triton kernels on {device} in {dtype}")
        return None
    return f"the kernels are {distance:.2g} from torch"


def measure_distance(device: torch.device, dtype: torch.dtype, torch_backend: Backend) -> float:
    """Return the largest distance of the kernels' results and gradients from torch's, relative to their maximum."""
    generator = torch.Generator(device="cpu").manual_seed(0)
    batch_sizes, width, cell_width = [3, 3, 2], 24, 40
    words = sum(batch_sizes)

    def random(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=generator, device="cpu") / 2).to(device, dtype)

    # torch reads some rows more
    inputs, state = random(2, words + 16, 4 * cell_width), (random(2, 4, width), random(2, 4, cell_width))
    weights = LstmWeights(random(2, width, 4 * cell_width), random(2, cell_width, width), 0.5, 0.5)
    gradients = random(2, words, width), random(2, 4, width), random(2, 4, cell_width)
    call = LstmCall(inputs, None, batch_sizes, state, weights)
    results, saved = [], None
    for backend in (torch_backend, TritonBackend(torch_backend)):
        buffers = inputs.new_empty(2, words, 4 * cell_width), inputs.new_empty(2, words, cell_width)
        outputs, ended = backend.forward(call, buffers)
        # both go backward from the same numbers
        saved = saved or Saved(*buffers, outputs, *state)
        results.append([outputs, *ended, *buffers, *backend.backward(saved, batch_sizes, weights, gradients)])
    pairs = zip(*results, strict=True)
    # `max` of Python would pass over NaN
    return torch.stack([(one - other).abs().max().float() / one.abs().max() for one, other in pairs]).max().item()


__all__ = ["TritonBackend"]
