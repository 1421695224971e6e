"""What the tests of the scripts share."""

import importlib.util
from types import ModuleType

import pytest


@pytest.fixture
def script(request: pytest.FixtureRequest, library_logging: None) -> ModuleType:  # noqa: ARG001 - scripts change it
    """Import the script that a module of tests calls `SCRIPT`."""
    path = request.module.SCRIPT
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
