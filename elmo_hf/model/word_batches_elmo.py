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
"""The words of a batch: found in what Rust returns, or without it where they were given as words.

Shape notation: `B` sentences, `T` words with the boundary words.
"""

import json
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer
from transformers.tokenization_utils_base import BatchEncoding
from transformers.utils.generic import PaddingStrategy


# options of `_encode_plus` that are read here, or change nothing where words are neither cut nor truncated
KNOWN = {
    "add_special_tokens",
    "max_length",
    "padding_side",
    "padding_strategy",
    "return_attention_mask",
    "split_special_tokens",
    "stride",
    "truncation_strategy",
    "verbose",
}


class ElmoBatchEncoding(BatchEncoding):
    """A `BatchEncoding` whose `tokens()` are the words as they were given, known to the vocabulary or not.

    What Rust knows of them, such as `word_ids()`, may be made on first use.
    """

    words: Sequence[Sequence[str]] = ()
    make_encodings: Callable[[], list[Encoding]] | None = None
    made_encodings: Sequence[Encoding] | None = None

    @property
    def _encodings(self) -> Sequence[Encoding] | None:
        # read once, because another thread may have made them since
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
        """Whether there are encodings."""
        return self.make_encodings is not None or self.made_encodings is not None

    def tokens(self, batch_index: int = 0) -> list[str]:
        """List the words of one sentence, boundaries and padding included."""
        return list(self.words[batch_index])

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "words": self.words}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.words = state["words"]


def frame_of(backend: Tokenizer, options: dict[str, Any]) -> tuple[list[str], list[str]] | None:
    """List the words that a tokenizer puts before and after a sentence; `None` where only Rust knows the result.

    Args:
        backend: The tokenizer.
        options: Of `_encode_plus`.
    """
    truncation = options.get("truncation_strategy", "do_not_truncate")
    padding = options.get("padding_strategy", PaddingStrategy.DO_NOT_PAD)
    if truncation != "do_not_truncate" or padding == PaddingStrategy.MAX_LENGTH:
        return None
    if any(value for name, value in options.items() if name not in KNOWN):
        return None
    if not options.get("add_special_tokens", True):
        return [], []
    state = json.loads(backend.post_processor.__getstate__()) if backend.post_processor else {}
    frame: tuple[list[str], list[str]] = ([], [])
    place = 0
    for piece in state.get("single", []):
        if "Sequence" in piece:
            place += 1
        elif place < 2:
            frame[place].extend(state["special_tokens"][piece["SpecialToken"]["id"]]["tokens"])
    return frame if place == 1 else None


def lay_out(
    rows: Sequence[Sequence[str]], *, padded: bool, left: bool
) -> tuple[list[str], np.ndarray, Sequence[np.ndarray]]:
    """Number the distinct words of a batch, and lay them out.

    Args:
        rows: The words of `B` sentences.
        padded: Whether sentences get padding, or have one length.
        left: Whether padding comes before the words.

    Returns:
        The distinct words; for each place its word's number among them, from 1, `[B, T]`, 0 at padding; and the same
        by sentence, `[T]` each, of its words alone if it gets no padding.
    """
    words = list(chain.from_iterable(rows))
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words), start=1)}
    # [B, 1]
    lengths = np.array([[len(row)] for row in rows])
    places = np.arange(lengths.max())
    mask = places >= len(places) - lengths if padded and left else places < lengths
    index = np.zeros(mask.shape, dtype=np.int64)
    index[mask] = np.fromiter(map(numbers.__getitem__, words), dtype=np.int64, count=len(words))
    if padded:
        return list(numbers), index, list(index)
    return list(numbers), index, [row[: len(sentence)] for row, sentence in zip(index, rows, strict=True)]


def given_words(encoding: Encoding, example: tuple[Any, ...]) -> list[str | None]:
    """List the words of a sentence that came as words; `None` is padding."""
    places = zip(encoding.word_ids, encoding.sequence_ids, encoding.tokens, encoding.attention_mask, strict=True)
    return [
        example[sequence][word] if sequence is not None else token if real else None
        for word, sequence, token, real in places
    ]


def cut_words(encoding: Encoding, example: tuple[Any, ...]) -> list[str | None]:
    """List the words of a raw text, as it spells them; `None` is padding."""
    places = zip(encoding.offsets, encoding.sequence_ids, encoding.tokens, encoding.attention_mask, strict=True)
    return [
        example[sequence][start:end] if sequence is not None else token if real else None
        for (start, end), sequence, token, real in places
    ]


__all__ = ["ElmoBatchEncoding", "cut_words", "frame_of", "given_words", "lay_out"]
