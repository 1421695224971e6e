"""`embedding.corpus` writes what `embed` computes, and resumes an interrupted run with the same result."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_hf.embedding import Sentence, embed, embed_corpus, engines
from elmo_hf.embedding.corpus import cut_parts
from elmo_hf.errors import ElmoError
from support.damage import set_weight
from support.sentence_vectors import TOLERANCE, Loaded


CORPUS = [["The", "bank"], [], ["a", "b", "c", "d", "e"], ["The", "bank"], [""], ["a / b"], ["日本語"] * 3, ["x"] * 9]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a corpus in parts of three sentences, or of ten words 8 wide."""
    monkeypatch.setattr("elmo_hf.embedding.corpus.PART_SENTENCES", 3)
    monkeypatch.setattr("elmo_hf.embedding.corpus.PART_BYTES", 10 * 8 * 4)


def npz(path: Path) -> list[np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return [file[str(number)] for number in range(len(file.files))]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("layers", ["mix", "all", 0])
def test_a_file_has_what_embed_gives(layers: str | int, loaded: Loaded, tmp_path: Path) -> None:
    counts = embed_corpus(loaded[0].name_or_path, CORPUS, tmp_path / "v.npz", layers=layers)

    assert counts == (8, 23)
    for array, expected in zip(npz(tmp_path / "v.npz"), embed(*loaded, CORPUS, layers=layers), strict=True):
        np.testing.assert_allclose(array, expected, rtol=0, atol=TOLERANCE)
    assert [path.name for path in tmp_path.iterdir()] == ["v.npz"]


@pytest.mark.parametrize(("pool", "reduce"), [("mean", np.mean), ("max", np.max)])
@pytest.mark.parametrize("layers", ["top", "all"])
def test_a_pooled_sentence_has_one_vector(
    pool: str, reduce: Callable[..., np.ndarray], layers: str, loaded: Loaded, tmp_path: Path
) -> None:
    embed_corpus(loaded[0].name_or_path, CORPUS, tmp_path / "v.npz", layers=layers, pool=pool)

    for array, words in zip(npz(tmp_path / "v.npz"), embed(*loaded, CORPUS, layers=layers), strict=True):
        expected = reduce(words, axis=-2) if words.shape[-2] else np.zeros(array.shape, np.float32)
        np.testing.assert_allclose(array, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["v.npz", "v.hdf5", "v.safetensors", "v.parquet", "words.parquet", "v.npy"])
@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_a_resumed_run_makes_the_same_file(
    stop_at: int, name: str, loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    rows = "words" if name == "words.parquet" else "sentences"
    embed_corpus(loaded[0].name_or_path, CORPUS, whole / name, rows=rows)
    parts, real = 0, engines.save_part

    def fail(*arguments: object) -> None:
        nonlocal parts
        parts += 1
        if parts > stop_at:
            raise KeyboardInterrupt
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("elmo_hf.embedding.engines.save_part", fail)
        with pytest.raises(KeyboardInterrupt):
            embed_corpus(loaded[0].name_or_path, CORPUS, cut / name, rows=rows)
    assert [path.name for path in cut.iterdir()] == [f".{name}.parts"]
    with pytest.raises(ElmoError, match=rf"\.{name}\.parts is of a run that was interrupted: resume it, or delete"):
        embed_corpus(loaded[0].name_or_path, CORPUS, cut / name, rows=rows)

    embed_corpus(loaded[0].name_or_path, CORPUS, cut / name, rows=rows, resume=True)

    assert {path.name: path.read_bytes() for path in cut.iterdir()} == {
        path.name: path.read_bytes() for path in whole.iterdir()
    }


@pytest.mark.usefixtures("small_parts")
def test_a_file_that_cannot_be_written_ends_the_run_while_it_computes(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ElmoError("v.npz cannot be written")

    read = 0

    def sentences() -> Iterator[list[str]]:
        nonlocal read
        for sentence in CORPUS * 50:
            read += 1
            yield sentence

    with monkeypatch.context() as patch:
        patch.setattr("elmo_hf.embedding.corpus.write_vectors", refuse)
        with pytest.raises(ElmoError, match=r"^v\.npz cannot be written$"):
            embed_corpus(loaded[0].name_or_path, sentences(), tmp_path / "v.npz")

    assert read < 50 * len(CORPUS)
    # the parts are kept, and nothing of the file
    assert not (tmp_path / "v.npz").exists()
    assert not [path for path in (tmp_path / ".v.npz.parts").glob("*") if path.is_dir()]


@pytest.fixture
def interrupted(loaded: Loaded, tmp_path: Path, small_parts: None) -> Path:  # noqa: ARG001 - sets them
    """What is left of a run that ended at the seventh sentence."""

    def sentences() -> Iterator[list[str]]:
        yield from CORPUS[:7]
        raise ElmoError("text, line 8: cannot be read")

    with pytest.raises(ElmoError, match="line 8"):
        embed_corpus(loaded[0].name_or_path, sentences(), tmp_path / "v.npz")
    return tmp_path / "v.npz"


def test_what_is_left_of_other_sentences_is_refused(interrupted: Path, loaded: Loaded) -> None:
    with pytest.raises(ElmoError, match=r"is of a run with other sentences, from its part 0 on: give the same"):
        embed_corpus(loaded[0].name_or_path, [["other"], *CORPUS[1:]], interrupted, resume=True)


def test_what_is_left_of_other_options_is_refused(interrupted: Path, loaded: Loaded) -> None:
    with pytest.raises(ElmoError, match=r"is of another run \(layers: mix then, 0 now; pool: none then, max now\)"):
        embed_corpus(loaded[0].name_or_path, CORPUS, interrupted, layers=0, pool="max", resume=True)


@pytest.mark.usefixtures("small_parts")
def test_what_is_left_of_a_file_with_other_rows_is_refused(loaded: Loaded, tmp_path: Path) -> None:
    def sentences() -> Iterator[list[str]]:
        yield from CORPUS[:7]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_corpus(loaded[0].name_or_path, sentences(), tmp_path / "v.parquet", rows="words")

    with pytest.raises(ElmoError, match=r"is of another run \(rows: words then, sentences now\)"):
        embed_corpus(loaded[0].name_or_path, CORPUS, tmp_path / "v.parquet", resume=True)


def test_what_is_left_of_another_model_is_refused(interrupted: Path, copy: Path) -> None:
    set_weight(copy, "scalar_mix.gamma", lambda array: array * 2)

    with pytest.raises(ElmoError, match=r"is of another run \(model_sha256: "):
        embed_corpus(copy, CORPUS, interrupted, resume=True)


def test_an_error_before_the_first_part_leaves_nothing(loaded: Loaded, tmp_path: Path) -> None:
    def sentences() -> Iterator[list[str]]:
        yield ["a"]
        raise ElmoError("text, line 2: cannot be read")

    with pytest.raises(ElmoError, match="line 2"):
        embed_corpus(loaded[0].name_or_path, sentences(), tmp_path / "v.npz", resume=True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["v.npz", "v.hdf5", "v.safetensors", "v.parquet", "words.parquet", "v.npy"])
def test_an_empty_corpus_has_an_empty_file(name: str, loaded: Loaded, tmp_path: Path) -> None:
    rows = "words" if name == "words.parquet" else "sentences"
    assert embed_corpus(loaded[0].name_or_path, [], tmp_path / name, rows=rows) == (0, 0)

    assert (tmp_path / name).exists()


def test_a_sentence_keeps_its_text(loaded: Loaded, tmp_path: Path) -> None:
    embed_corpus(loaded[0].name_or_path, [Sentence("a  b", ["a", "b"]), "The bank."], tmp_path / "v.hdf5")

    with h5py.File(tmp_path / "v.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"a  b": "0", "The bank.": "1"}
        assert file["0"].shape == (2, 8)
        assert file["1"].shape == (3, 8)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["a", "b", "a"], r"Sentence 2 has the key 'a', and .* has the name 'a' already: give each"),
        (["a/b", "b", "a_b"], r"Sentence 2 has the key 'a_b', and .* has the name 'a_b' already"),
        (["a", None], r"Sentence 1 has no key, and earlier ones have one: give a key to all, or to none"),
        ([None, None, "a"], r"Sentence 2 has a key, and earlier ones have none"),
    ],
)
def test_each_sentence_has_a_key_of_its_own(
    keys: list[str | None], message: str, loaded: Loaded, tmp_path: Path
) -> None:
    with pytest.raises(ElmoError, match=message):
        embed_corpus(loaded[0].name_or_path, [Sentence("a", ["a"], key) for key in keys], tmp_path / "v.hdf5")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small_parts")
def test_keys_outlast_an_interruption(loaded: Loaded, tmp_path: Path) -> None:
    proteins = [Sentence("MKTA", list("MKTA"), f"sp|P{number}") for number in range(8)]

    def interrupted() -> Iterator[Sentence]:
        yield from proteins[:6]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_corpus(loaded[0].name_or_path, interrupted(), tmp_path / "v.npz", layers="sum", pool="mean")
    embed_corpus(loaded[0].name_or_path, proteins, tmp_path / "v.npz", layers="sum", pool="mean", resume=True)

    (words,) = embed(*loaded, [list("MKTA")], layers="all")
    with np.load(tmp_path / "v.npz") as file:
        assert file.files == [f"sp|P{number}" for number in range(8)]
        for key in file.files:
            np.testing.assert_allclose(file[key], words.sum(axis=0).mean(axis=0), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["é" * 100, "\udcff", "a\u202eb"])
def test_the_folder_of_parts_has_a_name_that_can_be_written(name: str, loaded: Loaded, tmp_path: Path) -> None:
    embed_corpus(loaded[0].name_or_path, [["a"]], tmp_path / f"{name}.npz")

    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.npz"]


def test_what_cannot_be_asked_for_is_named(loaded: Loaded, tmp_path: Path) -> None:
    folder = loaded[0].name_or_path
    with pytest.raises(ElmoError, match=r"no pool 'sum': choose none, mean, max"):
        embed_corpus(folder, [["a"]], tmp_path / "v.npz", pool="sum")
    with pytest.raises(ElmoError, match=r"no device 'abacus' \("):
        embed_corpus(folder, [["a"]], tmp_path / "v.npz", device="abacus")
    with pytest.raises(ElmoError, match=r"no rows 'layers': choose sentences or words"):
        embed_corpus(folder, [["a"]], tmp_path / "v.parquet", rows="layers")
    with pytest.raises(ElmoError, match=r"\.npz is no table with a row for each word: choose \.parquet"):
        embed_corpus(folder, [["a"]], tmp_path / "v.npz", rows="words")
    with pytest.raises(ElmoError, match=r"Pooled sentences have no rows of words"):
        embed_corpus(folder, [["a"]], tmp_path / "v.parquet", rows="words", pool="max")
    with pytest.raises(ElmoError, match=r"no layer '3'"):
        embed_corpus(folder, [["a"]], tmp_path / "v.npz", layers=3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("gone", ["v.npy", "v.offsets.npy", "v.words.txt"])
def test_a_run_that_ended_between_its_files_goes_on(
    gone: str, loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.replace

    def stop_before(path: Path, target: Path) -> Path:
        if target.name == gone:
            raise KeyboardInterrupt
        return real(path, target)

    monkeypatch.setattr(Path, "replace", stop_before)
    with pytest.raises(KeyboardInterrupt):
        embed_corpus(loaded[0].name_or_path, CORPUS, tmp_path / "v.npy")
    monkeypatch.undo()

    assert embed_corpus(loaded[0].name_or_path, CORPUS, tmp_path / "v.npy", resume=True) == (8, 23)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.npy", "v.offsets.npy", "v.words.txt"]
    assert np.load(tmp_path / "v.npy").shape == (23, 8)


def test_half_a_character_is_named(loaded: Loaded, tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"'a\\ud800' holds half of a character"):
        embed_corpus(loaded[0].name_or_path, [["a\ud800"]], tmp_path / "v.parquet")


def test_parts_have_a_bounded_size(small_parts: None) -> None:  # noqa: ARG001 - sets them
    sentences = [Sentence("", ["w"] * count) for count in (1, 1, 1, 1, 9, 2, 30, 0, 0)]

    parts = [[len(sentence.words) for sentence in part] for part in cut_parts(sentences, bytes_per_word=32)]

    # of ten words and three sentences, but for a sentence that is longer by itself
    assert parts == [[1, 1, 1], [1, 9], [2], [30], [0, 0]]
