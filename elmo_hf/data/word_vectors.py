"""Word vectors that a task's model reads beside ELMo: those of its words in a file, or new ones that it learns.

`build_word_vectors` reads GloVe's text, word2vec's text and binary, and fastText's .vec, plain or compressed by gzip,
bzip2 or xz. It knows the format by the content, keeps the vectors of the wanted words only, and reads a file of any
size in bounded memory.
"""

import codecs
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elmo_hf.errors import ElmoError, counted

from .corpus import DAMAGE, open_unpacked


# how often a word must occur in the training data to have a vector that is learned from nothing: the words below it
# teach the model what an unknown word is
MIN_COUNT = 2

# lines by which the width is known, and by which a file is known to be one of vectors
SHOWN_LINES = 20
# the longest line, and the longest word of a binary file, in bytes
LONGEST_LINE, LONGEST_WORD = 1 << 22, 1 << 16
WIDEST = 1 << 15
CHUNK = 1 << 18

# a file is of lower-case words if at most this share of them has a capital, as a few markers do
MOST_CAPITALS = 0.01


class WordVectors(NamedTuple):
    """The words of which a task's model has vectors.

    Attributes:
        words: The words, for `ElmoTokenizer(task_vocab=...)`.
        lookup: How the tokenizer looks up a word, for `task_lookup`.
        width: The width of a vector, `D`.
        table: `[n + 2, D]` in float32: zeros for padding, the mean of all vectors for unknown words, and the vector of
            each of the `n` words; `None` for vectors that are learned from nothing.
        source: The name of the file, without its folder, or `None`.
        report: What was found, in one line.
    """

    words: list[str]
    lookup: str
    width: int
    table: np.ndarray | None
    source: str | None
    report: str


class FoundVectors(NamedTuple):
    """What a file has of some words.

    Attributes:
        vectors: `[D]` in float32 for each word that was found.
        width: `D`.
        lower_case: Whether the file has lower-case words only.
        passed_over: Lines of wanted words that do not have `D` finite numbers.
        missing: Words that the header of a text file promises, but that are not there.
    """

    vectors: dict[str, np.ndarray]
    width: int
    lower_case: bool
    passed_over: int
    missing: int


def build_word_vectors(
    counts: Mapping[str, int],
    file: str | Path | None = None,
    width: int | None = None,
    *,
    min_count: int = MIN_COUNT,
) -> WordVectors:
    """Choose the words of which a task's model has vectors, and read their vectors.

    Args:
        counts: How often each word occurs in the data: with a file in all of it, without one in that to train on.
        file: The file of vectors, from which all words of the data that it has are taken; `None` for vectors that are
            learned from nothing.
        width: The width of vectors that are learned.
        min_count: How often a word must occur to have one of these.

    Raises:
        ElmoError: If the file cannot be read or has none of the words, or there are no words.
    """
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    if file is None:
        words = [word for word in ranked if counts[word] >= min_count]
        if not words:
            raise ElmoError(
                f"No word occurs {counted(min_count, 'time')} in the training data: give a file of vectors."
            )
        report = f"word vectors: {counted(len(words), 'word')}, {width} wide, learned with the task"
        return WordVectors(words, "exact", int(width or 0), None, None, report)
    found = read_word_vectors(file, counts)
    forms = {word: form for word in ranked if (form := _form_of(word, found)) is not None}
    name = Path(file).name
    if not forms:
        passed = f", {found.passed_over} of them without {found.width} finite numbers" if found.passed_over else ""
        raise ElmoError(f"{file} has a vector of none of the {len(counts):,} words of the data{passed}: give another.")
    words = list(dict.fromkeys(forms.values()))
    vectors = np.stack([found.vectors[word] for word in words])
    # 0 is padding, 1 an unknown word
    table = np.concatenate(
        [np.zeros_like(vectors[:1]), vectors.mean(axis=0, keepdims=True, dtype=np.float64), vectors]
    )
    return WordVectors(
        words,
        "lower" if found.lower_case else "exact",
        found.width,
        table.astype(np.float32),
        name,
        _report(name, counts, forms, found),
    )


