"""Fine-tune ELMo to find the answers to questions in a text.

    python examples/finetune_qa.py train.json --dev dev.json --mix-at both --output DIR
    python examples/finetune_qa.py --dataset NAME --output DIR
    python examples/finetune_qa.py --model DIR --test other.json --output scores

SQuAD's JSON, version 1.1 or 2: if some questions have no answer, the model learns to give none. Long contexts are read
in windows that overlap. The biLM is left as it is unless you say `--unfreeze`; the vectors of a frozen one are
computed once, before the first epoch, in float16. Needs `pip install "elmo_hf[finetune]"`. Run again with `--resume`,
an interrupted training goes on from its last checkpoint to the same result. `dev_predictions.json` and
`test_predictions.json` in the output have what was found, as SQuAD's own script reads it. If some questions have no
answer, `dev_null_odds.json` has by how much none is more probable than the best answer, `dev_best_answers.json` has
the best answers whether they are or not, and the script says from which threshold on it is best to give none.
"""

import argparse
import json
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm
from transformers import DataCollatorWithPadding, EvalPrediction, TrainingArguments

from elmo_hf import ElmoError, ElmoForQuestionAnswering, ElmoTokenizer
from elmo_hf.data.questions import Question, best_thresholds, load_questions, read_questions, score_answers
from elmo_hf.files import naming_errors
from elmo_hf.prediction.answers import (
    MAX_ANSWER_WORDS,
    MAX_CONTEXT_WORDS,
    best_spans,
    cut_windows,
    null_odds,
    span_chances,
)
from elmo_hf.training.finetuning import finish, load_with_vectors, predict, prepare, train
from elmo_hf.training.finetuning_options import FineTuningOptions, add_options, at_least, parse_options, read_splits


try:
    # without it, `Trainer` stops
    import accelerate  # noqa: F401
except ImportError as error:
    sys.exit(f'finetune_qa.py: error: {error.name} is not installed: pip install "elmo_hf[finetune]"')

METRICS = ("exact_match", "f1", "answered_f1", "unanswered_f1")
# F1 that is hardly more than that of giving no answer
LITTLE = 0.01

# the loss ignores it
NO_POSITION = -100


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(FineTuningOptions):
    """The options of this script.

    Attributes:
        max_answer_words: The most words of an answer that is found.
    """

    max_answer_words: int = MAX_ANSWER_WORDS

    def training_arguments(self, best: str, *, evaluate: bool) -> TrainingArguments:
        """Return the arguments of Trainer, which hands the numbers of the rows to the metrics."""
        arguments = super().training_arguments(best, evaluate=evaluate)
        arguments.label_names = ["start_positions", "end_positions", "row"]
        return arguments


class Words(NamedTuple):
    """The words of a text.

    Attributes:
        words: The words.
        offsets: Where each begins and ends in the text, counted in characters.
    """

    words: list[str]
    offsets: list[tuple[int, int]]


class Window(NamedTuple):
    """What a row has of a context.

    Attributes:
        asked: The question.
        context: The words of its whole context.
        start: The number of the first word of the window in the context.
        size: How many words it has.
        place: Where the first one is in the row.
    """

    asked: Question
    context: Words
    start: int
    size: int
    place: int


def parse_arguments() -> AnswerOptions:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = add_options(
        parser,
        ElmoForQuestionAnswering,
        formats="SQuAD's JSON",
        usual_head="bidaf",
        learning_rate=1e-3,
        has_labels=False,
    )
    data.add_argument(
        "--max-words",
        type=int,
        default=MAX_CONTEXT_WORDS,
        help="read longer contexts in windows of so many words (default: %(default)s)",
    )
    data.add_argument(
        "--max-answer-words",
        type=at_least(1),
        default=MAX_ANSWER_WORDS,
        metavar="N",
        help="most words of an answer that is found (default: %(default)s)",
    )
    return parse_options(parser, AnswerOptions)


def split_texts(texts: Sequence[str], tokenizer: ElmoTokenizer, name: str) -> dict[str, Words]:
    """Split each text into words.

    Raises:
        ElmoError: If a text has a boundary token in it.
    """
    distinct = list(dict.fromkeys(texts))
    encoded = tokenizer(distinct, add_special_tokens=False, return_offsets_mapping=True, return_char_ids=False)
    split = {text: Words(encoded.tokens(row), encoded["offset_mapping"][row]) for row, text in enumerate(distinct)}
    for text, (words, _) in split.items():
        wrong = {tokenizer.bos_token, tokenizer.eos_token} & set(words)
        if wrong:
            raise ElmoError(f"{name}: the text {text!r:.80} has a boundary, {wrong.pop()}, in it: take it out.")
    return split


