"""`elmo_hf.cli`: what each command does, and that an error is one line and leaves nothing behind."""

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

import elmo_hf
from elmo_hf import embedding
from elmo_hf.cli import main
from elmo_hf_conversion import convert
from original_formats import allennlp_elmo, write_allennlp_archive, write_bilm_hdf5


COMMAND = [sys.executable, "-m", "elmo_hf.cli"]

Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("library_logging")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny original. Not to be written to."""
    folder = tmp_path_factory.mktemp("cli") / "original"
    # without projection, rounding is not amplified from word to word
    write_bilm_hdf5(folder, dim=4)
    return folder


@pytest.fixture(scope="module")
def model(original: Path) -> Path:
    """The folder of that original, converted. Not to be written to."""
    folder = original.parent / "model"
    convert([original], folder)
    return folder


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    """A converted model that a test may damage."""
    convert([original], tmp_path / "copy")
    return tmp_path / "copy"


def error_of(captured: Captured) -> str:
    """Return the one line on standard error."""
    error = captured.readouterr().err
    assert re.fullmatch(r"elmo-hf: error: [^\n]+\n", error), error
    return error


def run(*arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], input=stdin, capture_output=True, encoding="utf-8", check=False
    )


def vectors_of(model: Path, words: list[str]) -> np.ndarray:
    """Compute the mix of a sentence's words, `[words, H]`, without the code under test."""
    batch = AutoTokenizer.from_pretrained(model)([words], is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        return AutoModel.from_pretrained(model)(**batch).last_hidden_state[0, 1:-1].numpy()


def test_from_an_original_to_vectors_in_processes_of_their_own(original: Path, tmp_path: Path) -> None:
    model, output = tmp_path / "my model", tmp_path / "vectors.npz"

    converted = run("convert", original / "options.json", original / "weights.hdf5", "--output", model)
    embedded = run("embed", "-", "--model", model, "--output", output, stdin="The bank .\n\nThe bank .\n")

    assert (converted.returncode, converted.stderr) == (0, "")
    assert (embedded.returncode, embedded.stderr) == (0, "")
    assert f"--model '{model}'" in converted.stdout
    with np.load(output) as vectors:
        assert {key: vectors[key].shape for key in vectors} == {"0": (3, 8), "1": (0, 8), "2": (3, 8)}


def test_help_names_every_command(capsys: Captured) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])

    assert re.findall(r"^    ([\w-]+)(?:  |$)", capsys.readouterr().out, re.MULTILINE) == [
        "convert",
        "export",
        "inspect",
        "verify",
        "embed",
        "build-vocab",
        "perplexity",
    ]


