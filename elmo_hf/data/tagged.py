"""Sentences with a tag for each word: CoNLL columns, data sets by name, and schemes of tags."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

from elmo_hf.errors import ElmoError

from .columns import TAGS_COLUMNS, WORDS_COLUMNS, choose_column
from .corpus import Source, read_lines
from .named_datasets import class_names, load_split


# begins a document in the files of the CoNLL shared tasks of 2002 and 2003
NEW_DOCUMENT = "-DOCSTART-"
# in CoNLL-U, the number of several words written as one (`3-4`), or of a word that is not written (`8.1`)
NO_WORD = re.compile(r"\d+[-.]\d+")
WORD_NUMBER = re.compile(r"\d+([-.]\d+)?")
CONLL_U_COLUMNS = 10
CONLL_U_USUAL = {"word": 1, "lemma": 2, "part of speech": 3}
# begins and ends a document of CoNLL-2012
BEGIN, END = "#begin document", "#end document"
# its columns; those of roles begin after 11 others, and the last one has coreference
WORD_COLUMN, POS_COLUMN, LEMMA_COLUMN, FIRST_ROLES = 3, 4, 6, 11
CONLL_2012_USUAL = {"word": WORD_COLUMN, "lemma": LEMMA_COLUMN, "part of speech": POS_COLUMN}
# what the column of predicates has at a word that is none
NOTHING = ("-", "_")


class TaggedSentence(NamedTuple):
    """The words of a sentence, and a tag for each.

    Attributes:
        words: The words.
        tags: As many tags.
    """

    words: list[str]
    tags: list[str]


class Span(NamedTuple):
    """Words that belong together, such as those of a name.

    Attributes:
        label: What they are, such as `PER`.
        start: The number of the first word, counted from 0.
        end: The number of the word after the last one.
    """

    label: str
    start: int
    end: int


def read_tagged(path: Source, *, word_column: int = 0, tag_column: int = -1) -> list[TaggedSentence]:
    """Read words and tags from a file in columns, with one word on each line and an empty line after each sentence.

    The columns are separated by tabs if the line of the first word has one, and otherwise by spaces. These lines are
    skipped: `-DOCSTART-`; before a sentence, lines that begin with `#` and do not have the columns of a word; and in
    CoNLL-U, multiword tokens and empty nodes.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.
        word_column: The number of the column of words; the first is 0, the last is -1.
        tag_column: The number of the column of tags.

    Raises:
        ElmoError: If a line lacks columns, there are no sentences, or the file cannot be read.
    """
    sentences = list(_read_sentences(path, {"word": word_column, "tag": tag_column}))
    if not sentences:
        raise ElmoError(f"{path} holds no sentences: give a file with a word and its tag on each line.")
    return [TaggedSentence(sentence["word"], sentence["tag"]) for sentence in sentences]


def read_conll_words(
    path: Source, *, word_column: int | None = None, lines: Iterable[str] | None = None
) -> Iterator[list[str]]:
    """Read the words of a file in columns, as `read_tagged` does, one sentence at a time.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.
        word_column: The number of the column of words; the first is 0, the last is -1. By default the first column, or
            the second one of CoNLL-U's ten, or the fourth one of CoNLL-2012.
        lines: The lines of the file, if you read it already.

    Raises:
        ElmoError: If a line lacks the column, or the file cannot be read.
    """
    return (sentence["word"] for sentence in _read_sentences(path, {"word": word_column}, lines))


def read_conll_records(
    path: Source,
    *,
    word_column: int | None = None,
    pos_column: int | None = None,
    predicate_column: int | None = None,
) -> Iterator[dict[str, list[Any]]]:
    """Read words and what tells the predicates in a file in columns, as `read_tagged` does, one sentence at a time.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.
        word_column: As for `read_conll_words`.
        pos_column: The number of the column of parts of speech; by default the fourth one of CoNLL-U's ten, the fifth
            one of CoNLL-2012, and none in other files.
        predicate_column: The number of the column that has something other than `-` or `_` at a predicate.

    Returns:
        For each sentence `words`; `lemmas` in CoNLL-U and CoNLL-2012; `pos` if they are known; and `predicates`, the
        numbers of their words counted from 0, if you give their column.

    Raises:
        ElmoError: If a line lacks a column, or the file cannot be read.
    """
    chosen = {"word": word_column, "lemma": None, "part of speech": pos_column, "predicate": predicate_column}
    names = {"word": "words", "lemma": "lemmas", "part of speech": "pos"}
    for sentence in _read_sentences(path, chosen):
        marks = sentence.pop("predicate", None)
        record: dict[str, list[Any]] = {names[name]: cells for name, cells in sentence.items()}
        if marks is not None:
            record["predicates"] = [number for number, mark in enumerate(marks) if mark not in NOTHING]
        yield record


def _read_sentences(
    path: Source, columns: Mapping[str, int | None], given: Iterable[str] | None = None
) -> Iterator[dict[str, list[str]]]:
    """Yield the chosen columns of each sentence, by what they hold, with a cell for each word."""
    lines = read_lines(str(path)) if given is None else iter(given)
    head = list(lines_to_first_word(lines))
    layout = _Layout(head, columns)
    rows: list[list[str]] = []
    # an empty line ends the last sentence, too
    for number, line in enumerate(chain(head, lines, [""]), start=1):
        cells = layout.split(line)
        if not line.strip() or cells[0] == NEW_DOCUMENT or line.startswith((BEGIN, END)):
            if rows:
                found = map(list, zip(*rows, strict=True))
                yield dict(zip(layout.columns, found, strict=True))
                rows = []
        elif not layout.is_skipped(cells, in_sentence=bool(rows)):
            rows.append(layout.choose(cells, f"{path}, line {number}: {line!r:.80}"))


def lines_to_first_word(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a file in columns to the one of its first word, with the comments and headers before it."""
    for line in lines:
        yield line
        if line.strip() and not line.startswith(("#", NEW_DOCUMENT)):
            return


