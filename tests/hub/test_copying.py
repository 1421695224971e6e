"""`hub.copying`: a copy has the weights of its model, and the code that a script without this package needs."""

import json
import subprocess
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM

from elmo_hf import ElmoError, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from elmo_hf.hub.copying import copy_model
from elmo_hf.inspection import read_config
from support.english import ELMO_TINY_EN
from support.fresh_python import FRESH_PYTHON
from support.tiny_models import tiny_model


# a stock script: it does not import elmo_hf, and cannot
STOCK = """
import sys
sys.modules["elmo_hf"] = None
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

config = AutoConfig.from_pretrained("copy", trust_remote_code=True)
model = AutoModelForMaskedLM.from_pretrained("copy", trust_remote_code=True, config=config)
tokenizer = AutoTokenizer.from_pretrained("copy", trust_remote_code=True)
torch.save(model(**tokenizer(["The bank raised rates ."], return_tensors="pt")).logits.detach(), "logits.pt")
"""


def saved(folder: Path, model: torch.nn.Module, **options: object) -> Path:
    ElmoTokenizer(["<S>", "</S>", "<UNK>", "the"], max_characters_per_token=20).save_pretrained(folder)
    model.save_pretrained(folder, **options)
    return folder


def test_a_stock_script_loads_a_copy_of_the_bundled_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))

    copy_model(ELMO_TINY_EN, "copy")

    assert read_config("copy").training_history
    assert read_config("copy").training_history == read_config(ELMO_TINY_EN).training_history
    subprocess.run([*FRESH_PYTHON, "-c", STOCK], check=True, capture_output=True)
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(ELMO_TINY_EN), ElmoTokenizer.from_pretrained(ELMO_TINY_EN)
    expected = model(**tokenizer(["The bank raised rates ."], return_tensors="pt")).logits
    torch.testing.assert_close(torch.load("logits.pt"), expected, rtol=0, atol=1e-5)


def test_a_copy_is_what_saving_the_model_makes(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", tiny_model(ElmoForTokenClassification, num_labels=3).to(torch.bfloat16))

    copy_model(folder, tmp_path / "copy")

    made, expected = (
        {path.name: path.read_bytes() for path in each.iterdir()} for each in (tmp_path / "copy", folder)
    )
    # Transformers notes there how a tokenizer was loaded
    for files in (made, expected):
        files.pop("tokenizer_config.json")
    assert made == expected


def test_old_code_and_the_rest_of_a_training_stay_behind(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", tiny_model(ElmoModel), max_shard_size="5KB")
    (folder / "modeling_elmo.py").write_text("raise SystemExit")
    (folder / "optimizer.pt").write_bytes(b"state")
    (folder / "checkpoint-3").mkdir()
    (folder / "README.md").write_text("mine")

    copy_model(folder, tmp_path / "copy")

    names = {path.name for path in (tmp_path / "copy").iterdir()}
    assert not names & {"optimizer.pt", "checkpoint-3"}
    assert {"README.md", "model.safetensors.index.json"} < names
    assert (tmp_path / "copy" / "modeling_elmo.py").read_text() != "raise SystemExit"
    again = ElmoModel.from_pretrained(tmp_path / "copy")
    assert all(
        torch.equal(part, again.state_dict()[name]) for name, part in tiny_model(ElmoModel).state_dict().items()
    )


def test_what_cannot_be_copied_is_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", tiny_model(ElmoModel))
    with pytest.raises(ElmoError, match="model exists already: remove it or choose another name"):
        copy_model(folder, folder)
    with pytest.raises(ElmoError, match="nowhere is not a model folder"):
        copy_model(tmp_path / "nowhere", tmp_path / "copy")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ElmoError, match=r"The tokenizer in .*model is missing or damaged"):
        copy_model(folder, tmp_path / "copy")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ElmoError, match=r"model has no weights in safetensors: load the model and save it there"):
        copy_model(folder, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_the_configuration_keeps_its_fields(tmp_path: Path) -> None:
    copy_model(ELMO_TINY_EN, tmp_path / "copy")

    before, after = (
        json.loads((folder / "config.json").read_text()) for folder in (Path(ELMO_TINY_EN), tmp_path / "copy")
    )
    assert after.pop("auto_map")["AutoModel"] == "modeling_elmo.ElmoModel"
    assert {name: after.get(name) for name in before} == before
