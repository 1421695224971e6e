"""What the commands share: what they show on a terminal and keep from it."""

import argparse
import contextlib
import logging
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from typing import Any, TypeAlias

from elmo_hf.bundled import ELMO_TINY_EN, model_folder


# argparse does not export the type of what add_subparsers returns
Commands: TypeAlias = Any


class _HeldBack(logging.Handler):
    """Keeps notes; but that a download is tried again is news while one waits for it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.notes: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "elmo_hf_conversion.fetch.download":
            self.show(record)
        else:
            self.notes.append(record)

    def show(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            print(printable(record.getMessage()), file=sys.stderr)


@contextlib.contextmanager
def notes_held_back() -> Iterator[None]:
    """Show the converter's notes when all is well; an error stands alone, as one line."""
    logger, held = logging.getLogger("elmo_hf_conversion"), _HeldBack()
    logger.addHandler(held)
    try:
        yield
    finally:
        logger.removeHandler(held)
    for record in held.notes:
        held.show(record)


def silence_libraries() -> None:
    """Keep the output to what this command says."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def printable(text: str) -> str:
    """Escape what would disturb a terminal, but not the joiners that scripts and emoji need."""
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else c.encode("unicode_escape").decode() for c in text)


def width_of(text: str) -> int:
    """Count the columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def add_files(parser: argparse.ArgumentParser) -> None:
    """Give a command the files of a corpus."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="UTF-8 text, one sentence a line; as it is or compressed by gzip, bzip2 or xz; a folder or a pattern for "
        "several; - reads standard input",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Give a command the option of a model, which is elmo-tiny-en if none is given."""
    parser.add_argument(
        "--model",
        default=ELMO_TINY_EN,
        type=model_folder,
        metavar="DIR",
        help="a model folder; by default elmo-tiny-en, the small English one that comes with this package",
    )


def add_tokenized(parser: Any) -> None:
    """Give a command, or a group of its options, the one that says that words are apart."""
    parser.add_argument(
        "--tokenized", action="store_true", help="the words are apart by white space already: do not split further"
    )


__all__ = [
    "Commands",
    "add_files",
    "add_model",
    "add_tokenized",
    "notes_held_back",
    "printable",
    "silence_libraries",
    "width_of",
]
