"""The task models: how ELMo goes in, losses, labels and shapes."""

import gc
import itertools
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMultipleChoice
from transformers.utils import logging

from elmo_hf import (
    ElmoForMultipleChoice,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from support.tiny_models import Batch, row, stack, tiny_model


NAMES = {0: "O", 1: "B-PER", 2: "I-PER"}
TASKS = [
    pytest.param(ElmoForTokenClassification, {"head": "linear"}, id="linear"),
    pytest.param(ElmoForTokenClassification, {"head": "bilstm-crf"}, id="bilstm-crf"),
    pytest.param(ElmoForTokenClassification, {"head": "alternating-lstm"}, id="alternating-lstm"),
    pytest.param(ElmoForSequenceClassification, {"head": "mean"}, id="mean"),
    pytest.param(ElmoForSequenceClassification, {"head": "max"}, id="max"),
    pytest.param(ElmoForSequenceClassification, {"head": "bcn"}, id="bcn"),
    pytest.param(ElmoForSequenceClassification, {"head": "esim"}, id="esim"),
]
each_task = pytest.mark.parametrize(("cls", "fields"), TASKS)


def make(cls: type, **fields: object) -> torch.nn.Module:
    return tiny_model(cls, **{"vocab_size": 30, "head_hidden_size": 5, "id2label": NAMES, **fields})


def examples(model: torch.nn.Module, count: int = 4) -> list[tuple[Batch, torch.Tensor]]:
    """Rows of several lengths and their labels, as the model reads them."""
    made = []
    for number in range(count):
        lengths = (number % 3 + 1, 4 - number % 4) if model.config.head == "esim" else (2 + number * 3 % 7,)
        words = row(*lengths, model=model, seed=10 * number)
        if isinstance(model, ElmoForTokenClassification):
            labels = torch.arange(words["input_ids"].shape[1])[None] % 3
            if model.config.head == "alternating-lstm":
                words["token_type_ids"] = (labels == number % 3).long()
            labels[0, 0] = labels[0, -1] = -100
        else:
            labels = torch.tensor([number % 3])
        made.append((words, labels))
    return made


def batch_of(made: list[tuple[Batch, torch.Tensor]]) -> Batch:
    batch = stack([words for words, _ in made])
    width = batch["input_ids"].shape[1]
    labels = [
        torch.nn.functional.pad(part, (0, width - part.shape[1]), value=-100) if part.ndim == 2 else part
        for _, part in made
    ]
    return {**batch, "labels": torch.cat(labels)}


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: part.grad.clone() for name, part in model.named_parameters() if part.grad is not None}


@each_task
def test_a_row_alone_equals_its_batch_with_any_padding(cls: type, fields: dict) -> None:
    model = make(cls, **fields)
    rows = [words for words, _ in examples(model)]

    with torch.no_grad():
        right, left = (model(**stack(rows, left=side)).logits for side in (False, True))
        alone = [model(**words).logits for words in rows]

    for number, logits in enumerate(alone):
        if cls is ElmoForSequenceClassification:
            torch.testing.assert_close(right[number], logits[0], rtol=0, atol=1e-6)
            torch.testing.assert_close(left[number], logits[0], rtol=0, atol=1e-6)
        else:
            length = logits.shape[1]
            torch.testing.assert_close(right[number, :length], logits[0], rtol=0, atol=1e-5)
            torch.testing.assert_close(left[number, -length:], logits[0], rtol=0, atol=1e-5)


