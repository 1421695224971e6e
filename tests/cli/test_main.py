"""`elmo_hf.cli`: the command as a whole, and that an error is one line and leaves nothing behind."""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import elmo_hf
from elmo_hf.cli import main
from elmo_hf.cli.main import build_parser
from elmo_hf.embedding import loading
from support.cli_runs import MODULE, Captured, error_of, run
from support.fresh_python import FRESH_PYTHON
from support.tiny_models import tiny_model


pytestmark = pytest.mark.usefixtures("library_logging")


def test_from_an_original_to_vectors_in_processes_of_their_own(bilm_original: Path, tmp_path: Path) -> None:
    model, output = tmp_path / "my model", tmp_path / "vectors.npz"

    converted = run("convert", bilm_original / "options.json", bilm_original / "weights.hdf5", "--output", model)
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
        "copy",
        "push",
        "embed",
        "predict",
        "neighbours",
        "split-sentences",
        "build-vocab",
        "perplexity",
        "fill",
        "plot",
        "demo",
    ]


# the console script that pip makes, which then lists the modules that it imported
CONSOLE_SCRIPT = """
import sys
from elmo_hf.cli import main
try:
    status = main()
finally:
    print(*sys.modules, file=sys.stderr)
sys.exit(status)
"""

HEAVY = {"huggingface_hub", "numpy", "safetensors", "tokenizers", "torch", "transformers"}


@pytest.fixture
def console_script(tmp_path: Path) -> Path:
    """The command as it is installed: what it imports depends on its name."""
    script = tmp_path / "elmo-hf"
    script.write_text(CONSOLE_SCRIPT, encoding="utf-8")
    return script


def commands_of(parser: argparse.ArgumentParser) -> Iterator[list[str]]:
    """List the arguments that name each command, from those of the whole to those of a picture."""
    yield []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield from ([name, *inner] for inner in commands_of(command))


@pytest.mark.parametrize("usage", [["--help"], ["--no-such-option"]], ids=" ".join)
@pytest.mark.parametrize("command", list(commands_of(build_parser())), ids=" ".join)
def test_help_and_wrong_usage_import_nothing_slow(command: list[str], usage: list[str], console_script: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(console_script), *command, *usage], capture_output=True, text=True, check=False
    )

    assert ended.returncode == (0 if usage == ["--help"] else 2)
    imported = {name.split(".")[0] for name in ended.stderr.splitlines()[-1].split()}
    assert "elmo_hf" in imported
    assert HEAVY.isdisjoint(imported)


def test_the_console_script_finds_the_models_when_a_command_needs_them(console_script: Path, bilm_model: Path) -> None:
    arguments = ["embed", "--text", "The bank", "--model", str(bilm_model)]

    ended = subprocess.run(
        [*FRESH_PYTHON, str(console_script), *arguments], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("# 0: The bank\n")
    assert "transformers" in ended.stderr.split()


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


reads_a_model = pytest.mark.parametrize(
    "command", [["inspect"], ["embed", "--text", "a", "--model"]], ids=["inspect", "embed"]
)


@reads_a_model
def test_no_folder(command: list[str], tmp_path: Path, capsys: Captured) -> None:
    assert main([*command, str(tmp_path / "absent")]) == 1

    assert "elmo-hf convert" in error_of(capsys)


@reads_a_model
def test_no_weights(command: list[str], spare_model: Path, capsys: Captured) -> None:
    (spare_model / "model.safetensors").unlink()

    assert main([*command, str(spare_model)]) == 1

    assert "model.safetensors" in error_of(capsys)


@reads_a_model
@pytest.mark.parametrize("size", [0, 7, 100, 3000])
def test_truncated_weights(command: list[str], size: int, spare_model: Path, capsys: Captured) -> None:
    os.truncate(spare_model / "model.safetensors", size)

    assert main([*command, str(spare_model)]) == 1

    assert "damaged" in error_of(capsys)


@reads_a_model
@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"model_type": "bert"}', '{"model_type": "elmo", "hidden_size": 3}', "\xff"]
)
def test_another_config(command: list[str], text: str, spare_model: Path, capsys: Captured) -> None:
    (spare_model / "config.json").write_text(text, encoding="latin-1")

    assert main([*command, str(spare_model)]) == 1

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
    command: str, name: str, values: Any, bilm_original: Path, spare_model: Path, capsys: Captured
) -> None:
    commands = {
        "embed": ["embed", "--text", "a", "--model", str(spare_model)],
        "inspect": ["inspect", str(spare_model)],
        "verify": ["verify", str(spare_model), str(bilm_original)],
    }
    before = json.loads((spare_model / name).read_text(encoding="utf-8"))
    (spare_model / name).write_text(json.dumps(before | values if isinstance(values, dict) else values))

    for arguments in commands.values() if command == "any" else [commands[command]]:
        assert main(arguments) == 1

        assert str(spare_model) in error_of(capsys)


def test_an_error_escapes_what_would_disturb_a_terminal(tmp_path: Path, capsys: Captured) -> None:
    assert main(["inspect", str(tmp_path / "\x1b[31mred")]) == 1

    assert r"\x1b[31mred is not a model folder" in error_of(capsys)


