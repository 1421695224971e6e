"""`examples/finetune_classification.py` trains for each kind of label, scores, and refuses what it cannot do."""

import json
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, EvalPrediction

from elmo_hf import ElmoError, ElmoTokenizer
from elmo_hf.data.records import LabelledText, read_records
from elmo_hf.prediction import load, predict
from support.english import ELMO_TINY_EN


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "finetune_classification.py"
TEXTS = ["the king is here", "the queen is not", "no", "yes"]

Run = Callable[..., None]


@pytest.fixture
def run(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the script in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")

    def main(*arguments: str) -> None:
        small = ["--threads=1", "--batch-size=4", "--output=out", "--head-hidden-size=6", "--epochs=1"]
        monkeypatch.setattr(sys, "argv", ["finetune_classification.py", *small, *arguments])
        script.main()

    return main


def written(labels: list[Any], name: str = "train.jsonl", **columns: list[Any]) -> str:
    """Write texts with these labels, and further columns."""
    names = ["text", "label", *columns]
    rows = [dict(zip(names, row, strict=True)) for row in zip(TEXTS, labels, *columns.values(), strict=True)]
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return name


def results() -> dict[str, float]:
    return json.loads(Path("out", "all_results.json").read_text())


def assert_predict_agrees(data: str, predictions: str) -> None:
    """Check that the script and `elmo-hf predict` find the same for a file."""
    found = predict(*load("out"), (record for _, record in read_records(data)))
    for result, line in zip(found, Path(predictions).read_text(encoding="utf-8").splitlines(), strict=True):
        expected = json.loads(line)["predicted"]
        if isinstance(expected, float):
            # the script has the layers in half precision
            assert result["score"] == pytest.approx(expected, abs=5e-3)
        else:
            assert result.get("labels", result.get("label")) == expected


def test_reads_word_vectors_of_raw_text(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    train = written([10, 9, 9, 10])
    run(train, f"--dev={train}", "--word-vectors-dim=4", "--task-chars", "--head=bcn", "--mix-at=both")

    assert "4 wide, learned with the task\n" in capsys.readouterr().out
    assert load("out")[0].config.head_input_size == 4 + 128 + 256
    assert_predict_agrees(train, "out/dev.jsonl")


def test_learns_classes(run: Run) -> None:
    train = written([10, 9, 9, 10])
    run(train, f"--dev={train}", "--epochs=15", "--learning-rate=0.02", "--dropout=0", "--head=max")

    assert results()["dev_accuracy"] == results()["dev_macro_f1"] == 1
    model = AutoModelForSequenceClassification.from_pretrained("out")
    assert model.config.id2label == {0: "9", 1: "10"}
    assert model.config.head == "max"
    batch = ElmoTokenizer.from_pretrained("out")(TEXTS, padding=True, return_tensors="pt")
    assert model(**batch).logits.argmax(dim=1).tolist() == [1, 0, 0, 1]
    card = ModelCard.load("out/README.md")
    assert "| development | Macro F1 | 1.0000 |" in card.text
    # of files the Hub knows no results
    assert card.data.eval_results is None


@pytest.mark.parametrize(
    ("labels", "options", "problem", "metrics"),
    [
        pytest.param(["a", "b", "a", "b"], ["--head=bcn"], "single_label_classification", {"accuracy"}, id="classes"),
        pytest.param(
            [["a"], [], ["a", "b"], ["b"]], [], "multi_label_classification", {"f1", "macro_f1"}, id="several"
        ),
        pytest.param([1.5, 2, 0.5, 4], [], "regression", {"pearson", "spearman", "mse"}, id="numbers"),
        pytest.param([1, 2, 3, 4], ["--problem=regression"], "regression", {"pearson"}, id="whole numbers"),
    ],
)
def test_labels_tell_the_problem(
    run: Run, labels: list[Any], options: list[str], problem: str, metrics: set[str]
) -> None:
    train = written(labels)
    run(train, f"--dev={train}", *options)

    assert AutoModelForSequenceClassification.from_pretrained("out").config.problem_type == problem
    assert {f"dev_{metric}" for metric in metrics} <= results().keys()
    assert_predict_agrees(train, "out/dev.jsonl")


def test_pairs_are_read_by_esim_or_by_the_comparison_of_their_means(run: Run) -> None:
    train = written(["a", "b", "a", "b"], text_pair=TEXTS[::-1])
    run(train, f"--test={train}")
    assert_predict_agrees(train, "out/test.jsonl")
    run(train, "--head=mean", "--output=means")

    assert AutoModelForSequenceClassification.from_pretrained("out").config.head == "esim"
    assert AutoModelForSequenceClassification.from_pretrained("means").classifier.pair_weight.any()
    with pytest.raises(ElmoError, match=r"^The data has pairs, which the head bcn does not read: choose another"):
        run(train, "--head=bcn")
    with pytest.raises(ElmoError, match=r"^The data has single texts, which the head esim does not read: choose"):
        run(written(["a", "b", "a", "b"]), "--head=esim")
    pairs = written(["a", "b", "a", "b"], "pairs.jsonl", text_pair=TEXTS)
    with pytest.raises(ElmoError, match=r"in one place only \(train: single texts, dev: pairs\): name the columns"):
        run("train.jsonl", f"--dev={pairs}")


def test_a_resumed_training_ends_with_the_same_weights(run: Run, tmp_path: Path) -> None:
    options = [train := written(["a", "b", "a", "b"]), f"--dev={train}", "--epochs=3", "--patience=2"]
    run("--output=whole", *options)
    run("--output=cut", *options)
    for checkpoint in sorted(Path("cut").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[1:]:
        checkpoint.rename(tmp_path / f"away-{checkpoint.name}")

    run("--output=cut", *options, "--resume")

    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(part, cut[name]) for name, part in whole.items())


def test_long_texts_are_cut_and_words_stay(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = ElmoTokenizer.from_pretrained(ELMO_TINY_EN)
    texts = [LabelledText(["New York", "is", "far"], None, "a"), LabelledText("a b c d e", None, "a")]

    rows = script.encode(texts, tokenizer, {"a": 0}, "single", "data", 3)

    assert [len(row["input_ids"]) for row in rows] == [5, 5]
    assert capsys.readouterr().out == "note: data has 1 text of more words than --max-words, cut there\n"
    (pair,) = script.encode([LabelledText("a b c d", ["e"], "a")], tokenizer, {"a": 0}, "single", "data", 4)
    assert tokenizer.convert_ids_to_tokens(pair["input_ids"]).count("</S>") == 2
    assert len(pair["input_ids"]) == 8
    (empty,) = script.encode([LabelledText([], None, "a")], tokenizer, {"a": 0}, "single", "data", 4)
    assert len(empty["input_ids"]) == 2


def test_what_does_not_vary_has_no_correlation(script: ModuleType) -> None:
    scores = script.make_metrics("regression")(EvalPrediction(np.ones((3, 1)), np.array([1.0, 2.0, 3.0])))

    assert (scores["pearson"], scores["spearman"]) == (0, 0)
    assert scores["mse"] == pytest.approx(5 / 3)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (
            ["a", "c", "a", "b"],
            [],
            "dev.jsonl, record 2: the label 'c' is not in the training data or the model: correct",
        ),
        (["a", "b"], [], "dev.jsonl holds no records"),
        (
            ["a", 1.5, "a", "b"],
            ["--problem=regression"],
            "train.jsonl, record 1: the label 'a' is not a number: correct",
        ),
        (["a", "b", "a", "b"], ["--text-column=body"], "train.jsonl, line 1: no column body; there are text, label"),
        (["a", "b", "a", "b"], ["--model=absent"], "absent cannot be loaded: "),
    ],
)
def test_what_cannot_be_used_is_one_line(run: Run, labels: list[Any], options: list[str], message: str) -> None:
    train = written(["a", "b", "a", "b"])
    if len(labels) == 4:
        dev = written(labels, "dev.jsonl")
    else:
        dev = "dev.jsonl"
        Path(dev).touch()

    with pytest.raises(ElmoError, match=f"^{re.escape(message)}.*$"):
        run(train, f"--dev={dev}", *options)
    assert not Path("out", "model.safetensors").exists()


def test_labels_can_be_named_besides(run: Run) -> None:
    run(written(["a", "b", "a", "b"]), "--dev", written(["a", "c", "a", "b"], "dev.jsonl"), "--labels", "c")

    assert AutoModelForSequenceClassification.from_pretrained("out").num_labels == 3


def test_needs_data(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        ([], "give a file to train on, or --dataset"),
        (["x", "--patience=1"], "--patience needs --dev"),
        (["x", "--max-words=0"], "--max-words is 0: give 3 or more"),
    ):
        with pytest.raises(SystemExit):
            run(*arguments)
        assert message in capsys.readouterr().err


def test_an_error_of_the_command_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["finetune_classification.py", "absent.csv", "--output", "out"])

    # a text as the status is printed, and the status is 1
    with pytest.raises(SystemExit, match=r"^finetune_classification\.py: error: absent\.csv cannot be read [^\n]*$"):
        runpy.run_path(str(SCRIPT), run_name="__main__")


