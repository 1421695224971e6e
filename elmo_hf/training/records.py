"""Record how a model is trained, in its configuration, where every copy of the model keeps it.

`elmo_hf.history` describes the fields. No folder of your machine is in a record, and no sentence of the text.
"""

import importlib.metadata
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from transformers import PreTrainedTokenizerBase, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from elmo_hf import __version__
from elmo_hf.hub.usage import example_words
from elmo_hf.inspection import read_json


# files that a record names
MOST_NAMES = 20

# rows that are searched for frequent words, and rows that have a word which is called so
MOST_ROWS, FEWEST_ROWS = 10_000, 10

# settings of a training: names in the record and in `TrainingArguments`
SETTINGS = {
    "optimizer": "optim",
    "learning_rate": "learning_rate",
    "schedule": "lr_scheduler_type",
    "warmup_steps": "warmup_steps",
    "weight_decay": "weight_decay",
    "clip_norm": "max_grad_norm",
    "accumulate": "gradient_accumulation_steps",
    "processes": "world_size",
    "bf16": "bf16",
    "seed": "seed",
}


def describe_source(
    files: Iterable[str | Path] = (),
    dataset: str | None = None,
    *,
    config: str | None = None,
    split: str | None = None,
) -> dict[str, Any]:
    """Return the fields of a record that name a text.

    Args:
        files: Names of files, folders and patterns; of each, the record keeps the last part.
        dataset: A data set of the library `datasets`. A folder, and the format of `files`, count as files.
        config: Which of the data set's configurations.
        split: Which of its splits.
    """
    names = public_names(files)
    if dataset is None or names:
        return {"text": names} if names else {}
    if Path(dataset).exists() or (public_name(dataset) != dataset and dataset.count("/") != 1):
        return {"text": [public_name(dataset)]}
    return {"dataset": dataset} | ({"config": config} if config else {}) | ({"split": split} if split else {})


def public_names(files: Iterable[str | Path]) -> list[str]:
    """Return the names of files without their folders, each once, and in place of very many their number."""
    names = list(dict.fromkeys(map(public_name, files)))
    left = len(names) - MOST_NAMES
    return names if left <= 0 else [*names[:MOST_NAMES], f"{left:,} more"]


def public_name(name: str | Path) -> str:
    """Return the last part of a path, a pattern or an address: the rest is not for others."""
    text = str(name)
    if text == "-":
        return "standard input"
    path = Path(urlsplit(text).path if "://" in text else text)
    return path.name if path.name not in ("", "..") else path.resolve().name


def public_model_name(name: str | Path) -> str:
    """Return the name of a model: that on the Hub, or the last part of its folder."""
    return public_name(name) if Path(name).exists() else str(name)


