"""An independent ELMo biLM in NumPy, to check converted models against.

It reads the original HDF5 weights and options itself and computes in float64, step by step like the original program,
https://github.com/allenai/bilm-tf. It shares no code with the model, the tokenizer, the readers or the mapping of
names, so that an error in one of them cannot be in both.

Shape notation: `n` words of a sentence (including boundary tokens where stated), `M` characters of a word, `d`
width of a character embedding, `F` filters, `P` half the width of a vector, `C` width of an LSTM cell, `L` biLSTM
layers.
"""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray


Array = NDArray[np.float64]
# one layer of one direction: hidden state [P] and cell [C]
CellState = tuple[Array, Array]
# [layer][direction], the forward direction first
State = tuple[tuple[CellState, CellState], ...]

# character codes above the 256 bytes
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260
# `BasicLSTMCell(forget_bias=1)`: added when the network runs, not part of the stored bias
FORGET_BIAS = 1.0


class NumpyBilm:
    """The biLM of one original checkpoint.

    Args:
        weights: HDF5 file that bilm-tf dumped.
        options: The JSON file that goes with it.
        vocabulary: The vocabulary, one word per line; only a model that reads words uses it.

    Raises:
        ValueError: If the file lacks an array that the options call for, or a vocabulary is needed and not given.
    """

    def __init__(self, weights: Path, options: Path, vocabulary: Path | None = None) -> None:
        self.name = Path(weights).name
        parsed: dict[str, Any] = json.loads(Path(options).read_text(encoding="utf-8-sig"))
        lstm = parsed["lstm"]
        self.skip = bool(lstm.get("use_skip_connections"))
        # 0 and null both mean "not clipped"
        self.cell_clip: float = lstm.get("cell_clip") or np.inf
        self.projection_clip: float = lstm.get("proj_clip") or np.inf
        self.num_layers: int = lstm.get("n_layers") or 1
        # empty for a model that reads words
        self.cnn: dict[str, Any] = parsed.get("char_cnn") or {}
        self.arrays = _read_arrays(Path(weights))
        self.rows = {} if self.cnn else _read_vocabulary(vocabulary)
        self.cells = [[self._cell(layer, direction) for direction in (0, 1)] for layer in range(self.num_layers)]

    def layers(self, words: Sequence[str], state: State | None = None, *, keep_boundaries: bool = False) -> Array:
        """Compute every layer for one sentence; the arguments are those of `run`.

        Returns:
            `[L + 1, n, 2P]`: the token layer, concatenated with itself, then each biLSTM layer.
        """
        return self.run(words, state, keep_boundaries=keep_boundaries)[0]

    def run(
        self, words: Sequence[str], state: State | None = None, *, keep_boundaries: bool = False
    ) -> tuple[Array, State]:
        """Compute every layer for one sentence, and the state to pass on to the next.

        Args:
            words: The sentence without boundary tokens.
            state: The state that an earlier call returned; zeros by default.
            keep_boundaries: Keep the vectors of `<S>` and `</S>`.

        Returns:
            The layers, `[L + 1, n, 2P]`, and the state after the last word.
        """
        return self.run_many([words], [state], keep_boundaries=keep_boundaries)[0]

    def run_many(
        self,
        sentences: Sequence[Sequence[str]],
        states: Sequence[State | None] | None = None,
        *,
        keep_boundaries: bool = False,
    ) -> list[tuple[Array, State]]:
        """Compute a batch of sentences, which is many times faster than one at a time.

        Args:
            sentences: The words of each sentence, without boundary tokens.
            states: A state for each sentence; zeros by default.
            keep_boundaries: Keep the vectors of `<S>` and `</S>`.

        Returns:
            For each sentence, the layers `[L + 1, n, 2P]` and the state after its last word.
        """
        framed = [["<S>", *words, "</S>"] for words in sentences]
        every_token = self.token_layer([word for words in framed for word in words])
        # [n, P] for each sentence, boundary tokens included
        tokens = np.split(every_token, np.cumsum([len(words) for words in framed])[:-1])
        outputs = [[np.concatenate([each, each], axis=1)] for each in tokens]
        after: list[list[tuple[CellState, CellState]]] = [[] for _ in sentences]
        # each direction reads the words in its own order, and only its own outputs of the layer below
        forward, backward = tokens, [each[::-1] for each in tokens]
        for layer in range(self.num_layers):
            before = [state[layer] if state else (None, None) for state in states or [None] * len(sentences)]
            forward, forward_states = self._run_cell(layer, 0, forward, [both[0] for both in before])
            backward, backward_states = self._run_cell(layer, 1, backward, [both[1] for both in before])
            for row, pair in enumerate(zip(forward_states, backward_states, strict=True)):
                after[row].append(pair)
                outputs[row].append(np.concatenate([forward[row], backward[row][::-1]], axis=1))
        inner = slice(None) if keep_boundaries else slice(1, -1)
        return [(np.stack(out)[:, inner], tuple(pairs)) for out, pairs in zip(outputs, after, strict=True)]

    def token_layer(self, words: Sequence[str]) -> Array:
        """Encode words without context, `[n, P]`."""
        if not self.cnn:
            return self._look_up(words)
        distinct = list(dict.fromkeys(words))
        encoded = self._encode_characters(distinct)
        return encoded[[distinct.index(word) for word in words]]

    def _look_up(self, words: Sequence[str]) -> Array:
        # [V + 1, P]: for a missing word, and for a missing `<UNK>`, bilm-tf reads a row of zeros
        table = np.pad(self._array("embedding"), ((0, 1), (0, 0)))
        unknown = self.rows.get("<UNK>", len(table) - 1)
        return table[[self.rows.get(word, unknown) for word in words]]

    def _encode_characters(self, words: Sequence[str]) -> Array:
        """Apply convolutions, maximum, activation, highway layers and projection to characters, `[n, P]`."""
        length = self.cnn.get("max_characters_per_token") or 50
        table = self._array("char_embed")
        # a table that was saved for inference begins with a row of zeros, that of padding
        table = table[1:] if len(table) > PADDING + 1 and not table[0].any() else table
        # [n, M, d]
        characters = table[[spell(word, length) for word in words]]
        pooled = [self._convolve(characters, i, width) for i, (width, _) in enumerate(self.cnn["filters"])]
        # [n, F]
        x = np.concatenate(pooled, axis=1)
        x = np.tanh(x) if self.cnn.get("activation") == "tanh" else np.maximum(x, 0)
        for k in range(self.cnn.get("n_highway") or 0):
            x = self._highway(x, f"CNN_high_{k}")
        if "CNN_proj/W_proj" in self.arrays:
            x = x @ self._array("CNN_proj/W_proj") + self._array("CNN_proj/b_proj")
        return x

    def _convolve(self, characters: Array, i: int, width: int) -> Array:
        """Apply one kernel at every position and keep the maximum of each filter, `[n, filters]`."""
        # [width, d, filters]
        kernel = self._array(f"CNN/W_cnn_{i}")[0]
        best = np.full((len(characters), kernel.shape[-1]), -np.inf)
        for start in range(characters.shape[1] - width + 1):
            window = characters[:, start : start + width]
            best = np.maximum(best, np.tensordot(window, kernel, axes=([1, 2], [0, 1])))
        return best + self._array(f"CNN/b_cnn_{i}")

    def _highway(self, x: Array, name: str) -> Array:
        # bilm-tf calls it carry, although it gates the transformed part
        gate = sigmoid(x @ self._array(f"{name}/W_carry") + self._array(f"{name}/b_carry"))
        transformed = np.maximum(x @ self._array(f"{name}/W_transform") + self._array(f"{name}/b_transform"), 0)
        return gate * transformed + (1 - gate) * x

    def _cell(self, layer: int, direction: int) -> str:
        """Find the group of one LSTM; a model of one layer may lack the enclosing `MultiRNNCell`."""
        name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        alone = f"RNN_{direction}/RNN/LSTMCell"
        return alone if self.num_layers == 1 and f"{alone}/W_0" in self.arrays else name

    def _run_cell(
        self, layer: int, direction: int, inputs: list[Array], states: list[CellState | None]
    ) -> tuple[list[Array], list[CellState]]:
        """Run one LSTM over each sentence, `[n, P]` to `[n, P]`, in the order of the inputs."""
        name = self.cells[layer][direction]
        kernel, bias = self._array(f"{name}/W_0"), self._array(f"{name}/B")
        projection = self.arrays.get(f"{name}/W_P_0")
        # rows of the kernel: the input's, then the hidden state's
        empty = (np.zeros(len(kernel) - inputs[0].shape[1]), np.zeros(len(bias) // 4))
        # [sentences, P], [sentences, C]
        hidden, cells = (np.stack(parts) for parts in zip(*(state or empty for state in states), strict=True))
        outputs = [np.empty_like(each) for each in inputs]
        lengths = np.array([len(each) for each in inputs])
        for t in range(lengths.max()):
            # sentences that have a word at t
            rows = np.flatnonzero(lengths > t)
            x = np.stack([inputs[row][t] for row in rows])
            # TensorFlow's order: input gate, candidate, forget gate, output gate
            i, g, f, o = np.split(np.concatenate([x, hidden[rows]], axis=1) @ kernel + bias, 4, axis=1)
            c = sigmoid(f + FORGET_BIAS) * cells[rows] + sigmoid(i) * np.tanh(g)
            # the state keeps the clipped cell
            c = np.clip(c, -self.cell_clip, self.cell_clip)
            h = sigmoid(o) * np.tanh(c)
            if projection is not None:
                h = np.clip(h @ projection, -self.projection_clip, self.projection_clip)
            hidden[rows], cells[rows] = h, c
            for row in rows:
                # the residual is around the cell, so the state does not contain it
                residual = inputs[row][t] if self.skip and layer > 0 else 0
                outputs[row][t] = hidden[row] + residual
        return outputs, list(zip(hidden, cells, strict=True))

    def _array(self, name: str) -> Array:
        if name not in self.arrays:
            raise ValueError(f"{self.name} has no array {name}: are these the options that belong to it?")
        return self.arrays[name]


def spell(word: str, length: int) -> list[int]:
    """Spell a word as `length` rows of the character table."""
    if word == "<S>":
        middle = [BEGIN_SENTENCE]
    elif word == "</S>":
        middle = [END_SENTENCE]
    else:
        middle = list(word.encode("utf-8", "ignore")[: length - 2])
    characters = [BEGIN_WORD, *middle, END_WORD]
    # the stored table has no row for "no character", so a row is a code
    return characters + [PADDING] * (length - len(characters))


def sigmoid(x: Array) -> Array:
    """Compute the logistic function by an identity that cannot overflow."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def _read_arrays(path: Path) -> dict[str, Array]:
    names: list[str] = []
    try:
        with h5py.File(path, "r") as file:
            file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
            return {name: np.asarray(file[name][...], dtype=np.float64) for name in names}
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{path.name} cannot be read as HDF5 ({error}): get the file again.") from error


def _read_vocabulary(path: Path | None) -> dict[str, int]:
    if path is None:
        raise ValueError("The options have no char_cnn, so the model reads words: give its vocabulary file as well.")
    opened = gzip.open if Path(path).suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        words = [word for word in (line.strip() for line in file) if word != "!!!MAXTERMID"]
    # as in bilm-tf, the last line of a word counts
    return {word: row for row, word in enumerate(words)}


__all__ = ["NumpyBilm", "State", "spell"]