@each_task
@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_accumulated_batches_equal_the_whole(cls: type, fields: dict, penalty: float) -> None:
    model = make(cls, **fields, mix_regularization=penalty, freeze_bilm=False, classifier_dropout=0.0).train()
    made = examples(model, 8)
    whole = batch_of(made)
    count = (whole["labels"] != -100).sum()
    model(**whole).loss.backward()
    expected, loss = gradients(model), model(**whole).loss
    model.zero_grad()

    losses = [model(**batch_of(made[start : start + 2]), num_items_in_batch=count).loss for start in range(0, 8, 2)]
    sum(losses).backward()

    torch.testing.assert_close(sum(losses), loss, rtol=0, atol=1e-5)
    torch.testing.assert_close(gradients(model), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("problem", "labels"),
    [
        ("regression", torch.linspace(-1, 1, 8)[:, None]),
        ("regression", torch.linspace(-1, 1, 24).reshape(8, 3)),
        ("multi_label_classification", (torch.arange(24).reshape(8, 3) % 5 == 0).float()),
    ],
    ids=["one-number", "numbers", "multi-label"],
)
def test_accumulation_of_other_problems(problem: str, labels: torch.Tensor) -> None:
    width = labels.shape[1]
    names = {label: str(label) for label in range(width)}
    model = make(ElmoForSequenceClassification, head="bcn", problem_type=problem, id2label=names)
    rows = [words for words, _ in examples(model, 8)]
    with torch.no_grad():
        output = model(**stack(rows), labels=labels)

    logits = output.logits.double()
    if problem == "regression":
        expected = (logits - labels).square().mean()
    else:
        odds = logits.sigmoid()
        expected = -(labels * odds.log() + (1 - labels) * (1 - odds).log()).mean()
    torch.testing.assert_close(output.loss.double(), expected.double(), rtol=0, atol=1e-6)
    with torch.no_grad():
        parts = [
            model(
                **stack(rows[start : start + 2]), labels=labels[start : start + 2], num_items_in_batch=labels.numel()
            )
            for start in range(0, 8, 2)
        ]
    torch.testing.assert_close(sum(part.loss for part in parts), output.loss, rtol=0, atol=1e-6)


@each_task
def test_a_frozen_bilm_keeps_its_bits_and_no_graph(cls: type, fields: dict) -> None:
    model = make(cls, **fields, hidden_dropout_prob=0.5, output_hidden_states=True).train()
    before = {name: part.clone() for name, part in model.elmo.named_parameters() if "scalar_mix" not in name}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(3):
        output = model(**batch_of(examples(model)))
        assert not any(layer.requires_grad for layer in output.hidden_states)
        output.loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    assert all(torch.equal(dict(model.elmo.named_parameters())[name], part) for name, part in before.items())
    assert model.elmo.scalar_mix.gamma != 1


def test_a_frozen_bilm_has_no_dropout_and_a_trained_one_has() -> None:
    model = make(ElmoForTokenClassification, hidden_dropout_prob=0.5, output_hidden_states=True)
    words = row(6, model=model)
    expected = model(**words).hidden_states[2]

    assert torch.equal(model.train()(**words).hidden_states[2], expected)
    model.unfreeze_bilm()
    assert not torch.equal(model(**words).hidden_states[2], expected)
    model.freeze_bilm()
    assert torch.equal(model(**words).hidden_states[2], expected)


def test_freezing_is_kept_in_the_configuration(tmp_path: Path) -> None:
    model = make(ElmoForTokenClassification)
    assert not model.elmo.layers[0].recurrent_weight.requires_grad
    assert model.elmo.scalar_mix.weights.requires_grad
    model.unfreeze_bilm()
    model.save_pretrained(tmp_path)

    trained = ElmoForTokenClassification.from_pretrained(tmp_path)
    frozen = ElmoForTokenClassification.from_pretrained(tmp_path, freeze_bilm=True)

    assert all(part.requires_grad for part in trained.parameters())
    assert not any(part.requires_grad for part in frozen.bilm_parameters())


@pytest.mark.parametrize("mix_at", ["input", "output", "both"])
@pytest.mark.parametrize("fields", [task.values[1] for task in TASKS if task.id not in ("linear", "mean", "max")])
def test_every_trained_weight_is_used_wherever_the_mix_goes_in(mix_at: str, fields: dict) -> None:
    tags = fields["head"] in ("bilstm-crf", "alternating-lstm")
    cls = ElmoForTokenClassification if tags else ElmoForSequenceClassification
    model = make(cls, **fields, mix_at=mix_at).train()

    model(**batch_of(examples(model))).loss.backward()

    unused = {name for name, part in model.named_parameters() if part.requires_grad and part.grad is None}
    assert not unused
    assert set(model.layer_weights()) == ({"input", "output"} if mix_at == "both" else {mix_at})


