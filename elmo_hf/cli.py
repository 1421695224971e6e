"""The `elmo-hf` command: convert an original ELMo, inspect and verify the result, embed text with it."""

import argparse
import contextlib
import io
import json
import math
import os
import shlex
import sys
import traceback
import unicodedata
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .errors import ElmoError


if TYPE_CHECKING:
    from .configuration_elmo import ElmoConfig
    from .embedding import Vectors

# columns of a table of vectors
SHOWN_DIMENSIONS = 6
# the exit status that a shell reports for a program that SIGINT or SIGPIPE ended
INTERRUPTED, BROKEN_PIPE = 130, 141

# parts of a model by the names of their parameters, in the order of the forward pass
PARTS = (
    ("token_encoder.word_embeddings.", "words"),
    ("token_encoder.char_embeddings.", "characters"),
    ("token_encoder.convolutions.", "convolutions"),
    ("token_encoder.highways.", "highways"),
    ("token_encoder.projection.", "projection"),
    ("layers.", "biLSTM layer"),
    ("scalar_mix.", "mix"),
)

# as Transformers calls what safetensors abbreviates
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


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
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # what is still buffered has no reader either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (ElmoError, OSError, ValueError) as error:
        if options.debug:
            traceback.print_exc()
        print(f"elmo-hf: error: {_one_line(error)}", file=sys.stderr)
        return 1
    return status


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
    _add_inspect(commands, shared)
    _add_verify(commands, shared)
    _add_embed(commands, shared)
    return parser


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
        nargs="+",
        metavar="SOURCE",
        help="the weights (.hdf5) and options (.json) in any order, and the vocabulary (.txt, .txt.gz) if there is "
        "one; or a folder or .zip that holds them; or https addresses of them",
    )
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="folder to make; must not exist")
    parser.set_defaults(run=_convert)


def _add_inspect(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "inspect",
        parents=[shared],
        help="show what a converted model is",
        description="Show the sizes, layers, parameters, tokenizer and origin of a model folder. Reads no weights.",
    )
    parser.add_argument("model", type=Path, metavar="DIR", help="a model folder")
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
        epilog='example: elmo-hf embed --text "The bank raised rates ." --model my-elmo',
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--text", action="append", metavar="TEXT", help="a sentence; may be given more than once, for several"
    )
    source.add_argument(
        "file", nargs="?", metavar="FILE", help="UTF-8 text, one sentence a line; - reads standard input"
    )
    parser.add_argument("--model", required=True, type=Path, metavar="DIR", help="a model folder")
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


def _convert(options: argparse.Namespace) -> int:
    from elmo_hf_conversion import convert

    _silence_libraries()
    config = convert(options.sources, options.output, progress=sys.stderr.isatty())
    size = sum(path.stat().st_size for path in options.output.iterdir())
    print(f"Converted to {options.output} ({_readable_size(size)}):")
    print(f"    {_describe_layers(config)}, vectors {config.hidden_size} wide")
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


def _inspect(options: argparse.Namespace) -> int:
    config = _read_config(options.model)
    counts, dtypes = _count_parameters(options.model)
    total = sum(counts.values())
    rows = [
        ("model", f"{', '.join(config.architectures or ['unknown class'])}, {', '.join(sorted(dtypes))}"),
        ("layers", _describe_layers(config)),
        ("vectors", f"{config.hidden_size} wide, forward and backward half of {config.hidden_size // 2}"),
        ("cells", f"{config.intermediate_size} wide, {_describe_clips(config)}"),
        ("words", _describe_words(config)),
        ("tokenizer", _describe_tokenizer(options.model)),
        ("parameters", f"{total:,}"),
        *((f"  {part}", f"{count:>{len(f'{total:,}')},}  {count / total:6.1%}") for part, count in counts.items()),
        *_describe_provenance(options.model),
    ]
    print(f"{options.model} ({_readable_size(sum(path.stat().st_size for path in options.model.iterdir()))})")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from elmo_hf_conversion.verify import verify

    _silence_libraries()
    _read_config(options.model)
    sentences = None
    if options.sentences is not None:
        sentences = [line.split() for line in _read_lines(str(options.sentences))]
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
    layer = parse_layer(options.layer, _read_config(options.model).num_hidden_layers)
    lines = options.text if options.text is not None else _read_lines(options.file)
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


def _read_lines(name: str) -> Iterator[str]:
    """Read the lines of a UTF-8 file, or of standard input for `-`, without their ends."""
    with contextlib.nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                # a mark at the very start is not text
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                source = "standard input" if name == "-" else name
                raise ElmoError(
                    f"{source}, line {number}: byte {raw[error.start]:#04x} is not UTF-8: save the text as UTF-8."
                ) from error
            yield line.rstrip("\r\n")


