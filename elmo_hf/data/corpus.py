"""From text files to sentences of words, and from sentences to the vocabulary of a language model."""

import bz2
import glob
import gzip
import lzma
import os
import random
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import TypeAlias, cast

from elmo_hf.errors import ElmoError
from elmo_hf.files import naming_errors, new_file
from elmo_hf.model.tokenization_elmo import SPECIAL_TOKENS


# a file, a folder, a pattern such as `news/*.gz`, or `-` for standard input
Source: TypeAlias = str | os.PathLike[str]

# how many bytes at the start tell what a file is
MAGIC_BYTES = 10

# the words that every vocabulary begins with
FIRST_WORDS = SPECIAL_TOKENS["bytes"]

# words that are no line of a vocabulary: bilm-tf's reader passes over the first, and the second is padding, which the
# tokenizer keeps apart from all words
SKIPPED_LINE = "!!!MAXTERMID"
NO_LINES = (SKIPPED_LINE, "<PAD>")
SURROGATE = re.compile("[\ud800-\udfff]")

# sentences that `Corpus` holds while it shuffles: some 100 MB
SHUFFLE_BUFFER = 100_000


def read_sentences(
    paths: Source | Iterable[Source], *, tokenize: Callable[[str], list[str]] = str.split
) -> Iterator[list[str]]:
    """Read the sentences of text files, one a line; lines without words are passed over.

    Args:
        paths: Files in UTF-8, as they are or compressed by gzip, bzip2 or xz; a folder stands for all files in it, and
            a pattern for those it matches, in sorted order; `-` is standard input.
        tokenize: What makes words of a line: by default they are apart by white space; for raw text, a tokenizer's
            `tokenize`.

    Returns:
        The words of each sentence in turn, never none.

    Raises:
        ElmoError: If there is no such file, before the first sentence; or a line cannot be read.
    """
    return (words for _, _, words in read_placed_sentences(paths, tokenize=tokenize))


def read_placed_sentences(
    paths: Source | Iterable[Source], *, tokenize: Callable[[str], list[str]] = str.split
) -> Iterator[tuple[str, int, list[str]]]:
    """Read sentences as `read_sentences` does, each with the name of its file and its line, counted from 1."""
    names = find_files(paths)
    return (
        (name, number, words)
        for name in names
        for number, line in enumerate(read_lines(name), start=1)
        if (words := tokenize(line))
    )


class Corpus:
    """The sentences of text files, to be read again for every epoch of a training.

    Args:
        paths: As for `read_sentences`, without standard input.
        tokenize: As for `read_sentences`.
        seed: Shuffle by it: the order of files, and in them sentences that are near each other. Seed and epoch
            determine the order; by default it is that of the files in every epoch.

    Raises:
        ElmoError: If there is no such file, or it is standard input.
    """

    def __init__(
        self,
        paths: Source | Iterable[Source],
        *,
        tokenize: Callable[[str], list[str]] = str.split,
        seed: int | None = None,
    ) -> None:
        self.names = find_files(paths)
        if "-" in self.names:
            raise ElmoError("Standard input can be read only once: save the text as a file.")
        self.tokenize = tokenize
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next reading."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[str]]:
        if self.seed is None:
            return read_sentences(self.names, tokenize=self.tokenize)
        choose = random.Random(f"{self.seed} {self.epoch}")
        names = choose.sample(self.names, len(self.names))
        return shuffle(read_sentences(names, tokenize=self.tokenize), choose)


def shuffle(
    sentences: Iterable[list[str]], choose: random.Random, *, size: int = SHUFFLE_BUFFER
) -> Iterator[list[str]]:
    """Shuffle a stream of sentences, of which `size` are held at a time."""
    held: list[list[str]] = []
    for words in sentences:
        if len(held) < size:
            held.append(words)
        else:
            place = choose.randrange(size)
            yield held[place]
            held[place] = words
    choose.shuffle(held)
    yield from held


