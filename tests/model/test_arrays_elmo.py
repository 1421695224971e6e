"""`model.arrays_elmo`: nested lists, arrays and tensors are told apart and stacked."""

from typing import Any

import numpy as np
import pytest
import torch

from elmo_hf.model.arrays_elmo import depth, framework_of, from_numpy, one_mapping, stack


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
def test_depth(ids: Any, axes: int) -> None:
    assert depth(ids) == axes


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


def test_one_mapping_of_examples() -> None:
    assert one_mapping([{"a": [1]}, {"a": [2, 3]}]) == {"a": [[1], [2, 3]]}
    assert one_mapping({"a": [1]}) == {"a": [1]}
    assert one_mapping([]) == {"input_ids": []}


def test_stack_keeps_sentences_of_several_lengths_apart() -> None:
    assert stack([np.zeros((2, 3)), np.ones((2, 3))]).shape == (2, 2, 3)
    assert [row.shape for row in stack([np.zeros((2, 3)), np.ones((1, 3))])] == [(2, 3), (1, 3)]
    assert stack([], 50).shape == (0, 0, 50)


def test_tensors_only_where_they_are_asked_for() -> None:
    data = {"ids": np.zeros((1, 2), dtype=np.int64), "ragged": stack([np.zeros(1), np.zeros(2)])}

    assert from_numpy(data, "np") is data
    tensors = from_numpy(data, "pt")
    assert isinstance(tensors["ids"], torch.Tensor)
    assert tensors["ragged"] is data["ragged"]
