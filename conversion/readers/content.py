"""Recognise the kind of a file by its first bytes, because names of original files follow no rule."""

import codecs
import zlib
from enum import Enum
from typing import BinaryIO


#: Enough for every signature below; HDF5 allows a user block of 512, 1024, ... bytes before its own.
HEAD = 4096 + 8

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
TAR_MAGIC_AT = 257
BZIP2_BLOCK = b"1AY&SY"


class Kind(Enum):
    """Kinds of files; the values are words for messages."""

    HDF5 = "HDF5"
    JSON = "JSON"
    TEXT = "text"
    GZIP = "gzip"
    ZIP = "zip archive"
    TAR = "tar archive"
    TAR_GZ = "tar.gz archive"
    TAR_BZ2 = "tar.bz2 archive"
    TORCH = "PyTorch file"
    PICKLE = "pickle"
    EMPTY = "empty file"
    CUT = "cut off within its first bytes"
    UTF16 = "text in UTF-16"
    WEB_PAGE = "web page"
    LFS_POINTER = "Git LFS pointer"
    BINARY = "binary of unknown kind"


#: First bytes that settle the question, tried in this order.
SIGNATURES = (
    (b"PK\x03\x04", Kind.ZIP),
    (b"PK\x05\x06", Kind.ZIP),
    (b"\x1f\x8b", Kind.GZIP),
    (b"BZh", Kind.TAR_BZ2),
    (b"\x80\x02", Kind.PICKLE),
    (b"\x80\x03", Kind.PICKLE),
    (b"\x80\x04", Kind.PICKLE),
    (b"\x80\x05", Kind.PICKLE),
    (b"version https://git-lfs", Kind.LFS_POINTER),
)


def kind_of(file: BinaryIO) -> Kind:
    """Return the kind of an open file.

    Args:
        file: Read from its start; only the first few kilobytes are.

    Returns:
        The kind. PyTorch's archives begin as any zip does: `TORCH` is told apart by a member that only they have.
    """
    return kind_of_head(file.read(HEAD))


def kind_of_head(head: bytes) -> Kind:
    """Return the kind of a file from its first `HEAD` bytes."""
    if not head:
        return Kind.EMPTY
    if any(head.startswith(HDF5_SIGNATURE, start) for start in (0, 512, 1024, 2048, 4096)):
        return Kind.HDF5
    # no text begins with the first byte of this one
    if HDF5_SIGNATURE.startswith(head):
        return Kind.CUT
    for signature, kind in SIGNATURES:
        if head.startswith(signature):
            return _refine(kind, head)
    if _is_tar(head):
        return Kind.TAR
    return _text_kind(head)


def inflated_head(head: bytes, size: int = 1 << 16) -> bytes:
    """Decompress the first bytes of gzip data, as far as `head` goes; return nothing if they are damaged."""
    try:
        return zlib.decompressobj(wbits=31).decompress(head, size)
    except zlib.error:
        return b""


def _refine(kind: Kind, head: bytes) -> Kind:
    if kind is Kind.GZIP and _is_tar(inflated_head(head)):
        return Kind.TAR_GZ
    if kind is Kind.TAR_BZ2 and head[4:10] != BZIP2_BLOCK:
        return _text_kind(head)
    # torch.save puts its pickle first: `archive/data.pkl`
    if kind is Kind.ZIP and b"/data.pkl" in head[:256]:
        return Kind.TORCH
    return kind


def _is_tar(head: bytes) -> bool:
    return head[TAR_MAGIC_AT : TAR_MAGIC_AT + 5] == b"ustar"


def _text_kind(head: bytes) -> Kind:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Kind.UTF16
    if b"\0" in head:
        return Kind.BINARY
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        return Kind.JSON
    if start[:15].lower().startswith((b"<!doctype html", b"<html")):
        return Kind.WEB_PAGE
    return Kind.TEXT


__all__ = ["HEAD", "Kind", "inflated_head", "kind_of", "kind_of_head"]
