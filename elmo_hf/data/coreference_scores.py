"""How well found clusters of mentions match the marked ones, counted as the reference scorer of CoNLL-2012 does.

Mentions match if they are the same words. The counts of all documents are added up before they are divided.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from elmo_hf.errors import ElmoError


# a mention is whatever tells it from the others, such as its first and last word
Clusters: TypeAlias = Sequence[Iterable[Hashable]]
Sets: TypeAlias = list[frozenset[Hashable]]

# the mean of these is the score of CoNLL-2012
CONLL_METRICS = ("muc", "b_cubed", "ceaf_e")


class Counts(NamedTuple):
    """What a metric has counted.

    Attributes:
        recalled: What is right, as a part of `wanted`.
        wanted: What the marked clusters have.
        precise: What is right, as a part of `found`.
        found: What the found clusters have.
    """

    recalled: float = 0.0
    wanted: float = 0.0
    precise: float = 0.0
    found: float = 0.0


def score_clusters(documents: Iterable[tuple[Clusters, Clusters]]) -> dict[str, float]:
    """Score found clusters by MUC, B-cubed and CEAF-phi4, and their mean; between 0 and 1.

    Args:
        documents: For each document the marked clusters and the found ones. A cluster of one mention counts if it is
            there: leave those out of both to score as OntoNotes, which marks none.

    Returns:
        `conll`, the mean of the three F1; for each of `muc`, `b_cubed` and `ceaf_e` its `_precision`, `_recall` and
        `_f1`; and in the same way for `mentions`, which are right if they are in any cluster of both.

    Raises:
        ElmoError: If scipy is not installed.
    """
    metrics = {"muc": count_muc, "b_cubed": count_b_cubed, "ceaf_e": count_ceaf_e, "mentions": count_mentions}
    totals = dict.fromkeys(metrics, Counts())
    for wanted, found in documents:
        sets = _as_sets(wanted), _as_sets(found)
        for name, count in metrics.items():
            totals[name] = Counts(*map(sum, zip(totals[name], count(*sets), strict=True)))
    scores: dict[str, float] = {}
    for name, counts in totals.items():
        precision, recall = _ratio(counts.precise, counts.found), _ratio(counts.recalled, counts.wanted)
        scores[f"{name}_precision"], scores[f"{name}_recall"] = precision, recall
        scores[f"{name}_f1"] = _ratio(2 * precision * recall, precision + recall)
    return {"conll": sum(scores[f"{name}_f1"] for name in CONLL_METRICS) / len(CONLL_METRICS), **scores}


def _as_sets(clusters: Clusters) -> Sets:
    return [part for part in map(frozenset, clusters) if part]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _both_ways(part_of: Callable[[Sets, Sets], tuple[float, float]], wanted: Sets, found: Sets) -> Counts:
    """Count recall, and precision, which is the recall of what is wanted in what is found."""
    return Counts(*part_of(wanted, found), *part_of(found, wanted))


def count_muc(wanted: Sets, found: Sets) -> Counts:
    """Count links (Vilain et al. 1995): a cluster that the other side has in so many parts lacks one less."""

    def part_of(own: Sets, other: Sets) -> tuple[float, float]:
        number_of = {mention: number for number, part in enumerate(other) for mention in part}
        # a mention that the other side lacks is a part of its own
        parts = [len({number_of.get(mention, (mention,)) for mention in cluster}) for cluster in own]
        return sum(map(len, own)) - sum(parts), sum(map(len, own)) - len(own)

    return _both_ways(part_of, wanted, found)


def count_b_cubed(wanted: Sets, found: Sets) -> Counts:
    """Count for each mention the part of its cluster that is with it on the other side (Bagga and Baldwin 1998)."""

    def part_of(own: Sets, other: Sets) -> tuple[float, float]:
        number_of = {mention: number for number, part in enumerate(other) for mention in part}
        right = 0.0
        for cluster in own:
            shared = Counter(number_of[mention] for mention in cluster if mention in number_of)
            right += sum(count * count for count in shared.values()) / len(cluster)
        return right, sum(map(len, own))

    return _both_ways(part_of, wanted, found)


def count_ceaf_e(wanted: Sets, found: Sets) -> Counts:
    """Align clusters one to one so that they are most alike (Luo 2005, with the similarity phi 4).

    Raises:
        ElmoError: If scipy is not installed.
    """
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError as error:
        raise ElmoError('Scoring coreference needs scipy: pip install "elmo_hf[finetune]"') from error
    likeness = np.zeros((len(wanted), len(found)))
    number_of = {mention: number for number, part in enumerate(found) for mention in part}
    for row, cluster in enumerate(wanted):
        for column, shared in Counter(number_of[mention] for mention in cluster if mention in number_of).items():
            likeness[row, column] = 2 * shared / (len(cluster) + len(found[column]))
    best = float(likeness[linear_sum_assignment(-likeness)].sum())
    return Counts(best, len(wanted), best, len(found))


def count_mentions(wanted: Sets, found: Sets) -> Counts:
    """Count the mentions that are in a cluster of both sides."""
    ours, theirs = frozenset[Hashable]().union(*wanted), frozenset[Hashable]().union(*found)
    shared = len(ours & theirs)
    return Counts(shared, len(ours), shared, len(theirs))


__all__ = ["CONLL_METRICS", "Counts", "score_clusters"]
