"""The Hub files keep Transformers' rules, and import nothing that a reader of a checkpoint may lack."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import mlinter
import pytest

import elmo_hf


PACKAGE = Path(elmo_hf.__file__).parent
HUB = PACKAGE / "model"
HUB_FILES = sorted(HUB.glob("*_elmo.py"))
MODULES = sorted(PACKAGE.rglob("*.py"))

# TRF057 asks for @auto_docstring, which misdescribes a model outside Transformers
RULES = set(mlinter.DEFAULT_ENABLED_TRF_RULES) - {"TRF057"}

# what every environment that can load a checkpoint has
AVAILABLE = {"huggingface_hub", "numpy", "tokenizers", "torch", "transformers"} | sys.stdlib_module_names

# how Transformers finds the files that it saves with a checkpoint (`dynamic_module_utils.get_relative_imports`)
COMPANION = re.compile(r"^\s*from\s+\.(\S+)\s+import", re.MULTILINE)


class Import(NamedTuple):
    """One imported module: as written, dots included, and whether it stands in a function or in a `try` block."""

    module: str
    lazy: bool
    guarded: bool


def find_imports(node: ast.AST, *, lazy: bool = False, guarded: bool = False) -> Iterator[Import]:
    """List the imports below a node of a module's tree."""
    if isinstance(node, ast.Import):
        yield from (Import(alias.name, lazy, guarded) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield Import("." * node.level + (node.module or ""), lazy, guarded)
    elif isinstance(node, ast.Try):
        for child in node.body:
            yield from find_imports(child, lazy=lazy, guarded=True)
        for child in [*node.handlers, *node.orelse, *node.finalbody]:
            yield from find_imports(child, lazy=lazy, guarded=guarded)
    else:
        lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from find_imports(child, lazy=lazy, guarded=guarded)


def imports_of(path: Path) -> list[Import]:
    return list(find_imports(ast.parse(path.read_text(encoding="utf-8"))))


each_hub_file = pytest.mark.parametrize("path", HUB_FILES, ids=lambda path: path.name)
each_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))


@each_hub_file
def test_keeps_the_transformers_rules(path: Path) -> None:
    violations = mlinter.analyze_file(path, path.read_text(encoding="utf-8"), enabled_rules=RULES)

    assert not violations, "\n".join(str(violation) for violation in violations)


@each_hub_file
def test_silences_no_check(path: Path) -> None:
    assert "noqa" not in path.read_text(encoding="utf-8")


@each_hub_file
def test_every_companion_that_transformers_looks_for_is_a_hub_file(path: Path) -> None:
    companions = set(COMPANION.findall(path.read_text(encoding="utf-8")))

    assert companions <= {file.stem for file in HUB_FILES}


@each_hub_file
def test_every_relative_import_is_one_that_transformers_finds(path: Path) -> None:
    found = {f".{name}" for name in COMPANION.findall(path.read_text(encoding="utf-8"))}

    assert {entry.module for entry in imports_of(path) if entry.module.startswith(".")} <= found


@each_hub_file
def test_imports_only_what_every_reader_has(path: Path) -> None:
    outside = {entry.module.split(".")[0] for entry in imports_of(path) if not entry.guarded} - {""}

    assert outside <= AVAILABLE


@each_hub_file
def test_imports_of_this_package_only_its_kernels_and_its_model_and_only_in_try(path: Path) -> None:
    ours = [entry for entry in imports_of(path) if entry.module.split(".")[0] == "elmo_hf"]

    assert all(entry.guarded and entry.module.startswith(("elmo_hf.kernels", "elmo_hf.bundled")) for entry in ours)


@pytest.mark.parametrize("name", ["configuration_elmo.py", "tokenization_elmo.py"])
def test_does_without_torch_until_it_is_used(name: str) -> None:
    eager = {entry.module.split(".")[0] for entry in imports_of(HUB / name) if not entry.lazy}

    assert "torch" not in eager


@each_module
def test_imports_the_conversion_only_when_it_converts(path: Path) -> None:
    eager = {entry.module.split(".")[0] for entry in imports_of(path) if not entry.lazy}

    assert eager.isdisjoint({"conversion", "elmo_hf_conversion"})


@each_module
def test_imports_triton_only_in_try(path: Path) -> None:
    unguarded = {entry.module.split(".")[0] for entry in imports_of(path) if not entry.guarded}

    assert "triton" not in unguarded
