"""`model.recurrence_elmo`: the fast path and the readable one agree in outputs, states and gradients."""

import importlib
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from elmo_hf.model import native_elmo, recurrence_elmo
from elmo_hf.model.packing_elmo import all_places, pack_words
from elmo_hf.model.recurrence_elmo import (
    RECURRENCES,
    InputProjections,
    LstmWeights,
    native_recurrence,
    packed_recurrence,
    read_words,
    recurrence,
    reference_recurrence,
    scanned_recurrence,
)
from support.random_layers import gradients, random_layer, single


CASES = [
    pytest.param({"lengths": [1]}, id="one word"),
    pytest.param({"lengths": [4, 7, 2]}, id="unequal"),
    pytest.param({"lengths": [0, 3, 0, 5]}, id="empty sentences"),
    pytest.param({"lengths": [6, 6], "projected": False}, id="no projection"),
    pytest.param({"lengths": [2, 9, 1], "clip": None}, id="no clips"),
    pytest.param({"lengths": [63]}, id="long"),
]


@pytest.mark.parametrize("case", CASES)
def test_packed_agrees_with_reference(case: dict) -> None:
    inputs, steps, state, weights = random_layer(**case)

    fast, fast_state = packed_recurrence(inputs, steps, state, weights)
    slow, slow_state = reference_recurrence(inputs, steps, state, weights)

    torch.testing.assert_close(fast, slow, atol=1e-12, rtol=0)
    torch.testing.assert_close(fast_state, slow_state, atol=1e-12, rtol=0)


@pytest.mark.parametrize("case", CASES)
def test_gradients_agree_with_reference(case: dict) -> None:
    layer = random_layer(**case)

    torch.testing.assert_close(
        gradients(packed_recurrence, *layer), gradients(reference_recurrence, *layer), atol=1e-10, rtol=0
    )


NATIVE_CASES = [
    *CASES,
    pytest.param({"lengths": [3, 5], "width": 21, "cell": 33}, id="two sentences, odd sizes"),
    pytest.param({"lengths": [3, 5, 4, 5, 1, 2, 2], "width": 21, "cell": 33}, id="odd sizes"),
    pytest.param({"lengths": [4, 3, 3, 2] * 7, "width": 32, "cell": 64}, id="whole panels"),
    pytest.param({"lengths": [2, 2, 2], "width": 530, "cell": 40, "clip": None}, id="deep"),
    pytest.param({"lengths": [2, 1], "width": 7, "cell": 1030}, id="deep projection of few"),
]


@pytest.fixture
def compiled() -> None:
    missing = native_elmo.load()
    assert not isinstance(missing, Exception), f"the suite needs a C++ compiler: {missing}"


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("compiled", "threads")
@pytest.mark.parametrize("case", NATIVE_CASES)
def test_compiled_agrees_with_reference(case: dict) -> None:
    layer = random_layer(**case)

    fast, fast_state = native_recurrence(*single(layer))
    slow, slow_state = reference_recurrence(*layer)

    # sums of more terms, of which some cancel
    atol = 2e-6 if case.get("width", 0) < 500 else 2e-5
    torch.testing.assert_close(fast.double(), slow, atol=atol, rtol=1e-5)
    torch.testing.assert_close(tuple(part.double() for part in fast_state), slow_state, atol=atol, rtol=1e-5)


@pytest.mark.usefixtures("compiled", "threads")
@pytest.mark.parametrize("case", NATIVE_CASES[: len(CASES) + 3])
def test_gradients_of_the_compiled_agree_with_reference(case: dict) -> None:
    layer = random_layer(**case)

    fast = gradients(native_recurrence, *single(layer))

    for one, other in zip(fast, gradients(reference_recurrence, *layer), strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("width", "cell"), [(21, 33), (32, 64), (64, 64)])
