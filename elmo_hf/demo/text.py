"""The text that a visitor gives: its bounds, and the words of each of its sentences."""

import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from elmo_hf.errors import ElmoError, counted


# the words of each sentence, as a key of what was computed from them
Sentences: TypeAlias = tuple[tuple[str, ...], ...]

# the largest release reads so many words in some 15 seconds on one busy core
MOST_WORDS_OF_TEXT = 4_000
MOST_CHARACTERS, MOST_SENTENCES, MOST_WORDS = 20_000, 200, 100
# a character has at most four bytes in UTF-8
MOST_BYTES = 4 * MOST_CHARACTERS


def split_text(text: str, split: Callable[[str], Sequence[str]]) -> Sentences:
    """Split a text with one sentence a line into the words of each sentence.

    Args:
        text: The text. Lines without words are left out.
        split: Splits a sentence into words.

    Raises:
        ElmoError: If there are no words, or more than a page computes for a visitor.
    """
    if len(text) > MOST_CHARACTERS:
        raise ElmoError(f"The text has {len(text):,} characters: give at most {MOST_CHARACTERS:,}.")
    if not text.isascii() and any(unicodedata.category(letter) == "Cs" for letter in text):
        raise ElmoError("The text holds half of a character (a surrogate): correct it.")
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > MOST_SENTENCES:
        raise ElmoError(f"The text has {len(lines):,} sentences: give at most {MOST_SENTENCES:,}, one a line.")
    sentences = tuple(words for line in lines if (words := tuple(split(line))))
    if not sentences:
        raise ElmoError("The text has no words: write one sentence a line.")
    for number, words in enumerate(sentences, start=1):
        if len(words) > MOST_WORDS:
            raise ElmoError(
                f"Sentence {number} has {counted(len(words), 'word')}: give at most {MOST_WORDS}, one sentence a line."
            )
    total = sum(map(len, sentences))
    if total > MOST_WORDS_OF_TEXT:
        raise ElmoError(f"The text has {total:,} words: give at most {MOST_WORDS_OF_TEXT:,}.")
    return sentences


def read_file(path: str | Path) -> str:
    """Read a text file that a visitor loads.

    Raises:
        ElmoError: If it is too large, or no UTF-8 text.
    """
    path = Path(path)
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ElmoError(f"{path.name} is too large: give at most {MOST_CHARACTERS:,} characters.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ElmoError(f"{path.name} is not UTF-8 text: save it as UTF-8, uncompressed.") from error


__all__ = ["MOST_BYTES", "MOST_CHARACTERS", "MOST_SENTENCES", "MOST_WORDS", "Sentences", "read_file", "split_text"]
