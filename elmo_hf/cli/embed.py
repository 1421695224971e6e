"""The command embed: vectors of sentences, shown as a table or written to a file."""

import argparse
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .shared import Commands, add_model, add_tokenized, printable, silence_libraries, width_of


if TYPE_CHECKING:
    from elmo_hf.embedding.vectors import Vectors

# columns of a table of vectors
SHOWN_DIMENSIONS = 6

# by the suffix of a file; all else is text
FORMATS = {".conll": "conll", ".conllu": "conll", ".jsonl": "jsonl", ".json": "jsonl"}
PACKED = {".gz", ".bz2", ".xz"}


def add_embed(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf embed`."""
    parser = commands.add_parser(
        "embed",
        parents=[shared],
        help="get the vectors of words in sentences",
        description="Compute a vector for each word of each sentence. Without --output, show them as a table.",
        epilog='examples: elmo-hf embed --text "The bank raised rates ."; elmo-hf embed text.gz --output vectors.hdf5',
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--text", action="append", metavar="TEXT", help="a sentence; may be given more than once, for several"
    )
    source.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="UTF-8, as it is or compressed by gzip, bzip2 or xz; - reads standard input",
    )
    add_model(parser)
    reading = parser.add_argument_group("what is read")
    reading.add_argument(
        "--format",
        choices=("text", "conll", "jsonl"),
        help="text: a sentence a line; conll: a word a line, with an empty line after each sentence; jsonl: a record "
        "a line, with a text or a list of words, or CSV or TSV with a head line. By default as the suffix says: "
        ".conll, .conllu, .jsonl, .json, else text",
    )
    add_tokenized(reading)
    reading.add_argument("--word-column", type=int, metavar="K", help="of conll; 0, or 1 of CoNLL-U, by default")
    reading.add_argument("--text-field", metavar="NAME", help="of jsonl; text, sentence, tokens or words by default")
    result = parser.add_argument_group("what is computed")
    result.add_argument(
        "--layers",
        default="mix",
        metavar="LAYERS",
        help="mix: the weighted mean of all layers (the default); top: the last biLSTM layer; 0: the token layer, "
        "1, 2, ...: a biLSTM layer; all: every layer",
    )
    result.add_argument(
        "--pool",
        default="none",
        choices=("none", "mean", "max"),
        help="of a sentence's words, without the boundaries; none: a vector for each word (the default)",
    )
    result.add_argument("--batch-size", type=int, default=32, metavar="N", help="sentences computed at once; 32")
    result.add_argument("--device", default="cpu", help="such as cuda; cpu by default")
    result.add_argument("--threads", type=int, metavar="N", help="of the CPU; torch's own number by default")
    result.add_argument(
        "--engine",
        default="local",
        choices=("local", "ray"),
        help="ray: workers of Ray Data, on this machine or the cluster at RAY_ADDRESS; needs the extra ray",
    )
    result.add_argument("--workers", type=int, default=2, metavar="N", help="of ray, a core or a GPU each; 2")
    writing = parser.add_argument_group("what is written")
    writing.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="new file: .hdf5 or .h5 (as AllenNLP's), .npz, .safetensors, .parquet, or .npy with .offsets.npy. "
        "Sentence i, counted from 0, is named i, and is (words, width), or (layers, words, width) for all; one "
        "without words is there, too",
    )
    writing.add_argument(
        "--dtype",
        default="float32",
        choices=("float32", "float16", "bfloat16"),
        help="of the numbers in the file; bfloat16 for .safetensors only",
    )
    writing.add_argument("--resume", action="store_true", help="go on with what an interrupted run has left, if any")
    parser.set_defaults(run=_embed, wrong_usage=parser.error)


def _embed(options: argparse.Namespace) -> int:
    # refuse what can be refused before torch is loaded
    if min(options.batch_size, options.workers, 1 if options.threads is None else options.threads) < 1:
        options.wrong_usage("--batch-size, --threads and --workers are to be 1 or more")
    asked = options.pool != "none" or options.dtype != "float32" or options.engine != "local" or options.resume
    if options.output is None and asked:
        options.wrong_usage("--pool, --dtype, --engine and --resume are for --output")
    from elmo_hf.embedding.vectors import parse_layer
    from elmo_hf.inspection import read_config

    silence_libraries()
    layers = parse_layer(options.layers, read_config(options.model).num_hidden_layers)
    if options.threads is not None:
        import torch

        torch.set_num_threads(options.threads)
    return _show(options, layers) if options.output is None else _write(options, layers)


def _write(options: argparse.Namespace, layers: str | int) -> int:
    """Write a file."""
    from elmo_hf.embedding.vectors import embed_corpus

    try:
        num_sentences, num_words = embed_corpus(
            options.model,
            read_input(options),
            options.output,
            layers=layers,
            pool=options.pool,
            dtype=options.dtype,
            batch_size=options.batch_size,
            device=options.device,
            engine=engine_of(options),
            resume=options.resume,
            progress=sys.stderr is not None and sys.stderr.isatty(),
        )
    except KeyboardInterrupt:
        print("Interrupted: the same command with --resume goes on.", file=sys.stderr)
        raise
    print(f"Wrote {num_sentences:,} sentences of {num_words:,} words to {options.output}.")
    return 0


def engine_of(options: argparse.Namespace) -> Any:
    """Make what computes the parts, unless this process does."""
    if options.engine == "local":
        return None
    from elmo_hf.embedding.ray_engine import RayEngine

    return RayEngine(options.workers)


def read_input(options: argparse.Namespace) -> Iterator[Any]:
    """Read the sentences that the options name, each a text or a list of words, or both."""
    from elmo_hf.data.corpus import read_lines
    from elmo_hf.data.labelled import read_texts, read_words
    from elmo_hf.embedding.vectors import Line

    suffixes = (
        [] if options.file is None else [suffix for suffix in Path(options.file).suffixes if suffix not in PACKED]
    )
    kind = options.format or FORMATS.get(suffixes[-1] if suffixes else "", "text")
    if options.text is not None or kind == "text":
        lines = options.text if options.text is not None else read_lines(options.file)
        yield from (Line(line, line.split()) if options.tokenized else line for line in lines)
    elif kind == "conll":
        yield from read_words(options.file, word_column=options.word_column)
    else:
        for text in read_texts(options.file, text=options.text_field):
            yield Line(text, text.split()) if options.tokenized and isinstance(text, str) else text


def _show(options: argparse.Namespace, layers: str | int) -> int:
    """Print tables."""
    from elmo_hf.embedding.vectors import embed, line_of, load, on_device

    model, tokenizer = load(options.model)
    on_device(model, options.device)
    read: deque[tuple[str, list[str]]] = deque()

    def sentences() -> Iterator[list[str]]:
        for sentence in read_input(options):
            read.append(line_of(sentence, tokenizer))
            yield read[-1][1]

    vectors = embed(model, tokenizer, sentences(), layers=layers, batch_size=options.batch_size)
    for number, array in enumerate(vectors):
        _print_vectors(number, *read.popleft(), array)
    return 0


def _print_vectors(number: int, line: str, words: list[str], vectors: "Vectors") -> None:
    """Print one sentence's `[words, H]` or `[layers, words, H]` as a table, one row a word and layer."""
    print(f"{chr(10) * bool(number)}# {number}: {printable(line)}")
    if not words:
        print("(no words)")
        return
    # [layers, words, H]
    layers = vectors if vectors.ndim == 3 else vectors[None]
    shown = min(SHOWN_DIMENSIONS, layers.shape[2])
    more = " ..." if layers.shape[2] > shown else ""
    texts = [printable(word) for word in words]
    width = max(4, *(width_of(text) for text in texts))
    layer_header = "  layer" if vectors.ndim == 3 else ""
    print(f"word{' ' * (width - 4)}{layer_header}     norm" + "".join(f"{i:>9}" for i in range(shown)) + more)
    for i, text in enumerate(texts):
        for layer, vector in enumerate(layers[:, i]):
            norm = float((vector.astype("float64") ** 2).sum() ** 0.5)
            print(
                (text if layer == 0 else " " * width_of(text))
                + " " * (width - width_of(text))
                + (f"  {layer:>5}" if layer_header else "")
                + f"{norm:>9.3f}"
                + "".join(f"{value:>9.4f}" for value in vector[:shown])
                + more
            )


__all__ = ["add_embed"]
