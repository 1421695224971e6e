"""`model.kernels_elmo`: kernels are used where they are installed, and only on tensors that need no gradients."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

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


@pytest.fixture(params=[*native.usable_libraries()])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each level of instructions."""
    monkeypatch.setenv("ELMO_HF_LEVEL", request.param)
    native.load.cache_clear()
    yield request.param
    native.load.cache_clear()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (7, 50), (16, 33), (64, 512), (33, 1030)])
def test_the_compiled_code_multiplies_as_torch_does(shape: tuple[int, int], bias: bool) -> None:
    module, rows = nn.Linear(*shape[::-1], bias=bias).requires_grad_(False), torch.randn(3, 5, shape[1])

    found = native.linear(rows, module.weight, module.bias)

    torch.testing.assert_close(found.double(), module.double()(rows.double()), atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (7, 50), (16, 33), (64, 512), (33, 1030)])
def test_sums_of_bfloat16_are_in_float32(shape: tuple[int, int], tiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module, rows = nn.Linear(*shape[::-1]).bfloat16().requires_grad_(False), torch.randn(3, 5, shape[1]).bfloat16()
    monkeypatch.setattr(native, "has_tiles", lambda: tiles)

    found = native.linear(rows, module.weight, module.bias)

    # only the result is rounded
    wanted = module.double()(rows.double())
    torch.testing.assert_close(found, wanted.bfloat16(), atol=1e-6, rtol=2**-7)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_has_the_same_bits_among_others_and_on_any_number_of_threads(dtype: torch.dtype) -> None:
    weight, rows = torch.randn(70, 600).to(dtype), torch.randn(300, 600).to(dtype)
    alone = torch.cat([native.linear(row[None], weight, None) for row in rows])

    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            assert torch.equal(native.linear(rows, weight, None), alone)
    finally:
        torch.set_num_threads(before)


def test_no_rows_have_no_results() -> None:
    assert native.linear(torch.randn(0, 4), torch.randn(3, 4), None).shape == (0, 3)


def test_other_tensors_are_multiplied_by_torch() -> None:
    module, rows = nn.Linear(50, 7).requires_grad_(False), torch.randn(3, 50)

    assert native.linear(rows.double(), module.weight.double(), module.bias.double()) is None
    assert native.linear(rows, module.weight.bfloat16(), None) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(rows, module.weight, module.bias).dtype == torch.bfloat16


MODULE = nn.Linear(50, 7).requires_grad_(False)
ROWS = torch.randn(3, 50)


@pytest.mark.parametrize(
    ("rows", "weight", "bias"),
    [
        (ROWS[:, :40], MODULE.weight, None),
        (torch.tensor(1.0), MODULE.weight, None),
        (ROWS, MODULE.weight, MODULE.bias[:5]),
        (ROWS, MODULE.weight, torch.randn(9)),
    ],
)
def test_shapes_that_do_not_fit_are_torchs_error(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> None:
    with pytest.raises(RuntimeError, match=r"size|shape|dimension|1D"):
        linear(rows, weight, bias)


@pytest.mark.parametrize(
    ("rows", "weight", "bias"),
    [
        (ROWS, MODULE.weight, MODULE.bias[:1]),
        (ROWS, MODULE.weight, torch.tensor(2.0)),
        (ROWS, MODULE.weight[0], None),
        (ROWS[0], MODULE.weight, MODULE.bias),
        (ROWS[:, :0], MODULE.weight[:, :0], MODULE.bias),
        (torch._neg_view(ROWS), MODULE.weight, MODULE.bias),
        (ROWS, torch._neg_view(MODULE.weight), MODULE.bias),
        (ROWS.to_sparse(), MODULE.weight, None),
        (ROWS.expand(2, 3, 50), MODULE.weight, MODULE.bias),
    ],
)
def test_unusual_tensors_give_what_torch_gives(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> None:
    found, wanted = linear(rows, weight, bias), nn.functional.linear(rows, weight, bias)

    torch.testing.assert_close(found, wanted)


def test_memory_that_was_taken_away_is_torchs_error() -> None:
    weight = torch.randn(7, 50)
    weight.untyped_storage().resize_(0)

    with pytest.raises(RuntimeError):
        linear(ROWS, weight, None)


def test_meta_tensors_and_modes_stay_with_torch() -> None:
    assert linear(ROWS.to("meta"), MODULE.weight.to("meta"), None).device.type == "meta"
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert type(linear(ROWS, MODULE.weight, None)) is FakeTensor
    traced = make_fx(lambda rows: linear(rows, MODULE.weight, MODULE.bias))(ROWS)
    torch.testing.assert_close(traced(2 * ROWS), MODULE(2 * ROWS))


def test_a_compiler_sees_one_graph() -> None:
    compiled = torch.compile(lambda rows: linear(rows, MODULE.weight, MODULE.bias), fullgraph=True, backend="eager")

    torch.testing.assert_close(compiled(ROWS), MODULE(ROWS))


@pytest.mark.parametrize("chosen", ["packed", "reference"])
def test_the_environment_chooses_torch_for_products_too(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_HF_RECURRENCE", chosen)
    monkeypatch.setattr("elmo_hf.kernels.linear", None)
    module, rows = nn.Linear(50, 7).requires_grad_(False), torch.randn(3, 50)

    assert torch.equal(linear(rows, module.weight, module.bias), module(rows))


@pytest.mark.parametrize("installed", [True, False])
def test_what_is_trained_is_multiplied_by_torch(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module, rows = nn.Linear(50, 7).bfloat16(), torch.randn(3, 50).bfloat16()
    if not installed:
        monkeypatch.setattr(kernels_elmo, "find_kernels", lambda: None)
        module.requires_grad_(False)

    assert torch.equal(linear(rows, module.weight, module.bias), module(rows))
