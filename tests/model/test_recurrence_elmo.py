"""`model.recurrence_elmo`: the fast path and the readable one agree in outputs, states and gradients."""

import contextlib
import copy
import logging
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator

import pytest
import torch
from torch import nn

from elmo_hf.kernels import native
from elmo_hf.model import kernels_elmo, recurrence_elmo
from elmo_hf.model.recurrence_elmo import (
    InputProjections,
    LstmCall,
    LstmWeights,
    TorchBackend,
    backends,
    reference_lstm,
    run_lstm,
)
from support.random_layers import converted, gradients, leaves, random_layer, run, run_by, single


CASES = [
    pytest.param({"lengths": [1]}, id="one word"),
    pytest.param({"lengths": [4, 7, 2]}, id="unequal"),
    pytest.param({"lengths": [0, 3, 0, 5]}, id="empty sentences"),
    pytest.param({"lengths": [6, 6], "projected": False}, id="no projection"),
    pytest.param({"lengths": [2, 9, 1], "clip": None}, id="no clips"),
    pytest.param({"lengths": [63]}, id="long"),
]
HIGHWAY_CASES = [
    pytest.param({"lengths": [4, 7, 2], "highway": True}, id="highway"),
    pytest.param({"lengths": [0, 9, 0, 5, 5], "highway": True, "clip": None}, id="highway, no clip"),
]


@pytest.mark.parametrize("case", [*CASES, *HIGHWAY_CASES])
def test_packed_agrees_with_reference(case: dict) -> None:
    call = random_layer(**case)

    fast, fast_state = run_by("packed")(call)
    slow, slow_state = reference_lstm(call)

    torch.testing.assert_close(fast, slow, atol=1e-12, rtol=0)
    torch.testing.assert_close(fast_state, slow_state, atol=1e-12, rtol=0)


@pytest.mark.parametrize("case", [*CASES, *HIGHWAY_CASES])
def test_gradients_agree_with_reference(case: dict) -> None:
    call = random_layer(**case)

    fast, slow = gradients(run_by("packed")(call), call), gradients(reference_lstm(call), call)

    torch.testing.assert_close(fast, slow, atol=1e-10, rtol=0)


NATIVE_CASES = [
    *CASES,
    *HIGHWAY_CASES,
    pytest.param({"lengths": [3, 5, 4, 5, 1, 2, 2], "cell": 33, "highway": True}, id="highway, odd sizes"),
    pytest.param({"lengths": [3, 5], "width": 21, "cell": 33}, id="two sentences, odd sizes"),
    pytest.param({"lengths": [3, 5, 4, 5, 1, 2, 2], "width": 21, "cell": 33}, id="odd sizes"),
    pytest.param({"lengths": [4, 3, 3, 2] * 7, "width": 32, "cell": 64}, id="whole panels"),
    pytest.param({"lengths": [2, 2, 2], "width": 530, "cell": 40, "clip": None}, id="deep"),
    pytest.param({"lengths": [2, 1], "width": 7, "cell": 1030}, id="deep projection of few"),
]


# of the levels of instructions that this processor has, the highest first
LEVELS = [*native.usable_libraries()] or [None]


@contextlib.contextmanager
def running_at(level: str | None) -> Iterator[None]:
    assert level, "the suite needs the compiled code: install elmo_hf again where there is a C++ compiler"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELMO_HF_LEVEL", level)
        native.load.cache_clear()
        assert not isinstance(native.load(), Exception)
        yield
    native.load.cache_clear()


