"""Fast recurrences and linear maps of this package: compiled code for CPUs, and Triton kernels for GPUs.

The Hub files find this room by a guarded import and ask it only if `INTERFACE` is the number that they know; otherwise
they compute by torch. They may be copies that came with a checkpoint, so nothing here imports them or asks for their
classes: `contract` describes what they pass. This room imports torch, and Triton where it is used.
"""

from .contract import Backend
from .native import NativeBackend, linear
from .triton import TritonBackend


#: Changes whenever a call, its fields or its result in `contract` change.
INTERFACE = 3


def make_backends(torch_backend: Backend) -> tuple[Backend, ...]:
    """Return the backends in the order in which they are asked.

    Args:
        torch_backend: The torch implementation, with which the Triton kernels are compared before they are used.
    """
    return NativeBackend(), TritonBackend(torch_backend)


__all__ = ["INTERFACE", "linear", "make_backends"]
