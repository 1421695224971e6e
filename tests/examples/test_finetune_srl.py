"""`examples/finetune_srl.py` trains, scores, goes on, and refuses what it cannot do."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForTokenClassification, EvalPrediction

from elmo_hf import ElmoError, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.data.frames import Frame, FramedSentence, read_frames
from elmo_hf.training.finetuning import load_task_model
from support.english import ELMO_TINY_EN


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "finetune_srl.py"
SENTENCES = [
    ("the king saw Peter", {2: "B-ARG0 I-ARG0 B-V B-ARG1"}),
    ("Paris is here", {}),
    ("Peter saw that Ann left", {1: "B-ARG0 B-V B-ARG1 I-ARG1 I-ARG1", 4: "O O O B-ARG0 B-V"}),
    ("Ann left", {1: "B-ARG0 B-V"}),
]

Run = Callable[..., None]


def lines(sentences: list[tuple[str, dict[int, str]]]) -> str:
    """Write sentences as a file has them."""
    records = [
        {"words": words.split(), "frames": [{"pred": at, "tags": tags.split()} for at, tags in frames.items()]}
        for words, frames in sentences
    ]
    return "".join(f"{json.dumps(record)}\n" for record in records)


@pytest.fixture
def run(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the script in a folder with some sentences."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    Path("train.jsonl").write_text(lines(SENTENCES * 2), encoding="utf-8")
    Path("dev.jsonl").write_text(lines(SENTENCES[:3]), encoding="utf-8")

    def main(*arguments: str, train: str = "train.jsonl") -> None:
        small = ["--threads=1", "--batch-size=4", "--output=out", "--head-hidden-size=6"]
        monkeypatch.setattr(sys, "argv", ["finetune_srl.py", *([train] if train else []), *small, *arguments])
        script.main()

    return main


def results(folder: str = "out") -> dict[str, float]:
    return json.loads(Path(folder, "all_results.json").read_text())


def test_learns_roles(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--learning-rate=0.02", "--epochs=25", "--dropout=0", "--head-hidden-size=16"]
    run("--dev=dev.jsonl", "--test=train.jsonl", *options)

    assert results()["dev_f1"] == results()["test_f1"] == results()["test_ARG0_f1"] == 1
    shown = capsys.readouterr()
    assert re.search(r"\nall +12 +0 +0 +1\.0000 +1\.0000 +1\.0000\n", shown.out)
    assert shown.err == ""
    model = AutoModelForTokenClassification.from_pretrained("out")
    assert (model.config.head, model.config.head_hidden_size) == ("alternating-lstm", 16)
    assert list(model.config.id2label.values()) == ["O", "B-ARG0", "I-ARG0", "B-ARG1", "I-ARG1", "B-V", "I-V"]
    # the frames that were found
    assert read_frames("out/test.jsonl") == read_frames("train.jsonl")
    *_, task = model.config.training_history
    words = sum(len(words.split()) * len(frames) for words, frames in SENTENCES * 2)
    assert (task["inputs"], task["sentences"], task["words"]) == ("frames", 8, words)


def test_reads_word_vectors_and_characters_beside_elmo(run: Run) -> None:
    run("--dev=dev.jsonl", "--word-vectors-dim=4", "--task-chars", "--epochs=1")

    model = AutoModelForTokenClassification.from_pretrained("out")
    assert model.config.head_input_size == 4 + 128 + 256
    run("--model=out", "--test=dev.jsonl", "--output=again", train="")
    assert results("again")["test_f1"] == results()["dev_f1"]


def test_the_sizes_of_a_new_head_are_those_of_the_paper(script: ModuleType) -> None:
    fields = {"head_hidden_size": script.HEAD_HIDDEN_SIZE, "classifier_dropout": script.DROPOUT}
    model, _ = load_task_model(
        ElmoForTokenClassification, ELMO_TINY_EN, ["O"], default_head=script.HEAD, head_fields=fields, head=None
    )

    assert len(model.head.layers) == 8
    assert [tuple(layer.recurrent_weight.shape) for layer in model.head.layers] == [(1, 300, 1500)] * 8
    assert {layer.dropout.p for layer in model.head.layers} == {0.1}
    assert model.head.layers[0].input_projections[0].in_features == model.config.hidden_size + 100


def test_labels_that_are_given_are_tags_or_roles(script: ModuleType) -> None:
    expected = ["O", "B-ARG5", "I-ARG5", "B-V", "I-V"]
    assert script.find_labels({}, ["ARG5", "V"]) == script.find_labels({}, ["B-ARG5", "I-V", "O"]) == expected


def test_a_resumed_training_ends_with_the_same_weights(run: Run, tmp_path: Path) -> None:
    options = ["--dev=dev.jsonl", "--epochs=3"]
    run("--output=whole", *options)
    run("--output=cut", *options)
    for checkpoint in sorted(Path("cut").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[1:]:
        checkpoint.rename(tmp_path / f"away-{checkpoint.name}")

    run("--output=cut", *options, "--resume")

    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(part, cut[name]) for name, part in whole.items())
    # other predicates are other data, although words and labels are the same
    changed = [
        (words, {len(words.split()) - 1 - at: tags for at, tags in frames.items()}) for words, frames in SENTENCES
    ]
    Path("train.jsonl").write_text(lines(changed * 2), encoding="utf-8")
    with pytest.raises(ElmoError, match=r"cut is of another run \(data: \w+ then, \w+ now\)"):
        run("--output=cut", *options, "--resume")


def test_a_trained_model_is_measured_alone_on_roles_that_it_does_not_know(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run("--epochs=1")
    Path("other.jsonl").write_text(lines([("go home", {0: "B-V B-ARG4"})]), encoding="utf-8")

    run("--model=out", "--test=other.jsonl", "--output=again", train="")

    assert (
        "note: other.jsonl has 1 role that neither the training data nor the model has, ARG4:"
        in capsys.readouterr().out
    )
    assert results("again")["test_recall"] == results("again")["test_ARG4_f1"] == 0
    assert sorted(path.name for path in Path("again").iterdir()) == [
        "all_results.json",
        "test.jsonl",
        "test_results.json",
    ]


def test_the_rows_of_a_sentence_mark_their_predicate_and_share_what_the_language_model_reads(
    script: ModuleType,
) -> None:
    tokenizer = ElmoTokenizer.from_pretrained(ELMO_TINY_EN)
    finder = script.RoleFinder(tokenizer, {"O": 0, "B-V": 1, "B-A0": 2})
    frames = [Frame(0, ["B-V", "B-A0", "O"]), Frame(2, ["B-A1", "O", "B-V"])]

    first, second = finder.encode([FramedSentence(["a", "<S>", "c"], frames)], "data")

    assert (first["token_type_ids"], second["token_type_ids"]) == ([0, 1, 0, 0, 0], [0, 0, 0, 1, 0])
    assert first["labels"] == [-100, 1, 2, 0, -100]
    # the model has no label for it
    assert second["labels"] == [-100, -100, 0, 1, -100]
    assert first["char_ids"] is second["char_ids"]
    # padding on the right; the rows in another order
    numbers = np.array([[0, 2, 0, 1, 0, 0], [0, 1, 0, 0, 2, 2]])
    prediction = EvalPrediction(numbers, (np.zeros((2, 6)), np.array([1, 0])))
    assert finder.find(prediction) == {0: ["B-V", "O", "O"], 1: ["B-A0", "O", "B-V"]}
    assert finder.score(prediction)["recall"] == 0


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (
            '{"words": ["a"], "frames": []}',
            [],
            "dev.jsonl has no frames: give sentences of which some have a predicate",
        ),
        ('{"words": ["a"]}', [], "dev.jsonl, line 1: frames are None: give a list"),
        (lines(SENTENCES), ["--model=absent"], "absent cannot be loaded: "),
    ],
)
def test_what_cannot_be_used_is_one_line(run: Run, text: str, arguments: list[str], message: str) -> None:
    Path("dev.jsonl").write_text(text, encoding="utf-8")

    with pytest.raises(ElmoError, match=f"^{re.escape(message)}.*$"):
        run("--dev=dev.jsonl", *arguments)
    assert not Path("out", "model.safetensors").exists()


def test_takes_columns_and_a_data_set(run: Run, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("dev.conll").write_text("Ann - (A0*)\nleft leave (V*)\n", encoding="utf-8")
    run("--epochs=1", train="dev.conll")
    assert AutoModelForTokenClassification.from_pretrained("out").config.id2label[1] == "B-A0"
    monkeypatch.setattr(script, "load_frames", lambda *_, **__: read_frames("dev.conll"))

    run("--dataset=rows", "--splits", "train", "test", "--epochs=1", "--output=other", train="")

    assert "dev_f1" in results("other")
