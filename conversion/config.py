"""Original options -> `ElmoConfig`. An option that would be ignored silently is an error or a line in the log."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from huggingface_hub.errors import StrictDataclassError

from elmo_hf.model.configuration_elmo import ElmoConfig

from .readers.base import ConversionError, OriginalCheckpoint, SelectionError, printable
from .readers.many_langs import MARKS
from .readers.tensorflow_checkpoint import SOFTMAX, has_softmax
from .readers.vocabulary import SPECIAL_WORDS


logger = logging.getLogger(__name__)

#: AllenNLP's fixed width of a word, and that of every release; for options that do not say.
MAX_CHARACTERS = 50

#: Of cells and of outputs; for an archive without options.
RELEASED_CLIP = 3.0

#: Ids that the tokenizer gives to bytes and markers, 1 to 261: as many rows a character table needs.
MIN_CHARACTER_ROWS = 261

#: Upper limits that no release comes near; more is a damaged file or an attack on memory.
MAX_WIDTH = 1 << 16
MAX_DEPTH = 64
MAX_SAMPLES = 1 << 28

#: What those of `SPECIAL_WORDS` are called there.
MANY_LANGS_WORDS = ("<bos>", "<eos>", "<oov>")

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


#: The same for ELMoForManyLangs.
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
    # of the training program
    "": {"encoder", "token_embedder", "classifier", "dropout"},
}

#: The tables of characters and of words in each format whose options are bilm-tf's.
TABLES = {
    "allennlp-torch": ("_elmo_lstm._token_embedder._char_embedding_weights", "_elmo_lstm._word_embedding.weight"),
    "bilm-hdf5": ("char_embed", "embedding"),
    "bilm-tensorflow": ("lm/char_embed", "lm/embedding"),
    "tensorflow-hub": ("bilm/char_embed", "bilm/embedding"),
}

#: Those whose table of characters has the row of padding already.
PADDED = ("allennlp-torch", "tensorflow-hub")


def elmo_config(checkpoint: OriginalCheckpoint) -> ElmoConfig:
    """Make the configuration of a checkpoint, as its format has it.

    Args:
        checkpoint: Its options, the shapes of its arrays and its vocabulary are read.

    Returns:
        The configuration.

    Raises:
        ConversionError: If an option is missing, of the wrong type or out of range.
    """
    try:
        return CONFIGS[checkpoint.format](checkpoint)
    except StrictDataclassError as error:
        # the cause says it in one line
        raise ConversionError(
            f"{checkpoint.options_name}: {error.__cause__ or error} Give this model's options."
        ) from error


def allennlp_config(checkpoint: OriginalCheckpoint) -> ElmoConfig:
    """Make the configuration of a model that AllenNLP saved, which says its sizes by those of its tensors alone.

    Clips, skip connections and the length of a word are those of every release, unless there is an options file. The
    forget gate's 1 is part of the bias.
    """
    options = checkpoint.options or _allennlp_options(checkpoint)
    config = bilm_config(replace(checkpoint, options=options))
    config.forget_bias = 0.0
    config.always_project = True
    config.alignment = any(name.startswith("aligning_") for name in checkpoint.arrays)
    return config


def _allennlp_options(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    encoder, lstm = "_elmo_lstm._token_embedder", "_elmo_lstm._elmo_lstm"
    # [262, d], [number, d, width], [P, C]
    _, depth = _shape(TABLES[checkpoint.format][0], 2, checkpoint)
    projection, cell = _shape(f"{lstm}.forward_layer_0.state_projection.weight", 2, checkpoint)
    kernels = [
        _shape(f"{encoder}.char_conv_{i}.weight", 3, checkpoint)
        for i in range(_count(f"{encoder}.char_conv_{{}}.weight", checkpoint))
    ]
    return _options_of_shapes(
        depth=depth,
        filters=[[width, number] for number, _, width in kernels],
        n_highway=_count(f"{encoder}._highways._layers.{{}}.weight", checkpoint),
        cell=cell,
        projection=projection,
        n_layers=_count(f"{lstm}.forward_layer_{{}}.state_projection.weight", checkpoint),
    )


def hub_config(checkpoint: OriginalCheckpoint) -> ElmoConfig:
    """Make the configuration of a module of TensorFlow Hub, as for a model that AllenNLP saved."""
    options = checkpoint.options or _hub_options(checkpoint)
    return bilm_config(replace(checkpoint, options=options))


def _hub_options(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    cell_name = "bilm/RNN_0/RNN/MultiRNNCell/Cell{}/rnn/lstm_cell/projection/kernel"
    # [262, d], [1, width, d, number], [C, P]
    _, depth = _shape(TABLES[checkpoint.format][0], 2, checkpoint)
    cell, projection = _shape(cell_name.format(0), 2, checkpoint)
    kernels = [_shape(f"bilm/CNN/W_cnn_{i}", 4, checkpoint) for i in range(_count("bilm/CNN/W_cnn_{}", checkpoint))]
    return _options_of_shapes(
        depth=depth,
        filters=[[width, number] for _, width, _, number in kernels],
        n_highway=_count("bilm/CNN_high_{}/W_carry", checkpoint),
        cell=cell,
        projection=projection,
        n_layers=_count(cell_name, checkpoint),
    )


def _options_of_shapes(
    *, depth: int, filters: list[list[int]], n_highway: int, cell: int, projection: int, n_layers: int
) -> dict[str, Any]:
    """The options that bilm-tf would have written of arrays of these shapes."""
    return {
        "lstm": {
            "cell_clip": RELEASED_CLIP,
            "dim": cell,
            "n_layers": n_layers,
            "proj_clip": RELEASED_CLIP,
            "projection_dim": projection,
            "use_skip_connections": True,
        },
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": depth},
            "filters": filters,
            "n_highway": n_highway,
        },
    }


def _count(pattern: str, checkpoint: OriginalCheckpoint) -> int:
    return next(i for i in count() if pattern.format(i) not in checkpoint.arrays)


def bilm_config(checkpoint: OriginalCheckpoint) -> ElmoConfig:
    """Make the configuration of a checkpoint with the options of bilm-tf.

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
    if has_softmax(checkpoint.arrays):
        fields |= _softmax(options, checkpoint)
    unknown = _unknown_options(checkpoint, checkpoint.options, MODEL_KEYS)
    if unknown:
        fields["original_options"] = unknown
    return ElmoConfig(**fields)


