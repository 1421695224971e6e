"""Read the folder in which bilm-tf trains: a TensorFlow checkpoint with the options beside it.

Names: https://github.com/allenai/bilm-tf/blob/master/bilm/training.py, scope `lm`.
"""

import logging
import re
from contextlib import ExitStack
from functools import partial

import numpy as np

from .base import ConversionError, InputFile, OriginalArray, OriginalCheckpoint, describe, source_files
from .content import Kind
from .options import read_options
from .parts import find_options, find_vocabulary, read_lines
from .refused import HUB_NAMES
from .tensor_bundle import Entry, Index, has_magic, problem_of, read_array, read_index


logger = logging.getLogger(__name__)

FORMAT = "bilm-tensorflow"

SUFFIX = ".index"

#: Variables of the training: the softmax, and what the optimiser remembers of each.
LEFT = re.compile(r"(?!lm/).*|lm/softmax/.*|.*/Adagrad(_\d+)?")

#: `model_checkpoint_path: "/home/author/model.ckpt-935588"`, whatever the folder.
STATE = re.compile(r'^model_checkpoint_path:\s*"(?:[^"]*[/\\])?([^"/\\]+)"', re.MULTILINE)
MAX_STATE_BYTES = 1 << 20

STEP = re.compile(r"-(\d{1,18})$")


def recognises(files: list[InputFile]) -> list[InputFile]:
    """The files that are the index of a checkpoint, or are called so; none if one is of TensorFlow Hub."""
    return [] if any(file.basename in HUB_NAMES for file in files) else _indices(files)


def read(files: list[InputFile], resources: ExitStack) -> OriginalCheckpoint:
    """Read one checkpoint with its options and, where there is one, its vocabulary.

    Args:
        files: All that was given or found.
        resources: Not used: the data files are opened when an array is read.

    Returns:
        The variables of the model, keyed by their names, such as `lm/CNN/W_cnn_0`; the others are `left`.

    Raises:
        ConversionError: If a part is missing, ambiguous or damaged.
    """
    index_file = _chosen(_indices(files), files)
    index = read_index(index_file.location, index_file.name)
    shards = _shards(index_file, index, files)
    options, vocabulary = find_options(files), find_vocabulary(_without_state(files))
    parsed = read_options(options.location, name=options.name)
    words = None if vocabulary is None else read_lines(vocabulary)
    _refuse_strangers(files, index_file, [*shards, options, vocabulary])
    left = tuple(sorted(name for name in index.entries if LEFT.fullmatch(name)))
    arrays = _arrays({name: entry for name, entry in index.entries.items() if name not in left}, shards)
    used = [file for file in (index_file, *shards, options, vocabulary) if file is not None]
    return OriginalCheckpoint(
        format=FORMAT,
        options=parsed,
        arrays=arrays,
        weights_name=index_file.name.removesuffix(SUFFIX),
        options_name=options.name,
        sources=source_files(used),
        vocabulary=words,
        vocabulary_name=None if vocabulary is None else vocabulary.name,
        left=left,
        resources=resources,
    )


def _indices(files: list[InputFile]) -> list[InputFile]:
    """The indices of checkpoints: by their last bytes, or, where those are lost, by the data beside them."""
    named = [file for file in files if file.name.endswith(SUFFIX) and file.path is not None]
    return [
        file
        for file in named
        if has_magic(file.location) or any(each.name.startswith(f"{_stem(file)}.data-") for each in files)
    ]


def _stem(index: InputFile) -> str:
    return index.name.removesuffix(SUFFIX)


def _folder(file: InputFile) -> str:
    return file.name.rpartition("/")[0]


def _chosen(indices: list[InputFile], files: list[InputFile]) -> InputFile:
    """Of several checkpoints in a folder, the one that the file `checkpoint` names, else that of the highest step."""
    if len(indices) == 1:
        return indices[0]
    folders = {_folder(file) for file in indices}
    if len(folders) > 1:
        names = ", ".join(_stem(file) for file in indices[:4])
        raise ConversionError(f"Checkpoints in {len(folders)} folders: {names}. Give the folder of one model.")
    by_name = {_stem(file).rpartition("/")[2]: file for file in indices}
    state = next((file for file in files if _is_state(file) and _folder(file) in folders), None)
    if state is not None:
        named = STATE.search(state.location.read_bytes()[:MAX_STATE_BYTES].decode("utf-8", "replace"))
        if named is not None and named[1] in by_name:
            return by_name[named[1]]
        logger.warning("%s names none of the checkpoints beside it: taking the last.", state.name)
    steps = {name: int(step[1]) for name in by_name if (step := STEP.search(name))}
    if len(steps) < len(by_name):
        raise ConversionError(
            f"{len(by_name)} checkpoints, {', '.join(sorted(by_name)[:4])}, and no file `checkpoint` says which. "
            "Name the files of one."
        )
    return by_name[max(steps, key=steps.__getitem__)]


def _is_state(file: InputFile) -> bool:
    return file.name.rpartition("/")[2] == "checkpoint" and file.kind is Kind.TEXT


def _shards(index_file: InputFile, index: Index, files: list[InputFile]) -> list[InputFile]:
    """The data files in order."""
    if not any(name.startswith("lm/") for name in index.entries):
        shown = ", ".join(sorted(index.entries)[:3]) or "none at all"
        raise ConversionError(
            f"{index_file.name} has no variables of bilm-tf's training (lm/...), but {shown}. "
            "Only checkpoints that bilm-tf trained are converted."
        )
    by_name = {file.name: file for file in files}
    wanted = [f"{_stem(index_file)}.data-{i:05d}-of-{index.shards:05d}" for i in range(index.shards)]
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise ConversionError(f"{missing[0]} is missing among {describe(files)}. Give it with the index.")
    return [by_name[name] for name in wanted]


def _without_state(files: list[InputFile]) -> list[InputFile]:
    """All but the parts of checkpoints: numbers can look like text."""
    return [
        file for file in files if not _is_state(file) and not re.search(r"\.(data-\d{5}-of-\d{5}|meta)$", file.name)
    ]


def _refuse_strangers(files: list[InputFile], index: InputFile, used: list[InputFile | None]) -> None:
    for file in files:
        if (
            file.explicit
            and file not in (index, *used)
            and not _is_state(file)
            and file.name != f"{_stem(index)}.meta"
        ):
            raise ConversionError(f"{file.name} ({file.kind.value}) is no part of this checkpoint. Leave it out.")


def _arrays(entries: dict[str, Entry], shards: list[InputFile]) -> dict[str, OriginalArray]:
    sizes = [file.location.stat().st_size for file in shards]
    arrays = {}
    for name, entry in entries.items():
        shard = entry.shard if entry.shard < len(shards) else 0
        problem = problem_of(entry, sizes[shard]) if shard == entry.shard else "is in a data file that is not there"
        if problem is not None:
            raise ConversionError(f"{shards[shard].name}: variable {name} {problem}. Get the checkpoint again.")
        arrays[name] = OriginalArray(entry.shape, partial(_read, shards[shard], entry, name))
    return arrays


def _read(shard: InputFile, entry: Entry, name: str) -> np.ndarray:
    where = f"{shard.name}: variable {name}"
    array = read_array(shard.location, entry, where=where)
    # minimum and maximum pass a NaN on, and need no array of their own
    if array.size and not np.isfinite([array.min(), array.max()]).all():
        raise ConversionError(f"{where} holds NaN or infinite numbers. Get the checkpoint of another step.")
    return array


__all__ = ["FORMAT", "read", "recognises"]
