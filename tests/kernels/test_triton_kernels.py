"""`kernels.triton_kernels`: the kernels compile for GPUs, without one; test_triton.py has their numbers."""

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The kernels as a GPU gets them."""
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.delitem(sys.modules, "elmo_hf.kernels.triton_kernels", raising=False)
    yield importlib.import_module("elmo_hf.kernels.triton_kernels")
    sys.modules.pop("elmo_hf.kernels.triton_kernels", None)


@pytest.mark.parametrize("name", ["step_gates", "step_hidden", "backward_gates"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_compiles_for_a_gpu_and_reads_four_numbers_at_once(name: str, dtype: str, kernels: ModuleType) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel, signature, constants, aligned = getattr(kernels, name), {}, {}, {}
    for place, parameter in enumerate(inspect.signature(kernel.fn).parameters.values()):
        kind = parameter.annotation
        if kind is triton.language.constexpr:
            constants[parameter.name] = {"save": True, "block": 512}[parameter.name]
            signature[parameter.name] = "constexpr"
        elif kind is triton.language.tensor:
            signature[parameter.name] = "*i32" if parameter.name == "starts" else f"*{dtype}"
        else:
            signature[parameter.name] = {int: "i32", float: "fp32"}[kind]
        if kind is triton.language.tensor or parameter.name == "width":
            # as memory of torch is, and the width of every release
            aligned[place,] = [["tt.divisibility", 16]]

    # a GPU of the Ampere generation
    made = triton.compile(ASTSource(kernel, signature, constants, aligned), target=GPUTarget("cuda", 80, 32))

    assert made.asm["cubin"]
    assert {"fp32": "global.v4.b32", "fp16": "global.v2.b32", "bf16": "global.v2.b32"}[dtype] in made.asm["ptx"]


def test_without_triton_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "elmo_hf.kernels.triton_kernels", raising=False)

    with pytest.raises(ImportError, match="Triton is not installed"):
        importlib.import_module("elmo_hf.kernels.triton_kernels")
