"""The vectors of sentences: batches of similar length, and results in the order of the sentences.

Shape notation: `B` sentences, `T` words with boundary tokens, `L` biLSTM layers, `H` width of a vector.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf.data.batches import BATCHES_PER_WINDOW, batches_by_length, windows
from elmo_hf.errors import ElmoError, counted

from .sentences import SentenceInput, check_sentences, split_words


Vectors: TypeAlias = NDArray[np.float32]
# a callback, which receives the number of words that have been embedded since the last call
Progress: TypeAlias = Callable[[int], object]

# positions of a batch, padding included, for each sentence that it may have: long sentences come in smaller batches
POSITIONS_PER_SENTENCE = 128


def embed(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[SentenceInput],
    *,
    layers: str | int = "mix",
    batch_size: int = 32,
) -> Iterator[Vectors]:
    """Compute the vectors of each sentence's words.

    The vectors of a sentence depend neither on the other sentences nor on earlier calls. You may pass a generator:
    only a few batches of its sentences are in memory at a time.

    Args:
        model: An ELMo in evaluation mode, on any device.
        tokenizer: The tokenizer of the model.
        sentences: For each sentence a text, which the tokenizer splits, a list of words, or a `Sentence`. A frame of
            pandas or polars with one column is its column.
        layers: `"mix"` (the weighted mean of all layers, `last_hidden_state`), `"sum"` (their sum, as SeqVec takes
            it), `"top"`, the number of a layer (0 is the token layer), or `"all"`.
        batch_size: The number of sentences to compute at once.

    Yields:
        For each sentence, in the given order, `[words, H]` in float32, or `[L + 1, words, H]` with `layers="all"`.
        The boundary tokens `<S>` and `</S>` are not included; a sentence without words has an empty array.

    Raises:
        ElmoError: If there is no such layer, or `sentences` is not one column of sentences.
        ValueError: If the model is in training mode.
    """
    embedder = Embedder(model, tokenizer, layers=layers, batch_size=batch_size)
    for window in windows(check_sentences(sentences), max_items=BATCHES_PER_WINDOW * batch_size):
        yield from embedder.embed([split_words(sentence, tokenizer) for sentence in window])


class Embedder:
    """Computes vectors with one model; `embed` and `embed_corpus` share it.

    Args:
        model: As for `embed`.
        tokenizer: The tokenizer of the model.
        layers: As for `embed`.
        batch_size: As for `embed`.

    Raises:
        ElmoError: If there is no such layer.
        ValueError: If the model is in training mode, or `batch_size` is not positive.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, layers: str | int, batch_size: int
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.layers = parse_layer(layers, model.config.num_hidden_layers)
        self.batch_size = batch_size
        if model.training:
            raise ValueError("The model is in training mode, where vectors may be random: call `model.eval()` first.")
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}: it must be at least 1.")

    def embed(self, sentences: Sequence[list[str]], progress: Progress | None = None) -> list[Vectors]:
        """Compute the vectors of sentences that are in memory.

        Args:
            sentences: The words of each sentence.
            progress: Receives the number of words after each batch.

        Returns:
            The vectors of each sentence, as `embed` yields them.
        """
        # with both boundary tokens
        lengths = [len(words) + 2 for words in sentences]
        max_positions = self.batch_size * POSITIONS_PER_SENTENCE
        results: dict[int, Vectors] = {}
        for batch in batches_by_length(lengths, max_sentences=self.batch_size, max_positions=max_positions):
            words = [sentences[index] for index in batch]
            results.update(zip(batch, self._embed_batch(words), strict=True))
            if progress is not None:
                progress(sum(map(len, words)))
        return [results[index] for index in range(len(sentences))]

    @torch.inference_mode()
    def _embed_batch(self, words: list[list[str]]) -> list[Vectors]:
        with explaining_lack_of_memory(list(map(len, words))):
            batch = self.tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt")
            batch = batch.to(self.model.device)
            output = self.model.base_model(**batch, output_hidden_states=self.layers != "mix", use_cache=False)
        arrays = self._select_layers(output).float().cpu().numpy()
        masks = batch["attention_mask"].bool().cpu().numpy()
        # the words between the boundary tokens, wherever the padding is
        inner = [array[mask][1:-1] for array, mask in zip(arrays, masks, strict=True)]
        # [L + 1, words, H] for all layers
        return [np.ascontiguousarray(array.swapaxes(0, 1)) for array in inner] if self.layers == "all" else inner

    def _select_layers(self, output: Any) -> torch.Tensor:
        """Return `[B, T, H]`, or `[B, T, L + 1, H]` for all layers."""
        if self.layers == "mix":
            return output.last_hidden_state
        if self.layers == "all":
            return torch.stack(output.hidden_states, dim=2)
        if self.layers == "sum":
            return functools.reduce(torch.add, output.hidden_states)
        return output.hidden_states[self.layers]


@contextmanager
def explaining_lack_of_memory(lengths: list[int]) -> Iterator[None]:
    """Say what to do if the batch that this block computes does not fit in memory.

    Args:
        lengths: The number of words of each sentence of the batch.

    Raises:
        ElmoError: In place of the error of Python or of torch.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        raise ElmoError(_out_of_memory(lengths)) from error


def _out_of_memory(lengths: list[int]) -> str:
    """Return what to tell about a batch of sentences of these lengths that does not fit in memory."""
    if len(lengths) == 1:
        return (
            f"There is not enough memory for a sentence of {counted(lengths[0], 'word')}: compute it where there is "
            "more, perhaps on the CPU, or split it."
        )
    size = f"{counted(len(lengths), 'sentence')} of up to {counted(max(lengths), 'word')}"
    return f"There is not enough memory for {size}: make the batches smaller, or split long sentences."


def parse_layer(layer: str | int, num_hidden_layers: int) -> str | int:
    """Check the name or number of a layer.

    Args:
        layer: `"mix"`, `"sum"`, `"top"`, `"all"`, or a number from 0 to the last layer, as an integer or a string.
        num_hidden_layers: The number of biLSTM layers of the model.

    Returns:
        `"mix"`, `"sum"`, `"all"` or the number of the layer.

    Raises:
        ElmoError: If there is no such layer.
    """
    if layer in ("mix", "sum", "all"):
        return layer
    if layer == "top":
        return num_hidden_layers
    text = str(layer)
    if text.isdecimal() and int(text) <= num_hidden_layers:
        return int(text)
    raise ElmoError(
        f"There is no layer {text!r}: choose mix, sum, top, all, or a number from 0 to {num_hidden_layers}."
    )


__all__ = [
    "POSITIONS_PER_SENTENCE",
    "Embedder",
    "Progress",
    "Vectors",
    "embed",
    "explaining_lack_of_memory",
    "parse_layer",
]
