"""`prediction.running`: the order of inputs, batches of any size, memory, records, and models that are not ready."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from elmo_hf import ElmoError, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel
from elmo_hf.prediction import predict
from support.task_models import NAMES
from support.tiny_models import tiny_model


MakeModel = Callable[..., Any]


def without_scores(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in result.items() if name != "scores"} for result in results]


@pytest.mark.parametrize("head", ["linear", "bilstm-crf"])
def test_tags_do_not_depend_on_the_batch(head: str, make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = make_model(ElmoForTokenClassification, id2label={0: "A", 1: "B", 2: "C"}, head=head)
    sentences = [[f"w{number % 7}", *"abcdefgh"[: number * 5 % 9]] for number in range(40)]
    sentences[3], sentences[9] = [], ["long"] * 300
    expected = [result for sentence in sentences for result in predict(model, tokenizer, [sentence])]

    for batch_size in (1, 3, 32):
        results = list(predict(model, tokenizer, sentences, batch_size=batch_size))
        assert without_scores(results) == without_scores(expected)
        for result, alone in zip(results, expected, strict=True):
            assert result.get("scores", []) == pytest.approx(alone.get("scores", []), abs=1.1e-5)


def test_scores_of_sentences_and_pairs_do_not_depend_on_the_batch(
    make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model(ElmoForSequenceClassification, num_labels=2)
    pairs = [{"text": "a b" * (n % 4), "text_pair": "c d " * (n * 3 % 5)} for n in range(30)]
    expected = [result["scores"] for pair in pairs for result in predict(model, tokenizer, [pair])]

    for batch_size in (3, 32):
        results = predict(model, tokenizer, pairs, batch_size=batch_size)
        for result, alone in zip(results, expected, strict=True):
            assert result["scores"] == (None if alone is None else pytest.approx(alone, abs=1.1e-5))


@pytest.mark.parametrize("head", ["linear", "bilstm-crf"])
def test_a_boundary_token_in_a_text_is_an_unknown_word(
    head: str, make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model(ElmoForTokenClassification, id2label=dict(enumerate(NAMES)), head=head)
    given, plain = predict(model, tokenizer, ["a </S> b <S> c", "a <UNK> b <UNK> c"])

    assert given["words"] == ["a", "</S>", "b", "<S>", "c"]
    assert (given["tags"], given["scores"]) == (plain["tags"], plain["scores"])
    # a classifier would take it for a pair
    classifier = make_model(ElmoForSequenceClassification, num_labels=2)
    given, plain = predict(classifier, tokenizer, ["a </S> <S> c", "a <UNK> <UNK> c"])
    assert given["scores"] == plain["scores"]


def test_inputs_are_read_as_answers_are_taken(make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    read: list[int] = []

    def endless() -> Iterator[list[str]]:
        while True:
            read.append(1)
            yield ["a"]

    model = make_model(ElmoForTokenClassification, num_labels=2)
    progress: list[int] = []
    results = predict(model, tokenizer, endless(), batch_size=2, progress=progress.append)
    assert len(list(islice(results, 40))) == 40

    # two windows of 16 batches
    assert len(read) <= 64
    assert progress == [32]


def test_records_keep_their_fields_and_their_own_answers(
    make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    classifier = make_model(ElmoForSequenceClassification, num_labels=2)
    (result,) = predict(classifier, tokenizer, [{"id": 7, "text": "a", "label": "x", "more": [{"b": None}]}])
    assert list(result) == ["id", "text", "given_label", "more", "label", "scores"]
    assert (result["given_label"], result["more"]) == ("x", [{"b": None}])

    own = {"text": "a", "label": "x", "given_label": "y", "given_given_label": "z", "given_text": 1}
    (result,) = predict(classifier, tokenizer, [own])
    assert [result[f"{'given_' * number}label"] for number in (1, 2, 3)] == ["x", "y", "z"]
    (again,) = predict(classifier, tokenizer, [result])
    assert [again[f"{'given_' * number}label"] for number in range(5)] == [result["label"]] * 2 + ["x", "y", "z"]
    assert (again["given_scores"], again["given_text"]) == (result["scores"], 1)

    tagger = make_model(ElmoForTokenClassification, id2label=dict(enumerate(NAMES)))
    (result,) = predict(
        tagger, tokenizer, [{"tokens": ["a", "b"], "tags": ["O", "O"], "text": 3}], text_field="tokens"
    )
    assert list(result) == ["tokens", "given_tags", "given_text", "text", "words", "tags", "scores", "entities"]
    assert (result["text"], result["words"], result["given_text"]) == ("a b", ["a", "b"], 3)


def test_a_model_without_a_head_or_in_training_is_refused(
    make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    with pytest.raises(ElmoError, match="ElmoModel has no head for a task: load one of ElmoForTokenClassification"):
        predict(tiny_model(ElmoModel), tokenizer, ["a"])
    model = make_model(ElmoForTokenClassification, num_labels=2)
    with pytest.raises(ValueError, match="batch_size is 0"):
        predict(model, tokenizer, ["a"], batch_size=0)
    with pytest.raises(ValueError, match="in training mode"):
        predict(model.train(), tokenizer, ["a"])
