"""Transformers' example scripts run_ner.py, run_glue.py, run_swag.py and run_qa.py, as they are, train ELMo.

No package has them: `ELMO_HF_TRANSFORMERS_EXAMPLES` names the folder `examples/pytorch` of a checkout of Transformers.
docs/fine-tuning.md has the commands. They also need the packages datasets, evaluate and seqeval.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from transformers import AutoModel, AutoTokenizer, pipeline

from clients.annotated import ANNOTATED
from support.english import ELMO_TINY_EN


pytestmark = pytest.mark.slow

# `evaluate` takes a metric from the working directory before it asks the Hub for one of that name
SEQEVAL = """
import datasets
import evaluate
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score

class Entities(evaluate.Metric):
    def _info(self):
        words = datasets.Sequence(datasets.Value("string"))
        features = datasets.Features({"predictions": words, "references": words})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        scores = {"precision": precision_score, "recall": recall_score, "f1": f1_score, "accuracy": accuracy_score}
        return {f"overall_{name}": score(references, predictions) for name, score in scores.items()}
"""
NUMBERS = """
import datasets
import evaluate
import numpy as np

class Numbers(evaluate.Metric):
    def _info(self):
        number = datasets.Value("float32")
        features = datasets.Features({"predictions": number, "references": number})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        return {"NAME": float(np.mean(FORMULA))}
"""

ANSWERS = """
import datasets
import evaluate

class Answers(evaluate.Metric):
    def _info(self):
        words = datasets.Value("string")
        prediction = {"id": words, "prediction_text": words}
        if NEGATIVE:
            prediction["no_answer_probability"] = datasets.Value("float32")
        answers = datasets.Sequence({"text": words, "answer_start": datasets.Value("int32")})
        features = datasets.Features({"predictions": prediction, "references": {"id": words, "answers": answers}})
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        pairs = zip(predictions, references)
        right = [found["prediction_text"] in (wanted["answers"]["text"] or [""]) for found, wanted in pairs]
        return {"exact": sum(right) / len(right)}
