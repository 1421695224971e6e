"""Fine-tuning: a model for the labels of data, the layers of a frozen biLM computed once, a model card with scores.

The command lines that train share their options, and what they do with them, here.

Shape notation: `B` rows, `T` words with boundaries, `L` biLSTM layers, `H` width of a vector.
"""

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub import EvalResult, ModelCardData
from tqdm import tqdm
from transformers import (
    EarlyStoppingCallback,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
)

from .bundled import ELMO_TINY_EN, model_folder
from .configuration_elmo import ElmoConfig
from .errors import ElmoError
from .files import naming_errors
from .modeling_elmo import ElmoTaskModel
from .tokenization_elmo import ElmoTokenizer


# what a tokenizer returns for one sentence or pair, with its labels
Row = Mapping[str, Any]
Model = TypeVar("Model", bound=ElmoTaskModel)
Example = TypeVar("Example")

# the layers of all sentences that are held in memory without being asked for
LAYERS_LIMIT = 4 * 2**30

# a pair is cut to at least a word on each side
MIN_MAX_WORDS = 3


def load_task_model(
    cls: type[Model], name: str, labels: Sequence[str] | None, *, default_head: str | None = None, **fields: Any
) -> tuple[Model, ElmoTokenizer]:
    """Load a language model with a new head for these labels, or a model of this task to go on with.

    Args:
        cls: `ElmoForTokenClassification` or `ElmoForSequenceClassification`.
        name: A folder, a name on the Hub, or `elmo-tiny-en`.
        labels: All labels of the data; `None` for regression.
        default_head: The head of a language model that is given none.
        **fields: Of the configuration; those that are `None` stay as they are.

    Returns:
        The model, with the labels in its configuration, and its tokenizer.

    Raises:
        ElmoError: If there is no such model, or it is one of this task with other labels or another head.
    """
    name = str(model_folder(name))
    fields = {field: value for field, value in fields.items() if value is not None}
    try:
        config: Any = ElmoConfig.from_pretrained(name)
        own = [config.id2label[number] for number in range(config.num_labels)]
        if config.architectures == [cls.__name__]:
            fits = config.problem_type == "regression" if labels is None else set(labels) <= set(own)
            if not fits:
                extra = "numbers" if labels is None else ", ".join(sorted(set(labels) - set(own)))
                raise ElmoError(
                    f"{name} has the labels {', '.join(own)}, and the data {extra}: begin from the language model."
                )
            head = config.head or next(iter(cls.heads))
            if fields.get("head", head) != head:
                raise ElmoError(f"{name} has the head {head}: leave it, or begin from the language model.")
            labels = own
        elif default_head is not None:
            fields.setdefault("head", default_head)
        names = dict(enumerate(labels)) if labels else {0: "score"}
        fields |= {"id2label": names, "label2id": {label: number for number, label in names.items()}}
        return cls.from_pretrained(name, **fields), ElmoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ElmoError(f"{name} cannot be loaded: {' '.join(str(error).split())}") from error


