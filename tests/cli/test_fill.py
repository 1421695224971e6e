"""`cli.fill`: words for the masks of a text, for those of a file, and in place of a word."""

import io
import json
import sys
from pathlib import Path

import pytest

from elmo_hf.cli import main
from support.cli_runs import Captured, error_of


pytestmark = pytest.mark.usefixtures("library_logging")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader's folder."""
    monkeypatch.chdir(tmp_path)


def test_shows_the_words_for_each_mask(capsys: Captured) -> None:
    # elmo-small-en has learned this
    assert main(["fill", "the people of the United [MASK] .", "I do not <MASK> what you [MASK].", "--top", "2"]) == 0

    tables = [table.splitlines() for table in capsys.readouterr().out.split("\n\n")]
    assert [table[0] for table in tables] == [
        "# the people of the United [MASK] .",
        "# I do not [MASK] what you <MASK> .",
        "# I do not <MASK> what you [MASK] .",
    ]
    assert [len(table) for table in tables] == [4, 4, 4]
    assert tables[0][2].split()[1] == "States"
    assert 0.5 < float(tables[0][2].split()[0]) < 1


def test_substitutes_a_word_in_place(capsys: Captured) -> None:
    assert main(["fill", "the people of the United Nations .", "--word", "nations", "--top", "1"]) == 0

    title, _, row = capsys.readouterr().out.splitlines()
    assert title == "# the people of the United [Nations] ."
    assert row.split()[1] == "States"


def test_reads_a_file_and_writes_lines_of_json(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "It rained.\n\nthe people of the United [MASK].\nthe [MASK] of the [MASK]\n"
    Path("text.txt").write_text(text, encoding="utf-8")
    arguments = ["--top", "2", "--json-lines"]

    assert main(["fill", "--file", "text.txt", *arguments, "found.jsonl"]) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))
    assert main(["fill", "--file", "-", *arguments, "-"]) == 0

    records = [json.loads(line) for line in Path("found.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(record["line"], record["position"]) for record in records] == [(3, 5)] * 2 + [(4, 1)] * 2 + [(4, 4)] * 2
    assert records[0]["text"] == "the people of the United <MASK> ."
    assert records[0]["word"] == "States"
    assert set(records[0]) == {
        "file", "line", "text", "position", "word", "probability", "forward_nats", "backward_nats"
    }  # fmt: skip
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed == [{**record, "file": "-"} for record in records]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["It rained ."], "'It rained .' has no [MASK]: write it where a word is missing"),
        (["It rained .", "--word", "bank"], "'It rained .' has no word 'bank': give a word of the text."),
        (["--file", "text.txt"], "text.txt: the text has no [MASK]"),
        (["--file", "absent.txt"], "absent.txt is no file"),
        (["a [MASK]", "--json-lines", "text.txt"], "text.txt exists already"),
        (["a [MASK]", "--model", "absent"], "absent is not a model folder"),
    ],
)
def test_what_cannot_be_filled_is_one_line_and_leaves_nothing(
    arguments: list[str], message: str, capsys: Captured
) -> None:
    Path("text.txt").write_text("It rained .\n", encoding="utf-8")

    assert main(["fill", *arguments]) == 1

    assert message in error_of(capsys)
    assert [path.name for path in Path().iterdir()] == ["text.txt"]


def test_sentences_of_a_paragraph_are_filled_one_by_one(capsys: Captured) -> None:
    pytest.importorskip("sentencex")
    Path("text.txt").write_text("It rained. the people of the United [MASK] agreed.\n", encoding="utf-8")

    assert main(["fill", "--file", "text.txt", "--split-sentences", "en", "--top", "1"]) == 0

    assert capsys.readouterr().out.startswith("# the people of the United [MASK] agreed .\n")


def test_a_model_without_a_softmax_is_one_line(bilm_model: Path, capsys: Captured) -> None:
    assert main(["fill", "a [MASK]", "--model", str(bilm_model)]) == 1

    assert "has no softmax" in error_of(capsys)


@pytest.mark.parametrize(
    "arguments",
    [[], ["a [MASK]", "--file", "b"], ["a [MASK]", "--top", "0"], ["a [MASK]", "--split-sentences", "en"]],
    ids=str,
)
def test_options_that_do_not_belong_together_are_wrong_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["fill", *arguments])


def test_an_interruption_leaves_no_file(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo_hf.training.filling.WordFiller.fill", interrupted)

    assert main(["fill", "the [MASK] .", "--json-lines", "found.jsonl"]) == 130

    assert capsys.readouterr().err == "Interrupted: found.jsonl was not written.\n"
    assert not list(Path().iterdir())
