"""`model.token_encoder_elmo`: what is saved for speed changes no number."""

import torch

from elmo_hf.model.token_encoder_elmo import distinct_rows
from support.tiny_models import sentence, tiny_config, tiny_model


def all_of(rows: torch.Tensor) -> torch.Tensor:
    """Say that each row is a word."""
    return torch.ones(len(rows), dtype=torch.bool)


def test_short_windows_and_distinct_words_change_nothing() -> None:
    encoder = tiny_model().token_encoder
    char_ids = sentence(12, tiny_config())["char_ids"][0]
    # a row whose last character is no padding, and one that is the same character throughout
    char_ids[5] = torch.arange(1, 21)
    char_ids[6] = 77

    embedded = encoder.char_embeddings(char_ids).transpose(1, 2)
    maxima = torch.cat([convolution(embedded).max(dim=2).values for convolution in encoder.convolutions], dim=1)
    features = maxima.relu()
    for highway in encoder.highways:
        features = highway(features)

    torch.testing.assert_close(encoder(char_ids, all_of(char_ids)), encoder.projection(features), atol=1e-6, rtol=0)


def test_repeated_words_add_up_their_gradients() -> None:
    model = tiny_model().double()
    once = sentence(4, model.config)["char_ids"][0]
    twice = once[[0, 1, 2, 3, 0, 2]]
    share = torch.arange(1.0, 7.0, dtype=torch.float64)[:, None]

    parameters = list(model.token_encoder.parameters())
    together = torch.autograd.grad((model.token_encoder(twice, all_of(twice)) * share).sum(), parameters)
    apart = [
        torch.autograd.grad((model.token_encoder(word[None], all_of(word[None])) * weight).sum(), parameters)
        for word, weight in zip(twice, share, strict=True)
    ]

    for gradient, parts in zip(together, zip(*apart, strict=True), strict=True):
        torch.testing.assert_close(gradient, sum(parts), atol=1e-10, rtol=0)


def test_distinct_rows_survive_colliding_keys() -> None:
    multiplier = 6364136223846793005
    # both rows have the key multiplier ** 2
    rows = torch.tensor([[0, 1], [multiplier, 0], [0, 1]])

    distinct, which = distinct_rows(rows)

    assert distinct.shape == (2, 2)
    assert torch.equal(distinct[which], rows)
