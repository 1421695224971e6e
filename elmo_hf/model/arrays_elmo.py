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
"""What a tokenizer takes and gives: nested lists, arrays and tensors alike.

Shape notation: `B` sentences, `T` words.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from transformers.utils.generic import TensorType, is_torch_tensor


def one_mapping(encoded_inputs: Any) -> dict[str, Any]:
    """Bring what `pad` takes, one mapping or one a sentence, to one mapping."""
    if isinstance(encoded_inputs, Mapping):
        return dict(encoded_inputs)
    if not encoded_inputs:
        return {"input_ids": []}
    return {key: [example[key] for example in encoded_inputs] for key in encoded_inputs[0]}


def framework_of(value: Any) -> str | None:
    """Tell which tensors the values of an encoding are."""
    sample = value[0] if isinstance(value, (list, tuple)) and value else value
    if isinstance(sample, np.ndarray):
        return "np"
    return "pt" if is_torch_tensor(sample) else None


def depth(ids: Any) -> int:
    """Count the axes of nested lists, an array or a tensor."""
    if hasattr(ids, "ndim"):
        return int(ids.ndim)
    if not isinstance(ids, (list, tuple)):
        return 0
    # an empty sentence does not tell whether it has words or characters
    filled = next((item for item in ids if not isinstance(item, (list, tuple)) or item), None)
    if filled is None:
        return 2 if ids else 1
    return 1 + depth(filled)


def stack(rows: Sequence[np.ndarray], *width: int) -> np.ndarray:
    """Stack the arrays of sentences, `[T, ...]` each; sentences of several lengths make an array of arrays."""
    lengths = {len(row) for row in rows}
    if len(lengths) <= 1:
        return np.stack(rows) if rows else np.zeros((0, 0, *width), dtype=np.int64)
    ragged = np.empty(len(rows), dtype=object)
    for number, row in enumerate(rows):
        ragged[number] = row
    return ragged


def from_numpy(data: dict[str, Any], return_tensors: str | TensorType | None) -> dict[str, Any]:
    """Make tensors of the arrays, if asked for, without copying them."""
    if return_tensors is None or TensorType(return_tensors) is not TensorType.PYTORCH:
        return data
    import torch

    return {
        key: torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype != object else value
        for key, value in data.items()
    }


__all__ = ["depth", "framework_of", "from_numpy", "one_mapping", "stack"]
