"""`data.corpus` reads sentences from files of any kind, in a reproducible order."""

import bz2
import gzip
import io
import lzma
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_hf import ElmoError, ElmoTokenizer
from elmo_hf.data.corpus import Corpus, read_lines, read_placed_sentences, read_sentences, shuffle


TEXT = "The bank .\n\nHà Nội \u2028 lies\tthere .\r\n  \n"
SENTENCES = [["The", "bank", "."], ["Hà", "Nội", "lies", "there", "."]]


def give_input(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))


@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gzip", "bz2", "xz"]
)
@pytest.mark.parametrize("name", ["text", "text.gz", "text.xz"])
def test_reads_sentences_whatever_they_are_compressed_by(
    compress: Callable[[bytes], bytes], name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(compress(TEXT.encode()))

    assert list(read_sentences(tmp_path / name)) == SENTENCES


def test_a_sentence_is_read_with_its_place(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("\nThe bank\n", encoding="utf-8")
    second.write_text("rose\n\n.\n", encoding="utf-8")

    assert list(read_placed_sentences(tmp_path)) == [
        (str(first), 2, ["The", "bank"]),
        (str(second), 1, ["rose"]),
        (str(second), 3, ["."]),
    ]


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_reads_standard_input(compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    give_input(monkeypatch, compress(TEXT.encode()))

    assert list(read_sentences("-")) == SENTENCES


def test_reads_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "empty.bz2").write_bytes(bz2.compress(b""))

    assert list(read_sentences([tmp_path / "empty", tmp_path / "empty.bz2"])) == []


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfThe bank")

    assert list(read_sentences(tmp_path / "text")) == [["The", "bank"]]


def test_several_members_of_gzip_are_one_text(tmp_path: Path) -> None:
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"The ") + gzip.compress(b"bank\n"))

    assert list(read_sentences(tmp_path / "text.gz")) == [["The", "bank"]]


def test_raw_text_goes_through_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Isn't it?\n", encoding="utf-8")

    assert list(read_sentences(tmp_path / "text", tokenize=ElmoTokenizer().tokenize)) == [["Isn", "'t", "it", "?"]]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files, each of which says its name; the working folder."""
    for name in ("b/2.txt", "b/10.txt", "b/c/1.txt", "a.txt", "b/.hidden", "b/.git/x.txt", "[a].txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ("a.txt", ["a.txt"]),
        (["b", "a.txt"], ["b/10.txt", "b/2.txt", "b/c/1.txt", "a.txt"]),
        ("b/*.txt", ["b/10.txt", "b/2.txt"]),
        ("**/1*.txt", ["b/10.txt", "b/c/1.txt"]),
        ("?", ["b/10.txt", "b/2.txt", "b/c/1.txt"]),
        ("[a].txt", ["[a].txt"]),
    ],
)
@pytest.mark.usefixtures("files")
def test_folders_and_patterns_stand_for_files(sources: str | list[str], expected: list[str]) -> None:
    assert list(read_sentences(sources)) == [[name] for name in expected]


def test_a_pattern_may_be_absolute(files: Path) -> None:
    assert list(read_sentences(str(files / "b" / "*.txt"))) == [["b/10.txt"], ["b/2.txt"]]


@pytest.mark.parametrize("name", ["nothing.txt", "nothing/*.txt", "empty"])
def test_refuses_a_name_that_stands_for_no_file_before_it_reads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ElmoError, match=r"^\S+ (is no file|has no files)[^\n]*: check the name\.$") as raised:
        read_sentences(name)
    assert name in str(raised.value)


PACKED = gzip.compress(random.Random(0).randbytes(1000).hex().encode() + b"\n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"good\n\xe9t\xe9\n", r", line 2: byte 0xe9 is not UTF-8: save the text as UTF-8\.$"),
        ("good".encode("utf-16"), r", line 1: byte 0xff is not UTF-8"),
        (PACKED[:-9], r", line 1: the compressed data is damaged"),
        (PACKED[:-8] + bytes(8), r", line \d: the compressed data is damaged"),
        (PACKED[:100] + bytes(100) + PACKED[200:], r", line 1: the compressed data is damaged"),
        (bz2.compress(b"good\n" * 99)[:-5], r", line 100: the compressed data is damaged"),
        (bz2.compress(b"good\n" * 99)[:-5] + b"wrong", r"the compressed data is damaged"),
        (lzma.compress(b"good\n" * 99)[:-5] + b"wrong", r"the compressed data is damaged"),
    ],
    ids=["latin", "utf-16", "gzip cut", "gzip sum", "gzip", "bz2 cut", "bz2", "xz"],
)
def test_says_which_line_cannot_be_read(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(data)

    with pytest.raises(ElmoError, match=message) as raised:
        list(read_sentences(tmp_path / "text"))
    assert str(raised.value).startswith(f"{tmp_path / 'text'}")
    assert "\n" not in str(raised.value)


def test_says_that_a_file_went_away(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"text cannot be read \(No such file or directory\): check the file\.$"):
        list(read_lines(str(tmp_path / "text")))


def test_says_that_standard_input_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(ElmoError, match=r"^Standard input is closed: give a file\.$"):
        list(read_sentences("-"))


@pytest.fixture
def numbered(tmp_path: Path) -> list[Path]:
    """Three files of numbered sentences."""
    paths = [tmp_path / f"{letter}.txt" for letter in "abc"]
    for path in paths:
        path.write_text("".join(f"{path.stem}{number}\n" for number in range(50)), encoding="utf-8")
    return paths


def test_a_corpus_is_read_again_in_the_order_of_its_files(numbered: list[Path]) -> None:
    corpus = Corpus(numbered)

    first, second = list(corpus), list(corpus)

    assert first == second == list(read_sentences(numbered))


def test_seed_and_epoch_determine_the_order_of_a_corpus(numbered: list[Path]) -> None:
    corpus, other = Corpus(numbered, seed=1), Corpus(numbered, seed=2)

    orders = [list(corpus), list(corpus)]
    corpus.set_epoch(1)
    orders += [list(corpus), list(other)]
    corpus.set_epoch(0)
    orders += [list(corpus)]

    assert orders[0] == orders[1] == orders[4]
    assert len({str(order) for order in orders}) == 3
    assert all(sorted(order) == sorted(read_sentences(numbered)) for order in orders)


def test_a_corpus_is_no_standard_input() -> None:
    with pytest.raises(ElmoError, match="only once"):
        Corpus(["-"])


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 30), st.integers(1, 10), st.integers())
def test_shuffling_loses_no_sentence(count: int, size: int, seed: int) -> None:
    sentences = [[str(number)] for number in range(count)]

    shuffled = list(shuffle(sentences, random.Random(seed), size=size))

    assert sorted(shuffled) == sorted(sentences)
    # of those that are held, none can come before it is read
    assert all(int(words[0]) < place + size for place, words in enumerate(shuffled))
