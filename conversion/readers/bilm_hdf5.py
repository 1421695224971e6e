"""Read the HDF5 weights that bilm-tf writes and that AllenNLP and NLPL distribute.

Format: https://github.com/allenai/bilm-tf/blob/master/bilm/training.py, `dump_weights`.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from enum import Enum
from functools import partial
from pathlib import Path

import h5py
import numpy as np

from .base import ConversionError, InputFile, OriginalArray, OriginalCheckpoint, describe, source_files
from .content import Kind
from .options import read_options
from .vocabulary import read_vocabulary


FORMAT = "bilm-hdf5"

#: Groups and arrays at the top of a file of weights; a file of vectors has none of them.
WEIGHTS_AT_TOP = re.compile(r"char_embed|CNN(_high_\d+|_proj)?|RNN(_\d+)?|rnn")

#: Trained float32 numbers hardly compress; a file that claims much more than its own size is broken or hostile.
MAX_EXPANSION = 20


class Content(Enum):
    """What an HDF5 file holds; the values are words for messages."""

    WEIGHTS = "weights"
    TOKEN_CACHE = "a cache of token vectors (`embedding` alone)"
    VECTORS = "a dump of vectors"
    UNREADABLE = "damaged HDF5"
    OTHER = "HDF5 of another program"


def content_of(file: InputFile) -> Content:
    """Tell weights from the other HDF5 files that lie about beside them, by the names at the top."""
    try:
        with h5py.File(file.location, "r", locking=False) as opened:
            names = list(opened)
            flat = all(opened.get(name, getclass=True) is h5py.Dataset for name in names)
    except (OSError, RuntimeError, KeyError, ValueError):
        return Content.UNREADABLE
    if any(WEIGHTS_AT_TOP.fullmatch(name) for name in names):
        return Content.WEIGHTS
    if names == ["embedding"]:
        return Content.TOKEN_CACHE
    return Content.VECTORS if names and flat else Content.OTHER


def recognises(files: list[InputFile]) -> bool:
    """Whether one of the files is HDF5 with weights, be it damaged."""
    return any(file.kind is Kind.HDF5 and content_of(file) in (Content.WEIGHTS, Content.UNREADABLE) for file in files)


def read(files: list[InputFile], resources: ExitStack) -> OriginalCheckpoint:
    """Read one file of weights with its options and, where there is one, its vocabulary.

    Args:
        files: All that was given or found; the parts are told apart by their content.
        resources: Gets the open HDF5 file: arrays are read when they are wanted.

    Returns:
        The arrays, keyed by HDF5 path, such as `CNN/W_cnn_0` with shape `[1, width, char_dim, filters]`.

    Raises:
        ConversionError: If a part is missing, ambiguous, damaged or superfluous.
    """
    weights, options, vocabulary = find_parts(files)
    parsed = read_options(options.location, name=options.name)
    words = None if vocabulary is None else _lines(vocabulary)
    opened = _open(weights.location, weights.name)
    resources.enter_context(opened)
    return OriginalCheckpoint(
        format=FORMAT,
        options=parsed,
        arrays=_arrays(opened, weights),
        weights_name=weights.name,
        options_name=options.name,
        sources=source_files([file for file in (weights, options, vocabulary) if file is not None]),
        vocabulary=words,
        vocabulary_name=None if vocabulary is None else vocabulary.name,
        resources=resources,
    )


def find_parts(files: list[InputFile]) -> tuple[InputFile, InputFile, InputFile | None]:
    """Tell weights, options and vocabulary apart, by their content.

    Raises:
        ConversionError: If weights or options are missing, if there are several, or if a file that the user named is
            none of the three.
    """
    weights = _one([file for file in files if _is_weights(file)], "weights (HDF5)", files)
    options = _one([file for file in files if _is_options(file)], "options (JSON with a section 'lstm')", files)
    vocabulary = _vocabulary(files)
    for file in files:
        if file.explicit and file not in (weights, options, vocabulary):
            raise ConversionError(f"{file.name} ({file.kind.value}) is no part of a biLM model. Leave it out.")
    return weights, options, vocabulary


def _is_weights(file: InputFile) -> bool:
    return recognises([file])


def _one(candidates: list[InputFile], role: str, files: list[InputFile]) -> InputFile:
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise ConversionError(f"No {role} among {describe(files)}. Give weights and options together.")
    names = ", ".join(file.name for file in candidates)
    raise ConversionError(f"{len(candidates)} files of {role}: {names}. Name the files of one model.")


def _is_options(file: InputFile) -> bool:
    """Whether this is JSON with a section `lstm`; a damaged file is an error where the user named it."""
    if file.kind is not Kind.JSON:
        return False
    try:
        return "lstm" in read_options(file.location, name=file.name)
    except ConversionError:
        if file.explicit:
            raise
        return False


def _vocabulary(files: list[InputFile]) -> InputFile | None:
    """The vocabulary: any text that the user named, or what looks like one in a folder or archive."""
    candidates = [file for file in files if file.kind in (Kind.TEXT, Kind.GZIP)]
    named = [file for file in candidates if file.explicit]
    candidates = named or [file for file in candidates if _looks_like_vocabulary(file)]
    if len(candidates) > 1 and len({_lines(file) for file in candidates}) == 1:
        # vocab.txt beside the vocab.txt.gz that it was unpacked from
        candidates = candidates[:1]
    return _one(candidates, "vocabulary", files) if candidates else None


def _looks_like_vocabulary(file: InputFile) -> bool:
    if "vocab" in file.basename:
        return True
    if file.kind is not Kind.TEXT:
        return False
    with file.location.open("rb") as raw:
        return any(line.strip() == b"<S>" for line in raw.read(512).splitlines())


def _lines(file: InputFile) -> tuple[str, ...]:
    return read_vocabulary(file.location, kind=file.kind, name=file.name)


def _open(path: Path, name: str) -> h5py.File:
    try:
        # no lock: read-only media and network disks refuse it, and nothing is written
        return h5py.File(path, "r", locking=False)
    except PermissionError as error:
        raise ConversionError(f"{name} cannot be read: permission denied. Change its permissions.") from error
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        sizes = re.search(r"truncated file.*stored_eof = (\d+)", str(error))
        if sizes is None:
            raise ConversionError(f"{name} is damaged HDF5 ({_line(error)}). Download it again.") from error
        raise ConversionError(
            f"{name} is truncated: {path.stat().st_size:,} of {int(sizes[1]):,} bytes. "
            "The download broke off; download it again."
        ) from error


def _arrays(opened: h5py.File, weights: InputFile) -> dict[str, OriginalArray]:
    try:
        datasets = dict(_walk(opened, weights.name, {h5py.h5o.get_info(opened.id).addr}))
    except (OSError, RuntimeError, KeyError) as error:
        raise ConversionError(f"{weights.name} is damaged HDF5 ({_line(error)}). Download it again.") from error
    claimed = sum(dataset.nbytes for dataset in datasets.values())
    size = weights.location.stat().st_size
    if claimed > MAX_EXPANSION * size:
        raise ConversionError(
            f"{weights.name} claims {claimed:,} bytes of arrays in a file of {size:,} bytes. Get the original file."
        )
    return {
        name: OriginalArray(tuple(dataset.shape), partial(_read, dataset, name, weights.name))
        for name, dataset in datasets.items()
    }


def _walk(group: h5py.Group, file_name: str, seen: set[int]) -> Iterator[tuple[str, h5py.Dataset]]:
    """Every array, by its path. Links that lead elsewhere, or in a circle, are refused."""
    for key in group:
        name = f"{group.name.rstrip('/')}/{key}".lstrip("/")
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise ConversionError(f"{file_name}: {name} is a link to elsewhere. Get the original file.")
        item = group[key]
        if isinstance(item, h5py.Dataset):
            _check_storage(item, name, file_name)
            yield name, item
        elif isinstance(item, h5py.Group) and (address := h5py.h5o.get_info(item.id).addr) not in seen:
            seen.add(address)
            yield from _walk(item, file_name, seen)
        else:
            raise ConversionError(f"{file_name}: {name} is no array. Get the original file.")


def _check_storage(dataset: h5py.Dataset, name: str, file_name: str) -> None:
    where = f"{file_name}: array {name}"
    if dataset.shape is None:
        raise ConversionError(f"{where} has no numbers. Get the original file.")
    if dataset.dtype.kind != "f":
        raise ConversionError(f"{where} is of type {dataset.dtype}, not floating point. Get the original file.")
    if dataset.is_virtual or dataset.external:
        raise ConversionError(f"{where} has its numbers in another file. Get the original file.")
    if dataset.size and not dataset.id.get_storage_size():
        raise ConversionError(f"{where} was never written. Get the file again.")


def _read(dataset: h5py.Dataset, name: str, file_name: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            # one copy at most: the numbers are read straight into the array
            array = np.asarray(dataset[...]).astype(np.float32, copy=False)
    except (OSError, RuntimeError) as error:
        raise ConversionError(f"{file_name}: array {name} cannot be read ({_line(error)}). Get it again.") from error
    except MemoryError as error:
        raise ConversionError(f"{file_name}: array {name} {dataset.shape} does not fit in memory.") from error
    # minimum and maximum pass a NaN on, and need no array of their own
    if array.size and not np.isfinite([array.min(), array.max()]).all():
        raise ConversionError(f"{file_name}: array {name} holds NaN or infinite numbers. Get the file again.")
    return array


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


__all__ = ["FORMAT", "Content", "content_of", "find_parts", "read", "recognises"]
