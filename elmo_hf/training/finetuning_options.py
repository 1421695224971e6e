"""The options of a fine-tuning run, and the command line that sets them."""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from transformers import SchedulerType, TrainingArguments

from elmo_hf.model.modeling_elmo import ElmoTaskModel


Example = TypeVar("Example")

# a pair that is cut keeps at least one word on each side
MIN_MAX_WORDS = 3

# the width of a character in the paper's named entity recogniser
TASK_CHAR_DIM = 16

# the default when the biLM is trained together with a head
UNFROZEN_LEARNING_RATE = 1e-4


@dataclass(frozen=True, kw_only=True)
class FineTuningOptions:
    """The options that every fine-tuning run has; a script adds its own in a subclass.

    Attributes:
        output: The folder of the model and its checkpoints.
        train: The file to train on; `None` only measures the model.
        dev: The file to evaluate on after each epoch, by which the best epoch is chosen.
        test: The file to evaluate on at the end.
        dataset: The name of a data set of the library `datasets`, in place of files.
        dataset_config: The configuration of the data set, if it has several.
        splits: The names of its splits for training, development and test.
        labels: Labels that do not occur in the training data.
        model: A folder, a name on the Hub, or `elmo-small-en`.
        head: The head of the model; `None` keeps the model's own, or the task's default.
        head_hidden_size: The width of each direction of the head's biLSTMs; `None` keeps the configuration's.
        mix_at: `input`, `output` or `both`; `None` keeps the configuration's.
        mix_regularization: Lambda of the paper; `None` keeps the configuration's.
        dropout: Dropout on the vectors that the head reads; `None` keeps the configuration's.
        unfreeze: Whether to train the biLM too.
        without_elmo: Whether the head reads the task's own words and characters alone.
        word_vectors: A file of word vectors, which the head reads beside ELMo.
        word_vectors_dim: The width of word vectors that are learned with the task.
        train_word_vectors: Whether to train the vectors of the file.
        task_chars: Whether the head reads the characters of words beside ELMo, by convolutions of its own.
        layers_once: Whether to compute the layers of a frozen biLM once; `None` does so if the biLM is frozen.
        cache_dir: The folder that keeps these layers for other runs; `None` keeps them in memory or, if they do not
            fit, in `output` until the script has ended.
        epochs: The number of epochs.
        batch_size: Sentences, or documents, per batch.
        accumulate: Batches per step.
        learning_rate: `None` takes `default_learning_rate`, or 1e-4 with `unfreeze`.
        default_learning_rate: The learning rate of a head when none is given.
        warmup_steps: Steps of warm-up, or below 1 their fraction of all steps.
        weight_decay: The weight decay.
        patience: Epochs without a better result after which the training stops; `None` never stops it.
        threads: Threads of the CPU.
        seed: Seed of the head's first weights, the order and dropout.
        schedule: The schedule of the learning rate, by its name in Transformers.
        bf16: Whether to multiply in bfloat16.
        resume: Whether to continue from the last checkpoint in `output`, or begin if there is none.
        max_words: The length at which longer texts are cut.
    """

    # options of a script, by which a training differs from another
    own_job_options: ClassVar[tuple[str, ...]] = ()

    output: Path
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    dataset: str | None = None
    dataset_config: str | None = None
    splits: tuple[str, ...] = ("train", "validation", "test")
    labels: tuple[str, ...] = ()
    model: str = "elmo-small-en"
    head: str | None = None
    head_hidden_size: int | None = None
    mix_at: str | None = None
    mix_regularization: float | None = None
    dropout: float | None = None
    unfreeze: bool = False
    without_elmo: bool = False
    word_vectors: str | None = None
    word_vectors_dim: int | None = None
    train_word_vectors: bool = False
    task_chars: bool = False
    layers_once: bool | None = None
    cache_dir: Path | None = None
    epochs: float = 10.0
    batch_size: int = 32
    accumulate: int = 1
    learning_rate: float | None = None
    default_learning_rate: float = 1e-3
    warmup_steps: float = 0.0
    weight_decay: float = 0.0
    patience: int | None = None
    threads: int = 1
    seed: int = 0
    schedule: str = "linear"
    bf16: bool = False
    resume: bool = False
    max_words: int = 400

    @property
    def has_dev(self) -> bool:
        """Whether there is a development set."""
        return len(self.splits) > 1 if self.dataset is not None else self.dev is not None

    @property
    def data_name(self) -> str:
        """The name of the training data, for a model card."""
        return self.dataset or Path(self.train or "").name

    def source_of(self, split: str) -> str:
        """Return where a split was read from, for messages."""
        return f"{self.dataset}, {split}" if self.dataset is not None else str(getattr(self, split))

    def model_fields(self) -> dict[str, Any]:
        """Return the fields of the configuration that the options set, for `load_task_model`."""
        return {
            "head": self.head,
            "head_hidden_size": self.head_hidden_size,
            "mix_at": "none" if self.without_elmo else self.mix_at,
            "mix_regularization": self.mix_regularization,
            "classifier_dropout": self.dropout,
            "freeze_bilm": not self.unfreeze,
            "train_task_words": self.train_word_vectors or None,
            "task_char_embedding_dim": TASK_CHAR_DIM if self.task_chars else None,
        }

    def training_arguments(self, best: str, *, evaluate: bool) -> TrainingArguments:
        """Return the arguments of Trainer.

        Args:
            best: The metric by which the best epoch is chosen.
            evaluate: Whether there is a development set.
        """
        each_epoch = "epoch" if evaluate else "no"
        learning_rate = self.learning_rate
        if learning_rate is None:
            learning_rate = UNFROZEN_LEARNING_RATE if self.unfreeze else self.default_learning_rate
        return TrainingArguments(
            str(self.output),
            num_train_epochs=self.epochs,
            per_device_train_batch_size=self.batch_size,
            per_device_eval_batch_size=2 * self.batch_size,
            gradient_accumulation_steps=self.accumulate,
            learning_rate=learning_rate,
            lr_scheduler_type=self.schedule,
            warmup_steps=self.warmup_steps,
            weight_decay=self.weight_decay,
            bf16=self.bf16,
            # without it, Trainer refuses bfloat16 on a CPU
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
            seed=self.seed,
        )


