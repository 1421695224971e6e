"""`prediction.documents`: clusters with their characters, from texts, words and records, and GAP's pronouns."""

from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedTokenizerBase

from elmo_hf import ElmoError, ElmoForCoreferenceResolution, ElmoForTokenClassification
from elmo_hf.data.coreference import Document
from elmo_hf.data.gap import Name, Pronoun
from elmo_hf.data.segmentation import SentenceSplitter
from elmo_hf.prediction import predict, resolve
from elmo_hf.prediction.documents import resolve_gap
from support.english import ELMO_TINY_EN
from support.task_models import task_model


TEXT = "Ann (35) met Bob.  She didn't\nlike him.\n\nIt rained."
SENTENCES = [
    ["Ann", "(", "35", ")", "met", "Bob", ".", "She", "didn", "'t"], ["like", "him", "."], ["It", "rained", "."]
]  # fmt: skip
# Ann, She; Bob, him
CLUSTERS = [[(0, 0), (7, 7)], [(5, 5), (11, 11)]]


class Fixed(ElmoForCoreferenceResolution):
    """Finds the same clusters in every document."""

    clusters: Any = CLUSTERS

    @classmethod
    def decode(cls, outputs: Any) -> Any:
        """Return them."""
        return [cls.clusters for _ in outputs.spans]


@pytest.fixture(scope="module")
def model() -> ElmoForCoreferenceResolution:
    return Fixed.from_pretrained(ELMO_TINY_EN, head_hidden_size=4).eval()


