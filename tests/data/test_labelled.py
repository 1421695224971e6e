"""Labelled text is read as it is found in the wild, and what cannot be read is one line with its place."""

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from elmo_hf import ElmoError
from elmo_hf.data.labelled import (
    LabelledText,
    TaggedSentence,
    cut_sentence,
    load_labelled,
    load_tagged,
    read_labelled,
    read_tagged,
    read_texts,
    read_words,
    tag_scheme,
    to_iob2,
)


PETER = TaggedSentence(["Peter", "sleeps"], ["B-PER", "O"])
PAUL = TaggedSentence(["Paul"], ["B-PER"])


def written(folder: Path, text: str, name: str = "data") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Peter\tB-PER\nsleeps\tO\n\nPaul\tB-PER\n\n", id="tabs"),
        pytest.param("Peter B-PER\nsleeps  O \n\nPaul B-PER", id="spaces, no final newline"),
        pytest.param("\ufeffPeter\tB-PER\r\nsleeps\tO\r\n\r\nPaul\tB-PER\r\n", id="BOM, CRLF"),
        pytest.param("\n\nPeter\tB-PER\nsleeps\tO\n \t\n\n\nPaul\tB-PER\n", id="lines of white space"),
        pytest.param(
            "-DOCSTART- -X- O O\n\nPeter NNP I-NP B-PER\nsleeps VBZ I-VP O\n-DOCSTART-\nPaul NNP I-NP B-PER\n",
            id="four columns, documents",
        ),
        pytest.param("# id = 1\n# Peter\nPeter\tB-PER\nsleeps\tO\n\n# newdoc\nPaul\tB-PER\n", id="comments"),
    ],
)
def test_reads_columns(tmp_path: Path, text: str) -> None:
    assert read_tagged(written(tmp_path, text)) == [PETER, PAUL]


def test_reads_compressed_columns(tmp_path: Path) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(b"Paul\tB-PER\n"))

    assert read_tagged(path) == [PAUL]


@pytest.mark.parametrize("separator", ["\t", " "])
def test_a_number_sign_with_a_tag_is_a_word(tmp_path: Path, separator: str) -> None:
    path = written(tmp_path, f"#{separator}O\nPaul{separator}B-PER\n#1{separator}O\n#{separator}O\n")

    assert read_tagged(path) == [TaggedSentence(["#", "Paul", "#1", "#"], ["O", "B-PER", "O", "O"])]


def test_a_word_may_hold_white_space_that_is_no_separator(tmp_path: Path) -> None:
    path = written(tmp_path, "10\u00a0000\tO\nNew York\tB-LOC\n")

    assert read_tagged(path)[0].words == ["10\u00a0000", "New York"]
    assert read_tagged(written(tmp_path, "10\u00a0000 O\n"))[0].words == ["10\u00a0000"]


def test_chooses_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "1\tPeter\tNNP\n2\tsleeps\tVBZ\n")

    assert read_tagged(path, word_column=1) == [TaggedSentence(["Peter", "sleeps"], ["NNP", "VBZ"])]
    assert read_tagged(path, word_column=2, tag_column=0) == [TaggedSentence(["NNP", "VBZ"], ["1", "2"])]


def test_of_conll_u_reads_words_only(tmp_path: Path) -> None:
    rows = [["1-2", "im"], ["1", "in"], ["2", "dem"], ["2.1", "nothing"]]
    text = "# text = im\n" + "".join("\t".join([*row, "_", "ADP", *"_" * 6]) + "\n" for row in rows)

    assert read_tagged(written(tmp_path, text), word_column=1, tag_column=3) == [
        TaggedSentence(["in", "dem"], ["ADP", "ADP"])
    ]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("Peter\tB-PER\nsleeps\n", {}, "line 2: 'sleeps' has not the columns 0 (word) and -1 (tag) of 2"),
        ("Peter B-PER\nNew York B-LOC\n", {}, "line 2: 'New York B-LOC' has not the columns"),
        ("Peter\tB-PER\n# no comment\n", {}, "line 2: '# no comment' has not the columns"),
        ("Peter\tB-PER\n\tO\n", {}, r"line 2: '\tO' has not the columns"),
        ("Peter\t\n", {}, r"line 1: 'Peter\t' has not the columns"),
        ("Peter sleeps\tO\n\nOnly text", {}, "line 3: 'Only text' has not the columns"),
        ("Peter\n", {}, "line 1: 'Peter' has not the columns 0 (word) and -1 (tag) of 1"),
        ("Peter\tO\n", {"tag_column": 2}, "line 1: 'Peter\\tO' has not the columns 0 (word) and 2 (tag) of 2"),
        ("Peter\tO\n", {"tag_column": -3}, "line 1: 'Peter\\tO' has not the columns 0 (word) and -3 (tag) of 2"),
        ("# nothing\n\n", {}, "holds no sentences: give"),
        ("", {}, "holds no sentences: give"),
    ],
)
def test_columns_that_cannot_be_read_are_one_line(
    tmp_path: Path, text: str, columns: dict[str, int], message: str
) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ElmoError, match=f"^{re.escape(str(path))},? {re.escape(message)}.*$"):
        read_tagged(path, **columns)


