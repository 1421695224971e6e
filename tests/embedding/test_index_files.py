"""`embedding.index_files`: an index holds what was written, appears whole, and is refused where it is damaged."""

import json
from pathlib import Path

import numpy as np
import pytest

from elmo_hf import ElmoError
from elmo_hf.embedding.index_files import GrowingArray, new_index, read_index, unit_vectors


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


def test_files_of_two_indexes_are_named(index: Path) -> None:
    np.save(index / "words.npy", np.zeros(4, np.int32))

    with pytest.raises(ElmoError, match=r"\(its files do not belong together\): make it again\.$"):
        read_index(index)
