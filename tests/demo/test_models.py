"""`demo.models`: what a tab shows is what Transformers' model computes, and each model is loaded once."""

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModel, AutoTokenizer

from elmo_hf import ElmoError, ElmoModel
from elmo_hf.demo.models import DemoModel, load_model
from elmo_hf.embedding import Occurrence
from elmo_hf.training.filling import WordFiller
from elmo_hf.training.perplexity import load_language_model, score
from support.sentence_vectors import alone


SENTENCES = tuple(
    tuple(text.split())
    for text in (
        "the bank raised rates .",
        "the river left its bank .",
        "its bank left",
        "the bank raised its rates and the river left .",
    )
)
PLACE = Occurrence(SENTENCES[0], 1)


@pytest.fixture(scope="module")
def layers(folder: Path) -> list[np.ndarray]:
    """The unit vectors of each sentence, `[layers, words, H]`: the mix first, then each layer."""
    loaded = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    stacked = [np.concatenate([mix[None], rest]) for mix, rest in (alone(loaded, list(words)) for words in SENTENCES)]
    return [vectors / np.linalg.norm(vectors, axis=2, keepdims=True) for vectors in stacked]


def test_words_are_compared_by_their_cosines(model: DemoModel, layers: list[np.ndarray]) -> None:
    for number, name in enumerate(["mix", "token layer", "layer 1", "layer 2"]):
        expected = layers[0][number] @ layers[1][number].T

        cosines = model.compare_words(SENTENCES[0], SENTENCES[1], layer=name)

        np.testing.assert_allclose(cosines, expected, atol=1e-5)


@pytest.mark.parametrize(("layer", "number"), [("mix", 0), ("layer 2", 3)])
def test_the_neighbours_are_the_nearest_words_of_the_other_sentences(
    model: DemoModel, layers: list[np.ndarray], layer: str, number: int
) -> None:
    query = layers[0][number][1]
    expected = sorted((float(vector @ query) for vectors in layers[1:] for vector in vectors[number]), reverse=True)

    found = model.find_neighbours(SENTENCES, PLACE, layer=layer)

    assert [each.cosine for each in found] == pytest.approx(expected[:10], abs=1e-3)
    assert all(each.line > 1 for each in found)
    for each in found:
        own = layers[each.line - 1][number][each.occurrence.position]
        assert each.cosine == pytest.approx(float(own @ query), abs=1e-3)


def test_each_word_can_be_shown_once(model: DemoModel) -> None:
    found = model.find_neighbours(SENTENCES, PLACE, layer="mix", distinct=True)

    assert len({each.word for each in found}) == len(found)


def test_the_layers_are_compared_on_the_same_word_first(model: DemoModel, layers: list[np.ndarray]) -> None:
    found, cosines = model.compare_layers(SENTENCES, PLACE)

    words = [each.word for each in found]
    assert words[:3] == ["bank"] * 3
    assert "bank" not in words[3:]
    assert list(cosines) == ["mix", "token layer", "layer 1", "layer 2"]
    for number, column in enumerate(cosines.values()):
        expected = [
            float(layers[each.line - 1][number][each.occurrence.position] @ layers[0][number][1]) for each in found
        ]
        np.testing.assert_allclose(column, expected, atol=1e-3)


def test_words_are_filled_in_for_a_mask(model: DemoModel, folder: Path) -> None:
    words = model.split("the [MASK] raised rates .")
    assert model.shown(words) == ["the", "[MASK]", "raised", "rates", "."]

    filler = WordFiller(folder)
    assert model.fill(Occurrence(words, 1)) == filler.fill(filler.split("the [MASK] raised rates ."), [1], top=10)[0]


def test_the_scores_of_the_words_are_those_of_the_sentence(model: DemoModel, folder: Path) -> None:
    scores = model.score(SENTENCES[3])

    (total,) = score(*load_language_model(folder), [list(SENTENCES[3])])
    assert sum(each.forward_nats or 0 for each in scores) == pytest.approx(total.forward_nats)
    assert sum(each.backward_nats or 0 for each in scores) == pytest.approx(total.backward_nats)
    assert [each.word for each in scores] == ["<S>", *SENTENCES[3], "</S>"]


def test_a_model_is_loaded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_model(str(folder))
    monkeypatch.setattr(ElmoModel, "from_pretrained", None)
    monkeypatch.setattr("elmo_hf.demo.models.WordFiller", None)

    assert load_model(f" {folder} ") is first
    # the second language model shares the weights of the first
    assert first.score(SENTENCES[0])
    assert first.find_neighbours(SENTENCES, PLACE, layer="mix")


def test_a_model_without_a_softmax_has_vectors(folder: Path, tmp_path: Path) -> None:
    ElmoModel.from_pretrained(folder).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)

    model = DemoModel(str(tmp_path))

    assert model.find_neighbours(SENTENCES, PLACE, layer="mix")
    for refused in (lambda: model.score(SENTENCES[0]), lambda: model.fill(PLACE)):
        with pytest.raises(ElmoError, match="has no softmax, so it gives vectors but predicts no words"):
            refused()


def test_a_model_that_is_not_there_is_named() -> None:
    with pytest.raises(ElmoError, match=r"^absent is not a model folder"):
        load_model("absent")
