"""`data.frames`: JSON Lines and both kinds of columns, there and back, and what is refused."""

import gzip
import io
import json
from pathlib import Path

import pytest

from elmo_hf import ElmoError
from elmo_hf.data.frames import (
    Frame,
    FramedSentence,
    cells_of_tags,
    load_frames,
    read_frames,
    tags_of_cells,
    write_conll_frames,
    write_json_frames,
)


SAW = Frame(1, ["B-ARG0", "B-V", "B-ARG1", "I-ARG1", "O"], "see", "see.01")
LEFT = Frame(3, ["O", "O", "B-ARG0", "B-V", "O"], "leave", None)
SENTENCE = FramedSentence(["Ann", "saw", "Bob", "leave", "."], [SAW, LEFT], key="s1", pos=None)
NOTHING = FramedSentence(["Yes", "."], [])


CONLL_2005 = """\
Ann    NNP  -       (ARG0*)    *
saw    VBD  see     (V*)       *
Bob    NNP  -       (ARG1*     (ARG0*)
leave  VB   leave   *)         (V*)
.      .    -       *          *

Yes    UH   -
.      .    -
"""

CONLL_2012 = """\
#begin document (bn/x); part 000
bn/x 0 0 Ann   NNP (S(NP*) -     -  - A  *      (ARG0*) *       (1)
bn/x 0 1 saw   VBD (VP*    see   01 1 A  *      (V*)    *       -
bn/x 0 2 Bob   NNP (S(NP*) -     -  - A  (PER*) (ARG1*  (ARG0*) (2)
bn/x 0 3 leave VB  (VP*))) leave 01 - A  *      *)      (V*)    -
bn/x 0 4 .     .   *)      -     -  - A  *      *       *       -

bn/x 0 0 Yes   UH  (S*     trade -  3 A  *      -
bn/x 0 1 .     .   *)      -     -  - A  *      -

#end document
"""


def written(write: object, sentences: list[FramedSentence]) -> str:
    file = io.StringIO()
    write(sentences, file)
    return file.getvalue()


