"""The model that comes with the package."""

from pathlib import Path


# a folder for `from_pretrained`: a small English ELMo with its softmax, and the command that made it in its README.md
ELMO_TINY_EN = Path(__file__).with_name("elmo-tiny-en")


def model_folder(name: str) -> Path:
    """Find a model's folder: its path, or the name of the model that comes with the package."""
    folder = Path(name)
    return ELMO_TINY_EN if name == ELMO_TINY_EN.name and not folder.exists() else folder


__all__ = ["ELMO_TINY_EN", "model_folder"]