def find_files(paths: Source | Iterable[Source]) -> list[str]:
    """List files by name: those of folders and patterns in sorted order, hidden ones left out.

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
            # Path.glob takes no absolute pattern
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
    """Read the lines of a UTF-8 file, compressed or not, or of standard input for `-`, without their ends.

    Raises:
        ElmoError: If it cannot be read; the message names the file and the line.
    """
    shown, number = "standard input" if name == "-" else name, 0
    try:
        with _open(name) as file:
            for number, raw in enumerate(file, start=1):
                # a mark at the very start is not text
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ElmoError(f"{shown}, line {number}: byte {byte:#04x} is not UTF-8: save the text as UTF-8.") from error
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise ElmoError(
            f"{shown}, line {number + 1}: the compressed data is damaged ({error}): get it again."
        ) from error
    except OSError as error:
        # bz2 has no exception of its own
        reason = error.strerror or f"the compressed data is damaged: {error}"
        where = f", line {number + 1}," if number else ""
        raise ElmoError(f"{shown}{where} cannot be read ({reason}): check the file.") from error


@contextmanager
def _open(name: str) -> Iterator[Iterable[bytes]]:
    """Open a file, or standard input, as lines of bytes; its first bytes tell how it is compressed."""
    if name == "-" and sys.stdin is None:
        raise ElmoError("Standard input is closed: give a file.")
    with ExitStack() as stack:
        file = sys.stdin.buffer if name == "-" else stack.enter_context(Path(name).open("rb"))
        head = cast(BufferedReader, file).peek(MAGIC_BYTES)[:MAGIC_BYTES]
        if head.startswith(b"\x1f\x8b"):
            unpacked = stack.enter_context(gzip.GzipFile(fileobj=file))
            # which reads lines many times faster than GzipFile itself
            yield BufferedReader(cast(RawIOBase, unpacked))
        elif re.match(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)", head):
            yield stack.enter_context(bz2.BZ2File(file))
        elif head.startswith(b"\xfd7zXZ\0"):
            yield stack.enter_context(lzma.LZMAFile(file))
        else:
            yield file


def count_words(sentences: Iterable[Sequence[str]]) -> Counter[str]:
    """Count how often each word occurs."""
    counts: Counter[str] = Counter()
    for words in sentences:
        counts.update(words)
    return counts


def most_frequent(counts: Mapping[str, int], *, min_count: int = 1, max_size: int | None = None) -> list[str]:
    """Make a vocabulary of counted words, as bilm-tf's sampled softmax needs it: in descending frequency.

    Args:
        counts: How often each word occurs.
        min_count: Leave out words that occur less often.
        max_size: Lines of the vocabulary at most; the most frequent words stay.

    Returns:
        `<S>`, `</S>`, `<UNK>`, then the words; of words that are equally frequent, the first by code points comes
        first. Words that cannot be a line of their own in a file are left out: with white space, or a lone surrogate,
        `!!!MAXTERMID`, over which bilm-tf reads, and `<PAD>`, which is the tokenizer's padding.

    Raises:
        ElmoError: If an option is out of range.
    """
    if min_count < 1:
        raise ElmoError(f"min_count is {min_count}: give 1 or more.")
    if max_size is not None and max_size < len(FIRST_WORDS):
        raise ElmoError(f"max_size is {max_size}: the {len(FIRST_WORDS)} special words need that many lines.")
    words = [
        word
        for word, count in counts.items()
        if count >= min_count and word not in FIRST_WORDS and is_line_of_vocabulary(word)
    ]
    words.sort(key=lambda word: (-counts[word], word))
    return [*FIRST_WORDS, *words][:max_size]


def build_vocabulary(
    sentences: Iterable[Sequence[str]], *, min_count: int = 1, max_size: int | None = None
) -> list[str]:
    """Make a vocabulary of sentences: `<S>`, `</S>`, `<UNK>`, then words in descending frequency.

    Args:
        sentences: The words of each.
        min_count: As for `most_frequent`, and so is `max_size`.
        max_size: See `min_count`.

    Raises:
        ElmoError: As `most_frequent`.
    """
    return most_frequent(count_words(sentences), min_count=min_count, max_size=max_size)


def coverage(counts: Mapping[str, int], words: Iterable[str]) -> float:
    """Compute the share of the counted words that a vocabulary has; `<UNK>` itself stands for none."""
    known = sum(counts.get(word, 0) for word in words if word != FIRST_WORDS[2])
    return known / max(1, sum(counts.values()))


def is_line_of_vocabulary(word: str) -> bool:
    """Tell whether a word can be a line of a vocabulary file, and is read from it as it is."""
    return word.split() == [word] and word not in NO_LINES and not SURROGATE.search(word)


def read_vocabulary(path: str | Path) -> list[str]:
    """Read a vocabulary file, a word a line, compressed or not; as in bilm-tf, a line `!!!MAXTERMID` is passed over.

    Returns:
        The words, for `ElmoTokenizer`.

    Raises:
        ElmoError: If it cannot be read, a line is no word, a word comes twice, or there are none.
    """
    # words in order, with their lines
    found: dict[str, int] = {}
    for number, word in enumerate(read_lines(str(path)), start=1):
        if word == SKIPPED_LINE:
            continue
        if not is_line_of_vocabulary(word):
            raise ElmoError(f"{path}, line {number}: {word!r:.80} is no word: give a vocabulary, one word a line.")
        first = found.setdefault(word, number)
        if first != number:
            raise ElmoError(f"{path}, line {number}: {word!r:.80} is on line {first} already: remove one of them.")
    if not found:
        raise ElmoError(f"{path} holds no words: give a vocabulary, one word a line.")
    return list(found)


def write_vocabulary(path: str | Path, words: Sequence[str]) -> None:
    """Write a vocabulary file, a word a line; the whole file appears, or none.

    Raises:
        ElmoError: If the file exists, cannot be written, or a word cannot be a line of it.
    """
    path = Path(path)
    wrong = next((word for word in words if not is_line_of_vocabulary(word)), None)
    if wrong is not None:
        raise ElmoError(f"{path}: the word {wrong!r} cannot be a line of a vocabulary: leave it out.")
    with new_file(path) as temporary, naming_errors(path):
        temporary.write_text("".join(f"{word}\n" for word in words), encoding="utf-8", newline="\n")


__all__ = [
    "Corpus",
    "Source",
    "build_vocabulary",
    "count_words",
    "coverage",
    "find_files",
    "is_line_of_vocabulary",
    "most_frequent",
    "read_lines",
    "read_placed_sentences",
    "read_sentences",
    "read_vocabulary",
    "shuffle",
    "write_vocabulary",
]
