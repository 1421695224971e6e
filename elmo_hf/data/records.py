"""Sentences or pairs of sentences with labels: JSON Lines, CSV, TSV, and data sets by name."""

import csv
import json
import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from elmo_hf.errors import ElmoError, counted

from .columns import LABEL_COLUMNS, TEXT_COLUMNS, choose_column
from .corpus import Source, read_lines
from .named_datasets import class_names, load_split


# raw text, or words
Text: TypeAlias = str | list[str]
# one class, several classes, or a number
Label: TypeAlias = str | int | float | list[str] | list[int]

# the label of a record in SNLI on which the annotators did not agree
NO_GOLD_LABEL = "-"

logger = logging.getLogger(__name__)


class LabelledText(NamedTuple):
    """A text, or a pair of texts, and its label.

    Attributes:
        text: The text, or the first one of a pair.
        pair: The second one of a pair.
        label: The label.
    """

    text: Text
    pair: Text | None
    label: Label


def read_labelled(
    path: Source, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> list[LabelledText]:
    """Read texts or pairs and their labels from JSON Lines, from CSV with a header, or from TSV with a header.

    The first line shows the format. In TSV, quotes are a part of the text.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.
        text: The column of the text, or of the first one of a pair: a text or, in JSON, a list of words. By default
            the first of `TEXT_COLUMNS` that there is.
        pair: The column of the second text of a pair. By default the one that belongs to the column of the first text
            in `TEXT_COLUMNS`, if you do not pass `text`.
        label: The column of the label; by default the first of `LABEL_COLUMNS` that there is.

    Raises:
        ElmoError: If a line cannot be parsed, a column is missing, or there are no records.
    """
    found: list[LabelledText] = []
    columns: tuple[str, str | None, str] | None = None
    unlabelled = 0
    for number, record in read_records(path):
        try:
            columns = columns or find_columns(record, text=text, pair=pair, label=label)
            if text is None:
                check_same_kind(record, *columns[:2])
            if columns[2] == "gold_label" and record.get("gold_label") == NO_GOLD_LABEL:
                unlabelled += 1
            else:
                found.append(labelled_text(record, *columns))
        except ElmoError as error:
            raise ElmoError(f"{path}, line {number}: {error}") from error
    if unlabelled:
        logger.warning("%s: %d records without a label are left out.", path, unlabelled)
    if not found:
        raise ElmoError(f"{path} holds no records: give JSON Lines, CSV or TSV with a text and its label.")
    return found


def check_same_kind(record: Mapping[str, Any], text: str, pair: str | None) -> None:
    """Refuse a pair in a file whose first record is a single text.

    Args:
        record: A later record.
        text: The column of the text in the first record.
        pair: The column of the second text in it.

    Raises:
        ElmoError: If the record has a second text, and the first record none.
    """
    partner = TEXT_COLUMNS.get(text)
    if partner is not None and pair is None and record.get(partner) is not None:
        raise ElmoError(f"this record is a pair, with {partner}, and the first record is not: name the columns.")


def read_texts(path: Source, *, text: str | None = None) -> Iterator[Text]:
    """Read the texts of JSON Lines, CSV or TSV, as `read_labelled` does, one at a time and without labels.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.
        text: The column of the text: a text or, in JSON, a list of words. By default the first of `TEXT_COLUMNS` that
            the first record has.

    Raises:
        ElmoError: If a line cannot be parsed, or the column is missing.
    """
    for number, record in read_records(path):
        try:
            text = choose_column(list(record), tuple(TEXT_COLUMNS) if text is None else (text,), "text")
            yield checked_text(text, record[text])
        except ElmoError as error:
            raise ElmoError(f"{path}, line {number}: {error}") from error


def read_records(path: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the records of JSON Lines, of CSV with a header, or of TSV with a header, one at a time.

    The first line shows the format. In TSV, quotes are a part of the text.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.

    Returns:
        Each record, with the number of the line on which it ends.

    Raises:
        ElmoError: If a line cannot be parsed, or the header names a column twice.
    """
    lines = enumerate(read_lines(str(path)), start=1)
    begin, head = next(((number, line) for number, line in lines if line.strip()), (1, ""))
    # csv needs the ends of lines, which a quoted text may contain
    rest = (f"{line}\n" for line in chain([head], (line for _, line in lines)))
    if head.lstrip().startswith(("{", "[")):
        return _read_json_records(path, rest, begin)
    return _read_csv_records(path, rest, begin, tab="\t" in head)


def _read_json_records(path: Source, lines: Iterable[str], begin: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=begin):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ElmoError(f"{path}, line {number}: not JSON ({error}): give one whole record a line.") from error
        if not isinstance(record, dict):
            raise ElmoError(f"{path}, line {number}: {line.strip()!r:.80} is not a record: give one, {{..}}, a line.")
        yield number, record


def _read_csv_records(
    path: Source, lines: Iterable[str], begin: int, *, tab: bool
) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = csv.reader(
        lines, delimiter="\t" if tab else ",", quoting=csv.QUOTE_NONE if tab else csv.QUOTE_MINIMAL, strict=not tab
    )
    try:
        names = next(rows, [])
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise ElmoError(f"{path}, line {begin}: the header names the column {twice!r:.80} twice: rename one.")
        for row in rows:
            number = rows.line_num + begin - 1
            if row and len(row) != len(names):
                raise ElmoError(
                    f"{path}, line {number}: {counted(len(row), 'column')} where the header has {len(names)}: quote "
                    "texts that hold the separator, or give JSON Lines."
                )
            if row:
                yield number, dict(zip(names, row, strict=True))
    except csv.Error as error:
        raise ElmoError(f"{path}, line {rows.line_num + begin - 1}: not CSV ({error}): quote the texts.") from error


def find_columns(
    names: Iterable[str], *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> tuple[str, str | None, str]:
    """Return the columns of the text, of the second text of a pair, and of the label.

    Args:
        names: The columns of the data set.
        text: As for `read_labelled`.
        pair: As for `read_labelled`.
        label: As for `read_labelled`.

    Raises:
        ElmoError: If there is no such column.
    """
    names = list(names)
    label_column = LABEL_COLUMNS if label is None else (label,)
    return *find_text_columns(names, text=text, pair=pair), choose_column(names, label_column, "label")


def find_text_columns(
    names: Sequence[str], *, text: str | None = None, pair: str | None = None
) -> tuple[str, str | None]:
    """Return the columns of the text and of the second text of a pair, which is `None` if there are no pairs.

    Args:
        names: The columns of the data set.
        text: As for `read_labelled`.
        pair: As for `read_labelled`.

    Raises:
        ElmoError: If there is no such column.
    """
    if text is None:
        first = next((first for first, second in TEXT_COLUMNS.items() if second in names and first in names), None)
        text = first or choose_column(names, tuple(TEXT_COLUMNS), "text")
        if pair is None and first is not None:
            pair = TEXT_COLUMNS[first]
    for column in (text, pair):
        if column is not None:
            choose_column(names, (column,), "text")
    return text, pair


def labelled_text(record: Mapping[str, Any], text: str, pair: str | None, label: str) -> LabelledText:
    """Return the text, or the pair, and the label of a record.

    Args:
        record: The record.
        text: The column of the text, or of the first one of a pair.
        pair: The column of the second text of a pair.
        label: The column of the label.

    Raises:
        ElmoError: If a column is missing, or does not hold a text or a label.
    """
    texts = [checked_text(column, record.get(column)) for column in (text, pair) if column is not None]
    given = record.get(label)
    if isinstance(given, bool):
        given = str(given).lower()
    parts = given if isinstance(given, list) else [given]
    if any(isinstance(part, float) and not math.isfinite(part) for part in parts):
        raise ElmoError(f"{label} is {given!r:.80}: give a number, or leave the record out.")
    if given == "" or any(isinstance(part, bool) or not isinstance(part, (str, int, float)) for part in parts):
        raise ElmoError(f"{label} is {given!r:.80}: give a label or a number, or leave the record out.")
    first, second = (*texts, None)[:2]
    return LabelledText(first, second, given)  # type: ignore[arg-type]  # checked above


def checked_text(column: str, value: Any) -> Text:
    """Return the value of a column if it is a text or a list of words.

    Raises:
        ElmoError: If it is something else.
    """
    if not (isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value))):
        raise ElmoError(f"{column} is {value!r:.80}: give a text or a list of words.")
    return value


def load_labelled(
    name: str,
    split: str,
    *,
    config: str | None = None,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
) -> list[LabelledText]:
    """Load texts or pairs and labels of a data set with the library datasets, which numbers classes.

    Args:
        name: The name on the Hub, or a folder.
        split: The name of the split, such as `"train"`.
        config: The configuration of the data set, if it has several.
        text: As for `read_labelled`.
        pair: As for `read_labelled`.
        label: As for `read_labelled`.

    Returns:
        The texts with the names of their classes. Records without a label, which have the number -1, are left out.

    Raises:
        ElmoError: If there is no such data set, split or column, or a record has no label.
    """
    rows = load_split(name, config, split)
    found: list[LabelledText] = []
    unlabelled = 0
    try:
        columns = find_columns(rows.column_names, text=text, pair=pair, label=label)
        names = class_names(rows.features[columns[2]])
        for row in rows:
            labelled = labelled_text(row, *columns)
            if names and _is_unlabelled(labelled.label):
                unlabelled += 1
            else:
                found.append(_with_class_names(labelled, names) if names else labelled)
    except ElmoError as error:
        raise ElmoError(f"{name}, {split}, record {len(found) + 1}: {error}") from error
    if unlabelled:
        logger.warning("%s, %s: %d records without a label are left out.", name, split, unlabelled)
    if not found:
        raise ElmoError(f"{name}, {split}: there are no records: choose another split.")
    return found


def _is_unlabelled(label: Any) -> bool:
    return min(label if isinstance(label, list) else [label], default=0) < 0


def _with_class_names(labelled: LabelledText, names: list[str]) -> LabelledText:
    label: Any = labelled.label
    return labelled._replace(label=[names[part] for part in label] if isinstance(label, list) else names[label])


__all__ = [
    "Label",
    "LabelledText",
    "Text",
    "check_same_kind",
    "checked_text",
    "find_columns",
    "find_text_columns",
    "load_labelled",
    "read_labelled",
    "read_records",
    "read_texts",
]
