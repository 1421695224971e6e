"""Turn what the user gave (files, folders, archives, links, names of releases) into a list of files, and read them."""

import errno
import logging
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from ..readers import read_files
from ..readers.base import Choice, ConversionError, InputFile, OriginalCheckpoint, printable
from ..readers.content import Kind, kind_of
from ..readers.refused import SPLIT_PART
from .archives import TARS, extract
from .download import download, refused_is_forgotten, shown_url
from .names import fetch, find_release, note_name_taken, unknown_source


logger = logging.getLogger(__name__)

#: Errors of the system that mean that a file does not fit.
NO_ROOM = {
    errno.ENOSPC: "The disk is full",
    errno.EDQUOT: "Your share of the disk is full",
    errno.EFBIG: "A file would be larger than the system lets you write",
}

#: A folder with more files than this is not the folder of one model.
MAX_FILES = 1000

#: Names of vocabularies in bilm-tf's documentation.
VOCABULARY_NAME = re.compile(r".*vocab.*\.txt", re.IGNORECASE | re.DOTALL)


def read_original(
    sources: Sequence[str | Path], *, mix: int | None = None, language: str | None = None, progress: bool = False
) -> OriginalCheckpoint:
    """Read an original checkpoint.

    Args:
        sources: Weights, options and perhaps a vocabulary, in any order; or one folder; or one zip as NLPL publishes
            it. Each may be a link that begins with `https://` or `http://`. A string that is no path may be the name
            of a release, such as `original` or `efml:zh`.
        mix: The number of the layer mix to take from an AllenNLP model with several, from 0; the first by default.
        language: The language to take from AllenNLP's multilingual ELMo.
        progress: Show a bar while downloading.

    Returns:
        The checkpoint. Use it in a `with` statement, because its arrays are read from the files on demand.

    Raises:
        ConversionError: If the sources are not one intact model; the message is one line.
    """
    with ExitStack() as resources:
        with naming_files():
            files = gather(sources, resources, progress=progress)
            checkpoint = read_files(files, resources, Choice(mix, language))
        # the checkpoint closes them from here on
        checkpoint.resources = resources.pop_all()
        return checkpoint


def gather(sources: Sequence[str | Path], resources: ExitStack, *, progress: bool = False) -> list[InputFile]:
    """Download, unpack and list the files of the sources.

    Args:
        sources: Files, a folder, an archive, links to these, or names of releases.
        resources: Receives the temporary folders of unpacked archives, and the removal of refused downloads.
        progress: Show a bar while downloading.

    Returns:
        Every file, with the kind that its first bytes show.

    Raises:
        ConversionError: If a source does not exist, or cannot be downloaded or unpacked.
    """
    if isinstance(sources, str | Path):
        sources = [sources]
    if not sources:
        raise ConversionError(
            "No source given. Give the name of a release, weights and options, a folder, a .zip, or their links."
        )
    for source in sources:
        # before anything is downloaded
        _check_source(source)
    files: list[InputFile] = []
    for source in sources:
        for file in _expand(source, resources, progress=progress):
            files += _unpack(file, resources) if is_archive(file) else [file]
    return _told_apart(files)


def _told_apart(files: list[InputFile]) -> list[InputFile]:
    """Drop a file that was given twice, and name files that share a name by their paths."""
    once = {file.path.resolve() if file.path else file.name: file for file in reversed(files)}
    files = [*reversed(once.values())]
    counts = Counter(file.name for file in files)
    return [
        replace(file, name=printable(str(file.path)))
        if counts[file.name] > 1 and file.explicit and file.archive is None and file.url is None
        else file
        for file in files
    ]


def is_archive(file: InputFile) -> bool:
    """Tell whether a file is a whole archive; the first part of a split one only looks like one."""
    return (file.kind is Kind.ZIP or file.kind in TARS) and not SPLIT_PART.search(file.basename)


def _scheme_of(source: str | Path) -> str:
    """Return the scheme of a link, in lower case; "" for what is no link."""
    return source.partition("://")[0].lower() if isinstance(source, str) and "://" in source else ""


def _check_source(source: str | Path) -> None:
    """Refuse a source that is neither a link, nor a path, nor the name of a release."""
    scheme = _scheme_of(source)
    if scheme not in ("", "http", "https"):
        raise ConversionError(f"{source}: {scheme} links are not supported. Download it, or give an https link.")
    if not str(source):
        raise ConversionError("One of the sources is an empty name. Give the name of a file or folder.")
    if scheme or os.path.lexists(source):
        return
    if isinstance(source, Path):
        raise ConversionError(f"{source} does not exist. Check the path.")
    if find_release(source) is None:
        raise unknown_source(source)


