"""Files and data sets for tests of `elmo_hf.data` and the examples that train on them."""

from pathlib import Path
from typing import Any


def written(folder: Path, text: str, name: str = "data") -> Path:
    """Write a file, and return its path."""
    path = folder / name
    path.write_bytes(text.encode())
    return path


def save_dataset(rows: Any, folder: Path) -> str:
    """Write a data set to a folder that `load_dataset` reads, with the names of its classes."""
    folder.mkdir()
    rows.to_parquet(str(folder / "train-00000-of-00001.parquet"))
    return str(folder)
