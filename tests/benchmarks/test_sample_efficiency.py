"""The curve over parts of the training set: what is kept, how long a part is read, means, and the picture."""

import argparse
from pathlib import Path
from types import ModuleType

import pytest


def test_a_small_part_is_read_more_often(script: ModuleType) -> None:
    options = argparse.Namespace(epochs=20, patience=4, head="linear")

    whole, hundredth = (script.longer(options, part, with_elmo=True) for part in (1.0, 0.01))

    assert (whole.epochs, whole.patience) == (20, 4)
    assert (hundredth.epochs, hundredth.patience, hundredth.head) == (200, 40, "linear")
    assert (hundredth.without_elmo, script.longer(options, 1.0, with_elmo=False).without_elmo) == (False, True)


def test_what_an_earlier_run_kept_is_not_trained_again(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trained = []
    sets = {"train": list("abcd"), "dev": [], "test": []}
    monkeypatch.setattr(script, "Task", lambda sets, *_, **__: argparse.Namespace(sets=sets))

    def train(task: argparse.Namespace, _: argparse.Namespace, seed: int) -> tuple[float, float, None]:
        trained.append(task.sets["train"])
        return 0.0, 60.0 + 4 * seed + len(trained[-1]), None

    monkeypatch.setattr(script, "train", train)

    def measure(parts: list[float], seeds: int) -> list[object]:
        options = argparse.Namespace(parts=parts, seeds=seeds, epochs=1, patience=1, files=[], head="linear", model="")
        kept = script.KeptScores(tmp_path / "work.jsonl")
        return script.measure_parts(options, kept, sets, "settings", with_elmo=True)

    assert measure([0.5], 1) == [(0.5, 2, 62, 0)]
    points = measure([1.0, 0.5], 2)
    assert points == [(0.5, 2, 64, pytest.approx(8**0.5)), (1.0, 4, 66, pytest.approx(8**0.5))]
    assert measure([1.0, 0.5], 2) == points
    # of fewer seeds than are kept
    assert measure([1.0], 1) == [(1.0, 4, 64, 0)]
    assert [len(examples) for examples in trained] == [2, 2, 4, 4]


def test_the_picture_has_both_curves_with_error_bars(script: ModuleType) -> None:
    with_elmo, without = (
        [script.Point(part, int(1000 * part), score, 0.5) for part, score in zip((0.01, 1.0), scores, strict=True)]
        for scores in ((80.5, 90.5), (50.5, 85.5))
    )

    (axes,) = script.draw(with_elmo, without, "names").axes

    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["10\n1%", "1,000\n100%"]
    assert [line.get_ydata().tolist() for line in (bars.lines[0] for bars in axes.containers)] == [
        [80.5, 90.5],
        [50.5, 85.5],
    ]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["with ELMo", "without"]