def test_tells_how_tags_mark_spans() -> None:
    assert tag_scheme(["O", "B-PER", "I-PER"]) == tag_scheme(["I-PER"]) == tag_scheme(["B", "I"]) == "IOB2"
    assert tag_scheme(["O", "B-PER", "E-PER", "S-LOC"]) == "IOBES"
    assert tag_scheme(["O", "B-PER", "L-PER", "U-LOC"]) == "BILOU"
    assert tag_scheme(["NN", "IN", "-LRB-"]) is tag_scheme(["O"]) is None


def test_spans_of_iob1_begin_with_b() -> None:
    first = ["I-PER", "I-PER", "B-PER", "I-PER", "O", "I-LOC", "I-PER", "O"]
    second = ["B-PER", "I-PER", "B-PER", "I-PER", "O", "B-LOC", "B-PER", "O"]

    assert to_iob2(first) == second
    assert to_iob2(second) == second
    assert to_iob2(["I", "I", "O", "IN"]) == ["B", "I", "O", "IN"]


def test_cuts_long_sentences_between_spans() -> None:
    sentence = TaggedSentence(list("abcdefg"), ["O", "O", "B-X", "I-X", "O", "O", "O"])

    pieces = list(cut_sentence(sentence, 3))

    assert ["".join(piece.words) for piece in pieces] == ["ab", "cde", "fg"]
    assert [tag for piece in pieces for tag in piece.tags] == sentence.tags
    assert list(cut_sentence(sentence, 7)) == [sentence]
    # a span longer than a piece
    assert [len(piece.words) for piece in cut_sentence(TaggedSentence(list("abcde"), ["B", *["I-X"] * 4]), 2)] == [
        2, 2, 1,
    ]  # fmt: skip


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
        ("text,label\n\na, b,1\n", ", line 3: 3 columns where the head line has 2: quote"),
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


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library, which keeps its files in this test's folder."""
    library = pytest.importorskip("datasets", reason="the library datasets is not installed")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return library


def save(rows: Any, folder: Path) -> str:
    """Write a data set as a folder that `load_dataset` reads, with the names of its classes."""
    folder.mkdir()
    rows.to_parquet(str(folder / "train-00000-of-00001.parquet"))
    return str(folder)


def test_tags_of_a_data_set_get_their_names(datasets: Any, tmp_path: Path) -> None:
    tags = datasets.ClassLabel(names=["O", "B-PER"])
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner_tags": datasets.List(tags)})
    rows = {"tokens": [PETER.words, [], PAUL.words], "ner_tags": [[1, 0], [], [1]]}
    name = save(datasets.Dataset.from_dict(rows, features=features), tmp_path / "tagged")

    assert load_tagged(name, "train") == [PETER, PAUL]
    with pytest.raises(ElmoError, match=r"tagged, train: no column upos; there are tokens, ner_tags: name the one"):
        load_tagged(name, "train", tags="upos")
    with pytest.raises(ElmoError, match=r"tagged cannot be loaded \(.*\): check its name, configuration and split"):
        load_tagged(name, "test")


def test_labels_of_a_data_set_get_their_names(datasets: Any, tmp_path: Path) -> None:
    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    rows = datasets.Dataset.from_dict({"sentence": ["no", "yes"], "label": [0, 1]}, features=features)
    name = save(rows, tmp_path / "labelled")

    assert load_labelled(name, "train") == [LabelledText("no", None, "bad"), LabelledText("yes", None, "good")]
    with pytest.raises(ElmoError, match=r"labelled, train, record 1: no column text; there are sentence, label"):
        load_labelled(name, "train", text="text")


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(ElmoError, match=r"^A data set by name needs the library datasets: pip install datasets$"):
        load_tagged("conll", "train")


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

    with pytest.raises(ElmoError, match=r"x\.jsonl, line 2: a pair, with hypothesis, where the first record is none"):
        read_labelled(tmp_path / "x.jsonl")


@pytest.mark.parametrize("number", ["NaN", "1e999", "-Infinity"])
def test_a_number_that_is_none_is_named(number: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(f'{{"text": "a", "label": {number}}}\n', encoding="utf-8")

    with pytest.raises(ElmoError, match=r"x\.jsonl, line 1: label is .*: give a number, or leave the record out"):
        read_labelled(tmp_path / "x.jsonl")


def test_blanks_after_a_tag_are_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text("a\tO \nb\t B-X\n", encoding="utf-8")

    assert read_tagged(tmp_path / "x.conll") == [TaggedSentence(["a", "b"], ["O", "B-X"])]


def test_pieces_end_between_spans_without_types() -> None:
    pieces = list(cut_sentence(TaggedSentence(list("abcdef"), ["O", "O", "B", "I", "I", "O"]), 4))

    assert [tags for _, tags in pieces] == [["O", "O"], ["B", "I", "I", "O"]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a O\nb O\n\n\nc O\n", [["a", "b"], ["c"]]),
        ("1\ta\t_" + "\t_" * 7 + "\n1-2\tab" + "\t_" * 8 + "\n2\tb" + "\t_" * 8 + "\n", [["a", "b"]]),
        ("", []),
    ],
)
def test_words_alone(content: str, words: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text(content, encoding="utf-8")

    assert list(read_words(tmp_path / "x.conll")) == words


def test_texts_alone(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"tokens": ["a"], "id": 1}\n\n{"tokens": "b c"}\n', encoding="utf-8")

    assert list(read_texts(tmp_path / "x.jsonl")) == [["a"], "b c"]
    with pytest.raises(ElmoError, match=r"line 1: no column body; there are tokens, id"):
        list(read_texts(tmp_path / "x.jsonl", text="body"))
