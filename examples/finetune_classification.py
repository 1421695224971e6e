"""Fine-tune ELMo to classify sentences or pairs of sentences, or to give them a number.

    python examples/finetune_classification.py train.jsonl --dev dev.jsonl --test test.jsonl --head bcn --output DIR
    python examples/finetune_classification.py --dataset NAME --output DIR
    python examples/finetune_classification.py --model DIR --test other.jsonl --output scores

JSON Lines, CSV with a head line, or TSV, with the columns `text` and `label`, or `premise`, `hypothesis` and `label`,
and other names that data sets use; JSON may have lists of words. Labels are classes; lists of classes, of which a text
has several or none; or numbers with a point, for regression. The biLM is left as it is unless you say `--unfreeze`;
the vectors of a frozen one are computed once, before the first epoch, in float16. Needs
`pip install "elmo_hf[finetune]"`. Run again with `--resume`, an interrupted training goes on from its last checkpoint
to the same result. `dev.jsonl` and `test.jsonl` in the output have each label, and what was predicted.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import (
    DataCollatorWithPadding,
    EvalPrediction,
)

from elmo_hf import ElmoError, ElmoForSequenceClassification, ElmoTokenizer
from elmo_hf.data.records import LabelledText, load_labelled, read_labelled
from elmo_hf.errors import counted
from elmo_hf.files import naming_errors
from elmo_hf.training.finetuning import finish, load_with_vectors, predict, prepare, train
from elmo_hf.training.finetuning_options import FineTuningOptions, add_options, parse_options, read_splits


try:
    # without it, `Trainer` stops
    import accelerate  # noqa: F401
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import accuracy_score, f1_score
except ImportError as error:
    sys.exit(f'finetune_classification.py: error: {error.name} is not installed: pip install "elmo_hf[finetune]"')

# as Transformers calls the problems, and the metric by which the best epoch is chosen
PROBLEMS = {
    "single": ("single_label_classification", "accuracy"),
    "multi": ("multi_label_classification", "f1"),
    "regression": ("regression", "pearson"),
}

# texts by split: train, dev, test
Splits = dict[str, list[LabelledText]]


@dataclass(frozen=True, kw_only=True)
class ClassificationOptions(FineTuningOptions):
    """The options of this script.

    Attributes:
        text_column: The column of the text, or of the first text of a pair; `None` looks for the usual names.
        pair_column: The column of the second text.
        label_column: The column of the label.
        problem: The kind of labels; `None` tells it from the training data.
    """

    text_column: str | None = None
    pair_column: str | None = None
    label_column: str | None = None
    problem: str | None = None


def parse_arguments() -> ClassificationOptions:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = add_options(
        parser,
        ElmoForSequenceClassification,
        formats="JSON Lines, CSV or TSV",
        usual_head="mean for sentences, esim for pairs",
        learning_rate=1e-3,
    )
    data.add_argument("--text-column", metavar="NAME", help="column of the text, or of the first text of a pair")
    data.add_argument("--pair-column", metavar="NAME", help="column of the second text")
    data.add_argument(
        "--label-column", metavar="NAME", help="column of the label (default: label, labels or gold_label)"
    )
    data.add_argument("--problem", choices=tuple(PROBLEMS), help="kind of labels (default: as the training data has)")
    data.add_argument("--max-words", type=int, default=400, help="cut longer texts (default: %(default)s)")
    return parse_options(parser, ClassificationOptions)


def read_texts(options: ClassificationOptions) -> Splits:
    """Read all texts.

    Raises:
        ElmoError: If some are pairs and some are not.
    """
    columns: dict[str, Any] = {"text": options.text_column, "pair": options.pair_column, "label": options.label_column}
    splits = read_splits(options, partial(read_labelled, **columns), partial(load_labelled, **columns))
    pairs = {name: part[0].pair is not None for name, part in splits.items()}
    if len(set(pairs.values())) > 1:
        shown = ", ".join(f"{name}: {'pairs' if pair else 'single texts'}" for name, pair in pairs.items())
        raise ElmoError(f"The data has pairs in one place only ({shown}): name the columns alike.")
    return splits


def problem_of(texts: Sequence[LabelledText]) -> str:
    """Tell the problem by the labels: lists, numbers with a point, or anything else."""
    if any(isinstance(text.label, list) for text in texts):
        return "multi"
    labels = [str(text.label) for text in texts]
    try:
        numbers = list(map(float, labels))
    except ValueError:
        return "single"
    return "regression" if numbers and any("." in label for label in labels) else "single"


def names_of(text: LabelledText) -> list[str]:
    """List the labels of a text by their names; a class that is a number is called by it."""
    return [str(label) for label in (text.label if isinstance(text.label, list) else [text.label])]


def find_labels(texts: Sequence[LabelledText], more: Sequence[str]) -> list[str]:
    """List the labels of the training data, and those given besides; numbers in their order."""
    labels = {label for text in texts for label in names_of(text)} | set(more)
    if all(re.fullmatch(r"-?\d+", label) for label in labels):
        return sorted(labels, key=int)
    return sorted(labels)


def encode(
    texts: Sequence[LabelledText],
    tokenizer: ElmoTokenizer,
    numbers: dict[str, int],
    problem: str,
    name: str,
    most: int,
) -> list[dict[str, Any]]:
    """Make of texts what the model reads, cut at `most` words.

    Raises:
        ElmoError: If the model has no such label, or a label is no number where one is wanted.
    """
    rows, cut = [], 0
    # a sentence has two boundaries, a pair four
    most += 4 if texts[0].pair is not None else 2
    for count, text in enumerate(texts, start=1):
        parts = parts_of(text)
        options = {"is_split_into_words": isinstance(parts[0], list)}
        row = dict(tokenizer(*parts, **options))
        if row["input_ids"].count(tokenizer.bos_token_id) != len(parts):
            raise ElmoError(f"{name}, record {count}: the text has a boundary, <S> or </S>, in it: take it out.")
        if len(row["input_ids"]) > most:
            cut += 1
            row = dict(tokenizer(*parts, **options, truncation=True, max_length=most))
        try:
            row["labels"] = number_of(text, numbers, problem)
        except (KeyError, ValueError) as error:
            wanted = "a number" if problem == "regression" else "in the training data or the model"
            raise ElmoError(
                f"{name}, record {count}: the label {text.label!r:.80} is not {wanted}: correct it, or give --labels "
                "or --problem."
            ) from error
        rows.append(row)
    if cut:
        print(f"note: {name} has {counted(cut, 'text')} of more words than --max-words, cut there")
    return rows


def parts_of(text: LabelledText) -> list[Any]:
    """List a text, or the two of a pair; of a pair, both are lists of words if one is."""
    parts = [text.text] if text.pair is None else [text.text, text.pair]
    if any(isinstance(part, list) for part in parts):
        return [part.split() if isinstance(part, str) else part for part in parts]
    return parts


def number_of(text: LabelledText, numbers: dict[str, int], problem: str) -> int | float | list[float]:
    """Give the model's number of a label: a class, 1 for each of several, or the number that it is."""
    if problem == "regression":
        value = float(str(text.label))
        if not math.isfinite(value):
            raise ValueError(text.label)
        return value
    classes = [numbers[name] for name in names_of(text)]
    if problem == "multi":
        return [float(number in classes) for number in range(len(numbers))]
    (one,) = classes
    return one


