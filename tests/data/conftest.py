"""Fixtures of the tests of `elmo_hf.data`."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library datasets, which keeps its files in the folder of this test."""
    library = pytest.importorskip("datasets", reason="the library datasets is not installed")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return library
