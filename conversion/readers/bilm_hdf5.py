"""Read the HDF5 weights that bilm-tf writes and that AllenNLP and NLPL distribute.

Format: https://github.com/allenai/bilm-tf/blob/master/bilm/training.py, `dump_weights`.
"""

import logging
import math
import re
from collections.abc import Iterator
from contextlib import ExitStack
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

from .base import (
    CHUNK,
    ConversionError,
    InputFile,
    OriginalArray,
    OriginalCheckpoint,
    SelectionError,
    Softmax,
    Tables,
    counted,
    printable,
    source_files,
)
from .content import Kind
from .options import read_options
from .parts import check_rows, find_options, find_vocabulary, only, read_lines, rows_without_words


logger = logging.getLogger(__name__)

FORMAT = "bilm-hdf5"

TABLES = Tables(characters="char_embed", words="embedding")
SOFTMAX = Softmax(weight="softmax/W", bias="softmax/b")

#: The rows of bytes and markers in the table of characters.
CHARACTERS = 261

#: Groups and arrays at the top of a file of weights; a file of vectors has none of them.
WEIGHTS_AT_TOP = re.compile(r"char_embed|CNN(_high_\d+|_proj)?|RNN(_\d+)?|rnn")

#: Trained float32 numbers hardly compress, and half precision doubles; more than that is broken or hostile.
MAX_EXPANSION = 2
MAX_SMALL = 1 << 24

#: Arrays in a file, and groups inside each other; a full-size model has 44, 5 deep.
MAX_ARRAYS = 1_000
MAX_DEPTH = 8

#: Compressions that are part of every HDF5 library, by number, up to scale-offset, and h5py's own LZF.
FILTERS = frozenset({*range(1, 7), 32000})

#: A hole is so many blocks of so many zeros, 1,024 in all, which is a page of a file.
BLOCK, HOLE = 64, 16
PAGE = 4096

#: What h5py raises of a damaged file: a `TypeError` for types that NumPy lacks.
DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)


class Content(Enum):
    """What an HDF5 file holds; the values are words for messages."""

    WEIGHTS = "weights"
    SOFTMAX = "a softmax (`softmax` alone)"
    TOKEN_CACHE = "a cache of token vectors (`embedding` alone)"
    VECTORS = "a dump of vectors"
    UNREADABLE = "damaged HDF5"
    OTHER = "HDF5 of another program"


def content_of(file: InputFile) -> Content:
    """Distinguish weights from other HDF5 files by their top-level names."""
    try:
        with h5py.File(file.location, "r", locking=False) as opened:
            if len(opened) > MAX_ARRAYS:
                # a dump of a corpus has as many as the corpus has sentences
                return Content.VECTORS
            names = list(opened)
            flat = all(opened.get(name, getclass=True) is h5py.Dataset for name in names)
    except DAMAGE:
        return Content.UNREADABLE
    if any(WEIGHTS_AT_TOP.fullmatch(name) for name in names):
        return Content.WEIGHTS
    if names == ["softmax"]:
        return Content.SOFTMAX
    if names == ["embedding"]:
        return Content.TOKEN_CACHE
    return Content.VECTORS if names and flat else Content.OTHER


class Parts(NamedTuple):
    """The files of one model; the vocabulary and the softmax may be absent."""

    weights: InputFile
    options: InputFile
    vocabulary: InputFile | None
    softmax: InputFile | None


def recognises(files: list[InputFile]) -> list[InputFile]:
    """Return the HDF5 files that hold weights, or are damaged."""
    return [
        file for file in files if file.kind is Kind.HDF5 and content_of(file) in (Content.WEIGHTS, Content.UNREADABLE)
    ]


