"""`ElmoForCoreferenceResolution` as users call it: shapes, padding, empty and large documents, saving, and Trainer."""

import resource
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import Trainer, TrainingArguments
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from elmo_hf import ElmoConfig, ElmoForCoreferenceResolution, ElmoModel
from support.documents import coreference_model, document, several
from support.tiny_models import Batch, tiny_config


LABELS = [[[0, 0, 0], [4, 5, 0]], [[1, 1, 1], [3, 3, 1], [8, 9, 2]]]


def two_documents(model: ElmoForCoreferenceResolution) -> Batch:
    return several([document(model, 4, 2), document(model, 5, 5, 1, seed=5)])


def with_labels(batch: Batch) -> Batch:
    return {**batch, "labels": torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, LABELS)), True, -100)}


def test_the_shapes_of_the_outputs() -> None:
    model = coreference_model()

    output = model(**with_labels(two_documents(model)))

    # half of 6 and of 11 words
    assert output.spans.shape == (2, 5, 2)
    assert (output.spans[0, 3:] == -100).all()
    assert output.mention_scores.shape == (2, 5)
    assert output.antecedents.shape == (2, 5, 4)
    assert output.antecedent_scores.shape == (2, 5, 5)
    assert output.antecedents[1, 0].tolist() == [-100] * 4
    assert (output.antecedent_scores[1, 0, 1:] == torch.finfo().min).all()
    assert output.loss.shape == ()


def test_the_loss_is_the_mean_of_the_documents() -> None:
    model = coreference_model()
    batch = two_documents(model)

    both = model(**with_labels(batch)).loss
    alone = [
        model(**{name: part[number] for name, part in batch.items()}, labels=torch.tensor(LABELS[number])).loss
        for number in range(2)
    ]

    torch.testing.assert_close(both, torch.stack(alone).mean())


def test_the_mix_is_regularised_once_a_batch() -> None:
    model = coreference_model()
    batch = with_labels(two_documents(model))
    before = model(**batch).loss
    model.config.mix_regularization = 0.5

    penalty = 0.5 * model.elmo.scalar_mix.weights.square().sum()
    torch.testing.assert_close(model(**batch).loss, before + penalty)


@pytest.mark.parametrize("mix_at", ["output", "both"])
def test_the_mix_can_go_in_elsewhere(mix_at: str) -> None:
    model = coreference_model(mix_at=mix_at)
    batch = with_labels(two_documents(model))

    model(**batch).loss.backward()

    assert all(mix.gamma.grad.abs() > 0 for mix in model.mixes().values())


def test_layers_that_were_computed_before_give_the_same() -> None:
    model = coreference_model(mix_at="both")
    batch = two_documents(model)
    whole = model(**batch, output_hidden_states=True)
    layers = torch.stack(whole.hidden_states, dim=2).unflatten(0, (2, -1))

    output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], bilm_layers=layers)

    torch.testing.assert_close(output.antecedent_scores, whole.antecedent_scores)


def test_vectors_in_place_of_the_token_layer_give_the_same() -> None:
    model = coreference_model()
    batch = two_documents(model)
    vectors = model.elmo.embed_words(**{name: part.flatten(0, 1) for name, part in batch.items()})
    masks = {name: batch[name] for name in ("input_ids", "attention_mask")}

    output = model(**masks, inputs_embeds=vectors.unflatten(0, (2, -1)))

    torch.testing.assert_close(output.antecedent_scores, model(**batch).antecedent_scores)


@pytest.mark.parametrize("mix_at", ["input", "output", "none"])
def test_words_of_the_task_stand_beside_elmo(mix_at: str) -> None:
    model = coreference_model(mix_at=mix_at, num_task_words=9, task_word_embedding_dim=3)
    batch = with_labels(two_documents(model))
    task_word_ids = (batch["input_ids"] % 9) * batch["attention_mask"]

    output = model(**batch, task_word_ids=task_word_ids)

    own, elmo = 3, {"input": 16, "output": 0, "none": 0}[mix_at]
    assert model.head.encoder.layers[0].input_projections[0].in_features == own + elmo
    assert not torch.equal(model(**batch, task_word_ids=(task_word_ids * 2) % 9).mention_scores, output.mention_scores)
    output.loss.backward()


@pytest.mark.parametrize("lengths", [(0,), (0, 0), (1,), (0, 1, 0)])
def test_documents_of_no_word_and_of_one(lengths: tuple[int, ...]) -> None:
    model = coreference_model(refinement_passes=1)

    output = model(**document(model, *lengths), labels=torch.zeros(0, 3, dtype=torch.long))

    assert model.decode(output) == [[]]
    assert output.spans.shape == (1, sum(lengths), 2)
    assert output.loss == 0
    output.loss.backward()


def test_a_document_of_padding_alone() -> None:
    model = coreference_model()
    batch = {name: torch.zeros_like(part) for name, part in document(model, 3).items()}

    assert model.decode(model(**batch)) == [[]]
    assert model.decode(model(**{name: part[:, :0] for name, part in batch.items()})) == [[]]


