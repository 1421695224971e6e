"""What the benchmark of the scripts makes of data and scores; the scripts have tests of their own."""

import gzip
import json
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from elmo_hf import ElmoError


COMMAND = ["x", "finetune_srl.py", "a", "b", "c"]


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


def test_lines_end_at_newlines_only_and_the_last_one_may_have_none(script: ModuleType, tmp_path: Path) -> None:
    lines = [f'{{"text": "a\u2028b\x0b{number}"}}' for number in range(6)]
    (tmp_path / "all.jsonl").write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    (tmp_path / "work").mkdir()

    part = script.write_part(tmp_path / "all.jsonl", 0.99, tmp_path / "work").read_text(encoding="utf-8")

    assert sorted(part.split("\n")) == ["", *lines]


def test_a_file_is_not_replaced_by_a_part_of_it(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("{}\n{}\n", encoding="utf-8")

    with pytest.raises(ElmoError, match="would be overwritten by a part of it: give another --work"):
        script.write_part(tmp_path / "train.jsonl", 0.5, tmp_path)

    assert (tmp_path / "train.jsonl").read_text(encoding="utf-8") == "{}\n{}\n"


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

    def run(command: list[str], **_: object) -> SimpleNamespace:
        commands.append(command)
        output = Path(command[command.index("--output") + 1])
        output.mkdir()
        score = 0.5 + 0.1 * int(command[command.index("--seed") + 1])
        (output / "test_results.json").write_text(json.dumps({"test_f1": score}))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("sys.argv", [*COMMAND, "--work", str(tmp_path), "--seeds", "3", "--", "--epochs", "2"])

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


def test_scores_of_another_command_are_not_used(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.check_settings(tmp_path, ["finetune_srl.py", "a", "b", "c", "1", "--epochs", "3"])
    monkeypatch.setattr("sys.argv", [*COMMAND, "--work", str(tmp_path), "--", "--epochs", "2"])

    with pytest.raises(ElmoError, match=r"has results of other settings, which .*settings\.json names"):
        script.main()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["x", "finetune.py", "a", "b", "c"],
            r"no script 'finetune\.py': choose one of finetune_classification\.py, ",
        ),
        (COMMAND, r"finetune_srl\.py failed: read the end of .*seed-0\.log"),
    ],
)
def test_what_fails_is_named(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], message: str
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1))
    monkeypatch.setattr("sys.argv", [*given, "--work", str(tmp_path / "work")])

    with pytest.raises(ElmoError, match=message):
        script.main()


def test_a_metric_that_is_not_reported_is_named(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / "test_results.json").write_text(json.dumps({"test_f1": 0.5, "test_loss": 1.0}))
    monkeypatch.setattr("sys.argv", [*COMMAND, "--work", str(tmp_path), "--metrics", "f2"])

    with pytest.raises(ElmoError, match="reports no 'f2': choose --metrics among f1, loss"):
        script.main()
