"""The choices of layers and places: both tables, what is kept, and a whole run on a few sentences."""

import argparse
import sys
from pathlib import Path
from types import ModuleType

import pytest


def test_the_mix_at_the_input_is_in_both_tables(script: ModuleType) -> None:
    scores = {"tags": {"mix, lambda 0.001": [90.0, 92.0], "output": [80.0]}}

    assert script.table(scores, "layers", ["mix, lambda 0.001"])[2:] == ["| mix, lambda 0.001 | 91.00 ± 1.41 |"]
    assert script.table(scores, "place", ["input", "output"]) == [
        "| place | tags |",
        "|---|---|",
        "| input | 91.00 ± 1.41 |",
        "| output | 80.00 ± 0.00 |",
    ]


def test_each_choice_is_trained_once(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tags, work = tmp_path / "tags.conll", tmp_path / "work.jsonl"
    tags.write_text("".join(f"The D\ndog{number} N\nran V\n\n" for number in range(30)), encoding="utf-8")
    arguments = ["--task", "tags", "bilstm-crf", str(tags), "--epochs", "1", "--seeds", "1", "--hidden-size", "4"]
    monkeypatch.setattr(sys, "argv", ["layer_choices.py", *arguments, "--work", str(work)])
    trained = []
    train = script.train

    def note(task: object, options: argparse.Namespace, seed: int) -> object:
        trained.append((options.layer, options.mix_at, options.mix_regularization, options.without_elmo))
        if len(trained) == 3:
            raise KeyboardInterrupt
        return train(task, options, seed)

    monkeypatch.setattr(script, "train", note)

    with pytest.raises(KeyboardInterrupt):
        script.main()
    for _ in range(2):
        script.main()

    average = ("average", "input", 0.0, False)
    assert trained == [
        ("mix", "input", 0.0, True),
        ("top", "input", 0.0, False),
        average,
        average,
        ("mix", "input", 1.0, False),
        ("mix", "input", 0.001, False),
        ("mix", "output", 0.001, False),
        ("mix", "both", 0.001, False),
    ]
    once, again = capsys.readouterr().out.split("| layers | tags |")[1:]
    assert once == again
    first, second = once.split("| mix, lambda 0.001, at | tags |")
    (mix,) = [line for line in first.splitlines() if line.startswith("| mix, lambda 0.001 |")]
    assert second.splitlines()[2] == mix.replace("mix, lambda 0.001", "input")


def test_a_task_without_files_is_refused(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["layer_choices.py", "--task", "tags", "linear", "--work", "x.jsonl"])

    with pytest.raises(SystemExit):
        script.main()

    assert "a --task is a name, a head, and one or three files" in capsys.readouterr().err
