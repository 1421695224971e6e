"""`prediction.tasks`: answers against the model's own logits, for every head."""

import itertools
import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerBase

from elmo_hf import (
    ElmoError,
    ElmoForMultipleChoice,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
)
from elmo_hf.data.tagged import find_spans
from elmo_hf.model import crf_elmo
from elmo_hf.prediction import answer, predict
from elmo_hf.prediction.tasks import make_task
from support.task_models import NAMES


MakeModel = Callable[..., Any]

TEXTS = ["Ann met Bob, Lee.", "It rained", "", "a"]


@torch.inference_mode()
def logits_of(model: Any, tokenizer: PreTrainedTokenizerBase, *texts: Any, **options: Any) -> torch.Tensor:
    return model(**tokenizer(*texts, return_tensors="pt", **options)).logits[0]


@torch.inference_mode()
def sequence_scores(model: Any, tokenizer: PreTrainedTokenizerBase, text: str, tags: list[str]) -> list[float]:
    """Compute the probability of each tag by the losses of a CRF, of all labels of the word that the scheme allows."""
    batch = tokenizer(text, return_tensors="pt")
    read: list[Any] = []
    hook = model.classifier.register_forward_hook(lambda *parts: read.append(parts[2]))
    model(**batch)
    hook.remove()
    crf, words = model.head.crf, batch["attention_mask"].bool()
    words[:, [0, -1]] = False
    every = list(itertools.product(range(len(NAMES)), repeat=len(tags)))
    allowed = crf_elmo.allowed_transitions(NAMES)
    kept = [
        path for path in every if allowed.starts[path[0]] and all(allowed.follows[i][j] for i, j in pairwise(path))
    ]
    labels = torch.full((len(kept), words.shape[1]), -100)
    labels[:, 1:-1] = torch.tensor(kept)
    losses = crf.loss(read[0].expand(len(kept), -1, -1), words.expand(len(kept), -1), labels)
    weights = (-losses).double().softmax(dim=0)
    numbers = torch.tensor([NAMES.index(tag) for tag in tags])
    return ((labels[:, 1:-1] == numbers) * weights[:, None]).sum(dim=0).tolist()


