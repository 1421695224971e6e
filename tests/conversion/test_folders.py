"""`conversion.folders`: a folder appears whole, or not at all.

What goes wrong while `convert` writes is in test_write.py.
"""

import os
from pathlib import Path

import pytest

from elmo_hf_conversion import ConversionError
from elmo_hf_conversion.folders import new_folder, refuse_existing


def fill(output: Path, *, room: int = 1) -> None:
    with new_folder(output, room=room) as folder:
        (folder / "file").write_text("content")


def test_the_folder_takes_its_name_at_the_end(tmp_path: Path) -> None:
    output = tmp_path / "a/b/model"

    with new_folder(output, room=1) as folder:
        (folder / "file").write_text("content")
        assert not output.exists()

    assert [path.name for path in output.parent.iterdir()] == ["model"]
    assert (output / "file").read_text() == "content"


@pytest.mark.parametrize(
    "name", ["with space", "Ελμο 模型", "-model", "--output", "x" * 255, os.fsdecode(b"not UTF-8 \xff")]
)
def test_names_of_every_kind(name: str, tmp_path: Path) -> None:
    fill(tmp_path / name)

    assert [path.name for path in tmp_path.iterdir()] == [name]


def fail(output: Path) -> None:
    with new_folder(output, room=1) as folder:
        (folder / "file").write_text("half")
        raise KeyError


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        fail(tmp_path / "a/b/model")

    assert not list(tmp_path.iterdir())


def test_no_room(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="model: the disk is full"):
        fill(tmp_path / "model", room=1 << 70)

    assert not list(tmp_path.iterdir())


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"cannot be written \(.*\). Give an --output elsewhere"):
        fill(tmp_path / ("x" * 256))

    assert not list(tmp_path.iterdir())


def test_what_exists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"already exists. Give another --output"):
        refuse_existing(tmp_path)
