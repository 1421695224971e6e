"""`embedding.parts`: parts come back as they were, and what an interruption can leave is told apart."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from elmo_hf.embedding.parts import (
    Part,
    PartsFolder,
    UnfinishedPart,
    is_done,
    read_part,
    read_unfinished_part,
    save_part,
    save_sentences,
)
from elmo_hf.embedding.sentences import Sentence
from elmo_hf.errors import ElmoError
from elmo_hf.manifest import write_manifest
from support.fresh_python import FRESH_PYTHON


MANIFEST = {"layers": "mix", "model": "my-elmo"}
SENTENCES = [Sentence("a / b", ["a", "/ b"]), Sentence("", []), Sentence("日本", ["日本"])]
PART = Part(SENTENCES, torch.arange(12.0).reshape(3, 4), pooled=False)


@pytest.mark.parametrize("key", [None, "sp|P1"])
def test_a_part_comes_back(key: str | None, tmp_path: Path) -> None:
    given = PART._replace(sentences=[sentence._replace(key=key) for sentence in SENTENCES])
    save_part(tmp_path / "00000000.safetensors", given)

    found = read_part(tmp_path / "00000000.safetensors")
    assert (found.sentences, found.pooled) == (given.sentences, False)
    assert torch.equal(found.vectors, PART.vectors)


def test_the_sentences_of_a_part_come_back(tmp_path: Path) -> None:
    part = UnfinishedPart(tmp_path / "00000000.safetensors", [Sentence("MKT", ["M", "K", "T"], "a/b"), *SENTENCES])
    save_sentences(part)

    assert read_unfinished_part(part.path) == part


def test_an_array_is_named_by_its_key_or_number() -> None:
    part = PART._replace(sentences=[SENTENCES[0], Sentence("", [], "P1"), SENTENCES[2]])

    assert part.names(7) == ["7", "P1", "9"]


def test_a_part_is_known_by_its_sentences(tmp_path: Path) -> None:
    path = tmp_path / "00000003.safetensors"
    assert not is_done(path, SENTENCES)
    save_part(path, PART)

    assert is_done(path, SENTENCES)
    with pytest.raises(ElmoError, match=r"with other sentences, from its part 3 on: give the same ones, or delete"):
        is_done(path, SENTENCES[:2])


@pytest.mark.parametrize("keep", [0, 4, 100])
def test_a_damaged_part_is_made_again(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "00000000.safetensors"
    save_part(path, PART)
    path.write_bytes(path.read_bytes()[:keep])

    assert not is_done(path, SENTENCES)
    save_part(path, PART)
    assert is_done(path, SENTENCES)


@pytest.mark.parametrize(
    "prepare",
    [lambda _: None, lambda folder: save_part(folder / "00000000.safetensors", PART)],
    ids=["nothing", "parts"],
)
def test_a_folder_without_its_job_is_debris(prepare: Callable[[Path], None], tmp_path: Path) -> None:
    parts = PartsFolder(tmp_path / "v.npz")
    parts.folder.mkdir()
    prepare(parts.folder)

    with parts.opened(MANIFEST, resume=False):
        assert {path.name for path in parts.folder.iterdir()} == {"job.json", "lock", "owner.txt"}

    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_parts_is_used_again(tmp_path: Path) -> None:
    parts = PartsFolder(tmp_path / "v.npz")
    parts.folder.mkdir()
    (parts.folder / "job.json").write_text("{")
    (parts.folder / "tmp1").mkdir()

    with parts.opened(MANIFEST, resume=False):
        assert json.loads((parts.folder / "job.json").read_text()) == MANIFEST
        assert not (parts.folder / "tmp1").exists()


WRITER = """
import os, pathlib, sys, time
from elmo_hf.embedding.parts import PartsFolder

with PartsFolder(pathlib.Path(sys.argv[1])).opened({"layers": "mix"}, resume=False):
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


