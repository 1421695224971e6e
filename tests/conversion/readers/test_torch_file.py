"""`conversion.readers.torch_file`: tensors of either format of PyTorch arrive, and nothing in the file is run."""

import io
import os
import pickle
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_hf_conversion import ConversionError
from elmo_hf_conversion.readers.base import InputFile, OriginalArray
from elmo_hf_conversion.readers.content import kind_of
from elmo_hf_conversion.readers.torch_file import arrays_of, load_tensors


STATE = {"weight": torch.arange(6.0).reshape(2, 3), "half": torch.ones(2, dtype=torch.float16)}


def read(path: Path) -> dict[str, OriginalArray]:
    with path.open("rb") as head:
        file = InputFile(path.name, kind_of(head), path)
    return arrays_of(load_tensors(file), file)


def save(path: Path, content: Any, *, new_format: bool = True) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=new_format)
    return path


@pytest.mark.parametrize("new_format", [True, False])
def test_every_tensor_as_float32(new_format: bool, tmp_path: Path) -> None:
    arrays = read(save(tmp_path / "encoder.pkl", STATE, new_format=new_format))

    assert {name: array.shape for name, array in arrays.items()} == {"weight": (2, 3), "half": (2,)}
    assert arrays["weight"].read().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays["half"].read().dtype == np.float32


def test_a_transposed_tensor_is_read_as_it_stands(tmp_path: Path) -> None:
    arrays = read(save(tmp_path / "encoder.pkl", {"weight": torch.arange(6.0).reshape(2, 3).T}))

    assert arrays["weight"].read().tolist() == [[0, 3], [1, 4], [2, 5]]


