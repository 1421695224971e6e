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
"""Encode sentences of given words in NumPy, where the result of the Rust backend is known beforehand."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tokenizers import Encoding, Tokenizer
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils.generic import PaddingStrategy

from .batch_encoding_elmo import WordIndex
from .tokenizer_inputs_elmo import prepare_for_rust


# options of `_encode_plus` that change nothing where words are neither cut nor truncated
WITHOUT_EFFECT = {"max_length", "split_special_tokens", "stride", "truncation_strategy", "verbose"}


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


__all__ = ["WordEncoder", "WordEncodingOptions", "read_template"]
