"""What the benchmark of the scripts makes of data and scores; the scripts have tests of their own."""

import gzip
import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest


def test_a_part_of_json_lines_is_the_same_each_time(script: ModuleType, tmp_path: Path) -> None:
    lines = [f'{{"number": {number}}}\n' for number in range(20)]
    with gzip.open(tmp_path / "all.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(lines)

    parts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        part = script.write_part(tmp_path / "all.jsonl.gz", 0.25, tmp_path / name)
        parts.append(part.read_text(encoding="utf-8").splitlines(keepends=True))

    assert parts[0] == parts[1]
    assert len(set(parts[0])) == 5
    assert set(parts[0]) < set(lines)


def test_a_part_of_squad_keeps_whole_paragraphs_and_their_titles(script: ModuleType) -> None:
    articles = [
        {"title": str(n), "paragraphs": [{"context": f"{n} {m}", "qas": []} for m in range(5)]} for n in range(4)
    ]

    part = script.take_part({"version": "1.1", "data": articles}, 0.5)

    assert part["version"] == "1.1"
    found = [(article["title"], *article["paragraphs"]) for article in part["data"]]
    assert len({paragraph["context"] for _, paragraph in found}) == 10
    assert all(paragraph["context"].startswith(title) for title, paragraph in found)


def test_scores_of_seeds_are_averaged_and_kept(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = []

    def run(command: list[str], **_: object) -> None:
        commands.append(command)
        output = Path(command[command.index("--output") + 1])
        output.mkdir()
        score = 0.5 + 0.1 * int(command[command.index("--seed") + 1])
        (output / "test_results.json").write_text(json.dumps({"test_f1": score}))

    monkeypatch.setattr(subprocess, "run", run)
    arguments = ["x", "finetune_srl.py", "a", "b", "c", "--work", str(tmp_path), "--seeds", "3", "--", "--epochs", "2"]
    monkeypatch.setattr("sys.argv", arguments)

    script.main()
    script.main()

    assert len(commands) == 3
    assert commands[0][-2:] == ["--epochs", "2"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(",", 1)[0] for line in lines[1:4]] == [
        "seed 0: f1 50.00",
        "seed 1: f1 60.00",
        "seed 2: f1 70.00",
    ]
    assert lines[4] == lines[9] == "f1: mean 60.00 standard deviation 10.00"
