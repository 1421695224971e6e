"""A task's model is loaded or refused, layers go where the options say, and the card has what the Hub reads."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file

from elmo_hf import (
    ElmoError,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
)
from elmo_hf.training import finetuning
from elmo_hf.training.finetuning import (
    add_layers,
    describe_base,
    load_task_model,
    write_card,
)
from elmo_hf.training.finetuning_options import FineTuningOptions
from support.english import ELMO_TINY_EN


NAMES = ["O", "B-PER", "I-PER"]


class Rows(list[Any]):
    """Rows whose layers were computed once, with the folder that has them."""

    def __init__(self, *_: Any, cache: Path | None, **__: Any) -> None:
        self.cache = cache


@pytest.mark.parametrize(
    ("splits", "options", "fits", "expected"),
    [
        ("train dev", {}, True, [None, None]),
        ("train dev", {}, False, [Path("out/layers-cache")] * 2),
        ("train dev", {"layers_once": True}, False, [Path("out/layers-cache")] * 2),
        ("train", {"cache_dir": Path("mine")}, True, [Path("mine")]),
        ("train", {"layers_once": False}, True, "none"),
        # rows that are only measured are read once
        ("test", {}, True, [None]),
        ("test", {}, False, "none"),
        ("test", {"cache_dir": Path("mine")}, False, [Path("mine")]),
        ("train", {"unfreeze": True}, True, "none"),
    ],
)
def test_where_layers_go(
    splits: str,
    options: dict[str, Any],
    fits: bool,
    expected: Any,
    tagger: ElmoForTokenClassification,
    tokenizer: ElmoTokenizer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = {name: [dict(tokenizer("the king"))] for name in splits.split()}
    monkeypatch.setattr(finetuning, "compute_layers", Rows)
    # rows of 4 words
    monkeypatch.setattr(finetuning, "LAYERS_LIMIT", len(rows) * 4 * 3 * 256 * 2 - (not fits))
    if options.get("unfreeze"):
        tagger.unfreeze_bilm()
    arguments: Any = SimpleNamespace(process_index=0, device=None)

    read = add_layers(FineTuningOptions(output=Path("out"), **options), tagger, tokenizer, rows, arguments)

    if expected == "none":
        assert read == rows
    else:
        assert [part.cache for part in read.values()] == expected
    note = "note: the layers of the biLM take 0.0 GB: they go to out/layers-cache until the script ends"
    assert (note in capsys.readouterr().out) == (expected != "none" and Path("out/layers-cache") in expected)


def test_the_log_names_the_model_and_the_text_of_its_language_model(tagger: ElmoForTokenClassification) -> None:
    assert describe_base("elmo-tiny-en", tagger.config) == (
        "model: elmo-tiny-en, whose language model was trained on open.train.txt.gz, 71,904 sentences, "
        "1.4 million words"
    )
    tagger.config.training_history = [{"task": "token-classification", "words": 5}]
    assert describe_base("mine", tagger.config).endswith(" was trained on a text that is not recorded")


def test_a_model_of_the_task_goes_on(tagger: ElmoForTokenClassification, tmp_path: Path) -> None:
    tagger.save_pretrained(tmp_path / "tagger")
    ElmoTokenizer.from_pretrained(ELMO_TINY_EN).save_pretrained(tmp_path / "tagger")
    name = str(tmp_path / "tagger")

    model, _ = load_task_model(ElmoForTokenClassification, name, ["B-PER"], default_head="bilstm-crf")

    assert list(model.config.id2label.values()) == NAMES
    assert model.config.head is None
    assert torch.equal(model.classifier.weight, tagger.classifier.weight)
    with pytest.raises(ElmoError, match=r"tagger has the labels O, B-PER, I-PER, and the data B-LOC: begin from the"):
        load_task_model(ElmoForTokenClassification, name, ["B-LOC", "O"])
    with pytest.raises(ElmoError, match=r"tagger has the head linear: leave it, or begin from the language model\.$"):
        load_task_model(ElmoForTokenClassification, name, NAMES, head="bilstm-crf")


def test_a_task_without_labels_leaves_their_names_alone(tmp_path: Path) -> None:
    model, tokenizer = load_task_model(ElmoForQuestionAnswering, ELMO_TINY_EN, (), default_head="bidaf")
    assert model.config.head == "bidaf"
    assert model.config.id2label == {0: "LABEL_0", 1: "LABEL_1"}
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")

    again, _ = load_task_model(ElmoForQuestionAnswering, str(tmp_path / "model"), ())

    assert torch.equal(again.classifier.weight, model.classifier.weight)


def test_a_model_of_numbers_goes_on(tmp_path: Path) -> None:
    model, tokenizer = load_task_model(
        ElmoForSequenceClassification, ELMO_TINY_EN, None, problem_type="regression", default_head="max"
    )
    assert model.config.head == "max"
    assert model.num_labels == 1
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")

    again, _ = load_task_model(ElmoForSequenceClassification, str(tmp_path / "model"), None)

    assert again.config.id2label == {0: "score"}
    with pytest.raises(ElmoError, match=r"model has the labels score, and the data bad, good: begin from"):
        load_task_model(ElmoForSequenceClassification, str(tmp_path / "model"), ["bad", "good"])


def test_a_new_head_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    load_task_model(ElmoForTokenClassification, ELMO_TINY_EN, NAMES)

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("prefix", ["elmo.layers.0.recurrent", "classifier."])
def test_weights_that_are_missing_and_not_new_are_named(
    prefix: str, tagger: ElmoForTokenClassification, tmp_path: Path
) -> None:
    tagger.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: value for name, value in weights.items() if not name.startswith(prefix)}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(ElmoError, match=rf"lack {prefix}.*: save or convert the model again\.$"):
        load_task_model(ElmoForTokenClassification, str(tmp_path), NAMES)


def test_a_model_that_cannot_be_loaded_is_one_line() -> None:
    with pytest.raises(ElmoError, match=r"^nothing-there cannot be loaded: .*$"):
        load_task_model(ElmoForTokenClassification, "nothing-there", NAMES)
    with pytest.raises(ElmoError, match=r"^.*elmo-tiny-en cannot be loaded: `mix_at` is 'output', but the head .*$"):
        load_task_model(ElmoForTokenClassification, ELMO_TINY_EN, NAMES, mix_at="output")


def save(tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, folder: Path, **record: object) -> None:
    tagger.config.training_history = [*tagger.config.training_history, {"task": "token-classification", **record}]
    tagger.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write(folder: Path, tagger: ElmoForTokenClassification, **options: Any) -> ModelCard:
    given = {
        "task": "token-classification",
        "base": "elmo-tiny-en",
        "data": "names",
        "scores": {"dev": {"f1": 0.5}, "test": {"f1": 0.43219, "accuracy": 0.9}},
        "command": ["python", "examples/finetune_ner.py", "my file"],
    }
    write_card(folder, tagger, **{**given, **options})
    return ModelCard.load(folder / "README.md")


def test_the_card_has_figures_that_the_hub_reads(
    tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, tmp_path: Path
) -> None:
    save(tagger, tokenizer, tmp_path, dataset="ann/names", base_model="elmo-tiny-en")

    card = write(tmp_path, tagger, report="PER 1.00")

    found = {(result.dataset_split, result.metric_type): result.metric_value for result in card.data.eval_results}
    assert found == {("dev", "f1"): 0.5, ("test", "f1"): 0.4322, ("test", "accuracy"): 0.9}
    assert {result.dataset_type for result in card.data.eval_results} == {"ann/names"}
    assert card.data.datasets == ["ann/names"]
    assert card.data.base_model is None
    assert card.data.model_name == "ELMo for token classification, fine-tuned on names"
    assert f"\n# {card.data.model_name}\n" in card.text
    for part in (
        "python examples/finetune_ner.py 'my file'",
        "| input | 0.333 0.333 0.333 | 1.000 |",
        "PER 1.00",
        "`linear`",
        "| test | Accuracy | 0.9000 |",
        "### Language model",
        "open.train.txt.gz",
    ):
        assert part in card.text


def test_a_card_names_no_folder_and_no_file_as_a_data_set(
    tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, tmp_path: Path
) -> None:
    save(tagger, tokenizer, tmp_path, text=["train.conll"])
    command = [
        "python",
        "examples/finetune_ner.py",
        f"{tmp_path}/train.conll",
        f"--dev={tmp_path}/dev.conll",
        "--model",
        "ann/x",
    ]

    card = write(tmp_path, tagger, base="ann/x", data="train.conll", command=command)

    assert "python examples/finetune_ner.py train.conll --dev=dev.conll --model ann/x" in card.text
    assert str(tmp_path) not in str(card)
    assert card.data.base_model == "ann/x"
    assert card.data.datasets is None
    assert card.data.eval_results is None
    (tmp_path / "README.md").unlink()
    (tmp_path / "README.md").mkdir()
    with pytest.raises(ElmoError, match=r"README\.md cannot be written"):
        write(tmp_path, tagger)
