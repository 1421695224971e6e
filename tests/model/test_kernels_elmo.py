"""`model.kernels_elmo`: kernels are used where they are installed, and only on tensors that need no gradients."""

import pytest
import torch
from torch import nn

from elmo_hf.kernels import native
from elmo_hf.model import kernels_elmo
from elmo_hf.model.kernels_elmo import is_trained, is_transformed, linear


def test_parameters_are_trained_unless_gradients_are_off() -> None:
    weight = nn.Parameter(torch.ones(2))

    assert is_trained(torch.ones(2), None, weight)
    assert not is_trained(torch.ones(2), None)
    with torch.no_grad():
        assert not is_trained(weight)


def test_every_transform_of_torch_counts_as_training() -> None:
    found = []

    def run(number: torch.Tensor) -> torch.Tensor:
        found.append((is_transformed(), is_trained(torch.ones(1))))
        return number.square().sum()

    torch.func.grad(run)(torch.ones(2))
    torch.func.jvp(run, (torch.ones(2),), (torch.ones(2),))
    torch.func.vmap(run)(torch.ones(2, 2))
    with torch.autograd.forward_ad.dual_level():
        run(torch.ones(2))

    assert found == [(True, True)] * 4
    assert not is_transformed()


@pytest.mark.parametrize("bias", [True, False])
def test_bfloat16_is_multiplied_in_float32_where_that_is_faster(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module, rows = nn.Linear(50, 7, bias=bias).bfloat16().requires_grad_(False), torch.randn(3, 50).bfloat16()
    monkeypatch.setattr(native, "widens", lambda tensor: tensor.dtype == torch.bfloat16)

    widened = linear(rows, module.weight, module.bias)

    wide = None if module.bias is None else module.bias.double()
    exact = nn.functional.linear(rows.double(), module.weight.double(), wide)
    assert torch.equal(widened, exact.bfloat16())


@pytest.mark.parametrize("installed", [True, False])
def test_what_is_trained_is_multiplied_by_torch(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module, rows = nn.Linear(50, 7).bfloat16(), torch.randn(3, 50).bfloat16()
    if not installed:
        monkeypatch.setattr(kernels_elmo, "find_kernels", lambda: None)
        module.requires_grad_(False)

    assert torch.equal(linear(rows, module.weight, module.bias), module(rows))
