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
"""What ElmoTokenizer takes: sentences as texts or as words, and encodings as lists, arrays or tensors."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from transformers.utils.generic import is_torch_tensor


# a raw text or its words; an example has one sentence, or two for a pair
Sentence: TypeAlias = str | Sequence[str]
Example: TypeAlias = tuple[Sentence, ...]

# stands in for an empty word, which Rust drops
EMPTY_WORD = "\u200b"

# stands in for a lone surrogate, which Rust refuses; it has the same length, so that offsets stay right
SURROGATE, STAND_IN = re.compile("[\ud800-\udfff]"), "\ue000"


def check_words(words: Sequence[Any], where: str) -> None:
    """Raise a TypeError that names the first word that is not a str.

    Args:
        words: The words.
        where: What they are, for the message.
    """
    try:
        "".join(words)
    except TypeError:
        number, word = next((number, word) for number, word in enumerate(words) if not isinstance(word, str))
        raise TypeError(f"{where}: word {number} is {word!r}, a {type(word).__name__}; a word is a str.") from None


def read_examples(text: Any, text_pair: Any, is_split_into_words: bool) -> tuple[list[Example], bool]:
    """Convert what `__call__` takes to a list of examples, and return whether it was a batch.

    Raises:
        TypeError: If a sentence is neither a text nor, with `is_split_into_words`, a list of words.
        ValueError: If the batches `text` and `text_pair` have different lengths.
    """
    is_batched = isinstance(text, (list, tuple))
    if is_split_into_words:
        is_batched = is_batched and bool(text) and isinstance(text[0], (list, tuple))
    examples: list[Example]
    if not is_batched:
        examples = [(text,) if text_pair is None else (text, text_pair)]
    elif text_pair is None:
        kind: Any = (list, tuple) if is_split_into_words else str
        examples = [tuple(item) if _is_pair(item, kind) else (item,) for item in text]
    elif isinstance(text_pair, (list, tuple)) and len(text_pair) == len(text):
        examples = list(zip(text, text_pair, strict=True))
    else:
        raise ValueError(f"text is a batch of {len(text)}; text_pair must be a list of as many.")
    for number, example in enumerate(examples):
        for sentence in example:
            _check_sentence(sentence, f"sentence {number}", is_split_into_words)
    return examples, is_batched


def _is_pair(item: Any, kind: Any) -> bool:
    return isinstance(item, (list, tuple)) and len(item) == 2 and all(isinstance(sentence, kind) for sentence in item)


def _check_sentence(sentence: Any, where: str, is_split_into_words: bool) -> None:
    kind = type(sentence).__name__
    if not is_split_into_words and not isinstance(sentence, str):
        remedy = "give is_split_into_words=True for words" if isinstance(sentence, (list, tuple)) else "give a str"
        raise TypeError(f"{where} is a {kind}: {remedy}.")
    if is_split_into_words:
        if not isinstance(sentence, (list, tuple)):
            raise TypeError(f"{where} is a {kind}: with is_split_into_words=True, give a list of words.")
        check_words(sentence, where)


def prepare_for_rust(example: Example) -> Any:
    """Replace what Rust drops or refuses, empty words and lone surrogates, without changing any length."""
    prepared = [
        _replace_surrogates(sentence) if isinstance(sentence, str) else _prepare_words(sentence)
        for sentence in example
    ]
    return prepared[0] if len(prepared) == 1 else tuple(prepared)


def _prepare_words(words: Sequence[str]) -> list[str]:
    if not "".join(words).isascii():
        words = [_replace_surrogates(word) for word in words]
    return [word or EMPTY_WORD for word in words]


def _replace_surrogates(text: str) -> str:
    return text if text.isascii() else SURROGATE.sub(STAND_IN, text)


def as_mapping(encoded_inputs: Any) -> dict[str, Any]:
    """Convert what `pad` takes, one mapping or a list of one per sentence, to one mapping."""
    if isinstance(encoded_inputs, Mapping):
        return dict(encoded_inputs)
    if not encoded_inputs:
        return {"input_ids": []}
    return {key: [example[key] for example in encoded_inputs] for key in encoded_inputs[0]}


def framework_of(value: Any) -> str | None:
    """Return `np` or `pt` for arrays or tensors, or a list of them, and `None` for plain lists."""
    sample = value[0] if isinstance(value, (list, tuple)) and value else value
    if isinstance(sample, np.ndarray):
        return "np"
    return "pt" if is_torch_tensor(sample) else None


def count_axes(ids: Any) -> int:
    """Count the axes of nested lists, an array or a tensor."""
    if hasattr(ids, "ndim"):
        return int(ids.ndim)
    if not isinstance(ids, (list, tuple)):
        return 0
    # an empty sentence may have words or characters, so that only another one can tell
    filled = next((item for item in ids if not isinstance(item, (list, tuple)) or item), None)
    if filled is None:
        return 2 if ids else 1
    return 1 + count_axes(filled)


__all__ = [
    "SURROGATE",
    "Example",
    "Sentence",
    "as_mapping",
    "check_words",
    "count_axes",
    "framework_of",
    "prepare_for_rust",
    "read_examples",
]