def add_options(parser: argparse.ArgumentParser, cls: type[ElmoTaskModel], *, formats: str) -> Any:
    """Give a command that fine-tunes the options that all of them have, of the data, the model and the training.

    Args:
        parser: Of the command line.
        cls: The class of the model.
        formats: Which files can be read.

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
    model.add_argument(
        "--head", choices=tuple(cls.heads), help="the task's usual one, or the model's own, if not given"
    )
    model.add_argument("--head-hidden-size", type=int, help="width of each direction of the head's biLSTMs")
    model.add_argument("--mix-at", choices=("input", "output", "both"), help="where the mix of layers goes in")
    model.add_argument("--mix-regularization", type=float, help="lambda in the paper")
    model.add_argument("--dropout", type=float, help="on the vectors that the head reads")
    model.add_argument("--unfreeze", action="store_true", help="train the biLM, too")
    model.add_argument("--layers-once", action=argparse.BooleanOptionalAction, help="even if large, or not at all")
    training = parser.add_argument_group("training")
    training.add_argument("--epochs", type=float, default=10)
    training.add_argument("--batch-size", type=int, default=32, help="sentences")
    training.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    training.add_argument("--learning-rate", type=float, help="3e-3, or 1e-4 with --unfreeze, if not given")
    training.add_argument("--schedule", default="linear", help="of the learning rate")
    training.add_argument("--warmup-steps", type=float, default=0, help="steps, or below 1 their share")
    training.add_argument("--weight-decay", type=float, default=0.0)
    training.add_argument("--patience", type=int, metavar="EPOCHS", help="stop after so many without a better result")
    training.add_argument("--bf16", action="store_true", help="multiply in bfloat16")
    training.add_argument("--resume", action="store_true", help="go on from the last checkpoint in DIR")
    training.add_argument("--threads", type=int, default=torch.get_num_threads())
    training.add_argument("--seed", type=int, default=0)
    training.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of model and checkpoints")
    return data


def parse_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the command line; end the process with a message about options that do not go together."""
    options = parser.parse_args()
    if (options.train is None) == (options.dataset is None):
        parser.error("give a file to train on, or --dataset")
    if options.max_words < MIN_MAX_WORDS:
        parser.error(f"--max-words is to be {MIN_MAX_WORDS} or more")
    if options.patience is not None and options.dataset is None and options.dev is None:
        parser.error("--patience needs --dev")
    return options


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
    return TrainingArguments(
        str(options.output),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=2 * options.batch_size,
        gradient_accumulation_steps=options.accumulate,
        learning_rate=options.learning_rate or (1e-4 if options.unfreeze else 3e-3),
        lr_scheduler_type=options.schedule,
        warmup_steps=options.warmup_steps,
        weight_decay=options.weight_decay,
        bf16=options.bf16,
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


def layers_size(config: PreTrainedConfig, rows: Sequence[Row]) -> int:
    """Compute how many bytes `compute_layers` returns."""
    words = sum(len(row["input_ids"]) for row in rows)
    return 2 * words * (config.num_hidden_layers + 1) * config.hidden_size


def layers_pay(model: ElmoTaskModel, *rows: Sequence[Row]) -> bool:
    """Tell whether the layers of a frozen biLM are the same in every epoch, and small enough to be held in memory."""
    return model.config.freeze_bilm and sum(layers_size(model.config, part) for part in rows) <= LAYERS_LIMIT


@torch.no_grad()
def compute_layers(
    model: ElmoTaskModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Row],
    *,
    batch_size: int = 32,
    device: torch.device | None = None,
) -> list[dict[str, Any]]:
    """Run the biLM once for all epochs of a training that leaves it as it is.

    Args:
        model: The model that is going to be trained; it is run without dropout.
        tokenizer: Its tokenizer, which pads.
        rows: What the tokenizer returned for each sentence or pair.
        batch_size: Sentences of a batch; those of like length are put together.
        device: Where to bring the model first; by default it stays where it is.

    Returns:
        The rows without `char_ids`, and with `bilm_layers`, `[T, L + 1, H]` in float16, for a `LayersCollator`.

    Raises:
        ElmoError: If the biLM is to be trained.
    """
    if not model.config.freeze_bilm:
        raise ElmoError("The layers of a biLM that is trained change: freeze it, or do without layers computed once.")
    training = model.training
    torch.nn.Module.to(model.eval(), device)
    done: list[dict[str, Any]] = [{} for _ in rows]
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number]["input_ids"]))
    for start in tqdm(range(0, len(rows), batch_size), desc="layers of the biLM", unit="batch"):
        numbers = order[start : start + batch_size]
        inputs = [{name: rows[number][name] for name in tokenizer.model_input_names} for number in numbers]
        batch = tokenizer.pad(inputs, return_tensors="pt").to(model.device)
        outputs = model(**batch, output_hidden_states=True)
        # [B, T, L + 1, H]
        layers = torch.stack(outputs.hidden_states, dim=2).half()
        for number, row, words in zip(numbers, layers, batch["attention_mask"].bool(), strict=True):
            kept = {name: value for name, value in rows[number].items() if name != "char_ids"}
            done[number] = {**kept, "bilm_layers": row[words].cpu()}
    model.train(training)
    return done


