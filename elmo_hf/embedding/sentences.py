"""What you may pass as a sentence, and the text and words that it stands for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple, TypeAlias

import numpy as np
from transformers import PreTrainedTokenizerBase

from elmo_hf.errors import ElmoError


class Sentence(NamedTuple):
    """A sentence whose words are known.

    Attributes:
        text: The sentence as it stands in your file; formats that name sentences name it by this text.
        words: Its words, which are embedded as they are.
    """

    text: str
    words: list[str]


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
    """Return the text and the words of a sentence; the text of mere words is the words joined by spaces.

    Raises:
        ElmoError: If the text contains a surrogate, half of a character, as JSON can.
    """
    words = split_words(sentence, tokenizer)
    if isinstance(sentence, Sentence):
        text = sentence.text
    else:
        text = sentence if isinstance(sentence, str) else " ".join(words)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ElmoError(f"The sentence {text!r:.80} holds half of a character (a surrogate): correct it.") from error
    return Sentence(text, words)


__all__ = ["Sentence", "SentenceInput", "check_sentences", "read_column", "read_sentence", "split_words"]
