"""Keep the sentences of a text in memory-mapped files, so that a training on a text of any size holds none of it.

A folder holds the text once for all processes of a machine. It has, for each word of the text, the number of its
spelling, and each spelling once; `text.json` says how many of each, and what the text was made from.
"""

import json
import operator
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from elmo_hf.errors import ElmoError, one_line
from elmo_hf.files import cached_folder, new_folder


# the version of the files: those of another one are not read
FORMAT = 1

# the counts, and what the text was made from
FACTS = "text.json"

# for each file the type of its numbers
FILES: dict[str, np.dtype[Any]] = {
    # the number of the spelling of each word
    "words.bin": np.dtype(np.uint32),
    # where each sentence begins in the words, and where the last one ends
    "sentences.bin": np.dtype(np.int64),
    # the number of words of each sentence
    "lengths.bin": np.dtype(np.int32),
    # the bytes of all spellings
    "letters.bin": np.dtype(np.uint8),
    # where each spelling begins in the letters, and where the last one ends
    "spellings.bin": np.dtype(np.int64),
}

# spellings that have their numbers in memory while a text is stored: about 200 MB
KEPT_SPELLINGS = 1 << 20


class StoredSentences:
    """The sentences of a text that `store_sentences` or `cached_sentences` wrote; they stay on the disk.

    A copy for another process, as for a worker of a DataLoader, opens the same files.

    Args:
        folder: The folder of the text.

    Raises:
        ElmoError: If the folder holds no text, or a file of it is damaged.

    Attributes:
        folder: The folder.
        words: The number of words of all sentences.
        lengths: The number of words of each sentence, `[sentences]`.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            counts = json.loads((self.folder / FACTS).read_bytes())["counts"]
            maps = {name: self._map(name, counts[name]) for name in FILES}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ElmoError(f"{self.folder} is no whole stored text ({one_line(error)}): delete it.") from error
        self.words = len(maps["words.bin"])
        self.lengths = maps["lengths.bin"]
        self._numbers = maps["words.bin"]
        self._begins = maps["sentences.bin"]
        self._spellings = maps["spellings.bin"]
        # slices of a memoryview are made several times faster than those of an array
        self._letters = memoryview(cast(Any, maps["letters.bin"]))

    def _map(self, name: str, count: int) -> np.ndarray:
        path, dtype = self.folder / name, FILES[name]
        size, expected = path.stat().st_size, count * dtype.itemsize
        if size != expected:
            raise ValueError(f"{name} has {size:,} bytes in place of {expected:,}")
        # a plain array, because each slice of a memmap is a memmap, which takes long to make
        return np.asarray(np.memmap(path, dtype, mode="r"))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> list[str]:
        """Return the words of a sentence."""
        index = range(len(self))[operator.index(index)]
        numbers = self._numbers[self._begins[index] : self._begins[index + 1]]
        begins, ends = self._spellings[numbers].tolist(), self._spellings[1:][numbers].tolist()
        letters = self._letters
        return [str(letters[begin:end], "utf-8", "surrogatepass") for begin, end in zip(begins, ends, strict=True)]

    def __iter__(self) -> Iterator[list[str]]:
        return map(self.__getitem__, range(len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredSentences, (self.folder,)


def store_sentences(
    folder: str | Path, sentences: Iterable[list[str]], source: Mapping[str, Any] | None = None
) -> StoredSentences:
    """Write a text to a new folder, of 4 bytes a word and 12 a sentence beside the spellings; memory does not grow.

    Args:
        folder: The new folder; it appears when it is whole.
        sentences: The words of each sentence, read once; empty sentences are left out.
        source: What the text is made from, for `text.json`.

    Returns:
        The sentences, in the same order.

    Raises:
        ElmoError: If the folder exists or cannot be written, the text cannot be read or has no words, or a word is
            not a string.
    """
    with new_folder(Path(folder), size=0) as temporary:
        counts = _write_files(temporary, _naming_reader(sentences))
        if not counts["words.bin"]:
            raise ElmoError("No sentence has words: check the text.")
        facts = {"format": FORMAT, "counts": counts, "source": dict(source or {})}
        (temporary / FACTS).write_text(json.dumps(facts, indent=2), encoding="utf-8")
    return StoredSentences(folder)


def cached_sentences(cache: str | Path, source: Mapping[str, Any], sentences: Iterable[list[str]]) -> StoredSentences:
    """Return the stored sentences of a text, which are written if nobody has written them before.

    Of several processes, the first one writes, and the others wait for it.

    Args:
        cache: The folder of all stored texts; each has a folder of its own there, which is never deleted.
        source: All that the sentences depend on, as JSON: texts of the same source are taken for the same text.
        sentences: The words of each sentence; they are read only if they are not stored yet.

    Raises:
        ElmoError: As `store_sentences`.
    """
    return StoredSentences(
        cached_folder(Path(cache), [FORMAT, source], lambda folder: store_sentences(folder, sentences, source))
    )


def describe_files(names: Iterable[str]) -> list[list[Any]]:
    """Return the path, the size in bytes and the time of the last change of files, as part of the source of a text.

    Args:
        names: The names of files, from `find_files`.

    Raises:
        ElmoError: If there is no such file.
    """
    try:
        return [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in map(Path, names)]
    except OSError as error:
        raise ElmoError(f"{one_line(error)}: check the file.") from error


def _naming_reader(sentences: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield sentences; an error of the system is one of reading them, and not of writing them elsewhere."""
    try:
        yield from sentences
    except OSError as error:
        raise ElmoError(f"The text cannot be read ({one_line(error)}): check where it comes from.") from error


def _write_files(folder: Path, sentences: Iterable[list[str]]) -> dict[str, int]:
    """Write the files of a text, and return how many numbers each has."""
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in FILES}
        spellings = _Spellings(files["letters.bin"], files["spellings.bin"])
        count = total = 0
        files["sentences.bin"].write(_int64(0))
        for words in sentences:
            if words:
                files["words.bin"].write(array("I", map(spellings.__getitem__, words)))
                files["lengths.bin"].write(array("i", [len(words)]))
                total += len(words)
                files["sentences.bin"].write(_int64(total))
                count += 1
    return {
        "words.bin": total,
        "sentences.bin": count + 1,
        "lengths.bin": count,
        "letters.bin": spellings.end,
        "spellings.bin": spellings.count + 1,
    }


class _Spellings(dict[str, int]):
    """Numbers words from 0 in the order of their first use, and writes how they are spelled.

    It forgets all numbers when it has many, so that memory does not grow with the text. A word that occurs again then
    gets a second number, with the same spelling.

    Args:
        letters: The file of the letters.
        begins: The file of where each spelling begins.
    """

    def __init__(self, letters: BinaryIO, begins: BinaryIO) -> None:
        super().__init__()
        self.letters = letters
        self.begins = begins
        self.count = self.end = 0
        self.begins.write(_int64(0))

    def __missing__(self, word: str) -> int:
        if not isinstance(word, str):
            raise ElmoError(f"{word!r} is not a word: give words as strings.")
        if len(self) >= KEPT_SPELLINGS:
            self.clear()
        self.end += self.letters.write(word.encode("utf-8", "surrogatepass"))
        self.begins.write(_int64(self.end))
        self[word] = number = self.count
        self.count += 1
        return number


def _int64(number: int) -> bytes:
    return number.to_bytes(8, sys.byteorder)


__all__ = ["StoredSentences", "cached_sentences", "describe_files", "store_sentences"]
