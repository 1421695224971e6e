"""Documents with marked mentions as rows of a training: encode them, cut them, and make batches of them.

A row has the sentences of a document in lists, `input_ids` and what else the tokenizer returns, and `labels`, the
first word, the last word and the cluster of each mention.

Shape notation: `D` documents, `R` sentences, `T` words with boundary tokens, `M` mentions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from elmo_hf.data.coreference import Document
from elmo_hf.prediction.documents import number_speakers, readable_sentences


# padding of labels, which the loss ignores
NO_MENTION = -100

# what a row has for each sentence: the tokenizer's output, and the speakers
Row = Mapping[str, Any]


def encode_document(
    document: Document, tokenizer: PreTrainedTokenizerBase, *, speakers: bool = False
) -> dict[str, Any]:
    """Make of a document what the model reads.

    Args:
        document: The document.
        tokenizer: The tokenizer of the model.
        speakers: Whether the model reads speakers; they have numbers in the order of their first words.
    """
    # a document without sentences has an empty one, so that its row is like others
    document = document._replace(sentences=document.sentences or [[]])
    sentences = [dict(tokenizer(words, is_split_into_words=True)) for words in readable_sentences(document, tokenizer)]
    row: dict[str, Any] = {name: [sentence[name] for sentence in sentences] for name in tokenizer.model_input_names}
    if "char_ids" in row:
        # lists of numbers would take four times the memory
        row["char_ids"] = [np.array(ids, dtype=np.int32) for ids in row["char_ids"]]
    if speakers:
        row["speaker_ids"] = number_speakers(document)
    clusters = enumerate(document.clusters)
    row["labels"] = [[first, last, number] for number, cluster in clusters for first, last in cluster]
    return row


def split_documents(rows: Sequence[Row]) -> Sequence[Row]:
    """Return a row for each sentence of documents, without labels; rows of sentences as they are."""
    if not (rows and is_document(rows[0])):
        return rows
    return [
        dict(zip(names, parts, strict=True))
        for row in rows
        if (names := [name for name in row if name not in ("labels", "bilm_layers")])
        for parts in zip(*(row[name] for name in names), strict=True)
    ]


def is_document(row: Row) -> bool:
    """Return whether a row has the sentences of a document."""
    ids = row["input_ids"]
    return not len(ids) or isinstance(ids[0], (list, tuple))


class CutDocuments(torch.utils.data.Dataset[dict[str, Any]]):
    """Documents of which a training reads so many sentences at a time, others in each epoch.

    Args:
        rows: The documents.
        max_sentences: The most sentences to read of one; mentions in others are left out.
    """

    def __init__(self, rows: Sequence[Row], max_sentences: int) -> None:
        self.rows = rows
        self.max_sentences = max_sentences

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        row = self.rows[number]
        spare = len(row["input_ids"]) - self.max_sentences
        # torch's own random numbers, which Trainer saves and restores
        start = int(torch.randint(spare + 1, ())) if spare > 0 else 0
        return cut_document(row, start, start + self.max_sentences)


def cut_document(row: Row, start: int, end: int) -> dict[str, Any]:
    """Return the sentences from `start` up to `end` of a document, and the mentions in them."""
    lengths = [len(ids) for ids in row["input_ids"]]
    # the words of the text are those between two boundary tokens
    first, last = (sum(lengths[:place]) - 2 * len(lengths[:place]) for place in (start, end))
    cut = {name: value[start:end] for name, value in row.items() if name not in ("labels", "bilm_layers")}
    if "bilm_layers" in row:
        cut["bilm_layers"] = row["bilm_layers"][sum(lengths[:start]) : sum(lengths[:end])]
    inside = [label for label in row["labels"] if first <= label[0] and label[1] < last]
    return {**cut, "labels": [[label[0] - first, label[1] - first, label[2]] for label in inside]}


class DocumentCollator:
    """Pads documents to a batch, `[D, R, T]` with labels `[D, M, 3]`.

    Args:
        tokenizer: The tokenizer, which knows what padding is.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.padding = {"input_ids": tokenizer.pad_token_id or 0}

    def __call__(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        """Make a batch of rows, without layers."""
        count = max(len(row["input_ids"]) for row in rows)
        length = max((len(ids) for row in rows for ids in row["input_ids"]), default=0)
        batch = {}
        for name in rows[0]:
            if name != "labels":
                parts = [[np.asarray(part) for part in row[name]] for row in rows]
                batch[name] = pad_sentences(parts, count, length, self.padding.get(name, 0))
        labels = [torch.tensor(row["labels"], dtype=torch.long).reshape(-1, 3) for row in rows]
        batch["labels"] = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=NO_MENTION)
        return batch


def pad_sentences(parts: Sequence[Sequence[np.ndarray]], count: int, length: int, padding: int) -> torch.Tensor:
    """Pad the sentences of documents, `[T, ...]` each, to `[D, count, length, ...]`."""
    rest = next((part.shape[1:] for document in parts for part in document), ())
    padded = np.full((len(parts), count, length, *rest), padding, dtype=np.int64)
    for number, document in enumerate(parts):
        for place, part in enumerate(document):
            padded[number, place, : len(part)] = part
    return torch.from_numpy(padded)


__all__ = [
    "CutDocuments",
    "DocumentCollator",
    "cut_document",
    "encode_document",
    "is_document",
    "split_documents",
]
