"""A model that is loaded at its first use, for tools that copy and pickle what they work with."""

from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf.bundled import model_folder
from elmo_hf.inspection import read_config

from .loading import load, move_to_device
from .sentences import SentenceInput
from .vectors import Vectors, embed, parse_layer


class LazyModel:
    """A model that is loaded at its first use. Copies and pickles hold its name, and load it again.

    Args:
        name: A model folder, or `elmo-small-en`, which comes with the package.
        device: The device that computes, as PyTorch names it.
        layers: `"mix"`, `"sum"`, `"top"`, the number of a layer, or `"all"`, as in `elmo_hf.embedding.embed`.
        batch_size: The number of sentences that are computed at once.
        loaded: The model, in evaluation mode, and its tokenizer, if they are loaded already.

    Raises:
        ElmoError: If there is no such model, or it has no such layer.
    """

    def __init__(
        self,
        name: str | Path,
        *,
        device: str = "cpu",
        layers: str | int = "mix",
        batch_size: int = 32,
        loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase] | None = None,
    ) -> None:
        self.folder = model_folder(name)
        config = read_config(self.folder)
        self.device = device
        self.layers = parse_layer(layers, config.num_hidden_layers)
        self.batch_size = batch_size
        # all layers of a word are concatenated
        self.width = config.hidden_size * (config.num_hidden_layers + 1 if self.layers == "all" else 1)
        self._loaded = loaded
        self._loaded_files: tuple[Hashable, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None, "_loaded_files": ()}

    @property
    def identity(self) -> Hashable:
        """What tells the vectors of this model from those of others, in this process.

        It is the folder with the state of its files when they were loaded, or else now; the device; and the layers.
        """
        return (self._loaded_files or _state_of_files(self.folder), self.device, self.layers)

    def embed(self, sentences: Iterable[SentenceInput]) -> Iterator[Vectors]:
        """Compute the vectors of each sentence's words, in the given order.

        Args:
            sentences: Each a text, for the tokenizer to split, or a list of words.

        Yields:
            Vectors `[words, W]`, where W is `width`.

        Raises:
            ElmoError: If the model cannot be loaded.
        """
        for vectors in embed(*self._load(), sentences, layers=self.layers, batch_size=self.batch_size):
            # [L + 1, words, H] with all layers
            yield vectors if vectors.ndim == 2 else vectors.swapaxes(0, 1).reshape(vectors.shape[1], self.width)

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The model's tokenizer."""
        return self._load()[1]

    def cache_words(self, number: int) -> None:
        """Keep the token layer's vectors of so many distinct words, for a long text."""
        elmo: Any = self._load()[0].base_model
        elmo.cache_words(number)

    def _load(self) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
        if self._loaded is None:
            self._loaded_files = _state_of_files(self.folder)
            model, tokenizer = load(self.folder)
            move_to_device(model, self.device)
            self._loaded = model, tokenizer
        return self._loaded


def _state_of_files(folder: Path) -> tuple[Hashable, ...]:
    """Return the path of a model folder, and what changes when a file in it does."""
    files = [(path, path.stat()) for pattern in ("*.json", "*.safetensors") for path in sorted(folder.glob(pattern))]
    return (
        str(folder.resolve()),
        *((path.name, state.st_ino, state.st_size, state.st_mtime_ns) for path, state in files),
    )


__all__ = ["LazyModel"]
