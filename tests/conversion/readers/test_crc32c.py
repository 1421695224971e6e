"""`conversion.readers.crc32c`: against the values that the standard gives, and against the definition bit by bit."""

import numpy as np
import pytest

import support.original_formats as original_formats
from elmo_hf_conversion.readers.crc32c import LANES, crc32c, masked_crc32c


# RFC 3720, B.4, and the usual check value
KNOWN = {
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(reversed(range(32))): 0x113FDB5C,
    b"123456789": 0xE3069283,
    b"": 0,
}


@pytest.mark.parametrize(("data", "checksum"), KNOWN.items())
def test_known_values(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum


@pytest.mark.parametrize("size", [4 * LANES - 1, 4 * LANES, 4 * LANES + 1, 12 * LANES + 5])
def test_data_in_lanes(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)

    assert masked_crc32c(data) == original_formats.masked_crc32c(data)


def test_a_byte_changed_far_inside() -> None:
    data = bytearray(40 * LANES)
    before = crc32c(data)

    data[17 * LANES + 3] = 1

    assert crc32c(data) != before
