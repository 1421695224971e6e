"""Labelled text: words with tags from CoNLL columns, sentences and pairs with labels from JSON Lines and CSV."""

import csv
import json
import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeAlias

from elmo_hf.errors import ElmoError

from .corpus import Source, read_lines


# raw text, or words that are apart already
Text: TypeAlias = str | list[str]
# of one class, of several, or a number
Label: TypeAlias = str | int | float | list[str] | list[int]

# what columns are called in data sets at large, the more telling names first
WORDS_COLUMNS = ("tokens", "words")
TAGS_COLUMNS = ("ner_tags", "tags", "pos_tags", "upos", "labels")
TEXT_COLUMNS = {
    "premise": "hypothesis",
    "sentence1": "sentence2",
    "text1": "text2",
    "question1": "question2",
    "text": "text_pair",
    "sentence": None,
    "tokens": None,
    "words": None,
}
LABEL_COLUMNS = ("label", "labels", "gold_label")

# in SNLI, where the annotators did not agree
NO_GOLD_LABEL = "-"

logger = logging.getLogger(__name__)

# a document begins in the files of the CoNLL shared tasks of 2002 and 2003
NEW_DOCUMENT = "-DOCSTART-"
# in CoNLL-U, several words written as one, and words that are not written: `3-4`, `8.1`
NO_WORD = re.compile(r"\d+[-.]\d+")
CONLL_U_COLUMNS = 10


class TaggedSentence(NamedTuple):
    """The words of a sentence, and as many tags."""

    words: list[str]
    tags: list[str]


class LabelledText(NamedTuple):
    """A text, the second one where there are pairs, and their label."""

    text: Text
    pair: Text | None
    label: Label


def read_tagged(path: Source, *, word_column: int = 0, tag_column: int = -1) -> list[TaggedSentence]:
    """Read words and their tags in columns, a word a line, with an empty line after each sentence.

    The columns are apart by TAB, or else by spaces, as the first word shows. Passed over are lines `-DOCSTART-`, and
    before a sentence lines that begin with `#` and have not the columns of a word; in CoNLL-U also lines that are no
    words.

    Args:
        path: A file in UTF-8, as it is or compressed, or `-`.
        word_column: Number of the column of words; the first is 0, the last is -1.
        tag_column: That of the tags.

    Raises:
        ElmoError: If a line lacks columns, there are no sentences, or the file cannot be read.
    """
    rows = list(_read_rows(path, {"word": word_column, "tag": tag_column}))
    if not rows:
        raise ElmoError(f"{path} holds no sentences: give a file with a word and its tag on each line.")
    return [TaggedSentence([word for word, _ in row], [tag for _, tag in row]) for row in rows]


def read_words(path: Source, *, word_column: int | None = None) -> Iterator[list[str]]:
    """Read the words of sentences in columns, as `read_tagged` does, one sentence at a time.

    Args:
        path: A file in UTF-8, as it is or compressed, or `-`.
        word_column: Number of the column of words; the first is 0, the last is -1. By default it is the first, or
            of the ten columns of CoNLL-U the second.

    Raises:
        ElmoError: If a line lacks the column, or the file cannot be read.
    """
    return ([word for (word,) in row] for row in _read_rows(path, {"word": word_column}))


def _read_rows(path: Source, columns_of: Mapping[str, int | None]) -> Iterator[list[list[str]]]:
    """Read sentences, each as what its lines have in some columns."""
    lines = read_lines(str(path))
    head = []
    for line in lines:
        head.append(line)
        if line.strip() and not line.startswith(("#", NEW_DOCUMENT)):
            break
    by_tab = bool(head) and "\t" in head[-1]
    width = len(_columns(head[-1], by_tab)) if head else 0
    usual = 1 if by_tab and width == CONLL_U_COLUMNS else 0
    places = {name: usual if place is None else place for name, place in columns_of.items()}
    sentence: list[list[str]] = []
    for number, line in enumerate(chain(head, lines), start=1):
        columns = _columns(line, by_tab)
        if not line.strip() or columns[0] == NEW_DOCUMENT:
            if sentence:
                yield sentence
                sentence = []
            continue
        if line.startswith("#") and not sentence and len(columns) != width:
            continue
        if width == CONLL_U_COLUMNS and places["word"] and NO_WORD.fullmatch(columns[0]):
            continue
        # from the end, a column is known only where all lines have as many
        fits = len(columns) == width or min(places.values()) >= 0
        picked = {
            place % len(columns): columns[place] for place in places.values() if -len(columns) <= place < len(columns)
        }
        if not fits or len(picked) < len(places) or not all(picked.values()):
            wanted = " and ".join(f"{place} ({name})" for name, place in places.items())
            raise ElmoError(
                f"{path}, line {number}: {line!r:.80} has not the columns {wanted} of {width}: separate all lines "
                "alike, by TAB or spaces, or choose other columns."
            )
        sentence.append([columns[place] for place in places.values()])
    if sentence:
        yield sentence


