"""`examples/pretrain.py` trains, goes on, and refuses what it cannot do."""

import gzip
import io
import json
import math
import os
import re
import subprocess
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from elmo_hf import ElmoForPreTraining, ElmoTokenizer
from elmo_hf.cli import main
from elmo_hf.data import stored_text
from elmo_hf.data.corpus import read_sentences
from elmo_hf.data.stored_text import StoredSentences, store_sentences
from elmo_hf.data.vocabulary import build_vocabulary, write_vocabulary
from elmo_hf.hub.cards import is_unedited
from elmo_hf.training.pretraining import write_card


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
    "--warmup-steps=0.1",
]

Run = Callable[..., None]


@pytest.fixture
def run(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the script in a folder with a text and its vocabulary."""
    monkeypatch.chdir(tmp_path)
    with gzip.open("text.gz", "wt", encoding="utf-8") as file:
        file.write(TEXT)
    write_vocabulary(Path("vocab.txt"), build_vocabulary(read_sentences("text.gz")))

    def main(*arguments: str, files: Sequence[str] = ("text.gz",)) -> None:
        monkeypatch.setattr(sys, "argv", ["pretrain.py", *files, *SMALL, *arguments])
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
    (record,) = model.config.training_history
    assert record["text"] == record["heldout"][0]["text"] == ["text.gz"]
    words = sum(map(len, read_sentences("text.gz")))
    assert record["heldout"][0]["words"] == words
    assert record["predictions"] == words + 20 if batching else record["words"] == words
    assert (record["steps"], record["settings"]["schedule"]) == (steps_of("out"), "cosine")
    assert record["settings"]["warmup_steps"] == 0.1


def test_writes_a_card_and_keeps_an_edited_one(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("--vocab", "vocab.txt", "--heldout", "text.gz", "--output", "es-elmo", "--steps", "2", "--warmup-steps", "200")
    path = Path("es-elmo/README.md")
    card = path.read_text(encoding="utf-8")

    assert is_unedited(card)
    assert "\n# es-elmo\n" in card
    assert "| text | text.gz, 20 sentences, 110 words |" in card
    assert re.search(r"\| Perplexity \| \d", card)
    # the warm-up of this training is too long, and the script says so
    assert "warning: the learning rate rises in the first 200 steps, and the training has 2, so" in (
        capsys.readouterr().out
    )

    path.write_text(card.replace("# es-elmo", "# ELMo for Spanish"), encoding="utf-8")
    edited = path.read_text(encoding="utf-8")
    write_card("es-elmo")
    assert path.read_text(encoding="utf-8") == edited


@pytest.mark.parametrize("steps", ["-1", "1.5", "nan", "ten"])
def test_a_warm_up_is_steps_or_a_share(script: ModuleType, steps: str) -> None:
    assert (script.warm_up("200"), script.warm_up("0.05"), script.warm_up("0")) == (200, 0.05, 0)
    with pytest.raises((ValueError, ArgumentTypeError)):
        script.warm_up(steps)


# what white space and the pre-tokenizer moses make of this are different words
SPANISH = "La policía lo detuvo (EFE).\n«¿Quién?», dijo Ana: «¡no!»\nEl Sr. Díaz-Ruiz pagó 3,50 euros...\n"
MOSES = [
    ["La", "policía", "lo", "detuvo", "(", "EFE", ")", "."],
    ["«", "¿", "Quién", "?", "»", ",", "dijo", "Ana", ":", "«", "¡", "no", "!", "»"],
    ["El", "Sr", ".", "Díaz-Ruiz", "pagó", "3,50", "euros", "..."],
]


@pytest.mark.parametrize(
    ("how", "pre_tokenizer"),
    [
        ([], "moses"),
        (["--pre-tokenizer=whitespace"], "whitespace"),
        (["--tokenized"], "whitespace"),
        (["--tokenized", "--pre-tokenizer=moses"], "moses"),
    ],
)
def test_every_command_splits_raw_text_into_the_same_words(
    run: Run,
    script: ModuleType,
    how: list[str],
    pre_tokenizer: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("es.txt").write_text(SPANISH, encoding="utf-8")
    words = MOSES if not how else [line.split() for line in SPANISH.splitlines()]

    assert main(["build-vocab", "es.txt", "--output", "es.vocab", "--min-count=1", *how]) == 0
    run("--vocab=es.vocab", "--heldout", "es.txt", "--output=es", "--steps=1", *how, files=["es.txt"])

    vocabulary = Path("es.vocab").read_text(encoding="utf-8").splitlines()
    assert sorted(vocabulary[3:]) == sorted({word for sentence in words for word in sentence})
    assert ElmoTokenizer.from_pretrained("es").pre_tokenizer == pre_tokenizer
    # the saved model splits raw text by itself
    tokenized = [option for option in how if option == "--tokenized"]
    monkeypatch.setattr(sys, "argv", ["pretrain.py", "es.txt", "--model=es", "--output=new", *tokenized])
    assert script.make_trainer(script.parse_arguments())[1].first == words
    assert main(["perplexity", "es", "es.txt", "--json-lines", "scores", *tokenized]) == 0
    assert [json.loads(line)["text"].split() for line in Path("scores").read_text("utf-8").splitlines()] == words
    capsys.readouterr()
    assert main(["embed", "es.txt", "--model", "es", *tokenized]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line and line[0] != "#"]
    assert [word for word in shown if word != "word"] == [word for sentence in words for word in sentence]


@pytest.mark.parametrize(
    ("words", "how", "warning"),
    [
        (["the", "king", "is", "here", ".", "queen"], [], None),
        (
            ["the", "king,", "is", "here."],
            [],
            "25.0% of the words of other.txt end in punctuation, such as king,: if it",
        ),
        (
            ["THE", "KING", "IS", "HERE"],
            [],
            "100.0% of the first words of the text are not in other.txt, such as the; ",
        ),
        (
            ["the", "king", "is", "here."],
            ["--tokenized"],
            "50.0% of the different words of the text end in punctuation",
        ),
    ],
)
def test_says_what_is_trained_on_what_and_warns_of_a_vocabulary_that_was_split_in_another_way(
    run: Run, words: list[str], how: list[str], warning: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("raw.txt").write_text("the king, the queen; is the King here?\n" * 50, encoding="utf-8")
    write_vocabulary(Path("other.txt"), ["<S>", "</S>", "<UNK>", *words])

    run("--vocab=other.txt", "--output=out", "--steps=1", *how, files=["raw.txt" if how else "text.gz"])

    shown = capsys.readouterr().out
    parameters = sum(part.numel() for part in ElmoForPreTraining.from_pretrained("out").parameters())
    assert (
        f"new model: {parameters:,} parameters, 2 layers, vectors 8 and cells 6 wide, vocabulary of {len(words) + 3} "
        f"words; text of {'50 sentences and 400' if how else '20 sentences and 110'} words; steps: 1\n"
    ) in shown
    found = re.findall(r"^warning: (.*)", shown, re.MULTILINE)
    assert found[0].startswith(warning) if warning else not found


def test_a_resumed_training_ends_with_the_same_weights(run: Run, tmp_path: Path) -> None:
    run("--vocab", "vocab.txt", "--output", "whole", "--epochs", "2")
    run("--vocab", "vocab.txt", "--output", "cut", "--epochs", "2")
    for checkpoint in sorted(Path("cut").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[1:]:
        checkpoint.rename(tmp_path / f"away-{checkpoint.name}")

    run("--vocab", "vocab.txt", "--output", "cut", "--epochs", "2", "--resume")

    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(part, cut[name]) for name, part in whole.items())


def test_a_text_is_stored_once_and_a_changed_one_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def store(folder: Path, sentences: Iterable[list[str]], source: Mapping[str, Any]) -> StoredSentences:
        stored = store_sentences(folder, sentences, source)
        read.append(len(stored))
        return stored

    monkeypatch.setattr(stored_text, "store_sentences", store)
    options = ["--vocab=vocab.txt", "--steps=1", "--cache-dir=cache"]
    run(*options, "--output=first")
    # in another vocabulary
    write_vocabulary(Path("vocab.txt.2"), ["<S>", "</S>", "<UNK>", "the", "king"])
    run(*options, "--output=second", "--vocab=vocab.txt.2")
    assert read == [20]
    # split into other words
    run(*options, "--output=third", "--tokenized")
    assert read == [20, 20]
    with gzip.open("text.gz", "at", encoding="utf-8") as file:
        file.write("here !\n")
    run(*options, "--output=fourth")
    assert read == [20, 20, 21]
    assert len(list(Path("cache").glob("*/text.json"))) == 3


def test_the_text_stays_in_the_output_until_the_training_has_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("elmo_hf.training.pretraining.LanguageModelTrainer.training_step", stop)
        with pytest.raises(KeyboardInterrupt):
            run("--vocab=vocab.txt", "--output=out", "--steps=1")
    (facts,) = Path("out/text-cache").glob("*/text.json")
    assert json.loads(facts.read_text("utf-8"))["source"]["files"][0][0] == str(Path("text.gz").resolve())

    run("--vocab=vocab.txt", "--output=out", "--steps=1")
    assert not Path("out/text-cache").exists()


def test_a_text_that_cannot_be_stored_is_one_line(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        SystemExit,
        match=r"^[^\n]*error: text\.gz cannot be written \(File exists\): make room, or choose another place\.$",
    ):
        run("--vocab=vocab.txt", "--output=out", "--cache-dir=text.gz")
    with pytest.raises(SystemExit):
        run("--vocab=vocab.txt", "--output=out", "--cache-dir=cache", files=["-"])
    assert (
        "--cache-dir is for a text that is read again: save that of standard input as a file"
        in capsys.readouterr().err
    )


@pytest.mark.usefixtures("run")
def test_standard_input_is_read_each_time(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("the king\n", "no\n"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))
        monkeypatch.setattr(sys, "argv", ["pretrain.py", "-", "--vocab=vocab.txt", "--output=out", *SMALL])
        assert script.make_trainer(script.parse_arguments())[1].first == [text.split()]


def test_goes_on_in_another_vocabulary(run: Run) -> None:
    run("--vocab", "vocab.txt", "--output", "first", "--epochs", "1")
    write_vocabulary(Path("other.txt"), ["<S>", "</S>", "<UNK>", "the", "king", "castle"])

    run("--model", "first", "--vocab", "other.txt", "--output", "second", "--epochs", "1")

    config = ElmoForPreTraining.from_pretrained("second").config
    assert config.vocab_size == 7
    assert [record["settings"]["vocabulary"] for record in config.training_history] == [
        len(Path("vocab.txt").read_text().splitlines()), 6,
    ]  # fmt: skip


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


def test_needs_text(script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in {
        (): "give files of text, or --dataset",
        ("text.gz", "--epochs", "0"): "--epochs is to be more than 0",
        ("text.gz", "--dropout", "1"): "argument --dropout: 1 is out of range",
        ("text.gz", "--streams", "many"): "argument --streams: invalid int value: 'many'",
        ("text.gz", "--char-filters", "16"): "argument --char-filters: invalid filters value: '16'",
        ("text.gz", "--model", "out", "--pre-tokenizer", "moses"): "--pre-tokenizer is for a new model",
        ("text.gz", "--wrapped"): "--wrapped has no meaning without --split-sentences",
        ("text.gz", "--stream"): "--stream, --heldout-split and --dataset-config are for --dataset",
    }.items():
        monkeypatch.setattr(sys, "argv", ["pretrain.py", "--vocab", "vocab.txt", "--output", "out", *arguments])
        with pytest.raises(SystemExit):
            script.main()
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent*.txt", "--vocab=vocab.txt"], "absent*.txt is no file, and no pattern"),
        (["text.gz", "--vocab=absent.txt"], "absent.txt is no file: make a vocabulary"),
        (["text.gz", "--vocab=vocab.txt", "--heldout", "absent.gz"], "absent.gz is no file"),
        (["text.gz", "--model=absent"], "absent is no model folder"),
        (
            ["text.gz", "--model=elmo-small-en", "--vocab=text.gz", "--output=old"],
            "old holds checkpoint-3 of a training",
        ),
        (["text.gz", "--model=elmo-small-en", "--output=done"], "done holds a model already"),
        (["text.gz", "--model=elmo-small-en", "--output=done", "--resume"], "done holds a model already"),
        (["text.gz", "--model=elmo-small-en", "--output=vocab.txt"], "vocab.txt is no folder: choose"),
        (["text.gz", "--model=elmo-small-en", "--output=vocab.txt/out/x"], "vocab.txt is no folder: choose"),
    ],
)
@pytest.mark.usefixtures("run")
def test_what_can_be_refused_is_refused_in_one_line_and_at_once(arguments: list[str], message: str) -> None:
    Path("old/checkpoint-3").mkdir(parents=True)
    Path("done").mkdir()
    Path("done/model.safetensors").touch()

    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(SCRIPT), "--output=out", *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    imported, said = (
        [line for line in done.stderr.splitlines() if line.startswith("import time:") == own] for own in (True, False)
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"pretrain\.py: error: {re.escape(message)}.*", "\n".join(said))
    assert not any(re.search(r"\b(torch|transformers|elmo_hf)\b", line) for line in imported)
    assert not Path("out").exists()


def test_help_says_what_each_option_is(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pretrain.py", "--help"])
    monkeypatch.setenv("COLUMNS", "1000")

    with pytest.raises(SystemExit):
        script.main()

    shown = capsys.readouterr().out
    assert "(default: 2048)" in shown
    assert not re.search(r"default: (None|\[\]|False|-1)\)", shown)
    # options of text are those of the command line
    with pytest.raises(SystemExit):
        main(["build-vocab", "--help"])
    of_command = capsys.readouterr().out
    for option in ("--tokenized", "--pre-tokenizer", "--split-sentences", "--wrapped"):
        (ours,), (theirs,) = (re.findall(rf"^  {option} .*\n", text, re.MULTILINE) for text in (shown, of_command))
        assert ours.split() == theirs.split()
    # an option that is alone has its help on the next line
    assert not re.search(r"^  -\S+( \S+)?\n(?!     )", shown, re.MULTILINE)


def test_without_accelerate_one_line_names_the_extra(
    run: Run, script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "find_spec", lambda name: None if name == "accelerate" else object())

    with pytest.raises(SystemExit, match=r'^pretrain\.py: error: .* accelerate: pip install "elmo_hf\[train\]"$'):
        run("--vocab", "vocab.txt", "--output", "out")


@pytest.mark.parametrize("batching", [[], ["--batching", "streams", "--streams", "2", "--unroll-steps", "4"]])
def test_one_command_begins_and_goes_on_and_ends(
    run: Run, batching: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "--vocab",
        "vocab.txt",
        "--heldout",
        "text.gz",
        "--output",
        "out",
        "--epochs",
        "2",
        "--resume",
        *batching,
    ]
    run(*command)
    first, steps = capsys.readouterr().out, steps_of("out")
    assert "out: there is no checkpoint yet: beginning from the start.\n" in first
    assert re.search(
        rf"Wrote the model and its card to out, after {steps} steps\.\n"
        r"Perplexity of the held-out text: [\d.]+ \(forward [\d.]+, backward [\d.]+\)\.\n$",
        first,
    )
    assert state_of("out")["epoch"] == pytest.approx(2, abs=0.1)
    results = json.loads(Path("out/all_results.json").read_text())
    assert {"eval_perplexity", "train_loss"} <= results.keys()
    before = written("out")

    # nothing is left to do
    run(*command)
    assert capsys.readouterr().out == f"out: this training ended after {steps} steps: there is nothing to do.\n"
    assert written("out") == before

    # ended while it was measured
    Path("out/all_results.json").unlink()
    Path("out/model.safetensors").unlink()
    run(*command)
    shown = capsys.readouterr().out
    assert f"out: going on after {steps} of {steps} steps.\n" in shown
    assert json.loads(Path("out/all_results.json").read_text())["eval_perplexity"] == results["eval_perplexity"]
    assert steps_of("out") == steps


def written(folder: str) -> dict[str, int]:
    """Find when each file of a folder was written."""
    return {str(path): path.stat().st_mtime_ns for path in Path(folder).rglob("*")}


def test_goes_on_from_the_model_of_the_package_in_a_vocabulary_of_a_domain(run: Run) -> None:
    run("--model", "elmo-small-en", "--vocab", "vocab.txt", "--output", "domain", "--steps", "1")

    model = ElmoForPreTraining.from_pretrained("domain")
    assert model.config.vocab_size == len(Path("vocab.txt").read_text().splitlines()) + 1
    assert model.config.hidden_size > 8


def test_streams_end_after_the_words_of_the_epochs(run: Run) -> None:
    run("--vocab=vocab.txt", "--output=out", "--epochs=1.5", "--batching=streams", "--streams=2", "--unroll-steps=4")

    words = sum(len(words) + 1 for words in read_sentences("text.gz"))
    assert steps_of("out") == math.ceil(1.5 * words / 8)
    assert state_of("out")["epoch"] == pytest.approx(1.5, abs=0.05)


def test_a_word_is_counted_once_and_padding_never(run: Run) -> None:
    options = ["--vocab=vocab.txt", "--epochs=1", "--save-steps=100"]
    run("--output=apart", *options)
    run("--output=streams", *options, "--batching=streams", "--streams=2", "--unroll-steps=4")

    sentences = list(read_sentences("text.gz"))
    assert state_of("apart")["num_input_tokens_seen"] == sum(len(words) + 2 for words in sentences)
    # one boundary of two is read; the streams end together with the epoch, or before
    assert 0.8 < state_of("streams")["num_input_tokens_seen"] / sum(len(words) + 1 for words in sentences) <= 1


def steps_of(folder: str) -> int:
    """Say how many steps a training took."""
    return state_of(folder)["global_step"]


def state_of(folder: str) -> dict[str, Any]:
    """Read the state in which a training ended."""
    last = max(Path(folder).glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    return json.loads((last / "trainer_state.json").read_text())


@pytest.fixture
def dataset(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the script on the same sentences in a file of the library datasets."""
    pytest.importorskip("datasets", reason="the library datasets is not installed")
    rows = [{"sentence": " ".join(words), "tokens": words} for words in read_sentences("text.gz")]
    # as rows of the Hub may be
    rows += [{"sentence": "", "tokens": []}, {"sentence": None, "tokens": None}]
    Path("text.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(Path("cache").resolve()))

    def main(*arguments: str) -> None:
        run("--dataset", "json", "--column", "sentence", "--vocab", "vocab.txt", *arguments, files=["text.jsonl"])

    return main


@pytest.mark.parametrize("batching", [[], ["--batching", "streams", "--streams", "2", "--unroll-steps", "4"]])
@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_takes_a_data_set(dataset: Run, run: Run, batching: list[str], stream: list[str]) -> None:
    dataset("--output", "rows", "--epochs", "1", "--heldout-split", "train", *batching, *stream)
    run("--vocab", "vocab.txt", "--output", "text", "--epochs", "1", "--heldout", "text.gz", *batching)

    assert steps_of("rows") == steps_of("text")
    if not batching:
        # the same sentences in the same batches
        rows, text = (load_file(Path(name) / "model.safetensors") for name in ("rows", "text"))
        assert all(torch.equal(part, text[name]) for name, part in rows.items())


def test_every_reader_splits_paragraphs_into_the_same_sentences(
    run: Run, script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("datasets", reason="the library datasets is not installed")
    Path("es.txt").write_text("El Sr. Díaz\nllegó. ¿Quién era?\n\n«Nada.»\n", encoding="utf-8")
    rows = [{"text": "El Sr. Díaz llegó. ¿Quién era?"}, {"text": None}, {"text": "«Nada.»"}]
    Path("es.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(Path("cache").resolve()))
    how = ["--split-sentences=es", "--wrapped"]
    words = [["El", "Sr", ".", "Díaz", "llegó", "."], ["¿", "Quién", "era", "?"], ["«", "Nada", ".", "»"]]

    assert main(["build-vocab", "es.txt", "--output", "es.vocab", "--min-count=1", *how]) == 0
    for files in (["es.txt"], ["--dataset=json", "es.jsonl"]):
        for batching in ("sentences", "streams"):
            arguments = ["--vocab=es.vocab", "--output=es", *how, "--batching", batching, *SMALL]
            monkeypatch.setattr(sys, "argv", ["pretrain.py", *files, *arguments])
            trainer, text = script.make_trainer(script.parse_arguments())
            assert (text.first, text.sentences, text.words) == (words, 3, 14)
            if batching == "streams":
                assert sorted(trainer.train_dataset.sentences) == sorted(words)

    run("--vocab=es.vocab", "--output=es", "--steps=1", *how, files=["es.txt"])
    assert main(["perplexity", "es", "es.txt", "--json-lines", "scores", *how]) == 0
    scores = [json.loads(line) for line in Path("scores").read_text("utf-8").splitlines()]
    assert [(score["line"], score["text"].split()) for score in scores] == list(zip((1, 1, 4), words, strict=True))


def test_steps_spare_a_stream_to_be_counted(dataset: Run) -> None:
    dataset("--column", "tokens", "--output", "out", "--stream", "--batching", "streams", "--steps", "4")

    assert steps_of("out") == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--column", "text"], "json has the columns sentence, tokens: name one by --column"),
        (["--split", "test"], "json cannot be loaded ("),
        (["--dataset", "nothing-there"], "nothing-there cannot be loaded"),
    ],
)
@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_a_data_set_that_cannot_be_read_is_one_line(
    dataset: Run, stream: list[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match=rf"^pretrain\.py: error: {re.escape(message)}.*$"):
        dataset("--output", "out", *stream, *arguments)


def test_without_the_library_one_line_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(SystemExit, match=r": error: --dataset needs the library datasets: pip install datasets$"):
        run("--dataset", "json", "--vocab", "vocab.txt", "--output", "out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layers=65"], "`num_hidden_layers` is 65; it can be 1 to 64."),
        (["--heldout", "empty.txt"], "`heldout` has no words to evaluate on: check the text"),
        (["--batching=streams"], "No sentence has words: check the text."),
        (["--batching=streams", "--steps=2"], "No sentence has words: check the text."),
        ([], "No sentence has words: check the text."),
    ],
    ids=range(5),
)
def test_what_cannot_be_trained_is_one_line(run: Run, arguments: list[str], message: str) -> None:
    Path("empty.txt").write_text("\n \n")
    # the two whose text is not what is wrong
    files = ["text.gz"] if {"--layers=65", "empty.txt"} & set(arguments) else ["empty.txt"]

    with pytest.raises(SystemExit, match=rf"^pretrain\.py: error: {re.escape(message)}[^\n]*$"):
        run("--vocab=vocab.txt", "--output=out", *arguments, files=files)


def test_a_full_disk_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "out/config.json")

    monkeypatch.setattr(ElmoForPreTraining, "save_pretrained", fail)

    with pytest.raises(SystemExit, match=r"^[^\n]*checkpoint-3 cannot be written \([^\n]*No space[^\n]*make room"):
        run("--vocab=vocab.txt", "--output=out", "--epochs=1")
    # in the end
    monkeypatch.setattr("elmo_hf.training.pretraining.LanguageModelTrainer._save_checkpoint", lambda *_: None)
    with pytest.raises(
        SystemExit, match=r"^[^\n]*No space left on device: 'out/config\.json': check [^\n]* in out\.$"
    ):
        run("--vocab=vocab.txt", "--output=out", "--steps=1", "--resume")


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
    assert "find_unused_parameters" not in done.stderr
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, part in one.items():
        torch.testing.assert_close(two[name], part, rtol=0, atol=1e-4, msg=name)
    logs = [json.loads(next((tmp_path / name).glob("*/trainer_state.json")).read_text()) for name in ("one", "two")]
    losses = [[entry["loss"] for entry in log["log_history"] if "loss" in entry] for log in logs]
    assert losses[0]
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)
