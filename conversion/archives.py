"""Take the members that a model may be made of out of a zip archive, trusting nothing that the archive says."""

import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from .readers.base import CHUNK, ConversionError, InputFile, printable
from .readers.content import Kind, kind_of


#: Kinds that some reader reads; other members are only listed.
WANTED = frozenset({Kind.HDF5, Kind.JSON, Kind.TEXT, Kind.GZIP})

MAX_MEMBERS = 10_000

#: Weights hardly compress, text does by 3 to 5; an archive that claims much more is a bomb.
MAX_EXPANSION = 100
MAX_SMALL = 1 << 24


def extract_zip(archive: InputFile, folder: Path) -> list[InputFile]:
    """Extract what a model may be made of; names inside the archive never become paths.

    Args:
        archive: The zip file.
        folder: An empty temporary folder.

    Returns:
        Every member but dotfiles and macOS's resource forks; those of a wanted kind have a path.

    Raises:
        ConversionError: If the archive is damaged, encrypted, or looks hostile.
    """
    try:
        with zipfile.ZipFile(archive.location) as opened:
            members = [member for member in opened.infolist() if not _is_clutter(member)]
            _check(archive, members)
            return [
                _extract(opened, member, archive=archive, path=folder / f"{i}") for i, member in enumerate(members)
            ]
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ConversionError(f"{archive.name} is a damaged or truncated zip ({error}). Download it again.") from error
    except (NotImplementedError, RuntimeError) as error:
        raise ConversionError(
            f"{archive.name} cannot be unpacked ({error}). Unpack it and give the folder."
        ) from error


def _is_clutter(member: zipfile.ZipInfo) -> bool:
    parts = PurePosixPath(member.filename).parts
    return member.is_dir() or any(part == "__MACOSX" or (part[0] == "." and part != "..") for part in parts)


def _check(archive: InputFile, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise ConversionError(f"{archive.name} has {len(members):,} members: this is no archive of one model.")
    for member in members:
        where = f"{archive.name}: member {member.filename!r}"
        parts = PurePosixPath(member.filename.replace("\\", "/")).parts
        if ".." in parts or member.filename.startswith(("/", "\\")) or ":" in parts[0]:
            raise ConversionError(f"{where} leads out of the archive. Get the archive from its publisher.")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise ConversionError(f"{where} is a link. Unpack the archive and give the folder.")
        if member.flag_bits & 1:
            raise ConversionError(f"{where} is encrypted. Unpack it with its password and give the folder.")
    size = archive.location.stat().st_size
    claimed = sum(member.file_size for member in members)
    if claimed > MAX_EXPANSION * size + MAX_SMALL:
        raise ConversionError(f"{archive.name} claims {claimed:,} bytes in {size:,}: this looks like a zip bomb.")


def _extract(opened: zipfile.ZipFile, member: zipfile.ZipInfo, *, archive: InputFile, path: Path) -> InputFile:
    name = f"{archive.name}/{printable(member.filename)}"
    with opened.open(member) as head:
        kind = kind_of(head)  # type: ignore[arg-type]
    if kind not in WANTED:
        return InputFile(name, kind, None, explicit=False, archive=archive)
    written = 0
    with opened.open(member) as source, path.open("wb") as target:
        while chunk := source.read(CHUNK):
            written += len(chunk)
            if written > member.file_size:
                raise ConversionError(f"{name} is longer than the archive says: this looks like a zip bomb.")
            target.write(chunk)
    return InputFile(name, kind, path, explicit=False, archive=archive)


__all__ = ["extract_zip"]
