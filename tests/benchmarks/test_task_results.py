"""`benchmarks/task_results.py` trains with ELMo, with words and characters of the task, and with both."""

import argparse
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from elmo_hf import ElmoError


SENTENCES = [
    ("Ann saw Bob", "B-PER O B-PER"),
    ("it rained", "O O"),
    ("York is old", "B-LOC O O"),
    ("Bob left", "B-PER O"),
]


@pytest.fixture
def run(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Run the script on a few sentences."""
    monkeypatch.chdir(tmp_path)
    for name, sentences in {"train": SENTENCES, "dev": [("Sue saw Bob", "B-PER O B-PER")]}.items():
        pairs = [zip(words.split(), tags.split(), strict=True) for words, tags in sentences]
        text = "\n".join("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in pairs)
        Path(f"{name}.conll").write_text(text, encoding="utf-8")
    small = ["--head=bilstm-crf", "--epochs=1", "--seeds=1", "--hidden-size=4"]

    def main(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["script", "train.conll", "dev.conll", "dev.conll", *small, *arguments])
        script.main()

    return main


def test_compares_what_the_head_reads(run: object, capsys: pytest.CaptureFixture[str]) -> None:
    Path("glove.txt").write_text("ann 1 2\nbob 3 4\n", encoding="utf-8")
    run("--compare", "--word-vectors=glove.txt", "--task-chars")

    table = capsys.readouterr().out.split("\n\n")[-1].splitlines()
    assert [row.split("|")[1].strip() for row in table[2:]] == [
        "with ELMo",
        "without ELMo, glove.txt, characters",
        "with ELMo, glove.txt, characters",
    ]


def test_words_that_are_learned_are_as_wide_as_elmo(run: object, capsys: pytest.CaptureFixture[str]) -> None:
    run("--compare")

    assert "| without ELMo, learned words 256 wide |" in capsys.readouterr().out


def test_half_of_the_words_seen_once_are_unknown_in_training(script: ModuleType) -> None:
    examples = [script.Example([["Bob", "saw", "Ann"]], ["A", "B", "A"]), script.Example([["Bob"] * 3], ["A"] * 3)]
    task = script.Task({"train": examples}, script.ELMO_SMALL_EN, with_elmo=False)
    options = script.argparse.Namespace(
        word_vectors=None, word_vectors_dim=3, task_chars=False, without_elmo=True, model=script.ELMO_SMALL_EN
    )
    vectors, single = script.choose_words(task, options)
    assert vectors.words == ["Bob", "Ann", "saw"]
    assert single.tolist() == [False, False, False, True, True]
    model, tokenizer = script.load_task_model(
        script.ElmoForTokenClassification, script.ELMO_SMALL_EN, task.names, word_vectors=vectors, mix_at="none"
    )
    words = script.TaskWords(tokenizer, single)
    torch.manual_seed(0)

    seen = torch.cat([task.batch(examples[:1], model.train(), words)["task_word_ids"] for _ in range(50)])

    assert set(seen[:, 1].tolist()) == {2}
    assert 10 < (seen[:, 2] == 1).sum() < 40
    assert task.batch(examples[:1], model.eval(), words)["task_word_ids"].tolist() == [[1, 2, 4, 3, 1]]


@pytest.mark.parametrize(
    ("head", "files", "message"),
    [
        ("bilstm", ["tags.conll"], "no head 'bilstm': choose one of linear, bilstm-crf, mean, max, bcn, esim"),
        ("bcn", ["tags.conll"], "bcn reads single sentences, and the data are tags of words"),
        ("esim", ["one.jsonl"] * 3, "esim reads pairs of sentences, and the data are single sentences"),
        ("linear", ["pair.jsonl"] * 3, "linear reads tags of words, and the data are pairs of sentences"),
        ("mean", ["one.jsonl", "pair.jsonl", "tags.conll"], "the data are tags of words, single sentences, pairs"),
        ("linear", ["tags.conll"], r"tags\.conll has 1 example: give 10 at least, or three files"),
        ("linear", ["tags.conll"] * 3, "The training set is the development set"),
        ("linear", ["missing.conll"] * 3, "missing.conll"),
    ],
)
def test_data_that_the_head_does_not_read_are_refused(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    head: str,
    files: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tags.conll").write_text("Ann\tB-PER\nran\tO\n\n", encoding="utf-8")
    Path("one.jsonl").write_text('{"tokens": ["a", "b"], "label": "x"}\n', encoding="utf-8")
    Path("pair.jsonl").write_text('{"premise": "a b", "hypothesis": "c", "label": "x"}\n', encoding="utf-8")

    with pytest.raises(ElmoError, match=message):
        script.read_sets(files, head)


def test_a_part_has_an_example_at_least(script: ModuleType) -> None:
    assert len(script.part_of("abcd", 1e-9)) == 1
    assert sorted(script.part_of("abcd", 1.0)) == list("abcd")


def test_a_development_set_is_left_out_of_training_only_if_training_has_all_of_it(script: ModuleType) -> None:
    def examples(*texts: str) -> list[object]:
        return [script.Example([list(text)], ["x"]) for text in texts]

    # some sentences, such as a dash, come again and again in training
    train = examples("-", "-", "-", "a", "b")

    assert script.without_dev(train, examples("-", "c")) == train
    assert script.without_dev(train, examples("-", "a", "-")) == examples("b")


def test_a_training_that_does_not_learn_is_refused(run: object) -> None:
    with pytest.raises(ElmoError, match=r"The loss of seed 0 is (nan|inf) in epoch \d: lower --learning-rate"):
        run("--learning-rate=1e30", "--epochs=3", "--word-vectors-dim=4")


def test_a_model_that_is_missing_is_named(run: object) -> None:
    with pytest.raises(ElmoError, match=r"^absent is not a model folder"):
        run("--model=absent")


@pytest.mark.parametrize(("given", "dropout"), [([], 0.5), (["--dropout=0.2"], 0.2)])
def test_the_dropout_of_the_head_is_set(
    run: object, script: ModuleType, monkeypatch: pytest.MonkeyPatch, given: list[str], dropout: float
) -> None:
    loaded = []
    load_task_model = script.load_task_model

    def note(*arguments: object, **fields: object) -> object:
        loaded.append(load_task_model(*arguments, **fields))
        return loaded[-1]

    monkeypatch.setattr(script, "load_task_model", note)
    run(*given)

    assert [model.config.classifier_dropout for model, _ in loaded] == [dropout]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([["tags", "bilstm-crf"]], "a --task is a name, a head, and one or three files"),
        ([["a", "bcn", "x"], ["a", "bcn", "y"]], "each --task needs a name of its own"),
        (
            [["tags", "linear", "x"]],
            "the head linear has no encoder, and so no output: choose bilstm-crf, bcn or esim",
        ),
    ],
)
def test_tasks_that_cannot_be_trained_are_refused_before_anything_is(
    script: ModuleType, capsys: pytest.CaptureFixture[str], tasks: list[list[str]], message: str
) -> None:
    with pytest.raises(SystemExit):
        script.check_tasks(argparse.ArgumentParser(), tasks)

    assert message in capsys.readouterr().err
