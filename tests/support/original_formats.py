"""Writers of tiny models in the original formats, for the tests.

The names and axes here are those of the original programs, written down a second time and on purpose not taken from
`conversion.mapping`: a wrong name there must fail against this file.
"""

import io
import json
import struct
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch


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


def write_softmax(folder: Path, *, words: int = len(VOCABULARY), projection_dim: int = 4) -> dict[str, np.ndarray]:
    """Write `softmax_weights.hdf5`, the softmax that is published beside weights, and return its arrays."""
    rng = np.random.default_rng(1)
    arrays = {"softmax/W": _normal(rng, (words, projection_dim), 1.0), "softmax/b": _normal(rng, (words,), 1.0)}
    with h5py.File(folder / "softmax_weights.hdf5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return arrays


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


def read_bilm_hdf5(weights: Path) -> dict[str, np.ndarray]:
    """Every array of an HDF5 file, by its path."""
    names: list[str] = []
    with h5py.File(weights) as file:
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        return {name: file[name][...] for name in names}


def allennlp_tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors that AllenNLP's `_ElmoBiLm` makes of the arrays of an HDF5 file when it loads them.

    Matrices are transposed, the gates in PyTorch's order with the 1 in their bias, highways gated the other way round,
    and the table of characters has a row for padding.
    """
    tensors: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        group, _, part = name.rpartition("/")
        if name == "char_embed":
            tensors["_token_embedder._char_embedding_weights"] = np.concatenate([np.zeros_like(array[:1]), array])
        elif part.startswith("W_cnn_"):
            tensors[f"_token_embedder.char_conv_{part[6:]}.weight"] = array[0].transpose(2, 1, 0)
        elif part.startswith("b_cnn_"):
            tensors[f"_token_embedder.char_conv_{part[6:]}.bias"] = array
        elif group == "CNN_proj":
            tensors[f"_token_embedder._projection.{'weight' if part[0] == 'W' else 'bias'}"] = array.T
        elif part in ("W_transform", "b_transform"):
            carry = arrays[f"{group}/{part[0]}_carry"]
            layer = f"_token_embedder._highways._layers.{group[-1]}"
            joined = np.concatenate([array.T, -carry.T])
            tensors[f"{layer}.{'weight' if part[0] == 'W' else 'bias'}"] = joined
        elif group.startswith("RNN_"):
            way, layer = ("forward", "backward")[int(group[4])], group.partition("Cell/Cell")[2][0]
            tensors |= {f"_elmo_lstm.{way}_layer_{layer}.{key}": value for key, value in _allennlp_cell(part, array)}
    return tensors


def _allennlp_cell(part: str, array: np.ndarray) -> list[tuple[str, np.ndarray]]:
    if part == "W_P_0":
        return [("state_projection.weight", array.T)]
    i, g, f, o = np.split(array, 4, axis=-1)
    if part == "B":
        return [("state_linearity.bias", np.concatenate([i, f + 1, g, o]))]
    kernel = np.concatenate([i, f, g, o], axis=1)
    of_input, of_state = np.split(kernel, 2)
    return [("input_linearity.weight", of_input.T), ("state_linearity.weight", of_state.T)]


def allennlp_elmo(folder: Path, *, prefix: str = "", mixes: int = 1, seed: int = 0) -> dict[str, torch.Tensor]:
    """A state dict of AllenNLP's `Elmo`, with the weights of `write_bilm_hdf5` of the same seed.

    Mix `k` has the weights `k, k + 0.5, k + 1` and gamma `k + 2`.
    """
    weights, _ = write_bilm_hdf5(folder, seed=seed)
    bilm = allennlp_tensors(read_bilm_hdf5(weights))
    state = {f"{prefix}_elmo_lstm.{name}": torch.tensor(np.ascontiguousarray(array)) for name, array in bilm.items()}
    for k in range(mixes):
        for j in range(3):
            state[f"{prefix}scalar_mix_{k}.scalar_parameters.{j}"] = torch.tensor([k + j / 2])
        state[f"{prefix}scalar_mix_{k}.gamma"] = torch.tensor([k + 2.0])
    return state


def write_allennlp_archive(
    path: Path,
    state: Mapping[str, Any],
    *,
    config: Mapping[str, Any] | None = None,
    members: Mapping[str, bytes] | None = None,
    zipped: bool = True,
) -> Path:
    """Write `model.tar.gz` as AllenNLP does: configuration, state dict, vocabulary of the task.

    Args:
        path: The archive.
        state: The state dict.
        config: What `config.json` says.
        members: Further files.
        zipped: PyTorch's format since 1.6, or the one before.
    """
    weights = io.BytesIO()
    torch.save(dict(state), weights, _use_new_zipfile_serialization=zipped)
    contents = {
        "config.json": json.dumps(config or {"model": {"type": "simple_tagger"}}).encode(),
        "weights.th": weights.getvalue(),
        "vocabulary/labels.txt": b"O\nU-PER\n",
        "vocabulary/tokens.txt": b"@@UNKNOWN@@\nthe\n",
        **(members or {}),
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def tensorflow_variables(
    arrays: Mapping[str, np.ndarray], *, words: int = len(VOCABULARY), share_embedding_softmax: bool = False
) -> dict[str, np.ndarray]:
    """The variables of bilm-tf's training by their names, given the arrays of its dump, and what only training has.

    Args:
        arrays: Of the dump.
        words: Of the vocabulary, and so rows of the softmax.
        share_embedding_softmax: As in the options: there is no `softmax/W`.
    """
    cells = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
    variables: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        path = name.split("/")
        if path[0].startswith("RNN_"):
            path = [path[0], "rnn", *(part for part in path[2:-1]), cells[path[-1]]]
            path = [{"MultiRNNCell": "multi_rnn_cell", "LSTMCell": "lstm_cell"}.get(part, part) for part in path]
            path = [part.replace("Cell", "cell_") if part[:4] == "Cell" else part for part in path]
        variables["/".join(["lm", *path])] = array
    projection = next(array.shape[1] for name, array in arrays.items() if name.endswith(("W_proj", "W_P_0")))
    rng = np.random.default_rng(1)
    if not share_embedding_softmax:
        variables["lm/softmax/W"] = _normal(rng, (words, projection), 1.0)
    variables["lm/softmax/b"] = _normal(rng, (words,), 1.0)
    variables |= {f"{name}/Adagrad": np.ones_like(array) for name, array in list(variables.items())}
    return variables | {"global_step": np.array(7, np.int64), "train_perplexity": np.array(40.0, np.float32)}


def write_tensorflow_checkpoint(
    folder: Path,
    variables: Mapping[str, np.ndarray],
    *,
    step: int = 7,
    shards: int = 1,
    entries_a_block: int = 5,
    header: bytes | None = None,
    entry: Mapping[str, bytes] | None = None,
) -> Path:
    """Write `checkpoint`, `model.ckpt-STEP.index` and its data files, as TensorFlow 1 does.

    Args:
        folder: Where to write; made if absent.
        variables: By their names.
        step: Of the training.
        shards: Data files; the variables are dealt out to them.
        entries_a_block: Of the index; small, so that there are several blocks.
        header: In place of the index's own header.
        entry: Fields to be appended to the entries of these variables, where the later of two counts.

    Returns:
        The index.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"model.ckpt-{step}"
    data = [bytearray() for _ in range(shards)]
    # little-endian is 0 and so not written; version 1
    rows = [(b"", header if header is not None else _field(1, shards) + _field(3, _field(1, 1)))]
    for number, (name, array) in enumerate(sorted(variables.items())):
        content, shard = array.tobytes(), number % shards
        shape = b"".join(_field(2, _field(1, size)) for size in array.shape)
        kind = {"float32": 1, "float64": 2, "int64": 9, "float16": 19}[array.dtype.name]
        fields = _field(1, kind) + _field(2, shape) + _field(3, shard) + _field(4, len(data[shard]))
        fields += _field(5, len(content)) + _varint(6 << 3 | 5) + struct.pack("<I", masked_crc32c(content))
        rows.append((name.encode(), fields + (entry or {}).get(name, b"")))
        data[shard] += content
    index, handles = b"", []
    for start in range(0, len(rows), entries_a_block):
        few = rows[start : start + entries_a_block]
        block = _table_block(few)
        handles.append((few[-1][0], _varint(len(index)) + _varint(len(block))))
        index += _sealed(block)
    footer = b""
    for block in (_table_block([]), _table_block(handles)):
        footer += _varint(len(index)) + _varint(len(block))
        index += _sealed(block)
    index += footer.ljust(40, b"\0") + bytes.fromhex("57fb808b247547db")
    for i, content in enumerate(data):
        stem.with_name(f"{stem.name}.data-{i:05d}-of-{shards:05d}").write_bytes(content)
    written = stem.with_name(f"{stem.name}.index")
    written.write_bytes(index)
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "/home/author/run/{stem.name}"\n')
    return written


def hub_variables(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The variables of a module of TensorFlow Hub, given the arrays of the dump that it was made of."""
    cells = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
    variables: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        cell, _, part = name.partition("/LSTMCell/")
        variables[f"bilm/{cell}/rnn/lstm_cell/{cells[part]}" if part else f"bilm/{name}"] = array
    # row 0 is that of padding
    variables["bilm/char_embed"] = np.concatenate([np.zeros_like(arrays["char_embed"][:1]), arrays["char_embed"]])
    mix = {"aggregation/weights": np.zeros(3, np.float32), "aggregation/scaling": np.array(1.0, np.float32)}
    return variables | mix | {"bilm/Variable": np.zeros((5, 8), np.float32)}


def write_hub_module(folder: Path, variables: Mapping[str, np.ndarray]) -> Path:
    """Write a module of TensorFlow Hub; its graph, which is not read, is left empty."""
    index = write_tensorflow_checkpoint(folder / "variables", variables)
    for path in (index, index.with_name("model.ckpt-7.data-00000-of-00001")):
        path.rename(path.with_name(path.name.replace("model.ckpt-7", "variables")))
    (folder / "variables/checkpoint").unlink()
    for name in ("saved_model.pb", "tfhub_module.pb"):
        (folder / name).write_bytes(b"\x08\x01\x00")
    return folder


def write_training_folder(
    folder: Path, *, share_embedding_softmax: bool = False, keep_dump: bool = False, **shape: Any
) -> dict[str, np.ndarray]:
    """Write the folder in which bilm-tf trained a model, with options, checkpoint and vocabulary.

    Args:
        folder: Where to write; made if absent.
        share_embedding_softmax: As in the options.
        keep_dump: Leave `weights.hdf5`, the dump of the checkpoint, in the folder.
        **shape: As for `write_bilm_hdf5`.

    Returns:
        The variables.
    """
    words = tuple(shape.setdefault("vocabulary", VOCABULARY))
    options = {"share_embedding_softmax": True} if share_embedding_softmax else {}
    weights, _ = write_bilm_hdf5(folder, **{"n_characters": 261, **options, **shape})
    variables = tensorflow_variables(
        read_bilm_hdf5(weights), words=len(words), share_embedding_softmax=share_embedding_softmax
    )
    write_tensorflow_checkpoint(folder, variables)
    if not keep_dump:
        weights.unlink()
    return variables


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _table_block(rows: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Keys without what they share with the one before, values, and one restart at the start."""
    block, before = b"", b""
    for key, value in rows:
        shared = next(
            (i for i, (a, b) in enumerate(zip(key, before, strict=False)) if a != b), min(len(key), len(before))
        )
        block += _varint(shared) + _varint(len(key) - shared) + _varint(len(value)) + key[shared:] + value
        before = key
    return block + struct.pack("<II", 0, 1)


def _sealed(block: bytes) -> bytes:
    """A block with its kind of compression, which is none, and its checksum."""
    return block + b"\0" + struct.pack("<I", masked_crc32c(block + b"\0"))


def masked_crc32c(data: bytes) -> int:
    """CRC-32C bit by bit, and turned and shifted as in LevelDB."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
