"""`training.checkpoints`: a checkpoint counts if it was written to its end, and what is passed over is said."""

import logging
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from elmo_hf import ElmoError
from elmo_hf.training.checkpoints import check_shapes, find_damage, last_checkpoint


FILES = ["model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of checkpoints 4, 8 and 12, and of what is none."""
    first = tmp_path / "checkpoint-4"
    first.mkdir()
    save_file({"weight": torch.ones(2, 3), "bias": torch.ones(3)}, first / "model.safetensors")
    torch.save({"step": torch.ones(5)}, first / "optimizer.pt")
    torch.save([1, 2], first / "rng_state.pth")
    (first / "trainer_state.json").write_text('{"global_step": 4}')
    (first / "config.json").write_text("{}")
    for step in (8, 12):
        shutil.copytree(first, tmp_path / f"checkpoint-{step}")
    (tmp_path / "checkpoint-last").mkdir()
    (tmp_path / "checkpoint-99").write_text("a file")
    return tmp_path


def test_the_last_is_that_of_most_steps(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert last_checkpoint(folder) == folder / "checkpoint-12"
    assert last_checkpoint(str(folder)) == folder / "checkpoint-12"
    assert last_checkpoint(folder / "absent") is None
    assert last_checkpoint(folder / "checkpoint-4") is None
    assert not caplog.records


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_not_written_to_its_end_is_found(name: str, folder: Path) -> None:
    file = folder / "checkpoint-4" / name
    whole = file.read_bytes()

    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert find_damage(file.parent) == f"{name} is damaged"
    file.write_bytes(whole)
    assert find_damage(file.parent) is None


def test_what_is_not_whole_is_passed_over_and_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "checkpoint-12" / "trainer_state.json").unlink()
    (folder / "checkpoint-8" / "model.safetensors").write_bytes(b"{")

    with caplog.at_level(logging.WARNING):
        assert last_checkpoint(folder) == folder / "checkpoint-4"

    assert caplog.messages == [
        f"{folder / 'checkpoint-12'} is passed over: its trainer_state.json is missing.",
        f"{folder / 'checkpoint-8'} is passed over: its model.safetensors is damaged.",
    ]


def test_other_shapes_are_refused(folder: Path) -> None:
    file = folder / "checkpoint-4" / "model.safetensors"

    check_shapes(file, {"weight": (2, 3), "more": (1,)}, "never")

    with pytest.raises(ElmoError, match=r"of another training \(weight is \(2, 3\) there and \(2, 4\) here\): try\.$"):
        check_shapes(file, {"weight": (2, 4)}, "try")
