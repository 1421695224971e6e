"""`data.coreference_scores`: the published cases of the reference scorer, whose figures are counted by hand.

The cases are those of Pradhan et al. 2014 and Luo et al. 2014, and examples of Vilain et al. 1995. A letter is a
mention; letters that stand together are a cluster.
"""

import sys

import pytest

from elmo_hf import ElmoError
from elmo_hf.data.coreference_scores import score_clusters


KEY = "a bc def"


def f1(recall: float, precision: float) -> float:
    return 2 * recall * precision / (recall + precision) if recall + precision else 0.0


def score(wanted: str, found: str) -> dict[str, float]:
    return score_clusters([(wanted.split(), found.split())])


# recall and precision of MUC, B-cubed and CEAF-phi4
@pytest.mark.parametrize(
    ("found", "muc", "b_cubed", "ceaf_e"),
    [
        pytest.param("a bc def", (1, 1), (1, 1), (1, 1), id="TC-A-1"),
        pytest.param("a de", (1 / 3, 1), (7 / 18, 1), (0.6, 0.9), id="TC-A-2"),
        pytest.param("a bcx defy z", (1, 3 / 5), (1, (4 + 7 / 12) / 9), (0.8857142857, 0.6642857143), id="TC-A-3"),
        pytest.param("a bcx dy z", (1 / 3, 1 / 3), (5 / 9, 17 / 42), (11 / 15, 0.55), id="TC-A-4"),
        pytest.param("a b c d e f", (0, 0), (1 / 2, 1), (13 / 18, 13 / 36), id="TC-A-10"),
        pytest.param("abcdef", (1, 3 / 5), (1, 7 / 18), (2 / 9, 2 / 3), id="TC-A-11"),
        pytest.param("a x y c d e z", (0, 0), (13 / 36, 4 / 7), (13 / 18, 13 / 42), id="TC-A-12"),
        pytest.param("axycdez", (1 / 3, 1 / 6), (17 / 36, 6 / 49), (2 / 15, 2 / 5), id="TC-A-13"),
        pytest.param("", (0, 0), (0, 0), (0, 0), id="nothing found"),
    ],
)
def test_cases_of_the_reference_scorer(
    found: str, muc: tuple[float, float], b_cubed: tuple[float, float], ceaf_e: tuple[float, float]
) -> None:
    scores = score(KEY, found)

    for name, expected in (("muc", muc), ("b_cubed", b_cubed), ("ceaf_e", ceaf_e)):
        assert (scores[f"{name}_recall"], scores[f"{name}_precision"]) == pytest.approx(expected), name
        assert scores[f"{name}_f1"] == pytest.approx(f1(*expected)), name
    assert scores["conll"] == pytest.approx((f1(*muc) + f1(*b_cubed) + f1(*ceaf_e)) / 3)


@pytest.mark.parametrize(
    ("wanted", "found", "muc"),
    [
        pytest.param("abcde fg hijkl", "abcde fghijkl", (1, 9 / 10), id="TC-D-1"),
        pytest.param("abcde fg hijkl", "abcdehijkl fg", (1, 9 / 10), id="TC-E-1"),
        pytest.param("abcd", "ab cd", (2 / 3, 1), id="TC-F-1"),
        pytest.param("ab cd", "abcd", (1, 2 / 3), id="TC-G-1"),
        pytest.param("abc defg", "ab cd fgh", (2 / 5, 2 / 4), id="TC-L-1"),
    ],
)
def test_links(wanted: str, found: str, muc: tuple[float, float]) -> None:
    scores = score(wanted, found)

    assert (scores["muc_recall"], scores["muc_precision"]) == pytest.approx(muc)


def test_b_cubed_knows_which_clusters_are_joined() -> None:
    assert score("abcde fg hijkl", "abcde fghijkl")["b_cubed_precision"] == pytest.approx(16 / 21)
    assert score("abcde fg hijkl", "abcdehijkl fg")["b_cubed_precision"] == pytest.approx(7 / 12)


def test_clusters_are_aligned_so_that_the_sum_is_best() -> None:
    # the likest pair, abc with abcd, would leave 6/7; the best sum is 2/4 + 2/3
    scores = score("abc d", "abcd ab")

    assert scores["ceaf_e_recall"] == pytest.approx((4 / 5 + 2 / 5) / 2)


def test_mentions_count_wherever_they_are() -> None:
    scores = score("ab cd", "ac bxy")

    assert (scores["mentions_recall"], scores["mentions_precision"]) == pytest.approx((3 / 4, 3 / 5))


def test_counts_of_documents_are_added_before_they_are_divided() -> None:
    # links: 1 of 1 and 1 of 3, not their mean; the same mention in another document is another one
    scores = score_clusters([(["ab"], ["ab"]), (["abcd"], ["ab"])])

    assert scores["muc_recall"] == pytest.approx(2 / 4)
    assert scores["muc_precision"] == 1


def test_no_documents_score_nothing() -> None:
    assert set(score_clusters([]).values()) == {0.0}


def test_scipy_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)

    with pytest.raises(ElmoError, match="needs scipy: pip install"):
        score("ab", "ab")
