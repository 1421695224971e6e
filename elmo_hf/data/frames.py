"""Sentences with the semantic roles of their predicates: JSON Lines, the columns of CoNLL-2005 and 2012, data sets."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TextIO

from elmo_hf.errors import ElmoError, counted

from .columns import is_cell, split_cells
from .corpus import Source, read_lines
from .named_datasets import load_split
from .tagged import BEGIN, END, FIRST_ROLES, LEMMA_COLUMN, POS_COLUMN, WORD_COLUMN, find_spans


# the role of the predicate's own words
PREDICATE_ROLE = "V"
# the column of senses of CoNLL-2012
SENSE_COLUMN = 7
# what stands in a column where there is nothing
NOTHING = "-"
# what a column of roles has at a word: what begins there, and what ends there, such as `(A0*`, `*`, `*)` and `(V*)`
CELL = re.compile(r"((?:\([^()*\s]+)*)\*((?:[^()*\s]*\))*)")

# a line of a file, and its number
Line = tuple[int, str]


class Frame(NamedTuple):
    """A predicate of a sentence, and the roles of the words for it.

    Attributes:
        predicate: The number of the predicate's word, counted from 0.
        tags: The role of each word in BIO, such as `B-ARG0`, `I-ARG0`, `B-V` and `O`.
        lemma: The lemma of the predicate, if it is known.
        sense: The sense of the predicate, such as `see.01`, if it is known.
    """

    predicate: int
    tags: list[str]
    lemma: str | None = None
    sense: str | None = None


class FramedSentence(NamedTuple):
    """The words of a sentence, and a frame for each of its predicates.

    Attributes:
        words: The words.
        frames: The frames, in the order of the file; none if the sentence has no predicate.
        key: The name of the sentence, if it has one.
        pos: The part of speech of each word, if they are known.
    """

    words: list[str]
    frames: list[Frame]
    key: str | None = None
    pos: list[str] | None = None


def read_frames(path: Source) -> list[FramedSentence]:
    """Read sentences with their frames from JSON Lines or from columns; the first line shows the format.

    A line of JSON has `words` and `frames`. Each frame has `tags` and `pred` or `predicate`, the number of its word,
    and may have `lemma` and `sense`. In columns, each word has a line, and an empty line ends a sentence. The files of
    CoNLL-2012 begin with `#begin document`. Those of CoNLL-2005 have the words first and, at the end, a column of
    predicates, with `-` at other words, and a column of roles for each predicate, such as `(A0*` and `*)`.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.

    Raises:
        ElmoError: If the file cannot be read, holds no sentences, or a sentence is not what it should be.
    """
    lines = enumerate(read_lines(str(path)), start=1)
    head = next(((number, line) for number, line in lines if line.strip()), (1, ""))
    read = _read_json if head[1].lstrip().startswith("{") else _read_columns
    sentences = list(read(path, chain([head], lines)))
    if not sentences:
        raise ElmoError(f"{path} holds no sentences: give JSON Lines with words and frames, or columns of CoNLL.")
    return sentences


def load_frames(name: str, split: str, *, config: str | None = None) -> list[FramedSentence]:
    """Load sentences of a data set with the library datasets, with the fields that `read_frames` reads in JSON.

    Args:
        name: The name on the Hub, or a folder.
        split: The name of the split, such as `"train"`.
        config: The configuration of the data set, if it has several.

    Raises:
        ElmoError: If there is no such data set or split, or a sentence is not what it should be.
    """
    sentences = []
    for number, record in enumerate(load_split(name, config, split), start=1):
        try:
            sentences.append(sentence_of(record))
        except ElmoError as error:
            raise ElmoError(f"{name}, {split}, record {number}: {error}") from error
    if not sentences:
        raise ElmoError(f"{name}, {split}: there are no sentences: choose another split.")
    return sentences


def _read_json(path: Source, lines: Iterable[Line]) -> Iterator[FramedSentence]:
    for number, line in lines:
        if line.strip():
            try:
                yield sentence_of(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise ElmoError(f"{path}, line {number}: not JSON ({error}): give a sentence a line.") from error
            except ElmoError as error:
                raise ElmoError(f"{path}, line {number}: {error}") from error


def sentence_of(record: Any) -> FramedSentence:
    """Make a sentence of a record.

    Args:
        record: With the fields that `read_frames` reads in JSON.

    Raises:
        ElmoError: If a field is missing or is not what it should be.
    """
    if not isinstance(record, Mapping):
        raise ElmoError(f"{record!r:.80} is not a record: give words and frames.")
    words: Any = record.get("words")
    frames, pos = record.get("frames"), record.get("pos")
    if not _are_strings(words):
        raise ElmoError(f"words are {words!r:.80}: give a list of words.")
    if not isinstance(frames, list) or not all(isinstance(frame, Mapping) for frame in frames):
        raise ElmoError(f"frames are {frames!r:.80}: give a list, each with pred and tags, or an empty one.")
    if pos is not None and not (_are_strings(pos) and len(pos) == len(words)):
        raise ElmoError(f"pos is {pos!r:.80}: give a part of speech for each of {counted(len(words), 'word')}.")
    key = record.get("id")
    return FramedSentence(words, [frame_of(frame, words) for frame in frames], None if key is None else str(key), pos)


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def frame_of(record: Mapping[str, Any], words: Sequence[str]) -> Frame:
    """Make a frame of a record.

    Args:
        record: With `tags` and `pred` or `predicate`, and perhaps `lemma` and `sense`.
        words: The words of the sentence.

    Raises:
        ElmoError: If a field is missing or is not what it should be.
    """
    tags: Any = record.get("tags")
    if not _are_strings(tags) or len(tags) != len(words):
        raise ElmoError(f"tags are {tags!r:.80}: give a tag for each of {counted(len(words), 'word')}.")
    wrong = next((tag for tag in tags if tag != "O" and not (tag[:2] in ("B-", "I-") and tag[2:])), None)
    if wrong is not None:
        raise ElmoError(f"a tag is {wrong!r:.80}: give O, or a role with B- or I- before it.")
    predicate = check_predicate(record.get("pred", record.get("predicate")), words)
    lemma, sense = (None if record.get(name) is None else str(record[name]) for name in ("lemma", "sense"))
    return Frame(predicate, tags, lemma, sense)


def check_predicate(value: Any, words: Sequence[str]) -> int:
    """Return the number of a predicate's word.

    Raises:
        ElmoError: If it is not the number of a word.
    """
    if type(value) is not int or not 0 <= value < len(words):
        place = f"0 to {len(words) - 1}, the number of its word" if words else "none, because there are no words"
        raise ElmoError(f"a predicate is {value!r:.80}: give {place}.")
    return value


def _read_columns(path: Source, lines: Iterable[Line]) -> Iterator[FramedSentence]:
    read, start = _read_2005, 0
    rows: list[list[str]] = []
    # an empty line ends the last sentence, too
    for number, line in chain(lines, [(0, "")]):
        if line.startswith((BEGIN, END)):
            read, line = _read_2012, ""
        if cells := split_cells(line):
            start = start if rows else number
            rows.append(cells)
        elif rows:
            try:
                yield read(_as_columns(rows))
            except ElmoError as error:
                raise ElmoError(f"{path}, line {start}: the sentence that begins here {error}") from error
            rows = []


def _as_columns(rows: list[list[str]]) -> list[list[str]]:
    """Return the columns of a sentence, whose words have as many cells each."""
    if len({len(row) for row in rows}) > 1:
        sizes = sorted({len(row) for row in rows})
        raise ElmoError(f"has words with {sizes[0]} and with {sizes[-1]} columns: give each word as many.")
    return [list(column) for column in zip(*rows, strict=True)]


def _read_2005(columns: list[list[str]]) -> FramedSentence:
    # every cell of a column of roles has an asterisk; the predicates are in the last column that is none
    place = max((n for n, column in enumerate(columns) if not all("*" in cell for cell in column)), default=0)
    if not place:
        raise ElmoError("has no column of predicates behind its words: give it, with - at words that are none.")
    predicates, roles = columns[place], columns[place + 1 :]
    marked = [number for number, cell in enumerate(predicates) if cell != NOTHING]
    if len(marked) != len(roles):
        raise ElmoError(
            f"has {counted(len(marked), 'predicate')} in column {place + 1} and {counted(len(roles), 'column')} of "
            "roles behind it: give a column for each predicate."
        )
    frames = [Frame(at, tags_of_cells(cells), predicates[at]) for at, cells in zip(marked, roles, strict=True)]
    return FramedSentence(columns[0], frames)


def _read_2012(columns: list[list[str]]) -> FramedSentence:
    if len(columns) <= FIRST_ROLES:
        raise ElmoError(f"has {counted(len(columns), 'column')}: CoNLL-2012 has {FIRST_ROLES + 1} or more.")
    lemmas, senses = columns[LEMMA_COLUMN], columns[SENSE_COLUMN]
    frames = []
    for number, cells in enumerate(columns[FIRST_ROLES:-1], start=FIRST_ROLES + 1):
        tags = tags_of_cells(cells)
        own = [place for place, tag in enumerate(tags) if tag in (f"B-{PREDICATE_ROLE}", f"I-{PREDICATE_ROLE}")]
        if not own:
            raise ElmoError(f"has no (V*) in column {number}: mark the predicate of each column of roles.")
        # of several words, the one that has a sense
        at = next((place for place in own if senses[place] != NOTHING), own[0])
        lemma, sense = (None if column[at] == NOTHING else column[at] for column in (lemmas, senses))
        frames.append(Frame(at, tags, lemma, f"{lemma}.{sense}" if lemma and sense else sense))
    return FramedSentence(columns[WORD_COLUMN], frames, pos=columns[POS_COLUMN])


def tags_of_cells(cells: Sequence[str]) -> list[str]:
    """Return the BIO tags of a column of roles in brackets.

    Args:
        cells: What the column has at each word, such as `(A0*`, `*`, `*)` and `(V*)`.

    Raises:
        ElmoError: If a cell cannot be read, a role is in another one, or the brackets do not match.
    """
    tags, role = [], None
    for cell in cells:
        match = CELL.fullmatch(cell)
        opened = match[1].split("(")[1:] if match else []
        closed = match[2].count(")") if match else 0
        if match is None or len(opened) + (role is not None) > 1 or closed > len(opened) + (role is not None):
            raise ElmoError(
                f"has {cell!r:.80} in a column of roles: give roles beside each other, such as (A0* and *)."
            )
        if opened:
            role = opened[0]
        tags.append("O" if role is None else f"{'B' if opened else 'I'}-{role}")
        if closed:
            role = None
    if role is not None:
        raise ElmoError(f"has the role {role} without its end: close it with *).")
    return tags


def write_json_frames(sentences: Iterable[FramedSentence], file: TextIO) -> None:
    """Write sentences as JSON Lines.

    Args:
        sentences: The sentences.
        file: The open file.
    """
    for sentence in sentences:
        record: dict[str, Any] = {} if sentence.key is None else {"id": sentence.key}
        record["words"] = sentence.words
        record |= {} if sentence.pos is None else {"pos": sentence.pos}
        record["frames"] = [
            {
                "pred": frame.predicate,
                **{name: getattr(frame, name) for name in ("lemma", "sense") if getattr(frame, name) is not None},
                "tags": frame.tags,
            }
            for frame in sentence.frames
        ]
        file.write(f"{json.dumps(record, ensure_ascii=False)}\n")


def write_conll_frames(sentences: Iterable[FramedSentence], file: TextIO) -> None:
    """Write sentences in the columns of CoNLL-2005: the word, the predicate, and the roles for each predicate.

    Without their first column, these are the files that `srl-eval.pl` compares.

    Args:
        sentences: The sentences.
        file: The open file.

    Raises:
        ElmoError: If a word, a lemma or a role cannot stand in a column, or two frames have the same predicate.
    """
    for sentence in sentences:
        name = " ".join(sentence.words)
        frames = sorted(sentence.frames, key=lambda frame: frame.predicate)
        predicates = {frame.predicate: _name_of(frame, sentence.words) for frame in frames}
        if len(predicates) < len(frames):
            raise ElmoError(f"{name!r:.80} has two frames of one predicate, which columns cannot: choose JSON Lines.")
        marks = [predicates.get(place, NOTHING) for place in range(len(sentence.words))]
        roles = [cells_of_tags(frame.tags) for frame in frames]
        wrong = [cell for cell in chain(sentence.words, marks) if not is_cell(cell)]
        wrong += [cell for cell in chain(*roles) if not CELL.fullmatch(cell)]
        if wrong:
            raise ElmoError(f"{wrong[0]!r:.80} cannot stand in a column of {name!r:.80}: choose JSON Lines.")
        file.writelines("\t".join(cells) + "\n" for cells in zip(sentence.words, marks, *roles, strict=True))
        file.write("\n")


def _name_of(frame: Frame, words: Sequence[str]) -> str:
    """Return what the column of predicates has at a predicate, which may look neither like nothing nor like a role."""
    names = [frame.lemma, words[frame.predicate]]
    return next((name for name in names if name not in (None, "", NOTHING) and "*" not in name), None) or "_"


def cells_of_tags(tags: Sequence[str]) -> list[str]:
    """Return the column of roles in brackets of BIO tags."""
    begins, ends = {}, set()
    for label, start, end in find_spans(tags):
        begins[start] = f"({label}"
        ends.add(end - 1)
    return [f"{begins.get(place, '')}*{')' if place in ends else ''}" for place in range(len(tags))]


__all__ = [
    "PREDICATE_ROLE",
    "Frame",
    "FramedSentence",
    "cells_of_tags",
    "check_predicate",
    "frame_of",
    "load_frames",
    "read_frames",
    "sentence_of",
    "tags_of_cells",
    "write_conll_frames",
    "write_json_frames",
]
