"""The command `fill`, which suggests words for a blank or in place of a word."""

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from elmo_hf.errors import ElmoError

from .shared import (
    Commands,
    add_json_lines,
    add_model,
    add_split_sentences,
    add_tokenized,
    check_json_lines,
    json_lines,
    make_splitter,
    printable,
    silence_libraries,
)


if TYPE_CHECKING:
    from elmo_hf.data.segmentation import SentenceSplitter
    from elmo_hf.training.filling import Filling, WordFiller


class _Sentence(NamedTuple):
    """A sentence with the positions to fill, and the file and line that it is from, if it is from a file."""

    words: list[str]
    positions: list[int]
    file: str | None
    line: int | None


def add_fill(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf fill`."""
    parser = commands.add_parser(
        "fill",
        parents=[shared],
        help="suggest words for a blank, or in place of a word",
        description="Show the words that a language model with its softmax expects at each [MASK] of a sentence, or, "
        "with --word, in place of a word.",
        epilog='examples: elmo-hf fill "The [MASK] raised rates ."; '
        'elmo-hf fill "The people of the nation agreed ." --word nation',
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="a sentence, with [MASK] where a word is missing")
    parser.add_argument(
        "--file",
        nargs="+",
        dest="files",
        metavar="FILE",
        help="read sentences from UTF-8 text with one a line, plain or compressed by gzip, bzip2 or xz; sentences "
        "without anything to fill are skipped. A folder, or a quoted pattern, stands for all its files; - reads "
        "standard input",
    )
    parser.add_argument("--word", help="suggest words in place of this one, in upper or lower case")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="the number of words (default: 5)")
    add_model(parser)
    add_tokenized(parser)
    add_split_sentences(parser)
    parser.add_argument("--device", default="cpu", help="device that computes, such as cuda (default: cpu)")
    add_json_lines(parser, "the words")
    parser.set_defaults(run=_fill, wrong_usage=parser.error)


def _fill(options: argparse.Namespace) -> int:
    if bool(options.texts) == bool(options.files):
        options.wrong_usage("give TEXT or --file")
    if options.texts and options.split_sentences is not None:
        options.wrong_usage("--split-sentences is for --file: each TEXT is a sentence")
    if options.top < 1:
        options.wrong_usage("--top must be 1 or more")
    from elmo_hf.data.corpus import find_files
    from elmo_hf.training.filling import WordFiller

    silence_libraries()
    # refuse wrong names before loading the model
    check_json_lines(options.json_lines)
    splitter = make_splitter(options)
    if options.files:
        find_files(options.files)
    filler = WordFiller(options.model, device=options.device)
    sentences = _read_files(options, splitter, filler) if options.files else _read_texts(options, filler)
    filled = (
        (sentence, position, fillings)
        for sentence in sentences
        for position, fillings in zip(
            sentence.positions, filler.fill(sentence.words, sentence.positions, top=options.top), strict=True
        )
    )
    if options.json_lines is None:
        _print_tables(filled, filler.tokenizer.mask_token)
        return 0
    with json_lines(options.json_lines) as write:
        for sentence, position, fillings in filled:
            place = {"file": sentence.file, "line": sentence.line, "text": " ".join(sentence.words)}
            for filling in fillings:
                write({**place, "position": position, **filling._asdict()})
    return 0


def _print_tables(filled: "Iterable[tuple[_Sentence, int, list[Filling]]]", mask: str) -> None:
    """Print a table for each place."""
    from elmo_hf.embedding.occurrences import Occurrence

    for number, (sentence, position, fillings) in enumerate(filled):
        words = list(sentence.words)
        if words[position] == mask:
            # shown in brackets, as [MASK]
            words[position] = "MASK"
        print(f"{chr(10) * bool(number)}# {printable(Occurrence(words, position).marked())}")
        print("probability  word")
        for filling in fillings:
            print(f"{filling.probability:>11.4f}  {printable(filling.word)}")


def _read_texts(options: argparse.Namespace, filler: "WordFiller") -> Iterator[_Sentence]:
    """Yield the sentences of the command line, all of which have something to fill."""
    sentences = []
    for text in options.texts:
        words = filler.split(text, str.split if options.tokenized else None)
        positions = _positions(options, filler, words)
        if not positions:
            raise ElmoError(f"{text!r:.200} has {_remedy(options)}")
        sentences.append(_Sentence(words, positions, None, None))
    return iter(sentences)


def _read_files(
    options: argparse.Namespace, splitter: "SentenceSplitter | None", filler: "WordFiller"
) -> Iterator[_Sentence]:
    """Yield the sentences of the files that have something to fill."""
    from elmo_hf.data.corpus import read_placed_sentences

    def split(text: str) -> list[str]:
        return filler.split(text, str.split if options.tokenized else None)

    found = False
    for file, line, words in read_placed_sentences(options.files, tokenize=split, splitter=splitter):
        if positions := _positions(options, filler, words):
            found = True
            yield _Sentence(words, positions, file, line)
    if not found:
        raise ElmoError(f"{', '.join(options.files)}: the text has {_remedy(options)}")


def _positions(options: argparse.Namespace, filler: "WordFiller", words: list[str]) -> list[int]:
    if options.word is None:
        return filler.find_masks(words)
    return [position for position, word in enumerate(words) if word.casefold() == options.word.casefold()]


def _remedy(options: argparse.Namespace) -> str:
    if options.word is not None:
        return f"no word {options.word!r}: give a word of the text."
    return "no [MASK]: write it where a word is missing, name a word of the text by --word, or a file by --file."


__all__ = ["add_fill"]