def make_metrics(problem: str) -> Callable[[EvalPrediction], dict[str, float]]:
    """Make a function that scores what is predicted."""

    def correlation(function: Any, found: Any, wanted: Any) -> float:
        # of what does not vary there is none, and Trainer could not compare it
        return float(function(found, wanted)[0]) if np.ptp(found) and np.ptp(wanted) else 0.0

    def score(prediction: EvalPrediction) -> dict[str, float]:
        found, wanted = np.asarray(prediction.predictions), np.asarray(prediction.label_ids)
        if problem == "regression":
            found = found.reshape(wanted.shape)
            return {
                "pearson": correlation(pearsonr, found, wanted),
                "spearman": correlation(spearmanr, found, wanted),
                "mse": float(np.square(found - wanted).mean()),
            }
        # a label of several is there where it is more probable than not
        found = found.argmax(axis=1) if problem == "single" else (found > 0).astype(int)
        wanted = wanted.astype(int)
        scores = {
            "accuracy": float(accuracy_score(wanted, found)),
            "macro_f1": float(f1_score(wanted, found, average="macro", zero_division=0)),
        }
        if problem == "multi":
            scores["f1"] = float(f1_score(wanted, found, average="micro", zero_division=0))
        return scores

    return score


def write_predictions(path: Path, texts: Sequence[LabelledText], scores: Any, problem: str, model: Any) -> None:
    """Write for each text its label and what was predicted, in the order of the file."""
    names = model.config.id2label
    with naming_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            for text, row in zip(texts, np.asarray(scores).reshape(len(texts), -1), strict=True):
                label: Any = text.label
                if problem == "regression":
                    found: Any = round(float(row[0]), 6)
                elif problem == "multi":
                    label, found = names_of(text), [names[number] for number in np.flatnonzero(row > 0)]
                else:
                    # a class is a name, also where the file has a number: so that the two can be compared
                    label, found = str(label), names[int(row.argmax())]
                file.write(json.dumps({"label": label, "predicted": found}, ensure_ascii=False) + "\n")


def main() -> None:
    """Train, evaluate and save."""
    options = parse_arguments()
    prepare(options)
    splits = read_texts(options)
    first = next(iter(splits.values()))
    problem = options.problem or problem_of(first)
    pairs = first[0].pair is not None
    labels = None if problem == "regression" else find_labels(splits.get("train", []), options.labels)
    if labels == [] and "train" in splits:
        raise ElmoError("The training data has no label at all: give some, or --labels.")
    model, tokenizer = load_with_vectors(
        ElmoForSequenceClassification,
        options,
        {name: [text for each in part for text in parts_of(each)] for name, part in splits.items()},
        labels,
        problem_type=PROBLEMS[problem][0],
        default_head="esim" if pairs else None,
    )
    if 1 + pairs not in model.head.num_sentences:
        raise ElmoError(
            f"The data has {'pairs' if pairs else 'single texts'}, which the head {model.config.head} does not read: "
            "choose another --head, or name the columns."
        )
    numbers: Any = model.config.label2id
    trainer, rows = train(
        options,
        model,
        tokenizer,
        {
            name: encode(part, tokenizer, numbers, problem, options.source_of(name), options.max_words)
            for name, part in splits.items()
        },
        DataCollatorWithPadding(tokenizer),
        PROBLEMS[problem][1],
        compute_metrics=make_metrics(problem),
    )
    scores: dict[str, dict[str, float]] = {}
    kinds = ("accuracy", "macro_f1", "f1", "pearson", "spearman", "mse")
    for split in [name for name in rows if name != "train"]:
        output, metrics = predict(trainer, rows[split], split)
        scores[split] = {kind: metrics[kind] for kind in kinds if kind in metrics}
        if trainer.is_world_process_zero():
            write_predictions(options.output / f"{split}.jsonl", splits[split], output.predictions, problem, model)
    finish(options, trainer, model, scores)


if __name__ == "__main__":
    try:
        main()
    except ElmoError as error:
        sys.exit(f"finetune_classification.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit("finetune_classification.py: interrupted: the same command with --resume goes on")
