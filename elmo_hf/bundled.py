"""The model that comes with the package."""

from pathlib import Path


NAME = "elmo-small-en"
"""The name of the model in commands, in `from_pretrained` of the ELMo classes, and in functions that take a folder."""

ELMO_SMALL_EN = str(Path(__file__).with_name(NAME))
"""The folder of a small English ELMo with its softmax, as a `str`, because some libraries refuse other paths. Its
README.md says how it was made."""


def model_folder(name: str | Path) -> Path:
    """Return the folder of a model.

    Args:
        name: A path, or `elmo-small-en`, the model that comes with the package. A folder of that name comes first.
    """
    folder = Path(name)
    return Path(ELMO_SMALL_EN) if str(name) == NAME and not folder.exists() else folder


__all__ = ["ELMO_SMALL_EN", "NAME", "model_folder"]