def test_mentions_have_their_characters_in_the_text(model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    (result,) = resolve(model, tokenizer, [TEXT])

    assert result["text"] == TEXT
    assert result["sentences"] == SENTENCES
    assert result["clusters"] == [[[0, 0], [7, 7]], [[5, 5], [11, 11]]]
    assert result["mentions"] == [
        [{"text": "Ann", "start": 0, "end": 3}, {"text": "She", "start": 19, "end": 22}],
        [{"text": "Bob", "start": 13, "end": 16}, {"text": "him", "start": 35, "end": 38}],
    ]
    assert all(TEXT[part["start"] : part["end"]] == part["text"] for each in result["mentions"] for part in each)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_splitter_finds_the_sentences(wrapped: bool, model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    pytest.importorskip("sentencex")
    (result,) = resolve(model, tokenizer, [TEXT], splitter=SentenceSplitter("en", wrapped=wrapped))

    lengths = [len(words) for words in result["sentences"]]
    assert lengths == ([7, 6, 3] if wrapped else [7, 3, 3, 3])
    assert result["mentions"][0][1] == {"text": "She", "start": 19, "end": 22}


def test_words_records_and_documents(model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    record = {"doc": "x", "clusters": [[[0, 0]]], "sentences": SENTENCES, "genre": "n"}
    of_words, of_record, of_document, of_text = resolve(
        model, tokenizer, [SENTENCES, record, Document("x", SENTENCES, []), {"id": 3, "text": TEXT}]
    )

    text = "\n".join(" ".join(words) for words in SENTENCES)
    assert of_words["text"] == of_record["text"] == text
    assert of_words["mentions"] == of_record["mentions"] == of_document["mentions"]
    assert of_words["mentions"][1][1] == {"text": "him", "start": text.index("him"), "end": text.index("him") + 3}
    assert {name: of_record[name] for name in ("doc", "genre", "given_clusters")} == {
        "doc": "x", "genre": "n", "given_clusters": [[[0, 0]]],
    }  # fmt: skip
    speakers = [["me"] * len(words) for words in SENTENCES]
    (of_part,) = resolve(model, tokenizer, [Document("x", SENTENCES, [], speakers, 3)])
    assert of_part == {**of_document, "part": 3, "speakers": speakers}
    assert (of_text["id"], of_text["text"], of_text["clusters"]) == (3, TEXT, of_words["clusters"])
    assert list(predict(model, tokenizer, [{"id": 3, "text": TEXT}])) == [of_text]


def test_a_real_head_finds_the_same_however_it_is_called_and_reads_speakers(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    model = task_model(ElmoForCoreferenceResolution, use_speakers=True)
    speakers = [[f"speaker {number}"] * len(words) for number, words in enumerate(SENTENCES)]
    seen: list[Any] = []
    model.register_forward_pre_hook(lambda _, __, given: seen.append(given["speaker_ids"].tolist()), with_kwargs=True)

    first, second, _ = resolve(model, tokenizer, [TEXT, SENTENCES, {"sentences": SENTENCES, "speakers": speakers}])

    assert first["clusters"] == second["clusters"] != []
    assert seen[:2] == [[[0] * 12] * 3] * 2
    assert seen[2] == [[0] * 12, [0, 1, 1, 1] + [0] * 8, [0, 2, 2, 2] + [0] * 8]


@pytest.mark.parametrize("empty", ["", " \n\n", [], [[]], {"sentences": []}])
def test_a_document_without_words_has_no_clusters(empty: Any, model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    (result,) = resolve(model, tokenizer, [empty])

    assert (result["clusters"], result["mentions"]) == ([], [])


def test_a_boundary_token_in_a_text_is_an_unknown_word(tokenizer: PreTrainedTokenizerBase) -> None:
    model = task_model(ElmoForCoreferenceResolution)
    given, plain = resolve(model, tokenizer, [[["a", "</S>", "<S>", "c"]], [["a", "<UNK>", "<UNK>", "c"]]])

    assert given["clusters"] == plain["clusters"]
    assert given["sentences"] == [["a", "</S>", "<S>", "c"]]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([{"sentences": "a b"}], "Input 1: sentences is 'a b': give a list of sentences"),
        ([TEXT, {"title": "x"}], "Input 2: "),
        # sentences that are not split into words
        ([["Ann met Bob .", "She left ."]], "Input 1: sentences is ['Ann met Bob .', 'She left .']: give a list of"),
        ([{"text": ["a", "b"]}], "Input 1: text is a list of words: give a text, or sentences"),
        ("Ann met Bob.", "One document is given in place of a list of documents"),
    ],
)
def test_what_is_no_document_is_named(
    documents: Any, message: str, model: Any, tokenizer: PreTrainedTokenizerBase
) -> None:
    with pytest.raises(ElmoError) as caught:
        list(resolve(model, tokenizer, documents))
    assert message in str(caught.value)


def test_fields_are_what_json_has(model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    record = {"sentences": [np.array(words) for words in SENTENCES], "mark": float("nan"), "numbers": np.arange(2)}

    (result,) = resolve(model, tokenizer, [record])

    assert (result["sentences"], result["mark"], result["numbers"]) == (SENTENCES, None, [0, 1])


def test_models_that_are_not_ready(tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(ElmoError, match="ElmoForTokenClassification resolves no coreference"):
        resolve(task_model(ElmoForTokenClassification), tokenizer, [])
    with pytest.raises(ValueError, match="training mode"):
        resolve(task_model(ElmoForCoreferenceResolution).train(), tokenizer, [])


def test_a_pronoun_stands_for_the_names_in_its_cluster(
    model: Any, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Ann Lee saw Sue Ray . Sue left her ."
    names = (Name("Ann Lee", 0, True), Name("Sue Ray", 12, False))
    example = Pronoun("x-1", text, "her", text.index("her"), names)
    # her and Lee, a part of the name; Sue and her mentions
    monkeypatch.setattr(Fixed, "clusters", [[(1, 1), (8, 8)], [(3, 4), (6, 6)]])
    assert resolve_gap(model, tokenizer, [example]) == {"x-1": (True, False)}
    # more than the name is another mention
    monkeypatch.setattr(Fixed, "clusters", [[(0, 4), (8, 8)]])
    assert resolve_gap(model, tokenizer, [example]) == {"x-1": (False, False)}
