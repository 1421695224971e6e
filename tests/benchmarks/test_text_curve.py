"""The curve over texts: its sizes, what it writes once, and what it refuses before it trains."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from elmo_hf import ElmoError


TAGS = "".join(f"The D\ndog{number} N\nran V\n\n" for number in range(30))


@pytest.fixture
def run(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Run the script on a short text, without the trainings."""
    monkeypatch.chdir(tmp_path)
    Path("tags.conll").write_text(TAGS, encoding="utf-8")
    Path("text.txt").write_text("".join(f"word{number} is here .\n" for number in range(50)), encoding="utf-8")
    commands = []

    def run_python(command: list[object]) -> str:
        commands.append([str(part) for part in command])
        return "mean 50.00 standard deviation 1.00\n"

    monkeypatch.setattr(script, "run_python", run_python)

    def main(*arguments: str, task: str = "tags.conll", head: str = "linear") -> list[list[str]]:
        commands.clear()
        given = ["text.txt", "--task", task, "--head", head, "--work", "work", *arguments]
        monkeypatch.setattr(sys, "argv", ["text_curve.py", *given])
        script.main()
        return [command for command in commands if "task_results.py" in command[0]]

    return main


def test_each_size_is_measured_once_for_each_way_of_training(run: object) -> None:
    sizes = ["--texts", "40x2", "100x1"]

    assert len(run(*sizes)) == 3
    assert run(*sizes) == []
    assert len(run(*sizes, "--task-epochs", "7")) == 3

    texts = [Path("work", size, "text.txt").read_text(encoding="utf-8").split() for size in ("40", "100")]
    assert [len(words) for words in texts] == [40, 100]
    assert texts[1][:40] == texts[0]


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        (["20x1"], {"task": "missing.conll"}, "missing.conll"),
        (["20x1"], {"head": "bilstm"}, "no head 'bilstm'"),
        (["1000x1"], {}, "The files have 200 words, not 1,000: ask for fewer"),
    ],
)
def test_what_cannot_be_trained_is_refused_first(
    run: object, sizes: list[str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(ElmoError, match=message):
        run("--texts", *sizes, **options)


@pytest.mark.parametrize("sizes", [["20x1", "20x2"], ["0x1"], ["20x0"], ["20xnan"], ["20"]])
def test_sizes_without_meaning_are_wrong_usage(run: object, sizes: list[str]) -> None:
    with pytest.raises(SystemExit):
        run("--texts", *sizes)


def test_a_folder_of_other_texts_is_refused(run: object) -> None:
    run("--texts", "40x2")

    with pytest.raises(ElmoError, match="has results of other settings"):
        run("--texts", "40x3")
