"""Export a model folder to the weights and options that bilm-tf, AllenNLP and Flair read, the inverse of `convert`."""

import copy
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path, PurePath
from typing import Any

import h5py
import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from elmo_hf import ElmoConfig, ElmoTokenizer
from elmo_hf.bundled import model_folder
from elmo_hf.errors import counted, one_line
from elmo_hf.files import DeferredErrorFile, new_folder, refuse_existing
from elmo_hf.inspection import read_config, read_json
from elmo_hf.model.tokenizer_backend_elmo import vocabulary_lines

from .config import MAX_CHARACTERS, MIN_CHARACTER_ROWS
from .mapping import Rule, bilm_rules, to_original
from .readers.base import ConversionError
from .readers.vocabulary import SKIPPED_LINE, SPECIAL_WORDS
from .write import PROVENANCE, SLACK


#: Formats that a model can be exported to, and the files of each.
FORMATS = {"allennlp-hdf5": "weights.hdf5, options.json and vocab.txt for AllenNLP 0.x to 2.x, Flair and bilm-tf"}

WEIGHTS, OPTIONS, VOCABULARY = "weights.hdf5", "options.json", "vocab.txt"

#: The number that readers of this format add to the forget gate at run time.
ADDED_FORGET_BIAS = 1.0

#: Prefix of the model's parameters in a class with a head.
PREFIX = "elmo."

WORD_TABLE = "token_encoder.word_embeddings.weight"
MIX = ("scalar_mix.weights", "scalar_mix.gamma")
SOFTMAX = ("softmax.weight", "softmax.bias")
INPUT_TABLES = (WORD_TABLE, "token_encoder.char_embeddings.weight")


def export(model_dir: str | Path, output: str | Path, *, format: str = "allennlp-hdf5") -> tuple[str, ...]:
    """Export a model to an original format.

    A model that was converted and not trained gives the arrays of its original, bit by bit, in float32.

    Args:
        model_dir: The folder of a model, of any class and precision, or `elmo-small-en`.
        output: The folder to create; it must not exist.
        format: One of `FORMATS`.

    Returns:
        One line for each thing that was left out or changed because the format cannot hold it.

    Raises:
        ConversionError: If the format cannot hold the model, or a weight is missing or not finite.
        ElmoError: If the folder holds no model, a file in it is damaged, or the output exists or cannot be written.
    """
    if format not in FORMATS:
        raise ConversionError(f"There is no format {format!r} to export to. Give one of: {', '.join(FORMATS)}.")
    folder, output = model_folder(model_dir), Path(output)
    refuse_existing(output)
    config = read_config(folder)
    _refuse_unfit(config, folder)
    notes = _Notes()
    with ExitStack() as resources:
        weights = _Weights(folder, resources)
        words = _vocabulary(folder, config, weights)
        rules = list(bilm_rules(config, words=len(words or ())))
        weights.check(rules)
        size = sum(4 * math.prod(shape) for rule in rules for shape in rule.sources.values()) + SLACK
        with new_folder(output, size=size) as made:
            _write_arrays(made / WEIGHTS, rules, weights, config, notes)
            options = original_options(config, read_json(folder / PROVENANCE).get("options"))
            _write_text(made / OPTIONS, json.dumps(options, indent=2, ensure_ascii=False) + "\n")
            if words is not None:
                _write_text(made / VOCABULARY, "".join(f"{word}\n" for word in words))
            notes.look_through(config, weights, rules)
    return tuple(notes.lines)


def original_options(config: ElmoConfig, original: Any = None) -> dict[str, Any]:
    """Write a configuration as options.

    Args:
        config: The configuration.
        original: The options that the model was converted from. They are kept, except where the configuration differs;
            missing keys that the readers of the format need are added.

    Returns:
        The options for inference.
    """
    options: dict[str, Any] = copy.deepcopy(original) if _are_options(original) else {}
    made = _options_of(config)
    if "char_cnn" not in made or options.get("char_cnn") is None:
        options.pop("char_cnn", None)
    _merge(options, made)
    return options


