"""From text to vectors: one batch of sentences (`embed`), or a corpus of any size into files (`embed_corpus`).

Imports `model` and the modules above the rooms. `integrations`, `training`, `hub` and `cli` import it.
"""

from .parts import Line
from .vectors import Sentence, Vectors, embed, embed_corpus, load, parse_layer


__all__ = ["Line", "Sentence", "Vectors", "embed", "embed_corpus", "load", "parse_layer"]
