"""Transformers' pipelines, as they are: entities where they stand, labels of sentences and pairs, and vectors."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, pipeline

from clients.annotated import ANNOTATED, Annotated
from elmo_hf import ElmoForSequenceClassification, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.prediction import predict
from support.english import ELMO_TINY_EN


Tagger = Callable[[str], ElmoForTokenClassification]

STRATEGIES = ["none", "simple", "first", "average", "max"]
REVIEWS = ["A fine film .", "No .", "They had better have stayed at home , all of them ."]
PAIRS = [
    {"text": "A man sleeps .", "text_pair": "Nobody is awake ."},
    {"text": "It rains .", "text_pair": "The weather is bad today ."},
]

each_head = pytest.mark.parametrize("head", ["linear", "bilstm-crf"])
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def found_in(text: str, entities: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What the offsets cut out of the text, and its label; the pipeline's own rendering must be the same."""
    pieces = [text[entity["start"] : entity["end"]] for entity in entities]
    # where words are joined, the pipeline puts a space between them
    assert [entity["word"].replace(" ", "") for entity in entities] == [piece.replace(" ", "") for piece in pieces]
    labels = [entity.get("entity_group", entity.get("entity")) for entity in entities]
    return list(zip(labels, pieces, strict=True))


def expected_of(strategy: str, example: Annotated) -> list[tuple[str, str]]:
    if strategy != "none":
        return example.entities
    return [(tag, word) for tag, word in zip(example.tags, example.words, strict=True) if tag != "O"]


@each_head
@each_strategy
def test_entities_of_raw_text_are_where_they_stand(
    head: str, strategy: str, trained_tagger: Tagger, tokenizer: ElmoTokenizer
) -> None:
    tag = pipeline(
        "token-classification", model=trained_tagger(head), tokenizer=tokenizer, aggregation_strategy=strategy
    )

    for example in ANNOTATED:
        assert found_in(example.text, tag(example.text)) == expected_of(strategy, example)


@each_head
def test_predict_finds_the_same_entities_and_plain_numbers(
    head: str, trained_tagger: Tagger, tokenizer: ElmoTokenizer
) -> None:
    tagger = trained_tagger(head)
    tag = pipeline("token-classification", model=tagger, tokenizer=tokenizer, aggregation_strategy="simple")
    results = list(predict(tagger, tokenizer, [example.text for example in ANNOTATED]))

    for example, result in zip(ANNOTATED, json.loads(json.dumps(results)), strict=True):
        assert (result["words"], result["tags"]) == (example.words, example.tags)
        entities = result["entities"]
        assert [(entity["label"], entity["text"]) for entity in entities] == example.entities
        piped = tag(example.text)
        assert [(entity["start"], entity["end"]) for entity in entities] == [
            (entity["start"], entity["end"]) for entity in piped
        ]
        if head == "linear":
            scores = [entity["score"] for entity in piped]
            assert [entity["score"] for entity in entities] == pytest.approx(scores, abs=1e-5)
        # what the page on fine-tuning advises
        assert json.loads(json.dumps(piped, default=float))


@each_head
@each_strategy
def test_entities_of_words_are_where_they_stand_in_the_joined_text(
    head: str, strategy: str, trained_tagger: Tagger, tokenizer: ElmoTokenizer
) -> None:
    tag = pipeline(
        "token-classification", model=trained_tagger(head), tokenizer=tokenizer, aggregation_strategy=strategy
    )

    for example in ANNOTATED:
        (entities,) = tag(example.words, is_split_into_words=True)
        found = found_in(" ".join(example.words), entities)
        # between the words of an entity the text may have no space
        assert [(label, piece.replace(" ", "")) for label, piece in found] == [
            (label, piece.replace(" ", "")) for label, piece in expected_of(strategy, example)
        ]


@each_strategy
def test_a_word_may_hold_spaces_and_be_joined_by_anything(
    strategy: str, trained_tagger: Tagger, tokenizer: ElmoTokenizer
) -> None:
    tag = pipeline(
        "token-classification",
        model=trained_tagger("linear"),
        tokenizer=tokenizer,
        aggregation_strategy=strategy,
        ignore_labels=[],
    )
    words = ["Hà Nội", "", "EU-wide", "😀"]

    (entities,) = tag(words, is_split_into_words=True, delimiter="\t")

    text, places = "\t".join(words), [(0, 6), (7, 7), (8, 15), (16, 17)]
    assert {entity["start"] for entity in entities} <= {start for start, _ in places}
    assert {entity["end"] for entity in entities} <= {end for _, end in places}
    if strategy == "none":
        assert [(entity["start"], entity["end"]) for entity in entities] == places
        assert [text[start:end] for start, end in places] == words


@each_head
@each_strategy
def test_tagging_in_batches_equals_one_by_one(
    head: str, strategy: str, trained_tagger: Tagger, tokenizer: ElmoTokenizer
) -> None:
    tag = pipeline(
        "token-classification", model=trained_tagger(head), tokenizer=tokenizer, aggregation_strategy=strategy
    )
    texts = [*(example.text for example in ANNOTATED), "Bob .", ANNOTATED[0].text]

    batched = tag(texts, batch_size=3)

    for entities, text in zip(batched, texts, strict=True):
        alone = tag(text)
        assert found_in(text, entities) == found_in(text, alone)
        assert [entity["score"] for entity in entities] == pytest.approx(
            [entity["score"] for entity in alone], abs=1e-5
        )


