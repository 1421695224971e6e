"""The input of `embed` and `predict`: sentences from the command line, a file or standard input."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .shared import add_tokenized


if TYPE_CHECKING:
    from elmo_hf.embedding.sentences import SentenceInput

# what a file in the format jsonl gives for a line
Record = TypeVar("Record")

# formats of input files by suffix; any other suffix is plain text
FORMATS = {
    ".conll": "conll",
    ".conllu": "conll",
    ".csv": "jsonl",
    ".fa": "fasta",
    ".faa": "fasta",
    ".fasta": "fasta",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".tsv": "jsonl",
}
COMPRESSED = {".gz", ".bz2", ".xz"}


class _AddSentence(argparse.Action):
    """Collects sentences, and makes FILE optional: argparse would take an optional FILE for missing too early."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _: Any = None
    ) -> None:
        namespace.text = [*(namespace.text or []), values]
        for action in parser._actions:
            if action.dest == "file":
                action.required = False


def add_source(parser: argparse.ArgumentParser) -> None:
    """Give a command the argument FILE, and the option --text that takes its place."""
    parser.add_argument(
        "file", metavar="FILE", help="UTF-8 file, plain or compressed by gzip, bzip2 or xz; - reads standard input"
    )
    parser.add_argument(
        "--text", action=_AddSentence, metavar="TEXT", help="a sentence in place of FILE; repeat it for several"
    )


def check_source(options: argparse.Namespace) -> None:
    """Refuse FILE beside --text."""
    if options.text is not None and options.file is not None:
        options.wrong_usage("give FILE or --text, not both")


def add_reading(group: Any) -> None:
    """Give a group of options those that say how FILE is read."""
    group.add_argument(
        "--format",
        choices=("text", "conll", "fasta", "jsonl"),
        help="text: one sentence a line; conll: one word a line, and an empty line after each sentence; fasta: "
        "proteins, whose residues are the words; jsonl: one JSON object a line with a text or a list of words, or CSV "
        "or TSV with a header (default: by the suffix, .conll, .gold_conll, .conllu, .fasta, .fa, .faa, .jsonl, "
        ".json, .csv or .tsv, else text)",
    )
    add_tokenized(group)
    group.add_argument(
        "--word-column",
        type=int,
        metavar="K",
        help="column of the words in conll (default: 0, 1 in CoNLL-U, 3 in CoNLL-2012)",
    )
    group.add_argument(
        "--text-field",
        metavar="NAME",
        help="field or column of the text in jsonl (default: text, sentence, tokens or words)",
    )


def check_reading(options: argparse.Namespace) -> None:
    """Refuse options for another format than that of the input."""
    file_format = "text" if options.text is not None else format_of(options)
    for name, wanted in {
        **dict.fromkeys(("text_field", "pair_field"), "jsonl"),
        **dict.fromkeys(("word_column", "pos_column", "predicate_column"), "conll"),
    }.items():
        if getattr(options, name, None) is not None and file_format != wanted:
            options.wrong_usage(
                f"--{name.replace('_', '-')} is for files in the format {wanted}, and the input is {file_format}"
            )


def _note_columns(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of standard input, and say so if they may have columns and are read as sentences."""
    for number, line in enumerate(lines):
        if number == 0 and "\t" in line:
            note = "note: lines with TAB are read as sentences: give --format conll if they are columns"
            print(note, file=sys.stderr)
        yield line


def read_input(
    options: argparse.Namespace, read_records: Callable[[str], Iterable[Record]]
) -> "Iterator[SentenceInput | Record]":
    """Read the sentences that the options name, each a text, a list of words, or both.

    Args:
        options: The options of `add_source` and `add_reading`.
        read_records: Reads a file in the format jsonl.

    Raises:
        ElmoError: If the file cannot be read.
    """
    from elmo_hf.data.corpus import read_lines
    from elmo_hf.data.fasta import read_fasta
    from elmo_hf.data.tagged import read_conll_words
    from elmo_hf.embedding.sentences import Sentence

    file_format = format_of(options)
    texts: Iterable[SentenceInput | Record]
    if options.text is not None:
        texts = options.text
    elif file_format == "text":
        texts = read_lines(options.file)
        if options.file == "-" and options.format is None:
            texts = _note_columns(texts)
    elif file_format == "fasta":
        texts = (
            Sentence(record.sequence, list(record.sequence), record.identifier) for record in read_fasta(options.file)
        )
    elif file_format == "conll":
        texts = read_conll_words(options.file, word_column=options.word_column)
    else:
        texts = read_records(options.file)
    split = options.tokenized
    return (Sentence(text, text.split()) if split and isinstance(text, str) else text for text in texts)


def format_of(options: argparse.Namespace) -> str:
    """Return the format of the input: the option, or what the suffix says."""
    suffixes = [suffix.lower() for suffix in Path(options.file or "").suffixes]
    suffix = next((suffix for suffix in reversed(suffixes) if suffix not in COMPRESSED), "")
    # those of CoNLL-2012 are .gold_conll and the like
    return options.format or FORMATS.get(suffix, "conll" if suffix.endswith("_conll") else "text")


__all__ = ["add_reading", "add_source", "check_reading", "check_source", "format_of", "read_input"]
