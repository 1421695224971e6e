"""`data.fasta` reads one record after the other, and names the line of whatever is no record."""

import bz2
import gzip
import lzma
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_hf.data.fasta import FastaRecord, read_fasta
from elmo_hf.errors import ElmoError


TEXT = """; a comment
>sp|P1|ONE_HUMAN The first protein OS=Homo sapiens
MKTAY iakqr
QISFV

> two
mk*
; another
>three/1-4
SEQX
*
"""
RECORDS = [
    FastaRecord("sp|P1|ONE_HUMAN", "MKTAYIAKQRQISFV", 2),
    FastaRecord("two", "MK", 6),
    FastaRecord("three/1-4", "SEQX", 9),
]


@pytest.mark.parametrize(
    "change",
    [str, lambda text: text.replace("\n", "\r\n"), lambda text: f"\ufeff{text.strip()}"],
    ids=["as it is", "CRLF", "byte order mark, no last line end"],
)
@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["plain", "gzip", "bzip2", "xz"]
)
def test_records_have_the_first_word_and_capital_letters(
    change: Callable[[str], str], compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "proteins.fasta"
    path.write_bytes(compress(change(TEXT).encode()))

    assert list(read_fasta(path)) == RECORDS


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=[TEXT])
    writer.start()

    assert list(read_fasta(path)) == RECORDS
    writer.join()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"holds no sequences: a record begins with a line '>identifier'"),
        ("; only a comment\n", r"holds no sequences"),
        ("\nMKT\n>a\nMKT\n", r", line 2: 'MKT' stands before the first record: begin with a line '>identifier'"),
        (">a\nMKT\n>  \nMKT\n", r", line 3: the record has no identifier: write one behind the '>'"),
        (">a\n>b\nMKT\n", r", line 1: the record 'a' has no residues: complete or remove it"),
        (">a\nMKT\n>b\n*\n", r", line 3: the record 'b' has no residues"),
        (
            ">a\nMKT\n>b\nMK\nT-MK\n",
            r", line 3: the record 'b' has '-' at position 4 of .*: remove gaps",
        ),
        (">a\nMK.T\n", r"has '\.' at position 3"),
        (">a\nMK*\nT\n", r"has '\*' at position 3"),
        (">a\nMK**\n", r"has '\*' at position 3"),
        (">a\n1 MKT 60\n", r"has '1' at position 1"),
        # a letter whose capital is S
        (">a\nMK\u017f\n", r"has '\u017f' at position 3"),
        (
            ">a x\nMKT\n>b\nMKT\n>a y\nSEQ\n",
            r", line 5: 'a' is the identifier of the record at line 1, too: rename",
        ),
    ],
)
def test_what_is_no_record_is_named_before_the_first_one(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "proteins.fasta"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ElmoError, match=rf"proteins\.fasta.*{message}"):
        next(read_fasta(path))
