"""`elmo-hf build-vocab`: a vocabulary of text files, a summary, and one line where it cannot be made."""

import gzip
import re
from pathlib import Path

import pytest

from elmo_hf.cli import main


Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder of two texts."""
    monkeypatch.chdir(tmp_path)
    Path("one.txt").write_text("the bank of the river\n\nthe bank\n", encoding="utf-8")
    Path("two.txt.gz").write_bytes(gzip.compress(b"the river rose\n"))


def test_writes_the_vocabulary_and_says_what_it_covers(capsys: Captured) -> None:
    assert main(["build-vocab", "one.txt", "two.txt.gz", "--output", "vocab.txt", "--min-count", "2"]) == 0

    assert Path("vocab.txt").read_text(encoding="utf-8") == "<S>\n</S>\n<UNK>\nthe\nbank\nriver\n"
    assert capsys.readouterr() == (
        "Wrote 6 words to vocab.txt, <S>, </S>, <UNK> included.\n"
        "The text has 10 words, 5 of them distinct.\n"
        "The vocabulary covers 80.00% of the text.\n",
        "",
    )


def test_keeps_the_most_frequent_words(capsys: Captured) -> None:
    assert main(["build-vocab", "*.txt*", "--output", "vocab.txt", "--max-size", "4"]) == 0

    assert Path("vocab.txt").read_text(encoding="utf-8") == "<S>\n</S>\n<UNK>\nthe\n"
    assert "covers 40.00% of" in capsys.readouterr().out


def test_warns_of_a_vocabulary_of_raw_text_that_was_split_at_white_space(capsys: Captured) -> None:
    Path("raw.txt").write_text("La bolsa cayó hoy, dijo Ana (EFE).\n", encoding="utf-8")

    assert main(["build-vocab", "raw.txt", "--output", "good.txt", "--min-count", "1"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["build-vocab", "raw.txt", "--output", "bad.txt", "--tokenized", "--min-count", "1"]) == 0

    assert capsys.readouterr().err == (
        "elmo-hf: warning: 14.3% of these words end in punctuation, such as hoy,: for raw text, leave out --tokenized "
        "and --pre-tokenizer whitespace.\n"
    )


def test_shows_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("elmo_hf.cli.text.shows_progress", lambda: True)

    assert main(["build-vocab", "one.txt", "--output", "vocab.txt"]) == 0

    assert "7.00 words [" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.txt"], "missing.txt is no file"),
        (["one.txt", "--min-count", "0"], "min_count is 0"),
        # found before the text is read
        (["bad.txt", "--max-size", "2"], "max_size is 2"),
        (["bad.txt"], "bad.txt, line 1: byte 0xe9 is not UTF-8"),
        (["bad.txt", "--wrapped"], "--wrapped has no meaning without --split-sentences"),
        (["bad.txt", "--split-sentences", "english"], "'english' is no code of a language"),
        (["empty.txt"], "empty.txt: there are no words"),
        (["one.txt", "--output", "one.txt"], "one.txt exists already"),
        (["bad.txt", "--output", "missing/vocab.txt"], "missing is not a folder"),
    ],
)
def test_an_error_is_one_line_and_leaves_nothing(arguments: list[str], message: str, capsys: Captured) -> None:
    Path("bad.txt").write_bytes(b"\xe9t\xe9\n")
    Path("empty.txt").write_text(" \n", encoding="utf-8")
    before = sorted(Path().iterdir())

    assert main(["build-vocab", "--output", "vocab.txt", *arguments]) == 1

    assert re.fullmatch(rf"elmo-hf: error: {re.escape(message)}[^\n]*\n", capsys.readouterr().err)
    assert sorted(Path().iterdir()) == before