@pytest.mark.parametrize(("layer", "shares"), [("top", [0, 0, 1]), (1, [0, 1, 0]), (0, [1, 0, 0]), ("average", None)])
def test_a_fixed_choice_of_layers(layer: str | int, shares: list[int] | None) -> None:
    model = make(ElmoForTokenClassification, layer=layer)
    with torch.no_grad():
        model.elmo.scalar_mix.gamma.fill_(7)
        output = model.elmo(**row(5, model=model), output_hidden_states=True)

    weights = torch.tensor(shares or [1 / 3] * 3, dtype=torch.float32)
    expected = torch.tensordot(weights, torch.stack(output.hidden_states), dims=1)
    torch.testing.assert_close(output.last_hidden_state, expected, rtol=0, atol=1e-6)
    assert model.layer_weights()["input"]["weights"] == pytest.approx(weights.tolist())
    assert not model.elmo.scalar_mix.weights.requires_grad


def test_what_is_not_trained_is_so_after_loading(tmp_path: Path) -> None:
    make(ElmoForTokenClassification, layer="top").save_pretrained(tmp_path)

    tagger, model, trainer = (
        cls.from_pretrained(tmp_path) for cls in (ElmoForTokenClassification, ElmoModel, ElmoForPreTraining)
    )

    trained = {name for name, part in tagger.named_parameters() if part.requires_grad}
    assert trained == {"classifier.weight", "classifier.bias"}
    assert not model.scalar_mix.gamma.requires_grad
    assert model.layers[0].recurrent_weight.requires_grad
    assert {name for name, part in trainer.named_parameters() if not part.requires_grad} == {
        "elmo.scalar_mix.weights",
        "elmo.scalar_mix.gamma",
    }


def test_layer_normalization_is_of_each_word_by_itself() -> None:
    model = make(ElmoForTokenClassification, mix_layer_norm=True)
    words = stack([row(5, model=model), row(3, model=model)])
    with torch.no_grad():
        output = model.elmo(**words, output_hidden_states=True)

    layers = torch.stack(output.hidden_states).double()
    centred = layers - layers.mean(dim=3, keepdim=True)
    normal = centred / (centred.square().mean(dim=3, keepdim=True) + 1e-5).sqrt()
    shares = torch.tensor(model.layer_weights()["input"]["weights"]).double()
    expected = torch.tensordot(shares, normal, dims=1).float()
    torch.testing.assert_close(output.last_hidden_state, expected, rtol=0, atol=1e-5)
    assert not output.last_hidden_state[1, 5:].any()


def test_the_penalty_is_that_of_the_paper() -> None:
    plain, penalized = (
        make(ElmoForSequenceClassification, head="bcn", mix_at="both", mix_regularization=weight)
        for weight in (0, 0.5)
    )
    batch = batch_of(examples(plain))

    difference = penalized(**batch).loss - plain(**batch).loss

    squares = sum(part.square().sum() for part in (plain.elmo.scalar_mix.weights, plain.output_mix.weights))
    torch.testing.assert_close(difference, 0.5 * squares, rtol=0, atol=1e-6)


@each_task
@pytest.mark.parametrize("mix_at", ["input", "both"])
def test_layers_computed_before_give_the_same(cls: type, fields: dict, mix_at: str) -> None:
    if fields["head"] in ("linear", "mean", "max"):
        mix_at = "input"
    model = make(cls, **fields, mix_at=mix_at)
    batch = batch_of(examples(model))
    with torch.no_grad():
        expected = model(**batch, output_hidden_states=True)
        layers = torch.stack(expected.hidden_states, dim=2)
        del batch["char_ids"]

        output = model(**batch, bilm_layers=layers)

    torch.testing.assert_close(output.loss, expected.loss)
    torch.testing.assert_close(output.logits, expected.logits, rtol=0, atol=1e-6)


