"""Read the history of a model's trainings, `config.training_history`, in words.

Each training is a record, a dictionary that fits into JSON. All fields but `task` may be missing:

* `task`: `language-modeling`, or the task as the Hub calls it, such as `token-classification`.
* `text`: the names of the files, without their folders; or `dataset`, with `config` and `split`, on the Hub.
* `sentences` and `words` of the text, boundary tokens not counted; of streams, the `predictions` of an epoch: the
  words and one boundary token for each sentence.
* `steps` and `epochs`, `seconds`, and `best_step`, the one whose weights were kept.
* `settings`: optimizer, learning rate, batches and other options, by name.
* `heldout`: for each held-out text its `name` if there are several, its `text` or `dataset`, `sentences` and `words`;
  `perplexity`, `forward_perplexity` and `backward_perplexity`.
* `base_model`: the name of the model that was fine-tuned; `inputs`: `sentences`, `pairs` or `choices`.
* `frequent_words` of the text, if the tokenizer has no vocabulary.
* `versions` of the packages.
"""

from collections.abc import Mapping
from typing import Any

from .errors import ElmoError, counted
from .model.configuration_elmo import ElmoConfig


LANGUAGE_MODELING = "language-modeling"

MILLION = 10**6
MINUTE, HOUR = 60, 3600


def trainings(config: ElmoConfig) -> list[dict[str, Any]]:
    """Return the records of the trainings, the earliest first.

    Raises:
        ElmoError: If a record does not have the form that this module describes.
    """
    records = config.training_history or []
    try:
        for record in records:
            describe_training(record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ElmoError("The training_history in config.json is damaged: correct it, or take it out.") from error
    return records


def describe_training(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Describe a training, as `elmo-hf inspect` shows it.

    Args:
        record: The record of the training.

    Returns:
        Rows of a name and a value.
    """
    base = f" on {record['base_model']}" if record.get("base_model") else ""
    name = "language model" if record["task"] == LANGUAGE_MODELING else record["task"]
    rows = [("training", f"{name}{base}: {describe_text(record) or 'text not recorded'}")]
    if record.get("steps"):
        rows.append(("  length", describe_length(record)))
    return rows + [
        ("  held out", f"{describe_perplexity(heldout)}; {describe_text(heldout) or 'text not recorded'}")
        for heldout in record.get("heldout", [])
    ]


def describe_text(record: Mapping[str, Any]) -> str:
    """Return the names and the size of a text; an empty string if neither is recorded."""
    names = [record["dataset"]] if record.get("dataset") else list(record.get("text", []))
    counts = {
        "pair" if record.get("inputs") == "pairs" else "sentence": record.get("sentences"),
        "word": record.get("words"),
        "prediction": record.get("predictions"),
    }
    return ", ".join([*names, *(readable_count(count, unit) for unit, count in counts.items() if count)])


def describe_length(record: Mapping[str, Any]) -> str:
    """Return steps, epochs and time of a training."""
    parts = [counted(record["steps"], "step")]
    if record.get("epochs"):
        parts.append(counted(round(record["epochs"], 2), "epoch", ",g"))
    if record.get("seconds"):
        parts.append(readable_time(record["seconds"]))
    if record.get("best_step"):
        parts.append(f"the weights of step {record['best_step']:,}")
    return ", ".join(parts)


def describe_perplexity(heldout: Mapping[str, Any]) -> str:
    """Return the perplexities of a held-out text."""
    directions = [f"{name} {heldout[f'{name}_perplexity']:,.2f}" for name in ("forward", "backward")]
    name = f"{heldout['name']}: " if heldout.get("name") else ""
    return f"{name}perplexity {heldout['perplexity']:,.2f} ({', '.join(directions)})"


def readable_count(count: int, unit: str) -> str:
    """Return a number of things as text; from a million on, rounded."""
    if count < MILLION:
        return counted(count, unit)
    size, name = (MILLION, "million") if count < 1000 * MILLION else (1000 * MILLION, "billion")
    return f"{round(count / size, 2):g} {name} {unit}s"


def readable_time(seconds: float) -> str:
    """Return a duration as text, in the largest unit in which it is at least 1."""
    if seconds < MINUTE:
        return counted(seconds, "second", ".0f")
    return (
        counted(seconds / MINUTE, "minute", ".0f")
        if seconds < HOUR
        else counted(round(seconds / HOUR, 1), "hour", ",g")
    )


__all__ = [
    "LANGUAGE_MODELING",
    "describe_length",
    "describe_perplexity",
    "describe_text",
    "describe_training",
    "readable_count",
    "readable_time",
    "trainings",
]
