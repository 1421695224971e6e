"""`model.tokenizer_inputs_elmo`: nested lists, arrays and tensors are distinguished."""

from typing import Any

import numpy as np
import pytest
import torch

from elmo_hf.model.tokenizer_inputs_elmo import as_mapping, count_axes, framework_of


@pytest.mark.parametrize(
    ("ids", "axes"),
    [
        (5, 0),
        ([], 1),
        ([5], 1),
        ([[]], 2),
        ([[], [5]], 2),
        ([[[5]]], 3),
        (np.zeros((2, 3, 4)), 3),
        ([torch.zeros(2, 3)], 3),
    ],
)
def test_count_axes(ids: Any, axes: int) -> None:
    assert count_axes(ids) == axes


@pytest.mark.parametrize(
    ("value", "framework"),
    [
        ([[1]], None),
        (np.zeros(1), "np"),
        ([np.zeros(1)], "np"),
        (torch.zeros(1), "pt"),
        ([torch.zeros(1)], "pt"),
        (None, None),
    ],
)
def test_framework_of(value: Any, framework: str | None) -> None:
    assert framework_of(value) == framework


def test_examples_become_as_mapping() -> None:
    assert as_mapping([{"a": [1]}, {"a": [2, 3]}]) == {"a": [[1], [2, 3]]}
    assert as_mapping({"a": [1]}) == {"a": [1]}
    assert as_mapping([]) == {"input_ids": []}
