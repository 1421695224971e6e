"""`data.records` reads labelled texts as they are found in the wild, or names the line that it cannot read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from elmo_hf.data.records import LabelledText, load_labelled, read_labelled, read_records, read_texts
from elmo_hf.errors import ElmoError
from support.data_files import save_dataset, written


JSON = [{"sentence": "not bad", "label": 1}, {"sentence": ["so", "so"], "label": 0}]
PAIRS = [{"id": 7, "premise": "a b", "hypothesis": "a", "label": "yes"}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "".join(f"{json.dumps(record)}\n\n" for record in JSON),
            [LabelledText("not bad", None, 1), LabelledText(["so", "so"], None, 0)],
            id="JSON",
        ),
        pytest.param(json.dumps(PAIRS[0]), [LabelledText("a b", "a", "yes")], id="pairs"),
        pytest.param('{"text": "", "label": [1, 2]}', [LabelledText("", None, [1, 2])], id="several labels"),
        pytest.param('{"text": "a", "label": true}', [LabelledText("a", None, "true")], id="yes or no"),
        pytest.param(
            '\ufefflabel,text\r\n1,"a, ""b"""\r\n\r\n0,"two\nlines"\r\n',
            [LabelledText('a, "b"', None, "1"), LabelledText("two\nlines", None, "0")],
            id="CSV",
        ),
        pytest.param(
            'sentence1\tsentence2\tlabel\n"a\tb"\tyes\n', [LabelledText('"a', 'b"', "yes")], id="TSV, quotes are text"
        ),
    ],
)
def test_reads_records(tmp_path: Path, text: str, expected: list[LabelledText]) -> None:
    assert read_labelled(written(tmp_path, text)) == expected


def test_chooses_the_columns_of_records(tmp_path: Path) -> None:
    path = written(tmp_path, "text,title,stars\nlong,short,4.5\n")

    assert read_labelled(path, text="title", label="stars") == [LabelledText("short", None, "4.5")]
    assert read_labelled(path, text="title", pair="text", label="stars") == [LabelledText("short", "long", "4.5")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "a", "label": 1}\n{"text": "b"}\n', ", line 2: label is None: give a label"),
        ('\n{"text": "a", "label": 1}\n\n{"text": "a", "label":\n', ", line 4: not JSON ("),
        ('{"text": 3, "label": 1}', ", line 1: text is 3: give a text or a list of words"),
        ('{"text": ["a", 1], "label": 1}', ", line 1: text is ['a', 1]: give a text"),
        ('{"text": "a", "label": {"x": 1}}', ", line 1: label is {'x': 1}: give a label"),
        ('{"body": "a", "label": 1}', ", line 1: no column premise or sentence1 or "),
        ('{"text": "a", "class": 1}', ", line 1: no column label or labels or gold_label; there are text, class"),
        ('[{"text": "a", "label": 1}]', ", line 1: '[{"),
        ("text,label\n\na, b,1\n", ", line 3: 3 columns where the header has 2: quote"),
        ("\ntext,label,text\na,1,b\n", ", line 2: the header names the column 'text' twice: rename one"),
        ("text\tlabel\tlabel\na\t1\t2\n", ", line 1: the header names the column 'label' twice: rename one"),
        ("text,label\na,\n", ", line 2: label is '': give a label"),
        ("text,label\n", " holds no records: give"),
        ("", " holds no records: give"),
    ],
)
def test_records_that_cannot_be_read_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ElmoError, match=f"^{re.escape(f'{path}{message}')}.*$"):
        read_labelled(path)


def test_a_text_too_long_for_csv_is_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, f"text,label\n{'a' * 200_000},1\n")

    with pytest.raises(ElmoError, match=r"data, line 2: not CSV \(field larger than .*\): quote the texts\.$"):
        read_labelled(path)


def test_labels_of_a_data_set_get_their_names(datasets: Any, tmp_path: Path) -> None:
    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    rows = datasets.Dataset.from_dict({"sentence": ["no", "yes"], "label": [0, 1]}, features=features)
    name = save_dataset(rows, tmp_path / "labelled")

    assert load_labelled(name, "train") == [LabelledText("no", None, "bad"), LabelledText("yes", None, "good")]
    with pytest.raises(ElmoError, match=r"labelled, train, record 1: no column text; there are sentence, label"):
        load_labelled(name, "train", text="text")


def test_a_quote_that_is_not_closed_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('label,text\n0,"He said no\n1,yes\n', encoding="utf-8")
    (tmp_path / "y.csv").write_text('label,text\n0,"Hello" she said\n', encoding="utf-8")

    for name in ("x.csv", "y.csv"):
        with pytest.raises(ElmoError, match=rf"{name}, line \d: not CSV \(.*\): quote the texts"):
            read_labelled(tmp_path / name)


def test_records_without_a_gold_label_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [{"sentence1": "a", "sentence2": "b", "gold_label": label} for label in ("neutral", "-", "neutral")]
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    assert [text.label for text in read_labelled(tmp_path / "x.jsonl")] == ["neutral", "neutral"]
    assert "x.jsonl: 1 records without a label are left out." in caplog.text


def test_a_pair_among_single_texts_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(
        '{"premise": "a", "label": 1}\n{"premise": "a", "hypothesis": "b", "label": 1}\n', encoding="utf-8"
    )

    message = r"x\.jsonl, line 2: this record is a pair, with hypothesis, and the first record is not"
    with pytest.raises(ElmoError, match=message):
        read_labelled(tmp_path / "x.jsonl")


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity"])
def test_a_number_that_is_none_is_named(number: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(f'{{"text": "a", "label": {number}}}\n', encoding="utf-8")

    with pytest.raises(ElmoError, match=r"x\.jsonl, line 1: label is .*: give a number, or leave the record out"):
        read_labelled(tmp_path / "x.jsonl")


def test_texts_alone(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"tokens": ["a"], "id": 1}\n\n{"tokens": "b c"}\n', encoding="utf-8")

    assert list(read_texts(tmp_path / "x.jsonl")) == [["a"], "b c"]
    with pytest.raises(ElmoError, match=r"line 1: no column body; there are tokens, id"):
        list(read_texts(tmp_path / "x.jsonl", text="body"))


def test_records_come_with_all_their_fields_and_their_lines(tmp_path: Path) -> None:
    path = written(tmp_path, 'id,text\n1,"a\nb"\n\n2,\n')
    assert list(read_records(path)) == [(3, {"id": "1", "text": "a\nb"}), (5, {"id": "2", "text": ""})]

    path = written(tmp_path, '\n{"id": 1, "more": [2]}\n\n{}\n')
    assert list(read_records(path)) == [(2, {"id": 1, "more": [2]}), (4, {})]
