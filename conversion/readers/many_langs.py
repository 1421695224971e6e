"""Read a model of ELMoForManyLangs: dictionaries, a configuration, and two state dicts of PyTorch.

Format: https://github.com/HIT-SCIR/ELMoForManyLangs/blob/master/elmoformanylangs/elmo.py, `Embedder.get_model`.
"""

import logging
import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from .base import (
    ConversionError,
    InputFile,
    OriginalArray,
    OriginalCheckpoint,
    Tables,
    counted,
    describe,
    source_files,
)
from .options import read_options
from .torch_file import arrays_of, load_tensors


logger = logging.getLogger(__name__)

FORMAT = "many-langs"

#: The configuration of every release; most releases do not include it.
RELEASED_NAME = "cnn_50_100_512_4096_sample.json"
RELEASED: dict[str, Any] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
    "classifier": {"name": "sampled_softmax", "n_samples": 8192},
    "dropout": 0.1,
}

TABLES = Tables(characters="char_emb_layer.embedding.weight", words="word_emb_layer.embedding.weight")

#: Its names of the words in `SPECIAL_WORDS`.
SPECIAL_WORDS = ("<bos>", "<eos>", "<oov>")

#: State dicts of the model and of its softmax. The softmax is left out: it was trained to distinguish a word from
#: those of the last few batches, without correcting for their frequency, so its scores are not probabilities over the
#: dictionary. ELMoForManyLangs does not use them as such either.
WEIGHTS = ("token_embedder.pkl", "encoder.pkl")
CLASSIFIER = "classifier.pkl"

#: Files of a release that the conversion does not need.
SUPERFLUOUS = ("meta.json",)

#: The key of white space, the only one that can be read back.
WHITE_SPACE = "\N{IDEOGRAPHIC SPACE}"

#: The characters of a model that reads words alone, and has no `char.dic`.
MARKS = {mark: number for number, mark in enumerate(("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"))}

#: More than any dictionary; the largest release has 3 MB, and training kept 150,000 words.
MAX_BYTES = 1 << 26
MAX_LINES = 500_000

#: Where `str.splitlines` splits.
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def recognises(files: list[InputFile]) -> list[InputFile]:
    """Return the files that have the name of a state dict of this format, which has no other mark."""
    return [file for file in files if file.basename in WEIGHTS]


def read(files: list[InputFile], resources: ExitStack) -> OriginalCheckpoint:
    """Read a model: `config.json`, `word.dic`, `char.dic`, `token_embedder.pkl`, `encoder.pkl`.

    Args:
        files: All that was given or found; the parts have fixed names.
        resources: Releases the tensors at the end.

    Returns:
        The arrays of both state dicts, such as `convolutions.0.weight`. The options are `config.json` under
        `arguments`, and what it leads to under `configuration`.

    Raises:
        ConversionError: If a part is missing, ambiguous, damaged or superfluous.
    """
    parts = [_needed(name, files) for name in WEIGHTS]
    arguments_file = _needed("config.json", files)
    arguments = read_options(arguments_file.location, name=arguments_file.name)
    configuration_file = _configuration(arguments, files)
    word_file, char_file, classifier = (_named(name, files) for name in ("word.dic", "char.dic", CLASSIFIER))
    configuration = RELEASED
    if configuration_file is not None:
        configuration = read_options(configuration_file.location, name=configuration_file.name)
    used = [file for file in (*parts, arguments_file, configuration_file, word_file, char_file) if file is not None]
    _refuse_strangers(files, used if classifier is None else [*used, classifier])
    arrays = _arrays(parts, resources)
    words, characters = _dictionaries(word_file, char_file, arrays)
    return OriginalCheckpoint(
        format=FORMAT,
        options={"arguments": arguments, "configuration": configuration},
        arrays=arrays,
        weights_name=" + ".join(part.name for part in parts),
        options_name=f"{RELEASED_NAME} of the releases" if configuration_file is None else configuration_file.name,
        sources=source_files(used),
        tables=TABLES,
        special_words=SPECIAL_WORDS,
        vocabulary=words,
        vocabulary_name=None if word_file is None else word_file.name,
        characters=characters,
        characters_name=None if char_file is None else char_file.name,
        left=() if classifier is None else tuple(sorted(load_tensors(classifier))),
        left_name=None if classifier is None else classifier.name,
        resources=resources,
    )


def _refuse_strangers(files: list[InputFile], used: list[InputFile]) -> None:
    for file in files:
        if file.explicit and file not in used and file.basename not in SUPERFLUOUS:
            raise ConversionError(
                f"{file.name} ({file.kind.value}) is not part of an ELMoForManyLangs model. Leave it out."
            )


def _arrays(parts: list[InputFile], resources: ExitStack) -> dict[str, OriginalArray]:
    arrays: dict[str, OriginalArray] = {}
    for part in parts:
        tensors = load_tensors(part)
        resources.callback(tensors.clear)
        arrays |= arrays_of(tensors, part)
    return arrays


def _dictionaries(
    word_file: InputFile | None, char_file: InputFile | None, arrays: dict[str, OriginalArray]
) -> tuple[tuple[str, ...] | None, dict[str, int]]:
    """Read the words, if there is a dictionary of them, and the number of each character."""
    words = None if word_file is None else _read_words(word_file, arrays.get(TABLES.words))
    if char_file is None:
        return words, MARKS
    return words, read_dictionary(char_file, arrays.get(TABLES.characters), needed=tuple(MARKS))


