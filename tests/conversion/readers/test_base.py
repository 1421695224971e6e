"""`conversion.readers.base`: sizes and hashes of sources, and lists for messages."""

import hashlib
import os
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from elmo_hf_conversion.readers.base import (
    ConversionError,
    InputFile,
    OriginalArray,
    OriginalCheckpoint,
    SourceFile,
    Tables,
    describe,
    printable,
    source_files,
)
from elmo_hf_conversion.readers.content import Kind


TABLES = Tables(characters="char_embed", words="embedding")


def given(path: Path, content: bytes, **options: object) -> InputFile:
    path.write_bytes(content)
    return InputFile(path.name, Kind.TEXT, path, **options)  # type: ignore[arg-type]


def test_sources_have_size_hash_and_link(tmp_path: Path) -> None:
    file = given(tmp_path / "a", b"abc", url="https://example.org/a")

    assert source_files([file]) == (SourceFile("a", 3, hashlib.sha256(b"abc").hexdigest(), "https://example.org/a"),)


def test_an_archive_is_a_source_once(tmp_path: Path) -> None:
    archive = given(tmp_path / "a.zip", b"zip")
    members = [given(tmp_path / name, b"", archive=archive) for name in ("x", "y")]

    assert [source.name for source in source_files(members)] == ["a.zip", "x", "y"]


def test_description_is_short_for_many_files() -> None:
    files = [InputFile(f"{i}.txt", Kind.TEXT, None) for i in range(10)]

    assert describe(files).endswith("7.txt (text) and 2 more")


def test_names_stay_on_one_line() -> None:
    assert printable("a\nb\x1b[1m.hdf5") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}[1m.hdf5"


def test_a_member_left_in_its_archive_has_no_location() -> None:
    with pytest.raises(ConversionError, match=r"a\.zip/x\.pkl"):
        _ = InputFile("a.zip/x.pkl", Kind.PICKLE, None).location


def test_closing_a_checkpoint_closes_its_resources() -> None:
    closed: list[str] = []
    resources = ExitStack()
    resources.callback(closed.append, "file")

    with OriginalCheckpoint("bilm-hdf5", {}, {}, "weights", "options", (), TABLES, resources=resources):
        assert not closed

    assert closed == ["file"]


def test_sources_that_were_written_to_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "weights.hdf5"
    path.write_bytes(b"whole")
    sources = source_files([InputFile(path.name, Kind.HDF5, path)])
    checkpoint = OriginalCheckpoint("format", {}, {}, path.name, "options.json", sources, TABLES)
    checkpoint.check_unchanged()

    path.write_bytes(b"other")
    os.utime(path, ns=(0, 0))

    with pytest.raises(ConversionError, match=r"weights.hdf5 changed while it was read"):
        checkpoint.check_unchanged()


def test_a_shape_is_that_of_an_array_with_the_right_number_of_axes() -> None:
    arrays = {name: OriginalArray((2, 3), lambda: np.zeros((2, 3))) for name in ("W_0", "W_1", "W_3")}
    checkpoint = OriginalCheckpoint("format", {}, arrays, "weights", "options", (), TABLES)

    assert checkpoint.shape_of("W_0", 2) == (2, 3)
    assert checkpoint.count("W_{}") == 2
    with pytest.raises(ConversionError, match=r"^weights: array W_1 is of shape \(2, 3\), options calls for 3 axes\."):
        checkpoint.shape_of("W_1", 3)
    with pytest.raises(ConversionError, match=r"^weights: array W_2 is missing, options calls for a matrix\."):
        checkpoint.shape_of("W_2", 2)
