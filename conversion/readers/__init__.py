"""Readers of the original formats; the content of the files decides which one reads them, never their names.

A new format is a module with `recognises` and `read`, and a line in `READERS`; if it was refused by name until then,
its line in `refused.REFUSALS` goes.
"""

import logging
from contextlib import ExitStack

from . import allennlp_archive, bilm_hdf5, many_langs, tensorflow_checkpoint, tensorflow_hub
from .base import (
    Choice,
    ConversionError,
    InputFile,
    OriginalCheckpoint,
    Reader,
    SelectionError,
    describe,
    without_choice,
)
from .content import Kind
from .refused import REFUSALS


logger = logging.getLogger(__name__)

#: The reader that recognises the files reads them.
READERS = (
    Reader(many_langs.FORMAT, many_langs.recognises, without_choice(many_langs.read)),
    Reader(allennlp_archive.FORMAT, allennlp_archive.recognises, allennlp_archive.read),
    Reader(bilm_hdf5.FORMAT, bilm_hdf5.recognises, without_choice(bilm_hdf5.read)),
    Reader(tensorflow_checkpoint.FORMAT, tensorflow_checkpoint.recognises, without_choice(tensorflow_checkpoint.read)),
    Reader(tensorflow_hub.FORMAT, tensorflow_hub.recognises, without_choice(tensorflow_hub.read)),
)

#: The folder of AllenNLP's archives for files that the training started from, such as the HDF5 weights.
BEGAN_WITH = "fta"


def read_files(files: list[InputFile], resources: ExitStack, choice: Choice) -> OriginalCheckpoint:
    """Find the reader that recognises the files, and read them.

    Args:
        files: All that was given or found.
        resources: Receives the files that must stay open until the arrays are read.
        choice: The user's choice among several models in one file.

    Returns:
        The checkpoint.

    Raises:
        ConversionError: If the files hold no model, models of several formats, or a damaged one.
    """
    _refuse_pointers(files)
    found = {reader.format: weights for reader in READERS if (weights := reader.recognises(files))}
    if found:
        chosen = _chosen(found)
        reader = next(reader for reader in READERS if reader.format == chosen)
        return reader.read(files, resources, choice)
    for refusal in REFUSALS:
        culprit = refusal.culprit(files)
        if culprit is not None:
            raise ConversionError(refusal.message.format(name=culprit.name))
    raise ConversionError(
        f"No weights of a known format among {describe(files) or 'no files'}. "
        "Give the HDF5 weights and the options, a folder or a .zip with both."
    )


def _refuse_pointers(files: list[InputFile]) -> None:
    """Refuse a Git LFS pointer, which may stand in place of any part of a model."""
    pointer = next((file for file in files if file.kind is Kind.LFS_POINTER), None)
    if pointer is not None:
        raise ConversionError(
            f"{pointer.name} is a Git LFS pointer, not the file itself. Run `git lfs pull` there, "
            "or leave it out if the model does without."
        )


def _chosen(found: dict[str, list[InputFile]]) -> str:
    """Choose the format to read, among those whose weights were found."""
    dumps = found.get(bilm_hdf5.FORMAT, [])
    if found.keys() == {allennlp_archive.FORMAT, bilm_hdf5.FORMAT} and all(map(_began_with, dumps)):
        return allennlp_archive.FORMAT
    if found.keys() == {bilm_hdf5.FORMAT, tensorflow_checkpoint.FORMAT}:
        # bilm-tf's last step, `dump_weights`, usually leaves its file in the training folder
        checkpoint = found[tensorflow_checkpoint.FORMAT][0]
        logger.warning(
            "%s is converted, as a dump of %s. If it is none, or to keep the softmax, name the files of one.",
            dumps[0].name,
            checkpoint.name,
        )
        return bilm_hdf5.FORMAT
    if len(found) > 1:
        names = ", ".join(f"{weights[0].name} ({name})" for name, weights in found.items())
        raise SelectionError(f"Models of {len(found)} formats: {names}. Name the files of one model.")
    return next(iter(found))


def _began_with(file: InputFile) -> bool:
    return BEGAN_WITH in file.name.split("/")[:-1]


__all__ = ["READERS", "read_files"]
