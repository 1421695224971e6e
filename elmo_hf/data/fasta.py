"""Sequences of proteins, or of other chains of residues with one-letter codes, from FASTA files."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from elmo_hf.errors import ElmoError

from .corpus import Source, read_lines


# begin a record, and a comment in old files
HEADER, COMMENT = ">", ";"
# ends a sequence that was translated from nucleotides
STOP = "*"
NO_RESIDUE = re.compile("[^A-Za-z]")


class FastaRecord(NamedTuple):
    """A sequence and its name.

    Attributes:
        identifier: The first word of the header, such as `sp|P12345|AATM_RABIT`.
        sequence: The residues, one capital letter each.
        line: The number of the header's line, counted from 1.
    """

    identifier: str
    sequence: str
    line: int


def read_fasta(path: Source) -> Iterator[FastaRecord]:
    """Read the records of a FASTA file, one at a time.

    As in SeqVec, small letters become capital ones, and a sequence may stand on several lines and contain white space.
    Lines that begin with `;` are comments. A `*` at the end of a sequence is dropped. A file on disk is read twice:
    all errors are raised before the first record is returned.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.

    Raises:
        ElmoError: If there are no records, a record has no identifier, the identifier of another record, no residues,
            or a character in its sequence that is no letter, or the file cannot be read.
    """
    if Path(path).is_file():
        for _ in _check_identifiers(path, _read_records(path)):
            pass
        yield from _read_records(path)
    else:
        # standard input or a pipe, which can be read once
        yield from _check_identifiers(path, _read_records(path))


def _check_identifiers(path: Source, records: Iterable[FastaRecord]) -> Iterator[FastaRecord]:
    lines: dict[str, int] = {}
    for record in records:
        first = lines.setdefault(record.identifier, record.line)
        if first != record.line:
            raise ElmoError(
                f"{path}, line {record.line}: {record.identifier!r:.80} is the identifier of the record at line "
                f"{first}, too: rename or remove one of them."
            )
        yield record
    if not lines:
        raise ElmoError(f"{path} holds no sequences: a record begins with a line '>identifier'.")


def _read_records(path: Source) -> Iterator[FastaRecord]:
    header: FastaRecord | None = None
    pieces: list[str] = []
    for number, line in enumerate(read_lines(str(path)), start=1):
        if line.startswith(COMMENT) or not line.strip():
            continue
        if line.startswith(HEADER):
            if header is not None:
                yield _finish(path, header, pieces)
            header, pieces = _read_header(path, number, line), []
        elif header is None:
            raise ElmoError(
                f"{path}, line {number}: {line!r:.80} stands before the first record: begin with a line '>identifier'."
            )
        else:
            pieces += line.split()
    if header is not None:
        yield _finish(path, header, pieces)


def _read_header(path: Source, number: int, line: str) -> FastaRecord:
    words = line.removeprefix(HEADER).split(maxsplit=1)
    if not words:
        raise ElmoError(f"{path}, line {number}: the record has no identifier: write one behind the '>'.")
    return FastaRecord(words[0], "", number)


def _finish(path: Source, header: FastaRecord, pieces: list[str]) -> FastaRecord:
    """Return the record with its sequence."""
    sequence = "".join(pieces).removesuffix(STOP)
    record = f"{path}, line {header.line}: the record {header.identifier!r:.80}"
    if not sequence:
        raise ElmoError(f"{record} has no residues: complete or remove it.")
    # before `upper`, which makes ASCII letters of some others
    wrong = NO_RESIDUE.search(sequence)
    if wrong is not None:
        raise ElmoError(
            f"{record} has {wrong[0]!r} at position {wrong.start() + 1:,} of its sequence, and a residue is a letter: "
            "remove gaps, and write X for what is unknown."
        )
    return header._replace(sequence=sequence.upper())


__all__ = ["FastaRecord", "read_fasta"]
