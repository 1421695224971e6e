"""The model that comes with the package."""

from pathlib import Path


ELMO_TINY_EN = Path(__file__).with_name("elmo-tiny-en")
"""The folder of a small English ELMo with its softmax, for `from_pretrained`. Its README.md says how it was made."""


def model_folder(name: str) -> Path:
    """Return the folder of a model.

    Args:
        name: A path, or `elmo-tiny-en`, the model that comes with the package. A folder of that name comes first.
    """
    folder = Path(name)
    return ELMO_TINY_EN if name == ELMO_TINY_EN.name and not folder.exists() else folder


__all__ = ["ELMO_TINY_EN", "model_folder"]