Options = TypeVar("Options", bound=FineTuningOptions)


def add_options(
    parser: argparse.ArgumentParser,
    cls: type[ElmoTaskModel],
    *,
    formats: str,
    usual_head: str,
    learning_rate: float,
    heads: Sequence[str] | None = None,
    head_hidden_size: int = 200,
    dropout: float = 0.5,
    has_labels: bool = True,
    batch_size: int = 32,
    inputs: str = "sentences",
) -> Any:
    """Add the options of `FineTuningOptions` to a command line.

    Args:
        parser: The parser of the command line.
        cls: The class of the model.
        formats: The file formats that the command reads, for the help.
        usual_head: The head that is chosen if none is given, for the help.
        learning_rate: The learning rate of a head if none is given.
        heads: The heads that fit the data; `None` for all of the class.
        head_hidden_size: The width of a new head if none is given, for the help.
        dropout: The dropout of a new head if none is given, for the help.
        has_labels: Whether the task has labels of its own, of which some may not occur in the training data.
        batch_size: How many inputs are in a batch if no number is given.
        inputs: What they are, for the help.

    Returns:
        The group of options of the data, to which a script adds its own.
    """
    data = parser.add_argument_group("data")
    data.add_argument("train", nargs="?", help=f"{formats}; may be compressed by gzip, bzip2 or xz")
    data.add_argument("--dev", metavar="FILE", help="evaluate on it after each epoch, and keep the best epoch")
    data.add_argument("--test", metavar="FILE", help="evaluate on it at the end")
    data.add_argument("--dataset", metavar="NAME", help="a data set of the library datasets, in place of files")
    data.add_argument("--dataset-config", metavar="NAME", help="the configuration of the data set")
    data.add_argument(
        "--splits",
        nargs="+",
        default=["train", "validation", "test"],
        help="its splits for training, development and test (default: train validation test)",
    )
    if has_labels:
        data.add_argument(
            "--labels", nargs="+", default=[], metavar="LABEL", help="labels that do not occur in the training data"
        )
    model = parser.add_argument_group("model")
    _add_model_options(model, tuple(heads or cls.heads), usual_head, head_hidden_size, dropout)
    _add_word_options(parser.add_argument_group("words of the task beside ELMo"))
    _add_training_options(parser.add_argument_group("training"), learning_rate, batch_size, inputs)
    parser.set_defaults(default_learning_rate=learning_rate)
    return data


