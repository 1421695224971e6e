"""What a model is asked about: texts, words, and records with other fields, and the rows that the model reads."""

import math
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from transformers import PreTrainedTokenizerBase

from elmo_hf.data.columns import TEXT_COLUMNS, choose_column
from elmo_hf.data.records import check_same_kind, checked_text, find_text_columns
from elmo_hf.embedding.sentences import Sentence, SentenceInput, read_column, read_sentence
from elmo_hf.errors import ElmoError

from .answers import cut_windows
from .predicates import VERB_FINDER, PredicateFinder
from .tasks import Task


# a text, words, both, or a record that has them in a field
PredictionInput: TypeAlias = SentenceInput | Mapping[str, Any]

QUESTION_FIELDS = ("question", *TEXT_COLUMNS)


class InputError(ElmoError):
    """One of the inputs cannot be used.

    Args:
        number: The number of the input, counted from 1.
        reason: What is wrong with it.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(number, reason)
        self.number = number
        self.reason = reason

    def __str__(self) -> str:
        """Return the message."""
        return f"Input {self.number}: {self.reason}"


class Row(NamedTuple):
    """What the model reads as one row.

    Attributes:
        words: The words of the sentence, or of the first one of a pair.
        pair: The words of the second sentence of a pair.
        predicate: The number of the word whose roles are asked for.
    """

    words: list[str]
    pair: list[str] | None = None
    predicate: int | None = None

    @property
    def length(self) -> int:
        """The number of positions of the row, boundary tokens included."""
        return len(self.words) + 2 + (0 if self.pair is None else len(self.pair) + 2)


class Example(NamedTuple):
    """One input.

    Attributes:
        fields: What its result begins with: the fields of a record, or the text.
        sentence: The sentence, the first one of a pair, or the context of a question.
        rows: What the model reads: one row, or one for each answer to a question, for each window of a context, or
            for each predicate; none for an empty text.
    """

    fields: dict[str, Any]
    sentence: Sentence
    rows: list[Row]

    def offsets(self) -> list[tuple[int, int]]:
        """Return where each word of the sentence begins and ends in its text, counted in characters.

        Raises:
            ElmoError: If the words do not stand in the text one after the other.
        """
        text, words, _ = self.sentence
        if text == " ".join(words):
            ends = list(accumulate(len(word) + 1 for word in words))
            return [(end - len(word) - 1, end - 1) for word, end in zip(words, ends, strict=True)]
        offsets, end = [], 0
        for word in words:
            start = text.find(word, end)
            if start < 0:
                raise ElmoError(f"The word {word!r:.80} is not in its place in the text {text!r:.80}: correct one.")
            end = start + len(word)
            offsets.append((start, end))
        return offsets


def check_inputs(inputs: Iterable[PredictionInput]) -> Iterable[Any]:
    """Return the inputs, and refuse what would be misread, such as one text or a frame with several columns.

    Args:
        inputs: The inputs, or a frame of pandas or polars with one column of them, or a data set of `datasets`.

    Raises:
        ElmoError: If they are one text or one record, or several columns.
    """
    has_columns = len(getattr(inputs, "shape", ())) == 2
    if has_columns and isinstance(next(iter(inputs), None), Mapping):
        # a data set of `datasets` gives records
        return inputs
    return read_column(inputs)  # type: ignore[arg-type]  # records pass, too


class InputReader:
    """Splits inputs into words, and finds the texts of records.

    Args:
        tokenizer: The tokenizer, which splits raw text.
        task: What the model does.
        text_field: The field of the text in records; by default the usual names.
        pair_field: The field of the second text of a pair.
        tokenized: Split texts at white space only.
        predicates: Finds the predicates, if the model labels their roles.

    Raises:
        ElmoError: If there is a field for the second text, and the model reads single sentences.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        task: Task,
        *,
        text_field: str | None,
        pair_field: str | None,
        tokenized: bool,
        predicates: PredicateFinder = VERB_FINDER,
    ) -> None:
        self.predicates = predicates
        self.tokenizer = tokenizer
        self.task = task
        self.text_field = text_field
        self.pair_field = pair_field
        self.tokenized = tokenized
        # those of the first record, for all records
        self.columns: tuple[str, str | None] | None = None
        if pair_field is not None and 2 not in task.num_sentences:
            raise ElmoError(f"The model reads single sentences, and no pairs: leave out the field {pair_field!r}.")

    def read(self, number: int, given: PredictionInput) -> Example:
        """Read one input.

        Args:
            number: The number of the input, counted from 1.
            given: The input.

        Raises:
            InputError: If it has not what the model reads.
        """
        try:
            if isinstance(given, Mapping):
                return self._read_record(plain_record(given))
            if self.task.question_fields:
                beside = self.task.question_fields[0]
                raise ElmoError(f"the model reads questions: give records with a question and its {beside}.")
            return self._read_sentence(given)
        except ElmoError as error:
            raise InputError(number, str(error)) from error

    def _read_sentence(self, given: SentenceInput) -> Example:
        if not isinstance(given, (str, Sentence)):
            given = checked_text("the sentence", list(given) if isinstance(given, (tuple, np.ndarray)) else given)
        sentence = self._split(given)
        if 1 not in self.task.num_sentences:
            raise ElmoError("the model reads pairs: give records with two texts, such as premise and hypothesis.")
        fields = {} if sentence.key is None else {"id": sentence.key}
        return Example({**fields, "text": sentence.text}, sentence, self._rows_of(Row(sentence.words), {}))

    def _read_record(self, record: Mapping[str, Any]) -> Example:
        if self.task.question_fields:
            return self._read_question(record)
        if self.columns is None:
            self.columns = self._find_columns(record)
        text, pair = self.columns
        if self.text_field is None and 2 in self.task.num_sentences:
            check_same_kind(record, text, pair)
        texts = [checked_text(column, self._value(record, column)) for column in self.columns if column is not None]
        if any(isinstance(part, list) for part in texts):
            # as in training: of a pair, both are lists of words if one is
            texts = [part.split() if isinstance(part, str) else part for part in texts]
        first, *second = map(self._split, texts)
        row = Row(first.words, second[0].words if second else None)
        return Example(dict(record), first, self._rows_of(row, record))

    @staticmethod
    def _value(record: Mapping[str, Any], column: str) -> Any:
        if column not in record:
            raise ElmoError(f"there is no {column}, which the first record has its text in: give all the same fields.")
        return record[column]

    def _rows_of(self, row: Row, record: Mapping[str, Any]) -> list[Row]:
        """Return the row, or one for each of its predicates, unless it has no words."""
        if not (row.words or row.pair):
            return []
        if self.task.reads_predicates:
            return [row._replace(predicate=place) for place in self.predicates.find(record, row.words)]
        return [row]

    def _find_columns(self, record: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the fields of the texts, which the first record shows."""
        names = list(record)
        if not self.task.reads_sentences:
            return choose_column(names, (self.text_field,) if self.text_field else tuple(TEXT_COLUMNS), "text"), None
        text, pair = find_text_columns(names, text=self.text_field, pair=self.pair_field)
        if (1 if pair is None else 2) not in self.task.num_sentences:
            has = f"one text, {text}" if pair is None else f"a pair, {text} and {pair}"
            reads = "pairs" if pair is None else "single sentences"
            raise ElmoError(f"this record has {has}, and the model reads {reads}: name the fields of the texts.")
        return text, pair

    def _read_question(self, record: Mapping[str, Any]) -> Example:
        text = choose_column(list(record), (self.text_field,) if self.text_field else QUESTION_FIELDS, "question")
        usual = self.task.question_fields
        name = choose_column(list(record), (self.pair_field,) if self.pair_field else usual, usual[0])
        question, given = self._split(checked_text(text, record[text])), record[name]
        if not self.task.has_choices:
            context = self._split(checked_text(name, given))
            windows = cut_windows(len(context.words)) if context.words else []
            rows = [Row(question.words, context.words[start:end]) for start, end in windows]
            return Example(dict(record), context, rows)
        if not isinstance(given, list) or not given:
            raise ElmoError(f"{name} is {given!r:.80}: give a list of answers.")
        choices = [checked_text(f"answer {number} of {name}", choice) for number, choice in enumerate(given)]
        rows = [Row(question.words, self._split(choice).words) for choice in choices]
        return Example(dict(record), question, rows)

    def _split(self, given: SentenceInput) -> Sentence:
        """Return a sentence with its text and its words."""
        if self.tokenized and isinstance(given, str):
            given = Sentence(given, given.split())
        return read_sentence(given, self.tokenizer)


def plain_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of what JSON has: lists in place of arrays and tuples, and `None` in place of NaN.

    Raises:
        ElmoError: If a number is infinite, or the record is nested too deeply.
    """
    try:
        return {name: _plain(name, value) for name, value in record.items()}
    except RecursionError as error:
        raise ElmoError("the record is nested too deeply: leave out the field that is.") from error


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(name, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(name, part) for part in value]
    if isinstance(value, float) and math.isinf(value):
        raise ElmoError(f"{name} holds {value}, a number that JSON does not have: give a finite one or null.")
    # a missing cell of a table
    return None if isinstance(value, float) and math.isnan(value) else value


__all__ = ["Example", "InputError", "InputReader", "PredictionInput", "Row", "check_inputs", "plain_record"]
