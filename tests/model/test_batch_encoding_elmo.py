"""`model.batch_encoding_elmo`: distinct words are numbered, and their values become lists, arrays or tensors."""

import numpy as np
import pytest
import torch

from elmo_hf.model.batch_encoding_elmo import WordIndex, number_words, stack, to_tensors


def test_distinct_words_are_numbered_in_order() -> None:
    distinct, numbers = number_words(["b", None, "a", "b", ""])

    assert distinct == ["b", "a", ""]
    assert numbers.tolist() == [1, 0, 2, 1, 3]


def test_stack_keeps_sentences_of_different_lengths_apart() -> None:
    assert stack([np.zeros((2, 3)), np.ones((2, 3))]).shape == (2, 2, 3)
    assert [row.shape for row in stack([np.zeros((2, 3)), np.ones((1, 3))])] == [(2, 3), (1, 3)]
    assert stack([], 50).shape == (0, 0, 50)


def test_tensors_only_on_request() -> None:
    data = {"ids": np.zeros((1, 2), dtype=np.int64), "ragged": stack([np.zeros(1), np.zeros(2)])}

    assert to_tensors(data, "np") is data
    tensors = to_tensors(data, "pt")
    assert isinstance(tensors["ids"], torch.Tensor)
    assert tensors["ragged"] is data["ragged"]


@pytest.mark.parametrize(
    ("side", "rows"),
    [
        ("right", [[1, 2], [2, 0]]),
        ("left", [[1, 2], [0, 2]]),
        (None, [[1, 2], [2]]),
    ],
)
def test_sentences_are_padded_on_one_side_or_not_at_all(side: str | None, rows: list[list[int]]) -> None:
    index = WordIndex.of_sentences([["a", "b"], ["b"]], side)

    assert [row.tolist() for row in index.rows] == rows
    assert index.look_up(np.array([0, 10, 20]), as_lists=True) == [[10 * number for number in row] for row in rows]
    assert [index.words(number, "<PAD>") for number in range(len(rows))] == [
        [("<PAD>", "a", "b")[number] for number in row] for row in rows
    ]


def test_an_index_of_no_sentences() -> None:
    index = WordIndex.of_sentences([])

    assert index.look_up(np.zeros((1, 50)), as_lists=False).shape == (0, 0, 50)
    assert index.look_up(np.zeros((1, 50)), as_lists=True) == []