def _are_options(original: Any) -> bool:
    """Tell whether these are options of bilm-tf, rather than those of another program."""
    if not isinstance(original, dict) or not isinstance(original.get("lstm"), dict):
        return False
    # absent or null where the model reads words
    characters = original.get("char_cnn")
    return characters is None or (isinstance(characters, dict) and isinstance(characters.get("embedding", {}), dict))


def _options_of(config: ElmoConfig) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bidirectional": True,
        "lstm": {
            "cell_clip": config.cell_clip,
            "dim": config.intermediate_size,
            "n_layers": config.num_hidden_layers,
            "proj_clip": config.projection_clip,
            "projection_dim": config.hidden_size // 2,
            "use_skip_connections": config.use_skip_connections,
        },
    }
    if config.char_embedding_dim:
        options["char_cnn"] = {
            "activation": config.hidden_act,
            "embedding": {"dim": config.char_embedding_dim},
            "filters": [list(pair) for pair in config.char_filters],
            "max_characters_per_token": config.max_characters_per_token,
            # the number for inference; training folders have one less for the same array
            "n_characters": config.char_vocab_size,
            "n_highway": config.num_highway_layers,
        }
    return options


def _merge(options: dict[str, Any], made: Mapping[str, Any]) -> None:
    """Update options that are missing or differ. 3 equals 3.0, and 0 and `None` both mean no clipping."""
    for key, value in made.items():
        if isinstance(value, dict):
            _merge(options.setdefault(key, {}), value)
        elif key not in options or (options[key] or None) != (value or None):
            options[key] = value


def _refuse_unfit(config: ElmoConfig, folder: Path) -> None:
    """Refuse a model that the format has no arrays for.

    Raises:
        ConversionError: If it encodes words neither from bytes alone nor from a table of vectors alone.
    """
    half = config.hidden_size // 2
    if config.word_embedding_dim and config.char_embedding_dim:
        reason = "joins words and characters"
    elif config.word_embedding_dim and (config.word_embedding_dim != half or config.always_project):
        reason = "reads words through a projection"
    elif config.char_embedding_dim and config.char_vocab_size <= MIN_CHARACTER_ROWS:
        reason = "reads the characters of a dictionary of its own, not bytes"
    elif config.always_project and half in (config.char_feature_dim, config.intermediate_size):
        reason = "projects to the width that it already has"
    else:
        return
    raise _unfit(folder, reason)


def _unfit(folder: Path, reason: str) -> ConversionError:
    return ConversionError(f"{folder} {reason}, which this format cannot hold. Use the model in Transformers.")


def _vocabulary(folder: Path, config: ElmoConfig, weights: "_Weights") -> list[str] | None:
    """Return the lines of the vocabulary, or `None` if the model needs none and its tokenizer has none.

    Raises:
        ConversionError: If the tokenizer is missing or belongs to another model, or a word cannot be a line.
    """
    ids: dict[str, int] = {}
    if (folder / "tokenizer.json").is_file():
        tokenizer = _read_tokenizer(folder)
        if tokenizer.spelling != "bytes":
            raise _unfit(folder, "reads the characters of a dictionary of its own, not bytes")
        ids = tokenizer.get_vocab()
        if ids.get(tokenizer.mask_token) == tokenizer.vocab_size:
            # `convert` added it after the words
            del ids[tokenizer.mask_token]
    lines = vocabulary_lines(ids)
    if not config.word_embedding_dim and lines in ([], list(SPECIAL_WORDS)):
        return None
    if sorted(ids.values()) != list(range(len(ids))) or (config.word_embedding_dim and len(ids) != config.vocab_size):
        raise ConversionError(
            f"{folder}: the tokenizer has {counted(len(ids), 'word')}, the model {config.vocab_size:,} with "
            "padding. Put the tokenizer of this model there."
        )
    for word in lines:
        if word != word.strip() or "\n" in word or "\r" in word or word == SKIPPED_LINE:
            raise ConversionError(f"{folder}: the word {word!r} cannot be a line of a vocabulary. Remove it.")
    if config.word_embedding_dim:
        # [V + 1, n]: rows that `convert` appended are zero until they are trained
        table = weights[WORD_TABLE]
        while lines and lines[-1] in SPECIAL_WORDS and not table[len(lines)].any():
            lines.pop()
    return lines


