"""A writer of tiny models of ELMoForManyLangs, and the arithmetic of that program as plain loops, for the tests.

The names and axes are that program's, written down a second time and on purpose not taken from `conversion`.

Shape notation: `P` width of a direction, `C` of the cell, `F` filters in all, `L` biLSTM layers.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


Array = NDArray[np.float64]

MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
CHARACTERS = (*"abcdehtno.", "ä", "日", "\u3000", *MARKS)
WORDS = ("<oov>", "<bos>", "<eos>", "<pad>", "the", ".", "tea", "ä", "日", "abcdeabcde", "bad")
FILTERS = ((1, 3), (2, 4), (3, 5))

CONFIG_NAME = "cnn_tiny.json"


def write_many_langs(
    folder: Path,
    *,
    word_dim: int = 6,
    char_dim: int = 5,
    filters: Sequence[tuple[int, int]] = FILTERS,
    n_highway: int = 2,
    dim: int = 8,
    projection_dim: int = 4,
    n_layers: int = 2,
    clip: float = 3,
    activation: str = "relu",
    max_characters: int = 12,
    characters: Sequence[str] = CHARACTERS,
    words: Sequence[str] = WORDS,
    config_path: str = f"/home/author/configs/{CONFIG_NAME}",
    classifier: bool = False,
    new_format: bool = True,
    seed: int = 0,
) -> Path:
    """Write a model with random weights, large enough for both clips to fire, as the program's `train` does.

    Args:
        folder: Where to write; made if absent.
        word_dim: Width of a word's own embedding; 0 leaves it out.
        char_dim: Width of a character's embedding; 0 leaves it out, and `char.dic`.
        filters: `(width, number)` of each convolution.
        n_highway: Highway layers.
        dim: Width of the cell.
        projection_dim: Width of one direction's output. Both projections are written even where they keep the width.
        n_layers: biLSTM layers.
        clip: Of cells and of outputs.
        activation: `relu` or `tanh`.
        max_characters: Width of a word's row of characters.
        characters: Keys of `char.dic`, in order.
        words: Keys of `word.dic`, in order.
        config_path: What `config.json` says; a configuration of that basename is written if it is `CONFIG_NAME`.
        classifier: Write the softmax.
        new_format: Of PyTorch's files: a zip, or the stream of pickles that was usual before version 1.6.
        seed: Of the weights.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int, scale: float) -> torch.Tensor:
        # off centre, so that a lost sign or a swapped half shows
        return scale * (torch.randn(shape, generator=generator) + 0.1)

    embedder, width, joined = {}, sum(number for _, number in filters), word_dim
    if word_dim:
        embedder["word_emb_layer.embedding.weight"] = random(len(words), word_dim, scale=1)
    if char_dim:
        joined += width
        embedder["char_emb_layer.embedding.weight"] = random(len(characters), char_dim, scale=1)
        for i, (span, number) in enumerate(filters):
            embedder[f"convolutions.{i}.weight"] = random(number, char_dim, span, scale=(span * char_dim) ** -0.5)
            embedder[f"convolutions.{i}.bias"] = random(number, scale=0.5)
        for k in range(n_highway):
            embedder[f"highways._layers.{k}.weight"] = random(2 * width, width, scale=width**-0.5)
            embedder[f"highways._layers.{k}.bias"] = random(2 * width, scale=0.5)
    embedder["projection.weight"] = random(projection_dim, joined, scale=2 * joined**-0.5)
    embedder["projection.bias"] = random(projection_dim, scale=0.5)
    encoder = {}
    for layer in range(n_layers):
        for way in ("forward", "backward"):
            prefix, scale = f"{way}_layer_{layer}", 3 * (2 * projection_dim) ** -0.5
            encoder[f"{prefix}.input_linearity.weight"] = random(4 * dim, projection_dim, scale=scale)
            encoder[f"{prefix}.state_linearity.weight"] = random(4 * dim, projection_dim, scale=scale)
            encoder[f"{prefix}.state_linearity.bias"] = random(4 * dim, scale=1)
            encoder[f"{prefix}.state_projection.weight"] = random(projection_dim, dim, scale=6 * dim**-0.5)
    state_dicts = {"token_embedder": embedder, "encoder": encoder}
    if classifier:
        state_dicts["classifier"] = {"column_emb.weight": random(len(words), projection_dim, scale=1)}
    for name, state in state_dicts.items():
        torch.save(state, folder / f"{name}.pkl", _use_new_zipfile_serialization=new_format)
    configuration = {
        "encoder": {
            "name": "elmo",
            "projection_dim": projection_dim,
            "cell_clip": clip,
            "proj_clip": clip,
            "dim": dim,
            "n_layers": n_layers,
        },
        "token_embedder": {
            "name": "cnn",
            "activation": activation,
            "filters": [list(pair) for pair in filters],
            "n_highway": n_highway,
            "word_dim": word_dim,
            "char_dim": char_dim,
            "max_characters_per_token": max_characters,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 4},
        "dropout": 0.1,
    }
    write_json(folder / "config.json", {"seed": 1, "config_path": config_path, "max_epoch": 1})
    if config_path.endswith(CONFIG_NAME):
        write_json(folder / CONFIG_NAME, configuration)
    write_dictionary(folder / "word.dic", words)
    if char_dim:
        write_dictionary(folder / "char.dic", characters)
    return folder


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def write_dictionary(path: Path, keys: Sequence[str]) -> None:
    path.write_text("".join(f"{key}\t{number}\n" for number, key in enumerate(keys)), encoding="utf-8")