@pytest.mark.parametrize("head", ["linear", "bilstm-crf"])
def test_tags_are_the_best_of_the_model(head: str, make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = make_model(ElmoForTokenClassification, id2label=dict(enumerate(NAMES)), head=head)
    results = list(predict(model, tokenizer, TEXTS))

    assert [result["text"] for result in results] == TEXTS
    for text, result in zip(TEXTS, results, strict=True):
        # [T, K], without the boundary tokens
        logits = logits_of(model, tokenizer, text)[1:-1]
        assert result["tags"] == [NAMES[number] for number in logits.argmax(dim=1)]
        assert len(result["words"]) == len(result["tags"])
        assert [entity["label"] for entity in result["entities"]] == [
            span.label for span in find_spans(result["tags"])
        ]
        assert all(text[entity["start"] : entity["end"]] == entity["text"] for entity in result["entities"])
        if head == "linear":
            assert result["scores"] == pytest.approx(logits.softmax(dim=1).amax(dim=1).tolist(), abs=6e-6)
        elif text:
            assert result["scores"] == pytest.approx(sequence_scores(model, tokenizer, text, result["tags"]), abs=6e-6)
        assert json.loads(json.dumps(result)) == result
    assert len({tag for result in results for tag in result["tags"]}) > 2


def test_the_score_of_a_span_is_the_mean_of_its_words(
    make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model(ElmoForTokenClassification, id2label={0: "B-X", 1: "I-X"})
    (result,) = predict(model, tokenizer, [["a", "b", "c", "d"]])

    spans = find_spans(result["tags"])
    assert any(end - start > 1 for _, start, end in spans)
    for (_, start, end), entity in zip(spans, result["entities"], strict=True):
        assert entity["score"] == pytest.approx(sum(result["scores"][start:end]) / (end - start), abs=6e-6)


def test_tags_that_mark_no_spans_have_no_entities(make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = make_model(ElmoForTokenClassification, id2label={0: "NOUN", 1: "VERB"})
    (result,) = predict(model, tokenizer, [["a", "b"]])

    assert list(result) == ["text", "words", "tags", "scores"]


@pytest.mark.parametrize("head", ["mean", "esim"])
def test_a_label_is_the_most_probable_one(
    head: str, make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    names = {0: "no", 1: "maybe", 2: "yes"}
    model = make_model(ElmoForSequenceClassification, id2label=names, head=head)
    pairs = [("It rains", "We sing."), ("a", "b"), ("We sing.", "")]
    results = list(predict(model, tokenizer, [{"text1": one, "text2": other} for one, other in pairs]))

    for (one, other), result in zip(pairs, results, strict=True):
        expected = logits_of(model, tokenizer, one, other).softmax(dim=0)
        assert list(result["scores"].values()) == pytest.approx(expected.tolist(), abs=6e-6)
        assert result["label"] == names[int(expected.argmax())]
    (empty,) = predict(model, tokenizer, [{"text1": "", "text2": ""}])
    assert empty == {"text1": "", "text2": "", "label": None, "scores": None}


def test_several_labels_are_those_more_probable_than_not(
    make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    names, problem = {0: "a", 1: "b", 2: "c"}, "multi_label_classification"
    model = make_model(ElmoForSequenceClassification, id2label=names, problem_type=problem)
    results = list(predict(model, tokenizer, TEXTS))

    for text, result in zip(TEXTS, results, strict=True):
        if text:
            expected = logits_of(model, tokenizer, text).sigmoid()
            assert list(result["scores"].values()) == pytest.approx(expected.tolist(), abs=6e-6)
            assert result["labels"] == [name for name, score in zip("abc", expected, strict=True) if score > 0.5]
    assert results[2] == {"text": "", "labels": None, "scores": None}


@pytest.mark.parametrize("problem", [None, "regression"])
def test_a_regression_gives_a_number(
    problem: str | None, make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model(ElmoForSequenceClassification, num_labels=1, problem_type=problem)
    first, _, empty, _ = predict(model, tokenizer, TEXTS)

    assert first["score"] == pytest.approx(logits_of(model, tokenizer, TEXTS[0]).item(), rel=1e-4)
    assert empty == {"text": "", "score": None}


def test_the_best_of_several_answers(make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = make_model(ElmoForMultipleChoice)
    questions = [("What falls?", ["The song.", "The rain.", ""]), ("a", ["b", "c"])]
    results = list(
        predict(model, tokenizer, [{"question": question, "choices": choices} for question, choices in questions])
    )

    for (question, choices), result in zip(questions, results, strict=True):
        batch = tokenizer([question] * len(choices), choices, padding=True, return_tensors="pt")
        with torch.inference_mode():
            expected = model(**{name: part[None] for name, part in batch.items()}).logits[0].softmax(dim=0)
        assert result["scores"] == pytest.approx(expected.tolist(), abs=6e-6)
        assert result["choice"] == int(expected.argmax())


@pytest.mark.parametrize("no_answer", [False, True])
@pytest.mark.parametrize("head", ["linear", "bidaf"])
def test_an_answer_is_the_best_span_of_the_context_or_none_if_that_may_be(
    head: str, no_answer: bool, make_model: MakeModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = make_model(ElmoForQuestionAnswering, head=head)
    context = "Ann Lee  lives in New York, and Bob in 👩‍👩‍👧 Zürich."
    questions = ["Who lives in York?", "Where?", "What is it that rained on Bob and Ann?", "a b c d"]
    records = [{"question": question, "context": context, "start": 7} for question in questions]

    for question, result in zip(questions, predict(model, tokenizer, records, no_answer=no_answer), strict=True):
        batch = tokenizer(question, context, return_tensors="pt")
        offsets = tokenizer(context, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        with torch.inference_mode():
            output = model(**batch)
        starts, ends = (part[0].softmax(dim=0).tolist() for part in (output.start_logits, output.end_logits))
        begin = len(batch["input_ids"][0]) - 1 - len(offsets)
        spans = {
            (first, last): starts[begin + first] * ends[begin + last]
            for first in range(len(offsets))
            for last in range(first, len(offsets))
        }
        best = max(spans, key=spans.__getitem__)
        none = starts[0] * ends[0] if no_answer else 0.0
        assert result["given_start"] == 7
        assert result["score"] == pytest.approx(max(none, spans[best]), rel=1e-4)
        if none > spans[best]:
            assert (result["answer"], result["start"], result["end"]) == (None, None, None)
        else:
            assert (result["start"], result["end"]) == (offsets[best[0]][0], offsets[best[1]][1])
            assert result["answer"] == context[result["start"] : result["end"]]


def test_a_question_without_an_answer(make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model = make_model(ElmoForQuestionAnswering)
    (result,) = predict(model, tokenizer, [{"question": "a", "context": ""}])

    assert result == {"question": "a", "context": "", "answer": None, "start": None, "end": None, "score": 1.0}


def test_several_answers_and_no_answer_are_ranked(make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model, asked = make_model(ElmoForQuestionAnswering), ("Who met Bob?", "Ann met Bob, in New York.")

    (found,) = answer(model, tokenizer, [asked], top_k=1000, max_words=2, no_answer=True)
    (best,) = answer(model, tokenizer, [asked], top_k=3, max_words=2)

    # eight words, seven pairs of them, and no answer
    assert len({(each["start"], each["end"]) for each in found}) == 8 + 7 + 1
    scores = [each["score"] for each in found]
    assert scores == sorted(scores, reverse=True)
    assert best == [each for each in found if each["answer"]][:3]
    assert all(asked[1][each["start"] : each["end"]] == each["answer"] for each in found)
    (result,) = predict(model, tokenizer, [{"question": asked[0], "context": asked[1]}], no_answer=True)
    assert result["score"] == scores[0]
    (none,) = (each for each in found if not each["answer"])
    odds = math.log(none["score"] / best[0]["score"])
    for threshold, expected in ((odds - 0.1, None), (odds + 0.1, best[0]["answer"])):
        record = {"question": asked[0], "context": asked[1]}
        (result,) = predict(model, tokenizer, [record], no_answer=True, no_answer_threshold=threshold)
        assert result["answer"] == expected
    with pytest.raises(ElmoError, match=r"^The model answers no questions: leave no_answer out\.$"):
        predict(make_model(ElmoForTokenClassification), tokenizer, ["a"], no_answer=True)
    with pytest.raises(ElmoError, match=r"^A threshold for no answer needs no_answer\.$"):
        predict(model, tokenizer, [], no_answer_threshold=1.0)
    with pytest.raises(ElmoError, match=r"^The threshold for no answer is no number\.$"):
        predict(model, tokenizer, [], no_answer=True, no_answer_threshold=math.nan)
    (as_array,) = answer(model, tokenizer, np.array([asked]), top_k=3, max_words=2)  # type: ignore[arg-type]
    assert as_array == best
    with pytest.raises(ElmoError, match=r"is no pair of a question and its context: `predict` takes records"):
        list(answer(model, tokenizer, [{"question": "Who?", "context": "a"}]))  # type: ignore[list-item]
    assert list(answer(model, tokenizer, [("Who?", "")])) == [[]]
    nothing = {"answer": "", "start": 0, "end": 0, "score": 1.0}
    assert list(answer(model, tokenizer, [("Who?", "")], no_answer=True)) == [[nothing]]


def test_a_long_context_is_read_in_windows(
    make_model: MakeModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(ElmoForQuestionAnswering)
    monkeypatch.setattr("elmo_hf.prediction.answers.MAX_CONTEXT_WORDS", 6)
    context = "Ann met Bob in New York . It rained there , and we sang ."
    words = context.split()
    windows = [words[start : start + 6] for start in range(0, 15, 4)]
    assert windows[-1][-1] == "."

    (found,) = answer(model, tokenizer, [("Who ?", context)], top_k=3, max_words=2)
    parts = list(answer(model, tokenizer, [("Who ?", " ".join(part)) for part in windows], top_k=1000, max_words=2))

    best = max((each for part in parts for each in part), key=lambda each: each["score"])
    assert (found[0]["score"], found[0]["answer"]) == (best["score"], best["answer"])
    assert all(context[each["start"] : each["end"]] == each["answer"] for each in found)


def test_another_model_answers_no_questions(make_model: MakeModel, tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(
        ElmoError, match="ElmoForMultipleChoice answers no questions: load an ElmoForQuestionAnswering"
    ):
        answer(make_model(ElmoForMultipleChoice), tokenizer, [])
    with pytest.raises(ValueError, match="top_k is 0 and max_words 30: they must be at least 1"):
        answer(make_model(ElmoForQuestionAnswering), tokenizer, [], top_k=0)


def test_of_equal_scores_the_first_is_chosen(make_model: MakeModel) -> None:
    names = {0: "no", 1: "yes"}
    one = make_task(make_model(ElmoForSequenceClassification, id2label=names))
    several = make_task(
        make_model(ElmoForSequenceClassification, id2label=names, problem_type="multi_label_classification")
    )
    number = make_task(make_model(ElmoForSequenceClassification, num_labels=1))
    choice = make_task(make_model(ElmoForMultipleChoice))

    # what the last digits of float32 say depends on the batch
    assert one.answer(None, [[0.4999999, 0.5000001]]) == {"label": "no", "scores": {"no": 0.5, "yes": 0.5}}
    assert several.answer(None, [[0.5000001, 0.50001]])["labels"] == ["yes"]
    assert number.answer(None, [[1987.34567]]) == {"score": 1987.3}
    assert choice.answer(None, [1.0, 1.0000001, 0.0]) == {"choice": 0, "scores": [0.42232, 0.42232, 0.15536]}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({0: "a", 5: "b", 7: "c"}, "config.json is damaged: id2label has 0, 5, 7, and not 1, of 3 labels"),
        ({0: "a", 1: "b", 2: "a"}, "id2label in config.json has the label 'a' twice: rename one"),
    ],
)
def test_labels_with_gaps_or_twice_are_refused(names: dict[int, str], message: str, make_model: MakeModel) -> None:
    model = make_model(ElmoForTokenClassification, num_labels=3)
    model.config.id2label = names
    with pytest.raises(ElmoError, match=message):
        make_task(model)