def _read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    try:
        return ElmoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConversionError(f"The tokenizer in {folder} is damaged ({one_line(error)}). Save it again.") from error


class _Weights(Mapping[str, Tensor]):
    """Map names in `ElmoModel` to the parameters of a model folder, read on access, in float32."""

    def __init__(self, folder: Path, resources: ExitStack) -> None:
        self.folder = folder
        self._files: dict[str, Any] = {}
        for path in _weight_files(folder):
            try:
                file = resources.enter_context(safe_open(path, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ConversionError(f"{path} is damaged ({one_line(error)}). Save the model again.") from error
            self._files |= dict.fromkeys(file.keys(), file)
        self._prefix = PREFIX if any(name.startswith(f"{PREFIX}layers.") for name in self._files) else ""

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._files if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Tensor:
        stored = self._prefix + name
        try:
            tensor: Tensor = self._files[stored].get_tensor(stored)
        except SafetensorError as error:
            raise ConversionError(f"{self.folder}: weight {name} cannot be read ({one_line(error)}).") from error
        tensor = tensor.float()
        # minimum and maximum pass a NaN on
        if tensor.numel() and not torch.stack([tensor.min(), tensor.max()]).isfinite().all():
            raise ConversionError(f"{self.folder}: weight {name} holds NaN or infinite numbers. Export another copy.")
        return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a parameter without reading it."""
        stored = self._prefix + name
        return tuple(self._files[stored].get_slice(stored).get_shape())

    def rest(self, used: set[str]) -> list[str]:
        """List the parameters that are not in `used`, including those of a task head."""
        return sorted(name for name in self._files if name.removeprefix(self._prefix) not in used)

    def check(self, rules: list[Rule]) -> None:
        """Compare names and shapes with what the configuration calls for.

        Raises:
            ConversionError: If a parameter is missing or misshapen.
        """
        for name, shape in _expected_shapes(rules).items():
            if name not in list(self):
                raise ConversionError(f"{self.folder}: the weights lack {name}. Give a whole model of this class.")
            if self.shape(name) != shape:
                raise ConversionError(
                    f"{self.folder}: weight {name} is {self.shape(name)}, config.json calls for {shape}. "
                    "Give the config.json of this model."
                )


def _weight_files(folder: Path) -> list[Path]:
    """Return the single file of weights, or those that the index lists; all must lie in the folder."""
    if (single := folder / "model.safetensors").is_file():
        return [single]
    index = read_json(folder / "model.safetensors.index.json").get("weight_map")
    names = sorted(set(index.values())) if isinstance(index, dict) and all(map(_is_name, index.values())) else []
    paths = [folder / name for name in names]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ConversionError(f"{folder} lacks {', '.join(missing)}. Give the whole folder.")
    if not paths:
        raise ConversionError(f"{folder} has no weights (model.safetensors). Save the model with `save_pretrained`.")
    return paths


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and PurePath(name).name == name and "\\" not in name


def _expected_shapes(rules: list[Rule]) -> dict[str, tuple[int, ...]]:
    """Compute the shapes of the parameters by applying the rules to tensors on the meta device."""
    shapes: dict[str, tuple[int, ...]] = {}
    for rule in rules:
        made = rule.change.convert(torch.empty(shape, device="meta") for shape in rule.sources.values())
        shapes.update((name, tuple(tensor.shape)) for name, tensor in zip(rule.targets, made, strict=True))
    return shapes


def _write_arrays(path: Path, rules: list[Rule], weights: _Weights, config: ElmoConfig, notes: "_Notes") -> None:
    """Write the arrays rule by rule, so that a full-size model is never in memory as a whole."""
    shift = config.forget_bias - ADDED_FORGET_BIAS
    # if HDF5 itself failed to write, it could abort the process
    with DeferredErrorFile(path, "w+") as raw:
        with h5py.File(raw, "w") as file:
            for rule in rules:
                parameters = {name: weights[name] for name in rule.targets}
                if shift:
                    parameters = {name: _shifted(name, tensor, shift, notes) for name, tensor in parameters.items()}
                for name, array in to_original(parameters, [rule]).items():
                    file.create_dataset(name, data=np.ascontiguousarray(array))
                raw.check()
        raw.check()


def _shifted(name: str, tensor: Tensor, shift: float, notes: "_Notes") -> Tensor:
    """Add `shift` to the forget gate of a bias `[4C]` (gates i, f, g, o); return other parameters unchanged."""
    if not (".input_projections." in name and name.endswith(".bias")):
        return tensor
    i, f, g, o = tensor.chunk(4)
    stored = (f.double() + shift).float()
    notes.shifted(f, stored, shift)
    return torch.cat([i, stored, g, o])


def _write_text(path: Path, text: str) -> None:
    # the same bytes on every system
    path.write_text(text, encoding="utf-8", newline="\n")


class _Notes:
    """Collect a line for the user about each thing that is left out or changed."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._rounded = self._biases = 0
        self._largest = 0.0

    def shifted(self, bias: Tensor, stored: Tensor, shift: float) -> None:
        """Count the biases that the shift rounded, and keep the largest difference."""
        difference = (stored.double() - shift - bias.double()).abs()
        self._biases += bias.numel()
        self._rounded += int(difference.count_nonzero())
        self._largest = max(self._largest, float(difference.max()))

    def look_through(self, config: ElmoConfig, weights: _Weights, rules: list[Rule]) -> None:
        """Add a line for each thing that the rules leave out."""
        if self._rounded:
            self.lines.append(
                f"The readers of this format add {ADDED_FORGET_BIAS:g} to the forget gates, so it was subtracted: "
                f"{self._rounded:,} of {self._biases:,} biases were rounded, by {self._largest:.1e} at most."
            )
        used = {name for rule in rules for name in rule.targets}
        self.lines += [
            f"Row 0 of {name} is not zero and was left out, as the format has no row for padding."
            for name in INPUT_TABLES
            if name in used and weights[name][0].any()
        ]
        self._mix(weights)
        rest = weights.rest(used | set(MIX))
        if any(name in SOFTMAX for name in rest):
            self.lines.append("The softmax was left out: bilm-tf, too, writes none in this format.")
        rest = [name for name in rest if name not in SOFTMAX]
        if rest:
            shown = ", ".join(rest[:4]) + (f" and {len(rest) - 4} more" if len(rest) > 4 else "")
            self.lines.append(f"Left out, as the format is that of a language model alone: {shown}.")
        obstacles = _allennlp_obstacles(config)
        if obstacles:
            self.lines.append(f"For bilm-tf only: AllenNLP and Flair do not take {', '.join(obstacles)}.")

    def _mix(self, parameters: _Weights) -> None:
        if not all(name in parameters for name in MIX):
            return
        weights, gamma = (parameters[name] for name in MIX)
        if weights.unique().numel() > 1 or gamma.item() != 1:
            numbers = ", ".join(f"{weight:.6g}" for weight in weights.tolist())
            self.lines.append(
                f"The trained mix of the layers was left out, as the format has none: weights {numbers}, "
                f"gamma {gamma.item():.6g} (AllenNLP takes the weights as `scalar_mix_parameters`)."
            )


def _allennlp_obstacles(config: ElmoConfig) -> list[str]:
    obstacles = {
        "word input": not config.char_embedding_dim,
        "no skip connections": not config.use_skip_connections,
        "cells as wide as the projection": config.intermediate_size == config.hidden_size // 2,
        f"words of other than {MAX_CHARACTERS} characters": config.char_embedding_dim
        and config.max_characters_per_token != MAX_CHARACTERS,
        "no token projection": config.char_embedding_dim and config.char_feature_dim == config.hidden_size // 2,
    }
    return [name for name, there in obstacles.items() if there]


__all__ = ["FORMATS", "export", "original_options"]
