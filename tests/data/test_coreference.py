"""`data.coreference`: documents in JSON Lines and in the columns of CoNLL-2012, both ways, and what is refused."""

import gzip
import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from elmo_hf import ElmoError
from elmo_hf.data.coreference import (
    Document,
    document_of,
    drop_singletons,
    load_documents,
    merge_clusters,
    read_documents,
    write_conll_documents,
    write_json_documents,
)


STORY = Document(
    "nw/story",
    [["Ann", "saw", "Bob", "'s", "dog", "."], ["She", "fed", "his", "dog", "it", "liked"]],
    [[(0, 0), (6, 6)], [(2, 2), (8, 8)], [(2, 4), (8, 9), (10, 10)]],
)
# the mentions are at the columns' ends, as OntoNotes has them
CONLL = """\
#begin document (nw/story); part 002
nw/story\t2\t0\tAnn\tNNP\t(S*\t-\t-\t-\tme\t*\t-\t(5)
nw/story\t2\t1\tsaw\tVBD\t*\tsee\t01\t1\tme\t*\t(V*)\t-

nw/story   2   0   the    DT  *  -  -  -  you  *  -  (5|(7
nw/story   2   1   friend NN  *  -  -  -  you  *  -  5)
nw/story   2   2   of     IN  *  -  -  -  you  *  -  -
nw/story   2   3   Bob    NNP *  -  -  -  you  *  -  (5)|7)|(9)

#end document
"""


def test_reads_conll_2012(tmp_path: Path) -> None:
    (tmp_path / "x.v4_gold_conll").write_text(CONLL, encoding="utf-8")

    (document,) = read_documents(tmp_path / "x.v4_gold_conll")

    assert document == Document(
        "nw/story",
        [["Ann", "saw"], ["the", "friend", "of", "Bob"]],
        # 5 and 9 share the mention of Bob
        [[(0, 0), (2, 3), (5, 5)], [(2, 5)]],
        [["me", "me"], ["you"] * 4],
        2,
    )


def test_mentions_of_a_cluster_that_begin_or_end_at_the_same_word(tmp_path: Path) -> None:
    marks = ["(3|(3", "3)", "3)", "(3|(3)", "3)|(4", "4)"]
    lines = [f"x 0 {number} w {mark}" for number, mark in enumerate(marks)]
    text = "\n".join(["#begin document (x); part 000", *lines, "#end document"])
    (tmp_path / "x.conll").write_text(text, encoding="utf-8")

    (document,) = read_documents(tmp_path / "x.conll")

    assert document.clusters == [[(0, 1), (0, 2), (3, 3), (3, 4)], [(4, 5)]]
    assert document.speakers is None


@pytest.mark.parametrize("write", [write_conll_documents, write_json_documents])
def test_what_is_written_is_read_again(write: Any, tmp_path: Path) -> None:
    documents = [
        STORY,
        STORY._replace(name="other", part=3, speakers=[["A"] * 6, ["B"] * 6]),
        Document("empty", [], []),
        # a comment begins as this name does, and other white space than spaces and tabs belongs to a word
        Document("#1", [["Hà\u00a0Nội", "it"]], [[(0, 0), (1, 1)]]),
        Document("in\ttwo", [["a", "it"], ["b"]], [[(0, 1), (2, 2)]]),
    ]
    file = io.StringIO()
    write(documents, file)
    with gzip.open(tmp_path / "x.gz", "wt", encoding="utf-8") as packed:
        packed.write(file.getvalue())

    assert read_documents(tmp_path / "x.gz") == documents


def test_writes_nested_mentions_as_the_reference_scorer_reads_them() -> None:
    file = io.StringIO()
    write_conll_documents([STORY], file)

    cells = [line.split("\t") for line in file.getvalue().splitlines() if "\t" in line]
    assert [cell[-1] for cell in cells] == [
        "(0)",
        "-",
        "(2|(1)",
        "-",
        "2)",
        "-",
        "(0)",
        "-",
        "(2|(1)",
        "2)",
        "(2)",
        "-",
    ]
    assert {len(cell) for cell in cells} == {12}
    assert [cell[2:4] for cell in cells[5:7]] == [["5", "."], ["0", "She"]]


def test_fields_of_a_record() -> None:
    record = {"doc_key": "k", "sentences": [["a"], ["b", "c"]], "clusters": [[[1, 2]], [[0, 0], [2, 2]]]}

    assert document_of(record, 7) == Document("k", [["a"], ["b", "c"]], [[(0, 0), (2, 2)], [(1, 2)]])
    assert document_of({"sentences": [["a"]]}, 7) == Document("7", [["a"]], [])


def test_mentions_of_preco_are_counted_in_their_sentences() -> None:
    record = {"id": "x", "sentences": STORY.sentences, "mention_clusters": [[[0, 0, 1], [1, 0, 1]], [[0, 2, 5]]]}

    assert document_of(record, 1).clusters == [[(0, 0), (6, 6)], [(2, 4)]]


