"""`embedding.formats`: every format holds what it was given, and appears whole or not at all."""

import gc
import json
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from pyarrow import parquet
from safetensors import safe_open
from safetensors.torch import load_file

from elmo_hf.embedding.formats import array_name, check_output, write_vectors
from elmo_hf.embedding.parts import Part
from elmo_hf.embedding.sentences import Sentence
from elmo_hf.errors import ElmoError


METADATA = {"model": "my-elmo", "layers": "mix"}
SUFFIXES = (".npz", ".hdf5", ".h5", ".safetensors", ".parquet", ".npy")
TEXTS = ["a / b", "", "a / b", "c"]
WORDS = [["a", "/ b"], [], ["a", "/ b"], ["c"]]
SENTENCES = [Sentence(text, words) for text, words in zip(TEXTS, WORDS, strict=True)]
KEYS = ["sp|P1|A_B", "é/1-4", "P1.2", "0"]


def parts(
    *shape: int, dtype: torch.dtype = torch.float32, pooled: bool = False, keys: Sequence[str | None] = (None,) * 4
) -> list[Part]:
    """Two parts of two sentences each."""
    sentences = [sentence._replace(key=key) for sentence, key in zip(SENTENCES, keys, strict=True)]
    counts = [1] * 4 if pooled else [len(words) for words in WORDS]
    vectors = torch.arange(sum(counts) * int(np.prod(shape))).reshape(-1, *shape).to(dtype)
    first = sum(counts[:2])
    return [
        Part(sentences[:2], vectors[:first], pooled),
        Part(sentences[2:], vectors[first:], pooled),
    ]


