"""Files of vectors: what each format holds, and how it is written from one part of a corpus after the other.

Shape notation: `N` rows, which are the words of all sentences one after the other, or one a sentence where they are
pooled; `H` width of a vector, or `L + 1` layers and the width.
"""

import importlib.util
import io
import json
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
from elmo_hf.files import check_new_file, naming_errors, new_file

from .parts import Part


Array: TypeAlias = NDArray[Any]

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

# what a format needs, and the extra that brings it
PACKAGES = {".hdf5": ("h5py", "convert"), ".h5": ("h5py", "convert"), ".parquet": ("pyarrow", "parquet")}

# where a file of safetensors ends and another begins: each is held in memory
SHARD_BYTES, SHARD_SENTENCES = 2**28, 200_000


# the parts of a corpus, at least one; formats read them more than once
Parts: TypeAlias = Callable[[], Iterable[Part]]
# where to write a new file, by its name
NewFile: TypeAlias = Callable[[str], Path]


def check_output(path: Path, dtype: str) -> None:
    """Refuse a file that could not be written, before there is anything to write.

    Raises:
        ElmoError: If the suffix is not known, the format has no such numbers, the file exists, its folder does not, or
            a package is missing.
    """
    if path.suffix not in FORMATS:
        raise ElmoError(f"{path}: the name must end in one of {', '.join(FORMATS)}.")
    if dtype not in DTYPES:
        raise ElmoError(f"There is no dtype {dtype!r}: choose {', '.join(DTYPES)}.")
    if dtype == "bfloat16" and path.suffix != ".safetensors":
        raise ElmoError(f"{path.suffix} has no bfloat16: choose float16, or .safetensors.")
    belonging = {".npy": [offsets_of(path)], ".safetensors": [path.with_name(f"{path.name}.index.json")]}
    for file in (path, *belonging.get(path.suffix, ())):
        check_new_file(file)
    package, extra = PACKAGES.get(path.suffix, (None, None))
    if package is not None and importlib.util.find_spec(package) is None:
        raise ElmoError(f"{path.suffix} needs {package}: pip install 'elmo_hf[{extra}]', or choose .npz.")


def write_vectors(path: Path, parts: Parts, about: Mapping[str, str], *, folder: Path | None = None) -> None:
    """Write a file of vectors; it appears under its name when it is whole.

    Args:
        path: Its suffix chooses the format.
        parts: The parts of the corpus, of which one at a time is held.
        about: What the vectors are, for formats that have a place for it.
        folder: Where to write it for now, under the same name.

    Raises:
        ElmoError: If it cannot be written.
    """
    with naming_errors(path), ExitStack() as stack:

        def new(name: str) -> Path:
            return stack.enter_context(new_file((folder or path.parent) / name))

        FORMATS[path.suffix](path, new, parts, about)


