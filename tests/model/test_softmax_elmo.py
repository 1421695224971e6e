"""The softmax: chunks add up to the whole, and the sample is drawn and corrected as TensorFlow does."""

import math

import numpy as np
import pytest
import torch

from elmo_hf.model import softmax_elmo
from elmo_hf.model.softmax_elmo import (
    ElmoSoftmax,
    full_losses,
    log_expected_count,
    log_uniform,
    sample_words,
    sampled_losses,
)
from support.tiny_models import tiny_config


WORDS, WIDTH, PREDICTIONS = 37, 6, 150


@pytest.fixture
def inputs() -> dict[str, torch.Tensor]:
    """Random states, weights and targets in float64, row 0 of the weights padding."""
    generator = torch.Generator().manual_seed(0)
    double = {"generator": generator, "dtype": torch.float64}
    return {
        "hidden": torch.randn(PREDICTIONS, WIDTH, **double).requires_grad_(),
        "weight": torch.randn(WORDS + 1, WIDTH, **double).requires_grad_(),
        "bias": torch.randn(WORDS + 1, **double).requires_grad_(),
        "targets": torch.randint(1, WORDS + 1, (PREDICTIONS,), generator=generator),
        "scales": torch.rand(PREDICTIONS, **double),
    }


def in_float32(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {
        name: part.detach().float().requires_grad_() if part.is_floating_point() else part
        for name, part in inputs.items()
    }


def gradients(total: torch.Tensor, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    return list(torch.autograd.grad(total, [inputs[name] for name in ("hidden", "weight", "bias")]))


def plain_losses(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """The whole softmax, padding left out, by PyTorch's own function."""
    logits = hidden @ weight[1:].T + bias[1:]
    return torch.nn.functional.cross_entropy(logits, targets - 1, reduction="none")


@pytest.mark.parametrize("chunk", [1, 7, 64, 149, 150, 1000])
def test_chunks_equal_the_whole_softmax(inputs: dict, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax_elmo, "LOGITS_PER_CHUNK", 0)
    monkeypatch.setattr(softmax_elmo, "FEWEST_ROWS_PER_CHUNK", chunk)
    expected = plain_losses(*(inputs[name] for name in ("hidden", "weight", "bias", "targets")))

    total, losses = full_losses(**inputs)

    torch.testing.assert_close(losses, expected.detach(), rtol=0, atol=1e-12)
    wanted = gradients((expected * inputs["scales"]).sum(), inputs)
    for found, part in zip(gradients(total, inputs), wanted, strict=True):
        torch.testing.assert_close(found, part, rtol=0, atol=1e-12)


def test_float32_is_within_a_millionth(inputs: dict) -> None:
    narrow = in_float32(inputs)
    expected = plain_losses(*(inputs[name] for name in ("hidden", "weight", "bias", "targets")))

    total, losses = full_losses(**narrow)

    torch.testing.assert_close(losses.double(), expected.detach(), rtol=1e-6, atol=1e-6)
    wanted = gradients((expected * inputs["scales"]).mean(), inputs)
    for found, part in zip(gradients(total / PREDICTIONS, narrow), wanted, strict=True):
        torch.testing.assert_close(found.double(), part, rtol=1e-5, atol=1e-6)


def test_autocast_multiplies_in_bfloat16_and_adds_in_float32(inputs: dict) -> None:
    narrow = in_float32(inputs)
    exact = full_losses(**narrow)[1]

    with torch.autocast("cpu", torch.bfloat16):
        total, losses = full_losses(**narrow)

    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses, exact, rtol=0.02, atol=0.05)
    assert all(part.dtype == torch.float32 for part in gradients(total, narrow))


@pytest.mark.parametrize("words", [3, 20_000])
def test_autocast_in_float16_loses_no_gradient(words: int) -> None:
    # as at the start of a training, where all words are as likely; of 3 words, sums over many rows are large
    generator = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(4000, 16, generator=generator), 0.1 * torch.randn(words + 1, 16, generator=generator)
    targets = torch.randint(1, words + 1, (4000,), generator=generator)
    inputs = {"hidden": hidden.requires_grad_(), "weight": weight.requires_grad_()}
    inputs = {**inputs, "bias": torch.zeros(words + 1, requires_grad=True), "targets": targets}
    inputs["scales"] = torch.full((4000,), 1 / 4000)
    expected = gradients(full_losses(**inputs)[0], inputs)

    with torch.autocast("cpu", torch.float16):
        total, _ = full_losses(**inputs)

    for part, exact in zip(gradients(total, inputs), expected, strict=True):
        assert (part - exact).abs().sum() < 2e-3 * exact.abs().sum()


def test_no_predictions_cost_nothing(inputs: dict) -> None:
    none = {name: part[:0] if name in ("hidden", "targets", "scales") else part for name, part in inputs.items()}

    total, losses = full_losses(**none)

    assert total == 0
    assert losses.shape == (0,)
    assert not any(part.any() for part in torch.autograd.grad(total, [none["weight"], none["bias"]]))


def test_a_frozen_softmax_passes_the_gradient_on(inputs: dict) -> None:
    expected = gradients(full_losses(**inputs)[0], inputs)[0]
    frozen = {name: part.detach() if name in ("weight", "bias") else part for name, part in inputs.items()}

    (found,) = torch.autograd.grad(full_losses(**frozen)[0], [frozen["hidden"]])

    torch.testing.assert_close(found, expected)


def test_a_vocabulary_of_the_original_never_makes_all_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    words, sizes, multiply = 793_471, [], softmax_elmo.multiply
    monkeypatch.setattr(softmax_elmo, "multiply", lambda *f: sizes.append(f[1].shape[0]) or multiply(*f))
    hidden, weight = torch.zeros(130, 1), torch.zeros(words + 1, 1)

    _, losses = full_losses(hidden, weight, torch.zeros(words + 1), torch.ones(130, dtype=torch.long), torch.ones(130))

    assert sizes == [64, 64, 2]
    torch.testing.assert_close(losses, torch.full((130,), math.log(words)), rtol=1e-5, atol=0)


def test_a_sample_has_distinct_words_and_as_many_tries_as_a_slow_loop() -> None:
    compared = 0
    for seed in range(20):
        torch.manual_seed(seed)
        negatives, tries = sample_words(12, WORDS, torch.device("cpu"))
        torch.manual_seed(seed)
        # drawn one after the other from the same random numbers: 24 at first, enough here
        seen: list[int] = []
        drawn = [
            int(math.exp(draw * math.log(WORDS + 1))) - 1 for draw in torch.rand(24, dtype=torch.float64).tolist()
        ]
        for number in drawn:
            if number not in seen:
                seen.append(number)
        # else more were drawn than the 24 at first
        if len(seen) >= 12:
            assert negatives.tolist() == seen[:12]
            assert tries == drawn.index(seen[11]) + 1
            compared += 1
        assert len(set(negatives.tolist())) == 12
        assert 0 <= int(negatives.min()) <= int(negatives.max()) < WORDS
    assert compared >= 5


def test_words_are_drawn_as_often_as_expected() -> None:
    torch.manual_seed(0)
    rounds, counts, expected = 4000, torch.zeros(WORDS), torch.zeros(WORDS, dtype=torch.float64)
    for _ in range(rounds):
        negatives, tries = sample_words(8, WORDS, torch.device("cpu"))
        counts[negatives] += 1
        expected += log_expected_count(torch.arange(WORDS), WORDS, tries).exp()

    deviation = (expected.clamp(min=1)).sqrt()
    assert ((counts - expected).abs() < 5 * deviation).all()
    assert log_uniform(torch.arange(WORDS), WORDS).exp().sum().item() == pytest.approx(1)


def test_sampled_losses_equal_a_loop(inputs: dict) -> None:
    negatives, tries = torch.tensor([0, 3, 30, 11]), 9
    arrays = {name: part.detach().numpy() for name, part in inputs.items()}

    def corrected(row: int, word: int) -> float:
        probability = math.log((word + 1) / word) / math.log(WORDS + 1)
        score = arrays["hidden"][row] @ arrays["weight"][word] + arrays["bias"][word]
        return score - math.log(1 - (1 - probability) ** tries)

    expected = []
    for row, target in enumerate(arrays["targets"]):
        others = [corrected(row, int(number) + 1) for number in negatives if number + 1 != target]
        expected.append(np.logaddexp.reduce([corrected(row, target), *others]) - corrected(row, target))

    total, losses = sampled_losses(**inputs, negatives=negatives, tries=tries)

    np.testing.assert_allclose(losses, expected, rtol=0, atol=1e-10)
    assert total.item() == pytest.approx(float(np.dot(expected, arrays["scales"])))


def test_sampled_gradients_are_those_of_autograd(inputs: dict) -> None:
    negatives, tries = torch.tensor([0, 3, 30, 11]), 9
    rows = negatives + 1
    hidden, weight, bias, targets = (inputs[name] for name in ("hidden", "weight", "bias", "targets"))
    count = log_expected_count(torch.arange(WORDS), WORDS, tries)
    logits = hidden @ weight[rows].T + bias[rows] - count[negatives]
    logits = logits.masked_fill(targets[:, None] == rows, -math.inf)
    own = (hidden * weight[targets]).sum(dim=1) + bias[targets] - count[targets - 1]
    plain = torch.cat([own[:, None], logits], dim=1).logsumexp(dim=1) - own

    total, _ = sampled_losses(**inputs, negatives=negatives, tries=tries)

    expected = gradients((plain * inputs["scales"]).sum(), inputs)
    for found, part in zip(gradients(total, inputs), expected, strict=True):
        torch.testing.assert_close(found, part, rtol=0, atol=1e-10)


def mean_gradients(
    samples: int, rounds: int, targets: torch.Tensor, weight: torch.Tensor, hidden: torch.Tensor
) -> torch.Tensor:
    """The gradient of the weights, sampled softmax, for each of many draws."""
    drawn = []
    scales, bias = torch.full((len(hidden),), 1 / len(hidden), dtype=hidden.dtype), torch.zeros_like(weight[:, 0])
    for _ in range(rounds):
        negatives, tries = sample_words(samples, WORDS, hidden.device)
        total, _ = sampled_losses(hidden, weight, bias, targets, scales, negatives, tries)
        drawn.append(torch.autograd.grad(total, weight)[0])
    return torch.stack(drawn)


def test_where_words_follow_the_model_the_sampled_gradient_is_on_average_that_of_all_words() -> None:
    # zero, that is: neither moves a model that is right already
    torch.manual_seed(0)
    hidden = torch.randn(1, WIDTH, dtype=torch.float64).expand(20_000, -1)
    weight = torch.randn(WORDS + 1, WIDTH, dtype=torch.float64).mul_(0.7).requires_grad_()
    probabilities = (hidden[0] @ weight[1:].T).softmax(dim=0).detach()
    targets = torch.multinomial(probabilities, len(hidden), replacement=True) + 1

    drawn = mean_gradients(8, 200, targets, weight, hidden)

    error = drawn.std(dim=0) / math.sqrt(len(drawn)) + 3 / math.sqrt(len(hidden)) * hidden[0].abs()
    assert (drawn.mean(dim=0).abs() < 4 * error).all()


def test_elsewhere_the_bias_of_the_sampled_gradient_falls_as_the_sample_grows() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(100, WIDTH, dtype=torch.float64)
    weight = torch.randn(WORDS + 1, WIDTH, dtype=torch.float64).requires_grad_()
    targets = torch.randint(1, WORDS + 1, (100,))
    scales, bias = torch.full((100,), 0.01, dtype=torch.float64), torch.zeros(WORDS + 1, dtype=torch.float64)
    exact = torch.autograd.grad(full_losses(hidden, weight, bias, targets, scales)[0], weight)[0]

    errors = [
        (mean_gradients(samples, 300, targets, weight, hidden).mean(dim=0) - exact).norm().item()
        for samples in (4, 12, 36)
    ]

    assert errors[0] > 1.3 * errors[1]
    assert errors[1] > 1.3 * errors[2]


def test_the_module_samples_in_training_only() -> None:
    softmax = ElmoSoftmax(tiny_config(vocab_size=WORDS + 1, num_negative_samples=5))
    torch.nn.init.normal_(softmax.weight)
    hidden, targets, scales = torch.randn(9, 8), torch.arange(1, 10), torch.ones(9)
    whole = full_losses(hidden, softmax.weight, softmax.bias, targets, scales)[1]

    assert torch.equal(softmax.eval()(hidden, targets, scales)[1], whole)
    assert (softmax.train()(hidden, targets, scales)[1] != whole).any()


def test_padding_is_never_predicted() -> None:
    softmax = ElmoSoftmax(tiny_config(vocab_size=WORDS + 1))

    assert (softmax(torch.randn(3, 2, 8))[..., 0] == torch.finfo().min).all()
