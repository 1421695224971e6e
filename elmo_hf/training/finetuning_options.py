"""What the commands that fine-tune have in common on their command lines, and what they make of it."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import SchedulerType, TrainingArguments

from elmo_hf.model.modeling_elmo import ElmoTaskModel


Example = TypeVar("Example")

# a pair is cut to at least a word on each side
MIN_MAX_WORDS = 3

# of a biLM that is trained with a head
UNFROZEN_LEARNING_RATE = 1e-4


def add_options(
    parser: argparse.ArgumentParser, cls: type[ElmoTaskModel], *, formats: str, usual_head: str, learning_rate: float
) -> Any:
    """Give a command that fine-tunes the options that all of them have, of the data, the model and the training.

    Args:
        parser: Of the command line.
        cls: The class of the model.
        formats: Which files can be read.
        usual_head: What the help says of the head that is chosen where none is given.
        learning_rate: With which a head is trained where none is given.

    Returns:
        The group of options of the data, for more of them.
    """
    data = parser.add_argument_group("data")
    data.add_argument("train", nargs="?", help=f"{formats}; may be .gz")
    data.add_argument("--dev", metavar="FILE", help="to evaluate on after each epoch, and to choose the best one by")
    data.add_argument("--test", metavar="FILE", help="to evaluate on at the end")
    data.add_argument("--dataset", metavar="NAME", help="a data set of the library datasets, in place of files")
    data.add_argument("--dataset-config", metavar="NAME", help="which of its configurations")
    data.add_argument("--splits", nargs="+", default=["train", "validation", "test"], help="train, dev and test of it")
    data.add_argument("--labels", nargs="+", default=[], metavar="LABEL", help="that the training data has not")
    model = parser.add_argument_group("model")
    model.add_argument("--model", default="elmo-tiny-en", help="a folder or a name on the Hub")
    model.add_argument("--head", choices=tuple(cls.heads), help=f"{usual_head}, or the model's own, if not given")
    model.add_argument(
        "--head-hidden-size", type=at_least(1), metavar="N", help="width of each direction of the head's biLSTMs; 200"
    )
    model.add_argument(
        "--mix-at", choices=("input", "output", "both"), help="where the mix of layers goes in; input if not given"
    )
    model.add_argument("--mix-regularization", type=at_least(0.0), metavar="X", help="lambda in the paper; 0")
    model.add_argument("--dropout", type=at_least(0.0), metavar="X", help="on the vectors that the head reads; 0.5")
    model.add_argument("--unfreeze", action="store_true", help="train the biLM, too")
    model.add_argument("--layers-once", action=argparse.BooleanOptionalAction, help="even if large, or not at all")
    training = parser.add_argument_group("training")
    schedules = tuple(kind.value for kind in SchedulerType)
    more = "if not given"
    for name, kind, default, text in (
        ("--epochs", at_least(0.0, above=True), 10.0, "10 if not given"),
        ("--batch-size", at_least(1), 32, "sentences; 32"),
        ("--accumulate", at_least(1), 1, "batches of a step; 1"),
        ("--learning-rate", at_least(0.0), None, f"{learning_rate:g}, or 1e-4 with --unfreeze, {more}"),
        ("--warmup-steps", at_least(0.0), 0.0, "steps, or below 1 their share; 0"),
        ("--weight-decay", at_least(0.0), 0.0, "0 if not given"),
        ("--patience", at_least(1), None, "stop after so many epochs without a better result; never"),
        ("--threads", at_least(1), torch.get_num_threads(), "of the CPU; torch's own number"),
        ("--seed", at_least(0), 0, "of the head's first weights, the order and dropout; 0"),
    ):
        training.add_argument(name, type=kind, default=default, metavar="N", help=text)
    training.add_argument("--schedule", default="linear", choices=schedules, help="of the learning rate; linear")
    training.add_argument("--bf16", action="store_true", help="multiply in bfloat16")
    training.add_argument(
        "--resume", action="store_true", help="go on from the last checkpoint in DIR, or begin if there is none"
    )
    training.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of model and checkpoints")
    parser.set_defaults(usual_learning_rate=learning_rate)
    return data


def parse_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the command line; end the process with a message about options that do not go together."""
    options = parser.parse_args()
    files = [file for file in (options.train, options.dev, options.test) if file is not None]
    if not files and options.dataset is None:
        parser.error("give a file to train on, or --dataset; or --dev or --test, to measure --model alone")
    if files and options.dataset is not None:
        parser.error(f"give files or --dataset: {files[0]} would not be read")
    if options.max_words < MIN_MAX_WORDS:
        parser.error(f"--max-words is to be {MIN_MAX_WORDS} or more")
    has_dev = len(options.splits) > 1 if options.dataset is not None else options.dev is not None
    if options.patience is not None and not has_dev:
        parser.error("--patience needs --dev, or a second one of --splits")
    if options.output.exists() and not options.output.is_dir():
        parser.error(f"{options.output} is no folder: choose another --output")
    return options


