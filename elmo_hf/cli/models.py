"""The commands `convert`, `export`, `inspect` and `verify`, which make and check model folders."""

import argparse
import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_hf.bundled import model_folder
from elmo_hf.errors import ElmoError, counted

from .shared import Commands, notes_held_back, printable, shows_progress, silence_libraries


if TYPE_CHECKING:
    from elmo_hf import ElmoConfig

# columns of the list of releases, however narrow or wide the terminal is
MIN_COLUMNS, MAX_COLUMNS = 80, 120


def add_convert(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf convert`."""
    parser = commands.add_parser(
        "convert",
        parents=[shared],
        help="convert an original ELMo into a Transformers model",
        description="Convert an original ELMo into a folder that AutoModel and AutoTokenizer load.",
        epilog="examples: elmo-hf convert original --output my-elmo; "
        "elmo-hf convert weights.hdf5 options.json --output my-elmo",
    )
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="the name of a release to download, such as original, small, 5.5B, german, efml:zh or nlpl:195 (--list "
        "shows all); or the weights (.hdf5), the options (.json) and, if there is one, the vocabulary (.txt, .txt.gz) "
        "in any order; or AllenNLP's model.tar.gz or weights.th; or a folder or archive with a model in it, such as a "
        "TensorFlow checkpoint of bilm-tf; or https addresses of any of these",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder to create; it must not exist")
    parser.add_argument(
        "--mix",
        type=int,
        metavar="K",
        help="use mix number K, counted from 0, of a model that AllenNLP trained with several (default: the first)",
    )
    parser.add_argument(
        "--language", metavar="XX", help="convert the language XX, such as es, of AllenNLP's multilingual ELMo"
    )
    parser.add_argument(
        "--list", action="store_true", help="list the known releases: names, files, addresses, licences"
    )
    parser.add_argument("--json", action="store_true", help="list the known releases as JSON")
    parser.set_defaults(run=_convert, wrong_usage=parser.error)


def _convert(options: argparse.Namespace) -> int:
    if options.json and not options.list and (options.sources or options.output is not None):
        options.wrong_usage("--json is for --list")
    if options.list or options.json:
        return _list_releases(options)
    if not options.sources:
        options.wrong_usage("give a SOURCE and --output, or --list")
    if options.output is None:
        options.wrong_usage("--output is missing: name the folder to create")
    from elmo_hf_conversion import convert

    silence_libraries()
    with notes_held_back():
        config = convert(
            options.sources,
            options.output,
            mix=options.mix,
            language=options.language,
            progress=shows_progress(),
        )
    _print_converted(options.output, config)
    return 0


def _print_converted(folder: Path, config: "ElmoConfig") -> None:
    """Print what was converted, and how to use it."""
    from elmo_hf.inspection import describe_layers, readable_size

    predicts = "ElmoForPreTraining" in (config.architectures or [])
    print(f"Converted to {folder} ({readable_size(_size_of(folder))}):")
    print(f"    {describe_layers(config)}, vectors {config.hidden_size} wide")
    if predicts:
        print(f"    the softmax, which predicts {counted(config.vocab_size - 1, 'word')}")
    print()
    print("Load it in Python:")
    print("    import elmo_hf")
    print(f"    from transformers import AutoModel, {'AutoModelForMaskedLM, ' * predicts}AutoTokenizer")
    print(f"    tokenizer = AutoTokenizer.from_pretrained({str(folder)!r})")
    print(f"    model = AutoModel.from_pretrained({str(folder)!r})")
    if predicts:
        print(f"    language_model = AutoModelForMaskedLM.from_pretrained({str(folder)!r})")
    print()
    print("Next:")
    argument = shlex.quote(str(folder))
    print(f"    elmo-hf inspect {argument}")
    print(f'    elmo-hf embed --text "The bank raised rates ." --model {argument}')
    if predicts:
        print(f"    elmo-hf perplexity {argument} TEXT")


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _list_releases(options: argparse.Namespace) -> int:
    from elmo_hf_conversion.fetch import releases

    if options.json:
        print(json.dumps(releases.as_data(), indent=1, ensure_ascii=False))
        return 0
    columns = shutil.get_terminal_size((MAX_COLUMNS, 0)).columns
    print(releases.as_text(width=min(max(columns, MIN_COLUMNS), MAX_COLUMNS)))
    return 0


def add_export(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf export`."""
    parser = commands.add_parser(
        "export",
        parents=[shared],
        help="write a Transformers model in an original format, or as ONNX",
        description="Write the language model in a model folder, of any class, in an original format, and list what "
        "the format cannot hold. Or write the model as ONNX, for programs without PyTorch.",
        epilog="example: elmo-hf export my-elmo --format allennlp-hdf5 --output original",
    )
    parser.add_argument("model", type=model_folder, metavar="DIR", help="model folder, or elmo-small-en")
    parser.add_argument(
        "--format",
        default="allennlp-hdf5",
        metavar="NAME",
        help="allennlp-hdf5 (the default): HDF5 weights and JSON options, for AllenNLP, Flair and bilm-tf; onnx: one "
        'file, which computes vectors, or the logits of a task. ONNX needs pip install "elmo_hf[onnx]"',
    )
    parser.add_argument(
        "--output", required=True, type=Path, metavar="PATH", help="folder, or ONNX file, to create; it must not exist"
    )
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> int:
    if options.format == "onnx":
        return _export_onnx(options)
    from elmo_hf.inspection import readable_size
    from elmo_hf_conversion import export

    silence_libraries()
    notes = export(options.model, options.output, format=options.format)
    print(f"Exported to {options.output}:")
    for path in sorted(options.output.iterdir()):
        print(f"    {path.name}, {readable_size(path.stat().st_size)}")
    for note in notes:
        print(note)
    return 0


def _export_onnx(options: argparse.Namespace) -> int:
    from elmo_hf.inspection import readable_size
    from elmo_hf.integrations.onnx_export import export_onnx

    silence_libraries()
    if shows_progress():
        # the exporter has no progress bar
        print("Tracing the model, which can take minutes ...", file=sys.stderr)
    path = export_onnx(options.model, options.output)
    print(f"Exported to {path} ({readable_size(path.stat().st_size)}).")
    return 0


def add_inspect(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf inspect`."""
    parser = commands.add_parser(
        "inspect",
        parents=[shared],
        help="describe a model folder",
        description="Show the sizes, layers, parameters, tokenizer and origin of a model. Its weights are not loaded.",
        epilog="example: elmo-hf inspect my-elmo",
    )
    parser.add_argument("model", type=model_folder, metavar="DIR", help="model folder, or elmo-small-en")
    parser.set_defaults(run=_inspect)


def _inspect(options: argparse.Namespace) -> int:
    from elmo_hf.inspection import describe, readable_size

    rows = describe(options.model)
    print(printable(f"{options.model} ({readable_size(_size_of(options.model))})"))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {printable(value)}")
    return 0


def add_verify(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf verify`."""
    parser = commands.add_parser(
        "verify",
        parents=[shared],
        help="compare a converted model with its original",
        description="Compare every layer of a converted model with an independent NumPy computation from the original "
        "files, both with a fresh state and with the state passed from sentence to sentence. The exit status is 1 if "
        "they differ by more than rounding.",
        epilog="example: elmo-hf verify my-elmo weights.hdf5 options.json",
    )
    parser.add_argument("model", type=Path, metavar="DIR", help="folder of the converted model")
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="the original, as you gave it to convert")
    parser.add_argument(
        "--sentences",
        type=Path,
        metavar="FILE",
        help="UTF-8 text with one tokenized sentence a line (default: a few awkward sentences)",
    )
    parser.set_defaults(run=_verify)


def _verify(options: argparse.Namespace) -> int:
    from elmo_hf.data.corpus import read_lines
    from elmo_hf.inspection import read_config
    from elmo_hf_conversion.verify import verify

    silence_libraries()
    read_config(options.model)
    sentences = None
    if options.sentences is not None:
        sentences = [line.split() for line in read_lines(str(options.sentences))]
    with notes_held_back():
        differences = verify(options.model, options.sources, sentences, progress=shows_progress())
    print("layer  state   max |difference|  max |value|  tolerance")
    for difference in differences:
        state = "passed" if difference.with_state else "fresh"
        print(
            f"{difference.layer:>5}  {state:<6}  {difference.max_abs:>16.1e}  {difference.scale:>11.3g}  "
            f"{difference.tolerance:>9.0e}" + ("" if difference.passed else "  differs")
        )
    if not all(difference.passed for difference in differences):
        raise ElmoError(
            f"{options.model} differs from its original: convert it again, and report it if it still does."
        )
    print("The model agrees with its original.")
    return 0


__all__ = ["add_convert", "add_export", "add_inspect", "add_verify"]
