"""The commands about models: convert, export, inspect and verify."""

import argparse
import json
import shlex
import shutil
import sys
from pathlib import Path

from elmo_hf.bundled import model_folder
from elmo_hf.errors import ElmoError

from .shared import Commands, notes_held_back, printable, silence_libraries


# columns of the list of releases, whatever the terminal has
MIN_COLUMNS, MAX_COLUMNS = 80, 120


def add_convert(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf convert`."""
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


def _convert(options: argparse.Namespace) -> int:
    if options.json and not options.list and (options.sources or options.output is not None):
        options.wrong_usage("--json is for --list")
    if options.list or options.json:
        return _list_releases(options)
    if not options.sources or options.output is None:
        options.wrong_usage("give a SOURCE and --output, or --list")
    from elmo_hf.inspection import describe_layers, readable_size
    from elmo_hf_conversion import convert

    silence_libraries()
    with notes_held_back():
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
    predicts = "ElmoForPreTraining" in (config.architectures or [])
    if predicts:
        print(f"    the softmax, which predicts {config.vocab_size - 1:,} words")
    print()
    print("Load it in Python:")
    print("    import elmo_hf")
    print(f"    from transformers import AutoModel, {'AutoModelForMaskedLM, ' * predicts}AutoTokenizer")
    print(f"    tokenizer = AutoTokenizer.from_pretrained({str(options.output)!r})")
    print(f"    model = AutoModel.from_pretrained({str(options.output)!r})")
    if predicts:
        print(f"    language_model = AutoModelForMaskedLM.from_pretrained({str(options.output)!r})")
    print()
    print("Next:")
    folder = shlex.quote(str(options.output))
    print(f"    elmo-hf inspect {folder}")
    print(f'    elmo-hf embed --text "The bank raised rates ." --model {folder}')
    if predicts:
        print(f"    elmo-hf perplexity {folder} TEXT")
    return 0


def _list_releases(options: argparse.Namespace) -> int:
    from elmo_hf_conversion.fetch import releases

    if options.json:
        print(json.dumps(releases.as_data(), indent=1, ensure_ascii=False))
        return 0
    columns = shutil.get_terminal_size((MAX_COLUMNS, 0)).columns
    print(releases.as_text(width=min(max(columns, MIN_COLUMNS), MAX_COLUMNS)))
    return 0


def add_export(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf export`."""
    parser = commands.add_parser(
        "export",
        parents=[shared],
        help="make an original ELMo, or ONNX, of a Transformers model",
        description="Write the language model of a folder, trained or not and of any class, back in an original "
        "format. What the format cannot hold is listed. Or write the model as ONNX, for programs without PyTorch.",
        epilog="example: elmo-hf export my-elmo --format allennlp-hdf5 --output original",
    )
    parser.add_argument("model", type=Path, metavar="DIR", help="a model folder")
    parser.add_argument(
        "--format",
        default="allennlp-hdf5",
        metavar="NAME",
        help="allennlp-hdf5, the default: HDF5 weights and JSON options, for AllenNLP, Flair and bilm-tf; or onnx: "
        "one file, which gives vectors, or the logits of a task (extra: onnx)",
    )
    parser.add_argument(
        "--output", required=True, type=Path, metavar="PATH", help="folder, or ONNX file, to make; must not exist"
    )
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> int:
    if options.format == "onnx":
        return _export_onnx(options)
    from elmo_hf.inspection import readable_size
    from elmo_hf_conversion import export

    silence_libraries()
    notes = export(options.model, options.output, format=options.format)
    files = sorted(options.output.iterdir())
    print(f"Exported to {options.output}:")
    for path in files:
        print(f"    {path.name}, {readable_size(path.stat().st_size)}")
    for note in notes:
        print(note)
    return 0


def _export_onnx(options: argparse.Namespace) -> int:
    from elmo_hf.inspection import readable_size
    from elmo_hf.integrations.exporting import export_onnx

    silence_libraries()
    path = export_onnx(model_folder(str(options.model)), options.output)
    print(f"Exported to {path} ({readable_size(path.stat().st_size)}).")
    return 0


def add_inspect(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf inspect`."""
    parser = commands.add_parser(
        "inspect",
        parents=[shared],
        help="show what a converted model is",
        description="Show the sizes, layers, parameters, tokenizer and origin of a model folder. Reads no weights.",
    )
    parser.add_argument("model", type=model_folder, metavar="DIR", help="a model folder, or elmo-tiny-en")
    parser.set_defaults(run=_inspect)


def _inspect(options: argparse.Namespace) -> int:
    from elmo_hf.inspection import describe, readable_size

    rows = describe(options.model)
    size = sum(path.stat().st_size for path in options.model.iterdir())
    print(printable(f"{options.model} ({readable_size(size)})"))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {printable(value)}")
    return 0


def add_verify(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf verify`."""
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


__all__ = ["add_convert", "add_export", "add_inspect", "add_verify"]
