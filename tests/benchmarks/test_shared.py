"""What a file of scores keeps, what it drops and refuses, and the errors of the scripts."""

import argparse
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from elmo_hf import ELMO_SMALL_EN, ElmoError


def test_scores_are_found_by_settings_row_and_seed(script: ModuleType, tmp_path: Path) -> None:
    kept = script.KeptScores(tmp_path / "scores.jsonl")
    for settings, row, seed, score in (("a", "mix", 0, 1.0), ("a", "mix", 1, 2.0), ("b", "mix", 0, 3.0)):
        kept.add(settings, row, seed, score)

    again = script.KeptScores(tmp_path / "scores.jsonl")

    assert again.find("a", "mix", 3) == kept.find("a", "mix", 3) == {0: 1.0, 1: 2.0}
    assert again.find("a", "mix", 1) == {0: 1.0}
    assert again.find("b", "mix", 3) == {0: 3.0}
    assert again.find("b", "top", 3) == {}


def test_only_seeds_without_a_score_are_trained(script: ModuleType, tmp_path: Path) -> None:
    kept = script.KeptScores(tmp_path / "scores.jsonl")
    kept.add("a", "mix", 1, 50.0)
    trained = []

    def train(seed: int) -> float:
        trained.append(seed)
        return float(seed)

    for _ in range(2):
        assert kept.complete("a", "mix", 3, train) == [0.0, 50.0, 2.0]
    assert trained == [0, 2]


@pytest.mark.parametrize("whole", [0, 1])
def test_a_line_that_was_cut_off_is_dropped_and_written_over(script: ModuleType, tmp_path: Path, whole: int) -> None:
    path = tmp_path / "scores.jsonl"
    kept = script.KeptScores(path)
    for seed in range(whole + 1):
        kept.add("a", "mix", seed, 1.0)
    path.write_bytes(path.read_bytes()[:-9])

    again = script.KeptScores(path)
    assert list(again.find("a", "mix", 9)) == list(range(whole))
    again.add("a", "mix", 7, 2.0)

    assert list(script.KeptScores(path).find("a", "mix", 9)) == [*range(whole), 7]


@pytest.mark.parametrize("content", [b"a text\n", b'{"task": "tags", "score": 1}\n', b"[1]\n", b"half a text"])
def test_a_file_of_something_else_is_refused_and_left(script: ModuleType, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_bytes(content)

    with pytest.raises(ElmoError, match=r"is no file of results.*: name another one"):
        script.KeptScores(path)

    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["", "missing/scores.jsonl"])
def test_a_folder_that_does_not_exist_is_refused_before_anything_is_trained(
    script: ModuleType, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ElmoError, match="name a file in a folder that exists"):
        script.KeptScores(tmp_path / name)


def test_settings_differ_with_options_data_and_model_alone(script: ModuleType) -> None:
    def digest(data: object, model: str = ELMO_SMALL_EN, **options: object) -> str:
        return script.settings_of(argparse.Namespace(model=model, **options), data, without=("work",))

    own = digest([["a"]], epochs=3, work="x")

    assert own == digest([["a"]], epochs=3, work="y") == digest([["a"]], model="elmo-small-en", epochs=3, work="x")
    assert len({own, digest([["b"]], epochs=3, work="x"), digest([["a"]], epochs=4, work="x")}) == 3


def test_a_folder_keeps_the_results_of_one_command(script: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "work"
    for _ in range(2):
        script.check_settings(folder, ["--epochs", "2"])

    with pytest.raises(ElmoError, match="has results of other settings"):
        script.check_settings(folder, ["--epochs", "3"])

    assert json.loads((folder / "settings.json").read_text(encoding="utf-8")) == ["--epochs", "2"]


@pytest.mark.parametrize("text", ["0", "-0.1", "1.5", "nan"])
def test_a_share_is_above_0_and_1_at_most(script: ModuleType, text: str) -> None:
    assert (script.share("0.1"), script.share("1")) == (0.1, 1.0)
    with pytest.raises(argparse.ArgumentTypeError, match="is not a share"):
        script.share(text)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ElmoError("No head."), "x.py: error: No head."),
        (FileNotFoundError(2, "No such file", "a.txt"), "x.py: error: a.txt: No such file"),
        (KeyboardInterrupt(), "x.py: interrupted"),
    ],
)
def test_a_script_ends_with_one_line(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, error: BaseException, line: str
) -> None:
    def main() -> None:
        raise error

    monkeypatch.setattr(sys, "argv", ["folder/x.py"])
    with pytest.raises(SystemExit) as ended:
        script.run(main)

    assert ended.value.code == line
