"""`conversion.readers.tensor_bundle`: TensorFlow's index and data files, and every byte of the index guarded."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo_hf_conversion.readers.base import ConversionError
from elmo_hf_conversion.readers.tensor_bundle import Entry, has_magic, problem_of, read_array, read_index
from support.original_formats import write_tensorflow_checkpoint


VARIABLES = {
    "lm/a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "lm/a/Adagrad": np.ones((2, 3), np.float32),
    "lm/b": np.array(0.5, np.float64),
    "lm/c": np.zeros((0, 4), np.float16),
    "lm/wide": np.arange(300, dtype=np.float16),
    "step": np.array(7, np.int64),
}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return write_tensorflow_checkpoint(tmp_path, VARIABLES, shards=2, entries_a_block=2)


def data_file(index: Path, shard: int) -> Path:
    return index.with_name(f"{index.stem}.data-{shard:05d}-of-00002")


def test_names_shapes_and_places(index: Path) -> None:
    read = read_index(index, index.name)

    assert read.shards == 2
    assert {name: entry.shape for name, entry in read.entries.items()} == {
        name: array.shape for name, array in VARIABLES.items()
    }
    assert read.entries["lm/b"].dtype == 2


@pytest.mark.parametrize("name", ["lm/a", "lm/b", "lm/c", "lm/wide"])
def test_numbers_as_float32(name: str, index: Path) -> None:
    entry = read_index(index, index.name).entries[name]

    array = read_array(data_file(index, entry.shard), entry, where=name)

    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, VARIABLES[name].astype(np.float32))


def test_damaged_numbers_are_named(index: Path) -> None:
    entry = read_index(index, index.name).entries["lm/wide"]
    path = data_file(index, entry.shard)
    data = bytearray(path.read_bytes())
    data[entry.offset + 5] ^= 1
    path.write_bytes(data)

    with pytest.raises(ConversionError, match="lm/wide is damaged: its checksum does not match"):
        read_array(path, entry, where="lm/wide")


def test_a_data_file_that_gets_shorter(index: Path) -> None:
    entry = read_index(index, index.name).entries["lm/wide"]
    path = data_file(index, entry.shard)
    path.write_bytes(path.read_bytes()[: entry.offset + 9])

    with pytest.raises(ConversionError, match="lm/wide is cut short: 9 of 600 bytes"):
        read_array(path, entry, where="lm/wide")


def test_a_truncated_index(index: Path) -> None:
    index.write_bytes(index.read_bytes()[:-10])

    assert not has_magic(index)
    with pytest.raises(ConversionError, match="is truncated"):
        read_index(index, index.name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(position=st.integers(0, 10_000), change=st.integers(1, 255))
def test_any_changed_byte_is_found_or_harmless(position: int, change: int, index: Path) -> None:
    original = index.read_bytes()
    expected = read_index(index, index.name)
    data = bytearray(original)
    data[position % len(data)] ^= change
    damaged = index.with_name("damaged.index")
    damaged.write_bytes(data)

    try:
        read = read_index(damaged, damaged.name)
    except ConversionError:
        return
    # in the padding of the footer
    assert read == expected


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"\x08\x01\x10\x01", "big-endian"),
        (b"\x08\x00", "0 data files"),
        (b"", "0 data files"),
        (b"\x08\xff\xff\xff\xff\x0f", "4294967295 data files"),
        (b"\x0b", "a field of kind 3"),
        (b"\x12\x7f", "a field does not fit"),
        (b"\x80", "out of range"),
        (b"\xff" * 11, "more than 64 bits"),
    ],
)
def test_a_header_that_nobody_writes(header: bytes, message: str, tmp_path: Path) -> None:
    index = write_tensorflow_checkpoint(tmp_path, VARIABLES, header=header)

    with pytest.raises(ConversionError, match=f"is a damaged index of a checkpoint.*{message}"):
        read_index(index, index.name)


def test_a_huge_file_is_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = write_tensorflow_checkpoint(tmp_path, VARIABLES)
    monkeypatch.setattr("elmo_hf_conversion.readers.tensor_bundle.MAX_INDEX_BYTES", 100)

    with pytest.raises(ConversionError, match="more than 100 bytes"):
        read_index(index, index.name)


GOOD = Entry(dtype=1, shape=(2, 3), shard=0, offset=8, size=24, checksum=0, sliced=False)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"sliced": True}, "several pieces"),
        ({"dtype": 9}, "type 9"),
        ({"size": 20}, r"of shape \(2, 3\) is said to have 20 bytes"),
        ({"shape": (2, 1 << 62)}, "is said to have 24 bytes"),
        ({"offset": 9}, "behind the end of the data file"),
        ({"offset": 1 << 63}, "behind the end of the data file"),
    ],
)
def test_places_are_compared_with_the_data(change: dict[str, Any], problem: str | None) -> None:
    found = problem_of(replace(GOOD, **change), 32)

    assert found is None if problem is None else re.search(problem, found or "")
