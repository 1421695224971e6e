"""`prediction` with a model of semantic roles: frames against the model's own logits, and files of them."""

import io
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from elmo_hf import ElmoError, ElmoForTokenClassification
from elmo_hf.data.frames import read_frames
from elmo_hf.prediction import predict
from elmo_hf.prediction.formats import write_results
from elmo_hf.prediction.tasks import make_task
from support.english import ELMO_TINY_EN
from support.task_models import task_model


NAMES = ["O", "B-V", "I-V", "B-ARG0", "I-ARG0"]
WORDS = ["Ann", "saw", "Bob", "leave"]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(ELMO_TINY_EN)


@pytest.fixture(scope="module")
def labeller() -> Any:
    return task_model(ElmoForTokenClassification, head="alternating-lstm", id2label=dict(enumerate(NAMES)))


@torch.inference_mode()
def logits_of(model: Any, tokenizer: PreTrainedTokenizerBase, words: list[str], predicate: int) -> torch.Tensor:
    batch = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    marks = torch.zeros(1, len(words) + 2).long()
    marks[0, predicate + 1] = 1
    return model(**batch, token_type_ids=marks).logits[0, 1:-1]


@torch.inference_mode()
def chances(model: Any, tokenizer: PreTrainedTokenizerBase, words: list[str], predicate: int) -> list[float]:
    """Add up the probabilities of all sequences that keep to the scheme, for the best one's tag of each word."""
    read: list[Any] = []
    hook = model.classifier.register_forward_hook(lambda *parts: read.append(parts[2][0, 1:-1]))
    best = logits_of(model, tokenizer, words, predicate).argmax(dim=1).tolist()
    hook.remove()
    scores = read[0].double().softmax(dim=1)
    starts = {2: (1, 2), 4: (3, 4)}
    legal = [
        tags
        for tags in itertools.product(range(5), repeat=len(words))
        if all(tag not in starts or before in starts[tag] for before, tag in zip((0, *tags), tags, strict=False))
    ]
    weights = [float(scores[range(len(words)), tags].prod()) for tags in legal]
    return [
        sum(weight for tags, weight in zip(legal, weights, strict=True) if tags[word] == best[word]) / sum(weights)
        for word in range(len(words))
    ]


@pytest.mark.parametrize("side", ["right", "left"])
def test_frames_are_the_best_of_the_model_in_any_batch(
    side: str, labeller: Any, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "padding_side", side)
    records = [{"words": WORDS, "predicates": [1, 3]}, {"words": ["Go"], "pred": 0}, {"words": WORDS, "frames": []}]

    many = list(predict(labeller, tokenizer, records))

    assert [[frame["predicate"] for frame in result["frames"]] for result in many] == [[1, 3], [0], []]
    for frame in many[0]["frames"]:
        logits = logits_of(labeller, tokenizer, WORDS, frame["predicate"])
        assert frame["tags"] == [NAMES[number] for number in logits.argmax(dim=1)]
        assert frame["scores"] == pytest.approx(chances(labeller, tokenizer, WORDS, frame["predicate"]), abs=6e-6)
        for role in frame["roles"]:
            assert "Ann saw Bob leave"[role["start"] : role["end"]] == role["text"]
    alone = [result for record in records for result in predict(labeller, tokenizer, [record])]
    assert [[frame["tags"] for frame in result["frames"]] for result in alone] == [
        [frame["tags"] for frame in result["frames"]] for result in many
    ]
    # the predicates of the record's own frames
    assert many[2]["given_frames"] == []


def test_predicates_of_texts(labeller: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    results = list(predict(labeller, tokenizer, ["They Saw it.", ""], predicates=["saw"]))

    assert results[0]["words"] == ["They", "Saw", "it", "."]
    assert [frame["predicate"] for frame in results[0]["frames"]] == [1]
    assert (results[1]["words"], results[1]["frames"]) == ([], [])


def test_what_tells_no_predicate_is_refused(labeller: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ElmoError, match="Input 1: the model finds the roles of predicates, and nothing tells"):
        list(predict(labeller, tokenizer, ["They saw it."]))
    with pytest.raises(ElmoError, match="by a list of words or by parts of speech: give one of both"):
        predict(labeller, tokenizer, ["a"], predicates=["a"], predicate_pos=["V"])


def test_predicates_are_for_models_of_roles(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    with pytest.raises(ElmoError, match="The model finds no semantic roles: leave the predicates out"):
        predict(task_model(ElmoForTokenClassification, num_labels=2), tokenizer, ["a"], predicates=["a"])


@pytest.mark.parametrize("name", ["jsonl", "conll", "table"])
def test_files_of_frames(name: str, labeller: Any, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    results = list(predict(labeller, tokenizer, [{"words": WORDS, "pos": ["N", "V", "N", "V"]}, {"words": []}]))
    if name == "conll":
        results = results[:1]
    file = io.StringIO()

    count = write_results(results, name, file, make_task(labeller))

    assert count == len(results)
    if name == "table":
        lines = [line.split("\t") for line in file.getvalue().splitlines()]
        assert lines[0] == ["input", "pos", "predicate", "label", "start", "end", "text", "score"]
        roles = [role for frame in results[0]["frames"] for role in frame["roles"]]
        assert len(lines) == 1 + max(1, len(roles)) + 1
        return
    (tmp_path / "x").write_text(file.getvalue(), encoding="utf-8")
    first = read_frames(tmp_path / "x")[0]
    assert [(frame.predicate, frame.tags) for frame in first.frames] == [
        (frame["predicate"], frame["tags"]) for frame in results[0]["frames"]
    ]


def test_columns_keep_the_lemmas_of_given_frames(labeller: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    # by which srl-eval.pl knows a predicate
    frames = [{"pred": 3, "lemma": "leave"}, {"predicate": 1, "lemma": "see"}]
    file = io.StringIO()

    write_results(
        predict(labeller, tokenizer, [{"words": WORDS, "frames": frames}]), "conll", file, make_task(labeller)
    )

    assert [line.split("\t")[1] for line in file.getvalue().splitlines()[:4]] == ["-", "see", "-", "leave"]
