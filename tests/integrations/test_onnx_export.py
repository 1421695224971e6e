"""`integrations.onnx_export`: an ONNX file computes what its model computes, for any batch, and names the model."""

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from elmo_hf import (
    ElmoError,
    ElmoForMaskedLM,
    ElmoForMultipleChoice,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from elmo_hf.cli import main
from elmo_hf.integrations.onnx_export import export_onnx
from support.english import ELMO_TINY_EN
from support.tiny_models import batch, tiny_model


def run_onnx(path: Path, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    wanted = {entry.name: inputs[entry.name].numpy() for entry in session.get_inputs()}
    return {name: torch.from_numpy(value) for name, value in zip(names, session.run(names, wanted), strict=True)}


@pytest.mark.slow
@pytest.mark.usefixtures("library_logging")
def test_onnxruntime_computes_the_bundled_model(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "elmo.onnx"

    assert main(["export", ELMO_TINY_EN, "--format", "onnx", "--output", str(path)]) == 0

    described = onnxruntime.InferenceSession(path).get_modelmeta()
    assert described.producer_name == "elmo_hf"
    assert described.custom_metadata_map == {
        "model": ELMO_TINY_EN,
        "class": "ElmoModel",
        "max_characters": "50",
    }
    model, tokenizer = ElmoModel.from_pretrained(ELMO_TINY_EN), AutoTokenizer.from_pretrained(ELMO_TINY_EN)
    texts = [
        ["The bank raised its rates again ."],
        ["Yes ."],
        [
            "The river bank was muddy .",
            "No",
            "Nobody had seen the Zyxwvut , which was 47.3 metres long , since 1998 .",
        ],
    ]
    for text in texts:
        for side in ("left", "right"):
            inputs = tokenizer(text, padding=True, padding_side=side, return_tensors="pt")
            with torch.no_grad():
                wanted = model(**inputs, output_hidden_states=True)
            found = run_onnx(path, inputs)
            assert list(found) == ["last_hidden_state", "hidden_states.0", "hidden_states.1", "hidden_states.2"]
            layers = [wanted.last_hidden_state, *wanted.hidden_states]
            torch.testing.assert_close(list(found.values()), layers, atol=1e-4, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "fields", "width"),
    [
        (ElmoForTokenClassification, {"num_labels": 3, "word_embedding_dim": 5}, 20),
        (ElmoForSequenceClassification, {"num_labels": 3}, 20),
        (
            ElmoForMaskedLM,
            {"char_embedding_dim": 0, "char_filters": [], "word_embedding_dim": 8, "vocab_size": 30},
            0,
        ),
    ],
    ids=["tagger", "sentences", "masked"],
)
def test_onnxruntime_computes_logits(cls: type, fields: dict, width: int, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = tiny_model(cls, **fields).train()
    path = tmp_path / "model.onnx"

    export_onnx(model, path)

    assert model.training
    model.eval()
    described = onnxruntime.InferenceSession(path).get_modelmeta()
    assert described.custom_metadata_map["max_characters"] == str(width)
    for lengths in ([1], [6, 3]):
        inputs = batch(lengths, **fields)
        # one sentence a row, without boundary tokens
        inputs["input_ids"] = inputs["input_ids"].clamp(min=3) * inputs["attention_mask"]
        with torch.no_grad():
            torch.testing.assert_close(run_onnx(path, inputs)["logits"], model(**inputs).logits, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_onnxruntime_classifies_pairs_and_single_sentences(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = tiny_model(ElmoForSequenceClassification, num_labels=3)
    export_onnx(model, tmp_path / "pairs.onnx")
    input_ids = torch.tensor([[1, 5, 6, 2, 1, 7, 2], [1, 5, 2, 1, 2, 0, 0], [1, 8, 9, 5, 2, 0, 0]])
    inputs = {"input_ids": input_ids, "attention_mask": (input_ids != 0).long()}
    inputs["char_ids"] = (input_ids[..., None] * torch.arange(1, 21)) % 200

    for rows in (slice(0, 1), slice(0, 3), slice(2, 3)):
        part = {name: values[rows] for name, values in inputs.items()}
        expected = model(**part).logits.detach()
        torch.testing.assert_close(run_onnx(tmp_path / "pairs.onnx", part)["logits"], expected, atol=1e-4, rtol=0)

    # a model that knows nothing of pairs has a program without them
    torch.nn.init.zeros_(model.classifier.pair_weight)
    export_onnx(model, tmp_path / "single.onnx")
    part = {name: values[2:] for name, values in inputs.items()}
    found = run_onnx(tmp_path / "single.onnx", part)["logits"]
    torch.testing.assert_close(found, model(**part).logits.detach(), atol=1e-4, rtol=0)
    assert model.head.num_sentences == (1, 2)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("elmo_hf.integrations.onnx_export.PACKAGES", ("no_such_package",))

    with pytest.raises(ElmoError, match=r'needs the packages onnx and onnxscript: run pip install "elmo_hf\[onnx\]"'):
        export_onnx(ELMO_TINY_EN, tmp_path / "elmo.onnx")


def test_an_old_torch_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("elmo_hf.integrations.onnx_export.PACKAGES", ())
    monkeypatch.delattr(torch.compiler, "is_exporting")

    with pytest.raises(ElmoError, match=r"cannot export the loop over the words: upgrade it to 2\.9"):
        export_onnx(ELMO_TINY_EN, tmp_path / "elmo.onnx")


def test_a_model_without_an_onnx_form_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("elmo_hf.integrations.onnx_export.PACKAGES", ())
    path = tmp_path / "model.onnx"

    with pytest.raises(ElmoError, match=r"head 'bilstm-crf' of this ElmoForTokenClassification .* `model\.elmo`"):
        export_onnx(tiny_model(ElmoForTokenClassification, num_labels=3, head="bilstm-crf"), path)
    with pytest.raises(
        ElmoError, match=r"^This ElmoForTokenClassification reads words of its task, which have no ONNX"
    ):
        export_onnx(tiny_model(ElmoForTokenClassification, num_labels=3, task_char_embedding_dim=2), path)
    for cls in (ElmoForMultipleChoice, ElmoForQuestionAnswering):
        with pytest.raises(ElmoError, match=rf"^{cls.__name__} has no ONNX form: export its biLM, `model\.elmo`"):
            export_onnx(tiny_model(cls), path)
    with pytest.raises(ElmoError, match=r"is in torch\.bfloat16: load it with dtype=torch\.float32"):
        export_onnx(tiny_model().bfloat16(), path)
    monkeypatch.setattr("elmo_hf.integrations.onnx_export.MOST_BYTES", 100)
    with pytest.raises(ElmoError, match=r"and an ONNX file holds 100: export `model\.elmo`"):
        export_onnx(tiny_model(), path)
    path.touch()
    with pytest.raises(ElmoError, match="exists already"):
        export_onnx(tiny_model(), path)