def _columns(line: str, by_tab: bool) -> list[str]:
    if by_tab:
        return [column.strip(" ") for column in line.split("\t")]
    return re.split("[ \t]+", line.strip(" \t"))


def tag_scheme(tags: Iterable[str]) -> str | None:
    """Tell how tags mark spans of words: `"IOB2"` (IOB1, too), `"IOBES"`, `"BILOU"`, or `None` if they mark none."""
    prefixes = {tag.partition("-")[0] for tag in tags if tag != "O"}
    for scheme, letters in {"IOB2": "BI", "IOBES": "BIES", "BILOU": "BILU"}.items():
        if prefixes and prefixes <= set(letters):
            return scheme
    return None


def to_iob2(tags: Sequence[str]) -> list[str]:
    """Let every span begin with `B-`, as in IOB2: in IOB1, most begin with `I-`.

    Tags that are IOB2 already stay as they are.
    """
    starts = [
        tag.partition("-")[0] == "I" and (before == "O" or before[1:] != tag[1:])
        for before, tag in pairwise(["O", *tags])
    ]
    return [f"B{tag[1:]}" if start else tag for tag, start in zip(tags, starts, strict=True)]


def cut_sentence(sentence: TaggedSentence, max_words: int) -> Iterator[TaggedSentence]:
    """Cut a sentence in pieces of at most `max_words`, between spans as far as that goes."""
    words, tags = sentence
    start = 0
    while start < len(words):
        end = start + max_words
        if end < len(words):
            inside = ("I", "E", "L")
            places = range(end, start, -1)
            end = next((place for place in places if tags[place].partition("-")[0] not in inside), end)
        yield TaggedSentence(words[start:end], tags[start:end])
        start = end