class Trap:
    """What a pickle may hold that runs code when it is opened."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize("kind", ["new", "old", "plain"])
def test_a_pickle_that_would_run_code(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "encoder.pkl"
    if kind == "plain":
        path.write_bytes(pickle.dumps(Trap(), protocol=2))
    else:
        save(path, {"weight": Trap()}, new_format=kind == "new")

    with pytest.raises(
        ConversionError, match=r"encoder.pkl is a pickle that would run code \(posix.mkdir\)"
    ) as raised:
        read(path)

    assert "\n" not in str(raised.value)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("new_format", [True, False])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.97])
def test_a_truncated_file(share: float, new_format: bool, tmp_path: Path) -> None:
    path = save(tmp_path / "encoder.pkl", {"weight": torch.rand(500)}, new_format=new_format)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])

    with pytest.raises(ConversionError, match=r"encoder.pkl is a damaged"):
        read(path)


def test_a_compressed_file(tmp_path: Path) -> None:
    original = save(tmp_path / "original", {"weight": torch.zeros(100_000)})
    path = tmp_path / "encoder.pkl"
    with zipfile.ZipFile(original) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))

    with pytest.raises(ConversionError, match=r"encoder.pkl is not packed as torch.save does"):
        read(path)


def test_a_file_behind_another(tmp_path: Path) -> None:
    path = save(tmp_path / "encoder.pkl", STATE)
    path.write_bytes(2 * path.read_bytes())

    with pytest.raises(ConversionError, match=r"encoder.pkl is not packed as torch.save does"):
        read(path)


REFUSED: dict[str, tuple[Any, str]] = {
    "a list": ([torch.ones(1)], "encoder.pkl holds a list, not tensors by name"),
    "a repeated number": ({"w": torch.ones(1).expand(1000, 1000)}, r"array w \(1000, 1000\) claims more numbers"),
    "one storage for many": (
        {f"w{i}": tensor for tensor in [torch.ones(100_000)] for i in range(9)},
        "encoder.pkl claims 3,600,000 bytes of arrays in 40",
    ),
    "whole numbers": ({"w": torch.ones(3, dtype=torch.int64)}, "array w is torch.int64, torch.strided, not a plain"),
    "sparse": ({"w": torch.eye(3).to_sparse()}, "array w is torch.float32, torch.sparse_coo, not a plain tensor"),
    "a number for a name": ({0: torch.ones(1)}, "encoder.pkl has invalid names of tensors"),
    "a name of two lines": ({"a\nb": torch.ones(1)}, "encoder.pkl has invalid names of tensors"),
    "empty": ({"w": torch.ones(10**9, 0)}, r"array w \(1000000000, 0\) has no numbers"),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_plain_tensor(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=message):
        read(save(tmp_path / "encoder.pkl", content))


def test_what_is_no_tensor_is_left_out(tmp_path: Path) -> None:
    assert read(save(tmp_path / "encoder.pkl", {"epoch": 3, "w": torch.ones(1)})).keys() == {"w"}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none(value: float, tmp_path: Path) -> None:
    arrays = read(save(tmp_path / "encoder.pkl", {"w": torch.tensor([1.0, value])}))

    with pytest.raises(ConversionError, match=r"encoder.pkl: array w holds NaN or infinite numbers"):
        arrays["w"].read()


def test_a_file_that_gets_shorter_before_it_is_read(tmp_path: Path) -> None:
    path = save(tmp_path / "encoder.pkl", {"w": torch.rand(10_000)})
    arrays = read(path)
    os.truncate(path, 1000)

    with pytest.raises(ConversionError, match=r"encoder.pkl changed while it was read"):
        arrays["w"].read()


def test_what_is_no_file_of_pytorch(tmp_path: Path) -> None:
    (tmp_path / "encoder.pkl").write_text("no pickle")

    with pytest.raises(ConversionError, match=re.escape("encoder.pkl (text) is not a PyTorch file")):
        read(tmp_path / "encoder.pkl")


def test_a_zip_of_zeros(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(STATE, buffer)
    content = bytearray(buffer.getvalue())
    content[-60:] = bytes(60)
    (tmp_path / "encoder.pkl").write_bytes(content)

    with pytest.raises(ConversionError, match=r"encoder.pkl is a damaged or truncated PyTorch file"):
        read(tmp_path / "encoder.pkl")


def test_a_damaged_number(tmp_path: Path) -> None:
    path = save(tmp_path / "encoder.pkl", {"weight": torch.full((100,), 1.5)})
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<f", 1.5), struct.pack("<f", 2.5), 1))

    with pytest.raises(ConversionError, match=r"encoder.pkl is a damaged or truncated PyTorch file \(Bad CRC-32"):
        read(path)


def doubling(levels: int) -> bytes:
    """A dictionary whose key is a tuple of twice the tuple before, and so on."""
    tuples = (b"h%ch%c\x86q%c" % (level - 1, level - 1, level) for level in range(1, levels))
    return b"}K\x01q\0" + b"".join(tuples) + b"K\x01s."


HOSTILE = {
    "doubled tuples": (doubling(60), "repeats what it holds"),
    "copies of a dictionary": (
        b"]ccollections\nOrderedDict\nq\x00)Rq\x01(K\x01K\x02ua" + b"h\x00h\x01\x85Ra" * 1000 + b".",
        "repeats what it holds",
    ),
    "lists within lists": (b"]" * 10_000_000 + b".", "of too many instructions"),
    "a list of many instructions": (b"]" * 100_000 + b"a" * 99_999 + b".", "of too many instructions"),
    "a few bytes that fill the memory": (b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "of more than tensors"),
    "a deep key": (b"})" + b"\x85" * 190_000 + b"K\x01s.", "nested too deep"),
    "a deep key in marks": (b"}" + b"(" * 60_000 + b"t" * 60_000 + b"K\x01s.", "nested too deep"),
}


@pytest.mark.parametrize("new_format", [True, False])
@pytest.mark.parametrize(("content", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_pickle_without_end(content: bytes, message: str, new_format: bool, tmp_path: Path) -> None:
    original = save(tmp_path / "original", {}, new_format=new_format)
    path = tmp_path / "encoder.pkl"
    if new_format:
        with zipfile.ZipFile(original) as old, zipfile.ZipFile(path, "w") as new:
            for member in old.infolist():
                name = member.filename
                new.writestr(name, b"\x80\x02" + content if name.endswith("data.pkl") else old.read(member))
    else:
        empty = pickle.dumps({}, protocol=2)
        path.write_bytes(original.read_bytes().replace(empty, b"\x80\x02" + content))

    with pytest.raises(ConversionError, match=f"^encoder.pkl is a pickle.* {message}.*$"):
        read(path)


@pytest.mark.parametrize("new_format", [True, False])
def test_as_many_tensors_as_a_model_has_and_more(new_format: bool, tmp_path: Path) -> None:
    content = {f"layer.{i}": torch.nn.Parameter(torch.ones(2, 2)) for i in range(3000)}

    assert len(read(save(tmp_path / "encoder.pkl", content, new_format=new_format))) == 3000
