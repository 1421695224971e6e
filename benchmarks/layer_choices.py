r"""Which layers to give a task, and where: tables 2 and 3 of the paper.

    python benchmarks/layer_choices.py --work choices.jsonl \
        --task names bilstm-crf wnut17.train.conll wnut17.dev.conll wnut17.test.conll \
        --task pairs esim sick.train.jsonl sick.dev.jsonl sick.test.jsonl

Trains each task without ELMo; on the top layer, the average of all layers, and mixes whose weights are learned and
drawn to zero by lambda, 1 and 0.001; and with the last mix at the input of the head, at its output, and at both. A
task is a name, a head, and the files of task_results.py, which trains it. Prints means and standard deviations over
the seeds. `--work` keeps each score: run the command again to go on.
"""

import argparse
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from shared import KeptScores, mean_and_deviation, run, settings_of
from task_results import Example, Task, add_tasks, add_training, check_tasks, read_tasks, train
from transformers.utils import logging


# what changes from row to row of both tables
MIX = {"mix_regularization": 0.001}
LAYERS: dict[str, dict[str, Any]] = {
    "without ELMo": {"without_elmo": True},
    "top layer": {"layer": "top"},
    "average of all layers": {"layer": "average"},
    "mix, lambda 1": {"mix_regularization": 1.0},
    "mix, lambda 0.001": MIX,
}
PLACES: dict[str, dict[str, Any]] = {
    "input": MIX,
    "output": {**MIX, "mix_at": "output"},
    "input and output": {**MIX, "mix_at": "both"},
}


def rows_of_both() -> dict[str, dict[str, Any]]:
    """Return the rows of both tables; the mix at the input is in both and trained once."""
    return {**LAYERS, **{row: change for row, change in PLACES.items() if row != "input"}}


def run_task(
    options: argparse.Namespace, kept: KeptScores, head: str, sets: dict[str, list[Example]]
) -> dict[str, list[float]]:
    """Return the scores of each row, of each seed; those that an earlier run has not kept are trained."""
    settings = settings_of(options, [head, sets], without=("task", "work", "seeds", "threads"))
    task = cache(lambda: Task(sets, options.model, with_elmo=True))

    def score(change: dict[str, Any], seed: int) -> float:
        given = {**vars(options), "head": head, "without_elmo": False, "layer": "mix", **change}
        return train(task(), argparse.Namespace(**given), seed)[1]

    return {
        row: kept.complete(settings, row, options.seeds, partial(score, change))
        for row, change in rows_of_both().items()
    }


def table(scores: Mapping[str, Mapping[str, Sequence[float]]], title: str, rows: Sequence[str]) -> list[str]:
    """Return the lines of a table: a row of choices, a column a task.

    Args:
        scores: The scores of each task by row.
        title: What the rows are.
        rows: The rows of this table.
    """
    lines = [f"| {title} | {' | '.join(scores)} |", "|---" * (1 + len(scores)) + "|"]
    for row in rows:
        # the mix at the input has the name that it has among the layers
        name = "mix, lambda 0.001" if row == "input" else row
        columns = ("{:.2f} ± {:.2f}".format(*mean_and_deviation(own[name])) for own in scores.values())
        lines.append(f"| {row} | {' | '.join(columns)} |")
    return lines


def main() -> None:
    """Train the tasks and print both tables."""
    parser = argparse.ArgumentParser(description="Show which layers to give a task, and where.")
    add_tasks(parser)
    parser.add_argument("--work", type=Path, required=True, help="file that keeps the scores")
    add_training(parser)
    options = parser.parse_args()
    check_tasks(parser, options.task)
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    kept = KeptScores(options.work)
    scores = {name: run_task(options, kept, head, sets) for name, (head, sets) in read_tasks(options.task).items()}
    print("\n".join(table(scores, "layers", list(LAYERS))), end="\n\n")
    print("\n".join(table(scores, "mix, lambda 0.001, at", list(PLACES))))


if __name__ == "__main__":
    run(main)
