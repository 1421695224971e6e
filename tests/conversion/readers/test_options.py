"""`conversion.readers.options`: JSON options arrive whole, and what is none is named."""

from pathlib import Path

import pytest

from elmo_hf_conversion.readers.base import ConversionError
from elmo_hf_conversion.readers.options import read_options


def test_reads_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    path.write_text('\ufeff{"lstm": {"dim": 4}, "unknown": [1, null]}', encoding="utf-8")

    assert read_options(path, name="options.json") == {"lstm": {"dim": 4}, "unknown": [1, None]}


DAMAGED = {
    "cut-off": (b'{"lstm": {"dim": 4', "options.json is not valid JSON"),
    "not-a-number": (b'{"lstm": {"cell_clip": NaN}}', "not valid JSON .*NaN is no number"),
    "a-list": (b"[1, 2]", "holds a JSON list, not an object"),
    "not-utf-8": (b'{"note": "\xff"}', "is not UTF-8 text"),
    "nested-without-end": (b'{"a":' * 100_000, "is not valid JSON"),
    "huge": (b"{" + b" " * (1 << 20) + b"}", "more than 1,048,576 bytes"),
}


@pytest.mark.parametrize(("content", "message"), DAMAGED.values(), ids=DAMAGED.keys())
def test_names_what_is_wrong(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    path.write_bytes(content)

    with pytest.raises(ConversionError, match=message):
        read_options(path, name="options.json")
