"""captum, as it is: how much each word adds to a score, by vectors of the token layer or by that layer itself."""

from typing import Any

import pytest
import torch

from elmo_hf import ElmoForSequenceClassification, ElmoTokenizer
from support.english import ELMO_TINY_EN


attr = pytest.importorskip("captum.attr")

TEXTS = ["A fine film .", "It rains all day ."]


@pytest.fixture(scope="module")
def classifier() -> ElmoForSequenceClassification:
    torch.manual_seed(0)
    return ElmoForSequenceClassification.from_pretrained(ELMO_TINY_EN, num_labels=2).eval()


@pytest.fixture(scope="module")
def batch(tokenizer: ElmoTokenizer) -> dict[str, torch.Tensor]:
    return dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))


def score(classifier: Any, char_ids: torch.Tensor, input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return classifier(char_ids=char_ids, input_ids=input_ids, attention_mask=mask).logits[:, 1]


def test_attributions_of_vectors_add_up(classifier: Any, batch: dict[str, torch.Tensor]) -> None:
    def score_vectors(embeds: torch.Tensor, input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return classifier(inputs_embeds=embeds, input_ids=input_ids, attention_mask=mask).logits[:, 1]

    embeds, others = classifier.elmo.embed_words(**batch), (batch["input_ids"], batch["attention_mask"])
    attributions, delta = attr.IntegratedGradients(score_vectors).attribute(
        embeds, additional_forward_args=others, n_steps=50, return_convergence_delta=True
    )

    difference = score_vectors(embeds, *others) - score_vectors(torch.zeros_like(embeds), *others)
    torch.testing.assert_close(attributions.sum(dim=(1, 2)), difference, rtol=0, atol=2e-3)
    assert delta.abs().max() < 2e-3
    assert difference.abs().min() > 0.01
    assert not attributions[batch["attention_mask"] == 0].any()


@pytest.mark.parametrize("kind", ["sentences", "pairs"])
def test_attributions_of_the_layer_add_up(kind: str, classifier: Any, tokenizer: ElmoTokenizer) -> None:
    torch.nn.init.normal_(classifier.classifier.pair_weight, std=0.1)
    pairs = TEXTS[::-1] if kind == "pairs" else None
    batch = tokenizer(TEXTS, pairs, padding=True, return_tensors="pt")
    others = (batch["input_ids"], batch["attention_mask"])
    # words without letters
    baselines = torch.as_tensor(tokenizer.words_to_char_ids([""])).expand_as(batch["char_ids"])
    forward = lambda char_ids, *rest: score(classifier, char_ids, *rest)  # noqa: E731

    attributions, delta = attr.LayerIntegratedGradients(forward, classifier.elmo.token_encoder).attribute(
        batch["char_ids"], baselines, additional_forward_args=others, n_steps=50, return_convergence_delta=True
    )

    difference = forward(batch["char_ids"], *others) - forward(baselines, *others)
    # [B, 1, T, P]
    torch.testing.assert_close(attributions.sum(dim=(1, 2, 3)), difference, rtol=0.02, atol=2e-3)
    assert delta.abs().max() < 0.02
    assert difference.abs().min() > 0.01
