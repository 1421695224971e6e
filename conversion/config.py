"""Translate the options of an original into an `ElmoConfig`.

Every option is used, or reported: an error names a wrong one, and the log lists those that nothing here reads.
"""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from huggingface_hub.errors import StrictDataclassError

from elmo_hf.errors import counted
from elmo_hf.model.configuration_elmo import ElmoConfig

from .readers.base import ConversionError, OriginalCheckpoint, SelectionError, Sizes, printable
from .readers.options import as_json
from .readers.vocabulary import SPECIAL_WORDS


logger = logging.getLogger(__name__)

#: The number of characters to which AllenNLP and all releases pad a word; for options that do not state it.
MAX_CHARACTERS = 50

#: The clip of cells and of projections in all releases; for originals without options.
RELEASED_CLIP = 3.0

#: The tokenizer gives bytes and markers the ids 1 to 261, so a character table needs as many rows.
MIN_CHARACTER_ROWS = 261

#: No release comes near these limits; a larger number is damage, or an attack on memory.
MAX_WIDTH = 1 << 16
MAX_DEPTH = 64
MAX_SAMPLES = 1 << 28

#: The options of bilm-tf by section. Those of the training program do not describe the model: only the provenance
#: keeps them.
BILM_KEYS = {
    "lstm": {"dim", "projection_dim", "n_layers", "cell_clip", "proj_clip", "use_skip_connections"},
    "char_cnn": {"activation", "embedding", "filters", "max_characters_per_token", "n_characters", "n_highway"},
    "char_cnn.embedding": {"dim"},
    "": {
        "bidirectional",
        "char_cnn",
        "lstm",
        # The training program's.
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

#: The options of ELMoForManyLangs by section.
MANY_LANGS_KEYS = {
    "encoder": {"name", "projection_dim", "cell_clip", "proj_clip", "dim", "n_layers"},
    "token_embedder": {
        "name",
        "activation",
        "filters",
        "n_highway",
        "word_dim",
        "char_dim",
        "max_characters_per_token",
    },
    # The training program's.
    "": {"encoder", "token_embedder", "classifier", "dropout"},
}


def elmo_config(checkpoint: OriginalCheckpoint) -> ElmoConfig:
    """Translate the options of a checkpoint, by the rules of its format.

    Args:
        checkpoint: The checkpoint; only its options, shapes and vocabulary are read.

    Returns:
        The configuration.

    Raises:
        ConversionError: If an option is missing, of the wrong type or out of range.
    """
    try:
        return ElmoConfig(**FIELDS[checkpoint.format](checkpoint))
    except StrictDataclassError as error:
        # Its cause names the field in one line.
        raise ConversionError(
            f"{checkpoint.options_name}: {error.__cause__ or error} Give this model's options."
        ) from error


def bilm_fields(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """Make the configuration's fields from the options of bilm-tf.

    An option that is missing or null has bilm-tf's default: no `n_highway` means 0, no `n_layers` means 1, no clip or
    a clip of 0 means no clipping. No `use_skip_connections` means none, as the training without that option used none;
    AllenNLP and bilm-tf's own inference refuse such options. The array `char_embed` decides the number of characters,
    whatever `n_characters` says: for the same array it is 261 in training folders and 262 in releases.

    A checkpoint without options is described by the sizes of its arrays; everything else is as in all releases.

    Args:
        checkpoint: The checkpoint.

    Returns:
        The fields; options that neither program knows are in `original_options`.

    Raises:
        ConversionError: If an option is missing, of the wrong type or out of range.
    """
    if checkpoint.sizes is not None:
        return _released_fields(checkpoint.sizes, checkpoint) | _vocabulary_fields(checkpoint)
    options = _Section(checkpoint.options_name, checkpoint.options, "")
    if options.values.get("bidirectional", True) is not True:
        raise options.error("bidirectional", "must be true: a model of one direction is not an ELMo")
    fields = _lstm_fields(options.section("lstm"))
    if options.values.get("char_cnn") is not None:
        fields |= _character_fields(options.section("char_cnn"), checkpoint)
    else:
        fields |= _word_fields(fields["hidden_size"] // 2, checkpoint)
    fields |= _vocabulary_fields(checkpoint)
    fields |= _softmax_fields(options, checkpoint)
    return fields | _unknown_options(checkpoint, checkpoint.options, BILM_KEYS)


def allennlp_fields(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """Make the fields for a model that AllenNLP saved, which has the forget gate's 1 in its bias."""
    return bilm_fields(checkpoint) | {
        "forget_bias": 0.0,
        "always_project": True,
        "alignment": checkpoint.alignment is not None,
    }


def many_langs_fields(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """Make the fields for a model of ELMoForManyLangs.

    It always has skip connections and projections, and the forget gate's 1 in its bias.
    """
    options = _Section(checkpoint.options_name, checkpoint.options["configuration"], "")
    encoder, embedder = options.section("encoder"), options.section("token_embedder")
    for section, name in ((encoder, "elmo"), (embedder, "cnn")):
        if section.values.get("name") != name:
            raise section.error("name", f'must be "{name}": other models of that program are no ELMo')
    word_dim, char_dim = (embedder.whole(key, low=0, high=MAX_WIDTH) for key in ("word_dim", "char_dim"))
    if not (word_dim or char_dim):
        raise embedder.error("word_dim", "must not be 0 where char_dim is 0")
    fields: dict[str, Any] = {
        "hidden_size": 2 * encoder.whole("projection_dim", high=MAX_WIDTH // 2),
        "intermediate_size": encoder.whole("dim", high=MAX_WIDTH),
        "num_hidden_layers": encoder.whole("n_layers", high=MAX_DEPTH),
        "cell_clip": encoder.clip("cell_clip"),
        "projection_clip": encoder.clip("proj_clip"),
        "use_skip_connections": True,
        "always_project": True,
        "forget_bias": 0.0,
        "word_embedding_dim": word_dim,
        "char_embedding_dim": char_dim,
        "max_characters_per_token": embedder.whole("max_characters_per_token", low=3, high=MAX_WIDTH),
    }
    if char_dim:
        fields |= _dictionary_character_fields(embedder, checkpoint)
    else:
        fields |= {"char_filters": [], "num_highway_layers": 0}
    fields |= _dictionary_word_fields(checkpoint) if word_dim else _vocabulary_fields(checkpoint)
    return fields | _unknown_options(checkpoint, options.values, MANY_LANGS_KEYS)


def word_ids(vocabulary: tuple[str, ...], special_words: tuple[str, str, str] = SPECIAL_WORDS) -> dict[str, int]:
    """Make the configuration's fields for the ids of words: the vocabulary's size, and the ids of the special words.

    The id of a word is its row + 1, as id 0 is padding. Special words that the vocabulary lacks are appended. Of equal
    rows the last counts, as in bilm-tf.

    Args:
        vocabulary: The words, one for each row.
        special_words: The words for the beginning and the end of a sentence and for unknown words.
    """
    ids = {word: row + 1 for row, word in enumerate(vocabulary)}
    size = len(vocabulary) + 1
    for word in special_words:
        if word not in ids:
            ids[word] = size
            size += 1
    begin, end, unknown = special_words
    return {"vocab_size": size, "bos_token_id": ids[begin], "eos_token_id": ids[end], "unk_token_id": ids[unknown]}


def _lstm_fields(lstm: "_Section") -> dict[str, Any]:
    cell, projection = lstm.whole("dim", high=MAX_WIDTH), lstm.whole("projection_dim", high=MAX_WIDTH // 2)
    if projection > cell:
        raise lstm.error("projection_dim", f"must be at most lstm.dim, which is {cell}")
    return {
        "hidden_size": 2 * projection,
        "intermediate_size": cell,
        "num_hidden_layers": lstm.whole("n_layers", high=MAX_DEPTH, default=1),
        "cell_clip": lstm.clip("cell_clip"),
        "projection_clip": lstm.clip("proj_clip"),
        "use_skip_connections": lstm.flag("use_skip_connections", default=False),
    }


def _character_fields(section: "_Section", checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    longest = section.whole("max_characters_per_token", low=3, high=MAX_WIDTH, default=MAX_CHARACTERS)
    rows = _character_rows(checkpoint)
    stated = section.values.get("n_characters")
    if stated not in (None, rows, rows + 1):
        logger.warning(
            "%s: n_characters is %s, but %s has %d rows: going by the array.",
            checkpoint.options_name,
            as_json(stated),
            checkpoint.tables.characters,
            rows,
        )
    return {
        "char_embedding_dim": section.section("embedding").whole("dim", high=MAX_WIDTH),
        "char_vocab_size": rows + 1,
        "max_characters_per_token": longest,
        "char_filters": _filters(section, longest),
        "num_highway_layers": section.whole("n_highway", low=0, high=MAX_DEPTH, default=0),
        "hidden_act": _activation(section),
    }


def _character_rows(checkpoint: OriginalCheckpoint) -> int:
    """Return the number of rows of the table of characters, that of padding not counted."""
    name = checkpoint.tables.characters
    rows = checkpoint.shape_of(name, 2)[0] - checkpoint.tables.padded
    if rows < MIN_CHARACTER_ROWS:
        raise ConversionError(
            f"{checkpoint.weights_name}: array {name} has {counted(rows, 'row')}, fewer than the {MIN_CHARACTER_ROWS} "
            "of bytes and markers. Only models over bytes are converted."
        )
    if rows > MIN_CHARACTER_ROWS:
        logger.warning(
            "%s: array %s has %d rows, more than the %d of bytes and markers: byte 0 is taken to be the first, as in "
            "bilm-tf's training. If yours counted from another row, every character is wrong.",
            checkpoint.weights_name,
            name,
            rows,
            MIN_CHARACTER_ROWS,
        )
    return rows


def _word_fields(projection: int, checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """Make the fields of a model that reads words: no characters, and a vocabulary with a word for each row."""
    name = checkpoint.tables.words
    rows = checkpoint.shape_of(name, 2)[0]
    if checkpoint.vocabulary is None:
        raise SelectionError(
            f"{checkpoint.weights_name} reads words, not characters (array {name}, {counted(rows, 'row')}), and needs "
            "its vocabulary. Give the file of words that it was trained with as well."
        )
    if len(checkpoint.vocabulary) != rows:
        raise ConversionError(
            f"{checkpoint.vocabulary_name} has {counted(len(checkpoint.vocabulary), 'word')}, but array {name} of "
            f"{checkpoint.weights_name} has {counted(rows, 'row')}. Give the vocabulary of this model."
        )
    return {
        "word_embedding_dim": projection,
        "char_embedding_dim": 0,
        "char_filters": [],
        "num_highway_layers": 0,
    }


def _released_fields(sizes: Sizes, checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """Take sizes from the arrays, and what no array shows from the releases."""
    for size, name, low, high in (
        (sizes.cell, "cells", 1, MAX_WIDTH),
        (sizes.projection, "projection", 1, min(sizes.cell, MAX_WIDTH // 2)),
        (sizes.char_embedding, "vectors of characters", 1, MAX_WIDTH),
        (sizes.num_layers, "number of LSTM layers", 1, MAX_DEPTH),
        (sizes.num_highway_layers, "number of highway layers", 0, MAX_DEPTH),
    ):
        if not low <= size <= high:
            raise _unfit_arrays(checkpoint, f"{name}: {size}, not {low} to {high}")
    filters = [list(pair) for pair in sizes.char_filters]
    if not _are_filters(filters, MAX_CHARACTERS):
        raise _unfit_arrays(checkpoint, f"convolutions [width, number]: {as_json(filters)}")
    return {
        "hidden_size": 2 * sizes.projection,
        "intermediate_size": sizes.cell,
        "num_hidden_layers": sizes.num_layers,
        "cell_clip": RELEASED_CLIP,
        "projection_clip": RELEASED_CLIP,
        "use_skip_connections": True,
        "char_embedding_dim": sizes.char_embedding,
        "char_vocab_size": _character_rows(checkpoint) + 1,
        "max_characters_per_token": MAX_CHARACTERS,
        "char_filters": filters,
        "num_highway_layers": sizes.num_highway_layers,
        "hidden_act": "relu",
    }


def _unfit_arrays(checkpoint: OriginalCheckpoint, found: str) -> ConversionError:
    return ConversionError(f"{checkpoint.weights_name} has arrays of no ELMo ({found}). Give this model's options.")


def _vocabulary_fields(checkpoint: OriginalCheckpoint) -> dict[str, int]:
    if checkpoint.vocabulary is None:
        return {}
    stated, rows = checkpoint.options.get("n_tokens_vocab"), len(checkpoint.vocabulary)
    if stated not in (None, rows):
        logger.warning(
            "%s has %d words, but %s says n_tokens_vocab %s: word ids may be those of another model.",
            checkpoint.vocabulary_name,
            rows,
            checkpoint.options_name,
            as_json(stated),
        )
    return word_ids(checkpoint.vocabulary, checkpoint.special_words)


def _softmax_fields(options: "_Section", checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """Make the fields of the softmax: a table of its own, or that of the words (`share_embedding_softmax`)."""
    if checkpoint.softmax is None:
        return {}
    arrays = checkpoint.arrays
    sampled = options.flag("sample_softmax", default=True)
    samples = options.whole("n_negative_samples_batch", low=0, high=MAX_SAMPLES, default=0) if sampled else 0
    return {
        "tie_word_embeddings": checkpoint.softmax.weight not in arrays and checkpoint.tables.words in arrays,
        "num_negative_samples": samples,
    }


def _dictionary_character_fields(section: "_Section", checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    if checkpoint.characters_name is None:
        raise ConversionError(
            f"{checkpoint.options_name} calls for characters, char_dim {section.values['char_dim']}, and there is no "
            "char.dic. Give all files of the model."
        )
    return {
        "char_vocab_size": checkpoint.shape_of(checkpoint.tables.characters, 2)[0] + 1,
        "char_filters": _filters(section, section.values["max_characters_per_token"]),
        "num_highway_layers": section.whole("n_highway", low=0, high=MAX_DEPTH),
        "hidden_act": _activation(section),
    }


def _dictionary_word_fields(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    if checkpoint.vocabulary is None:
        raise ConversionError(
            f"{checkpoint.weights_name}: the model reads words, and there is no word.dic. Give all files of the model."
        )
    checkpoint.shape_of(checkpoint.tables.words, 2)
    return word_ids(checkpoint.vocabulary, checkpoint.special_words)


def _activation(section: "_Section") -> str:
    activation = section.values.get("activation")
    if activation not in ("relu", "tanh"):
        raise section.error("activation", 'must be "relu" or "tanh"')
    return str(activation)


def _filters(section: "_Section", longest: int) -> list[list[int]]:
    filters: Any = section.values.get("filters")
    if not _are_filters(filters, longest):
        raise section.error(
            "filters", f"must be a list of [width, number] with widths up to {longest} and at most {MAX_WIDTH} in all"
        )
    return [list(pair) for pair in filters]


def _are_filters(filters: Any, longest: int) -> bool:
    """Tell whether this is a list of `[width, number]` of convolutions over words of `longest` characters."""
    return (
        isinstance(filters, list)
        and 0 < len(filters) <= MAX_DEPTH
        and all(
            isinstance(pair, list)
            and len(pair) == 2
            and _is_whole(pair[0], 1, longest)
            and _is_whole(pair[1], 1, MAX_WIDTH)
            for pair in filters
        )
        and sum(number for _, number in filters) <= MAX_WIDTH
    )


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _unknown_options(
    checkpoint: OriginalCheckpoint, options: Mapping[str, Any], keys: Mapping[str, set[str]]
) -> dict[str, Any]:
    """Log the options that nothing here knows; return the field that keeps them, if there are any."""
    unknown: dict[str, Any] = {}
    for section, known in keys.items():
        values: Any = options
        for part in filter(None, section.split(".")):
            # null stands for an absent section, too
            values = values.get(part) or {}
        for key in sorted(values.keys() - known):
            unknown[f"{section}.{key}".lstrip(".")] = values[key]
    if not unknown:
        return {}
    shown = ", ".join(f"{printable(key):.80}" for key in unknown)
    logger.warning("%s: options kept, but not used: %s.", checkpoint.options_name, shown)
    return {"original_options": unknown}


class _Section:
    """One object of the options, whose values are checked as they are read.

    Args:
        file_name: How messages call the file of the options.
        values: The object.
        path: The keys that lead to it, such as `char_cnn.`.
    """

    def __init__(self, file_name: str, values: Mapping[str, Any], path: str) -> None:
        self.file_name = file_name
        self.values = values
        self.path = path

    def error(self, key: str, wanted: str) -> ConversionError:
        found = f"is {as_json(self.values[key])}" if key in self.values else "is missing"
        return ConversionError(f"{self.file_name}: {self.path}{key} {found}; it {wanted}. Give this model's options.")

    def section(self, key: str) -> "_Section":
        values = self.values.get(key)
        if not isinstance(values, dict):
            raise self.error(key, "must be an object")
        return _Section(self.file_name, values, f"{self.path}{key}.")

    def whole(self, key: str, *, low: int = 1, high: int, default: int | None = None) -> int:
        value: Any = self.values.get(key)
        if value is None and default is not None:
            return default
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
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value


#: Makes the configuration's fields from a checkpoint of each format, by the format's name.
FIELDS: dict[str, Callable[[OriginalCheckpoint], dict[str, Any]]] = {
    "allennlp-torch": allennlp_fields,
    "bilm-hdf5": bilm_fields,
    "bilm-tensorflow": bilm_fields,
    "many-langs": many_langs_fields,
    "tensorflow-hub": bilm_fields,
}

__all__ = ["elmo_config", "word_ids"]