@each_task
def test_what_stands_at_padding_of_given_layers_is_not_read(cls: type, fields: dict) -> None:
    model = make(cls, **fields)
    batch = batch_of(examples(model))
    layers = torch.stack(model(**batch, output_hidden_states=True).hidden_states, dim=2).detach()
    expected = model(**batch, bilm_layers=layers)

    layers[batch["attention_mask"] == 0] = float("nan")

    found = model(**batch, bilm_layers=layers)
    torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=0)
    torch.testing.assert_close(found.loss, expected.loss, rtol=0, atol=0)


def test_layers_of_another_model_are_refused() -> None:
    model = make(ElmoForTokenClassification)

    for shape in ((1, 4, 2, 16), (1, 3, 3, 16), (2, 4, 3, 16)):
        with pytest.raises(ValueError, match=r"`bilm_layers` is \(.*\); this model and batch take \(1, 4, 3, 16\)"):
            model(**row(2, model=model), bilm_layers=torch.zeros(shape))


def test_layers_are_not_taken_for_a_bilm_that_is_trained() -> None:
    model = make(ElmoForTokenClassification, freeze_bilm=False)

    with pytest.raises(ValueError, match=r"with `bilm_layers` it is not run: call `freeze_bilm"):
        model(**row(2, model=model), bilm_layers=torch.zeros(1, 4, 3, 16))


@each_task
def test_a_step_without_labels_changes_nothing(cls: type, fields: dict[str, object]) -> None:
    model = make(cls, mix_regularization=0.1, **fields).train()
    lengths = (2, 1) if fields["head"] == "esim" else (2,)
    batch = row(*lengths, model=model)
    batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
    labels = torch.full_like(batch["input_ids"] if cls is ElmoForTokenClassification else torch.zeros(1).long(), -100)

    model(**batch, labels=labels, num_items_in_batch=torch.tensor(0)).loss.nan_to_num().backward()

    assert all(part.grad is None or part.grad.isfinite().all() for part in model.parameters())


def test_numbers_may_be_integers_and_several_labels_too() -> None:
    number = make(ElmoForSequenceClassification, head="mean", id2label={0: "score"})
    several = make(ElmoForSequenceClassification, head="mean", problem_type="multi_label_classification")
    batch = row(2, model=number)

    assert number(**batch, labels=torch.tensor([3])).loss == number(**batch, labels=torch.tensor([3.0])).loss
    ones = torch.tensor([[1, 0, 1]])
    assert several(**batch, labels=ones).loss == several(**batch, labels=ones.float()).loss
    with pytest.raises(ValueError, match=r"`labels` is \(1, 2\) where the batch takes \(1, 1\), a number for each"):
        number(**batch, labels=torch.zeros(1, 2))


def test_the_sentences_of_a_pair_are_read_apart() -> None:
    model = make(ElmoForSequenceClassification, head="esim", output_hidden_states=True)
    pair = row(3, 4, model=model)
    first, second = ({name: part[:, at] for name, part in pair.items()} for at in (slice(0, 5), slice(5, 11)))

    layers = torch.stack(model(**pair).hidden_states)

    for part, at in ((first, slice(0, 5)), (second, slice(5, 11))):
        expected = torch.stack(model.elmo(**part, output_hidden_states=True).hidden_states)
        torch.testing.assert_close(layers[:, :, at], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("head", "lengths", "message"),
    [
        ("mean", (2, 3, 1), "reads single sentences and pairs, but a row has 3 sentences"),
        ("bcn", (2, 3), "reads single sentences, but a row has 2 sentences"),
        ("esim", (4,), "reads pairs, but a row has 1 sentence:"),
    ],
)
def test_a_head_refuses_rows_with_other_numbers_of_sentences(
    head: str, lengths: tuple[int, ...], message: str
) -> None:
    model = make(ElmoForSequenceClassification, head=head)

    with pytest.raises(ValueError, match=f"The head '{head}' {message}"):
        model(**row(*lengths, model=model))