def _form_of(word: str, found: FoundVectors) -> str | None:
    """Return the form in which a file has a word, as it is or in lower case, or `None`."""
    forms = (word, word.lower()) if found.lower_case else (word,)
    return next((form for form in forms if form in found.vectors), None)


def _report(name: str, counts: Mapping[str, int], forms: Mapping[str, str], found: FoundVectors) -> str:
    share = sum(counts[word] for word in forms) / sum(counts.values())
    words = f"{len(forms):,} of {counted(len(counts), 'word')}"
    parts = [f"word vectors: {words} found in {name}, {share:.1%} of the text, {found.width} wide"]
    lowered = sum(form != word for word, form in forms.items())
    if lowered:
        parts.append(f"{lowered:,} of them in lower case")
    if found.passed_over:
        parts.append(f"{counted(found.passed_over, 'line')} without {found.width} finite numbers passed over")
    if found.missing:
        parts.append(f"the file ends {counted(found.missing, 'word')} early")
    return "; ".join(parts)


def read_word_vectors(file: str | Path, wanted: Collection[str]) -> FoundVectors:
    """Read the vectors of some words.

    Args:
        file: A file of vectors, plain or compressed.
        wanted: The words; of each its lower-case form is looked for, too.

    Returns:
        The vectors of the words and of their lower-case forms; of a word that the file has twice, the first.

    Raises:
        ElmoError: If the file cannot be read, is damaged, or is none of vectors.
    """
    forms = {form for word in wanted for form in (word, word.lower())}
    with _explaining(str(file)), open_unpacked(str(file)) as stream:
        first = _read_line(stream, str(file)).removeprefix(codecs.BOM_UTF8)
        if first.startswith(b"PK\x03\x04"):
            raise ElmoError(f"{file} is a zip archive: unpack it, and give a file from it.")
        header = _read_header(first)
        if header is None:
            reader = _Reader(str(file), _common_width(str(file), head := _head(first, stream, str(file))), forms)
            reader.read_text(chain(head, _lines(stream, str(file))))
            return reader.result(None)
        count, width = header
        second = stream.readline(LONGEST_LINE)
        reader = _Reader(str(file), width, forms)
        if _is_text(second, width):
            reader.read_text(chain([second], _lines(stream, str(file))))
            return reader.result(count)
        reader.read_binary(second, stream, count)
        return reader.result(None)


class _Reader:
    """Keeps the vectors of wanted words, and counts what it sees."""

    def __init__(self, name: str, width: int, wanted: Iterable[str]) -> None:
        self.name = name
        self.width = width
        # no file has a lone surrogate
        encoded = (word.encode("utf-8", "ignore") for word in wanted if word)
        self.wanted = {word for word in encoded if word}
        # a word may have spaces in it
        self.beginnings = {pieces[0] for word in self.wanted if (pieces := word.split(None, 1))}
        self.vectors: dict[bytes, np.ndarray] = {}
        self.capitals = self.seen = self.passed_over = 0

    def see(self, word: bytes) -> None:
        """Count a word of the file."""
        text = word.decode("utf-8", "replace")
        self.seen += 1
        self.capitals += text != text.lower()

    def read_text(self, lines: Iterable[bytes]) -> None:
        """Read a word and its numbers a line, apart by spaces or tabs."""
        for line in lines:
            beginning = line.split(None, 1)[:1]
            if not beginning:
                continue
            self.see(beginning[0])
            # most words are not wanted
            if beginning[0] not in self.beginnings:
                continue
            word, *numbers = line.strip().rsplit(None, self.width)
            if len(numbers) != self.width or _numbers(word.split()[1:]) is not None:
                # fewer numbers than other words have, or more
                self.passed_over += 1
            elif word in self.wanted:
                self.keep(word, _numbers(numbers))

    def read_binary(self, buffer: bytes, stream: BufferedIOBase, count: int) -> None:
        """Read a word, a space and its numbers in float32, `count` times; `buffer` is what was read of them."""
        size, start = 4 * self.width, 0
        for number in range(count):
            while (end := buffer.find(b" ", start)) < 0 or len(buffer) < end + 1 + size:
                is_word = end >= 0 or len(buffer) - start < LONGEST_WORD
                chunk = stream.read(max(CHUNK, size)) if is_word else b""
                if not chunk:
                    problem = "ends" if is_word else "has no word"
                    raise ElmoError(f"{self.name} {problem} after {number:,} of {count:,} words: get it again.")
                buffer, start = buffer[start:] + chunk, 0
            # some programs end each vector with a line break
            word = buffer[start:end].lstrip(b"\r\n")
            self.see(word)
            if word in self.wanted:
                self.keep(word, np.frombuffer(buffer, "<f4", self.width, end + 1).astype(np.float32))
            start = end + 1 + size

    def keep(self, word: bytes, vector: np.ndarray | None) -> None:
        """Keep the vector of a wanted word if it is the first of finite numbers."""
        if vector is None or not np.isfinite(vector).all():
            self.passed_over += 1
        else:
            self.vectors.setdefault(word, vector)

    def result(self, promised: int | None) -> FoundVectors:
        """Return what was found; `promised` is the number of words by the header of a text file."""
        return FoundVectors(
            {word.decode("utf-8"): vector for word, vector in self.vectors.items()},
            self.width,
            self.capitals <= MOST_CAPITALS * self.seen,
            self.passed_over,
            max(0, (promised or 0) - self.seen),
        )


