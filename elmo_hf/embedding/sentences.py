"""What you may pass as a sentence, and the text and words that it stands for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple, TypeAlias

import numpy as np
from transformers import PreTrainedTokenizerBase

from elmo_hf.errors import ElmoError


# a key may have so many characters: files limit the names of arrays to 64 KB
LONGEST_KEY = 1000
# names that files of vectors cannot give to an array: safetensors' own, and HDF5's for the group itself
RESERVED_KEYS = {"__metadata__", "."}


class Sentence(NamedTuple):
    """A sentence whose words are known.

    Attributes:
        text: The sentence as it stands in your file; formats that name sentences name it by this text.
        words: Its words, which are embedded as they are.
        key: The name of its vectors in a file, such as the identifier of a protein; by default its number.
    """

    text: str
    words: list[str]
    key: str | None = None


# raw text, for the tokenizer to split; or words; or both
SentenceInput: TypeAlias = str | Sequence[str] | Sentence


def check_sentences(sentences: Iterable[SentenceInput]) -> Iterator[SentenceInput]:
    """Return an iterator over sentences that refuses what would be misread, such as a missing cell of a table.

    Args:
        sentences: The sentences, or a frame of pandas or polars, or a two-dimensional array, with one column of them.

    Raises:
        ElmoError: If `sentences` is one text, a mapping or several columns, or, when the iterator comes to it, a
            sentence is neither a text nor a list of words.
    """
    return map(_check_sentence, count(), read_column(sentences))


def read_column(sentences: Iterable[SentenceInput]) -> Iterable[SentenceInput]:
    """Return the only column of a table, and other sentences as they are.

    Args:
        sentences: As for `check_sentences`.

    Raises:
        ElmoError: If `sentences` is one text, a mapping or several columns.
    """
    if isinstance(sentences, str):
        raise ElmoError("The sentences are one text: put it in a list.")
    # iterating over a mapping or a frame would give the names of its columns
    if isinstance(sentences, Mapping):
        raise ElmoError(f"The sentences are a {type(sentences).__name__}: give the column of it that holds them.")
    shape: tuple[int, ...] = getattr(sentences, "shape", (0,))
    if len(shape) == 1:
        return sentences
    cells = np.asarray(sentences, dtype=object) if len(shape) == 2 and shape[1] == 1 else None
    # a one-column data set of `datasets` gives rows, [sentences]
    if cells is None or cells.shape != tuple(shape):
        raise ElmoError(
            f"The sentences are a {type(sentences).__name__} of shape {tuple(shape)}: "
            "give the column of it that holds them."
        )
    return list(cells[:, 0])


def _check_sentence(number: int, sentence: SentenceInput) -> SentenceInput:
    if isinstance(sentence, (str, Sentence)):
        return sentence
    listed = isinstance(sentence, (Sequence, np.ndarray)) and all(isinstance(word, str) for word in sentence)
    if not listed:
        raise ElmoError(f"Sentence {number} is {sentence!r:.80}: give a text or a list of words.")
    return sentence


def split_words(sentence: SentenceInput, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Return the words of a sentence; the tokenizer splits raw text."""
    if isinstance(sentence, Sentence):
        return sentence.words
    return tokenizer.tokenize(sentence) if isinstance(sentence, str) else list(sentence)


def read_sentence(sentence: SentenceInput, tokenizer: PreTrainedTokenizerBase) -> Sentence:
    """Return a sentence with its text and its words; the text of mere words is the words joined by spaces.

    Raises:
        ElmoError: If the text contains a surrogate, half of a character, as JSON can; or the key cannot be a name.
    """
    words, key = split_words(sentence, tokenizer), None
    if isinstance(sentence, Sentence):
        text, key = sentence.text, sentence.key
    else:
        text = sentence if isinstance(sentence, str) else " ".join(words)
    try:
        text.encode()
        "".join(words).encode()
    except UnicodeEncodeError as error:
        raise ElmoError(f"The sentence {text!r:.80} holds half of a character (a surrogate): correct it.") from error
    if key is not None and (not key.isprintable() or not 0 < len(key) <= LONGEST_KEY or key in RESERVED_KEYS):
        raise ElmoError(
            f"The key {key!r:.80} cannot be the name of an array: give one of 1 to {LONGEST_KEY:,} printable "
            f"characters, other than {' and '.join(sorted(RESERVED_KEYS))}."
        )
    return Sentence(text, words, key)


__all__ = ["Sentence", "SentenceInput", "check_sentences", "read_column", "read_sentence", "split_words"]
