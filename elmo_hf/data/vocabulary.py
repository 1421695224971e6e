"""The vocabulary of a language model: the most frequent words of a text, and the file that holds them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from elmo_hf.errors import ElmoError
from elmo_hf.files import naming_errors, new_file
from elmo_hf.model.tokenization_elmo import SPECIAL_TOKENS

from .corpus import read_lines


# the words that every vocabulary begins with
FIRST_WORDS = SPECIAL_TOKENS["bytes"]

# Two words cannot be in a vocabulary: bilm-tf skips the first when it reads the file, and the second is padding, which
# the tokenizer keeps apart from all words.
SKIPPED_LINE = "!!!MAXTERMID"
EXCLUDED_WORDS = (SKIPPED_LINE, "<PAD>")
SURROGATE = re.compile("[\ud800-\udfff]")


def count_words(sentences: Iterable[Sequence[str]]) -> Counter[str]:
    """Return how often each word occurs.

    Args:
        sentences: The words of each sentence.
    """
    counts: Counter[str] = Counter()
    for words in sentences:
        counts.update(words)
    return counts


def most_frequent(counts: Mapping[str, int], *, min_count: int = 1, max_size: int | None = None) -> list[str]:
    """Return the vocabulary of counted words, in descending frequency as bilm-tf's sampled softmax needs it.

    Args:
        counts: How often each word occurs.
        min_count: Leave out the words that occur less often.
        max_size: The most lines of the vocabulary; it keeps the most frequent words.

    Returns:
        `<S>`, `</S>`, `<UNK>`, then the words; equally frequent words are in the order of their code points. Words
        that cannot be a line of a vocabulary file are left out: those with white space or a surrogate, `!!!MAXTERMID`,
        which bilm-tf skips, and `<PAD>`, which is the tokenizer's padding.

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
    """Return the vocabulary of a text: `<S>`, `</S>`, `<UNK>`, then the words in descending frequency.

    Args:
        sentences: The words of each sentence.
        min_count: Leave out the words that occur less often.
        max_size: The most lines of the vocabulary; it keeps the most frequent words.

    Raises:
        ElmoError: If an option is out of range.
    """
    return most_frequent(count_words(sentences), min_count=min_count, max_size=max_size)


def coverage(counts: Mapping[str, int], words: Iterable[str]) -> float:
    """Return the fraction of a text that is in a vocabulary; `<UNK>` itself covers nothing.

    Args:
        counts: How often each word occurs in the text.
        words: The vocabulary.
    """
    known = sum(counts.get(word, 0) for word in words if word != FIRST_WORDS[2])
    return known / max(1, sum(counts.values()))


def is_line_of_vocabulary(word: str) -> bool:
    """Tell whether a word can be written as a line of a vocabulary file, and is read from it unchanged."""
    return word.split() == [word] and word not in EXCLUDED_WORDS and not SURROGATE.search(word)


def read_vocabulary(path: str | Path) -> list[str]:
    """Read a vocabulary file, which has one word on each line; as in bilm-tf, a line `!!!MAXTERMID` is skipped.

    Args:
        path: A file in UTF-8, plain or compressed.

    Returns:
        The words, for `ElmoTokenizer`.

    Raises:
        ElmoError: If the file cannot be read, a line is not a word, a word occurs twice, or there are none.
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
    """Write a vocabulary file, one word on each line; the file appears when it is whole.

    Args:
        path: The new file.
        words: The words.

    Raises:
        ElmoError: If the file exists or cannot be written, or a word cannot be a line of it.
    """
    path = Path(path)
    wrong = next((word for word in words if not is_line_of_vocabulary(word)), None)
    if wrong is not None:
        raise ElmoError(f"{path}: the word {wrong!r} cannot be a line of a vocabulary: leave it out.")
    with new_file(path) as temporary, naming_errors(path):
        temporary.write_text("".join(f"{word}\n" for word in words), encoding="utf-8", newline="\n")


__all__ = [
    "build_vocabulary",
    "count_words",
    "coverage",
    "is_line_of_vocabulary",
    "most_frequent",
    "read_vocabulary",
    "write_vocabulary",
]
