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
"""What ElmoTokenizer returns, and how it encodes words in NumPy.

Shape notation: `B` sentences, `T` words with the boundary tokens and padding.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Encoding, Tokenizer
from transformers.tokenization_utils_base import BatchEncoding, TruncationStrategy
from transformers.utils.generic import PaddingStrategy, TensorType, to_numpy

from .tokenizer_inputs_elmo import Example, prepare_for_rust


# options of `_encode_plus` that change nothing where words are neither cut nor truncated
WITHOUT_EFFECT = {"max_length", "split_special_tokens", "stride", "truncation_strategy", "verbose"}


class ElmoBatchEncoding(BatchEncoding):
    """A `BatchEncoding` whose `tokens()` are the words themselves, in the vocabulary or not.

    The Rust encodings, which `word_ids()` and others read, may be created on first use.
    """

    words: Sequence[Sequence[str]] = ()
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
        return list(self.words[batch_index])

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "words": self.words}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.words = state["words"]


def number_words(words: Sequence[str | None]) -> tuple[list[str], np.ndarray]:
    """Number the distinct words of a batch.

    Args:
        words: `n` words, `None` for padding.

    Returns:
        The distinct words in order of their first use, and the number of each of the `n` words among them, `[n]` in
        int64, counted from 1; 0 is padding.
    """
    numbers = {word: number for number, word in enumerate(dict.fromkeys(chain([None], words)))}
    distinct = [word for word in numbers if word is not None]
    return distinct, np.fromiter(map(numbers.__getitem__, words), dtype=np.int64, count=len(words))


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
            return table[self.rows]
        return stack([table[row] for row in self.rows])

    def words(self, pad_token: str) -> list[list[str]]:
        """Return the words of each sentence, with `pad_token` at padding."""
        return self.look_up(np.array([pad_token, *self.distinct], dtype=object), as_lists=True)


def stack(rows: Sequence[np.ndarray], *width: int) -> np.ndarray:
    """Stack the arrays of sentences, `[T, ...]` each; different lengths give an array of arrays."""
    lengths = {len(row) for row in rows}
    if len(lengths) <= 1:
        return np.stack(rows) if rows else np.zeros((0, 0, *width), dtype=np.int64)
    ragged = np.empty(len(rows), dtype=object)
    for number, row in enumerate(rows):
        ragged[number] = row
    return ragged


def pad_char_ids(
    char_ids: Sequence[Any], input_ids: Sequence[Any], padded_ids: Sequence[Any], *, width: int, left: bool
) -> list[np.ndarray]:
    """Pad each sentence's characters with rows of zeros.

    Args:
        char_ids: `[T, C]` for each sentence, before padding: lists, arrays or tensors.
        input_ids: Word ids `[T]` for each sentence, before padding.
        padded_ids: Word ids for each sentence, after padding.
        width: `C`, characters of a word.
        left: Whether padding precedes the words.

    Returns:
        `[T, C]` in int64 for each sentence, after padding.

    Raises:
        ValueError: If characters do not fit the word ids or `width`.
    """
    if len(char_ids) != len(input_ids):
        raise ValueError(f"char_ids are of {len(char_ids)} sentences, input_ids of {len(input_ids)}.")
    padded = [np.zeros((len(row), width), dtype=np.int64) for row in padded_ids]
    for number, (characters, row) in enumerate(zip(char_ids, input_ids, strict=True)):
        length = len(row)
        # an empty list has no width
        if length == 0 and len(characters) == 0:
            continue
        spelled = np.asarray(to_numpy(characters))
        if spelled.shape != (length, width):
            raise ValueError(
                f"char_ids of sentence {number} are {list(spelled.shape)}; its {length} input_ids and this "
                f"tokenizer's max_characters_per_token need {[length, width]}."
            )
        start = len(padded[number]) - length if left else 0
        padded[number][start : start + length] = spelled
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


class WordEncodingOptions(NamedTuple):
    """The options of a call that NumPy can carry out, with the names and defaults of `_encode_plus`.

    Attributes:
        add_special_tokens: Whether to add the boundary tokens.
        padding_strategy: `DO_NOT_PAD` or `LONGEST`.
        padding_side: `left` or `right`; `None` is the tokenizer's own.
        return_attention_mask: Whether to return the mask; `None` is the tokenizer's default.
    """

    add_special_tokens: bool = True
    padding_strategy: PaddingStrategy = PaddingStrategy.DO_NOT_PAD
    padding_side: str | None = None
    return_attention_mask: bool | None = None

    @classmethod
    def from_call(cls, options: Mapping[str, Any]) -> "WordEncodingOptions | None":
        """Read the options of `_encode_plus`; return `None` if only the Rust backend can carry them out."""
        truncation = options.get("truncation_strategy", TruncationStrategy.DO_NOT_TRUNCATE)
        read = {name: options[name] for name in cls._fields if name in options}
        others = options.keys() - read.keys() - WITHOUT_EFFECT
        if truncation != TruncationStrategy.DO_NOT_TRUNCATE or any(options[name] for name in others):
            return None
        found = cls(**read)
        return None if found.padding_strategy == PaddingStrategy.MAX_LENGTH else found


@dataclass(frozen=True)
class WordEncoder:
    """Encode sentences of given words in NumPy, with the result that the Rust backend would have.

    Attributes:
        options: The options of the call.
        before: The boundary tokens before a sentence.
        after: The boundary tokens after it.
    """

    options: WordEncodingOptions
    before: list[str]
    after: list[str]

    @classmethod
    def for_call(cls, backend: Tokenizer, options: Mapping[str, Any]) -> "WordEncoder | None":
        """Make an encoder for one call; return `None` if only the Rust backend knows the result.

        Args:
            backend: The tokenizer's backend, whose template gives the boundary tokens.
            options: The options of `_encode_plus`.
        """
        read = WordEncodingOptions.from_call(options)
        if read is None:
            return None
        boundary_tokens = read_template(backend) if read.add_special_tokens else ([], [])
        return None if boundary_tokens is None else cls(read, *boundary_tokens)

    def add_boundary_tokens(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the words of each sentence between the boundary tokens."""
        return [[*self.before, *words, *self.after] for words in sentences]

    def index_words(self, rows: Sequence[Sequence[str]], padding_side: str) -> WordIndex:
        """Number and pad the words of sentences.

        Args:
            rows: The words of each sentence, boundary tokens included.
            padding_side: The side for the padding if the call does not name one.
        """
        is_padded = self.options.padding_strategy == PaddingStrategy.LONGEST
        return WordIndex.of_sentences(rows, (self.options.padding_side or padding_side) if is_padded else None)

    def make_encodings(self, backend: Tokenizer, rows: Sequence[Sequence[str]]) -> list[Encoding]:
        """Create the Rust encodings.

        Args:
            backend: A backend for given words, with the padding of the call.
            rows: The words of each sentence, boundary tokens included.
        """
        start, end = len(self.before), len(self.after)
        sentences = [prepare_for_rust((row[start : len(row) - end],)) for row in rows]
        return backend.encode_batch(
            sentences, is_pretokenized=True, add_special_tokens=self.options.add_special_tokens
        )


def read_template(backend: Tokenizer) -> tuple[list[str], list[str]] | None:
    """Return the tokens that a backend adds before and after a sentence, or `None` if it has no template."""
    state = json.loads(backend.post_processor.__getstate__()) if backend.post_processor else {}
    boundary_tokens: tuple[list[str], list[str]] = ([], [])
    side = 0
    for piece in state.get("single", []):
        if "Sequence" in piece:
            side += 1
        elif side < 2:
            boundary_tokens[side].extend(state["special_tokens"][piece["SpecialToken"]["id"]]["tokens"])
    return boundary_tokens if side == 1 else None


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


__all__ = [
    "ElmoBatchEncoding",
    "WordEncoder",
    "WordEncodingOptions",
    "WordIndex",
    "number_words",
    "pad_char_ids",
    "read_template",
    "stack",
    "to_tensors",
    "words_of_encoding",
]
