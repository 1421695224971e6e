"""sentence-transformers, as it is: ELMo with mean pooling encodes, is trained, is saved, and loads again."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from elmo_hf import ElmoTokenizer
from elmo_hf.integrations.vectorizer import ElmoVectorizer
from support.english import ELMO_TINY_EN


pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TEXTS = ["A man sleeps.", "It rained all night , and all day after that.", "No."]


@pytest.fixture
def elmo(tmp_path: Path) -> Path:
    AutoModel.from_pretrained(ELMO_TINY_EN).save_pretrained(tmp_path / "elmo")
    AutoTokenizer.from_pretrained(ELMO_TINY_EN).save_pretrained(tmp_path / "elmo")
    return tmp_path / "elmo"


def means(folder: Path, tokenizer: ElmoTokenizer) -> torch.Tensor:
    """The mean over the words of each text, boundaries included, each by itself."""
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return torch.stack(
            [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(dim=0) for text in TEXTS]
        )


def test_encodes_saves_and_loads(elmo: Path, tokenizer: ElmoTokenizer, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(elmo), device="cpu")

    found = torch.tensor(model.encode(TEXTS, batch_size=2))
    model.save(str(tmp_path / "saved"))
    again = torch.tensor(library.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(TEXTS))

    torch.testing.assert_close(found, means(elmo, tokenizer), rtol=0, atol=1e-5)
    torch.testing.assert_close(again, found, rtol=0, atol=1e-5)
    assert model.get_sentence_embedding_dimension() == found.shape[1] == 256


def test_modules_put_together_by_hand_do_the_same(elmo: Path, tokenizer: ElmoTokenizer) -> None:
    library = pytest.importorskip("sentence_transformers")
    models = pytest.importorskip("sentence_transformers.models")
    words = models.Transformer(str(elmo))
    pooling = models.Pooling(words.get_word_embedding_dimension(), pooling_mode="mean")
    model = library.SentenceTransformer(modules=[words, pooling], device="cpu")

    torch.testing.assert_close(torch.tensor(model.encode(TEXTS)), means(elmo, tokenizer), rtol=0, atol=1e-5)


def test_without_the_boundary_tokens_it_gives_what_the_vectorizer_gives(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    texts = [*TEXTS, ""]
    words = modules.Transformer(ELMO_TINY_EN)
    vocab = words.tokenizer.convert_ids_to_tokens(range(len(words.tokenizer)))
    weights = modules.WordWeights(vocab, {"<S>": 0, "</S>": 0}).requires_grad_(False)
    pooling = modules.Pooling(words.get_embedding_dimension(), "mean")
    model = library.SentenceTransformer(modules=[words, weights, pooling], device="cpu")

    found = model.encode(texts)
    model.save(str(tmp_path / "saved"))
    again = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(texts)

    expected = ElmoVectorizer(cache_size=0).transform(texts)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(again, found)
    # with them, as it does by default, the vectors are others
    default = library.SentenceTransformer(ELMO_TINY_EN, device="cpu").encode(texts)
    cosines = (default * expected).sum(axis=1)[:3] / np.linalg.norm(default, axis=1)[:3]
    np.testing.assert_allclose(cosines / np.linalg.norm(expected, axis=1)[:3], [0.83, 0.95, 0.77], atol=0.005)


def test_is_trained(elmo: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    made_of = pytest.importorskip("sentence_transformers.losses")
    datasets = pytest.importorskip("datasets")
    model = library.SentenceTransformer(str(elmo), device="cpu")
    data = datasets.Dataset.from_dict(
        {"sentence1": TEXTS * 4, "sentence2": [*TEXTS[1:], TEXTS[0]] * 4, "score": [0.9, 0.1, 0.2] * 4}
    )
    arguments = library.SentenceTransformerTrainingArguments(
        str(tmp_path / "trained"), max_steps=12, learning_rate=1e-2, report_to="none", use_cpu=True, logging_steps=1
    )
    trainer = library.SentenceTransformerTrainer(
        model, arguments, train_dataset=data, loss=made_of.CosineSimilarityLoss(model)
    )

    trainer.train()

    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < 0.5 * losses[0]
