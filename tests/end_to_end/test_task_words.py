"""Words and characters of a task beside ELMo: what each head reads, wherever the mix goes in, and models without."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers.utils import logging

from elmo_hf import (
    ElmoForMultipleChoice,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from support.tiny_models import Batch, row, stack, tiny_model


NAMES = {0: "O", 1: "B-PER", 2: "I-PER"}
OWN = {
    "num_task_words": 12,
    "task_word_embedding_dim": 5,
    "task_char_embedding_dim": 3,
    "task_char_filters": [[3, 4]],
}
PLACES = ("input", "output", "both", "none")
TASKS = [
    (ElmoForTokenClassification, "linear", 1),
    (ElmoForTokenClassification, "bilstm-crf", 1),
    (ElmoForSequenceClassification, "mean", 1),
    (ElmoForSequenceClassification, "bcn", 1),
    (ElmoForSequenceClassification, "esim", 2),
    (ElmoForMultipleChoice, "esim", 2),
    (ElmoForQuestionAnswering, "linear", 2),
    (ElmoForQuestionAnswering, "bidaf", 2),
]
each_model = pytest.mark.parametrize(
    ("cls", "head", "sentences", "place"),
    [
        pytest.param(*task, place, id=f"{task[0].__name__[7:]}-{task[1]}-{place}")
        for task in TASKS
        for place in PLACES
        if place in ("input", "none") or task[1] not in ("linear", "mean")
    ],
)


def make(cls: type, head: str | None = None, place: str = "input", **fields: object) -> Any:
    return tiny_model(
        cls,
        **{"vocab_size": 30, "head_hidden_size": 5, "id2label": NAMES, "head": head, "mix_at": place, **OWN, **fields},
    )


def example(model: Any, *lengths: int, seed: int = 0) -> Batch:
    """One row, with ids in the task's vocabulary."""
    words = row(*lengths, model=model, seed=seed)
    return {**words, "task_word_ids": words["input_ids"] % 11 + 1}


def logits(model: Any, batch: Batch) -> torch.Tensor:
    """What the model says of the rows, from the first word on."""
    if isinstance(model, ElmoForMultipleChoice):
        return model(**{name: part[:, None] for name, part in batch.items()}).logits
    output = model(**batch)
    return torch.stack([output.start_logits, output.end_logits], 2) if "start_logits" in output else output.logits


@each_model
@torch.no_grad()
def test_a_head_reads_own_words_before_elmo(cls: type, head: str, sentences: int, place: str) -> None:
    model = make(cls, head, place)
    batch = stack([example(model, *(4, 3)[:sentences]), example(model, *(2, 6)[:sentences], seed=5)])
    read: list[tuple] = []
    first = model.classifier if model.head is None else model.head
    first.register_forward_pre_hook(lambda _, inputs: read.append(inputs))

    logits(model, batch)

    vectors, mix = read[0][0], None if model.head is None else read[0][3]
    own = model.task_embeddings.read(batch["task_word_ids"], batch["char_ids"], batch["attention_mask"].bool())
    assert model.config.head_input_size == vectors.shape[2]
    torch.testing.assert_close(vectors[:, :, :9], own)
    if place in ("output", "none"):
        assert vectors.shape[2] == 9
    else:
        # the layers of a pair are those of its sentences alone
        parts = [batch] if sentences == 1 else []
        for part in parts:
            inputs = {name: part[name] for name in ("input_ids", "char_ids", "attention_mask")}
            torch.testing.assert_close(vectors[:, :, 9:], model.elmo(**inputs).last_hidden_state)
    assert (mix is None) == (place in ("input", "none"))
    assert hasattr(model, "elmo") == (place != "none")


@each_model
@torch.no_grad()
def test_a_row_alone_equals_its_batch_with_any_padding(cls: type, head: str, sentences: int, place: str) -> None:
    model = make(cls, head, place)
    rows = [example(model, *(length, 7 - length)[:sentences], seed=length) for length in (2, 5)]
    of_words = cls in (ElmoForTokenClassification, ElmoForQuestionAnswering)

    alone = [logits(model, words) for words in rows]
    for left in (False, True):
        together = logits(model, stack(rows, left=left))
        for number, one in enumerate(alone):
            length = one.shape[1]
            found = together[number][-length:] if left else together[number][:length]
            torch.testing.assert_close(found if of_words else together[number], one[0], rtol=0, atol=1e-5)


@each_model
def test_every_trained_weight_is_used(cls: type, head: str, sentences: int, place: str) -> None:
    model = make(cls, head, place, train_task_words=True, classifier_dropout=0.0, mix_regularization=0.1).train()
    batch = example(model, *(4, 3)[:sentences])
    if cls is ElmoForQuestionAnswering:
        labels = {"start_positions": torch.tensor([7]), "end_positions": torch.tensor([8])}
    elif cls is ElmoForTokenClassification:
        labels = {"labels": batch["input_ids"] % 3}
    else:
        labels = {"labels": torch.tensor([0])}
    if cls is ElmoForMultipleChoice:
        batch = {name: torch.stack([part, part.flip(1)], dim=1) for name, part in batch.items()}
        batch["input_ids"][:, 1] = batch["input_ids"][:, 0]

    model(**batch, **labels).loss.backward()

    unused = [name for name, part in model.named_parameters() if part.requires_grad and part.grad is None]
    assert not unused
    table = model.task_embeddings.word_embeddings.weight
    assert not table.grad[0].any()
    read = set(batch["task_word_ids"].flatten().tolist())
    assert {number for number, gradient in enumerate(table.grad) if gradient.any()} <= read
    assert table.grad.any()
    assert set(model.layer_weights()) == ({"input", "output"} if place == "both" else {place} - {"none"})