def test_compiled_gives_the_same_bits_whatever_is_beside(width: int, cell: int) -> None:
    inputs, steps, state, weights = single(random_layer([6] * 17, width=width, cell=cell, projected=width != cell))
    whole, ended = native_recurrence(inputs, steps, state, weights)

    for sentences in ([3], [0, 5], [2, 3, 4], [0, 1, 2, 3, 4, 16]):
        words = torch.tensor([time * 17 + sentence for time in range(6) for sentence in sentences])
        part = tuple(one[:, sentences] for one in state)
        few, few_ended = native_recurrence(inputs[:, words], [len(sentences)] * 6, part, weights)
        assert torch.equal(few, whole[:, words])
        assert all(torch.equal(one, other[:, sentences]) for one, other in zip(few_ended, ended, strict=True))


@pytest.mark.usefixtures("compiled")
def test_compiled_keeps_what_is_no_number() -> None:
    inputs, steps, state, weights = single(random_layer([3, 3, 2], width=20, cell=30))
    inputs = inputs.detach()
    inputs[0, 0, 4], inputs[0, 1, 5], inputs[0, 2, 6] = torch.nan, torch.inf, -torch.inf

    fast, _ = native_recurrence(inputs, steps, state, weights)

    torch.testing.assert_close(fast, packed_recurrence(inputs, steps, state, weights)[0], equal_nan=True)


def test_other_dtypes_are_computed_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = random_layer([3, 2])
    monkeypatch.setattr("elmo_hf.model.recurrence_elmo.native_steps", None)

    torch.testing.assert_close(recurrence(*layer), reference_recurrence(*layer))


def test_without_compiled_code_torch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = single(random_layer([3, 2]))
    monkeypatch.setattr("elmo_hf.model.recurrence_elmo.load", lambda: native_elmo.NotCompiledError("no compiler"))

    torch.testing.assert_close(recurrence(*layer), packed_recurrence(*layer), atol=0, rtol=0)
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "native")
    with pytest.raises(ValueError, match="there is no compiled recurrence: no compiler"):
        recurrence(*layer)


def test_gradcheck() -> None:
    inputs, steps, state, weights = random_layer([3, 1, 2], width=2, cell=3, clip=None)

    def run(*leaves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        gates, hidden, cell, recurrent, output = leaves
        outputs, ended = packed_recurrence(gates, steps, (hidden, cell), LstmWeights(recurrent, output, None, None))
        return outputs, *ended

    assert torch.autograd.gradcheck(run, (inputs, *state, weights.recurrent, weights.output))


def test_the_environment_chooses_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = random_layer([3, 2])
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "reference")
    monkeypatch.delitem(RECURRENCES, "packed")

    outputs, _ = recurrence(*arguments)

    torch.testing.assert_close(outputs, reference_recurrence(*arguments)[0])


def test_an_unknown_recurrence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "fast")

    with pytest.raises(ValueError, match="'fast'; it can be one of graphs, native, packed, reference, triton"):
        recurrence(*random_layer([3, 2]))


@pytest.mark.parametrize("clip", [0.4, None])
@pytest.mark.parametrize("projected", [True, False])
def test_the_loop_of_an_export_agrees_with_the_reference(
    clip: float | None, projected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plain_scan(step: object, state: object, places: tuple) -> tuple:
        outputs = []
        for place in zip(*places, strict=True):
            state, output = step(state, place)
            outputs.append(output)
        return state, torch.stack(outputs)

    # the package holds a function under the name of this module
    monkeypatch.setattr(importlib.import_module("torch._higher_order_ops.scan"), "scan", plain_scan)
    # holes, nothing, and padding at either side
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]]).bool()
    width, cell = (3, 5) if projected else (5, 5)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64)

    weights = LstmWeights(random(2, width, 4 * cell), random(2, cell, width) if projected else None, clip, clip)
    state = random(2, 4, width), random(2, 4, cell)
    inputs = random(2, mask.numel(), 4 * cell)
    every, packed = all_places(mask), pack_words(mask)

    outputs, ended = scanned_recurrence(
        inputs.gather(1, every.words[..., None].expand(inputs.shape)), every.steps, state, weights
    )

    few = packed.words[..., None].expand(2, -1, 4 * cell)
    sorted_state = tuple(part[:, packed.sentences] for part in state)
    wanted, wanted_ended = reference_recurrence(inputs.gather(1, few), packed.steps, sorted_state, weights)
    ways = torch.arange(2)[:, None]
    places = torch.zeros(mask.numel(), 2, width, dtype=torch.float64)
    torch.testing.assert_close(
        places.index_put((every.words, ways), outputs),
        places.index_put((packed.words[:, : wanted.shape[1]], ways), wanted),
    )
    torch.testing.assert_close(tuple(part[:, packed.sentences] for part in ended), wanted_ended)
    assert outputs.isfinite().all()