def test_version(capsys: Captured) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])

    assert capsys.readouterr().out == f"elmo-hf {elmo_hf.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["unknown"],
        ["convert", "weights.hdf5"],
        ["convert", "--output", "model"],
        ["convert"],
        ["convert", "source", "--output", "model", "--json"],
        ["export", "model"],
        ["embed", "--model", "m"],
        ["embed", "file", "--text", "a", "--model", "m"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(arguments)


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


def test_inspect_counts_the_parameters_of_each_part(model: Path, capsys: Captured) -> None:
    assert main(["inspect", str(model)]) == 0

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


def test_inspect_shows_where_the_model_is_from(model: Path, original: Path, capsys: Captured) -> None:
    main(["inspect", str(model)])

    output = capsys.readouterr().out
    size = (original / "weights.hdf5").stat().st_size
    assert re.search(rf"weights\.hdf5, {size:,} bytes, sha256 [0-9a-f]{{64}}$", output, re.MULTILINE)
    assert "float32" in output
    assert "moses" in output


def test_inspect_works_for_a_fine_tuned_model(copy: Path, tmp_path: Path, capsys: Captured) -> None:
    elmo_hf.ElmoForTokenClassification.from_pretrained(copy, num_labels=3).save_pretrained(tmp_path / "tagger")

    assert main(["inspect", str(tmp_path / "tagger")]) == 0

    output = capsys.readouterr().out
    assert re.search(rf"^  task +{8 * 3 + 3}  ", output, re.MULTILINE)
    assert "not recorded" in output


def test_verify_compares_each_layer(model: Path, original: Path, capsys: Captured) -> None:
    sources = [str(original / "options.json"), str(original / "weights.hdf5")]

    assert main(["verify", str(model), *sources]) == 0

    assert "agrees with its original" in capsys.readouterr().out


def test_verify_takes_sentences(model: Path, original: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "sentences.txt").write_text("The bank .\n\nHà Nội\n", encoding="utf-8")

    status = main(["verify", str(model), str(original), "--sentences", str(tmp_path / "sentences.txt")])

    assert status == 0
    assert len(re.findall(r"^ +[012]  (?:fresh|passed) ", capsys.readouterr().out, re.MULTILINE)) == 6


def test_verify_fails_for_another_original(model: Path, tmp_path: Path, capsys: Captured) -> None:
    write_bilm_hdf5(tmp_path / "other", dim=4, seed=1)

    assert main(["verify", str(model), str(tmp_path / "other")]) == 1

    assert "differs" in error_of(capsys)


def test_embed_shows_a_table(model: Path, capsys: Captured) -> None:
    assert main(["embed", "--text", "EU-wide 日本語.", "--text", "", "--model", str(model)]) == 0

    lines = capsys.readouterr().out.splitlines()
    expected = vectors_of(model, ["EU-wide", "日本語", "."])
    assert lines[0] == "# 0: EU-wide 日本語."
    for line, word, vector in zip(lines[2:5], ["EU-wide", "日本語", "."], expected, strict=True):
        name, norm, *numbers = line.removesuffix(" ...").split()
        assert name == word
        assert float(norm) == pytest.approx(np.linalg.norm(vector), abs=1e-3)
        assert [float(number) for number in numbers] == pytest.approx(vector[:6].tolist(), abs=1e-4)
    assert lines[5:] == ["", "# 1: ", "(no words)"]


def test_a_table_is_aligned_where_characters_are_wide(model: Path, capsys: Captured) -> None:
    main(["embed", "--text", "EU-wide 日本語 e\u0301", "--tokenized", "--model", str(model)])

    rows = capsys.readouterr().out.splitlines()[2:]
    # two columns for each of the three, none for the accent
    assert [row.index(".") for row in rows] == [12, 12 - 3, 12 + 1]


def test_embed_escapes_what_would_disturb_a_terminal(model: Path, capsys: Captured) -> None:
    main(["embed", "--text", "a\x1b[31mb \u202e", "--tokenized", "--model", str(model)])

    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert r"a\x1b[31mb" in output
    assert r"\u202e" in output


def test_embed_shows_all_layers(model: Path, capsys: Captured) -> None:
    main(["embed", "--text", "The bank", "--layer", "all", "--model", str(model)])

    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[:-8] for row in rows] == [["The", "0"], ["1"], ["2"], ["bank", "0"], ["1"], ["2"]]


def test_tokenized_words_are_not_split(model: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("didn't stop.\n", encoding="utf-8")
    arguments = [str(tmp_path / "lines.txt"), "--model", str(model)]

    main(["embed", *arguments, "--output", str(tmp_path / "raw.npz")])
    main(["embed", *arguments, "--tokenized", "--output", str(tmp_path / "tokenized.npz")])

    with np.load(tmp_path / "raw.npz") as raw, np.load(tmp_path / "tokenized.npz") as tokenized:
        np.testing.assert_allclose(raw["0"], vectors_of(model, ["didn", "'t", "stop", "."]), atol=1e-5)
        np.testing.assert_allclose(tokenized["0"], vectors_of(model, ["didn't", "stop."]), atol=1e-5)


def test_lines_are_kept_as_they_are_counted(model: Path, tmp_path: Path) -> None:
    # a mark of byte order, ends of lines of two systems, no end at last, and an end of line that is none
    (tmp_path / "lines.txt").write_bytes("\ufeffa\r\n\nb\u2028c".encode())

    main(["embed", str(tmp_path / "lines.txt"), "--model", str(model), "--output", str(tmp_path / "v.hdf5")])

    with h5py.File(tmp_path / "v.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"a": "0", "": "1", "b\u2028c": "2"}
        np.testing.assert_allclose(file["0"][...], vectors_of(model, ["a"]), atol=1e-5)


def test_a_line_that_is_not_utf_8_is_named(model: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "latin.txt").write_bytes(b"good\nna\xefve\n")
    output = tmp_path / "v.npz"

    assert main(["embed", str(tmp_path / "latin.txt"), "--model", str(model), "--output", str(output)]) == 1

    assert re.search(r"latin\.txt, line 2: byte 0xef is not UTF-8", error_of(capsys))
    assert [path.name for path in tmp_path.iterdir()] == ["latin.txt"]


def test_a_file_of_vectors_is_not_overwritten(model: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "v.npz").write_text("mine")

    assert main(["embed", "--text", "a", "--model", str(model), "--output", str(tmp_path / "v.npz")]) == 1

    assert "exists already" in error_of(capsys)
    assert (tmp_path / "v.npz").read_text() == "mine"


@pytest.mark.parametrize("layer", ["3", "best"])
def test_a_layer_that_is_not_there_is_named(layer: str, model: Path, capsys: Captured) -> None:
    assert main(["embed", "--text", "a", "--layer", layer, "--model", str(model)]) == 1

    assert f"no layer '{layer}'" in error_of(capsys)


reads_a_model = pytest.mark.parametrize(
    "command", [["inspect"], ["embed", "--text", "a", "--model"]], ids=["inspect", "embed"]
)


@reads_a_model
def test_no_folder(command: list[str], tmp_path: Path, capsys: Captured) -> None:
    assert main([*command, str(tmp_path / "absent")]) == 1

    assert "elmo-hf convert" in error_of(capsys)


@reads_a_model
def test_no_weights(command: list[str], copy: Path, capsys: Captured) -> None:
    (copy / "model.safetensors").unlink()

    assert main([*command, str(copy)]) == 1

    assert "model.safetensors" in error_of(capsys)


@reads_a_model
@pytest.mark.parametrize("size", [0, 7, 100, 3000])
def test_truncated_weights(command: list[str], size: int, copy: Path, capsys: Captured) -> None:
    os.truncate(copy / "model.safetensors", size)

    assert main([*command, str(copy)]) == 1

    assert "damaged" in error_of(capsys)


@reads_a_model
@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"model_type": "bert"}', '{"model_type": "elmo", "hidden_size": 3}', "\xff"]
)
def test_another_config(command: list[str], text: str, copy: Path, capsys: Captured) -> None:
    (copy / "config.json").write_text(text, encoding="latin-1")

    assert main([*command, str(copy)]) == 1

    assert error_of(capsys)


