# Copyright 2026 The elmo_hf authors. All rights reserved.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""What ElmoTokenizer returns, computed once for each distinct word of a batch.

Shape notation: `B` sentences, `T` words with the boundary tokens and padding.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, count
from typing import Any, NamedTuple, cast

import numpy as np
from tokenizers import Encoding
from transformers.tokenization_utils_base import BatchEncoding
from transformers.utils.generic import TensorType, to_numpy

from .tokenizer_inputs_elmo import Example


class ElmoBatchEncoding(BatchEncoding):
    """A `BatchEncoding` whose `tokens()` are the words themselves, in the vocabulary or not.

    The Rust encodings, which `word_ids()` and others read, may be created on first use.
    """

    index: "WordIndex | None" = None
    pad_token = ""
    make_encodings: Callable[[], list[Encoding]] | None = None
    made_encodings: Sequence[Encoding] | None = None

    @property
    def _encodings(self) -> Sequence[Encoding] | None:
        # read once, because another thread may create the encodings in between
        make = self.make_encodings
        if make is not None:
            self._encodings = make()
        return self.made_encodings

    @_encodings.setter
    def _encodings(self, encodings: Sequence[Encoding] | None) -> None:
        self.made_encodings = encodings
        self.make_encodings = None

    @property
    def is_fast(self) -> bool:
        """Whether there are Rust encodings."""
        return self.make_encodings is not None or self.made_encodings is not None

    def tokens(self, batch_index: int = 0) -> list[str]:
        """Return the words of one sentence, boundary tokens and padding included."""
        return [] if self.index is None else self.index.words(batch_index, self.pad_token)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "index": self.index, "pad_token": self.pad_token}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.index, self.pad_token = state["index"], state["pad_token"]


def number_words(words: Sequence[str | None]) -> tuple[list[str], np.ndarray]:
    """Number the distinct words of a batch.

    Args:
        words: `n` words, `None` for padding.

    Returns:
        The distinct words in order of their first use, and the number of each of the `n` words among them, `[n]` in
        int64, counted from 1; 0 is padding.
    """
    # it numbers a word when it meets it first, so that the words are gone through once
    numbers: defaultdict[str | None, int] = defaultdict(count(1).__next__, {None: 0})
    array = np.fromiter(map(numbers.__getitem__, words), dtype=np.int64, count=len(words))
    return cast(list[str], list(numbers)[1:]), array


class OutputOptions(NamedTuple):
    """What one call returns.

    Attributes:
        is_batched: Whether there is an axis for sentences.
        return_tensors: `np`, `pt`, or `None` for lists.
        return_char_ids: Whether to return `char_ids`.
    """

    is_batched: bool
    return_tensors: str | TensorType | None
    return_char_ids: bool


class WordIndex(NamedTuple):
    """The words of a batch as positions in a table of the distinct ones, whose row 0 is that of padding.

    Attributes:
        distinct: Each word once.
        rows: The number of each word, counted from 1, 0 at padding: `[B, T]`, or a list of `[T]` where the sentences
            have different lengths.
    """

    distinct: list[str]
    rows: np.ndarray | list[np.ndarray]

    @classmethod
    def of_sentences(cls, sentences: Sequence[Sequence[str | None]], padding_side: str | None = None) -> "WordIndex":
        """Number the words of sentences.

        Args:
            sentences: The words of each sentence, `None` for padding.
            padding_side: `left` or `right` to pad to the longest sentence, `None` to leave the lengths as they are.
        """
        distinct, numbers = number_words(list(chain.from_iterable(sentences)))
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        longest = lengths.max(initial=0)
        if (lengths == longest).all():
            return cls(distinct, numbers.reshape(len(sentences), longest))
        if padding_side is None:
            ends = lengths.cumsum()
            return cls(distinct, [numbers[start:end] for start, end in zip(ends - lengths, ends, strict=True)])
        positions = np.arange(longest)
        if padding_side == "left":
            positions = positions[::-1]
        # [B, T]
        mask = positions < lengths[:, None]
        rows = np.zeros(mask.shape, dtype=np.int64)
        rows[mask] = numbers
        return cls(distinct, rows)

    def look_up(self, table: np.ndarray, *, as_lists: bool) -> Any:
        """Return the rows of a table for each word.

        Args:
            table: `[n + 1, ...]` for `n` distinct words, padding first.
            as_lists: Whether to return a list per sentence instead of an array.

        Returns:
            `[B, T, ...]`, an array of arrays `[T, ...]` where the sentences have different lengths, or lists.
        """
        if as_lists:
            return [table[row].tolist() for row in self.rows]
        if isinstance(self.rows, np.ndarray):
            return table.take(self.rows, axis=0)
        return stack([table[row] for row in self.rows])

    def words(self, sentence: int, pad_token: str) -> list[str]:
        """Return the words of a sentence, with `pad_token` at padding."""
        words = [pad_token, *self.distinct]
        return [words[number] for number in self.rows[sentence].tolist()]


