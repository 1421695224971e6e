"""Write files of vectors, in each format from one part of a corpus after the other.

Shape notation: `N` rows, one for each word of the sentences in turn, or one for each sentence if they are pooled; `H`
width of a vector, or `L + 1` layers and the width.
"""

import importlib.util
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from elmo_hf.errors import ElmoError
from elmo_hf.files import DeferredErrorFile, check_new_file, naming_errors, new_file

from .parts import Part


Array: TypeAlias = NDArray[Any]

VECTOR_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

# the package that a format needs, and the extra of elmo_hf that installs it
PACKAGES = {".hdf5": ("h5py", "convert"), ".h5": ("h5py", "convert"), ".parquet": ("pyarrow", "parquet")}

# what a row of a table holds
ROWS = ("sentences", "words")

# all that a program may take for the end of a line
LINE_BREAK = re.compile("[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")

# the most that one file of safetensors holds, because it is in memory while it is written
SHARD_BYTES, SHARD_SENTENCES = 2**28, 200_000


# returns the parts of a corpus, at least one; some formats read them more than once
ReadParts: TypeAlias = Callable[[], Iterable[Part]]
# returns the path to write a new file to, given its name
NewFile: TypeAlias = Callable[[str], Path]


def check_output(path: Path, dtype: str, rows: str = "sentences") -> None:
    """Check that a file of vectors can be written, before anything is computed.

    Args:
        path: The new file.
        dtype: The dtype of the vectors.
        rows: What a row of the file holds, `"sentences"` or `"words"`.

    Raises:
        ElmoError: If the suffix is unknown, the format does not have the dtype or the rows, the file exists, its
            folder does not, or a package is missing.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ElmoError(f"{path}: the name must end in one of {', '.join(FORMATS)}.")
    if dtype not in VECTOR_DTYPES:
        raise ElmoError(f"There is no dtype {dtype!r}: choose {', '.join(VECTOR_DTYPES)}.")
    if dtype == "bfloat16" and suffix != ".safetensors":
        raise ElmoError(f"{suffix} has no bfloat16: choose float16, or .safetensors.")
    if rows not in ROWS:
        raise ElmoError(f"There are no rows {rows!r}: choose {' or '.join(ROWS)}.")
    if rows == "words" and suffix != ".parquet":
        raise ElmoError(f"{suffix} is no table with a row for each word: choose .parquet, or rows of sentences.")
    companions = {
        ".npy": [offsets_path(path), ids_path(path), words_path(path)],
        ".safetensors": [path.with_name(f"{path.name}.index.json")],
    }
    for file in (path, *companions.get(suffix, ())):
        check_new_file(file)
    package, extra = PACKAGES.get(suffix, (None, None))
    if package is not None and importlib.util.find_spec(package) is None:
        raise ElmoError(f"{suffix} needs {package}: pip install 'elmo_hf[{extra}]', or choose .npz.")


def write_vectors(
    path: Path,
    parts: ReadParts,
    metadata: Mapping[str, str],
    *,
    rows: str = "sentences",
    folder: Path | None = None,
) -> None:
    """Write a file of vectors, which appears under its name when it is whole.

    Args:
        path: The new file, whose suffix chooses the format.
        parts: Returns the parts of the corpus, one of which is in memory at a time.
        metadata: A description of the vectors, which is stored by the formats that can.
        rows: `"words"` for a table with a row for each word.
        folder: The folder to write to, if it is not that of `path`.

    Raises:
        ElmoError: If the file cannot be written.
    """
    with naming_errors(path), ExitStack() as stack:

        def new(name: str) -> Path:
            return stack.enter_context(new_file((folder or path.parent) / name))

        write = _write_parquet_of_words if rows == "words" else FORMATS[path.suffix.lower()]
        write(path, new, parts, metadata)


def _write_npz(path: Path, new: NewFile, parts: ReadParts, metadata: Mapping[str, str]) -> None:
    """Write an array for each sentence; unlike `np.savez`, this needs one array at a time in memory."""
    number = 0
    with zipfile.ZipFile(new(path.name), "w") as archive:
        archive.comment = json.dumps(metadata).encode()
        for part in parts():
            for name, vectors in zip(part.names(number), part.arrays(), strict=True):
                # ZipInfo sets no time, which would make equal files differ
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, vectors.numpy(), allow_pickle=False)
            number += len(part.sentences)


def _write_hdf5(path: Path, new: NewFile, parts: ReadParts, metadata: Mapping[str, str]) -> None:
    """Write a data set for each sentence, and an index of the sentences, as AllenNLP's `elmo` command does.

    Sentences with keys need no index. A data set has its whole key in the attribute `original_id`, as in
    bio_embeddings.
    """
    import h5py

    raw = DeferredErrorFile(new(path.name), "w+")
    file = h5py.File(raw, "w")
    # `file.create_dataset` makes the same properties and type anew for each sentence, which takes a third of the time
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    try:
        sentence_to_index: dict[str, str] = {}
        number = 0
        file.attrs.update(metadata)
        for part in parts():
            kind = h5py.h5t.py_create(part.vectors.numpy().dtype, logical=True)
            for sentence, name, vectors in zip(part.sentences, part.names(number), part.arrays(), strict=True):
                space = h5py.h5s.create_simple(vectors.shape)
                dataset = h5py.h5d.create(file.id, array_name(path, name).encode(), kind, space, properties)
                if vectors.numel():
                    dataset.write(space, space, vectors.numpy())
                if sentence.key is None:
                    # for equal sentences, AllenNLP's index has the last one
                    sentence_to_index[sentence.text] = name
                else:
                    h5py.Dataset(dataset).attrs["original_id"] = sentence.key
                raw.check()
            number += len(part.sentences)
        if sentence_to_index or number == 0:
            index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
            index[0] = json.dumps(sentence_to_index)
    finally:
        # If the file stayed open, HDF5 would write to it at exit. On a full disk, closing fails.
        with suppress(OSError, RuntimeError, ValueError):
            file.close()
        raw.close()
    raw.check()


def _write_safetensors(path: Path, new: NewFile, parts: ReadParts, metadata: Mapping[str, str]) -> None:
    """Write a tensor for each sentence, in several files with an index if they are large, as Transformers' weights."""
    counts = list(_shard_sizes(parts()))
    files = [f"{path.stem}-{number:05}-of-{len(counts):05}{path.suffix}" for number in range(1, len(counts) + 1)]
    if len(counts) > 1:
        file_of_each = (file for file, count in zip(files, counts, strict=True) for _ in range(count))
        weight_map = dict(zip(_all_names(parts()), file_of_each, strict=True))
        index = {"metadata": dict(metadata), "weight_map": weight_map}
        new(f"{path.name}.index.json").write_text(json.dumps(index), encoding="utf-8")
    else:
        files = [path.name]
    number, tensors, shards = 0, dict[str, torch.Tensor](), list(zip(files, counts, strict=True))
    for part in parts():
        for name, vectors in zip(part.names(number), part.arrays(), strict=True):
            tensors[name] = vectors.clone()
        number += len(part.sentences)
        file, count = shards[0]
        if len(tensors) == count:
            # one entry, because the order of several would change from run to run
            save_file(tensors, new(file), metadata={"elmo_hf": json.dumps(metadata)})
            shards, tensors = shards[1:], {}


