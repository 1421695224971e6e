"""Convert original ELMo checkpoints to Transformers model folders, and back.

Installed as `elmo_hf_conversion`; needs the extra `convert`. `convert` is the pipeline: `fetch` brings the files,
`readers` read them, `config` and `mapping` translate options and arrays, and `write` creates the folder. `export`
turns a model folder back into an original; `verify` compares a converted model with `numpy_bilm`, which computes the
original independently. Import the names below; the modules are internal.
"""

from .convert import convert
from .export import export
from .fetch.sources import read_original
from .readers.base import ConversionError, OriginalCheckpoint
from .verify import verify


__all__ = ["ConversionError", "OriginalCheckpoint", "convert", "export", "read_original", "verify"]
