"""A model that is known by its name, for tools that copy and pickle what they work with."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf.bundled import model_folder
from elmo_hf.embedding.vectors import Sentence, Vectors, embed, load, on_device, parse_layer
from elmo_hf.inspection import read_config


class NamedModel:
    """A model that is loaded at its first use, and left out when this is copied or pickled.

    Args:
        name: Its folder, or `elmo-tiny-en`, which comes with the package.
        device: Where to compute, as torch calls it.
        layers: As for `embed`.
        batch_size: Sentences computed at once.

    Raises:
        ElmoError: If there is no such model, or it has no such layer.
    """

    def __init__(
        self, name: str | Path, *, device: str = "cpu", layers: str | int = "mix", batch_size: int = 32
    ) -> None:
        self.folder = model_folder(str(name))
        config = read_config(self.folder)
        self.device = device
        self.layers = parse_layer(layers, config.num_hidden_layers)
        self.batch_size = batch_size
        # of a word, with all layers side by side
        self.width = config.hidden_size * (config.num_hidden_layers + 1 if self.layers == "all" else 1)
        self._loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None}

    def embed(self, sentences: Iterable[Sentence]) -> Iterator[Vectors]:
        """Compute the vectors of each sentence's words, in the given order.

        Yields:
            `[words, W]`, where W is `width`.

        Raises:
            ElmoError: If the model cannot be loaded.
        """
        for vectors in embed(*self._load(), sentences, layers=self.layers, batch_size=self.batch_size):
            # [L + 1, words, H] with all layers
            yield vectors if vectors.ndim == 2 else vectors.swapaxes(0, 1).reshape(vectors.shape[1], self.width)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that belongs to the model."""
        return self._load()[1]

    def _load(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        if self._loaded is None:
            model, tokenizer = load(self.folder)
            on_device(model, self.device)
            self._loaded = model, tokenizer
        return self._loaded


__all__ = ["NamedModel"]
