"""Readers of the original formats; which one reads is decided by content, never by a file's name.

A new format is a module with `recognises` and `read`, and a line in `READERS`; if it was refused by name until then,
its line in `refused.REFUSALS` goes.
"""

from contextlib import ExitStack

from . import allennlp_archive, bilm_hdf5, many_langs, tensorflow_checkpoint
from .base import Choice, ConversionError, InputFile, OriginalCheckpoint, Reader, describe, without_choice
from .refused import REFUSALS


#: Asked in this order; the first that recognises the files reads them.
READERS = (
    Reader(many_langs.FORMAT, many_langs.recognises, without_choice(many_langs.read)),
    # before HDF5, as AllenNLP's archives may hold the HDF5 file that their training began with
    Reader(allennlp_archive.FORMAT, allennlp_archive.recognises, allennlp_archive.read),
    Reader(bilm_hdf5.FORMAT, bilm_hdf5.recognises, without_choice(bilm_hdf5.read)),
    Reader(tensorflow_checkpoint.FORMAT, tensorflow_checkpoint.recognises, without_choice(tensorflow_checkpoint.read)),
)


def read_files(files: list[InputFile], resources: ExitStack, choice: Choice) -> OriginalCheckpoint:
    """Find the reader that recognises the files, and read them.

    Args:
        files: All that was given or found.
        resources: Gets what must stay open until the arrays are read.
        choice: Which of several models in one file is wanted.

    Returns:
        The checkpoint.

    Raises:
        ConversionError: If nothing here is a model, or the reader finds it damaged.
    """
    for reader in READERS:
        if reader.recognises(files):
            return reader.read(files, resources, choice)
    for refusal in REFUSALS:
        culprit = refusal.culprit(files)
        if culprit is not None:
            raise ConversionError(refusal.message.format(name=culprit.name))
    raise ConversionError(
        f"No weights of a known format among {describe(files) or 'no files'}. "
        "Give the HDF5 weights and the options, a folder or a .zip with both."
    )


__all__ = ["READERS", "read_files"]