def stack(rows: Sequence[np.ndarray], *width: int) -> np.ndarray:
    """Stack the arrays of sentences, `[T, ...]` each; different lengths give an array of arrays."""
    lengths = {len(row) for row in rows}
    if len(lengths) <= 1:
        return np.stack(rows) if rows else np.zeros((0, 0, *width), dtype=np.int64)
    ragged = np.empty(len(rows), dtype=object)
    for number, row in enumerate(rows):
        ragged[number] = row
    return ragged


def pad_values(
    key: str,
    values: Sequence[Any],
    input_ids: Sequence[Any],
    padded_ids: Sequence[Any],
    *,
    shape: tuple[int, ...],
    left: bool,
) -> list[np.ndarray]:
    """Pad what each word of sentences has, such as its characters, with zeros.

    Args:
        key: Its name, for messages.
        values: `[T, *shape]` for each sentence, before padding: lists, arrays or tensors.
        input_ids: Word ids `[T]` for each sentence, before padding.
        padded_ids: Word ids for each sentence, after padding.
        shape: What one word has: `(C,)` for `C` characters, and `()` for a number.
        left: Whether padding precedes the words.

    Returns:
        `[T, *shape]` in int64 for each sentence, after padding.

    Raises:
        ValueError: If the values do not fit the word ids or `shape`.
    """
    if len(values) != len(input_ids):
        raise ValueError(f"{key} have the length {len(values)} and input_ids {len(input_ids)}: give equally many.")
    padded = [np.zeros((len(row), *shape), dtype=np.int64) for row in padded_ids]
    for number, (own, row) in enumerate(zip(values, input_ids, strict=True)):
        length = len(row)
        # an empty list has no width
        if length == 0 and len(own) == 0:
            continue
        array = np.asarray(to_numpy(own))
        if array.shape != (length, *shape):
            width = " and this tokenizer's max_characters_per_token" if shape else ""
            raise ValueError(
                f"{key} of sentence {number} are {list(array.shape)}; its {length} input_ids{width} need "
                f"{[length, *shape]}."
            )
        start = len(padded[number]) - length if left else 0
        padded[number][start : start + length] = array
    return padded


def to_tensors(data: dict[str, Any], return_tensors: str | TensorType | None) -> dict[str, Any]:
    """Convert arrays to torch tensors, without a copy, if `return_tensors` asks for them."""
    if return_tensors is None or TensorType(return_tensors) is not TensorType.PYTORCH:
        return data
    import torch

    return {
        key: torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype != object else value
        for key, value in data.items()
    }


def make_batch(
    index: WordIndex,
    tables: dict[str, np.ndarray],
    output: OutputOptions,
    *,
    pad_token: str,
    data: dict[str, Any] | None = None,
    encodings: list[Encoding] | None = None,
) -> ElmoBatchEncoding:
    """Look up every word of a batch.

    Args:
        index: The words.
        tables: For each key its values for the distinct words, `[n + 1, ...]`, padding first.
        output: What the call returns.
        pad_token: The token that shows padding.
        data: Values of other keys, which precede these.
        encodings: The Rust encodings; `None` if they are created on demand.
    """
    as_lists = output.return_tensors is None
    data = (data or {}) | {key: index.look_up(table, as_lists=as_lists) for key, table in tables.items()}
    if as_lists and not output.is_batched:
        data = {key: value[0] if isinstance(value[0], list) else value for key, value in data.items()}
    batch = ElmoBatchEncoding(
        to_tensors(data, output.return_tensors),
        encodings,
        tensor_type=output.return_tensors,
        n_sequences=1 if encodings is None else None,
    )
    batch.index, batch.pad_token = index, pad_token
    return batch


def words_of_encoding(encoding: Encoding, example: Example, *, is_split_into_words: bool) -> list[str | None]:
    """Return the words of a Rust encoding as they stand in its example.

    Args:
        encoding: The encoding.
        example: The texts, or the given words, that it encodes.
        is_split_into_words: Whether the example has words.

    Returns:
        The words, boundary tokens included; `None` is padding.
    """
    if is_split_into_words:
        parts: Any = encoding.word_ids
    else:
        parts = [slice(*offsets) for offsets in encoding.offsets]
    tokens = zip(parts, encoding.sequence_ids, encoding.tokens, encoding.attention_mask, strict=True)
    return [
        example[sequence][part] if sequence is not None else token if is_real else None
        for part, sequence, token, is_real in tokens
    ]


def restore_empty_words(
    offset_mapping: Sequence[Sequence[tuple[int, int]]], words: Sequence[Sequence[str | None]]
) -> list[list[tuple[int, int]]]:
    """Return the offsets with `(0, 0)` for empty words, which `prepare_for_rust` replaced."""
    return [
        [(0, 0) if word == "" else offsets for word, offsets in zip(*row, strict=True)]
        for row in zip(words, offset_mapping, strict=True)
    ]


__all__ = [
    "ElmoBatchEncoding",
    "OutputOptions",
    "WordIndex",
    "make_batch",
    "number_words",
    "pad_values",
    "restore_empty_words",
    "stack",
    "to_tensors",
    "words_of_encoding",
]
