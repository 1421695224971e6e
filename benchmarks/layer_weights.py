r"""Which layers tasks use: the weights that they learn, where ELMo is added to the input and to the output.

    python benchmarks/layer_weights.py --output layers.svg \
        --task names bilstm-crf wnut17.train.conll wnut17.dev.conll wnut17.test.conll \
        --task sentences bcn sst5.train.jsonl sst5.dev.jsonl sst5.test.jsonl

Figure 2 of the paper. A task is a name, a head, and the files of task_results.py, which trains it. Prints the weights
of each layer, from the token layer up, and the factor gamma on their sum, and draws the weights: means over the seeds.
`elmo-hf plot layers` draws those of models that you have fine-tuned. Needs `pip install "elmo_hf[plot]"`.
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from shared import run
from task_results import Example, Task, add_tasks, add_training, check_tasks, read_tasks, train
from transformers.utils import logging

from elmo_hf.integrations.plotting import check_picture, draw_layer_weights, save_picture


# of a model's `layer_weights()`
Learned = dict[str, dict[str, Any]]


def mean_of(runs: Sequence[Learned]) -> Learned:
    """Average what the seeds have learned, at each place."""
    return {
        place: {
            "weights": [
                statistics.fmean(layer) for layer in zip(*(run[place]["weights"] for run in runs), strict=True)
            ],
            "gamma": statistics.fmean(run[place]["gamma"] for run in runs),
        }
        for place in runs[0]
    }


def learn(options: argparse.Namespace, head: str, sets: dict[str, list[Example]]) -> Learned:
    """Train a task with each seed; return the mean of the weights."""
    task = Task(sets, options.model, with_elmo=True)
    given = argparse.Namespace(**vars(options), head=head, without_elmo=False, layer="mix")
    return mean_of([train(task, given, seed)[2] for seed in range(options.seeds)])


def main() -> None:
    """Train the tasks, report and draw."""
    parser = argparse.ArgumentParser(description="Show which layers tasks use.")
    add_tasks(parser)
    parser.add_argument("--output", type=Path, required=True, help="new picture: .svg, .png or .pdf")
    add_training(parser)
    parser.set_defaults(mix_at="both")
    options = parser.parse_args()
    check_tasks(parser, options.task)
    check_picture(options.output)
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    rows: dict[str, list[float]] = {}
    for name, (head, sets) in read_tasks(options.task).items():
        for place, mix in learn(options, head, sets).items():
            rows[f"{name}, {place}"] = mix["weights"]
            weights = " ".join(f"{weight:.2f}" for weight in mix["weights"])
            print(f"{name}, {place}: {weights}, gamma {mix['gamma']:.2f}", flush=True)
    save_picture(draw_layer_weights(rows), options.output)
    print(f"Drew {options.output}.")


if __name__ == "__main__":
    run(main)
