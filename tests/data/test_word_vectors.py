"""`data.word_vectors`: each format as its program writes it, wanted words only, and damage in one line."""

import bz2
import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo_hf import ElmoError
from elmo_hf.data.word_vectors import build_word_vectors, read_word_vectors


# as their files have them, most frequent first
CASED = ["the", "The", "New York", "Hà", "cat", "1", ". . .", "USA"]
LOWER = ["the", "hà", "cat", "1", "usa", "<unk>", ".", ","]


def vectors_of(words: list[str], width: int = 4) -> dict[str, np.ndarray]:
    """Give each word a vector that text and float32 hold exactly."""
    rows = (np.arange(len(words) * width).reshape(len(words), width) - 7) / 8
    return dict(zip(words, rows.astype(np.float32), strict=True))


def lines_of(vectors: dict[str, np.ndarray], *, between: str = " ", end: str = "\n") -> str:
    return "".join(between.join([word, *(f"{value:g}" for value in row)]) + end for word, row in vectors.items())


def glove(vectors: dict[str, np.ndarray]) -> bytes:
    return lines_of(vectors).encode()


def word2vec_text(vectors: dict[str, np.ndarray]) -> bytes:
    width = len(next(iter(vectors.values())))
    # word2vec.c and fastText leave a space at the end
    return (f"{len(vectors)} {width}\n" + lines_of(vectors, end=" \n")).encode()


def word2vec_binary(vectors: dict[str, np.ndarray], *, after: bytes = b"\n") -> bytes:
    width = len(next(iter(vectors.values())))
    entries = [word.encode() + b" " + row.astype("<f4").tobytes() + after for word, row in vectors.items()]
    return f"{len(vectors)} {width}\n".encode() + b"".join(entries)


def word2vec_binary_without_breaks(vectors: dict[str, np.ndarray]) -> bytes:
    return word2vec_binary(vectors, after=b"")


def tabs(vectors: dict[str, np.ndarray]) -> bytes:
    return lines_of(vectors, between="\t", end="\r\n").encode()


TEXT = [glove, word2vec_text, tabs]
each_format = pytest.mark.parametrize("write", [*TEXT, word2vec_binary, word2vec_binary_without_breaks])


@each_format
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gz", "bz2", "xz"])
def test_wanted_words_are_found_in_each_format(write: Callable, pack: Callable, tmp_path: Path) -> None:
    words = [word for word in CASED if " " not in word] if "binary" in write.__name__ else CASED
    vectors = vectors_of(words)
    # the format is known by the content
    (tmp_path / "vectors").write_bytes(pack(write(vectors)))

    found = read_word_vectors(tmp_path / "vectors", [*words[1:], "cats", "THE", "\ud800", ""])

    assert (found.width, found.lower_case, found.passed_over, found.missing) == (4, False, 0, 0)
    # the lower-case form of `The` and `THE`, too
    assert found.vectors.keys() == set(words)
    for word, vector in found.vectors.items():
        np.testing.assert_array_equal(vector, vectors[word])


