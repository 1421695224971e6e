"""Layers computed once are those of every epoch, rows are padded alike, and a model that does not fit is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file
from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding

from elmo_hf import (
    ELMO_TINY_EN,
    ElmoError,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
)
from elmo_hf.data.word_vectors import WordVectors
from elmo_hf.training.finetuning import (
    LayersCollator,
    compute_layers,
    describe_base,
    layers_pay,
    layers_size,
    load_task_model,
    write_card,
)


NAMES = ["O", "B-PER", "I-PER"]


@pytest.fixture
def tokenizer() -> ElmoTokenizer:
    return ElmoTokenizer.from_pretrained(ELMO_TINY_EN)


@pytest.fixture
def tagger() -> ElmoForTokenClassification:
    return load_task_model(ElmoForTokenClassification, "elmo-tiny-en", NAMES, classifier_dropout=0.0)[0]


def rows_of(tokenizer: ElmoTokenizer) -> list[dict[str, Any]]:
    """Three sentences, the longest not the first, with the tags of their words."""
    rows = []
    for text in ("the king", "the queen is here with the king", "no"):
        row = dict(tokenizer(text))
        row["labels"] = [-100, *[1] * (len(row["input_ids"]) - 2), -100]
        rows.append(row)
    return rows


@pytest.mark.parametrize("side", ["right", "left"])
def test_layers_computed_once_give_the_loss_of_the_bilm(
    tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, side: str
) -> None:
    tokenizer.padding_side = side
    rows = rows_of(tokenizer)
    collate = LayersCollator(DataCollatorForTokenClassification(tokenizer))

    once = compute_layers(tagger, tokenizer, rows, batch_size=2)

    assert [row["bilm_layers"].shape for row in once] == [(len(row["input_ids"]), 3, 256) for row in rows]
    assert {row["bilm_layers"].dtype for row in once} == {torch.float16}
    assert all("char_ids" not in row for row in once)
    batch = collate(once)
    assert "char_ids" not in batch
    ran, read = tagger(**collate(rows)), tagger(**batch)
    # float16 rounds
    torch.testing.assert_close(read.loss, ran.loss, rtol=0, atol=2e-3)
    torch.testing.assert_close(read.logits, ran.logits, rtol=0, atol=2e-2)
    assert sum(row["bilm_layers"].nbytes for row in once) == layers_size(tagger.config, rows)


@pytest.mark.parametrize("characters", [0, 2])
def test_rows_keep_what_a_head_reads_beside_the_layers(characters: int) -> None:
    vectors = WordVectors(["king", "no"], "exact", 3, np.ones((4, 3), dtype=np.float32), "file", "")
    fields = {"classifier_dropout": 0.0, "task_char_embedding_dim": characters, "train_task_words": True}
    model, tokenizer = load_task_model(
        ElmoForTokenClassification, "elmo-tiny-en", NAMES, word_vectors=vectors, **fields
    )
    assert model.task_embeddings.word_embeddings.weight.requires_grad
    rows = rows_of(tokenizer)
    collate = LayersCollator(DataCollatorForTokenClassification(tokenizer))

    once = compute_layers(model, tokenizer, rows, batch_size=2)

    assert once[0]["task_word_ids"] == [1, 1, 2, 1]
    assert {getattr(row.get("char_ids"), "dtype", None) for row in once} == {
        np.dtype(np.uint16) if characters else None
    }
    torch.testing.assert_close(model(**collate(once)).logits, model(**collate(rows)).logits, rtol=0, atol=2e-2)


def test_a_model_without_elmo_has_no_layers_to_compute(tokenizer: ElmoTokenizer) -> None:
    model, _ = load_task_model(
        ElmoForTokenClassification, "elmo-tiny-en", NAMES, mix_at="none", task_char_embedding_dim=2
    )

    assert not layers_pay(model, rows_of(tokenizer))
    with pytest.raises(ElmoError, match=r"^This model has no biLM \(its mix_at is 'none'\): there are no layers"):
        compute_layers(model, tokenizer, rows_of(tokenizer))


def test_the_log_names_the_model_and_the_text_of_its_language_model(tagger: ElmoForTokenClassification) -> None:
    assert describe_base("elmo-tiny-en", tagger.config) == (
        "model: elmo-tiny-en, whose language model was trained on open.train.txt.gz, 71,904 sentences, "
        "1.4 million words"
    )
    tagger.config.training_history = [{"task": "token-classification", "words": 5}]
    assert describe_base("mine", tagger.config).endswith(" was trained on a text that is not recorded")


def test_rows_of_one_sentence_share_their_layers(tokenizer: ElmoTokenizer) -> None:
    fields = {"head": "alternating-lstm", "head_hidden_size": 4}
    model, _ = load_task_model(ElmoForTokenClassification, "elmo-tiny-en", NAMES, **fields)
    rows = rows_of(tokenizer)
    for row in rows:
        row["token_type_ids"] = [0] * len(row["input_ids"])
    # another predicate, and a word of other letters that has the same id
    other, unknown = {**rows[0], "token_type_ids": [1] * len(rows[0]["input_ids"])}, dict(tokenizer("Xyzzyx"))
    unknown["token_type_ids"] = [0, 1, 0]
    rows += [other, unknown, {**unknown, "char_ids": tokenizer("Xyzzyy")["char_ids"]}]

    once = compute_layers(model, tokenizer, rows)

    assert once[-3]["bilm_layers"] is once[0]["bilm_layers"]
    assert once[-3]["token_type_ids"] == other["token_type_ids"]
    assert not torch.equal(once[-2]["bilm_layers"], once[-1]["bilm_layers"])
    distinct = {id(row["bilm_layers"]): row["bilm_layers"].nbytes for row in once}
    assert len(distinct) == len(rows) - 1
    assert sum(distinct.values()) == layers_size(model.config, rows)


def test_layers_of_pairs(tokenizer: ElmoTokenizer) -> None:
    model, _ = load_task_model(ElmoForSequenceClassification, "elmo-tiny-en", ["no", "yes"], head="esim")
    rows = [dict(tokenizer(*pair)) for pair in [("the king", "a queen"), ("no", "who is the king")]]
    collate = LayersCollator(DataCollatorWithPadding(tokenizer))

    once = compute_layers(model, tokenizer, rows)

    torch.testing.assert_close(model(**collate(once)).logits, model(**collate(rows)).logits, rtol=0, atol=1e-2)


def test_layers_are_computed_once_of_a_frozen_bilm_only(
    tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(tokenizer)
    assert layers_pay(tagger, rows, rows)
    monkeypatch.setattr("elmo_hf.training.finetuning.LAYERS_LIMIT", 2 * layers_size(tagger.config, rows) - 1)
    assert not layers_pay(tagger, rows, rows)
    tagger.unfreeze_bilm()
    assert not layers_pay(tagger, rows)
    with pytest.raises(ElmoError, match=r"^The biLM is trained, so its layers change: freeze it"):
        compute_layers(tagger, tokenizer, rows)


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
    model, tokenizer = load_task_model(ElmoForQuestionAnswering, "elmo-tiny-en", (), default_head="bidaf")
    assert model.config.head == "bidaf"
    assert model.config.id2label == {0: "LABEL_0", 1: "LABEL_1"}
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")

    again, _ = load_task_model(ElmoForQuestionAnswering, str(tmp_path / "model"), ())

    assert torch.equal(again.classifier.weight, model.classifier.weight)


def test_a_model_of_numbers_goes_on(tmp_path: Path) -> None:
    model, tokenizer = load_task_model(
        ElmoForSequenceClassification, "elmo-tiny-en", None, problem_type="regression", default_head="max"
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
    load_task_model(ElmoForTokenClassification, "elmo-tiny-en", NAMES)

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
        load_task_model(ElmoForTokenClassification, "elmo-tiny-en", NAMES, mix_at="output")


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
