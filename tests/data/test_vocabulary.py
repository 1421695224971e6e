"""`data.vocabulary` orders words as bilm-tf does, and its files are read as bilm-tf reads them."""

import gzip
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoError, ElmoTokenizer
from elmo_hf.data.vocabulary import (
    build_vocabulary,
    count_words,
    coverage,
    most_frequent,
    read_vocabulary,
    write_vocabulary,
)
from elmo_hf_conversion.readers.content import Kind
from elmo_hf_conversion.readers.vocabulary import SKIPPED_LINE
from elmo_hf_conversion.readers.vocabulary import read_vocabulary as read_as_bilm


def test_a_vocabulary_is_in_descending_frequency_and_then_by_code_points() -> None:
    sentences = [["b", "ä", "a", "Z", "c"], ["c", "ä", "c"], ["b"]]

    assert build_vocabulary(sentences) == ["<S>", "</S>", "<UNK>", "c", "b", "ä", "Z", "a"]
    assert build_vocabulary(sentences, min_count=2) == ["<S>", "</S>", "<UNK>", "c", "b", "ä"]
    assert build_vocabulary(sentences, max_size=5) == ["<S>", "</S>", "<UNK>", "c", "b"]
    assert build_vocabulary(sentences, min_count=3, max_size=5) == ["<S>", "</S>", "<UNK>", "c"]


def test_special_words_in_the_text_are_not_there_twice() -> None:
    assert build_vocabulary([["<S>", "a", "</S>"], ["<UNK>"] * 9]) == ["<S>", "</S>", "<UNK>", "a"]


@pytest.mark.parametrize("limits", [{"min_count": 0}, {"max_size": 2}])
def test_refuses_limits_that_make_no_vocabulary(limits: dict[str, int]) -> None:
    with pytest.raises(ElmoError, match=next(iter(limits))):
        build_vocabulary([["a"]], **limits)


def test_coverage_is_the_share_of_the_text_that_has_words_of_the_vocabulary() -> None:
    counts = count_words([["a"] * 5, ["b"] * 3, ["c", "<UNK>"]])

    assert coverage(counts, most_frequent(counts, min_count=2)) == pytest.approx(0.8)
    assert coverage(counts, ["elsewhere"]) == 0
    assert coverage(Counter(), ["a"]) == 0


WORDS = st.text(st.characters(), min_size=0, max_size=4) | st.sampled_from(
    [SKIPPED_LINE, "<PAD>", "<MASK>", "<S>", "<UNK>", "two words", "\ud800", "a\x85b", "\x1c", "\ufeff"]
)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(WORDS, max_size=4), max_size=6))
def test_every_word_has_the_id_of_its_line_once_written_and_read(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    vocabulary = build_vocabulary(sentences)
    write_vocabulary(path, vocabulary)

    assert list(read_as_bilm(path, kind=Kind.TEXT, name="vocab.txt")) == vocabulary
    ids = ElmoTokenizer(vocabulary)([vocabulary], is_split_into_words=True, add_special_tokens=False)["input_ids"]
    assert ids == [list(range(1, len(vocabulary) + 1))]


def test_a_word_that_is_spelled_like_a_mask_is_a_word() -> None:
    vocabulary = build_vocabulary([["<MASK>", "a", "a"]])

    tokenizer = ElmoTokenizer(vocabulary, mask_token="<MASK>")

    assert vocabulary[-1] == "<MASK>"
    assert tokenizer.mask_token_id == 5


def test_writes_a_vocabulary_whole(tmp_path: Path) -> None:
    write_vocabulary(tmp_path / "vocab.txt", ["<S>", "Nội"])

    assert (tmp_path / "vocab.txt").read_bytes() == "<S>\nNội\n".encode()
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


def test_never_writes_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("mine", encoding="utf-8")

    with pytest.raises(ElmoError, match=r"vocab\.txt exists already: remove it or choose another name\.$"):
        write_vocabulary(tmp_path / "vocab.txt", ["a"])
    assert (tmp_path / "vocab.txt").read_text(encoding="utf-8") == "mine"


def test_leaves_nothing_where_it_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", fail)
    monkeypatch.setattr(Path, "rename", fail)

    with pytest.raises(ElmoError, match=r"vocab\.txt cannot be written \(No space left on device\)"):
        write_vocabulary(tmp_path / "vocab.txt", ["a"])
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("word", ["", "two words", "<PAD>", SKIPPED_LINE, "\ud800"])
def test_refuses_a_word_that_is_no_line(word: str, tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match="cannot be a line of a vocabulary"):
        write_vocabulary(tmp_path / "vocab.txt", ["a", word])
    assert not any(tmp_path.iterdir())


def test_reads_the_vocabulary_that_it_wrote(tmp_path: Path) -> None:
    write_vocabulary(tmp_path / "vocab.txt", ["<S>", "</S>", "<UNK>", "Nội"])

    assert read_vocabulary(tmp_path / "vocab.txt") == ["<S>", "</S>", "<UNK>", "Nội"]


def test_reads_the_vocabulary_of_the_original_as_it_does(tmp_path: Path) -> None:
    (tmp_path / "vocab.gz").write_bytes(gzip.compress(f"<S>\r\nthe\r\n{SKIPPED_LINE}\r\nbank\r\n".encode()))

    assert read_vocabulary(tmp_path / "vocab.gz") == ["<S>", "the", "bank"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"the\n\nbank\n", "vocab.txt, line 2: '' is no word: give a vocabulary"),
        (b"the\nthe bank rose .\n", "vocab.txt, line 2: 'the bank rose .' is no word"),
        (b"the\nbank\nthe\n", "vocab.txt, line 3: 'the' is on line 1 already"),
        (b"the\n\xef\n", "vocab.txt, line 2: byte 0xef is not UTF-8"),
        (b"", "vocab.txt holds no words"),
    ],
)
def test_says_which_line_of_a_vocabulary_is_damaged(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(data)

    with pytest.raises(ElmoError, match=re.escape(message)):
        read_vocabulary(tmp_path / "vocab.txt")


def test_refuses_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"missing is not a folder: create it first\.$"):
        write_vocabulary(tmp_path / "missing" / "vocab.txt", ["a"])
