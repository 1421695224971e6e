"""`prediction.answers`: windows that cover a context, and the best spans against a loop over all of them."""

import math
from itertools import pairwise

import numpy as np
import pytest

from elmo_hf.prediction.answers import best_spans, cut_windows, null_odds, span_chances


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 400])
@pytest.mark.parametrize("length", [0, 1, 3, 4, 8, 9, 20, 401])
def test_windows_cover_all_words_and_overlap_by_a_third(length: int, size: int) -> None:
    windows = cut_windows(length, size)

    assert windows[0][0] == 0
    assert windows[-1][1] == length
    assert all(end - start <= size for start, end in windows)
    for (start, end), (following, _) in pairwise(windows):
        assert end - start == size
        assert end - following == size // 3
    assert len(windows) == 1 or length > size


def random_chances(generator: np.random.Generator, words: int) -> np.ndarray:
    chances = generator.random(size=(1 + words, 2))
    return chances / chances.sum(axis=0)


@pytest.mark.parametrize("max_words", [1, 3, 100])
@pytest.mark.parametrize("top_k", [1, 5, 1000])
def test_the_best_spans_of_overlapping_windows(max_words: int, top_k: int) -> None:
    generator = np.random.default_rng(0)
    windows = cut_windows(9, 6)
    chances = [random_chances(generator, end - start) for start, end in windows]
    scores: dict[tuple[int, int], float] = {}
    for (start, end), own in zip(windows, chances, strict=True):
        for first in range(start, end):
            for last in range(first, min(end, first + max_words)):
                score = own[1 + first - start, 0] * own[1 + last - start, 1]
                scores[first, last] = max(score, scores.get((first, last), 0))
    expected = sorted(scores, key=lambda span: -scores[span])[:top_k]

    spans, none = best_spans(chances, [start for start, _ in windows], max_words=max_words, top_k=top_k)

    assert [(first, last) for first, last, _ in spans] == expected
    assert [span.score for span in spans] == pytest.approx([scores[span] for span in expected])
    assert none == pytest.approx(min(own[0, 0] * own[0, 1] for own in chances))


@pytest.mark.parametrize(
    ("starts", "ends", "expected"),
    [
        # the best first word stands behind the best last word
        ([0.1, 0.2, 0.6], [0.1, 0.7, 0.1], (1, 1, 0.14)),
        ([0.5, 0.2, 0.1], [0.1, 0.1, 0.7], (0, 2, 0.35)),
    ],
)
def test_an_answer_begins_before_it_ends(
    starts: list[float], ends: list[float], expected: tuple[int, int, float]
) -> None:
    (best,), none = best_spans([np.array([[0.1, 0.1], *zip(starts, ends, strict=True)])], [0])

    assert best == pytest.approx(expected)
    assert none == pytest.approx(0.01)


def test_probabilities_are_of_all_words_that_have_a_score() -> None:
    lowest = np.finfo(np.float32).min
    # a question of two words, of which one has a score, and a context of two
    logits = np.array([[0, 1e4], [lowest, lowest], [1, 0], [2, 1e4], [lowest, 0]], dtype=np.float32)
    context = np.array([False, False, False, True, True])

    chances = span_chances(logits, context)

    total = np.exp([0, 1, 2]).sum()
    np.testing.assert_allclose(chances, [[1 / total, 0.5], [np.exp(2) / total, 0.5], [0, 0]], rtol=1e-6)


def test_a_window_without_words_has_no_span() -> None:
    assert best_spans([np.array([[0.5, 0.5]])], [0]) == ([], 0.25)


@pytest.mark.parametrize(
    ("none", "best", "expected"), [(0.5, 0.25, math.log(2)), (0.1, 0.1, 0), (0, 0, 0), (1, 0, 690.8), (0, 1, -690.8)]
)
def test_null_odds_are_numbers_for_all_probabilities(none: float, best: float, expected: float) -> None:
    assert null_odds(none, best) == pytest.approx(expected, abs=0.1 if abs(expected) > 1 else 1e-12)


@pytest.mark.parametrize(("none", "best"), [(math.nan, 0.5), (0.5, math.nan)])
def test_where_training_has_diverged_nothing_is_found(none: float, best: float) -> None:
    assert null_odds(none, best) == null_odds(1, 0)
