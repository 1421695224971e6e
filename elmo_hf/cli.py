"""The `elmo-hf` command: convert an original ELMo, inspect, verify and use it, and measure a language model."""

import argparse
import contextlib
import io
import json
import logging
import os
import shlex
import shutil
import sys
import time
import traceback
import unicodedata
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .bundled import ELMO_TINY_EN
from .corpus import (
    count_words,
    coverage,
    find_files,
    most_frequent,
    read_lines,
    read_sentences,
    write_vocabulary,
)
from .errors import ElmoError
from .files import check_new_file
from .inspection import describe, describe_layers, one_line, read_config, readable_size


if TYPE_CHECKING:
    from .embedding import Vectors

# what the extra `convert` installs
CONVERT_EXTRA = ("h5py", "filelock")
# columns of the list of releases, whatever the terminal has
MIN_COLUMNS, MAX_COLUMNS = 80, 120
# columns of a table of vectors
SHOWN_DIMENSIONS = 6
# the exit status that a shell reports for a program that SIGINT or SIGPIPE ended
INTERRUPTED, BROKEN_PIPE = 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Those after the program's name; by default the process's own.

    Returns:
        The exit status: 0 if all went well, 1 after an error, which is one line on standard error, 2 for wrong usage.
    """
    options = build_parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that cannot show a character shows its escape instead
            stream.reconfigure(errors="backslashreplace")
    try:
        status = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except ModuleNotFoundError as error:
        if error.name not in CONVERT_EXTRA:
            raise
        print(f'elmo-hf: error: {error.name} is not installed: pip install "elmo_hf[convert]"', file=sys.stderr)
        return 1
    except (ElmoError, OSError, ValueError) as error:
        if options.debug:
            traceback.print_exc()
        message = one_line(error)
        if isinstance(error, OSError) and error.filename is None:
            # files have names, and commands name those that the system does not
            message = f"standard input or output fails: {message}"
            _discard_output()
        print(f"elmo-hf: error: {_printable(message)}", file=sys.stderr)
        return 1
    return status


def _discard_output() -> None:
    """Throw away what could not be written to standard output: Python tries again at its end, and complains."""
    with contextlib.suppress(AttributeError, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> argparse.ArgumentParser:
    """Describe the arguments of every command; the reference page is made from it."""
    parser = argparse.ArgumentParser(
        prog="elmo-hf",
        description="ELMo for Transformers: convert an original model, check it, and get its vectors.",
        epilog="Each error is one line on standard error; the exit status is then 1, or 2 for wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"elmo-hf {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--debug", action="store_true", help="show where an error came from")
    _add_convert(commands, shared)
    _add_export(commands, shared)
    _add_inspect(commands, shared)
    _add_verify(commands, shared)
    _add_embed(commands, shared)
    _add_build_vocab(commands, shared)
    _add_perplexity(commands, shared)
    return parser


def _model_folder(name: str) -> Path:
    """Find a model's folder: its path, or the name of the model that comes with the package."""
    folder = Path(name)
    return ELMO_TINY_EN if name == ELMO_TINY_EN.name and not folder.exists() else folder


# argparse does not export the type of what add_subparsers returns
def _add_convert(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "convert",
        parents=[shared],
        help="make a Transformers model of an original ELMo",
        description="Convert an original ELMo into a folder that AutoModel and AutoTokenizer load.",
        epilog="example: elmo-hf convert weights.hdf5 options.json --output my-elmo",
    )
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="the weights (.hdf5) and options (.json) in any order, and the vocabulary (.txt, .txt.gz) if there is "
        "one; or AllenNLP's model.tar.gz or weights.th; or a folder or archive that holds a model, such as bilm-tf's "
        "TensorFlow checkpoint; or https addresses of them",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder to make; must not exist")
    parser.add_argument(
        "--mix",
        type=int,
        metavar="K",
        help="of a model that AllenNLP trained with several mixes of layers, number K, from 0; the first by default",
    )
    parser.add_argument(
        "--language", metavar="XX", help="of AllenNLP's ELMo of several languages, the one called XX, such as es"
    )
    parser.add_argument("--list", action="store_true", help="list the known releases instead, with where they are")
    parser.add_argument("--json", action="store_true", help="list them for programs")
    parser.set_defaults(run=_convert, wrong_usage=parser.error)


def _add_export(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "export",
        parents=[shared],
        help="make an original ELMo of a Transformers model",
        description="Write the language model of a folder, trained or not and of any class, back in an original "
        "format. What the format cannot hold is listed.",
        epilog="example: elmo-hf export my-elmo --format allennlp-hdf5 --output original",
    )
    parser.add_argument("model", type=Path, metavar="DIR", help="a model folder")
    parser.add_argument(
        "--format",
        default="allennlp-hdf5",
        metavar="NAME",
        help="allennlp-hdf5, the default: HDF5 weights and JSON options, for AllenNLP, Flair and bilm-tf",
    )
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="folder to make; must not exist")
    parser.set_defaults(run=_export)


