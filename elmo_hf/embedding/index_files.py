"""The files of an index: the unit vector of each word of a corpus in float16, and the place where the word stands.

An index is a folder of NumPy files, which are read without loading them into memory (`numpy.load` with `mmap_mode`).

Shape notation: `N` words of the corpus, `S` sentences, `V` different spellings, `W` width of a vector.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from elmo_hf.errors import ElmoError, one_line
from elmo_hf.files import new_folder

from .vectors import Vectors


Array: TypeAlias = NDArray[Any]

# the version of the files; another one cannot be read
FORMAT = 2
MANIFEST, SPELLINGS = "index.json", "spellings.json"
ARRAYS = ("vectors", "words", "ends", "sources")

# bytes of a sample, and how many samples of a file its digest has
SAMPLE_BYTES, SAMPLES = 1 << 16, 32


class IndexFiles(NamedTuple):
    """The content of an index.

    Attributes:
        manifest: The model and the layers of the vectors.
        vectors: `[N, W]` in float16, of length 1, or zero.
        words: `[N]`, the number of each word's spelling.
        spellings: The `V` different words of the corpus.
        ends: `[S]`, the number of words up to the end of each sentence.
        sources: `[S, 2]`, the number of each sentence's file, and its line.
        files: The names of the files.
    """

    manifest: Mapping[str, str]
    vectors: Array
    words: Array
    spellings: list[str]
    ends: Array
    sources: Array
    files: list[str]


class GrowingArray:
    """A `.npy` file to which rows are added; the number of rows is in its header when it is closed.

    Args:
        path: The new file.
        dtype: The dtype of the array.
        row_shape: The shape of a row.
    """

    def __init__(self, path: Path, dtype: DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.dtype = np.dtype(dtype)
        self.row_shape = row_shape
        self.rows = 0
        self._file = path.open("wb")
        self._write_header()

    def __enter__(self) -> "GrowingArray":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, rows: Any) -> None:
        """Add rows `[n, *row_shape]`."""
        array = np.asarray(rows, dtype=self.dtype).reshape(-1, *self.row_shape)
        self._file.write(array.tobytes())
        self.rows += len(array)

    def close(self) -> None:
        """Write the number of rows, for which NumPy leaves room in every header."""
        try:
            self._file.seek(0)
            self._write_header()
        finally:
            self._file.close()

    def _write_header(self) -> None:
        descr = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self.rows, *self.row_shape)}
        np.lib.format.write_array_header_1_0(self._file, header)


class IndexWriter:
    """Writes the words of a corpus to an index, sentence by sentence; `new_index` makes one."""

    def __init__(self, folder: Path, width: int, stack: ExitStack) -> None:
        def new(name: str, dtype: DTypeLike, *row_shape: int) -> GrowingArray:
            return stack.enter_context(GrowingArray(folder / f"{name}.npy", dtype, row_shape))

        self._vectors = new("vectors", np.float16, width)
        self._words = new("words", np.int32)
        self._ends = new("ends", np.int64)
        self._sources = new("sources", np.int64, 2)
        self.spellings: dict[str, int] = {}
        self.files: dict[str, int] = {}

    def add(self, file: str, line: int, words: Sequence[str], vectors: Vectors) -> None:
        """Add a sentence.

        Args:
            file: The name of its file.
            line: The number of its line.
            words: Its words.
            vectors: Their vectors `[words, W]`, of any length.
        """
        self._vectors.append(unit_vectors(vectors))
        self._words.append([self.spellings.setdefault(word, len(self.spellings)) for word in words])
        self._ends.append([self._words.rows])
        self._sources.append([self.files.setdefault(file, len(self.files)), line])

    @property
    def num_words(self) -> int:
        """The number of words so far."""
        return self._words.rows


def unit_vectors(vectors: Vectors) -> Vectors:
    """Scale vectors `[n, W]` to length 1; a vector of zeros stays as it is."""
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return vectors / lengths


@contextmanager
def new_index(path: Path, width: int, manifest: Mapping[str, str]) -> Iterator[IndexWriter]:
    """Create an index, which appears under its name when the block ends, and not at all if the block fails.

    Args:
        path: The name of the folder.
        width: `W`.
        manifest: The model and the layers of the vectors.

    Yields:
        The writer of the index.

    Raises:
        ElmoError: If something has that name, or the system refuses to write.
    """
    with new_folder(path, size=0) as folder:
        with ExitStack() as stack:
            writer = IndexWriter(folder, width, stack)
            yield writer
        (folder / SPELLINGS).write_text(json.dumps(list(writer.spellings)), encoding="ascii")
        digests = {name: digest_of_file(folder / name) for name in _data_files()}
        values = {"format": FORMAT, "files": list(writer.files), "digests": digests, **manifest}
        (folder / MANIFEST).write_text(json.dumps(values, indent=1), encoding="ascii")


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of the size of a file and of its content, of which a large file has only samples read.

    The samples are spread over the whole file, its beginning and end among them: 2 MiB in all. So an index of any size
    opens at once, and a file of another index is told apart all the same; damage between two samples is not.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    starts: Sequence[int] = range(0, size, SAMPLE_BYTES)
    if len(starts) > SAMPLES:
        starts = [(size - SAMPLE_BYTES) * number // (SAMPLES - 1) for number in range(SAMPLES)]
    with path.open("rb") as file:
        for start in starts:
            file.seek(start)
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()


def _data_files() -> list[str]:
    return [SPELLINGS, *(f"{name}.npy" for name in ARRAYS)]


def read_index(path: Path) -> IndexFiles:
    """Open the files of an index.

    Raises:
        ElmoError: If it is not an index, or damaged, or has files of another one.
    """
    if not (path / MANIFEST).is_file():
        raise ElmoError(f"{path} is not an index of a corpus: make it with `elmo-hf neighbours FILE --index {path}`.")
    try:
        values = json.loads((path / MANIFEST).read_text(encoding="ascii"))
        if values["format"] != FORMAT:
            raise ElmoError(
                f"The index {path} cannot be read (its format is {values['format']!r:.80}): make it again."
            )
        for name in _data_files():
            if digest_of_file(path / name) != values["digests"][name]:
                raise ValueError(f"{name} is not the file that was written with the others")
        manifest = {name: values[name] for name in ("model", "model_sha256", "layers")}
        spellings = json.loads((path / SPELLINGS).read_text(encoding="ascii"))
        arrays = {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
        files = IndexFiles(manifest, **arrays, spellings=spellings, files=values["files"])
        _check(files)
    except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ElmoError(f"The index {path} is damaged ({one_line(error)}): make it again.") from error
    return files


def _check(files: IndexFiles) -> None:
    """Check that the parts of an index fit each other.

    Raises:
        ValueError: If one does not.
    """
    vectors, words, ends, sources = files.vectors, files.words, files.ends, files.sources
    fits = {
        MANIFEST: _are_texts(list(files.manifest.values())) and _are_texts(files.files),
        SPELLINGS: _are_texts(files.spellings),
        "vectors.npy": vectors.dtype == np.float16 and vectors.ndim == 2 and len(vectors) == len(words) > 0,
        "words.npy": words.dtype == np.int32 and words.ndim == 1 and _are_numbers(words, len(files.spellings)),
        "ends.npy": ends.dtype == np.int64 and ends.ndim == 1 and ends[-1] == len(words),
        # counted from 0, and empty sentences have the end of the one before
        "the order of ends.npy": bool((np.diff(ends, prepend=0) >= 0).all()),
        "sources.npy": sources.dtype == np.int64 and sources.shape == (len(ends), 2),
        "the files of sources.npy": _are_numbers(sources[:, 0], len(files.files)),
    }
    for name, fit in fits.items():
        if not fit:
            raise ValueError(f"{name} does not fit the other files")


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _are_numbers(values: Array, count: int) -> bool:
    """Return whether all values `[n]` are from 0 to `count - 1`."""
    return bool(values.min() >= 0 and values.max() < count)


__all__ = ["GrowingArray", "IndexFiles", "IndexWriter", "new_index", "read_index", "unit_vectors"]
