"""Writers of originals that are made to do harm, for the tests: each puts its files into an empty folder."""

import gzip
import io
import json
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from support.many_langs_format import write_many_langs
from support.original_formats import allennlp_elmo, write_bilm_hdf5


#: What a pickle makes if it is run.
TRACE = Path(tempfile.gettempdir(), f"elmo-hf-was-run-{os.getpid()}")

MB = 1 << 20
ZEROS = bytes(MB)


def put_zip(folder: Path, members: Sequence[tuple[str, bytes]], compression: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(folder / "model.zip", "w", compression) as opened:
        for name, content in members:
            opened.writestr(name, content)


def put_tar(folder: Path, mode: str, members: Sequence[tuple[tarfile.TarInfo, bytes]]) -> None:
    with tarfile.open(folder / "model.tar", f"w:{mode}") as opened:
        for member, content in members:
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))


def put_array(folder: Path, **options: Any) -> None:
    """Put one array in place of another."""
    write_bilm_hdf5(folder)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file.create_dataset("char_embed", **options)


def zip_bomb(folder: Path) -> None:
    put_zip(folder, [(f"{i}.hdf5", b"\x89HDF\r\n\x1a\n" + 12 * ZEROS) for i in range(2)])


def zip_bomb_of_lzma(folder: Path) -> None:
    put_zip(folder, [("options.json", b"{" + 12 * ZEROS)], zipfile.ZIP_LZMA)


def zip_of_many_members(folder: Path) -> None:
    put_zip(folder, [(f"{i}", b"") for i in range(100_000)], zipfile.ZIP_STORED)


def tar_bomb(folder: Path) -> None:
    put_tar(folder, "gz", [(tarfile.TarInfo("weights.hdf5"), 24 * ZEROS)])


def tar_bomb_of_bzip2(folder: Path) -> None:
    put_tar(folder, "bz2", [(tarfile.TarInfo("weights.hdf5"), 24 * ZEROS)])


def tar_with_a_link(folder: Path) -> None:
    link = tarfile.TarInfo("weights.hdf5")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    put_tar(folder, "gz", [(link, b"")])


def tar_that_leads_out(folder: Path) -> None:
    put_tar(folder, "gz", [(tarfile.TarInfo("../../weights.hdf5"), b"\x89HDF\r\n\x1a\n")])


def vocabulary_bomb(folder: Path) -> None:
    write_bilm_hdf5(folder)
    (folder / "vocab.txt.gz").write_bytes(gzip.compress(256 * (b"ab\n" * (MB // 3))))


def vocabulary_of_short_lines(folder: Path) -> None:
    write_bilm_hdf5(folder)
    (folder / "vocab.txt").write_bytes(b"".join(b"%x\n" % i for i in range(6_000_000)))


def dictionary_of_short_lines(folder: Path) -> None:
    write_many_langs(folder)
    (folder / "word.dic").write_bytes(b"".join(b"%x\t%d\n" % (i, i) for i in range(3_000_000)))


def options_nested_deeply(folder: Path) -> None:
    write_bilm_hdf5(folder)
    (folder / "options.json").write_text('{"lstm": ' + "[" * 100_000 + "]" * 100_000 + "}")


def options_nested_deeper_than_can_be_copied(folder: Path) -> None:
    write_bilm_hdf5(folder, note=json.loads("[" * 600 + "]" * 600))


def huge_options(folder: Path) -> None:
    write_bilm_hdf5(folder)
    (folder / "options.json").write_bytes(b'{"lstm": [' + b"0," * (30 * MB) + b"0]}")


def array_of_zeros(folder: Path) -> None:
    put_array(
        folder, shape=(30_000_000, 4), dtype="f4", chunks=(100_000, 4), compression="gzip", data=None, fillvalue=1
    )
    with h5py.File(folder / "weights.hdf5", "a") as file:
        file["char_embed"][:100_000] = 0


def array_beyond_all_numbers(folder: Path) -> None:
    put_array(folder, data=np.zeros((1024, 4), np.float32), maxshape=(None, 4), chunks=(1024, 4))
    with h5py.File(folder / "weights.hdf5", "a") as file:
        file["char_embed"].resize((2**62, 4))


def array_of_compounds(folder: Path) -> None:
    put_array(folder, data=np.zeros((261, 4), dtype=[("a", "f4"), ("b", "f4")]))


def array_of_text(folder: Path) -> None:
    put_array(folder, data=["text"] * 261, dtype=h5py.string_dtype())


def array_of_nothing(folder: Path) -> None:
    put_array(folder, data=h5py.Empty("f4"))


def array_elsewhere(folder: Path) -> None:
    put_array(folder, shape=(261, 4), dtype="f4", external=[("/etc/passwd", 0, 261 * 16)])


def groups_nested_deeply(folder: Path) -> None:
    weights, _ = write_bilm_hdf5(folder)
    with h5py.File(weights, "a") as file:
        group = file
        for _ in range(3_000):
            group = group.create_group("g")


def groups_in_a_circle(folder: Path) -> None:
    weights, _ = write_bilm_hdf5(folder)
    with h5py.File(weights, "a") as file:
        file["RNN_0/again"] = file["/"]


def many_arrays(folder: Path) -> None:
    weights, _ = write_bilm_hdf5(folder)
    with h5py.File(weights, "a") as file:
        for i in range(20_000):
            file.create_group(f"CNN/{i}")


def external_link(folder: Path) -> None:
    weights, _ = write_bilm_hdf5(folder)
    shutil.copy(weights, folder.parent / "elsewhere.hdf5")
    with h5py.File(weights, "a") as file:
        del file["char_embed"]
        file["char_embed"] = h5py.ExternalLink(str(folder.parent / "elsewhere.hdf5"), "char_embed")


def soft_link(folder: Path) -> None:
    weights, _ = write_bilm_hdf5(folder)
    with h5py.File(weights, "a") as file:
        file.move("char_embed", "RNN_0/char_embed")
        file["char_embed"] = h5py.SoftLink("/RNN_0/char_embed")


class RunsCode:
    """A pickle of this makes a folder."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(TRACE),)


def pickle_that_runs_code(folder: Path) -> None:
    torch.save({"_elmo_lstm._token_embedder._char_embedding_weights": RunsCode()}, folder / "weights.th")


def old_pickle_that_runs_code(folder: Path) -> None:
    content = {"_elmo_lstm._token_embedder._char_embedding_weights": RunsCode()}
    torch.save(content, folder / "weights.th", _use_new_zipfile_serialization=False)


def view_of_one_number(folder: Path) -> None:
    state = allennlp_elmo(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    name = "_elmo_lstm._token_embedder._char_embedding_weights"
    torch.save(state | {name: torch.zeros(1).expand(2**34, 4)}, folder / "weights.th")


LARGE = (
    zip_of_many_members,
    vocabulary_bomb,
    vocabulary_of_short_lines,
    dictionary_of_short_lines,
    many_arrays,
    huge_options,
)

HARMFUL = (
    zip_bomb,
    zip_bomb_of_lzma,
    tar_bomb,
    tar_bomb_of_bzip2,
    tar_with_a_link,
    tar_that_leads_out,
    options_nested_deeply,
    options_nested_deeper_than_can_be_copied,
    array_of_zeros,
    array_beyond_all_numbers,
    array_of_compounds,
    array_of_text,
    array_of_nothing,
    array_elsewhere,
    groups_nested_deeply,
    groups_in_a_circle,
    external_link,
    soft_link,
    pickle_that_runs_code,
    old_pickle_that_runs_code,
    view_of_one_number,
)