def test_an_empty_document_beside_another() -> None:
    model = coreference_model()
    full = document(model, 4, 5)
    alone = model.decode(model(**full))

    output = model(**several([document(model, 0), full]), labels=torch.full((2, 1, 3), -100))

    assert model.decode(output) == [[], *alone]
    assert torch.isfinite(output.loss)


def test_what_is_refused() -> None:
    model = coreference_model(use_speakers=True)
    batch = document(model, 4)

    with pytest.raises(ValueError, match="This model reads speakers: pass `speaker_ids`"):
        model(**batch)
    with pytest.raises(ValueError, match=r"`input_ids` is \(6,\); this model takes"):
        model(input_ids=batch["input_ids"][0])
    with pytest.raises(ValueError, match="`input_ids` is None"):
        model(char_ids=batch["char_ids"])
    with pytest.raises(ValueError, match=r"at least one document"):
        model(**{name: part[None][:0] for name, part in batch.items()})
    with pytest.raises(StrictDataclassError, match="`max_span_width` is 0; it can be 1 to 1,000"):
        tiny_config(max_span_width=0)
    with pytest.raises(ValueError, match="`head` is 'bcn'; for this task choose one of coarse-to-fine"):
        coreference_model(head="bcn")


def test_saves_and_loads_with_its_code(tmp_path: Path) -> None:
    model = coreference_model(refinement_passes=1)
    model.save_pretrained(tmp_path)
    batch = two_documents(model)

    again = ElmoForCoreferenceResolution.from_pretrained(tmp_path)
    cls = get_class_from_dynamic_module("modeling_elmo.ElmoForCoreferenceResolution", str(tmp_path))
    elsewhere = cls.from_pretrained(tmp_path)

    assert cls is not ElmoForCoreferenceResolution
    for other in (again, elsewhere):
        assert other.config.max_span_width == 3
        torch.testing.assert_close(other(**batch).antecedent_scores, model(**batch).antecedent_scores)
        assert other.decode(other(**batch)) == model.decode(model(**batch))
    # as any checkpoint of a task, it has the biLM
    assert torch.equal(ElmoModel.from_pretrained(tmp_path).scalar_mix.weights, model.elmo.scalar_mix.weights)


def test_half_precision_finds_about_the_same() -> None:
    model = coreference_model(refinement_passes=1)
    batch = two_documents(model)
    exact = model(**batch).mention_scores

    with torch.autocast("cpu", torch.bfloat16):
        output = model(**with_labels(batch))
    output.loss.backward()

    assert torch.isfinite(output.loss)
    found = model.to(torch.bfloat16)(**batch)
    torch.testing.assert_close(found.mention_scores.float().sum(), exact.sum(), rtol=0.2, atol=0.2)


def train(folder: Path, size: int, accumulate: int) -> dict[str, torch.Tensor]:
    model = coreference_model(classifier_dropout=0.0)
    rows = [
        {**document(model, 4, 5, seed=seed), "labels": torch.tensor([[0, 0, 0], [5, 5, 0], [2, 3, 1], [7, 7, 1]])}
        for seed in range(4)
    ]

    def collate(part: list[Batch]) -> Batch:
        inputs = several([{name: value for name, value in each.items() if name != "labels"} for each in part])
        return {**inputs, "labels": torch.stack([each["labels"] for each in part])}

    arguments = TrainingArguments(
        str(folder), per_device_train_batch_size=size, gradient_accumulation_steps=accumulate, num_train_epochs=1,
        learning_rate=1e-2, optim="sgd", report_to="none", disable_tqdm=True, use_cpu=True, save_strategy="no",
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows, data_collator=collate)
    trainer.train()
    predicted = trainer.predict(rows)
    scores, antecedents, spans, _ = predicted.predictions
    assert (len(spans), antecedents.shape[2] + 1) == (4, scores.shape[2])
    assert predicted.label_ids.shape == (4, 4, 3)
    return {name: part.detach() for name, part in model.named_parameters() if part.requires_grad}


def test_trainer_accumulates_to_the_gradient_of_the_whole_batch(tmp_path: Path) -> None:
    whole, parts = train(tmp_path, 4, 1), train(tmp_path, 1, 4)

    for name, part in parts.items():
        torch.testing.assert_close(part, whole[name], atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.slow
def test_a_document_of_5000_words_in_bounded_memory() -> None:
    config = ElmoConfig(
        hidden_size=1024,
        intermediate_size=64,
        char_embedding_dim=4,
        char_filters=[[1, 8]],
        max_characters_per_token=10,
    )
    model = ElmoForCoreferenceResolution(config).eval()
    batch = document(model, *[25] * 200)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with torch.inference_mode():
        output = model(**batch)

    assert output.spans.shape == (1, 2000, 2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_500_000
