"""`cli.reading`: the format of a file by its suffix, and what an option changes."""

import argparse
import io
import sys
from pathlib import Path

import pytest

from elmo_hf.cli.reading import add_reading, add_source, check_source, format_of, read_input
from elmo_hf.embedding.sentences import Sentence
from support.cli_runs import Captured


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_source(parser)
    add_reading(parser.add_argument_group("input"))
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a.txt"], "text"),
        (["a"], "text"),
        (["-"], "text"),
        (["--text=a.csv"], "text"),
        (["a.conll.gz"], "conll"),
        (["a.b.fasta"], "fasta"),
        (["a.jsonl.xz"], "jsonl"),
        (["a.csv"], "jsonl"),
        (["a.tsv.bz2"], "jsonl"),
        (["a.csv", "--format=text"], "text"),
    ],
)
def test_the_suffix_tells_the_format_unless_an_option_does(arguments: list[str], expected: str) -> None:
    assert format_of(parsed(*arguments)) == expected


def with_model(*arguments: str) -> argparse.Namespace:
    """Parse arguments as a command does that takes a model, too."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    add_source(parser)
    parser.add_argument("--flag", action="store_true")
    parser.set_defaults(wrong_usage=parser.error)
    options = parser.parse_args(arguments)
    check_source(options)
    return options


@pytest.mark.parametrize(
    ("arguments", "file", "text"),
    [
        (["m", "--flag", "f"], "f", None),
        (["m", "--text", "a", "--flag", "--text", ""], None, ["a", ""]),
        (["--text", "a", "m"], None, ["a"]),
    ],
)
def test_the_command_line_gives_a_file_or_texts(
    arguments: list[str], file: str | None, text: list[str] | None
) -> None:
    options = with_model(*arguments)

    assert (options.model, options.file, options.text) == ("m", file, text)


def test_a_file_beside_texts_and_neither_are_wrong_usage(capsys: Captured) -> None:
    for arguments in (["m"], ["m", "f", "--text", "a"], ["m", "--text", "a", "f"]):
        with pytest.raises(SystemExit, match="2"):
            with_model(*arguments)
    assert capsys.readouterr().err.count("give FILE or --text, not both") == 2


def test_tokenized_splits_lines_and_leaves_records_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("didn't  stop.\n\n", encoding="utf-8")
    lines = read_input(parsed(str(tmp_path / "a.txt"), "--tokenized"), lambda _: [])
    assert list(lines) == [Sentence("didn't  stop.", ["didn't", "stop."]), Sentence("", [])]

    records = [{"text": "a b", "id": 1}]
    assert list(read_input(parsed("a.csv", "--tokenized"), lambda _: records)) == records


@pytest.mark.parametrize(
    ("text", "arguments", "noted"),
    [("Ana\tB-PER\nvive\tO\n", [], True), ("Ana\n", [], False), ("Ana\tO\n", ["--format=text"], False)],
)
def test_columns_on_standard_input_without_a_format_are_noted(
    text: str, arguments: list[str], noted: bool, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))

    assert list(read_input(parsed("-", *arguments), lambda _: [])) == text.splitlines()

    assert capsys.readouterr().err.count("note: lines with TAB are read as sentences: give --format conll") == noted


def test_a_protein_has_its_identifier(tmp_path: Path) -> None:
    (tmp_path / "p.fasta").write_text(">1abc/A chain A\nSEq\n", encoding="utf-8")

    assert list(read_input(parsed(str(tmp_path / "p.fasta")), lambda _: [])) == [
        Sentence("SEQ", ["S", "E", "Q"], "1abc/A")
    ]
