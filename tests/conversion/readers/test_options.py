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
    "not-a-number": (b'{"lstm": {"cell_clip": NaN}}', "not valid JSON .*NaN is not a number"),
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


@pytest.mark.parametrize("depth", [33, 500, 100_000])
def test_what_is_nested_too_deep(depth: int, tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text('{"a": ' + "[" * depth + "]" * depth + "}")

    with pytest.raises(ConversionError, match=r"options.json is (nested over 32 deep|not valid JSON)"):
        read_options(tmp_path / "options.json", name="options.json")


def test_a_number_beyond_all_others(tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text('{"a": 1e999}')

    with pytest.raises(ConversionError, match="1e999 is too large a number"):
        read_options(tmp_path / "options.json", name="options.json")


def test_half_a_character(tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text(r'{"a": "\ud800"}')

    with pytest.raises(ConversionError, match=r"options.json holds an invalid character"):
        read_options(tmp_path / "options.json", name="options.json")
