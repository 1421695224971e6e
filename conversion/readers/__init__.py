"""Readers of the original formats; which one reads is decided by content, never by a file's name.

A new format is a module with `recognises` and `read`, and a line in `READERS`; if it was refused by name until then,
its line in `refused.REFUSALS` goes.
"""

from contextlib import ExitStack

from . import bilm_hdf5
from .base import ConversionError, InputFile, OriginalCheckpoint, Reader, describe
from .refused import REFUSALS


#: Asked in this order; the first that recognises the files reads them.
READERS = (Reader(bilm_hdf5.FORMAT, bilm_hdf5.recognises, bilm_hdf5.read),)


def read_files(files: list[InputFile], resources: ExitStack) -> OriginalCheckpoint:
    """Find the reader that recognises the files, and read them.

    Args:
        files: All that was given or found.
        resources: Gets what must stay open until the arrays are read.

    Returns:
        The checkpoint.

    Raises:
        ConversionError: If nothing here is a model, or the reader finds it damaged.
    """
    for reader in READERS:
        if reader.recognises(files):
            return reader.read(files, resources)
    for refusal in REFUSALS:
        culprit = refusal.culprit(files)
        if culprit is not None:
            raise ConversionError(refusal.message.format(name=culprit.name))
    raise ConversionError(
        f"No weights of a known format among {describe(files) or 'no files'}. "
        "Give the HDF5 weights and the options, a folder or a .zip with both."
    )


__all__ = ["READERS", "read_files"]
