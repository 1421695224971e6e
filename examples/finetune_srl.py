"""Fine-tune ELMo to label semantic roles: who did what to whom.

    python examples/finetune_srl.py train.jsonl --dev dev.jsonl --test test.jsonl --output my-srl
    python examples/finetune_srl.py --dataset NAME --output my-srl
    python examples/finetune_srl.py --model my-srl --test other.conll --output scores

Sentences with the frames of their predicates, in JSON Lines with `words` and `frames` or in the columns of CoNLL-2005
or 2012. The model reads which word is the predicate, and finds the role of every word for it. Scores are those of
srl-eval.pl. The biLM is left as it is unless you say `--unfreeze`; the vectors of a frozen one are computed once for
each sentence, before the first epoch, in float16. Needs `pip install "elmo_hf[finetune]"`. Run again with `--resume`,
an interrupted training goes on from its last checkpoint to the same result. `dev.jsonl` and `test.jsonl` in the output
have the frames that were found.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import DataCollatorForTokenClassification, EvalPrediction, Trainer, TrainingArguments

from elmo_hf import ElmoError, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.data.frame_scores import roles_report, score_roles
from elmo_hf.data.frames import Frame, FramedSentence, load_frames, read_frames, write_json_frames
from elmo_hf.errors import counted
from elmo_hf.files import naming_errors
from elmo_hf.training.finetuning import finish, load_with_vectors, predict, prepare, train
from elmo_hf.training.finetuning_options import FineTuningOptions, add_options, parse_options, read_splits


try:
    # without it, `Trainer` stops
    import accelerate  # noqa: F401
except ImportError as error:
    sys.exit(f'finetune_srl.py: error: {error.name} is not installed: pip install "elmo_hf[finetune]"')

HEAD = "alternating-lstm"
# He et al. 2017, section 3.1
HEAD_HIDDEN_SIZE, DROPOUT = 300, 0.1
METRICS = ("f1", "precision", "recall")

# sentences by split: train, dev, test
Splits = dict[str, list[FramedSentence]]


@dataclass(frozen=True, kw_only=True)
class RoleOptions(FineTuningOptions):
    """The options of this script."""

    def training_arguments(self, best: str, *, evaluate: bool) -> TrainingArguments:
        """Return the arguments of Trainer, which hands the numbers of the rows to the metrics."""
        arguments = super().training_arguments(best, evaluate=evaluate)
        arguments.label_names = ["labels", "row"]
        return arguments


def parse_arguments() -> RoleOptions:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(
        parser,
        ElmoForTokenClassification,
        formats="sentences with frames, in JSON Lines or in columns of CoNLL-2005 or 2012",
        usual_head=HEAD,
        learning_rate=1e-3,
        heads=(HEAD,),
        head_hidden_size=HEAD_HIDDEN_SIZE,
        dropout=DROPOUT,
    )
    return parse_options(parser, RoleOptions)


def find_labels(splits: Splits, more: Sequence[str]) -> list[str]:
    """List the tags of the training data, and those given besides; `O` is the first, `B-` and `I-` go together."""
    labels = {tag for sentence in splits.get("train", []) for frame in sentence.frames for tag in frame.tags}
    # `--labels` takes roles, too
    roles = {tag[2:] if tag.startswith(("B-", "I-")) else tag for tag in {*labels, *more} if tag != "O"}
    return ["O", *(f"{prefix}-{role}" for role in sorted(roles) for prefix in "BI")]


class RoleFinder:
    """Makes rows of frames, and finds and scores the roles in what a model predicts for them.

    Args:
        tokenizer: The tokenizer.
        label2id: The numbers of the tags that the model knows.
    """

    def __init__(self, tokenizer: ElmoTokenizer, label2id: dict[str, int]) -> None:
        self.tokenizer = tokenizer
        self.label2id = label2id
        self.names = {number: name for name, number in label2id.items()}
        # of all rows of all splits
        self.frames: list[Frame] = []

    def encode(self, sentences: Sequence[FramedSentence], name: str) -> list[dict[str, Any]]:
        """Make what the model reads, a row for each frame; a role that it does not know has no label.

        Args:
            sentences: The sentences.
            name: What they were read from, for messages.

        Raises:
            ElmoError: If there are no frames.
        """
        rows = []
        for sentence in sentences:
            encoded = dict(self.tokenizer(sentence.words, is_split_into_words=True))
            if "char_ids" in encoded:
                # lists of numbers would take four times the memory
                encoded["char_ids"] = np.array(encoded["char_ids"], dtype=np.int32)
            for frame in sentence.frames:
                marks = [int(place == frame.predicate) for place in range(len(sentence.words))]
                labels = [self.label2id.get(tag, -100) for tag in frame.tags]
                own = {"token_type_ids": [0, *marks, 0], "labels": [-100, *labels, -100], "row": len(self.frames)}
                rows.append({**encoded, **own})
                self.frames.append(frame)
        if not rows:
            raise ElmoError(f"{name} has no frames: give sentences of which some have a predicate.")
        self._note_unknown(sentences, name)
        return rows

    def _note_unknown(self, sentences: Sequence[FramedSentence], name: str) -> None:
        tags = {tag for sentence in sentences for frame in sentence.frames for tag in frame.tags}
        unknown = sorted({tag[2:] for tag in tags - self.label2id.keys()})
        if unknown:
            print(
                f"note: {name} has {counted(len(unknown), 'role')} that neither the training data nor the model has, "
                f"{' '.join(unknown)}: they cannot be found"
            )

    def find(self, prediction: EvalPrediction) -> dict[int, list[str]]:
        """Return the tags that were found for each frame, by the number of its row."""
        *_, rows = prediction.label_ids
        return {
            # the first position has the boundary token
            row: [self.names[number] for number in numbers[1 : len(self.frames[row].tags) + 1].tolist()]
            for row, numbers in zip(np.asarray(rows).tolist(), np.asarray(prediction.predictions), strict=True)
        }

    def score(self, prediction: EvalPrediction) -> dict[str, float]:
        """Score what is predicted, as srl-eval.pl does."""
        return score_roles((self.frames[row].tags, tags) for row, tags in self.find(prediction).items())


def evaluate(
    trainer: Trainer, splits: Splits, rows: dict[str, Any], finder: RoleFinder, folder: Path
) -> tuple[dict[str, dict[str, float]], str]:
    """Score dev and test, show and save the figures, and write the frames that were found.

    Returns:
        Metrics by split, and the table of the last split.
    """
    scores: dict[str, dict[str, float]] = {}
    report = ""
    for split in [name for name in rows if name != "train"]:
        output, metrics = predict(trainer, rows[split], split)
        scores[split] = {name: metrics[name] for name in METRICS}
        found = finder.find(EvalPrediction(output.predictions, output.label_ids))
        report = roles_report((finder.frames[row].tags, tags) for row, tags in found.items())
        if trainer.is_world_process_zero():
            print(report)
            # in the order of the file
            tags = iter(found[row] for row in sorted(found))
            sentences = [
                sentence._replace(frames=[frame._replace(tags=next(tags)) for frame in sentence.frames])
                for sentence in splits[split]
            ]
            with naming_errors(folder / f"{split}.jsonl"):
                folder.mkdir(parents=True, exist_ok=True)
                with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
                    write_json_frames(sentences, file)
    return scores, report


def main() -> None:
    """Train, evaluate and save."""
    options = parse_arguments()
    prepare(options)
    splits = read_splits(options, read_frames, load_frames)
    model, tokenizer = load_with_vectors(
        ElmoForTokenClassification,
        options,
        {name: [sentence.words for sentence in part] for name, part in splits.items()},
        find_labels(splits, options.labels),
        default_head=HEAD,
        head_fields={"head_hidden_size": HEAD_HIDDEN_SIZE, "classifier_dropout": DROPOUT},
    )
    if model.config.head != HEAD:
        raise ElmoError(
            f"{options.model} has the head {model.config.head or 'linear'}: begin from the language model."
        )
    # where the words of a row are
    tokenizer.padding_side = "right"
    numbers: Any = model.config.label2id
    finder = RoleFinder(tokenizer, numbers)
    trainer, rows = train(
        options,
        model,
        tokenizer,
        {name: finder.encode(part, options.source_of(name)) for name, part in splits.items()},
        DataCollatorForTokenClassification(tokenizer),
        "f1",
        compute_metrics=finder.score,
        # scores of all labels of all words would fill the memory
        preprocess_logits_for_metrics=lambda logits, _: logits.argmax(dim=-1),
    )
    scores, report = evaluate(trainer, splits, rows, finder, options.output)
    finish(options, trainer, model, scores, report=report)


if __name__ == "__main__":
    try:
        main()
    except ElmoError as error:
        sys.exit(f"finetune_srl.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit("finetune_srl.py: interrupted: the same command with --resume goes on")
