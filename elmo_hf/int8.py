"""int8 weights, which take a quarter of the memory and give nearly the same vectors.

Each output of a matrix has its own scale. The compiled code of the recurrence reads the integers as they are. All else
turns them back into floating-point numbers at each call, one matrix at a time.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.utils._pytree import tree_map_only
from transformers import PreTrainedModel
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin


METHOD = "elmo_int8"

LARGEST = 127

# the axes that one output sums over: in our own matrices, and in `weight` of PyTorch's linear and convolution modules
INPUT_AXES = {"recurrent_weight": (1,), "output_weight": (1,), "weight": (1, 2)}


@register_quantization_config(METHOD)
class ElmoInt8Config(QuantizationConfigMixin):
    """The `quantization_config` that lets `from_pretrained` load a model with int8 weights.

    The matrices of the biLM become integers: highways, convolutions, projections and recurrences. Embeddings, biases,
    the mix, and the head of a task or language model keep their dtype.
    """

    # the parent's annotation allows only the methods of Transformers
    def __init__(self, quant_method: Any = METHOD) -> None:
        super().__init__(quant_method=quant_method)


class ScaledIntegers(torch.Tensor):
    """A matrix of integers and scales. Every operation of torch but the compiled recurrence gets their products.

    Args:
        integers: The integers.
        scales: The scale of each output; it can be multiplied by `integers`.
    """

    integers: torch.Tensor
    scales: torch.Tensor

    @staticmethod
    def __new__(cls: type, integers: torch.Tensor, scales: torch.Tensor) -> "ScaledIntegers":
        """Make a tensor that has a shape and a dtype, but no numbers of its own."""
        return torch.Tensor._make_wrapper_subclass(cls, integers.shape, dtype=scales.dtype, device=scales.device)

    def __init__(self, integers: torch.Tensor, scales: torch.Tensor) -> None:
        self.integers = integers
        self.scales = scales

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, operation: Any, _: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation on the numbers."""
        args, kwargs = tree_map_only(cls, cls.numbers, (args, kwargs or {}))
        return operation(*args, **kwargs)

    def numbers(self) -> torch.Tensor:
        """Return the matrix, in the dtype of the scales."""
        return self.integers.to(self.scales.dtype) * self.scales

    def to(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Return the numbers in another dtype, or in the same one."""
        return self.numbers().to(*args, **kwargs)

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        """Return the numbers as a NumPy array."""
        return self.numbers().numpy(*args, **kwargs)

    def tolist(self) -> Any:
        """Return the numbers as lists."""
        return self.numbers().tolist()

    def __deepcopy__(self, _: Any) -> torch.Tensor:
        return self.numbers()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.numbers().__reduce_ex__(protocol)


class Int8Rows(nn.Module):
    """The parametrization of a matrix by integers and a scale for each output.

    Args:
        axes: The axes that one output sums over, which share a scale.
    """

    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, integers: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Return the matrix, in the dtype of `scales`; where compiled code may read it, as integers and scales."""
        matrix = ScaledIntegers(integers, scales)
        in_float32 = scales.dtype == torch.float32 and scales.device.type == "cpu"
        kept = in_float32 and not torch.is_grad_enabled() and not torch.compiler.is_compiling()
        return matrix if kept else matrix.numbers()

    def right_inverse(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Round a matrix, and return its integers and its scales."""
        scales = weight.abs().amax(dim=self.axes, keepdim=True) / LARGEST
        # an output whose weights are all zero keeps them
        scales = torch.where(scales > 0, scales, 1)
        integers = (weight.float() / scales.float()).round().clamp(-LARGEST, LARGEST)
        return integers.to(torch.int8), scales


@register_quantizer(METHOD)
class ElmoInt8Quantizer(HfQuantizer):
    """Loads a model with int8 weights: saved ones, or floating-point ones that it rounds."""

    is_trainable = False

    def is_serializable(self) -> bool:
        """Return that a model with int8 weights can be saved."""
        return True

    def _process_model_before_weight_loading(self, model: PreTrainedModel, **_: Any) -> None:
        if self.pre_quantized:
            to_int8(model)

    def _process_model_after_weight_loading(self, model: PreTrainedModel, **_: Any) -> PreTrainedModel:
        if not self.pre_quantized:
            to_int8(model)
        return model


def to_int8(model: PreTrainedModel) -> None:
    """Round the matrices of a model's biLM, if it has one, in place."""
    # without a biLM, `base_model` is the model itself, with its head
    if not getattr(model, "has_bilm", True):
        return
    for module in list(model.base_model.modules()):
        for name, parameter in list(module.named_parameters(recurse=False)):
            if name in INPUT_AXES and parameter.ndim > 1 and not isinstance(module, nn.Embedding):
                parameter.requires_grad_(False)
                axes = tuple(axis for axis in INPUT_AXES[name] if axis < parameter.ndim)
                parametrize.register_parametrization(module, name, Int8Rows(axes))


__all__ = ["ElmoInt8Config"]
