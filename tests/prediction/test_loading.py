"""`prediction.loading`: models with a head, and what is for those without one."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from elmo_hf import ElmoError, ElmoForSequenceClassification
from elmo_hf.prediction import load
from support.english import ELMO_TINY_EN
from support.task_models import save_task_model


def test_loads_the_class_that_was_saved_and_none_of_its_code(tmp_path: Path) -> None:
    folder = save_task_model(ElmoForSequenceClassification, tmp_path / "model", num_labels=3)
    for path in folder.glob("*.py"):
        path.write_text("raise AssertionError('remote code was run')", encoding="utf-8")

    model, tokenizer = load(str(folder))

    assert type(model) is ElmoForSequenceClassification
    assert not model.training
    assert tokenizer.tokenize("a b") == ["a", "b"]


def test_a_model_without_a_head_names_the_commands_for_it(bilm_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"elmo-small-en is a language model .*`elmo-hf fill`.*`elmo-hf embed`"):
        load("elmo-small-en")
    with pytest.raises(ElmoError, match=r"without the head of a task \(`elmo-hf embed` computes its vectors\)"):
        load(bilm_model)
    config = json.loads(Path(ELMO_TINY_EN, "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["ElmoForMaskedLM"]}))
    with pytest.raises(ElmoError, match="`elmo-hf fill` fills in words"):
        load(tmp_path)


def test_a_head_without_weights_is_not_made_up(tmp_path: Path) -> None:
    folder = save_task_model(ElmoForSequenceClassification, tmp_path / "model", num_labels=3)
    weights = load_file(folder / "model.safetensors")
    del weights["classifier.bias"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(ElmoError, match=r"lack, .* classifier\.bias: save it again after training\.$"):
        load(folder)


def test_a_folder_that_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match="is not a model folder"):
        load(tmp_path)
