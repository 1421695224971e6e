"""`elmo_hf.int8`: a quarter of the file, nearly the same vectors, and saving and loading like any other model."""

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForTokenClassification, AutoTokenizer

from elmo_hf import ElmoForTokenClassification, ElmoInt8Config, ElmoModel
from elmo_hf.int8 import ScaledIntegers, to_int8
from elmo_hf.kernels import native
from support.english import ELMO_TINY_EN
from support.tiny_models import batch, tiny_model


@pytest.fixture(scope="module")
def quantized() -> ElmoModel:
    return AutoModel.from_pretrained(ELMO_TINY_EN, quantization_config=ElmoInt8Config())


def test_vectors_are_nearly_the_same(quantized: ElmoModel) -> None:
    texts = [
        "The bank raised its rates again .",
        "The river bank was muddy , and nobody had seen the Zyxwvut , which was 47.3 metres long , since 1998 .",
        "It is !",
    ]
    inputs = AutoTokenizer.from_pretrained(ELMO_TINY_EN)(texts, padding=True, return_tensors="pt")
    words = inputs["attention_mask"].bool()

    with torch.no_grad():
        found = torch.stack(quantized(**inputs, output_hidden_states=True).hidden_states)
        plain = AutoModel.from_pretrained(ELMO_TINY_EN)
        wanted = torch.stack(plain(**inputs, output_hidden_states=True).hidden_states)

    cosines = torch.cosine_similarity(found, wanted, dim=-1)[:, words]
    assert cosines.min() > 0.999
    assert cosines.mean() > 0.9999
    assert not found[:, ~words].any()


def test_is_saved_and_loaded(quantized: ElmoModel, tmp_path: Path) -> None:
    quantized.save_pretrained(tmp_path)

    loaded, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)

    assert not any(report.values())
    assert all(torch.equal(value, quantized.state_dict()[name]) for name, value in loaded.state_dict().items())
    assert json.loads((tmp_path / "config.json").read_bytes())["quantization_config"] == {"quant_method": "elmo_int8"}
    size = sum(value.numel() * 4 for value in AutoModel.from_pretrained(ELMO_TINY_EN).state_dict().values())
    assert (tmp_path / "model.safetensors").stat().st_size < 0.27 * size


@pytest.mark.parametrize(
    "fields",
    [{"intermediate_size": 8}, {"dtype": torch.bfloat16}, {"alignment": True}],
    ids=["no projection", "half precision", "alignment"],
)
def test_rounds_each_row_by_its_own_scale(fields: dict, tmp_path: Path) -> None:
    dtype = fields.pop("dtype", torch.float32)
    model = tiny_model(**fields)
    # rows of very different sizes, and one of zeros
    model.layers[0].recurrent_weight.data *= torch.logspace(-3, 3, model.layers[0].recurrent_weight.shape[2])
    model.token_encoder.projection.weight.data[0] = 0
    model.save_pretrained(tmp_path)

    rounded = AutoModel.from_pretrained(tmp_path, quantization_config=ElmoInt8Config(), dtype=dtype)

    for module, name, axis in (
        (lambda model: model.layers[0], "recurrent_weight", 1),
        (lambda model: model.token_encoder.projection, "weight", 1),
        (lambda model: model.token_encoder.convolutions[2], "weight", (1, 2)),
    ):
        wanted, found = getattr(module(model), name).float(), getattr(module(rounded), name)
        assert found.dtype == dtype
        half = wanted.abs().amax(dim=axis, keepdim=True) / 127 / 2
        # half precision rounds, too
        slack = 1.01 if dtype == torch.float32 else 4
        assert ((found.float() - wanted).abs() <= slack * half + 1e-30).all()
    assert rounded(**batch([3, 2])).last_hidden_state.isfinite().all()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("lengths", [[1], [5, 3], [3, 5, 4, 5, 1, 2, 2], [70, 60, 60, 50, 40]])
@pytest.mark.parametrize("cell", [8, 33])
def test_integers_give_the_bits_of_their_numbers(
    cell: int, lengths: list[int], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(intermediate_size=cell).requires_grad_(False)
    to_int8(model)
    inputs, before = batch(lengths), torch.get_num_threads()
    torch.set_num_threads(threads)
    called = []
    # the first call compares the levels
    native.load()
    run_job = native.run_job
    monkeypatch.setattr(native, "run_job", lambda *given: (called.append(given[0]), run_job(*given)))

    # with gradients allowed, the layers get the numbers
    wanted = model(**inputs).last_hidden_state
    with torch.inference_mode():
        found = model(**inputs).last_hidden_state

    torch.set_num_threads(before)
    assert torch.equal(found, wanted)
    assert set(called) == {"elmo_forward", "elmo_forward_int8"}


@torch.no_grad()
def test_what_is_no_operation_gets_the_numbers_too() -> None:
    matrix = ScaledIntegers(torch.tensor([[1, -2]], dtype=torch.int8), torch.tensor([[0.5]]))

    assert matrix.tolist() == np.asarray(matrix).tolist() == [[0.5, -1.0]]
    sent = pickle.loads(pickle.dumps(matrix))  # noqa: S301 - our own
    for other in (copy.deepcopy(matrix), sent, matrix.clone()):
        assert type(other) is torch.Tensor
        assert other.tolist() == [[0.5, -1.0]]


@torch.no_grad()
@pytest.mark.parametrize("name", ["packed", "reference"])
def test_other_recurrences_get_the_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = tiny_model(), batch([3, 2])
    to_int8(model)
    wanted = model(**inputs).last_hidden_state
    monkeypatch.setenv("ELMO_HF_RECURRENCE", name)

    found = model(**inputs).last_hidden_state

    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)


def test_a_model_without_elmo_is_left_as_it_is(tmp_path: Path) -> None:
    fields = {"head": "bilstm-crf", "mix_at": "none", "task_char_embedding_dim": 2, "num_labels": 3}
    model = tiny_model(ElmoForTokenClassification, **fields)
    model.save_pretrained(tmp_path)

    loaded = ElmoForTokenClassification.from_pretrained(tmp_path, quantization_config=ElmoInt8Config())

    for name, value in loaded.state_dict().items():
        assert torch.equal(value, model.state_dict()[name])


def test_a_tagger_keeps_its_head(tmp_path: Path) -> None:
    tagger = tiny_model(ElmoForTokenClassification, num_labels=3)
    tagger.save_pretrained(tmp_path)

    rounded = AutoModelForTokenClassification.from_pretrained(tmp_path, quantization_config=ElmoInt8Config())

    assert torch.equal(rounded.classifier.weight, tagger.classifier.weight)
    inputs = batch([4, 2])
    torch.testing.assert_close(rounded(**inputs).logits, tagger(**inputs).logits, atol=0.02, rtol=0)
    assert not torch.equal(rounded(**inputs).logits, tagger(**inputs).logits)
