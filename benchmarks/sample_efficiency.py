r"""How many training examples ELMo saves: a task's score with and without it, on parts of the training set.

    python benchmarks/sample_efficiency.py train.conll dev.conll test.conll --head bilstm-crf --work names.jsonl \
        --output names.svg

Takes the files and options of task_results.py, and trains as it does. Each seed has its own part of the training set,
so that the error bars, the standard deviation over seeds, show how much the choice of examples matters. A smaller part
is read more often: 1 % of the examples for ten times the epochs, 10 % for three times. `--work` keeps each result: run
the command again to go on. Needs `pip install "elmo_hf[plot]"`.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from task_results import Example, Task, add_training, mean_and_deviation, part_of, read_sets, train
from transformers.utils import logging

from elmo_hf.integrations.plotting import DOT, QUERY, check_picture, save_picture


if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result(NamedTuple):
    """The score of one training, in percent, and the number of its examples."""

    part: float
    examples: int
    with_elmo: bool
    seed: int
    score: float


class Point(NamedTuple):
    """Mean and standard deviation over the seeds."""

    part: float
    examples: int
    mean: float
    deviation: float


def read_results(path: Path) -> list[Result]:
    """Read the results of earlier runs."""
    if not path.exists():
        return []
    return [Result(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def measure_parts(options: argparse.Namespace, results: Sequence[Result], with_elmo: bool) -> Iterator[Result]:
    """Train on each part with each seed, if an earlier run has not."""
    done = {(result.part, result.with_elmo, result.seed) for result in results}
    left = [
        (part, seed)
        for part in sorted(options.parts)
        for seed in range(options.seeds)
        if (part, with_elmo, seed) not in done
    ]
    if not left:
        return
    sets = read_sets(options.files)
    task = Task(sets, options.model, with_elmo=with_elmo)
    for part, seed in left:
        examples: list[Example] = part_of(sets["train"], part, seed)
        task.sets = {**sets, "train": examples}
        score = train(task, longer(options, part, with_elmo), seed)[1]
        yield Result(part, len(examples), with_elmo, seed, score)


def longer(options: argparse.Namespace, part: float, with_elmo: bool) -> argparse.Namespace:
    """Return the options of a training on a part: the smaller it is, the more epochs."""
    times = part**-0.5
    changed = {
        "epochs": round(options.epochs * times),
        "patience": round(options.patience * times),
        "without_elmo": not with_elmo,
        "layer": "mix",
    }
    return argparse.Namespace(**{**vars(options), **changed})


def points_of(results: Sequence[Result], with_elmo: bool) -> list[Point]:
    """Return mean and deviation of each part, from the smallest."""
    points = []
    for part in sorted({result.part for result in results if result.with_elmo == with_elmo}):
        own = [result for result in results if (result.part, result.with_elmo) == (part, with_elmo)]
        scores = [result.score for result in own]
        points.append(Point(part, own[0].examples, *mean_and_deviation(scores)))
    return points


def draw(results: Sequence[Result], title: str) -> "Figure":
    """Draw both curves over the number of training examples, with error bars."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5))
    axes = figure.add_subplot()
    for with_elmo, label, color in ((True, "with ELMo", DOT), (False, "without", QUERY)):
        points = points_of(results, with_elmo)
        axes.errorbar(
            [point.examples for point in points],
            [point.mean for point in points],
            [point.deviation for point in points],
            label=label,
            color=color,
            marker="o",
            capsize=3,
        )
    ticks = {point.examples: point.part for point in points_of(results, True)}
    axes.set_xscale("log")
    axes.set_xticks(list(ticks), [f"{examples:,}\n{part:.0%}" for examples, part in ticks.items()])
    axes.minorticks_off()
    axes.set_xlabel("training examples")
    axes.set_ylabel("score in percent")
    axes.set_title(title, parse_math=False)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def main() -> None:
    """Train on each part with each seed, report and draw."""
    parser = argparse.ArgumentParser(description="Measure how many training examples ELMo saves.")
    parser.add_argument("files", nargs="+", help="train, dev and test; or one file of columns")
    parser.add_argument("--head", required=True, help="linear, bilstm-crf, mean, max, bcn or esim")
    parser.add_argument(
        "--parts", type=float, nargs="+", default=[0.01, 0.03, 0.1, 0.3, 1.0], help="of the training set"
    )
    parser.add_argument("--work", type=Path, required=True, help="file that keeps the results")
    parser.add_argument("--output", type=Path, required=True, help="new picture: .svg, .png or .pdf")
    parser.add_argument("--title", help="of the picture; by default the first file and the head")
    add_training(parser)
    options = parser.parse_args()
    check_picture(options.output)
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    results = read_results(options.work)
    for with_elmo in (True, False):
        for result in measure_parts(options, results, with_elmo):
            with options.work.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result._asdict()) + "\n")
    results = read_results(options.work)
    print("| training examples | with ELMo | without |\n|---|---|---|")
    for one, other in zip(points_of(results, True), points_of(results, False), strict=True):
        columns = (f"{point.mean:.2f} ± {point.deviation:.2f}" for point in (one, other))
        print(f"| {one.examples:,} ({one.part:.0%}) | {' | '.join(columns)} |")
    save_picture(draw(results, options.title or f"{Path(options.files[0]).name}, {options.head}"), options.output)
    print(f"Drew {options.output}.")


if __name__ == "__main__":
    main()
