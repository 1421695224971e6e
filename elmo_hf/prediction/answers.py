"""Answers to questions: the windows in which a long context is read, and the best spans of words in them.

Shape notation: `W` words of a window of the context.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


# words of the context that a model reads at once; longer contexts are read in windows that overlap by a third
MAX_CONTEXT_WORDS = 400
# as in the scripts for SQuAD
MAX_ANSWER_WORDS = 30
# stands for a probability of 0, which has no logarithm
SMALLEST = 1e-300


class Span(NamedTuple):
    """Words of a context that may be an answer.

    Attributes:
        first: The number of the first word in the context, counted from 0.
        last: The number of the last word.
        score: The probability that the answer begins with the one, times that it ends with the other.
    """

    first: int
    last: int
    score: float


def cut_windows(length: int, size: int | None = None) -> list[tuple[int, int]]:
    """Return the windows in which `length` words are read, each with its first word and the one behind its last."""
    size = size or MAX_CONTEXT_WORDS
    step = size - size // 3
    windows = [(0, min(size, length))]
    while windows[-1][1] < length:
        start = windows[-1][0] + step
        windows.append((start, min(start + size, length)))
    return windows


def span_chances(logits: np.ndarray, context: np.ndarray) -> np.ndarray:
    """Turn the scores of a row into probabilities, those that its loss has.

    Args:
        logits: `[T, 2]`, the scores of each word of the row as the first and as the last of the answer.
        context: `[T]`, true at the `W` words of the context.

    Returns:
        `[1 + W, 2]`: no answer, which stands where the row begins, and the words of the context.
    """
    exponentials = np.exp(logits.astype(np.float64) - logits.max(axis=0))
    chances = exponentials / exponentials.sum(axis=0)
    return np.concatenate([chances[:1], chances[context]])


def best_spans(
    chances: Sequence[np.ndarray],
    starts: Sequence[int],
    *,
    max_words: int = MAX_ANSWER_WORDS,
    top_k: int = 1,
) -> tuple[list[Span], float]:
    """Find the most probable answers in the windows of a context.

    Args:
        chances: For each window `[1 + W, 2]`, what `span_chances` returns.
        starts: For each window, the number of its first word in the context.
        max_words: The most words of an answer.
        top_k: The most answers to return.

    Returns:
        Different spans, the best first, each with its score in the window where it is highest. Then the probability
        that there is no answer in any window: the lowest of all windows.
    """
    found: dict[tuple[int, int], float] = {}
    for own, start in zip(chances, starts, strict=True):
        first, last = _allowed(len(own) - 1, max_words)
        values = own[1:, 0][first] * own[1:, 1][last]
        for best in np.argsort(-values, kind="stable")[:top_k]:
            span = (start + int(first[best]), start + int(last[best]))
            found[span] = max(found.get(span, 0.0), float(values[best]))
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:top_k]
    return [Span(*span, score) for span, score in ranked], min(float(own[0].prod()) for own in chances)


def null_odds(none: float, best: float) -> float:
    """Return how much more probable no answer is than the best one: the difference of their logarithms.

    Scripts for SQuAD 2 call it the null odds: the answer is none where it is above a threshold, 0 unless another one
    was chosen on a development set.

    Args:
        none: The probability that there is no answer.
        best: The probability of the best span.
    """
    if math.isnan(none) or math.isnan(best):
        # of a training that has diverged: nothing was found
        none, best = 1.0, 0.0
    return math.log(max(none, SMALLEST)) - math.log(max(best, SMALLEST))


def _allowed(length: int, max_words: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last word of each span of at most `max_words` of `length` words."""
    not_before = np.tri(length, dtype=bool).T
    first, last = np.nonzero(not_before & np.tri(length, k=max_words - 1, dtype=bool))
    return first, last


__all__ = ["MAX_ANSWER_WORDS", "MAX_CONTEXT_WORDS", "Span", "best_spans", "cut_windows", "null_odds", "span_chances"]
