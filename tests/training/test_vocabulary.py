"""`training.vocabulary`: a model with other words is the model it was, where it can be."""

from pathlib import Path

import pytest
import torch

from elmo_hf import ElmoError, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from elmo_hf.training.perplexity import load_language_model
from elmo_hf.training.vocabulary import change_vocabulary
from support.tiny_models import tiny_model


OLD = ["<S>", "</S>", "<UNK>", "the", "bank", "of", "river"]
# "of" has gone, two are new, and the others are elsewhere
NEW = ["<S>", "river", "protein", "</S>", "<UNK>", "bank", "cell", "the"]

KINDS = {
    "characters": {},
    "words": {"char_embedding_dim": 0, "word_embedding_dim": 6},
    "words, tied": {"char_embedding_dim": 0, "word_embedding_dim": 8, "tie_word_embeddings": True},
}


@pytest.fixture(params=KINDS)
def language_model(request: pytest.FixtureRequest) -> tuple[ElmoForPreTraining, ElmoTokenizer]:
    tokenizer = ElmoTokenizer(OLD, max_characters_per_token=20, pre_tokenizer="whitespace", padding_side="left")
    return tiny_model(ElmoForPreTraining, vocab_size=len(tokenizer), **KINDS[request.param]), tokenizer


def log_probabilities(model: ElmoForPreTraining, tokenizer: ElmoTokenizer, words: list[str]) -> torch.Tensor:
    """Compute the forward predictions `[T, V]` of a sentence."""
    batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        return model(**batch).forward_logits[0].double().log_softmax(dim=1)


def test_words_that_stay_keep_their_rows(language_model: tuple[ElmoForPreTraining, ElmoTokenizer]) -> None:
    model, tokenizer = language_model

    changed, other = change_vocabulary(model, tokenizer, NEW)

    kept = ["<S>", "</S>", "the", "bank", "river"]
    before, after = tokenizer.convert_tokens_to_ids(kept), other.convert_tokens_to_ids(kept)
    torch.testing.assert_close(changed.softmax.weight[after], model.softmax.weight[before], rtol=0, atol=0)
    torch.testing.assert_close(changed.softmax.bias[after], model.softmax.bias[before], rtol=0, atol=0)
    # that of padding
    torch.testing.assert_close(changed.softmax.weight[0], model.softmax.weight[0], rtol=0, atol=0)


def test_more_words_share_what_the_unknown_word_had(language_model: tuple[ElmoForPreTraining, ElmoTokenizer]) -> None:
    model, tokenizer = language_model
    sentence = ["the", "protein", "bank", "cell", "what"]

    changed, other = change_vocabulary(model, tokenizer, ["protein", "cell", *OLD])

    before = log_probabilities(model, tokenizer, sentence).exp()
    after = log_probabilities(changed, other, sentence).exp()
    known = ["<S>", "</S>", "the", "bank", "of", "river"]
    torch.testing.assert_close(
        after[:, other.convert_tokens_to_ids(known)], before[:, tokenizer.convert_tokens_to_ids(known)]
    )
    for word in ("<UNK>", "protein", "cell"):
        share = after[:, other.convert_tokens_to_ids(word)]
        torch.testing.assert_close(share, before[:, tokenizer.unk_token_id] / 3)


def test_fewer_words_share_all(language_model: tuple[ElmoForPreTraining, ElmoTokenizer]) -> None:
    model, tokenizer = language_model

    changed, other = change_vocabulary(model, tokenizer, ["<S>", "</S>", "<UNK>", "bank"])

    before = log_probabilities(model, tokenizer, ["bank"])
    after = log_probabilities(changed, other, ["bank"])
    kept = tokenizer.convert_tokens_to_ids(["<S>", "</S>", "<UNK>", "bank"])
    torch.testing.assert_close(after[:, 1:], before[:, kept].log_softmax(dim=1))


