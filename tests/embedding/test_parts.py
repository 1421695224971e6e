"""`embedding.parts`: parts come back as they were, and what an interruption can leave is told apart."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from elmo_hf.embedding.parts import Line, Part, is_done, parts_folder, read_part, save_part, working_in
from elmo_hf.errors import ElmoError


ABOUT = {"layers": "mix", "model": "my-elmo"}
PART = Part(["a / b", "", "日本"], [["a", "/ b"], [], ["日本"]], torch.arange(12.0).reshape(3, 4), pooled=False)
LINES = [Line(text, words) for text, words in zip(PART.texts, PART.words, strict=True)]


def test_a_part_comes_back(tmp_path: Path) -> None:
    save_part(tmp_path / "00000000.safetensors", PART)

    found = read_part(tmp_path / "00000000.safetensors")
    assert (found.texts, found.words, found.pooled) == (PART.texts, PART.words, False)
    assert torch.equal(found.vectors, PART.vectors)


def test_a_part_is_known_by_its_sentences(tmp_path: Path) -> None:
    path = tmp_path / "00000003.safetensors"
    assert not is_done(path, LINES)
    save_part(path, PART)

    assert is_done(path, LINES)
    with pytest.raises(ElmoError, match=r"with other sentences, from its part 3 on: give the same ones, or delete"):
        is_done(path, LINES[:2])


@pytest.mark.parametrize("keep", [0, 4, 100])
def test_a_damaged_part_is_made_again(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "00000000.safetensors"
    save_part(path, PART)
    path.write_bytes(path.read_bytes()[:keep])

    assert not is_done(path, LINES)
    save_part(path, PART)
    assert is_done(path, LINES)


@pytest.mark.parametrize(
    "prepare",
    [lambda _: None, lambda folder: save_part(folder / "00000000.safetensors", PART)],
    ids=["nothing", "parts"],
)
def test_a_folder_without_its_job_is_debris(prepare: Callable[[Path], None], tmp_path: Path) -> None:
    folder = parts_folder(tmp_path / "v.npz")
    folder.mkdir()
    prepare(folder)

    with working_in(folder, ABOUT, resume=False):
        assert [path.name for path in folder.iterdir()] == ["job.json"]

    assert not folder.exists()


def test_parts_are_kept_after_an_error(tmp_path: Path) -> None:
    folder = parts_folder(tmp_path / "v.npz")

    def fail() -> None:
        with working_in(folder, ABOUT, resume=True):
            save_part(folder / "00000000.safetensors", PART)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()

    assert json.loads((folder / "job.json").read_text()) == ABOUT
    # where the model lies does not matter
    with working_in(folder, {**ABOUT, "model": "moved"}, resume=True):
        assert is_done(folder / "00000000.safetensors", LINES)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"absent is not a folder"):
        save_part(tmp_path / "absent" / "00000000.safetensors", PART)