def spell(word: str, numbers: dict[str, int], width: int) -> list[int]:
    """Write one word as the program does: numbers of the dictionary, not yet one more."""
    if word in ("<bos>", "<eos>"):
        content = [numbers[word]]
    else:
        content = [numbers.get(character, numbers["<oov>"]) for character in word[: width - 2]]
    # the program takes one mark for the other
    row = [numbers["<eow>"], *content, numbers["<bow>"]]
    return row + [numbers["<pad>"]] * (width - len(row))


def read_numbers(path: Path) -> dict[str, int]:
    """Read back what `write_dictionary` wrote."""
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return {key: int(number) for key, number in (line.split("\t") for line in lines)}


def compute(folder: Path, words: Sequence[str]) -> Array:
    """Compute one sentence as the program does from a fresh state.

    Args:
        folder: What `write_many_langs` wrote.
        words: Without boundaries.

    Returns:
        Every layer with both boundaries, `[L + 1, words + 2, 2P]`.
    """
    options = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
    embedder, encoder = (
        {name: tensor.double().numpy() for name, tensor in torch.load(folder / f"{part}.pkl").items()}
        for part in ("token_embedder", "encoder")
    )
    sentence = ["<bos>", *words, "<eos>"]
    tokens = np.stack([_encode(word, folder, options["token_embedder"], embedder) for word in sentence])
    layers = [np.concatenate([tokens, tokens], axis=1)]
    forward, backward = tokens, tokens[::-1]
    for layer in range(options["encoder"]["n_layers"]):
        outputs = [
            _read(inputs, f"{way}_layer_{layer}", encoder, options["encoder"])
            for way, inputs in (("forward", forward), ("backward", backward))
        ]
        if layer:
            outputs = [outputs[0] + forward, outputs[1] + backward]
        forward, backward = outputs
        layers.append(np.concatenate([forward, backward[::-1]], axis=1))
    return np.stack(layers)


def _encode(word: str, folder: Path, options: dict[str, Any], weights: dict[str, Array]) -> Array:
    width, parts = options["max_characters_per_token"], []
    if options["word_dim"]:
        numbers = read_numbers(folder / "word.dic")
        cut = word if word in ("<bos>", "<eos>") else word[: width - 2]
        parts.append(weights["word_emb_layer.embedding.weight"][numbers.get(cut, numbers["<oov>"])])
    if options["char_dim"]:
        row = spell(word, read_numbers(folder / "char.dic"), width)
        # [width, char_dim]
        characters = weights["char_emb_layer.embedding.weight"][row]
        maxima = []
        for i, (span, _) in enumerate(options["filters"]):
            kernel, bias = weights[f"convolutions.{i}.weight"], weights[f"convolutions.{i}.bias"]
            windows = [characters[start : start + span].T for start in range(width - span + 1)]
            maxima.append(np.max([(kernel * window).sum(axis=(1, 2)) + bias for window in windows], axis=0))
        features = np.concatenate(maxima)
        features = np.tanh(features) if options["activation"] == "tanh" else np.maximum(features, 0)
        for k in range(options["n_highway"]):
            both = weights[f"highways._layers.{k}.weight"] @ features + weights[f"highways._layers.{k}.bias"]
            transformed, gate = np.split(both, 2)
            features = _sigmoid(gate) * features + (1 - _sigmoid(gate)) * np.maximum(transformed, 0)
        parts.append(features)
    return weights["projection.weight"] @ np.concatenate(parts) + weights["projection.bias"]


def _read(inputs: Array, prefix: str, weights: dict[str, Array], options: dict[str, Any]) -> Array:
    """One direction of one layer over `[words, P]`."""
    names = ("input_linearity.weight", "state_linearity.weight", "state_linearity.bias", "state_projection.weight")
    of_input, of_state, bias, projection = (weights[f"{prefix}.{name}"] for name in names)
    hidden, cell = np.zeros(options["projection_dim"]), np.zeros(options["dim"])
    outputs = []
    for token in inputs:
        i, f, g, o = np.split(of_input @ token + of_state @ hidden + bias, 4)
        cell = _sigmoid(i) * np.tanh(g) + _sigmoid(f) * cell
        if options["cell_clip"]:
            cell = cell.clip(-options["cell_clip"], options["cell_clip"])
        hidden = projection @ (_sigmoid(o) * np.tanh(cell))
        if options["proj_clip"]:
            hidden = hidden.clip(-options["proj_clip"], options["proj_clip"])
        outputs.append(hidden)
    return np.stack(outputs)


def _sigmoid(values: Array) -> Array:
    return 1 / (1 + np.exp(-values))