def test_the_given_model_stays_as_it_is(language_model: tuple[ElmoForPreTraining, ElmoTokenizer]) -> None:
    model, tokenizer = language_model
    before = {name: weight.clone() for name, weight in model.state_dict().items()}

    changed, _ = change_vocabulary(model, tokenizer, NEW)
    for weight in changed.parameters():
        weight.data.fill_(7)

    assert model.config.vocab_size == len(OLD) + 1
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)


def test_the_changed_model_is_saved_and_loaded(
    language_model: tuple[ElmoForPreTraining, ElmoTokenizer], tmp_path: Path
) -> None:
    changed, other = change_vocabulary(*language_model, NEW)
    changed.save_pretrained(tmp_path)
    other.save_pretrained(tmp_path)

    model, tokenizer = load_language_model(tmp_path)

    assert (model.config.vocab_size, model.config.bos_token_id, model.config.eos_token_id) == (9, 1, 4)
    assert (tokenizer.pre_tokenizer, tokenizer.padding_side) == ("whitespace", "left")
    assert tokenizer.max_characters_per_token == 20
    torch.testing.assert_close(
        log_probabilities(model, tokenizer, ["the", "cell"]), log_probabilities(changed, other, ["the", "cell"])
    )


def test_special_words_are_appended_and_a_mask_stays_behind_them() -> None:
    tokenizer = ElmoTokenizer(OLD, max_characters_per_token=20, mask_token="<MASK>")
    model = tiny_model(ElmoForPreTraining, vocab_size=tokenizer.vocab_size)

    changed, other = change_vocabulary(model, tokenizer, ["bank"])

    assert other.convert_tokens_to_ids(["bank", "<S>", "</S>", "<UNK>", "<MASK>"]) == [1, 2, 3, 4, 5]
    assert changed.softmax.weight.shape[0] == changed.config.vocab_size == 5


def test_a_model_that_only_reads_characters_changes_in_its_configuration_alone() -> None:
    tokenizer = ElmoTokenizer(OLD, max_characters_per_token=20)
    model = tiny_model(ElmoModel, vocab_size=len(tokenizer))

    changed, other = change_vocabulary(model, tokenizer, NEW)

    assert changed.config.vocab_size == len(other) == 9
    torch.testing.assert_close(dict(changed.state_dict()), dict(model.state_dict()), rtol=0, atol=0)


def test_the_words_of_a_task_stay() -> None:
    tokenizer = ElmoTokenizer(
        OLD, max_characters_per_token=20, pre_tokenizer="whitespace", task_vocab=["river", "cell"], task_lookup="lower"
    )
    own = {"num_task_words": 4, "task_word_embedding_dim": 3, "char_embedding_dim": 0, "word_embedding_dim": 6}
    model = tiny_model(ElmoForTokenClassification, vocab_size=len(tokenizer), num_labels=2, **own)

    changed, other = change_vocabulary(model, tokenizer, NEW)

    before, after = (each("River of cell", return_tensors="pt") for each in (tokenizer, other))
    assert after["task_word_ids"].tolist() == before["task_word_ids"].tolist() == [[1, 2, 1, 3, 1]]
    assert after["input_ids"].tolist() != before["input_ids"].tolist()
    table = changed.task_embeddings.word_embeddings.weight
    assert torch.equal(table, model.task_embeddings.word_embeddings.weight)
    assert changed.elmo.token_encoder.word_embeddings.num_embeddings == len(other)


def test_precision_stays() -> None:
    tokenizer = ElmoTokenizer(OLD, max_characters_per_token=20)
    model = tiny_model(ElmoForPreTraining, vocab_size=len(tokenizer)).to(torch.bfloat16)

    changed, _ = change_vocabulary(model, tokenizer, NEW)

    assert {weight.dtype for weight in changed.parameters()} == {torch.bfloat16}


def test_refuses_the_tokenizer_of_another_model() -> None:
    model = tiny_model(ElmoForPreTraining, vocab_size=20)

    with pytest.raises(ElmoError, match="The tokenizer has 8 words and the model 20"):
        change_vocabulary(model, ElmoTokenizer(OLD), NEW)
