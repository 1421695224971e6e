"""Read a training folder of bilm-tf or DeepPavlov: a TensorFlow checkpoint with its options.

Names: https://github.com/allenai/bilm-tf/blob/master/bilm/training.py, scope `lm`.
DeepPavlov's copy of it, `deeppavlov/models/elmo/bilm_model.py`, has the same.
"""

import logging
import re
from contextlib import ExitStack
from functools import partial

import numpy as np

from .base import (
    NOT_OF_BILM,
    ConversionError,
    InputFile,
    OriginalArray,
    OriginalCheckpoint,
    Softmax,
    Tables,
    describe,
    source_files,
)
from .content import Kind
from .options import read_options
from .parts import check_rows, find_options, find_vocabulary, read_lines, rows_without_words
from .refused import HUB_NAMES
from .tensor_bundle import Entry, Index, has_magic, problem_of, read_array, read_index


logger = logging.getLogger(__name__)

FORMAT = "bilm-tensorflow"

SUFFIX = ".index"

#: The scope of the model's variables, under which optimizers keep theirs, too.
SCOPE = "lm"

#: The reason for leaving out the variables of the training, in messages.
OF_TRAINING = "are training state, such as optimizer slots,"

TABLES = Tables(characters="lm/char_embed", words="lm/embedding")
SOFTMAX = Softmax(weight="lm/softmax/W", bias="lm/softmax/b")

#: `model_checkpoint_path: "/home/author/model.ckpt-935588"`, whatever the folder.
STATE = re.compile(r'^model_checkpoint_path:\s*"(?:[^"]*[/\\])?([^"/\\]+)"', re.MULTILINE)
MAX_STATE_BYTES = 1 << 20

STEP = re.compile(r"-(\d{1,18})$")


def recognises(files: list[InputFile]) -> list[InputFile]:
    """Return the indices of checkpoints, or none if there is a module of TensorFlow Hub."""
    return [] if any(file.basename in HUB_NAMES for file in files) else find_indices(files)


def read(files: list[InputFile], resources: ExitStack) -> OriginalCheckpoint:
    """Read one checkpoint with its options and, where there is one, its vocabulary.

    Args:
        files: All that was given or found.
        resources: Not used: the data files are opened when an array is read.

    Returns:
        The variables of the model, keyed by their names, such as `lm/CNN/W_cnn_0`; the others are `left`. The softmax
        is among them where the vocabulary says which words its rows are.

    Raises:
        ConversionError: If a part is missing, ambiguous or damaged.
    """
    index_file = _chosen(find_indices(files), files)
    index = read_index(index_file.location, index_file.name)
    shards = find_shards(index_file, index, files, SCOPE)
    options, vocabulary = find_options(files), find_vocabulary(without_checkpoints(files))
    parsed = read_options(options.location, name=options.name)
    words = None if vocabulary is None else read_lines(vocabulary)
    _refuse_strangers(files, index_file, [*shards, options, vocabulary])
    left = {name for name in index.entries if _is_of_training(name, index)}
    softmax = [name for name in (SOFTMAX.weight, SOFTMAX.bias) if name in index.entries]
    reason = rows_without_words(words) if softmax else None
    if reason is not None:
        logger.warning("%s: the softmax is left out, because %s.", index_file.name, reason)
        left.update(softmax)
    elif words is not None and vocabulary is not None:
        check_rows({name: index.entries[name].shape for name in softmax}, index_file, len(words), vocabulary)
    arrays = arrays_of({name: entry for name, entry in index.entries.items() if name not in left}, shards)
    used = [file for file in (index_file, *shards, options, vocabulary) if file is not None]
    return OriginalCheckpoint(
        format=FORMAT,
        options=parsed,
        arrays=arrays,
        weights_name=index_file.name.removesuffix(SUFFIX),
        options_name=options.name,
        sources=source_files(used),
        tables=TABLES,
        softmax=SOFTMAX if softmax and reason is None else None,
        vocabulary=words,
        vocabulary_name=None if vocabulary is None else vocabulary.name,
        left=tuple(sorted(left)),
        left_reason=OF_TRAINING if reason is None else NOT_OF_BILM,
        resources=resources,
    )


def _is_of_training(name: str, index: Index) -> bool:
    """Tell whether a variable belongs to the training: it is outside the model's scope, or a slot of an optimizer.

    An optimizer keeps its slots under the names of the variables, such as `lm/char_embed/Adam_1`.
    """
    return not name.startswith(f"{SCOPE}/") or name.rpartition("/")[0] in index.entries


def find_indices(files: list[InputFile]) -> list[InputFile]:
    """Find the indices of checkpoints by their last bytes, or, if those are lost, by the data files beside them."""
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
    """Choose the checkpoint that the file `checkpoint` names, or else that of the highest step."""
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


def find_shards(index_file: InputFile, index: Index, files: list[InputFile], scope: str) -> list[InputFile]:
    """Find the data files.

    Args:
        index_file: The index.
        index: What is in it.
        files: All that was given or found.
        scope: The scope of all variables of a biLM.

    Returns:
        The data files in order.

    Raises:
        ConversionError: If it is not the index of a biLM, or a data file is missing.
    """
    if not any(name.startswith(f"{scope}/") for name in index.entries):
        shown = ", ".join(sorted(index.entries)[:3]) or "none at all"
        raise ConversionError(
            f"{index_file.name} has no variables of bilm-tf ({scope}/...), but {shown}. "
            "Only models of bilm-tf and DeepPavlov are converted."
        )
    by_name = {file.name: file for file in files}
    wanted = [f"{_stem(index_file)}.data-{i:05d}-of-{index.shards:05d}" for i in range(index.shards)]
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise ConversionError(f"{missing[0]} is missing among {describe(files)}. Give it with the index.")
    return [by_name[name] for name in wanted]


def without_checkpoints(files: list[InputFile]) -> list[InputFile]:
    """Remove the parts of checkpoints, because numbers can look like text."""
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
            raise ConversionError(f"{file.name} ({file.kind.value}) is not part of this checkpoint. Leave it out.")


def arrays_of(entries: dict[str, Entry], shards: list[InputFile]) -> dict[str, OriginalArray]:
    """Make arrays of variables, to be read on demand.

    Raises:
        ConversionError: If a variable is not where the index says, or does not hold floating-point numbers.
    """
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


__all__ = [
    "FORMAT",
    "SUFFIX",
    "arrays_of",
    "find_indices",
    "find_shards",
    "read",
    "recognises",
    "without_checkpoints",
]
