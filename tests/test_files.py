"""`elmo_hf.files`: a new file or folder appears whole or not at all, and an error of writing names it.

What goes wrong while `convert` writes is in conversion/test_convert.py.
"""

import os
import shutil
from pathlib import Path

import pytest

from elmo_hf import ElmoError
from elmo_hf.files import (
    cached_folder,
    check_new_file,
    naming_errors,
    new_file,
    new_folder,
    new_json_lines,
    refuse_existing,
)


def test_a_file_has_the_permissions_of_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()

    with new_file(tmp_path / "made") as temporary:
        # as safetensors makes its files
        temporary.touch(mode=0o600)

    assert (tmp_path / "made").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    with new_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("half", encoding="utf-8")
        assert not (tmp_path / "a.txt").exists()
        temporary.write_text("whole", encoding="utf-8")

    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {"a.txt": "whole"}


@pytest.mark.parametrize("error", [KeyError("stop"), OSError(5, "of something else"), KeyboardInterrupt()])
def test_a_block_that_fails_leaves_nothing_and_its_own_error(error: BaseException, tmp_path: Path) -> None:
    def write() -> None:
        with new_file(tmp_path / "a.txt") as temporary:
            temporary.write_text("half", encoding="utf-8")
            raise error

    with pytest.raises(type(error)) as raised:
        write()

    assert raised.value is error
    assert not any(tmp_path.iterdir())


def test_lines_of_json_appear_when_they_are_all_written(tmp_path: Path) -> None:
    with new_json_lines(tmp_path / "a.jsonl") as write:
        write({"word": "é"})
        write({"word": "\ud800"})
        assert not (tmp_path / "a.jsonl").exists()

    assert (tmp_path / "a.jsonl").read_bytes() == '{"word": "é"}\n{"word": "\\ud800"}\n'.encode()


def test_a_name_that_cannot_be_given_at_last_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", fail)
    monkeypatch.setattr(Path, "rename", fail)

    with (
        pytest.raises(ElmoError, match=r"a\.txt cannot be written \(No space left on device\): make room"),
        new_file(tmp_path / "a.txt") as temporary,
    ):
        temporary.touch()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Path) -> None:
        raise OSError(95, "Operation not supported")

    if not has_links:
        monkeypatch.setattr(os, "link", fail)
    with new_file(tmp_path / "mine") as temporary:
        temporary.write_text("mine", encoding="utf-8")

    def write_late() -> None:
        with new_file(tmp_path / "a.txt") as temporary:
            temporary.write_text("ours", encoding="utf-8")
            (tmp_path / "a.txt").write_text("theirs", encoding="utf-8")

    with pytest.raises(ElmoError, match=r"a\.txt exists already: remove it or choose another name"):
        write_late()

    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {
        "mine": "mine",
        "a.txt": "theirs",
    }
    assert (tmp_path / "mine").stat().st_nlink == 1


@pytest.mark.parametrize("name", ["ộ" * 85, "\udcff", "a\nb c"], ids=["long", "no UTF-8", "spaces"])
def test_a_name_may_be_any(name: str, tmp_path: Path) -> None:
    with new_file(tmp_path / name) as temporary:
        # as libraries take it
        str(temporary).encode()
        temporary.touch()

    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_refuses_a_name_that_is_taken_and_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    (tmp_path / "link").symlink_to(tmp_path / "gone")

    for name in ("mine", "link"):
        with pytest.raises(ElmoError, match=rf"{name} exists already: remove it or choose another name\.$"):
            check_new_file(tmp_path / name)
    with pytest.raises(ElmoError, match=r"missing is not a folder: create it first\.$"):
        check_new_file(tmp_path / "missing" / "a.txt")


def test_an_error_without_a_number_is_told_by_its_words() -> None:
    with pytest.raises(ElmoError, match=r"^a cannot be written \(no luck\)"), naming_errors(Path("a")):
        raise OSError("no luck")


def fill(output: Path, *, size: int = 1) -> None:
    with new_folder(output, size=size) as folder:
        (folder / "file").write_text("content")


def test_the_folder_takes_its_name_at_the_end(tmp_path: Path) -> None:
    output = tmp_path / "a/b/model"

    with new_folder(output, size=1) as folder:
        (folder / "file").write_text("content")
        assert not output.exists()

    assert [path.name for path in output.parent.iterdir()] == ["model"]
    assert (output / "file").read_text() == "content"


@pytest.mark.parametrize(
    "name", ["with space", "Ελμο 模型", "-model", "--output", "x" * 255, os.fsdecode(b"not UTF-8 \xff")]
)
def test_a_folder_may_have_any_name(name: str, tmp_path: Path) -> None:
    fill(tmp_path / name)

    assert [path.name for path in tmp_path.iterdir()] == [name]


def fail_in_new_folder(output: Path) -> None:
    with new_folder(output, size=1) as folder:
        (folder / "file").write_text("half")
        raise KeyError


def test_a_failed_block_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        fail_in_new_folder(tmp_path / "a/b/model")

    assert not list(tmp_path.iterdir())


def test_a_disk_with_too_little_space(tmp_path: Path) -> None:
    with pytest.raises(
        ElmoError,
        match=r"model cannot be written \(No space left .*: [\d,]+ bytes are needed, [\d,]+ are free\)",
    ):
        fill(tmp_path / "model", size=1 << 70)

    assert not list(tmp_path.iterdir())


def test_a_folder_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"cannot be written \(.*\): make room, or choose another place"):
        fill(tmp_path / ("x" * 256))

    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"exists already: remove it or choose another name\.$"):
        refuse_existing(tmp_path)


def test_a_folder_of_a_source_is_made_once_without_what_a_killed_process_left(tmp_path: Path) -> None:
    cache = tmp_path / "new" / "cache"
    first = cached_folder(cache, {"text": 1}, fill)

    assert (first / "file").read_text() == "content"
    assert cached_folder(cache, {"text": 1}, fail_in_new_folder) == first
    with pytest.raises(KeyError):
        cached_folder(cache, {"text": 2}, fail_in_new_folder)
    other = cached_folder(cache, {"text": 2}, fill)
    assert other.parent == first.parent
    assert other != first
    left = cache / f".{first.name}-x.partial"
    left.mkdir()
    shutil.rmtree(first)
    cached_folder(cache, {"text": 1}, fill)
    assert not left.exists()


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ElmoError, match=r"file cannot be written \(File exists\): make room, or choose another place"):
        cached_folder(tmp_path / "file", {}, fill)