def test_a_table_has_padding_the_mean_and_the_words_by_frequency(tmp_path: Path) -> None:
    vectors = vectors_of(CASED)
    (tmp_path / "glove.txt").write_bytes(glove(vectors))

    built = build_word_vectors({"cat": 2, "the": 5, "Cat": 1, "USA": 2}, tmp_path / "glove.txt")

    assert built.words == ["the", "USA", "cat"]
    expected = np.stack([vectors[word] for word in built.words])
    np.testing.assert_array_equal(built.table[0], np.zeros(4))
    np.testing.assert_allclose(built.table[1], expected.mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(built.table[2:], expected)
    assert (built.lookup, built.width, built.table.dtype, built.source) == ("exact", 4, np.float32, "glove.txt")
    assert built.report == "word vectors: 3 of 4 words found in glove.txt, 90.0% of the text, 4 wide"


def test_a_file_of_lower_case_words_is_searched_in_lower_case(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_bytes(glove(vectors_of(LOWER)))

    built = build_word_vectors({"The": 3, "the": 2, "Hà": 1, "dog": 4}, tmp_path / "glove.txt")

    assert (built.words, built.lookup) == (["the", "hà"], "lower")
    assert built.report == (
        "word vectors: 3 of 4 words found in glove.txt, 60.0% of the text, 4 wide; 2 of them in lower case"
    )


def test_the_first_of_two_lines_counts_and_bad_lines_are_counted(tmp_path: Path) -> None:
    lines = [
        *(f"w{number} 1 2 3" for number in range(20)),
        "the 1 2 3",
        "the 4 5 6",
        "cat 1 2",
        "dog 1 2 3 4",
        "sat 1 nan 3",
        "sun 1 1e999 3",
        "mat 1 x 3",
        "",
        "rat 7 8 9",
    ]
    (tmp_path / "vectors.txt").write_bytes("\n".join(lines).encode() + b"\n\xff\xfe 1 2 3")

    wanted = dict.fromkeys(["the", "cat", "dog", "sat", "sun", "mat", "rat"], 1)
    built = build_word_vectors(wanted, tmp_path / "vectors.txt")

    assert built.words == ["rat", "the"]
    np.testing.assert_array_equal(built.table[2:], [[7, 8, 9], [1, 2, 3]])
    assert built.report.endswith("3 wide; 5 lines without 3 finite numbers passed over")


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path: Path) -> None:
    vectors = vectors_of(["the", "cat"])
    for write in (glove, word2vec_text, word2vec_binary):
        (tmp_path / "vectors").write_bytes(b"\xef\xbb\xbf" + write(vectors))

        found = read_word_vectors(tmp_path / "vectors", ["the", "cat"]).vectors
        assert set(found) == set(vectors), write


def test_a_text_that_ends_early_is_told(tmp_path: Path) -> None:
    (tmp_path / "wiki.vec").write_bytes(b"5 2\nthe 1 2 \ncat 3 4 \n")

    assert build_word_vectors({"the": 1}, tmp_path / "wiki.vec").report.endswith("2 wide; the file ends 3 words early")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (word2vec_binary(vectors_of(["the", "cat"]))[:-6], r" ends after 1 of 2 words: get it again\.$"),
        (b"2 3\nthe \x00\x01\x80" + b"x" * 70_000, r" has no word after 1 of 2 words: get it again\.$"),
        (b"PK\x03\x04anything\n", r" is a zip archive: unpack it, and give a file from it\.$"),
        (b"", r" has no word vectors: give a file of GloVe, word2vec or fastText \(\.vec\)\.$"),
        (b"some text\nof a book\n", r" has no word vectors: give a file of GloVe, word2vec or fastText \(\.vec\)\.$"),
        (b"x" * (1 << 22), r" has no word vectors, but a line of more than 4,194,304 bytes: give another\.$"),
        (gzip.compress(b"the 1 2\n" * 1000)[:-20], r": the compressed data is damaged \(.*\): get it again\.$"),
        (b"a 1 2\nb 1 2\n", r" has a vector of none of the 2 words of the data: give another\.$"),
    ],
    ids=["cut-binary", "no-binary", "zip", "empty", "text", "long-line", "cut-gzip", "none-of-the-words"],
)
def test_what_cannot_be_read_is_told_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "vectors").write_bytes(content)

    with pytest.raises(ElmoError, match=message) as raised:
        build_word_vectors({"the": 1, "cat": 1}, tmp_path / "vectors")

    assert str(raised.value).startswith(str(tmp_path / "vectors"))
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(
        ElmoError, match=r"^missing\.txt cannot be read \(No such file or directory\): check the file\.$"
    ):
        build_word_vectors({"the": 1}, "missing.txt")


def test_vectors_that_are_learned_are_of_words_that_occur_twice() -> None:
    built = build_word_vectors({"a": 2, "b": 1, "c": 5}, width=30)

    assert (built.words, built.table, built.width, built.source) == (["c", "a"], None, 30, None)
    assert built.report == "word vectors: 2 words, 30 wide, learned with the task"
    assert build_word_vectors({"b": 1}, width=3, min_count=1).words == ["b"]
    with pytest.raises(ElmoError, match=r"^No word occurs 2 times in the training data: give a file of vectors\.$"):
        build_word_vectors({"b": 1}, width=3)


@pytest.mark.parametrize("write", [glove, word2vec_binary])
def test_memory_does_not_grow_with_the_file(write: Callable, tmp_path: Path) -> None:
    vectors = vectors_of([f"word{number}" for number in range(20_000)], 50)
    (tmp_path / "vectors").write_bytes(write(vectors))
    size = (tmp_path / "vectors").stat().st_size
    del vectors

    tracemalloc.start()
    found = read_word_vectors(tmp_path / "vectors", ["word19999"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found.vectors.keys() == {"word19999"}
    # the binary reader has a chunk, and a copy of it
    assert peak < max(3 << 20, size // 2)
