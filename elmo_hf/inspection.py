"""Describe a model folder, as `elmo-hf inspect` shows it, from its JSON files and the headers of its weights."""

import json
import math
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from .bundled import model_folder
from .errors import ElmoError, counted, one_line
from .history import describe_training, trainings
from .model.configuration_elmo import ElmoConfig


LAYER = "biLSTM layer"
# the parts of a model by the prefix of their parameters, in the order of the forward pass
PARTS = (
    ("token_encoder.word_embeddings.", "words"),
    ("token_encoder.char_embeddings.", "characters"),
    ("token_encoder.convolutions.", "convolutions"),
    ("token_encoder.highways.", "highways"),
    ("token_encoder.projection.", "projection"),
    ("layers.", LAYER),
    ("scalar_mix.", "mix"),
    ("softmax.", "softmax"),
    ("task_embeddings.", "words of the task"),
)

# PyTorch's names for what safetensors abbreviates
DTYPE_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def describe(folder: str | Path) -> list[tuple[str, str]]:
    """Describe a model folder, or `elmo-small-en`, which comes with the package.

    Returns:
        Rows of a name and a value.

    Raises:
        ElmoError: If it is not a model folder, or a file in it is damaged.
    """
    folder = model_folder(folder)
    config = read_config(folder)
    counts, dtypes = _count_parameters(folder)
    total = sum(counts.values())
    if not total:
        raise ElmoError(f"The files of weights in {folder} hold no weights: convert it again.")
    return [
        ("model", f"{_describe_class(config)}, {', '.join(sorted(dtypes))}"),
        *(_describe_bilm(config) if config.mix_at != "none" else []),
        *([("head reads", _describe_task(config))] if config.task_embedding_dim else []),
        ("tokenizer", _describe_tokenizer(folder)),
        ("parameters", f"{total:,}"),
        *((f"  {part}", f"{count:>{len(f'{total:,}')},}  {count / total:6.1%}") for part, count in counts.items()),
        *_describe_origin(folder, config),
    ]


def read_config(folder: str | Path) -> ElmoConfig:
    """Read the configuration of a model folder, or of `elmo-small-en`, which comes with the package.

    Raises:
        ElmoError: If the folder has no configuration, or that of another kind of model.
    """
    folder = model_folder(folder)
    values = read_json(folder / "config.json")
    if not values:
        lack = "has no config.json" if folder.exists() else "is not there"
        raise ElmoError(f"{folder} is not a model folder, as it {lack}: {_remedy(folder)}.")
    if values.get("model_type") != ElmoConfig.model_type:
        raise ElmoError(
            f"{folder} is not an ELMo (its model_type is {values.get('model_type')!r}): give the folder of one."
        )
    names = values.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ElmoError(f"{folder / 'config.json'} is damaged: its architectures are {names!r:.80}.")
    try:
        return ElmoConfig.from_dict(values)
    except Exception as error:
        # Transformers reads some fields unchecked, and fails in any way on a wrong one
        raise ElmoError(f"{folder / 'config.json'} is damaged: {one_line(error)}") from error


def _remedy(folder: Path) -> str:
    """Return what to do about a folder that is none of a model, and may be meant as a name on the Hub."""
    made = "check its name, or make one with `elmo-hf convert` or a script in examples/"
    if folder.exists() or folder.is_absolute() or len(folder.parts) != 2 or folder.parts[0] in (".", "..", "~"):
        return made
    return f"{made}, or download one of the Hub with `hf download {folder} --local-dir {folder.name}`"


