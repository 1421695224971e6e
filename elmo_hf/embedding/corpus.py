"""A corpus of any size to a file of vectors, part by part, so that an interrupted run can be resumed."""

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from elmo_hf.bundled import model_folder
from elmo_hf.data.batches import windows
from elmo_hf.errors import ElmoError

from .engines import CorpusOptions, Engine, LocalEngine, PartEmbedder
from .formats import array_name, check_output, write_vectors
from .parts import Part, PartsFolder, UnfinishedPart, is_done, read_part
from .sentences import Sentence, SentenceInput, check_sentences, read_sentence


# the vectors of a part: the most that an interruption can lose, and that is in memory at a time
PART_BYTES, PART_SENTENCES = 2**26, 4096
# how often the thread that writes the file looks for the next part
SECONDS_BETWEEN_LOOKS = 0.02


def embed_corpus(
    folder: str | Path,
    sentences: Iterable[SentenceInput],
    output: str | Path,
    *,
    layers: str | int = "mix",
    pool: str = "none",
    dtype: str = "float32",
    rows: str = "sentences",
    batch_size: int = 32,
    device: str = "cpu",
    engine: Engine | None = None,
    resume: bool = False,
    progress: bool = False,
) -> tuple[int, int]:
    """Write the vectors of a corpus of any size to a file.

    An interrupted run can be resumed: finished parts are kept in a hidden folder beside the file, `.NAME.parts`, until
    the file is whole, so a run takes twice the space of the file. A resumed run writes the same bytes as a run without
    an interruption.

    Args:
        folder: A model folder, as `elmo-hf convert` writes it, or `elmo-small-en`, which comes with the package.
        sentences: For each sentence a text, which the tokenizer splits, a list of words, or a `Sentence`, whose key
            names its vectors. To resume a run, pass all sentences again, from the first one.
        output: The new file. Its suffix chooses the format: `.npz`, `.hdf5`, `.safetensors`, `.parquet` or `.npy`
            (docs/embedding.md).
        layers: `"mix"` (the weighted mean of all layers), `"sum"` (their sum), `"top"`, the number of a layer (0 is
            the token layer), or `"all"`.
        pool: `"none"` for a vector for each word; `"mean"` or `"max"` for one vector for each sentence, over its words
            without the boundary tokens. A sentence without words has a vector of zeros.
        dtype: The dtype of the file: `"float32"`, `"float16"`, or `"bfloat16"` for `.safetensors`.
        rows: `"words"` gives a `.parquet` file a row for each word, with the columns `sentence`, `position`, `word`
            and `vector`, or `layer_0`, `layer_1`, ... with all layers; with keys also `id`. By default, a row is a
            sentence.
        batch_size: The number of sentences to compute at once.
        device: The device to compute on, by the name that torch has for it.
        engine: The engine that computes the parts, such as `elmo_hf.embedding.ray_engine.RayEngine`; by default, this
            process computes them.
        resume: Resume an interrupted run, if there is one.
        progress: Show a progress bar.

    Returns:
        The number of sentences, and the number of their words.

    Raises:
        ElmoError: If `sentences` is not one column of sentences, the model cannot be loaded, the file exists or cannot
            be written, or an interrupted run was of another model, other options or other sentences, or `resume` is
            false; if another run writes there; or if two sentences have the same key, or only some have one.
    """
    checked = check_sentences(sentences)
    parts = PartsFolder(Path(output))
    if not (resume and parts.has_output()):
        # before the model is loaded
        check_output(parts.output, dtype, rows)
    if rows == "words" and pool != "none":
        raise ElmoError("Pooled sentences have no rows of words: choose rows of sentences, or no pool.")
    embedder = PartEmbedder(model_folder(folder), device, CorpusOptions(layers, pool, dtype, batch_size))
    run = CorpusRun(embedder, parts, rows)
    run.run(checked, engine or LocalEngine(), resume=resume, progress=progress)
    return run.num_sentences, run.num_words


