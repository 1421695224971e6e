"""Convert original ELMo checkpoints, and back; installed as `elmo_hf_conversion`, and needs the extra `convert`."""

from .export import export
from .readers.base import ConversionError, OriginalCheckpoint
from .sources import read_original
from .verify import verify
from .write import convert


__all__ = ["ConversionError", "OriginalCheckpoint", "convert", "export", "read_original", "verify"]