class _Layout:
    """The columns of a file, as the line of its first word has them.

    Args:
        head: The lines to the first word, with its own.
        columns: The numbers of the chosen columns, by what they hold; `None` is the usual one, if there is one.
    """

    def __init__(self, head: Sequence[str], columns: Mapping[str, int | None]) -> None:
        first = head[-1] if head else ""
        self.by_tab = "\t" in first
        cells = self.split(first)
        self.width = len(cells)
        self.is_conll_u = self.by_tab and (
            self.width == CONLL_U_COLUMNS or (self.width > CONLL_U_COLUMNS and bool(WORD_NUMBER.fullmatch(cells[0])))
        )
        usual = CONLL_U_USUAL if self.is_conll_u else {"word": 0}
        # other formats begin a document in this way, too, and have other columns
        if any(line.startswith(BEGIN) for line in head) and _is_conll_2012(cells):
            usual = CONLL_2012_USUAL
        chosen = {name: usual.get(name) if column is None else column for name, column in columns.items()}
        self.columns = {name: column for name, column in chosen.items() if column is not None}
        # the others may be missing
        self.needed = {name: self.columns[name] for name in columns if name == "word" or columns[name] is not None}

    def split(self, line: str) -> list[str]:
        if self.by_tab:
            return [cell.strip(" ") for cell in line.split("\t")]
        return re.split("[ \t]+", line.strip(" \t"))

    def is_skipped(self, cells: list[str], *, in_sentence: bool) -> bool:
        """Tell whether a line holds a comment, or in CoNLL-U something other than a word."""
        if cells[0].startswith("#") and not in_sentence and len(cells) != self.width:
            # sentences may have different numbers of columns, and a word may begin with the sign
            return not self.by_tab or len(cells) == 1 or cells[0].startswith("# ")
        return self.is_conll_u and bool(self.columns["word"] and NO_WORD.fullmatch(cells[0]))

    def choose(self, cells: list[str], line: str) -> list[str]:
        """Return the chosen cells of a line, which `line` names in the message of an error.

        Raises:
            ElmoError: If a needed one is missing or empty; any other is then `_`.
        """
        needed = self.needed.values()
        # a column that is counted from the end is only known if all lines have as many
        fits = len(cells) == self.width or min(needed) >= 0
        found = {column % len(cells): cells[column] for column in needed if -len(cells) <= column < len(cells)}
        if not fits or len(found) < len(needed) or not all(found.values()):
            names = " and ".join(f"{column} ({name})" for name, column in self.needed.items())
            raise ElmoError(
                f"{line} does not have the columns {names} of {self.width}, each with something else: separate all "
                "lines alike, by TAB or spaces, or choose other columns."
            )
        return [(cells[column] if column < len(cells) else "") or "_" for column in self.columns.values()]


def _is_conll_2012(cells: Sequence[str]) -> bool:
    """Tell whether a line has the columns of CoNLL-2012: a document, its part, the number of a word, the word, .."""
    return len(cells) > FIRST_ROLES and cells[1].isdigit() and cells[2].isdigit()


