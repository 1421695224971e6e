"""`data.gap`: the files of GAP, and scores against figures that are counted by hand."""

from pathlib import Path

import pytest

from elmo_hf import ElmoError
from elmo_hf.data.gap import Name, Pronoun, read_gap, score_gap


HEADER = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL"
ROW = 'x-1\tAnn "met" Sue and Her dog.\tHer\t18\tAnn\t0\tTRUE\tSue\t10\tFALSE\thttp://x'


def example(key: str, pronoun: str, *meant: bool) -> Pronoun:
    names = [Name("A", 0, meant[0]), Name("B", 2, meant[1])]
    return Pronoun(key, f"A B {pronoun}", pronoun, 4, (names[0], names[1]))


def test_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "gap.tsv").write_text(f"{HEADER}\n{ROW}\n", encoding="utf-8")

    (found,) = read_gap(tmp_path / "gap.tsv")

    names = (Name("Ann", 0, True), Name("Sue", 10, False))
    assert found == Pronoun("x-1", 'Ann "met" Sue and Her dog.', "Her", 18, names)
    assert found.gender == "feminine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks the column ID"),
        (HEADER, "holds no pronouns"),
        (f"{HEADER}\n{ROW}\n{ROW.replace('18', '17')}", "line 3: 'Her' is not in the text at 17"),
        (f"{HEADER}\n{ROW.replace('18', 'x')}", "line 2: a column is not what GAP has there"),
        (f"{HEADER}\n{ROW.replace('TRUE', 'yes')}", "line 2: a column is not what GAP has there"),
        (f"{HEADER}\nx-1\tAnn", "line 2: a column is not what GAP has there"),
        (f"{HEADER}\n{ROW.replace('18', '-8')}", "line 2: 'Her' is not in the text at -8"),
        (f"{HEADER}\n{ROW}\n{ROW}", "line 3: the ID 'x-1' is there twice"),
        (f"{HEADER}\n{ROW}{'x' * 200_000}", "line 2: this is no row of GAP (field larger than field limit"),
        (f"{HEADER}\n{ROW.replace('Her', 'Our')}", "line 2: 'Our' is no pronoun of GAP"),
    ],
)
def test_files_that_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "gap.tsv").write_text(text, encoding="utf-8")

    with pytest.raises(ElmoError) as caught:
        read_gap(tmp_path / "gap.tsv")
    assert message in str(caught.value)


def test_each_name_is_one_decision() -> None:
    examples = [
        example("1", "he", True, False),
        example("2", "His", False, False),
        example("3", "her", True, False),
        example("4", "She", False, True),
    ]
    found = {"1": (True, True), "2": (False, True), "3": (True, False)}

    scores = score_gap(examples, found)

    # he: 1 right of 3 claimed and 1 wanted; she: 1 right of 1 claimed and 2 wanted
    assert scores["masculine_precision"] == pytest.approx(1 / 3)
    assert scores["masculine_f1"] == pytest.approx(1 / 2)
    assert (scores["feminine_precision"], scores["feminine_recall"]) == (1, 1 / 2)
    assert scores["feminine_f1"] == pytest.approx(2 / 3)
    assert (scores["precision"], scores["recall"]) == (2 / 4, 2 / 3)
    assert scores["f1"] == pytest.approx(4 / 7)
    assert scores["bias"] == pytest.approx(4 / 3)


def test_nothing_found_scores_nothing() -> None:
    assert set(score_gap([example("1", "he", True, False)], {}).values()) == {0.0}
