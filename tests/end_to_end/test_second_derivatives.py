"""Gradients of gradients are right, and so are the transforms of `torch.func`."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import nn

from elmo_hf import ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from elmo_hf.kernels.native import NativeBackend
from elmo_hf.model.packing_elmo import pack_words
from support.tiny_models import batch, tiny_model


def bilm(dtype: torch.dtype) -> tuple[nn.Module, Callable]:
    model, inputs = tiny_model(ElmoModel, num_hidden_layers=1).to(dtype), batch([3, 2, 4])
    return model, lambda: model(**inputs).last_hidden_state.square().sum()


def tagger(dtype: torch.dtype) -> tuple[nn.Module, Callable]:
    model = tiny_model(ElmoForTokenClassification, num_labels=3, freeze_bilm=False).to(dtype)
    inputs = batch([3, 2, 4])
    labels = torch.where(inputs["attention_mask"].bool(), inputs["input_ids"] % 3, -100).flatten()
    # Transformers' loss is in float32, too coarse for finite differences
    return model, lambda: nn.functional.cross_entropy(model(**inputs).logits.flatten(0, 1), labels)


def crf_tagger(dtype: torch.dtype) -> tuple[nn.Module, Callable]:
    model = tiny_model(ElmoForTokenClassification, num_labels=3, head="bilstm-crf", head_hidden_size=4).to(dtype)
    inputs = batch([3, 2, 4])
    labels = torch.where(inputs["attention_mask"].bool(), inputs["input_ids"] % 3, -100)
    return model, lambda: model(**inputs, labels=labels).loss


def role_labeller(dtype: torch.dtype) -> tuple[nn.Module, Callable]:
    fields = {"head": "alternating-lstm", "head_hidden_size": 3, "num_labels": 3}
    model, inputs = tiny_model(ElmoForTokenClassification, **fields).to(dtype), batch([3, 2, 4])
    labels = torch.where(inputs["attention_mask"].bool(), inputs["input_ids"] % 3, -100)
    inputs["token_type_ids"] = inputs["input_ids"] % 2
    return model, lambda: model(**inputs, labels=labels).loss


def language_model(dtype: torch.dtype, samples: int = 0) -> tuple[nn.Module, Callable]:
    fields = {"num_negative_samples": samples, "hidden_dropout_prob": 0.0}
    model, inputs = tiny_model(ElmoForPreTraining, **fields).to(dtype), batch([3, 2, 4])
    model.train(samples > 0)

    def loss() -> torch.Tensor:
        # the same sample each time
        torch.manual_seed(0)
        return model(**inputs, labels=inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)).loss

    return model, loss


def sampled_language_model(dtype: torch.dtype) -> tuple[nn.Module, Callable]:
    return language_model(dtype, samples=4)


each_model = pytest.mark.parametrize(
    "make", [bilm, tagger, crf_tagger, role_labeller, language_model, sampled_language_model]
)


def trained(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def directions(parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randn(part.shape, generator=generator, dtype=torch.float64).to(part.dtype) / part.numel() ** 0.5
        for part in parameters
    ]


def hessian_vector_product(model: nn.Module, loss: Callable) -> torch.Tensor:
    parameters = trained(model)
    first = torch.autograd.grad(loss(), parameters, create_graph=True, allow_unused=True)
    pairs = [(one, other) for one, other in zip(first, directions(parameters), strict=True) if one is not None]
    product = sum((one * other).sum() for one, other in pairs)
    return flatten(torch.autograd.grad(product, parameters, allow_unused=True), parameters)


def flatten(gradients: Sequence[torch.Tensor | None], parameters: list[nn.Parameter]) -> torch.Tensor:
    pairs = zip(gradients, parameters, strict=True)
    return torch.cat([(torch.zeros_like(part) if one is None else one).flatten() for one, part in pairs])


def finite_difference(model: nn.Module, loss: Callable, step: float = 1e-6) -> torch.Tensor:
    parameters, gradients = trained(model), []
    for shift in (step, -2 * step):
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions(parameters), strict=True):
                parameter += shift * direction
        gradients.append(flatten(torch.autograd.grad(loss(), parameters, allow_unused=True), parameters))
    return (gradients[0] - gradients[1]) / (2 * step)


@each_model
@pytest.mark.parametrize("recurrence", ["", "reference"])
def test_products_with_the_hessian_agree_with_finite_differences(
    make: Callable, recurrence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_HF_RECURRENCE", recurrence)
    model, loss = make(torch.float64)

    product, expected = hessian_vector_product(model, loss), finite_difference(model, loss)

    assert expected.norm() > 1e-3
    assert (product - expected).norm() < 1e-6 * expected.norm()


@each_model
def test_products_with_the_hessian_through_the_compiled_code(make: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    model, loss = make(torch.float32)
    compute, calls = NativeBackend.forward, []
    monkeypatch.setattr(NativeBackend, "forward", lambda *given: calls.append(1) or compute(*given))

    product = hessian_vector_product(model, loss)

    expected = hessian_vector_product(*make(torch.float64))
    assert calls
    assert (product - expected).norm() < 1e-4 * expected.norm()


@each_model
def test_a_sum_of_gradients_has_the_reference_s_gradient(make: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for recurrence in ("", "reference"):
        monkeypatch.setenv("ELMO_HF_RECURRENCE", recurrence)
        model, loss = make(torch.float64)
        first = torch.autograd.grad(loss(), trained(model), create_graph=True, allow_unused=True)
        penalty = sum(part.sum() for part in first if part is not None)
        penalty.backward()
        found.append([part.grad for part in trained(model)])

    torch.testing.assert_close(found[0], found[1])


def test_third_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for recurrence in ("", "reference"):
        monkeypatch.setenv("ELMO_HF_RECURRENCE", recurrence)
        model, loss = bilm(torch.float64)
        value, parameters = loss(), trained(model)
        for _ in range(3):
            parts = torch.autograd.grad(value, parameters, create_graph=True, allow_unused=True)
            value = sum(part.sum() for part in parts if part is not None)
        found.append(value)

    torch.testing.assert_close(found[0], found[1])


def test_a_state_that_was_computed_with_the_same_weights_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for recurrence in ("", "reference"):
        monkeypatch.setenv("ELMO_HF_RECURRENCE", recurrence)
        model, inputs = tiny_model(ElmoModel, num_hidden_layers=1).double(), batch([3, 2])
        state = model(**inputs, use_cache=True).state
        loss = model(**inputs, state=state).last_hidden_state.square().sum()
        weight = model.layers[0].recurrent_weight
        (first,) = torch.autograd.grad(loss, weight, create_graph=True)
        found.append((first, *torch.autograd.grad(first.square().sum(), weight)))

    torch.testing.assert_close(found[0], found[1])


def test_projections_that_cannot_be_computed_again_are_refused() -> None:
    model, loss = bilm(torch.float64)
    model.layers[0].input_projections[0].register_forward_hook(lambda *given: 2 * given[2])

    with pytest.raises(RuntimeError, match="set ELMO_HF_RECURRENCE=reference"):
        torch.autograd.grad(loss(), trained(model), create_graph=True, allow_unused=True)


def functional(make: Callable) -> tuple[Callable, dict[str, torch.Tensor]]:
    """Make a model's loss a function of its trained parameters."""
    model, loss = make(torch.float64)
    parameters = {name: part.detach() for name, part in model.named_parameters() if part.requires_grad}

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> torch.Tensor:
            return loss()

    def compute(given: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.func.functional_call(Loss(), {f"model.{name}": part for name, part in given.items()}, ())

    return compute, parameters


@each_model
def test_grad_of_torch_func(make: Callable) -> None:
    compute, parameters = functional(make)
    model, loss = make(torch.float64)
    names = [name for name, part in model.named_parameters() if part.requires_grad]

    found = torch.func.grad(compute)(parameters)

    expected = torch.autograd.grad(loss(), trained(model), allow_unused=True)
    for name, part in zip(names, expected, strict=True):
        torch.testing.assert_close(found[name], torch.zeros_like(found[name]) if part is None else part)


@pytest.mark.parametrize("make", [bilm, tagger, language_model])
def test_jvp_of_torch_func(make: Callable) -> None:
    compute, parameters = functional(make)
    tangents = dict(zip(parameters, directions(list(parameters.values())), strict=True))

    _, found = torch.func.jvp(compute, (parameters,), (tangents,))

    gradients = torch.func.grad(compute)(parameters)
    torch.testing.assert_close(found, sum((gradients[name] * tangents[name]).sum() for name in parameters))


def test_forward_mode_goes_through_what_is_frozen() -> None:
    # the compiled code would read the numbers and lose their tangents
    model = tiny_model(ElmoModel, num_hidden_layers=1).requires_grad_(False)
    layer, packing = model.layers[0], pack_words(torch.ones(1, 3, dtype=torch.bool))
    below = torch.randn(1, 3, model.config.hidden_size)
    tangent = torch.randn_like(below)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(below, tangent)
        _, found = torch.autograd.forward_ad.unpack_dual(layer(dual, packing)[0])

    step = 1e-3
    expected = (layer(below + step * tangent, packing)[0] - layer(below - step * tangent, packing)[0]) / (2 * step)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-2)


def test_vmap_over_the_classifier() -> None:
    model, _ = tagger(torch.float64)
    inputs, biases = batch([3, 2]), torch.randn(4, 3, dtype=torch.float64)

    def compute(bias: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, {"classifier.bias": bias}, (), inputs).logits

    found = torch.func.vmap(compute)(biases)

    torch.testing.assert_close(found, torch.stack([compute(bias) for bias in biases]))
