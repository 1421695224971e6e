r"""Which layers to give a task, and where: tables 2 and 3 of the paper.

    python benchmarks/layer_choices.py --work choices.jsonl \
        --task names bilstm-crf wnut17.train.conll wnut17.dev.conll wnut17.test.conll \
        --task pairs esim sick.train.jsonl sick.dev.jsonl sick.test.jsonl

Trains each task without ELMo; on the top layer, the average of all layers, and mixes whose weights are learned and
drawn to zero by lambda, 1 and 0.001; and with the last mix at the input of the head, at its output, and at both. A
task is a name, a head, and the files of task_results.py, which trains it. Prints means and standard deviations over
the seeds. `--work` keeps each result: run the command again to go on.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from task_results import Task, add_tasks, add_training, check_tasks, mean_and_deviation, read_sets, train
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


class Result(NamedTuple):
    """The score of one training, in percent."""

    task: str
    row: str
    seed: int
    score: float


def read_results(path: Path) -> list[Result]:
    """Read the results of earlier runs."""
    if not path.exists():
        return []
    return [Result(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def rows_of_both() -> dict[str, dict[str, Any]]:
    """Return the rows of both tables; the mix at the input is in both and trained once."""
    return {**LAYERS, **{row: change for row, change in PLACES.items() if row != "input"}}


def run_task(options: argparse.Namespace, name: str, head: str, files: Sequence[str]) -> None:
    """Train each row of a task with each seed, if an earlier run has not, and keep the scores."""
    done = {(result.row, result.seed) for result in read_results(options.work) if result.task == name}
    left = [(row, seed) for row in rows_of_both() for seed in range(options.seeds) if (row, seed) not in done]
    if not left:
        return
    task = Task(read_sets(files), options.model, with_elmo=True)
    for row, seed in left:
        given = {**vars(options), "head": head, "without_elmo": False, "layer": "mix", **rows_of_both()[row]}
        result = Result(name, row, seed, train(task, argparse.Namespace(**given), seed)[1])
        with options.work.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result._asdict()) + "\n")


def table(results: Sequence[Result], tasks: Sequence[str], title: str, rows: Sequence[str]) -> list[str]:
    """Return the lines of a table: a row of choices, a column a task."""
    lines = [f"| {title} | {' | '.join(tasks)} |", "|---" * (1 + len(tasks)) + "|"]
    for row in rows:
        # the mix at the input has the name that it has among the layers
        name = "mix, lambda 0.001" if row == "input" else row
        scores = [[result.score for result in results if result[:2] == (task, name)] for task in tasks]
        columns = ("{:.2f} ± {:.2f}".format(*mean_and_deviation(own)) for own in scores)
        lines.append(f"| {row} | {' | '.join(columns)} |")
    return lines


def main() -> None:
    """Train the tasks and print both tables."""
    parser = argparse.ArgumentParser(description="Show which layers to give a task, and where.")
    add_tasks(parser)
    parser.add_argument("--work", type=Path, required=True, help="file that keeps the results")
    add_training(parser)
    options = parser.parse_args()
    check_tasks(parser, options.task)
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    for name, head, *files in options.task:
        run_task(options, name, head, files)
    names, results = [task[0] for task in options.task], read_results(options.work)
    print("\n".join(table(results, names, "layers", list(LAYERS))), end="\n\n")
    print("\n".join(table(results, names, "mix, lambda 0.001, at", list(PLACES))))


if __name__ == "__main__":
    main()