def _shard_sizes(parts: Iterable[Part]) -> Iterator[int]:
    """Yield the number of sentences of each file, which holds as many whole parts as its limits allow."""
    sentences = size = 0
    for part in parts:
        count = len(part.sentences)
        if sentences and (sentences + count > SHARD_SENTENCES or size + part.vectors.nbytes > SHARD_BYTES):
            yield sentences
            sentences = size = 0
        sentences += count
        size += part.vectors.nbytes
    yield sentences


def _all_names(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the names of the arrays of a corpus."""
    number = 0
    for part in parts:
        yield from part.names(number)
        number += len(part.sentences)


def _write_parquet(path: Path, new: NewFile, parts: ReadParts, metadata: Mapping[str, str]) -> None:
    """Write a row for each sentence: its key, text and words, and the vectors of its words, or its own if pooled."""
    _write_tables(new(path.name), map(_parquet_table, parts()), metadata)


def _write_parquet_of_words(path: Path, new: NewFile, parts: ReadParts, metadata: Mapping[str, str]) -> None:
    """Write a row for each word: its sentence's key and number, its number there, the word, and its vector."""
    _write_tables(new(path.name), _tables_of_words(parts()), metadata)


def _write_tables(path: Path, tables: Iterator[Any], metadata: Mapping[str, str]) -> None:
    """Write tables of pyarrow one after the other to a Parquet file."""
    from pyarrow import parquet

    first = next(tables)
    with parquet.ParquetWriter(path, first.schema.with_metadata(dict(metadata))) as writer:
        for table in chain([first], tables):
            writer.write_table(table.replace_schema_metadata(dict(metadata)))


def _parquet_table(part: Part) -> Any:
    import pyarrow as pa

    # the innermost lists of all arrays
    flat = torch.cat([part.vectors.new_empty(0), *(array.flatten() for array in part.arrays())])
    vectors: Any = pa.FixedSizeListArray.from_arrays(pa.array(flat.numpy()), part.vectors.shape[-1])
    layers = part.vectors.shape[1] if part.vectors.ndim == 3 else 1
    if not part.pooled:
        ends = np.cumsum([0, *np.repeat(part.row_counts(), layers)])
        vectors = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), vectors)
    if part.vectors.ndim == 3:
        vectors = pa.FixedSizeListArray.from_arrays(vectors, layers)
    texts = pa.array([sentence.text for sentence in part.sentences], pa.string())
    words = pa.array([sentence.words for sentence in part.sentences], pa.list_(pa.string()))
    keys = [sentence.key for sentence in part.sentences if sentence.key is not None]
    ids = {"id": pa.array(keys, pa.string())} if keys else {}
    return pa.table({**ids, "text": texts, "words": words, "vectors": vectors})


