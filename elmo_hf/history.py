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
* `base_model`: the name of the model that was fine-tuned; `inputs`: `sentences`, `pairs` or `choices`;
  `unanswered`: how many questions have no answer.
* `frequent_words` of the text, if the tokenizer has no vocabulary.
* `versions` of the packages.
"""

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .errors import ElmoError, counted
from .model.configuration_elmo import ElmoConfig


LANGUAGE_MODELING = "language-modeling"

MILLION = 10**6
MINUTE, HOUR = 60, 3600

#: The name of a model or a data set on the Hub.
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
# how a path begins that is no name on the Hub
PATH = re.compile(r"[/\\~]|\.{1,2}[/\\]|[A-Za-z]:[/\\]")

PERPLEXITIES = ("perplexity", "forward_perplexity", "backward_perplexity")


class Form(NamedTuple):
    """What a record, or a part of it, must have.

    Attributes:
        fields: The kind of each field, a key of `CHECKS`; other fields may hold anything.
        needed: The fields that must not be missing.
    """

    fields: Mapping[str, str]
    needed: tuple[str, ...]


def _is_number(value: Any) -> bool:
    # not the truth values, infinity, NaN, or whole numbers beyond those that a float holds
    return type(value) in (int, float) and 0 <= value <= sys.float_info.max


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and len(value.splitlines()) == 1


CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "a line of text": _is_line,
    "a list of names": lambda value: isinstance(value, list | tuple) and all(map(_is_line, value)),
    "a count": lambda value: _is_number(value) and isinstance(value, int),
    "a number from 0 on": _is_number,
    "a mapping of names to values": lambda value: isinstance(value, Mapping),
    "a list of records": lambda value: isinstance(value, list | tuple),
}

SOURCE = {
    **dict.fromkeys(("dataset", "config", "split"), "a line of text"),
    "text": "a list of names",
    **dict.fromkeys(("sentences", "words", "predictions"), "a count"),
}
HELDOUT = Form(
    {**SOURCE, "name": "a line of text", **dict.fromkeys(PERPLEXITIES, "a number from 0 on")}, needed=PERPLEXITIES
)
TRAINING = Form(
    {
        **SOURCE,
        **dict.fromkeys(("task", "base_model", "inputs"), "a line of text"),
        **dict.fromkeys(("steps", "best_step", "unanswered"), "a count"),
        **dict.fromkeys(("epochs", "seconds"), "a number from 0 on"),
        **dict.fromkeys(("settings", "versions"), "a mapping of names to values"),
        "frequent_words": "a list of names",
        "heldout": "a list of records",
    },
    needed=("task",),
)


def trainings(config: ElmoConfig) -> list[dict[str, Any]]:
    """Return the records of the trainings, the earliest first.

    A field without a value is left out, and a path is cut to the name of its file, so that no card shows a folder of
    your machine.

    Raises:
        ElmoError: If a record does not have the form that this module describes.
    """
    records = config.training_history or []
    try:
        return [_read_record(record, TRAINING) for record in records]
    except ValueError as error:
        raise ElmoError(
            f"The training_history in config.json is damaged ({error}): correct it, or take it out."
        ) from error


def gives_no_answer(config: ElmoConfig) -> bool:
    """Return whether the last training of a model had questions without an answer.

    Raises:
        ElmoError: If a record does not have the form that this module describes.
    """
    records = trainings(config)
    return bool(records and records[-1].get("unanswered"))


def names_folders(config: ElmoConfig) -> bool:
    """Return whether a record of a training has paths, which everyone who gets config.json can read.

    Raises:
        ElmoError: If a record does not have the form that this module describes.
    """
    trainings(config)
    return any(_without_folders(dict(record)) != record for record in config.training_history or [])


def _read_record(record: Any, form: Form) -> dict[str, Any]:
    """Check a record or a part of it, and return it without empty fields and without folders.

    Args:
        record: What config.json has.
        form: What it must have.

    Raises:
        ValueError: If a field has the wrong form.
    """
    if not isinstance(record, Mapping):
        raise ValueError(f"{record!r:.80} is no record")
    fields = {name: value for name, value in record.items() if value not in (None, "")}
    for name in form.needed:
        if name not in fields:
            raise ValueError(f"a record has no {name}")
    for name, value in fields.items():
        kind = form.fields.get(name)
        if kind is not None and not CHECKS[kind](value):
            raise ValueError(f"{name} is {value!r:.80}, not {kind}")
    if "heldout" in fields:
        fields["heldout"] = [_read_record(each, HELDOUT) for each in fields["heldout"]]
    return _without_folders(fields)


def _without_folders(fields: dict[str, Any]) -> dict[str, Any]:
    """Cut the paths in a record to the names of their files."""
    shown = {name: _cut_paths(value) for name, value in fields.items()}
    if "text" in fields:
        shown["text"] = [_last_part(name) for name in fields["text"]]
    dataset = fields.get("dataset", "")
    # a path is that of files, and no data set of the Hub
    if PATH.match(dataset) or dataset.count("/") > 1:
        shown["text"] = [_last_part(shown.pop("dataset"))]
    return shown


def _cut_paths(value: Any) -> Any:
    """Cut the texts in a value that can only be paths; `org/name` may be a name on the Hub."""
    if isinstance(value, str):
        return _last_part(value) if PATH.match(value) else value
    if isinstance(value, list):
        return [_cut_paths(each) for each in value]
    return {name: _cut_paths(each) for name, each in value.items()} if isinstance(value, dict) else value


def _last_part(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1] or "folder"


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
        {"pairs": "pair", "frames": "frame"}.get(record.get("inputs", ""), "sentence"): record.get("sentences"),
        "word": record.get("words"),
        "prediction": record.get("predictions"),
    }
    parts = [*names, *(readable_count(count, unit) for unit, count in counts.items() if count)]
    if record.get("unanswered"):
        parts.append(f"{readable_count(record['unanswered'], 'question')} without an answer")
    return ", ".join(parts)


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
    "HUB_NAME",
    "LANGUAGE_MODELING",
    "describe_length",
    "describe_perplexity",
    "describe_text",
    "describe_training",
    "gives_no_answer",
    "names_folders",
    "readable_count",
    "readable_time",
    "trainings",
]
