"""Extract the members of a zip or tar archive that may be parts of a model; the archive is not trusted."""

import bz2
import errno
import gzip
import io
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal

from ..readers.base import CHUNK, ConversionError, InputFile, printable
from ..readers.content import HEAD, Kind, kind_of, kind_of_head


#: Kinds that some reader reads; other members are only listed.
WANTED = frozenset({Kind.HDF5, Kind.JSON, Kind.TEXT, Kind.GZIP, Kind.TORCH, Kind.PICKLE})

#: Parts of a TensorFlow checkpoint and ELMoForManyLangs's dictionaries, whose first bytes do not identify them.
WANTED_NAMES = re.compile(r".*\.(index|data-\d{5}-of-\d{5}|dic)", re.DOTALL)

#: Functions that open each kind of tar archive.
TARS: dict[Kind, Callable[[Path, Literal["rb"]], Any]] = {
    Kind.TAR: io.FileIO,
    Kind.TAR_GZ: gzip.GzipFile,
    Kind.TAR_BZ2: bz2.BZ2File,
}

MAX_MEMBERS = 10_000

#: Weights hardly compress, and text compresses by 3 to 5; an archive that claims much more is a bomb.
MAX_EXPANSION = 5
MAX_SMALL = 1 << 24

#: tarfile reads a few times at the end of an intact archive.
MAX_READS_AT_END = 100

#: Bytes read from a zip archive at once. Only its directory is read in one piece, less than this for 10,000 members.
MAX_PIECE = 1 << 22

#: Compressions that can be unpacked in small pieces; models use no others.
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

#: Bytes of a long name in a tar archive, which is stored beside the header, at most.
MAX_LONG_NAME = 1 << 16


def extract(archive: InputFile, folder: Path) -> list[InputFile]:
    """Extract the members that may be parts of a model; their names never become paths.

    Args:
        archive: A zip or tar archive.
        folder: An empty temporary folder.

    Returns:
        Every member except dotfiles and macOS's resource forks; those of a wanted kind have a path.

    Raises:
        ConversionError: If the archive is damaged, encrypted, or looks hostile.
    """
    return extract_zip(archive, folder) if archive.kind is Kind.ZIP else extract_tar(archive, folder)


def extract_zip(archive: InputFile, folder: Path) -> list[InputFile]:
    """Extract the members that may be parts of a model; their names never become paths.

    Args:
        archive: The zip file.
        folder: An empty temporary folder.

    Returns:
        Every member except dotfiles and macOS's resource forks; those of a wanted kind have a path.

    Raises:
        ConversionError: If the archive is damaged, encrypted, or looks hostile.
    """
    try:
        with _Careful(archive.location) as file, zipfile.ZipFile(file) as opened:
            members = [member for member in opened.infolist() if not _is_clutter(member)]
            _check(archive, members)
            return [
                _extract(opened, member, archive=archive, path=folder / f"{i}") for i, member in enumerate(members)
            ]
    except ConversionError:
        raise
    except NotImplementedError as error:
        raise ConversionError(
            f"{archive.name} cannot be unpacked ({error}). Unpack it and give the folder."
        ) from error
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, OverflowError, OSError) as error:
        # errors of the system have a number; EINVAL comes from a damaged zip that points before its start
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ConversionError(f"{archive.name} is a damaged or truncated zip ({error}). Download it again.") from error