@pytest.mark.parametrize(
    ("command", "name", "values"),
    [
        ("any", "config.json", {"hidden_act": "nope"}),
        ("any", "config.json", {"char_embedding_dim": -4}),
        ("any", "config.json", {"intermediate_size": 10**9}),
        ("any", "config.json", {"num_hidden_layers": 10**7}),
        ("any", "config.json", {"dtype": "foo"}),
        ("any", "config.json", {"id2label": "x"}),
        ("any", "config.json", {"vocab_size": [4]}),
        ("embed", "config.json", {"num_highway_layers": 1}),
        ("embed", "config.json", {"tie_word_embeddings": "x", "auto_map": 5}),
        ("embed", "tokenizer_config.json", []),
        ("embed", "tokenizer_config.json", {"max_characters_per_token": 2}),
        ("inspect", "provenance.json", []),
        ("inspect", "provenance.json", {"sources": 5}),
        ("inspect", "provenance.json", {"sources": [5]}),
        ("inspect", "provenance.json", {"sources": [{}]}),
        ("inspect", "provenance.json", {"sources": [{"name": "w", "size": "5", "sha256": "0"}]}),
    ],
    ids=str,
)
def test_a_damaged_folder_is_one_line(
    command: str, name: str, values: Any, original: Path, copy: Path, capsys: Captured
) -> None:
    commands = {
        "embed": ["embed", "--text", "a", "--model", str(copy)],
        "inspect": ["inspect", str(copy)],
        "verify": ["verify", str(copy), str(original)],
    }
    before = json.loads((copy / name).read_text(encoding="utf-8"))
    (copy / name).write_text(json.dumps(before | values if isinstance(values, dict) else values))

    for arguments in commands.values() if command == "any" else [commands[command]]:
        assert main(arguments) == 1

        assert str(copy) in error_of(capsys)


@pytest.mark.parametrize("architectures", [[], None])
def test_inspect_shows_a_model_of_unknown_class(architectures: Any, copy: Path, capsys: Captured) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"architectures": architectures}))

    assert main(["inspect", str(copy)]) == 0

    assert re.search(r"^model +unknown class, float32$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("architectures", [[5], 5, "x"])
def test_a_class_that_has_no_name_is_an_error(architectures: Any, copy: Path, capsys: Captured) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"architectures": architectures}))

    assert main(["inspect", str(copy)]) == 1

    assert "its architectures are" in error_of(capsys)


@pytest.mark.parametrize("name", ["layers.x.weight", "layers", "\x1b[31m"])
def test_inspect_counts_weights_of_foreign_names(name: str, copy: Path, capsys: Captured) -> None:
    weights = load_file(copy / "model.safetensors")
    save_file(weights | {name: np.zeros(7, np.float32)}, copy / "model.safetensors", metadata={"format": "pt"})

    assert main(["inspect", str(copy)]) == 0

    assert re.search(r"^  (task|biLSTM layer) +7 ", capsys.readouterr().out, re.MULTILINE)


