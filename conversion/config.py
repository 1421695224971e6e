"""Original options -> `ElmoConfig`. An option that would be ignored silently is an error or a line in the log."""

import logging
import math
from collections.abc import Mapping
from typing import Any

from elmo_hf.configuration_elmo import ElmoConfig

from .readers.base import ConversionError, OriginalCheckpoint


logger = logging.getLogger(__name__)

#: AllenNLP's fixed width of a word, and that of every release; for options that do not say.
MAX_CHARACTERS = 50

#: Ids that the tokenizer gives to bytes and markers, 1 to 261: as many rows a character table needs.
MIN_CHARACTER_ROWS = 261

#: Upper limits that no release comes near; more is a damaged file or an attack on memory.
MAX_WIDTH = 1 << 16
MAX_DEPTH = 64

#: Words that a language model has beside those of its text, in the order in which missing ones are appended.
SPECIAL_WORDS = ("<S>", "</S>", "<UNK>")

#: Keys by section. Those of the training program say nothing of the model and are kept in the provenance alone.
MODEL_KEYS = {
    "lstm": {"dim", "projection_dim", "n_layers", "cell_clip", "proj_clip", "use_skip_connections"},
    "char_cnn": {"activation", "embedding", "filters", "max_characters_per_token", "n_characters", "n_highway"},
    "char_cnn.embedding": {"dim"},
    "": {
        "bidirectional",
        "char_cnn",
        "lstm",
        # of the training program
        "all_clip_norm_val",
        "batch_size",
        "dropout",
        "learning_rate",
        "n_epochs",
        "n_negative_samples_batch",
        "n_tokens_vocab",
        "n_train_tokens",
        "sample_softmax",
        "share_embedding_softmax",
        "unroll_steps",
    },
}


