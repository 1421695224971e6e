"""Read a module of TensorFlow Hub with an ELMo in it: google/elmo, and those that DeepPavlov exports.

Both are built with the inference of bilm-tf, whose variables are in the scope `bilm`. Names:
https://github.com/allenai/bilm-tf/blob/master/bilm/model.py, function `_pretrained_initializer`.
"""

import re
from contextlib import ExitStack

from .base import ConversionError, InputFile, OriginalCheckpoint, SelectionError, Sizes, Tables, source_files
from .options import read_options
from .parts import find_vocabulary, only, options_among, read_lines
from .refused import HUB_NAMES
from .tensor_bundle import read_index
from .tensorflow_checkpoint import SUFFIX, arrays_of, find_indices, find_shards, without_checkpoints


FORMAT = "tensorflow-hub"

SCOPE = "bilm"

TABLES = Tables(characters="bilm/char_embed", words="bilm/embedding", padded=True)

#: Variables of the model; others are the states of the cells, the untrained mix and the optimiser's.
KEPT = re.compile(
    r"bilm/(char_embed|CNN/[Wb]_cnn_\d+|CNN_high_\d+/[Wb]_(carry|transform)|CNN_proj/[Wb]_proj"
    r"|RNN_[01]/RNN/MultiRNNCell/Cell\d+/rnn/lstm_cell/(kernel|bias|projection/kernel))"
)


def recognises(files: list[InputFile]) -> list[InputFile]:
    """Return the indices of the variables of modules."""
    return find_indices(files) if any(file.basename in HUB_NAMES for file in files) else []


def read(files: list[InputFile], resources: ExitStack) -> OriginalCheckpoint:
    """Read the module: `variables/variables.index` and its data files.

    Args:
        files: All that was given or found.
        resources: Not used: the data files are opened when an array is read.

    Returns:
        The variables of the model, such as `bilm/CNN/W_cnn_0`; the others are `left`. The options are those of a file
        with a section `lstm`, empty if there is none: modules have none.

    Raises:
        ConversionError: If a part is missing, ambiguous or damaged.
    """
    found = recognises(files)
    if len(found) > 1:
        raise SelectionError(
            f"{len(found)} modules: {', '.join(file.name for file in found[:4])}. Give the folder of one."
        )
    (index_file,) = found
    index = read_index(index_file.location, index_file.name)
    shards = find_shards(index_file, index, files, SCOPE)
    among = options_among(files)
    options = only(among, "options (JSON with a section 'lstm')", files) if among else None
    vocabulary = find_vocabulary(without_checkpoints(files))
    used = [file for file in (index_file, *shards, options, vocabulary) if file is not None]
    for file in files:
        if file.explicit and file not in used and file.basename not in HUB_NAMES:
            raise ConversionError(f"{file.name} ({file.kind.value}) is not part of this module. Leave it out.")
    kept = {name: entry for name, entry in index.entries.items() if KEPT.fullmatch(name)}
    checkpoint = OriginalCheckpoint(
        format=FORMAT,
        options={} if options is None else read_options(options.location, name=options.name),
        arrays=arrays_of(kept, shards),
        weights_name=index_file.name.removesuffix(SUFFIX),
        options_name="the shape of its other variables" if options is None else options.name,
        sources=source_files(used),
        tables=TABLES,
        vocabulary=None if vocabulary is None else read_lines(vocabulary),
        vocabulary_name=None if vocabulary is None else vocabulary.name,
        left=tuple(sorted(index.entries.keys() - kept.keys())),
        resources=resources,
    )
    if options is None:
        checkpoint.sizes = _sizes(checkpoint)
    return checkpoint


def _sizes(checkpoint: OriginalCheckpoint) -> Sizes:
    cells = "bilm/RNN_0/RNN/MultiRNNCell/Cell{}/rnn/lstm_cell/projection/kernel"
    convolutions = range(checkpoint.count("bilm/CNN/W_cnn_{}"))
    # [1, width, depth, number] each
    kernels = [checkpoint.shape_of(f"bilm/CNN/W_cnn_{i}", 4) for i in convolutions]
    # [262, depth], [C, P]
    _, depth = checkpoint.shape_of(TABLES.characters, 2)
    cell, projection = checkpoint.shape_of(cells.format(0), 2)
    return Sizes(
        char_embedding=depth,
        char_filters=tuple((width, number) for _, width, _, number in kernels),
        num_highway_layers=checkpoint.count("bilm/CNN_high_{}/W_carry"),
        cell=cell,
        projection=projection,
        num_layers=checkpoint.count(cells),
    )


__all__ = ["FORMAT", "read", "recognises"]