@pytest.mark.parametrize("head", ["mean", "max"])
def test_the_default_heads_read_single_sentences_and_pairs_in_one_batch(head: str) -> None:
    model = make(ElmoForSequenceClassification, head=head)
    rows = [row(*lengths, model=model, seed=10 * len(lengths)) for lengths in ((3, 2), (4,), (1, 6), (0, 2), (2, 0))]
    expected = torch.cat([model(**each).logits for each in rows])

    for left in (False, True):
        torch.testing.assert_close(model(**stack(rows, left=left)).logits, expected, rtol=0, atol=1e-6)


def test_a_pair_is_classified_by_both_sentences_and_their_comparison() -> None:
    model = make(ElmoForSequenceClassification)
    first, second = row(3, model=model), row(4, model=model, seed=5)
    pair = {name: torch.cat([first[name], second[name]], dim=1) for name in first}

    logits = model(**pair).logits

    u, v = (model.elmo(**part).last_hidden_state[:, 1:-1].mean(dim=1) for part in (first, second))
    classifier = model.classifier
    expected = u @ classifier.weight.T + classifier.bias
    expected += torch.cat([v, (u - v).abs(), u * v], dim=1) @ classifier.pair_weight.T
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("head", ["mean", "max"])
def test_an_empty_sentence_of_a_pair_has_a_vector_of_zeros(head: str) -> None:
    model = make(ElmoForSequenceClassification, head=head)
    torch.nn.init.zeros_(model.classifier.weight)
    # only the absolute difference counts, which has no order
    model.classifier.pair_weight.data[:, :16] = 0
    model.classifier.pair_weight.data[:, 32:] = 0
    words, nothing = row(3, model=model), row(0, model=model)

    first, second = (
        model(**{name: torch.cat([pair[0][name], pair[1][name]], dim=1) for name in words}).logits
        for pair in ((words, nothing), (nothing, words))
    )

    torch.testing.assert_close(first, second, rtol=0, atol=1e-6)
    assert not torch.allclose(first, model(**words).logits)


@pytest.mark.parametrize("cls", [ElmoForSequenceClassification, ElmoForMultipleChoice])
@pytest.mark.parametrize("num_items", [None, torch.tensor(4)])
def test_a_batch_of_rows_without_labels_has_no_loss(cls: type, num_items: torch.Tensor | None) -> None:
    model = make(cls).train()
    rows, choices = choices_of(model)
    batch = choices if cls is ElmoForMultipleChoice else rows

    loss = model(**batch, labels=torch.full((len(batch["input_ids"]),), -100), num_items_in_batch=num_items).loss
    loss.backward()

    assert loss == 0
    assert not any(part.any() for part in gradients(model).values())


def test_training_on_single_sentences_leaves_the_weights_of_pairs_alone() -> None:
    model = make(ElmoForSequenceClassification).train()

    model(**row(4, model=model), labels=torch.tensor([1])).loss.backward()

    assert model.classifier.weight.grad.any()
    assert not model.classifier.pair_weight.grad.any()


