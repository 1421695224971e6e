"""From a corpus to vectors: batches by length, the original order, and files that an interrupted run goes on with."""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf import __version__
from elmo_hf.data.batches import BATCHES_PER_WINDOW, batches_by_length, windows
from elmo_hf.errors import ElmoError
from elmo_hf.files import naming_errors

from .formats import DTYPES, check_output, write_vectors
from .parts import Line, Part, is_done, parts_folder, read_part, save_part, working_in


Vectors = NDArray[np.float32]
# raw text, or words that are already split
Sentence = str | Sequence[str]

# vectors of a part of a corpus: what an interruption can lose, and what is held in memory
PART_BYTES, PART_SENTENCES = 2**26, 4096
# distinct words of a part whose token layer is computed once: 128 MB at the original size
WORDS_REMEMBERED = 2**16

# words of a batch, padding included, for each sentence that it may have: long sentences come in smaller batches
WORDS_PER_SENTENCE = 128

POOLS = ("none", "mean", "max")


class Wanted(NamedTuple):
    """What is to be computed: as in `embed_corpus`."""

    layers: str | int
    pool: str
    dtype: str
    batch_size: int


class Job(NamedTuple):
    """What is to be computed, by which model, and where."""

    folder: Path
    device: str
    wanted: Wanted


# computes parts and writes each to its path; is told whom to tell the number of words that are done
Engine = Callable[[Iterable[tuple[Path, list[Line]]], Job, Callable[[int], object]], None]


def embed(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Iterable[Sentence],
    *,
    layers: str | int = "mix",
    batch_size: int = 32,
) -> Iterator[Vectors]:
    """Compute the vectors of each sentence's words.

    A sentence's vectors do not depend on the others, nor on what was computed before. The sentences may come from a
    generator: only some batches of them are held at a time.

    Args:
        model: An ELMo in evaluation mode, on any device.
        tokenizer: The tokenizer that belongs to it.
        sentences: Each a text, for the tokenizer to split, or a list of words.
        layers: `"mix"` (the weighted mean of all layers, `last_hidden_state`), `"top"`, the number of a layer (0 is
            the token layer), or `"all"`.
        batch_size: Sentences computed at once.

    Yields:
        For each sentence, in the given order, `[words, H]` in float32, or `[L + 1, words, H]` with `layers="all"`.
        The boundaries `<S>` and `</S>` are not among the words; a sentence without words gives an empty array.

    Raises:
        ElmoError: If there is no such layer.
        TypeError: If `sentences` is one text.
        ValueError: If the model is in training mode.
    """
    if isinstance(sentences, str):
        raise TypeError("`sentences` is one text: put it in a list.")
    chosen = parse_layer(layers, model.config.num_hidden_layers)
    if model.training:
        raise ValueError("The model is in training mode, where vectors may be random: call `model.eval()` first.")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}: it must be at least 1.")
    for window in windows(sentences, max_items=BATCHES_PER_WINDOW * batch_size):
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
        # int8 weights have scales beside them (docs/clients.md)
        names += [
            name
            for name, kind in kinds.items()
            if not kind.startswith(("F", "BF")) and ".parametrizations." not in name
        ]
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
    done: Callable[[int], object] = lambda _: None,
) -> list[Vectors]:
    """Compute the vectors of some sentences, and tell `done` the words of each batch."""
    words = [tokenizer.tokenize(item) if isinstance(item, str) else list(item) for item in window]
    # with both boundary tokens
    lengths = [len(sentence) + 2 for sentence in words]
    results: dict[int, Vectors] = {}
    for indices in batches_by_length(lengths, max_sentences=batch_size, max_positions=batch_size * WORDS_PER_SENTENCE):
        vectors = _embed_batch(model, tokenizer, [words[i] for i in indices], layer)
        results.update(zip(indices, vectors, strict=True))
        done(sum(len(words[i]) for i in indices))
    return [results[i] for i in range(len(words))]


