"""ELMo in spaCy: the pipeline component `elmo`, which gives every token its vector in its sentence."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from elmo_hf.embedding.lazy_model import LazyModel
from elmo_hf.embedding.vectors import Vectors


try:
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token
except ImportError as error:
    raise ImportError("The spaCy component elmo needs spaCy: pip install 'elmo_hf[spacy]'") from error


class ElmoComponent:
    """Sets `doc.tensor`, `[tokens, H]`, and lets `token.vector` read from it.

    The component computes each sentence of a document by itself, or the whole document if nothing has split it into
    sentences. It skips tokens of white space, which ELMo never sees in training; their vectors are zero.

    Args:
        model: The model that computes the vectors. A saved pipeline holds its name, not its weights.
    """

    def __init__(self, model: LazyModel) -> None:
        self.model = model

    def __call__(self, doc: Doc) -> Doc:
        """Set the vectors of a document, and return it."""
        return next(self.pipe([doc]))

    def pipe(self, docs: Iterable[Doc], *, batch_size: int = 1000) -> Iterator[Doc]:
        """Set the vectors of documents.

        Args:
            docs: The documents.
            batch_size: The number of documents whose sentences are computed together.

        Yields:
            Each document, in the given order.
        """
        remaining = iter(docs)
        while batch := list(islice(remaining, batch_size)):
            sentences = [[_words(sentence) for sentence in _sentences(doc)] for doc in batch]
            vectors = self.model.embed([token.text for token in words] for doc in sentences for words in doc)
            for doc, in_doc in zip(batch, sentences, strict=True):
                yield self._annotate(doc, in_doc, vectors)

    def _annotate(self, doc: Doc, sentences: list[list[Token]], vectors: Iterator[Vectors]) -> Doc:
        # spaCy's annotation says float64
        tensor: Any = np.zeros((len(doc), self.model.width), np.float32)
        for words in sentences:
            tensor[[token.i for token in words]] = next(vectors)
        doc.tensor = tensor
        # without hooks, spaCy prefers the vocabulary's vectors, and takes two tokens of one word for equal
        doc.user_token_hooks.update(vector=_vector, has_vector=_has_vector)
        for hooks in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
            hooks["similarity"] = _similarity
        return doc


def _sentences(doc: Doc) -> Iterable[Doc | Span]:
    return doc.sents if doc.has_annotation("SENT_START") else [doc]


def _words(sentence: Doc | Span) -> list[Token]:
    return [token for token in sentence if not token.is_space]


def _vector(token: Token) -> Vectors:
    return token.doc.tensor[token.i]


def _has_vector(token: Token) -> bool:
    return not token.is_space


def _similarity(one: Doc | Span | Token, other: Doc | Span | Token) -> float:
    """Compute the cosine of two vectors, or 0 if one of them is zero."""
    first, second = np.asarray(one.vector), np.asarray(other.vector)
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.dot(first, second)) / norms if norms else 0.0


@Language.factory(
    "elmo",
    assigns=["doc.tensor"],
    default_config={"model": "elmo-small-en", "layers": "mix", "batch_size": 32, "device": "cpu"},
)
def make_elmo(
    nlp: Language,  # noqa: ARG001 - spaCy's
    name: str,  # noqa: ARG001 - spaCy's
    model: str,
    layers: str | int,
    batch_size: int,
    device: str,
) -> ElmoComponent:
    """Create the component `elmo`.

    Args:
        nlp: The pipeline.
        name: The component's name in the pipeline.
        model: A model folder, or `elmo-small-en`, which comes with the package.
        layers: As in `elmo_hf.embedding.embed`; `"all"` concatenates the vectors of all layers.
        batch_size: The number of sentences that are computed at once.
        device: The device that computes, as PyTorch names it.

    Raises:
        ElmoError: If there is no such model, or it has no such layer.
    """
    return ElmoComponent(LazyModel(model, device=device, layers=layers, batch_size=batch_size))


__all__ = ["ElmoComponent", "make_elmo"]
