"""Compare a converted model, layer by layer, with an independent computation from the original files.

Shape notation: `B` sentences, `T` tokens with both boundary tokens, `H` width of a vector, `L` biLSTM layers.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf.embedding.loading import load
from elmo_hf.errors import counted

from .fetch.sources import gather, naming_files
from .numpy_bilm import NumpyBilm
from .readers import bilm_hdf5
from .readers.base import ConversionError, describe


# Differences that rounding explains for values up to 1, and in proportion above, by the dtype of the stored weights.
# The model computes in float64, so float32 weights lose nothing. Weights in half precision are rounded themselves, and
# the error grows step by step.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-8, torch.float16: 2e-2, torch.bfloat16: 1e-1}

BATCH_SIZE = 32

# sentences that conversions and tokenizers are likely to get wrong
AWKWARD_SENTENCES: tuple[tuple[str, ...], ...] = (
    ("The", "bank", "raised", "rates", "yesterday", "."),
    (),
    ("Yes",),
    ("",),
    ("Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "is", "long"),
    # the limit of 48 bytes falls inside a character
    ("日本語" * 6, "日本語"),
    ("naïve", "façade", "“", "Hà", "Nội", "👩‍👩‍👧", "e\u0301", "\x00", "EU-wide"),
    ("<S>", "</S>", "<UNK>", "<PAD>", "the", "<S>"),
    # not longer: large random weights double a rounding error every word or two, until it hides everything else
    ("the",) * 10,
)


@dataclass(frozen=True)
class LayerDifference:
    """The difference between one layer of the model and the original.

    Attributes:
        layer: 0 for the token layer, then the biLSTM layers.
        with_state: Whether the sentences started from the state that the first run had left, or from zeros.
        max_abs: The largest absolute difference.
        scale: The largest absolute value of the layer.
        tolerance: The largest difference that rounding explains.
    """

    layer: int
    with_state: bool
    max_abs: float
    scale: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether rounding explains the difference; NaN fails this comparison."""
        return self.max_abs <= self.tolerance


def verify(
    model_dir: str | Path,
    sources: Sequence[str | Path],
    sentences: Sequence[Sequence[str]] | None = None,
    *,
    progress: bool = False,
) -> list[LayerDifference]:
    """Compare a converted model with `NumpyBilm`, which reads the original files itself; both compute in float64.

    Args:
        model_dir: The folder of the converted model.
        sources: The original, in any form that `convert` takes.
        sentences: Lists of words without boundary tokens; by default some awkward ones.
        progress: Show a bar that counts the comparisons, two for each sentence.

    Returns:
        The difference of each layer from a zero state, then that of each layer with the state passed on.

    Raises:
        ConversionError: If the original cannot be read, or its size differs from the model's.
        ElmoError: If the model cannot be read.
    """
    if sentences is None:
        sentences = AWKWARD_SENTENCES
    if not sentences:
        raise ConversionError("There are no sentences to compare on: give at least one.")
    oracle = _read_oracle(sources)
    model, tokenizer = load(model_dir)
    tolerance = TOLERANCES[model.dtype]
    model = model.double()
    num_layers = model.config.num_hidden_layers + 1
    # [fresh or with state, L + 1]
    largest, scales = np.zeros((2, num_layers)), np.zeros((2, num_layers))
    compared = _both(model, tokenizer, oracle, sentences)
    for kind, computed, expected in tqdm(
        compared, total=2 * len(sentences), desc="Comparing", unit="", leave=False, disable=not progress
    ):
        if computed.shape != expected.shape:
            raise ConversionError(
                f"{model_dir} has {_describe(computed)} but {oracle.name} has {_describe(expected)}: "
                "give the original that it was converted from."
            )
        # `maximum` keeps NaN
        largest[kind] = np.maximum(largest[kind], np.abs(computed - expected).max(axis=(1, 2)))
        scales[kind] = np.maximum(scales[kind], np.abs(expected).max(axis=(1, 2)))
    return [
        LayerDifference(
            layer=layer,
            with_state=bool(kind),
            max_abs=float(largest[kind, layer]),
            scale=float(scales[kind, layer]),
            tolerance=tolerance * max(1.0, float(scales[kind, layer])),
        )
        for kind in (0, 1)
        for layer in range(num_layers)
    ]


def _read_oracle(sources: Sequence[str | Path]) -> NumpyBilm:
    with ExitStack() as resources, naming_files():
        files = gather(sources, resources)
        if not bilm_hdf5.recognises(files):
            raise ConversionError(f"No HDF5 weights of a biLM among {describe(files)}: only those can be verified.")
        weights, options, vocabulary, _ = bilm_hdf5.find_parts(files)
        with _oracle_errors():
            return NumpyBilm(weights.location, options.location, vocabulary.location if vocabulary else None)


@contextmanager
def _oracle_errors() -> Iterator[None]:
    """Turn errors of the oracle, which shares no code with this package, into a `ConversionError`."""
    try:
        yield
    except ValueError as error:
        raise ConversionError(str(error)) from error


def _both(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, oracle: NumpyBilm, sentences: Sequence[Sequence[str]]
) -> Iterator[tuple[int, NDArray[np.float64], NDArray[np.float64]]]:
    """Run each sentence twice through model and oracle.

    Yields:
        0 for a zero state or 1 for the state passed on, and the layers `[L + 1, T, H]` of model and oracle.
    """
    for start in range(0, len(sentences), BATCH_SIZE):
        batch = [list(words) for words in sentences[start : start + BATCH_SIZE]]
        fresh, going_on = _run_model(model, tokenizer, batch)
        with _oracle_errors():
            expected = oracle.run_many(batch, keep_boundaries=True)
            expected_on = oracle.run_many(batch, [state for _, state in expected], keep_boundaries=True)
        for row in range(len(batch)):
            yield 0, fresh[row], expected[row][0]
            yield 1, going_on[row], expected_on[row][0]


@torch.inference_mode()
def _run_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch: list[list[str]]
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Run a batch from a zero state, then from the state it left; return each sentence's layers `[L + 1, T, H]`."""
    inputs = tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="pt")
    fresh = model(**inputs, output_hidden_states=True, use_cache=True)
    going_on = model(**inputs, output_hidden_states=True, state=fresh.state)
    mask = inputs["attention_mask"].bool()
    first, second = (
        # [L + 1, B, T, H] without the padding
        [torch.stack(output.hidden_states)[:, row, mask[row]].double().numpy() for row in range(len(batch))]
        for output in (fresh, going_on)
    )
    return first, second


def _describe(layers: NDArray[np.float64]) -> str:
    return f"{counted(layers.shape[0], 'layer')} of vectors {layers.shape[2]} wide"


__all__ = ["LayerDifference", "verify"]
