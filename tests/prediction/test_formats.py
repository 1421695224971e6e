"""`prediction.formats`: JSON Lines, CoNLL columns and tables, read back by what reads them elsewhere."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from elmo_hf import (
    ElmoError,
    ElmoForMultipleChoice,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
)
from elmo_hf.data.records import read_records
from elmo_hf.data.tagged import read_tagged
from elmo_hf.prediction import predict
from elmo_hf.prediction.formats import choose_format, write_results
from elmo_hf.prediction.tasks import make_task
from support.task_models import NAMES


MakeModel = Callable[..., Any]


def write(results: list[dict[str, Any]], model: Any, name: str, **options: Any) -> str:
    file = io.StringIO()
    assert write_results(results, name, file, make_task(model), **options) == len(results)
    return file.getvalue()


def rows_of(text: str, delimiter: str = "\t") -> list[dict[str, str]]:
    return list(
        csv.DictReader(
            io.StringIO(text, newline=""),
            delimiter=delimiter,
            quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL,
        )
    )


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        (None, None, "jsonl"),
        (None, "table", "table"),
        ("a.jsonl", None, "jsonl"),
        ("a.conll", None, "conll"),
        ("a.CSV", None, "table"),
        ("a.txt", "conll", "conll"),
    ],
)
def test_the_suffix_tells_the_format_unless_it_is_named(path: str | None, name: str | None, expected: str) -> None:
    assert choose_format(None if path is None else Path(path), name) == expected


def test_a_suffix_that_tells_no_format_is_named() -> None:
    with pytest.raises(ElmoError, match=r"a\.txt does not tell the format by its suffix: choose one of \.jsonl"):
        choose_format(Path("a.txt"), None)


def test_json_lines_are_what_predict_yields(make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = make_model(ElmoForTokenClassification, id2label=dict(enumerate(NAMES)))
    results = list(predict(model, tokenizer, ["Zürich\u2028👩‍👩‍👧 \x85", ""]))
    text = write(results, model, "jsonl")

    assert [json.loads(line) for line in text.split("\n")[:-1]] == results
    assert "Zürich" in text


def test_columns_are_read_back_as_tagged_sentences(
    make_model: MakeModel, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    model = make_model(ElmoForTokenClassification, id2label={0: "NOUN", 1: "VERB"})
    results = list(predict(model, tokenizer, [["Hà Nội", "is"], [], ["a"]]))
    (tmp_path / "out.conll").write_text(write(results, model, "conll"), encoding="utf-8")

    assert read_tagged(tmp_path / "out.conll") == [
        (result["words"], result["tags"]) for result in results if result["words"]
    ]


@pytest.mark.parametrize("word", ["", " ", "a\tb", "a\nb", "a ", "-DOCSTART-"])
def test_a_word_that_would_break_the_columns_is_named(
    word: str, make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model(ElmoForTokenClassification, num_labels=2)
    with pytest.raises(ElmoError, match="cannot stand in a column: choose jsonl"):
        write(list(predict(model, tokenizer, [["a", word]])), model, "conll")


@pytest.mark.parametrize("tag", ["", "a\tb", " b"])
def test_a_tag_that_would_break_the_columns_is_named(tag: str, make_model: MakeModel) -> None:
    model = make_model(ElmoForTokenClassification, num_labels=2)
    with pytest.raises(ElmoError, match=re.escape(f"The tag {tag!r} cannot stand in a column: choose jsonl")):
        write([{"words": ["a", "-DOCSTART-x"], "tags": ["-DOCSTART-", tag]}], model, "conll")


def test_a_classifier_has_no_columns_of_words(make_model: MakeModel) -> None:
    with pytest.raises(ElmoError, match="this model gives none: choose jsonl or table"):
        write([], make_model(ElmoForSequenceClassification, num_labels=2), "conll")


def test_a_table_of_spans(make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = make_model(ElmoForTokenClassification, id2label=dict(enumerate(NAMES)))
    records = [{"id": 7, "text": "Ann met Bob in New York", "label": "x"}, {"id": 8, "text": "a", "label": None}]
    results = list(predict(model, tokenizer, [*records, {"id": 9, "text": "", "label": None}]))
    rows = rows_of(write(results, model, "table"))

    nothing = dict.fromkeys(("label", "start", "end", "text", "score"), "")
    assert rows == [
        {
            "input": str(number),
            "id": str(result["id"]),
            "given_label": result["label"] or "",
            **{name: str(value) for name, value in entity.items()},
        }
        for number, result in enumerate(results, start=1)
        for entity in result["entities"] or [nothing]
    ]
    # a record without entities is not lost
    assert results[0]["entities"]
    assert rows[-1] == {"input": "3", "id": "9", "given_label": "", **nothing}


def test_a_table_of_words(make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = make_model(ElmoForTokenClassification, id2label={0: "NOUN", 1: "VERB"})
    (result,) = predict(model, tokenizer, [['"a', "b"]])

    text = write([result], model, "table")
    assert '1\t"a\t' in text
    assert [(row["word"], row["tag"], float(row["score"])) for row in rows_of(text)] == list(
        zip(result["words"], result["tags"], result["scores"], strict=True)
    )


def test_a_table_of_classes_with_commas(make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = make_model(ElmoForSequenceClassification, id2label={0: "no", 1: "yes"})
    records = [{"text": 'a, "b"\nc', "n": [1]}, {"text": "", "n": None}, {"text": "a\rb", "n": None}]
    first, second, third = rows_of(
        write(list(predict(model, tokenizer, records)), model, "table", delimiter=","), delimiter=","
    )

    assert list(first) == ["input", "text", "n", "label", "score_no", "score_yes"]
    assert (first["text"], first["n"]) == ('a, "b"\nc', "[1]")
    assert float(first["score_no"]) + float(first["score_yes"]) == pytest.approx(1, abs=2e-5)
    assert list(second.values()) == ["2", "", "", "", "", ""]
    assert third["text"] == "a\rb"


@pytest.mark.parametrize(
    ("cls", "fields", "columns"),
    [
        (ElmoForSequenceClassification, {"num_labels": 1}, ["input", "question", "choices", "label", "score"]),
        (ElmoForMultipleChoice, {}, ["input", "question", "choices", "label", "choice", "scores"]),
        (
            ElmoForQuestionAnswering,
            {},
            ["input", "question", "choices", "label", "answer", "start", "end", "score"],
        ),
        (
            ElmoForSequenceClassification,
            {"num_labels": 1, "problem_type": "multi_label_classification"},
            ["input", "question", "choices", "label", "labels", "score_LABEL_0"],
        ),
    ],
)
def test_a_table_keeps_fields_that_are_no_answers(
    cls: type, fields: dict[str, Any], columns: list[str], make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model(cls, **fields)
    record = {"question": "a", "choices": ["b", "c"], "label": 1}
    options = {"text_field": "question", **({"pair_field": "choices"} if cls is ElmoForQuestionAnswering else {})}
    (row,) = rows_of(write(list(predict(model, tokenizer, [record], **options)), model, "table"))

    assert list(row) == columns
    assert (row["choices"], row["label"]) == ('["b", "c"]', "1")


def test_a_field_that_the_first_record_lacks_is_named(
    make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model(ElmoForSequenceClassification, num_labels=2)
    with pytest.raises(ElmoError, match=r"Record 2 has the field 'id', .*: choose jsonl"):
        write(list(predict(model, tokenizer, [{"text": "a"}, {"text": "b", "id": 1}])), model, "table")


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_a_table_is_read_back_as_it_was(
    suffix: str, make_model: MakeModel, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    model = make_model(ElmoForSequenceClassification, num_labels=2)
    records = [
        {"text": '"a, "b""', "input": "\u2028 x", "given_input": "'"},
        {"text": "", "input": "", "given_input": ""},
    ]
    delimiter = "," if suffix == ".csv" else "\t"
    path = tmp_path / f"out{suffix}"
    path.write_text(
        write(list(predict(model, tokenizer, records)), model, "table", delimiter=delimiter),
        encoding="utf-8",
        newline="",
    )

    read = [record for _, record in read_records(path)]
    assert [
        {"text": record["text"], "input": record["given_input"], "given_input": record["given_given_input"]}
        for record in read
    ] == records
    # and once more: a table of the answers to a table
    again = rows_of(write(list(predict(model, tokenizer, read)), model, "table"))
    assert [(row["given_input"], row["given_given_given_input"]) for row in again] == [("1", "'"), ("2", "")]
    assert [row["given_label"] for row in again] == [record["label"] for record in read]


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\rb"])
def test_a_text_that_would_break_a_row_of_tsv_is_named(
    text: str, make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model(ElmoForSequenceClassification, num_labels=2)
    with pytest.raises(ElmoError, match=rf"{re.escape(repr(text))} cannot stand in .*TSV.*: choose \.csv or jsonl"):
        write(list(predict(model, tokenizer, [text])), model, "table")


def test_no_inputs_make_a_header(make_model: MakeModel) -> None:
    model = make_model(ElmoForSequenceClassification, id2label={0: "no", 1: "yes"})
    assert write([], model, "table") == "input\tlabel\tscore_no\tscore_yes\n"
    assert write([], model, "jsonl") == ""
