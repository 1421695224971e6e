"""`cli.neighbours`: the table and the lines of JSON, the index, and what is refused in one line."""

import gzip
import json
from pathlib import Path

import pytest

from elmo_hf.cli import main
from support.cli_runs import Captured, error_of


pytestmark = pytest.mark.usefixtures("library_logging")

TEXT = "The bank raised rates.\n\nIt rained.\nThe river left its bank.\nBank on it.\nNo bank!\n"
QUERY = ["--text", "She sat on the bank.", "--word", "bank"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder with a text."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    return tmp_path


def test_shows_the_neighbours_in_their_sentences(bilm_model: Path, capsys: Captured) -> None:
    assert main(["neighbours", "text.txt.gz", *QUERY, "--same-word", "--model", str(bilm_model)]) == 0

    title, header, *rows = capsys.readouterr().out.splitlines()
    assert title == "# She sat on the [bank] ."
    assert header == "cosine  place          neighbour"
    assert sorted(row[8:21] for row in rows) == [f"text.txt.gz:{line}" for line in (1, 4, 5, 6)]
    assert {row[23:] for row in rows} == {
        "               The [bank] raised rates .",
        "The river left its [bank] .",
        "                   [Bank] on it .",
        "                No [bank] !",
    }
    cosines = [float(row[:6]) for row in rows]
    assert cosines == sorted(cosines, reverse=True)
    assert sorted(path.name for path in Path().iterdir()) == ["text.txt.gz"]


def test_an_index_is_made_once_and_answers_without_the_text(bilm_model: Path, capsys: Captured) -> None:
    model = ["--model", str(bilm_model), "--layers", "top"]
    assert main(["neighbours", "text.txt.gz", "--index", "corpus.index", *model]) == 0
    assert capsys.readouterr().out == "Wrote an index of 21 words in 5 sentences to corpus.index.\n"
    main(["neighbours", "text.txt.gz", *QUERY, *model])
    expected = capsys.readouterr().out
    Path("text.txt.gz").unlink()

    assert main(["neighbours", "--index", "corpus.index", *QUERY, *model[:2]]) == 0

    assert capsys.readouterr().out == expected


def test_writes_lines_of_json(bilm_model: Path, capsys: Captured) -> None:
    arguments = ["neighbours", "text.txt.gz", *QUERY, "--text", "No bank", "--top", "2", "--distinct"]
    arguments += ["--model", str(bilm_model), "--json-lines"]

    assert main([*arguments, "-"]) == main([*arguments, "found.jsonl"]) == 0

    lines = capsys.readouterr().out
    assert lines == Path("found.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in lines.splitlines()]
    assert [record["query"] for record in records] == ["She sat on the bank ."] * 2 + ["No bank"] * 2
    for record in records:
        assert record["query"].split()[record["query_position"]] == "bank"
        assert record["text"].split()[record["position"]] == record["word"]
        assert record["file"] == "text.txt.gz"
        assert record["text"] in TEXT.splitlines()[record["line"] - 1].replace(".", " .").replace("!", " !")


def test_tokenized_text_is_split_at_spaces(bilm_model: Path, capsys: Captured) -> None:
    arguments = ["--text", "bank. bank.", "--word", "bank.", "--occurrence", "2", "--same-word", "--tokenized"]

    assert main(["neighbours", "text.txt.gz", *arguments, "--model", str(bilm_model)]) == 0

    title, _, row = capsys.readouterr().out.splitlines()
    assert title == "# bank. [bank.]"
    assert row.endswith(" text.txt.gz:4  The river left its [bank.]")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.txt", *QUERY], "absent.txt is no file"),
        (["text.txt.gz", "--text", "No bank", "--word", "river"], "has no word 'river'"),
        (["text.txt.gz", *QUERY, "--layers", "9"], "There is no layer '9'"),
        (["text.txt.gz", *QUERY, "--json-lines", "text.txt.gz"], "text.txt.gz exists already"),
        (["text.txt.gz", *QUERY, "--index", "there"], "there exists already: leave out the files to search it"),
        (["empty.txt", *QUERY], "The corpus has no words"),
        (["--index", "absent", *QUERY], "absent is not an index of a corpus: make it with"),
    ],
)
def test_what_cannot_be_searched_is_one_line_and_leaves_nothing(
    arguments: list[str], message: str, capsys: Captured
) -> None:
    Path("empty.txt").touch()
    Path("there").mkdir()
    before = sorted(Path().iterdir())

    assert main(["neighbours", *arguments]) == 1

    assert message in error_of(capsys)
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (QUERY, "give FILE, --index, or both"),
        (["text.txt.gz", "--text", "a"], "--text and --word belong together"),
        (["text.txt.gz"], "give --text and --word"),
        (["--index", "there"], "give --text and --word"),
        (["text.txt.gz", *QUERY, "--top", "0"], "--top, --min-count and --batch-size must be 1 or more"),
    ],
)
def test_options_that_do_not_belong_together_are_wrong_usage(
    arguments: list[str], message: str, capsys: Captured
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["neighbours", *arguments])

    assert message in capsys.readouterr().err


def test_a_long_sentence_is_cut_around_the_word(bilm_model: Path, capsys: Captured) -> None:
    words = [f"word{number:02}" for number in range(20)]
    Path("long.txt").write_text(" ".join([*words, "bank", *words]), encoding="utf-8")

    main(["neighbours", "long.txt", *QUERY, "--same-word", "--model", str(bilm_model)])

    row = capsys.readouterr().out.splitlines()[2]
    assert row.endswith("  … word15 word16 word17 word18 word19 [bank] word00 word01 word02 word03 word04 …")


def test_an_interruption_leaves_no_index(bilm_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo_hf.embedding.index_files.IndexWriter.add", interrupted)

    assert main(["neighbours", "text.txt.gz", "--index", "corpus.index", "--model", str(bilm_model)]) == 130

    assert capsys.readouterr().err == "Interrupted: corpus.index was not written.\n"
    assert [path.name for path in Path().iterdir()] == ["text.txt.gz"]