def _write_npz(path: Path, new: NewFile, parts: Parts, about: Mapping[str, str]) -> None:
    """Write an array a sentence, one `.npy` after the other into a zip, and so not in memory as `np.savez` does."""
    number = 0
    with zipfile.ZipFile(new(path.name), "w") as archive:
        archive.comment = json.dumps(about).encode()
        for part in parts():
            for vectors in part.arrays():
                # without the time, which would make equal files differ
                with archive.open(zipfile.ZipInfo(f"{number}.npy"), "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, vectors.numpy(), allow_pickle=False)
                number += 1


def _write_hdf5(path: Path, new: NewFile, parts: Parts, about: Mapping[str, str]) -> None:
    """Write a data set a sentence, and the number of each sentence, as AllenNLP's `elmo` command does."""
    import h5py

    raw = PatientFile(new(path.name), "w+")
    file = h5py.File(raw, "w")
    try:
        sentence_to_index: dict[str, str] = {}
        number = 0
        file.attrs.update(about)
        for part in parts():
            for text, vectors in zip(part.texts, part.arrays(), strict=True):
                file.create_dataset(str(number), data=vectors.numpy())
                # of equal sentences AllenNLP names the last
                sentence_to_index[text] = str(number)
                number += 1
                raw.check()
        index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
        index[0] = json.dumps(sentence_to_index)
    finally:
        # left open, HDF5 would write to it when Python has gone; on a full disk it complains
        with suppress(OSError, RuntimeError, ValueError):
            file.close()
        raw.close()
    raw.check()


class PatientFile(io.FileIO):
    """A file for `h5py.File` that keeps its first error until `check` is called.

    Told at once, HDF5 fills the screen with complaints, and may end the process.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of the data; after an error, nothing."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and self.error is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Cut or lengthen the file; after an error, do nothing."""
        try:
            return super().truncate(size) if self.error is None else 0
        except OSError as error:
            self.error = error
            return 0

    def check(self) -> None:
        """Raise the first error that there was."""
        if self.error is not None:
            raise self.error


def _write_safetensors(path: Path, new: NewFile, parts: Parts, about: Mapping[str, str]) -> None:
    """Write a tensor a sentence; if they are many, in several files with an index, as Transformers does weights."""
    counts = list(_shard_sizes(parts()))
    names = [f"{path.stem}-{number:05}-of-{len(counts):05}{path.suffix}" for number in range(1, len(counts) + 1)]
    if len(counts) > 1:
        places = (name for name, count in zip(names, counts, strict=True) for _ in range(count))
        index = {"metadata": dict(about), "weight_map": {str(number): name for number, name in enumerate(places)}}
        new(f"{path.name}.index.json").write_text(json.dumps(index), encoding="utf-8")
    else:
        names = [path.name]
    number, held, left = 0, dict[str, torch.Tensor](), list(zip(names, counts, strict=True))
    for part in parts():
        for vectors in part.arrays():
            held[str(number)] = vectors.clone()
            number += 1
        name, count = left[0]
        if len(held) == count:
            # with several entries their order would change from run to run
            save_file(held, new(name), metadata={"elmo_hf": json.dumps(about)})
            left, held = left[1:], {}


def _shard_sizes(parts: Iterable[Part]) -> Iterator[int]:
    """Count the sentences of each file: of whole parts, until they are many or large."""
    sentences = size = 0
    for part in parts:
        if sentences and (sentences + len(part.texts) > SHARD_SENTENCES or size + part.vectors.nbytes > SHARD_BYTES):
            yield sentences
            sentences = size = 0
        sentences += len(part.texts)
        size += part.vectors.nbytes
    yield sentences


def _write_parquet(path: Path, new: NewFile, parts: Parts, about: Mapping[str, str]) -> None:
    """Write a row a sentence: its text, its words, and their vectors or the one it has."""
    import pyarrow as pa
    from pyarrow import parquet

    def table_of(part: Part) -> Any:
        # of all arrays, the innermost lists one after the other
        flat = torch.cat([part.vectors.new_empty(0), *(array.flatten() for array in part.arrays())])
        vectors: Any = pa.FixedSizeListArray.from_arrays(pa.array(flat.numpy()), part.vectors.shape[-1])
        layers = part.vectors.shape[1] if part.vectors.ndim == 3 else 1
        if not part.pooled:
            ends = np.cumsum([0, *np.repeat(part.rows(), layers)])
            vectors = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), vectors)
        if part.vectors.ndim == 3:
            vectors = pa.FixedSizeListArray.from_arrays(vectors, layers)
        words = pa.array(part.words, pa.list_(pa.string()))
        return pa.table({"text": pa.array(part.texts, pa.string()), "words": words, "vectors": vectors})

    tables = map(table_of, parts())
    first = next(tables)
    with parquet.ParquetWriter(new(path.name), first.schema.with_metadata(dict(about))) as writer:
        for table in chain([first], tables):
            writer.write_table(table.replace_schema_metadata(dict(about)))


def _write_npy(path: Path, new: NewFile, parts: Parts, about: Mapping[str, str]) -> None:  # noqa: ARG001
    """Write one array of all rows, and where in it each sentence begins: `NAME.offsets.npy`, one number more."""
    counts: list[int] = []
    for part in parts():
        counts += part.rows()
        sample = part.vectors[:0].numpy()
    header = {
        "descr": np.lib.format.dtype_to_descr(sample.dtype),
        "fortran_order": False,
        "shape": (sum(counts), *sample.shape[1:]),
    }
    with new(path.name).open("wb") as file, new(offsets_of(path).name).open("wb") as offsets:
        np.save(offsets, np.cumsum([0, *counts], dtype=np.int64))
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts():
            file.write(np.ascontiguousarray(part.vectors.numpy()).data)


def offsets_of(path: Path) -> Path:
    """Name the file of offsets that belongs to a `.npy`."""
    return path.with_suffix(".offsets.npy")


FORMATS: dict[str, Callable[[Path, NewFile, Parts, Mapping[str, str]], None]] = {
    ".npz": _write_npz,
    ".hdf5": _write_hdf5,
    ".h5": _write_hdf5,
    ".safetensors": _write_safetensors,
    ".parquet": _write_parquet,
    ".npy": _write_npy,
}

__all__ = ["DTYPES", "FORMATS", "Parts", "PatientFile", "check_output", "write_vectors"]
