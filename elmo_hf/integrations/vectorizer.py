"""ELMo in scikit-learn: a transformer that turns texts into vectors, for pipelines."""

import hashlib
import json
import math
import numbers
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_hf.data.batches import windows
from elmo_hf.embedding.lazy_model import LazyModel
from elmo_hf.embedding.sentences import Sentence, SentenceInput, check_sentences, read_column
from elmo_hf.embedding.vectors import Vectors
from elmo_hf.errors import ElmoError

from .vector_cache import VECTOR_CACHE


try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
except ImportError as error:
    raise ImportError("ElmoVectorizer needs scikit-learn: pip install 'elmo_hf[sklearn]'") from error

POOLS = ("mean", "max")

# texts that are in memory, and looked up, at a time
TEXTS_PER_WINDOW = 4096


class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Compute one vector for each text: the mean or maximum of the vectors of its words.

    `fit` learns nothing and only checks the parameters; you can call `transform` without it. The model is loaded when
    the first vectors are computed. A pickle holds its name, and each copy loads it again.

    The process keeps the vectors that were used last. So each text is computed once, however often the folds of a
    cross-validation or the steps of a search come back to it, and whichever vectorizer of the same model, layers,
    pool and device asks for it. Other processes, such as those of `n_jobs`, keep vectors of their own.

    Args:
        model: A model folder, or `elmo-small-en`, which comes with the package.
        layers: `"mix"`, `"sum"`, `"top"` or the number of a layer, as in `elmo_hf.embedding.embed`; `"all"`
            concatenates the vectors of all layers.
        pool: `"mean"` or `"max"`, over the words without the boundary tokens. A text without words gives zeros.
        batch_size: The number of texts that are computed at once.
        device: The device that computes, as PyTorch names it.
        cache_size: The megabytes that the vectors in the memory of the process may take, all vectorizers together;
            0 computes all texts each time.
    """

    def __init__(
        self,
        model: str | Path = "elmo-small-en",
        *,
        layers: str | int = "mix",
        pool: str = "mean",
        batch_size: int = 32,
        device: str = "cpu",
        cache_size: float = 200,
    ) -> None:
        self.model = model
        self.layers = layers
        self.pool = pool
        self.batch_size = batch_size
        self.device = device
        self.cache_size = cache_size

    def fit(self, texts: Iterable[SentenceInput], y: object = None) -> "ElmoVectorizer":  # noqa: ARG002 - scikit-learn's
        """Check the parameters, and that `texts` is one column.

        Args:
            texts: As for `transform`; the texts themselves are not read.
            y: Ignored.

        Returns:
            This vectorizer.

        Raises:
            ElmoError: If there is no such model, layer, pool or size, or `texts` is not one column.
        """
        self._lazy_model()
        read_column(texts)
        return self

    def transform(self, texts: Iterable[SentenceInput]) -> Vectors:
        """Compute the vector of each text.

        Args:
            texts: Each a text, for the tokenizer to split, or a list of words. A frame of pandas or polars with one
                column, or an array `[texts, 1]`, is its column.

        Returns:
            Vectors `[texts, H]` in float32, or `[texts, (L + 1) * H]` with `layers="all"`.

        Raises:
            ElmoError: If there is no such model, layer, pool or size, `texts` is not one column, or an item of it is
                neither a text nor a list of words.
        """
        model = self._lazy_model()
        vectors_of = self._recall if self.cache_size else self._compute
        rows: list[Vectors] = []
        for window in windows(check_sentences(texts), max_items=TEXTS_PER_WINDOW):
            rows += vectors_of(model, window)
        return np.stack(rows) if rows else np.zeros((0, model.width), np.float32)

    def _compute(self, model: LazyModel, texts: Sequence[SentenceInput]) -> list[Vectors]:
        """Compute the vector of each text, `[W]`."""
        reduce = np.mean if self.pool == "mean" else np.max
        # neither is defined without words
        empty = np.zeros(model.width, np.float32)
        return [reduce(words, axis=0) if len(words) else empty for words in model.embed(texts)]

    def _recall(self, model: LazyModel, texts: Sequence[SentenceInput]) -> list[Vectors]:
        """Return the vector of each text, `[W]`, and compute those that the process does not have, each once."""
        digests = [_digest(text) for text in texts]
        identity = (model.identity, self.pool)
        found = {digest: VECTOR_CACHE.get((identity, digest)) for digest in digests}
        vectors = {digest: vector for digest, vector in found.items() if vector is not None}
        new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in vectors}
        if new:
            computed = self._compute(model, list(new.values()))
            # the model is loaded only now
            identity = (model.identity, self.pool)
            for digest, vector in zip(new, computed, strict=True):
                vectors[digest] = vector
                VECTOR_CACHE.put((identity, digest), vector, max_bytes=int(self.cache_size * 1e6))
        return [vectors[digest] for digest in digests]

    @property
    def _n_features_out(self) -> int:
        """The number of names that scikit-learn's `get_feature_names_out` makes."""
        return self._lazy_model().width

    def _lazy_model(self) -> LazyModel:
        """Return the model that the parameters name now, which `set_params` may have changed."""
        if self.pool not in POOLS:
            raise ElmoError(f"There is no pool {self.pool!r}: choose {' or '.join(POOLS)}.")
        if not _is_from(0, self.cache_size, numbers.Real):
            raise ElmoError(f"cache_size is {self.cache_size!r}: give the megabytes to use, or 0.")
        if not _is_from(1, self.batch_size, numbers.Integral):
            raise ElmoError(f"batch_size is {self.batch_size!r}: give the number of texts to compute at once, from 1.")
        wanted = (str(self.model), self.layers, self.batch_size, self.device)
        known, model = self.__dict__.get("_known", (None, None))
        if known != wanted:
            model = LazyModel(self.model, device=self.device, layers=self.layers, batch_size=self.batch_size)
            self._known = wanted, model
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags


def _is_from(least: int, value: Any, kind: type) -> bool:
    """Return whether a value is a finite number of a kind, no truth value, and from `least` on."""
    return isinstance(value, kind) and type(value) is not bool and least <= float(value) < math.inf  # type: ignore[arg-type]


def _digest(text: SentenceInput) -> bytes:
    """Return 16 bytes that stand for a text, or for a list of words."""
    words = text.words if isinstance(text, Sentence) else text
    content = words if isinstance(words, str) else list(words)
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).digest()


__all__ = ["ElmoVectorizer"]
