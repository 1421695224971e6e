"""The command `neighbours`, which finds the nearest words of a corpus, and the options that `plot` shares with it."""

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_hf.errors import ElmoError, counted

from .shared import (
    Commands,
    add_files,
    add_json_lines,
    add_model,
    add_split_sentences,
    add_tokenized,
    check_json_lines,
    json_lines,
    make_splitter,
    noting_interruption,
    printable,
    shows_progress,
    silence_libraries,
    width_of,
)


if TYPE_CHECKING:
    from elmo_hf.embedding.neighbours import Neighbour, NeighbourIndex
    from elmo_hf.embedding.occurrences import Occurrence

# columns that a table shows on each side of a word
SIDE = 36


def add_neighbours(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf neighbours`."""
    parser = commands.add_parser(
        "neighbours",
        parents=[shared],
        help="find the nearest words of a corpus to a word in its sentence",
        description="Find the words of a corpus whose vectors have the largest cosine with that of a word in its "
        "sentence, and show them in their sentences. With --index, the vectors of the corpus are computed once: give "
        "the files of the corpus the first time, and no files afterwards.",
        epilog='example: elmo-hf neighbours corpus.txt.gz --text "She sat on the bank of the river ." --word bank',
    )
    add_files(parser, required=False)
    add_search(parser, top=10)
    add_json_lines(parser, "the neighbours")
    parser.set_defaults(run=_neighbours, wrong_usage=parser.error)


def add_search(parser: argparse.ArgumentParser, *, top: int) -> None:
    """Give a command the options of a search; it has those of `add_files`, too."""
    query = parser.add_argument_group("query")
    query.add_argument(
        "--text", action="append", metavar="TEXT", help="a sentence with the word; repeat the option for several"
    )
    query.add_argument("--word", help="the word of the sentence, in upper or lower case")
    query.add_argument(
        "--occurrence", type=int, metavar="K", help="which of its occurrences, if there are several: 1, 2, ..."
    )
    add_tokenized(query)
    corpus = parser.add_argument_group("corpus")
    corpus.add_argument(
        "--index",
        type=Path,
        metavar="DIR",
        help="folder with the vectors of the corpus: with FILE, the command creates it; without, it reads it",
    )
    add_model(corpus)
    add_split_sentences(corpus)
    corpus.add_argument(
        "--layers",
        metavar="LAYERS",
        help="mix (the default): the weighted mean of all layers; sum: their sum; top: the last biLSTM layer; 0: the "
        "token layer; 1, 2, ...: one biLSTM layer; all: the concatenation of all layers. An index has its layers",
    )
    corpus.add_argument("--batch-size", type=int, default=32, metavar="N", help="sentences a batch (default: 32)")
    corpus.add_argument("--device", default="cpu", help="device that computes, such as cuda (default: cpu)")
    result = parser.add_argument_group("result")
    result.add_argument("--top", type=int, default=top, metavar="N", help=f"the number of neighbours (default: {top})")
    result.add_argument("--same-word", action="store_true", help="only occurrences of the same word")
    result.add_argument("--distinct", action="store_true", help="only the nearest occurrence of each word")
    result.add_argument(
        "--min-count",
        type=int,
        default=1,
        metavar="N",
        help="leave out words that occur less than N times in the corpus (default: 1)",
    )


def check_search(options: argparse.Namespace) -> None:
    """Refuse a search whose options do not belong together, before anything slow is imported."""
    if not options.files and options.index is None:
        options.wrong_usage("give FILE, --index, or both")
    if (options.text is None) != (options.word is None):
        options.wrong_usage("--text and --word belong together")
    if options.text is None and not (options.files and options.index):
        options.wrong_usage("give --text and --word; without them, FILE and --index make an index")
    if min(options.top, options.min_count, options.batch_size) < 1:
        options.wrong_usage("--top, --min-count and --batch-size must be 1 or more")


@contextlib.contextmanager
def opened_search(options: argparse.Namespace) -> "Iterator[tuple[NeighbourIndex, list[Occurrence]]]":
    """Yield the index of a search, which is made first where it is missing, and the words to search for.

    Without --index, it is deleted when the block ends.

    Raises:
        ElmoError: If a file or the index cannot be used, or a sentence does not have the word.
    """
    from elmo_hf.data.corpus import find_files, read_placed_sentences
    from elmo_hf.embedding.lazy_model import LazyModel
    from elmo_hf.embedding.neighbours import NeighbourIndex

    silence_libraries()
    if not options.files:
        index = NeighbourIndex.open(options.index, options.model, layers=options.layers, device=options.device)
        yield index, _find_queries(options, index.model)
        return
    # refuse wrong names, layers and words before the corpus is computed
    find_files(options.files)
    splitter = make_splitter(options)
    if options.index is not None and options.index.exists():
        raise ElmoError(f"{options.index} exists already: leave out the files to search it, or choose another name.")
    layers = options.layers or "mix"
    model = LazyModel(options.model, layers=layers)
    queries = _find_queries(options, model)
    tokenize = str.split if options.tokenized else model.tokenizer.tokenize
    with contextlib.ExitStack() as stack:
        path = options.index or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "index"
        # without --index, there is nothing to say
        with noting_interruption(path) if options.index else contextlib.nullcontext():
            index = NeighbourIndex.build(
                path,
                read_placed_sentences(options.files, tokenize=tokenize, splitter=splitter),
                options.model,
                layers=layers,
                batch_size=options.batch_size,
                device=options.device,
                progress=shows_progress(),
            )
        yield index, queries


def _find_queries(options: argparse.Namespace, model: Any) -> "list[Occurrence]":
    from elmo_hf.embedding.occurrences import find_word

    tokenize = str.split if options.tokenized else model.tokenizer.tokenize
    return [find_word(tokenize(text), options.word, options.occurrence) for text in options.text or ()]


def find_neighbours(options: argparse.Namespace, index: "NeighbourIndex", query: "Occurrence") -> "list[Neighbour]":
    """Search for a word as the options say."""
    word = query.word if options.same_word else None
    return index.search(query, top=options.top, word=word, distinct=options.distinct, min_count=options.min_count)


def _neighbours(options: argparse.Namespace) -> int:
    check_search(options)
    check_json_lines(options.json_lines)
    with opened_search(options) as (index, queries):
        if not queries:
            size = f"{counted(len(index), 'word')} in {counted(index.num_sentences, 'sentence')}"
            print(f"Wrote an index of {size} to {options.index}.")
        elif options.json_lines is None:
            for number, query in enumerate(queries):
                print(f"{chr(10) * bool(number)}# {printable(query.marked())}")
                _print_table(find_neighbours(options, index, query))
        else:
            with json_lines(options.json_lines) as write:
                for query in queries:
                    for neighbour in find_neighbours(options, index, query):
                        write(_as_record(query, neighbour))
    return 0


def _as_record(query: "Occurrence", neighbour: "Neighbour") -> dict[str, Any]:
    found = neighbour.occurrence
    return {
        "query": " ".join(query.words),
        "query_position": query.position,
        "cosine": neighbour.cosine,
        "word": found.word,
        "position": found.position,
        "text": " ".join(found.words),
        "file": neighbour.file,
        "line": neighbour.line,
    }


def _print_table(neighbours: "Sequence[Neighbour]") -> None:
    """Print the neighbours below each other, each word in the middle of its sentence."""
    if not neighbours:
        print("(no words)")
        return
    places = [f"{'standard input' if each.file == '-' else printable(each.file)}:{each.line}" for each in neighbours]
    sides = [_sides(each.occurrence) for each in neighbours]
    place_width = max(len("place"), *map(width_of, places))
    left_width = max(width_of(before) for before, _ in sides)
    print(f"cosine  {'place':<{place_width}}  neighbour")
    for neighbour, place, (before, after) in zip(neighbours, places, sides, strict=True):
        line = (
            f"{neighbour.cosine:.4f}  {_padded(place, place_width)}  {' ' * (left_width - width_of(before))}{before}"
            f" [{printable(neighbour.word)}] {after}"
        )
        print(line.rstrip())


def _padded(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))


def _sides(occurrence: "Occurrence") -> tuple[str, str]:
    """Return as many words before and after a word as fit in a table."""
    words = [printable(word) for word in occurrence.words]
    before = _fitting(words[: occurrence.position][::-1])[::-1]
    after = _fitting(words[occurrence.position + 1 :])
    return " ".join(before), " ".join(after)


def _fitting(words: list[str]) -> list[str]:
    """Return the first words that fit in a side of a table, and a sign that there are more."""
    width = 0
    for number, word in enumerate(words):
        width += width_of(word) + 1
        if width > SIDE:
            return [*words[:number], "…"]
    return words


__all__ = ["add_neighbours", "add_search", "check_search", "find_neighbours", "opened_search"]