def _expand(source: str | Path, resources: ExitStack, *, progress: bool) -> Iterator[InputFile]:
    """Yield the files of one source: the file itself, the download, the files of the release or in the folder."""
    if _scheme_of(source):
        yield _downloaded(download(str(source), progress=progress), str(source), resources)
    elif os.path.lexists(source):
        yield from _local(source)
    elif (release := find_release(str(source))) is not None:
        for path, url in fetch(release, progress=progress):
            yield _downloaded(path, url, resources)


def _local(source: str | Path) -> Iterator[InputFile]:
    """Yield the file, or the files in the folder."""
    if isinstance(source, str):
        note_name_taken(source)
    path = Path(source)
    if path.is_dir():
        for found in _walk(path):
            yield _file(found, name=found.relative_to(path).as_posix(), explicit=False)
    else:
        yield _file(path, name=path.name)


def _downloaded(path: Path, url: str, resources: ExitStack) -> InputFile:
    """Return a download, which is forgotten if it is refused."""
    resources.enter_context(refused_is_forgotten(path))
    return _file(path, name=path.name, url=shown_url(url))


def _file(path: Path, *, name: str, explicit: bool = True, url: str | None = None) -> InputFile:
    if not path.exists():
        raise ConversionError(f"{path} is a link that leads nowhere. Fetch its target, or give the file itself.")
    if not path.is_file():
        raise ConversionError(f"{path} is not a regular file. Give the file itself.")
    with path.open("rb") as head:
        kind = kind_of(head)
    if explicit and kind is Kind.UTF16:
        raise ConversionError(f"{name} is {kind.value}, not in UTF-8. Save it as UTF-8.")
    if kind is Kind.JSON and VOCABULARY_NAME.fullmatch(path.name):
        # its first word may be a brace
        kind = Kind.TEXT
    return InputFile(printable(name), kind, path, explicit=explicit, url=url)


def _walk(folder: Path) -> list[Path]:
    """List the regular files in a folder and below it, in a fixed order.

    Hidden files, linked folders and links that lead out of the folder are left out. Links in a folder of the Hub's
    cache lead to the folder `blobs` beside it, and are followed.
    """
    homes = [folder.resolve()]
    if homes[0].parent.name == "snapshots":
        homes.append(homes[0].parents[1] / "blobs")
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each != "__MACOSX")
        paths = (Path(parent, name) for name in sorted(names) if not name.startswith("."))
        found += [path for path in paths if _is_within(path, homes) and path.is_file()]
        if len(found) > MAX_FILES:
            raise ConversionError(f"{folder} holds more than {MAX_FILES:,} files. Give the folder of one model.")
    if not found:
        raise ConversionError(f"{folder} holds no files. Give the folder with the weights and the options.")
    return found


def _is_within(path: Path, homes: list[Path]) -> bool:
    if not path.is_symlink():
        return True
    inside = any(path.resolve().is_relative_to(home) for home in homes)
    if not (inside and path.exists()):
        where = "nowhere" if inside else "out of its folder"
        logger.warning("%s is a link that leads %s, and was left out. Give the file itself.", _shown(path), where)
    return inside


def _shown(path: Path) -> str:
    return printable(str(path))


def _raise(error: OSError) -> None:
    raise error


def _unpack(archive: InputFile, resources: ExitStack) -> list[InputFile]:
    folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="elmo-hf-"))
    members = extract(archive, Path(folder))
    if not members:
        raise ConversionError(f"{archive.name} is an empty archive. Download it again.")
    return members


@contextmanager
def naming_files() -> Iterator[None]:
    """Turn errors of the system in this block into one line that names the file."""
    try:
        yield
    except OSError as error:
        raise _as_conversion_error(error) from error


def _as_conversion_error(error: OSError) -> ConversionError:
    name = error.filename or "a source"
    if error.errno in NO_ROOM:
        return ConversionError(
            f"{NO_ROOM[error.errno]} ({tempfile.gettempdir()} or the download cache). "
            "Make room, or set TMPDIR elsewhere."
        )
    if isinstance(error, PermissionError):
        return ConversionError(f"{name} cannot be read: permission denied. Change its permissions.")
    return ConversionError(f"{name} cannot be read ({error.strerror or error}).")


__all__ = ["gather", "naming_files", "read_original"]