def read_json(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file, or return an empty one if there is no file.

    Raises:
        ElmoError: If the file holds anything else.
    """
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ElmoError(f"{path} is damaged: {one_line(error)}") from error
    if not isinstance(values, dict):
        raise ElmoError(f"{path} is damaged: it does not hold an object.")
    return values


def describe_layers(config: ElmoConfig) -> str:
    """Return the layers of a model in one phrase."""
    skips = "with" if config.use_skip_connections else "without"
    return f"the token layer and {counted(config.num_hidden_layers, 'biLSTM layer')} {skips} skip connections"


def readable_size(size: int) -> str:
    """Return a number of bytes as text, in the largest unit in which it is at least 1."""
    value = float(size)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def _count_parameters(folder: Path) -> tuple[dict[str, int], set[str]]:
    """Return the number of parameters of each part, and all their dtypes, from the headers of the weights."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ElmoError(f"{folder} has no weights: put model.safetensors there, or convert the model again.")
    counts: dict[str, int] = {}
    dtypes = set()
    for path in files:
        try:
            with safe_open(path, framework="numpy") as file:
                for name in file.keys():  # noqa: SIM118 - not a dictionary
                    part = file.get_slice(name)
                    counts[_part_of(name)] = counts.get(_part_of(name), 0) + math.prod(part.get_shape())
                    dtypes.add(DTYPE_NAMES.get(part.get_dtype(), part.get_dtype()))
        except SafetensorError as error:
            raise ElmoError(f"{path} is damaged: {one_line(error)}") from error
    return dict(sorted(counts.items(), key=lambda item: _order_of(item[0]))), dtypes


def _part_of(name: str) -> str:
    """Return the part of the model that a parameter belongs to."""
    name = name.removeprefix("elmo.")
    if layer := re.match(r"layers\.(\d+)\.", name):
        # the token layer is layer 0
        return f"{LAYER} {int(layer[1]) + 1}"
    for prefix, part in PARTS:
        if name.startswith(prefix):
            return part
    return "task"


def _order_of(part: str) -> tuple[int, str]:
    """Return a key that sorts parts in the order of the forward pass, those of a task last."""
    order = [name for _, name in PARTS]
    stem = part.rstrip("0123456789").rstrip()
    return (order.index(stem) if stem in order else len(order), part)


def _describe_bilm(config: ElmoConfig) -> list[tuple[str, str]]:
    return [
        ("layers", describe_layers(config)),
        ("vectors", f"{config.hidden_size} wide, forward and backward half of {config.hidden_size // 2}"),
        ("cells", f"{config.intermediate_size} wide, {_describe_clips(config)}"),
        ("words", _describe_words(config)),
    ]


def _describe_task(config: ElmoConfig) -> str:
    """Describe what the head of a task's model reads beside ELMo."""
    parts = []
    if config.task_word_embedding_dim:
        # without padding and the unknown word
        words = counted(config.num_task_words - 2, "word")
        kind = "trained" if config.train_task_words else "fixed"
        parts.append(f"{words} of the task, {config.task_word_embedding_dim} wide, {kind}")
    if config.task_char_embedding_dim:
        filters = " ".join(f"{width}x{number}" for width, number in config.task_char_filters)
        parts.append(f"characters, {config.task_char_embedding_dim} wide, filters {filters}")
    parts.append("no ELMo" if config.mix_at == "none" else f"the mix at {config.mix_at}")
    return "; ".join(parts)


def _describe_class(config: ElmoConfig) -> str:
    return ", ".join(config.architectures or []) or "unknown class"


def _describe_clips(config: ElmoConfig) -> str:
    clips = {"cells": config.cell_clip, "outputs": config.projection_clip}
    described = [f"{name} clipped at {clip:g}" for name, clip in clips.items() if clip]
    return ", ".join(described) or "nothing clipped"


def _describe_words(config: ElmoConfig) -> str:
    parts = []
    if config.word_embedding_dim:
        parts.append(f"{counted(config.vocab_size, 'word')}, {config.word_embedding_dim} wide")
    if config.char_embedding_dim:
        filters = " ".join(f"{width}x{number}" for width, number in config.char_filters)
        parts.append(
            f"{config.max_characters_per_token} characters, {config.char_embedding_dim} wide; filters {filters}; "
            f"{config.hidden_act}; {counted(config.num_highway_layers, 'highway layer')}"
        )
    return "; ".join(parts)


def _describe_tokenizer(folder: Path) -> str:
    values = read_json(folder / "tokenizer_config.json")
    if not values:
        return "none in this folder"
    described = [str(values.get("tokenizer_class", "unknown class"))]
    if "pre_tokenizer" in values:
        described.append(f"pre-tokenizer {values['pre_tokenizer']}")
    if values.get("spelling") == "dictionary":
        described.append("characters by a dictionary")
    return ", ".join(described)


def _describe_origin(folder: Path, config: ElmoConfig) -> list[tuple[str, str]]:
    """Describe what a model was converted from, and how it was trained."""
    try:
        trained = [row for record in trainings(config) for row in describe_training(record)]
    except ElmoError as error:
        raise ElmoError(f"{folder}: {error}") from error
    return [*_describe_provenance(folder), *trained] or [("origin", "not recorded in this folder")]


def _describe_provenance(folder: Path) -> list[tuple[str, str]]:
    path = folder / "provenance.json"
    values = read_json(path)
    if not values:
        return []
    rows = [("origin", f"{values.get('format', 'unknown format')}, converted by {values.get('converter', 'unknown')}")]
    try:
        for source in values.get("sources", []):
            where = f" from {source['url']}" if source.get("url") else ""
            rows.append(("  source", f"{source['name']}{where}, {source['size']:,} bytes, sha256 {source['sha256']}"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ElmoError(f"{path} is damaged: it does not give name, size and sha256 of each source.") from error
    return rows


__all__ = ["describe", "describe_layers", "read_config", "read_json", "readable_size"]
