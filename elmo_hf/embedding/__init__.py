"""From text to vectors: a few sentences into arrays (`embed`), or a corpus of any size into a file (`embed_corpus`).

`vectors` computes batches of sentences; `corpus` runs over a corpus, whose finished parts (`parts`) are computed by an
engine (`engines`, `ray_engine`) and joined in one file (`formats`). `neighbours` finds the nearest words of a corpus,
in an index on disk (`index_files`). Imports `data`, `model` and the top-level modules. `hub`, `training`,
`integrations` and `cli` import it.
"""

from .corpus import embed_corpus
from .loading import load
from .neighbours import Neighbour, NeighbourIndex
from .occurrences import Occurrence, find_word
from .sentences import Sentence, SentenceInput
from .vectors import Vectors, embed, parse_layer


__all__ = [
    "Neighbour",
    "NeighbourIndex",
    "Occurrence",
    "Sentence",
    "SentenceInput",
    "Vectors",
    "embed",
    "embed_corpus",
    "find_word",
    "load",
    "parse_layer",
]