def read(files: list[InputFile], resources: ExitStack) -> OriginalCheckpoint:
    """Read one file of weights with its options and, if there are any, its vocabulary and softmax.

    Args:
        files: All that was given or found; their content distinguishes the parts.
        resources: Receives the open HDF5 file, because arrays are read on demand.

    Returns:
        The arrays, keyed by HDF5 path, such as `CNN/W_cnn_0` with shape `[1, width, char_dim, filters]`. The softmax
        is among them where the vocabulary says which words its rows are.

    Raises:
        ConversionError: If a part is missing, ambiguous, damaged or superfluous.
    """
    parts = find_parts(files)
    weights, options, vocabulary, _ = parts
    for file in filter(_may_be_alignment, files):
        logger.warning(
            "%s is a PyTorch file, and is left out. If it aligns this language with others, apply it to the vectors: "
            "docs/conversion.md#matrices-of-alignment.",
            file.name,
        )
    parsed = read_options(options.location, name=options.name)
    words = None if vocabulary is None else read_lines(vocabulary)
    arrays = _without_padding(_open_arrays(weights, resources), weights)
    softmax = _softmax_arrays(parts, words, resources)
    used = (weights, options, vocabulary, parts.softmax if softmax else None)
    return OriginalCheckpoint(
        format=FORMAT,
        options=parsed,
        arrays=arrays | softmax,
        weights_name=weights.name,
        options_name=options.name,
        sources=source_files([file for file in used if file is not None]),
        tables=TABLES,
        softmax=SOFTMAX if softmax else None,
        vocabulary=words,
        vocabulary_name=None if vocabulary is None else vocabulary.name,
        resources=resources,
    )


def find_parts(files: list[InputFile]) -> Parts:
    """Find weights, options, vocabulary and softmax by their content.

    Raises:
        ConversionError: If weights or options are missing, if there are several, or if a file that the user named is
            none of these, nor a matrix of alignment.
    """
    weights = only([file for file in files if _is_weights(file)], "weights (HDF5)", files)
    softmaxes = [file for file in files if file.kind is Kind.HDF5 and content_of(file) is Content.SOFTMAX]
    softmax = only(softmaxes, "a softmax (HDF5)", files) if softmaxes else None
    parts = Parts(weights, find_options(files), find_vocabulary(files), softmax)
    for file in files:
        if file.explicit and file not in parts and not _may_be_alignment(file):
            raise ConversionError(f"{file.name} ({file.kind.value}) is not part of a biLM model. Leave it out.")
    return parts


def _is_weights(file: InputFile) -> bool:
    return bool(recognises([file]))


def _may_be_alignment(file: InputFile) -> bool:
    """Tell whether this may be a matrix that aligns languages, which is published beside weights."""
    return file.kind in (Kind.TORCH, Kind.PICKLE)


def _open_arrays(file: InputFile, resources: ExitStack) -> dict[str, OriginalArray]:
    opened = _open(file.location, file.name)
    resources.enter_context(opened)
    return _arrays(opened, file)


def _softmax_arrays(parts: Parts, words: tuple[str, ...] | None, resources: ExitStack) -> dict[str, OriginalArray]:
    """Return the arrays of the softmax, or none if its rows cannot be assigned to words."""
    softmax, vocabulary = parts.softmax, parts.vocabulary
    if softmax is None:
        return {}
    reason = rows_without_words(words)
    if reason is not None and softmax.explicit:
        raise SelectionError(f"{softmax.name} cannot be used, because {reason}. Leave it out to get vectors alone.")
    if reason is not None or words is None or vocabulary is None:
        logger.warning("%s: the softmax is left out, because %s.", softmax.name, reason)
        return {}
    arrays = _open_arrays(softmax, resources)
    if arrays.keys() != {SOFTMAX.weight, SOFTMAX.bias}:
        raise ConversionError(f"{softmax.name} must hold {SOFTMAX.weight} and {SOFTMAX.bias}. Get the original file.")
    check_rows({name: array.shape for name, array in arrays.items()}, softmax, len(words), vocabulary)
    return arrays


