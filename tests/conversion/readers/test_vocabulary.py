"""`conversion.readers.vocabulary`: one row a line, as bilm-tf counts them."""

import gzip
from pathlib import Path

import pytest

from elmo_hf_conversion.readers.base import ConversionError
from elmo_hf_conversion.readers.content import Kind
from elmo_hf_conversion.readers.vocabulary import read_vocabulary


def read(folder: Path, content: bytes, kind: Kind = Kind.TEXT) -> tuple[str, ...]:
    path = folder / "vocab.txt"
    path.write_bytes(content)
    return read_vocabulary(path, kind=kind, name="vocab.txt")


CONTENTS = {
    "plain": (b"<S>\n</S>\n<UNK>\nthe\n", ("<S>", "</S>", "<UNK>", "the")),
    "no-newline-at-the-end": (b"<S>\nthe", ("<S>", "the")),
    "crlf": (b"<S>\r\nthe\r\n", ("<S>", "the")),
    "space-around": (b" <S>\t\nthe \n", ("<S>", "the")),
    "byte-order-mark": (b"\xef\xbb\xbf<S>\nthe\n", ("<S>", "the")),
    "a-blank-line-is-a-row": (b"<S>\n\nthe\n", ("<S>", "", "the")),
    "a-double-is-a-row": (b"<S>\nthe\nthe\n", ("<S>", "the", "the")),
    "maxtermid-is-no-row": (b"<S>\n!!!MAXTERMID\nthe\n", ("<S>", "the")),
    "beyond-ascii": ("<S>\nHà\n日本\n".encode(), ("<S>", "Hà", "日本")),
    "rare-separators-end-no-line": (
        "a\u2028b\na\u0085b\n<S>\nc\nd\n".encode(),
        ("a\u2028b", "a\x85b", "<S>", "c", "d"),
    ),
}


@pytest.mark.parametrize(("content", "words"), CONTENTS.values(), ids=CONTENTS.keys())
def test_words(content: bytes, words: tuple[str, ...], tmp_path: Path) -> None:
    assert read(tmp_path, content) == words


def test_reads_gzip(tmp_path: Path) -> None:
    assert read(tmp_path, gzip.compress(b"<S>\nthe\n"), Kind.GZIP) == ("<S>", "the")


DAMAGED = {
    "not-utf-8": ("<S>\nÄrger\n".encode("latin-1"), Kind.TEXT, r"vocab.txt is not UTF-8 .*byte 0xc4"),
    "truncated-gzip": (gzip.compress(b"<S>\nthe\n")[:-6], Kind.GZIP, "vocab.txt: the gzip data is damaged"),
    "no-words": (b"\n\n", Kind.TEXT, "vocab.txt holds no words"),
    "prose": (b"It is a truth\nuniversally acknowledged\n", Kind.TEXT, "vocab.txt has lines of several words"),
}


@pytest.mark.parametrize(("content", "kind", "message"), DAMAGED.values(), ids=DAMAGED.keys())
def test_names_what_is_wrong(content: bytes, kind: Kind, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=message):
        read(tmp_path, content, kind)


def test_refuses_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_hf_conversion.readers.vocabulary.MAX_BYTES", 1000)

    with pytest.raises(ConversionError, match="more than 1,000 bytes"):
        read(tmp_path, gzip.compress(b"a\n" * 1000), Kind.GZIP)


def test_more_lines_than_any_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_hf_conversion.readers.vocabulary.MAX_WORDS", 3)
    (tmp_path / "vocab.txt").write_text("a\nb\nc\nd\n")

    with pytest.raises(ConversionError, match=r"vocab.txt has more than 3 lines"):
        read_vocabulary(tmp_path / "vocab.txt", kind=Kind.TEXT, name="vocab.txt")
