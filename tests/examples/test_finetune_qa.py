"""`examples/finetune_qa.py` finds answers, or none, scores as SQuAD does, goes on, and refuses what it cannot do."""

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
from safetensors.torch import load_file
from transformers import AutoModelForQuestionAnswering, AutoTokenizer, EvalPrediction

from elmo_hf import ElmoError, ElmoTokenizer
from elmo_hf.data.questions import Answer, Question
from elmo_hf.prediction import answer
from support.english import ELMO_TINY_EN


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "finetune_qa.py"
CONTEXT = "Ann Lee met Bob, in New York. It rained there."
ASKED = {"Who met Bob?": "Ann Lee", "Where was it?": "New York", "What happened there?": "It rained"}

Run = Callable[..., None]


def squad(answers: dict[str, str | None], context: str = CONTEXT) -> str:
    """SQuAD's JSON; the name of a question is its text."""
    asked = []
    for question, text in answers.items():
        places = [] if text is None else [{"text": text, "answer_start": context.find(text)}]
        asked.append({"id": question, "question": question, "answers": places, "is_impossible": text is None})
    return json.dumps({"version": "2", "data": [{"title": "x", "paragraphs": [{"context": context, "qas": asked}]}]})


@pytest.fixture
def run(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the script in a folder with some questions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    Path("train.json").write_text(squad(ASKED), encoding="utf-8")

    def main(*arguments: str, train: str = "train.json") -> None:
        small = ["--threads=1", "--batch-size=2", "--output=out", "--head-hidden-size=6", "--epochs=1"]
        monkeypatch.setattr(sys, "argv", ["finetune_qa.py", *([train] if train else []), *small, *arguments])
        script.main()

    return main


def results(folder: str = "out") -> dict[str, float]:
    return json.loads(Path(folder, "all_results.json").read_text())


def predictions(split: str, folder: str = "out") -> dict[str, str]:
    return json.loads(Path(folder, f"{split}_predictions.json").read_text())


def test_learns_answers_and_to_give_none(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {**ASKED, "Who sang a song?": None}
    Path("train.json").write_text(squad(wanted), encoding="utf-8")
    run("--dev=train.json", "--epochs=40", "--learning-rate=0.02", "--dropout=0", "--head-hidden-size=16")

    assert results()["dev_exact_match"] == results()["dev_f1"] == results()["dev_unanswered_f1"] == 1
    assert predictions("dev") == {question: text or "" for question, text in wanted.items()}
    model = AutoModelForQuestionAnswering.from_pretrained("out").eval()
    assert model.config.head == "bidaf"
    assert model.config.id2label == {0: "LABEL_0", 1: "LABEL_1"}
    tokenizer = AutoTokenizer.from_pretrained("out")
    assert results()["dev_best_f1"] == results()["dev_best_exact_match"] == 1
    odds = json.loads(Path("out", "dev_null_odds.json").read_text())
    assert {question for question in wanted if odds[question] > 0} == {"Who sang a song?"}
    assert all(json.loads(Path("out", "dev_best_answers.json").read_text()).values())
    shown = capsys.readouterr().out
    assert re.search(r"dev: the best F1 is 1\.000, with --no-answer --no-answer-threshold=\S+\n", shown)
    assert "elmo-hf predict out FILE --no-answer\n" in shown
    card = Path("out", "README.md").read_text()
    assert "FILE --no-answer`" in card
    assert "1 question without an answer" in card
    found = answer(model, tokenizer, [(question, CONTEXT) for question in wanted], no_answer=True)
    assert [best["answer"] for (best,) in found] == [text or "" for text in wanted.values()]


def test_reads_word_vectors_without_elmo(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Path("vectors.vec").write_text("3 2\nbob 1 2\nmet 3 4\nin 0 1\n", encoding="utf-8")
    run("--dev=train.json", "--word-vectors=vectors.vec", "--train-word-vectors", "--without-elmo")

    assert "found in vectors.vec" in capsys.readouterr().out
    weights = load_file("out/model.safetensors")
    assert not any(name.startswith("elmo.") for name in weights)
    assert weights["task_embeddings.word_embeddings.weight"].shape[1] == 2
    run("--model=out", "--test=train.json", "--output=again", train="")
    assert json.loads(Path("again", "test_results.json").read_text())["test_f1"] == results()["dev_f1"]


def test_a_trained_model_is_measured_alone(run: Run) -> None:
    run("--dev=train.json", "--head=linear")
    scores = results()["dev_f1"]

    run("--model=out", "--test=train.json", "--output=again", train="")

    assert results("again")["test_f1"] == pytest.approx(scores)
    assert predictions("test", "again") == predictions("dev")


def test_a_resumed_training_ends_with_the_same_weights(run: Run, tmp_path: Path) -> None:
    options = ["--dev=train.json", "--epochs=3", "--mix-at=both"]
    run("--output=whole", *options)
    run("--output=cut", *options)
    for checkpoint in sorted(Path("cut").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[1:]:
        checkpoint.rename(tmp_path / f"away-{checkpoint.name}")

    run("--output=cut", *options, "--resume")

    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(part, cut[name]) for name, part in whole.items())
    Path("train.json").write_text(squad({**ASKED, "Who met Bob?": "Bob"}), encoding="utf-8")
    with pytest.raises(ElmoError, match=r"^cut is of another run \(.*data: \w+ then, \w+ now.*\)"):
        run("--output=cut", *options, "--resume")


@pytest.fixture
def tokenizer() -> ElmoTokenizer:
    return ElmoTokenizer.from_pretrained(ELMO_TINY_EN)


def question(answers: list[Answer], context: str = CONTEXT, key: str = "1") -> Question:
    return Question(key, "Who met Bob?", context, answers)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([Answer("New York", 20)], ["New", "York"]),
        # the first answer that has a place
        ([Answer("Eve", None), Answer("Lee", 4), Answer("Bob", 12)], ["Lee"]),
        # parts of words, and the space before a word
        ([Answer("nn Lee m", 1)], ["Ann", "Lee", "met"]),
        ([Answer(" Bob", 11)], ["Bob"]),
        ([Answer("there.", 40)], ["there", "."]),
    ],
)
def test_an_answer_is_the_words_that_it_has_a_part_of(
    answers: list[Answer], words: list[str], script: ModuleType, tokenizer: ElmoTokenizer
) -> None:
    windows: list[Any] = []
    (row,) = script.encode([question(answers)], tokenizer, windows, "data", 400)

    encoded = tokenizer("Who met Bob?", CONTEXT)
    assert row["input_ids"] == encoded["input_ids"]
    assert row["char_ids"].tolist() == encoded["char_ids"]
    assert encoded.tokens()[row["start_positions"] : row["end_positions"] + 1] == words


@pytest.mark.parametrize(("answers", "place"), [([], 0), ([Answer("Eve", None)], -100)])
def test_a_question_without_an_answer_and_one_without_a_place(
    answers: list[Answer], place: int, script: ModuleType, tokenizer: ElmoTokenizer
) -> None:
    (row,) = script.encode([question(answers)], tokenizer, [], "data", 400)

    assert (row["start_positions"], row["end_positions"]) == (place, place)


def test_a_long_context_is_read_in_windows_and_answered_from_the_best(
    script: ModuleType, tokenizer: ElmoTokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    windows: list[Any] = []
    script.encode([question([])], tokenizer, windows, "other", 400)
    rows = script.encode([question([Answer("New York", 20)], key="2")], tokenizer, windows, "data", 6)

    # Ann Lee met Bob , in | , in New York . It | . It rained there .
    assert [(window.start, window.size) for window in windows[1:]] == [(0, 6), (4, 6), (8, 5)]
    assert [row["start_positions"] for row in rows] == [0, 4 + 3 + 2, 0]
    assert (
        "note: data has 1 contexts of more words than --max-words, which are read in windows"
        in capsys.readouterr().out
    )
    # "there" in the last window, which the second one outdoes by "New York"
    logits = np.full((3, 14, 2), -100.0)
    logits[:, 0] = 0
    logits[1, 4 + 3 + 2, 0] = logits[1, 4 + 3 + 3, 1] = 5
    logits[2, 4 + 3 + 3] = 2
    # as Trainer gives them, in any order
    order = [2, 0, 1]
    numbers = np.array([row["row"] for row in rows])[order]

    def predicted() -> EvalPrediction:
        return EvalPrediction((logits[order, :, 0], logits[order, :, 1]), (numbers, numbers, numbers))

    finder = script.AnswerFinder(windows, 30, no_answer=True)

    assert finder.answers(finder.find(predicted())) == {"2": "New York"}
    assert finder.score(predicted()) == {"exact_match": 1, "f1": 1}
    assert script.AnswerFinder(windows, 1, no_answer=False).find(predicted())["2"].best != "New York"
    # now every window says that there is none
    logits[:, 0] = 9
    found = finder.find(predicted())
    assert finder.answers(found) == {"2": ""}
    # 2 ln(e^9 / sum) - ln(e^5 / sum) - ln(e^5 / sum), in the window that is surest of an answer
    assert found["2"] == ("New York", pytest.approx(8.0, abs=0.01))


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (
            squad(ASKED, "Ann Lee <S> New York It rained"),
            [],
            "dev.json: the text 'Ann Lee <S> .*' has a boundary, <S>",
        ),
        ("{}", [], "dev.json, question 1: question is None: give a text"),
        (squad(ASKED), ["--model=absent"], "absent cannot be loaded: "),
        (squad(ASKED), ["--head=linear", "--mix-at=both"], ".* cannot be loaded: .*the head 'linear' has no encoder"),
    ],
)
def test_what_cannot_be_used_is_one_line(run: Run, text: str, arguments: list[str], message: str) -> None:
    Path("dev.json").write_text(text, encoding="utf-8")

    with pytest.raises(ElmoError, match=f"^{message}.*$"):
        run("--dev=dev.json", *arguments)
    assert not Path("out", "model.safetensors").exists()


def test_an_error_and_an_interruption_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["finetune_qa.py", "absent.json", "--output", "out"])
    with pytest.raises(SystemExit, match=r"^finetune_qa\.py: error: absent\.json cannot be read [^\n]*$"):
        runpy.run_path(str(SCRIPT), run_name="__main__")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo_hf.training.finetuning_options.read_splits", interrupt)
    with pytest.raises(SystemExit, match=r"^finetune_qa\.py: interrupted: the same command with --resume goes on$"):
        runpy.run_path(str(SCRIPT), run_name="__main__")


def test_without_its_extra_the_script_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)

    message = 'finetune_qa.py: error: accelerate is not installed: pip install "elmo_hf[finetune]"'
    with pytest.raises(SystemExit, match=f"^{re.escape(message)}$"):
        runpy.run_path(str(SCRIPT))
