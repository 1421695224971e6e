"""Resolve coreference in whole documents, from raw text or words, and decide GAP's pronouns by it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf.data.columns import TEXT_COLUMNS, choose_column
from elmo_hf.data.coreference import Cluster, Document, document_of
from elmo_hf.data.gap import Name, Pronoun
from elmo_hf.data.records import checked_text
from elmo_hf.data.segmentation import SentenceSplitter
from elmo_hf.embedding.sentences import Sentence, read_sentence
from elmo_hf.embedding.vectors import Progress, explaining_lack_of_memory
from elmo_hf.errors import ElmoError

from .inputs import Example, InputError, plain_record
from .tasks import Coreference, Result, make_task, rename_given


# a text, the words of each sentence, a record with either, or a document with its speakers
DocumentInput: TypeAlias = str | Sequence[Sequence[str]] | Mapping[str, Any] | Document


class ReadDocument(NamedTuple):
    """A document as the model reads it.

    Attributes:
        fields: What its result begins with: the fields of a record.
        document: The words of its sentences, and the speakers.
        text: The text; that of mere words is the words joined by spaces, and the sentences by the ends of lines.
        offsets: Where each word begins and ends in the text, counted in characters.
    """

    fields: dict[str, Any]
    document: Document
    text: str
    offsets: list[tuple[int, int]]


def resolve(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    documents: Iterable[DocumentInput],
    *,
    splitter: SentenceSplitter | None = None,
    text_field: str | None = None,
    tokenized: bool = False,
    progress: Progress | None = None,
) -> Iterator[Result]:
    """Find the mentions of the same thing in documents.

    Args:
        model: An `ElmoForCoreferenceResolution` in evaluation mode, on any device; `load` loads one.
        tokenizer: The tokenizer of the model.
        documents: Each a text, a list of sentences, which are lists of words, a record with `sentences` or a text, or
            a `Document`.
        splitter: Splits texts into sentences; without it, each line of a text is a sentence.
        text_field: The field of the text in records; by default the first of the usual names.
        tokenized: Split texts into words at white space only.
        progress: Receives the number of documents after each.

    Yields:
        For each document the fields of its record, `text`, `sentences`, lists of words, and:

        * `clusters`: for each thing the first and the last word of each of its mentions, counted from 0 over the
          document;
        * `mentions`: the same with `text`, and `start` and `end`, counted in characters of the document's text.

        Fields of a record that have these names are renamed: `clusters` to `given_clusters`.

    Raises:
        ElmoError: If the model is for another task or, when the iterator comes to it, a document is none.
        ValueError: If the model is in training mode.
    """
    task = make_task(model)
    if not isinstance(task, Coreference):
        raise ElmoError(f"{type(model).__name__} resolves no coreference: load an ElmoForCoreferenceResolution.")
    if model.training:
        raise ValueError("The model is in training mode, where answers may be random: call `model.eval()` first.")
    reader = DocumentReader(tokenizer, splitter=splitter, text_field=text_field, tokenized=tokenized)
    if isinstance(documents, (str, Mapping)):
        raise ElmoError("One document is given in place of a list of documents: put it in a list.")
    return _resolve(model, tokenizer, task, map(reader.read_numbered, enumerate(documents, start=1)), progress)


def _resolve(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    task: Coreference,
    documents: Iterable[ReadDocument],
    progress: Progress | None,
) -> Iterator[Result]:
    for read in documents:
        clusters = find_clusters(model, tokenizer, task, read.document)
        mentions = [[_show(read, first, last) for first, last in cluster] for cluster in clusters]
        found = [[[first, last] for first, last in cluster] for cluster in clusters]
        fields = {name: value for name, value in read.fields.items() if name not in ("text", "sentences")}
        result = {"text": read.text, "sentences": read.document.sentences, "clusters": found, "mentions": mentions}
        yield rename_given(fields, result) | result
        if progress is not None:
            progress(1)


def _show(read: ReadDocument, first: int, last: int) -> Result:
    start, end = read.offsets[first][0], read.offsets[last][1]
    return {"text": read.text[start:end], "start": start, "end": end}


@torch.inference_mode()
def find_clusters(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Coreference, document: Document
) -> list[Cluster]:
    """Return the clusters of a document."""
    if not any(document.sentences):
        return []
    sentences = readable_sentences(document, tokenizer)
    with explaining_lack_of_memory([len(words) + 2 for words in sentences]):
        batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
        if task.use_speakers:
            length = batch["input_ids"].shape[1]
            padded = [numbers + [0] * (length - len(numbers)) for numbers in number_speakers(document)]
            batch["speaker_ids"] = torch.tensor(padded)
        return task.compute(model, batch.to(model.device))[0]


def readable_sentences(document: Document, tokenizer: PreTrainedTokenizerBase) -> list[list[str]]:
    """Return the words of each sentence, with the unknown word in place of boundary tokens.

    By these, models find the ends of sentences: with one inside a sentence, they would count its words otherwise.
    """
    unreadable = dict.fromkeys((tokenizer.bos_token, tokenizer.eos_token), tokenizer.unk_token)
    return [[unreadable.get(word, word) for word in words] for words in document.sentences]


def number_speakers(document: Document) -> list[list[int]]:
    """Return a number for the speaker of each word of each sentence, from the first on, and 0 at boundary tokens."""
    given = document.speakers or [[""] * len(words) for words in document.sentences]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for part in given for name in part))}
    return [[0, *(numbers[name] for name in part), 0] for part in given]


class DocumentReader:
    """Splits documents into sentences and words; arguments as for `resolve`."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        splitter: SentenceSplitter | None = None,
        text_field: str | None = None,
        tokenized: bool = False,
    ) -> None:
        self.tokenizer = tokenizer
        self.splitter = splitter
        self.text_field = text_field
        self.tokenized = tokenized

    def read_numbered(self, numbered: tuple[int, DocumentInput]) -> ReadDocument:
        """Read a document, whose number stands in the error.

        Raises:
            InputError: If it has not what the model reads.
        """
        number, given = numbered
        try:
            return self.read(given, number)
        except ElmoError as error:
            raise InputError(number, str(error)) from error

    def read(self, given: DocumentInput, number: int = 1) -> ReadDocument:
        """Read a document; one without a name is called by its number.

        Raises:
            ElmoError: If it has not what the model reads.
        """
        if isinstance(given, str):
            return self._read_text({}, given, str(number))
        if isinstance(given, Document):
            # what else a file in columns has of a document
            part = {"part": given.part} if given.part else {}
            speakers = {"speakers": given.speakers} if given.speakers else {}
            return self._read_words({"doc": given.name, **part, **speakers}, given)
        if not isinstance(given, Mapping):
            return self._read_words({}, document_of({"sentences": [_as_list(words) for words in given]}, number))
        given = plain_record(given)
        if "sentences" in given and self.text_field is None:
            # clusters that are marked stay as they are
            return self._read_words(given, document_of({**given, "clusters": None}, number))
        usual = (self.text_field,) if self.text_field else tuple(TEXT_COLUMNS)
        name = choose_column(list(given), usual, "text")
        text = checked_text(name, given[name])
        if not isinstance(text, str):
            raise ElmoError(f"{name} is a list of words: give a text, or sentences, each a list of words.")
        fields = {key: value for key, value in given.items() if key != name}
        return self._read_text(fields, text, str(given.get("id", number)))

    def _read_text(self, fields: dict[str, Any], text: str, name: str) -> ReadDocument:
        lines = text.splitlines()
        parts = lines if self.splitter is None else [part for _, part in self.splitter.read(lines)]
        sentences = [words for part in parts if (words := self._split(part))]
        # the words are looked for in the text, wherever lines end
        whole = Sentence(text, [word for words in sentences for word in words])
        return ReadDocument(fields, Document(name, sentences, []), text, Example({}, whole, []).offsets())

    def _split(self, text: str) -> list[str]:
        return text.split() if self.tokenized else read_sentence(text, self.tokenizer).words

    def _read_words(self, fields: dict[str, Any], document: Document) -> ReadDocument:
        text = "\n".join(" ".join(words) for words in document.sentences)
        offsets, end = [], 0
        for words in document.sentences:
            for word in words:
                offsets.append((end, end + len(word)))
                end += len(word) + 1
            # a sentence without words has a line, too
            end += not words
        return ReadDocument(fields, document, text, offsets)


