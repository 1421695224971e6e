"""`ElmoForQuestionAnswering`: scores of answers, their loss, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForQuestionAnswering

from elmo_hf import ElmoForQuestionAnswering
from support.tiny_models import Batch, row, stack, tiny_model


LOWEST = torch.finfo(torch.float32).min
HEADS = [
    pytest.param({}, id="linear"),
    pytest.param({"head": "bidaf"}, id="bidaf"),
    pytest.param({"head": "bidaf", "mix_at": "both"}, id="bidaf-both"),
]
each_head = pytest.mark.parametrize("fields", HEADS)
# words of question and context, and the words of the context with which the answer begins and ends, or none
LENGTHS = [(2, 5), (4, 3), (1, 6), (3, 1)]
ANSWERS = [(1, 3), None, (5, 5), (0, 0)]


def make(**fields: object) -> Any:
    return tiny_model(ElmoForQuestionAnswering, **{"vocab_size": 30, "head_hidden_size": 5, **fields})


def rows_of(model: Any) -> list[Batch]:
    return [row(*lengths, model=model, seed=10 * number) for number, lengths in enumerate(LENGTHS)]


def answers() -> Batch:
    """The positions of the answers: behind `<S> question </S> <S>`, or at the beginning of the row."""
    pairs = [
        (0, 0) if answer is None else (lengths[0] + 3 + answer[0], lengths[0] + 3 + answer[1])
        for lengths, answer in zip(LENGTHS, ANSWERS, strict=True)
    ]
    starts, ends = torch.tensor(pairs).unbind(dim=1)
    return {"start_positions": starts, "end_positions": ends}


def logits_of(output: Any) -> torch.Tensor:
    """Both scores, `[B, T, 2]`."""
    return torch.stack([output.start_logits, output.end_logits], dim=2)


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: part.grad.clone() for name, part in model.named_parameters() if part.grad is not None}


@each_head
def test_a_row_alone_equals_its_batch_with_any_padding(fields: dict) -> None:
    model = make(**fields)
    rows = rows_of(model)

    with torch.no_grad():
        right, left = (logits_of(model(**stack(rows, left=side))) for side in (False, True))
        alone = [logits_of(model(**words))[0] for words in rows]

    for number, logits in enumerate(alone):
        length = len(logits)
        torch.testing.assert_close(right[number, :length], logits, rtol=0, atol=1e-5)
        torch.testing.assert_close(left[number, -length:], logits, rtol=0, atol=1e-5)
        assert (right[number, length:] == LOWEST).all()
        assert (left[number, :-length] == LOWEST).all()


@pytest.mark.parametrize(
    ("fields", "scored"), [({}, range(11)), ({"head": "bidaf"}, [0, 5, 6, 7, 8, 9])], ids=["linear", "bidaf"]
)
def test_the_words_that_have_scores(fields: dict, scored: list[int]) -> None:
    model = make(**fields)

    logits = logits_of(model(**row(2, 5, model=model)))[0]

    expected = torch.zeros(11, 2, dtype=torch.bool)
    expected[list(scored)] = True
    assert torch.equal(logits != LOWEST, expected)


@each_head
def test_the_answer_depends_on_the_question(fields: dict) -> None:
    # the vectors of a random model are small
    model = make(**fields).double()
    first, second = row(2, 5, model=model), row(2, 5, model=model)
    second["char_ids"][0, 1] = first["char_ids"][0, 2]

    first, second = (logits_of(model(**words))[0, 5:10].softmax(dim=0) for words in (first, second))

    assert (first - second).abs().max() > 1e-8


def test_question_and_context_are_read_apart() -> None:
    model = make(output_hidden_states=True)
    pair = row(3, 4, model=model)

    layers = torch.stack(model(**pair).hidden_states)

    for at in (slice(0, 5), slice(5, 11)):
        part = {name: value[:, at] for name, value in pair.items()}
        expected = torch.stack(model.elmo(**part, output_hidden_states=True).hidden_states)
        torch.testing.assert_close(layers[:, :, at], expected, rtol=0, atol=1e-6)


@each_head
def test_the_loss_is_the_mean_surprise_at_first_and_last_words(fields: dict) -> None:
    model, given = make(**fields), answers()
    batch = stack(rows_of(model))

    output = model(**batch, **given)

    nats = []
    for scores, positions in zip((output.start_logits, output.end_logits), given.values(), strict=True):
        for own, position in zip(scores.double(), positions, strict=True):
            candidates = own[own != LOWEST]
            nats.append(candidates.logsumexp(dim=0) - own[position])
    torch.testing.assert_close(output.loss.double(), torch.stack(nats).mean(), rtol=0, atol=1e-6)
    columns = {name: part[:, None] for name, part in given.items()}
    assert model(**batch, **columns).loss == output.loss


@each_head
@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_accumulated_batches_equal_the_whole(fields: dict, penalty: float) -> None:
    model = make(**fields, mix_regularization=penalty, freeze_bilm=False, classifier_dropout=0.0).train()
    rows, given = rows_of(model), answers()
    output = model(**stack(rows), **given)
    output.loss.backward()
    expected = gradients(model)
    model.zero_grad()

    losses = [
        model(**stack(rows[part]), **{name: value[part] for name, value in given.items()}, num_items_in_batch=4).loss
        for part in (slice(0, 1), slice(1, 4))
    ]
    sum(losses).backward()

    torch.testing.assert_close(sum(losses), output.loss, rtol=0, atol=1e-6)
    torch.testing.assert_close(gradients(model), expected, rtol=0, atol=1e-5)
    assert expected.keys() == {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize("ignored", [-100, 10, 11, 500], ids=["none", "padding", "next", "far"])
def test_positions_without_a_score_are_ignored(ignored: int) -> None:
    model, given = make(), answers()
    rows = rows_of(model)
    # the second row has 11 words, one more than the fourth
    rows, given = rows[1:], {name: part[1:] for name, part in given.items()}
    expected = model(**stack(rows[:2]), **{name: part[:2] for name, part in given.items()}).loss
    assert stack(rows)["input_ids"].shape[1] == 11

    for part in given.values():
        part[2] = ignored

    length = rows[2]["input_ids"].shape[1]
    assert length <= 10
    torch.testing.assert_close(model(**stack(rows), **given).loss, expected)


def test_an_answer_in_the_question_is_ignored_by_the_head_that_does_not_score_it() -> None:
    model, positions = make(head="bidaf").train(), torch.tensor([2])

    loss = model(**row(2, 5, model=model), start_positions=positions, end_positions=positions).loss
    loss.backward()

    assert loss == 0
    assert not any(part.any() for part in gradients(model).values())


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ({"start_positions": [1]}, "`end_positions` is missing: pass where an answer begins and where it ends"),
        ({"end_positions": [1]}, "`start_positions` is missing"),
        (
            {"start_positions": [1, 2], "end_positions": [1]},
            r"`start_positions` is \(2,\) where the batch takes \(1,\)",
        ),
        ({"start_positions": [1], "end_positions": [-1]}, "`end_positions` has -1: count words from 0, where the row"),
        ({"start_positions": [1.0], "end_positions": [1]}, r"`start_positions` is of torch.float32: pass integers"),
    ],
)
def test_positions_that_do_not_fit_are_named(positions: dict[str, list], message: str) -> None:
    model = make()

    with pytest.raises(ValueError, match=message):
        model(**row(2, 3, model=model), **{name: torch.tensor(part) for name, part in positions.items()})


@pytest.mark.parametrize(("lengths", "count"), [((4,), "1 sentence"), ((2, 3, 1), "3 sentences")])
def test_rows_that_are_no_pairs_are_refused(lengths: tuple[int, ...], count: str) -> None:
    model = make()

    with pytest.raises(
        ValueError,
        match=rf"The head 'linear' reads pairs, but a row has {count}: pass rows .* by `tokenizer\(first, second\)`",
    ):
        model(**row(*lengths, model=model))


def test_a_batch_of_no_words_is_no_pair() -> None:
    model = make()

    with pytest.raises(ValueError, match="reads pairs, but a row has 0 sentences"):
        model(**{name: part[:, :0] for name, part in row(2, 3, model=model).items()})


@each_head
def test_layers_computed_before_give_the_same_whatever_stands_at_padding(fields: dict) -> None:
    model = make(**fields)
    batch = {**stack(rows_of(model)), **answers()}
    with torch.no_grad():
        expected = model(**batch, output_hidden_states=True)
        layers = torch.stack(expected.hidden_states, dim=2)
        layers[batch["attention_mask"] == 0] = float("nan")
        del batch["char_ids"]

        output = model(**batch, bilm_layers=layers)

    torch.testing.assert_close(output.loss, expected.loss)
    torch.testing.assert_close(logits_of(output), logits_of(expected), rtol=0, atol=1e-6)


@each_head
@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (0, 0)])
def test_an_empty_question_or_context_works(fields: dict, lengths: tuple[int, int]) -> None:
    model = make(**fields).train()

    output = model(**row(*lengths, model=model), start_positions=torch.tensor([0]), end_positions=torch.tensor([0]))
    output.loss.backward()

    assert logits_of(output).isfinite().all()
    assert all(part.isfinite().all() for part in gradients(model).values())


@pytest.mark.parametrize("mix_at", ["input", "output", "both"])
def test_every_trained_weight_is_used_wherever_the_mix_goes_in(mix_at: str) -> None:
    model = make(head="bidaf", mix_at=mix_at).train()

    model(**stack(rows_of(model)), **answers()).loss.backward()

    unused = {name for name, part in model.named_parameters() if part.requires_grad and part.grad is None}
    assert not unused
    assert set(model.layer_weights()) == ({"input", "output"} if mix_at == "both" else {mix_at})


def test_a_mix_at_the_output_of_no_encoder_is_refused() -> None:
    with pytest.raises(ValueError, match="the head 'linear' has no encoder"):
        make(mix_at="both", head="linear")


@each_head
def test_a_model_of_answers_is_saved_and_loaded(fields: dict, tmp_path: Path) -> None:
    model = make(**fields)
    batch = stack(rows_of(model))
    model.save_pretrained(tmp_path)

    again = AutoModelForQuestionAnswering.from_pretrained(tmp_path).eval()

    assert type(again) is ElmoForQuestionAnswering
    assert torch.equal(logits_of(again(**batch)), logits_of(model(**batch)))


@each_head
def test_trains_in_bfloat16_autocast(fields: dict) -> None:
    model = make(**fields, freeze_bilm=False, classifier_dropout=0.0).train()
    batch = {**stack(rows_of(model)), **answers()}
    expected = model(**batch).loss.item()

    with torch.autocast("cpu", torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()

    assert loss.item() == pytest.approx(expected, rel=0.05)
    assert all(part.isfinite().all() for part in gradients(model).values())
