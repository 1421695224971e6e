"""The choices of layers and places: both tables, what is kept, and a whole run on a few sentences."""

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest


def test_the_mix_at_the_input_is_in_both_tables(script: ModuleType) -> None:
    results = [script.Result("tags", "mix, lambda 0.001", seed, score) for seed, score in enumerate((90.0, 92.0))] + [
        script.Result("tags", "output", 0, 80.0)
    ]

    assert script.table(results, ["tags"], "layers", ["mix, lambda 0.001"])[2:] == [
        "| mix, lambda 0.001 | 91.00 ± 1.41 |"
    ]
    assert script.table(results, ["tags"], "place", ["input", "output"]) == [
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
    kept = [script.Result("tags", row, 0, 50.0) for row in script.LAYERS if row != "top layer"]
    work.write_text("".join(json.dumps(result._asdict()) + "\n" for result in kept), encoding="utf-8")
    arguments = ["--task", "tags", "bilstm-crf", str(tags), "--epochs", "1", "--seeds", "1", "--hidden-size", "4"]
    monkeypatch.setattr(sys, "argv", ["layer_choices.py", *arguments, "--work", str(work)])
    trained = []
    train = script.train

    def note(task: object, options: argparse.Namespace, seed: int) -> object:
        trained.append((options.layer, options.mix_at, options.mix_regularization, options.without_elmo))
        return train(task, options, seed)

    monkeypatch.setattr(script, "train", note)

    for _ in range(2):
        script.main()

    assert trained == [("top", "input", 0.0, False), ("mix", "output", 0.001, False), ("mix", "both", 0.001, False)]
    first, second = capsys.readouterr().out.split("| mix, lambda 0.001, at | tags |")[:2]
    assert first.count("| 50.00 ± 0.00 |") == 4
    assert second.startswith("\n|---|---|\n| input | 50.00 ± 0.00 |\n| output | ")


def test_a_task_without_files_is_refused(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["layer_choices.py", "--task", "tags", "linear", "--work", "x.jsonl"])

    with pytest.raises(SystemExit):
        script.main()

    assert "a --task is a name, a head, and one or three files" in capsys.readouterr().err