def load_tagged(
    name: str, split: str, *, config: str | None = None, words: str | None = None, tags: str | None = None
) -> list[TaggedSentence]:
    """Load words and tags of a data set with the library datasets, which numbers tags; their names are returned.

    Args:
        name: The name on the Hub, or a folder.
        split: The name of the split, such as `"train"`.
        config: The configuration of the data set, if it has several.
        words: The column of the words; by default the first of `WORDS_COLUMNS` that there is.
        tags: The column of the tags; by default the first of `TAGS_COLUMNS` that there is.

    Raises:
        ElmoError: If there is no such data set, split or column, or it has no sentences.
    """
    rows = load_split(name, config, split)
    try:
        words = choose_column(rows.column_names, WORDS_COLUMNS if words is None else (words,), "words")
        tags = choose_column(rows.column_names, TAGS_COLUMNS if tags is None else (tags,), "tags")
    except ElmoError as error:
        raise ElmoError(f"{name}, {split}: {error}") from error
    names = class_names(rows.features[tags])
    found = []
    for number, row in enumerate(rows, start=1):
        try:
            sentence = _tagged_sentence(row, words, tags, names)
        except ElmoError as error:
            raise ElmoError(f"{name}, {split}, record {number}: {error}") from error
        if sentence.words:
            found.append(sentence)
    wrong = next((number for number, part in enumerate(found, start=1) if len(part.words) != len(part.tags)), None)
    if wrong or not found:
        culprit = f"sentence {wrong} does not have as many tags as words" if wrong else "there are no sentences"
        raise ElmoError(f"{name}, {split}: {culprit}: choose other columns, or another split.")
    return found


def _tagged_sentence(row: Mapping[str, Any], words: str, tags: str, names: list[str] | None) -> TaggedSentence:
    """Return the sentence of a record; `names` are those of the tags, if the record has their numbers."""
    given, found = row[words], row[tags]
    lists = isinstance(given, list) and isinstance(found, list)
    if not lists or not all(isinstance(word, str) for word in given) or None in found:
        raise ElmoError(f"{words} and {tags} are not lists of words and tags.")
    if names and not all(0 <= tag < len(names) for tag in found):
        raise ElmoError(f"{tags} has {min(found)}, which is not the number of a tag.")
    return TaggedSentence(given, [names[tag] if names else str(tag) for tag in found])


def tag_scheme(tags: Iterable[str]) -> str | None:
    """Return the scheme by which tags mark spans of words.

    Args:
        tags: All tags of a data set.

    Returns:
        `"IOB2"` (for IOB1, too), `"IOBES"` or `"BILOU"`; `None` if the tags mark no spans.
    """
    prefixes = {tag.partition("-")[0] for tag in tags if tag != "O"}
    for scheme, letters in {"IOB2": "BI", "IOBES": "BIES", "BILOU": "BILU"}.items():
        if prefixes and prefixes <= set(letters):
            return scheme
    return None


def find_spans(tags: Sequence[str]) -> list[Span]:
    """Find the spans that the tags of a sentence mark in IOB1, IOB2, IOBES or BILOU.

    Tags that break the scheme are read as conlleval and seqeval's default mode read them: a span without `B-` begins
    where its label begins, and one without `E-` or `L-` ends before the next span or `O`.

    Args:
        tags: The tags, such as `B-PER`, `I-PER` and `O`.
    """
    spans: list[Span] = []
    is_open = False
    for number, tag in enumerate(tags):
        prefix, _, label = tag.partition("-")
        if tag == "O":
            is_open = False
            continue
        if is_open and prefix in ("I", "E", "L") and spans[-1].label == label:
            spans[-1] = spans[-1]._replace(end=number + 1)
        else:
            spans.append(Span(label, number, number + 1))
        is_open = prefix in ("B", "I")
    return spans


def to_iob2(tags: Sequence[str]) -> list[str]:
    """Convert IOB1 tags to IOB2, where every span begins with `B-`; IOB2 tags stay as they are.

    Args:
        tags: The tags of a sentence.
    """
    starts = [
        tag.partition("-")[0] == "I" and (before == "O" or before[1:] != tag[1:])
        for before, tag in pairwise(["O", *tags])
    ]
    return [f"B{tag[1:]}" if start else tag for tag, start in zip(tags, starts, strict=True)]


def cut_sentence(sentence: TaggedSentence, max_words: int) -> Iterator[TaggedSentence]:
    """Cut a sentence into pieces, between spans unless a span is longer than a piece.

    Args:
        sentence: The sentence.
        max_words: The most words in a piece.
    """
    words, tags = sentence
    start = 0
    while start < len(words):
        end = start + max_words
        if end < len(words):
            inside = ("I", "E", "L")
            ends = range(end, start, -1)
            end = next((place for place in ends if tags[place].partition("-")[0] not in inside), end)
        yield TaggedSentence(words[start:end], tags[start:end])
        start = end


__all__ = [
    "Span",
    "TaggedSentence",
    "cut_sentence",
    "find_spans",
    "lines_to_first_word",
    "load_tagged",
    "read_conll_records",
    "read_conll_words",
    "read_tagged",
    "tag_scheme",
    "to_iob2",
]