def read_labelled(
    path: Source, *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> list[LabelledText]:
    """Read sentences or pairs and their labels from JSON Lines, CSV with a head line, or TSV, where quotes are text.

    Args:
        path: A file in UTF-8, as it is or compressed, or `-`. Its first line says what it is.
        text: The column of the sentence, or the first one of a pair: a text or, in JSON, a list of words. By default
            the first that is there of those in `TEXT_COLUMNS`.
        pair: The column of the second one of a pair; by default what belongs to a `text` that is not given.
        label: The column of the label; by default one of `LABEL_COLUMNS`.

    Raises:
        ElmoError: If a line cannot be understood, a column is missing, or there are no records.
    """
    found: list[LabelledText] = []
    wanted: tuple[str, str | None, str] | None = None
    without = 0
    for number, record in _records(path):
        try:
            wanted = wanted or find_columns(record, text=text, pair=pair, label=label)
            column, second, label_column = wanted
            partner = TEXT_COLUMNS.get(column)
            if partner is not None and second is None and text is None and record.get(partner) is not None:
                raise ElmoError(f"a pair, with {partner}, where the first record is none: name the columns.")
            if record.get(label_column) == NO_GOLD_LABEL and label_column == "gold_label":
                without += 1
                continue
            found.append(labelled_text(record, *wanted))
        except ElmoError as error:
            raise ElmoError(f"{path}, line {number}: {error}") from error
    if without:
        logger.warning("%s: %d records without a label are left out.", path, without)
    if not found:
        raise ElmoError(f"{path} holds no records: give JSON Lines, CSV or TSV with a text and its label.")
    return found


def read_texts(path: Source, *, text: str | None = None) -> Iterator[Text]:
    """Read the texts of JSON Lines, CSV or TSV, as `read_labelled` does, one at a time and without labels.

    Args:
        path: A file in UTF-8, as it is or compressed, or `-`.
        text: As for `read_labelled`.

    Raises:
        ElmoError: If a line cannot be understood, or the column is missing.
    """
    for number, record in _records(path):
        try:
            text = choose_column(list(record), tuple(TEXT_COLUMNS) if text is None else (text,), "text")
            yield checked_text(text, record[text])
        except ElmoError as error:
            raise ElmoError(f"{path}, line {number}: {error}") from error


def _records(path: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the records of a file with the line on which each ends."""
    lines = enumerate(read_lines(str(path)), start=1)
    begin, head = next(((number, line) for number, line in lines if line.strip()), (1, ""))
    # csv wants the ends of lines, which a quoted text may hold
    rest = (f"{line}\n" for line in chain([head], (line for _, line in lines)))
    if head.lstrip().startswith(("{", "[")):
        for number, line in enumerate(rest, start=begin):
            if line.strip():
                yield number, _json_record(path, number, line)
        return
    tab = "\t" in head
    rows = csv.reader(
        rest, delimiter="\t" if tab else ",", quoting=csv.QUOTE_NONE if tab else csv.QUOTE_MINIMAL, strict=not tab
    )
    try:
        names = next(rows, [])
        for row in rows:
            if row and len(row) != len(names):
                raise ElmoError(
                    f"{path}, line {rows.line_num + begin - 1}: {len(row)} columns where the head line has "
                    f"{len(names)}: quote texts that hold the separator, or give JSON Lines."
                )
            if row:
                yield rows.line_num + begin - 1, dict(zip(names, row, strict=True))
    except csv.Error as error:
        raise ElmoError(f"{path}, line {rows.line_num + begin - 1}: not CSV ({error}): quote the texts.") from error


def _json_record(path: Source, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ElmoError(f"{path}, line {number}: not JSON ({error}): give one whole record a line.") from error
    if not isinstance(record, dict):
        raise ElmoError(f"{path}, line {number}: {line.strip()!r:.80} is no record: give one, {{..}}, a line.")
    return record


def find_columns(
    names: Iterable[str], *, text: str | None = None, pair: str | None = None, label: str | None = None
) -> tuple[str, str | None, str]:
    """Find the columns of the text, of the second one of a pair, and of the label; see `read_labelled`.

    Raises:
        ElmoError: If there is no such column.
    """
    names = list(names)
    if text is None:
        first = next((first for first, second in TEXT_COLUMNS.items() if second in names and first in names), None)
        text = first or choose_column(names, tuple(TEXT_COLUMNS), "text")
        if pair is None and first is not None:
            pair = TEXT_COLUMNS[first]
    for column in (text, pair):
        if column is not None:
            choose_column(names, (column,), "text")
    return text, pair, choose_column(names, LABEL_COLUMNS if label is None else (label,), "label")


def choose_column(names: Sequence[str], wanted: Sequence[str], what: str) -> str:
    """Choose the first of the wanted columns that is there.

    Raises:
        ElmoError: If there is none.
    """
    found = next((name for name in wanted if name in names), None)
    if found is None:
        raise ElmoError(
            f"no column {' or '.join(wanted)}; there are {', '.join(map(str, names)) or 'none'}: name the one of the "
            f"{what}."
        )
    return found


def labelled_text(record: Mapping[str, Any], text: str, pair: str | None, label: str) -> LabelledText:
    """Take a labelled text out of a record.

    Raises:
        ElmoError: If a column is missing, or holds something else.
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
    """Refuse what is neither a text nor a list of words.

    Raises:
        ElmoError: If it is something else.
    """
    if not (isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value))):
        raise ElmoError(f"{column} is {value!r:.80}: give a text or a list of words.")
    return value


