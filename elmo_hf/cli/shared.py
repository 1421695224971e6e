"""Options that several commands share, and what reaches the terminal."""

import argparse
import contextlib
import io
import json
import logging
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from elmo_hf.bundled import ELMO_SMALL_EN, model_folder
from elmo_hf.errors import ElmoError


if TYPE_CHECKING:
    from elmo_hf.data.segmentation import SentenceSplitter
    from elmo_hf.files import WriteRecord


# argparse does not export the type of what add_subparsers returns
Commands: TypeAlias = Any

# their notes say what is downloaded from where, which is news while one waits
AT_ONCE = ("elmo_hf_conversion.fetch.download", "elmo_hf_conversion.fetch.names")


class _HeldBack(logging.Handler):
    """Collects the converter's notes, and shows only those on downloads at once."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name in AT_ONCE:
            self.show(record)
        else:
            self.notes.append(record)

    def show(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            print(printable(record.getMessage()), file=sys.stderr)


@contextlib.contextmanager
def notes_held_back() -> Iterator[None]:
    """Show the converter's notes when the block has succeeded; an error stands alone, as one line."""
    logger, held = logging.getLogger("elmo_hf_conversion"), _HeldBack()
    level = logger.level
    logger.addHandler(held)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(held)
        logger.setLevel(level)
    for record in held.notes:
        held.show(record)


def silence_libraries() -> None:
    """Hide the warnings and progress bars of Transformers: the command says what the user needs to know."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def shows_progress() -> bool:
    """Tell whether someone can see a progress bar."""
    return sys.stderr is not None and sys.stderr.isatty()


def printable(text: str) -> str:
    """Escape characters that would disturb a terminal, but keep the joiners that scripts and emoji need."""
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else c.encode("unicode_escape").decode() for c in text)


def width_of(text: str) -> int:
    """Return the number of columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def add_files(
    parser: argparse.ArgumentParser, *, required: bool = True, content: str = "UTF-8 text with one sentence a line"
) -> None:
    """Give a command the argument FILE ...: the text files of a corpus."""
    parser.add_argument(
        "files",
        nargs="+" if required else "*",
        metavar="FILE",
        help=f"{content}, plain or compressed by gzip, bzip2 or xz. A folder, or a quoted pattern, stands for all its "
        "files; - reads standard input",
    )


def add_model(parser: Any) -> None:
    """Give a command, or a group of its options, the option --model."""
    parser.add_argument(
        "--model",
        default=ELMO_SMALL_EN,
        type=model_folder,
        metavar="DIR",
        help="model folder (default: elmo-small-en, the small English model that comes with this package)",
    )


def add_json_lines(parser: Any, content: str) -> None:
    """Give a command, or a group of its options, the option --json-lines, which replaces a table on the terminal."""
    parser.add_argument(
        "--json-lines",
        metavar="FILE",
        help=f"write {content} to this new file, one JSON object a line, in place of the table; - is standard output",
    )


def check_json_lines(name: str | None) -> None:
    """Refuse a name that --json-lines cannot write to, before there is anything to write."""
    from elmo_hf.files import check_new_file

    if name is not None and name != "-":
        check_new_file(Path(name))


@contextlib.contextmanager
def json_lines(name: str) -> "Iterator[WriteRecord]":
    """Yield a function that writes an object to the file of --json-lines, or to standard output for `-`."""
    from elmo_hf.files import new_json_lines

    if name != "-":
        with noting_interruption(name), new_json_lines(Path(name)) as write:
            yield write
        return
    print_in_utf8()
    yield lambda record: print(json.dumps(record, ensure_ascii=False))


def print_in_utf8() -> None:
    """Let standard output be UTF-8, as JSON is, in which half a character is written as JSON writes it."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


@contextlib.contextmanager
def noting_interruption(name: str | Path) -> Iterator[None]:
    """Say that a file or folder was not written if the user interrupts the block that writes it."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"Interrupted: {name} was not written.", file=sys.stderr)
        raise


def add_tokenized(parser: Any) -> None:
    """Give a command, or a group of its options, the option --tokenized."""
    parser.add_argument(
        "--tokenized", action="store_true", help="split the text at white space only, because it is tokenized already"
    )


def add_split_sentences(parser: Any) -> None:
    """Give a command the options --split-sentences and --wrapped, which `make_splitter` reads."""
    parser.add_argument(
        "--split-sentences",
        metavar="LANG",
        help="split each line, which is a paragraph then, into sentences by the rules of this language: en, es, ...; "
        "a language without rules of its own has those of a related one or of English; needs pip install "
        '"elmo_hf[sentences]"',
    )
    parser.add_argument(
        "--wrapped",
        action="store_true",
        help="with --split-sentences: a paragraph is broken into lines, as in Project Gutenberg's books, and ends at "
        "an empty line",
    )


def make_splitter(options: argparse.Namespace) -> "SentenceSplitter | None":
    """Return what splits paragraphs into sentences, if the options want it.

    Raises:
        ElmoError: If --wrapped is given alone, the language has no code, or sentencex is not installed.
    """
    from elmo_hf.data.segmentation import SentenceSplitter

    if options.split_sentences is not None:
        return SentenceSplitter(options.split_sentences, wrapped=options.wrapped)
    if options.wrapped:
        raise ElmoError("--wrapped has no meaning without --split-sentences: give both.")
    return None


def add_pre_tokenizer(parser: Any) -> None:
    """Give a command, or a group of its options, the option --pre-tokenizer."""
    parser.add_argument(
        "--pre-tokenizer",
        choices=("moses", "whitespace"),
        help="how a new model splits raw text: moses (the default) separates punctuation, as the text of the English "
        "models was split; whitespace (the default with --tokenized) splits at white space only. Give --tokenized and "
        "--pre-tokenizer moses if Moses has tokenized the text",
    )


def add_batches(group: Any) -> None:
    """Give a group of options those that say how batches are computed."""
    group.add_argument("--batch-size", type=int, default=32, metavar="N", help="sentences a batch (default: 32)")
    group.add_argument("--device", default="cpu", help="device that computes, such as cuda (default: cpu)")
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: PyTorch's choice)")


def check_batches(options: argparse.Namespace) -> None:
    """Refuse wrong options of `add_batches`, before torch is imported."""
    if min(options.batch_size, 1 if options.threads is None else options.threads) < 1:
        options.wrong_usage("--batch-size and --threads must be 1 or more")


def set_threads(options: argparse.Namespace) -> None:
    """Compute on as many CPU threads as the option --threads says."""
    if options.threads is not None:
        import torch

        torch.set_num_threads(options.threads)


__all__ = [
    "Commands",
    "add_batches",
    "add_files",
    "add_json_lines",
    "add_model",
    "add_pre_tokenizer",
    "add_split_sentences",
    "add_tokenized",
    "check_batches",
    "check_json_lines",
    "json_lines",
    "make_splitter",
    "notes_held_back",
    "noting_interruption",
    "print_in_utf8",
    "printable",
    "set_threads",
    "shows_progress",
    "silence_libraries",
    "width_of",
]
