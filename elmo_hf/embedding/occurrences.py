"""A word in its sentence, and the search for it."""

from collections.abc import Sequence
from typing import NamedTuple

from elmo_hf.errors import ElmoError, counted


class Occurrence(NamedTuple):
    """A word in its sentence.

    Attributes:
        words: The words of the sentence.
        position: The position of the word among them, counted from 0.
    """

    words: Sequence[str]
    position: int

    @property
    def word(self) -> str:
        """The word, as it is spelled in the sentence."""
        return self.words[self.position]

    def marked(self) -> str:
        """Return the sentence with the word in brackets."""
        before, after = self.words[: self.position], self.words[self.position + 1 :]
        return " ".join([*before, f"[{self.word}]", *after])


def check_position(words: Sequence[str], position: int) -> None:
    """Check that a sentence has a position.

    Raises:
        ElmoError: If it does not, or the position is negative.
    """
    if not 0 <= position < len(words):
        raise ElmoError(
            f"The position {position} is none of a sentence of {counted(len(words), 'word')}: count from 0."
        )


def find_word(words: Sequence[str], word: str, number: int | None = None) -> Occurrence:
    """Find a word in a sentence, in upper or lower case.

    Args:
        words: The words of the sentence.
        word: The word to look for.
        number: Which of its occurrences to return, counted from 1. You must choose where there are several.

    Raises:
        ElmoError: If the sentence does not have the word, or not as often; or if it has the word several times and
            `number` does not say which one you mean.
    """
    wanted = word.casefold()
    positions = [position for position, other in enumerate(words) if other.casefold() == wanted]
    if not positions:
        raise ElmoError(f"The sentence {' '.join(words)!r:.200} has no word {word!r}: give one of its words.")
    if number is None and len(positions) > 1:
        raise ElmoError(
            f"The sentence has the word {word!r} {len(positions)} times: choose an occurrence from 1 to "
            f"{len(positions)}."
        )
    if number is not None and not 1 <= number <= len(positions):
        raise ElmoError(f"The sentence has no occurrence {number} of {word!r}: choose one from 1 to {len(positions)}.")
    return Occurrence(words, positions[(number or 1) - 1])


__all__ = ["Occurrence", "check_position", "find_word"]