def _needed(name: str, files: list[InputFile]) -> InputFile:
    found = _named(name, files)
    if found is None:
        raise ConversionError(f"No {name} among {describe(files)}. Give all files of the ELMoForManyLangs model.")
    return found


def _named(name: str, files: list[InputFile]) -> InputFile | None:
    found = [file for file in files if file.basename == name]
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise ConversionError(f"{len(found)} files {name}: {names}. Give the folder of one model.")
    return found[0] if found else None


def _configuration(arguments: dict[str, Any], files: list[InputFile]) -> InputFile | None:
    """Find the file of `config_path`, a path on its author's disk of which only the name counts."""
    path = arguments.get("config_path")
    if not isinstance(path, str):
        path = RELEASED_NAME
    name = re.split(r"[/\\]", path)[-1].lower()
    found = _named(name, files) if name != "config.json" else None
    if found is None and name != RELEASED_NAME:
        found = _named(RELEASED_NAME, files)
        instead = found.name if found is not None else f"{RELEASED_NAME} of the releases"
        logger.warning("%s is not among the files: going by %s.", name, instead)
    return found


def _read_words(file: InputFile, table: OriginalArray | None) -> tuple[str, ...]:
    """Read `word.dic`, which has a word for each row of its table."""
    numbers = read_dictionary(file, table, needed=SPECIAL_WORDS)
    return rows_of(numbers, file.name, size=table.shape[0] if table is not None and table.shape else 0)


def read_dictionary(
    file: InputFile, table: OriginalArray | None = None, *, needed: Sequence[str] = ()
) -> dict[str, int]:
    """Read a `.dic`, a key and its number a line, as the original does.

    The original splits lines at every Unicode line boundary and strips them, so a key of white space leaves its number
    alone on the line; such a key becomes U+3000. Of equal keys, the last one counts.

    Args:
        file: The dictionary, in UTF-8.
        table: The table with these rows, if the model has it.
        needed: Keys that a dictionary with a table must have.

    Returns:
        The number of each key.

    Raises:
        ConversionError: If the file is damaged or no dictionary, or not the one of the table.
    """
    lines = _lines_of(file)
    entries = [_entry_of(line, file.name) for line in lines]
    numbers = dict(entries)
    beyond = next((key for key, number in numbers.items() if number >= len(lines)), None)
    if beyond is not None:
        raise ConversionError(
            f"{file.name}: {beyond!r:.80} has the number {numbers[beyond]:,}, but there are "
            f"{counted(len(lines), 'line')}. Get the file again."
        )
    if table is not None and table.shape:
        missing = [key for key in needed if key not in numbers]
        if missing:
            raise ConversionError(f"{file.name} lacks {', '.join(missing)}. Give the dictionary of this model.")
        _check_rows(entries, table.shape[0], file.name)
    return numbers


def _lines_of(file: InputFile) -> list[str]:
    if file.location.stat().st_size > MAX_BYTES:
        raise ConversionError(f"{file.name} has more than {MAX_BYTES:,} bytes: this is not a dictionary.")
    try:
        text = file.location.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConversionError(
            f"{file.name} is not UTF-8 ({error.reason}, byte 0x{error.object[error.start]:02x}). Get the file again."
        ) from error
    if sum(map(text.count, LINE_ENDS)) > MAX_LINES:
        raise ConversionError(f"{file.name} has more than {MAX_LINES:,} lines: this is not a dictionary.")
    # A key that is a line boundary splits its line; the original skips the blank part.
    return [line for line in map(str.strip, text.splitlines()) if line]


def _entry_of(line: str, name: str) -> tuple[str, int]:
    entry = line.split("\t")
    key, number = (WHITE_SPACE, *entry) if len(entry) == 1 else (entry[0], entry[-1])
    if len(entry) > 2 or not number.isdecimal() or len(number) > 9:
        raise ConversionError(f"{name}: {line!r:.80} is not a word and a number. Get the file again.")
    return key, int(number)


def _check_rows(entries: list[tuple[str, int]], rows: int, name: str) -> None:
    """Compare the numbers with the rows of their table: in training, each row belonged to a line.

    Raises:
        ConversionError: If a key has no row, or a row at the end no line.
    """
    highest_used = max(dict(entries).values(), default=-1)
    # An equal key further down may have replaced one of these.
    highest = max((number for _, number in entries), default=-1)
    if highest_used >= rows or highest + 1 < rows:
        raise ConversionError(
            f"{name} goes up to number {highest}, but the table that it is for has {counted(rows, 'row')}. "
            "Give the dictionary of this model."
        )


def rows_of(numbers: dict[str, int], name: str, *, size: int = 0) -> tuple[str, ...]:
    """List the keys by their numbers.

    Args:
        numbers: The number of each key.
        name: The name of the dictionary in messages.
        size: The minimum number of rows. A row without a key gets a name that no text contains.

    Raises:
        ConversionError: If two keys have one number.
    """
    rows = [f"\0row {row}" for row in range(max([size, *(number + 1 for number in numbers.values())]))]
    for key, number in numbers.items():
        if not rows[number].startswith("\0row "):
            raise ConversionError(
                f"{name}: {rows[number]!r:.40} and {key!r:.40} have one number, {number}. Get the file again."
            )
        rows[number] = key
    return tuple(rows)


__all__ = ["FORMAT", "RELEASED", "read", "read_dictionary", "recognises", "rows_of"]
