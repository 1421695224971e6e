"""Batches of sentences of similar length, which need little padding, and the windows that they are cut from."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike


Item = TypeVar("Item")

# Batches are cut from a window of this many: enough to make them even, few enough to hold in memory.
BATCHES_PER_WINDOW = 16


def batches_by_length(
    lengths: ArrayLike, *, max_sentences: int | None = None, max_positions: int | None = None
) -> list[list[int]]:
    """Group sentences of similar length, the longest first, so that a batch too large for memory fails at once.

    Args:
        lengths: The positions that each sentence takes in a batch, boundary tokens included.
        max_sentences: As for `batch_bounds`.
        max_positions: As for `batch_bounds`.

    Returns:
        For each batch, the indices of its sentences in `lengths`. Sentences of equal length keep their order.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    bounds = batch_bounds(lengths[order], max_sentences=max_sentences, max_positions=max_positions)
    return [batch.tolist() for batch in np.split(order, bounds[1:-1])] if len(order) else []


def batch_bounds(
    lengths: Sequence[int] | np.ndarray, *, max_sentences: int | None = None, max_positions: int | None = None
) -> list[int]:
    """Cut sentences into batches.

    Args:
        lengths: The positions that each sentence takes, longest first; the first sentence of a batch determines how
            many fit.
        max_sentences: The most sentences in a batch.
        max_positions: The most positions in a batch, padding included. A longer sentence is a batch of its own.

    Returns:
        The index at which each batch begins, and the number of sentences.
    """
    bounds = [0]
    while bounds[-1] < len(lengths):
        size = len(lengths) if max_sentences is None else max_sentences
        if max_positions is not None:
            size = min(size, max_positions // int(lengths[bounds[-1]]))
        bounds.append(min(bounds[-1] + max(1, size), len(lengths)))
    return bounds


def windows(
    items: Iterable[Item],
    *,
    max_items: int | None = None,
    max_size: int | None = None,
    size_of: Callable[[Item], int] = lambda _: 0,
) -> Iterator[list[Item]]:
    """Group a stream into windows of consecutive items, of which one at a time is in memory.

    Args:
        items: The stream.
        max_items: The most items in a window.
        max_size: The largest sum of sizes in a window. A larger item is a window of its own.
        size_of: Returns the size of an item.

    Yields:
        Windows in the order of the stream, none of them empty.
    """
    window: list[Item] = []
    total = 0
    for item in items:
        size = size_of(item)
        if window and max_size is not None and total + size > max_size:
            yield window
            window, total = [], 0
        window.append(item)
        total += size
        if len(window) == max_items:
            yield window
            window, total = [], 0
    if window:
        yield window


__all__ = ["BATCHES_PER_WINDOW", "batch_bounds", "batches_by_length", "windows"]