@pytest.mark.usefixtures("library_logging")
def test_a_model_of_single_sentences_warns_that_it_reads_the_first_of_a_pair(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = make(ElmoForSequenceClassification)
    pair = row(3, 2, model=model)
    logging.get_logger().warning_once.cache_clear()
    model(**pair)
    assert not caplog.records

    torch.nn.init.zeros_(model.classifier.pair_weight)
    model(**row(3, model=model))
    model.train()(**pair)
    assert not caplog.records
    model.eval()(**pair)

    assert "trained on single sentences: it classifies a pair by its first sentence alone" in caplog.text


def choices_of(model: torch.nn.Module) -> tuple[Batch, Batch]:
    """Two examples of three choices each, as rows and as the model of multiple choice takes them."""
    rows = stack([row(2 + number % 2, 1 + number % 4, model=model, seed=10 * number) for number in range(6)])
    return rows, {name: part.unflatten(0, (2, 3)) for name, part in rows.items()}


@pytest.mark.parametrize("head", ["mean", "max", "esim"])
def test_a_choice_is_scored_as_a_pair_is(head: str) -> None:
    model = make(ElmoForMultipleChoice, head=head)
    rows, choices = choices_of(model)
    scorer = make(ElmoForSequenceClassification, head=head, num_labels=1)
    scorer.load_state_dict(model.state_dict())

    output = model(**choices, labels=torch.tensor([2, 0]))

    expected = scorer(**rows).logits.reshape(2, 3)
    torch.testing.assert_close(output.logits, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(output.loss, torch.nn.functional.cross_entropy(expected, torch.tensor([2, 0])))


def test_choices_as_the_collator_of_transformers_gives_them() -> None:
    model = make(ElmoForMultipleChoice)
    _, choices = choices_of(model)

    flat = {name: part.flatten(2) for name, part in choices.items()}

    torch.testing.assert_close(model(**flat).logits, model(**choices).logits)


def test_the_loss_of_choices_is_averaged_over_the_step() -> None:
    model = make(ElmoForMultipleChoice)
    _, choices = choices_of(model)
    labels = torch.tensor([2, 0])
    whole = model(**choices, labels=labels).loss

    parts = [
        model(
            **{name: part[at : at + 1] for name, part in choices.items()},
            labels=labels[at : at + 1],
            num_items_in_batch=torch.tensor(2),
        ).loss
        for at in range(2)
    ]

    torch.testing.assert_close(sum(parts), whole)


def test_wrong_choices_are_named() -> None:
    model = make(ElmoForMultipleChoice)
    rows, choices = choices_of(model)

    with pytest.raises(ValueError, match=r"`input_ids` is \(6, \d+\); this model takes \(examples, choices, words\)"):
        model(**rows)
    with pytest.raises(
        ValueError, match="`labels` has 3, which is not one of 0 to 2: an example of the batch has 3 choices"
    ):
        model(**choices, labels=torch.tensor([3, 0]))


def test_a_model_of_choices_is_saved_and_loaded(tmp_path: Path) -> None:
    model = make(ElmoForMultipleChoice)
    _, choices = choices_of(model)
    model.save_pretrained(tmp_path)

    again = AutoModelForMultipleChoice.from_pretrained(tmp_path).eval()

    torch.testing.assert_close(again(**choices).logits, model(**choices).logits, rtol=0, atol=0)


def test_a_classifier_saved_before_pairs_were_read_loads_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = make(ElmoForSequenceClassification)
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["classifier.pair_weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    words = row(4, model=model)

    again, report = ElmoForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)

    assert not report["missing_keys"]
    assert not caplog.records
    assert not again.classifier.pair_weight.any()
    torch.testing.assert_close(again.eval()(**words).logits, model(**words).logits, rtol=0, atol=0)


@each_task
def test_an_empty_sentence_works(cls: type, fields: dict) -> None:
    model = make(cls, **fields).train()
    words = stack([row(0, 2, model=model) if fields["head"] == "esim" else row(0, model=model)])
    words["token_type_ids"] = torch.zeros_like(words["input_ids"])
    labels = torch.full_like(words["input_ids"], -100) if cls is ElmoForTokenClassification else torch.tensor([1])

    output = model(**words, labels=labels)

    assert output.logits.isfinite().all()
    if fields["head"] != "linear":
        # the mean over no label at all is no number for Transformers' loss
        output.loss.backward()
        assert all(part.isfinite().all() for part in gradients(model).values())


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        (None, r"finds the roles of one predicate: pass `token_type_ids`, 1 at the words of the predicate and 0"),
        (torch.zeros(1, 3).long(), r"`token_type_ids` is \(1, 3\) where the batch is \(1, 5\)"),
        (torch.zeros(1, 5), r"`token_type_ids` is of torch.float32: pass integers"),
        (torch.tensor([[0, 1, 2, 0, 0]]), r"`token_type_ids` has 2: pass 1 at the words of the predicate, and 0 else"),
    ],
)
def test_marks_of_a_predicate_that_are_missing_or_wrong_are_refused(marks: torch.Tensor | None, message: str) -> None:
    model = make(ElmoForTokenClassification, head="alternating-lstm")

    with pytest.raises(ValueError, match=message):
        model(**row(3, model=model), token_type_ids=marks)


