"""`training.documents`: rows of documents, parts of them, and batches."""

import numpy as np
import torch

from elmo_hf import ElmoTokenizer
from elmo_hf.data.coreference import Document
from elmo_hf.training.documents import (
    CutDocuments,
    DocumentCollator,
    cut_document,
    encode_document,
    is_document,
    split_documents,
)
from support.english import ELMO_TINY_EN


STORY = Document(
    "x",
    [["Ann", "met", "Bob"], ["She", "left"], ["He", "saw", "her", "go"]],
    [[(0, 0), (3, 3), (7, 7)], [(2, 2), (5, 5)]],
    [["A", "A", "B"], ["B", "B"], ["C"] * 4],
)
TOKENIZER = ElmoTokenizer.from_pretrained(ELMO_TINY_EN)


def test_a_row_has_the_sentences_and_mentions() -> None:
    row = encode_document(STORY, TOKENIZER, speakers=True)

    assert [len(ids) for ids in row["input_ids"]] == [5, 4, 6]
    assert row["input_ids"][1] == TOKENIZER(["She", "left"], is_split_into_words=True)["input_ids"]
    assert row["labels"] == [[0, 0, 0], [3, 3, 0], [7, 7, 0], [2, 2, 1], [5, 5, 1]]
    assert row["speaker_ids"] == [[0, 0, 0, 1, 0], [0, 1, 1, 0], [0, 2, 2, 2, 2, 0]]
    assert "speaker_ids" not in encode_document(STORY, TOKENIZER)
    silent = encode_document(STORY._replace(speakers=None), TOKENIZER, speakers=True)
    assert {number for part in silent["speaker_ids"] for number in part} == {0}


def test_every_word_of_a_document_counts_as_one_and_a_document_without_sentences_has_an_empty_one() -> None:
    # models find the ends of sentences by boundary tokens
    row = encode_document(STORY._replace(sentences=[["Ann", "</S>", "Bob"], ["<S>", "left"]], clusters=[]), TOKENIZER)
    unknown, begin, end = TOKENIZER.unk_token_id, TOKENIZER.bos_token_id, TOKENIZER.eos_token_id
    assert [ids[2 - place] for place, ids in enumerate(row["input_ids"])] == [unknown] * 2
    assert all((ids.count(begin), ids.count(end)) == (1, 1) for ids in row["input_ids"])

    empty = encode_document(Document("x", [], []), TOKENIZER, speakers=True)
    assert (empty["input_ids"], empty["speaker_ids"]) == ([[begin, end]], [[0, 0]])


def test_a_part_counts_its_own_words() -> None:
    row = {**encode_document(STORY, TOKENIZER), "bilm_layers": torch.arange(15.0)}

    part = cut_document(row, 1, 3)

    assert part["input_ids"] == row["input_ids"][1:]
    assert part["labels"] == [[0, 0, 0], [4, 4, 0], [2, 2, 1]]
    assert part["bilm_layers"].tolist() == list(range(5, 15))
    assert cut_document(row, 0, 9)["labels"] == row["labels"]


def test_an_epoch_reads_other_parts_than_the_last() -> None:
    torch.manual_seed(0)
    cut = CutDocuments([encode_document(STORY, TOKENIZER)], 2)

    parts = [cut[0]["input_ids"] for _ in range(20)]

    assert {len(part) for part in parts} == {2}
    assert {len(part[0]) for part in parts} == {4, 5}
    assert len(cut) == 1
    assert len(CutDocuments([encode_document(STORY, TOKENIZER)], 7)[0]["input_ids"]) == 3


def test_a_batch_is_padded_in_every_direction() -> None:
    other = Document("y", [["It", "rained", "in", "New", "York", "."]], [[(3, 4)]])
    empty = Document("z", [], [])
    rows = [encode_document(document, TOKENIZER) for document in (STORY, other, empty)]

    batch = DocumentCollator(TOKENIZER)(rows)

    assert batch["input_ids"].shape == batch["attention_mask"].shape == (3, 3, 8)
    assert batch["char_ids"].shape == (3, 3, 8, 50)
    assert batch["attention_mask"].sum(dim=2).tolist() == [[5, 4, 6], [8, 0, 0], [2, 0, 0]]
    assert batch["labels"].shape == (3, 5, 3)
    assert batch["labels"][1].tolist() == [[3, 4, 0], *[[-100] * 3] * 4]
    assert (batch["input_ids"][2, 1:] == TOKENIZER.pad_token_id).all()


def test_documents_are_split_into_rows_of_sentences() -> None:
    rows = [encode_document(STORY, TOKENIZER), encode_document(Document("z", [], []), TOKENIZER)]

    sentences = split_documents(rows)

    assert [set(each) for each in sentences] == [{"input_ids", "attention_mask", "char_ids"}] * 4
    assert [len(each["input_ids"]) for each in sentences] == [5, 4, 6, 2]
    assert np.array_equal(rows[0]["char_ids"][2], sentences[2]["char_ids"])
    assert not is_document(sentences[0])
    assert split_documents(sentences) is sentences