def _add_inspect(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "inspect",
        parents=[shared],
        help="show what a converted model is",
        description="Show the sizes, layers, parameters, tokenizer and origin of a model folder. Reads no weights.",
    )
    parser.add_argument("model", type=_model_folder, metavar="DIR", help="a model folder, or elmo-tiny-en")
    parser.set_defaults(run=_inspect)


def _add_verify(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "verify",
        parents=[shared],
        help="compare a converted model with its original",
        description="Compare every layer of a converted model with an independent NumPy computation from the original "
        "files, with and without state passed on. The exit status is 1 if they differ by more than rounding.",
        epilog="example: elmo-hf verify my-elmo weights.hdf5 options.json",
    )
    parser.add_argument("model", type=Path, metavar="DIR", help="the converted model's folder")
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="what it was converted from, as given to convert")
    parser.add_argument(
        "--sentences",
        type=Path,
        metavar="FILE",
        help="UTF-8 text, one sentence a line, words apart by white space; by default a few awkward sentences",
    )
    parser.set_defaults(run=_verify)


def _add_embed(commands: Any, shared: argparse.ArgumentParser) -> None:
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
        type=_model_folder,
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
    parser.add_argument(
        "--tokenized", action="store_true", help="the words are apart by white space already: do not split further"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="new file for the vectors, .npz, .hdf5 (as AllenNLP's) or .safetensors: the array of line i is named "
        "i, counted from 0, and is (words, width), or (layers, words, width) for all; an empty line has no words",
    )
    parser.set_defaults(run=_embed)


def _add_build_vocab(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "build-vocab",
        parents=[shared],
        help="make the vocabulary of a language model",
        description="Count the words of text files and write them by descending frequency, one a line, after <S>, "
        "</S> and <UNK>.",
        epilog="example: elmo-hf build-vocab 'news/*.txt.gz' --output vocab.txt --min-count 3",
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="UTF-8 text, one sentence a line, words apart by white space; as it is or compressed by gzip, bzip2 or "
        "xz; a folder or a pattern for several; - reads standard input",
    )
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="file to make; must not exist")
    parser.add_argument(
        "--min-count", type=int, default=1, metavar="N", help="leave out words that occur less often; 1 by default"
    )
    parser.add_argument(
        "--max-size", type=int, metavar="N", help="lines of the vocabulary at most; the most frequent words stay"
    )
    parser.set_defaults(run=_build_vocab)


def _add_perplexity(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "perplexity",
        parents=[shared],
        help="measure how well a language model predicts a text",
        description="Compute the perplexity of a text by a language model, with the softmax over all words: of the "
        "forward direction, of the backward one, and of the mean of their losses. Each sentence is read by itself, "
        "and words outside the vocabulary are predicted as <UNK>.",
        epilog="example: elmo-hf perplexity my-elmo heldout.txt --tokenized",
    )
    parser.add_argument("model", type=_model_folder, metavar="MODEL", help="a model folder that has a softmax")
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="UTF-8 text, one sentence a line; as it is or compressed by gzip, bzip2 or xz; a folder or a pattern for "
        "several; - reads standard input",
    )
    parser.add_argument(
        "--tokenized", action="store_true", help="the words are apart by white space already: do not split further"
    )
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


def _convert(options: argparse.Namespace) -> int:
    if options.json and not options.list and (options.sources or options.output is not None):
        options.wrong_usage("--json is for --list")
    if options.list or options.json:
        return _list_releases(options)
    if not options.sources or options.output is None:
        options.wrong_usage("give a SOURCE and --output, or --list")
    from elmo_hf_conversion import convert

    _silence_libraries()
    with _notes_held_back():
        config = convert(
            options.sources,
            options.output,
            mix=options.mix,
            language=options.language,
            progress=sys.stderr is not None and sys.stderr.isatty(),
        )
    size = sum(path.stat().st_size for path in options.output.iterdir())
    print(f"Converted to {options.output} ({readable_size(size)}):")
    print(f"    {describe_layers(config)}, vectors {config.hidden_size} wide")
    print()
    print("Load it in Python:")
    print("    import elmo_hf")
    print("    from transformers import AutoModel, AutoTokenizer")
    print(f"    tokenizer = AutoTokenizer.from_pretrained({str(options.output)!r})")
    print(f"    model = AutoModel.from_pretrained({str(options.output)!r})")
    print()
    print("Next:")
    folder = shlex.quote(str(options.output))
    print(f"    elmo-hf inspect {folder}")
    print(f'    elmo-hf embed --text "The bank raised rates ." --model {folder}')
    return 0


def _list_releases(options: argparse.Namespace) -> int:
    from elmo_hf_conversion import releases

    if options.json:
        print(json.dumps(releases.as_data(), indent=1, ensure_ascii=False))
        return 0
    columns = shutil.get_terminal_size((MAX_COLUMNS, 0)).columns
    print(releases.as_text(width=min(max(columns, MIN_COLUMNS), MAX_COLUMNS)))
    return 0