class Writer:
    """Another process that writes v.npz, and its number."""

    def __init__(self, folder: Path) -> None:
        command = [*FRESH_PYTHON, "-c", WRITER, str(folder / "v.npz")]
        self.caller = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.caller.stdout is not None
        self.number = int(self.caller.stdout.readline())

    def kill(self) -> None:
        """Kill the process, if it has not ended, and wait for its end."""
        with self.caller:
            if self.caller.poll() is None:
                os.kill(self.number, signal.SIGKILL)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    process = Writer(tmp_path)
    yield process
    process.kill()


def test_a_second_run_stops_until_the_first_one_ends(writer: Writer, tmp_path: Path) -> None:
    parts = PartsFolder(tmp_path / "v.npz")
    save_part(parts.path_of(0), PART)
    before = {path.name: path.read_bytes() for path in parts.folder.iterdir()}

    for resume in (False, True, False, True):
        with (
            pytest.raises(
                ElmoError, match=rf"Process {writer.number} on .* is writing .*v\.npz: wait for it, or stop it"
            ),
            parts.opened({"layers": "mix"}, resume=resume),
        ):
            pass
    assert {path.name: path.read_bytes() for path in parts.folder.iterdir()} == before

    # the system unlocks what a killed process has locked
    writer.kill()
    with parts.opened({"layers": "mix"}, resume=True):
        assert is_done(parts.path_of(0), SENTENCES)
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_run_deletes_what_a_killed_one_had_of_the_file(tmp_path: Path) -> None:
    parts = PartsFolder(tmp_path / "v.npz")
    parts.folder.mkdir()
    (parts.folder / "tmpabc").mkdir()
    save_part(parts.path_of(0), PART)
    write_manifest(parts.manifest_path, MANIFEST)

    with parts.opened(MANIFEST, resume=True):
        assert not (parts.folder / "tmpabc").exists()
        assert is_done(parts.path_of(0), SENTENCES)


def test_a_file_system_without_locks_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    parts = PartsFolder(tmp_path / "v.npz")

    with parts.opened(MANIFEST, resume=False):
        save_part(parts.path_of(0), PART)
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_another_run_has_finished_is_kept(tmp_path: Path) -> None:
    (tmp_path / "v.npz").write_text("theirs")

    with (
        pytest.raises(ElmoError, match=r"v\.npz exists already"),
        PartsFolder(tmp_path / "v.npz").opened(MANIFEST, resume=True),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["v.npz"]


def test_parts_are_kept_after_an_error(tmp_path: Path) -> None:
    parts = PartsFolder(tmp_path / "v.npz")

    def fail() -> None:
        with parts.opened(MANIFEST, resume=True):
            save_part(parts.path_of(0), PART)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()

    assert json.loads((parts.folder / "job.json").read_text()) == MANIFEST
    # the model may be moved between the runs
    with parts.opened({**MANIFEST, "model": "moved"}, resume=True):
        assert is_done(parts.path_of(0), SENTENCES)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"absent is not a folder"):
        save_part(tmp_path / "absent" / "00000000.safetensors", PART)


def test_an_output_that_appears_meanwhile_is_kept_and_so_are_the_parts(tmp_path: Path) -> None:
    parts = PartsFolder(tmp_path / "v.npz")

    def run(*, resume: bool) -> None:
        with parts.opened(MANIFEST, resume=resume):
            if not parts.has_output():
                save_part(parts.path_of(0), PART)
                with parts.new_output() as folder:
                    (folder / "v.npz").write_text("ours")
                (tmp_path / "v.npz").write_text("theirs")
            parts.publish_output()

    for resume in (False, True):
        with pytest.raises(ElmoError, match=r"v\.npz exists already: remove it or choose another name"):
            run(resume=resume)
        assert (tmp_path / "v.npz").read_text() == "theirs"

    (tmp_path / "v.npz").unlink()
    run(resume=True)
    assert [path.name for path in tmp_path.iterdir()] == ["v.npz"]
    assert (tmp_path / "v.npz").read_text() == "ours"
