"""ELMo in scikit-learn: a transformer that turns texts into vectors, for pipelines."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from elmo_hf.embedding.lazy_model import LazyModel
from elmo_hf.embedding.sentences import SentenceInput, read_column
from elmo_hf.embedding.vectors import Vectors
from elmo_hf.errors import ElmoError


try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
except ImportError as error:
    raise ImportError("ElmoVectorizer needs scikit-learn: pip install 'elmo_hf[sklearn]'") from error

POOLS = ("mean", "max")


class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Compute one vector for each text: the mean or maximum of the vectors of its words.

    `fit` learns nothing and only checks the parameters; you can call `transform` without it. The model is loaded when
    the first vectors are computed. A pickle holds its name, and each copy loads it again.

    Args:
        model: A model folder, or `elmo-tiny-en`, which comes with the package.
        layers: `"mix"`, `"sum"`, `"top"` or the number of a layer, as in `elmo_hf.embedding.embed`; `"all"`
            concatenates the vectors of all layers.
        pool: `"mean"` or `"max"`, over the words without the boundary tokens. A text without words gives zeros.
        batch_size: The number of texts that are computed at once.
        device: The device that computes, as PyTorch names it.
    """

    def __init__(
        self,
        model: str | Path = "elmo-tiny-en",
        *,
        layers: str | int = "mix",
        pool: str = "mean",
        batch_size: int = 32,
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.layers = layers
        self.pool = pool
        self.batch_size = batch_size
        self.device = device

    def fit(self, texts: Iterable[SentenceInput], y: object = None) -> "ElmoVectorizer":  # noqa: ARG002 - scikit-learn's
        """Check the parameters, and that `texts` is one column.

        Args:
            texts: As for `transform`; the texts themselves are not read.
            y: Ignored.

        Returns:
            This vectorizer.

        Raises:
            ElmoError: If there is no such model, layer or pool, or `texts` is not one column.
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
            ElmoError: If there is no such model, layer or pool, `texts` is not one column, or an item of it is neither
                a text nor a list of words.
        """
        model = self._lazy_model()
        reduce = np.mean if self.pool == "mean" else np.max
        # neither is defined without words
        empty = np.zeros(model.width, np.float32)
        rows = [reduce(words, axis=0) if len(words) else empty for words in model.embed(texts)]
        return np.stack(rows) if rows else np.zeros((0, model.width), np.float32)

    @property
    def _n_features_out(self) -> int:
        """The number of names that scikit-learn's `get_feature_names_out` makes."""
        return self._lazy_model().width

    def _lazy_model(self) -> LazyModel:
        """Return the model that the parameters name now, which `set_params` may have changed."""
        if self.pool not in POOLS:
            raise ElmoError(f"There is no pool {self.pool!r}: choose {' or '.join(POOLS)}.")
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


__all__ = ["ElmoVectorizer"]
