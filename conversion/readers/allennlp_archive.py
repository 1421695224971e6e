"""Read the ELMo inside a model that AllenNLP trained: `model.tar.gz`, or its `weights.th` or `best.th` alone.

Names: https://github.com/allenai/allennlp/blob/v2.10.1/allennlp/modules/elmo.py, modules `Elmo` and `_ElmoBiLm`, and
elmo_token_embedder_multilang.py of the same library for several languages, version 0.9.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import (
    Choice,
    ConversionError,
    InputFile,
    OriginalArray,
    OriginalCheckpoint,
    SelectionError,
    Sizes,
    Tables,
    printable,
    source_files,
)
from .content import Kind
from .options import read_options
from .parts import only, options_among, read_lines
from .torch_file import arrays_of, load_tensors


logger = logging.getLogger(__name__)

FORMAT = "allennlp-torch"

TABLES = Tables(
    characters="_elmo_lstm._token_embedder._char_embedding_weights",
    words="_elmo_lstm._word_embedding.weight",
    padded=True,
)

#: A name that every ELMo has, and nothing else; the names of a state dict come before its numbers.
MARK = b"_char_embedding_weights"
MARK_WITHIN = 1 << 22

TABLE = "_token_embedder._char_embedding_weights"
MIX = re.compile(r"(?P<prefix>(?:.*\.)?)(?P<mix>scalar_mix_(?P<number>\d{1,6}))\.(?:gamma|scalar_parameters\.\d+)")
#: Names of the biLM's weights, without the characters of boundary tokens and the cache of words.
OF_BILM = re.compile(r"_token_embedder\.(?!_(beginning|end)_of_sentence_characters$)|_elmo_lstm\.")
OF_LANGUAGE = re.compile(r"(?P<prefix>(?:.*\.)?)elmo_(?P<language>[^.]+)\.")

#: The file to take from those of one training run.
PREFERRED = ("best.th", "weights.th")

MAX_DEPTH = 100


@dataclass(frozen=True)
class Elmo:
    """One ELMo in a state dict.

    Attributes:
        prefix: Before `_elmo_lstm` and `scalar_mix_0`.
        tensors: Its biLM by the names in the file; the values are the names without prefix.
        mixes: The same for each mix, by its number.
        language: Its language, if it is one of several.
        alignment: The same for that language's linear map.
    """

    prefix: str
    tensors: dict[str, str]
    mixes: dict[int, dict[str, str]]
    language: str | None
    alignment: dict[str, str]

    def names(self, *mixes: int | None) -> dict[str, str]:
        """Return its names with those of some mixes."""
        names = self.tensors | self.alignment
        for number in mixes:
            names |= {} if number is None else self.mixes[number]
        return names


def recognises(files: list[InputFile]) -> list[InputFile]:
    """Return the PyTorch files that have an ELMo's table of characters."""
    return [file for file in files if _is_weights(file)]


def read(files: list[InputFile], resources: ExitStack, choice: Choice) -> OriginalCheckpoint:
    """Read the ELMo of a trained model with its mix; the rest of the model is left out.

    Args:
        files: All that was given or found.
        resources: Releases the arrays at the end.
        choice: The mix and the language to take.

    Returns:
        Its arrays by their names without prefix, such as `_elmo_lstm._token_embedder.char_conv_0.weight`. The options
        are those of a file with a section `lstm`, empty if there is none.

    Raises:
        ConversionError: If there is not exactly one such ELMo, or a part is damaged.
    """
    weights = _weights(files)
    config, options = _config(files, weights), _options(files)
    vocabulary = _vocabulary(files)
    for file in files:
        if file.explicit and file not in (weights, config, options, vocabulary):
            raise ConversionError(f"{file.name} ({file.kind.value}) is not part of this model. Leave it out.")
    state = load_tensors(weights)
    elmo = _chosen_elmo(_elmos(state), state, choice, weights)
    number = _chosen_mix(elmo, choice, weights.name)
    names = elmo.names(number)
    left = tuple(sorted(printable(name) for name in state if name not in names))
    tensors = {short: state[name] for name, short in names.items()}
    # the tensors of old files are all in memory
    resources.callback(tensors.clear)
    if config is not None:
        _warn_of_layer_norm(config)
    checkpoint = OriginalCheckpoint(
        format=FORMAT,
        options={} if options is None else read_options(options.location, name=options.name),
        arrays=arrays_of(tensors, weights),
        weights_name=weights.name,
        options_name="the shape of its other tensors" if options is None else options.name,
        sources=source_files([file for file in (weights, config, options, vocabulary) if file is not None]),
        tables=TABLES,
        mix=None if number is None else _mix_name(elmo.mixes[number]),
        alignment=next(iter(elmo.alignment.values()), None),
        vocabulary=None if vocabulary is None else read_lines(vocabulary),
        vocabulary_name=None if vocabulary is None else vocabulary.name,
        left=left,
        chosen=_described(elmo, number),
        resources=resources,
    )
    if options is None:
        checkpoint.sizes = _sizes(checkpoint)
    return checkpoint


