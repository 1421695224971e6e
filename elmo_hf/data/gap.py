"""GAP, pronouns and the names that they may stand for (Webster et al. 2018): its files, and how its scorer counts."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from elmo_hf.errors import ElmoError

from .corpus import Source, read_lines


COLUMNS = (
    "ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref",
)  # fmt: skip
TRUTH = {"TRUE": True, "FALSE": False}

GENDERS = {
    "masculine": {"he", "him", "his"},
    "feminine": {"she", "her", "hers"},
}


class Name(NamedTuple):
    """A name that a pronoun may stand for.

    Attributes:
        text: The name.
        start: Where it begins in the text, counted in characters.
        is_meant: Whether the pronoun stands for it.
    """

    text: str
    start: int
    is_meant: bool


class Pronoun(NamedTuple):
    """An example of GAP.

    Attributes:
        key: Its name.
        text: The text.
        pronoun: The pronoun.
        start: Where it begins in the text, counted in characters.
        names: Two names, A and B.
    """

    key: str
    text: str
    pronoun: str
    start: int
    names: tuple[Name, Name]

    @property
    def gender(self) -> str:
        """`masculine` or `feminine`."""
        return next(gender for gender, pronouns in GENDERS.items() if self.pronoun.lower() in pronouns)


def read_gap(path: Source) -> list[Pronoun]:
    """Read a file of GAP, tab-separated columns with a header.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.

    Raises:
        ElmoError: If the file cannot be read, lacks a column, or a row does not fit its text.
    """
    examples: dict[str, Pronoun] = {}
    for number, row in _read_rows(path):
        try:
            example = _example_of(row)
            if example.key in examples:
                raise ElmoError(f"the ID {example.key!r:.80} is there twice")
            examples[example.key] = example
        except (ElmoError, KeyError, ValueError) as error:
            reason = error if isinstance(error, ElmoError) else f"a column is not what GAP has there ({error})"
            raise ElmoError(f"{path}, line {number}: {reason}: get the file again.") from error
    if not examples:
        raise ElmoError(f"{path} holds no pronouns: give a file of GAP.")
    return list(examples.values())


def _read_rows(path: Source) -> Iterator[tuple[int, dict[str, str]]]:
    rows = csv.reader(read_lines(str(path)), delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        header = next(rows, [])
        missing = [name for name in COLUMNS if name not in header]
        if missing:
            raise ElmoError(f"{path} lacks the column {missing[0]}: give a file of GAP, with its header.")
        for number, row in enumerate(rows, start=2):
            if row:
                yield number, dict(zip(header, row, strict=False))
    except csv.Error as error:
        raise ElmoError(
            f"{path}, line {rows.line_num}: this is no row of GAP ({error}): get the file again."
        ) from error


def _example_of(row: Mapping[str, str]) -> Pronoun:
    text = row["Text"]
    names = [Name(row[name], int(row[f"{name}-offset"]), TRUTH[row[f"{name}-coref"].upper()]) for name in "AB"]
    example = Pronoun(row["ID"], text, row["Pronoun"], int(row["Pronoun-offset"]), (names[0], names[1]))
    for part, start in [(example.pronoun, example.start), *((name.text, name.start) for name in names)]:
        # a number below 0 would count from the end
        if not part or start < 0 or not text.startswith(part, start):
            raise ElmoError(f"{part!r:.80} is not in the text at {start}")
    if not any(example.pronoun.lower() in pronouns for pronouns in GENDERS.values()):
        raise ElmoError(f"{example.pronoun!r:.80} is no pronoun of GAP")
    return example


def score_gap(examples: Sequence[Pronoun], found: Mapping[str, tuple[bool, bool]]) -> dict[str, float]:
    """Score as GAP's scorer does: each name is one decision, right or wrong; between 0 and 1.

    Args:
        examples: The examples.
        found: For each example by its key, whether the pronoun stands for A, and for B. One that is missing counts as
            neither.

    Returns:
        `precision`, `recall` and `f1` of all, and with `masculine_` and `feminine_` those of each gender; and `bias`,
        the F1 of feminine pronouns divided by that of masculine ones.
    """
    scores: dict[str, float] = {}
    for gender in (None, *GENDERS):
        chosen = [example for example in examples if gender in (None, example.gender)]
        decisions = [
            (name.is_meant, is_found)
            for example in chosen
            for name, is_found in zip(example.names, found.get(example.key, (False, False)), strict=True)
        ]
        right = sum(wanted and is_found for wanted, is_found in decisions)
        claimed, wanted = sum(is_found for _, is_found in decisions), sum(wanted for wanted, _ in decisions)
        prefix = "" if gender is None else f"{gender}_"
        scores[f"{prefix}precision"] = right / claimed if claimed else 0.0
        scores[f"{prefix}recall"] = right / wanted if wanted else 0.0
        scores[f"{prefix}f1"] = 2 * right / (claimed + wanted) if claimed + wanted else 0.0
    masculine = scores["masculine_f1"]
    return {**scores, "bias": scores["feminine_f1"] / masculine if masculine else 0.0}


__all__ = ["Name", "Pronoun", "read_gap", "score_gap"]
