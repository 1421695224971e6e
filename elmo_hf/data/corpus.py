"""Read sentences from text files of any size, compressed or not, and shuffle them for a training."""

import bz2
import glob
import gzip
import lzma
import os
import random
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import TypeAlias, cast

from elmo_hf.errors import ElmoError

from .segmentation import SentenceSplitter


# a file, a folder, a pattern such as `news/*.gz`, or `-` for standard input
Source: TypeAlias = str | os.PathLike[str]

# the first bytes of a file, which show how it is compressed
MAGIC_BYTES = 10

# what damaged data raises; damaged bz2 data raises OSError
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)

# sentences that `Corpus` has in memory while it shuffles: about 100 MB
SHUFFLE_BUFFER = 100_000


def read_sentences(
    paths: Source | Iterable[Source],
    *,
    tokenize: Callable[[str], list[str]] = str.split,
    splitter: SentenceSplitter | None = None,
) -> Iterator[list[str]]:
    """Read the sentences of text files, by default one on each line; lines without words are skipped.

    Args:
        paths: Files in UTF-8, plain or compressed by gzip, bzip2 or xz. A folder stands for all files in it, and a
            pattern for the files that match it, in sorted order; `-` is standard input.
        tokenize: Splits a sentence into words, by default at white space. For raw text, pass a tokenizer's `tokenize`.
        splitter: Splits paragraphs into sentences; without it, each line is a sentence.

    Returns:
        The words of each sentence in turn, at least one.

    Raises:
        ElmoError: If there is no such file, before the first sentence is read; or if a line cannot be read.
    """
    return (words for _, _, words in read_placed_sentences(paths, tokenize=tokenize, splitter=splitter))


def read_placed_sentences(
    paths: Source | Iterable[Source],
    *,
    tokenize: Callable[[str], list[str]] = str.split,
    splitter: SentenceSplitter | None = None,
) -> Iterator[tuple[str, int, list[str]]]:
    """Read sentences as `read_sentences` does, each with the name of its file and the number of its line.

    Args:
        paths: As for `read_sentences`.
        tokenize: As for `read_sentences`.
        splitter: As for `read_sentences`.

    Returns:
        For each sentence its file, its line, or that on which its paragraph begins, counted from 1, and its words.

    Raises:
        ElmoError: As `read_sentences`.
    """
    names = find_files(paths)
    return (
        (name, number, words)
        for name in names
        for number, text in _numbered(read_lines(name), splitter)
        if (words := tokenize(text))
    )


def _numbered(lines: Iterable[str], splitter: SentenceSplitter | None) -> Iterator[tuple[int, str]]:
    return enumerate(lines, start=1) if splitter is None else splitter.read(lines)


class Corpus:
    """The sentences of text files, which are read again in every epoch of a training.

    Args:
        paths: As for `read_sentences`, but not standard input.
        tokenize: As for `read_sentences`.
        splitter: As for `read_sentences`.
        seed: The seed to shuffle by: first the files, and then sentences that are near each other. The seed and the
            epoch determine the order. By default, every epoch has the order of the files.

    Raises:
        ElmoError: If there is no such file, or it is standard input.
    """

    def __init__(
        self,
        paths: Source | Iterable[Source],
        *,
        tokenize: Callable[[str], list[str]] = str.split,
        splitter: SentenceSplitter | None = None,
        seed: int | None = None,
    ) -> None:
        self.names = find_files(paths)
        if "-" in self.names:
            raise ElmoError("Standard input can be read only once: save the text as a file.")
        self.tokenize = tokenize
        self.splitter = splitter
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order in which the sentences are read next."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[str]]:
        if self.seed is None:
            return self._read(self.names)
        rng = random.Random(f"{self.seed} {self.epoch}")
        names = rng.sample(self.names, len(self.names))
        return shuffle(self._read(names), rng)

    def _read(self, names: list[str]) -> Iterator[list[str]]:
        return read_sentences(names, tokenize=self.tokenize, splitter=self.splitter)


