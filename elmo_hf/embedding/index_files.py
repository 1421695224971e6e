"""The files of an index: the unit vector of each word of a corpus in float16, and the place where the word stands.

An index is a folder of NumPy files, which are read without loading them into memory (`numpy.load` with `mmap_mode`).

Shape notation: `N` words of the corpus, `S` sentences, `V` different spellings, `W` width of a vector.
"""

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
FORMAT = 1
MANIFEST, SPELLINGS = "index.json", "spellings.json"


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
        values = {"format": FORMAT, "files": list(writer.files), **manifest}
        (folder / MANIFEST).write_text(json.dumps(values, indent=1), encoding="ascii")


def read_index(path: Path) -> IndexFiles:
    """Open the files of an index.

    Raises:
        ElmoError: If it is not an index, or damaged.
    """
    if not (path / MANIFEST).is_file():
        raise ElmoError(f"{path} is not an index of a corpus: make it with `elmo-hf neighbours FILE --index {path}`.")
    try:
        values = json.loads((path / MANIFEST).read_text(encoding="ascii"))
        version, files = values["format"], values["files"]
        manifest = {name: values[name] for name in ("model", "model_sha256", "layers")}
        spellings = json.loads((path / SPELLINGS).read_text(encoding="ascii"))
        vectors, words, ends, sources = (
            np.load(path / f"{name}.npy", mmap_mode="r") for name in ("vectors", "words", "ends", "sources")
        )
        whole = (ends[-1] if len(ends) else 0) == len(words) == len(vectors) and len(ends) == len(sources)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ElmoError(f"The index {path} is damaged ({one_line(error)}): make it again.") from error
    if version != FORMAT or not whole:
        reason = f"its format is {version}" if version != FORMAT else "its files do not belong together"
        raise ElmoError(f"The index {path} cannot be read ({reason}): make it again.")
    return IndexFiles(manifest, vectors, words, spellings, ends, sources, files)


__all__ = ["GrowingArray", "IndexFiles", "IndexWriter", "new_index", "read_index", "unit_vectors"]