"""

SENTENCES = {
    "good": ["a fine film", "we were happy", "great fun for all of us", "good , and so good"],
    "bad": ["a poor film", "we were sad", "no fun for any of us", "bad , and so bad"],
}
PAIRS = {
    "yes": [("a man is running", "a man is running"), ("it rains", "it rains"), ("we sing", "we sing")],
    "no": [("a man is running", "the house is red"), ("it rains", "we sing"), ("we sing", "a man is running")],
}


@pytest.fixture
def scripts() -> Path:
    folder = os.environ.get("ELMO_HF_TRANSFORMERS_EXAMPLES")
    if not folder:
        pytest.skip("ELMO_HF_TRANSFORMERS_EXAMPLES does not name the folder examples/pytorch of Transformers")
    for package in ("datasets", "evaluate", "seqeval"):
        pytest.importorskip(package)
    return Path(folder).resolve()


def save_start(folder: Path, **options: object) -> None:
    """The model to begin with, and the head that the scripts have no option for."""
    AutoModel.from_pretrained(ELMO_TINY_EN, head_hidden_size=16, classifier_dropout=0.1, **options).save_pretrained(
        folder
    )
    AutoTokenizer.from_pretrained(ELMO_TINY_EN).save_pretrained(folder)


def write_lines(path: Path, rows: Iterable[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_metric(folder: Path, name: str, program: str) -> None:
    (folder / name).mkdir()
    (folder / name / f"{name}.py").write_text(program)


def run(script: Path, folder: Path, *options: str, predicts: bool = True) -> dict[str, float]:
    """Run a script in a process that does not know this package, and return what it measured."""
    command = [sys.executable, str(script), "--model_name_or_path", "start", "--trust_remote_code"]
    command += ["--train_file", "train.json", "--validation_file", "train.json"]
    command += ["--test_file", "train.json", "--do_predict"] if predicts else []
    command += ["--output_dir", "trained", "--do_train", "--do_eval", "--use_cpu"]
    command += ["--num_train_epochs", "40", "--learning_rate", "2e-2", "--report_to", "none", *options]
    environment = {**os.environ, "HF_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "trained" / "eval_results.json").read_text())


@pytest.mark.parametrize("head", ["linear", "bilstm-crf"])
def test_run_ner(head: str, scripts: Path, tmp_path: Path) -> None:
    save_start(tmp_path / "start", head=head)
    write_lines(
        tmp_path / "train.json", ({"tokens": example.words, "ner_tags": example.tags} for example in ANNOTATED)
    )
    write_metric(tmp_path, "seqeval", SEQEVAL)

    metrics = run(scripts / "token-classification" / "run_ner.py", tmp_path)

    assert metrics["eval_f1"] == 1
    predicted = (tmp_path / "trained" / "predictions.txt").read_text().splitlines()
    assert predicted == [" ".join(example.tags) for example in ANNOTATED]
    tag = pipeline("token-classification", str(tmp_path / "trained"), aggregation_strategy="first")
    for text, _, _, entities in ANNOTATED:
        assert [(found["entity_group"], text[found["start"] : found["end"]]) for found in tag(text)] == entities


@pytest.mark.parametrize("head", ["mean", "max", "bcn"])
def test_run_glue_on_sentences(head: str, scripts: Path, tmp_path: Path) -> None:
    save_start(tmp_path / "start", head=head)
    rows = [{"sentence": text, "label": label} for label, texts in SENTENCES.items() for text in texts]
    write_lines(tmp_path / "train.json", rows)
    write_metric(
        tmp_path,
        "accuracy",
        NUMBERS.replace("NAME", "accuracy").replace("FORMULA", "np.equal(predictions, references)"),
    )

    metrics = run(scripts / "text-classification" / "run_glue.py", tmp_path, "--max_seq_length", "16")

    assert metrics["eval_accuracy"] == 1
    # of models of any kind, the script saves the names of the labels in one direction only
    predicted = (tmp_path / "trained" / "predict_results_None.txt").read_text().splitlines()[1:]
    assert [line.split("\t")[1] for line in predicted] == [row["label"] for row in rows]


@pytest.mark.parametrize("options", [{}, {"head": "max"}, {"head": "esim", "mix_at": "both"}])
def test_run_glue_on_pairs(options: dict[str, str], scripts: Path, tmp_path: Path) -> None:
    save_start(tmp_path / "start", **options)
    rows = [
        {"sentence1": first, "sentence2": second, "label": label}
        for label, pairs in PAIRS.items()
        for first, second in pairs
    ]
    write_lines(tmp_path / "train.json", rows)
    write_metric(
        tmp_path,
        "accuracy",
        NUMBERS.replace("NAME", "accuracy").replace("FORMULA", "np.equal(predictions, references)"),
    )

    metrics = run(scripts / "text-classification" / "run_glue.py", tmp_path, "--max_seq_length", "16")

    assert metrics["eval_accuracy"] == 1


@pytest.mark.parametrize("kind", ["sentences", "pairs"])
def test_run_glue_on_numbers(kind: str, scripts: Path, tmp_path: Path) -> None:
    save_start(tmp_path / "start")
    if kind == "sentences":
        rows = [
            {"sentence": text, "label": 0.5 if label == "good" else -0.5}
            for label, texts in SENTENCES.items()
            for text in texts
        ]
    else:
        # as STS-B
        rows = [
            {"sentence1": first, "sentence2": second, "label": 5.0 if label == "yes" else 0.5}
            for label, pairs in PAIRS.items()
            for first, second in pairs
        ]
    write_lines(tmp_path / "train.json", rows)
    write_metric(
        tmp_path,
        "mse",
        NUMBERS.replace("NAME", "mse").replace("FORMULA", "np.square(np.subtract(predictions, references))"),
    )

    metrics = run(
        scripts / "text-classification" / "run_glue.py", tmp_path, "--max_seq_length", "16", "--pad_to_max_length", "0"
    )

    assert metrics["eval_mse"] < 0.05


def test_run_swag(scripts: Path, tmp_path: Path) -> None:
    save_start(tmp_path / "start")
    endings = ["sings .", "rains .", "runs .", "sleeps ."]
    rows = [
        {"sent1": f"we see a man who {ending}", "sent2": "he", "label": number}
        | {f"ending{choice}": other for choice, other in enumerate(endings)}
        for number, ending in enumerate(endings)
    ]
    write_lines(tmp_path / "train.json", rows)

    metrics = run(scripts / "multiple-choice" / "run_swag.py", tmp_path, "--max_seq_length", "16", predicts=False)

    assert metrics["eval_accuracy"] == 1


# the answers are far from each other in a context of several windows
STORY = (
    "Ann Lee lives in New York . "
    + "It rained , and then it rained more . " * 3
    + "Bob has a red house in the hills ."
)
QUESTIONS = [
    ("Where does Ann Lee live ?", "New York"),
    ("Who lives in New York ?", "Ann Lee"),
    ("What has Bob ?", "a red house"),
    ("Where is the house of Bob ?", "in the hills"),
]


@pytest.mark.parametrize("negative", [False, True], ids=["squad", "squad_v2"])
@pytest.mark.parametrize("options", [{}, {"head": "bidaf", "mix_at": "both"}], ids=["linear", "bidaf"])
def test_run_qa(options: dict[str, str], negative: bool, scripts: Path, tmp_path: Path) -> None:
    save_start(tmp_path / "start", **options)
    rows = [
        {"id": str(number), "question": question, "context": STORY}
        | {"answers": {"text": [answer], "answer_start": [STORY.index(answer)]}}
        for number, (question, answer) in enumerate(QUESTIONS)
    ]
    if negative:
        nothing = {"text": [], "answer_start": []}
        rows.append({"id": "none", "question": "When did we sing ?", "context": STORY, "answers": nothing})
    (tmp_path / "train.json").write_text(json.dumps({"data": rows}), encoding="utf-8")
    write_metric(tmp_path, "squad_v2" if negative else "squad", ANSWERS.replace("NEGATIVE", str(negative)))

    script = scripts / "question-answering" / "run_qa.py"
    windows = ["--max_seq_length", "24", "--doc_stride", "6"]
    metrics = run(script, tmp_path, *windows, *(["--version_2_with_negative"] if negative else []))

    predicted = json.loads((tmp_path / "trained" / "predict_predictions.json").read_text())
    wanted = {row["id"]: (row["answers"]["text"] or [""])[0] for row in rows}
    if options:
        assert predicted == wanted
        assert metrics["eval_exact"] == 1
    else:
        # a linear head chooses words that are like the question
        assert metrics["eval_exact"] >= 0.25
        assert all(answer in STORY for answer in predicted.values())
