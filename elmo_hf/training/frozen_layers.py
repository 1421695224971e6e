"""Compute the layers of a frozen biLM once for all epochs, and keep them in memory or in a memory-mapped file.

A folder holds the layers of some sentences once for all processes of a machine: `layers.bin` has those of all words,
and `layers.json` says how many, and of which model and sentences they are.

Shape notation: `B` rows, `T` words with boundary tokens, `N` words of all sentences, `L` biLSTM layers, `H` width of a
vector.
"""

import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from elmo_hf import __version__
from elmo_hf.data.batches import batches_by_length
from elmo_hf.errors import ElmoError, one_line
from elmo_hf.files import cached_folder, new_folder
from elmo_hf.model.modeling_elmo import ElmoPreTrainedModel

from .documents import is_document, split_documents


# the tokenizer's output for one sentence or pair, or a document
Row = Mapping[str, Any]

# the version of the files: those of another one are not read
FORMAT = 1

FACTS = "layers.json"
LAYERS = "layers.bin"

# what the layers depend on, beside the weights and what their shapes tell
BILM_FIELDS = (
    "char_filters", "hidden_act", "cell_clip", "projection_clip", "always_project", "forget_bias",
    "use_skip_connections", "pad_token_id", "bos_token_id", "eos_token_id",
)  # fmt: skip


class StoredLayers:
    """The layers of the words of some sentences, which `compute_layers` stored; they stay on the disk.

    A copy for another process, as for a worker of a DataLoader, opens the same file.

    Args:
        folder: The folder of the layers.

    Raises:
        ElmoError: If the folder holds no layers, or its file is damaged.

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            shape = tuple(json.loads((folder / FACTS).read_bytes())["shape"])
            size, expected = (folder / LAYERS).stat().st_size, layers_bytes(*shape)
            if size != expected:
                raise ValueError(f"{LAYERS} has {size:,} bytes in place of {expected:,}")
            # a plain array, because each slice of a memmap is a memmap, which takes long to make
            self._layers = np.asarray(np.memmap(folder / LAYERS, np.float16, mode="r", shape=shape))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ElmoError(f"{folder} holds no whole layers ({one_line(error)}): delete it.") from error

    def __getitem__(self, words: slice) -> np.ndarray:
        """Return the layers of words, `[words, L + 1, H]`, which are read from the disk when they are used."""
        return self._layers[words]

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredLayers, (self.folder,)


class RowsWithLayers(torch.utils.data.Dataset[dict[str, Any]]):
    """Rows with the layers of a frozen biLM, for a `LayersCollator`.

    A row has `bilm_layers`, an array `[T, L + 1, H]` in float16 that is not to be changed: rows share them.

    Args:
        rows: The rows without layers.
        places: `[rows, 2]`, the words at which each row begins and ends.
        layers: The layers of all words, `[N, L + 1, H]`.
    """

    def __init__(self, rows: Sequence[dict[str, Any]], places: np.ndarray, layers: np.ndarray | StoredLayers) -> None:
        self.rows = rows
        self.places = places
        self.layers = layers

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        index = range(len(self))[operator.index(index)]
        begin, end = self.places[index].tolist()
        return {**self.rows[index], "bilm_layers": self.layers[begin:end]}


class LayersCollator:
    """Pads the `bilm_layers` of rows, if they have any, to `[B, T, L + 1, H]`; another collator makes the rest.

    Args:
        collator: The other collator, such as `DataCollatorForTokenClassification`.
    """

    def __init__(self, collator: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> None:
        self.collator = collator

    def __call__(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Make a batch of rows."""
        batch = self.collator([{name: row[name] for name in row if name != "bilm_layers"} for row in rows])
        if "bilm_layers" in rows[0]:
            words = torch.from_numpy(np.concatenate([row["bilm_layers"] for row in rows]))
            layers = words.new_zeros(*batch["input_ids"].shape, *words.shape[1:])
            layers[batch["attention_mask"].bool()] = words
            batch["bilm_layers"] = layers
        return batch