def encode(
    questions: Sequence[Question], tokenizer: ElmoTokenizer, windows: list[Window], name: str, most: int
) -> list[dict[str, Any]]:
    """Make of questions what the model reads, a row for each window of at most `most` words of a context.

    Args:
        questions: The questions.
        tokenizer: The tokenizer.
        windows: The windows of all rows so far, to which those of these rows are added; a row has its number.
        name: What the questions were read from, for messages.
        most: The most words of a window.
    """
    rows = []
    asked_words = split_texts([asked.question for asked in questions], tokenizer, name)
    context_words = split_texts([asked.context for asked in questions], tokenizer, name)
    long = 0
    for asked in questions:
        question, context = asked_words[asked.question].words, context_words[asked.context]
        parts = cut_windows(len(context.words), most)
        long += len(parts) > 1
        for start, end in parts:
            row = dict(tokenizer(question, context.words[start:end], is_split_into_words=True))
            if "char_ids" in row:
                # lists of numbers would take four times the memory
                row["char_ids"] = np.array(row["char_ids"], dtype=np.int32)
            window = Window(asked, context, start, end - start, len(question) + 3)
            row["start_positions"], row["end_positions"] = positions_of(window)
            row["row"] = len(windows)
            windows.append(window)
            rows.append(row)
    if long:
        print(f"note: {name} has {long} contexts of more words than --max-words, which are read in windows")
    return rows


def positions_of(window: Window) -> tuple[int, int]:
    """Return where the first answer begins and ends in the row of a window.

    Returns:
        Both 0 if the window has no answer, and -100 if nobody knows where the answer is.
    """
    answers = window.asked.answers
    placed = next((answer for answer in answers if answer.start is not None), None)
    if placed is None or placed.start is None:
        return (NO_POSITION, NO_POSITION) if answers else (0, 0)
    begins, ends = [begin for begin, _ in window.context.offsets], [end for _, end in window.context.offsets]
    # all words that the answer has a part of
    first = bisect_right(ends, placed.start) - window.start
    last = bisect_left(begins, placed.start + len(placed.text)) - 1 - window.start
    if not 0 <= first <= last < window.size:
        return 0, 0
    return window.place + first, window.place + last


class Found(NamedTuple):
    """What was found for a question.

    Attributes:
        best: The best answer.
        odds: By how much none is more probable, `null_odds`.
    """

    best: str
    odds: float


class AnswerFinder:
    """Finds the answers in what a model predicts, and scores them.

    Args:
        windows: The windows of all rows.
        max_words: The most words of an answer.
        no_answer: Whether some questions have no answer. An answer is then none where that is more probable.
    """

    def __init__(self, windows: Sequence[Window], max_words: int, *, no_answer: bool) -> None:
        self.windows = windows
        self.max_words = max_words
        self.no_answer = no_answer

    def find(self, prediction: EvalPrediction) -> dict[str, Found]:
        """Return the best answer to each question by its key."""
        rows = self._rows_of(prediction)
        # [rows, T, 2]
        logits = np.moveaxis(np.asarray(prediction.predictions), 0, 2)
        parts: dict[str, list[tuple[int, np.ndarray]]] = {}
        for row, scores in zip(rows, logits, strict=True):
            window = self.windows[row]
            # with the boundary token behind it, and without padding
            length = window.place + window.size + 1
            in_context = np.arange(length) >= window.place
            in_context[-1] = False
            parts.setdefault(window.asked.key, []).append((row, span_chances(scores[:length], in_context)))
        return {key: self._best_of([row for row, _ in own], [part for _, part in own]) for key, own in parts.items()}

    @staticmethod
    def _rows_of(prediction: EvalPrediction) -> list[int]:
        *_, rows = prediction.label_ids
        return np.asarray(rows).tolist()

    def _best_of(self, rows: list[int], chances: list[np.ndarray]) -> Found:
        windows = [self.windows[row] for row in rows]
        spans, none = best_spans(chances, [window.start for window in windows], max_words=self.max_words)
        if not spans:
            return Found("", null_odds(none, 0.0))
        offsets = windows[0].context.offsets
        text = windows[0].asked.context[offsets[spans[0].first][0] : offsets[spans[0].last][1]]
        return Found(text, null_odds(none, spans[0].score))

    def answers(self, found: dict[str, Found]) -> dict[str, str]:
        """Return the answer to each question by its key, `""` for no answer."""
        return {key: "" if self.no_answer and each.odds > 0 else each.best for key, each in found.items()}

    def score(self, prediction: EvalPrediction) -> dict[str, float]:
        """Score what is predicted, as SQuAD does."""
        asked = {self.windows[row].asked.key: self.windows[row].asked for row in self._rows_of(prediction)}
        questions, found = list(asked.values()), self.find(prediction)
        scores = score_answers(questions, self.answers(found))
        if "unanswered_f1" not in scores:
            return scores
        best = {key: each.best for key, each in found.items()}
        return scores | best_thresholds(questions, best, {key: each.odds for key, each in found.items()})


