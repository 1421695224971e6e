"""`kernels.native`: which library is loaded, and the reason where none is; test_recurrence_elmo.py has its numbers."""

import ctypes
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_hf.errors import ElmoError
from elmo_hf.kernels import native
from elmo_hf.model.recurrence_elmo import LstmWeights


SOURCE = native.FOLDER / "recurrence.cpp"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return a function that makes an installation with empty libraries of some levels, none of them loaded yet."""

    def build(*levels: str) -> Path:
        (tmp_path / "recurrence.cpp").touch()
        for level in levels:
            (tmp_path / f"{level}.abi3.so").touch()
        return tmp_path

    monkeypatch.setattr(native, "FOLDER", tmp_path)
    monkeypatch.delenv("ELMO_HF_LEVEL", raising=False)
    native.load.cache_clear()
    yield build
    native.load.cache_clear()


def set_processor(monkeypatch: pytest.MonkeyPatch, capability: str) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)


X86 = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


@pytest.mark.parametrize(
    ("levels", "capability", "chosen"),
    [
        (X86, "AVX512", "x86-64-v4"),
        (X86, "AVX2", "x86-64-v3"),
        (X86, "NO AVX", "x86-64-v2"),
        (X86, "DEFAULT", "x86-64-v2"),
        (X86[:2], "AVX512", "x86-64-v3"),
        (("plain",), "DEFAULT", "plain"),
        (("plain",), "SVE256", "plain"),
    ],
)
def test_the_highest_level_of_the_processor_is_chosen(
    levels: tuple, capability: str, chosen: str, built: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = built(*levels)
    set_processor(monkeypatch, capability)

    assert native.find_libraries()[0] == folder / f"{chosen}.abi3.so"


def test_the_environment_forces_a_lower_level(built: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = built(*X86)
    set_processor(monkeypatch, "AVX2")
    monkeypatch.setenv("ELMO_HF_LEVEL", "x86-64-v2")

    assert native.find_libraries() == [folder / "x86-64-v2.abi3.so"]


@pytest.mark.parametrize("forced", ["x86-64-v4", "plain", "avx2", "*"])
def test_a_level_that_cannot_run_is_refused(forced: str, built: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    built(*X86)
    set_processor(monkeypatch, "AVX2")
    monkeypatch.setenv("ELMO_HF_LEVEL", forced)

    with pytest.raises(
        ElmoError, match=re.escape(f"{forced!r}; on this machine it can be one of x86-64-v3, x86-64-v2.")
    ):
        native.load()


def no_library(built: Callable, _: pytest.MonkeyPatch) -> None:
    built()


def library_of_another_processor(built: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    built("x86-64-v4")
    set_processor(monkeypatch, "AVX2")


def damaged_library(built: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    built("x86-64-v3")
    set_processor(monkeypatch, "AVX2")


def other_library(built: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    built("x86-64-v3")
    set_processor(monkeypatch, "AVX2")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())


def library_of_another_version(_: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(native, "JOB_VERSION", 0)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (no_library, "has no library for this processor"),
        (library_of_another_processor, "has no library for this processor"),
        (damaged_library, "x86-64-v3.abi3.so cannot be used: .*file too short"),
        (other_library, "x86-64-v3.abi3.so cannot be used: .*elmo_job_version"),
        (library_of_another_version, "has version [1-9][0-9]*, and this elmo_hf needs 0"),
    ],
)
def test_without_compiled_code_one_warning_says_what_it_costs(
    spoil: Callable,
    reason: str,
    built: Callable,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    spoil(built, monkeypatch)

    missing = native.load()

    assert isinstance(missing, native.NotBuiltError)
    assert re.search(reason, str(missing))
    assert native.load() is missing
    [warning] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert f" {native.SLOWER} times as long " in warning.message
    assert f": {missing}. Install " in warning.message
    assert "\n" not in warning.message


class Wrong:
    """A library of which one function computes one number only, and a wrong one."""

    def __init__(self, library: ctypes.CDLL, function: str) -> None:
        self.library, self.function = library, function

    def __getattr__(self, name: str) -> Any:
        return self.spoil if name == self.function else getattr(self.library, name)

    def spoil(self, reference: Any) -> bool:
        """Write a wrong number: what is not written may by chance be a right one that was there before."""
        job = reference._obj
        return bool(ctypes.memset(job.gradients or job.outputs, 0x3F, 8))


@pytest.mark.skipif(len(native.usable_libraries()) < 2, reason="there is only one level for this processor")
@pytest.mark.parametrize("function", native.RUNS)
def test_a_level_that_computes_other_numbers_than_the_lowest_is_not_used(
    function: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    *_, second, lowest = native.usable_libraries().values()
    library = native.open_library(lowest)
    monkeypatch.setattr(native, "open_library", lambda path: library if path == lowest else Wrong(library, function))

    assert native.choose_library([second, lowest]) is library
    assert f"does not use {second}, which computes other numbers" in caplog.text


def test_all_levels_compute_the_same(caplog: pytest.LogCaptureFixture) -> None:
    paths = [*native.usable_libraries().values()]

    for path in paths:
        native.choose_library([path, paths[-1]])

    assert not caplog.records


def test_mixed_precision_does_not_change_the_choice(caplog: pytest.LogCaptureFixture) -> None:
    native.load.cache_clear()
    highest, *_ = native.find_libraries()

    with torch.autocast("cpu", torch.bfloat16):
        library = native.load()

    native.load.cache_clear()
    assert library._name == str(highest)
    assert not caplog.messages


def test_python_and_cpp_have_the_same_job() -> None:
    [struct] = re.findall(r"^struct Job \{$(.*?)^\};$", SOURCE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    declarations = re.findall(r"^ *(?:const )?(\w+)(\*?) (\w+(?:, \w+)*);", struct, re.MULTILINE)
    types = {"int64_t": ctypes.c_int64, "float": ctypes.c_float}

    fields = [
        (name, ctypes.c_void_p if pointer else types[kind])
        for kind, pointer, names in declarations
        for name in names.split(", ")
    ]

    assert fields == native.Job._fields_


def test_the_versions_are_the_same() -> None:
    [version] = re.findall(r"int elmo_job_version\(\) \{ return (\d+); \}", SOURCE.read_text(encoding="utf-8"))

    assert int(version) == native.JOB_VERSION


# a process without torch, and so without its OpenMP
ALONE = """
import ctypes, sys
import numpy as np
assert not hasattr(ctypes.CDLL(None), "GOMP_parallel")
library = ctypes.CDLL(sys.argv[1])
library.elmo_forward.restype = ctypes.c_bool
arrays = dict(np.load(sys.argv[2]))
job = ctypes.create_string_buffer(arrays.pop("job").tobytes())
for offset, name in zip(arrays.pop("offsets"), arrays.pop("names")):
    ctypes.c_void_p.from_buffer(job, int(offset)).value = arrays[name].ctypes.data