def _tables_of_words(parts: Iterable[Part]) -> Iterator[Any]:
    import pyarrow as pa

    number = 0
    for part in parts:
        counts = part.row_counts()
        columns: dict[str, Any] = {}
        if part.sentences and part.sentences[0].key is not None:
            keys = [sentence.key for sentence in part.sentences for _ in sentence.words]
            columns["id"] = pa.array(keys, pa.string())
        columns["sentence"] = np.repeat(np.arange(number, number + len(counts)), counts)
        columns["position"] = pa.array([index for count in counts for index in range(count)], pa.int64())
        columns["word"] = pa.array([word for sentence in part.sentences for word in sentence.words], pa.string())
        layers = part.vectors.unbind(1) if part.vectors.ndim == 3 else [part.vectors]
        names = ["vector"] if part.vectors.ndim == 2 else [f"layer_{layer}" for layer in range(len(layers))]
        for name, layer in zip(names, layers, strict=True):
            columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(layer.flatten().numpy()), layer.shape[1])
        yield pa.table(columns)
        number += len(part.sentences)


def _write_npy(path: Path, new: NewFile, parts: ReadParts, metadata: Mapping[str, str]) -> None:  # noqa: ARG001
    """Write one array of all rows, and in `NAME.offsets.npy` the row at which each sentence begins, and the end.

    Keys go to the lines of `NAME.ids.txt`, and the word of each row, unless the sentences are pooled, to those of
    `NAME.words.txt`.
    """
    counts: list[int] = []
    keys: list[str] = []
    for part in parts():
        counts += part.row_counts()
        pooled = part.pooled
        keys += [sentence.key for sentence in part.sentences if sentence.key is not None]
        sample = part.vectors[:0].numpy()
    header = {
        "descr": np.lib.format.dtype_to_descr(sample.dtype),
        "fortran_order": False,
        "shape": (sum(counts), *sample.shape[1:]),
    }
    with new(path.name).open("wb") as file, new(offsets_path(path).name).open("wb") as offsets:
        np.save(offsets, np.cumsum([0, *counts], dtype=np.int64))
        if keys:
            new(ids_path(path).name).write_text("".join(f"{key}\n" for key in keys), encoding="utf-8")
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts():
            file.write(np.ascontiguousarray(part.vectors.numpy()).data)
    if not pooled:
        with new(words_path(path).name).open("w", encoding="utf-8", newline="\n") as words:
            for part in parts():
                words.writelines(
                    f"{LINE_BREAK.sub(' ', word)}\n" for sentence in part.sentences for word in sentence.words
                )


def offsets_path(path: Path) -> Path:
    """Return the path of the offsets that belong to a `.npy` file."""
    return path.with_suffix(".offsets.npy")


def ids_path(path: Path) -> Path:
    """Return the path of the keys that belong to a `.npy` file."""
    return path.with_suffix(".ids.txt")


def words_path(path: Path) -> Path:
    """Return the path of the words that belong to a `.npy` file."""
    return path.with_suffix(".words.txt")


def array_name(path: Path, key: str) -> str:
    """Return the name of a sentence's array in a file, given its key: HDF5 would make groups of parts between `/`."""
    return key.replace("/", "_") if path.suffix.lower() in (".hdf5", ".h5") else key


FORMATS: dict[str, Callable[[Path, NewFile, ReadParts, Mapping[str, str]], None]] = {
    ".npz": _write_npz,
    ".hdf5": _write_hdf5,
    ".h5": _write_hdf5,
    ".safetensors": _write_safetensors,
    ".parquet": _write_parquet,
    ".npy": _write_npy,
}

__all__ = [
    "FORMATS",
    "ROWS",
    "VECTOR_DTYPES",
    "ReadParts",
    "array_name",
    "check_output",
    "ids_path",
    "offsets_path",
    "words_path",
    "write_vectors",
]
