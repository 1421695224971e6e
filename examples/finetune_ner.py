"""Fine-tune ELMo to tag words: names, parts of speech, or any other labels of words.

    python examples/finetune_ner.py train.conll --dev dev.conll --test test.conll --output my-ner
    python examples/finetune_ner.py --dataset NAME --output my-ner
    python examples/finetune_ner.py --model my-ner --test other.conll --output scores

A word and its tag a line, an empty line after each sentence. The biLM is left as it is unless you say `--unfreeze`;
the vectors of a frozen one are computed once, before the first epoch, in float16. Needs
`pip install "elmo_hf[finetune]"`. `torchrun --nproc-per-node 2 examples/finetune_ner.py ...` trains in two processes.
Run again with `--resume`, an interrupted training goes on from its last checkpoint to the same result. `dev.conll` and
`test.conll` in the output have each word, its tag, and the tag that was predicted.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformers import DataCollatorForTokenClassification, EvalPrediction, Trainer

from elmo_hf import ElmoError, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.data.tagged import TaggedSentence, cut_sentence, load_tagged, read_tagged, tag_scheme, to_iob2
from elmo_hf.errors import counted
from elmo_hf.files import naming_errors
from elmo_hf.training.finetuning import finish, load_with_vectors, predict, prepare, train
from elmo_hf.training.finetuning_options import FineTuningOptions, add_options, parse_options, read_splits


try:
    # without it, `Trainer` stops
    import accelerate  # noqa: F401
    from seqeval.metrics import accuracy_score, classification_report
    from seqeval.scheme import BILOU, IOB2, IOBES
except ImportError as error:
    sys.exit(f'finetune_ner.py: error: {error.name} is not installed: pip install "elmo_hf[finetune]"')

SCHEMES = {"IOB2": IOB2, "IOBES": IOBES, "BILOU": BILOU}

# sentences by split: train, dev, test
Splits = dict[str, list[TaggedSentence]]


@dataclass(frozen=True, kw_only=True)
class NerOptions(FineTuningOptions):
    """The options of this script.

    Attributes:
        word_column: The column of the words in a file; the first is 0, the last -1.
        tag_column: The column of the tags in a file.
        columns: The columns of the words and of the tags in a data set; `None` looks for the usual names.
    """

    word_column: int = 0
    tag_column: int = -1
    columns: tuple[str | None, str | None] = (None, None)


def parse_arguments() -> NerOptions:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = add_options(
        parser,
        ElmoForTokenClassification,
        formats="words and tags in columns, apart by TAB or spaces, with an empty line after each sentence",
        usual_head="bilstm-crf for spans such as names, linear for other tags",
        learning_rate=3e-3,
        # the others read a predicate
        heads=("linear", "bilstm-crf"),
    )
    data.add_argument("--word-column", type=int, default=0, help="the first is 0, the last -1 (default: %(default)s)")
    data.add_argument("--tag-column", type=int, default=-1, help="the first is 0, the last -1 (default: %(default)s)")
    data.add_argument(
        "--columns", nargs=2, default=(None, None), metavar=("WORDS", "TAGS"), help="columns of the data set"
    )
    data.add_argument(
        "--max-words", type=int, default=400, help="cut longer sentences between names (default: %(default)s)"
    )
    return parse_options(parser, NerOptions)


def read_sentences(options: NerOptions) -> Splits:
    """Read all sentences, in IOB2 if they are in IOB1."""
    words, tags = options.columns
    splits = read_splits(
        options,
        partial(read_tagged, word_column=options.word_column, tag_column=options.tag_column),
        partial(load_tagged, words=words, tags=tags),
    )
    if tag_scheme({tag for sentences in splits.values() for _, tags in sentences for tag in tags}) != "IOB2":
        return splits
    changed = {name: [TaggedSentence(words, to_iob2(tags)) for words, tags in part] for name, part in splits.items()}
    for name in splits:
        pairs = enumerate(zip(splits[name], changed[name], strict=True), start=1)
        numbers = [number for number, (before, after) in pairs if before != after]
        if numbers:
            print(
                f"note: {options.source_of(name)}: {counted(len(numbers), 'sentence')} (the first: {numbers[0]}) had "
                "names that begin with I-, as in IOB1: they now begin with B-"
            )
    return changed


def find_labels(splits: Splits, more: Sequence[str]) -> list[str]:
    """List the tags of the training data, and those given besides; `O` is the first, `B-` and `I-` go together."""
    labels = {tag for _, tags in splits.get("train", []) for tag in tags} | set(more)
    if tag_scheme(labels) == "IOB2":
        labels |= {f"{prefix}{tag[1:]}" for tag in labels if tag != "O" for prefix in "BI"}
    return sorted(labels, key=lambda tag: (tag != "O", tag.partition("-")[2], tag))


def encode(sentences: list[TaggedSentence], tokenizer: ElmoTokenizer, label2id: dict[str, int], name: str) -> Any:
    """Make of sentences what the model reads, with -100 at the boundaries.

    Raises:
        ElmoError: If the model has no label for a tag.
    """
    wrong = sorted({tag for _, tags in sentences for tag in tags if tag not in label2id})
    if wrong:
        where = next(number for number, (_, tags) in enumerate(sentences, start=1) if wrong[0] in tags)
        raise ElmoError(
            f"{name} has tags that neither the training data nor the model has, {' '.join(wrong)} (the first in "
            f"sentence {where}): correct them, or add --labels {' '.join(wrong)}."
        )
    rows = []
    for words, tags in sentences:
        row = dict(tokenizer(words, is_split_into_words=True))
        row["labels"] = [-100, *(label2id[tag] for tag in tags), -100]
        rows.append(row)
    return rows


def cut(splits: Splits, max_words: int) -> Splits:
    """Cut long sentences in pieces; say of how many."""
    for name, sentences in splits.items():
        count = sum(len(words) > max_words for words, _ in sentences)
        if count:
            long = f"{counted(count, 'sentence')} of more than {counted(max_words, 'word')}"
            print(f"note: {name} has {long}, read in pieces")
    return {
        name: [piece for sentence in sentences for piece in cut_sentence(sentence, max_words)]
        for name, sentences in splits.items()
    }


def tags_of(numbers: Any, labels: Any, names: dict[int, str]) -> list[list[str]]:
    """Name `[B, T]` numbers, without places where there is no label."""
    return [
        [names[int(number)] for number, label in zip(row, known, strict=True) if label != -100]
        for row, known in zip(numbers, labels, strict=True)
    ]


def make_metrics(names: dict[int, str]) -> Callable[[EvalPrediction], dict[str, float]]:
    """Make a function that scores names of the scheme, all and of each type, and single tags."""
    scheme = tag_scheme(names.values())

    def score(prediction: EvalPrediction) -> dict[str, float]:
        found, wanted = (
            tags_of(part, prediction.label_ids, names) for part in (prediction.predictions, prediction.label_ids)
        )
        scores = {"accuracy": float(accuracy_score(wanted, found))}
        if scheme is not None:
            kinds = report_of(wanted, found, scheme, output_dict=True)
            total = kinds.pop("micro avg")
            scores |= {name.removesuffix("-score"): float(value) for name, value in total.items() if name != "support"}
            scores |= {f"{kind}_f1": float(each["f1-score"]) for kind, each in kinds.items() if " avg" not in kind}
        return scores

    return score


def report_of(wanted: list[list[str]], found: list[list[str]], scheme: str, *, output_dict: bool = False) -> Any:
    """Score names: one counts where its words and its type are right, and its tags follow the scheme."""
    if not any(tag != "O" for tags in [*wanted, *found] for tag in tags):
        # seqeval has no report of nothing
        nothing = {"precision": 0.0, "recall": 0.0, "f1-score": 0.0, "support": 0}
        return {"micro avg": nothing} if output_dict else "no names, and none found\n"
    with warnings.catch_warnings():
        # what has no names, or none found, scores 0
        warnings.simplefilter("ignore")
        return classification_report(
            wanted, found, mode="strict", scheme=SCHEMES[scheme], digits=4, zero_division=0, output_dict=output_dict
        )


def evaluate(
    trainer: Trainer, splits: Splits, rows: dict[str, Any], names: dict[int, str], folder: Path
) -> tuple[dict[str, dict[str, float]], str]:
    """Score dev and test, show and save the figures, and write what was predicted.

    Returns:
        Metrics by split, and the table of the last split.
    """
    scores: dict[str, dict[str, float]] = {}
    report, scheme = "", tag_scheme(names.values())
    for split in [name for name in rows if name != "train"]:
        output, metrics = predict(trainer, rows[split], split)
        scores[split] = {name: metrics[name] for name in ("f1", "precision", "recall", "accuracy") if name in metrics}
        found, wanted = (tags_of(part, output.label_ids, names) for part in (output.predictions, output.label_ids))
        if scheme is not None:
            report = report_of(wanted, found, scheme)
        if trainer.is_world_process_zero():
            print(report)
            # pieces follow each other as their words do
            tags = iter([tag for sentence in found for tag in sentence])
            lines = [
                "".join(f"{word}\t{tag}\t{next(tags)}\n" for word, tag in zip(*sentence, strict=True))
                for sentence in splits[split]
            ]
            with naming_errors(folder / f"{split}.conll"):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{split}.conll").write_text("\n".join(lines), encoding="utf-8")
    return scores, report


def main() -> None:
    """Train, evaluate and save."""
    options = parse_arguments()
    prepare(options)
    splits = read_sentences(options)
    labels = find_labels(splits, options.labels)
    spans = tag_scheme(labels) is not None
    model, tokenizer = load_with_vectors(
        ElmoForTokenClassification,
        options,
        {name: [words for words, _ in part] for name, part in splits.items()},
        labels,
        default_head="bilstm-crf" if spans else None,
    )
    names: Any = model.config.id2label
    numbers: Any = model.config.label2id
    trainer, rows = train(
        options,
        model,
        tokenizer,
        {
            name: encode(part, tokenizer, numbers, options.source_of(name))
            for name, part in cut(splits, options.max_words).items()
        },
        DataCollatorForTokenClassification(tokenizer),
        "accuracy" if tag_scheme(names.values()) is None else "f1",
        compute_metrics=make_metrics(names),
        # scores of all labels of all words would fill the memory
        preprocess_logits_for_metrics=lambda logits, _: logits.argmax(dim=-1),
    )
    scores, report = evaluate(trainer, splits, rows, names, options.output)
    finish(options, trainer, model, scores, report=report)


if __name__ == "__main__":
    try:
        main()
    except ElmoError as error:
        sys.exit(f"finetune_ner.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit("finetune_ner.py: interrupted: the same command with --resume goes on")