def test_json_lines_there_and_back(tmp_path: Path) -> None:
    sentences = [SENTENCE, NOTHING, FramedSentence(["Go"], [Frame(0, ["B-V"])], pos=["VB"])]
    text = written(write_json_frames, sentences)
    with gzip.open(tmp_path / "x.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(f"\n{text}")

    assert read_frames(tmp_path / "x.jsonl.gz") == sentences
    assert json.loads(text.splitlines()[0])["frames"][1] == {"pred": 3, "lemma": "leave", "tags": LEFT.tags}


def test_a_predicate_may_have_its_whole_name(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"words": ["Go"], "frames": [{"predicate": 0, "tags": ["B-V"]}]}')

    assert read_frames(tmp_path / "x.jsonl") == [FramedSentence(["Go"], [Frame(0, ["B-V"])])]


def test_columns_of_conll_2005(tmp_path: Path) -> None:
    (tmp_path / "x.props").write_text(CONLL_2005, encoding="utf-8")

    assert read_frames(tmp_path / "x.props") == [
        FramedSentence(SENTENCE.words, [SAW._replace(sense=None), LEFT]),
        NOTHING,
    ]


def test_columns_of_conll_2012(tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text(CONLL_2012, encoding="utf-8")

    assert read_frames(tmp_path / "x.conll") == [
        FramedSentence(SENTENCE.words, [SAW, LEFT._replace(sense="leave.01")], pos=["NNP", "VBD", "NNP", "VB", "."]),
        FramedSentence(["Yes", "."], [], pos=["UH", "."]),
    ]


def test_the_predicate_of_several_words_is_the_one_with_a_sense(tmp_path: Path) -> None:
    rows = [("give", "-", "-", "(V*"), ("up", "give", "02", "*)")]
    text = "".join(f"x 0 {n} {word} VB * {lemma} {sense} - A * {cell} -\n" for n, (word, lemma, sense, cell) in
                   enumerate(rows))  # fmt: skip
    (tmp_path / "x.conll").write_text(f"#begin document (x); part 000\n{text}", encoding="utf-8")

    assert read_frames(tmp_path / "x.conll")[0].frames == [Frame(1, ["B-V", "I-V"], "give", "give.02")]


def test_columns_there_and_back(tmp_path: Path) -> None:
    text = written(write_conll_frames, [SENTENCE._replace(frames=[LEFT, SAW]), NOTHING])
    (tmp_path / "x.conll").write_text(text, encoding="utf-8")

    assert text.splitlines()[3] == "leave\tleave\t*)\t(V*)"
    assert read_frames(tmp_path / "x.conll") == [
        FramedSentence(SENTENCE.words, [SAW._replace(sense=None), LEFT]),
        NOTHING,
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        # white space other than spaces and tabs belongs to a word
        FramedSentence(["Hà\u00a0Nội", "is"], [Frame(1, ["B-A1", "B-V"], "be")]),
        # a column of asterisks would be one of roles
        FramedSentence(["*"], [Frame(0, ["B-V"], "_")]),
    ],
)
def test_odd_words_there_and_back(sentence: FramedSentence, tmp_path: Path) -> None:
    unnamed = sentence._replace(frames=[frame._replace(lemma=None) for frame in sentence.frames])
    for given in (sentence, unnamed):
        (tmp_path / "x.conll").write_text(written(write_conll_frames, [given]), encoding="utf-8")
        (found,) = read_frames(tmp_path / "x.conll")
        assert (found.words, found.frames[0].tags) == (sentence.words, sentence.frames[0].tags)


def test_a_predicate_that_looks_like_nothing_gets_another_name() -> None:
    sentence = FramedSentence(["two", "-"], [Frame(0, ["B-V", "O"], "-"), Frame(1, ["O", "B-V"])])

    assert written(write_conll_frames, [sentence]) == "two\ttwo\t(V*)\t*\n-\t_\t*\t(V*)\n\n"


@pytest.mark.parametrize(
    ("cells", "tags"),
    [
        (["(A0*)", "(V*)", "(A1*", "*", "*)"], ["B-A0", "B-V", "B-A1", "I-A1", "I-A1"]),
        (["*", "(C-A1*A1)", "(A1*)", "(A1*)"], ["O", "B-C-A1", "B-A1", "B-A1"]),
        ([], []),
    ],
)
def test_brackets_become_tags(cells: list[str], tags: list[str]) -> None:
    assert tags_of_cells(cells) == tags


def test_tags_become_brackets() -> None:
    assert cells_of_tags(["B-A0", "B-V", "B-A1", "I-A1", "O", "B-A1"]) == ["(A0*)", "(V*)", "(A1*", "*)", "*", "(A1*)"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"x holds no sentences: give JSON Lines with words and frames"),
        ('{"words": ["a"]', r"x, line 1: not JSON"),
        ('\n{"words": "a", "frames": []}', r"x, line 2: words are 'a': give a list of words"),
        ('{"words": ["a"]}', r"x, line 1: frames are None: give a list"),
        ('{"words": ["a"], "frames": [3]}', r"frames are \[3\]: give a list"),
        ('{"words": ["a"], "frames": [], "pos": []}', r"pos is \[\]: give a part of speech for each of 1 word\."),
        ('{"words": ["a"], "frames": [{"pred": 0, "tags": []}]}', r"tags are \[\]: give a tag for each of 1 word\."),
        ('{"words": ["a"], "frames": [{"pred": 0, "tags": ["V"]}]}', r"a tag is 'V': give O, or a role with B- or I-"),
        (
            '{"words": ["a"], "frames": [{"pred": 0, "tags": ["B-"]}]}',
            r"a tag is 'B-': give O, or a role with B- or I-",
        ),
        ('{"words": ["a"], "frames": [{"pred": 1, "tags": ["O"]}]}', r"a predicate is 1: give 0 to 0, the number"),
        ('{"words": ["a"], "frames": [{"tags": ["O"]}]}', r"a predicate is None: give 0 to 0, the number"),
        ('{"words": [], "frames": [{"pred": 0, "tags": []}]}', r"a predicate is 0: give none, because there are no"),
        ("a -\nb", r"x, line 1: the sentence that begins here has words with 1 and with 2 columns"),
        ("a\nb", r"x, line 1: .* has no column of predicates behind its words"),
        ("a -\n\nb see\n", r"x, line 3: .* has 1 predicate in column 2 and 0 columns of roles behind it"),
        ("a see (A0*", r"x, line 1: .* has the role A0 without its end: close it"),
        ("a see (A0(A1*))", r"x, line 1: .* has '\(A0\(A1\*\)\)' in a column of roles: give roles beside each other"),
        ("a see (A0*\nb - (A1*))", r"has '\(A1\*\)\)' in a column of roles"),
        ("a see *)", r"has '\*\)' in a column of roles"),
        ("#begin document (x); part 0\na b", r"x, line 2: .* has 2 columns: CoNLL-2012 has 12 or more"),
        ("#begin document\nx 0 0 a N * - - - A * (A0*) -", r"has no \(V\*\) in column 12: mark the predicate"),
    ],
)
def test_what_cannot_be_read_is_named(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x").write_text(text, encoding="utf-8")

    with pytest.raises(ElmoError, match=message):
        read_frames("x")


def test_what_columns_cannot_hold_is_refused() -> None:
    with pytest.raises(ElmoError, match=r"'Ann saw Bob leave \.' has two frames of one predicate, which columns"):
        write_conll_frames([SENTENCE._replace(frames=[SAW, SAW])], io.StringIO())
    with pytest.raises(ElmoError, match=r"^'New York' cannot stand in a column of 'New York': choose JSON"):
        write_conll_frames([NOTHING, FramedSentence(["New York"], [])], io.StringIO())


def test_a_data_set_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"words": ["Go"], "frames": [{"pred": 0, "tags": ["B-V"], "lemma": None}]}]
    monkeypatch.setattr("elmo_hf.data.frames.load_split", lambda *_: records)

    assert load_frames("some", "train") == [FramedSentence(["Go"], [Frame(0, ["B-V"])])]
    records[0]["words"] = None
    with pytest.raises(ElmoError, match="some, train, record 1: words are None"):
        load_frames("some", "train")
    records.clear()
    with pytest.raises(ElmoError, match="some, train: there are no sentences"):
        load_frames("some", "train")
    for frame, wrong in (
        (LEFT._replace(lemma="go away"), "'go away'"),
        (Frame(1, ["O", "B-A(", *"OOO"]), r"'\(A\(\*\)'"),
    ):
        with pytest.raises(ElmoError, match=f"^{wrong} cannot stand in a column of 'Ann saw Bob leave"):
            write_conll_frames([SENTENCE._replace(frames=[frame])], io.StringIO())
