"""Run a model on inputs in batches of similar length, and answer in the order of the inputs."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf.data.batches import BATCHES_PER_WINDOW, batches_by_length, windows
from elmo_hf.embedding.vectors import POSITIONS_PER_SENTENCE, Progress, explaining_lack_of_memory
from elmo_hf.errors import ElmoError

from .answers import MAX_ANSWER_WORDS
from .documents import resolve
from .inputs import Example, InputReader, PredictionInput, Row, check_inputs
from .predicates import VERB_FINDER, PredicateFinder
from .tasks import Coreference, QuestionAnswering, Result, Task, make_task, rename_given, significant


def predict(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    inputs: Iterable[PredictionInput],
    *,
    text_field: str | None = None,
    pair_field: str | None = None,
    tokenized: bool = False,
    predicates: Collection[str] | None = None,
    predicate_pos: Sequence[str] | None = None,
    no_answer: bool = False,
    no_answer_threshold: float = 0.0,
    batch_size: int = 32,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """Tag, classify or score sentences with a fine-tuned model.

    The answer to an input does not depend on the other inputs, but for the last digit of a score. You may pass a
    generator: only a few batches of its inputs are in memory at a time.

    Args:
        model: A model with a head, in evaluation mode, on any device; `load` loads one.
        tokenizer: The tokenizer of the model.
        inputs: Each a text, which the tokenizer splits, a list of words, a `Sentence`, or a record: a mapping with the
            text, the two texts of a pair, or a question and its choices or context, in fields of the usual names.
        text_field: The field of the text, or of the first text of a pair, in records; by default the first of
            `TEXT_COLUMNS` that the first record has.
        pair_field: The field of the second text of a pair, of the choices, or of the context.
        tokenized: Split texts at white space only.
        predicates: For a model of semantic roles, words and lemmas that are predicates, in any case. Lemmas match
            those of the field `lemmas` of a record, which has one for each word.
        predicate_pos: How the parts of speech of predicates begin, by default those of verbs, `V` and `AUX`; records
            have them in the field `pos`.
        no_answer: A context may have no answer; for a model that was trained on such questions, too.
        no_answer_threshold: With `no_answer`, by how much the logarithm of the probability of no answer must be above
            that of the best one. Negative numbers give more questions no answer.
        batch_size: The number of rows to compute at once.
        progress: Receives the number of inputs after each few batches.

    Yields:
        For each input, in the given order, a dictionary that `json.dumps` takes. It begins with the `text`, or with
        all fields of the record, in which NaN, as of a missing cell, is `None`. One that has the name of an answer is
        renamed: `label` to `given_label`, and `given_label` to `given_given_label`. The answers are:

        * of a tagger `words`, `tags` and `scores`, the probability of each tag, and if the tags follow a scheme such
          as BIO, `entities`, each with `label`, `start` and `end`, counted in characters, `text` and `score`, the mean
          of its words' scores. The tags of a CRF are its best sequence, and a score is the probability of the tag
          over all sequences;
        * of a model of semantic roles `words` and `frames`. The predicates are those that a record names, by
          `predicates`, a list of numbers of words counted from 0, by `pred`, or by `frames` of its own; or else those
          of `predicates`, or by their part of speech. Each frame has `predicate`, `tags`, `scores`, and `roles`, as
          `entities`;
        * of a classifier `label` and `scores`, the probability of each label by its name; if there may be several
          labels, `labels`, those more probable than not;
        * of a regression `score`;
        * of a model that chooses `choice`, the number of the best answer, counted from 0, and the `scores` of all;
        * of a model of coreference, whose inputs are documents, those of `resolve`, which see;
        * of a model that answers questions `answer`, its `start` and `end` in the context, counted in characters, and
          `score`, the probability of its first word times that of its last. With `no_answer`, all but the score are
          `None` where `no_answer_threshold` finds none, whose probability is then the score. `answer` gives several
          answers.

        A text without words has no tags, and its label and scores are `None`.

    Raises:
        ElmoError: If the model has no head, or an option is for another task; or, when the iterator comes
            to it, an input has not what the model reads, or holds a number that JSON does not have.
        ValueError: If the model is in training mode, or `batch_size` is not positive.
    """
    task = _checked_task(model, batch_size)
    finder = _predicate_finder(task, predicates, predicate_pos)
    if no_answer:
        if not isinstance(task, QuestionAnswering):
            raise ElmoError("The model answers no questions: leave no_answer out.")
        if math.isnan(no_answer_threshold):
            raise ElmoError("The threshold for no answer is no number.")
        task.no_answer, task.no_answer_threshold = True, no_answer_threshold
    elif no_answer_threshold:
        raise ElmoError("A threshold for no answer needs no_answer.")
    if isinstance(task, Coreference):
        documents: Any = inputs
        return resolve(model, tokenizer, documents, text_field=text_field, tokenized=tokenized, progress=progress)
    reader = InputReader(
        tokenizer, task, text_field=text_field, pair_field=pair_field, tokenized=tokenized, predicates=finder
    )
    return _predict(_RowRunner(model, tokenizer, task, batch_size), reader, check_inputs(inputs), progress)


def _predicate_finder(task: Task, words: Collection[str] | None, pos: Sequence[str] | None) -> PredicateFinder:
    """Return what finds predicates.

    Raises:
        ElmoError: If predicates are given, and the model finds no roles; or in two ways.
    """
    if not task.reads_predicates and (words is not None or pos is not None):
        raise ElmoError("The model finds no semantic roles: leave the predicates out.")
    if words is not None and pos is not None:
        raise ElmoError("Predicates go by a list of words or by parts of speech: give one of both.")
    finder = VERB_FINDER
    if words is not None:
        finder = finder._replace(words=frozenset(word.lower() for word in words))
    return finder if pos is None else finder._replace(pos=tuple(pos))


def answer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    questions: Iterable[tuple[str, str]],
    *,
    top_k: int = 1,
    max_words: int = MAX_ANSWER_WORDS,
    no_answer: bool = False,
    batch_size: int = 32,
) -> Iterator[list[Result]]:
    """Find the answers to questions in their contexts, as the pipeline `question-answering` of Transformers 4 did.

    A context of more than 400 words is read in windows that overlap.

    Args:
        model: An `ElmoForQuestionAnswering` in evaluation mode, on any device; `load` loads one.
        tokenizer: The tokenizer of the model.
        questions: Each a question and its context.
        top_k: The most answers to each question; they differ, but may overlap.
        max_words: The most words of an answer.
        no_answer: Rank no answer among the answers, with the text `""`; for a model that was trained on questions
            without one.
        batch_size: The number of windows to compute at once.

    Yields:
        For each question its answers, the best first. Each is a dictionary of `answer`, the text, `start` and `end`,
        its place in the context, counted in characters, and `score`, the probability of its first word times that of
        its last. A context without words has none.

    Raises:
        ElmoError: If the model has no head for this, or, when the iterator comes to it, a question or context is no
            text.
        ValueError: If the model is in training mode, or a number is not positive.
    """
    if not isinstance(_checked_task(model, batch_size), QuestionAnswering):
        raise ElmoError(f"{type(model).__name__} answers no questions: load an ElmoForQuestionAnswering.")
    if top_k < 1 or max_words < 1:
        raise ValueError(f"top_k is {top_k} and max_words {max_words}: they must be at least 1.")
    task = QuestionAnswering(model, top_k=top_k, max_words=max_words)
    reader = InputReader(tokenizer, task, text_field=None, pair_field=None, tokenized=False)
    runner = _RowRunner(model, tokenizer, task, batch_size)
    return (
        _ranked(*task.find(example, numbers), top_k=top_k, no_answer=no_answer)
        for example, numbers in _run(runner, reader, map(_question_record, questions))
    )


def _question_record(asked: Any) -> dict[str, Any]:
    try:
        if isinstance(asked, (Mapping, str)):
            raise TypeError
        question, context = asked
    except (TypeError, ValueError) as error:
        raise ElmoError(f"{asked!r:.80} is no pair of a question and its context: `predict` takes records.") from error
    return {"question": question, "context": context}


def _ranked(found: list[Result], none: float, *, top_k: int, no_answer: bool) -> list[Result]:
    """Return the best answers, with no answer among them if it is wanted."""
    if no_answer:
        nothing = {"answer": "", "start": 0, "end": 0, "score": none}
        found = sorted([*found, nothing], key=lambda each: -each["score"])
    return [{**each, "score": significant(each["score"])} for each in found[:top_k]]


def _predict(
    runner: "_RowRunner", reader: InputReader, inputs: Iterable[PredictionInput], progress: Progress | None
) -> Iterator[Result]:
    for example, numbers in _run(runner, reader, inputs, progress):
        result = runner.task.answer(example, numbers)
        yield rename_given(example.fields, result) | result


def _run(
    runner: "_RowRunner", reader: InputReader, inputs: Iterable[PredictionInput], progress: Progress | None = None
) -> Iterator[tuple[Example, list[Any]]]:
    """Yield each input with what the task computes of its rows."""
    examples = map(reader.read, count(1), inputs)
    for window in windows(examples, max_items=BATCHES_PER_WINDOW * runner.batch_size):
        numbers = iter(runner.run([row for example in window for row in example.rows]))
        for example in window:
            yield example, list(islice(numbers, len(example.rows)))
        if progress is not None:
            progress(len(window))


def _checked_task(model: PreTrainedModel, batch_size: int) -> Task:
    """Return the task of a model that is ready for it."""
    if model.training:
        raise ValueError("The model is in training mode, where answers may be random: call `model.eval()` first.")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}: it must be at least 1.")
    return make_task(model)


class _RowRunner:
    """Runs a model on rows that are in memory, in batches of similar length."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Task, batch_size: int
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.task = task
        self.batch_size = batch_size
        # models find the ends of sentences by these, so that one inside a sentence is read as an unknown word
        self.unreadable = dict.fromkeys((tokenizer.bos_token, tokenizer.eos_token), tokenizer.unk_token)

    def run(self, rows: Sequence[Row]) -> list[Any]:
        """Return what the task computes of each row."""
        results: dict[int, Any] = {}
        for is_pair in (False, True):
            members = [number for number, row in enumerate(rows) if (row.pair is not None) == is_pair]
            batches = batches_by_length(
                [rows[number].length for number in members],
                max_sentences=self.batch_size,
                max_positions=self.batch_size * POSITIONS_PER_SENTENCE,
            )
            for batch in batches:
                numbers = [members[index] for index in batch]
                results.update(zip(numbers, self._run_batch([rows[number] for number in numbers]), strict=True))
        return [results[number] for number in range(len(rows))]

    @torch.inference_mode()
    def _run_batch(self, rows: list[Row]) -> list[Any]:
        texts = [[self._readable(row.words) for row in rows]]
        if rows[0].pair is not None:
            texts.append([self._readable(row.pair or []) for row in rows])
        with explaining_lack_of_memory([row.length for row in rows]):
            batch = self.tokenizer(*texts, is_split_into_words=True, padding=True, return_tensors="pt")
            if self.task.reads_predicates:
                batch["token_type_ids"] = _marks(batch["attention_mask"], [row.predicate for row in rows])
            return self.task.compute(self.model, batch.to(self.model.device))

    def _readable(self, words: list[str]) -> list[str]:
        return [self.unreadable.get(word, word) for word in words]


def _marks(mask: torch.Tensor, predicates: Sequence[int | None]) -> torch.Tensor:
    """Return 1 at the predicate of each row and 0 elsewhere, `[B, T]`, wherever the mask `[B, T]` has padding."""
    # the word number of each position; the boundary token has the number -1
    numbers = (mask.cumsum(dim=1) - 2).masked_fill(mask == 0, -1)
    return (numbers == torch.tensor(predicates)[:, None]).long()


__all__ = ["PredictionInput", "answer", "predict"]
