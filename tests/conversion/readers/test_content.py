"""`conversion.readers.content`: a file is known by its first bytes, whatever its name."""

import gzip
import io
import pickle
import tarfile
import zipfile
from pathlib import Path

import h5py
import pytest
import torch

from elmo_hf_conversion.readers.content import Kind, inflated_head, kind_of


def hdf5(**options: int) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", **options) as file:
        file["array"] = [1.0]
    return buffer.getvalue()


def zipped(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, "content")
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("config.json"))
    return buffer.getvalue()


def saved_by_torch() -> bytes:
    buffer = io.BytesIO()
    torch.save({"weight": torch.zeros(1)}, buffer)
    return buffer.getvalue()


CONTENTS = {
    "hdf5": (hdf5(), Kind.HDF5),
    "hdf5-behind-a-user-block": (hdf5(userblock_size=512), Kind.HDF5),
    "json": (b'{"lstm": {}}', Kind.JSON),
    "json-with-mark-and-space": (b'\xef\xbb\xbf\n {"lstm": {}}', Kind.JSON),
    "text": (b"<S>\n</S>\n", Kind.TEXT),
    "text-not-utf-8": ("Ärger\n".encode("latin-1"), Kind.TEXT),
    "gzip": (gzip.compress(b"<S>\n"), Kind.GZIP),
    "zip": (zipped("model.hdf5"), Kind.ZIP),
    "empty-zip": (b"PK\x05\x06" + bytes(18), Kind.ZIP),
    "torch": (saved_by_torch(), Kind.TORCH),
    "pickle": (pickle.dumps({}), Kind.PICKLE),
    "tar": (tarred(), Kind.TAR),
    "tar-gz": (gzip.compress(tarred()), Kind.TAR_GZ),
    "web-page": (b"\n<!DOCTYPE html><html>", Kind.WEB_PAGE),
    "lfs-pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", Kind.LFS_POINTER),
    "empty": (b"", Kind.EMPTY),
    "one-byte-of-hdf5": (b"\x89", Kind.CUT),
    "seven-bytes-of-hdf5": (b"\x89HDF\r\n\x1a", Kind.CUT),
    "utf-16": ("<S>\n".encode("utf-16"), Kind.UTF16),
    "binary": (b"\x00\x01\x02", Kind.BINARY),
}


@pytest.mark.parametrize(("content", "kind"), CONTENTS.values(), ids=CONTENTS.keys())
def test_kind(content: bytes, kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "misleading.hdf5"
    path.write_bytes(content)

    with path.open("rb") as file:
        assert kind_of(file) is kind


def test_inflates_no_more_than_is_asked_for() -> None:
    assert len(inflated_head(gzip.compress(bytes(1 << 20)), 1000)) == 1000


def test_damaged_gzip_inflates_to_nothing() -> None:
    assert inflated_head(b"\x1f\x8b\x08\x00 no gzip at all") == b""
