"""From a corpus to vectors: batches by length, the original order, one array a sentence, and files of them."""

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from .errors import ElmoError
from .files import naming_errors, new_file


Vectors = NDArray[np.float32]
# raw text, or words that are already split
Sentence = str | Sequence[str]

# Batches are cut from this many sentences sorted by length: enough to make them even, few enough to hold in memory.
WINDOW_IN_BATCHES = 16


def embed(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[Sentence],
    *,
    layer: str | int = "mix",
    batch_size: int = 32,
) -> Iterator[Vectors]:
    """Compute the vectors of each sentence's words.

    A sentence's vectors do not depend on the others, nor on what was computed before. The sentences may come from a
    generator: only some batches of them are held at a time.

    Args:
        model: An ELMo in evaluation mode, on any device.
        tokenizer: The tokenizer that belongs to it.
        sentences: Each a text, for the tokenizer to split, or a list of words.
        layer: `"mix"` (the weighted mean of all layers, `last_hidden_state`), `"top"`, the number of a layer (0 is the
            token layer), or `"all"`.
        batch_size: Sentences computed at once.

    Yields:
        For each sentence, in the given order, `[words, H]` in float32, or `[L + 1, words, H]` with `layer="all"`.
        The boundaries `<S>` and `</S>` are not among the words; a sentence without words gives an empty array.

    Raises:
        ElmoError: If there is no such layer.
        TypeError: If `sentences` is one text.
        ValueError: If the model is in training mode.
    """
    if isinstance(sentences, str):
        raise TypeError("`sentences` is one text: put it in a list.")
    chosen = parse_layer(layer, model.config.num_hidden_layers)
    if model.training:
        raise ValueError("The model is in training mode, where vectors may be random: call `model.eval()` first.")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}: it must be at least 1.")
    remaining = iter(sentences)
    while window := list(islice(remaining, WINDOW_IN_BATCHES * batch_size)):
        yield from _embed_window(model, tokenizer, window, chosen, batch_size)


def load(folder: str | Path, model_class: type[Any] = AutoModel) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model with all of its weights, and its tokenizer.

    Where weights are missing, `AutoModel.from_pretrained` warns and goes on with random numbers, and it passes over
    those that the configuration does not call for, or that are no numbers; here all of that is an error.

    Args:
        folder: A model folder, as `elmo-hf convert` makes it.
        model_class: What to load it as; by default the model without any head.

    Raises:
        ElmoError: If a part of the folder is missing or damaged, or the class has a softmax and the folder has none.
    """
    with _blaming(folder, "model"):
        integers = _integers_in(Path(folder))
        model, report = model_class.from_pretrained(folder, output_loading_info=True, ignore_mismatched_sizes=True)
    softmax = {name for name, _ in model.named_parameters() if name.startswith("softmax.")}
    if softmax and softmax <= set(report["missing_keys"]):
        raise ElmoError(
            f"{folder} has no softmax, so it gives vectors but predicts no words: convert a checkpoint of a training, "
            "such as bilm-tf's, with its vocabulary, or train a language model."
        )
    # a task head is not expected, either, but is none of the model's parts
    parts = tuple(f"{name}." for part in (model, model.base_model) for name, _ in part.named_children())
    prefix = f"{model.base_model_prefix}."
    problems = {
        "lack, or have in another shape,": [
            *report["missing_keys"],
            *(name for name, *_ in report["mismatched_keys"]),
        ],
        "hold what config.json does not call for,": [
            name for name in report["unexpected_keys"] if name.removeprefix(prefix).startswith(parts)
        ],
        "hold integers in": integers,
        "hold NaN or infinite numbers in": [
            name for name, parameter in model.named_parameters() if not parameter.isfinite().all()
        ],
    }
    for problem, names in problems.items():
        if names:
            raise ElmoError(f"The weights in {folder} {problem} {_listed(names)}: convert it again.")
    with _blaming(folder, "tokenizer"):
        return model, AutoTokenizer.from_pretrained(folder)


@contextmanager
def _blaming(folder: str | Path, part: str) -> Iterator[None]:
    """Turn what a damaged folder makes Transformers raise, which can be anything, into one line that names it."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise ElmoError(f"{folder} has a name that is not valid UTF-8: rename it.") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ElmoError(f"The {part} in {folder} is missing or damaged ({reason}): convert it again.") from error


