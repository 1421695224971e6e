"""`examples/pretrain.py` trains, goes on, and refuses what it cannot do."""

import gzip
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file

from elmo_hf import ElmoForPreTraining, ElmoTokenizer
from elmo_hf.corpus import build_vocabulary, read_sentences, write_vocabulary


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "pretrain.py"
TEXT = "the king is here .\nthe queen is there , and the king is not .\nno\nwho is the king ?\n" * 5
SMALL = [
    "--hidden-size=8",
    "--intermediate-size=6",
    "--char-embedding-dim=4",
    "--char-filters=1x4,2x6",
    "--negatives=0",
    "--threads=1",
    "--words-per-batch=40",
    "--log-steps=2",
    "--save-steps=3",
]

Run = Callable[..., None]


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pretrain", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the script in a folder with a text and its vocabulary."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    with gzip.open("text.gz", "wt", encoding="utf-8") as file:
        file.write(TEXT)
    write_vocabulary(Path("vocab.txt"), build_vocabulary(read_sentences("text.gz")))

    def main(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["pretrain.py", "text.gz", *SMALL, *arguments])
        script.main()

    return main


@pytest.mark.parametrize("batching", [[], ["--batching", "streams", "--streams", "2", "--unroll-steps", "4"]])
def test_trains_and_saves_a_model(run: Run, batching: list[str], tmp_path: Path) -> None:
    run("--vocab", "vocab.txt", "--heldout", "text.gz", "--output", "out", "--epochs", "1", "--half", *batching)

    assert load_file(tmp_path / "out" / "model.safetensors")["softmax.weight"].dtype == torch.float16
    model = ElmoForPreTraining.from_pretrained("out")
    tokenizer = ElmoTokenizer.from_pretrained("out")
    assert model.dtype == torch.float32
    assert model.config.vocab_size == tokenizer.vocab_size
    assert tokenizer.mask_token == "<MASK>"


def test_a_resumed_training_ends_with_the_same_weights(run: Run, tmp_path: Path) -> None:
    run("--vocab", "vocab.txt", "--output", "whole", "--epochs", "2")
    run("--vocab", "vocab.txt", "--output", "cut", "--epochs", "2")
    for checkpoint in sorted(Path("cut").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[1:]:
        checkpoint.rename(tmp_path / f"away-{checkpoint.name}")

    run("--vocab", "vocab.txt", "--output", "cut", "--epochs", "2", "--resume")

    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(part, cut[name]) for name, part in whole.items())


def test_goes_on_in_another_vocabulary(run: Run) -> None:
    run("--vocab", "vocab.txt", "--output", "first", "--epochs", "1")
    write_vocabulary(Path("other.txt"), ["<S>", "</S>", "<UNK>", "the", "king", "castle"])

    run("--model", "first", "--vocab", "other.txt", "--output", "second", "--epochs", "1")

    assert ElmoForPreTraining.from_pretrained("second").config.vocab_size == 7


def test_a_new_softmax_is_announced(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("--vocab", "vocab.txt", "--output", "first", "--epochs", "1")
    ElmoForPreTraining.from_pretrained("first").elmo.save_pretrained("bare")
    ElmoTokenizer.from_pretrained("first").save_pretrained("bare")

    run("--model", "bare", "--output", "second", "--epochs", "1")

    assert "warning: bare has no softmax" in capsys.readouterr().out


def test_needs_a_vocabulary_or_a_model(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--output", "out")

    assert "give --vocab to begin from nothing, or --model to go on" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_train_as_one_that_accumulates(run: Run, tmp_path: Path) -> None:
    # an even number of batches, so that both take the same
    options = ["--vocab", "vocab.txt", "--epochs", "2", "--dropout=0", "--save-steps=2", "--words-per-batch=50"]
    run(*options, "--output", "one", "--accumulate", "2")
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    done = subprocess.run(
        [*launch, str(SCRIPT), "text.gz", *SMALL, *options, "--output", "two"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, part in one.items():
        torch.testing.assert_close(two[name], part, rtol=0, atol=1e-4, msg=name)
    logs = [json.loads(next((tmp_path / name).glob("*/trainer_state.json")).read_text()) for name in ("one", "two")]
    losses = [[entry["loss"] for entry in log["log_history"] if "loss" in entry] for log in logs]
    assert losses[0]
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