def test_inspect_needs_weights_in_the_file_of_weights(copy: Path, capsys: Captured) -> None:
    save_file({"scalar_mix.weights": np.zeros(0, np.float32)}, copy / "model.safetensors")

    assert main(["inspect", str(copy)]) == 1

    assert "no weights" in error_of(capsys)


def test_inspect_escapes_what_would_disturb_a_terminal(copy: Path, capsys: Captured) -> None:
    provenance = {"format": "\x1b[31mred", "sources": [{"name": "a\nb", "size": 5, "sha256": "\x9b"}]}
    (copy / "provenance.json").write_text(json.dumps(provenance))

    assert main(["inspect", str(copy)]) == 0

    output = capsys.readouterr().out
    assert r"\x1b[31mred" in output
    assert r"a\nb, 5 bytes, sha256 \x9b" in output


def test_an_error_escapes_what_would_disturb_a_terminal(tmp_path: Path, capsys: Captured) -> None:
    assert main(["inspect", str(tmp_path / "\x1b[31mred")]) == 1

    assert r"\x1b[31mred is not a model folder" in error_of(capsys)


def test_a_foreign_name_is_escaped_in_error_and_warning(original: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "original")
    options = json.loads((original / "options.json").read_text())
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

    shutil.copy(original / "weights.hdf5", tmp_path / "original")
    process = run("convert", tmp_path / "original", "--output", tmp_path / "model")

    assert process.returncode == 0
    assert re.fullmatch(r"options\.json: options kept, but not used: [^\n]*red[^\n]*\n", process.stderr)
    assert "\x1b" not in process.stderr


def test_that_a_download_is_tried_again_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def fail(*_: object, **__: object) -> None:
        logging.get_logger("elmo_hf_conversion.download").warning("%s. Trying again.", "\x1b[31mred")
        logging.get_logger("elmo_hf_conversion.config").warning("a note")
        raise elmo_hf.ElmoError("no such luck")

    monkeypatch.setattr("elmo_hf_conversion.convert", fail)

    assert main(["convert", "https://x.invalid/y", "--output", str(tmp_path / "model")]) == 1
    assert capsys.readouterr().err == "\\x1b[31mred. Trying again.\nelmo-hf: error: no such luck\n"


@pytest.mark.parametrize("text", ["", "{}", "[]"])
def test_a_damaged_tokenizer(text: str, copy: Path, capsys: Captured) -> None:
    (copy / "tokenizer.json").write_text(text)

    assert main(["embed", "--text", "a", "--model", str(copy)]) == 1

    assert "tokenizer" in error_of(capsys)


def test_missing_weights_are_not_made_up(copy: Path, capsys: Captured) -> None:
    weights = load_file(copy / "model.safetensors")
    del weights["layers.1.recurrent_weight"]
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})

    assert main(["embed", "--text", "a", "--model", str(copy)]) == 1

    assert "layers.1.recurrent_weight" in error_of(capsys)


@pytest.mark.parametrize("command", ["embed", "verify"])
def test_weights_of_another_shape_are_refused(command: str, original: Path, copy: Path, capsys: Captured) -> None:
    weights = load_file(copy / "model.safetensors")
    weights["scalar_mix.weights"] = np.zeros(5, np.float32)
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    arguments = {"embed": ["--text", "a", "--model", str(copy)], "verify": [str(copy), str(original)]}

    assert main([command, *arguments[command]]) == 1

    assert "scalar_mix.weights" in error_of(capsys)


