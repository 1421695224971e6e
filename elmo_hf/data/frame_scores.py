"""How well found semantic roles match the marked ones, counted as srl-eval.pl of CoNLL-2005 does.

An argument is right if its role and all of its words are. The predicate's own words, `V`, do not count. A part `C-X`
continues the last argument `X` before it, and both are one argument; without one, it is an argument `X` of its own. A
reference, `R-X`, is an argument as others are.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .frames import PREDICATE_ROLE
from .tagged import find_spans


CONTINUATION = "C-"


class Argument(NamedTuple):
    """An argument of a predicate.

    Attributes:
        role: Its role, such as `ARG0`, without `C-`.
        parts: Where each of its parts begins and ends, the number of the word after its last one.
    """

    role: str
    parts: tuple[tuple[int, int], ...]


class RoleCounts(NamedTuple):
    """What was counted of a role, or of all.

    Attributes:
        correct: Arguments that were found and are marked.
        excess: Arguments that were found and are not marked.
        missed: Arguments that are marked and were not found.
    """

    correct: int = 0
    excess: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        """The share of what was found that is right; 0 if nothing was found."""
        return self.correct / max(1, self.correct + self.excess)

    @property
    def recall(self) -> float:
        """The share of what is marked that was found; 0 if nothing is marked."""
        return self.correct / max(1, self.correct + self.missed)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.correct / max(1, 2 * self.correct + self.excess + self.missed)


def find_arguments(tags: Sequence[str]) -> list[Argument]:
    """Return the arguments that BIO tags mark, without the predicate's own words, in the order of their first words.

    Args:
        tags: The tag of each word.
    """
    arguments: list[Argument] = []
    # the last argument of each role
    latest: dict[str, int] = {}
    for label, start, end in find_spans(tags):
        role = label.removeprefix(CONTINUATION)
        if role != label and role in latest:
            number = latest[role]
            arguments[number] = Argument(role, (*arguments[number].parts, (start, end)))
        else:
            latest[role] = len(arguments)
            arguments.append(Argument(role, ((start, end),)))
    return [argument for argument in arguments if argument.role != PREDICATE_ROLE]


def count_roles(frames: Iterable[tuple[Sequence[str], Sequence[str]]]) -> dict[str, RoleCounts]:
    """Count the arguments of frames by their roles.

    Args:
        frames: For each frame the marked tags and the found ones, each a tag for every word.

    Returns:
        The counts of each role, in alphabetical order.
    """
    correct, excess, missed = Counter[str](), Counter[str](), Counter[str]()
    for wanted_tags, found_tags in frames:
        wanted, found = set(find_arguments(wanted_tags)), set(find_arguments(found_tags))
        correct.update(argument.role for argument in wanted & found)
        excess.update(argument.role for argument in found - wanted)
        missed.update(argument.role for argument in wanted - found)
    roles = sorted({*correct, *excess, *missed})
    return {role: RoleCounts(correct[role], excess[role], missed[role]) for role in roles}


def add_up(counts: Iterable[RoleCounts]) -> RoleCounts:
    """Return the counts of all roles together."""
    return RoleCounts(*map(sum, zip(RoleCounts(), *counts, strict=True)))


def score_roles(frames: Iterable[tuple[Sequence[str], Sequence[str]]]) -> dict[str, float]:
    """Score frames by precision, recall and F1, between 0 and 1.

    Args:
        frames: As of `count_roles`.

    Returns:
        `f1`, `precision` and `recall` of all arguments, and the F1 of each role, such as `ARG0_f1`.
    """
    counts = count_roles(frames)
    total = add_up(counts.values())
    scores = {"f1": total.f1, "precision": total.precision, "recall": total.recall}
    return scores | {f"{role}_f1": part.f1 for role, part in counts.items()}


def roles_report(frames: Iterable[tuple[Sequence[str], Sequence[str]]]) -> str:
    """Return a table of the counts and scores of all roles, in the columns of srl-eval.pl, scores between 0 and 1.

    Args:
        frames: As of `count_roles`.
    """
    counts = count_roles(frames)
    rows = {"all": add_up(counts.values()), **counts}
    lines = [f"{'':12}{'correct':>8}{'excess':>8}{'missed':>8}{'precision':>11}{'recall':>8}{'F1':>8}"]
    for role, part in rows.items():
        figures = f"{part.precision:11.4f}{part.recall:8.4f}{part.f1:8.4f}"
        lines.append(f"{role:12}{part.correct:8}{part.excess:8}{part.missed:8}{figures}")
    return "\n".join(lines) + "\n"


__all__ = ["Argument", "RoleCounts", "add_up", "count_roles", "find_arguments", "roles_report", "score_roles"]