def elmo_config(checkpoint: OriginalCheckpoint) -> ElmoConfig:
    """Make the configuration of a checkpoint.

    Options that bilm-tf reads with a default have that default here: no `n_highway` is 0, no `n_layers` is 1, no clip,
    or a clip of 0, is no clipping, and no `use_skip_connections` is none, since that is what was trained without it
    (AllenNLP and bilm-tf's own inference stop there). The number of characters is that of the array `char_embed`,
    whatever `n_characters` says: it is 261 in training folders and 262 in releases, with the same array.

    Args:
        checkpoint: Its options, the shapes of its arrays and its vocabulary are read.

    Returns:
        The configuration; options that neither program knows are in its `original_options`.

    Raises:
        ConversionError: If an option is missing, of the wrong type or out of range.
    """
    options = _Section(checkpoint.options_name, checkpoint.options, "")
    lstm = options.section("lstm")
    if options.values.get("bidirectional", True) is not True:
        raise options.error("bidirectional", "must be true: a model of one direction is no ELMo")
    cell, projection = lstm.whole("dim", high=MAX_WIDTH), lstm.whole("projection_dim", high=MAX_WIDTH // 2)
    if projection > cell:
        raise lstm.error("projection_dim", f"must be at most lstm.dim, which is {cell}")
    fields: dict[str, Any] = {
        "hidden_size": 2 * projection,
        "intermediate_size": cell,
        "num_hidden_layers": lstm.whole("n_layers", high=MAX_DEPTH, default=1),
        "cell_clip": lstm.clip("cell_clip"),
        "projection_clip": lstm.clip("proj_clip"),
        "use_skip_connections": lstm.flag("use_skip_connections", default=False),
    }
    if "char_cnn" in options.values:
        fields |= _characters(options.section("char_cnn"), checkpoint)
    else:
        fields |= _words(projection, checkpoint)
    fields |= _vocabulary(checkpoint)
    unknown = _unknown_options(checkpoint)
    if unknown:
        fields["original_options"] = unknown
    return ElmoConfig(**fields)


def word_ids(vocabulary: tuple[str, ...]) -> tuple[int, int, int]:
    """Size of the vocabulary with padding, and the ids of `<S>` and `</S>`.

    A word's id is its row + 1. Special words that the vocabulary lacks are appended. Of equal rows the last counts, as
    in bilm-tf.
    """
    ids = {word: row + 1 for row, word in enumerate(vocabulary)}
    size = len(vocabulary) + 1
    for word in SPECIAL_WORDS:
        if word not in ids:
            ids[word] = size
            size += 1
    return size, ids["<S>"], ids["</S>"]


def _characters(section: "_Section", checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    activation = section.values.get("activation")
    if activation not in ("relu", "tanh"):
        raise section.error("activation", 'must be "relu" or "tanh"')
    longest = section.whole("max_characters_per_token", low=3, high=MAX_WIDTH, default=MAX_CHARACTERS)
    rows = _rows("char_embed", checkpoint)
    if rows < MIN_CHARACTER_ROWS:
        raise ConversionError(
            f"{checkpoint.weights_name}: array char_embed has {rows} rows, fewer than the {MIN_CHARACTER_ROWS} of "
            "bytes and markers. Only models over bytes are converted."
        )
    said = section.values.get("n_characters")
    if said not in (None, rows, rows + 1):
        logger.warning(
            "%s: n_characters is %s, but char_embed has %d rows: going by the array.",
            checkpoint.options_name,
            said,
            rows,
        )
    return {
        "char_embedding_dim": section.section("embedding").whole("dim", high=MAX_WIDTH),
        "char_vocab_size": rows + 1,
        "max_characters_per_token": longest,
        "char_filters": _filters(section, longest),
        "num_highway_layers": section.whole("n_highway", low=0, high=MAX_DEPTH, default=0),
        "hidden_act": activation,
    }


def _filters(section: "_Section", longest: int) -> list[list[int]]:
    filters = section.values.get("filters")
    pairs = filters if isinstance(filters, list) else []
    good = 0 < len(pairs) <= MAX_DEPTH and all(
        isinstance(pair, list)
        and len(pair) == 2
        and _is_whole(pair[0], 1, longest)
        and _is_whole(pair[1], 1, MAX_WIDTH)
        for pair in pairs
    )
    if not good or sum(number for _, number in pairs) > MAX_WIDTH:
        raise section.error(
            "filters", f"must be a list of [width, number] with widths up to {longest} and at most {MAX_WIDTH} in all"
        )
    return [list(pair) for pair in pairs]


def _words(projection: int, checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """A model that reads words: no characters, no convolutions, and a vocabulary that fits the rows."""
    rows = _rows("embedding", checkpoint)
    if checkpoint.vocabulary is None:
        raise ConversionError(
            f"{checkpoint.weights_name} reads words, not characters (array embedding, {rows} rows), and needs its "
            "vocabulary. Give the file of words that it was trained with as well."
        )
    if len(checkpoint.vocabulary) != rows:
        raise ConversionError(
            f"{checkpoint.vocabulary_name} has {len(checkpoint.vocabulary)} words, but array embedding of "
            f"{checkpoint.weights_name} has {rows} rows. Give the vocabulary of this model."
        )
    return {
        "word_embedding_dim": projection,
        "char_embedding_dim": 0,
        "char_filters": [],
        "num_highway_layers": 0,
    }


def _vocabulary(checkpoint: OriginalCheckpoint) -> dict[str, int]:
    if checkpoint.vocabulary is None:
        return {}
    said, rows = checkpoint.options.get("n_tokens_vocab"), len(checkpoint.vocabulary)
    if said not in (None, rows):
        logger.warning(
            "%s has %d words, but %s says n_tokens_vocab %s: word ids may be those of another model.",
            checkpoint.vocabulary_name,
            rows,
            checkpoint.options_name,
            said,
        )
    size, begin, end = word_ids(checkpoint.vocabulary)
    return {"vocab_size": size, "bos_token_id": begin, "eos_token_id": end}


def _rows(name: str, checkpoint: OriginalCheckpoint) -> int:
    array = checkpoint.arrays.get(name)
    if array is None or len(array.shape) != 2:
        shape = "missing" if array is None else f"of shape {array.shape}"
        raise ConversionError(
            f"{checkpoint.weights_name}: array {name} is {shape}, {checkpoint.options_name} calls for a matrix. "
            "Give the options of this model."
        )
    return array.shape[0]


def _unknown_options(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    unknown: dict[str, Any] = {}
    for section, known in MODEL_KEYS.items():
        values: Any = checkpoint.options
        for part in filter(None, section.split(".")):
            values = values.get(part, {})
        for key in sorted(values.keys() - known):
            unknown[f"{section}.{key}".lstrip(".")] = values[key]
    if unknown:
        logger.warning("%s: options kept, but not used: %s.", checkpoint.options_name, ", ".join(unknown))
    return unknown


class _Section:
    """One object of the options, with reading that checks."""

    def __init__(self, file_name: str, values: Mapping[str, Any], path: str) -> None:
        self.file_name = file_name
        self.values = values
        self.path = path

    def error(self, key: str, wanted: str) -> ConversionError:
        found = f"is {self.values[key]!r:.80}" if key in self.values else "is missing"
        return ConversionError(f"{self.file_name}: {self.path}{key} {found}; it {wanted}. Give this model's options.")

    def section(self, key: str) -> "_Section":
        values = self.values.get(key)
        if not isinstance(values, dict):
            raise self.error(key, "must be an object")
        return _Section(self.file_name, values, f"{self.path}{key}.")

    def whole(self, key: str, *, low: int = 1, high: int, default: int | None = None) -> int:
        value = self.values.get(key, default)
        if not _is_whole(value, low, high):
            raise self.error(key, f"must be a whole number from {low} to {high}")
        return int(value)

    def clip(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise self.error(key, "must be a number, 0 or null for no clipping")
        return float(value) or None

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


__all__ = ["elmo_config", "word_ids"]
