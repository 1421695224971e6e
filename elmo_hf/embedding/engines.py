"""Engines compute the parts of a corpus: this process does by default, or the workers of Ray (`ray_engine`)."""

import hashlib
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from elmo_hf import __version__
from elmo_hf.errors import ElmoError

from .formats import VECTOR_DTYPES
from .loading import load, move_to_device
from .parts import Part, UnfinishedPart, save_part
from .sentences import Sentence
from .vectors import Embedder, Progress


POOLS = ("none", "mean", "max")

# The token layer is computed once for each of so many distinct words of a part: 128 MB at the original size.
CACHED_WORDS = 2**16


class CorpusOptions(NamedTuple):
    """The options of `embed_corpus` that determine the vectors, under the same names."""

    layers: str | int
    pool: str
    dtype: str
    batch_size: int


class PartEmbedder:
    """Computes parts of a corpus with the model in a folder. Every process that computes parts makes its own.

    Args:
        folder: The model folder.
        device: The device to compute on, by the name that torch has for it.
        options: The options of the vectors.

    Raises:
        ElmoError: If the model cannot be loaded, or there is no such pool, device or layer.
    """

    def __init__(self, folder: Path, device: str, options: CorpusOptions) -> None:
        if options.pool not in POOLS:
            raise ElmoError(f"There is no pool {options.pool!r}: choose {', '.join(POOLS)}.")
        self.folder = folder
        self.device = device
        self.model, self.tokenizer = load(folder)
        move_to_device(self.model, device)
        self.embedder = Embedder(self.model, self.tokenizer, layers=options.layers, batch_size=options.batch_size)
        self.options = options._replace(layers=self.embedder.layers)

    @property
    def vector_shape(self) -> torch.Size:
        """The shape of one vector: `[H]`, or `[L + 1, H]` for all layers."""
        config = self.model.config
        layers = [config.num_hidden_layers + 1] if self.options.layers == "all" else []
        return torch.Size([*layers, config.hidden_size])

    def manifest(self) -> dict[str, str]:
        """Return everything that determines the vectors to the last digit: the options, the weights, the versions."""
        return {
            **{name: str(value) for name, value in self.options._asdict().items()},
            "model": self.folder.resolve().name,
            "model_sha256": digest_of_model(self.folder),
            "device": self.model.device.type,
            "elmo_hf": __version__,
            "torch": str(torch.__version__),
        }

    def embed_part(self, sentences: list[Sentence], progress: Progress | None = None) -> Part:
        """Compute the vectors of a part, which depend on nothing outside it.

        Args:
            sentences: The sentences of the part.
            progress: Receives the number of words after each batch.
        """
        # Vectors cached from other parts could differ: at odd sizes, the last bit of a product depends on its row.
        elmo: Any = self.model.base_model
        elmo.cache_words(CACHED_WORDS)
        arrays = self.embedder.embed([sentence.words for sentence in sentences], progress)
        # [words, H] or [words, L + 1, H]
        rows = [torch.from_numpy(array.swapaxes(0, 1) if array.ndim == 3 else array) for array in arrays]
        pooled = self.options.pool != "none"
        if pooled:
            rows = [pool_words(vectors, self.options.pool)[None] for vectors in rows]
        vectors = torch.cat([torch.zeros(0, *self.vector_shape), *rows]).to(VECTOR_DTYPES[self.options.dtype])
        return Part(sentences, vectors, pooled)


def digest_of_model(folder: Path) -> str:
    """Return the SHA-256 of the weights and the JSON files of a model folder."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("*.json")]):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def pool_words(vectors: torch.Tensor, pool: str) -> torch.Tensor:
    """Return the mean or the maximum of vectors `[words, ...]` over the words, or zeros if there are none."""
    if not len(vectors):
        return vectors.new_zeros(vectors.shape[1:])
    return vectors.mean(dim=0) if pool == "mean" else vectors.amax(dim=0)


class Engine(Protocol):
    """Computes parts and writes each of them to its path."""

    def __call__(self, parts: Iterable[UnfinishedPart], embedder: PartEmbedder, progress: Progress) -> None:
        """Compute all parts.

        Args:
            parts: The parts, in the order of the corpus.
            embedder: Computes a part in this process; its folder, device and options let other processes do the same.
            progress: Receives numbers of words that have been embedded.
        """


class LocalEngine:
    """Computes the parts in this process, and writes each one while it reads and computes the next."""

    def __call__(self, parts: Iterable[UnfinishedPart], embedder: PartEmbedder, progress: Progress) -> None:
        """Compute all parts; if it fails or is interrupted, it returns when the current file is done."""
        written: Future[None] | None = None
        # The caller's thread computes: in another one, torch would have two pools of threads, which wait for each
        # other for longer than they compute.
        with ThreadPoolExecutor(1) as writing:
            for part in parts:
                computed = embedder.embed_part(part.sentences, progress)
                if written is not None:
                    written.result()
                written = writing.submit(save_part, part.path, computed)
            if written is not None:
                written.result()


__all__ = ["POOLS", "CorpusOptions", "Engine", "LocalEngine", "PartEmbedder", "digest_of_model", "pool_words"]
