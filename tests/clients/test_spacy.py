"""spaCy finds the component `elmo` by its name, and each token has its vector in its sentence."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from elmo_hf import ELMO_SMALL_EN, ElmoError, ElmoTokenizer


spacy = pytest.importorskip("spacy")

TEXT = "The bank raised rates.  We sat on the bank of the river.\n"


@pytest.fixture(scope="module")
def nlp() -> "spacy.Language":
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    # found by the entry point, without an import
    pipeline.add_pipe("elmo")
    return pipeline


def expected(words: list[str], tokenizer: ElmoTokenizer) -> np.ndarray:
    """`[words, H]`, the sentence by itself."""
    model = AutoModel.from_pretrained(ELMO_SMALL_EN).eval()
    with torch.no_grad():
        return model(**tokenizer([words], is_split_into_words=True, return_tensors="pt")).last_hidden_state[0, 1:-1]


def test_every_token_has_its_vector_in_its_sentence(nlp: "spacy.Language", tokenizer: ElmoTokenizer) -> None:
    doc = nlp(TEXT)

    words = [["The", "bank", "raised", "rates", "."], ["We", "sat", "on", "the", "bank", "of", "the", "river", "."]]
    # spaCy takes the end of the line for a sentence
    assert [[token.text for token in sentence if not token.is_space] for sentence in doc.sents] == [*words, []]
    found = np.stack([token.vector for token in doc if not token.is_space])
    np.testing.assert_allclose(found, np.concatenate([expected(part, tokenizer) for part in words]), atol=1e-5)
    assert doc.tensor.shape == (len(doc), 256)


def test_a_document_without_boundaries_is_one_sentence(tokenizer: ElmoTokenizer) -> None:
    pipeline = spacy.blank("en")
    pipeline.add_pipe("elmo")

    doc = pipeline("It rained. It poured.")

    np.testing.assert_allclose(doc.tensor, expected(["It", "rained", ".", "It", "poured", "."], tokenizer), atol=1e-5)


def test_vectors_of_the_vocabulary_do_not_hide_those_of_the_sentence() -> None:
    pipeline = spacy.blank("en")
    pipeline.vocab.set_vector("bank", np.ones(3, np.float32))
    pipeline.add_pipe("elmo")

    doc = pipeline("The bank")

    assert [token.vector.shape for token in doc] == [(256,), (256,)]
    np.testing.assert_allclose(doc.vector, doc.tensor.mean(axis=0), atol=1e-6)


def test_a_saved_pipeline_names_the_model(tmp_path: Path) -> None:
    pipeline = spacy.blank("en")
    pipeline.add_pipe("elmo", config={"model": ELMO_SMALL_EN, "layers": 0})

    pipeline.to_disk(tmp_path / "pipeline")

    assert sum(path.stat().st_size for path in (tmp_path / "pipeline").rglob("*")) < 1e6
    again = spacy.load(tmp_path / "pipeline")
    np.testing.assert_array_equal(again(TEXT).tensor, pipeline(TEXT).tensor)


def test_a_stored_document_keeps_its_vectors(nlp: "spacy.Language") -> None:
    doc = nlp(TEXT)

    # as between processes: spaCy keeps the tensor, and drops the hooks
    with pytest.warns(UserWarning, match="W109"):
        again = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())

    np.testing.assert_array_equal(again[1].vector, doc[1].vector)


def test_a_docbin_stores_no_vectors(nlp: "spacy.Language") -> None:
    stored = spacy.tokens.DocBin(docs=[nlp(TEXT)], store_user_data=True).to_bytes()

    (doc,) = spacy.tokens.DocBin().from_bytes(stored).get_docs(nlp.vocab)

    assert doc.tensor.size == 0
    # the pipeline adds them again
    assert nlp(doc).tensor.shape == (len(doc), 256)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model": "absent"}, "absent is not a model folder"),
        ({"layers": "middle"}, "There is no layer 'middle'"),
    ],
)
def test_what_cannot_be_made_is_named_at_once(config: dict[str, str], message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        spacy.blank("en").add_pipe("elmo", config=config)
