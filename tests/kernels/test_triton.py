"""`kernels.triton`, by Triton's interpreter: the kernels agree with the readable recurrence, or are not used."""

import logging
import sys

import pytest
import torch

from elmo_hf.kernels import triton
from elmo_hf.model.recurrence_elmo import TorchBackend, reference_lstm
from support.random_layers import converted, gradients, random_layer, run, run_by, single
from support.tiny_models import batch, tensors, tiny_model


CPU = torch.device("cpu")
TORCH = TorchBackend()


def logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    monkeypatch.setattr(triton, "logger", logging.getLogger("seen"))
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
    call = random_layer(**case)
    same = single(call)

    fast, slow = run_by("triton")(same), reference_lstm(call)

    for one, other in zip((fast[0], *fast[1]), (slow[0], *slow[1]), strict=True):
        torch.testing.assert_close(one.double(), other, atol=2e-6, rtol=1e-5)
    for one, other in zip(gradients(fast, same), gradients(slow, call), strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("interpreter")
def test_sentences_without_words() -> None:
    call = single(random_layer([0, 0]))

    fast, slow = run_by("triton")(call), run_by("packed")(call)

    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(gradients(fast, call), gradients(slow, call))


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_about_as_near_to_the_reference_as_by_torch(dtype: torch.dtype) -> None:
    # without clips, at whose bounds rounding decides whether there is a gradient
    half = converted(random_layer([3, 2], width=24, cell=40, clip=None), dtype)
    exact = converted(half, torch.float64)

    def computed(run: object, call: tuple) -> list[torch.Tensor]:
        result = run(call)
        return [result[0].detach(), *gradients(result, call)]

    wanted = computed(reference_lstm, exact)
    errors = []
    for name in ("triton", "packed"):
        found = computed(run_by(name), half)
        assert {part.dtype for part in found} == {dtype}
        errors.append(
            max((one.double() - other).norm() / other.norm() for one, other in zip(found, wanted, strict=True))
        )
    # the interpreter cuts bfloat16 off where a GPU rounds it: twice the error
    assert errors[0] < (1.5 if dtype == torch.float16 else 3) * errors[1]


@pytest.mark.usefixtures("interpreter")
def test_keeps_what_is_no_number_and_bears_what_is_large() -> None:
    call = single(random_layer([3, 3, 2]))
    inputs = call.inputs.detach()
    inputs[0, 0], inputs[0, 1], inputs[1, 2] = 1e4, -1e4, -torch.inf
    inputs[1, 0, 4] = torch.nan

    call = call._replace(inputs=inputs)

    fast, _ = run_by("triton")(call)

    torch.testing.assert_close(fast, run_by("packed")(call)[0], equal_nan=True)


@pytest.mark.usefixtures("interpreter")
def test_a_model_computes_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = tiny_model(), batch([2, 3])
    outputs = []
    for name in ("packed", "triton"):
        monkeypatch.setenv("ELMO_HF_RECURRENCE", name)
        with torch.inference_mode():
            outputs.append(tensors(model(**inputs)))

    torch.testing.assert_close(outputs[1], outputs[0], atol=1e-6, rtol=0)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("dtype", list(triton.TOLERANCES))
def test_they_are_compared_with_torch_once(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    records = logged(monkeypatch, caplog)
    before = torch.get_rng_state()

    assert triton.check_kernels(CPU, dtype, TORCH) is None
    assert triton.check_kernels(CPU, dtype, TORCH) is None

    assert [record.getMessage() for record in records] == [f"elmo_hf runs its Triton kernels on cpu in {dtype}"]
    assert torch.equal(torch.get_rng_state(), before)


def wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    right = triton.run_steps_backward
    monkeypatch.setattr(triton, "run_steps_backward", lambda *given: tuple(1.2 * part for part in right(*given)))


def no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    right = triton.TritonBackend.forward

    def spoiled(*given: object) -> tuple:
        outputs, state = right(*given)
        return torch.nan * outputs, state

    monkeypatch.setattr(triton.TritonBackend, "forward", spoiled)


def no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)


def failing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Failed to find C compiler.\nPlease set CC.")

    monkeypatch.setattr(triton, "run_steps", fail)


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
def test_the_reason_why_they_are_not_used_is_found_once(
    spoil: object, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(monkeypatch)
    records = logged(monkeypatch, caplog)
    call = single(random_layer([3, 2]))

    found = triton.check_kernels(CPU, torch.float32, TORCH)

    assert found == reason
    assert triton.check_kernels(CPU, torch.float32, TORCH) is found
    assert not records
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "triton")
    with pytest.raises(ValueError, match=f"'triton', but this recurrence cannot be used: {reason}"):
        run(call)


@pytest.mark.usefixtures("interpreter")
def test_torch_computes_what_is_not_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "triton")
    monkeypatch.setattr(triton.TritonBackend, "forward", None)
    call = random_layer([3, 2])

    torch.testing.assert_close(run(call), reference_lstm(call))
    # without the interpreter, what is on a CPU
    monkeypatch.delenv("TRITON_INTERPRET")
    same = single(call)
    torch.testing.assert_close(run(same), run_by("packed")(same), atol=0, rtol=0)


@pytest.mark.gpu
def test_a_gpu_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    model, inputs = tiny_model(), batch([3, 5, 1])
    with torch.no_grad():
        expected = tensors(model(**inputs))
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "triton")

    with torch.no_grad():
        found = tensors(model.cuda()(**{key: value.cuda() for key, value in inputs.items()}))

    torch.testing.assert_close([part.cpu() for part in found], expected, atol=1e-5, rtol=0)