class _Plan(NamedTuple):
    """Which sentences the biLM reads, and where their layers go.

    Attributes:
        sentences: The sentences, or pairs, of all rows.
        groups: Their numbers, in groups that the biLM reads alike, such as the frames of a sentence.
        begins: `[sentences]`, the word at which the layers of each begin.
        places: `[rows, 2]`, the words at which each row begins and ends.
        words: The number of words that have layers, `N`.
        digest: Tells the sentences from others.
    """

    sentences: Sequence[Row]
    groups: list[list[int]]
    begins: np.ndarray
    places: np.ndarray
    words: int
    digest: str


def _plan(rows: Sequence[Row]) -> _Plan:
    """Give each sentence its place: those of a document are one behind the other, others share what they can."""
    sentences = split_documents(rows)
    fingerprints = [_fingerprint(sentence) for sentence in sentences]
    alike: dict[bytes, list[int]] = {}
    for number, fingerprint in enumerate(fingerprints):
        alike.setdefault(fingerprint, []).append(number)
    groups = list(alike.values())
    lengths = np.array([len(sentence["input_ids"]) for sentence in sentences], dtype=np.int64)
    if sentences is rows:
        bounds = _bounds(lengths[[group[0] for group in groups]])
        begins = np.empty_like(lengths)
        for group, begin in zip(groups, bounds[:-1], strict=True):
            begins[group] = begin
        places = np.stack([begins, begins + lengths], axis=1)
        stored: Iterable[bytes] = alike
    else:
        bounds = _bounds(lengths)
        begins = bounds[:-1]
        # the number of the first sentence of each document
        firsts = _bounds([len(row["input_ids"]) for row in rows])
        places = np.stack([bounds[firsts[:-1]], bounds[firsts[1:]]], axis=1)
        stored = fingerprints
    return _Plan(sentences, groups, begins, places, int(bounds[-1]), sha256(b"".join(stored)).hexdigest())


def _bounds(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return where parts of these lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _fingerprint(row: Row) -> bytes:
    """Tell a sentence from those that the biLM reads otherwise."""
    ids = [np.asarray(row[name], dtype=np.int32).tobytes() for name in ("input_ids", "char_ids") if name in row]
    return blake2b(b"".join(ids), digest_size=16).digest()


def layers_bytes(words: int, layers: int, width: int) -> int:
    """Return the number of bytes of `[words, layers, width]` in float16."""
    return 2 * math.prod((words, layers, width))


def layers_size(config: PreTrainedConfig, rows: Sequence[Row]) -> int:
    """Return the number of bytes of the layers that `compute_layers` would compute."""
    return layers_bytes(_plan(rows).words, config.num_hidden_layers + 1, config.hidden_size)


def compute_layers(
    model: ElmoPreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Row],
    *,
    batch_size: int = 32,
    device: torch.device | None = None,
    cache: str | Path | None = None,
) -> RowsWithLayers:
    """Run a frozen biLM once for all epochs, and for all rows that it reads alike.

    Args:
        model: The model to train; it runs without dropout.
        tokenizer: Its tokenizer, which pads.
        rows: The tokenizer's output for each sentence or pair, or the rows of documents.
        batch_size: Sentences per batch; a batch holds sentences of similar length.
        device: The device to move the model to first; by default it stays where it is.
        cache: A folder for the layers in place of memory. Those of each biLM and set of sentences have a folder of
            their own there, which is never deleted. Layers that are there already are not computed again. Of several
            processes, the first one computes them, and the others wait for it.

    Returns:
        The rows with `bilm_layers`. Rows that the biLM reads alike share them; those of the sentences of a document
        are one behind the other. Rows have `char_ids`, as small integers, only if the head reads characters of its
        own.

    Raises:
        ElmoError: If the biLM is to be trained, or there is none, or the layers cannot be stored, or are damaged.
    """
    if model.config.mix_at == "none":
        raise ElmoError("This model has no biLM (its mix_at is 'none'): there are no layers to compute.")
    if not model.config.freeze_bilm:
        raise ElmoError("The biLM is trained, so its layers change: freeze it, or do not compute them once.")
    plan = _plan(rows)
    reader: Any = model if plan.sentences is rows else model.base_model
    run = partial(_run, reader, tokenizer, plan, batch_size, device)
    shape = (plan.words, model.config.num_hidden_layers + 1, model.config.hidden_size)
    # a file cannot be empty
    if cache is None or not plan.words:
        held = np.empty(shape, np.float16)
        for begin, part in run():
            held[begin : begin + len(part)] = part
        layers: np.ndarray | StoredLayers = held
    else:
        source = {"elmo_hf": __version__, "bilm": _describe_bilm(reader), "sentences": plan.digest}
        facts = {"format": FORMAT, "shape": shape, "model": model.name_or_path, "source": source}
        folder = cached_folder(Path(cache), [FORMAT, source], lambda new: _store(new, run(), facts))
        layers = StoredLayers(folder)
    return RowsWithLayers([what_head_reads(model, row) for row in rows], plan.places, layers)


