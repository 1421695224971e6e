"""`model.triton_elmo`, by Triton's interpreter: the kernels agree with the readable recurrence, or are not used."""

import logging
import sys

import pytest
import torch

from elmo_hf.model import graphs_elmo, recurrence_elmo, triton_elmo
from elmo_hf.model.recurrence_elmo import (
    LstmWeights,
    packed_recurrence,
    recurrence,
    reference_recurrence,
    torch_back,
    torch_steps,
    triton_recurrence,
)
from support.random_layers import random_layer, single, slopes
from support.tiny_models import batch, tensors, tiny_model


CPU = torch.device("cpu")
BY_TORCH = torch_steps, torch_back


def logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    monkeypatch.setattr(triton_elmo, "logger", logging.getLogger("seen"))
    caplog.set_level(logging.INFO, "seen")
    return caplog.records


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"lengths": [1]}, id="one word"),
        pytest.param({"lengths": [0, 3, 0, 4], "width": 7, "cell": 33}, id="empty sentences, odd sizes"),
        pytest.param({"lengths": [3, 3], "projected": False}, id="no projection"),
        pytest.param({"lengths": [2, 5, 1], "clip": None}, id="no clips"),
        pytest.param({"lengths": [2, 1], "width": 3, "cell": 515}, id="two blocks of columns"),
    ],
)
def test_agrees_with_reference(case: dict) -> None:
    layer = random_layer(**case)
    same = single(layer)

    fast, slow = triton_recurrence(*same), reference_recurrence(*layer)

    for one, other in zip((fast[0], *fast[1]), (slow[0], *slow[1]), strict=True):
        torch.testing.assert_close(one.double(), other, atol=2e-6, rtol=1e-5)
    for one, other in zip(slopes(fast, *same), slopes(slow, *layer), strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("interpreter")
def test_sentences_without_words() -> None:
    layer = single(random_layer([0, 0]))

    fast, slow = triton_recurrence(*layer), packed_recurrence(*layer)

    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(slopes(fast, *layer), slopes(slow, *layer))


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_about_as_near_to_the_reference_as_by_torch(dtype: torch.dtype) -> None:
    inputs, steps, state, weights = random_layer([3, 2], width=24, cell=40)
    halves = [part.detach().to(dtype).requires_grad_() for part in (inputs, *state, *weights[:2])]
    half = halves[0], steps, (halves[1], halves[2]), LstmWeights(*halves[3:], *weights[2:])
    same = [part.detach().double().requires_grad_() for part in halves]
    exact = same[0], steps, (same[1], same[2]), LstmWeights(*same[3:], *weights[2:])

    def computed(run: object, layer: tuple) -> list[torch.Tensor]:
        result = run(*layer)
        return [result[0].detach(), *slopes(result, *layer)]

    wanted = computed(reference_recurrence, exact)
    errors = []
    for run in (triton_recurrence, packed_recurrence):
        found = computed(run, half)
        assert {part.dtype for part in found} == {dtype}
        errors.append(
            max((one.double() - other).norm() / other.norm() for one, other in zip(found, wanted, strict=True))
        )
    assert errors[0] < 1.5 * errors[1]


@pytest.mark.usefixtures("interpreter")
def test_keeps_what_is_no_number_and_bears_what_is_large() -> None:
    inputs, steps, state, weights = single(random_layer([3, 3, 2]))
    inputs = inputs.detach()
    inputs[0, 0], inputs[0, 1], inputs[1, 2] = 1e4, -1e4, -torch.inf
    inputs[1, 0, 4] = torch.nan

    fast, _ = triton_recurrence(inputs, steps, state, weights)

    torch.testing.assert_close(fast, packed_recurrence(inputs, steps, state, weights)[0], equal_nan=True)


@pytest.mark.usefixtures("interpreter")
def test_a_model_computes_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # the interpreter takes milliseconds a word, of padding too
    monkeypatch.setattr(graphs_elmo, "STEPS", 2)
    monkeypatch.setattr(graphs_elmo, "FEWEST_SENTENCES", 1)
    model, inputs = tiny_model(), batch([2, 3])
    outputs = []
    for name in ("packed", "triton", "graphs"):
        monkeypatch.setenv("ELMO_HF_RECURRENCE", name)
        with torch.inference_mode():
            outputs.append(tensors(model(**inputs)))

    torch.testing.assert_close(outputs[1], outputs[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(outputs[2], outputs[0], atol=1e-6, rtol=0)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("dtype", list(triton_elmo.TOLERANCES))
def test_they_are_compared_with_torch_once(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    records = logged(monkeypatch, caplog)
    before = torch.get_rng_state()

    assert triton_elmo.kernels_missing(CPU, dtype, BY_TORCH) is None
    assert triton_elmo.kernels_missing(CPU, dtype, BY_TORCH) is None

    assert [record.getMessage() for record in records] == [
        f"elmo_hf computes recurrences in {dtype} on cpu by its kernels in Triton"
    ]
    assert torch.equal(torch.get_rng_state(), before)


def wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    right = triton_elmo.triton_back
    monkeypatch.setattr(triton_elmo, "triton_back", lambda *given: tuple(1.2 * part for part in right(*given)))


def no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    right = triton_elmo.triton_steps
    monkeypatch.setattr(triton_elmo, "triton_steps", lambda *given: tuple(torch.nan * part for part in right(*given)))


def no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)


def failing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Failed to find C compiler.\nPlease set CC.")

    monkeypatch.setattr(triton_elmo, "take_steps", fail)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (wrong_numbers, "the kernels are 0.2 from torch"),
        (no_number, "the kernels are nan from torch"),
        (no_triton, "Triton is not installed"),
        (failing_compiler, "Failed to find C compiler."),
    ],
)
def test_why_they_are_not_used_is_told_once(
    spoil: object, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(monkeypatch)
    records = logged(monkeypatch, caplog)
    layer = single(random_layer([3, 2]))

    for _ in range(2):
        assert triton_elmo.kernels_missing(CPU, torch.float32, BY_TORCH) == reason
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "triton")
    with pytest.raises(ValueError, match=f"'triton', but there is no compiled recurrence: {reason}"):
        recurrence(*layer)

    assert [record.getMessage().endswith(reason) for record in records] == [True]


@pytest.mark.usefixtures("interpreter")
def test_torch_computes_what_is_not_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "triton")
    monkeypatch.setattr(recurrence_elmo, "triton_steps", None)
    layer = random_layer([3, 2])

    torch.testing.assert_close(recurrence(*layer), reference_recurrence(*layer))
    # without the interpreter, what is on a CPU
    monkeypatch.delenv("TRITON_INTERPRET")
    torch.testing.assert_close(recurrence(*single(layer)), packed_recurrence(*single(layer)), atol=0, rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["triton", "graphs"])
def test_a_gpu_finds_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    model, inputs = tiny_model(), batch([3, 5, 1])
    with torch.no_grad():
        expected = tensors(model(**inputs))
    monkeypatch.setenv("ELMO_HF_RECURRENCE", name)

    with torch.no_grad():
        found = tensors(model.cuda()(**{key: value.cuda() for key, value in inputs.items()}))

    torch.testing.assert_close([part.cpu() for part in found], expected, atol=1e-5, rtol=0)
