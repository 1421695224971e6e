"""The language model classes: both likelihoods, the streams of the original, and words filled in."""

import pickle
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import StrictDataclassClassValidationError
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining, pipeline

from elmo_hf import ElmoForMaskedLM, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from elmo_hf.model.softmax_elmo import log_uniform
from support.tiny_models import sentence, tiny_config, tiny_model


VOCABULARY = ["<S>", "</S>", "<UNK>", ".", "the", "bank", "raised", "rates", "left", "river", "its"]
WORDS = {"char_embedding_dim": 0, "char_filters": [], "num_highway_layers": 0, "word_embedding_dim": 8}
READS = {"characters": {}, "words": WORDS}

reads = pytest.mark.parametrize("fields", READS.values(), ids=READS)


def language_model(cls: type = ElmoForPreTraining, **fields: object) -> ElmoForPreTraining:
    return tiny_model(cls, vocab_size=30, **fields)


def batch_of(*lengths: int) -> dict[str, torch.Tensor]:
    """Sentences padded on the right."""
    rows = [sentence(length, tiny_config(vocab_size=30)) for length in lengths]
    most = max(lengths)
    return {
        name: torch.cat(
            [
                torch.nn.functional.pad(row[name], [0, 0] * (row[name].ndim - 2) + [0, most - row[name].shape[1]])
                for row in rows
            ]
        )
        for name in rows[0]
    }


def labels_of(batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)


@reads
def test_the_loss_is_minus_the_summed_log_probabilities(fields: dict) -> None:
    model, batch = language_model(**fields), sentence(6, tiny_config(vocab_size=30))
    ids = batch["input_ids"][0].tolist()
    scores = model(**batch)

    output = model(**batch, labels=batch["input_ids"])

    forward = [-scores.forward_logits[0, k].log_softmax(0)[ids[k + 1]].item() for k in range(5)]
    backward = [-scores.backward_logits[0, k].log_softmax(0)[ids[k - 1]].item() for k in range(1, 6)]
    assert output.forward_losses[0].tolist() == pytest.approx([*forward, 0], abs=1e-5)
    assert output.backward_losses[0].tolist() == pytest.approx([0, *backward], abs=1e-5)
    assert output.forward_loss.item() == pytest.approx(sum(forward) / 5, abs=1e-5)
    assert output.loss.item() == pytest.approx((sum(forward) + sum(backward)) / 10, abs=1e-5)


