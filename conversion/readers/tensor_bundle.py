"""Read the variables of a TensorFlow checkpoint without TensorFlow.

`NAME.index` is a sorted table in LevelDB's format: blocks of entries whose keys share prefixes, an index block that
lists the blocks, and a footer that locates the index block. A key is the name of a variable; its value is a
protocol buffer that locates the numbers in `NAME.data-0000i-of-0000n`. Formats:
https://github.com/google/leveldb/blob/main/doc/table_format.md and
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/protobuf/tensor_bundle.proto.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .base import ConversionError, counted, printable
from .crc32c import masked_crc32c


MAGIC = bytes.fromhex("57fb808b247547db")
FOOTER_BYTES = 48

#: An index of some hundred variables has some kilobytes.
MAX_INDEX_BYTES = 1 << 20
MAX_ENTRIES = 10_000

#: After each block: one byte of the kind of compression, and a checksum.
BLOCK_END_BYTES = 5

#: `DataType` of the numbers that are read, and NumPy's names; bfloat16 has none.
FLOATS = {1: "<f4", 2: "<f8", 19: "<f2"}


class _DamagedError(Exception):
    """Raised for a damaged index; the message is the reason."""


@dataclass(frozen=True)
class Entry:
    """The location of one variable.

    Attributes:
        dtype: TensorFlow's `DataType`.
        shape: Its shape.
        shard: The number of its data file.
        offset: The position of its first byte in the data file.
        size: Its size in bytes.
        checksum: The masked CRC-32C of its bytes.
        sliced: Whether it is stored in several pieces, each under a name of its own.
    """

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    sliced: bool


@dataclass(frozen=True)
class Index:
    """The variables of a checkpoint by their names, and the number of its data files."""

    entries: dict[str, Entry]
    shards: int


def has_magic(path: Path) -> bool:
    """Tell whether a file ends like a table."""
    size = path.stat().st_size
    if size < FOOTER_BYTES:
        return False
    with path.open("rb") as file:
        file.seek(size - len(MAGIC))
        return file.read() == MAGIC


def read_index(path: Path, name: str) -> Index:
    """Read `NAME.index`, and verify the checksum of every block.

    Args:
        path: The file.
        name: How messages call it.

    Returns:
        Where each variable is, not yet compared with the data files.

    Raises:
        ConversionError: If it is truncated, damaged, or of a kind that bilm-tf never writes.
    """
    if path.stat().st_size > MAX_INDEX_BYTES:
        raise ConversionError(
            f"{name} has more than {MAX_INDEX_BYTES:,} bytes: this is not the index of a checkpoint."
        )
    data = path.read_bytes()
    if data[-len(MAGIC) :] != MAGIC or len(data) < FOOTER_BYTES:
        raise ConversionError(f"{name} does not end as an index of a checkpoint does: it is truncated. Get it again.")
    try:
        return _parse_index(data)
    except (_DamagedError, IndexError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise ConversionError(f"{name} is a damaged index of a checkpoint ({error}). Get it again.") from error


def read_array(path: Path, entry: Entry, *, where: str) -> np.ndarray:
    """Read one variable, and verify its checksum.

    Args:
        path: Its data file.
        entry: Where it is there, within the file.
        where: How messages call the variable.

    Returns:
        Its numbers, in float32.

    Raises:
        ConversionError: If the bytes are not those that were written.
    """
    data = bytearray(entry.size)
    with path.open("rb") as file:
        file.seek(entry.offset)
        read = file.readinto(data)
    if read != entry.size:
        size = counted(entry.size, "byte")
        raise ConversionError(f"{where} is cut short: {read:,} of {size}. Get the data file again.")
    if masked_crc32c(data) != entry.checksum:
        raise ConversionError(f"{where} is damaged: its checksum does not match. Get the data file again.")
    with np.errstate(over="ignore"):
        return np.frombuffer(data, dtype=FLOATS[entry.dtype]).reshape(entry.shape).astype(np.float32, copy=False)


def _parse_index(data: bytes) -> Index:
    footer = data[-FOOTER_BYTES:]
    # a handle each: of a block that TensorFlow leaves empty, and of the index block
    _, _, start = _handle(footer, 0)
    offset, size, _ = _handle(footer, start)
    entries: dict[str, Entry] = {}
    shards = None
    left = len(data)
    for _, handle in _block(data, offset, size):
        offset, size, _ = _handle(handle, 0)
        left -= size
        if left < 0 or len(entries) > MAX_ENTRIES:
            raise _DamagedError("the same block again and again, or too many variables")
        for key, value in _block(data, offset, size):
            if key:
                entries[printable(key.decode("utf-8"))] = _entry(value)
            else:
                shards = _shards(value)
    if shards is None:
        raise _DamagedError("no header")
    return Index(entries, shards)


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of one block."""
    end = offset + size
    if end + BLOCK_END_BYTES > len(data) - FOOTER_BYTES or size < 4:
        raise _DamagedError(f"a block of {size} bytes at {offset} does not fit")
    (checksum,) = struct.unpack_from("<I", data, end + 1)
    if masked_crc32c(data[offset : end + 1]) != checksum:
        raise _DamagedError(f"the checksum of the block at {offset} does not match")
    if data[end]:
        raise _DamagedError("its blocks are compressed, which bilm-tf's never are")
    (restarts,) = struct.unpack_from("<I", data, end - 4)
    position, end = offset, end - 4 * (restarts + 1)
    key = b""
    while position < end:
        shared, position = _varint(data, position)
        rest, position = _varint(data, position)
        length, position = _varint(data, position)
        if shared > len(key) or position + rest + length > end:
            raise _DamagedError(f"an entry at {position} does not fit")
        key = key[:shared] + data[position : position + rest]
        position += rest
        yield key, data[position : position + length]
        position += length