def test_the_predicate_changes_the_roles_and_whatever_is_marked_at_padding_nothing() -> None:
    model = make(ElmoForTokenClassification, head="alternating-lstm")
    words = stack([row(3, model=model), row(6, model=model)])
    marks = torch.zeros_like(words["input_ids"])
    marks[:, 2] = 1
    with torch.no_grad():
        expected = model(**words, token_type_ids=marks).logits
        others = model(**words, token_type_ids=marks.roll(1, dims=1)).logits
        marks[0, 5:] = 7
        padded = model(**words, token_type_ids=marks).logits

    assert not torch.isclose(expected[1, 1:-1], others[1, 1:-1]).all(dim=-1).any()
    assert torch.equal(padded, expected)


def test_roles_are_decoded_as_the_best_sequence_that_keeps_to_the_scheme() -> None:
    model = make(ElmoForTokenClassification, head="alternating-lstm")
    words = row(4, model=model)
    words["token_type_ids"] = (torch.arange(6) == 2).long()[None]
    # `I-PER` is the most probable label of every word
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([0.0, 0.2, 1.0]))
        scores = model.train()(**words).logits[0, 1:-1].double()
        found = model.eval()(**words).logits[0, 1:-1].argmax(dim=1).tolist()

    legal = [
        tags
        for tags in itertools.product(range(3), repeat=4)
        if all(tag != 2 or before in (1, 2) for before, tag in zip((0, *tags), tags, strict=False))
    ]
    assert found == list(max(legal, key=lambda tags: sum(scores[word, tag] for word, tag in enumerate(tags))))
    assert scores.argmax(dim=1).tolist() != found


def test_the_loss_of_roles_is_the_mean_cross_entropy_of_the_labelled_words() -> None:
    model = make(ElmoForTokenClassification, head="alternating-lstm", classifier_dropout=0.0).train()
    batch = batch_of(examples(model))
    batch["labels"][1, 2] = -100

    output = model(**batch)

    expected = torch.nn.functional.cross_entropy(output.logits.flatten(0, 1), batch["labels"].flatten())
    torch.testing.assert_close(output.loss, expected)


def test_heads_that_need_the_boundaries_ask_for_word_ids() -> None:
    model = make(ElmoForTokenClassification, head="bilstm-crf")

    with pytest.raises(ValueError, match="finds the words by `input_ids`: pass all"):
        model(char_ids=row(3, model=model)["char_ids"])


@each_task
def test_labels_that_do_not_fit_are_named(cls: type, fields: dict) -> None:
    model = make(cls, **fields)
    batch = batch_of(examples(model))
    batch["labels"].view(-1)[1] = 3

    with pytest.raises(ValueError, match=r"`labels` has 3, which is not one of 0 to 2: load the model with"):
        model(**batch)


def test_the_scores_of_a_crf_are_the_best_path_under_the_names_of_the_labels() -> None:
    model = make(ElmoForTokenClassification, head="bilstm-crf")
    batch = stack([words for words, _ in examples(model)])
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([0.0, -5.0, 5.0]))

        labels = model(**batch).logits.argmax(dim=2)

    inside = torch.zeros_like(labels, dtype=torch.bool)
    for number, words in enumerate(batch["attention_mask"]):
        inside[number, 1 : int(words.sum()) - 1] = True
        found = labels[number][inside[number]].tolist()
        # I-PER only behind B-PER or I-PER
        assert found[0] != 2
        assert all(label != 2 or before in (1, 2) for before, label in itertools.pairwise(found))
    assert (labels[inside] == 2).any()


