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
"""The Rust backend of ElmoTokenizer: the vocabulary and the template, as they are written to tokenizer.json."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel, WordPiece
from tokenizers.processors import TemplateProcessing
from transformers.tokenization_utils_base import TruncationStrategy

from .pre_tokenizers_elmo import make_pre_tokenizer
from .tokenizer_inputs_elmo import SURROGATE, check_words


PAD, BOS, EOS, UNK = "<PAD>", "<S>", "</S>", "<UNK>"

# the prefix of WordPiece's pieces; no word begins with it, so that WordPiece finds a word whole or not at all
CONTINUATION = "\0\0"


def make_backend(
    vocab: Sequence[str], pre_tokenizer: str, special_tokens: tuple[str, str, str] = (BOS, EOS, UNK)
) -> Tokenizer:
    """Build the Rust tokenizer.

    Args:
        vocab: Lines of the vocabulary file; the id of a word is the number of its last line, counted from 1.
        pre_tokenizer: `moses` or `whitespace`.
        special_tokens: The tokens for the begin and the end of a sentence and for unknown words; those that `vocab`
            lacks get ids after its lines.

    Raises:
        TypeError: If `vocab` is not a sequence of words.
        ValueError: If there is no such pre-tokenizer.
    """
    bos, eos, unk = special_tokens
    if isinstance(vocab, (str, bytes, Mapping)) or not isinstance(vocab, Sequence):
        raise TypeError(f"vocab is a {type(vocab).__name__}; give the lines of a vocabulary file, a list of str.")
    check_words(vocab, "vocab")
    # as in bilm-tf, the last line of a word counts
    lines = {word: line for line, word in enumerate(vocab, 1) if word != PAD and not SURROGATE.search(word)}
    # every other line keeps its id
    lines.update({_reserved_name(line): line for line, word in enumerate(vocab, 1) if lines.get(word) != line})
    for word in special_tokens:
        lines.setdefault(word, len(lines) + 1)
    backend = Tokenizer(make_word_model({PAD: 0, **lines}, unk))
    # `single_word`, so that a plain `tokenizers.Tokenizer` does not find them inside a word either
    backend.add_special_tokens(
        [AddedToken(word, single_word=True, special=True, normalized=False) for word in (PAD, *special_tokens)]
    )
    backend.pre_tokenizer = make_pre_tokenizer(pre_tokenizer)
    backend.post_processor = TemplateProcessing(
        single=f"{bos}:0 $A:0 {eos}:0",
        pair=f"{bos}:0 $A:0 {eos}:0 {bos}:1 $B:1 {eos}:1",
        special_tokens=[(bos, lines[bos]), (eos, lines[eos])],
    )
    return backend


def vocabulary_lines(vocab: Mapping[str, int]) -> list[str]:
    """Return the lines of a vocabulary file that has these ids, the inverse of `make_backend`.

    Args:
        vocab: The id of each word, padding included.

    Returns:
        The words by id, from 1. A line without an id of its own, such as a repeated word, becomes `<PAD>`, to which
        `make_backend` gives the same ids.
    """
    in_order = sorted((number, word) for word, number in vocab.items())
    return [PAD if word == _reserved_name(number) else word for number, word in in_order][1:]


def _reserved_name(line: int) -> str:
    """Return the name of a line that has no word of its own; no word has this name."""
    return f"\0line {line}"


def make_word_model(vocab: Mapping[str, int], unk_token: str = UNK) -> WordPiece:
    """Make the model that looks up words.

    It is a WordPiece without pieces instead of a WordLevel, because Transformers' token-classification pipeline
    recognises whole words only if the model has a prefix for pieces; without one it takes the `.` of `end.` for a
    part of a word.

    Args:
        vocab: The id of each word.
        unk_token: The token for all other words.
    """
    return WordPiece(
        dict(vocab),
        unk_token=unk_token,
        # longer words are unknown without a search
        max_input_chars_per_word=max(map(len, vocab)),
        continuing_subword_prefix=CONTINUATION,
    )


def look_up_words(backend: Tokenizer, words: Sequence[str], unk_token_id: int) -> list[int]:
    """Return the id of each word, `unk_token_id` for words outside the vocabulary."""
    find = backend.token_to_id
    try:
        found = [find(word) for word in words]
    except UnicodeEncodeError:
        # no vocabulary has a lone surrogate
        found = [None if SURROGATE.search(word) else find(word) for word in words]
    # a word that is spelled like padding is an unknown word
    return [
        unk_token_id if number is None or word == PAD else number for word, number in zip(words, found, strict=True)
    ]


def refuse_normalizer(backend: Tokenizer) -> None:
    """Raise a ValueError if a backend has a normalizer, because words are looked up and spelled as written."""
    if backend.normalizer is not None:
        name = type(backend.normalizer).__name__
        raise ValueError(
            f"The backend has a normalizer, {name}, which ELMo's words and characters would not follow: normalize "
            "the text yourself, and set `tokenizer.backend_tokenizer.normalizer = None`."
        )


@contextmanager
def truncating(backend: Tokenizer, options: Mapping[str, Any], *, with_pairs: bool) -> Iterator[None]:
    """Raise a ValueError with the numbers of the call where Rust cannot truncate.

    Left alone, Rust would not truncate at all where the boundary tokens have no room, and it would panic, which
    `except Exception` misses, where the stride has none.

    Args:
        backend: The backend that encodes in this context.
        options: The options of `_encode_plus`.
        with_pairs: Whether a sentence of the call has a second one.

    Raises:
        ValueError: If `max_length` or `stride` cannot be met.
    """
    strategy = options.get("truncation_strategy", TruncationStrategy.DO_NOT_TRUNCATE)
    if strategy == TruncationStrategy.DO_NOT_TRUNCATE:
        yield
        return
    max_length, stride = options["max_length"], options.get("stride", 0)
    added = backend.num_special_tokens_to_add(with_pairs) if options.get("add_special_tokens", True) else 0
    if max_length < added:
        raise ValueError(f"max_length is {max_length}, but there are {added} boundary tokens: give {added} or more.")
    if options.get("return_overflowing_tokens") and max_length == added:
        raise ValueError(
            f"max_length is {max_length}, which the boundary tokens take: with return_overflowing_tokens, give "
            f"{added + 1} or more."
        )
    if stride and not 0 <= stride < max_length - added:
        raise ValueError(
            f"stride is {stride}, but max_length {max_length} leaves {max_length - added} for words: give a smaller "
            "stride or a larger max_length."
        )
    try:
        yield
    except BaseException as error:
        # Rust raises an `Exception` without a class of its own; a panic is none
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise ValueError(
            f"Truncation by {strategy.value!r} to max_length {max_length} with stride {stride} fails "
            f"({' '.join(str(error).split())}): give another max_length, stride or truncation."
        ) from error


def copy_with_model(backend: Tokenizer, model: WordLevel | WordPiece) -> Tokenizer:
    """Copy a backend with another model that has the same ids."""
    copied = Tokenizer(model)
    copied.add_tokens([token for _, token in sorted(backend.get_added_tokens_decoder().items())])
    copied.normalizer, copied.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    copied.post_processor = backend.post_processor
    return copied


def copy_for_words(backend: Tokenizer) -> Tokenizer:
    """Copy a backend for given words, which it neither normalizes nor cuts; the copy shares the model."""
    copied = Tokenizer(backend.model)
    copied.post_processor = backend.post_processor
    return copied


class BackendPool:
    """Copies of a backend for raw text, one for each call in progress.

    Truncation and padding are settings of the Rust object, so that threads that share one would change each other's.
    A copy shares the model, but adding thousands of tokens to it takes tens of milliseconds, so idle copies are kept.
    """

    def __init__(self) -> None:
        self._idle: deque[tuple[Tokenizer, int, Tokenizer]] = deque()

    def __reduce__(self) -> tuple[type["BackendPool"], tuple[()]]:
        # a deep or pickled copy of the tokenizer begins with an empty pool
        return type(self), ()

    def clear(self) -> None:
        """Drop all copies, because tokens were added."""
        # calls in progress give theirs back to the old queue
        self._idle = deque()

    @contextmanager
    def borrow(self, backend: Tokenizer) -> Iterator[Tokenizer]:
        """Lend a copy of `backend` for one call."""
        idle = self._idle
        try:
            original, next_id, copied = idle.pop()
        except IndexError:
            next_id, copied = _copy_with_added_tokens(backend)
        else:
            # the second test notices tokens that were added to the Rust object itself
            if original is not backend or backend.id_to_token(next_id) is not None:
                next_id, copied = _copy_with_added_tokens(backend)
        copied.normalizer, copied.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
        copied.post_processor = backend.post_processor
        yield copied
        idle.append((backend, next_id, copied))


def _copy_with_added_tokens(backend: Tokenizer) -> tuple[int, Tokenizer]:
    """Copy the model and the added tokens, and return the id of the next token to be added, too."""
    copied, added = Tokenizer(backend.model), sorted(backend.get_added_tokens_decoder().items())
    # the pre-tokenizer finds ours, where they stand alone
    copied.add_tokens([token for _, token in added if token.content not in (PAD, BOS, EOS, UNK)])
    return max([backend.get_vocab_size(with_added_tokens=False), *(number + 1 for number, _ in added)]), copied


__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "BackendPool",
    "copy_for_words",
    "copy_with_model",
    "look_up_words",
    "make_backend",
    "make_word_model",
    "refuse_normalizer",
    "truncating",
    "vocabulary_lines",
]