@torch.inference_mode()
def _embed_batch(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, words: list[list[str]], layer: str | int
) -> list[Vectors]:
    try:
        batch = tokenizer(words, is_split_into_words=True, padding=True, return_tensors="pt").to(model.device)
        output = model.base_model(**batch, output_hidden_states=layer != "mix", use_cache=False)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        raise ElmoError(
            f"There is not enough memory for {len(words)} sentences of up to {max(map(len, words)):,} words: make the "
            "batches smaller, or split long sentences."
        ) from error
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


def embed_corpus(
    folder: str | Path,
    sentences: Iterable[Sentence | Line],
    output: str | Path,
    *,
    layers: str | int = "mix",
    pool: str = "none",
    dtype: str = "float32",
    batch_size: int = 32,
    device: str = "cpu",
    engine: Engine | None = None,
    resume: bool = False,
    progress: bool = False,
) -> tuple[int, int]:
    """Write the vectors of a corpus of any size to a file, of which an interrupted run goes on.

    Finished parts are kept in a hidden folder beside the file, `.NAME.parts`, until the file is whole: for that long
    it takes twice the space. A resumed run makes the same file, to the byte, as one without interruption.

    Args:
        folder: A model folder, as `elmo-hf convert` makes it.
        sentences: Each a text, for the tokenizer to split, a list of words, or a `Line`; when resumed, from the first
            one again.
        output: The new file. Its suffix is the format: `.npz`, `.hdf5`, `.safetensors`, `.parquet` or `.npy`
            (docs/embedding.md).
        layers: As for `embed`.
        pool: `"none"` gives a vector for each word; `"mean"` and `"max"`, over the words without the boundaries, one
            for each sentence, of zeros where it has no words.
        dtype: Of the numbers in the file: `"float32"`, `"float16"`, or for `.safetensors` `"bfloat16"`.
        batch_size: Sentences computed at once.
        device: Where to compute, as torch calls it.
        engine: What computes the parts, such as `elmo_hf.ray_engine.RayEngine`; by default this process does.
        resume: Go on with what an interrupted run left, if there is anything.
        progress: Show a bar.

    Returns:
        How many sentences were written, and their words.

    Raises:
        ElmoError: If the model cannot be loaded, the file exists or cannot be written, or what is left of an
            interrupted run is not of this model, these options and these sentences, or not to be resumed.
    """
    folder, output = Path(folder), Path(output)
    work = parts_folder(output)
    # all is computed, and perhaps some of the files are in place already
    whole = work / "whole"
    if not (resume and whole.exists()):
        check_output(output, dtype)
    if pool not in POOLS:
        raise ElmoError(f"There is no pool {pool!r}: choose {', '.join(POOLS)}.")
    model, tokenizer = load(folder)
    on_device(model, device)
    wanted = Wanted(parse_layer(layers, model.config.num_hidden_layers), pool, dtype, batch_size)
    about = {name: str(value) for name, value in wanted._asdict().items()} | identity_of(folder, model)
    num_sentences = num_words = 0
    files: list[Path] = []

    def missing() -> Iterator[tuple[Path, list[Line]]]:
        nonlocal num_sentences, num_words
        lines = (line_of(sentence, tokenizer) for sentence in sentences)
        for part in cut_parts(lines, shape_of(model, wanted).numel() * 4):
            files.append(work / f"{len(files):08}.safetensors")
            num_sentences += len(part)
            num_words += sum(len(line.words) for line in part)
            if not is_done(files[-1], part):
                yield files[-1], part

    def compute_here(parts: Iterable[tuple[Path, list[Line]]], job: Job, done: Callable[[int], object]) -> None:
        for path, lines in parts:
            save_part(path, compute_part(model, tokenizer, lines, job.wanted, done))

    with working_in(work, about, resume=resume), tqdm(unit=" words", unit_scale=True, disable=not progress) as bar:
        (engine or compute_here)(missing(), Job(folder, device, wanted), bar.update)
        if not whole.exists():
            with naming_errors(output), tempfile.TemporaryDirectory(dir=work) as temporary:
                write_vectors(output, lambda: map(read_part, files), about, folder=Path(temporary))
                Path(temporary).rename(whole)
                # TemporaryDirectory removes the folder of that name
                Path(temporary).mkdir()
        with naming_errors(output):
            # the file that was asked for comes last: when it is there, all are
            for path in sorted(whole.iterdir(), key=lambda path: path.name == output.name):
                path.replace(output.with_name(path.name))
    return num_sentences, num_words