READING_CASES = [
    pytest.param({"lengths": [1]}, id="one word"),
    pytest.param({"lengths": [0, 3, 0, 5]}, id="empty sentences"),
    pytest.param({"lengths": []}, id="no sentences"),
    pytest.param({"lengths": [6, 6], "projected": False}, id="no projection"),
    pytest.param({"lengths": [3, 5], "width": 21, "cell": 33}, id="two sentences, odd sizes"),
    pytest.param({"lengths": [3, 5, 4, 5, 1, 2, 2], "width": 21, "cell": 33, "clip": None}, id="odd sizes, no clips"),
    pytest.param({"lengths": [4, 3, 3, 2] * 7, "width": 32, "cell": 64}, id="whole panels"),
    pytest.param({"lengths": [40, 30, 20, 7] * 5, "width": 8, "cell": 40}, id="several chunks"),
    pytest.param({"lengths": [1] * 300, "width": 8, "cell": 10}, id="more sentences than a chunk has words"),
    pytest.param({"lengths": [2, 2, 2], "width": 530, "cell": 40}, id="deep"),
]


def random_reading(case: dict, dtype: torch.dtype, below_width: int = 0) -> tuple:
    """Arguments of `read_words` in a dtype."""
    inputs, steps, state, weights = random_layer(**case)
    width, gates = weights.recurrent.shape[1:]
    below_width = below_width or width
    projections = nn.ModuleList(nn.Linear(below_width, gates) for _ in range(2)).to(dtype)
    matrices = (None if matrix is None else matrix.detach().to(dtype) for matrix in weights[:2])
    below = torch.randn(2, inputs.shape[1], below_width).to(dtype)
    state = tuple(part.detach().to(dtype) for part in state)
    return below, InputProjections(projections, 1.0), steps, state, LstmWeights(*matrices, *weights[2:])


def reading_reference(
    below: torch.Tensor, projections: InputProjections, steps: list[int], state: tuple, weights: tuple
) -> tuple:
    """The readable path in float64."""
    wide = [None if matrix is None else matrix.double() for matrix in weights[:2]]
    inputs = InputProjections(nn.ModuleList(projections.modules).double(), 1.0).shares(below.double())
    return reference_recurrence(
        inputs, steps, tuple(part.double() for part in state), LstmWeights(*wide, *weights[2:])
    )


