"""Documents whose mentions of the same thing are marked: JSON Lines, the files of CoNLL-2012, and data sets by name.

A mention is the numbers of its first and its last word, counted from 0 over all words of the document. A cluster is
the mentions of one thing.
"""

import json
import logging
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple, TextIO, TypeAlias

from elmo_hf.errors import ElmoError

from .columns import is_cell, split_cells
from .corpus import Source, read_lines
from .named_datasets import load_split
from .tagged import END, FIRST_ROLES, WORD_COLUMN


# the numbers of the first and the last word
Mention: TypeAlias = tuple[int, int]
Cluster: TypeAlias = list[Mention]

# the first line of a document of CoNLL-2012
BEGIN = re.compile(r"#begin document\b\s*\(?(.*?)\)?(?:;\s*part\s*(\d+))?\s*$")
# the column of speakers of CoNLL-2012; smaller files lack it, and have the words in the usual one
SPEAKER_COLUMN = 9
NOTHING = {"-", "_", "*"}
PART_OF_MENTION = re.compile(r"(\()?([^()|\s]+)(\))?")

# the names of the field with the name of a document
NAME_FIELDS = ("doc", "doc_key", "id")

logger = logging.getLogger(__name__)


class Document(NamedTuple):
    """A document.

    Attributes:
        name: Its name.
        sentences: The words of each sentence.
        clusters: The mentions of each thing in the order of the text; the clusters are in the order of their first
            mentions.
        speakers: The speaker of each word, sentence by sentence; `None` if they are not known.
        part: The number of this part of a longer document, as in CoNLL-2012.
    """

    name: str
    sentences: list[list[str]]
    clusters: list[Cluster]
    speakers: list[list[str]] | None = None
    part: int = 0

    @property
    def words(self) -> list[str]:
        """All words, which mentions are counted in."""
        return [word for sentence in self.sentences for word in sentence]


def read_documents(path: Source, lines: Iterable[str] | None = None) -> list[Document]:
    """Read documents from the files of CoNLL-2012, or from JSON Lines with a document on each line.

    A line of JSON has `sentences`, a list of words each, and `clusters`, lists of mentions `[first, last]`; it may
    have a name, `doc` or `doc_key`, `speakers` of the words, and `part`. In place of `clusters` it may have PreCo's
    `mention_clusters`, with mentions `[sentence, first, end]`. Clusters that share a mention become one.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.
        lines: Its lines, if you read it already.

    Raises:
        ElmoError: If the file cannot be read, holds no documents, or a document is not whole.
    """
    numbered = enumerate(read_lines(str(path)) if lines is None else lines, start=1)
    # the first line shows the format
    head = next(((number, line) for number, line in numbered if line.strip()), (1, ""))
    if head[1].lstrip().startswith(("{", "[")):
        documents = list(_read_json(path, chain([head], numbered)))
    else:
        documents = list(_read_conll(path, chain([head], numbered)))
    if not documents:
        raise ElmoError(f"{path} holds no documents: give CoNLL-2012 columns, or JSON Lines with sentences.")
    return documents


def _read_json(path: Source, lines: Iterable[tuple[int, str]]) -> Iterator[Document]:
    """Read the documents of a file that has a record on each line."""
    for number, line in lines:
        if line.strip():
            try:
                yield document_of(json.loads(line), number)
            except (ValueError, RecursionError) as error:
                raise ElmoError(f"{path}, line {number}: not JSON ({error}): give a document a line.") from error
            except ElmoError as error:
                raise ElmoError(f"{path}, line {number}: {error}") from error


def load_documents(name: str, split: str, *, config: str | None = None) -> list[Document]:
    """Load documents of a data set with the library datasets, with the fields that `read_documents` reads.

    Args:
        name: The name on the Hub, or a folder.
        split: The name of the split, such as `"train"`.
        config: The configuration of the data set, if it has several.

    Raises:
        ElmoError: If there is no such data set or split, or a document is not whole.
    """
    documents = []
    for number, record in enumerate(load_split(name, config, split), start=1):
        try:
            documents.append(document_of(record, number))
        except ElmoError as error:
            raise ElmoError(f"{name}, {split}, record {number}: {error}") from error
    if not documents:
        raise ElmoError(f"{name}, {split}: there are no documents: choose another split.")
    return documents


def document_of(record: Mapping[str, Any], number: int) -> Document:
    """Make a document of a record.

    Args:
        record: With `sentences`, and what else `read_documents` reads; without `clusters`, there are none.
        number: The name of a document without one.

    Raises:
        ElmoError: If a field is not what it should be.
    """
    sentences = record.get("sentences") if isinstance(record, Mapping) else None
    if not _are_lists_of_words(sentences):
        raise ElmoError(f"sentences is {sentences!r:.80}: give a list of sentences, each a list of words.")
    speakers = record.get("speakers")
    if speakers is not None and (
        not _are_lists_of_words(speakers) or [*map(len, speakers)] != [*map(len, sentences)]  # type: ignore[arg-type]
    ):
        raise ElmoError("speakers are not one for each word: give as many lists as sentences, each as long.")
    name = next((str(record[field]) for field in NAME_FIELDS if record.get(field) is not None), str(number))
    part = record.get("part", 0)
    if type(part) is not int or part < 0:
        raise ElmoError(f"part is {part!r:.80}: give a number from 0.")
    length = sum(map(len, sentences))  # type: ignore[arg-type]
    given = record.get("clusters")
    if given is None:
        given = _clusters_of_preco(record.get("mention_clusters", []), sentences)  # type: ignore[arg-type]  # checked
    clusters = merge_clusters(_checked_clusters(given, length), name)
    return Document(name, sentences, clusters, speakers, part)  # type: ignore[arg-type]  # checked above