def write_by_key(path: Path, questions: Sequence[Question], values: dict[str, Any]) -> None:
    """Write a value for each question by its name, in the order of the file."""
    with naming_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({asked.key: values[asked.key] for asked in questions}, ensure_ascii=False, indent=0)
        path.write_text(f"{text}\n", encoding="utf-8")


def describe_no_answer(split: str, questions: Sequence[Question], metrics: dict[str, float]) -> str:
    """Say from which null odds on it is best to give no answer, and whether the model does more than that.

    Args:
        split: The name of the questions.
        questions: The questions, some without an answer.
        metrics: The scores.
    """
    nothing = sum(not asked.answers for asked in questions) / len(questions)
    best, threshold = metrics["best_f1"], metrics["best_f1_threshold"]
    line = f"{split}: the best F1 is {best:.3f}, with --no-answer --no-answer-threshold={threshold}"
    if best < min(1, nothing + LITTLE):
        line += f"; giving no answer at all has {nothing:.3f}: train longer, or on more questions"
    return line


def main() -> None:
    """Train, evaluate and save."""
    options = parse_arguments()
    prepare(options)
    splits = read_splits(options, read_questions, load_questions)
    model, tokenizer = load_with_vectors(
        ElmoForQuestionAnswering,
        options,
        {name: [text for asked in part for text in (asked.question, asked.context)] for name, part in splits.items()},
        (),
        default_head="bidaf",
    )
    # where the words of a row are
    tokenizer.padding_side = "right"
    windows: list[Window] = []
    encoded = {
        name: encode(part, tokenizer, windows, options.source_of(name), options.max_words)
        for name, part in splits.items()
    }
    without = {name: sum(not asked.answers for asked in part) for name, part in splits.items()}
    # a model learns to give no answer from such questions only
    no_answer = bool(without["train"]) if "train" in without else any(without.values())
    finder = AnswerFinder(windows, options.max_answer_words, no_answer=no_answer)
    trainer, rows = train(
        options,
        model,
        tokenizer,
        encoded,
        DataCollatorWithPadding(tokenizer),
        "f1",
        record={"unanswered": without.get("train") or None},
        compute_metrics=finder.score,
    )
    scores: dict[str, dict[str, float]] = {}
    for split in [name for name in rows if name != "train"]:
        output, metrics = predict(trainer, rows[split], split)
        scores[split] = {kind: metrics[kind] for kind in METRICS if kind in metrics}
        if trainer.is_world_process_zero():
            found = finder.find(EvalPrediction(output.predictions, output.label_ids))
            write_by_key(options.output / f"{split}_predictions.json", splits[split], finder.answers(found))
            if without[split]:
                for name, values in (
                    ("null_odds", {key: each.odds for key, each in found.items()}),
                    ("best_answers", {key: each.best for key, each in found.items()}),
                ):
                    write_by_key(options.output / f"{split}_{name}.json", splits[split], values)
                # a threshold is chosen on the development set, if there is one
                if split == "dev" or "dev" not in rows:
                    tqdm.write(describe_no_answer(split, splits[split], metrics))
    finish(options, trainer, model, scores)


if __name__ == "__main__":
    try:
        main()
    except ElmoError as error:
        sys.exit(f"finetune_qa.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit("finetune_qa.py: interrupted: the same command with --resume goes on")
