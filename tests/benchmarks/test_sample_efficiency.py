"""The curve over parts of the training set: what is kept, how long a part is read, means, and the picture."""

import argparse
import json
from pathlib import Path
from types import ModuleType

import pytest


def test_a_small_part_is_read_more_often(script: ModuleType) -> None:
    options = argparse.Namespace(epochs=20, patience=4, head="linear")

    whole, hundredth = (script.longer(options, part, with_elmo=True) for part in (1.0, 0.01))

    assert (whole.epochs, whole.patience) == (20, 4)
    assert (hundredth.epochs, hundredth.patience, hundredth.head) == (200, 40, "linear")
    assert (hundredth.without_elmo, script.longer(options, 1.0, with_elmo=False).without_elmo) == (False, True)


def test_points_are_means_and_deviations_from_the_smallest_part(script: ModuleType) -> None:
    rows = [(1.0, 100, True, 0, 90.0), (0.1, 10, True, 0, 70.0), (0.1, 10, True, 1, 74.0), (0.1, 10, False, 0, 9.0)]
    results = [script.Result(*row) for row in rows]

    assert script.points_of(results, True) == [(0.1, 10, 72, pytest.approx(8**0.5)), (1.0, 100, 90, 0)]
    assert script.points_of(results, False) == [(0.1, 10, 9, 0)]


def test_what_an_earlier_run_kept_is_not_trained_again(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = script.Result(0.5, 2, True, 0, 50.0)
    work = tmp_path / "work.jsonl"
    work.write_text(json.dumps(kept._asdict()) + "\n", encoding="utf-8")
    trained = []
    monkeypatch.setattr(script, "read_sets", lambda _: {"train": list("abcd"), "dev": [], "test": []})
    monkeypatch.setattr(script, "Task", lambda sets, *_, **__: argparse.Namespace(sets=sets))

    def train(task: argparse.Namespace, _: argparse.Namespace, seed: int) -> tuple[float, float, None]:
        trained.append(task.sets["train"])
        return 0.0, 60.0 + seed, None

    monkeypatch.setattr(script, "train", train)
    options = argparse.Namespace(parts=[1.0, 0.5], seeds=2, files=[], model="", epochs=1, patience=1)

    results = list(script.measure_parts(options, script.read_results(work), with_elmo=True))

    assert [(result.part, result.examples, result.seed, result.score) for result in results] == [
        (0.5, 2, 1, 61),
        (1.0, 4, 0, 60),
        (1.0, 4, 1, 61),
    ]
    assert [len(examples) for examples in trained] == [2, 4, 4]


def test_the_picture_has_both_curves_with_error_bars(script: ModuleType) -> None:
    results = [
        script.Result(part, int(1000 * part), with_elmo, seed, score + seed)
        for part, scores in ((0.01, (80.0, 50.0)), (1.0, (90.0, 85.0)))
        for with_elmo, score in zip((True, False), scores, strict=True)
        for seed in range(2)
    ]

    (axes,) = script.draw(results, "names").axes

    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["10\n1%", "1,000\n100%"]
    assert [line.get_ydata().tolist() for line in (bars.lines[0] for bars in axes.containers)] == [
        [80.5, 90.5],
        [50.5, 85.5],
    ]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["with ELMo", "without"]
