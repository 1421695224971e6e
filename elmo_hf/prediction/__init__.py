"""What a fine-tuned model says of sentences: tags, spans, classes, scores and answers, as plain dictionaries.

`loading` loads a task model, `inputs` reads what it is asked about, `tasks` turn its numbers into answers, `answers`
finds spans in the windows of a long context, `documents` resolves coreference, `running` computes batches, and
`formats` writes answers to a file. Imports `hub`, `embedding`, `data`, `model` and the top-level modules. `cli` and
`training` import it.
"""

from .documents import resolve
from .loading import load
from .running import answer, predict


__all__ = ["answer", "load", "predict", "resolve"]
