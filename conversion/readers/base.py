"""Define what a reader returns: the unchanged arrays of an original checkpoint under their original names."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from elmo_hf.errors import ElmoError, counted

from .content import Kind


#: Bytes read at a time where a file is hashed or copied.
CHUNK = 1 << 20

#: The special words of a language model, in the order in which missing ones are appended.
SPECIAL_WORDS = ("<S>", "</S>", "<UNK>")

#: The reason for leaving an array out, in messages.
NOT_OF_BILM = "are not part of the biLM"


class ConversionError(ElmoError):
    """Raised for an original that cannot be converted; the message is one line that names file, array and remedy."""


class SelectionError(ConversionError):
    """Raised for files that may be intact, but are not one model: a part is missing, or you have to choose one."""


@dataclass(frozen=True)
class InputFile:
    """One file that the user gave, or that was found in the folder or archive that the user gave.

    Attributes:
        name: Its name in messages and in the provenance: `model.hdf5`, or `195.zip/model.hdf5`.
        kind: The kind that its first bytes show.
        path: Its path; `None` for an archive member of a kind that no reader reads.
        explicit: Whether the user named this file, so that leaving it out is an error.
        url: The link that it was downloaded from.
        archive: The archive that it was taken from.
    """

    name: str
    kind: Kind
    path: Path | None
    explicit: bool = True
    url: str | None = None
    archive: "InputFile | None" = None

    @property
    def basename(self) -> str:
        """The last part of the name, in lower case."""
        return self.name.rsplit("/", 1)[-1].lower()

    @property
    def location(self) -> Path:
        """The path of a file whose bytes are at hand.

        Raises:
            ConversionError: If this is a member that was left in its archive.
        """
        if self.path is None:
            raise ConversionError(f"{self.name} ({self.kind.value}) is not of a kind that is read from an archive.")
        return self.path


@dataclass(frozen=True)
class SourceFile:
    """A file that a checkpoint was made of, as the provenance keeps it.

    Attributes:
        name: Its name in messages.
        size: Its size in bytes.
        sha256: Its hash.
        url: The link that it was downloaded from.
        path: Where it is.
        changed: When it was last written, in nanoseconds.
    """

    name: str
    size: int
    sha256: str
    url: str | None = None
    path: Path | None = field(default=None, repr=False, compare=False)
    changed: int = field(default=0, repr=False, compare=False)


@dataclass(frozen=True)
class OriginalArray:
    """An array on disk, whose shape is known and whose numbers are read on demand.

    Attributes:
        shape: The shape in the file.
        read: Reads it as a new float32 array; raises `ConversionError` if a number is not finite.
    """

    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


@dataclass(frozen=True)
class Tables:
    """The embedding tables of a format.

    Attributes:
        characters: The name of the array with a row for each character.
        words: The name of the array with a row for each word.
        padded: Whether the table of characters has a row for padding.
    """

    characters: str
    words: str
    padded: bool = False


@dataclass(frozen=True)
class Softmax:
    """The softmax of a language model.

    Attributes:
        weight: The name of the array `[V, P]`; absent where the table of words takes its place.
        bias: The name of the array `[V]`.
    """

    weight: str
    bias: str


@dataclass(frozen=True)
class Sizes:
    """The sizes of a biLM over characters, as its arrays show them.

    Attributes:
        char_embedding: The width of a character's vector.
        char_filters: The convolutions, each as `(width, number)`.
        num_highway_layers: The number of highway layers.
        cell: The width of an LSTM cell.
        projection: The width that an LSTM's output is projected to.
        num_layers: The number of biLSTM layers.
    """

    char_embedding: int
    char_filters: tuple[tuple[int, int], ...]
    num_highway_layers: int
    cell: int
    projection: int
    num_layers: int


@dataclass
class OriginalCheckpoint:
    """A checkpoint in its original layout. A context manager: the files stay open until it is closed.

    Nothing is renamed, transposed or shifted here: that is `conversion.mapping`.

    Attributes:
        format: The name of the format, such as `bilm-hdf5`.
        options: The original options, whole.
        arrays: The arrays by their original names.
        weights_name: How messages call the file of the arrays.
        options_name: How messages call the file of the options.
        sources: The files that were read.
        tables: The names of its embedding tables.
        sizes: The sizes of its arrays, where it comes without options.
        softmax: The names of its softmax, where it has one.
        mix: The name of its layer mix, such as `scalar_mix_0`, where it has one.
        alignment: The name of the array that aligns its language with others, where it has one.
        special_words: Its words for the beginning and the end of a sentence and for unknown words.
        vocabulary: The words, one for each row of the vocabulary, or `None` where there is none.
        vocabulary_name: How messages call the file of the vocabulary.
        characters: The number of each character, where the model does not read bytes.
        characters_name: How messages call the file of the characters.
        left: Names of what the files hold beside the model, such as a softmax, and what is not read.
        left_name: How messages call the file of what is left, where it is not that of the arrays.
        left_reason: Why it is left, as the end of "these arrays ...".
        chosen: What was taken of several models in one file, for the provenance.
        resources: Open files and temporary folders.
    """

    format: str
    options: dict[str, Any]
    arrays: Mapping[str, OriginalArray]
    weights_name: str
    options_name: str
    sources: tuple[SourceFile, ...]
    tables: Tables
    sizes: Sizes | None = None
    softmax: Softmax | None = None
    mix: str | None = None
    alignment: str | None = None
    special_words: tuple[str, str, str] = SPECIAL_WORDS
    vocabulary: tuple[str, ...] | None = None
    vocabulary_name: str | None = None
    characters: Mapping[str, int] | None = None
    characters_name: str | None = None
    left: tuple[str, ...] = ()
    left_name: str | None = None
    left_reason: str = NOT_OF_BILM
    chosen: Mapping[str, Any] = field(default_factory=dict)
    resources: ExitStack = field(default_factory=ExitStack, repr=False)

    def shape_of(self, name: str, axes: int) -> tuple[int, ...]:
        """Return the shape of an array that must be there, with this number of axes.

        Raises:
            ConversionError: If it is missing, or has another number of axes.
        """
        array = self.arrays.get(name)
        if array is None or len(array.shape) != axes:
            shape = "missing" if array is None else f"of shape {array.shape}"
            raise ConversionError(
                f"{self.weights_name}: array {name} is {shape}, {self.options_name} calls for "
                f"{'a matrix' if axes == 2 else f'{axes} axes'}. Give the options of this model."
            )
        return array.shape

    def count(self, pattern: str) -> int:
        """Count the arrays that are numbered from 0, such as `CNN/W_cnn_{}`."""
        return next(number for number in count() if pattern.format(number) not in self.arrays)

    def check_unchanged(self) -> None:
        """Refuse sources that were written to after they were hashed.

        Raises:
            ConversionError: If one was: its arrays may be of two models.
        """
        for source in self.sources:
            if source.path is None:
                continue
            found = source.path.stat()
            if (found.st_size, found.st_mtime_ns) != (source.size, source.changed):
                raise ConversionError(f"{source.name} changed while it was read. Convert it when it is whole.")

    def close(self) -> None:
        """Close the files and remove the temporary folders."""
        self.resources.close()

    def __enter__(self) -> "OriginalCheckpoint":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # pass the error on, so that a refused download is removed
        self.resources.__exit__(kind, error, traceback)


@dataclass(frozen=True)
class Choice:
    """The user's choice among several models in one file.

    Attributes:
        mix: The number of the mix of layers, counted from 0.
        language: The language of a model of several.
    """

    mix: int | None = None
    language: str | None = None


@dataclass(frozen=True)
class Reader:
    """One original format.

    Attributes:
        format: Its name in the provenance.
        recognises: Returns the files that hold weights of this format, by their content.
        read: Reads a checkpoint, given the files, the stack that keeps files open, and the user's choice.
    """

    format: str
    recognises: Callable[[list[InputFile]], list[InputFile]]
    read: Callable[[list[InputFile], ExitStack, Choice], OriginalCheckpoint]


@dataclass(frozen=True)
class Refusal:
    """A known kind of file that cannot be converted.

    Attributes:
        culprit: Finds it among the files.
        message: One line; `{name}` stands for the name of the culprit.
    """

    culprit: Callable[[list[InputFile]], InputFile | None]
    message: str


def without_choice(
    read: Callable[[list[InputFile], ExitStack], OriginalCheckpoint],
) -> Callable[[list[InputFile], ExitStack, Choice], OriginalCheckpoint]:
    """Make the `Reader.read` of a format with one model per file."""

    def read_the_only(files: list[InputFile], resources: ExitStack, choice: Choice) -> OriginalCheckpoint:
        checkpoint = read(files, resources)
        if choice != Choice():
            option = "--mix" if choice.mix is not None else "--language"
            raise SelectionError(
                f"{checkpoint.weights_name} holds one model without a trained mix: leave {option} out."
            )
        return checkpoint

    return read_the_only


def source_files(files: list[InputFile]) -> tuple[SourceFile, ...]:
    """Return size and hash of each file that was used, an archive before its first member."""
    used: list[InputFile] = []
    for file in files:
        if file.archive is not None and file.archive not in used:
            used.append(file.archive)
        used.append(file)
    return tuple(map(_source_file, used))


def _source_file(file: InputFile) -> SourceFile:
    found = file.location.stat()
    return SourceFile(
        file.name, found.st_size, sha256(file.location), file.url, path=file.location, changed=found.st_mtime_ns
    )


def sha256(path: Path) -> str:
    """Hash a file of any size in constant memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def printable(name: str) -> str:
    """Replace line breaks and control codes, which names inside archives can hold."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)


def describe(files: list[InputFile]) -> str:
    """List the files with the kind of each, for a message."""
    shown = ", ".join(f"{file.name} ({file.kind.value})" for file in files[:8])
    return f"{shown} and {len(files) - 8} more" if len(files) > 8 else shown


__all__ = [
    "NOT_OF_BILM",
    "SPECIAL_WORDS",
    "Choice",
    "ConversionError",
    "InputFile",
    "OriginalArray",
    "OriginalCheckpoint",
    "Reader",
    "Refusal",
    "SelectionError",
    "Sizes",
    "Softmax",
    "SourceFile",
    "Tables",
    "counted",
    "describe",
    "printable",
    "sha256",
    "source_files",
    "without_choice",
]
