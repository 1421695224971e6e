"""`inputs_embeds`: vectors in place of those of the token layer, for attributions and for changed words."""

from typing import Any

import numpy as np
import pytest
import torch

from elmo_hf import (
    ElmoForMaskedLM,
    ElmoForMultipleChoice,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from support.tiny_models import tiny_model


BOS, EOS, PAD = 1, 2, 0
CLASSES = [
    ElmoModel,
    ElmoForPreTraining,
    ElmoForMaskedLM,
    ElmoForTokenClassification,
    ElmoForSequenceClassification,
    ElmoForMultipleChoice,
    ElmoForQuestionAnswering,
]
KINDS = {"characters": {}, "words": {"char_embedding_dim": 0, "word_embedding_dim": 6}}
each_class = pytest.mark.parametrize("cls", CLASSES)


def make(cls: type, **fields: object) -> Any:
    return tiny_model(cls, **{"vocab_size": 30, "num_labels": 3, **fields})


def batch() -> dict[str, torch.Tensor]:
    """Two sentences of the words 5, 6 and so on, of which the second is shorter, and padded in its middle."""
    input_ids = torch.tensor([[BOS, 5, 6, 7, 5, EOS], [BOS, 8, PAD, 6, EOS, PAD]])
    char_ids = (input_ids[..., None] * torch.arange(1, 21)) % 200
    return {"input_ids": input_ids, "char_ids": char_ids, "attention_mask": (input_ids != PAD).long()}


def for_class(cls: type, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The batch as one example of two choices, or each sentence as question and context, if the class takes these."""
    if cls is ElmoForQuestionAnswering:
        return {name: torch.cat([part, part], dim=1) for name, part in inputs.items()}
    return {name: part[None] for name, part in inputs.items()} if cls is ElmoForMultipleChoice else inputs


def first_output(model: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    return model(**for_class(type(model), inputs))[0]


@each_class
@pytest.mark.parametrize("kind", KINDS)
def test_the_vectors_of_the_token_layer_give_what_the_ids_give(cls: type, kind: str) -> None:
    model, inputs = make(cls, **KINDS[kind]), batch()
    embeds = model.base_model.embed_words(**inputs)
    assert embeds.shape == (2, 6, 8)
    assert not embeds[1, 2].any()

    found = first_output(model, {**inputs, "inputs_embeds": embeds})

    torch.testing.assert_close(found, first_output(model, inputs), rtol=0, atol=0)


@each_class
def test_the_vectors_are_read_and_not_the_ids(cls: type) -> None:
    model, inputs = make(cls), batch()
    embeds = model.base_model.embed_words(**inputs)
    # "6" in place of "5", by its vector and by its ids
    embeds[0, 1] = embeds[0, 2]
    other = {**inputs, "char_ids": inputs["char_ids"].clone()}
    other["char_ids"][0, 1] = inputs["char_ids"][0, 2]

    found = first_output(model, {**inputs, "inputs_embeds": embeds})

    assert not torch.equal(found, first_output(model, inputs))
    torch.testing.assert_close(found, first_output(model, other), rtol=0, atol=0)


def test_the_mask_finds_the_words_and_without_it_the_ids_do() -> None:
    model, inputs = make(ElmoModel), batch()
    embeds, expected = model.embed_words(**inputs), model(**inputs).last_hidden_state
    # what stands at padding is never read
    embeds[1, 2], embeds[1, 5] = float("nan"), float("nan")

    for name in ("attention_mask", "input_ids"):
        found = model(inputs_embeds=embeds, **{name: inputs[name]}).last_hidden_state
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_without_mask_and_ids_every_position_is_a_word() -> None:
    model, inputs = make(ElmoModel), {name: part[:1] for name, part in batch().items()}

    found = model(inputs_embeds=model.embed_words(**inputs)).last_hidden_state

    torch.testing.assert_close(found, model(**inputs).last_hidden_state, rtol=0, atol=0)


def test_the_gradient_of_the_vectors_equals_finite_differences() -> None:
    model, inputs = make(ElmoForSequenceClassification).double(), batch()
    embeds = model.elmo.embed_words(**inputs).detach().requires_grad_()

    def score(vectors: torch.Tensor) -> torch.Tensor:
        return model(**inputs, inputs_embeds=vectors).logits[:, 1].sum()

    score(embeds).backward()

    direction, step = torch.randn_like(embeds), 1e-6
    with torch.no_grad():
        expected = (score(embeds + step * direction) - score(embeds - step * direction)) / (2 * step)
    torch.testing.assert_close((embeds.grad * direction).sum(), expected, rtol=1e-6, atol=1e-9)
    assert not embeds.grad[1, 2].any()


def test_integrated_gradients_add_up_to_the_difference_of_the_scores() -> None:
    # without clips the gradient is smooth, so that few points give the integral from 0 to 1 exactly
    model = make(ElmoForTokenClassification, cell_clip=None, projection_clip=None).double()
    inputs = batch()
    embeds = model.elmo.embed_words(**inputs).detach()
    nodes, weights = np.polynomial.legendre.leggauss(20)

    def score(vectors: torch.Tensor) -> torch.Tensor:
        return model(**inputs, inputs_embeds=vectors).logits[:, 1, 2].sum()

    total = torch.zeros_like(embeds)
    for node, weight in zip(nodes, weights, strict=True):
        scaled = ((node + 1) / 2 * embeds).requires_grad_()
        total += weight / 2 * torch.autograd.grad(score(scaled), scaled)[0]

    difference = score(embeds) - score(torch.zeros_like(embeds))
    torch.testing.assert_close((total * embeds).sum(), difference, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"inputs_embeds": torch.zeros(2, 6, 16)}, r"is \(2, 6, 16\) of torch.float32; .* \(sentences, words, 8\)"),
        ({"inputs_embeds": torch.zeros(2, 6, 8).long()}, r"is \(2, 6, 8\) of torch.int64; this model takes floating-"),
        ({"inputs_embeds": torch.zeros(2, 5, 8)}, r"`attention_mask` is \(2, 6\) where `inputs_embeds` has \(2, 5\)"),
        (
            {"inputs_embeds": torch.zeros(2, 5, 8), "attention_mask": None},
            r"`input_ids` is \(2, 6\) where `inputs_embeds` has \(2, 5\)",
        ),
    ],
)
def test_vectors_that_do_not_fit_are_named(wrong: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(ElmoModel)(**{**batch(), **wrong})


def test_a_head_that_needs_the_boundaries_asks_for_word_ids() -> None:
    model, inputs = make(ElmoForSequenceClassification), batch()

    with pytest.raises(ValueError, match="finds the words by `input_ids`"):
        model(inputs_embeds=model.elmo.embed_words(**inputs), attention_mask=inputs["attention_mask"])