def _as_list(words: Any) -> Any:
    # a string is no list of its letters
    return words if isinstance(words, str) else list(words)


def resolve_gap(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    examples: Iterable[Pronoun],
    *,
    splitter: SentenceSplitter | None = None,
) -> dict[str, tuple[bool, bool]]:
    """Decide for GAP's pronouns which of two names they stand for, for `score_gap`.

    A pronoun stands for a name if its cluster has a mention that is the name, or a part of it, such as the last name
    alone.

    Args:
        model: As for `resolve`.
        tokenizer: As for `resolve`.
        examples: The examples, from `read_gap`.
        splitter: Splits the texts, which are paragraphs, into sentences; without it, a text is one sentence.

    Returns:
        For each example by its key, whether the pronoun stands for A, and for B.
    """
    examples = list(examples)
    results = resolve(model, tokenizer, [example.text for example in examples], splitter=splitter)
    return {example.key: _decide(example, result) for example, result in zip(examples, results, strict=True)}


def _decide(example: Pronoun, result: Result) -> tuple[bool, bool]:
    start, end = example.start, example.start + len(example.pronoun)
    clusters = result["mentions"]
    own = [cluster for cluster in clusters if any((part["start"], part["end"]) == (start, end) for part in cluster)]

    def is_meant(name: Name) -> bool:
        return any(
            name.start <= part["start"] and part["end"] <= name.start + len(name.text)
            for cluster in own
            for part in cluster
        )

    first, second = example.names
    return is_meant(first), is_meant(second)


__all__ = [
    "DocumentInput",
    "DocumentReader",
    "find_clusters",
    "number_speakers",
    "readable_sentences",
    "resolve",
    "resolve_gap",
]