def test_the_loss_of_a_crf_is_the_likelihood_of_the_words_labels() -> None:
    model = make(ElmoForTokenClassification, head="bilstm-crf", classifier_dropout=0.0).train()
    words, labels = row(4, model=model), torch.tensor([[-100, 1, 2, 0, 1, -100]])
    crf = model.head.crf
    with torch.no_grad():
        for part in crf.parameters():
            part.normal_()

        output = model(**words, labels=labels)

        scores, totals = output.logits[0, 1:5].double(), {}
        for path in itertools.product(range(3), repeat=4):
            steps = sum(crf.transitions[pair] for pair in itertools.pairwise(path))
            totals[path] = crf.starts[path[0]] + steps + crf.ends[path[-1]] + scores[range(4), path].sum()
    nats = torch.stack(list(totals.values())).logsumexp(dim=0) - totals[1, 2, 0, 1]
    # of four labels
    assert output.loss.item() == pytest.approx(nats.item() / 4, abs=1e-6)


@each_task
def test_everything_is_saved(cls: type, fields: dict, tmp_path: Path) -> None:
    model = make(cls, **fields, mix_regularization=0.1, mix_layer_norm=True)
    batch = batch_of(examples(model))
    model.save_pretrained(tmp_path)

    loaded = cls.from_pretrained(tmp_path)

    with torch.no_grad():
        assert torch.equal(loaded(**batch).logits, model(**batch).logits)


@each_task
def test_trains_in_bfloat16_autocast(cls: type, fields: dict) -> None:
    model = make(cls, **fields, freeze_bilm=False, classifier_dropout=0.0).train()
    batch = batch_of(examples(model))
    expected = model(**batch).loss.item()

    with torch.autocast("cpu", torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()

    assert loss.item() == pytest.approx(expected, rel=0.05)
    assert all(part.isfinite().all() for part in gradients(model).values())


@each_task
def test_memory_does_not_grow_with_steps_of_changing_shapes(
    cls: type, fields: dict, request: pytest.FixtureRequest
) -> None:
    # only what is made from here on is looked at: the objects of a whole suite are many
    gc.freeze()
    request.addfinalizer(gc.unfreeze)
    model = make(cls, **fields).train()
    made = examples(model, 8)

    def live() -> int:
        gc.collect()
        return sum(issubclass(type(held), torch.Tensor) for held in gc.get_objects())

    counts = []
    for step in range(12):
        model(**batch_of(made[step % 5 : step % 5 + 1 + step % 3])).loss.backward()
        model.zero_grad()
        if step in (2, 11):
            counts.append(live())

    assert counts[1] <= counts[0]


@each_task
def test_initialising_leaves_all_weights_that_were_loaded(cls: type, fields: dict[str, object]) -> None:
    model = make(cls, **fields, num_task_words=5, task_word_embedding_dim=3)
    before = {name: part.clone() for name, part in model.state_dict().items()}
    for part in model.parameters():
        # as Transformers marks them
        part._is_hf_initialized = True

    for module in model.modules():
        model._init_weights(module)

    for name, part in model.state_dict().items():
        assert torch.equal(part, before[name]), name


def test_the_cells_of_a_new_head_remember_and_its_gates_are_orthogonal() -> None:
    torch.manual_seed(0)
    config = make(ElmoForTokenClassification, head="alternating-lstm").config

    layer = ElmoForTokenClassification(config).head.layers[1]

    assert layer.input_projections[0].bias.tolist() == [0.0] * 5 + [1.0] * 5 + [0.0] * 15
    for weight in (layer.input_projections[0].weight, layer.recurrent_weight[0].T, layer.highways[0].weight):
        for block in weight.detach().split(5):
            torch.testing.assert_close(block @ block.T, torch.eye(5))
