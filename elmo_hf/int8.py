"""int8 weights: a quarter of the memory, and vectors that are nearly the same.

Each row of a matrix, all weights of one output, has a scale of its own. What a layer computes with is made of the
integers at each call, a matrix at a time.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize
from transformers import PreTrainedModel
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin


METHOD = "elmo_int8"

LARGEST = 127

# the axes of one output's weights: of our own matrices, and of torch's
INPUT_AXES = {"recurrent_weight": (1,), "output_weight": (1,), "weight": (1, 2)}


@register_quantization_config(METHOD)
class ElmoInt8Config(QuantizationConfigMixin):
    """What `from_pretrained` takes as `quantization_config`, to load a model with int8 weights.

    The matrices of the biLM become integers: highways, convolutions, projections and recurrences. Its tables, biases
    and mix, and what a task or a language model has besides, stay as they are.
    """

    # the parent's signature knows no methods but those of Transformers
    def __init__(self, quant_method: Any = METHOD) -> None:
        super().__init__(quant_method=quant_method)


class Int8Rows(nn.Module):
    """A matrix as integers and a scale for each row."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, integers: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Make the matrix, in its own shape and the precision of the scales."""
        return integers.to(scales.dtype) * scales

    def right_inverse(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Round a matrix to integers."""
        scales = weight.abs().amax(dim=self.axes, keepdim=True) / LARGEST
        # rows of zeros stay zero
        scales = torch.where(scales > 0, scales, 1)
        integers = (weight.float() / scales.float()).round().clamp(-LARGEST, LARGEST)
        return integers.to(torch.int8), scales


@register_quantizer(METHOD)
class ElmoInt8Quantizer(HfQuantizer):
    """Gives a model its integers: those of a folder, or made of a folder's floating point numbers."""

    is_trainable = False

    def is_serializable(self) -> bool:
        """Tell that such a model can be saved."""
        return True

    def _process_model_before_weight_loading(self, model: PreTrainedModel, **_: Any) -> None:
        if self.pre_quantized:
            to_int8(model)

    def _process_model_after_weight_loading(self, model: PreTrainedModel, **_: Any) -> PreTrainedModel:
        if not self.pre_quantized:
            to_int8(model)
        return model


def to_int8(model: PreTrainedModel) -> None:
    """Make integers of the matrices of a model's biLM."""
    for module in list(model.base_model.modules()):
        for name, parameter in list(module.named_parameters(recurse=False)):
            if name in INPUT_AXES and parameter.ndim > 1 and not isinstance(module, nn.Embedding):
                parameter.requires_grad_(False)
                axes = tuple(axis for axis in INPUT_AXES[name] if axis < parameter.ndim)
                parametrize.register_parametrization(module, name, Int8Rows(axes))


__all__ = ["ElmoInt8Config"]