@pytest.fixture(params=LEVELS)
def compiled(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each level of instructions."""
    with running_at(request.param):
        yield


@pytest.fixture(params=[(LEVELS[0], 1), (LEVELS[0], 2), (LEVELS[0], 5), *((level, 2) for level in LEVELS[1:])])
def compiled_in_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """The highest level of instructions in several numbers of threads, and the lower ones in two."""
    level, threads = request.param
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    with running_at(level):
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=NATIVE_CASES)
def solved(request: pytest.FixtureRequest) -> tuple:
    """A case, its layer, and the outputs and states that the reference computes once for all levels and threads."""
    call = random_layer(**request.param)
    with torch.no_grad():
        return request.param, call, *reference_lstm(call)


@pytest.fixture(scope="module", params=NATIVE_CASES[:-2])
def differentiated(request: pytest.FixtureRequest) -> tuple:
    """A layer and its gradients by the reference, computed once."""
    call = random_layer(**request.param)
    return call, gradients(reference_lstm(call), call)


@pytest.mark.usefixtures("compiled_in_threads")
def test_compiled_agrees_with_reference(solved: tuple) -> None:
    case, call, slow, slow_state = solved

    fast, fast_state = run_by("native")(single(call))

    # sums of more terms, of which some cancel
    atol = 2e-6 if case.get("width", 0) < 500 else 2e-5
    torch.testing.assert_close(fast.double(), slow, atol=atol, rtol=1e-5)
    torch.testing.assert_close(tuple(part.double() for part in fast_state), slow_state, atol=atol, rtol=1e-5)


@pytest.mark.usefixtures("compiled_in_threads")
def test_gradients_of_the_compiled_agree_with_reference(differentiated: tuple) -> None:
    call, wanted = differentiated
    same = single(call)

    fast = gradients(run_by("native")(same), same)

    for one, other in zip(fast, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("width", "cell"), [(21, 33), (32, 64), (64, 64)])
def test_compiled_gives_the_same_bits_whatever_is_beside(width: int, cell: int) -> None:
    call = single(random_layer([6] * 17, width=width, cell=cell, projected=width != cell))
    whole, ended = run_by("native")(call)

    for sentences in ([3], [0, 5], [2, 3, 4], [0, 1, 2, 3, 4, 16]):
        words = torch.tensor([time * 17 + sentence for time in range(6) for sentence in sentences])
        part = tuple(one[:, sentences] for one in call.state)
        few, few_ended = run_by("native")(
            call._replace(inputs=call.inputs[:, words], batch_sizes=[len(sentences)] * 6, state=part)
        )
        assert torch.equal(few, whole[:, words])
        assert all(torch.equal(one, other[:, sentences]) for one, other in zip(few_ended, ended, strict=True))


@pytest.mark.usefixtures("compiled")
def test_compiled_keeps_what_is_no_number() -> None:
    call = single(random_layer([3, 3, 2], width=20, cell=30))
    inputs = call.inputs.detach()
    inputs[0, 0, 4], inputs[0, 1, 5], inputs[0, 2, 6] = torch.nan, torch.inf, -torch.inf
    call = call._replace(inputs=inputs)

    fast, _ = run_by("native")(call)

    torch.testing.assert_close(fast, run_by("packed")(call)[0], equal_nan=True)


def without(monkeypatch: pytest.MonkeyPatch, cls: type) -> None:
    """Make a backend fail if it runs."""

    def fail(*_: object) -> None:
        raise AssertionError(f"{cls.__name__} runs")

    monkeypatch.setattr(cls, "forward", fail)


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a test change what is installed."""
    backends.cache_clear()
    kernels_elmo.find_kernels.cache_clear()
    yield
    monkeypatch.undo()
    backends.cache_clear()
    kernels_elmo.find_kernels.cache_clear()


def test_other_dtypes_are_computed_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    call = random_layer([3, 2])
    without(monkeypatch, native.NativeBackend)

    torch.testing.assert_close(run(call), reference_lstm(call))


def test_without_compiled_code_torch_computes_and_the_reason_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    call = single(random_layer([3, 2]))
    monkeypatch.setattr(native, "load", lambda: native.NotBuiltError("no library"))
    monkeypatch.setattr(recurrence_elmo, "logger", logging.getLogger("seen"))
    caplog.set_level(logging.INFO, "seen")

    for _ in range(2):
        torch.testing.assert_close(run(call), run_by("packed")(call), atol=0, rtol=0)

    assert [message for message in caplog.messages if message.endswith("'native' code: no library")] == [
        "elmo_hf does not compute a recurrence by its 'native' code: no library"
    ]
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "native")
    with pytest.raises(ValueError, match="'native', but this recurrence cannot be used: no library"):
        run(call)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda patch: patch.setitem(sys.modules, "elmo_hf.kernels", None), "No elmo_hf with kernels is installed"),
        (lambda patch: patch.setattr("elmo_hf.kernels.INTERFACE", 999), "kernels of interface 999, .* needs 3"),
        (lambda patch: patch.delattr("elmo_hf.kernels.INTERFACE"), "kernels of interface None, .* needs 3"),
    ],
)
def test_without_kernels_of_its_interface_torch_computes(
    spoil: Callable, message: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    call = single(random_layer([3, 2]))
    spoil(monkeypatch)
    monkeypatch.setattr(kernels_elmo, "logger", logging.getLogger("seen"))
    caplog.set_level(logging.INFO, "seen")

    for _ in range(2):
        torch.testing.assert_close(run(call), run_by("packed")(call), atol=0, rtol=0)

    assert [backend.name for backend in backends()] == ["packed"]
    assert len(caplog.messages) == 1
    assert re.search(message, caplog.messages[0])
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "native")
    with pytest.raises(ValueError, match=r"'native', but .*: no elmo_hf with its kernels is installed"):
        run(call)


