"""`prediction.inputs`: the texts of records, where words stand in a text, and inputs that cannot be read."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from elmo_hf import (
    ElmoForMultipleChoice,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
)
from elmo_hf.embedding.sentences import Sentence
from elmo_hf.errors import ElmoError
from elmo_hf.prediction.inputs import Example, InputReader, Row, check_inputs
from elmo_hf.prediction.tasks import make_task


MakeReader = Callable[..., InputReader]

TEXTS = [
    "Ann  met\tBob , in New York.",
    "\u00a0a\u0301 e\u0301\u0301!  (Zu\u0308rich) didn't",
    "👩‍👩‍👧 waved 👋🏽👋🏽 twice",
    "a\u2028b \u200b c",
    "the the  the",
    "",
    " \t ",
]


@pytest.fixture
def make_reader(tokenizer: PreTrainedTokenizerBase, make_model: Callable[..., Any]) -> MakeReader:
    """Make a reader for a model of a class, with these fields of its configuration."""

    def make(
        cls: type = ElmoForTokenClassification,
        *,
        text: str | None = None,
        pair: str | None = None,
        tokenized: bool = False,
        **fields: Any,
    ) -> InputReader:
        task = make_task(make_model(cls, num_labels=3, **fields))
        return InputReader(tokenizer, task, text_field=text, pair_field=pair, tokenized=tokenized)

    return make


@pytest.mark.parametrize("text", TEXTS)
def test_offsets_of_raw_text_are_those_of_the_tokenizer(
    text: str, make_reader: MakeReader, tokenizer: PreTrainedTokenizerBase
) -> None:
    example = make_reader().read(1, text)

    expected = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]
    assert example.offsets() == expected
    assert [text[start:end] for start, end in example.offsets()] == example.sentence.words


def test_offsets_of_words_are_those_in_the_text_that_joins_them(make_reader: MakeReader) -> None:
    words = ["Hà Nội", "", "é", "é", "😀"]
    example = make_reader().read(1, words)

    assert example.fields == {"text": "Hà Nội  é é 😀"}
    assert example.offsets() == [(0, 6), (7, 7), (8, 9), (10, 11), (12, 13)]
    assert make_reader().read(1, tuple(words)) == make_reader().read(1, np.array(words)) == example


def test_tokenized_text_is_split_at_white_space_and_keeps_its_offsets(make_reader: MakeReader) -> None:
    example = make_reader(tokenized=True).read(1, " didn't   stop.")

    assert example.sentence.words == ["didn't", "stop."]
    assert example.offsets() == [(1, 7), (10, 15)]


def test_a_word_that_is_not_in_its_text_is_named() -> None:
    with pytest.raises(ElmoError, match=r"The word 'b' is not in its place in the text 'b a'"):
        Example({}, Sentence("b a", ["a", "b"]), []).offsets()


def test_a_sentence_with_a_key_has_an_identifier(make_reader: MakeReader) -> None:
    assert make_reader().read(1, Sentence("SE", ["S", "E"], "1abc/A")).fields == {"id": "1abc/A", "text": "SE"}


def test_a_pair_has_the_words_of_both_texts(make_reader: MakeReader) -> None:
    reader = make_reader(ElmoForSequenceClassification)
    record = {"id": 7, "premise": "It rains.", "hypothesis": ["a.", "b"]}

    # as in training, where a text beside a list of words is split at white space
    assert reader.read(1, record) == Example(record, Sentence("It rains.", ["It", "rains."]), [
        Row(["It", "rains."], ["a.", "b"])
    ])  # fmt: skip
    assert reader.read(2, {"premise": "It rains.", "hypothesis": ""}).rows == [Row(["It", "rains", "."], [])]
    assert reader.read(3, {"premise": "", "hypothesis": " "}).rows == []


def test_fields_are_chosen_by_name(make_reader: MakeReader) -> None:
    record = {"text": "a", "title": "b", "body": "c"}
    chosen = make_reader(ElmoForSequenceClassification, text="title", pair="body").read(1, record)
    assert chosen.rows == [Row(["b"], ["c"])]
    assert make_reader().read(1, record).rows == [Row(["a"])]


def test_a_record_is_read_as_json_has_it(make_reader: MakeReader) -> None:
    record = {
        "words": np.array(["Hà Nội", "b"], dtype=object),
        "n": np.int64(3),
        "missing": float("nan"),
        "more": {"a": (1, np.float32("nan"), np.array([[True]]))},
    }
    example = make_reader().read(1, record)

    assert example.sentence.words == ["Hà Nội", "b"]
    assert example.fields == {
        "words": ["Hà Nội", "b"],
        "n": 3,
        "missing": None,
        "more": {"a": [1, None, [[True]]]},
    }
    assert json.loads(json.dumps(example.fields, allow_nan=False)) == example.fields
    assert make_reader().read(1, {"words": ("a", "b")}).rows == [Row(["a", "b"])]
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ElmoError, match="Input 1: the record is nested too deeply"):
        make_reader().read(1, {"text": "a", "x": deep})


def test_a_tagger_reads_the_first_text_of_a_pair(make_reader: MakeReader) -> None:
    assert make_reader().read(1, {"premise": "a", "hypothesis": "b"}).rows == [Row(["a"])]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "the sentence is 3: give a text or a list of words"),
        (["a", None], "give a text or a list of words"),
        ("\ud800", "holds half of a character"),
        ({"id": 1}, "no column premise or .*; there are id: name the one of the text"),
        ({"text": None}, "text is None: give a text or a list of words"),
    ],
)
def test_an_input_that_cannot_be_read_is_named(given: Any, message: str, make_reader: MakeReader) -> None:
    with pytest.raises(ElmoError, match=rf"^Input 4: .*{message}"):
        make_reader().read(4, given)


def test_inputs_of_another_kind_than_the_model_reads_are_refused(make_reader: MakeReader) -> None:
    pairs = make_reader(ElmoForSequenceClassification, head="esim")
    with pytest.raises(ElmoError, match="the model reads pairs: give records with two texts"):
        pairs.read(1, "a")
    with pytest.raises(ElmoError, match="has one text, text, and the model reads pairs"):
        pairs.read(1, {"text": "a"})
    with pytest.raises(ElmoError, match="has a pair, premise and hypothesis, and the model reads single sentences"):
        make_reader(ElmoForSequenceClassification, head="bcn").read(1, {"premise": "a", "hypothesis": "b"})
    with pytest.raises(ElmoError, match="single sentences, and no pairs: leave out the field 'body'"):
        make_reader(pair="body")

    mixed = make_reader(ElmoForSequenceClassification)
    mixed.read(1, {"text": "a"})
    with pytest.raises(ElmoError, match="Input 2: this record is a pair, with text_pair, and the first record is not"):
        mixed.read(2, {"text": "a", "text_pair": "b"})


def test_a_model_of_questions_reads_records_only(make_reader: MakeReader) -> None:
    for cls, beside in (ElmoForMultipleChoice, "choices"), (ElmoForQuestionAnswering, "context"):
        with pytest.raises(
            ElmoError, match=f"Input 1: the model reads questions: .* with a question and its {beside}"
        ):
            make_reader(cls).read(1, "a")
        with pytest.raises(ElmoError, match=f"no column .*; there are question: name the one of the {beside}"):
            make_reader(cls).read(1, {"question": "a"})
    with pytest.raises(ElmoError, match=r"choices is \[\]: give a list of answers"):
        make_reader(ElmoForMultipleChoice).read(1, {"question": "a", "choices": []})
    with pytest.raises(ElmoError, match=r"^Input 1: answer 1 of choices is None: give a text"):
        make_reader(ElmoForMultipleChoice).read(1, {"question": "a", "choices": ["a", None]})
    reader = make_reader(ElmoForQuestionAnswering, text="q", pair="c")
    assert reader.read(1, {"q": "a b", "c": ["d"]}).rows == [Row(["a", "b"], ["d"])]


def test_what_would_be_misread_is_refused() -> None:
    with pytest.raises(ElmoError, match="are one text"):
        check_inputs("a")
    with pytest.raises(ElmoError, match="are a dict"):
        check_inputs({"text": "a"})
    with pytest.raises(ElmoError, match=r"of shape \(1, 2\)"):
        check_inputs(np.array([["a", "b"]]))
    assert list(check_inputs(np.array([["a"], ["b"]]))) == ["a", "b"]


def test_a_data_set_gives_records() -> None:
    class Rows(list):
        shape = (1, 2)

    rows = Rows([{"text": "a", "id": 1}])
    assert check_inputs(rows) is rows
