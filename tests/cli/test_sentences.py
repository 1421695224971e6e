"""`elmo-hf split-sentences`: the sentences of a text, one a line, as the other commands read them."""

import io
import sys
from pathlib import Path

import pytest

from elmo_hf.cli import main


BOOK = "CHAPTER I\n\nThe king slept\nwell. Dr. Smith woke\nup.\n\nNo.\n"
SENTENCES = "CHAPTER I\nThe king slept well.\nDr. Smith woke up.\nNo.\n"


def test_writes_a_sentence_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text(BOOK, encoding="utf-8")
    arguments = ["split-sentences", "book.txt", "--language", "en", "--wrapped"]

    assert main([*arguments, "--output", "out.txt"]) == 0
    assert Path("out.txt").read_text(encoding="utf-8") == SENTENCES
    assert capsys.readouterr().out == "Wrote 4 sentences to out.txt.\n"

    assert main(arguments) == 0
    assert capsys.readouterr().out == SENTENCES

    # the same lines from standard input, each a paragraph
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"One. Two!\n\nThree?\n"))))
    assert main(["split-sentences", "-", "--language", "en"]) == 0
    assert capsys.readouterr().out == "One.\nTwo!\nThree?\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.txt", "--language", "en"], "none.txt is no file, and no pattern that matches one: check the name."),
        (
            ["empty.txt", "--language", "en", "--output", "new.txt"],
            "empty.txt: there are no sentences: check the text.",
        ),
        (["empty.txt", "--language", "en", "--output", "empty.txt"], "empty.txt exists already"),
        (["empty.txt", "--language", "english"], "'english' is no code of a language"),
    ],
)
def test_what_cannot_be_split_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n \n", encoding="utf-8")

    assert main(["split-sentences", *arguments]) == 1
    assert capsys.readouterr().err.startswith(f"elmo-hf: error: {message}")
    assert [path.name for path in tmp_path.iterdir()] == ["empty.txt"]