@torch.no_grad()
@pytest.mark.usefixtures("compiled", "threads")
@pytest.mark.parametrize("below_width", [0, 45, 600])
@pytest.mark.parametrize("case", READING_CASES)
def test_reading_agrees_with_the_reference(case: dict, below_width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = random_reading(case, torch.float32, below_width)
    monkeypatch.setattr(recurrence_elmo, "recurrence", None)

    outputs, state = read_words(*arguments)

    wanted, wanted_state = reading_reference(*arguments)
    torch.testing.assert_close(outputs.double(), wanted, atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(tuple(part.double() for part in state), wanted_state, atol=2e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("case", READING_CASES)
def test_bfloat16_is_widened(case: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    below, projections, steps, state, weights = random_reading(case, torch.bfloat16)
    # on any processor
    monkeypatch.setattr(recurrence_elmo, "widens", lambda tensor: tensor.dtype == torch.bfloat16)
    monkeypatch.setattr(recurrence_elmo, "recurrence", None)

    outputs, ended = read_words(below, projections, steps, state, weights)

    assert {part.dtype for part in (outputs, *ended)} == {torch.bfloat16}
    wanted, wanted_state = reading_reference(below, projections, steps, state, weights)
    # what is returned is rounded, and nothing before
    torch.testing.assert_close(outputs, wanted.bfloat16(), atol=1e-5, rtol=2**-7)
    torch.testing.assert_close(ended, tuple(part.bfloat16() for part in wanted_state), atol=1e-5, rtol=2**-7)


@torch.no_grad()
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("width", "cell"), [(21, 33), (32, 64)])
def test_the_bits_of_reading_do_not_depend_on_what_is_beside(width: int, cell: int) -> None:
    case = {"lengths": [60] * 17, "width": width, "cell": cell}
    below, projections, steps, state, weights = random_reading(case, torch.float32)
    whole, ended = read_words(below, projections, steps, state, weights)

    for sentences in ([3], [0, 5], [2, 3, 4], [0, 1, 2, 3, 4, 16]):
        words = torch.tensor([time * 17 + sentence for time in range(60) for sentence in sentences])
        part = tuple(one[:, sentences] for one in state)
        few, few_ended = read_words(below[:, words], projections, [len(sentences)] * 60, part, weights)
        assert torch.equal(few, whole[:, words])
        assert all(torch.equal(one, other[:, sentences]) for one, other in zip(few_ended, ended, strict=True))


class Doubled(nn.Linear):
    """A linear map that does something more."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Map `[n, D]`."""
        return 2 * super().forward(rows)


def hooked(module: nn.Linear) -> nn.Module:
    module.register_forward_hook(lambda *given: 2 * given[2])
    return module


def patched(module: nn.Linear) -> nn.Module:
    module.forward = lambda rows: 2 * nn.Linear.forward(module, rows)
    return module


def of_another_class(module: nn.Linear) -> nn.Module:
    doubled = Doubled(module.in_features, module.out_features)
    doubled.load_state_dict(module.state_dict())
    return doubled


@torch.no_grad()
@pytest.mark.parametrize("change", [hooked, patched, of_another_class])
def test_modules_that_do_more_than_multiply_are_called(change: Callable) -> None:
    below, projections, steps, state, weights = random_reading({"lengths": [3, 2, 2]}, torch.float32)
    modules = [change(projections.modules[0]), projections.modules[1]]

    outputs, _ = read_words(below, InputProjections(modules, 1.0), steps, state, weights)

    inputs = torch.stack(
        [2 * nn.functional.linear(below[0], modules[0].weight, modules[0].bias), modules[1](below[1])]
    )
    inputs[:, :, 5:10] += 1
    torch.testing.assert_close(outputs, reference_recurrence(inputs, steps, state, weights)[0])


def test_what_is_trained_gets_its_gradients() -> None:
    below, projections, steps, state, weights = random_reading({"lengths": [3, 2, 2]}, torch.float32)

    read_words(below, projections, steps, state, weights)[0].sum().backward()

    assert all(module.weight.grad is not None for module in projections.modules)


def test_what_is_frozen_is_read_where_something_else_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    below, projections, steps, state, weights = random_reading({"lengths": [3, 2, 2]}, torch.float32)
    projections.modules.requires_grad_(False)
    monkeypatch.setattr(recurrence_elmo, "recurrence", None)

    assert not read_words(below, projections, steps, state, weights)[0].requires_grad


@torch.no_grad()
def test_mixed_precision_is_that_of_torch() -> None:
    below, projections, steps, state, weights = random_reading({"lengths": [3, 2, 2]}, torch.float32)

    with torch.autocast("cpu", torch.bfloat16):
        outputs, ended = read_words(below, projections, steps, state, weights)

    assert {part.dtype for part in (outputs, *ended)} == {torch.bfloat16}
    torch.testing.assert_close(
        outputs.float(), read_words(below, projections, steps, state, weights)[0], atol=2e-2, rtol=0
    )
