"""`data.batches`: batches hold sentences of similar length, within their limits, and lose none."""

from collections.abc import Iterator
from itertools import count, islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf.data.batches import batch_bounds, batches_by_length, windows


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 30), max_size=60), st.integers(1, 8), st.integers(1, 60))
def test_batches_keep_to_both_limits_and_lose_no_sentence(
    lengths: list[int], max_sentences: int, max_positions: int
) -> None:
    batches = batches_by_length(lengths, max_sentences=max_sentences, max_positions=max_positions)

    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or (len(batch) <= max_sentences and len(batch) * longest <= max_positions)
    for batch, following in pairwise(batches):
        assert min(lengths[index] for index in batch) >= max(lengths[index] for index in following)


def test_a_batch_is_as_large_as_its_limits_allow() -> None:
    assert batches_by_length([2, 9, 2, 3, 2, 2, 2], max_positions=8) == [[1], [3, 0], [2, 4, 5, 6]]
    assert batches_by_length([2, 9, 2, 3], max_sentences=3) == [[1, 3, 0], [2]]
    assert batches_by_length([1, 2]) == [[1, 0]]
    assert batches_by_length([]) == []


def test_bounds_end_with_the_number_of_sentences() -> None:
    assert batch_bounds([9, 3, 2, 2], max_positions=8) == [0, 1, 3, 4]
    assert batch_bounds([], max_positions=8) == [0]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_items": 2}, [[1, 1], [5, 1], [1, 9], [2]]),
        ({"max_size": 6}, [[1, 1], [5, 1], [1], [9], [2]]),
        ({"max_items": 2, "max_size": 5}, [[1, 1], [5], [1, 1], [9], [2]]),
        ({}, [[1, 1, 5, 1, 1, 9, 2]]),
    ],
)
def test_windows_keep_the_order_and_the_limits(limits: dict[str, int], expected: list[list[int]]) -> None:
    assert list(windows([1, 1, 5, 1, 1, 9, 2], size_of=int, **limits)) == expected
    assert list(windows([], **limits)) == []


def test_a_window_is_read_when_it_is_needed() -> None:
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in count():
            read.append(number)
            yield number

    assert list(islice(windows(numbers(), max_items=3), 2)) == [[0, 1, 2], [3, 4, 5]]
    assert len(read) == 6
