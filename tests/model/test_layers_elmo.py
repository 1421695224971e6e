"""`model.layers_elmo`: the mix follows equation 1."""

import numpy as np
import pytest
import torch

from elmo_hf import ElmoModel
from support.tiny_models import sentence, tiny_config, tiny_model


def layers(model: ElmoModel, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """All layers and the mix, `[L + 2, B, T, H]`."""
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
    return torch.stack([*output.hidden_states, output.last_hidden_state])


def test_the_mix_is_equation_1() -> None:
    model = tiny_model()
    model.scalar_mix.gamma.data.fill_(1.7)

    vectors = layers(model, sentence(5, model.config)).numpy()

    raw = np.exp([-1.0, 0.0, 1.0])
    expected = 1.7 * np.einsum("l,lbth->bth", raw / raw.sum(), vectors[:3])
    np.testing.assert_allclose(vectors[3], expected, atol=1e-6)


def test_the_mix_is_aligned_after_it_is_mixed() -> None:
    model = tiny_model(alignment=True)
    batch = sentence(3, model.config)

    aligned = model(**batch).last_hidden_state
    matrix, model.scalar_mix.alignment = model.scalar_mix.alignment.weight, None

    torch.testing.assert_close(aligned, model(**batch).last_hidden_state @ matrix.T)


def test_an_untrained_mix_is_the_mean() -> None:
    model = ElmoModel(tiny_config()).eval()

    vectors = layers(model, sentence(5, model.config))

    torch.testing.assert_close(vectors[3], vectors[:3].mean(dim=0), atol=1e-6, rtol=0)
    assert model.scalar_mix.normalized_weights().tolist() == pytest.approx([1 / 3] * 3)


def test_the_mix_of_a_double_model_is_double() -> None:
    model = tiny_model().double()

    vectors = layers(model, sentence(5, model.config))

    shares = torch.linspace(-1, 1, 3).double().softmax(dim=0)
    torch.testing.assert_close(vectors[3], torch.tensordot(shares, vectors[:3], dims=1), atol=1e-14, rtol=0)
