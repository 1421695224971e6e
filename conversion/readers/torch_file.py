"""Read the tensors of a file that `torch.save` wrote, without running anything in it."""

import io
import pickletools
import re
import warnings
import zipfile
from functools import partial
from typing import IO, Any

import numpy as np
import torch

from .base import ConversionError, InputFile, OriginalArray, printable
from .content import Kind


#: PyTorch's message about a pickle that names something other than tensors and their dictionaries.
FORBIDDEN = re.compile(r"GLOBAL (\S+)")

#: Entries in the zip of a state dict: one per tensor and a few more. The full-size ELMo has 40 tensors.
MAX_MEMBERS = 10_000
MAX_NAME = 1000

#: Some 25 instructions and 300 bytes of a pickle describe a tensor.
MAX_INSTRUCTIONS = 200_000
MAX_PICKLE = 1 << 24
MAX_DEPTH = 20

#: Calls that torch.load allows and no state dict needs; with a few bytes they can fill the memory.
REFUSED_CALLS = ("builtins bytearray", "builtins set", "collections Counter")

#: The class of a state dict and of each tensor's hooks, and what stands for it while a pickle is followed.
DICTIONARY = "collections OrderedDict"
CLASS = -1

#: The pickles before the numbers in the older format: magic number, version, system, tensors, keys of the storages.
PICKLES = 5

CHUNK = 1 << 20
CONTAINERS = (pickletools.pylist, pickletools.pydict, pickletools.pyset)


def load_tensors(file: InputFile) -> dict[str, torch.Tensor]:
    """Load a state dict.

    Args:
        file: Written by `torch.save`, of any version. Where the format allows, the numbers stay in the file until they
            are read.

    Returns:
        The tensors by name; other values are left out.

    Raises:
        ConversionError: If the file is damaged, or would run code.
    """
    if file.kind is Kind.TORCH:
        _check_archive(file)
    elif file.kind is Kind.PICKLE:
        with file.location.open("rb") as opened:
            _check_pickles(opened, PICKLES, file)
    else:
        raise ConversionError(f"{file.name} ({file.kind.value}) is not a PyTorch file. Get the file again.")
    content = _load(file)
    if not isinstance(content, dict):
        raise ConversionError(f"{file.name} holds a {type(content).__name__}, not tensors by name. Get the original.")
    if not all(isinstance(name, str) and name.isprintable() and len(name) <= MAX_NAME for name in content):
        raise ConversionError(f"{file.name} has invalid names of tensors. Get the original file.")
    return {name: tensor for name, tensor in content.items() if isinstance(tensor, torch.Tensor)}


def arrays_of(tensors: dict[str, torch.Tensor], file: InputFile) -> dict[str, OriginalArray]:
    """Make arrays of the tensors of one file, to be read on demand.

    Args:
        tensors: All or some tensors from `load_tensors`. Once it is cleared, the arrays cannot be read.
        file: The file that they come from.

    Raises:
        ConversionError: If one is not a plain tensor of numbers, or claims more numbers than the file has.
    """
    for name, tensor in tensors.items():
        _check(tensor, f"{file.name}: array {name}")
    size = file.location.stat().st_size
    claimed = sum(tensor.nbytes for tensor in tensors.values())
    if claimed > size:
        raise ConversionError(f"{file.name} claims {claimed:,} bytes of arrays in {size:,}. Get the original file.")
    return {
        name: OriginalArray(tuple(tensor.shape), partial(_read, tensors, name, file, size))
        for name, tensor in tensors.items()
    }


def _check_archive(file: InputFile) -> None:
    """Refuse compressed and damaged members, which `torch.load` accepts although `torch.save` never writes them."""
    size = file.location.stat().st_size
    try:
        with zipfile.ZipFile(file.location) as opened:
            members = opened.infolist()
            if (
                len(members) > MAX_MEMBERS
                or any(member.compress_type != zipfile.ZIP_STORED for member in members)
                or sum(member.file_size for member in members) > size
                # behind something else, torch.load would look for the members elsewhere than zipfile does
                or all(member.header_offset for member in members)
            ):
                raise ConversionError(f"{file.name} is not packed as torch.save does, in full. Get the original file.")
            for member in members:
                # at the end of a member, its checksum is compared
                with opened.open(member) as content:
                    while content.read(CHUNK):
                        pass
                # torch.load finds the name in any case
                if member.filename.lower().endswith("data.pkl"):
                    with opened.open(member) as content:
                        _check_pickles(content, 1, file)
    except ConversionError:
        raise
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        reason = printable(str(error))
        raise ConversionError(
            f"{file.name} is a damaged or truncated PyTorch file ({reason}). Download it again."
        ) from error
    # an encrypted member is a RuntimeError, an unknown feature a NotImplementedError, which is one
    except RuntimeError as error:
        reason = printable(str(error))
        raise ConversionError(f"{file.name} is not a PyTorch file as torch.save writes it ({reason}).") from error


