"""A folder that appears whole, or not at all."""

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .readers.base import ConversionError


#: Characters of the output's name in that of its temporary folder; names are limited to 255 bytes.
PREFIX = 40


def refuse_existing(output: Path) -> None:
    """Refuse a name that is taken, be it by a link that leads nowhere.

    Raises:
        ConversionError: If there is something of that name.
    """
    if os.path.lexists(output):
        raise ConversionError(f"{output} already exists. Give another --output, or remove it first.")


@contextlib.contextmanager
def new_folder(output: Path, *, room: int) -> Iterator[Path]:
    """Give a temporary folder beside `output` that takes its name at the end, if nothing goes wrong.

    What a killed process leaves is a hidden folder `.NAME-XXXX.partial`, which is in nobody's way.

    Args:
        output: The folder to make; folders above it are made too.
        room: Bytes that will be written.

    Yields:
        The temporary folder, to be filled with files.

    Raises:
        ConversionError: If there is not enough room, or the system refuses to write.
    """
    made = _make_parents(output.absolute().parent)
    folder = None
    try:
        # short enough to leave room for what is put around it, and of letters that Rust can write, too
        name = re.sub(r"[^\w.-]", "_", output.name)[:PREFIX]
        folder = Path(tempfile.mkdtemp(dir=output.absolute().parent, prefix=f".{name}-", suffix=".partial"))
        _check_room(folder, room)
        yield folder
        _make_readable(folder)
        refuse_existing(output)
        folder.rename(output)
        # these hold the output now, or its name leads through them, as `new/../output` does
        made.clear()
    except Exception as error:
        problem = _system_error(error)
        if problem is None:
            raise
        raise _as_conversion_error(problem, output) from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        for parent in made:
            # what others have put there meanwhile stays
            with contextlib.suppress(OSError):
                parent.rmdir()


def _make_parents(parent: Path) -> list[Path]:
    """Make the folder that will hold the output; returns those that were not there, innermost first."""
    try:
        missing = [each for each in (parent, *parent.parents) if not each.exists()]
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _as_conversion_error(error, parent) from error
    return missing


def _check_room(folder: Path, room: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < room:
        raise OSError(errno.ENOSPC, f"{room:,} bytes are needed, {free:,} are free")


def _system_error(error: Exception) -> OSError | None:
    """What the system refused, if that is what went wrong.

    safetensors and tokenizers are in Rust and pass it on in words, tokenizers in a plain `Exception`.
    """
    if isinstance(error, OSError):
        return error
    number = re.search(r"\(os error (\d+)\)", str(error))
    return None if number is None else OSError(int(number[1]), os.strerror(int(number[1])))


def _as_conversion_error(error: OSError, output: Path) -> ConversionError:
    reason = error.strerror or error
    if error.errno == errno.ENOSPC:
        return ConversionError(f"{output}: the disk is full ({reason}). Make room, or give an --output elsewhere.")
    return ConversionError(f"{output} cannot be written ({reason}). Give an --output elsewhere.")


def _make_readable(folder: Path) -> None:
    """Give folder and files the permissions that new ones have: temporary folders and safetensors are private."""
    # the system has no way to read the mask but to set it
    mask = os.umask(0o077)
    os.umask(mask)
    folder.chmod(0o777 & ~mask)
    for path in folder.iterdir():
        path.chmod(0o666 & ~mask)


__all__ = ["new_folder", "refuse_existing"]
