"""`integrations.spacy_component`: the vector of each token, in one document and in many."""

import importlib

import numpy as np
import pytest

from elmo_hf import ELMO_SMALL_EN
from support.cli_runs import vectors_of


spacy = pytest.importorskip("spacy")

FIRST, SECOND = "The bank raised rates.", "We sat on the bank of the river.\n"
TEXT = f"{FIRST}  {SECOND}"


@pytest.fixture(scope="module")
def nlp() -> "spacy.Language":
    """A pipeline that splits sentences and computes vectors."""
    importlib.import_module("elmo_hf.integrations.spacy_component")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("elmo", config={"batch_size": 2})
    return pipeline


def test_each_token_has_its_vector(nlp: "spacy.Language") -> None:
    doc = nlp(FIRST)

    expected = vectors_of(ELMO_SMALL_EN, [token.text for token in doc])
    np.testing.assert_allclose(doc.tensor, expected, atol=1e-5)
    assert doc.tensor.dtype == np.float32
    np.testing.assert_array_equal(doc[1].vector, doc.tensor[1])


def test_white_space_has_zeros(nlp: "spacy.Language") -> None:
    doc = nlp(TEXT)

    spaces = [token for token in doc if token.is_space]
    assert [token.text for token in spaces] == [" ", "\n"]
    assert not any(token.vector.any() or token.has_vector for token in spaces)
    assert nlp("").tensor.shape == (0, 256)
    assert nlp(" \n").tensor.tolist() == [[0.0] * 256]


def test_one_word_in_two_sentences_is_not_the_same(nlp: "spacy.Language") -> None:
    first, second, third = nlp("He went to the bank. The bank raised rates. The bank lowered rates.").sents

    # spaCy's own answer for two tokens, or spans, of one word is 1
    assert first[4].text == second[1].text == "bank"
    assert 0 < first[4].similarity(second[1]) < third[1].similarity(second[1]) < 0.999
    assert second[1:2].similarity(third[1:2]) == pytest.approx(second[1].similarity(third[1]))
    assert second.similarity(second) == pytest.approx(1)


def test_many_documents_have_the_vectors_of_each_by_itself(nlp: "spacy.Language") -> None:
    texts = [FIRST, "", TEXT, " \n", "No.", SECOND]

    together = list(nlp.pipe(texts, batch_size=4))

    assert [doc.text for doc in together] == texts
    for doc in together:
        np.testing.assert_allclose(doc.tensor, nlp(doc.text).tensor, atol=1e-5)


def test_merged_tokens_keep_a_vector_each(nlp: "spacy.Language") -> None:
    doc = nlp("New York is big .")
    before = doc.tensor.copy()

    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])

    # spaCy keeps the last of the merged ones
    np.testing.assert_array_equal(np.stack([token.vector for token in doc]), before[1:])