@pytest.mark.parametrize(
    ("mentions", "message"),
    [
        ([[[0, 2, 7]]], r"the mention \[0, 2, 7\] is not in its sentence"),
        ([[[2, 0, 1]]], r"the mention \[2, 0, 1\] is not in its sentence"),
        ([[[0, 1]]], r"mention_clusters is .*: give lists of mentions, each \[sentence, first, end\]"),
        (3, "mention_clusters is 3"),
    ],
)
def test_mentions_of_preco_that_are_refused(mentions: Any, message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        document_of({"sentences": STORY.sentences, "mention_clusters": mentions}, 1)


def test_clusters_that_share_a_mention_become_one(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        merged = merge_clusters([[(4, 4), (0, 0)], [(2, 2), (2, 2)], [(4, 4), (5, 5)], []], "x")

    assert merged == [[(0, 0), (4, 4), (5, 5)], [(2, 2)]]
    assert caplog.messages == ["x: clusters that share a mention are read as one."]


def test_singletons_are_dropped_on_demand() -> None:
    document = STORY._replace(clusters=[*STORY.clusters, [(5, 5)]])

    assert drop_singletons(document) == STORY


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({}, "sentences is None"),
        ({"sentences": ["a b"]}, "sentences is ['a b']: give a list of sentences"),
        ({"sentences": [["a"]], "clusters": {"x": 1}}, "clusters is {'x': 1}"),
        ({"sentences": [["a"]], "clusters": [[[0, 1]]]}, "the mention [0, 1] is not [first, last]"),
        ({"sentences": [["a", "b"]], "clusters": [[[1, 0]]]}, "the mention [1, 0]"),
        ({"sentences": [["a"]], "clusters": [[[0]]]}, "the mention [0]"),
        ({"sentences": [["a"]], "clusters": [[0]]}, "the mention 0"),
        ({"sentences": [["a"]], "clusters": [[[0, True]]]}, "the mention [0, True]"),
        ({"sentences": [["a"]], "speakers": [["x", "y"]]}, "speakers are not one for each word"),
        ({"sentences": [["a"]], "part": "1"}, "part is '1'"),
        ([], "sentences is None"),
    ],
)
def test_records_that_are_refused(record: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'\n{{"sentences": [["a"]]}}\n{json.dumps(record)}\n', encoding="utf-8")

    with pytest.raises(ElmoError) as caught:
        read_documents(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no documents"),
        ("x 0 0 w -", "line 1: 'x 0 0 w -' stands in no document"),
        ("#begin document (x); part 000\nx 0 w -", "line 2: 'x 0 w -' does not have the columns"),
        ("#begin document (x); part 000\nx 0 0 w (3", "line 2: the last document does not end"),
        ("#begin document (x)\nx 0 0 w (3\n#end document", "line 3: a mention of 3 in x has no end"),
        ("#begin document (x)\nx 0 0 w 3)\n#end document", "line 2: a mention of 3 ends"),
        ("#begin document (x)\nx 0 0 w 3\n#end document", "line 2: '3' marks no mentions"),
        ("#begin document (x)\n#begin document (y)", "line 2: a document begins before"),
        ('{"sentences": [["a"]]}\n{', "line 2: not JSON"),
    ],
)
def test_files_that_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text, encoding="utf-8")

    with pytest.raises(ElmoError, match=r"^[^\n]*$") as caught:
        read_documents(tmp_path / "x")
    assert message in str(caught.value)


def test_words_that_cannot_stand_in_a_column_are_refused() -> None:
    with pytest.raises(ElmoError, match="'a b' cannot stand in a column: choose JSON Lines"):
        write_conll_documents([Document("x", [["a b"]], [])], io.StringIO())


@pytest.mark.parametrize("mentions", [[(0, 2), (1, 3)], [(0, 1), (1, 3)]], ids=["cross", "share a word"])
def test_mentions_of_a_cluster_that_cross_are_for_json_lines(mentions: list[tuple[int, int]]) -> None:
    words = [["a", "b", "c", "d"]]
    with pytest.raises(ElmoError, match=r"^x has a mention, \[1, 3\], that crosses another one of its cluster"):
        write_conll_documents([Document("x", words, [mentions])], io.StringIO())
    # columns tell those of two clusters apart
    write_conll_documents([Document("x", words, [[mention] for mention in mentions])], io.StringIO())


@pytest.mark.usefixtures("datasets")
def test_loads_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with (tmp_path / "data" / "train.jsonl").open("w", encoding="utf-8") as file:
        write_json_documents([STORY], file)

    assert load_documents(str(tmp_path / "data"), "train") == [STORY]
    with pytest.raises(ElmoError, match="cannot be loaded"):
        load_documents(str(tmp_path / "data"), "test")
