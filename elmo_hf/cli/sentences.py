"""The command `split-sentences`, which writes the sentences of a text one a line."""

import argparse
from pathlib import Path

from elmo_hf.errors import ElmoError, counted

from .shared import Commands, add_files


def add_split(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf split-sentences`."""
    parser = commands.add_parser(
        "split-sentences",
        parents=[shared],
        help="write the sentences of a text one a line",
        description="Split paragraphs into sentences, by the rules of their language, and write one a line, as the "
        'other commands read them. Needs pip install "elmo_hf[sentences]".',
        epilog="example: elmo-hf split-sentences book.txt --language en --wrapped | elmo-hf predict my-ner -",
    )
    add_files(parser, content="UTF-8 text with one paragraph a line")
    parser.add_argument("--language", required=True, metavar="LANG", help="the language of the text: en, es, ...")
    parser.add_argument(
        "--wrapped",
        action="store_true",
        help="a paragraph is broken into lines, as in Project Gutenberg's books, and ends at an empty line",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="file to create; it must not exist (default: standard output)"
    )
    parser.set_defaults(run=_split)


def _split(options: argparse.Namespace) -> int:
    from elmo_hf.data.corpus import find_files, read_lines
    from elmo_hf.data.segmentation import SentenceSplitter
    from elmo_hf.files import check_new_file, naming_errors, new_file

    names = find_files(options.files)
    splitter = SentenceSplitter(options.language, wrapped=options.wrapped)
    sentences = (sentence for name in names for _, sentence in splitter.read(read_lines(name)))
    if options.output is None:
        for sentence in sentences:
            print(sentence)
        return 0
    check_new_file(options.output)
    number = 0
    with new_file(options.output) as temporary, naming_errors(options.output):
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            for sentence in sentences:
                file.write(f"{sentence}\n")
                number += 1
        if not number:
            raise ElmoError(f"{', '.join(options.files)}: there are no sentences: check the text.")
    print(f"Wrote {counted(number, 'sentence')} to {options.output}.")
    return 0


__all__ = ["add_split"]