def _are_lists_of_words(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(part, list) and all(isinstance(word, str) for word in part) for part in value
    )


def _checked_clusters(given: Any, length: int) -> list[Cluster]:
    if not isinstance(given, list) or not all(isinstance(cluster, list) for cluster in given):
        raise ElmoError(f"clusters is {given!r:.80}: give lists of mentions, each [first, last].")
    for mention in (mention for cluster in given for mention in cluster):
        whole = isinstance(mention, (list, tuple)) and [type(place) for place in mention] == [int, int]
        if not whole or not 0 <= mention[0] <= mention[1] < length:
            raise ElmoError(
                f"the mention {mention!r:.80} is not [first, last], words of the document counted from 0 to "
                f"{length - 1}: correct it."
            )
    return [[(first, last) for first, last in cluster] for cluster in given]


def _clusters_of_preco(given: Any, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
    """Count the mentions `[sentence, first, end]` over the document, as `[first, last]`.

    Raises:
        ElmoError: If a mention is not in a sentence.
    """
    lengths = list(map(len, sentences))
    starts = list(accumulate(lengths, initial=0))
    try:
        mentions = [[tuple(map(operator.index, mention)) for mention in cluster] for cluster in given]
        for number, first, end in chain(*mentions):
            if not (0 <= number < len(lengths) and 0 <= first < end <= lengths[number]):
                raise ElmoError(f"the mention {[number, first, end]} is not in its sentence: correct it.")
    except (TypeError, ValueError) as error:
        raise ElmoError(
            f"mention_clusters is {given!r:.80}: give lists of mentions, each [sentence, first, end]."
        ) from error
    return [[[starts[number] + first, starts[number] + end - 1] for number, first, end in part] for part in mentions]


def merge_clusters(clusters: Iterable[Iterable[Mention]], name: str) -> list[Cluster]:
    """Bring clusters into their order, those that share a mention as one, without empty ones.

    Args:
        clusters: The mentions of each cluster, in any order.
        name: The name of the document, for the warning if clusters become one.
    """
    merged: list[set[Mention]] = []
    for cluster in clusters:
        new = set(cluster)
        shared = [known for known in merged if known & new]
        if shared:
            logger.warning("%s: clusters that share a mention are read as one.", name)
        merged = [known for known in merged if not known & new]
        merged.append(new.union(*shared))
    return sorted((sorted(cluster) for cluster in merged if cluster), key=lambda cluster: cluster[0])


def drop_singletons(document: Document) -> Document:
    """Return a document without the clusters that have one mention, which OntoNotes does not mark."""
    return document._replace(clusters=[cluster for cluster in document.clusters if len(cluster) > 1])


def _read_conll(path: Source, lines: Iterable[tuple[int, str]]) -> Iterator[Document]:
    """Read the documents of a file in columns."""
    reader: _ConllDocument | None = None
    number = 0
    for number, line in lines:
        try:
            if match := BEGIN.match(line):
                if reader is not None:
                    raise ElmoError(f"a document begins before the last one has ended: add {END}.")
                reader = _ConllDocument(match[1], int(match[2] or 0))
            elif line.startswith(END) and reader is not None:
                yield reader.finish()
                reader = None
            elif reader is not None:
                reader.add(line)
            elif line.strip() and not line.startswith("#"):
                raise ElmoError(f"{line!r:.80} stands in no document: begin it with #begin document.")
        except ElmoError as error:
            raise ElmoError(f"{path}, line {number}: {error}") from error
    if reader is not None:
        raise ElmoError(f"{path}, line {number}: the last document does not end: add {END}.")


class _ConllDocument:
    """Collects the lines of a document in columns."""

    def __init__(self, name: str, part: int) -> None:
        self.name = name
        self.part = part
        self.sentences: list[list[str]] = [[]]
        self.speakers: list[list[str]] = [[]]
        self.length = 0
        # where the mentions of each cluster that are not closed yet begin
        self.open: dict[str, list[int]] = {}
        self.clusters: dict[str, list[Mention]] = {}

    def add(self, line: str) -> None:
        """Read a line: a word, or the end of a sentence."""
        cells = split_cells(line)
        if not cells or line.startswith("#"):
            if self.sentences[-1]:
                self.sentences.append([])
                self.speakers.append([])
            return
        if len(cells) <= WORD_COLUMN + 1:
            raise ElmoError(
                f"{line!r:.80} does not have the columns of CoNLL-2012: the word is the {WORD_COLUMN + 1}th, and "
                "coreference the last."
            )
        self.sentences[-1].append(cells[WORD_COLUMN])
        self.speakers[-1].append(cells[SPEAKER_COLUMN] if len(cells) > FIRST_ROLES else "-")
        if cells[-1] not in NOTHING:
            self._mark(cells[-1])
        self.length += 1

    def _mark(self, cell: str) -> None:
        for part in cell.split("|"):
            match = PART_OF_MENTION.fullmatch(part)
            if match is None or not (match[1] or match[3]):
                raise ElmoError(f"{cell!r:.80} marks no mentions: give such as (3, 3), (3) or (3|(7), or - for none.")
            begins, cluster, ends = match.groups()
            if begins:
                self.open.setdefault(cluster, []).append(self.length)
            if ends:
                if not self.open.get(cluster):
                    raise ElmoError(f"a mention of {cluster} ends with {cell!r:.80} that has not begun: correct it.")
                # mentions of a cluster nest, so that the last one ends first
                self.clusters.setdefault(cluster, []).append((self.open[cluster].pop(), self.length))

    def finish(self) -> Document:
        """Return the document.

        Raises:
            ElmoError: If a mention has no end.
        """
        left = next((cluster for cluster, begins in self.open.items() if begins), None)
        if left is not None:
            raise ElmoError(f"a mention of {left} in {self.name} has no end: correct it.")
        known = any(speaker != "-" for part in self.speakers for speaker in part)
        return Document(
            self.name,
            [sentence for sentence in self.sentences if sentence],
            merge_clusters(self.clusters.values(), self.name),
            [part for part in self.speakers if part] if known else None,
            self.part,
        )


def write_json_documents(documents: Iterable[Document], file: TextIO) -> None:
    """Write documents as JSON Lines, which `read_documents` reads.

    Args:
        documents: The documents.
        file: The open file.
    """
    for document in documents:
        record: dict[str, Any] = {"doc": document.name, "sentences": document.sentences}
        record |= {"part": document.part} if document.part else {}
        record |= {"speakers": document.speakers} if document.speakers else {}
        file.write(f"{json.dumps({**record, 'clusters': document.clusters}, ensure_ascii=False)}\n")


def write_conll_documents(documents: Iterable[Document], file: TextIO) -> None:
    """Write documents in the columns of CoNLL-2012, as its scorer reads them; columns that are not known have `-`.

    Args:
        documents: The documents.
        file: The open file.

    Raises:
        ElmoError: If a word or a name cannot stand in a column, or mentions of a cluster cross each other.
    """
    for document in documents:
        _check_nesting(document)
        file.write(f"#begin document ({_checked_cell(document.name, spaces=True)}); part {document.part:03d}\n")
        marks = _marks_of(document)
        place = 0
        for number, sentence in enumerate(document.sentences):
            for index, word in enumerate(sentence):
                speaker = document.speakers[number][index] if document.speakers else "-"
                # a line that begins with # is a comment
                name = re.sub(r"^#|\s", "_", document.name)
                cells = [name, document.part, index, _checked_cell(word)]
                cells += ["-"] * 5 + [re.sub(r"\s", "_", speaker) or "-", "-", marks.get(place, "-")]
                file.write("\t".join(map(str, cells)) + "\n")
                place += 1
            file.write("\n")
        file.write(f"{END}\n")


def _check_nesting(document: Document) -> None:
    """Refuse mentions of a cluster of which one begins in another and ends behind it: columns read them as nested."""
    for cluster in document.clusters:
        ends: list[int] = []
        for first, last in sorted(cluster, key=lambda mention: (mention[0], -mention[1])):
            while ends and ends[-1] < first:
                ends.pop()
            if ends and ends[-1] < last:
                raise ElmoError(
                    f"{document.name} has a mention, {[first, last]}, that crosses another one of its cluster, which "
                    "columns cannot: choose JSON Lines."
                )
            ends.append(last)


def _marks_of(document: Document) -> dict[int, str]:
    """Return what the column of coreference has at each word where a mention begins or ends."""
    marks: dict[int, list[str]] = {}
    spans = [(first, last, number) for number, part in enumerate(document.clusters) for first, last in part]
    # outer mentions begin first and end last
    for first, last, number in sorted(spans, key=lambda span: (span[0], -span[1])):
        marks.setdefault(first, []).append(f"({number})" if first == last else f"({number}")
    for first, last, number in sorted(spans, key=lambda span: -span[0]):
        if first != last:
            marks.setdefault(last, []).append(f"{number})")
    return {place: "|".join(parts) for place, parts in marks.items()}


def _checked_cell(text: str, *, spaces: bool = False) -> str:
    if not (is_cell(text) or (spaces and text and "\n" not in text)):
        raise ElmoError(f"{text!r:.80} cannot stand in a column: choose JSON Lines.")
    return text


__all__ = [
    "BEGIN",
    "NAME_FIELDS",
    "Cluster",
    "Document",
    "Mention",
    "document_of",
    "drop_singletons",
    "load_documents",
    "merge_clusters",
    "read_documents",
    "write_conll_documents",
    "write_json_documents",
]