def _add_model_options(
    model: Any, heads: Sequence[str], usual_head: str, head_hidden_size: int, dropout: float
) -> None:
    model.add_argument("--model", default="elmo-small-en", help="a folder or a name on the Hub (default: %(default)s)")
    model.add_argument("--head", choices=heads, help=f"default: the model's own, or {usual_head}")
    model.add_argument(
        "--head-hidden-size",
        type=at_least(1),
        metavar="N",
        help=f"width of each direction of the head's LSTMs (default: {head_hidden_size})",
    )
    model.add_argument(
        "--mix-at", choices=("input", "output", "both"), help="where the mix of layers goes in (default: input)"
    )
    model.add_argument(
        "--mix-regularization", type=at_least(0.0), metavar="X", help="lambda in the paper (default: 0)"
    )
    model.add_argument(
        "--dropout",
        type=at_least(0.0),
        metavar="X",
        help=f"dropout on the vectors that the head reads (default: {dropout:g})",
    )
    model.add_argument("--unfreeze", action="store_true", help="train the biLM too")
    model.add_argument(
        "--layers-once",
        action=argparse.BooleanOptionalAction,
        help="compute the layers of a frozen biLM once, or in every epoch (default: once)",
    )
    model.add_argument(
        "--cache-dir",
        type=Path,
        metavar="DIR",
        help="folder that keeps the layers of a frozen biLM for other runs with the same biLM and data (default: "
        "memory, or beyond 4 GiB layers-cache in the folder of --output, which is deleted when the script has ended)",
    )


def _add_word_options(words: Any) -> None:
    vectors = words.add_mutually_exclusive_group()
    vectors.add_argument(
        "--word-vectors",
        metavar="FILE",
        help="vectors of words in the format of GloVe, word2vec or fastText (.vec); may be compressed",
    )
    vectors.add_argument(
        "--word-vectors-dim", type=at_least(1), metavar="N", help="learn vectors of this width with the task instead"
    )
    words.add_argument("--train-word-vectors", action="store_true", help="train the vectors of the file")
    words.add_argument(
        "--task-chars",
        action="store_true",
        help="read the characters of words by convolutions of the task, as the paper's model of names does",
    )
    words.add_argument("--without-elmo", action="store_true", help="read these words and characters alone")


def _add_training_options(training: Any, learning_rate: float, batch_size: int, inputs: str) -> None:
    for name, kind, default, text in (
        ("--epochs", at_least(0.0, above=True), 10.0, "number of epochs (default: 10)"),
        ("--batch-size", at_least(1), batch_size, f"{inputs} per batch (default: {batch_size})"),
        ("--accumulate", at_least(1), 1, "batches per step (default: 1)"),
        ("--learning-rate", at_least(0.0), None, f"default: {learning_rate:g}, or 1e-4 with --unfreeze"),
        ("--warmup-steps", at_least(0.0), 0.0, "steps, or below 1 their fraction of all steps (default: 0)"),
        ("--weight-decay", at_least(0.0), 0.0, "default: 0"),
        ("--patience", at_least(1), None, "stop after N epochs without a better result (default: never)"),
        ("--threads", at_least(1), torch.get_num_threads(), "threads of the CPU (default: torch's own number)"),
        ("--seed", at_least(0), 0, "seed of the head's first weights, the order and dropout (default: 0)"),
    ):
        training.add_argument(name, type=kind, default=default, metavar="N", help=text)
    schedules = tuple(kind.value for kind in SchedulerType)
    training.add_argument(
        "--schedule",
        default="linear",
        choices=schedules,
        metavar="NAME",  # each version of Transformers has other choices
        help="schedule of the learning rate, by its name in Transformers, such as cosine (default: linear)",
    )
    training.add_argument("--bf16", action="store_true", help="multiply in bfloat16")
    training.add_argument(
        "--resume",
        action="store_true",
        help="continue from the last checkpoint in the output folder, or begin if there is none",
    )
    training.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of model and checkpoints")