def _without_padding(arrays: dict[str, OriginalArray], weights: InputFile) -> dict[str, OriginalArray]:
    """Leave the row of padding out of a table of characters that was saved with it, as programs for inference do."""
    table = arrays.get(TABLES.characters)
    if table is None or len(table.shape) != 2 or table.shape[0] <= CHARACTERS or table.read()[0].any():
        return arrays
    logger.warning(
        "%s: array %s has %d rows, the first of zeros: it is taken for padding, and left out.",
        weights.name,
        TABLES.characters,
        table.shape[0],
    )
    rows = (table.shape[0] - 1, table.shape[1])
    return arrays | {TABLES.characters: OriginalArray(rows, lambda: table.read()[1:])}


def _open(path: Path, name: str) -> h5py.File:
    try:
        # no lock: read-only media and network disks refuse it, and nothing is written
        return h5py.File(path, "r", locking=False)
    except PermissionError as error:
        raise ConversionError(f"{name} cannot be read: permission denied. Change its permissions.") from error
    except DAMAGE as error:
        sizes = re.search(r"truncated file.*stored_eof = (\d+)", str(error))
        if sizes is None:
            raise ConversionError(f"{name} is damaged HDF5 ({_line(error)}). Download it again.") from error
        raise ConversionError(
            f"{name} is truncated: {path.stat().st_size:,} of {counted(int(sizes[1]), 'byte')}. "
            "The download broke off; download it again."
        ) from error


def _arrays(opened: h5py.File, weights: InputFile) -> dict[str, OriginalArray]:
    try:
        found = islice(_walk(opened, weights.name, {h5py.h5o.get_info(opened.id).addr}), MAX_ARRAYS + 1)
        datasets = dict(found)
    except ConversionError:
        raise
    except DAMAGE as error:
        raise ConversionError(f"{weights.name} is damaged HDF5 ({_line(error)}). Download it again.") from error
    if len(datasets) > MAX_ARRAYS:
        raise ConversionError(
            f"{weights.name} has over {MAX_ARRAYS:,} arrays: this is not a model. Get the original file."
        )
    # as float32, and in whole numbers: the product of a shape in the file may not fit into NumPy's
    claimed = sum(4 * math.prod(dataset.shape) for dataset in datasets.values())
    size = weights.location.stat().st_size
    if claimed > MAX_EXPANSION * size + MAX_SMALL:
        raise ConversionError(
            f"{weights.name} claims {claimed:,} bytes of arrays in a file of {size:,} bytes. Get the original file."
        )
    for name, dataset in datasets.items():
        _check_whole(dataset, f"{weights.name}: array {name}")
    _check_end(datasets, weights)
    return {
        name: OriginalArray(tuple(dataset.shape), partial(_read, dataset, name, weights.name))
        for name, dataset in datasets.items()
    }


