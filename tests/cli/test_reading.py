"""`cli.reading`: the format of a file by its suffix, and what an option changes."""

import argparse
from pathlib import Path

import pytest

from elmo_hf.cli.reading import add_reading, add_source, format_of, read_input
from elmo_hf.embedding.sentences import Sentence


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


def test_the_command_line_gives_texts_or_a_file_and_not_both() -> None:
    for arguments in ([], ["a.txt", "--text=b"]):
        with pytest.raises(SystemExit, match="2"):
            parsed(*arguments)


def test_tokenized_splits_lines_and_leaves_records_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("didn't  stop.\n\n", encoding="utf-8")
    lines = read_input(parsed(str(tmp_path / "a.txt"), "--tokenized"), lambda _: [])
    assert list(lines) == [Sentence("didn't  stop.", ["didn't", "stop."]), Sentence("", [])]

    records = [{"text": "a b", "id": 1}]
    assert list(read_input(parsed("a.csv", "--tokenized"), lambda _: records)) == records


def test_a_protein_has_its_identifier(tmp_path: Path) -> None:
    (tmp_path / "p.fasta").write_text(">1abc/A chain A\nSEq\n", encoding="utf-8")

    assert list(read_input(parsed(str(tmp_path / "p.fasta")), lambda _: [])) == [
        Sentence("SEQ", ["S", "E", "Q"], "1abc/A")
    ]