def read(path: Path) -> list[torch.Tensor]:
    """Read the vectors of each sentence, without the code under test."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return [torch.from_numpy(file[str(number)]) for number in range(len(file.files))]
    if path.suffix in (".hdf5", ".h5"):
        with h5py.File(path) as file:
            return [torch.from_numpy(file[str(number)][...]) for number in range(len(file) - 1)]
    if path.suffix == ".npy":
        rows, offsets = np.load(path), np.load(path.with_suffix(".offsets.npy"))
        return [torch.from_numpy(piece) for piece in np.split(rows, offsets[1:-1])]
    if path.suffix == ".parquet":
        return [torch.tensor(vectors) for vectors in parquet.read_table(path)["vectors"].to_pylist()]
    tensors = load_file(path)
    return [tensors[str(number)] for number in range(len(tensors))]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("shape", [(4,), (3, 4)], ids=["one layer", "layers"])
@pytest.mark.parametrize("pooled", [False, True], ids=["words", "sentences"])
def test_each_sentence_has_its_vectors(suffix: str, shape: tuple[int, ...], pooled: bool, tmp_path: Path) -> None:
    given = parts(*shape, pooled=pooled)
    write_vectors(tmp_path / f"v{suffix}", lambda: given, METADATA)

    expected = [rows for part in given for rows in part.vectors.split(part.row_counts())]
    found = read(tmp_path / f"v{suffix}")
    assert len(found) == 4
    for one, other in zip(found, expected, strict=True):
        # where each sentence is an array of its own, layers come before words, as in AllenNLP's files
        if pooled and suffix != ".npy":
            other = other[0]
        elif not pooled and len(shape) == 2 and suffix != ".npy":
            other = other.transpose(0, 1)
        assert one.numel() == 0 or torch.equal(one, other)
        if suffix != ".parquet":
            assert one.shape == other.shape


@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [(suffix, torch.float16) for suffix in SUFFIXES] + [(".safetensors", torch.bfloat16)],
)
def test_numbers_may_be_half_as_long(suffix: str, dtype: torch.dtype, tmp_path: Path) -> None:
    given = parts(4, dtype=dtype)
    write_vectors(tmp_path / f"v{suffix}", lambda: given, METADATA)

    found = read(tmp_path / f"v{suffix}")
    assert suffix == ".parquet" or found[0].dtype == dtype
    torch.testing.assert_close(found[0].float(), given[0].vectors[:2].float(), rtol=0, atol=0)


@pytest.mark.parametrize("suffix", [".hdf5", ".safetensors", ".parquet"])
def test_a_file_says_what_it_is(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"v{suffix}"
    write_vectors(path, lambda: parts(4), METADATA)

    if suffix == ".hdf5":
        with h5py.File(path) as file:
            assert dict(file.attrs) == METADATA
    elif suffix == ".safetensors":
        with safe_open(path, framework="pt") as file:
            assert json.loads(file.metadata()["elmo_hf"]) == METADATA
    else:
        known = parquet.read_schema(path).metadata
        assert {name: known[name.encode()].decode() for name in METADATA} == METADATA


def test_hdf5_has_allennlps_index_of_sentences(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.hdf5", lambda: parts(4), METADATA)

    with h5py.File(tmp_path / "v.hdf5") as opened:
        index = opened["sentence_to_index"]
        assert index.shape == (1,)
        assert json.loads(index[0]) == {"a / b": "2", "": "1", "c": "3"}


def test_parquet_has_the_words(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.parquet", lambda: parts(4), METADATA)

    table = parquet.read_table(tmp_path / "v.parquet")
    assert table["text"].to_pylist() == TEXTS
    assert table["words"].to_pylist() == WORDS


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_parquet_may_have_a_row_for_each_word(dtype: torch.dtype, tmp_path: Path) -> None:
    given = parts(4, dtype=dtype, keys=KEYS)
    write_vectors(tmp_path / "v.parquet", lambda: given, METADATA, rows="words")

    table = parquet.read_table(tmp_path / "v.parquet")
    assert {name: table[name].to_pylist() for name in table.column_names[:-1]} == {
        "id": [KEYS[0], KEYS[0], KEYS[2], KEYS[2], KEYS[3]],
        "sentence": [0, 0, 2, 2, 3],
        "position": [0, 1, 0, 1, 0],
        "word": ["a", "/ b", "a", "/ b", "c"],
    }
    assert table["vector"].type.list_size == 4
    assert table["vector"].to_pylist() == torch.cat([part.vectors for part in given]).tolist()
    assert parquet.read_schema(tmp_path / "v.parquet").metadata[b"model"] == b"my-elmo"


def test_a_word_has_a_column_for_each_layer(tmp_path: Path) -> None:
    given = parts(3, 4)
    write_vectors(tmp_path / "v.parquet", lambda: given, METADATA, rows="words")

    table = parquet.read_table(tmp_path / "v.parquet")
    assert table.column_names == ["sentence", "position", "word", "layer_0", "layer_1", "layer_2"]
    for layer in range(3):
        expected = torch.cat([part.vectors[:, layer] for part in given])
        assert table[f"layer_{layer}"].to_pylist() == expected.tolist()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_of_words_need_no_unpacking(library: str, tmp_path: Path) -> None:
    frames = pytest.importorskip(library)
    write_vectors(tmp_path / "v.parquet", lambda: parts(4), METADATA, rows="words")

    frame = frames.read_parquet(tmp_path / "v.parquet")

    matrix = np.stack(frame["vector"]) if library == "pandas" else frame["vector"].to_numpy()
    assert (matrix.shape, matrix.dtype) == ((5, 4), np.float32)
    # each value is a vector
    assert np.asarray(frame["vector"][1]).tolist() == [4, 5, 6, 7]


def test_npy_has_the_word_of_each_row(tmp_path: Path) -> None:
    strange = Sentence("", ["a\u2028b\nc", "\\n d", "é"])
    given = [*parts(4), Part([strange], torch.zeros(3, 4), pooled=False)]
    write_vectors(tmp_path / "v.npy", lambda: given, METADATA)

    words = (tmp_path / "v.words.txt").read_text(encoding="utf-8").splitlines()
    assert words == ["a", "/ b", "a", "/ b", "c", "a b c", "\\n d", "é"]
    assert len(np.load(tmp_path / "v.npy")) == len(words)


def test_npy_of_pooled_sentences_has_no_words(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.npy", lambda: parts(4, pooled=True), METADATA)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.npy", "v.offsets.npy"]


def read_keyed(path: Path) -> dict[str, torch.Tensor]:
    """Read the vectors of each key, in the order of the file, without the code under test."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {key: torch.from_numpy(file[key]) for key in file.files}
    if path.suffix in (".hdf5", ".h5"):
        with h5py.File(path) as file:
            return {dataset.attrs["original_id"]: torch.from_numpy(dataset[...]) for dataset in file.values()}
    if path.suffix == ".npy":
        return dict(zip(path.with_suffix(".ids.txt").read_text().splitlines(), read(path), strict=True))
    if path.suffix == ".parquet":
        return dict(zip(parquet.read_table(path)["id"].to_pylist(), read(path), strict=True))
    return load_file(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("pooled", [False, True], ids=["words", "sentences"])
def test_a_key_names_the_vectors_of_its_sentence(suffix: str, pooled: bool, tmp_path: Path) -> None:
    given = parts(4, pooled=pooled, keys=KEYS)
    write_vectors(tmp_path / f"v{suffix}", lambda: given, METADATA)

    found = read_keyed(tmp_path / f"v{suffix}")
    assert set(found) == set(KEYS)
    for key, rows in zip(
        KEYS, (rows for part in given for rows in part.vectors.split(part.row_counts())), strict=True
    ):
        assert torch.equal(found[key].reshape(-1, 4), rows)


def test_hdf5_finds_a_key_by_a_name_without_slashes(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.hdf5", lambda: parts(4, keys=KEYS), METADATA)

    with h5py.File(tmp_path / "v.hdf5") as file:
        assert sorted(file) == sorted(array_name(tmp_path / "v.hdf5", key) for key in KEYS)
        assert file["é_1-4"].attrs["original_id"] == "é/1-4"
        assert file["sp|P1|A_B"].shape == (2, 4)


def test_keys_name_tensors_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_hf.embedding.formats.SHARD_SENTENCES", 3)
    write_vectors(tmp_path / "v.safetensors", lambda: parts(4, keys=KEYS), METADATA)

    index = json.loads((tmp_path / "v.safetensors.index.json").read_text())
    assert list(index["weight_map"]) == KEYS
    assert all(key in load_file(tmp_path / name) for key, name in index["weight_map"].items())


def test_many_tensors_go_to_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_hf.embedding.formats.SHARD_SENTENCES", 3)
    write_vectors(tmp_path / "v.safetensors", lambda: parts(4), METADATA)

    names = ["v-00001-of-00002.safetensors", "v-00002-of-00002.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*names, "v.safetensors.index.json"]
    index = json.loads((tmp_path / "v.safetensors.index.json").read_text())
    assert index == {
        "metadata": METADATA,
        "weight_map": {"0": names[0], "1": names[0], "2": names[1], "3": names[1]},
    }
    assert sorted(load_file(tmp_path / names[1])) == ["2", "3"]
    with pytest.raises(ElmoError, match=r"v\.safetensors\.index\.json exists already"):
        check_output(tmp_path / "v.safetensors", "float32")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_error_leaves_no_file(suffix: str, tmp_path: Path) -> None:
    calls = 0

    def broken() -> Iterator[Part]:
        nonlocal calls
        calls += 1
        yield parts(4)[0]
        # some formats look at all parts before they write
        if calls == 2 or suffix in (".npz", ".hdf5", ".h5", ".parquet"):
            raise RuntimeError("stop")
        yield parts(4)[1]

    with pytest.raises(RuntimeError, match="stop"):
        write_vectors(tmp_path / f"v{suffix}", broken, METADATA)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_is_one_error_that_leaves_no_file(
    suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    large = Part([Sentence("a", ["w"] * 5000)] * 2, torch.randn(10_000, 8), pooled=False)

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(ElmoError, match=rf"v{suffix} cannot be written .*File too large"):
            write_vectors(tmp_path / f"v{suffix}", lambda: [large] * 5, METADATA)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    gc.collect()

    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("stem", ["a" * 200, "\udcff"], ids=["long", "not UTF-8"])
def test_a_name_may_be_any_that_the_system_allows(stem: str, suffix: str, tmp_path: Path) -> None:
    write_vectors(tmp_path / f"{stem}{suffix}", lambda: parts(4), METADATA)

    # not every library reads a file of such a name
    (tmp_path / f"{stem}{suffix}").rename(tmp_path / f"v{suffix}")
    if suffix == ".npy":
        (tmp_path / f"{stem}.offsets.npy").rename(tmp_path / "v.offsets.npy")
    torch.testing.assert_close(read(tmp_path / f"v{suffix}")[0], parts(4)[0].vectors)


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "v.npz").symlink_to(tmp_path / "gone")
    (tmp_path / "v.hdf5").write_text("mine")
    (tmp_path / "w.offsets.npy").write_text("mine")
    (tmp_path / "x.ids.txt").write_text("mine")

    for name in ("v.npz", "v.hdf5"):
        with pytest.raises(ElmoError, match=rf"{name} exists already"):
            check_output(tmp_path / name, "float32")
    with pytest.raises(ElmoError, match=r"w\.offsets\.npy exists already"):
        check_output(tmp_path / "w.npy", "float32")
    with pytest.raises(ElmoError, match=r"x\.ids\.txt exists already"):
        check_output(tmp_path / "x.npy", "float32")
    assert (tmp_path / "v.npz").is_symlink()
    assert (tmp_path / "v.hdf5").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "dtype", "message"),
    [
        (
            "v.txt",
            "float32",
            r"v\.txt: the name must end in one of \.npz, \.hdf5, \.h5, \.safetensors, \.parquet, \.npy",
        ),
        ("v", "float32", r"v: the name must end in"),
        ("absent/v.npz", "float32", "absent is not a folder"),
        ("v.npz", "float64", "no dtype 'float64': choose float32, float16, bfloat16"),
        ("v.npy", "bfloat16", r"\.npy has no bfloat16: choose float16, or \.safetensors"),
    ],
)
def test_what_cannot_be_written_is_refused(name: str, dtype: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=message):
        check_output(tmp_path / name, dtype)


@pytest.mark.parametrize(
    ("suffix", "package", "extra"), [(".hdf5", "h5py", "convert"), (".parquet", "pyarrow", "parquet")]
)
def test_a_missing_package_is_named(
    suffix: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(ElmoError, match=rf"needs {package}: pip install 'elmo_hf\[{extra}\]', or choose \.npz"):
        check_output(tmp_path / f"v{suffix}", "float32")


def test_a_suffix_may_be_in_capitals(tmp_path: Path) -> None:
    check_output(tmp_path / "v.NPZ", "float16")
    with pytest.raises(ElmoError, match=r"\.npz has no bfloat16"):
        check_output(tmp_path / "v.NPZ", "bfloat16")
    write_vectors(tmp_path / "v.NPZ", lambda: parts(4), METADATA)

    with np.load(tmp_path / "v.NPZ") as file:
        torch.testing.assert_close(torch.from_numpy(file["0"]), parts(4)[0].vectors[: len(file["0"])])
