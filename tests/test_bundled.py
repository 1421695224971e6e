"""`elmo_hf.bundled`: the model that comes with the package is small, complete, and knows English."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, pipeline

from elmo_hf import ELMO_SMALL_EN, ElmoConfig, ElmoForMaskedLM, ElmoModel, ElmoTokenizer
from elmo_hf.bundled import model_folder
from elmo_hf.embedding import load
from elmo_hf.inspection import read_config
from elmo_hf.model import MODEL_CLASSES
from elmo_hf.training.perplexity import load_language_model, score


FOLDER = Path(ELMO_SMALL_EN)


def test_it_is_small_and_stored_in_half_precision() -> None:
    assert FOLDER.joinpath("model.safetensors").stat().st_size < 25_000_000
    with safe_open(FOLDER / "model.safetensors", "pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"F16"}  # noqa: SIM118 - not a dictionary


def test_it_loads_in_single_precision_with_the_auto_classes() -> None:
    model = AutoModel.from_pretrained(ELMO_SMALL_EN)

    assert (type(model), model.dtype) == (ElmoModel, torch.float32)
    assert type(AutoModelForMaskedLM.from_pretrained(ELMO_SMALL_EN)) is ElmoForMaskedLM


def test_it_carries_no_code_that_could_differ_from_the_package() -> None:
    assert not list(FOLDER.glob("*.py"))
    for name in ("config.json", "tokenizer_config.json"):
        assert "auto_map" not in json.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_it_knows_english() -> None:
    model, tokenizer = load_language_model(ELMO_SMALL_EN)
    words = ["the", "people", "of", "the", "United", "States", "."]
    good, bad = score(model, tokenizer, [words, words[::-1]])

    assert good.forward_nats + 10 < bad.forward_nats
    assert good.backward_nats + 10 < bad.backward_nats


def test_it_fills_in_words() -> None:
    fill = pipeline("fill-mask", ELMO_SMALL_EN, tokenizer=AutoTokenizer.from_pretrained(ELMO_SMALL_EN))

    assert fill("the people of the United <MASK> .")[0]["token_str"] == "States"


def test_the_model_of_the_package_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert model_folder("elmo-small-en") == FOLDER
    assert model_folder("other") == Path("other")
    # a folder of that name comes first
    Path("elmo-small-en").mkdir()
    assert model_folder("elmo-small-en") == Path("elmo-small-en")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no name be looked up on the Hub."""

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("looked up on the Hub")

    monkeypatch.setattr("huggingface_hub.file_download.hf_hub_download", refuse)
    monkeypatch.setattr("huggingface_hub.HfApi.resolve_revision", refuse, raising=False)


@pytest.mark.usefixtures("no_network")
def test_every_class_takes_its_name() -> None:
    assert ElmoConfig.from_pretrained("elmo-small-en") == ElmoConfig.from_pretrained(ELMO_SMALL_EN)
    assert ElmoTokenizer.from_pretrained("elmo-small-en").get_vocab() == load(ELMO_SMALL_EN)[1].get_vocab()
    for model_class in MODEL_CLASSES.values():
        loaded = model_class.from_pretrained(pretrained_model_name_or_path="elmo-small-en")
        assert (type(loaded), loaded.name_or_path) == (model_class, ELMO_SMALL_EN)
        assert torch.equal(
            loaded.base_model.layers[1].recurrent_weight, load("elmo-small-en")[0].layers[1].recurrent_weight
        )
    assert ElmoConfig.from_pretrained(Path("elmo-small-en")).hidden_size == 256
    assert read_config("elmo-small-en").hidden_size == 256


def test_its_folder_is_a_str_which_every_library_takes() -> None:
    # sentence-transformers and spaCy refuse other paths
    assert type(ELMO_SMALL_EN) is str
    assert FOLDER.is_absolute()


@pytest.mark.usefixtures("no_network")
def test_a_folder_of_its_name_comes_first(bilm_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elmo-small-en").symlink_to(bilm_model)
    monkeypatch.chdir(tmp_path)

    assert ElmoModel.from_pretrained("elmo-small-en").config.hidden_size != 256
