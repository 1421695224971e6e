"""The card of a model folder says what the folder holds, and its examples run."""

import json
import re
import shutil
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from elmo_hf import (
    ElmoForMaskedLM,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)
from elmo_hf.hub.folder_card import make_card, recorded_metrics, task_of
from support.tiny_models import tiny_model


MODELS = {
    "feature-extraction": (ElmoModel, {}),
    "fill-mask": (ElmoForMaskedLM, {}),
    "token-classification": (ElmoForTokenClassification, {"num_labels": 3}),
    "text-classification": (ElmoForSequenceClassification, {"num_labels": 3}),
    "pairs": (ElmoForSequenceClassification, {"num_labels": 3, "head": "esim", "head_hidden_size": 6}),
}


def save(kind: str, folder: Path) -> Path:
    cls, fields = MODELS[kind]
    mask = {"mask_token": "<MASK>"} if kind == "fill-mask" else {}
    tokenizer = ElmoTokenizer(["<S>", "</S>", "<UNK>", "the", "bank"], max_characters_per_token=20, **mask)
    tiny_model(cls, vocab_size=tokenizer.vocab_size, **fields).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", MODELS)
def test_a_new_card_says_what_it_is_and_its_examples_run(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save(kind, tmp_path / "model")
    task = "text-classification" if kind == "pairs" else kind

    card = make_card(folder, str(folder), {"license": "mit", "pipeline_tag": task_of(folder)})

    assert ModelCard(card).data.to_dict() == {"license": "mit", "pipeline_tag": task}
    assert "| parameters |" in card
    assert "Of a word it reads 18 bytes at most." in card
    assert "{" not in re.sub(r"```.*?```", "", card, flags=re.DOTALL)
    examples = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert len(examples) == (2 if task == "feature-extraction" else 3)
    for example in examples:
        exec(compile(example, "card", "exec"), {})  # noqa: S102 - it is what the card tells to do
    assert bool(capsys.readouterr().out) == (task != "feature-extraction")


def test_a_card_of_a_converted_model_names_its_sources(bilm_model: Path) -> None:
    card = make_card(bilm_model, "ann/tiny", {})

    for source in json.loads((bilm_model / "provenance.json").read_text(encoding="utf-8"))["sources"]:
        assert f"| {source['name']} | {source['size']:,} | `{source['sha256']}` |" in card
    assert card == make_card(bilm_model, "ann/tiny", {})


def test_without_a_mask_no_word_is_predicted(tmp_path: Path) -> None:
    folder = save("feature-extraction", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["ElmoForPreTraining"]}))

    assert task_of(folder) == "feature-extraction"


def test_metrics_of_the_model_are_in_the_card(tmp_path: Path) -> None:
    folder = save("token-classification", tmp_path / "model")
    metrics = {"test_f1": 0.51239, "test_runtime": 3.0, "test_samples_per_second": 4.0, "test_loss": 0.3, "epoch": 2.0}
    (folder / "test_results.json").write_text(json.dumps(metrics), encoding="utf-8")
    (folder / "train_results.json").write_text('{"train_loss": 1.0}', encoding="utf-8")
    shutil.copy(folder / "test_results.json", folder / "all_results.json")

    assert recorded_metrics(folder) == {"test": {"f1": 0.51239, "loss": 0.3}}
    assert "| test | f1 | 0.5124 |" in make_card(folder, "ann/tagger", {})