@torch.no_grad()
def _run(
    model: Any, tokenizer: PreTrainedTokenizerBase, plan: _Plan, batch_size: int, device: torch.device | None
) -> Iterator[tuple[int, np.ndarray]]:
    """Run the biLM; the arguments are those of `compute_layers`.

    Yields:
        The word at which the layers of a sentence begin, and these layers, `[T, L + 1, H]` in float16.
    """
    training = model.training
    torch.nn.Module.to(model.eval(), device)
    firsts = [plan.sentences[group[0]] for group in plan.groups]
    # of the other inputs, what the head asks for
    names = [*tokenizer.model_input_names, *(["token_type_ids"] if firsts and "token_type_ids" in firsts[0] else [])]
    batches = batches_by_length([len(first["input_ids"]) for first in firsts], max_sentences=batch_size)
    # the bar is shown on a terminal only
    for numbers in tqdm(batches, desc="layers of the biLM", unit="batch", disable=None):
        inputs = [{name: firsts[number][name] for name in names} for number in numbers]
        batch = tokenizer.pad(inputs, return_tensors="pt").to(model.device)
        outputs = model(**batch, output_hidden_states=True)
        # [B, T, L + 1, H]
        layers = torch.stack(outputs.hidden_states, dim=2).half().cpu()
        for number, row, words in zip(numbers, layers, batch["attention_mask"].bool().cpu(), strict=True):
            part = row[words].numpy()
            # documents have copies of a sentence that they share
            for begin in set(plan.begins[plan.groups[number]].tolist()):
                yield begin, part
    model.train(training)


def _store(folder: Path, parts: Iterable[tuple[int, np.ndarray]], facts: Mapping[str, Any]) -> None:
    """Write layers to a new folder.

    Args:
        folder: The new folder; it appears when it is whole.
        parts: Layers, and the word at which they begin.
        facts: What `layers.json` says.
    """
    with new_folder(folder, size=layers_bytes(*facts["shape"])) as temporary:
        # and not through a map, because a full disk would end the process
        with (temporary / LAYERS).open("wb") as file:
            for begin, part in parts:
                file.seek(begin * layers_bytes(1, *part.shape[1:]))
                file.write(part.data)
        (temporary / FACTS).write_text(json.dumps(facts, indent=2), encoding="utf-8")


def _describe_bilm(model: ElmoPreTrainedModel) -> list[Any]:
    """Return what the layers of a model depend on; its head and the mix of the layers do not matter."""
    digest = sha256()
    for name, weight in sorted(model.base_model.state_dict().items()):
        if not name.startswith("scalar_mix."):
            digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
            digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    fields = {name: getattr(model.config, name) for name in BILM_FIELDS}
    # the class decides whether the sentences of a pair are read apart
    return [type(model).__name__, fields, digest.hexdigest()]


def what_head_reads(model: ElmoPreTrainedModel, row: Row) -> dict[str, Any]:
    """Return a row without what only a biLM reads; `char_ids` stay, as small integers, if the head reads them."""
    kept = {name: value for name, value in row.items() if name != "char_ids"}
    if model.config.task_char_embedding_dim:
        # a list of numbers would take many times the memory
        dtype = np.min_scalar_type(model.config.char_vocab_size)
        char_ids = row["char_ids"]
        kept["char_ids"] = (
            [np.asarray(part, dtype) for part in char_ids] if is_document(row) else np.asarray(char_ids, dtype)
        )
    return kept


__all__ = [
    "LayersCollator",
    "RowsWithLayers",
    "StoredLayers",
    "compute_layers",
    "layers_size",
    "what_head_reads",
]
