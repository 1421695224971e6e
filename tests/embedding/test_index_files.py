"""`embedding.index_files`: an index holds what was written, appears whole, and is refused where it is damaged."""

import json
from pathlib import Path

import numpy as np
import pytest

from elmo_hf import ElmoError
from elmo_hf.embedding.index_files import (
    SAMPLE_BYTES,
    SAMPLES,
    GrowingArray,
    digest_of_file,
    new_index,
    read_index,
    unit_vectors,
)


MANIFEST = {"model": "m", "model_sha256": "0", "layers": "mix"}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """An index of three sentences, one of them empty."""
    vectors = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    with new_index(tmp_path / "index", 4, MANIFEST) as writer:
        writer.add("a", 1, ["the", "bank"], vectors[:2])
        writer.add("a", 3, [], vectors[:0])
        writer.add("b", 1, ["bank", "of", "the"], vectors[2:])
    return tmp_path / "index"


def test_an_array_grows_past_a_longer_header(tmp_path: Path) -> None:
    expected = np.arange(24_000, dtype=np.int16).reshape(-1, 2)

    with GrowingArray(tmp_path / "a.npy", np.int16, (2,)) as array:
        for start in range(0, len(expected), 5000):
            array.append(expected[start : start + 5000])

    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), expected)


def test_holds_what_was_written(index: Path) -> None:
    files = read_index(index)

    assert files.manifest == MANIFEST
    assert [files.spellings[number] for number in files.words] == ["the", "bank", "bank", "of", "the"]
    assert files.ends.tolist() == [2, 2, 5]
    assert files.sources.tolist() == [[0, 1], [0, 3], [1, 1]]
    assert files.files == ["a", "b"]
    assert isinstance(files.vectors, np.memmap)
    assert files.vectors.dtype == np.float16
    np.testing.assert_allclose(np.linalg.norm(files.vectors.astype(float), axis=1), 1, atol=1e-3)


def test_a_vector_of_zeros_stays() -> None:
    np.testing.assert_array_equal(
        unit_vectors(np.array([[3, 4], [0, 0]], np.float32)), np.float32([[0.6, 0.8], [0, 0]])
    )


def test_nothing_appears_if_the_writing_fails(tmp_path: Path) -> None:
    def write() -> None:
        with new_index(tmp_path / "index", 4, MANIFEST) as writer:
            writer.add("a", 1, ["the"], np.ones((1, 4), np.float32))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["vectors.npy", "words.npy", "ends.npy", "sources.npy", "spellings.json", "index.json"]
)
@pytest.mark.parametrize("size", [0, 10])
def test_a_damaged_index_is_named(name: str, size: int, index: Path) -> None:
    (index / name).write_bytes((index / name).read_bytes()[:size])

    with pytest.raises(ElmoError, match=r"^The index .*index is damaged \(.*\): make it again\.$"):
        read_index(index)


def test_what_is_no_index_of_this_version_is_named(index: Path, tmp_path: Path) -> None:
    values = json.loads((index / "index.json").read_text(encoding="ascii"))
    (index / "index.json").write_text(json.dumps(values | {"format": 9}), encoding="ascii")

    with pytest.raises(ElmoError, match=r"\(its format is 9\): make it again\.$"):
        read_index(index)
    with pytest.raises(ElmoError, match=r"absent is not an index of a corpus: make it with `elmo-hf neighbours"):
        read_index(tmp_path / "absent")


def write_index(path: Path, words: list[str]) -> Path:
    with new_index(path, 4, MANIFEST) as writer:
        writer.add("a", 1, words, np.random.default_rng(len(words[0])).standard_normal((3, 4)).astype(np.float32))
    return path


@pytest.mark.parametrize("name", ["vectors.npy", "words.npy", "spellings.json"])
def test_a_file_of_another_index_is_named(name: str, tmp_path: Path) -> None:
    index = write_index(tmp_path / "index", ["a", "b", "a"])
    other = write_index(tmp_path / "other", ["cc", "dd", "ee"])
    (index / name).write_bytes((other / name).read_bytes())

    with pytest.raises(ElmoError, match=rf"damaged \({name} is not the file that was written with the others\): make"):
        read_index(index)


def test_a_digest_has_the_ends_of_a_large_file(tmp_path: Path) -> None:
    content = bytearray(SAMPLE_BYTES * (SAMPLES + 3))
    digests = set()
    for place in (None, 0, -1):
        changed = content.copy()
        if place is not None:
            changed[place] = 1
        (tmp_path / "file").write_bytes(changed)
        digests.add(digest_of_file(tmp_path / "file"))
    (tmp_path / "file").write_bytes(content[:-1])

    assert len(digests | {digest_of_file(tmp_path / "file")}) == 4


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("words", np.array([0, 1, 1, 2, -1], np.int32)),
        ("words", np.array([0, 1, 1, 2, 3], np.int32)),
        ("words", np.zeros(5, np.float32)),
        ("words", np.zeros((5, 1), np.int32)),
        ("words", np.zeros((), np.int32)),
        ("vectors", np.zeros((5, 4), np.float32)),
        ("vectors", np.zeros(5, np.float16)),
        ("vectors", np.zeros((4, 4), np.float16)),
        ("ends", np.array([2, 1, 5])),
        ("ends", np.array([-1, 2, 5])),
        ("ends", np.zeros(0, np.int64)),
        ("sources", np.zeros((3, 3), np.int64)),
        ("sources", np.full((3, 2), 2)),
        ("spellings", '["the", "bank", 5]'),
        ("spellings", '{"the": 0}'),
        ("spellings", "[" * 100_000),
        ("index", {"files": []}),
        ("index", {"layers": 1}),
        ("index", {"digests": 5}),
    ],
    ids=str,
)
def test_parts_that_do_not_fit_are_named(name: str, content: object, index: Path) -> None:
    """Also where the digests were made for them."""
    values = json.loads((index / "index.json").read_text(encoding="ascii"))
    if isinstance(content, dict):
        values |= content
    elif isinstance(content, str):
        (index / f"{name}.json").write_text(content, encoding="ascii")
        values["digests"][f"{name}.json"] = digest_of_file(index / f"{name}.json")
    else:
        np.save(index / f"{name}.npy", content)
        values["digests"][f"{name}.npy"] = digest_of_file(index / f"{name}.npy")
    (index / "index.json").write_text(json.dumps(values), encoding="ascii")

    with pytest.raises(ElmoError, match=r"^The index .*index is damaged \(.*\): make it again\.$"):
        read_index(index)