def test_gradcheck() -> None:
    call = random_layer([3, 1, 2], width=2, cell=3, clip=None)

    def computed(*given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        gates, hidden, cell, recurrent, output = given
        weights = LstmWeights(recurrent, output, None, None)
        outputs, ended = run_by("packed")(LstmCall(gates, None, call.batch_sizes, (hidden, cell), weights))
        return outputs, *ended

    assert torch.autograd.gradcheck(computed, leaves(call))


def test_the_environment_chooses_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    call = random_layer([3, 2])
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "reference")
    without(monkeypatch, TorchBackend)

    outputs, _ = run(call)

    torch.testing.assert_close(outputs, reference_lstm(call)[0])


def test_an_unknown_recurrence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "fast")

    with pytest.raises(ValueError, match="'fast'; it can be one of native, packed, reference, triton"):
        run(random_layer([3, 2]))


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
    """Arguments of `run_lstm` in a dtype."""
    inputs, _, batch_sizes, state, weights = random_layer(**case)[:5]
    width, gates = weights.recurrent.shape[1:]
    below_width = below_width or width
    projections = nn.ModuleList(nn.Linear(below_width, gates) for _ in range(2)).to(dtype)
    matrices = (None if matrix is None else matrix.detach().to(dtype) for matrix in weights[:2])
    below = torch.randn(2, inputs.shape[1], below_width).to(dtype)
    state = tuple(part.detach().to(dtype) for part in state)
    return below, InputProjections(projections, 1.0), batch_sizes, state, LstmWeights(*matrices, *weights[2:])


def reading_reference(
    below: torch.Tensor, projections: InputProjections, batch_sizes: list[int], state: tuple, weights: tuple
) -> tuple:
    """The readable path in float64."""
    wide = [None if matrix is None else matrix.double() for matrix in weights[:2]]
    inputs = InputProjections(nn.ModuleList(copy.deepcopy(projections.modules)).double(), 1.0).apply(below.double())
    state = tuple(part.double() for part in state)
    return reference_lstm(LstmCall(inputs, None, batch_sizes, state, LstmWeights(*wide, *weights[2:])))


