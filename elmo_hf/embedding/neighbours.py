"""The nearest neighbours of a word in its sentence, among all words of a corpus, by the cosine of their vectors.

The search is exact: it compares the vector with that of every word. A million words take about a second.

Shape notation: `N` words of the corpus, `W` width of a vector.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from elmo_hf import __version__
from elmo_hf.bundled import ELMO_SMALL_EN
from elmo_hf.errors import ElmoError
from elmo_hf.files import refuse_existing

from .engines import CACHED_WORDS, digest_of_model
from .index_files import IndexFiles, new_index, read_index, unit_vectors
from .lazy_model import LazyModel
from .occurrences import Occurrence, check_position
from .vectors import Vectors


# for each sentence its file, its line and its words
PlacedSentences: TypeAlias = Iterable[tuple[str, int, Sequence[str]]]

# vectors that are in float32 at a time: few enough to stay in a processor's cache
BLOCK = 4096
# digits of a cosine that float16 leaves
DIGITS = 4


class Neighbour(NamedTuple):
    """A word of the corpus that is near to the one that you asked for.

    Attributes:
        cosine: The cosine of the two vectors, rounded to four digits.
        occurrence: The word in its sentence.
        file: The name of the file that has the sentence.
        line: The number of its line, counted from 1.
        row: The number of the word in the corpus, counted from 0, which is its row in `NeighbourIndex.vectors`.
    """

    cosine: float
    occurrence: Occurrence
    file: str
    line: int
    row: int

    @property
    def word(self) -> str:
        """The word."""
        return self.occurrence.word


class NeighbourIndex:
    """The vectors of all words of a corpus, in files, and the search for the nearest ones.

    `build` makes an index and `open` opens one; `in_memory` makes one of a few sentences without a file.

    Args:
        path: The folder of the index; without one, messages have this name in its place.
        files: The content of the index.
        model: The model that computed the vectors.

    Attributes:
        model: The model that computed the vectors; it is loaded when it computes the first one of a query.
        vectors: The vectors of all words, `[N, W]` in float16 and of length 1, mapped from the file.
    """

    def __init__(self, path: Path, files: IndexFiles, model: LazyModel) -> None:
        self.path = path
        self.model = model
        self.vectors = files.vectors
        self._files = files
        # upper and lower case are one word: the number of each spelling's, and that of each word's
        self._numbers: dict[str, int] = {}
        folded = [self._numbers.setdefault(word.casefold(), len(self._numbers)) for word in files.spellings]
        self._words = np.array(folded, dtype=np.int32)[files.words]

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def num_sentences(self) -> int:
        """The number of sentences of the corpus."""
        return len(self._files.ends)

    @classmethod
    def build(
        cls,
        path: str | Path,
        sentences: PlacedSentences,
        model: str | Path = ELMO_SMALL_EN,
        *,
        layers: str | int = "mix",
        batch_size: int = 32,
        device: str = "cpu",
        progress: bool = False,
    ) -> "NeighbourIndex":
        """Compute the vectors of a corpus of any size and write them to an index, of `2 * W` bytes a word.

        The index appears when it is whole. Only a few batches of sentences are in memory at a time, and the different
        words of the corpus.

        Args:
            path: The folder to create.
            sentences: The file, the line and the words of each sentence, as
                `elmo_hf.data.corpus.read_placed_sentences` yields them.
            model: A model folder, or `elmo-small-en`.
            layers: `"mix"`, `"sum"`, `"top"` or the number of a layer, as in `elmo_hf.embedding.embed`; `"all"`
                concatenates the vectors of all layers.
            batch_size: The number of sentences that are computed at once.
            device: The device that computes, as PyTorch names it.
            progress: Show a progress bar.

        Raises:
            ElmoError: If something has that name, there is no such model or layer, the corpus has no words, or the
                index cannot be written.
        """
        path = Path(path)
        # before anything is computed
        refuse_existing(path)
        lazy = LazyModel(model, layers=layers, batch_size=batch_size, device=device)
        lazy.cache_words(CACHED_WORDS)
        manifest = {**_identity(lazy), "model": lazy.folder.resolve().name, "elmo_hf": __version__}
        with new_index(path, lazy.width, manifest) as writer, tqdm(disable=not progress, unit=" words") as bar:
            waiting: deque[tuple[str, int, Sequence[str]]] = deque()

            def words() -> Iterator[list[str]]:
                for sentence in sentences:
                    waiting.append(sentence)
                    yield list(sentence[2])

            for vectors in lazy.embed(words()):
                writer.add(*waiting.popleft(), vectors)
                bar.update(len(vectors))
            if not writer.num_words:
                raise ElmoError("The corpus has no words: check the text.")
        return cls(path, read_index(path), lazy)

    @classmethod
    def open(
        cls,
        path: str | Path,
        model: str | Path = ELMO_SMALL_EN,
        *,
        layers: str | int | None = None,
        device: str = "cpu",
    ) -> "NeighbourIndex":
        """Open an index.

        Args:
            path: The folder that `build` wrote.
            model: The model that computed its vectors, which is to compute those of your queries.
            layers: The layers that you expect; by default, those of the index.
            device: The device that computes, as PyTorch names it.

        Raises:
            ElmoError: If it is not an index, or damaged; or if another model or other layers made it.
        """
        files = read_index(Path(path))
        known = files.manifest
        lazy = LazyModel(model, layers=known["layers"] if layers is None else layers, device=device)
        given = _identity(lazy)
        if given["model_sha256"] != known["model_sha256"]:
            raise ElmoError(
                f"The index {path} is of a model {known['model']} with other files than {lazy.folder}: give that "
                "model, or make another index."
            )
        if given["layers"] != known["layers"]:
            raise ElmoError(
                f"The index {path} is of the layers {known['layers']}, not {given['layers']}: ask for those, or make "
                "another index."
            )
        return cls(Path(path), files, lazy)

    @classmethod
    def in_memory(cls, sentences: PlacedSentences, vectors: Iterable[Vectors], model: LazyModel) -> "NeighbourIndex":
        """Make an index of a few sentences in memory, from their vectors.

        Args:
            sentences: As for `build`.
            vectors: The vectors `[words, W]` of each sentence.
            model: The model and the layers that computed them, which are to compute those of your queries.

        Raises:
            ElmoError: If the sentences have no words.
        """
        placed = list(sentences)
        texts = [list(words) for _, _, words in placed]
        spellings, names = _numbered(chain.from_iterable(texts)), _numbered(file for file, _, _ in placed)
        if not spellings:
            raise ElmoError("The sentences have no words: give some text.")
        files = IndexFiles(
            manifest={"layers": str(model.layers)},
            vectors=unit_vectors(np.concatenate(list(vectors))).astype(np.float16),
            words=np.array([spellings[word] for words in texts for word in words], dtype=np.int32),
            spellings=list(spellings),
            ends=np.cumsum([len(words) for words in texts]),
            sources=np.array([(names[file], line) for file, line, _ in placed]),
            files=list(names),
        )
        return cls(Path("in memory"), files, model)

    def search(
        self,
        query: Occurrence | Vectors,
        *,
        top: int = 10,
        word: str | None = None,
        distinct: bool = False,
        min_count: int = 1,
    ) -> list[Neighbour]:
        """Find the words whose vectors have the largest cosine with that of the query.

        Words that differ only by upper and lower case count as one word.

        Args:
            query: A word in its sentence (`elmo_hf.embedding.find_word`), or a vector `[W]`. The same sentence in the
                corpus is left out of the result.
            top: The number of neighbours to return at most.
            word: Return occurrences of this word only.
            distinct: Return the nearest occurrence of each word only.
            min_count: Leave out words that occur less often in the corpus.

        Returns:
            The neighbours, nearest first; equally near ones in the order of the text.

        Raises:
            ElmoError: If `top` or `min_count` is not positive, the corpus does not have the word, the sentence has no
                such position, or the vector has another width or values without a finite length.
        """
        if min(top, min_count) < 1:
            raise ElmoError(f"top is {top} and min_count {min_count}: give 1 or more.")
        # before the model is loaded
        allowed = self._allowed(query, word, min_count)
        rows = np.flatnonzero(allowed)
        cosines = self.cosines(self.vector_of(query) if isinstance(query, Occurrence) else query)
        order = rows[np.argsort(-cosines[rows], kind="stable")]
        if distinct:
            _, first = np.unique(self._words[order], return_index=True)
            order = order[np.sort(first)]
        return [self._neighbour(int(row), float(cosines[row])) for row in order[:top]]

    def vector_of(self, occurrence: Occurrence) -> Vectors:
        """Compute the vector `[W]` of a word in its sentence.

        Raises:
            ElmoError: If the sentence has no such position.
        """
        check_position(occurrence.words, occurrence.position)
        return next(iter(self.model.embed([list(occurrence.words)])))[occurrence.position]

    def cosines(self, vector: Vectors) -> NDArray[np.float32]:
        """Compute the cosine of a vector `[W]` with that of each word, `[N]`, rounded to four digits.

        Raises:
            ElmoError: If the vector has another width, or values without a finite length.
        """
        if vector.shape != self.vectors.shape[1:]:
            raise ElmoError(
                f"The vector has the shape {list(vector.shape)}, but those of the index {self.path} have "
                f"{list(self.vectors.shape[1:])}: give one of the same model and layers."
            )
        # the squares of all float32 numbers fit into float64
        wide = vector.astype(np.float64)
        with np.errstate(all="ignore"):
            length = float(np.sqrt(wide @ wide))
        if not np.isfinite(length):
            raise ElmoError("The vector has infinite, NaN or too large values: give one that a model computed.")
        unit = torch.from_numpy((wide / (length or 1)).astype(np.float32))
        result = np.empty(len(self), dtype=np.float32)
        for start in range(0, len(self), BLOCK):
            # a copy, because torch warns of arrays that cannot be written to
            block = torch.from_numpy(np.array(self.vectors[start : start + BLOCK]))
            result[start : start + BLOCK] = (block.float() @ unit).numpy()
        return result.round(DIGITS)

    def _allowed(self, query: Occurrence | Vectors, word: str | None, min_count: int) -> NDArray[np.bool_]:
        """Return which words `[N]` may be in the result."""
        counts = np.bincount(self._words, minlength=len(self._numbers))
        allowed = (counts >= min_count)[self._words]
        if word is not None:
            number = self._numbers.get(word.casefold())
            if number is None:
                raise ElmoError(f"The corpus does not have the word {word!r}: choose another one, or give more text.")
            allowed &= self._words == number
        if isinstance(query, Occurrence):
            allowed[self._rows_of_sentence(query.words)] = False
        return allowed

    def _rows_of_sentence(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the numbers of all words in sentences that have exactly these words."""
        numbers = [self._numbers.get(word.casefold(), -1) for word in words]
        ends = np.asarray(self._files.ends)
        starts = ends - np.diff(ends, prepend=0)
        # [sentences of this length, words]
        rows = starts[ends - starts == len(words), None] + np.arange(len(words))
        return rows[(self._words[rows] == numbers).all(axis=1)].ravel()

    def _neighbour(self, row: int, cosine: float) -> Neighbour:
        ends = self._files.ends
        sentence = int(np.searchsorted(ends, row, side="right"))
        start = int(ends[sentence - 1]) if sentence else 0
        words = [self._files.spellings[number] for number in self._files.words[start : int(ends[sentence])]]
        file, line = self._files.sources[sentence].tolist()
        return Neighbour(round(cosine, DIGITS), Occurrence(words, row - start), self._files.files[file], line, row)


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Number different names in the order in which they come first."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _identity(model: LazyModel) -> dict[str, str]:
    """Return what two models must share for their vectors to be comparable."""
    return {"model_sha256": digest_of_model(model.folder), "layers": str(model.layers)}


__all__ = ["Neighbour", "NeighbourIndex", "PlacedSentences"]
