"""CRC-32C (Castagnoli), as TensorFlow protects its checkpoints with it, at some hundred megabytes a second in NumPy.

The checksum is linear: a word's share of it depends on the word, and on how many bytes follow. So the words are dealt
out to lanes, word `i` to lane `i % LANES`, every lane is computed at once, and the lanes are added at the end.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray


#: The polynomial, lowest bit first.
POLYNOMIAL = 0x82F63B78

#: TensorFlow and LevelDB store a checksum turned and shifted, so that one of data with checksums in it is no accident.
MASK_DELTA = 0xA282EAD8

#: Words side by side; more make longer loops in C, fewer make less to add at the end.
LANES = 4096

Table = NDArray[np.uint32]


def masked_crc32c(data: bytes | bytearray) -> int:
    """The checksum as TensorFlow stores it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def crc32c(data: bytes | bytearray) -> int:
    """The checksum of bytes of any number."""
    view = memoryview(data).cast("B")
    # words that every lane has as many of
    body = len(view) // (4 * LANES) * 4 * LANES
    register = 0xFFFFFFFF
    if body:
        # [rows, LANES]
        words = np.frombuffer(view[:body], dtype="<u4").reshape(-1, LANES)
        register = _join(_run_lanes(words, register))
    table = _bytes_table()
    for byte in view[body:]:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ 0xFFFFFFFF


def _run_lanes(words: Table, register: int) -> Table:
    """Each lane's share, as of the last row, `[LANES]`."""
    low, high = _lane_tables()
    lanes = words[0].copy()
    # what came before is added to the first word
    lanes[0] ^= np.uint32(register)
    for row in words[1:]:
        halves = lanes.view("<u2")
        # move each share on by one row, then add the row's own
        lanes = low[halves[0::2]] ^ high[halves[1::2]] ^ row
    return lanes


def _join(lanes: Table) -> int:
    register = 0
    table = _bytes_table()
    for word in lanes.tolist():
        register ^= word
        for _ in range(4):
            register = table[register & 0xFF] ^ (register >> 8)
    return register


@cache
def _bytes_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


@cache
def _lane_tables() -> tuple[Table, Table]:
    """What becomes of each half of a word when as many zeros follow as one row of lanes has bytes, `[65536]` each."""
    advance = _power(_one_byte, 4 * LANES)
    columns = [advance(1 << bit) for bit in range(32)]
    low, high = np.zeros(1, dtype=np.uint32), np.zeros(1, dtype=np.uint32)
    for bit in range(16):
        low = np.concatenate([low, low ^ np.uint32(columns[bit])])
        high = np.concatenate([high, high ^ np.uint32(columns[16 + bit])])
    return low, high


def _one_byte(register: int) -> int:
    """What becomes of a register when one zero follows."""
    return _bytes_table()[register & 0xFF] ^ (register >> 8)


def _power(function: Callable[[int], int], times: int) -> Callable[[int], int]:
    """A linear function of 32 bits applied `times` times, by squaring."""
    result, square = [1 << bit for bit in range(32)], [function(1 << bit) for bit in range(32)]
    while times:
        if times & 1:
            result = [_apply(square, column) for column in result]
        square = [_apply(square, column) for column in square]
        times >>= 1
    return lambda register: _apply(result, register)


def _apply(columns: list[int], register: int) -> int:
    product = 0
    for bit in range(32):
        if register >> bit & 1:
            product ^= columns[bit]
    return product


__all__ = ["crc32c", "masked_crc32c"]
