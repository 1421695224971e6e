"""`cli.models`: what convert, export, inspect and verify say and leave."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from transformers import AutoModel
from transformers.utils import logging

import elmo_hf
from elmo_hf.cli import main
from support.cli_runs import Captured, error_of, run
from support.original_formats import allennlp_elmo, write_allennlp_archive, write_bilm_hdf5, write_training_folder


pytestmark = pytest.mark.usefixtures("library_logging")


def test_convert_takes_the_mix_that_is_asked_for(tmp_path: Path, capsys: Captured) -> None:
    path = write_allennlp_archive(tmp_path / "model.tar.gz", allennlp_elmo(tmp_path / "bilm", mixes=2))

    assert main(["convert", str(path), "--mix", "1", "--output", str(tmp_path / "model")]) == 0

    capsys.readouterr()
    assert AutoModel.from_pretrained(tmp_path / "model").scalar_mix.weights.tolist() == [1, 1.5, 2]
    assert main(["inspect", str(tmp_path / "model")]) == 0
    assert "allennlp-torch, converted by" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "message"),
    [(["--mix", "2"], "has no mix 2. There is: 0, 1."), (["--language", "es"], "has no --language es.")],
    ids=["mix", "language"],
)
def test_convert_names_what_can_be_chosen(option: list[str], message: str, tmp_path: Path, capsys: Captured) -> None:
    path = write_allennlp_archive(tmp_path / "model.tar.gz", allennlp_elmo(tmp_path / "bilm", mixes=2))

    assert main(["convert", str(path), *option, "--output", str(tmp_path / "model")]) == 1

    assert message in error_of(capsys)
    assert not (tmp_path / "model").exists()


def test_inspect_counts_the_parameters_of_each_part(bilm_model: Path, capsys: Captured) -> None:
    assert main(["inspect", str(bilm_model)]) == 0

    output = capsys.readouterr().out
    counts = {
        name: int(number.replace(",", ""))
        for name, number in re.findall(r"^  (\w[\w ]*?)  +([\d,]+)  ", output, re.MULTILINE)
    }
    cell = 2 * (4 * 16 + 4 * 16 + 16)
    assert counts == {
        "characters": 262 * 4,
        "convolutions": (4 * 1 * 4 + 4) + (4 * 2 * 4 + 4) + (4 * 3 * 8 + 8),
        "highways": 4 * (16 * 16 + 16),
        "projection": 16 * 4 + 4,
        "biLSTM layer 1": cell,
        "biLSTM layer 2": cell,
        "mix": 4,
    }
    assert int(re.search(r"^parameters +([\d,]+)$", output, re.MULTILINE)[1].replace(",", "")) == sum(counts.values())


def test_inspect_shows_where_the_model_is_from(bilm_model: Path, bilm_original: Path, capsys: Captured) -> None:
    main(["inspect", str(bilm_model)])

    output = capsys.readouterr().out
    size = (bilm_original / "weights.hdf5").stat().st_size
    assert re.search(rf"weights\.hdf5, {size:,} bytes, sha256 [0-9a-f]{{64}}$", output, re.MULTILINE)
    assert "float32" in output
    assert "moses" in output


def test_inspect_works_for_a_fine_tuned_model(spare_model: Path, tmp_path: Path, capsys: Captured) -> None:
    elmo_hf.ElmoForTokenClassification.from_pretrained(spare_model, num_labels=3).save_pretrained(tmp_path / "tagger")

    assert main(["inspect", str(tmp_path / "tagger")]) == 0

    output = capsys.readouterr().out
    assert re.search(rf"^  task +{8 * 3 + 3}  ", output, re.MULTILINE)
    assert "not recorded" in output


def test_verify_compares_each_layer(bilm_model: Path, bilm_original: Path, capsys: Captured) -> None:
    sources = [str(bilm_original / "options.json"), str(bilm_original / "weights.hdf5")]

    assert main(["verify", str(bilm_model), *sources]) == 0

    assert "agrees with its original" in capsys.readouterr().out


def test_verify_takes_sentences(bilm_model: Path, bilm_original: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "sentences.txt").write_text("The bank .\n\nHà Nội\n", encoding="utf-8")

    status = main(["verify", str(bilm_model), str(bilm_original), "--sentences", str(tmp_path / "sentences.txt")])

    assert status == 0
    assert len(re.findall(r"^ +[012]  (?:fresh|passed) ", capsys.readouterr().out, re.MULTILINE)) == 6


@pytest.mark.parametrize("on_terminal", [True, False])
def test_verify_counts_on_a_terminal(
    on_terminal: bool, bilm_model: Path, bilm_original: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("elmo_hf.cli.models.shows_progress", lambda: on_terminal)

    assert main(["verify", str(bilm_model), str(bilm_original)]) == 0

    assert ("Comparing" in capsys.readouterr().err) == on_terminal


@pytest.mark.parametrize("on_terminal", [True, False])
def test_the_export_to_onnx_says_that_it_takes_time(
    on_terminal: bool, bilm_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def write(_model: Path, path: Path) -> Path:
        path.write_bytes(b"onnx")
        return path

    monkeypatch.setattr("elmo_hf.cli.models.shows_progress", lambda: on_terminal)
    monkeypatch.setattr("elmo_hf.integrations.onnx_export.export_onnx", write)

    main(["export", str(bilm_model), "--format", "onnx", "--output", str(tmp_path / "elmo.onnx")])

    assert ("which can take minutes" in capsys.readouterr().err) == on_terminal


def test_verify_fails_for_another_original(bilm_model: Path, tmp_path: Path, capsys: Captured) -> None:
    write_bilm_hdf5(tmp_path / "other", dim=4, seed=1)

    assert main(["verify", str(bilm_model), str(tmp_path / "other")]) == 1

    assert "differs" in error_of(capsys)


@pytest.mark.parametrize("architectures", [[], None])
def test_inspect_shows_a_model_of_unknown_class(architectures: Any, spare_model: Path, capsys: Captured) -> None:
    config = json.loads((spare_model / "config.json").read_text())
    (spare_model / "config.json").write_text(json.dumps(config | {"architectures": architectures}))

    assert main(["inspect", str(spare_model)]) == 0

    assert re.search(r"^model +unknown class, float32$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("architectures", [[5], 5, "x"])
def test_a_class_that_has_no_name_is_an_error(architectures: Any, spare_model: Path, capsys: Captured) -> None:
    config = json.loads((spare_model / "config.json").read_text())
    (spare_model / "config.json").write_text(json.dumps(config | {"architectures": architectures}))

    assert main(["inspect", str(spare_model)]) == 1

    assert "its architectures are" in error_of(capsys)


@pytest.mark.parametrize("name", ["layers.x.weight", "layers", "\x1b[31m"])
def test_inspect_counts_weights_of_foreign_names(name: str, spare_model: Path, capsys: Captured) -> None:
    weights = load_file(spare_model / "model.safetensors")
    save_file(weights | {name: np.zeros(7, np.float32)}, spare_model / "model.safetensors", metadata={"format": "pt"})

    assert main(["inspect", str(spare_model)]) == 0

    assert re.search(r"^  (task|biLSTM layer) +7 ", capsys.readouterr().out, re.MULTILINE)


def test_inspect_needs_weights_in_the_file_of_weights(spare_model: Path, capsys: Captured) -> None:
    save_file({"scalar_mix.weights": np.zeros(0, np.float32)}, spare_model / "model.safetensors")

    assert main(["inspect", str(spare_model)]) == 1

    assert "no weights" in error_of(capsys)


def test_inspect_escapes_what_would_disturb_a_terminal(spare_model: Path, capsys: Captured) -> None:
    provenance = {"format": "\x1b[31mred", "sources": [{"name": "a\nb", "size": 5, "sha256": "\x9b"}]}
    (spare_model / "provenance.json").write_text(json.dumps(provenance))

    assert main(["inspect", str(spare_model)]) == 0

    output = capsys.readouterr().out
    assert r"\x1b[31mred" in output
    assert r"a\nb, 5 bytes, sha256 \x9b" in output


def test_a_foreign_name_is_escaped_in_error_and_warning(bilm_original: Path, tmp_path: Path) -> None:
    shutil.copytree(bilm_original, tmp_path / "original")
    options = json.loads((bilm_original / "options.json").read_text())
    text = json.dumps(options | {"\x1b[31mred\nline": 1, "n_tokens_vocab": 5})
    (tmp_path / "original/options.json").write_text(text)
    with h5py.File(tmp_path / "original/weights.hdf5", "a") as file:
        file["CNN/\x1b[31mred"] = np.ones(3, np.float32)

    process = run("convert", tmp_path / "original", "--output", tmp_path / "model")

    assert process.returncode == 1
    assert "red" in process.stderr
    # the error alone, without the notes on the options
    assert len(process.stderr.splitlines()) == 1
    assert "\x1b" not in process.stderr

    shutil.copy(bilm_original / "weights.hdf5", tmp_path / "original")
    process = run("convert", tmp_path / "original", "--output", tmp_path / "model")

    assert process.returncode == 0
    assert re.fullmatch(r"options\.json: options kept, but not used: [^\n]*red[^\n]*\n", process.stderr)
    assert "\x1b" not in process.stderr


def test_that_a_download_is_tried_again_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def fail(*_: object, **__: object) -> None:
        logging.get_logger("elmo_hf_conversion.fetch.download").warning("%s. Trying again.", "\x1b[31mred")
        logging.get_logger("elmo_hf_conversion.config").warning("a note")
        raise elmo_hf.ElmoError("no such luck")

    monkeypatch.setattr("elmo_hf_conversion.convert", fail)

    assert main(["convert", "https://x.invalid/y", "--output", str(tmp_path / "model")]) == 1
    assert capsys.readouterr().err == "\\x1b[31mred. Trying again.\nelmo-hf: error: no such luck\n"


@pytest.mark.parametrize("content", [b"", b"not HDF5", b"\x89HDF\r\n\x1a\n"], ids=["empty", "text", "signature only"])
def test_a_damaged_original_leaves_no_folder(
    content: bytes, bilm_original: Path, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "weights.hdf5").write_bytes(content)
    sources = [str(tmp_path / "weights.hdf5"), str(bilm_original / "options.json")]

    assert main(["convert", *sources, "--output", str(tmp_path / "model")]) == 1

    assert "weights.hdf5" in error_of(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["weights.hdf5"]


def test_convert_does_not_overwrite(bilm_original: Path, tmp_path: Path, capsys: Captured) -> None:
    assert main(["convert", str(bilm_original), "--output", str(tmp_path)]) == 1

    assert str(tmp_path) in error_of(capsys)


def test_export_lists_files_and_what_is_left_out(spare_model: Path, tmp_path: Path, capsys: Captured) -> None:
    elmo_hf.ElmoForTokenClassification.from_pretrained(spare_model, num_labels=3).save_pretrained(tmp_path / "tagger")

    assert main(["export", str(tmp_path / "tagger"), "--output", str(tmp_path / "exported")]) == 0

    output = capsys.readouterr().out
    assert re.search(r"^    options\.json, \d+ bytes$", output, re.MULTILINE)
    assert re.search(r"^    weights\.hdf5, .* kB$", output, re.MULTILINE)
    assert re.search(r"^Left out, .*classifier\.weight", output, re.MULTILINE)
    assert main(["verify", str(spare_model), str(tmp_path / "exported")]) == 0


def test_export_to_another_format_is_refused(bilm_model: Path, tmp_path: Path, capsys: Captured) -> None:
    assert main(["export", str(bilm_model), "--format", "keras", "--output", str(tmp_path / "exported")]) == 1

    assert "allennlp-hdf5" in error_of(capsys)


@pytest.mark.parametrize("columns", ["40", "100", "500"])
def test_the_list_of_releases_fits_a_terminal(columns: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    assert main(["convert", "--list"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert "English small" in lines
    assert all(len(line) <= min(max(int(columns), 80), 120) or len(line.split()) <= 2 for line in lines)


def test_the_list_of_releases_for_programs(capsys: Captured) -> None:
    assert main(["convert", "--list", "--json"]) == 0

    releases = json.loads(capsys.readouterr().out)
    assert releases[0]["name"] == "small"
    assert releases[0]["title"] == "English small"
    assert releases[0]["downloads"][0]["urls"][0] == releases[0]["where"] + releases[0]["files"].partition(",")[0]


def test_an_output_may_be_named_through_a_new_folder(bilm_original: Path, tmp_path: Path, capsys: Captured) -> None:
    output = f"{tmp_path}/new/../model"

    assert main(["convert", str(bilm_original), "--output", output]) == 0

    assert "Converted to" in capsys.readouterr().out
    assert (tmp_path / "model/config.json").is_file()


@pytest.mark.parametrize("kept", [True, False], ids=["with", "without"])
def test_convert_says_whether_the_softmax_is_there(kept: bool, tmp_path: Path, capsys: Captured) -> None:
    write_training_folder(tmp_path / "original")
    if not kept:
        (tmp_path / "original/vocab.txt").unlink()

    assert main(["convert", str(tmp_path / "original"), "--output", str(tmp_path / "model")]) == 0

    shown = capsys.readouterr().out
    assert ("    the softmax, which predicts 12 words\n" in shown) == kept
    assert ("import AutoModel, AutoModelForMaskedLM, AutoTokenizer\n" in shown) == kept
    assert (f"    elmo-hf perplexity {tmp_path / 'model'} TEXT\n" in shown) == kept
