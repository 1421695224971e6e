"""ELMo in spaCy: the pipeline component `elmo`, which gives every token its vector in its sentence."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from elmo_hf.embedding.vectors import Vectors

from .named_model import NamedModel


try:
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token
except ImportError as error:
    raise ImportError("elmo_hf.spacy_component needs spaCy: pip install 'elmo_hf[spacy]'") from error


class ElmoComponent:
    """Puts the vectors of a document's tokens in `doc.tensor`, `[tokens, H]`, from where `token.vector` takes them.

    A sentence is what the document says is one, or else the whole document. Tokens of white space, which no ELMo has
    ever seen, are left out, and have zeros.

    Args:
        model: What computes the vectors; a pipeline that is saved keeps its name, not its weights.
    """

    def __init__(self, model: NamedModel) -> None:
        self.model = model

    def __call__(self, doc: Doc) -> Doc:
        """Give a document its vectors."""
        return next(self.pipe([doc]))

    def pipe(self, docs: Iterable[Doc], *, batch_size: int = 1000) -> Iterator[Doc]:
        """Give documents their vectors, the sentences of `batch_size` of them at a time."""
        remaining = iter(docs)
        while batch := list(islice(remaining, batch_size)):
            sentences = [[_words(sentence) for sentence in _sentences(doc)] for doc in batch]
            vectors = self.model.embed([token.text for token in words] for doc in sentences for words in doc)
            for doc, in_doc in zip(batch, sentences, strict=True):
                yield self._annotate(doc, in_doc, vectors)

    def _annotate(self, doc: Doc, sentences: list[list[Token]], vectors: Iterator[Vectors]) -> Doc:
        # spaCy's type is that of float64
        tensor: Any = np.zeros((len(doc), self.model.width), np.float32)
        for words in sentences:
            tensor[[token.i for token in words]] = next(vectors)
        doc.tensor = tensor
        # by itself spaCy prefers a vocabulary's vectors, and holds two tokens of one word to be the same
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
    """Compute the cosine of two vectors, or 0 where one has none."""
    first, second = np.asarray(one.vector), np.asarray(other.vector)
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.dot(first, second)) / norms if norms else 0.0


@Language.factory(
    "elmo",
    assigns=["doc.tensor"],
    default_config={"model": "elmo-tiny-en", "layers": "mix", "batch_size": 32, "device": "cpu"},
)
def make_elmo(
    nlp: Language,  # noqa: ARG001 - spaCy's
    name: str,  # noqa: ARG001 - spaCy's
    model: str,
    layers: str | int,
    batch_size: int,
    device: str,
) -> ElmoComponent:
    """Make the component `elmo`.

    Args:
        nlp: The pipeline.
        name: What the component is called in it.
        model: A model folder, or `elmo-tiny-en`, which comes with the package.
        layers: As in `elmo_hf.embedding.embed`; `"all"` puts the vectors of all layers side by side.
        batch_size: Sentences computed at once.
        device: Where to compute, as torch calls it.

    Raises:
        ElmoError: If there is no such model, or it has no such layer.
    """
    return ElmoComponent(NamedModel(model, device=device, layers=layers, batch_size=batch_size))


__all__ = ["ElmoComponent", "make_elmo"]
