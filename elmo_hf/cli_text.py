"""The commands that read text: embed, build-vocab and perplexity."""

import argparse
import contextlib
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .bundled import ELMO_TINY_EN, model_folder
from .cli_shared import Commands, printable, silence_libraries, width_of
from .corpus import (
    count_words,
    coverage,
    find_files,
    most_frequent,
    read_lines,
    read_placed_sentences,
    read_sentences,
    write_vocabulary,
)
from .errors import ElmoError
from .files import check_new_file
from .inspection import read_config


if TYPE_CHECKING:
    from .embedding import Vectors
    from .perplexity import CorpusScore

# columns of a table of vectors
SHOWN_DIMENSIONS = 6


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="UTF-8 text, one sentence a line; as it is or compressed by gzip, bzip2 or xz; a folder or a pattern for "
        "several; - reads standard input",
    )


def _add_tokenized(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenized", action="store_true", help="the words are apart by white space already: do not split further"
    )


def add_embed(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf embed`."""
    parser = commands.add_parser(
        "embed",
        parents=[shared],
        help="get the vectors of words in sentences",
        description="Compute a vector for each word of each sentence. Without --output, show them as a table.",
        epilog='example: elmo-hf embed --text "The bank raised rates ."',
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--text", action="append", metavar="TEXT", help="a sentence; may be given more than once, for several"
    )
    source.add_argument(
        "file", nargs="?", metavar="FILE", help="UTF-8 text, one sentence a line; - reads standard input"
    )
    parser.add_argument(
        "--model",
        default=ELMO_TINY_EN,
        type=model_folder,
        metavar="DIR",
        help="a model folder; by default elmo-tiny-en, the small English one that comes with this package",
    )
    parser.add_argument(
        "--layer",
        default="mix",
        metavar="LAYER",
        help="mix: the weighted mean of all layers (the default); top: the last biLSTM layer; 0: the token layer, "
        "1, 2, ...: a biLSTM layer; all: every layer",
    )
    _add_tokenized(parser)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="new file for the vectors, .npz, .hdf5 (as AllenNLP's) or .safetensors: the array of line i is named "
        "i, counted from 0, and is (words, width), or (layers, words, width) for all; an empty line has no words",
    )
    parser.set_defaults(run=_embed)


def _embed(options: argparse.Namespace) -> int:
    from .embedding import embed, load, open_vector_file, parse_layer

    silence_libraries()
    # refuse what can be refused before the model is loaded
    layer = parse_layer(options.layer, read_config(options.model).num_hidden_layers)
    lines = options.text if options.text is not None else read_lines(options.file)
    model, tokenizer = load(options.model)
    read: deque[tuple[str, list[str]]] = deque()

    def sentences() -> Iterator[list[str]]:
        for line in lines:
            words = line.split() if options.tokenized else tokenizer.tokenize(line)
            read.append((line, words))
            yield words

    vectors = ((*read.popleft(), array) for array in embed(model, tokenizer, sentences(), layer=layer))
    if options.output is None:
        for number, (line, words, array) in enumerate(vectors):
            _print_vectors(number, line, words, array)
        return 0
    num_sentences = num_words = 0
    with open_vector_file(options.output) as file:
        for line, words, array in vectors:
            file.add(line, array)
            num_sentences += 1
            num_words += len(words)
    print(f"Wrote {num_sentences:,} sentences of {num_words:,} words to {options.output}.")
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


def add_build_vocab(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf build-vocab`."""
    parser = commands.add_parser(
        "build-vocab",
        parents=[shared],
        help="make the vocabulary of a language model",
        description="Count the words of text files, which white space parts, and write them by descending frequency, "
        "one a line, after <S>, </S> and <UNK>.",
        epilog="example: elmo-hf build-vocab 'news/*.txt.gz' --output vocab.txt --min-count 3",
    )
    _add_files(parser)
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="file to make; must not exist")
    parser.add_argument(
        "--min-count", type=int, default=1, metavar="N", help="leave out words that occur less often; 1 by default"
    )
    parser.add_argument(
        "--max-size", type=int, metavar="N", help="lines of the vocabulary at most; the most frequent words stay"
    )
    parser.set_defaults(run=_build_vocab)


def _build_vocab(options: argparse.Namespace) -> int:
    check_new_file(options.output)
    limits = {"min_count": options.min_count, "max_size": options.max_size}
    # refuse what can be refused before the text is read
    special = most_frequent({}, **limits)
    counts = count_words(read_sentences(options.files))
    if not counts:
        raise ElmoError(f"{', '.join(options.files)}: there are no words: check the text.")
    words = most_frequent(counts, **limits)
    write_vocabulary(options.output, words)
    print(f"Wrote {len(words):,} words to {options.output}, {', '.join(special)} included.")
    print(f"The text has {counts.total():,} words, {len(counts):,} of them distinct.")
    print(f"The vocabulary covers {coverage(counts, words):.2%} of the text.")
    return 0


def add_perplexity(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf perplexity`."""
    parser = commands.add_parser(
        "perplexity",
        parents=[shared],
        help="measure how well a language model predicts a text",
        description="Compute the perplexity of a text by a language model, with the softmax over all words: of the "
        "forward direction, of the backward one, and of the mean of their losses. Each sentence is read by itself, "
        "and words outside the vocabulary are predicted as <UNK>. Of several files, each has a line besides.",
        epilog="example: elmo-hf perplexity my-elmo heldout.txt --tokenized",
    )
    parser.add_argument(
        "model", type=model_folder, metavar="MODEL", help="a model folder that has a softmax, or elmo-tiny-en"
    )
    _add_files(parser)
    _add_tokenized(parser)
    parser.add_argument(
        "--stateful", action="store_true", help="go on from sentence to sentence as in one stream, as bilm-tf does"
    )
    parser.add_argument(
        "--json-lines",
        type=Path,
        metavar="FILE",
        help="new file for the scores of each sentence, a JSON object a line",
    )
    parser.add_argument(
        "--batch", type=int, default=2048, metavar="WORDS", help="words that are read at once, 2048 by default"
    )
    parser.set_defaults(run=_perplexity)


def _perplexity(options: argparse.Namespace) -> int:
    from .perplexity import CorpusScore, load_language_model, open_score_file, score

    silence_libraries()
    # refuse what can be refused before the model is loaded
    if options.json_lines is not None:
        check_new_file(options.json_lines)
    find_files(options.files)
    model, tokenizer = load_language_model(options.model)
    tokenize = str.split if options.tokenized else tokenizer.tokenize
    # the places and words of the sentences that are being measured
    read: deque[tuple[str, int, list[str]]] = deque()

    def sentences() -> Iterator[list[str]]:
        for place in read_placed_sentences(options.files, tokenize=tokenize):
            read.append(place)
            yield place[2]

    total, parts, start = CorpusScore(), defaultdict[str, CorpusScore](CorpusScore), time.perf_counter()
    with contextlib.ExitStack() as stack:
        add = None if options.json_lines is None else stack.enter_context(open_score_file(options.json_lines))
        for sentence in score(model, tokenizer, sentences(), stateful=options.stateful, words_per_batch=options.batch):
            file, line, words = read.popleft()
            total.add(sentence)
            parts[file].add(sentence)
            if add is not None:
                add(words, sentence, file, line)
        if not total.sentences:
            raise ElmoError(f"{', '.join(options.files)}: there are no words: check the text.")
    speed = total.words / (time.perf_counter() - start)
    how = "read as one stream" if options.stateful else "each read by itself"
    print(f"perplexity   {total.perplexity:,.3f}")
    print(f"  forward    {total.forward_perplexity:,.3f}")
    print(f"  backward   {total.backward_perplexity:,.3f}")
    print(f"sentences    {total.sentences:,}, {how}")
    print(f"predictions  {total.predictions:,} in each direction: {total.words:,} words and the sentences' ends")
    print(f"unknown      {total.unknown_rate:.2%} of the words, predicted as {tokenizer.unk_token}")
    print(f"speed        {speed:,.0f} words/s")
    if len(parts) > 1:
        _print_parts(parts)
    return 0


def _print_parts(parts: Mapping[str, "CorpusScore"]) -> None:
    """Print the perplexities of each file as a table, in the order in which they were read."""
    print("\nperplexity     forward    backward  sentences       words  unknown  file")
    for name, part in parts.items():
        print(
            f"{part.perplexity:>10,.3f}  {part.forward_perplexity:>10,.3f}  {part.backward_perplexity:>10,.3f}  "
            f"{part.sentences:>9,}  {part.words:>10,}  {part.unknown_rate:>7.2%}  "
            f"{'standard input' if name == '-' else printable(name)}"
        )


__all__ = ["add_build_vocab", "add_embed", "add_perplexity"]