@pytest.mark.parametrize("bilm", [{"word_embedding_dim": 4, "char_embedding_dim": 0}, {}], ids=["words", "characters"])
def test_a_larger_vocabulary_leaves_the_words_of_the_task_alone(bilm: dict[str, int]) -> None:
    for place in ("input", "none"):
        model = make(ElmoForTokenClassification, place=place, **bilm)
        batch, table = example(model, 4), model.task_embeddings.word_embeddings
        expected = logits(model, batch)
        model.resize_token_embeddings(40, mean_resizing=False)

        assert model.config.vocab_size == 40
        assert model.task_embeddings.word_embeddings is table
        assert torch.equal(logits(model, batch), expected)
    # without a biLM, they are the table that the model begins with
    assert model.get_input_embeddings() is table
    other = torch.nn.Embedding(*table.weight.shape)
    model.set_input_embeddings(other)
    assert model.task_embeddings.word_embeddings is model.get_input_embeddings() is other


def test_a_fixed_table_stays_as_it_is(tmp_path: Path) -> None:
    model = make(ElmoForTokenClassification)
    model.save_pretrained(tmp_path)

    for loaded in (model, ElmoForTokenClassification.from_pretrained(tmp_path)):
        assert not loaded.task_embeddings.word_embeddings.weight.requires_grad
        assert all(part.requires_grad for part in loaded.task_embeddings.convolutions.parameters())
        assert loaded.task_embeddings.char_embeddings.weight.requires_grad
    trained = ElmoForTokenClassification.from_pretrained(tmp_path, train_task_words=True)
    assert trained.task_embeddings.word_embeddings.weight.requires_grad
    assert torch.equal(trained.task_embeddings.word_embeddings.weight, model.task_embeddings.word_embeddings.weight)


def test_new_weights_are_set_and_padding_is_zero() -> None:
    torch.manual_seed(0)
    embeddings = ElmoForTokenClassification(make(ElmoForTokenClassification).config).task_embeddings

    table = embeddings.word_embeddings.weight
    assert not table[0].any()
    # between plus and minus the root of 3 / 5
    assert 0.5 < table.abs().max() < 0.7746
    assert not embeddings.convolutions[0].bias.any()


@pytest.mark.parametrize("base", [ElmoForPreTraining, ElmoModel])
def test_a_model_without_elmo_begins_from_a_language_models_folder(
    base: type, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiny_model(base, vocab_size=30).save_pretrained(tmp_path / "lm")
    logging.enable_propagation()

    fields = {"head": "bilstm-crf", "head_hidden_size": 5, "mix_at": "none", "id2label": NAMES, **OWN}
    model, report = ElmoForTokenClassification.from_pretrained(tmp_path / "lm", output_loading_info=True, **fields)

    logging.disable_propagation()
    assert not report["unexpected_keys"]
    assert "UNEXPECTED" not in caplog.text
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"task_embeddings", "head", "classifier"}
    assert model.base_model is model
    assert isinstance(model.get_input_embeddings(), nn.Embedding)
    model.save_pretrained(tmp_path / "tagger")
    assert all(not name.startswith("elmo.") for name in load_file(tmp_path / "tagger" / "model.safetensors"))
    again = ElmoForTokenClassification.from_pretrained(tmp_path / "tagger")
    batch = example(model, 4)
    torch.testing.assert_close(again.eval()(**batch).logits, model.eval()(**batch).logits)
    model.unfreeze_bilm()
    assert model.bilm_parameters() == []
    assert model.train().training


@pytest.mark.parametrize(
    ("cls", "head"), [(ElmoForTokenClassification, "bilstm-crf"), (ElmoForSequenceClassification, "bcn")]
)
def test_given_layers_and_vectors_go_in_beside_own_words(cls: type, head: str) -> None:
    model = make(cls, head, "both")
    batch = stack([example(model, 4), example(model, 2, seed=3)])
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
        layers = torch.stack(output.hidden_states, dim=2)
        given = model(**batch, bilm_layers=layers).logits
        inputs = {name: part for name, part in batch.items() if name != "task_word_ids"}
        vectors = model.elmo.embed_words(**inputs)
        embedded = model(**batch, inputs_embeds=vectors).logits

    torch.testing.assert_close(given, output.logits)
    torch.testing.assert_close(embedded, output.logits)


def test_a_tagger_goes_on_with_its_state() -> None:
    model = make(ElmoForTokenClassification)
    batch = example(model, 4)
    with torch.no_grad():
        state = model(**batch, use_cache=True).state
        again = model(**batch, state=state).logits

    assert not torch.allclose(again, model(**batch).logits)


@pytest.mark.parametrize("name", ["bilm_layers", "inputs_embeds", "state"])
def test_a_model_without_elmo_refuses_what_only_elmo_reads(name: str) -> None:
    model = make(ElmoForTokenClassification, "linear", "none")

    with pytest.raises(
        ValueError, match=rf"^This model has no biLM \(its `mix_at` is 'none'\), which would read `{name}`"
    ):
        model(**example(model, 4), **{name: torch.zeros(1, 6, 3, 16)})


def test_missing_task_ids_are_named() -> None:
    model = make(ElmoForTokenClassification)
    batch = example(model, 4)
    del batch["task_word_ids"]

    with pytest.raises(ValueError, match=r"^This model reads words of its task: pass `task_word_ids`"):
        model(**batch)
