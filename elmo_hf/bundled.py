"""The model that comes with the package."""

from pathlib import Path


# a folder for `from_pretrained`: a small English ELMo with its softmax, and the command that made it in its README.md
ELMO_TINY_EN = Path(__file__).with_name("elmo-tiny-en")

__all__ = ["ELMO_TINY_EN"]
