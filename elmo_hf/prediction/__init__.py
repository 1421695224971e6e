"""What a fine-tuned model says of sentences: tags, spans, classes and scores, as plain dictionaries.

`loading` loads a task model, `inputs` reads what it is asked about, `tasks` turn its numbers into answers, `running`
computes batches, and `formats` writes answers to a file. Imports `hub`, `embedding`, `data`, `model` and the top-level
modules. `cli` imports it.
"""

from .loading import load
from .running import predict


__all__ = ["load", "predict"]