def at_least(least: float, *, above: bool = False) -> Callable[[str], float]:
    """Make what reads a number of an option: an integer if `least` is one, and not below it."""

    def read(text: str) -> float:
        value = type(least)(text)
        if not (math.isfinite(value) and (value > least if above else value >= least)):
            raise argparse.ArgumentTypeError(f"{text} is not {'above' if above else 'at least'} {least:g}")
        return value

    # what argparse calls it where the text is no number
    read.__name__ = type(least).__name__
    return read


def read_splits(
    options: argparse.Namespace, read: Callable[[str], list[Example]], load: Callable[..., list[Example]]
) -> dict[str, list[Example]]:
    """Read the data that the options name.

    Args:
        options: As `parse_options` gives them.
        read: Reads a file.
        load: Loads a data set, given its name, that of a split, and `config`.

    Returns:
        What was read by `train`, `dev` and `test`, as far as they are there.
    """
    if options.dataset is None:
        files = {"train": options.train, "dev": options.dev, "test": options.test}
        return {name: read(file) for name, file in files.items() if file is not None}
    splits = zip(("train", "dev", "test"), options.splits, strict=False)
    return {name: load(options.dataset, split, config=options.dataset_config) for name, split in splits}


def source_of(options: argparse.Namespace, split: str) -> str:
    """Name what a split was read from, for messages."""
    return f"{options.dataset}, {split}" if options.dataset is not None else str(getattr(options, split))


def model_fields(options: argparse.Namespace) -> dict[str, Any]:
    """Give the fields of the configuration that the options say, for `load_task_model`."""
    return {
        "head": options.head,
        "head_hidden_size": options.head_hidden_size,
        "mix_at": options.mix_at,
        "mix_regularization": options.mix_regularization,
        "classifier_dropout": options.dropout,
        "freeze_bilm": not options.unfreeze,
    }


def training_arguments(options: argparse.Namespace, best: str, *, evaluate: bool) -> TrainingArguments:
    """Tell Trainer what the options say.

    Args:
        options: As `add_options` describes them.
        best: The metric by which the best epoch is chosen.
        evaluate: Whether there is a development set.
    """
    each_epoch = "epoch" if evaluate else "no"
    learning_rate = options.learning_rate
    if learning_rate is None:
        learning_rate = UNFROZEN_LEARNING_RATE if options.unfreeze else options.usual_learning_rate
    return TrainingArguments(
        str(options.output),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=2 * options.batch_size,
        gradient_accumulation_steps=options.accumulate,
        learning_rate=learning_rate,
        lr_scheduler_type=options.schedule,
        warmup_steps=options.warmup_steps,
        weight_decay=options.weight_decay,
        bf16=options.bf16,
        # or Trainer refuses bfloat16 where there is nothing else
        use_cpu=not torch.accelerator.is_available(),
        train_sampling_strategy="group_by_length",
        eval_strategy=each_epoch,
        save_strategy="epoch",
        save_total_limit=2,
        load_best_model_at_end=evaluate,
        metric_for_best_model=best,
        greater_is_better=True,
        logging_strategy="epoch",
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to="none",
        seed=options.seed,
    )


__all__ = [
    "add_options",
    "at_least",
    "model_fields",
    "parse_options",
    "read_splits",
    "source_of",
    "training_arguments",
]