def _export(options: argparse.Namespace) -> int:
    from elmo_hf_conversion import export

    _silence_libraries()
    notes = export(options.model, options.output, format=options.format)
    files = sorted(options.output.iterdir())
    print(f"Exported to {options.output}:")
    for path in files:
        print(f"    {path.name}, {readable_size(path.stat().st_size)}")
    for note in notes:
        print(note)
    return 0


def _inspect(options: argparse.Namespace) -> int:
    rows = describe(options.model)
    size = sum(path.stat().st_size for path in options.model.iterdir())
    print(_printable(f"{options.model} ({readable_size(size)})"))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {_printable(value)}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from elmo_hf_conversion.verify import verify

    _silence_libraries()
    read_config(options.model)
    sentences = None
    if options.sentences is not None:
        sentences = [line.split() for line in read_lines(str(options.sentences))]
    with _notes_held_back():
        differences = verify(options.model, options.sources, sentences)
    print("layer  state   max |difference|  max |value|  tolerance")
    for difference in differences:
        state = "passed" if difference.with_state else "fresh"
        print(
            f"{difference.layer:>5}  {state:<6}  {difference.max_abs:>16.1e}  {difference.scale:>11.3g}  "
            f"{difference.tolerance:>9.0e}" + ("" if difference.passed else "  differs")
        )
    if not all(difference.passed for difference in differences):
        raise ElmoError(
            f"{options.model} differs from its original: convert it again, and report it if that is no help."
        )
    print("The model agrees with its original.")
    return 0


def _embed(options: argparse.Namespace) -> int:
    from .embedding import embed, load, open_vector_file, parse_layer

    _silence_libraries()
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


def _perplexity(options: argparse.Namespace) -> int:
    from .perplexity import CorpusScore, load_language_model, open_score_file, score

    _silence_libraries()
    # refuse what can be refused before the model is loaded
    if options.json_lines is not None:
        check_new_file(options.json_lines)
    find_files(options.files)
    model, tokenizer = load_language_model(options.model)
    read: deque[list[str]] = deque()

    def sentences() -> Iterator[list[str]]:
        for words in read_sentences(options.files, tokenize=str.split if options.tokenized else tokenizer.tokenize):
            read.append(words)
            yield words

    total, start = CorpusScore(), time.perf_counter()
    with contextlib.ExitStack() as stack:
        add = None if options.json_lines is None else stack.enter_context(open_score_file(options.json_lines))
        for sentence in score(model, tokenizer, sentences(), stateful=options.stateful, words_per_batch=options.batch):
            total.add(sentence)
            words = read.popleft()
            if add is not None:
                add(words, sentence)
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
    return 0


def _print_vectors(number: int, line: str, words: list[str], vectors: "Vectors") -> None:
    """Print one sentence's `[words, H]` or `[layers, words, H]` as a table, one row a word and layer."""
    print(f"{chr(10) * bool(number)}# {number}: {_printable(line)}")
    if not words:
        print("(no words)")
        return
    # [layers, words, H]
    layers = vectors if vectors.ndim == 3 else vectors[None]
    shown = min(SHOWN_DIMENSIONS, layers.shape[2])
    more = " ..." if layers.shape[2] > shown else ""
    texts = [_printable(word) for word in words]
    width = max(4, *(_width(text) for text in texts))
    layer_header = "  layer" if vectors.ndim == 3 else ""
    print(f"word{' ' * (width - 4)}{layer_header}     norm" + "".join(f"{i:>9}" for i in range(shown)) + more)
    for i, text in enumerate(texts):
        for layer, vector in enumerate(layers[:, i]):
            norm = float((vector.astype("float64") ** 2).sum() ** 0.5)
            print(
                (text if layer == 0 else " " * _width(text))
                + " " * (width - _width(text))
                + (f"  {layer:>5}" if layer_header else "")
                + f"{norm:>9.3f}"
                + "".join(f"{value:>9.4f}" for value in vector[:shown])
                + more
            )


class _HeldBack(logging.Handler):
    """Keeps notes; but that a download is tried again is news while one waits for it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.notes: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "elmo_hf_conversion.download":
            self.show(record)
        else:
            self.notes.append(record)

    def show(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            print(_printable(record.getMessage()), file=sys.stderr)


@contextlib.contextmanager
def _notes_held_back() -> Iterator[None]:
    """Show the converter's notes when all is well; an error stands alone, as one line."""
    logger, held = logging.getLogger("elmo_hf_conversion"), _HeldBack()
    logger.addHandler(held)
    try:
        yield
    finally:
        logger.removeHandler(held)
    for record in held.notes:
        held.show(record)


def _silence_libraries() -> None:
    """Keep the output to what this command says."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def _printable(text: str) -> str:
    """Escape what would disturb a terminal, but not the joiners that scripts and emoji need."""
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else c.encode("unicode_escape").decode() for c in text)


def _width(text: str) -> int:
    """Count the columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


__all__ = ["build_parser", "main"]


if __name__ == "__main__":
    sys.exit(main())
