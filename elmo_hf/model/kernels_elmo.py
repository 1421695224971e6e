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
"""Access to the kernels of an installed elmo_hf, and what code with gradients by hand needs to use them safely.

A checkpoint carries these files without the kernels. If elmo_hf is installed, and its kernels have the interface that
this file knows, they are used; otherwise torch computes everything.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from transformers.utils import logging


logger = logging.get_logger(__name__)

# `elmo_hf.kernels.INTERFACE` of the kernels that this file can call
INTERFACE = 3


@functools.cache
def find_kernels() -> Any:
    """Return the module `elmo_hf.kernels`, or `None` if it is not installed or has another interface."""
    try:
        import elmo_hf.kernels as kernels
    except ImportError:
        logger.info("No elmo_hf with kernels is installed: torch computes the recurrences")
        return None
    if (found := getattr(kernels, "INTERFACE", None)) != INTERFACE:
        logger.info(
            f"The installed elmo_hf has kernels of interface {found}, and this model's code needs {INTERFACE}: torch "
            "computes the recurrences"
        )
        return None
    return kernels


def is_transformed() -> bool:
    """Return whether `torch.func` or forward-mode differentiation is active; both see only torch's own operations."""
    return torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0


def is_trained(*tensors: torch.Tensor | None) -> bool:
    """Return whether gradients may flow into one of some tensors."""
    if is_transformed():
        return True
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def recompute_gradients(
    function: Callable[..., Sequence[torch.Tensor]],
    arguments: Sequence[torch.Tensor | None],
    gradients: Sequence[torch.Tensor],
) -> list[torch.Tensor | None]:
    """Compute gradients that can be differentiated again, by running a function once more in torch's operations.

    Args:
        function: From the arguments to its results.
        arguments: Tensors, or `None`.
        gradients: The gradient of each result.

    Returns:
        The gradient of each argument, `None` where it needs none.
    """
    # aliases, so that one argument's gradient does not flow on to another from which it was computed
    aliases = [None if argument is None else argument.view_as(argument) for argument in arguments]
    pairs = zip(function(*aliases), gradients, strict=True)
    results = [(result, gradient.to(result.dtype)) for result, gradient in pairs if result.requires_grad]
    wanted = [alias for alias in aliases if alias is not None and alias.requires_grad]
    if not results:
        return [None for _ in arguments]
    outputs, incoming = zip(*results, strict=True)
    found = iter(torch.autograd.grad(outputs, wanted, incoming, create_graph=True, allow_unused=True))
    return [next(found) if alias is not None and alias.requires_grad else None for alias in aliases]


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Compute `nn.functional.linear`; where nothing is trained on a CPU, by the compiled code.

    Where `ELMO_HF_RECURRENCE` chooses another code than that, torch computes this, too.

    Args:
        rows: `[..., D]`.
        weight: `[n, D]`.
        bias: `[n]`, or `None`.

    Returns:
        `[..., n]`.
    """
    by_torch = (
        rows.device.type != "cpu"
        or torch.compiler.is_compiling()
        or (os.environ.get("ELMO_HF_RECURRENCE") or "native") != "native"
        or torch._C._get_tracing_state() is not None
        or torch.is_autocast_enabled("cpu")
        or is_trained(rows, weight, bias)
    )
    if not by_torch and (kernels := find_kernels()):
        result = kernels.linear(rows, weight, bias)
        if result is not None:
            return result
    return nn.functional.linear(rows, weight, bias)


__all__ = ["find_kernels", "is_trained", "is_transformed", "linear", "recompute_gradients"]
