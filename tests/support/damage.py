"""Change the files of a model folder."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file


def set_weight(folder: Path, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Replace one weight of a model."""
    weights = load_file(folder / "model.safetensors")
    weights[name] = change(weights[name])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