def shuffle(sentences: Iterable[list[str]], rng: random.Random, *, size: int = SHUFFLE_BUFFER) -> Iterator[list[str]]:
    """Shuffle a stream of sentences that are near each other.

    Args:
        sentences: The words of each sentence.
        rng: The random numbers.
        size: The number of sentences that are in memory at a time.
    """
    buffer: list[list[str]] = []
    for words in sentences:
        if len(buffer) < size:
            buffer.append(words)
        else:
            index = rng.randrange(size)
            yield buffer[index]
            buffer[index] = words
    rng.shuffle(buffer)
    yield from buffer


def find_files(paths: Source | Iterable[Source]) -> list[str]:
    """Return the names of files; those of a folder or a pattern are in sorted order, without hidden ones.

    Args:
        paths: Files, folders, patterns such as `news/*.gz`, or `-` for standard input.

    Raises:
        ElmoError: If a name stands for no file.
    """
    sources = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    found: list[str] = []
    for source in sources:
        name = os.fspath(source)
        if name == "-" or os.path.lexists(name):
            matches = [name]
        else:
            # Path.glob does not take an absolute pattern
            matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207
        files = [file for match in matches for file in (_files_below(match) if Path(match).is_dir() else [match])]
        if not files:
            reason = "has no files" if matches else "is no file, and no pattern that matches one"
            raise ElmoError(f"{name} {reason}: check the name.")
        found += files
    return found


def _files_below(folder: str) -> list[str]:
    def refuse(error: OSError) -> None:
        raise ElmoError(f"{error.filename} cannot be read ({error.strerror}): check its permissions.") from error

    files: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(parent, name) for name in names if not name.startswith(".")]
    return [str(file) for file in sorted(files) if file.is_file()]


def read_lines(name: str) -> Iterator[str]:
    """Read the lines of a file in UTF-8, plain or compressed, or of standard input for `-`, without line ends.

    Args:
        name: The name of the file.

    Raises:
        ElmoError: If the file cannot be read; the message names the file and the line.
    """
    shown, number = "standard input" if name == "-" else name, 0
    try:
        with open_unpacked(name) as file:
            for number, raw in enumerate(file, start=1):
                # the first line may begin with a byte order mark
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ElmoError(f"{shown}, line {number}: byte {byte:#04x} is not UTF-8: save the text as UTF-8.") from error
    except DAMAGE as error:
        raise ElmoError(
            f"{shown}, line {number + 1}: the compressed data is damaged ({error}): get it again."
        ) from error
    except OSError as error:
        # damaged bz2 data raises OSError
        reason = error.strerror or f"the compressed data is damaged: {error}"
        where = f", line {number + 1}," if number else ""
        raise ElmoError(f"{shown}{where} cannot be read ({reason}): check the file.") from error


@contextmanager
def open_unpacked(name: str) -> Iterator[BufferedIOBase]:
    """Open a file, or standard input, to read its bytes, decompressed if the first bytes show a compression."""
    if not name:
        raise ElmoError("The name of the file is empty: give a file.")
    if name == "-" and sys.stdin is None:
        raise ElmoError("Standard input is closed: give a file.")
    with ExitStack() as stack:
        file = sys.stdin.buffer if name == "-" else stack.enter_context(Path(name).open("rb"))
        head = cast(BufferedReader, file).peek(MAGIC_BYTES)[:MAGIC_BYTES]
        if head.startswith(b"\x1f\x8b"):
            unpacked = stack.enter_context(gzip.GzipFile(fileobj=file))
            # BufferedReader reads lines many times faster than GzipFile itself.
            yield BufferedReader(cast(RawIOBase, unpacked))
        elif re.match(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", head):
            yield stack.enter_context(bz2.BZ2File(file))
        elif head.startswith(b"\xfd7zXZ\0"):
            yield stack.enter_context(lzma.LZMAFile(file))
        else:
            yield cast(BufferedIOBase, file)


__all__ = [
    "Corpus",
    "Source",
    "find_files",
    "read_lines",
    "read_placed_sentences",
    "read_sentences",
    "shuffle",
]