class LayersCollator:
    """Pads the `bilm_layers` of rows, if they have any, to `[B, T, L + 1, H]`; another collator does the rest.

    Args:
        collator: What pads the rest, such as `DataCollatorForTokenClassification`.
    """

    def __init__(self, collator: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> None:
        self.collator = collator

    def __call__(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Make a batch of rows."""
        batch = self.collator([{name: row[name] for name in row if name != "bilm_layers"} for row in rows])
        if "bilm_layers" in rows[0]:
            words = torch.cat([row["bilm_layers"] for row in rows])
            layers = words.new_zeros(*batch["input_ids"].shape, *words.shape[1:])
            layers[batch["attention_mask"].bool()] = words
            batch["bilm_layers"] = layers
        return batch


def train(
    options: argparse.Namespace,
    model: ElmoTaskModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: dict[str, Any],
    collator: Callable[[list[dict[str, Any]]], dict[str, Any]],
    best: str,
    **more: Any,
) -> tuple[Trainer, dict[str, Any]]:
    """Train as the options say, and save the model.

    Args:
        options: As `parse_options` gives them.
        model: With the labels of the data.
        tokenizer: Its tokenizer.
        rows: By split, what the tokenizer returned for each sentence or pair, with `labels`.
        collator: Makes a batch of rows.
        best: The metric by which the best epoch is chosen.
        **more: Other arguments of `Trainer`.

    Returns:
        The trainer, and the rows as the model reads them: with the layers of a frozen biLM.
    """
    arguments = training_arguments(options, best, evaluate="dev" in rows)
    once = layers_pay(model, *rows.values()) if options.layers_once is None else options.layers_once
    if once:
        rows = {name: compute_layers(model, tokenizer, part, device=arguments.device) for name, part in rows.items()}
    trainer = Trainer(
        model,
        arguments,
        data_collator=LayersCollator(collator),
        train_dataset=rows["train"],
        eval_dataset=rows.get("dev"),
        processing_class=tokenizer,
        callbacks=[EarlyStoppingCallback(options.patience)] if options.patience else [],
        **more,
    )
    result = trainer.train(resume_from_checkpoint=options.resume or None)
    trainer.save_model()
    trainer.save_metrics("train", result.metrics)
    return trainer, rows


def predict(trainer: Trainer, rows: Any, split: str) -> tuple[Any, dict[str, float]]:
    """Predict the labels of a split; show and save its metrics.

    Args:
        trainer: As `train` returns it.
        rows: Of the split.
        split: `dev` or `test`.

    Returns:
        What `Trainer.predict` gives, in the order of the rows, and the values of the metrics.
    """
    # or predictions would come back in the order of the rows' length
    trainer.args.train_sampling_strategy = "random"
    output = trainer.predict(rows, metric_key_prefix=split)
    metrics = output.metrics or {}
    trainer.log_metrics(split, metrics)
    trainer.save_metrics(split, metrics)
    return output, {name.removeprefix(f"{split}_"): value for name, value in metrics.items()}


def write_card(
    folder: str | Path,
    model: ElmoTaskModel,
    *,
    task: str,
    base: str,
    data: str,
    scores: Mapping[str, Mapping[str, float]],
    command: Sequence[str],
    report: str = "",
) -> None:
    """Write the model card, README.md, of a fine-tuned model, with figures that the Hub shows.

    Args:
        folder: The model's.
        model: The model, whose layer weights the card shows.
        task: As the Hub calls it, such as `token-classification`.
        base: The model that it was made from.
        data: What the data is called.
        scores: For each split, such as `test`, metrics and their values.
        command: The words of the command line that made it.
        report: A table of more figures, as it is to be shown.

    Raises:
        ElmoError: If the file cannot be written.
    """
    folder = Path(folder)
    results = [
        EvalResult(
            task_type=task,
            dataset_type=data,
            dataset_name=data,
            dataset_split=split,
            metric_type=metric,
            metric_value=round(value, 4),
            metric_name=f"{metric} ({split})",
        )
        for split, figures in scores.items()
        for metric, value in figures.items()
    ]
    head = ModelCardData(
        model_name=folder.resolve().name,
        library_name="transformers",
        pipeline_tag=task,
        tags=["elmo"],
        # the Hub takes names of its own only
        base_model=None if Path(base).exists() or base == ELMO_TINY_EN.name else base,
        eval_results=results,
    )
    figures = "".join(
        f"| {result.dataset_split} | {result.metric_type} | {result.metric_value} |\n" for result in results
    )
    weights = "".join(
        f"| {place} | {' '.join(f'{share:.3f}' for share in mix['weights'])} | {mix['gamma']:.3f} |\n"
        for place, mix in model.layer_weights().items()
    )
    table = f"```\n{report.strip(chr(10))}\n```\n\n" if report else ""
    text = (
        f"---\n{head.to_yaml()}\n---\n\n# {folder.resolve().name}\n\n"
        f"ELMo ({Path(base).name if Path(base).exists() else base}) fine-tuned for {task} on {data}, with the head "
        f"`{model.config.head or next(iter(model.heads))}`; the biLM "
        f"{'was left as it is' if model.config.freeze_bilm else 'was trained, too'}.\n\n"
        f"| split | metric | value |\n|---|---|---|\n{figures}\n{table}"
        "What the task makes of the layers, from the token layer up:\n\n"
        f"| mix at | shares | gamma |\n|---|---|---|\n{weights}\nMade by\n\n    {shlex.join(command)}\n"
    )
    with naming_errors(folder / "README.md"):
        (folder / "README.md").write_text(text, encoding="utf-8")


__all__ = [
    "LayersCollator",
    "add_options",
    "compute_layers",
    "layers_pay",
    "layers_size",
    "load_task_model",
    "model_fields",
    "parse_options",
    "predict",
    "read_splits",
    "source_of",
    "train",
    "training_arguments",
    "write_card",
]