@reads
def test_a_sentence_costs_the_same_in_any_batch_and_with_padding_anywhere(fields: dict) -> None:
    model, batch = language_model(**fields), batch_of(5, 9, 1)
    output = model(**batch, labels=labels_of(batch))

    for row, length in enumerate((5, 9, 1)):
        alone = sentence(length, model.config)
        single = model(**alone, labels=alone["input_ids"])
        torch.testing.assert_close(output.forward_losses[row, :length], single.forward_losses[0], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(
            output.backward_losses[row, :length], single.backward_losses[0], rtol=1e-6, atol=1e-6
        )
    # left, and inside
    for places in ([4, 5, 6, 7, 8], [0, 2, 3, 6, 8]):
        alone = sentence(5, model.config)
        spread = {name: part.new_zeros(1, 9, *part.shape[2:]) for name, part in alone.items()}
        for name, part in alone.items():
            spread[name][:, places] = part
        moved = model(**spread, labels=labels_of(spread))
        torch.testing.assert_close(moved.forward_losses[0, places], output.forward_losses[0, :5], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(
            moved.backward_losses[0, places], output.backward_losses[0, :5], rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("cls", [ElmoForPreTraining, ElmoForMaskedLM])
@reads
def test_padding_without_a_mask_is_passed_over_too(fields: dict, cls: type) -> None:
    model, batch = language_model(cls, **fields), batch_of(5, 9)
    labels = labels_of(batch)
    expected = model(**batch, labels=labels)
    reads = "input_ids" if fields else "char_ids"

    output = model(**{reads: batch[reads]}, labels=labels)

    torch.testing.assert_close(output.loss, expected.loss)
    if cls is ElmoForPreTraining:
        torch.testing.assert_close(output.backward_losses, expected.backward_losses)
        assert not output.backward_losses[labels == -100].any()


@reads
def test_streams_equal_sentences(fields: dict) -> None:
    model, batch = language_model(**fields), sentence(7, tiny_config(vocab_size=30))
    whole = model(**batch, labels=batch["input_ids"])
    ids, chars = batch["input_ids"], batch["char_ids"]

    streams = model(
        input_ids=torch.stack([ids[:, :-1], ids[:, 1:]], dim=1),
        char_ids=torch.stack([chars[:, :-1], chars[:, 1:]], dim=1),
        labels=torch.stack([ids[:, 1:], ids[:, :-1]], dim=1),
    )

    torch.testing.assert_close(streams.loss, whole.loss)
    torch.testing.assert_close(streams.forward_losses, whole.forward_losses[:, :-1])
    torch.testing.assert_close(streams.backward_losses, whole.backward_losses[:, 1:])


def test_streams_go_on_where_they_stopped() -> None:
    model, batch = language_model(), sentence(9, tiny_config(vocab_size=30))
    # what each direction reads, in the order of reading
    ids = torch.stack([batch["char_ids"], batch["char_ids"].flip(1)], dim=1)
    labels = torch.stack([batch["input_ids"], batch["input_ids"].flip(1)], dim=1)

    def window(start: int, end: int, state: tuple | None) -> object:
        parts = [part[:, :, start:end].clone() for part in (ids, labels)]
        for part in parts:
            part[:, 1] = part[:, 1].flip(1)
        return model(char_ids=parts[0], labels=parts[1], state=state, use_cache=True)

    whole, first = window(0, 9, None), window(0, 4, None)
    second = window(4, 9, first.state)

    torch.testing.assert_close(torch.cat([first.forward_losses, second.forward_losses], 1), whole.forward_losses)
    backward = torch.cat([first.backward_losses.flip(1), second.backward_losses.flip(1)], dim=1)
    torch.testing.assert_close(backward, whole.backward_losses.flip(1))


def test_micro_batches_add_up_to_the_batch() -> None:
    model = language_model()
    parts, whole = (batch_of(5, 5), batch_of(9, 9)), batch_of(5, 5, 9, 9)
    batch_gradient = torch.autograd.grad(
        model(**whole, labels=labels_of(whole), num_items_in_batch=28).loss, model.softmax.weight
    )[0]

    losses = [model(**part, labels=labels_of(part), num_items_in_batch=28).loss for part in parts]

    torch.testing.assert_close(torch.autograd.grad(sum(losses), model.softmax.weight)[0], batch_gradient)


@pytest.mark.parametrize(("wrong", "message"), [(0, "has 0"), (31, "has 31"), (-1, "has -1")])
def test_labels_outside_the_vocabulary_are_named(wrong: int, message: str) -> None:
    model, batch = language_model(), sentence(5, tiny_config(vocab_size=30))
    labels = batch["input_ids"].clone()
    labels[0, 2] = wrong

    with pytest.raises(ValueError, match=f"`labels` {message} but the vocabulary of this model has the words 1 to 29"):
        model(**batch, labels=labels)


def test_labels_of_another_shape_are_named() -> None:
    model, batch = language_model(), sentence(5, tiny_config(vocab_size=30))

    with pytest.raises(ValueError, match=r"`labels` is \(1, 4\) where the batch is \(1, 5\)"):
        model(**batch, labels=batch["input_ids"][:, 1:])


def test_the_softmax_can_be_the_table_of_words(tmp_path: Path) -> None:
    model = language_model(**WORDS, tie_word_embeddings=True)
    assert model.softmax.weight is model.elmo.token_encoder.word_embeddings.weight

    model.save_pretrained(tmp_path)
    loaded = AutoModelForPreTraining.from_pretrained(tmp_path)

    assert loaded.softmax.weight is loaded.elmo.token_encoder.word_embeddings.weight
    batch = sentence(5, model.config)
    torch.testing.assert_close(loaded(**batch).forward_logits, model(**batch).forward_logits)


def test_only_words_of_its_own_width_can_be_the_softmax() -> None:
    with pytest.raises(
        StrictDataclassClassValidationError,
        match="`tie_word_embeddings` is True, so that `word_embedding_dim`, 0, must be",
    ):
        language_model(tie_word_embeddings=True)


def test_a_language_model_loads_as_every_class(tmp_path: Path) -> None:
    model, batch = language_model(), sentence(5, tiny_config(vocab_size=30))
    model.save_pretrained(tmp_path)

    assert type(AutoModelForPreTraining.from_pretrained(tmp_path)) is ElmoForPreTraining
    assert type(AutoModelForMaskedLM.from_pretrained(tmp_path)) is ElmoForMaskedLM
    encoder = AutoModel.from_pretrained(tmp_path)
    assert type(encoder) is ElmoModel
    assert torch.equal(encoder(**batch).last_hidden_state, model.elmo(**batch).last_hidden_state)


@pytest.mark.parametrize("cls", [ElmoForPreTraining, ElmoForMaskedLM])
@reads
def test_the_softmax_is_resized_with_the_vocabulary(fields: dict, cls: type) -> None:
    model, batch = language_model(cls, **fields), sentence(5, tiny_config(vocab_size=30))
    before = model(**batch).forward_logits

    model.resize_token_embeddings(33, mean_resizing=False)

    assert model.config.vocab_size == model.softmax.out_features == 33
    assert model(**batch).forward_logits.shape[2] == 33
    if cls is ElmoForPreTraining:
        torch.testing.assert_close(model(**batch).forward_logits[..., :30], before)
        assert model(**batch, labels=batch["input_ids"]).loss > 0


def test_new_rows_of_the_softmax_can_be_like_the_mean_of_the_others() -> None:
    model = language_model()
    with torch.no_grad():
        model.softmax.weight.fill_(3.0)

    model.resize_token_embeddings(40)

    torch.testing.assert_close(model.softmax.weight[30:], torch.full((10, 8), 3.0), rtol=0, atol=0.01)


def test_a_tied_softmax_is_resized_with_its_table(tmp_path: Path) -> None:
    model = language_model(**WORDS, tie_word_embeddings=True)

    model.resize_token_embeddings(33)

    assert model.softmax.weight is model.elmo.token_encoder.word_embeddings.weight
    assert model.softmax.weight.shape == (33, 8)
    assert model.softmax.bias.shape == (33,)
    model.save_pretrained(tmp_path)
    batch = sentence(5, model.config)
    loaded = ElmoForPreTraining.from_pretrained(tmp_path)
    assert torch.equal(loaded(**batch).forward_logits, model(**batch).forward_logits)


def test_some_layers_can_be_asked_for() -> None:
    model, batch = language_model(), sentence(5, tiny_config(vocab_size=30))

    layers = model(**batch, output_hidden_states=[0, -1]).hidden_states

    assert [layer is None for layer in layers] == [False, True, False]


def test_a_checkpoint_without_softmax_says_so(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)

    _, loading = ElmoForPreTraining.from_pretrained(tmp_path, output_loading_info=True)

    assert set(loading["missing_keys"]) == {"softmax.weight", "softmax.bias"}


@reads
def test_a_masked_word_is_scored_by_its_neighbours_states(fields: dict) -> None:
    model, batch = language_model(ElmoForMaskedLM, **fields), sentence(6, tiny_config(vocab_size=30))
    causal = ElmoForPreTraining(model.config).eval()
    causal.load_state_dict(model.state_dict())
    known = causal(**batch)

    output = model(**batch)

    prior = torch.cat([torch.zeros(1), log_uniform(torch.arange(29), 29).float()])
    for k in range(6):
        left = known.forward_logits[0, k - 1].log_softmax(0) if k > 0 else torch.zeros(30)
        right = known.backward_logits[0, k + 1].log_softmax(0) if k < 5 else torch.zeros(30)
        expected = left + right - prior * (0 < k < 5)
        torch.testing.assert_close(output.logits[0, k, 1:], expected[1:])
        torch.testing.assert_close(output.forward_logits[0, k, 1:], left[1:])
        torch.testing.assert_close(output.backward_logits[0, k, 1:], right[1:])
    assert (output.logits[..., 0] == torch.finfo().min).all()


def test_neither_direction_has_read_the_word() -> None:
    model, batch = language_model(ElmoForMaskedLM), sentence(6, tiny_config(vocab_size=30))
    other = {**batch, "char_ids": batch["char_ids"].clone()}
    other["char_ids"][0, 2] = other["char_ids"][0, 4]

    assert torch.equal(model(**batch).logits[0, 2], model(**other).logits[0, 2])
    assert not torch.equal(model(**batch).logits[0, 3], model(**other).logits[0, 3])


def test_the_masked_loss_is_the_mean_cross_entropy_and_has_gradients() -> None:
    model, batch = language_model(ElmoForMaskedLM), batch_of(5, 7)
    labels = torch.full_like(batch["input_ids"], -100)
    labels[0, 2], labels[1, 4] = 3, 8

    output = model(**batch, labels=labels)
    output.loss.backward()

    logits = output.logits
    expected = -(logits[0, 2].log_softmax(0)[3] + logits[1, 4].log_softmax(0)[8]) / 2
    torch.testing.assert_close(output.loss, expected)
    assert all(part.grad.isfinite().all() for name, part in model.named_parameters() if "scalar_mix" not in name)


@reads
@pytest.mark.parametrize("vocabulary", [VOCABULARY, [*VOCABULARY, "<MASK>"]], ids=["mask added", "mask in vocabulary"])
def test_fill_mask_takes_a_mask(fields: dict, vocabulary: list[str], tmp_path: Path) -> None:
    tokenizer = ElmoTokenizer(vocabulary, 20, mask_token="<MASK>")
    assert tokenizer.mask_token_id == 12
    model = tiny_model(ElmoForMaskedLM, vocab_size=tokenizer.vocab_size, **fields)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    fill = pipeline("fill-mask", str(tmp_path))
    guesses = fill("the <MASK> raised rates .", top_k=5)

    batch = tokenizer(["the <MASK> raised rates ."], return_tensors="pt")
    assert batch.tokens() == ["<S>", "the", "<MASK>", "raised", "rates", ".", "</S>"]
    best = model(**batch).logits[0, 2].softmax(0).topk(5)
    assert [guess["token"] for guess in guesses] == best.indices.tolist()
    assert [guess["score"] for guess in guesses] == pytest.approx(best.values.tolist(), rel=1e-4)
    assert {guess["token_str"] for guess in fill("the <MASK> raised rates .", targets=["bank", "river"])} == {
        "bank",
        "river",
    }


@reads
def test_fill_mask_takes_many_sentences_and_many_masks(fields: dict) -> None:
    tokenizer = ElmoTokenizer(VOCABULARY, 20, mask_token="<MASK>")
    fill = pipeline(
        "fill-mask",
        model=tiny_model(ElmoForMaskedLM, vocab_size=tokenizer.vocab_size, **fields),
        tokenizer=tokenizer,
    )
    texts = ["<MASK>", "the <MASK>.", "its <MASK> left the <MASK> , rates raised ."]

    together, alone = fill(texts, batch_size=3), [fill(text) for text in texts]

    # where there are several masks, a list of guesses for each
    assert [len(guesses) for guesses in alone] == [5, 5, 2]
    for guesses, expected in zip([*together[:2], *together[2]], [*alone[:2], *alone[2]], strict=True):
        assert [guess["token"] for guess in guesses] == [guess["token"] for guess in expected]
        scores = [guess["score"] for guess in expected]
        assert [guess["score"] for guess in guesses] == pytest.approx(scores, rel=1e-4)


@pytest.mark.parametrize("cls", [ElmoModel, ElmoForPreTraining, ElmoForMaskedLM])
def test_a_model_of_words_reads_a_mask_as_an_unknown_word(cls: type) -> None:
    model = tiny_model(cls, **WORDS, vocab_size=12)
    mask, unknown = torch.tensor([[1, 5, 12, 7, 2]]), torch.tensor([[1, 5, 3, 7, 2]])

    for found, expected in zip(model(input_ids=mask).to_tuple(), model(input_ids=unknown).to_tuple(), strict=True):
        assert torch.equal(found, expected)
    with pytest.raises(ValueError, match="`input_ids` goes from 1 to 13 but this model has ids 0 to 11"):
        model(input_ids=mask + (mask == 12))
    model.config.unk_token_id = None
    with pytest.raises(ValueError, match="`input_ids` goes from 1 to 12 but this model has ids 0 to 11"):
        model(input_ids=mask)


@pytest.mark.parametrize("cls", [ElmoForPreTraining, ElmoForMaskedLM])
def test_a_mask_behind_the_vocabulary_is_predicted_as_unknown(cls: type) -> None:
    model, batch = language_model(cls, unk_token_id=3), batch_of(5, 9)
    labels = labels_of(batch)
    labels[0, 2] = 3
    expected = model(**batch, labels=labels).loss

    labels[0, 2] = model.config.vocab_size

    assert torch.equal(model(**batch, labels=labels).loss, expected)


@pytest.mark.parametrize("cls", [ElmoForPreTraining, ElmoForMaskedLM])
@pytest.mark.parametrize("label", [0, 31, -1])
def test_a_label_that_is_no_word_is_named(cls: type, label: int) -> None:
    model, batch = language_model(cls), batch_of(5, 9)
    labels = labels_of(batch)
    labels[0, 2] = label

    with pytest.raises(
        ValueError, match=f"`labels` has {label} but the vocabulary of this model has the words 1 to 29"
    ):
        model(**batch, labels=labels)


@pytest.mark.parametrize("cls", [ElmoModel, ElmoForPreTraining, ElmoForMaskedLM, ElmoForTokenClassification])
def test_a_model_is_pickled_after_it_was_used(cls: type) -> None:
    model, batch = language_model(cls), batch_of(5, 9)
    expected = model(**batch, output_hidden_states=True)

    actual = pickle.loads(pickle.dumps(model))(**batch, output_hidden_states=True)  # noqa: S301 - our own

    torch.testing.assert_close(actual.to_tuple(), expected.to_tuple(), rtol=0, atol=0)