def _check_pickles(opened: IO[bytes], pickles: int, file: InputFile) -> None:
    """Refuse pickles that hang `torch.load` or crash it, without running them."""
    stream = io.BytesIO(opened.read(MAX_PICKLE))
    instructions = 0
    try:
        for _ in range(pickles):
            # a pickle alone is torch.load's to refuse
            if stream.tell() == stream.getbuffer().nbytes:
                break
            instructions = _check_pickle(stream, instructions, file)
    except ConversionError:
        raise
    # ValueError of pickletools, IndexError of the stack, KeyError of the memo
    except (ValueError, LookupError) as error:
        reason = type(error).__name__
        raise ConversionError(f"{file.name} is a damaged PyTorch file ({reason}). Download it again.") from error


def _check_pickle(stream: IO[bytes], instructions: int, file: InputFile) -> int:
    """Follow how deep tuples are nested.

    `torch.save` fetches only names, classes and tensors from the memo. A tuple of a tuple that is fetched twice, and
    so on, takes forever to hash as a key; one nested without end overflows the stack of the process. Lists and
    dictionaries cannot be hashed, thus end a nest.

    Returns:
        The instructions so far, with those of this pickle.
    """
    # of each object, how many tuples are within each other: 1 for other containers, 0 for the rest, None for a mark,
    # and CLASS for the class of dictionaries, which could copy one again and again
    stack: list[int | None] = []
    memo: dict[Any, int | None] = {}
    for operation, argument, _ in pickletools.genops(stream):
        instructions += 1
        if instructions > MAX_INSTRUCTIONS:
            raise ConversionError(f"{file.name} is a pickle of too many instructions. Get the original file.")
        if operation.name == "GLOBAL" and argument in REFUSED_CALLS:
            raise ConversionError(f"{file.name} is a pickle of more than tensors ({argument}). Get the original file.")
        if operation.name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
            continue
        if operation.name in ("BINGET", "LONG_BINGET") and (memo[argument] or 0) > 0:
            raise ConversionError(f"{file.name} is a pickle that repeats what it holds. Get the original file.")
        makes_dictionary = operation.name == "REDUCE" and stack[-2] == CLASS
        depth = 0
        for kind in reversed(operation.stack_before):
            # what a mark began is as many objects as there are
            while kind is pickletools.stackslice and stack[-1] is not None:
                depth = max(depth, stack.pop() or 0)
            if kind is not pickletools.stackslice:
                depth = max(depth, stack.pop() or 0)
        for kind in operation.stack_after:
            pushed = depth + 1 if kind is pickletools.pytuple else int(kind in CONTAINERS or makes_dictionary)
            if operation.name == "GLOBAL" and argument == DICTIONARY:
                pushed = CLASS
            elif operation.name in ("BINGET", "LONG_BINGET"):
                pushed = memo[argument] or 0
            if pushed > MAX_DEPTH:
                raise ConversionError(f"{file.name} is a pickle nested too deep. Get the original file.")
            stack.append(None if kind is pickletools.markobject else pushed)
    return instructions


def _load(file: InputFile) -> Any:
    try:
        with warnings.catch_warnings():
            # about the storage of old files
            warnings.simplefilter("ignore")
            return torch.load(file.location, map_location="cpu", weights_only=True, mmap=file.kind is Kind.TORCH)
    except OSError:
        raise
    except MemoryError as error:
        raise ConversionError(f"{file.name} does not fit in memory. Get the original file.") from error
    # a damaged pickle can fail in every way that Python can
    except Exception as error:
        found = FORBIDDEN.search(str(error))
        if found is None:
            reason = type(error).__name__
            raise ConversionError(f"{file.name} is a damaged PyTorch file ({reason}). Download it again.") from error
        raise ConversionError(
            f"{file.name} is a pickle that would run code ({printable(found[1])}), and was not opened. "
            "Give a file of tensors alone."
        ) from error


def _check(tensor: torch.Tensor, where: str) -> None:
    """Refuse anything but a plain tensor, and views that repeat a few numbers."""
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or not tensor.is_floating_point():
        raise ConversionError(
            f"{where} is {tensor.dtype}, {tensor.layout}, not a plain tensor. Get the original file."
        )
    if not tensor.numel():
        raise ConversionError(f"{where} {tuple(tensor.shape)} has no numbers. Get the original file.")
    if tensor.nbytes > tensor.untyped_storage().nbytes():
        raise ConversionError(f"{where} {tuple(tensor.shape)} claims more numbers than it has. Get the original file.")


def _read(tensors: dict[str, torch.Tensor], name: str, file: InputFile, size: int) -> np.ndarray:
    # reading beyond the end of a mapped file that became shorter would kill the process
    if file.location.stat().st_size != size:
        raise ConversionError(f"{file.name} changed while it was read. Wait until it is written, and try again.")
    array = tensors[name].detach().to(torch.float32, copy=True, memory_format=torch.contiguous_format).numpy()
    # minimum and maximum pass a NaN on, and need no array of their own
    if not np.isfinite([array.min(), array.max()]).all():
        raise ConversionError(f"{file.name}: array {name} holds NaN or infinite numbers. Get the file again.")
    return array


__all__ = ["arrays_of", "load_tensors"]
