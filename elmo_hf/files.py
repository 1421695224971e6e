"""New files, each of which appears whole or not at all."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from .errors import ElmoError


def check_new_file(path: Path) -> None:
    """Refuse a name under which no new file can be made, before there is anything to write.

    Raises:
        ElmoError: If it exists, or its folder does not.
    """
    if os.path.lexists(path):
        raise ElmoError(f"{path} exists already: remove it or choose another name.")
    if not path.parent.is_dir():
        raise ElmoError(f"{path.parent} is not a folder: create it first.")


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Let what the system, or safetensors, says in this block, which writes, be an error that names the file.

    Args:
        path: The name under which the file is to appear.

    Raises:
        ElmoError: In place of an OSError, or of the SafetensorError that a full disk is to that library.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ElmoError(f"{path} cannot be written ({reason}): make room, or choose another place.") from error


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Make a file that appears under its name when the block ends, and not at all if the block fails.

    Args:
        path: The name of the file.

    Yields:
        Where the block is to write it. Its errors are its own: `naming_errors` is for those of writing.

    Raises:
        ElmoError: If the file exists, or cannot be made.
    """
    check_new_file(path)
    # short enough to leave room for what is put around it, and of letters that Rust can write, too
    name = re.sub(r"[^\w.-]", "_", path.name)[:40]
    temporary = path.with_name(f".{name}.{secrets.token_hex(4)}.partial")
    try:
        yield temporary
        with naming_errors(path):
            temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


__all__ = ["check_new_file", "naming_errors", "new_file"]
