"""Split paragraphs of text into sentences, by the library sentencex."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from elmo_hf.errors import ElmoError


class SentenceSplitter:
    """Splits text of a language into sentences.

    A language without rules of its own is split by those of a related language, or of English.

    Args:
        language: Its code in ISO 639, such as `en` or `es`.
        wrapped: Whether paragraphs are broken into short lines, as in Project Gutenberg's books, so that a paragraph
            ends at an empty line. By default, each line is a paragraph.

    Raises:
        ElmoError: If `language` is no code, or sentencex is not installed.
    """

    def __init__(self, language: str, *, wrapped: bool = False) -> None:
        if not re.fullmatch("[a-z]{2,3}", language):
            raise ElmoError(f"{language!r:.80} is no code of a language: give one of ISO 639, such as en or es.")
        try:
            import sentencex
        except ImportError as error:
            raise ElmoError('Splitting into sentences needs sentencex: pip install "elmo_hf[sentences]"') from error
        self._segment = sentencex.segment
        self.language = language
        self.wrapped = wrapped

    def split(self, text: str) -> list[str]:
        """Return the sentences of a paragraph, without white space around them."""
        return [sentence for part in self._segment(self.language, text) if (sentence := part.strip())]

    def read(self, lines: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Split the lines of a file.

        Args:
            lines: The lines.

        Yields:
            Each sentence, after the number of the line on which its paragraph begins, counted from 1.
        """
        paragraphs = _join_wrapped(lines) if self.wrapped else enumerate(lines, start=1)
        for number, text in paragraphs:
            for sentence in self.split(text):
                yield number, sentence


def _join_wrapped(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Join the lines of each paragraph, which ends at an empty line; number it by its first line."""
    for has_text, group in groupby(enumerate(lines, start=1), key=lambda line: bool(line[1].strip())):
        if has_text:
            numbers, texts = zip(*group, strict=True)
            yield numbers[0], " ".join(text.strip() for text in texts)


__all__ = ["SentenceSplitter"]
