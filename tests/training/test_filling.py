"""`training.filling`: the words are those of Transformers' pipeline, without special tokens and the word itself."""

from pathlib import Path

import pytest
import torch
from transformers import pipeline

from elmo_hf import ElmoError, ElmoForMaskedLM, ElmoTokenizer
from elmo_hf.training import filling
from elmo_hf.training.filling import WordFiller
from support.tiny_models import tiny_model


VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "bank", "Bank", "raised", "rates", "the", "river", "."]


def save_model(folder: Path, mask: str | None = "<MASK>", vocabulary: list[str] = VOCABULARY) -> Path:
    tokenizer = ElmoTokenizer(vocabulary, 20, mask_token=mask)
    tokenizer.save_pretrained(folder)
    tiny_model(ElmoForMaskedLM, vocab_size=tokenizer.vocab_size).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model with random weights."""
    return save_model(tmp_path_factory.mktemp("filling"))


def test_fills_a_mask_as_the_pipeline_does(folder: Path) -> None:
    filler = WordFiller(folder)
    words = filler.split("the [MASK] raised the <MASK>.")
    assert words == ["the", "<MASK>", "raised", "the", "<MASK>", "."]
    assert filler.find_masks(words) == [1, 4]

    found = filler.fill(words, [1, 4], top=3)

    # the first line of `the` has no word, and special tokens are no words
    targets = ["bank", "Bank", "raised", "rates", "the", "river", "."]
    expected = pipeline("fill-mask", str(folder))("the <MASK> raised the <MASK>.", targets=targets, top_k=7)
    for fillings, guesses in zip(found, expected, strict=True):
        assert [each.word for each in fillings] == [guess["token_str"] for guess in guesses][:3]
        total = sum(guess["score"] for guess in guesses)
        scores = [guess["score"] / total for guess in guesses[:3]]
        assert [each.probability for each in fillings] == pytest.approx(scores, rel=1e-4)


def test_the_losses_are_those_of_each_direction(folder: Path) -> None:
    filler = WordFiller(folder)
    words = ["the", "bank", "raised", "rates"]

    (fillings,) = filler.fill(words, [1], top=20)

    batch = filler.tokenizer([words], is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        output = filler.model(**batch)
    for each in fillings:
        number = filler.tokenizer.convert_tokens_to_ids(each.word)
        assert each.forward_nats == pytest.approx(-output.forward_logits[0, 2, number].item())
        assert each.backward_nats == pytest.approx(-output.backward_logits[0, 2, number].item())
    # all words but the one that stands there
    assert sorted(each.word for each in fillings) == [".", "raised", "rates", "river", "the"]


def test_a_tokenizer_without_a_mask_gets_one(folder: Path, tmp_path: Path) -> None:
    expected = WordFiller(folder)
    filler = WordFiller(save_model(tmp_path, mask=None))

    words = filler.split("the [MASK] raised rates")

    assert filler.fill(words, [1]) == expected.fill(words, [1])
    assert filler.split("the [MASK].", str.split) == ["the", "[MASK]."]
    assert filler.split("the [MASK] .", str.split) == ["the", "<MASK>", "."]


def test_a_mask_may_be_a_word_of_the_vocabulary(tmp_path: Path) -> None:
    filler = WordFiller(save_model(tmp_path, vocabulary=[*VOCABULARY, "<MASK>"]))

    (fillings,) = filler.fill(filler.split("the [MASK]"), [1], top=20)

    assert "<MASK>" not in [each.word for each in fillings]


def test_what_predicts_no_words_is_named(folder: Path, bilm_model: Path) -> None:
    with pytest.raises(ElmoError, match=r"has no softmax, so it gives vectors but predicts no words: convert a"):
        WordFiller(bilm_model)
    with pytest.raises(ElmoError, match=r"^top is 0: give 1 or more\.$"):
        WordFiller(folder).fill(["the"], [0], top=0)
    for position in (-1, 2):
        with pytest.raises(
            ElmoError, match=rf"^The position {position} is none of a sentence of 2 words: count from 0"
        ):
            WordFiller(folder).fill(["the", "bank"], [0, position])


def test_only_the_places_are_scored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filler = WordFiller(folder)
    words = ["the", "bank", "raised", "rates", "."] * 3
    expected = [filler.fill(words, [position])[0] for position in (0, 7, 14)]
    scored: list[int] = []
    filler.model.softmax.register_forward_pre_hook(lambda _, inputs: scored.append(len(inputs[0])))
    monkeypatch.setattr(filling, "PLACES_AT_A_TIME", 2)

    found = filler.fill(words, [0, 7, 14])

    # in each direction
    assert scored == [2, 2, 1, 1]
    for fillings, wanted in zip(found, expected, strict=True):
        assert [each.word for each in fillings] == [each.word for each in wanted]
        assert [each.probability for each in fillings] == pytest.approx([each.probability for each in wanted])