def _mix_name(names: dict[str, str]) -> str:
    """Return the name of a mix, such as `scalar_mix_0`, from the names of its parameters."""
    return next(iter(names.values())).partition(".")[0]


def _sizes(checkpoint: OriginalCheckpoint) -> Sizes:
    encoder = "_elmo_lstm._token_embedder"
    projections = "_elmo_lstm._elmo_lstm.forward_layer_{}.state_projection.weight"
    # [number, depth, width] each
    kernels = [
        checkpoint.shape_of(f"{encoder}.char_conv_{i}.weight", 3)
        for i in range(checkpoint.count(f"{encoder}.char_conv_{{}}.weight"))
    ]
    # [262, depth], [P, C]
    _, depth = checkpoint.shape_of(TABLES.characters, 2)
    projection, cell = checkpoint.shape_of(projections.format(0), 2)
    return Sizes(
        char_embedding=depth,
        char_filters=tuple((width, number) for number, _, width in kernels),
        num_highway_layers=checkpoint.count(f"{encoder}._highways._layers.{{}}.weight"),
        cell=cell,
        projection=projection,
        num_layers=checkpoint.count(projections),
    )


def _is_weights(file: InputFile) -> bool:
    if file.kind not in (Kind.TORCH, Kind.PICKLE) or file.path is None:
        return False
    with file.path.open("rb") as raw:
        return MARK in raw.read(MARK_WITHIN)


def _weights(files: list[InputFile]) -> InputFile:
    found = [file for file in files if _is_weights(file)]
    for few in (
        [file for file in found if file.explicit],
        *([file for file in found if file.basename == name] for name in PREFERRED),
    ):
        if len(few) == 1:
            return few[0]
    return only(found, "weights (of PyTorch, with an ELMo)", files)


def _config(files: list[InputFile], weights: InputFile) -> InputFile | None:
    """Find AllenNLP's description of the model beside the weights."""
    name = f"{weights.name.rpartition('/')[0]}/config.json".removeprefix("/")
    return next((file for file in files if file.name == name and file.kind is Kind.JSON), None)


def _options(files: list[InputFile]) -> InputFile | None:
    """Find the options of the biLM: beside the weights, or where old versions archived them."""
    found = options_among(files)
    named = [file for file in found if file.explicit] or found
    if len(named) > 1:
        first = read_options(named[0].location, name=named[0].name)
        if all(read_options(file.location, name=file.name) == first for file in named[1:]):
            named = named[:1]
    return only(named, "options (JSON with a section 'lstm')", files) if named else None


def _vocabulary(files: list[InputFile]) -> InputFile | None:
    """Find the vocabulary that the user gave; that of the archive belongs to the task."""
    named = [file for file in files if file.explicit and file.kind in (Kind.TEXT, Kind.GZIP)]
    return only(named, "vocabulary", files) if named else None


def _elmos(names: Iterable[str]) -> list[Elmo]:
    """Find every ELMo in a state dict by the ends of its names."""
    mixes: dict[str, dict[int, dict[str, str]]] = {}
    for name in names:
        if match := MIX.fullmatch(name):
            of_prefix = mixes.setdefault(match["prefix"], {})
            of_prefix.setdefault(int(match["number"]), {})[name] = name.removeprefix(match["prefix"])
    # a biLM, which may be all there is, or the module `_elmo_lstm` of an ELMo
    bilms = [name.removesuffix(TABLE) for name in names if name == TABLE or name.endswith(f".{TABLE}")]
    elmos = []
    for bilm in bilms:
        prefix = bilm.removesuffix("_elmo_lstm.")
        own = mixes.get(prefix, {})
        if not own and len(bilms) == len(mixes) == 1:
            (own,) = mixes.values()
        language, alignment = _alignment(prefix, names)
        elmos.append(Elmo(prefix, dict(_of_bilm(bilm, names)), own, language, alignment))
    return elmos


