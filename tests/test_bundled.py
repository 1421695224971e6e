"""`elmo_hf.bundled`: the model that comes with the package is small, complete, and knows English."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, pipeline

from elmo_hf import ELMO_TINY_EN, ElmoForMaskedLM, ElmoModel
from elmo_hf.bundled import model_folder
from elmo_hf.training.perplexity import load_language_model, score


def test_it_is_small_and_stored_in_half_precision() -> None:
    assert (ELMO_TINY_EN / "model.safetensors").stat().st_size < 8_000_000
    with safe_open(ELMO_TINY_EN / "model.safetensors", "pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"F16"}  # noqa: SIM118 - not a dictionary


def test_it_loads_in_single_precision_with_the_auto_classes() -> None:
    model = AutoModel.from_pretrained(ELMO_TINY_EN)

    assert (type(model), model.dtype) == (ElmoModel, torch.float32)
    assert type(AutoModelForMaskedLM.from_pretrained(ELMO_TINY_EN)) is ElmoForMaskedLM


def test_it_carries_no_code_that_could_differ_from_the_package() -> None:
    assert not list(ELMO_TINY_EN.glob("*.py"))
    for name in ("config.json", "tokenizer_config.json"):
        assert "auto_map" not in json.loads((ELMO_TINY_EN / name).read_text(encoding="utf-8"))


def test_it_knows_english() -> None:
    model, tokenizer = load_language_model(ELMO_TINY_EN)
    words = ["the", "people", "of", "the", "United", "States", "."]
    good, bad = score(model, tokenizer, [words, words[::-1]])

    assert good.forward_nats + 10 < bad.forward_nats
    assert good.backward_nats + 10 < bad.backward_nats


def test_it_fills_in_words() -> None:
    fill = pipeline("fill-mask", str(ELMO_TINY_EN), tokenizer=AutoTokenizer.from_pretrained(ELMO_TINY_EN))

    assert fill("the people of the United <MASK> .")[0]["token_str"] == "States"


def test_the_model_of_the_package_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert model_folder("elmo-tiny-en") == ELMO_TINY_EN
    assert model_folder("other") == Path("other")
    # a folder of that name comes first
    Path("elmo-tiny-en").mkdir()
    assert model_folder("elmo-tiny-en") == Path("elmo-tiny-en")