def count_rows(rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Return the fields of a record that count the rows of a task.

    Args:
        rows: The tokenizer's output for each sentence or pair.
        tokenizer: The tokenizer.
    """
    boundaries = {tokenizer.bos_token_id, tokenizer.eos_token_id}
    pairs = list(rows[0]["input_ids"]).count(tokenizer.bos_token_id) > 1
    # rows of which a predicate is marked
    frames = not pairs and any(rows[0].get("token_type_ids", ()))
    counts = {
        "inputs": "pairs" if pairs else "frames" if frames else "sentences",
        "sentences": len(rows),
        "words": sum(number not in boundaries for row in rows for number in row["input_ids"]),
    }
    frequent = [] if example_words(tokenizer.get_vocab()) else frequent_words(rows, tokenizer)
    return counts | ({"frequent_words": frequent} if frequent else {})


def frequent_words(rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Return the words that the most rows have, for the examples of a model card.

    Words that few rows have could tell what a private text says, and are left out.

    Args:
        rows: The tokenizer's output for each sentence or pair, with `char_ids`.
        tokenizer: The tokenizer, without a vocabulary.
    """
    counts: Counter[str] = Counter()
    for row in rows[:MOST_ROWS]:
        counts.update(set(str(tokenizer.decode(row["char_ids"], skip_special_tokens=True)).split()))
    return example_words([word for word, count in counts.most_common() if count >= FEWEST_ROWS])


class TrainingRecord(TrainerCallback):
    """A callback of any `Trainer` that records the training in the configuration of the model.

    The record grows with the training, so that each checkpoint has the one of its own steps. A resumed training
    continues the record of its checkpoint. `LanguageModelTrainer` and the fine-tuning scripts use it themselves.

    Args:
        facts: Fields that only you know: `task`, and what `describe_source` returns. `settings` are added to those
            that the callback knows.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = dict(facts)
        # of the trainings before this one
        self.earlier: list[dict[str, Any]] = []
        # what was measured, and at which step
        self.measured: list[dict[str, Any]] = []
        self.measured_at = -1
        self.seconds_before = 0.0
        self.begun = time.monotonic()

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, *_: Any, **kwargs: Any) -> None:
        """Begin a record, or continue that of the checkpoint."""
        config = _config_of(kwargs["model"])
        self.earlier = list(config.training_history or [])
        self.seconds_before, self.begun = 0.0, time.monotonic()
        if state.global_step:
            checkpoint = Path(str(args.output_dir), f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}", "config.json")
            *earlier, own = read_json(checkpoint).get("training_history") or [{}]
            # a checkpoint of another version has no record
            if own:
                self.earlier, self.seconds_before = earlier, own.get("seconds", 0.0)
        self._write(args, state, config)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, *_: Any, **kwargs: Any) -> None:
        """Bring the record up to date, before a checkpoint is saved."""
        self._write(args, state, _config_of(kwargs["model"]))

    def on_train_end(self, args: TrainingArguments, state: TrainerState, *_: Any, **kwargs: Any) -> None:
        """Bring the record up to date."""
        self._write(args, state, _config_of(kwargs["model"]))

    def measure(self, heldout: list[dict[str, Any]], state: TrainerState, model: Any) -> None:
        """Add what was measured on held-out text; it stays in the record until the next step.

        Args:
            heldout: The fields of `heldout` for each text.
            state: The state of the training.
            model: The model.
        """
        config = _config_of(model)
        # a model that nobody has trained here keeps its history
        if not state.global_step or len(config.training_history or []) <= len(self.earlier):
            return
        self.measured = [
            {name: round(value, 4) if isinstance(value, float) else value for name, value in each.items()}
            for each in heldout
            if math.isfinite(each["perplexity"])
        ]
        self.measured_at = state.global_step
        *earlier, own = config.training_history
        config.training_history = [*earlier, {**own, "heldout": self.measured}]

    def _write(self, args: TrainingArguments, state: TrainerState, config: Any) -> None:
        settings = {name: _plain(getattr(args, field)) for name, field in SETTINGS.items()}
        record = self.facts | {
            "steps": state.global_step,
            "epochs": round(state.epoch or 0.0, 3),
            "seconds": round(self.seconds_before + time.monotonic() - self.begun),
            "settings": settings | self.facts.get("settings", {}),
            "versions": {
                "elmo_hf": __version__,
                **{name: importlib.metadata.version(name) for name in ("torch", "transformers")},
            },
        }
        if self.measured_at == state.global_step:
            record["heldout"] = self.measured
        if args.load_best_model_at_end and state.best_global_step:
            record["best_step"] = state.best_global_step
        config.training_history = [*self.earlier, record]


def _config_of(model: Any) -> Any:
    """Return the configuration of a model, also inside the wrapper of several processes."""
    return getattr(model, "module", model).config


def _plain(value: Any) -> Any:
    """Return the text of an enumeration's member, and anything else as it is."""
    return getattr(value, "value", value)


__all__ = [
    "TrainingRecord",
    "count_rows",
    "describe_source",
    "frequent_words",
    "public_model_name",
    "public_name",
    "public_names",
]