def _of_bilm(prefix: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name of a biLM in the file, and the name without its prefix."""
    for name in names:
        rest = name.removeprefix(prefix)
        if name.startswith(prefix) and OF_BILM.match(rest):
            yield name, f"_elmo_lstm.{rest}"


def _alignment(prefix: str, names: Iterable[str]) -> tuple[str | None, dict[str, str]]:
    """Return the language of an ELMo and its linear map, if it is one of several."""
    match = OF_LANGUAGE.fullmatch(prefix)
    if match is None:
        return None, {}
    short = f"aligning_{match['language']}.weight"
    name = match["prefix"] + short
    return (match["language"], {name: short}) if name in names else (None, {})


def _chosen_elmo(elmos: list[Elmo], state: dict[str, Any], choice: Choice, file: InputFile) -> Elmo:
    if not elmos:
        raise ConversionError(f"{file.name} has no tensor {TABLE}, as every ELMo has. Give a model with an ELMo.")
    languages = {elmo.language: elmo for elmo in elmos if elmo.language is not None}
    there = ", ".join(sorted(map(printable, languages))) or "none"
    if choice.language is not None:
        if choice.language not in languages:
            raise SelectionError(f"{file.name} has no --language {choice.language}. Languages in it: {there}.")
        return languages[choice.language]
    if len(languages) > 1:
        raise SelectionError(f"{file.name} has ELMos of several languages: {there}. Give one, as --language.")
    first = _contents(elmos[0], state, file)
    if not all(_equal(first, _contents(other, state, file)) for other in elmos[1:]):
        prefixes = ", ".join(printable(elmo.prefix) or "(none)" for elmo in elmos)
        raise ConversionError(
            f"{file.name} has {len(elmos)} ELMos that differ, with prefixes {prefixes}. Save the state dict of one."
        )
    return elmos[0]


def _contents(elmo: Elmo, state: dict[str, Any], file: InputFile) -> dict[str, OriginalArray]:
    return arrays_of({short: state[name] for name, short in elmo.names(*elmo.mixes).items()}, file)


def _equal(one: dict[str, OriginalArray], other: dict[str, OriginalArray]) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(array.read(), other[name].read()) for name, array in one.items()
    )


def _chosen_mix(elmo: Elmo, choice: Choice, file: str) -> int | None:
    if choice.mix is None:
        return min(elmo.mixes, default=None)
    if choice.mix not in elmo.mixes:
        there = ", ".join(map(str, sorted(elmo.mixes))) or "none at all"
        raise SelectionError(f"{file} has no mix {choice.mix}. There is: {there}.")
    return choice.mix


def _described(elmo: Elmo, mix: int | None) -> dict[str, Any]:
    described = {"prefix": printable(elmo.prefix), "mix": mix, "language": elmo.language}
    return {key: value for key, value in described.items() if value is not None}


def _warn_of_layer_norm(config: InputFile) -> None:
    try:
        values = read_options(config.location, name=config.name)
    except ConversionError:
        logger.warning("%s cannot be read; only whether do_layer_norm is true would be read there.", config.name)
        return
    if _says(values, "do_layer_norm", MAX_DEPTH):
        logger.warning(
            "%s: do_layer_norm is true; this is not reproduced, so the mixed vectors differ from AllenNLP's.",
            config.name,
        )


def _says(value: Any, key: str, depth: int) -> bool:
    """Tell whether a key is true anywhere in a configuration."""
    if depth == 0 or not isinstance(value, dict | list):
        return False
    if isinstance(value, dict) and value.get(key) is True:
        return True
    return any(_says(part, key, depth - 1) for part in (value.values() if isinstance(value, dict) else value))


__all__ = ["FORMAT", "read", "recognises"]