def load_split(name: str, config: str | None, split: str) -> Any:
    """Load a split of a data set of the library datasets, by its name on the Hub or its folder.

    Raises:
        ElmoError: If the library is missing, or there is no such data set or split.
    """
    try:
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError
    except ImportError as error:
        raise ElmoError("A data set by name needs the library datasets: pip install datasets") from error
    try:
        return load_dataset(name, config, split=split)
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        reason = " ".join(str(error).split())
        raise ElmoError(f"{name} cannot be loaded ({reason}): check its name, configuration and split.") from error


def load_tagged(
    name: str, split: str, *, config: str | None = None, words: str | None = None, tags: str | None = None
) -> list[TaggedSentence]:
    """Read words and tags of a data set of the library datasets; numbers of tags become their names.

    Args:
        name: Its name on the Hub, or its folder.
        split: Such as `train`.
        config: Which of its configurations.
        words: The column of the words; by default one of `WORDS_COLUMNS`.
        tags: That of the tags; by default one of `TAGS_COLUMNS`.

    Raises:
        ElmoError: If there is no such data set, split or column, or it has no sentences.
    """
    rows = load_split(name, config, split)
    try:
        words = choose_column(rows.column_names, WORDS_COLUMNS if words is None else (words,), "words")
        tags = choose_column(rows.column_names, TAGS_COLUMNS if tags is None else (tags,), "tags")
    except ElmoError as error:
        raise ElmoError(f"{name}, {split}: {error}") from error
    names = _class_names(rows.features[tags])
    found = []
    for number, row in enumerate(rows, start=1):
        given, numbers = row[words], row[tags]
        lists = isinstance(given, list) and isinstance(numbers, list)
        if not lists or not all(isinstance(word, str) for word in given) or None in numbers:
            raise ElmoError(f"{name}, {split}, record {number}: {words} and {tags} are no lists of words and tags.")
        if names and not all(0 <= tag < len(names) for tag in numbers):
            raise ElmoError(f"{name}, {split}, record {number}: {tags} has {min(numbers)}, which is no tag.")
        if given:
            found.append(TaggedSentence(given, [names[tag] if names else str(tag) for tag in numbers]))
    wrong = next((number for number, part in enumerate(found, start=1) if len(part.words) != len(part.tags)), None)
    if wrong or not found:
        culprit = f"sentence {wrong} has not as many tags as words" if wrong else "there are no sentences"
        raise ElmoError(f"{name}, {split}: {culprit}: choose other columns, or another split.")
    return found


def load_labelled(
    name: str,
    split: str,
    *,
    config: str | None = None,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
) -> list[LabelledText]:
    """Read sentences or pairs and labels of a data set of the library datasets; numbers of classes become names.

    Args:
        name: As for `load_tagged`, and so are `split` and `config`.
        split: See `name`.
        config: See `name`.
        text: As for `read_labelled`, and so are `pair` and `label`.
        pair: See `text`.
        label: See `text`.

    Raises:
        ElmoError: If there is no such data set, split or column, or a record has no label.
    """
    rows = load_split(name, config, split)
    found: list[LabelledText] = []
    without = 0
    try:
        columns = find_columns(rows.column_names, text=text, pair=pair, label=label)
        names = _class_names(rows.features[columns[2]])
        for row in rows:
            part = labelled_text(row, *columns)
            given: Any = part.label
            if names:
                many = isinstance(given, list)
                numbers = given if many else [given]
                if min(numbers, default=0) < 0:
                    without += 1
                    continue
                classes = [names[number] for number in numbers]
                part = part._replace(label=classes if many else classes[0])
            found.append(part)
    except ElmoError as error:
        raise ElmoError(f"{name}, {split}, record {len(found) + 1}: {error}") from error
    if without:
        logger.warning("%s, %s: %d records without a label are left out.", name, split, without)
    if not found:
        raise ElmoError(f"{name}, {split}: there are no records: choose another split.")
    return found


def _class_names(feature: Any) -> list[str] | None:
    """Find the names of a column of classes, or of lists of them."""
    return getattr(getattr(feature, "feature", feature), "names", None)


__all__ = [
    "Label",
    "LabelledText",
    "TaggedSentence",
    "Text",
    "cut_sentence",
    "find_columns",
    "load_labelled",
    "load_tagged",
    "read_labelled",
    "read_tagged",
    "read_texts",
    "read_words",
    "tag_scheme",
    "to_iob2",
]
