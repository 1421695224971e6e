"""`data.questions`: SQuAD's JSON in its versions, places of answers, and scores against figures computed by hand."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_hf import ElmoError
from elmo_hf.data.questions import (
    Answer,
    Question,
    answer_f1,
    best_thresholds,
    exact_match,
    find_answer,
    load_questions,
    normalize_answer,
    question_of,
    read_question_records,
    read_questions,
    score_answers,
)


CONTEXT = "Ann saw Bob. Bob saw Ann in New York."


def squad(*asked: dict[str, Any]) -> dict[str, Any]:
    return {"version": "1.1", "data": [{"title": "x", "paragraphs": [{"context": CONTEXT, "qas": list(asked)}]}]}


def write(path: Path, content: Any, indent: int | None = None) -> Path:
    path.write_text(json.dumps(content, indent=indent), encoding="utf-8")
    return path


@pytest.mark.parametrize("indent", [None, 2])
def test_both_versions_of_squad(indent: int | None, tmp_path: Path) -> None:
    found = {"id": "1", "question": "Who?", "answers": [{"text": "Bob", "answer_start": 13}]}
    nothing = {"id": "2", "question": "Why?", "answers": [], "is_impossible": True}
    likely = {"plausible_answers": [{"text": "Ann", "answer_start": 0}]}
    path = write(tmp_path / "x.json", squad(found, {**nothing, **likely}), indent)

    assert read_questions(path) == [
        Question("1", "Who?", CONTEXT, [Answer("Bob", 13)]),
        Question("2", "Why?", CONTEXT, []),
    ]


def test_two_questions_with_one_id_are_refused(tmp_path: Path) -> None:
    asked = [{"id": "a", "question": question, "answers": []} for question in ("Who?", "Why?")]

    with pytest.raises(ElmoError, match="question 2: an earlier question has the id 'a': change one"):
        read_questions(write(tmp_path / "x.json", squad(*asked)))


def test_flat_records_and_records_one_a_line(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "question": "Who?", "context": CONTEXT, "answers": {"text": ["Ann"], "answer_start": [0]}},
        {"question": "Why?", "context": CONTEXT, "answers": {"text": [], "answer_start": []}},
    ]
    expected = [Question("1", "Who?", CONTEXT, [Answer("Ann", 0)]), Question("2", "Why?", CONTEXT, [])]
    (tmp_path / "lines.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    assert read_questions(write(tmp_path / "data.json", {"data": rows})) == expected
    assert read_questions(write(tmp_path / "list.json", rows)) == expected
    assert read_questions(tmp_path / "lines.json") == expected
    assert [(line, record["question"]) for line, record in read_question_records(tmp_path / "lines.json")] == [
        (1, "Who?"),
        (2, "Why?"),
    ]


def test_a_data_set_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="the library datasets is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    row = {"id": "1", "question": "Who?", "context": CONTEXT, "answers": {"text": ["Ann"], "answer_start": [0]}}
    (tmp_path / "set").mkdir()
    write(tmp_path / "set" / "train.jsonl", row)

    assert load_questions(str(tmp_path / "set"), "train") == [Question("1", "Who?", CONTEXT, [Answer("Ann", 0)])]


def test_an_answer_elsewhere_is_found_and_one_nowhere_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [{"text": "Bob", "answer_start": 11}, {"text": "Eve", "answer_start": 0}, {"text": "Ann"}]
    path = write(tmp_path / "x.json", squad({"id": "1", "question": "Who?", "answers": answers}))

    (asked,) = read_questions(path)

    assert asked.answers == [Answer("Bob", 13), Answer("Eve", None), Answer("Ann", 0)]
    assert "x.json: 1 answers are not where they should begin; their text was found." in caplog.text
    assert "x.json: 1 answers are not in their context, and teach nothing." in caplog.text


@pytest.mark.parametrize(("start", "place"), [(0, 8), (8, 8), (10, 8), (11, 13), (400, 13), (-5, 8), (None, 8)])
def test_the_nearest_place_of_an_answer(start: int | None, place: int) -> None:
    assert find_answer(CONTEXT, "Bob", start) == place
    assert find_answer("aaaa", "aa", 1) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": None}, "question 1: question is None: give a text"),
        ({"context": ["a"]}, r"question 1: context is \['a'\]: give a text"),
        ({"answers": None}, "question 1: answers are None: give a list, each with a text and answer_start"),
        ({"answers": [{"text": ""}]}, "question 1: answers are .*: give a list"),
        ({"answers": [{"text": "Ann", "answer_start": "0"}]}, "question 1: answers are .*: give a list"),
        ({"answers": {"text": ["Ann"], "answer_start": []}}, "question 1: answers are .*: give a list"),
    ],
)
def test_a_part_that_cannot_be_used_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    asked = {"id": "1", "question": "Who?", "answers": [{"text": "Ann", "answer_start": 0}], **change}

    with pytest.raises(ElmoError, match=f"x.json, {message}"):
        read_questions(write(tmp_path / "x.json", squad(asked)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"data": [{"paragraphs": [{"qas": [{}]}]}]}, "x.json is JSON, but not SQuAD's: give data with paragraphs"),
        ({"data": ["a"]}, "x.json is JSON, but not SQuAD's"),
        ({"data": []}, "x.json holds no questions: give SQuAD's JSON"),
        ("a", "x.json holds no questions"),
    ],
)
def test_another_file_is_named(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=message):
        read_questions(write(tmp_path / "x.json", content))


def test_a_question_of_one_record() -> None:
    record = {"question": "Who?", "context": CONTEXT, "answers": [{"text": "Ann", "answer_start": 0}]}

    assert question_of({**record, "id": None}, 7) == question_of(record, 7)
    assert question_of(record, 7) == Question("7", "Who?", CONTEXT, [Answer("Ann", 0)])


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Denver Broncos!", "denver broncos"),
        ("a.b", "ab"),
        ("An apple a day", "apple day"),
        ("the", ""),
        ("Theatre", "theatre"),
        ("$1,000.50", "100050"),
        # of punctuation, SQuAD knows that of ASCII
        ("«Été»", "«été»"),
    ],
)
def test_answers_are_normalized(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("found", "answers", "exact", "f1"),
    [
        ("the Broncos", ["Broncos", "Denver"], 1, 1),
        # one of two words found, one of three wanted
        ("Denver won", ["the Denver Broncos team"], 0, 2 / 5),
        # the best of the answers
        ("Denver Broncos", ["Carolina", "Denver"], 0, 2 / 3),
        # a word counts as often as both have it
        ("no no no", ["no no yes"], 0, 2 / 3),
        ("x", ["y"], 0, 0),
        ("", [], 1, 1),
        ("x", [], 0, 0),
        ("", ["x"], 0, 0),
        # nothing is left of the first
        ("x", ["the", "x"], 1, 1),
        ("", ["the"], 1, 1),
    ],
)
def test_scores_are_those_of_squad(found: str, answers: list[str], exact: float, f1: float) -> None:
    assert exact_match(found, answers) == exact
    assert answer_f1(found, answers) == pytest.approx(f1)


def test_scores_are_means_between_0_and_1() -> None:
    questions = [
        Question("1", "", "", [Answer("Denver Broncos", None)]),
        Question("2", "", "", [Answer("x", None)]),
        Question("3", "", "", []),
    ]
    found = {"1": "Denver", "2": "x", "3": "y"}

    assert score_answers(questions[:2], found) == pytest.approx({"exact_match": 1 / 2, "f1": (2 / 3 + 1) / 2})
    assert score_answers(questions, found) == pytest.approx(
        {
            "exact_match": 1 / 3,
            "f1": (2 / 3 + 1) / 3,
            "answered_f1": (2 / 3 + 1) / 2,
            "unanswered_f1": 0,
        }
    )


def test_the_best_threshold_is_that_of_a_loop() -> None:
    texts = [
        ("h", ["h"], -2.0),
        ("b", ["x"], -3.0),
        ("c d", ["c"], 2.0),
        ("e", [], 0.5),
        ("f", [], 0.5),
        ("g", [], 3.0),
    ]
    questions = [
        Question(str(number), "?", "", [Answer(text, 0) for text in answers])
        for number, (_, answers, _) in enumerate(texts)
    ]
    found = {str(number): best for number, (best, _, _) in enumerate(texts)}
    odds = {str(number): own for number, (_, _, own) in enumerate(texts)}

    actual = best_thresholds(questions, found, odds)

    for name in ("exact_match", "f1"):
        scores = {}
        for threshold in np.arange(-5, 5, 0.25) + 0.1:
            given = {key: "" if odds[key] > threshold else best for key, best in found.items()}
            scores[threshold] = score_answers(questions, given)[name]
        assert actual[f"best_{name}"] == pytest.approx(max(scores.values()))
        threshold = actual[f"best_{name}_threshold"]
        given = {key: "" if odds[key] > threshold else best for key, best in found.items()}
        assert score_answers(questions, given)[name] == pytest.approx(max(scores.values()))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(12.31, 12.33, 12.32), (0.5, 690.8, 1), (-3, -2.9, -3), (0.1, 0.1 + 1e-16, 0.1), (4.000_01, 4.000_04, 4.000_02)],
)
def test_a_threshold_is_short_and_between_two_odds(low: float, high: float, expected: float) -> None:
    odds = {"1": low, "2": high}
    questions = [Question("1", "?", "", [Answer("x", 0)]), Question("2", "?", "", [])]

    scores = best_thresholds(questions, {"1": "x", "2": "x"}, odds)

    assert scores["best_f1"] == 1
    assert scores["best_f1_threshold"] == pytest.approx(expected, abs=1e-6)
    assert len(str(scores["best_f1_threshold"])) < 9


@pytest.mark.parametrize("low", [0.3, 0.1 + 0.2])
def test_a_threshold_is_between_odds_that_are_next_to_each_other(low: float) -> None:
    odds = {"1": low, "2": math.nextafter(low, math.inf)}
    questions = [Question("1", "?", "", [Answer("x", 0)]), Question("2", "?", "", [])]

    scores = best_thresholds(questions, {"1": "x", "2": "x"}, odds)

    assert scores["best_f1"] == 1
    assert odds["1"] <= scores["best_f1_threshold"] < odds["2"]


def test_an_answer_of_which_nothing_is_left_is_an_answer() -> None:
    scores = best_thresholds([Question("1", "?", "", [])], {"1": "the"}, {"1": 0.0})

    assert scores["best_f1"] == 1
    assert scores["best_f1_threshold"] < 0


@pytest.mark.parametrize("answers", [["b"], []])
def test_a_threshold_of_one_question_is_beside_its_odds(answers: list[str]) -> None:
    question = Question("1", "?", "", [Answer(text, 0) for text in answers])

    scores = best_thresholds([question], {"1": "b"}, {"1": 7.0})

    assert scores["best_f1"] == 1
    assert (scores["best_f1_threshold"] > 7) == bool(answers)
