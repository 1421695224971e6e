"""Options reach the model and the trainer, and those that make no sense end the command with one line."""

import argparse
from pathlib import Path

import pytest

from elmo_hf import ElmoForTokenClassification
from elmo_hf.training.finetuning import load_task_model
from elmo_hf.training.finetuning_options import (
    FineTuningOptions,
    add_options,
    at_least,
    make_options,
    parse_options,
    read_splits,
)


NAMES = ["O", "B-PER", "I-PER"]


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    data = add_options(
        parser, ElmoForTokenClassification, formats="columns", usual_head="the usual one", learning_rate=3e-3
    )
    data.add_argument("--max-words", type=int, default=400)
    return parser


def options_of(parser: argparse.ArgumentParser, *arguments: str) -> FineTuningOptions:
    return make_options(FineTuningOptions, parser.parse_args(arguments))


def test_options_reach_the_model_and_the_trainer(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    given = ["--head=bilstm-crf", "--mix-at=both", "--dropout=0.25", "--unfreeze", "--epochs=3"]
    options = options_of(parser, "--output", str(tmp_path), *given)

    model, _ = load_task_model(ElmoForTokenClassification, options.model, NAMES, **options.model_fields())

    assert (model.config.head, model.config.mix_at, model.config.head_hidden_size) == ("bilstm-crf", "both", 200)
    assert model.config.classifier_dropout == 0.25
    assert not model.config.freeze_bilm
    arguments = options.training_arguments("f1", evaluate=True)
    assert (arguments.num_train_epochs, arguments.learning_rate) == (3, 1e-4)
    assert arguments.load_best_model_at_end
    assert not options.training_arguments("f1", evaluate=False).load_best_model_at_end


@pytest.mark.parametrize(
    ("given", "rate"),
    [([], 3e-3), (["--unfreeze"], 1e-4), (["--learning-rate=0"], 0.0), (["--learning-rate=0.5"], 0.5)],
)
def test_the_learning_rate(given: list[str], rate: float, parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    options = options_of(parser, "--output", str(tmp_path), *given)

    assert options.training_arguments("f1", evaluate=True).learning_rate == rate


@pytest.mark.parametrize(
    "option",
    [
        "--batch-size=0",
        "--accumulate=0",
        "--epochs=0",
        "--epochs=-3",
        "--learning-rate=nan",
        "--warmup-steps=-1",
        "--weight-decay=-1",
        "--seed=-1",
        "--threads=0",
        "--patience=0",
        "--schedule=foo",
        "--head-hidden-size=0",
        "--batch-size=two",
    ],
)
def test_a_number_out_of_range_is_refused(
    option: str, parser: argparse.ArgumentParser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(["--output", str(tmp_path), option])

    assert f"argument {option.partition('=')[0]}: " in capsys.readouterr().err


def test_numbers_keep_their_type() -> None:
    assert (at_least(1)("3"), type(at_least(1)("3"))) == (3, int)
    assert at_least(0.0)("0") == 0.0
    with pytest.raises(argparse.ArgumentTypeError, match=r"^0 is not above 0$"):
        at_least(0.0, above=True)("0")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "give a file to train on, or --dataset; or --dev or --test"),
        (["train", "--dataset=x"], "give files or --dataset: train would not be read"),
        (["--dataset=x", "--dev=mine"], "give files or --dataset: mine would not be read"),
        (["--dataset=x", "--splits", "train", "--patience=2"], "--patience needs --dev, or a second one of --splits"),
        (["train", "--max-words=2"], "--max-words is 2: give 3 or more"),
        (["train", "--output=file"], "file is no folder"),
        (["train", "--without-elmo"], "--without-elmo needs --word-vectors, --word-vectors-dim or --task-chars"),
        (["train", "--without-elmo", "--task-chars", "--unfreeze"], "--without-elmo leaves no ELMo for --unfreeze"),
        (["train", "--without-elmo", "--task-chars", "--mix-regularization=1"], "or --mix-regularization"),
        (["train", "--cache-dir=c", "--unfreeze"], "--cache-dir keeps layers of a frozen biLM: leave out --unfreeze"),
        (["train", "--cache-dir=c", "--no-layers-once"], "--cache-dir keeps layers of a frozen biLM"),
        (["train", "--word-vectors=f", "--word-vectors-dim=3"], "not allowed with argument --word-vectors"),
    ],
)
def test_options_that_do_not_go_together(
    given: list[str],
    message: str,
    parser: argparse.ArgumentParser,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    monkeypatch.setattr("sys.argv", ["script", "--output=out", *given])

    with pytest.raises(SystemExit):
        parse_options(parser, FineTuningOptions)

    assert message in capsys.readouterr().err


def test_what_is_read(parser: argparse.ArgumentParser) -> None:
    files = options_of(parser, "a", "--test=c", "--output=out")
    splits = options_of(parser, "--dataset=x", "--splits", "train", "dev", "--dataset-config=en", "--output=out")

    assert read_splits(files, lambda name: [name], lambda *_: []) == {"train": ["a"], "test": ["c"]}
    loaded = read_splits(splits, lambda _: [], lambda name, split, config: [(name, split, config)])
    assert loaded == {"train": [("x", "train", "en")], "dev": [("x", "dev", "en")]}
    assert (files.source_of("test"), splits.source_of("dev")) == ("c", "x, dev")