def _numbers(fields: list[bytes]) -> np.ndarray | None:
    """Return numbers in float32, or `None` if there are none or a field is no number."""
    try:
        values = np.array([float(field) for field in fields])
    except ValueError:
        return None
    with np.errstate(over="ignore"):
        return values.astype(np.float32) if len(values) else None


def _read_header(line: bytes) -> tuple[int, int] | None:
    """Return the number of words and their width, which the first line of word2vec's and fastText's files has."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    count, width = map(int, fields)
    return (count, width) if 1 <= width <= WIDEST else None


def _is_text(line: bytes, width: int) -> bool:
    """Return whether the first entry of a file with a header is a line of text."""
    fields = line.strip().rsplit(None, width)
    if len(fields) == width + 1 and _numbers(fields[1:]) is not None:
        return True
    try:
        return line.decode("utf-8").strip().isprintable()
    except UnicodeDecodeError:
        return False


def _head(first: bytes, stream: BufferedIOBase, name: str) -> list[bytes]:
    """Return the first lines of a file without a header."""
    return [first, *islice(_lines(stream, name), SHOWN_LINES - 1)]


def _common_width(name: str, head: list[bytes]) -> int:
    """Return how many numbers most lines have.

    Raises:
        ElmoError: If they do not have a word and numbers.
    """
    widths = Counter(len(line.split()) - 1 for line in head if line.strip())
    width = max(widths, key=lambda each: (widths[each], -each), default=0)
    rows = [line.strip().rsplit(None, width)[1:] for line in head] if 1 <= width <= WIDEST else []
    if not any(len(row) == width and _numbers(row) is not None for row in rows):
        raise ElmoError(f"{name} has no word vectors: give a file of GloVe, word2vec or fastText (.vec).")
    return width


def _lines(stream: BufferedIOBase, name: str) -> Iterator[bytes]:
    while line := _read_line(stream, name):
        yield line


def _read_line(stream: BufferedIOBase, name: str) -> bytes:
    line = stream.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE:
        raise ElmoError(f"{name} has no word vectors, but a line of more than {LONGEST_LINE:,} bytes: give another.")
    return line


@contextmanager
def _explaining(name: str) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        raise ElmoError(f"{name}: the compressed data is damaged ({error}): get it again.") from error
    except OSError as error:
        reason = error.strerror or f"the compressed data is damaged: {error}"
        raise ElmoError(f"{name} cannot be read ({reason}): check the file.") from error


__all__ = ["MIN_COUNT", "FoundVectors", "WordVectors", "build_word_vectors", "read_word_vectors"]