@pytest.mark.parametrize("content", [b"", b"not HDF5", b"\x89HDF\r\n\x1a\n"], ids=["empty", "text", "signature only"])
def test_a_damaged_original_leaves_no_folder(content: bytes, original: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "weights.hdf5").write_bytes(content)
    sources = [str(tmp_path / "weights.hdf5"), str(original / "options.json")]

    assert main(["convert", *sources, "--output", str(tmp_path / "model")]) == 1

    assert "weights.hdf5" in error_of(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["weights.hdf5"]


def test_convert_does_not_overwrite(original: Path, tmp_path: Path, capsys: Captured) -> None:
    assert main(["convert", str(original), "--output", str(tmp_path)]) == 1

    assert str(tmp_path) in error_of(capsys)


def test_export_lists_files_and_what_is_left_out(copy: Path, tmp_path: Path, capsys: Captured) -> None:
    elmo_hf.ElmoForTokenClassification.from_pretrained(copy, num_labels=3).save_pretrained(tmp_path / "tagger")

    assert main(["export", str(tmp_path / "tagger"), "--output", str(tmp_path / "exported")]) == 0

    output = capsys.readouterr().out
    assert re.search(r"^    options\.json, \d+ bytes$", output, re.MULTILINE)
    assert re.search(r"^    weights\.hdf5, .* kB$", output, re.MULTILINE)
    assert re.search(r"^Left out, .*classifier\.weight", output, re.MULTILINE)
    assert main(["verify", str(copy), str(tmp_path / "exported")]) == 0


def test_export_to_another_format_is_refused(model: Path, tmp_path: Path, capsys: Captured) -> None:
    assert main(["export", str(model), "--format", "onnx", "--output", str(tmp_path / "exported")]) == 1

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
    assert {"name", "content", "format", "files", "where", "size", "licence", "converts", "how"} == releases[0].keys()


WITHOUT_H5PY = """
import sys
sys.modules["h5py"] = None
from elmo_hf.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "arguments",
    [["convert", "weights.hdf5", "--output", "m"], ["convert", "--list"], ["export", "m", "--output", "e"]],
    ids=" ".join,
)
def test_without_the_extra_one_line_says_what_to_install(arguments: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_H5PY, *arguments], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert ended.stderr == 'elmo-hf: error: h5py is not installed: pip install "elmo_hf[convert]"\n'


def test_debug_shows_where_an_error_came_from(tmp_path: Path, capsys: Captured) -> None:
    assert main(["inspect", str(tmp_path), "--debug"]) == 1

    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.splitlines()[-1].startswith("elmo-hf: error: ")


def test_an_interrupt_ends_with_130_and_says_nothing(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(embedding, "load", interrupt)

    assert main(["embed", "--text", "a", "--model", str(model)]) == 130

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_named(unbuffered: str, model: Path) -> None:
    with Path("/dev/full").open("w") as full:
        arguments = [*COMMAND, "inspect", str(model)]
        process = subprocess.run(
            arguments,
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            check=False,
        )

    assert process.returncode == 1
    assert process.stderr == "elmo-hf: error: standard input or output fails: No space left on device\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_matter(closed: str, original: Path, tmp_path: Path) -> None:
    arguments = ["convert", str(original), "--output", str(tmp_path / "model")]
    process = subprocess.run(
        f"{shlex.join([*COMMAND, *arguments])} {closed}", shell=True, capture_output=True, text=True, check=False
    )

    assert process.returncode == 0, process.stderr
    assert (tmp_path / "model/config.json").is_file()
    assert "Traceback" not in process.stderr


def test_a_closed_standard_input_is_named(model: Path) -> None:
    arguments = [*COMMAND, "embed", "-", "--model", str(model)]
    process = subprocess.run(f"{shlex.join(arguments)} <&-", shell=True, capture_output=True, text=True, check=False)

    assert process.returncode == 1
    assert process.stderr == "elmo-hf: error: Standard input is closed: give a file.\n"


def test_a_name_that_is_not_utf_8_is_named(model: Path, tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "m\udcff"
    shutil.copytree(model, folder)

    assert main(["embed", "--text", "a", "--model", str(folder)]) == 1

    assert re.search(r"m\\udcff.* not valid UTF-8", error_of(capsys))


def test_an_output_may_be_named_through_a_new_folder(original: Path, tmp_path: Path, capsys: Captured) -> None:
    output = f"{tmp_path}/new/../model"

    assert main(["convert", str(original), "--output", output]) == 0

    assert "Converted to" in capsys.readouterr().out
    assert (tmp_path / "model/config.json").is_file()


def test_a_reader_that_leaves_is_no_error(model: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "embed", "-", "--model", str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()

    process.stdin.write(b"The bank\n" * 100)
    process.stdin.close()
    error = process.stderr.read()
    process.stderr.close()

    assert process.wait() == 128 + signal.SIGPIPE
    assert error == b""


def test_a_full_disk_is_one_line_and_no_crash_when_hdf5_ends(allennlp_model: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("The bank raised rates because it had no choice , said Mr. Smith .\n" * 3000)

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (512_000, resource.RLIM_INFINITY))

    done = subprocess.run(
        [*COMMAND, "embed", "text", "--model", str(allennlp_model), "--output", "v.hdf5"],
        cwd=tmp_path,
        preexec_fn=limit_files,
        capture_output=True,
        text=True,
    )

    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert not (tmp_path / "v.hdf5").exists()
