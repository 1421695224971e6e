"""`data.tagged` reads columns as they are found in the wild, or names the line that it cannot read."""

import gzip
import itertools
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from seqeval.metrics.sequence_labeling import get_entities

from elmo_hf.data.tagged import (
    TaggedSentence,
    cut_sentence,
    find_spans,
    load_tagged,
    read_conll_records,
    read_conll_words,
    read_tagged,
    tag_scheme,
    to_iob2,
)
from elmo_hf.errors import ElmoError
from support.data_files import save_dataset, written


PETER = TaggedSentence(["Peter", "sleeps"], ["B-PER", "O"])
PAUL = TaggedSentence(["Paul"], ["B-PER"])


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
        ("Peter\tB-PER\nsleeps\n", {}, "line 2: 'sleeps' does not have the columns 0 (word) and -1 (tag) of 2"),
        ("Peter B-PER\nNew York B-LOC\n", {}, "line 2: 'New York B-LOC' does not have the columns"),
        ("Peter\tB-PER\n# no comment\n", {}, "line 2: '# no comment' does not have the columns"),
        ("Peter\tB-PER\n\tO\n", {}, r"line 2: '\tO' does not have the columns"),
        ("Peter\t\n", {}, r"line 1: 'Peter\t' does not have the columns"),
        ("Peter sleeps\tO\n\nOnly text", {}, "line 3: 'Only text' does not have the columns"),
        ("Peter\n", {}, "line 1: 'Peter' does not have the columns 0 (word) and -1 (tag) of 1"),
        ("Peter\tO\n", {"tag_column": 2}, "line 1: 'Peter\\tO' does not have the columns 0 (word) and 2 (tag) of 2"),
        ("Peter\tO\n", {"tag_column": -3}, "line 1: 'Peter\\tO' does not have the columns 0 (word) and -3 (tag) of 2"),
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


def test_tags_of_a_data_set_get_their_names(datasets: Any, tmp_path: Path) -> None:
    tags = datasets.ClassLabel(names=["O", "B-PER"])
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner_tags": datasets.List(tags)})
    rows = {"tokens": [PETER.words, [], PAUL.words], "ner_tags": [[1, 0], [], [1]]}
    name = save_dataset(datasets.Dataset.from_dict(rows, features=features), tmp_path / "tagged")

    assert load_tagged(name, "train") == [PETER, PAUL]
    with pytest.raises(ElmoError, match=r"tagged, train: no column upos; there are tokens, ner_tags: name the one"):
        load_tagged(name, "train", tags="upos")
    with pytest.raises(ElmoError, match=r"tagged cannot be loaded \(.*\): check its name, configuration and split"):
        load_tagged(name, "test")


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(ElmoError, match=r"^A data set by name needs the library datasets: pip install datasets$"):
        load_tagged("conll", "train")


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

    assert list(read_conll_words(tmp_path / "x.conll")) == words


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-PER I-PER O B-PER B-PER", [("PER", 0, 2), ("PER", 3, 4), ("PER", 4, 5)]),
        ("B-PER I-LOC I-LOC", [("PER", 0, 1), ("LOC", 1, 3)]),
        ("I-PER I-PER B-PER O", [("PER", 0, 2), ("PER", 2, 3)]),
        ("B-PER I-PER E-PER S-PER S-LOC O", [("PER", 0, 3), ("PER", 3, 4), ("LOC", 4, 5)]),
        ("B-PER I-PER L-PER U-PER U-LOC O", [("PER", 0, 3), ("PER", 3, 4), ("LOC", 4, 5)]),
        ("B-PER-x I-PER-x", [("PER-x", 0, 2)]),
        ("B I O B", [("", 0, 2), ("", 3, 4)]),
        ("O O", []),
        ("", []),
    ],
)
def test_spans_of_each_scheme(tags: str, spans: list[tuple[str, int, int]]) -> None:
    assert find_spans(tags.split()) == spans


def test_spans_of_tags_that_break_their_scheme_are_those_of_seqeval() -> None:
    labels = ["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y"]
    for tags in itertools.product(labels, repeat=4):
        expected = [(label, start, last + 1) for label, start, last in get_entities(list(tags))]
        assert find_spans(tags) == expected, tags
        # BILOU has other names for the last and the only word
        renamed = [tag.replace("E-", "L-").replace("S-", "U-") for tag in tags]
        assert find_spans(renamed) == expected, tags


def records(path: Path, content: str, **columns: int) -> list[dict[str, Any]]:
    path.write_text(content, encoding="utf-8")
    return list(read_conll_records(path, **columns))


def test_a_word_with_a_number_sign_is_none_of_the_comments(tmp_path: Path) -> None:
    content = "# of\nThey\t-\t(A1*\nsaw\tsee\t*)\n\n#mood\t-\t*\t*\nran\trun\t*\t*\n"

    read = records(tmp_path / "a.conll", content, predicate_column=1)

    assert read == [{"words": ["They", "saw"], "predicates": [1]}, {"words": ["#mood", "ran"], "predicates": [1]}]


@pytest.mark.parametrize("more", [0, 2])
def test_conll_u_may_have_more_columns(more: int, tmp_path: Path) -> None:
    rows = [("1-2", "dont", "_"), ("1", "do", "do"), ("2", "not", "not"), ("2.1", "x", "x"), ("3", "go", "go")]
    content = "".join("\t".join([*row, "VERB", *["_"] * (6 + more)]) + "\n" for row in rows)

    (read,) = records(tmp_path / "a.conllup", content)

    assert read == {"words": ["do", "not", "go"], "lemmas": ["do", "not", "go"], "pos": ["VERB"] * 3}


def test_columns_that_nobody_asked_for_may_be_missing_or_chosen_twice(tmp_path: Path) -> None:
    content = "1\tdo\t\tV\t_\t_\t_\t_\t_\t_\n"

    assert records(tmp_path / "a", content) == [{"words": ["do"], "lemmas": ["_"], "pos": ["V"]}]
    assert records(tmp_path / "a", content, predicate_column=3)[0]["predicates"] == [0]
    with pytest.raises(ElmoError, match=r"columns 1 \(word\) and 1 \(predicate\) of 10, each with something else"):
        records(tmp_path / "a", content, predicate_column=1)


@pytest.mark.parametrize("columns", [2, 5, 13])
def test_other_formats_that_begin_documents_have_columns_of_their_own(columns: int, tmp_path: Path) -> None:
    content = f"#begin document x\n{' '.join(['They', 'O', 'c', 'd', 'e', *'fghijklm'][:columns])}\n#end document\n"

    assert records(tmp_path / "a", content) == [{"words": ["They"]}]


def test_ten_columns_with_spaces_are_no_conll_u(tmp_path: Path) -> None:
    assert records(tmp_path / "a", "1-2 0 0 w0 VB * go 01 - -\n", word_column=3) == [{"words": ["w0"]}]