@pytest.fixture(scope="module", params=[0, 45, 600])
def below_width(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module", params=READING_CASES)
def read(request: pytest.FixtureRequest, below_width: int) -> tuple:
    """Arguments of `run_lstm`, and the outputs and states that the reference computes once."""
    with torch.no_grad():
        arguments = random_reading(request.param, torch.float32, below_width)
        return arguments, *reading_reference(*arguments)


@torch.no_grad()
@pytest.mark.usefixtures("compiled_in_threads")
def test_reading_agrees_with_the_reference(read: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, wanted, wanted_state = read
    monkeypatch.setattr(InputProjections, "apply", None)

    outputs, state = run_lstm(*arguments)

    torch.testing.assert_close(outputs.double(), wanted, atol=5e-6, rtol=1e-5)
    torch.testing.assert_close(tuple(part.double() for part in state), wanted_state, atol=5e-6, rtol=1e-5)


@torch.no_grad()
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("case", READING_CASES)
def test_bfloat16_is_widened(case: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    below, projections, batch_sizes, state, weights = random_reading(case, torch.bfloat16)
    # on any processor
    monkeypatch.setattr(native, "has_tiles", lambda: False)
    monkeypatch.setattr(InputProjections, "apply", None)

    outputs, ended = run_lstm(below, projections, batch_sizes, state, weights)

    assert {part.dtype for part in (outputs, *ended)} == {torch.bfloat16}
    monkeypatch.undo()
    wanted, wanted_state = reading_reference(below, projections, batch_sizes, state, weights)
    # what is returned is rounded, and nothing before
    torch.testing.assert_close(outputs, wanted.bfloat16(), atol=1e-5, rtol=2**-7)
    torch.testing.assert_close(ended, tuple(part.bfloat16() for part in wanted_state), atol=1e-5, rtol=2**-7)


@torch.no_grad()
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("cell", [12, 33, 64])
def test_infinity_stays_in_its_sentence_and_makes_no_more_nan_on_tiles(
    cell: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    below, projections, *rest = random_reading({"lengths": [3, 5, 4], "cell": cell}, torch.bfloat16)
    # one number: two could make NaN of their sum
    below[0, 4, 0] = math.inf
    found = []
    for tiles in (False, True):
        monkeypatch.setattr(native, "has_tiles", lambda tiles=tiles: tiles)
        found.append(run_lstm(below, projections, *rest)[0].isnan())

    assert torch.equal(*found)
    assert not found[0].all(dim=2).all()


def rounding_reference(
    below: torch.Tensor, projections: InputProjections, batch_sizes: list[int], state: tuple, weights: LstmWeights
) -> torch.Tensor:
    """The hidden states by float64, with all factors of products rounded to bfloat16."""

    def rounded(part: torch.Tensor) -> torch.Tensor:
        return part.bfloat16().double()

    modules = nn.ModuleList(copy.deepcopy(projections.modules)).double()
    gates = InputProjections(modules, 1.0).apply(rounded(below))
    recurrent, output = (None if matrix is None else rounded(matrix) for matrix in weights[:2])
    hidden, cell = (part.double() for part in state)
    found, start = [], 0
    for running in batch_sizes:
        step = gates[:, start : start + running] + rounded(hidden[:, :running]) @ recurrent
        i, f, g, o = step.chunk(4, dim=2)
        limit = weights.cell_clip or torch.inf
        cell = (f.sigmoid() * cell[:, :running] + i.sigmoid() * g.tanh()).clamp(-limit, limit)
        hidden = o.sigmoid() * cell.tanh()
        if output is not None:
            limit = weights.projection_clip or torch.inf
            hidden = (rounded(hidden) @ output).clamp(-limit, limit)
        found.append(hidden)
        start += running
    return torch.cat(found, dim=1) if found else state[0].double()


@torch.no_grad()
@pytest.mark.usefixtures("compiled_in_threads")
@pytest.mark.parametrize("case", READING_CASES)
def test_bfloat16_is_multiplied_as_it_is_by_tiles(case: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = random_reading(case, torch.bfloat16, below_width=45)
    wanted = rounding_reference(*arguments)
    # C++ computes in the order of the tiles where there are none
    monkeypatch.setattr(native, "has_tiles", lambda: True)
    monkeypatch.setattr(InputProjections, "apply", None)

    outputs, ended = run_lstm(*arguments)

    assert {part.dtype for part in (outputs, *ended)} == {torch.bfloat16}
    # a sum near the middle between two numbers of bfloat16 may be rounded to the other one
    torch.testing.assert_close(outputs.double(), wanted, atol=3e-3, rtol=2**-7)


@torch.no_grad()
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("width", "cell"), [(21, 33), (32, 64)])
def test_the_bits_of_reading_do_not_depend_on_what_is_beside(
    width: int, cell: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "has_tiles", lambda: True)
    case = {"lengths": [60] * 17, "width": width, "cell": cell}
    below, projections, batch_sizes, state, weights = random_reading(case, dtype)
    whole, ended = run_lstm(below, projections, batch_sizes, state, weights)

    for sentences in ([3], [0, 5], [2, 3, 4], [0, 1, 2, 3, 4, 16]):
        words = torch.tensor([time * 17 + sentence for time in range(60) for sentence in sentences])
        part = tuple(one[:, sentences] for one in state)
        few, few_ended = run_lstm(below[:, words], projections, [len(sentences)] * 60, part, weights)
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
    below, projections, batch_sizes, state, weights = random_reading({"lengths": [3, 2, 2]}, torch.float32)
    modules = [change(projections.modules[0]), projections.modules[1]]

    outputs, _ = run_lstm(below, InputProjections(modules, 1.0), batch_sizes, state, weights)

    inputs = torch.stack(
        [2 * nn.functional.linear(below[0], modules[0].weight, modules[0].bias), modules[1](below[1])]
    )
    inputs[:, :, 5:10] += 1
    wanted, _ = reference_lstm(LstmCall(inputs, None, batch_sizes, state, weights))
    torch.testing.assert_close(outputs, wanted)


def test_what_is_trained_gets_its_gradients() -> None:
    below, projections, batch_sizes, state, weights = random_reading({"lengths": [3, 2, 2]}, torch.float32)

    run_lstm(below, projections, batch_sizes, state, weights)[0].sum().backward()

    assert all(module.weight.grad is not None for module in projections.modules)


def test_what_is_frozen_is_read_where_something_else_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    below, projections, batch_sizes, state, weights = random_reading({"lengths": [3, 2, 2]}, torch.float32)
    projections.modules.requires_grad_(False)
    monkeypatch.setattr(InputProjections, "apply", None)

    assert not run_lstm(below, projections, batch_sizes, state, weights)[0].requires_grad


@torch.no_grad()
def test_mixed_precision_is_that_of_torch() -> None:
    below, projections, batch_sizes, state, weights = random_reading({"lengths": [3, 2, 2]}, torch.float32)

    with torch.autocast("cpu", torch.bfloat16):
        outputs, ended = run_lstm(below, projections, batch_sizes, state, weights)

    assert {part.dtype for part in (outputs, *ended)} == {torch.bfloat16}
    torch.testing.assert_close(
        outputs.float(), run_lstm(below, projections, batch_sizes, state, weights)[0], atol=2e-2, rtol=0
    )


def relative_distance(found: Iterable[torch.Tensor], wanted: Iterable[torch.Tensor]) -> float:
    """The mean distance of tensors, as shares of their norms."""
    pairs = list(zip(found, wanted, strict=True))
    return sum(float((one.double() - other).norm() / other.norm()) for one, other in pairs) / len(pairs)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("case", [*CASES, *HIGHWAY_CASES, *NATIVE_CASES[-6:-2]])
def test_gradients_of_the_compiled_in_bfloat16_are_as_near_as_those_of_torch(
    case: dict, tiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = random_layer(**case)
    wanted = gradients(reference_lstm(call), call)
    narrow = converted(call, torch.bfloat16)
    torchs = gradients(run_by("packed")(narrow), narrow)
    monkeypatch.setattr(native, "has_tiles", lambda: tiles)
    without(monkeypatch, TorchBackend)

    found = gradients(run_by("native")(narrow), narrow)

    assert {part.dtype for part in found} == {torch.bfloat16}
    # both round what a clip is near, which changes gradients by jumps
    assert relative_distance(found, wanted) <= max(1.2 * relative_distance(torchs, wanted), 0.02)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("tiles", [False, True])
def test_mixed_precision_is_trained_by_the_compiled(tiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = source_gradients(nn.Linear, torch.float64)
    torchs = source_gradients(OtherLinear, torch.float32, mixed=True)
    monkeypatch.setattr(native, "has_tiles", lambda: tiles)
    without(monkeypatch, TorchBackend)

    found = source_gradients(nn.Linear, torch.float32, mixed=True)

    assert {part.dtype for part in found} == {torch.float32}
    assert relative_distance(found, wanted) <= max(1.2 * relative_distance(torchs, wanted), 0.02)


class OtherLinear(nn.Linear):
    """A linear map that is not known to be one, so that torch differentiates it."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Do what it would do anyway."""
        return super().forward(rows)


def source_gradients(
    make: type[nn.Linear], dtype: torch.dtype, frozen: int | None = None, mixed: bool = False
) -> list:
    """The gradients of what gate inputs are computed from, with two spare rows; one of them may be frozen."""
    inputs, _, batch_sizes, state, weights = single(random_layer([4, 7, 2]))[:5]
    torch.manual_seed(0)
    below = torch.randn(2, inputs.shape[1] + 2, 6, dtype=dtype)
    modules = nn.ModuleList(make(6, inputs.shape[2], dtype=dtype) for _ in range(2))
    sources = [below, *modules.parameters()]
    for n, source in enumerate(sources):
        source.requires_grad_(n != frozen)
    weights = weights.to(dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        outputs, _ = run_lstm(below, InputProjections(modules, 1.0), batch_sizes, state, weights)
        outputs.float().square().sum().backward()
    return [source.grad for source in sources]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("mixed", [False, True])
def test_gradients_of_linear_maps_are_those_of_torch(dtype: torch.dtype, mixed: bool) -> None:
    mine, torchs = (source_gradients(make, dtype, mixed=mixed) for make in (nn.Linear, OtherLinear))

    # torch rounds the sums of the bias in another order
    narrow = dtype == torch.bfloat16 or (mixed and dtype == torch.float32)
    torch.testing.assert_close(mine, torchs, rtol=2e-2 if narrow else 1e-5, atol=2e-2 if narrow else 1e-6)
    assert not mine[0][:, -2:].any()


@pytest.mark.parametrize("frozen", range(5))
def test_a_frozen_source_gets_no_gradient_and_the_others_theirs(frozen: int) -> None:
    whole, some = source_gradients(nn.Linear, torch.float64), source_gradients(nn.Linear, torch.float64, frozen)

    assert some.pop(frozen) is None
    whole.pop(frozen)
    torch.testing.assert_close(some, whole, rtol=0, atol=0)