def test_a_crf_gives_no_sequence_that_its_scheme_forbids(trained_tagger: Tagger, tokenizer: ElmoTokenizer) -> None:
    tag = pipeline("token-classification", model=trained_tagger("bilstm-crf"), tokenizer=tokenizer, ignore_labels=[])
    before = "O"

    for entity in tag("York Lee New Zürich and Bob Ann met York Lee , York ."):
        label = entity["entity"]
        assert not label.startswith("I-") or before[2:] == label[2:]
        before = label


def classifier(**options: object) -> ElmoForSequenceClassification:
    """A classifier of sentences with random weights, whose scores differ."""
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(ELMO_TINY_EN, head_hidden_size=8, **options).eval()
    torch.nn.init.normal_(model.classifier.weight)
    return model


@pytest.mark.parametrize("head", ["mean", "max", "bcn"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_sentences_are_classified(head: str, batch_size: int, tokenizer: ElmoTokenizer) -> None:
    model = classifier(head=head, id2label={0: "bad", 1: "neither", 2: "good"})
    with torch.no_grad():
        shares = [model(**tokenizer(text, return_tensors="pt")).logits[0].softmax(dim=0) for text in REVIEWS]

    best = pipeline("text-classification", model=model, tokenizer=tokenizer)(REVIEWS, batch_size=batch_size)
    every = pipeline("text-classification", model=model, tokenizer=tokenizer)(
        REVIEWS, batch_size=batch_size, top_k=None
    )

    for number, share in enumerate(shares):
        label = int(share.argmax())
        assert best[number]["label"] == model.config.id2label[label]
        assert best[number]["score"] == pytest.approx(float(share[label]), abs=1e-5)
        scores = {entry["label"]: entry["score"] for entry in every[number]}
        assert scores == pytest.approx({model.config.id2label[i]: float(share[i]) for i in range(3)}, abs=1e-5)
        assert [entry["score"] for entry in every[number]] == sorted(scores.values(), reverse=True)


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("mix_at", ["input", "both"])
def test_pairs_are_classified(batch_size: int, mix_at: str, tokenizer: ElmoTokenizer) -> None:
    model = classifier(head="esim", mix_at=mix_at, id2label={0: "no", 1: "neutral", 2: "yes"})
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=2)

    found = classify(PAIRS, batch_size=batch_size)

    for pair, entries in zip(PAIRS, found, strict=True):
        with torch.no_grad():
            batch = tokenizer(pair["text"], pair["text_pair"], return_tensors="pt")
            shares = model(**batch).logits[0].softmax(dim=0)
        scores, labels = shares.topk(2)
        assert [entry["label"] for entry in entries] == [model.config.id2label[int(label)] for label in labels]
        assert [entry["score"] for entry in entries] == pytest.approx(scores.tolist(), abs=1e-5)


def test_one_number_comes_as_it_is(tokenizer: ElmoTokenizer) -> None:
    model = classifier(num_labels=1, problem_type="regression")
    with torch.no_grad():
        expected = [model(**tokenizer(text, return_tensors="pt")).logits.item() for text in REVIEWS]

    found = pipeline("text-classification", model=model, tokenizer=tokenizer)(REVIEWS)

    assert [entry["score"] for entry in found] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_vectors_are_those_of_the_model(batch_size: int, tokenizer: ElmoTokenizer) -> None:
    model = AutoModel.from_pretrained(ELMO_TINY_EN).eval()
    extract = pipeline("feature-extraction", model=model, tokenizer=tokenizer)

    found = extract(REVIEWS, batch_size=batch_size)

    for text, vectors in zip(REVIEWS, found, strict=True):
        with torch.no_grad():
            expected = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        vectors = torch.tensor(vectors[0])
        torch.testing.assert_close(vectors[: len(expected)], expected, rtol=0, atol=1e-5)
        # what is behind the words of a shorter sentence is padding
        assert not vectors[len(expected) :].any()


def test_labels_that_nobody_trained_on_by_entailment(tokenizer: ElmoTokenizer) -> None:
    torch.manual_seed(0)
    names = {0: "contradiction", 1: "entailment"}
    classifier = AutoModelForSequenceClassification.from_pretrained(ELMO_TINY_EN, id2label=names).eval()
    torch.nn.init.normal_(classifier.classifier.pair_weight)
    guess = pipeline("zero-shot-classification", model=classifier, tokenizer=tokenizer)

    result = guess("It rains .", candidate_labels=["weather", "sport"], hypothesis_template="This is about {} .")

    scores = []
    for label in result["labels"]:
        pair = tokenizer("It rains .", f"This is about {label} .", return_tensors="pt")
        scores.append(classifier(**pair).logits[0, 1])
    torch.testing.assert_close(torch.tensor(result["scores"]), torch.stack(scores).softmax(dim=0).detach())
