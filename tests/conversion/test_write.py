"""`conversion.write`: the folder of a converted model says where everything in it comes from."""

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModel

from elmo_hf import __version__
from elmo_hf_conversion import convert
from support.many_langs_format import write_many_langs
from support.original_formats import (
    allennlp_elmo,
    write_allennlp_archive,
    write_bilm_hdf5,
    write_training_folder,
)


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Path, Path]:
    return write_bilm_hdf5(tmp_path / "original")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_weights_are_saved_in_float32(dtype: str, tmp_path: Path) -> None:
    convert(write_bilm_hdf5(tmp_path / "original", dtype=dtype), tmp_path / "model")

    model = AutoModel.from_pretrained(tmp_path / "model")

    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_the_folder_carries_the_hub_files(sources: tuple[Path, Path], tmp_path: Path) -> None:
    convert(sources, tmp_path / "model")

    names = {path.name for path in (tmp_path / "model").iterdir()}

    assert {"configuration_elmo.py", "modeling_elmo.py", "tokenization_elmo.py", "tokenizer.json"} <= names


def test_provenance_says_where_everything_comes_from(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path / "original", reverse=True)

    convert([weights, options], tmp_path / "model")

    assert json.loads((tmp_path / "model/provenance.json").read_text(encoding="utf-8")) == {
        "format": "bilm-hdf5",
        "sources": [
            {
                "name": path.name,
                "size": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in (weights, options)
        ],
        "options": json.loads(options.read_text(encoding="utf-8")),
        "language_model_head": False,
        "converter": f"elmo_hf {__version__}",
    }


def test_provenance_of_a_trained_model_says_what_was_taken_and_what_was_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = allennlp_elmo(tmp_path / "bilm", prefix="_elmo.", mixes=2) | {"tagger.bias": torch.ones(3)}
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state)

    convert([path], tmp_path / "model", mix=1)

    provenance = json.loads((tmp_path / "model/provenance.json").read_text(encoding="utf-8"))
    assert provenance["chosen"] == {"prefix": "_elmo.", "mix": 1}
    assert provenance["left"] == [
        "_elmo.scalar_mix_0.gamma",
        *(f"_elmo.scalar_mix_0.scalar_parameters.{j}" for j in range(3)),
        "tagger.bias",
    ]
    assert "model.tar.gz/weights.th: 5 arrays are not part of the biLM and are left out" in caplog.text


def test_provenance_of_many_langs_names_what_is_left(tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path / "original", classifier=True)

    convert([folder], tmp_path / "model")

    provenance = json.loads((tmp_path / "model/provenance.json").read_text(encoding="utf-8"))
    assert provenance["format"] == "many-langs"
    assert provenance["left"] == ["column_emb.weight"]
    assert provenance["options"]["arguments"] == json.loads((folder / "config.json").read_text())
    assert provenance["options"]["configuration"]["dropout"] == 0.1
    assert "The tokens `<bos>` and `<eos>` around" in (tmp_path / "model/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kept", [True, False], ids=["with", "without"])
def test_the_folder_says_whether_the_softmax_is_there(
    kept: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_training_folder(tmp_path / "original")
    if not kept:
        (tmp_path / "original/vocab.txt").unlink()

    convert([tmp_path / "original"], tmp_path / "model")

    provenance = json.loads((tmp_path / "model/provenance.json").read_text(encoding="utf-8"))
    card = (tmp_path / "model/README.md").read_text(encoding="utf-8")
    assert provenance["language_model_head"] is kept
    assert ("lm/softmax/W" in provenance["left"]) != kept
    assert ("softmax, which predicts 12\nwords, is included" in card) == kept
    assert ("predicted words, is not included" in card) != kept
    assert ("give the vocabulary to keep the softmax" in caplog.text) != kept
    # what is left beside the softmax is the optimiser's
    assert ("arrays are training state, such as optimizer slots, and are left out" in caplog.text) == kept
    assert ("arrays are not part of the biLM" in caplog.text) != kept
    with safe_open(tmp_path / "model/model.safetensors", "pt") as file:
        assert any("softmax" in name for name in file.keys()) == kept  # noqa: SIM118 - not a dictionary


def test_the_model_card_names_sources_and_states_no_licence(sources: tuple[Path, Path], tmp_path: Path) -> None:
    convert(sources, tmp_path / "model")

    card = (tmp_path / "model/README.md").read_text(encoding="utf-8")

    sha256 = hashlib.sha256(sources[0].read_bytes()).hexdigest()
    assert card.startswith("---\nlibrary_name: transformers\ntags:\n- elmo\n")
    assert f"| `weights.hdf5` | {sources[0].stat().st_size:,} | `{sha256}` |" in card
    assert "The licence of the source is not\nrecorded here." in card
    assert str(tmp_path) not in card


def test_files_have_the_permissions_of_new_files(sources: tuple[Path, Path], tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        convert(sources, tmp_path / "model")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o750
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "model").iterdir()} == {0o640}
