"""What the tests of the benchmarks share."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    library_logging: None,  # noqa: ARG001 - benchmarks change it
) -> ModuleType:
    """Import the benchmark that a module of tests is named after; it may import others of the folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    name = request.module.__name__.rpartition("test_")[2]
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