def _integers_in(folder: Path) -> list[str]:
    """Name the weights that are not floating point, which Transformers would convert."""
    names = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 - no dictionary
        names += [name for name, kind in kinds.items() if not kind.startswith(("F", "BF"))]
    return names


def _listed(names: Sequence[str]) -> str:
    first = ", ".join(sorted(names)[:4])
    return f"{first} and {len(names) - 4} more" if len(names) > 4 else first


def parse_layer(layer: str | int, num_hidden_layers: int) -> str | int:
    """Check the name or number of a layer.

    Args:
        layer: `"mix"`, `"top"`, `"all"`, or a number from 0 to the last layer, as a string or not.
        num_hidden_layers: biLSTM layers of the model.

    Returns:
        `"mix"`, `"all"` or the number of the layer.

    Raises:
        ElmoError: If there is no such layer.
    """
    if layer in ("mix", "all"):
        return layer
    if layer == "top":
        return num_hidden_layers
    text = str(layer)
    if text.isdecimal() and int(text) <= num_hidden_layers:
        return int(text)
    raise ElmoError(f"There is no layer {text!r}: choose mix, top, all, or a number from 0 to {num_hidden_layers}.")


def _embed_window(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    window: Sequence[Sentence],
    layer: str | int,
    batch_size: int,
) -> list[Vectors]:
    words = [tokenizer.tokenize(item) if isinstance(item, str) else list(item) for item in window]
    # the longest first: what does not fit into memory fails at once
    order = sorted(range(len(words)), key=lambda i: len(words[i]), reverse=True)
    results: dict[int, Vectors] = {}
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        vectors = _embed_batch(model, tokenizer, [words[i] for i in indices], layer)
        results.update(zip(indices, vectors, strict=True))
    return [results[i] for i in range(len(words))]


@torch.inference_mode()
def _embed_batch(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, words: list[list[str]], layer: str | int
) -> list[Vectors]:
    batch = tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt").to(model.device)
    output = model.base_model(**batch, output_hidden_states=layer != "mix", use_cache=False)
    if layer == "mix":
        # [B, T, H]
        vectors = output.last_hidden_state
    elif layer == "all":
        # [B, T, L + 1, H]
        vectors = torch.stack(output.hidden_states, dim=2)
    else:
        vectors = output.hidden_states[layer]
    arrays = vectors.float().cpu().numpy()
    masks = batch["attention_mask"].bool().cpu().numpy()
    # the words between the boundaries, wherever the padding is
    inner = [array[mask][1:-1] for array, mask in zip(arrays, masks, strict=True)]
    return [np.ascontiguousarray(array.swapaxes(0, 1)) for array in inner] if layer == "all" else inner


class VectorFile:
    """A file of vectors that is being written; `open_vector_file` opens one."""

    def __init__(self, path: Path, writer: "_Writer") -> None:
        self._path = path
        self._writer = writer

    def add(self, sentence: str, vectors: Vectors) -> None:
        """Append the vectors of one sentence, under the next integer.

        Raises:
            ElmoError: If they cannot be written, as on a full disk.
        """
        with naming_errors(self._path):
            self._writer.add(sentence, vectors)


