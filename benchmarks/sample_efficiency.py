r"""How many training examples ELMo saves: a task's score with and without it, on parts of the training set.

    python benchmarks/sample_efficiency.py train.conll dev.conll test.conll --head bilstm-crf --work names.jsonl \
        --output names.svg

Takes the files and options of task_results.py, and trains as it does. Each seed has its own part of the training set,
so that the error bars, the standard deviation over seeds, show how much the choice of examples matters. A smaller part
is read more often: 1 % of the examples for ten times the epochs, 10 % for three times. `--work` keeps each score: run
the command again to go on. Needs `pip install "elmo_hf[plot]"`.
"""

import argparse
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from shared import KeptScores, mean_and_deviation, run, settings_of, share
from task_results import Example, Task, add_training, check_files, part_of, read_sets, size_of_part, train
from transformers.utils import logging

from elmo_hf.integrations.plotting import DOT, QUERY, check_picture, save_picture


if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Point(NamedTuple):
    """Mean and standard deviation over the seeds."""

    part: float
    examples: int
    mean: float
    deviation: float


def measure_parts(
    options: argparse.Namespace, kept: KeptScores, sets: dict[str, list[Example]], settings: str, *, with_elmo: bool
) -> list[Point]:
    """Train on each part with each seed, if an earlier run has not; return mean and deviation, the smallest first."""
    task = cache(lambda: Task(sets, options.model, with_elmo=with_elmo))

    def score(part: float, seed: int) -> float:
        task().sets = {**sets, "train": part_of(sets["train"], part, seed)}
        given = longer(options, len(task().sets["train"]) / len(sets["train"]), with_elmo)
        return train(task(), given, seed)[1]

    points = []
    for part in sorted(set(options.parts)):
        row = f"{part:g} {'with' if with_elmo else 'without'} ELMo"
        scores = kept.complete(settings, row, options.seeds, partial(score, part))
        points.append(Point(part, size_of_part(sets["train"], part), *mean_and_deviation(scores)))
    return points


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


def draw(with_elmo: Sequence[Point], without: Sequence[Point], title: str) -> "Figure":
    """Draw both curves over the number of training examples, with error bars."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5))
    axes = figure.add_subplot()
    for points, label, color in ((with_elmo, "with ELMo", DOT), (without, "without", QUERY)):
        axes.errorbar(
            [point.examples for point in points],
            [point.mean for point in points],
            [point.deviation for point in points],
            label=label,
            color=color,
            marker="o",
            capsize=3,
        )
    ticks = {point.examples: point.part for point in with_elmo}
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
        "--parts", type=share, nargs="+", default=[0.01, 0.03, 0.1, 0.3, 1.0], help="of the training set"
    )
    parser.add_argument("--work", type=Path, required=True, help="file that keeps the scores")
    parser.add_argument("--output", type=Path, required=True, help="new picture: .svg, .png or .pdf")
    parser.add_argument("--title", help="of the picture; by default the first file and the head")
    add_training(parser)
    options = parser.parse_args()
    check_files(parser, options.files)
    check_picture(options.output)
    if options.work.resolve() == options.output.resolve():
        parser.error("--work and --output are one file: give two")
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    kept = KeptScores(options.work)
    sets = read_sets(options.files, options.head)
    settings = settings_of(options, sets, without=("files", "parts", "work", "output", "title", "seeds", "threads"))
    with_elmo, without = (measure_parts(options, kept, sets, settings, with_elmo=choice) for choice in (True, False))
    print("| training examples | with ELMo | without |\n|---|---|---|")
    for one, other in zip(with_elmo, without, strict=True):
        columns = (f"{point.mean:.2f} ± {point.deviation:.2f}" for point in (one, other))
        print(f"| {one.examples:,} ({one.part:.0%}) | {' | '.join(columns)} |")
    title = options.title or f"{Path(options.files[0]).name}, {options.head}"
    save_picture(draw(with_elmo, without, title), options.output)
    print(f"Drew {options.output}.")


if __name__ == "__main__":
    run(main)
