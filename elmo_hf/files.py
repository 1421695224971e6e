"""Create files and folders that appear whole or not at all."""

import errno
import io
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock
from safetensors import SafetensorError

from .errors import ElmoError


# writes an object as a line of JSON
WriteRecord: TypeAlias = Callable[[Mapping[str, Any]], None]

#: How many characters of a name its temporary counterpart keeps: systems limit names to 255 bytes.
KEPT_CHARACTERS = 40


def refuse_existing(path: Path) -> None:
    """Refuse a name that is taken, even by a link that leads nowhere.

    Raises:
        ElmoError: If something has that name.
    """
    if os.path.lexists(path):
        raise ElmoError(f"{path} exists already: remove it or choose another name.")


def check_new_file(path: Path) -> None:
    """Check that a new file can have this name, before there is anything to write.

    Raises:
        ElmoError: If it exists, or its folder does not.
    """
    refuse_existing(path)
    if not path.parent.is_dir():
        raise ElmoError(f"{path.parent} is not a folder: create it first.")


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Turn an error of writing in this block into one that names the file.

    Args:
        path: The file or folder that the block writes, under its final name.

    Raises:
        ElmoError: In place of an `OSError`, or of the error that safetensors and tokenizers make of one.
    """
    try:
        yield
    except ElmoError:
        raise
    except Exception as error:
        reason = _system_reason(error)
        if reason is None:
            raise
        raise ElmoError(f"{path} cannot be written ({reason}): make room, or choose another place.") from error


def _system_reason(error: Exception) -> str | None:
    """Return why the system refused to write, or `None` if another kind of error occurred.

    safetensors and tokenizers are written in Rust, and hand a refusal on as text; tokenizers as a plain `Exception`.
    """
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if number := re.search(r"\(os error (\d+)\)", str(error)):
        return os.strerror(int(number[1]))
    return str(error) if isinstance(error, SafetensorError) else None


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Create a file that appears under its name when the block ends, and not at all if the block fails.

    Args:
        path: The name of the file.

    Yields:
        The temporary file for the block to write. Its own errors pass through: use `naming_errors` for those of
        writing.

    Raises:
        ElmoError: If the file exists, before the block or when it ends, or cannot be created.
    """
    check_new_file(path)
    temporary = path.with_name(f".{_plain_name(path)}.{secrets.token_hex(4)}.partial")
    try:
        yield temporary
        with naming_errors(path):
            temporary.chmod(0o666 & ~_file_mask())
            _give_name(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _give_name(temporary: Path, path: Path) -> None:
    """Give a file its name, which another program may have taken meanwhile.

    Raises:
        ElmoError: If the name is taken.
    """
    try:
        # unlike a renamed file, a link never replaces another one
        os.link(temporary, path)
    except OSError:
        # the name is taken, or the file system has no links
        refuse_existing(path)
        temporary.rename(path)


@contextmanager
def new_folder(path: Path, *, size: int) -> Iterator[Path]:
    """Create a folder that appears under its name when the block ends, and not at all if the block fails.

    A killed process leaves a hidden folder `.NAME-XXXX.partial`, which nothing trips over.

    Args:
        path: The name of the folder. Missing parents are created, and removed again if the block fails.
        size: The number of bytes that the block writes at most.

    Yields:
        The temporary folder, beside `path`, for the block to fill with files.

    Raises:
        ElmoError: If the folder exists, the disk has too little space, or the system refuses to write.
    """
    made: list[Path] = []
    temporary = None
    try:
        with naming_errors(path.absolute().parent):
            made += _make_parents(path.absolute().parent)
        with naming_errors(path):
            temporary = Path(
                tempfile.mkdtemp(dir=path.absolute().parent, prefix=f".{_plain_name(path)}-", suffix=".partial")
            )
            _check_space(temporary, size)
            yield temporary
            _make_readable(temporary)
            refuse_existing(path)
            temporary.rename(path)
        # They hold the folder now, or its name leads through them, as `new/../folder` does.
        made.clear()
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        for parent in made:
            # Another process may have put something there meanwhile.
            with suppress(OSError):
                parent.rmdir()


def cached_folder(cache: Path, source: Any, make: Callable[[Path], object]) -> Path:
    """Return the folder of what is made of a source; it is made if nobody has made it before.

    Of several processes, the first one makes it, and the others wait for it.

    Args:
        cache: The folder of all that was made; each has a folder of its own there, which is never deleted.
        source: All that the content depends on, as JSON: the same source has the same folder.
        make: Makes the new folder of this name, by `new_folder`.

    Raises:
        ElmoError: If the folder cannot be made, or the file system has no locks.
    """
    key = sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache / key
    if not folder.is_dir():
        with _locked(cache / f"{key}.lock"):
            if not folder.is_dir():
                # what a killed process left: no other one writes now
                for left in cache.glob(f".{key}-*.partial"):
                    shutil.rmtree(left, ignore_errors=True)
                make(folder)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time into the block; a process that ends in it leaves it."""
    lock = FileLock(path)
    with naming_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except NotImplementedError as error:
            raise ElmoError(f"{path.parent} is on a file system without locks: choose a folder of a disk.") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def new_json_lines(path: Path) -> Iterator[WriteRecord]:
    """Write JSON Lines. The file appears when the block ends, and not at all if the block fails.

    Args:
        path: The new file.

    Yields:
        A function that writes an object as a line.

    Raises:
        ElmoError: If the file exists, or cannot be written.
    """
    with new_file(path) as temporary:
        with naming_errors(path):
            file = temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")

        def write(record: Mapping[str, Any]) -> None:
            with naming_errors(path):
                file.write(f"{json.dumps(record, ensure_ascii=False)}\n")

        try:
            yield write
        finally:
            with naming_errors(path):
                file.close()


def _plain_name(path: Path) -> str:
    """Shorten a name, and keep only characters that libraries in Rust can write."""
    return re.sub(r"[^\w.-]", "_", path.name)[:KEPT_CHARACTERS]


def _make_parents(parent: Path) -> list[Path]:
    """Create a folder with its parents; return those that did not exist, innermost first."""
    missing = [each for each in (parent, *parent.parents) if not each.exists()]
    parent.mkdir(parents=True, exist_ok=True)
    return missing


def _check_space(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {size:,} bytes are needed, {free:,} are free")


def _file_mask() -> int:
    """Return the permissions that this process takes from new files."""
    # The only way to read the mask is to set it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _make_readable(folder: Path) -> None:
    """Give a folder and its files the permissions of new ones: temporary folders and safetensors files are private."""
    mask = _file_mask()
    folder.chmod(0o777 & ~mask)
    for path in folder.iterdir():
        path.chmod(0o666 & ~mask)


class DeferredErrorFile(io.FileIO):
    """A file for `h5py.File` that keeps its first error until you call `check`.

    If HDF5 saw the error, it would fill the screen with messages, and could end the process.
    """

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of the data; do nothing after an error."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and self.error is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Change the size of the file; do nothing after an error."""
        try:
            return super().truncate(size) if self.error is None else 0
        except OSError as error:
            self.error = error
            return 0

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self.error is not None:
            raise self.error


__all__ = [
    "DeferredErrorFile",
    "WriteRecord",
    "cached_folder",
    "check_new_file",
    "naming_errors",
    "new_file",
    "new_folder",
    "new_json_lines",
    "refuse_existing",
]
