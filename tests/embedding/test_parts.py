"""`embedding.parts`: parts come back as they were, and what an interruption can leave is told apart."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from elmo_hf.embedding.parts import Part, PartsFolder, is_done, read_part, save_part
from elmo_hf.embedding.sentences import Sentence
from elmo_hf.errors import ElmoError


MANIFEST = {"layers": "mix", "model": "my-elmo"}
PART = Part(["a / b", "", "日本"], [["a", "/ b"], [], ["日本"]], torch.arange(12.0).reshape(3, 4), pooled=False)
SENTENCES = [Sentence(text, words) for text, words in zip(PART.texts, PART.words, strict=True)]


def test_a_part_comes_back(tmp_path: Path) -> None:
    save_part(tmp_path / "00000000.safetensors", PART)

    found = read_part(tmp_path / "00000000.safetensors")
    assert (found.texts, found.words, found.pooled) == (PART.texts, PART.words, False)
    assert torch.equal(found.vectors, PART.vectors)


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
        assert [path.name for path in parts.folder.iterdir()] == ["job.json"]

    assert not parts.folder.exists()


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
