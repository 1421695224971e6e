"""The command `plot`, which draws a word in many sentences, its neighbours, or the layers that tasks use."""

import argparse
from pathlib import Path

from elmo_hf.errors import counted

from .neighbours import add_search, check_search, find_neighbours, opened_search
from .shared import (
    Commands,
    add_files,
    add_model,
    add_split_sentences,
    add_tokenized,
    make_splitter,
    silence_libraries,
)


def add_plot(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf plot` and of its pictures."""
    parser = commands.add_parser(
        "plot",
        help="draw a word in many sentences, its nearest neighbours, or the layers that tasks use",
        description='Draw what a model has learned. Needs pip install "elmo_hf[plot]".',
    )
    pictures = parser.add_subparsers(title="pictures", metavar="PICTURE", required=True)
    _add_occurrences(pictures, shared)
    _add_neighbours(pictures, shared)
    _add_layers(pictures, shared)


def _add_occurrences(pictures: Commands, shared: argparse.ArgumentParser) -> None:
    parser = pictures.add_parser(
        "occurrences",
        parents=[shared],
        help="draw a word in many sentences; similar vectors are close together",
        description="Draw a point for each occurrence of a word, labelled by the words around it. The axes are the "
        "first two principal components of the word's vectors.",
        epilog="example: elmo-hf plot occurrences corpus.txt.gz --word bank --output bank.png",
    )
    add_files(parser)
    parser.add_argument("--word", required=True, help="the word, in upper or lower case")
    add_model(parser)
    parser.add_argument(
        "--layers",
        default="mix",
        metavar="LAYERS",
        help="mix (the default): the weighted mean of all layers; top: the last biLSTM layer; 1, 2, ...: one biLSTM "
        "layer; all: the concatenation of all layers",
    )
    parser.add_argument(
        "--most", type=int, default=40, metavar="N", help="draw the first N occurrences at most (default: 40)"
    )
    add_tokenized(parser)
    add_split_sentences(parser)
    _add_output(parser)
    parser.set_defaults(run=_plot_occurrences, wrong_usage=parser.error)


def _add_neighbours(pictures: Commands, shared: argparse.ArgumentParser) -> None:
    parser = pictures.add_parser(
        "neighbours",
        parents=[shared],
        help="draw a word in its sentence among its nearest neighbours in a corpus",
        description="Draw a point for a word in its sentence, in orange, and one for each of its nearest neighbours, "
        "as `elmo-hf neighbours` finds them. The axes are the first two principal components of their vectors.",
        epilog='example: elmo-hf plot neighbours corpus.txt.gz --text "She sat on the bank ." --word bank '
        "--output bank.png",
    )
    add_files(parser, required=False)
    add_search(parser, top=20)
    _add_output(parser)
    parser.set_defaults(run=_plot_neighbours, wrong_usage=parser.error)


def _add_layers(pictures: Commands, shared: argparse.ArgumentParser) -> None:
    parser = pictures.add_parser(
        "layers",
        parents=[shared],
        help="draw the weight of each layer in fine-tuned models",
        description="Draw the weight that each task gives to each layer: one row for each mix of each model, like "
        "figure 2 of the paper.",
        epilog="example: elmo-hf plot layers my-ner my-sentiment --output layers.png",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="fine-tuned model: a folder, or a name on the Hub")
    _add_output(parser)
    parser.set_defaults(run=_plot_layers)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="picture to create, such as .png, .pdf or .svg; it must not exist",
    )


def _plot_occurrences(options: argparse.Namespace) -> int:
    if options.most < 3:
        options.wrong_usage("--most must be 3 or more")
    from elmo_hf.data.corpus import read_sentences
    from elmo_hf.embedding.lazy_model import LazyModel
    from elmo_hf.integrations.plotting import (
        check_picture,
        draw_occurrences,
        find_occurrences,
        save_picture,
        vectors_of,
    )

    check_picture(options.output)
    silence_libraries()
    model = LazyModel(options.model, layers=options.layers)
    wanted = options.word.casefold()

    def tokenize(line: str) -> list[str]:
        # most lines do not have the word: do not spend time on splitting them
        if wanted not in line.casefold():
            return []
        return line.split() if options.tokenized else model.tokenizer.tokenize(line)

    sentences = read_sentences(options.files, tokenize=tokenize, splitter=make_splitter(options))
    occurrences = find_occurrences(sentences, options.word, most=options.most)
    title = f"“{options.word}”, {len(occurrences)} times: {options.model.resolve().name}, layers {options.layers}"
    save_picture(draw_occurrences(occurrences, vectors_of(occurrences, model), title), options.output)
    print(f"Drew {counted(len(occurrences), 'occurrence')} of {options.word} in {options.output}.")
    return 0


def _plot_neighbours(options: argparse.Namespace) -> int:
    check_search(options)
    if options.text is None or len(options.text) > 1 or options.top < 2:
        options.wrong_usage("give one --text, and --top 2 or more")
    import numpy as np

    from elmo_hf.embedding.index_files import unit_vectors
    from elmo_hf.integrations.plotting import check_picture, draw_neighbours, save_picture

    check_picture(options.output)
    with opened_search(options) as (index, (query,)):
        found = find_neighbours(options, index, query)
        words = [neighbour.occurrence for neighbour in found]
        rows = index.vectors[[neighbour.row for neighbour in found]]
        vectors = np.concatenate([unit_vectors(index.vector_of(query)[None]), rows.astype(np.float32)])
        title = (
            f"“{query.word}” among its neighbours: {index.model.folder.resolve().name}, layers {index.model.layers}"
        )
        save_picture(draw_neighbours(query, words, vectors, title), options.output)
    print(f"Drew {counted(len(found), 'neighbour')} of {query.word} in {options.output}.")
    return 0


def _plot_layers(options: argparse.Namespace) -> int:
    from elmo_hf.integrations.plotting import check_picture, draw_layer_weights, read_layer_weights, save_picture

    check_picture(options.output)
    silence_libraries()
    weights = {label: row for name in options.models for label, row in read_layer_weights(name).items()}
    save_picture(draw_layer_weights(weights), options.output)
    print(f"Drew {counted(len(weights), 'mix')} in {options.output}.")
    return 0


__all__ = ["add_plot"]
