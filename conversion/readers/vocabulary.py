"""Read a vocabulary as bilm-tf does: one word per line, whose number is its row.

Format: https://github.com/allenai/bilm-tf/blob/master/bilm/data.py, class `Vocabulary`.
"""

import gzip
import io
import zlib
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from .base import SPECIAL_WORDS, ConversionError
from .content import Kind


#: The one line without a row, from the vocabulary of the 1 Billion Word benchmark.
SKIPPED_LINE = "!!!MAXTERMID"

#: More than any vocabulary, 1 million words in the largest release, and less than a bomb.
MAX_BYTES = 1 << 26
MAX_WORDS = 2_000_000


def read_vocabulary(path: Path, *, kind: Kind, name: str) -> tuple[str, ...]:
    """Read the words, one for each row.

    White space around a word is stripped, as in bilm-tf. An empty or repeated line still takes a row. A byte order
    mark is removed; bilm-tf would make it part of the first word, which would then never be found.

    Args:
        path: Text or gzip of text, in UTF-8.
        kind: `TEXT` or `GZIP`.
        name: Its name in messages.

    Returns:
        The words in order.

    Raises:
        ConversionError: If it is damaged, is not UTF-8, or does not hold one word a line.
    """
    try:
        with gzip.open(path, "rb") if kind is Kind.GZIP else path.open("rb") as raw:
            words = _words(raw, name)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConversionError(f"{name}: the gzip data is damaged ({error}). Download it again.") from error
    except UnicodeDecodeError as error:
        raise ConversionError(
            f"{name} is not UTF-8 ({error.reason}, byte 0x{error.object[error.start]:02x}). Convert it to UTF-8 first."
        ) from error
    if len(words) > MAX_WORDS:
        raise ConversionError(f"{name} has more than {MAX_WORDS:,} lines: this is not a vocabulary.")
    if not any(words):
        raise ConversionError(f"{name} holds no words. Give the vocabulary as text, one word a line, or leave it out.")
    if 2 * sum(len(word.split()) > 1 for word in words) > len(words):
        raise ConversionError(
            f"{name} has lines of several words, so it is not a vocabulary. Give it one word a line."
        )
    return words


def _words(raw: BinaryIO | gzip.GzipFile, name: str) -> tuple[str, ...]:
    data = raw.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConversionError(f"{name} has more than {MAX_BYTES:,} bytes of text: this is not a vocabulary.")
    # universal newlines, as in a file opened by Python: CRLF and CR end a line, U+0085 and U+2028 do not
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig")
    words = (line.strip() for line in lines)
    return tuple(islice((word for word in words if word != SKIPPED_LINE), MAX_WORDS + 1))


__all__ = ["SKIPPED_LINE", "SPECIAL_WORDS", "read_vocabulary"]