def _walk(group: h5py.Group, file_name: str, seen: set[int]) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yield every array with its path; refuse links that lead elsewhere or in a circle."""
    for key in group:
        name = printable(f"{group.name.rstrip('/')}/{key}".lstrip("/"))
        if name.count("/") >= MAX_DEPTH:
            raise ConversionError(f"{file_name}: {name:.80} is nested over {MAX_DEPTH} deep. Get the original file.")
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise ConversionError(f"{file_name}: {name} is a link to elsewhere. Get the original file.")
        item = group[key]
        if isinstance(item, h5py.Dataset):
            _check_storage(item, name, file_name)
            yield name, item
        elif isinstance(item, h5py.Group) and (address := h5py.h5o.get_info(item.id).addr) not in seen:
            seen.add(address)
            if len(seen) > MAX_ARRAYS:
                raise ConversionError(f"{file_name} has over {MAX_ARRAYS:,} groups: this is not a model.")
            yield from _walk(item, file_name, seen)
        else:
            raise ConversionError(f"{file_name}: {name} is not an array. Get the original file.")


def _check_storage(dataset: h5py.Dataset, name: str, file_name: str) -> None:
    where = f"{file_name}: array {name}"
    if dataset.shape is None:
        raise ConversionError(f"{where} has no numbers. Get the original file.")
    if dataset.dtype.kind != "f":
        raise ConversionError(f"{where} is of type {dataset.dtype}, not floating point. Get the original file.")
    if dataset.is_virtual or dataset.external:
        raise ConversionError(f"{where} has its numbers in another file. Get the original file.")
    created = dataset.id.get_create_plist()
    if any(created.get_filter(i)[0] not in FILTERS for i in range(created.get_nfilters())):
        raise ConversionError(f"{where} is compressed by a plug-in. Write it again without.")
    if 0 not in dataset.shape and not dataset.id.get_storage_size():
        raise ConversionError(f"{where} was never written. Get the file again.")


def _check_whole(dataset: h5py.Dataset, where: str) -> None:
    if dataset.chunks is None:
        return
    chunks = math.prod(-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    if dataset.id.get_num_chunks() < chunks:
        raise ConversionError(f"{where} was written in part only. Get the file again.")


def _check_end(datasets: dict[str, h5py.Dataset], weights: InputFile) -> None:
    """Refuse a file that is zeros from within an array to its end, as a download into reserved space leaves it.

    An array may be zeros as a whole, the last one too: a download hardly breaks off just where an array begins.
    """
    size, end = weights.location.stat().st_size, _end_of_content(weights.location)
    if size - end < PAGE:
        return
    for name, dataset in datasets.items():
        start = dataset.id.get_offset()
        # the last number may end in zeros; chunks have no offset
        if start is not None and start < end <= start + dataset.nbytes - dataset.dtype.itemsize:
            raise ConversionError(
                f"{weights.name} is zeros from within array {name} to the end, {counted(size - end, 'byte')}: the "
                "download broke off. Get the file again, or, if these are its numbers, compress it with "
                "`h5repack -f GZIP=1`."
            )


def _end_of_content(path: Path) -> int:
    """Return where the zeros at the end of a file begin."""
    end = path.stat().st_size
    with path.open("rb") as file:
        while end:
            start = max(0, end - CHUNK)
            file.seek(start)
            content = file.read(end - start).rstrip(b"\0")
            if content:
                return start + len(content)
            end = start
    return 0


def _read(dataset: h5py.Dataset, name: str, file_name: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            # one copy at most: the numbers are read straight into the array
            array = np.asarray(dataset[...]).astype(np.float32, copy=False)
    except DAMAGE as error:
        raise ConversionError(f"{file_name}: array {name} cannot be read ({_line(error)}). Get it again.") from error
    except MemoryError as error:
        raise ConversionError(f"{file_name}: array {name} {dataset.shape} does not fit in memory.") from error
    # minimum and maximum pass a NaN on, and need no array of their own
    if array.size and not np.isfinite([array.min(), array.max()]).all():
        raise ConversionError(f"{file_name}: array {name} holds NaN or infinite numbers. Get the file again.")
    if array.ndim > 1 and _has_hole(array):
        logger.warning(
            "%s: array %s is full of zeros in places. If that surprises you, compare the file with its publisher's.",
            file_name,
            name,
        )
    return array


def _has_hole(array: np.ndarray) -> bool:
    """Tell whether about a page of the file is zeros, which training seldom leaves in a matrix."""
    flat = array.reshape(-1)
    # [blocks]
    filled = np.any(flat[: len(flat) // BLOCK * BLOCK].reshape(-1, BLOCK), axis=1)
    # indices of blocks with numbers, and both ends; a long gap between two is a hole
    ends = np.concatenate([[-1], np.flatnonzero(filled), [len(flat) // BLOCK]])
    return bool(np.diff(ends).max() > HOLE)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


__all__ = ["FORMAT", "Content", "Parts", "content_of", "find_parts", "read", "recognises"]