def _read_config(folder: Path) -> "ElmoConfig":
    """Read the configuration of a model folder."""
    from huggingface_hub.errors import StrictDataclassError

    from .configuration_elmo import ElmoConfig

    values = _read_json(folder / "config.json")
    if not values:
        raise ElmoError(f"{folder} is not a model folder, as it has no config.json: make one with `elmo-hf convert`.")
    if values.get("model_type") != ElmoConfig.model_type:
        raise ElmoError(f"{folder} is not of an ELMo: its model_type is {values.get('model_type')!r}.")
    try:
        return ElmoConfig.from_dict(values)
    except StrictDataclassError as error:
        raise ElmoError(f"{folder / 'config.json'} is of no model: {_one_line(error)}") from error


def _count_parameters(folder: Path) -> tuple[dict[str, int], set[str]]:
    """Count the parameters of each part, and list their dtypes, from the headers of the weights."""
    from safetensors import SafetensorError, safe_open

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ElmoError(f"{folder} has no weights, a file named model.safetensors.")
    counts: dict[str, int] = {}
    dtypes = set()
    for path in files:
        try:
            with safe_open(path, framework="numpy") as file:
                for name in file.keys():  # noqa: SIM118 - not a dictionary
                    part = file.get_slice(name)
                    counts[_part_of(name)] = counts.get(_part_of(name), 0) + math.prod(part.get_shape())
                    dtypes.add(DTYPES.get(part.get_dtype(), part.get_dtype()))
        except SafetensorError as error:
            raise ElmoError(f"{path} is damaged: {_one_line(error)}") from error
    return dict(sorted(counts.items(), key=lambda item: _order_of(item[0]))), dtypes


def _part_of(name: str) -> str:
    """Name the part of the model that a parameter belongs to."""
    name = name.removeprefix("elmo.")
    for prefix, part in PARTS:
        if name.startswith(prefix):
            # the token layer is layer 0
            return f"{part} {int(name.split('.')[1]) + 1}" if prefix == "layers." else part
    return "task"


def _order_of(part: str) -> tuple[int, str]:
    order = [name for _, name in PARTS]
    stem = part.rstrip("0123456789").rstrip()
    return (order.index(stem) if stem in order else len(order), part)


def _describe_layers(config: "ElmoConfig") -> str:
    skips = "with" if config.use_skip_connections else "without"
    plural = "" if config.num_hidden_layers == 1 else "s"
    return f"the token layer and {config.num_hidden_layers} biLSTM layer{plural} {skips} skip connections"


def _describe_clips(config: "ElmoConfig") -> str:
    clips = {"cells": config.cell_clip, "outputs": config.projection_clip}
    described = [f"{name} clipped at {clip:g}" for name, clip in clips.items() if clip]
    return ", ".join(described) or "nothing clipped"


def _describe_words(config: "ElmoConfig") -> str:
    parts = []
    if config.word_embedding_dim:
        parts.append(f"{config.vocab_size:,} words, {config.word_embedding_dim} wide")
    if config.char_embedding_dim:
        filters = " ".join(f"{width}x{number}" for width, number in config.char_filters)
        parts.append(
            f"{config.max_characters_per_token} characters, {config.char_embedding_dim} wide; filters {filters}; "
            f"{config.hidden_act}; {config.num_highway_layers} highway layers"
        )
    return "; ".join(parts)


def _describe_tokenizer(folder: Path) -> str:
    values = _read_json(folder / "tokenizer_config.json")
    if not values:
        return "none in this folder"
    kind = values.get("tokenizer_class", "unknown class")
    return f"{kind}, pre-tokenizer {values['pre_tokenizer']}" if "pre_tokenizer" in values else str(kind)


def _describe_provenance(folder: Path) -> list[tuple[str, str]]:
    values = _read_json(folder / "provenance.json")
    if not values:
        return [("origin", "not recorded in this folder")]
    rows = [("origin", f"{values.get('format', 'unknown format')}, converted by {values.get('converter', 'unknown')}")]
    for source in values.get("sources", []):
        where = f" from {source['url']}" if source.get("url") else ""
        rows.append(("  source", f"{source['name']}{where}, {source['size']:,} bytes, sha256 {source['sha256']}"))
    return rows


def _read_json(path: Path) -> dict[str, Any]:
    """Read an object from a JSON file; an absent file is empty."""
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ElmoError(f"{path} is damaged: {_one_line(error)}") from error
    if not isinstance(values, dict):
        raise ElmoError(f"{path} is damaged: it does not hold an object.")
    return values


def _silence_libraries() -> None:
    """Keep the output to what this command says."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def _readable_size(size: int) -> str:
    """Write a number of bytes in the largest unit in which it is at least 1."""
    value = float(size)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def _one_line(error: BaseException) -> str:
    """Write an error as one line."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


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