class _Careful(io.FileIO):
    """A file that refuses to be read in huge pieces, whatever size the zip claims."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MAX_PIECE:
            raise ConversionError(
                f"{self.name} has a directory of {size:,} bytes: this is not the archive of one model."
            )
        return super().read(size)


def _is_clutter(member: zipfile.ZipInfo) -> bool:
    return member.filename.endswith("/") or _is_hidden(member.filename)


def _is_hidden(name: str) -> bool:
    return any(part == "__MACOSX" or (part[0] == "." and part != "..") for part in PurePosixPath(name).parts)


def _leads_out(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return not parts or ".." in parts or name.startswith(("/", "\\")) or ":" in parts[0]


def _check(archive: InputFile, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise ConversionError(f"{archive.name} has {len(members):,} members: this is not the archive of one model.")
    for member in members:
        where = f"{archive.name}: member {member.filename!r}"
        if _leads_out(member.filename):
            raise ConversionError(f"{where} leads out of the archive. Get the archive from its publisher.")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise ConversionError(f"{where} is a link. Unpack the archive and give the folder.")
        if member.flag_bits & 1:
            raise ConversionError(f"{where} is encrypted. Unpack it with its password and give the folder.")
        if member.compress_type not in COMPRESSIONS:
            raise ConversionError(f"{where} uses a compression that is not supported. Unpack it and give the folder.")
    size = archive.location.stat().st_size
    claimed = sum(member.file_size for member in members)
    if claimed > MAX_EXPANSION * size + MAX_SMALL:
        raise ConversionError(f"{archive.name} claims {claimed:,} bytes in {size:,}: this looks like a zip bomb.")


def _extract(opened: zipfile.ZipFile, member: zipfile.ZipInfo, *, archive: InputFile, path: Path) -> InputFile:
    name = f"{archive.name}/{printable(member.filename)}"
    with opened.open(member) as head:
        kind = kind_of(head)  # type: ignore[arg-type]
    if not _is_wanted(kind, name):
        return InputFile(name, kind, None, explicit=False, archive=archive)
    written = 0
    with opened.open(member) as source, path.open("wb") as target:
        while chunk := source.read(CHUNK):
            written += len(chunk)
            if written > member.file_size:
                raise ConversionError(f"{name} is longer than the archive says: this looks like a zip bomb.")
            target.write(chunk)
    return InputFile(name, kind, path, explicit=False, archive=archive)


def _is_wanted(kind: Kind, name: str) -> bool:
    return kind in WANTED or WANTED_NAMES.fullmatch(name) is not None


def extract_tar(archive: InputFile, folder: Path) -> list[InputFile]:
    """Extract the members that may be parts of a model; their names never become paths.

    The archive is read once from its start, and not beyond a limit.

    Args:
        archive: The tar archive: plain, gzip or bzip2.
        folder: An empty temporary folder.

    Returns:
        Every member except dotfiles and macOS's resource forks; those of a wanted kind have a path.

    Raises:
        ConversionError: If the archive is damaged, or looks hostile.
    """
    size = archive.location.stat().st_size
    try:
        with ExitStack() as resources:
            unpacked = resources.enter_context(TARS[archive.kind](archive.location, "rb"))
            limit = MAX_EXPANSION * size + MAX_SMALL
            limited = _Limited(unpacked, limit=limit, name=archive.name)
            opened = resources.enter_context(tarfile.open(fileobj=limited, mode="r|", tarinfo=_Header))
            files = [
                _extract_stream(content, archive=archive, member=name, path=folder / f"{i}")
                for i, (name, content) in enumerate(_regular_members(opened, archive, limit))
            ]
            # gzip and bzip2 store a checksum after the last byte that tar reads
            while limited.read(CHUNK):
                pass
            return files
    except ConversionError:
        raise
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OSError) as error:
        # errors of the system have a number, those of gzip and bzip2 have none
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ConversionError(f"{archive.name} is a damaged or truncated tar ({error}). Download it again.") from error


def _regular_members(opened: tarfile.TarFile, archive: InputFile, limit: int) -> Iterator[tuple[str, BinaryIO]]:
    """Yield names and contents of the files; refuse members that are neither file nor folder, or claim too much."""
    for number, member in enumerate(opened):
        where = f"{archive.name}: member {member.name!r:.200}"
        if number >= MAX_MEMBERS:
            raise ConversionError(
                f"{archive.name} has over {MAX_MEMBERS:,} members: this is not the archive of one model."
            )
        if not 0 <= member.size <= limit:
            raise ConversionError(f"{where} claims {member.size:,} bytes: this looks like a tar bomb.")
        if member.isdir() or _is_hidden(member.name):
            continue
        if _leads_out(member.name):
            raise ConversionError(f"{where} leads out of the archive. Get the archive from its publisher.")
        if not member.isreg() or member.issparse():
            kind = "a link" if member.islnk() or member.issym() else "not a regular file"
            raise ConversionError(f"{where} is {kind}. Unpack the archive and give the folder.")
        content = opened.extractfile(member)
        if content is None:
            raise ConversionError(f"{where} cannot be read. Unpack the archive and give the folder.")
        yield member.name, content  # type: ignore[misc]


def _extract_stream(content: BinaryIO, *, archive: InputFile, member: str, path: Path) -> InputFile:
    name = f"{archive.name}/{printable(member)}"
    head = content.read(HEAD)
    kind = kind_of_head(head)
    if not _is_wanted(kind, name):
        return InputFile(name, kind, None, explicit=False, archive=archive)
    with path.open("wb") as target:
        target.write(head)
        while chunk := content.read(CHUNK):
            target.write(chunk)
    return InputFile(name, kind, path, explicit=False, archive=archive)


class _Limited(io.RawIOBase):
    """A stream that fails if an archive unpacks to more than its limit, or is read too often at its end."""

    def __init__(self, stream: BinaryIO, *, limit: int, name: str) -> None:
        self.stream, self.left, self.name = stream, limit, name
        self.reads_at_end = 0

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise ConversionError(f"{self.name} unpacks to many times its size: this looks like a tar bomb.")
        if not data:
            # tarfile skips a member by reading, however large the header claims it is
            self.reads_at_end += 1
            if self.reads_at_end > MAX_READS_AT_END:
                raise EOFError("the end is missing")
        return data


class _Header(tarfile.TarInfo):
    """A header that limits the length of a long name, which tarfile reads into memory whatever its size."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Header":
        header = super().frombuf(buf, encoding, errors)
        if not header.isreg() and header.size > MAX_LONG_NAME:
            raise tarfile.ReadError(f"{header.size:,} bytes beside the header of a member")
        return header


__all__ = ["extract", "extract_tar", "extract_zip"]