def _handle(data: bytes, position: int) -> tuple[int, int, int]:
    """Read a handle: return offset and size of a block, and the end of the handle."""
    offset, position = _varint(data, position)
    size, position = _varint(data, position)
    return offset, size, position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Read an integer in groups of seven bits; return it and its end."""
    value = 0
    for shift in range(0, 64, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise _DamagedError("a number of more than 64 bits")


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a protocol buffer."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        wire = tag & 7
        value: int | bytes
        if wire == 0:
            value, position = _varint(message, position)
        elif wire in (1, 2, 5):
            length, position = _varint(message, position) if wire == 2 else (8 if wire == 1 else 4, position)
            value = message[position : position + length]
            position += length
        else:
            raise _DamagedError(f"a field of kind {wire}")
        if position > len(message):
            raise _DamagedError("a field does not fit")
        yield tag >> 3, value


def _entry(message: bytes) -> Entry:
    """Parse a `BundleEntryProto`, in which fields that are 0 are absent."""
    numbers = {1: 0, 3: 0, 4: 0, 5: 0}
    shape: tuple[int, ...] = ()
    checksum, sliced = 0, False
    for number, value in _fields(message):
        if number in numbers and isinstance(value, int):
            numbers[number] = value
        elif number == 2 and isinstance(value, bytes):
            shape = _shape(value)
        elif number == 6 and isinstance(value, bytes):
            (checksum,) = struct.unpack("<I", value)
        elif number == 7:
            sliced = True
    return Entry(numbers[1], shape, numbers[3], numbers[4], numbers[5], checksum, sliced)


def _shape(message: bytes) -> tuple[int, ...]:
    """Parse a `TensorShapeProto`."""
    axes = []
    for number, value in _fields(message):
        if number == 2 and isinstance(value, bytes):
            axes.append(next((size for field, size in _fields(value) if field == 1 and isinstance(size, int)), 0))
    return tuple(axes)


def _shards(message: bytes) -> int:
    """Return the number of data files in a `BundleHeaderProto`."""
    fields = dict(_fields(message))
    if fields.get(2, 0) != 0:
        raise _DamagedError("written by a big-endian machine")
    shards = fields.get(1, 0)
    if not isinstance(shards, int) or not 0 < shards < 100_000:
        raise _DamagedError(f"{shards!r} data files")
    return shards


def problem_of(entry: Entry, data_bytes: int) -> str | None:
    """Return what is wrong with a variable's location in a data file of this size, or `None`."""
    if entry.sliced:
        return "is in several pieces, as bilm-tf's never are"
    if entry.dtype not in FLOATS:
        return f"has numbers of TensorFlow's type {entry.dtype}, not floating point"
    if entry.size != math.prod(entry.shape) * np.dtype(FLOATS[entry.dtype]).itemsize:
        return f"of shape {entry.shape} is said to have {counted(entry.size, 'byte')}"
    if entry.offset + entry.size > data_bytes:
        return f"lies behind the end of the data file ({counted(data_bytes, 'byte')}), which is truncated"
    return None


__all__ = ["Entry", "Index", "has_magic", "problem_of", "read_array", "read_index"]
