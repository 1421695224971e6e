"""The layer weights of tasks: the mean over seeds, and a whole run on a few sentences."""

import sys
from pathlib import Path
from types import ModuleType

import pytest


def test_weights_are_averaged_layer_by_layer_at_each_place(script: ModuleType) -> None:
    runs = [
        {"input": {"weights": [0.25, 0.75], "gamma": 1.0}, "output": {"weights": [1.0, 0.0], "gamma": 3.0}},
        {"input": {"weights": [0.75, 0.25], "gamma": 2.0}, "output": {"weights": [0.5, 0.5], "gamma": 1.0}},
    ]

    assert script.mean_of(runs) == {
        "input": {"weights": [0.5, 0.5], "gamma": 1.5},
        "output": {"weights": [0.75, 0.25], "gamma": 2.0},
    }


def test_a_task_is_trained_with_elmo_at_both_places_and_drawn(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tags = tmp_path / "tags.conll"
    tags.write_text("".join(f"The D\ndog{number} N\nran V\n\n" for number in range(30)), encoding="utf-8")
    picture = tmp_path / "layers.svg"
    arguments = ["--task", "tags", "bilstm-crf", str(tags), "--epochs", "1", "--seeds", "1", "--hidden-size", "4"]
    monkeypatch.setattr(sys, "argv", ["layer_weights.py", *arguments, "--output", str(picture)])

    script.main()

    input_, output, last = capsys.readouterr().out.splitlines()
    assert input_.startswith("tags, input: 0.3")
    assert output.startswith("tags, output: 0.3")
    assert last == f"Drew {picture}."
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_a_task_without_files_is_refused(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["layer_weights.py", "--task", "tags", "linear", "--output", "x.svg"])

    with pytest.raises(SystemExit):
        script.main()

    assert "a --task is a name, a head, and one or three files" in capsys.readouterr().err
