"""Turn what the user gave (files, a folder, a zip, links) into a flat list of files, and have it read."""

import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from .archives import extract_zip
from .download import download, shown_url
from .readers import read_files
from .readers.base import ConversionError, InputFile, OriginalCheckpoint, printable
from .readers.content import Kind, kind_of


#: A folder with more files than this is not the folder of one model.
MAX_FILES = 1000


def read_original(sources: Sequence[str | Path], *, progress: bool = False) -> OriginalCheckpoint:
    """Read an original checkpoint.

    Args:
        sources: Weights, options and perhaps a vocabulary, in any order; or one folder; or one zip as NLPL publishes
            it. Each may be a link that begins with `https://` or `http://`.
        progress: Show a bar while downloading.

    Returns:
        The checkpoint. Use it in a `with` statement: its arrays are read from the files when they are wanted.

    Raises:
        ConversionError: If the sources are not one intact model; the message is one line.
    """
    with ExitStack() as resources:
        try:
            files = gather(sources, resources, progress=progress)
            checkpoint = read_files(files, resources)
        except OSError as error:
            raise _as_conversion_error(error) from error
        # from here on the checkpoint closes what is open
        checkpoint.resources = resources.pop_all()
        return checkpoint


def gather(sources: Sequence[str | Path], resources: ExitStack, *, progress: bool = False) -> list[InputFile]:
    """Download, unpack and list what the sources stand for.

    Args:
        sources: As `read_original` takes them.
        resources: Gets the temporary folders of unpacked archives.
        progress: Show a bar while downloading.

    Returns:
        Every file, with what its first bytes say it is.

    Raises:
        ConversionError: If a source does not exist, or cannot be downloaded or unpacked.
    """
    if isinstance(sources, str | Path):
        sources = [sources]
    if not sources:
        raise ConversionError("No source given. Give the weights and the options, a folder, a .zip, or their links.")
    files: list[InputFile] = []
    for source in sources:
        for file in _expand(source, progress=progress):
            files += _unpack(file, resources) if file.kind is Kind.ZIP else [file]
    return files


def _expand(source: str | Path, *, progress: bool) -> Iterator[InputFile]:
    """The files that one source stands for: itself, what is at the link, or those in the folder."""
    scheme = source.partition("://")[0].lower() if isinstance(source, str) and "://" in source else ""
    if scheme in ("http", "https"):
        path = download(str(source), progress=progress)
        yield _file(path, name=path.name, url=shown_url(str(source)))
    elif scheme:
        raise ConversionError(f"{source}: {scheme} links are not read. Download it, or give an https link.")
    elif not os.path.lexists(source):
        raise ConversionError(f"{source} does not exist. Check the path.")
    elif (path := Path(source)).is_dir():
        for found in _walk(path):
            yield _file(found, name=found.relative_to(path).as_posix(), explicit=False)
    else:
        yield _file(path, name=path.name)


def _file(path: Path, *, name: str, explicit: bool = True, url: str | None = None) -> InputFile:
    if not path.is_file():
        raise ConversionError(f"{path} is no regular file. Give the file itself.")
    with path.open("rb") as head:
        kind = kind_of(head)
    return InputFile(printable(name), kind, path, explicit=explicit, url=url)


def _walk(folder: Path) -> list[Path]:
    """Regular files in the folder and below, in a fixed order; hidden ones and linked folders are left out."""
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each != "__MACOSX")
        paths = (Path(parent, name) for name in sorted(names) if not name.startswith("."))
        found += [path for path in paths if path.is_file()]
        if len(found) > MAX_FILES:
            raise ConversionError(f"{folder} holds more than {MAX_FILES:,} files. Give the folder of one model.")
    if not found:
        raise ConversionError(f"{folder} holds no files. Give the folder with the weights and the options.")
    return found


def _raise(error: OSError) -> None:
    raise error


def _unpack(archive: InputFile, resources: ExitStack) -> list[InputFile]:
    folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="elmo-hf-"))
    members = extract_zip(archive, Path(folder))
    if not members:
        raise ConversionError(f"{archive.name} is an empty archive. Download it again.")
    return members


def _as_conversion_error(error: OSError) -> ConversionError:
    name = error.filename or "a source"
    if error.errno == errno.ENOSPC:
        return ConversionError(
            f"The disk is full ({tempfile.gettempdir()} or the download cache). Make room, or set TMPDIR elsewhere."
        )
    if isinstance(error, PermissionError):
        return ConversionError(f"{name} cannot be read: permission denied. Change its permissions.")
    return ConversionError(f"{name} cannot be read ({error.strerror or error}).")


__all__ = ["gather", "read_original"]
