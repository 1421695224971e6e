"""The command `embed`, which computes vectors and shows them as a table or writes them to a file."""

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_hf.errors import counted

from .reading import add_reading, add_source, check_reading, check_source, format_of, read_input
from .shared import (
    Commands,
    add_batches,
    add_model,
    check_batches,
    printable,
    set_threads,
    shows_progress,
    silence_libraries,
    width_of,
)


if TYPE_CHECKING:
    from elmo_hf.embedding.ray_engine import RayEngine
    from elmo_hf.embedding.sentences import SentenceInput
    from elmo_hf.embedding.vectors import Vectors

# dimensions of a vector that a table shows
SHOWN_DIMENSIONS = 6


def add_embed(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf embed`."""
    parser = commands.add_parser(
        "embed",
        parents=[shared],
        help="compute the vectors of the words in sentences, or of the residues in proteins",
        description="Compute a vector for each word of each sentence. Without --output, show them as a table.",
        epilog='examples: elmo-hf embed --text "The bank raised rates ."; elmo-hf embed text.gz --output vectors.hdf5',
    )
    add_source(parser)
    add_model(parser)
    add_reading(parser.add_argument_group("input"))
    _add_computing(parser.add_argument_group("computation"))
    _add_writing(parser.add_argument_group("output"))
    parser.set_defaults(run=_embed, wrong_usage=parser.error)


def _add_computing(group: Any) -> None:
    group.add_argument(
        "--layers",
        default="mix",
        metavar="LAYERS",
        help="mix (the default): the weighted mean of all layers; sum: the sum of all layers, as SeqVec takes it; "
        "top: the last biLSTM layer; 0: the token layer; 1, 2, ...: one biLSTM layer; all: every layer",
    )
    group.add_argument(
        "--pool",
        default="none",
        choices=("none", "mean", "max"),
        help="none (the default): one vector a word; mean, max: one vector a sentence, over its words without the "
        "boundary tokens, which sentence-transformers takes in by default",
    )
    add_batches(group)
    group.add_argument(
        "--engine",
        default="local",
        choices=("local", "ray"),
        help="local (the default): this process; ray: workers of Ray Data, on this machine or on the cluster at "
        'RAY_ADDRESS. ray needs pip install "elmo_hf[ray]"',
    )
    group.add_argument(
        "--workers", type=int, default=2, metavar="N", help="workers of ray, with a core or a GPU each (default: 2)"
    )


def _add_writing(group: Any) -> None:
    group.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="file to create: .hdf5 or .h5 (like AllenNLP's), .npz, .safetensors, .parquet, or .npy with files "
        ".offsets.npy and .words.txt beside it. Sentence i, counted from 0, is the array named i, of shape (words, "
        "width), or (layers, words, width) for --layers all. A sentence without words has one, too. A protein's array "
        "has its identifier as its name",
    )
    group.add_argument(
        "--dtype",
        default="float32",
        choices=("float32", "float16", "bfloat16"),
        help="type of the numbers in the file (default: float32); bfloat16 is for .safetensors only",
    )
    group.add_argument(
        "--rows",
        default="sentences",
        choices=("sentences", "words"),
        help="sentences (the default): .parquet has a row for each sentence, with lists of words and vectors; words: "
        "a row for each word, with the columns sentence and position, both counted from 0, word and vector",
    )
    group.add_argument("--resume", action="store_true", help="continue an interrupted run, if there is one")


def _embed(options: argparse.Namespace) -> int:
    # refuse wrong options before importing torch
    check_source(options)
    check_reading(options)
    check_batches(options)
    if options.workers < 1:
        options.wrong_usage("--workers must be 1 or more")
    given = (options.pool, options.dtype, options.rows, options.engine, options.resume)
    if options.output is None and given != ("none", "float32", "sentences", "local", False):
        options.wrong_usage("--pool, --dtype, --rows, --engine and --resume need --output")
    from elmo_hf.embedding.vectors import parse_layer
    from elmo_hf.inspection import read_config

    silence_libraries()
    layers = parse_layer(options.layers, read_config(options.model).num_hidden_layers)
    set_threads(options)
    return _show(options, layers) if options.output is None else _write(options, layers)


def _write(options: argparse.Namespace, layers: str | int) -> int:
    """Write a file of vectors."""
    from elmo_hf.embedding.corpus import embed_corpus

    try:
        num_sentences, num_words = embed_corpus(
            options.model,
            _read_input(options),
            options.output,
            layers=layers,
            pool=options.pool,
            dtype=options.dtype,
            rows=options.rows,
            batch_size=options.batch_size,
            device=options.device,
            engine=_engine_of(options),
            resume=options.resume,
            progress=shows_progress(),
        )
    except KeyboardInterrupt:
        print("Interrupted: the same command with --resume goes on.", file=sys.stderr)
        raise
    sentence, word = ("sequence", "residue") if format_of(options) == "fasta" else ("sentence", "word")
    print(f"Wrote {counted(num_sentences, sentence)} of {counted(num_words, word)} to {options.output}.")
    return 0


def _engine_of(options: argparse.Namespace) -> "RayEngine | None":
    """Return the engine that computes the parts, or `None` for this process."""
    if options.engine == "local":
        return None
    from elmo_hf.embedding.ray_engine import RayEngine

    return RayEngine(options.workers)


def _read_input(options: argparse.Namespace) -> Iterator["SentenceInput"]:
    """Read the sentences that the options name, each a text, a list of words, or both."""
    from elmo_hf.data.records import read_texts

    return read_input(options, partial(read_texts, text=options.text_field))


def _show(options: argparse.Namespace, layers: str | int) -> int:
    """Print a table of vectors for each sentence."""
    from elmo_hf.embedding.loading import load, move_to_device
    from elmo_hf.embedding.sentences import read_sentence
    from elmo_hf.embedding.vectors import embed

    model, tokenizer = load(options.model)
    move_to_device(model, options.device)
    embedded, shown = tee(read_sentence(sentence, tokenizer) for sentence in _read_input(options))
    vectors = embed(model, tokenizer, embedded, layers=layers, batch_size=options.batch_size)
    for number, (sentence, array) in enumerate(zip(shown, vectors, strict=True)):
        title = sentence.text if sentence.key is None else sentence.key
        print(f"{chr(10) * bool(number)}# {number}: {printable(title)}")
        _print_vectors(sentence.words, array)
    return 0


def _print_vectors(words: list[str], vectors: "Vectors") -> None:
    """Print the vectors `[words, H]` or `[layers, words, H]` of a sentence, one row for each word and layer."""
    if not words:
        print("(no words)")
        return
    has_layers = vectors.ndim == 3
    # [layers, words, H]
    layers = vectors if has_layers else vectors[None]
    shown = min(SHOWN_DIMENSIONS, layers.shape[2])
    more = " ..." if layers.shape[2] > shown else ""
    labels = [printable(word) for word in words]
    width = max(4, *(width_of(label) for label in labels))
    layer_header = "  layer" if has_layers else ""
    print(f"word{' ' * (width - 4)}{layer_header}     norm" + "".join(f"{i:>9}" for i in range(shown)) + more)
    for i, label in enumerate(labels):
        for layer, vector in enumerate(layers[:, i]):
            norm = float((vector.astype("float64") ** 2).sum() ** 0.5)
            print(
                (label if layer == 0 else " " * width_of(label))
                + " " * (width - width_of(label))
                + (f"  {layer:>5}" if has_layers else "")
                + f"{norm:>9.3f}"
                + "".join(f"{value:>9.4f}" for value in vector[:shown])
                + more
            )


__all__ = ["add_embed"]