class CorpusRun:
    """One run over a corpus: finds the parts that are missing, has them computed, and joins all parts in one file.

    Args:
        embedder: Computes the parts.
        parts: The folder of the finished parts.
        rows: What a row of the file holds.

    Attributes:
        num_sentences: The number of sentences read so far.
        num_words: The number of their words.
    """

    def __init__(self, embedder: PartEmbedder, parts: PartsFolder, rows: str) -> None:
        self.embedder = embedder
        self.parts = parts
        self.rows = rows
        self.paths: list[Path] = []
        self.num_sentences = self.num_words = 0
        # the file that is being written; whether all parts are on disk; and whether there will be no more
        self.written: Future[None] | None = None
        self.computed, self.stopped = threading.Event(), threading.Event()

    def run(self, sentences: Iterable[SentenceInput], engine: Engine, *, resume: bool, progress: bool) -> None:
        """Compute what is missing, and write the file.

        Args:
            sentences: All sentences of the corpus.
            engine: Computes the parts.
            resume: Resume an interrupted run, if there is one.
            progress: Show a progress bar.
        """
        description = self.embedder.manifest()
        with self.parts.opened({**description, "rows": self.rows}, resume=resume):
            with ExitStack() as stack:
                bar = stack.enter_context(tqdm(unit=" words", unit_scale=True, disable=not progress))
                if not self.parts.has_output():
                    stack.enter_context(self._writing(description))
                engine(self._unfinished_parts(sentences), self.embedder, bar.update)
            self.parts.publish_output()

    def _unfinished_parts(self, sentences: Iterable[SentenceInput]) -> Iterator[UnfinishedPart]:
        """Read the corpus once, number its parts, and yield those that are not on disk yet."""
        read = (read_sentence(sentence, self.embedder.tokenizer) for sentence in sentences)
        named = check_keys(read, self.parts.output)
        for part in cut_parts(named, bytes_per_word=self.embedder.vector_shape.numel() * 4):
            if self.written is not None and self.written.done():
                # it has failed, for example because the disk is full
                self.written.result()
            path = self.parts.path_of(len(self.paths))
            done = is_done(path, part)
            # now that a damaged one is deleted
            self.paths.append(path)
            self.num_sentences += len(part)
            self.num_words += sum(len(sentence.words) for sentence in part)
            if not done:
                yield UnfinishedPart(path, part)

    @contextmanager
    def _writing(self, description: Mapping[str, str]) -> Iterator[None]:
        """Write the file while the block computes its parts; no file is left if the block or the writing fails."""
        with self.parts.new_output() as folder, ThreadPoolExecutor(1) as thread:
            self.written = thread.submit(
                write_vectors, self.parts.output, self._finished_parts, description, rows=self.rows, folder=folder
            )
            try:
                yield
                self.computed.set()
                self.written.result()
            except BaseException:
                self.stopped.set()
                raise

    def _finished_parts(self) -> Iterator[Part]:
        """Yield the parts in their order, each when it is on disk."""
        number = 0
        while True:
            # before the number of parts is read, because parts may come in between
            computed = self.computed.is_set()
            if number < len(self.paths) and (computed or self.paths[number].exists()):
                yield read_part(self.paths[number])
                number += 1
            elif computed:
                return
            elif self.stopped.wait(SECONDS_BETWEEN_LOOKS):
                raise CancelledError


def check_keys(sentences: Iterable[Sentence], output: Path) -> Iterator[Sentence]:
    """Yield the sentences of a corpus, and check that each has a key that no earlier one has, or none has a key.

    Args:
        sentences: The sentences.
        output: The file, whose format names the arrays.

    Raises:
        ElmoError: If keys are missing or equal.
    """
    # 16 bytes each, because there may be millions
    taken: set[bytes] = set()
    for number, sentence in enumerate(sentences):
        if number > 0 and (sentence.key is None) == bool(taken):
            has = "no key, and earlier ones have one" if sentence.key is None else "a key, and earlier ones have none"
            raise ElmoError(f"Sentence {number} has {has}: give a key to all, or to none.")
        if sentence.key is not None:
            name = array_name(output, sentence.key)
            digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
            if digest in taken:
                raise ElmoError(
                    f"Sentence {number} has the key {sentence.key!r:.80}, and an earlier one has the name "
                    f"{name!r:.80} already: give each a key of its own."
                )
            taken.add(digest)
        yield sentence


def cut_parts(sentences: Iterable[Sentence], *, bytes_per_word: int) -> Iterator[list[Sentence]]:
    """Cut a corpus into parts, always the same for the same corpus; an empty corpus has one empty part.

    Args:
        sentences: The sentences of the corpus.
        bytes_per_word: The size of the vectors of a word.
    """
    parts = windows(
        sentences,
        max_items=PART_SENTENCES,
        max_size=PART_BYTES,
        size_of=lambda sentence: bytes_per_word * len(sentence.words),
    )
    yield from chain([next(parts, [])], parts)


__all__ = ["CorpusRun", "check_keys", "cut_parts", "embed_corpus"]
