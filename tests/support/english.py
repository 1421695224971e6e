"""The model that tests of the whole package load: a tiny English ELMo, which is quicker than that of the package."""

from pathlib import Path


ELMO_TINY_EN = str(Path(__file__).with_name("elmo-tiny-en"))
"""The folder of the model, with its softmax."""

__all__ = ["ELMO_TINY_EN"]