def _softmax(options: "_Section", checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """The softmax is a table of its own, or that of the words (`share_embedding_softmax`)."""
    sampled = options.flag("sample_softmax", default=True)
    return {
        "tie_word_embeddings": SOFTMAX[0] not in checkpoint.arrays
        and TABLES[checkpoint.format][1] in checkpoint.arrays,
        "num_negative_samples": options.whole("n_negative_samples_batch", low=0, high=MAX_SAMPLES, default=0)
        if sampled
        else 0,
    }


def many_langs_config(checkpoint: OriginalCheckpoint) -> ElmoConfig:
    """Make the configuration of a model of ELMoForManyLangs.

    Its skip connections and projections are always there, and the forget gate's 1 is part of the bias.
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
        fields |= _dictionary_characters(embedder, checkpoint)
    else:
        fields |= {"char_filters": [], "num_highway_layers": 0}
    fields |= _dictionary_words(checkpoint) if word_dim else _vocabulary(checkpoint, MANY_LANGS_WORDS)
    unknown = _unknown_options(checkpoint, options.values, MANY_LANGS_KEYS)
    if unknown:
        fields["original_options"] = unknown
    return ElmoConfig(**fields)


def _dictionary_characters(section: "_Section", checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    if checkpoint.characters is None or checkpoint.characters_name is None:
        raise ConversionError(
            f"{checkpoint.options_name} calls for characters, char_dim {section.values['char_dim']}, and there is no "
            "char.dic. Give all files of the model."
        )
    rows = _shape("char_emb_layer.embedding.weight", 2, checkpoint)[0]
    _check_dictionary(checkpoint.characters, rows, checkpoint.characters_name, tuple(MARKS), checkpoint)
    return {
        "char_vocab_size": rows + 1,
        "char_filters": _filters(section, section.values["max_characters_per_token"]),
        "num_highway_layers": section.whole("n_highway", low=0, high=MAX_DEPTH),
        "hidden_act": _activation(section),
    }


def _dictionary_words(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    if checkpoint.vocabulary is None or checkpoint.vocabulary_name is None:
        raise ConversionError(
            f"{checkpoint.weights_name}: the model reads words, and there is no word.dic. Give all files of the model."
        )
    rows = _shape("word_emb_layer.embedding.weight", 2, checkpoint)[0]
    numbers = {word: number for number, word in enumerate(checkpoint.vocabulary)}
    _check_dictionary(numbers, rows, checkpoint.vocabulary_name, MANY_LANGS_WORDS, checkpoint)
    return {**word_ids(checkpoint.vocabulary, MANY_LANGS_WORDS), "vocab_size": rows + 1}


def _check_dictionary(
    numbers: Mapping[str, int], rows: int, name: str, needed: tuple[str, ...], checkpoint: OriginalCheckpoint
) -> None:
    missing = [word for word in needed if word not in numbers]
    if missing:
        raise ConversionError(f"{name} lacks {', '.join(missing)}. Give the dictionary of this model.")
    highest = max(numbers.values())
    if highest >= rows:
        raise ConversionError(
            f"{name} goes up to number {highest}, but the table in {checkpoint.weights_name} has {rows} rows. "
            "Give the dictionary of this model."
        )


def word_ids(vocabulary: tuple[str, ...], special_words: tuple[str, str, str] = SPECIAL_WORDS) -> dict[str, int]:
    """Size of the vocabulary with padding, and the ids of the special words, as the fields of a configuration.

    A word's id is its row + 1. Special words that the vocabulary lacks are appended. Of equal rows the last counts, as
    in bilm-tf.
    """
    ids = {word: row + 1 for row, word in enumerate(vocabulary)}
    size = len(vocabulary) + 1
    for word in special_words:
        if word not in ids:
            ids[word] = size
            size += 1
    begin, end, unknown = special_words
    return {"vocab_size": size, "bos_token_id": ids[begin], "eos_token_id": ids[end], "unk_token_id": ids[unknown]}


def _characters(section: "_Section", checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    activation = _activation(section)
    longest = section.whole("max_characters_per_token", low=3, high=MAX_WIDTH, default=MAX_CHARACTERS)
    name = TABLES[checkpoint.format][0]
    rows = _shape(name, 2, checkpoint)[0] - (checkpoint.format in PADDED)
    if rows < MIN_CHARACTER_ROWS:
        raise ConversionError(
            f"{checkpoint.weights_name}: array {name} has {rows} rows, fewer than the {MIN_CHARACTER_ROWS} of "
            "bytes and markers. Only models over bytes are converted."
        )
    said = section.values.get("n_characters")
    if said not in (None, rows, rows + 1):
        logger.warning(
            "%s: n_characters is %.80r, but %s has %d rows: going by the array.",
            checkpoint.options_name,
            said,
            name,
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


def _activation(section: "_Section") -> str:
    activation = section.values.get("activation")
    if activation not in ("relu", "tanh"):
        raise section.error("activation", 'must be "relu" or "tanh"')
    return str(activation)


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
    name = TABLES[checkpoint.format][1]
    rows = _shape(name, 2, checkpoint)[0]
    if checkpoint.vocabulary is None:
        raise SelectionError(
            f"{checkpoint.weights_name} reads words, not characters (array {name}, {rows} rows), and needs its "
            "vocabulary. Give the file of words that it was trained with as well."
        )
    if len(checkpoint.vocabulary) != rows:
        raise ConversionError(
            f"{checkpoint.vocabulary_name} has {len(checkpoint.vocabulary)} words, but array {name} of "
            f"{checkpoint.weights_name} has {rows} rows. Give the vocabulary of this model."
        )
    return {
        "word_embedding_dim": projection,
        "char_embedding_dim": 0,
        "char_filters": [],
        "num_highway_layers": 0,
    }


def _vocabulary(checkpoint: OriginalCheckpoint, special_words: tuple[str, str, str] = SPECIAL_WORDS) -> dict[str, int]:
    if checkpoint.vocabulary is None:
        return {}
    said, rows = checkpoint.options.get("n_tokens_vocab"), len(checkpoint.vocabulary)
    if said not in (None, rows):
        logger.warning(
            "%s has %d words, but %s says n_tokens_vocab %.80r: word ids may be those of another model.",
            checkpoint.vocabulary_name,
            rows,
            checkpoint.options_name,
            said,
        )
    return word_ids(checkpoint.vocabulary, special_words)


def _shape(name: str, axes: int, checkpoint: OriginalCheckpoint) -> tuple[int, ...]:
    array = checkpoint.arrays.get(name)
    if array is None or len(array.shape) != axes:
        shape = "missing" if array is None else f"of shape {array.shape}"
        raise ConversionError(
            f"{checkpoint.weights_name}: array {name} is {shape}, {checkpoint.options_name} calls for "
            f"{'a matrix' if axes == 2 else f'{axes} axes'}. Give the options of this model."
        )
    return array.shape


def _unknown_options(
    checkpoint: OriginalCheckpoint, options: Mapping[str, Any], keys: Mapping[str, set[str]]
) -> dict[str, Any]:
    unknown: dict[str, Any] = {}
    for section, known in keys.items():
        values: Any = options
        for part in filter(None, section.split(".")):
            values = values.get(part, {})
        for key in sorted(values.keys() - known):
            unknown[f"{section}.{key}".lstrip(".")] = values[key]
    if unknown:
        shown = ", ".join(f"{printable(key):.80}" for key in unknown)
        logger.warning("%s: options kept, but not used: %s.", checkpoint.options_name, shown)
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


#: What makes the configuration of each format, by its name.
CONFIGS: dict[str, Callable[[OriginalCheckpoint], ElmoConfig]] = {
    "allennlp-torch": allennlp_config,
    "bilm-hdf5": bilm_config,
    "bilm-tensorflow": bilm_config,
    "many-langs": many_langs_config,
    "tensorflow-hub": hub_config,
}

__all__ = ["elmo_config", "word_ids"]
