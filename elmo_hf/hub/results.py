"""The parts of a model card that say how the model was trained and how good it is, also as the Hub reads it."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult
from huggingface_hub.repocard_data import eval_results_to_model_index

from elmo_hf.history import LANGUAGE_MODELING, describe_length, describe_text, trainings
from elmo_hf.inspection import read_json
from elmo_hf.model.configuration_elmo import ElmoConfig

from .cards import table


# figures of `Trainer` that describe the machine or the training, not the model, and scores at a threshold that was
# chosen on the same data
NOT_OF_THE_MODEL = re.compile(r"runtime|per_second|_time$|^epoch$|flos|mem_|samples|steps?$|tokens|memory|^best_")

# names that people know, and the names of metrics on the Hub where they differ
METRIC_NAMES = {
    "accuracy": "Accuracy",
    "f1": "F1",
    "macro_f1": "Macro F1",
    "conll": "CoNLL-2012 (mean F1)",
    "precision": "Precision",
    "recall": "Recall",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "mse": "Mean squared error",
    "loss": "Loss",
    "perplexity": "Perplexity",
    "forward_perplexity": "Perplexity, forward",
    "backward_perplexity": "Perplexity, backward",
}
HUB_METRICS = {"macro_f1": "f1", "pearson": "pearsonr", "spearman": "spearmanr"}

# the order of the settings that matter most; the others follow
FIRST_SETTINGS = (
    "optimizer", "learning_rate", "schedule", "warmup_steps", "weight_decay", "clip_norm", "batches",
    "words_per_batch", "batch_size", "accumulate", "dropout",
)  # fmt: skip

SPLIT_NAMES = {"dev": "development", "eval": "evaluation"}

# metrics by split and name
Scores = Mapping[str, Mapping[str, float]]


def recorded_metrics(folder: Path) -> dict[str, dict[str, float]]:
    """Read the metrics of the model that `Trainer.save_metrics` left in a folder, by split and name."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(folder.glob("*_results.json")):
        split = path.name.removesuffix("_results.json")
        metrics = {key.removeprefix(f"{split}_"): value for key, value in read_json(path).items()}
        metrics = {
            key: float(value)
            for key, value in metrics.items()
            # NaN is no result, and no JSON
            if type(value) in (int, float) and abs(value) <= sys.float_info.max and not NOT_OF_THE_MODEL.search(key)
        }
        if metrics and split not in ("all", "train"):
            found[split] = metrics
    return found


def metric_name(key: str) -> str:
    """Return the name of a metric for people."""
    if key in METRIC_NAMES:
        return METRIC_NAMES[key]
    kind, _, metric = key.rpartition("_")
    return f"{METRIC_NAMES[metric]} of {kind}" if kind and metric in METRIC_NAMES else key.replace("_", " ")


def training_blocks(config: ElmoConfig) -> list[str]:
    """Write what is recorded of the trainings of a model: a heading and a table for each, the earliest first.

    Raises:
        ElmoError: If the records are damaged.
    """
    blocks = []
    for record in trainings(config):
        is_language_model = record["task"] == LANGUAGE_MODELING
        heading = "Language model" if is_language_model else record["task"].replace("-", " ").capitalize()
        rows = {
            "base model": record.get("base_model"),
            "text" if is_language_model else "data": describe_text(record),
            "length": describe_length(record) if record.get("steps") else None,
            "settings": _describe_settings(record.get("settings", {})),
            "versions": ", ".join(f"{name} {value}" for name, value in record.get("versions", {}).items()),
        }
        blocks += [f"### {heading}", table(("", ""), [(name, value) for name, value in rows.items() if value])]
    return blocks


def _describe_settings(settings: Mapping[str, Any]) -> str:
    """Return settings in one line, without those that are off."""
    names = [name for name in FIRST_SETTINGS if name in settings]
    names += [name for name in settings if name not in FIRST_SETTINGS]
    # a number that is 0 says something, an option that is off does not
    shown = {name: settings[name] for name in names if settings[name] is not False}
    return ", ".join(
        name.replace("_", " ") if value is True else f"{name.replace('_', ' ')} {value}"
        for name, value in shown.items()
    )


def result_blocks(config: ElmoConfig, scores: Scores) -> list[str]:
    """Write the table of results: of a language model its perplexity, of a task its metrics.

    Args:
        config: The configuration of the model, with the record of its trainings.
        scores: The metrics of the task by split.

    Returns:
        The table, or nothing if nothing is known.
    """
    rows: list[tuple[str, str, str]] = []
    records = trainings(config)
    heldout = records[-1].get("heldout", []) if records else []
    for text in heldout:
        names = [name for name in METRIC_NAMES if name in text]
        where = describe_text(text) or text.get("name") or "held-out text"
        rows += [(where, METRIC_NAMES[name], f"{text[name]:,.2f}") for name in names]
    if not heldout:
        rows += [
            (SPLIT_NAMES.get(split, split), metric_name(name), f"{value:.4f}")
            for split, part in scores.items()
            for name, value in part.items()
        ]
    return [table(("measured on", "metric", "value"), rows)] if rows else []


def data_sets(config: ElmoConfig) -> list[str]:
    """Return the data sets on the Hub that the model was trained on."""
    return list(dict.fromkeys(record["dataset"] for record in trainings(config) if record.get("dataset")))


def model_index(name: str, task: str, data_set: str, scores: Scores) -> list[dict[str, Any]]:
    """Return the results as the Hub reads them, the field `model-index` of the metadata.

    Args:
        name: The name of the model.
        task: Its task, as the Hub calls it.
        data_set: The data set on the Hub that was measured on.
        scores: The metrics by split.
    """
    results: Sequence[EvalResult] = [
        EvalResult(
            task_type=task,
            dataset_type=data_set,
            dataset_name=data_set,
            dataset_split=split,
            metric_type=HUB_METRICS.get(metric, metric),
            metric_value=round(value, 4),
            metric_name=f"{metric_name(metric)} ({split})",
        )
        for split, part in scores.items()
        for metric, value in part.items()
    ]
    return eval_results_to_model_index(name, list(results)) if results else []


__all__ = [
    "Scores",
    "data_sets",
    "metric_name",
    "model_index",
    "recorded_metrics",
    "result_blocks",
    "training_blocks",
]
