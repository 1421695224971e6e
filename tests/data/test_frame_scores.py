"""`data.frame_scores`: arguments and counts by hand, after what is published of srl-eval.pl."""

import pytest

from elmo_hf.data.frame_scores import (
    Argument,
    RoleCounts,
    add_up,
    count_roles,
    find_arguments,
    roles_report,
    score_roles,
)


WANTED = ["B-ARG0", "I-ARG0", "B-V", "B-ARG1", "O", "B-ARGM-TMP", "I-ARGM-TMP"]


def test_the_predicate_is_no_argument() -> None:
    assert find_arguments(["B-ARG0", "B-V", "I-V", "B-C-V", "O"]) == [Argument("ARG0", ((0, 1),))]
    # a part without a beginning, which becomes a V, too
    assert find_arguments(["B-C-V", "B-ARG1"]) == [Argument("ARG1", ((1, 2),))]


def test_a_continuation_joins_the_last_argument_of_its_role() -> None:
    tags = ["B-ARG1", "I-ARG1", "B-V", "B-ARG1", "O", "B-C-ARG1", "I-C-ARG1", "B-C-ARG1"]

    assert find_arguments(tags) == [
        Argument("ARG1", ((0, 2),)),
        Argument("ARG1", ((3, 4), (5, 7), (7, 8))),
    ]


def test_a_continuation_of_nothing_is_an_argument_that_can_be_continued() -> None:
    assert find_arguments(["B-C-ARG1", "O", "B-C-ARG1"]) == [Argument("ARG1", ((0, 1), (2, 3)))]


def test_a_reference_is_an_argument_of_its_own() -> None:
    tags = ["B-ARG0", "B-R-ARG0", "B-V", "B-C-ARG0"]

    assert find_arguments(tags) == [Argument("ARG0", ((0, 1), (3, 4))), Argument("R-ARG0", ((1, 2),))]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (WANTED, {"ARG0": (1, 0, 0), "ARG1": (1, 0, 0), "ARGM-TMP": (1, 0, 0)}),
        (["O"] * 7, {"ARG0": (0, 0, 1), "ARG1": (0, 0, 1), "ARGM-TMP": (0, 0, 1)}),
        # another role of the same words, other words of the same role, and no V
        (
            ["B-ARG2", "I-ARG2", "O", "B-ARG1", "I-ARG1", "B-ARGM-TMP", "I-ARGM-TMP"],
            {"ARG0": (0, 0, 1), "ARG1": (0, 1, 1), "ARG2": (0, 1, 0), "ARGM-TMP": (1, 0, 0)},
        ),
    ],
)
def test_arguments_count_if_role_and_words_are_right(found: list[str], expected: dict[str, tuple]) -> None:
    assert count_roles([(WANTED, found)]) == {role: RoleCounts(*counts) for role, counts in expected.items()}


def test_a_discontinuous_argument_is_right_as_a_whole_or_not_at_all() -> None:
    wanted = ["B-ARG1", "B-V", "B-C-ARG1", "I-C-ARG1"]

    assert count_roles([(wanted, wanted)]) == {"ARG1": RoleCounts(1, 0, 0)}
    # its first part alone; and both parts, but not as one
    assert count_roles([(wanted, ["B-ARG1", "B-V", "O", "O"])]) == {"ARG1": RoleCounts(0, 1, 1)}
    assert count_roles([(wanted, ["B-ARG1", "B-V", "B-ARG1", "I-ARG1"])]) == {"ARG1": RoleCounts(0, 2, 1)}
    # the same words, cut elsewhere
    assert count_roles([(wanted, ["B-ARG1", "B-V", "B-C-ARG1", "B-C-ARG1"])]) == {"ARG1": RoleCounts(0, 1, 1)}


def test_scores_add_up_the_frames() -> None:
    other = ["B-ARG0", "B-V", "O"], ["B-ARG0", "B-V", "B-ARG1"]

    scores = score_roles([(WANTED, WANTED), other, (["B-V"], ["O"])])

    assert scores["precision"] == pytest.approx(4 / 5)
    assert scores["recall"] == 1
    assert scores["f1"] == pytest.approx(8 / 9)
    assert scores["ARG1_f1"] == pytest.approx(2 / 3)
    assert scores["ARG0_f1"] == 1
    assert "V_f1" not in scores


def test_of_no_arguments_all_scores_are_zero() -> None:
    assert score_roles([(["B-V"], ["B-V"])]) == {"f1": 0, "precision": 0, "recall": 0}
    assert add_up([]) == RoleCounts(0, 0, 0)


def test_the_report_has_a_line_for_each_role() -> None:
    lines = roles_report([(["B-ARG0", "B-V", "O"], ["B-ARG0", "B-V", "B-ARG1"])]).splitlines()

    assert [line.split() for line in lines[1:]] == [
        ["all", "1", "1", "0", "0.5000", "1.0000", "0.6667"],
        ["ARG0", "1", "0", "0", "1.0000", "1.0000", "1.0000"],
        ["ARG1", "0", "1", "0", "0.0000", "0.0000", "0.0000"],
    ]
