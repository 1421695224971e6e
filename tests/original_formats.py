"""Writers of tiny models in the original formats, for the tests.

The names and axes here are those of the original programs, written down a second time and on purpose not taken from
`conversion.mapping`: a wrong name there must fail against this file.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np


#: Bytes 0 to 255, and begin and end of sentence, begin and end of word, padding.
N_BYTES_AND_MARKERS = 261

FILTERS = ((1, 4), (2, 4), (3, 8))

VOCABULARY = ("<S>", "</S>", "<UNK>", "the", ".", ",", "of", "Hà", "Nội", "EU-wide", "measures", "bank")


def write_bilm_hdf5(
    folder: Path,
    *,
    n_layers: int = 2,
    dim: int = 8,
    projection_dim: int = 4,
    filters: Sequence[tuple[int, int]] = FILTERS,
    n_highway: int = 2,
    activation: str = "relu",
    use_skip_connections: bool = True,
    cell_clip: float | None = 3,
    proj_clip: float | None = 3,
    n_characters: int = 262,
    max_characters: int = 50,
    char_dim: int = 4,
    vocabulary: Sequence[str] | None = None,
    token_input: bool = False,
    dtype: str = "float32",
    seed: int = 0,
    multi_rnn_cell: bool | None = None,
    omit: Sequence[str] = (),
    **options: Any,
) -> tuple[Path, Path]:
    """Write `weights.hdf5`, `options.json` and, where there is a vocabulary, `vocab.txt`, as bilm-tf does.

    The weights are random, unlike each other in every array and direction, and large enough for both clips to fire.

    Args:
        folder: Where to write; made if absent.
        n_layers: biLSTM layers.
        dim: Width of the cell. No `W_P_0` is written where it equals `projection_dim`.
        projection_dim: Width of one direction's output. No `CNN_proj` is written where the filters add up to it.
        filters: `(width, number)` of each convolution.
        n_highway: Highway layers.
        activation: `relu` or `tanh`.
        use_skip_connections: As in the options file.
        cell_clip: As in the options file; `None` writes `null`.
        proj_clip: As in the options file; `None` writes `null`.
        n_characters: What the options say; the array has 261 rows whatever they say.
        max_characters: Width of a word's row of characters.
        char_dim: Width of a character's embedding.
        vocabulary: Words, one a line; word-input models get `VOCABULARY` where none is given.
        token_input: Write a word embedding in place of the character encoder.
        dtype: Of the arrays in the file.
        seed: Of the weights.
        multi_rnn_cell: Name the layers `MultiRNNCell/Cell{l}`; bilm-tf does so from two layers on.
        omit: Keys to leave out of the options, such as `lstm.cell_clip`.
        **options: Further top-level keys of the options, such as `n_tokens_vocab`.

    Returns:
        The paths of the weights and of the options.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if token_input and vocabulary is None:
        vocabulary = VOCABULARY
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    if token_input:
        assert vocabulary is not None
        arrays["embedding"] = _normal(rng, (len(vocabulary), projection_dim), 1.0)
    else:
        arrays |= _character_encoder(rng, char_dim, filters, n_highway, projection_dim)
    if multi_rnn_cell is None:
        multi_rnn_cell = n_layers > 1
    arrays |= _lstms(rng, n_layers, dim, projection_dim, multi_rnn_cell)

    weights_path, options_path = folder / "weights.hdf5", folder / "options.json"
    with h5py.File(weights_path, "w") as file:
        for name, array in arrays.items():
            file[name] = array.astype(dtype)
    written: dict[str, Any] = {
        "bidirectional": True,
        "lstm": {
            "cell_clip": cell_clip,
            "dim": dim,
            "n_layers": n_layers,
            "proj_clip": proj_clip,
            "projection_dim": projection_dim,
            "use_skip_connections": use_skip_connections,
        },
        **options,
    }
    if not token_input:
        written["char_cnn"] = {
            "activation": activation,
            "embedding": {"dim": char_dim},
            "filters": [list(pair) for pair in filters],
            "max_characters_per_token": max_characters,
            "n_characters": n_characters,
            "n_highway": n_highway,
        }
    for key in omit:
        *path, last = key.split(".")
        parent = written
        for part in path:
            parent = parent[part]
        del parent[last]
    options_path.write_text(json.dumps(written, indent=1), encoding="utf-8")
    if vocabulary is not None:
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary), encoding="utf-8")
    return weights_path, options_path


def _normal(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> np.ndarray:
    """Random numbers off centre, so that a lost sign or a swapped half shows."""
    return (scale * rng.standard_normal(shape) + 0.1 * scale).astype(np.float32)


def _character_encoder(
    rng: np.random.Generator,
    char_dim: int,
    filters: Sequence[tuple[int, int]],
    n_highway: int,
    projection_dim: int,
) -> dict[str, np.ndarray]:
    width = sum(number for _, number in filters)
    arrays = {"char_embed": _normal(rng, (N_BYTES_AND_MARKERS, char_dim), 1.0)}
    for i, (span, number) in enumerate(filters):
        arrays[f"CNN/W_cnn_{i}"] = _normal(rng, (1, span, char_dim, number), 1 / np.sqrt(span * char_dim))
        arrays[f"CNN/b_cnn_{i}"] = _normal(rng, (number,), 0.5)
    for k in range(n_highway):
        for part in ("carry", "transform"):
            arrays[f"CNN_high_{k}/W_{part}"] = _normal(rng, (width, width), 1 / np.sqrt(width))
            arrays[f"CNN_high_{k}/b_{part}"] = _normal(rng, (width,), 0.5)
    if width != projection_dim:
        arrays["CNN_proj/W_proj"] = _normal(rng, (width, projection_dim), 2 / np.sqrt(width))
        arrays["CNN_proj/b_proj"] = _normal(rng, (projection_dim,), 0.5)
    return arrays


def _lstms(
    rng: np.random.Generator, n_layers: int, dim: int, projection_dim: int, multi_rnn_cell: bool
) -> dict[str, np.ndarray]:
    arrays = {}
    for direction in (0, 1):
        for layer in range(n_layers):
            cell = f"MultiRNNCell/Cell{layer}/LSTMCell" if multi_rnn_cell else "LSTMCell"
            prefix = f"RNN_{direction}/RNN/{cell}"
            scale = 3 / np.sqrt(2 * projection_dim)
            arrays[f"{prefix}/W_0"] = _normal(rng, (2 * projection_dim, 4 * dim), scale)
            arrays[f"{prefix}/B"] = _normal(rng, (4 * dim,), 1.0)
            if dim != projection_dim:
                arrays[f"{prefix}/W_P_0"] = _normal(rng, (dim, projection_dim), 6 / np.sqrt(dim))
    return arrays