@contextmanager
def open_vector_file(path: str | Path) -> Iterator[VectorFile]:
    """Write a file of vectors: one array a sentence, under the keys `"0"`, `"1"`, ...

    The file appears under its name when the block ends, and not at all if the block fails.

    Args:
        path: Its suffix chooses the format: `.npz`, `.safetensors` (which is held in memory until the end), or `.hdf5`
            and `.h5`, laid out as by AllenNLP's `elmo` command, with the key of each sentence in `sentence_to_index`.

    Raises:
        ElmoError: If the suffix is not known, the file exists, it cannot be written, or a package is missing.
    """
    path = Path(path)
    writer_class = _WRITERS.get(path.suffix)
    if writer_class is None:
        raise ElmoError(f"{path}: the name must end in one of {', '.join(_WRITERS)}.")
    with new_file(path) as temporary:
        with naming_errors(path):
            writer = writer_class(temporary)
        try:
            yield VectorFile(path, writer)
        except BaseException:
            # what cannot be finished, as on a full disk, must not complain a second time
            with suppress(OSError, RuntimeError, ValueError):
                writer.close()
            raise
        with naming_errors(path):
            writer.close()


class _Writer(Protocol):
    def add(self, sentence: str, vectors: Vectors) -> None: ...

    def close(self) -> None: ...


class _NpzWriter:
    """One `.npy` after the other into a zip, so that nothing is held in memory as `np.savez` does."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path, "w")
        self._count = 0

    def add(self, sentence: str, vectors: Vectors) -> None:  # noqa: ARG002 - the protocol's
        with self._archive.open(f"{self._count}.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array(file, vectors, allow_pickle=False)
        self._count += 1

    def close(self) -> None:
        self._archive.close()


class _Hdf5Writer:
    def __init__(self, path: Path) -> None:
        try:
            import h5py
        except ImportError as error:
            raise ElmoError("An .hdf5 file needs h5py: pip install 'elmo_hf[convert]', or choose .npz.") from error
        self._raw = PatientFile(path, "w+")
        self._file = h5py.File(self._raw, "w")
        self._string = h5py.string_dtype()
        self._sentence_to_index: dict[str, str] = {}
        self._count = 0

    def add(self, sentence: str, vectors: Vectors) -> None:
        self._file.create_dataset(str(self._count), data=vectors)
        # of equal sentences AllenNLP names the last
        self._sentence_to_index[sentence] = str(self._count)
        self._count += 1
        self._raw.check()

    def close(self) -> None:
        try:
            # on a disk that is full HDF5 has nowhere to put it
            if self._raw.error is None:
                index = self._file.create_dataset("sentence_to_index", (1,), dtype=self._string)
                index[0] = json.dumps(self._sentence_to_index)
        finally:
            # left open, HDF5 would write to it when Python has gone
            self._file.close()
            self._raw.close()
            self._raw.check()


class PatientFile(io.FileIO):
    """A file for `h5py.File` that keeps its first error until `check` is called.

    Told at once, HDF5 fills the screen with complaints, and may end the process.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of the data; after an error, nothing."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and self.error is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Cut or lengthen the file; after an error, do nothing."""
        try:
            return super().truncate(size) if self.error is None else 0
        except OSError as error:
            self.error = error
            return 0

    def check(self) -> None:
        """Raise the first error that there was."""
        if self.error is not None:
            raise self.error


class _SafetensorsWriter:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._arrays: dict[str, Vectors] = {}

    def add(self, sentence: str, vectors: Vectors) -> None:  # noqa: ARG002 - the protocol's
        self._arrays[str(len(self._arrays))] = vectors

    def close(self) -> None:
        try:
            save_file(self._arrays, self._path)
        except SafetensorError as error:
            # how the library says that a disk is full
            raise OSError(str(error)) from error


_WRITERS: dict[str, type[_NpzWriter] | type[_Hdf5Writer] | type[_SafetensorsWriter]] = {
    ".npz": _NpzWriter,
    ".hdf5": _Hdf5Writer,
    ".h5": _Hdf5Writer,
    ".safetensors": _SafetensorsWriter,
}


__all__ = ["PatientFile", "Sentence", "VectorFile", "Vectors", "embed", "load", "open_vector_file", "parse_layer"]