@pytest.mark.parametrize(
    ("labels", "options", "expected"),
    [
        (["a", "b", "b", "a"], [], {"a", "b"}),
        ([3, 1, 1, 3], [], {"1", "3"}),
        ([["a"], ["a", "b"], [], ["b"]], [], {"a", "b"}),
        ([0.5, 1.5, 2.0, -1.0], [], None),
    ],
    ids=["single", "integers", "multi", "regression"],
)
def test_predictions_are_written_in_the_order_of_the_file(
    run: Run, labels: list[Any], options: list[str], expected: set[str] | None
) -> None:
    train = written(labels)
    run(train, f"--test={train}", *options)

    rows = [json.loads(line) for line in Path("out/test.jsonl").read_text().splitlines()]
    # classes that are numbers are written as their names, as predictions are
    assert [row["label"] for row in rows] == [str(label) if isinstance(label, int) else label for label in labels]
    for row in rows:
        found = row["predicted"]
        if expected is None:
            assert isinstance(found, float)
        else:
            assert set(found if isinstance(found, list) else [found]) <= expected


@pytest.mark.parametrize("label", ["nan", "inf"])
def test_what_is_no_number_is_not_learned(run: Run, label: str) -> None:
    Path("train.csv").write_text(f"text,label\nno,1.5\nyes,{label}\n", encoding="utf-8")

    with pytest.raises(ElmoError, match=rf"^train\.csv, record 2: the label '{label}' is not a number"):
        run("train.csv")


def test_labels_that_look_like_numbers_may_be_none(run: Run) -> None:
    run(written(["--5", "1", "2", "3"]))

    model = AutoModelForSequenceClassification.from_pretrained("out")
    assert list(model.config.id2label.values()) == ["--5", "1", "2", "3"]


def test_a_text_with_a_boundary_in_it_is_named(run: Run) -> None:
    Path("train.csv").write_text("text,label\nno,a\nyes </S> <S> no,b\n", encoding="utf-8")

    with pytest.raises(ElmoError, match=r"^train\.csv, record 2: the text has a boundary, <S> or </S>, in it"):
        run("train.csv")


def test_no_labels_at_all_are_refused(run: Run) -> None:
    with pytest.raises(ElmoError, match=r"^The training data has no label at all: give some, or --labels"):
        run(written([[], [], [], []]))


@pytest.mark.parametrize("package", ["accelerate", "scipy.stats", "sklearn.metrics"])
def test_without_its_extra_the_script_names_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(
        SystemExit,
        match=rf'^finetune_classification\.py: error: {package} is not installed: pip install "elmo_hf\[finetune\]"$',
    ):
        runpy.run_path(str(SCRIPT))