assert library.elmo_forward(job)
np.savez(sys.argv[3], **arrays)
"""


@pytest.mark.parametrize("sentences", [1, 7])
def test_without_openmp_threads_of_its_own_compute_the_same(
    sentences: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    batch_sizes, width, cell_width = [sentences, sentences, 1], 21, 37
    words = sum(batch_sizes)
    weights = LstmWeights(torch.randn(2, width, 4 * cell_width), torch.randn(2, cell_width, width), 3.0, 3.0)
    tensors = {
        "inputs": torch.randn(2, words, 4 * cell_width),
        "hidden": torch.randn(2, sentences, width),
        "cell": torch.randn(2, sentences, cell_width),
        "outputs": torch.zeros(2, words, width),
        "batch_sizes": torch.tensor(batch_sizes),
    }
    arrays = {name: tensor.numpy().copy() for name, tensor in tensors.items()}
    arrays |= {"recurrent": weights.recurrent.numpy(), "output": weights.output.numpy()}
    jobs: list[native.Job] = []
    # `run_job` passes a reference, whose object is the job
    library = native.load()
    monkeypatch.setattr(native, "load", lambda: Recorder(library, jobs))
    native.run_job("elmo_forward", batch_sizes, weights, tensors)
    monkeypatch.undo()
    [job] = jobs
    job.threads = 5
    offsets = [getattr(native.Job, name).offset for name in arrays]
    given, found = tmp_path / "given.npz", tmp_path / "found.npz"
    np.savez(given, job=np.frombuffer(bytes(job), np.uint8), offsets=offsets, names=list(arrays), **arrays)

    subprocess.run([sys.executable, "-c", ALONE, library._name, given, found], check=True)

    for name in ("hidden", "cell", "outputs"):
        assert np.array_equal(np.load(found)[name], tensors[name].numpy()), name


class Recorder:
    """A library that keeps the jobs it runs."""

    def __init__(self, library: ctypes.CDLL, jobs: list) -> None:
        self.library, self.jobs = library, jobs

    def elmo_forward(self, reference: Any) -> bool:
        """Keep a job and run it."""
        self.jobs.append(reference._obj)
        return self.library.elmo_forward(reference)