def identity_of(folder: Path, model: PreTrainedModel) -> dict[str, str]:
    """Tell what, beside the options, vectors are computed by: all of it can change their last digits."""
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.safetensors"), *folder.glob("*.json")]):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return {
        "model": folder.resolve().name,
        "model_sha256": digest.hexdigest(),
        "device": model.device.type,
        "elmo_hf": __version__,
        "torch": str(torch.__version__),
    }


def on_device(model: PreTrainedModel, device: str) -> None:
    """Bring a model to a device.

    Raises:
        ElmoError: If there is no such device.
    """
    try:
        torch.nn.Module.to(model, torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise ElmoError(f"There is no device {device!r} ({' '.join(str(error).split())}): choose another.") from error


def line_of(sentence: Sentence | Line, tokenizer: PreTrainedTokenizerBase) -> Line:
    """Find the words of a sentence.

    Raises:
        ElmoError: If it holds half of a character, as JSON can.
    """
    if isinstance(sentence, str):
        line = Line(sentence, tokenizer.tokenize(sentence))
    else:
        line = sentence if isinstance(sentence, Line) else Line(" ".join(sentence), list(sentence))
    try:
        line.text.encode()
    except UnicodeEncodeError as error:
        raise ElmoError(f"The sentence {line.text!r:.80} holds half of a character (a surrogate): mend it.") from error
    return line


def shape_of(model: PreTrainedModel, wanted: Wanted) -> torch.Size:
    """Tell the shape of a vector: `[H]`, or `[L + 1, H]`."""
    layers = [model.config.num_hidden_layers + 1] if wanted.layers == "all" else []
    return torch.Size([*layers, model.config.hidden_size])


def cut_parts(lines: Iterable[Line], bytes_per_word: int) -> Iterator[list[Line]]:
    """Cut a corpus in parts, the same for the same corpus; if it is empty, in one that is."""
    part: list[Line] = []
    size = 0
    for line in lines:
        cost = bytes_per_word * len(line.words)
        if part and (len(part) == PART_SENTENCES or size + cost > PART_BYTES):
            yield part
            part, size = [], 0
        part.append(line)
        size += cost
    yield part


def compute_part(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    lines: Sequence[Line],
    wanted: Wanted,
    done: Callable[[int], object] = lambda _: None,
) -> Part:
    """Compute a part of a corpus; it depends on nothing else, so that any process may do it.

    Args:
        model: In evaluation mode.
        tokenizer: The tokenizer that belongs to it.
        lines: The sentences.
        wanted: What is to be computed.
        done: Is told the number of words after each batch.
    """
    # what is remembered of other parts could round otherwise: at odd sizes a product's last bit depends on its row
    elmo: Any = model.base_model
    elmo.cache_words(WORDS_REMEMBERED)
    arrays = _embed_window(model, tokenizer, [line.words for line in lines], wanted.layers, wanted.batch_size, done)
    # [words, H] or [words, L + 1, H]
    rows = [torch.from_numpy(array.swapaxes(0, 1) if array.ndim == 3 else array) for array in arrays]
    if wanted.pool != "none":
        rows = [pooled(words, wanted.pool)[None] for words in rows]
    vectors = torch.cat([torch.zeros(0, *shape_of(model, wanted)), *rows]).to(DTYPES[wanted.dtype])
    texts, words = [line.text for line in lines], [list(line.words) for line in lines]
    return Part(texts, words, vectors, pooled=wanted.pool != "none")


def pooled(vectors: torch.Tensor, pool: str) -> torch.Tensor:
    """Take the mean or the maximum of the vectors of words, `[words, ...]`; of no words, zeros."""
    if not len(vectors):
        return vectors.new_zeros(vectors.shape[1:])
    return vectors.mean(dim=0) if pool == "mean" else vectors.amax(dim=0)


__all__ = ["Line", "Sentence", "Vectors", "embed", "embed_corpus", "load", "parse_layer"]
