"""`examples/finetune_ner.py` trains, scores, goes on, and refuses what it cannot do."""

import json
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForTokenClassification, EvalPrediction, pipeline

from elmo_hf import ElmoError, ElmoTokenizer
from elmo_hf.bundled import ELMO_SMALL_EN
from elmo_hf.data.tagged import TaggedSentence, read_conll_words, read_tagged
from elmo_hf.hub.cards import PLACEHOLDER
from elmo_hf.prediction import load, predict
from elmo_hf.training import frozen_layers
from support.english import ELMO_TINY_EN


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "finetune_ner.py"
SENTENCES = [
    ("the king saw Peter Abbot .", "O O O B-PER I-PER O"),
    ("Paris is here", "B-LOC O O"),
    ("no", "O"),
    ("in New York Peter is king .", "O B-LOC I-LOC B-PER O O O"),
]

Run = Callable[..., None]


def columns(sentences: list[tuple[str, str]]) -> str:
    """Write sentences as a file has them."""
    return "\n".join(
        "".join(f"{word}\t{tag}\n" for word, tag in zip(words.split(), tags.split(), strict=True))
        for words, tags in sentences
    )


@pytest.fixture
def run(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the script in a folder with some sentences."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    Path("train.conll").write_text(columns(SENTENCES * 2), encoding="utf-8")
    Path("dev.conll").write_text(columns(SENTENCES[:2]), encoding="utf-8")

    def main(*arguments: str, train: str = "train.conll") -> None:
        small = ["--threads=1", "--batch-size=4", "--output=out", "--head-hidden-size=6"]
        monkeypatch.setattr(sys, "argv", ["finetune_ner.py", *([train] if train else []), *small, *arguments])
        script.main()

    return main


def results(folder: str = "out") -> dict[str, float]:
    return json.loads(Path(folder, "all_results.json").read_text())


def test_says_that_no_name_was_found(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Path("dev.conll").write_text("nothing\tO\n", encoding="utf-8")
    run("--dev=dev.conll", "--epochs=1")

    shown = capsys.readouterr().out
    assert "note: no epoch scores above 0 on the development set: train longer" in shown
    assert shown.count(", whose language model was trained on ") == 1


def test_of_epochs_that_find_nothing_the_last_is_kept(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("--dev=dev.conll", "--epochs=3", "--learning-rate=1e-9", "--output=out")

    assert "Wrote out: epoch 3 of 3, dev F1 0.000." in capsys.readouterr().out
    last = max(Path("out").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    kept, trained = (load_file(folder / "model.safetensors") for folder in (Path("out"), last))
    assert all(torch.equal(part, trained[name]) for name, part in kept.items())


def test_learns_names(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--head=bilstm-crf", "--learning-rate=0.02", "--epochs=12", "--dropout=0", "--head-hidden-size=20"]
    run("--dev=dev.conll", "--test=train.conll", *options)

    assert results()["dev_f1"] == results()["test_f1"] == results()["test_PER_f1"] == 1
    shown = capsys.readouterr()
    assert re.search(r"PER +1\.0000 +1\.0000 +1\.0000 +4\n", shown.out)
    assert len(re.findall(r"^epoch \d+ of 12: loss \d[\d.e-]*, dev F1 \d\.\d{3}$", shown.out, re.MULTILINE)) == 12
    last = r"\nWrote out: epoch (\d+) of 12, dev F1 1\.000\. Tag text: elmo-hf predict out FILE\n$"
    best = re.search(last, shown.out)
    # no terminal, no bars
    assert shown.err == ""
    model = AutoModelForTokenClassification.from_pretrained("out")
    assert model.config.head == "bilstm-crf"
    assert list(model.config.id2label.values()) == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    tagger = pipeline("token-classification", "out", aggregation_strategy="simple")
    assert [(name["entity_group"], name["word"]) for name in tagger("Paris is here")] == [("LOC", "Paris")]
    card = ModelCard.load("out/README.md")
    assert "| test | F1 | 1.0000 |" in card.text
    assert "micro avg" in card.text
    for example in re.findall(r"```python\n(.*?)```", card.text, re.DOTALL):
        exec(compile(example.replace(PLACEHOLDER, "out"), "card", "exec"), {})  # noqa: S102 - what the card tells to do
    *language_models, task = model.config.training_history
    assert {record["task"] for record in language_models} == {"language-modeling"}
    assert (task["task"], task["base_model"], task["text"]) == (
        "token-classification",
        "elmo-small-en",
        ["train.conll"],
    )
    words = sum(len(words.split()) for words, _ in SENTENCES * 2)
    assert (task["inputs"], task["sentences"], task["words"], task["epochs"]) == ("sentences", 8, words, 12)
    assert task["best_step"] <= task["steps"] == 24
    assert best is not None
    # two steps an epoch
    assert task["best_step"] == 2 * int(best[1])
    assert task["settings"]["head"] == "bilstm-crf"
    # each word, its tag, and what was predicted
    predicted = read_tagged("out/test.conll", tag_column=2)
    assert predicted == read_tagged("train.conll")
    found = list(predict(*load("out"), [words.split() for words, _ in SENTENCES]))
    assert [" ".join(result["tags"]) for result in found] == [tags for _, tags in SENTENCES]
    names = [(entity["label"], entity["text"]) for result in found for entity in result["entities"]]
    assert names == [("PER", "Peter Abbot"), ("LOC", "Paris"), ("LOC", "New York"), ("PER", "Peter")]


VECTORS = "peter 1 0 0.5\nparis 0 1 0.25\nking -1 -1 0\n. 0.5 0.5 0.5\nunused 9 9 9\n"


@pytest.mark.parametrize("place", [[], ["--mix-at=output"], ["--without-elmo"]], ids=["input", "output", "none"])
def test_reads_word_vectors_and_characters_beside_elmo_or_without(
    place: list[str], run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("glove.txt").write_text(VECTORS, encoding="utf-8")
    run("--dev=dev.conll", "--word-vectors=glove.txt", "--task-chars", *place, "--epochs=2", "--learning-rate=0.02")

    shown = capsys.readouterr().out
    assert (
        "word vectors: 4 of 13 words found in glove.txt, 41.9% of the text, 3 wide; 2 of them in lower case\n" in shown
    )
    model, tokenizer = load("out")
    assert list(tokenizer.task_words.numbers) == [".", "peter", "king", "paris"]
    table = model.task_embeddings.word_embeddings.weight
    assert torch.equal(table[2:], torch.tensor([[0.5, 0.5, 0.5], [1, 0, 0.5], [-1, -1, 0], [0, 1, 0.25]]))
    # the script reads layers in half precision, which are no part of a model without ELMo
    found = [" ".join(result["tags"]) for result in predict(model, tokenizer, read_conll_words("dev.conll"))]
    assert found == [" ".join(tags) for _, tags in read_tagged("out/dev.conll", tag_column=2)]
    record = model.config.training_history[-1]
    names = ("word_vectors", "word_vectors_dim", "train_word_vectors", "task_chars")
    assert [record["settings"][name] for name in names] == ["glove.txt", 3, False, 16]
    card = ModelCard.load("out/README.md").text
    assert "glove.txt" in card
    assert "4 words of the task, 3 wide, fixed; characters, 16 wide, filters 3x128; " in card
    assert ("## Layers" in card) == (place != ["--without-elmo"])
    if place == ["--without-elmo"]:
        assert "model: words of the task alone, without ELMo\n" in shown
        assert not any(name.startswith("elmo.") for name in load_file("out/model.safetensors"))
        assert record["base_model"] is None
        assert len(model.config.training_history) == 1
    # other vectors of the same words
    Path("glove.txt").write_text(VECTORS.replace("-1", "-2"), encoding="utf-8")
    again = ["--dev=dev.conll", "--task-chars", *place, "--epochs=2", "--learning-rate=0.02", "--resume"]
    with pytest.raises(ElmoError, match=r"^out is of another run \(vectors: \w+ then, \w+ now\): resume that run"):
        run("--word-vectors=glove.txt", *again)
    # the pipeline needs nothing else
    tagger = pipeline("token-classification", "out", ignore_labels=[])
    assert [entity["entity"] for entity in tagger("Paris is here")] == found[1].split()


def test_word_vectors_that_are_learned_go_on(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("--word-vectors-dim=5", "--without-elmo", "--epochs=1")
    assert "word vectors: 13 words, 5 wide, learned with the task\n" in capsys.readouterr().out
    before = load_file("out/model.safetensors")["task_embeddings.word_embeddings.weight"]

    run("--model=out", "--epochs=1", "--output=again")

    after = load_file("again/model.safetensors")["task_embeddings.word_embeddings.weight"]
    assert after.shape == before.shape == (15, 5)
    assert not torch.equal(before[2:], after[2:])
    assert not after[0].any()
    records = AutoModelForTokenClassification.from_pretrained("again").config.training_history
    assert [record["settings"].get("word_vectors") for record in records] == ["learned", None]
    with pytest.raises(ElmoError, match=r"^out reads words of its own: leave the word vectors, or begin from the"):
        run("--model=out", "--word-vectors-dim=5", "--output=third")


def test_without_spans_the_tags_are_counted(run: Run) -> None:
    Path("tags.conll").write_text(columns([("the king sleeps", "DT NN VBZ"), ("no", "UH")]), encoding="utf-8")
    run("--dev=tags.conll", "--epochs=1", train="tags.conll")

    assert "dev_accuracy" in results()
    assert "dev_f1" not in results()
    # the script and `elmo-hf predict` find the same
    found = predict(*load("out"), read_conll_words("tags.conll"))
    assert [result["tags"] for result in found] == [tags for _, tags in read_tagged("out/dev.conll", tag_column=2)]


def test_a_resumed_training_ends_with_the_same_weights(run: Run, tmp_path: Path) -> None:
    options = ["--dev=dev.conll", "--epochs=3", "--patience=2"]
    run("--output=whole", *options)
    run("--output=cut", *options)
    for checkpoint in sorted(Path("cut").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[1:]:
        checkpoint.rename(tmp_path / f"away-{checkpoint.name}")

    run("--output=cut", *options, "--resume")

    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(part, cut[name]) for name, part in whole.items())


def test_the_bilm_is_trained_if_it_is_to_be(run: Run) -> None:
    before = load_file(f"{ELMO_SMALL_EN}/model.safetensors")
    for name, options, same in ("a", [], True), ("b", ["--no-layers-once"], True), ("c", ["--unfreeze"], False):
        run("--epochs=1", f"--output={name}", *options)
        after = load_file(f"{name}/model.safetensors")
        changed = [
            weight
            for weight, part in before.items()
            if f"elmo.{weight.removeprefix('elmo.')}" in after
            and "scalar_mix" not in weight
            and not torch.equal(part, after[f"elmo.{weight.removeprefix('elmo.')}"])
        ]
        assert (not changed) == same


def test_layers_in_a_folder_train_the_same_and_are_not_computed_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        pytest.fail("computed again")

    options = ["--dev=dev.conll", "--epochs=2"]
    run("--output=held", *options)
    run("--output=stored", "--cache-dir=cache", *options)
    held, stored = (load_file(f"{name}/model.safetensors") for name in ("held", "stored"))
    assert all(torch.equal(part, stored[name]) for name, part in held.items())

    monkeypatch.setattr(frozen_layers, "_run", fail)
    run("--output=other", "--cache-dir=cache", "--head=linear", *options)
    # of the training and the development data, and of a file that was measured with a model of the task
    run("--output=scores", "--cache-dir=cache", "--model=other", "--test=dev.conll", train="")
    assert len(list(Path("cache").glob("*/layers.bin"))) == 2
    assert results("scores")["test_accuracy"] == results("other")["dev_accuracy"]


def test_layers_beyond_memory_stay_in_the_output_until_the_script_has_ended(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    options = ["--dev=dev.conll", "--epochs=1"]
    run("--output=held", *options)
    monkeypatch.setattr("elmo_hf.training.finetuning.LAYERS_LIMIT", 0)
    with monkeypatch.context() as patched:
        patched.setattr("transformers.Trainer.training_step", stop)
        with pytest.raises(KeyboardInterrupt):
            run("--output=stored", *options)
    assert len(list(Path("stored/layers-cache").glob("*/layers.bin"))) == 2

    with monkeypatch.context() as patched:
        patched.setattr(frozen_layers, "_run", stop)
        run("--output=stored", "--resume", *options)
    assert not Path("stored/layers-cache").exists()
    held, stored = (load_file(f"{name}/model.safetensors") for name in ("held", "stored"))
    assert all(torch.equal(part, stored[name]) for name, part in held.items())


def test_iob1_becomes_iob2(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Path("iob1.conll").write_text(columns([("New York Paris", "I-LOC I-LOC B-LOC")]), encoding="utf-8")
    run("--epochs=1", train="iob1.conll")

    assert "note: iob1.conll: 1 sentence (the first: 1) had names that begin with I-" in capsys.readouterr().out
    model = AutoModelForTokenClassification.from_pretrained("out")
    assert list(model.config.id2label.values()) == ["B-LOC", "I-LOC"]


def test_a_long_sentence_is_read_in_pieces_and_every_word_tagged(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("--epochs=1", "--max-words=3", "--test=dev.conll")

    out = capsys.readouterr().out
    assert "note: train has 4 sentences of more than 3 words, read in pieces" in out
    assert [words for words, _ in read_tagged("out/test.conll")] == [words for words, _ in read_tagged("dev.conll")]


def test_labels_stay_with_their_words(script: ModuleType) -> None:
    tokenizer = ElmoTokenizer.from_pretrained(ELMO_TINY_EN)
    sentence = TaggedSentence(["New York", "don't", "<S>", "\u200b"], ["B", "O", "O", "B"])

    (row,) = script.encode([sentence], tokenizer, {"O": 0, "B": 1}, "data")

    assert row["labels"] == [-100, 1, 0, 0, 1, -100]
    assert len(row["input_ids"]) == 6


def test_names_are_scored_strictly(script: ModuleType) -> None:
    names = {0: "O", 1: "B-X", 2: "I-X", 3: "B-Y"}
    wanted = torch.tensor([[-100, 1, 2, 0, 3, -100], [-100, 1, -100, -100, -100, -100]])
    found = torch.tensor([[0, 1, 2, 2, 3, 0], [0, 2, 1, 1, 1, 1]])

    scores = script.make_metrics(names)(EvalPrediction(found.numpy(), wanted.numpy()))

    # found: X of three words, Y, and an I-X that begins nothing
    assert scores["precision"] == pytest.approx(1 / 2)
    assert scores["recall"] == pytest.approx(1 / 3)
    assert (scores["X_f1"], scores["Y_f1"]) == (0, 1)
    assert scores["accuracy"] == pytest.approx(3 / 5)
    nothing = script.make_metrics(names)(EvalPrediction(0 * found.numpy(), 0 * wanted.numpy()))
    assert nothing["f1"] == 0


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (
            "Paul\tB-ORG\n",
            [],
            "dev.conll has tags that neither the training data nor the model has, B-ORG (the first in sentence 1)",
        ),
        ("", [], "dev.conll holds no sentences: give"),
        ("Paul\n", [], "dev.conll, line 1: 'Paul' does not have the columns"),
        ("Paul\tO\n", ["--model=absent"], "absent cannot be loaded: "),
    ],
)
def test_what_cannot_be_used_is_one_line(run: Run, text: str, arguments: list[str], message: str) -> None:
    Path("dev.conll").write_text(text, encoding="utf-8")

    with pytest.raises(ElmoError, match=f"^{re.escape(message)}.*$"):
        run("--dev=dev.conll", *arguments)
    assert not Path("out", "model.safetensors").exists()


def test_tags_can_be_named_besides(run: Run) -> None:
    Path("dev.conll").write_text("Paul\tB-ORG\n", encoding="utf-8")
    run("--dev=dev.conll", "--labels", "B-ORG", "--epochs=1")

    assert results()["dev_f1"] == 0


def test_takes_a_data_set(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="the library datasets is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    rows = [{"words": words.split(), "tags": tags.split()} for words, tags in SENTENCES]
    Path("rows").mkdir()
    for split in ("train", "test"):
        Path("rows", f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")

    run("--dataset=rows", "--splits", "train", "test", "--epochs=1", train="")

    assert "dev_f1" in results()


def test_an_interrupted_training_goes_on_from_what_is_whole(run: Run) -> None:
    options = ["--dev=dev.conll", "--epochs=2"]
    run(*options, "--resume")
    with pytest.raises(ElmoError, match=r"^out has checkpoints of a training: resume it with --resume"):
        run(*options)
    *_, last = sorted(Path("out").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    weights = Path("out/model.safetensors").read_bytes()
    # as if it had been killed while it wrote
    (last / "trainer_state.json").unlink()

    run(*options, "--resume")

    assert Path("out/model.safetensors").read_bytes() == weights


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs=3"], r"epochs: 1.0 then, 3.0 now"),
        (["--head=linear"], r"head: bilstm-crf then, linear now"),
        (["--labels", "B-ORG"], r"id2label: .* now"),
        ([], r"data: \w+ then, \w+ now"),
    ],
)
def test_another_training_is_not_resumed(run: Run, arguments: list[str], message: str) -> None:
    run("--epochs=1")
    if not arguments:
        Path("train.conll").write_text(columns(SENTENCES), encoding="utf-8")

    with pytest.raises(ElmoError, match=rf"^out is of another run \(.*{message}.*\): resume that run, or choose"):
        run("--epochs=1", *arguments, "--resume")


def test_a_folder_of_something_else_is_kept(run: Run) -> None:
    Path("out").mkdir()
    Path("out/README.md").write_text("mine")

    with pytest.raises(ElmoError, match=r"^out holds something else than a training: choose another folder"):
        run("--epochs=1")

    assert Path("out/README.md").read_text() == "mine"


def test_a_trained_model_is_measured_alone(run: Run) -> None:
    run("--dev=dev.conll", "--epochs=1")
    scores = results()["dev_accuracy"]

    run("--model=out", "--test=dev.conll", "--output=again", train="")

    assert results("again")["test_accuracy"] == scores
    assert sorted(path.name for path in Path("again").iterdir()) == [
        "all_results.json",
        "test.conll",
        "test_results.json",
    ]


def test_the_head_is_that_of_the_task(run: Run) -> None:
    run("--epochs=1")
    assert AutoModelForTokenClassification.from_pretrained("out").config.head == "bilstm-crf"
    Path("pos.conll").write_text(columns([("no king", "RB NN")]), encoding="utf-8")

    run("--epochs=1", "--output=pos", train="pos.conll")

    assert AutoModelForTokenClassification.from_pretrained("pos").config.head is None


def test_data_without_names_scores_0(run: Run) -> None:
    Path("dev.conll").write_text("no\tO\n", encoding="utf-8")

    run("--dev=dev.conll", "--epochs=1", "--learning-rate=0")

    assert results()["dev_f1"] == 0


def test_a_full_disk_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("transformers.Trainer.save_model", full)

    with pytest.raises(ElmoError, match=r"^out cannot be written \(.*No space left on device"):
        run("--epochs=1")


def test_an_interruption_is_one_line(run: Run, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    del run, script
    monkeypatch.setattr(sys, "argv", ["finetune_ner.py", "train.conll", "--output", "out"])

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo_hf.training.finetuning_options.read_splits", interrupt)
    with pytest.raises(SystemExit, match=r"^finetune_ner\.py: interrupted: the same command with --resume goes on$"):
        runpy.run_path(str(SCRIPT), run_name="__main__")


def test_an_error_of_the_command_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["finetune_ner.py", "absent.conll", "--output", "out"])

    # a text as the status is printed, and the status is 1
    with pytest.raises(SystemExit, match=r"^finetune_ner\.py: error: absent\.conll cannot be read [^\n]*$"):
        runpy.run_path(str(SCRIPT), run_name="__main__")


@pytest.mark.parametrize("package", ["accelerate", "seqeval.metrics"])
def test_without_its_extra_the_script_names_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(
        SystemExit, match=rf'^finetune_ner\.py: error: {package} is not installed: pip install "elmo_hf\[finetune\]"$'
    ):
        runpy.run_path(str(SCRIPT))
