"""`demo.text`: what a visitor may give, and the one line that refuses the rest."""

from pathlib import Path

import pytest

from elmo_hf import ElmoError
from elmo_hf.demo.text import read_file, split_text


def test_each_line_with_words_is_a_sentence() -> None:
    assert split_text("It rained .\n\n  \nNo !\r\n", str.split) == (("It", "rained", "."), ("No", "!"))


def test_a_line_that_the_tokenizer_finds_empty_is_left_out() -> None:
    assert split_text("yes\n...\n", lambda line: [word for word in line.split() if word.isalpha()]) == (("yes",),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n \n", "The text has no words: write one sentence a line."),
        ("a\n" * 201, "The text has 201 sentences: give at most 200, one a line."),
        ("a\n" + "b " * 101, "Sentence 2 has 101 words: give at most 100, one sentence a line."),
        ("half \ud800 a character", "The text holds half of a character (a surrogate): correct it."),
        (("b " * 100 + "\n") * 40 + "a", "The text has 4,001 words: give at most 4,000."),
        ("a" * 20_001, "The text has 20,001 characters: give at most 20,000."),
    ],
)
def test_a_text_that_is_too_long_or_empty_is_refused(text: str, message: str) -> None:
    with pytest.raises(ElmoError) as caught:
        split_text(text, str.split)

    assert str(caught.value) == message


def test_the_largest_text_is_taken() -> None:
    assert len(split_text("a\n" * 199 + "b " * 100, str.split)) == 200
    assert sum(map(len, split_text(("b " * 100 + "\n") * 40, str.split))) == 4000


def test_a_file_is_read_without_its_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffé\n".encode())

    assert read_file(tmp_path / "a.txt") == "é\n"


def test_a_file_that_is_too_large_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_bytes(b"a" * 80_001)
    (tmp_path / "packed.gz").write_bytes(b"\x1f\x8b\x08")

    with pytest.raises(ElmoError, match=r"^large\.txt is too large: give at most 20,000 characters\.$"):
        read_file(tmp_path / "large.txt")
    with pytest.raises(ElmoError, match=r"^packed\.gz is not UTF-8 text: save it as UTF-8, uncompressed\.$"):
        read_file(tmp_path / "packed.gz")