def parse_options(parser: argparse.ArgumentParser, cls: type[Options]) -> Options:
    """Read the command line into options, or end the process with a message if they do not go together.

    Args:
        parser: The parser, which `add_options` has prepared.
        cls: The class of the options, with a field for each argument of the parser.
    """
    options = make_options(cls, parser.parse_args())
    files = [file for file in (options.train, options.dev, options.test) if file is not None]
    if not files and options.dataset is None:
        parser.error("give a file to train on, or --dataset; or --dev or --test, to measure --model alone")
    if files and options.dataset is not None:
        parser.error(f"give files or --dataset: {files[0]} would not be read")
    if options.max_words < MIN_MAX_WORDS:
        parser.error(f"--max-words is {options.max_words}: give {MIN_MAX_WORDS} or more")
    if options.without_elmo and (options.unfreeze or options.mix_at is not None or options.mix_regularization):
        parser.error("--without-elmo leaves no ELMo for --unfreeze, --mix-at or --mix-regularization")
    if options.cache_dir is not None and (options.unfreeze or options.without_elmo or options.layers_once is False):
        parser.error(
            "--cache-dir keeps layers of a frozen biLM: leave out --unfreeze, --without-elmo and --no-layers-once"
        )
    own = options.word_vectors is not None or options.word_vectors_dim is not None or options.task_chars
    if options.without_elmo and not own:
        parser.error("--without-elmo needs --word-vectors, --word-vectors-dim or --task-chars, to have words to read")
    if options.patience is not None and not options.has_dev:
        parser.error("--patience needs --dev, or a second one of --splits")
    if options.output.exists() and not options.output.is_dir():
        parser.error(f"{options.output} is no folder: choose another --output")
    return options


def make_options(cls: type[Options], arguments: argparse.Namespace) -> Options:
    """Return the options that a parsed command line sets."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in vars(arguments).items()
    }
    return cls(**values)


def at_least(least: float, *, above: bool = False) -> Callable[[str], float]:
    """Return a function that reads a number of at least `least`, or above it: an integer if `least` is one."""

    def read(text: str) -> float:
        value = type(least)(text)
        if not (math.isfinite(value) and (value > least if above else value >= least)):
            raise argparse.ArgumentTypeError(f"{text} is not {'above' if above else 'at least'} {least:g}")
        return value

    # argparse names the type by this if the text is not a number
    read.__name__ = type(least).__name__
    return read


def read_splits(
    options: FineTuningOptions, read: Callable[[str], list[Example]], load: Callable[..., list[Example]]
) -> dict[str, list[Example]]:
    """Read the data that the options name.

    Args:
        options: The options.
        read: Reads a file.
        load: Loads a split of a data set: takes the names of both, and `config`.

    Returns:
        The examples of `train`, `dev` and `test`, without the splits that are not there.
    """
    if options.dataset is None:
        files = {"train": options.train, "dev": options.dev, "test": options.test}
        return {name: read(file) for name, file in files.items() if file is not None}
    splits = zip(("train", "dev", "test"), options.splits, strict=False)
    return {name: load(options.dataset, split, config=options.dataset_config) for name, split in splits}


__all__ = ["FineTuningOptions", "add_options", "at_least", "make_options", "parse_options", "read_splits"]