@pytest.mark.parametrize("command", ["embed", "verify"])
def test_weights_of_another_shape_are_refused(
    command: str, bilm_original: Path, spare_model: Path, capsys: Captured
) -> None:
    weights = load_file(spare_model / "model.safetensors")
    weights["scalar_mix.weights"] = np.zeros(5, np.float32)
    save_file(weights, spare_model / "model.safetensors", metadata={"format": "pt"})
    arguments = {
        "embed": ["--text", "a", "--model", str(spare_model)],
        "verify": [str(spare_model), str(bilm_original)],
    }

    assert main([command, *arguments[command]]) == 1

    assert "scalar_mix.weights" in error_of(capsys)


WITHOUT_H5PY = """
import sys
sys.modules["h5py"] = None
from elmo_hf.cli import main
for command in ("convert weights.hdf5 --output m", "convert --list", "export m --output e"):
    print(main(command.split()))
"""


def test_without_the_extra_one_line_says_what_to_install() -> None:
    ended = subprocess.run([*FRESH_PYTHON, "-c", WITHOUT_H5PY], capture_output=True, text=True, check=True)

    assert ended.stdout == "1\n" * 3
    assert ended.stderr == 'elmo-hf: error: h5py is not installed: pip install "elmo_hf[convert]"\n' * 3


def test_debug_shows_where_an_error_came_from(tmp_path: Path, capsys: Captured) -> None:
    assert main(["inspect", str(tmp_path), "--debug"]) == 1

    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.splitlines()[-1].startswith("elmo-hf: error: ")


def test_an_unexpected_error_does_not_look_like_a_wrong_input(
    bilm_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def fail(_: object) -> None:
        raise ValueError("too many values\nto unpack")

    monkeypatch.setattr(loading, "load", fail)

    assert main(["embed", "--text", "a", "--model", str(bilm_model)]) == 1

    assert "error: unexpected ValueError (too many values to unpack): run it again with --debug" in error_of(capsys)


def test_what_a_hub_file_refuses_is_a_wrong_input(
    bilm_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def refuse(_: object) -> None:
        # by a ValueError: a file that travels to the Hub cannot import ElmoError
        tiny_model(elmo_hf.ElmoForTokenClassification, head="nope")

    monkeypatch.setattr(loading, "load", refuse)

    assert main(["embed", "--text", "a", "--model", str(bilm_model)]) == 1

    assert error_of(capsys).startswith("elmo-hf: error: `head` is 'nope'")


def test_an_interrupt_ends_with_130_and_says_nothing(
    bilm_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loading, "load", interrupt)

    assert main(["embed", "--text", "a", "--model", str(bilm_model)]) == 130

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_named(unbuffered: str, bilm_model: Path) -> None:
    with Path("/dev/full").open("w") as full:
        arguments = [*FRESH_PYTHON, *MODULE, "inspect", str(bilm_model)]
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


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_matter(closed: str, bilm_original: Path, tmp_path: Path) -> None:
    arguments = ["convert", str(bilm_original), "--output", str(tmp_path / "model")]
    process = subprocess.run(
        f"{shlex.join([*FRESH_PYTHON, *MODULE, *arguments])} {closed}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )

    assert process.returncode == 0, process.stderr
    assert (tmp_path / "model/config.json").is_file()
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize(
    ("command", "prints"),
    [
        ("inspect m", True),
        ("verify m original", True),
        ("convert --list", True),
        ("convert source --output m", False),
        ("copy m output", False),
        ("push m org/name", False),
        ("push m org/name --dry-run", True),
        ("embed --text a", True),
        ("embed file --output a.npz", False),
        ("predict m file", True),
        ("predict m file --output a.csv", False),
        ("neighbours file --text a --word a", True),
        ("neighbours --index i --text a --word a", True),
        ("neighbours file --index i", False),
        ("split-sentences file --language en", True),
        ("split-sentences file --language en --output a", False),
        ("build-vocab file --output a", False),
        ("perplexity m file", True),
        ("fill a", True),
        ("fill a --json-lines -", True),
        ("fill a --json-lines a.jsonl", False),
        ("plot layers m --output a.png", False),
    ],
)
def test_a_result_is_not_lost_in_a_closed_standard_output(
    command: str, prints: bool, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    options = build_parser().parse_args(command.split())
    options.run = lambda _: 7
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", lambda *_: options)
    monkeypatch.setattr(sys, "stdout", None)

    assert main([]) == (1 if prints else 7)

    message = "elmo-hf: error: Standard output is closed: open it, or name a file for the result.\n"
    assert capsys.readouterr().err == (message if prints else "")


def test_a_reader_that_leaves_is_no_error(bilm_model: Path) -> None:
    process = subprocess.Popen(
        [*FRESH_PYTHON, *MODULE, "embed", "-", "--model", str(bilm_model)],
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


def test_a_program_without_arguments_registers_the_models() -> None:
    program = """
import sys
sys.argv = []  # as in an interpreter that another program embeds
import elmo_hf
from transformers import AutoConfig
print(AutoConfig.for_model("elmo").model_type)
"""
    done = subprocess.run([*FRESH_PYTHON, "-c", program], capture_output=True, text=True)

    assert (done.stdout, done.returncode) == ("elmo\n", 0), done.stderr
