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
"""Words as rows of character ids.

In bytes, as in bilm-tf:

    0         padding: the whole row is zero
    1 .. 256  a byte, plus one
    257, 258  the content of the boundary tokens `<S>` and `</S>`
    259, 260  begin and end of a word
    261       filler after the end of a word

By a dictionary of characters, as in ELMoForManyLangs: ids are those of the dictionary, plus one.

Shape notation: `n` words, `C` ids a word, begin and end included (50 in every release).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np


# shown for a character without an id, and for an id without a character
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Spelling(ABC):
    """A way to write words as rows of character ids.

    Attributes:
        begin: Id that begins a word.
        end: Id that ends it.
        filler: Id of the rest of the row.
        boundary_tokens: The one content id of each boundary token.
    """

    begin: int
    end: int
    filler: int
    boundary_tokens: Mapping[str, int]

    @abstractmethod
    def encode_content(self, words: Sequence[str], max_length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the content ids of each word, cut to `[n, max_length]`, and how many it has, `[n, 1]`."""

    @abstractmethod
    def decode_content(self, ids: list[int]) -> str:
        """Return the word with these content ids."""

    @abstractmethod
    def is_content(self, ids: np.ndarray) -> np.ndarray:
        """Return for each id whether it is one of content."""

    def vocabulary_words(self, words: Sequence[str], width: int) -> Sequence[str]:
        """Return the words as the vocabulary has them, whole by default.

        Args:
            words: `n` words.
            width: `C`.
        """
        return words

    def words_to_char_ids(self, words: Sequence[str], width: int) -> np.ndarray:
        """Convert words to character ids.

        A word with more than `width - 2` content ids is cut. Boundary tokens have rows of their own.

        Args:
            words: `n` words.
            width: `C`, the length of a row.

        Returns:
            int64 ids, `[n, C]`.
        """
        # [n, C - 2], [n, 1]
        content, lengths = self.encode_content(words, width - 2)
        # [n, C]
        ids = np.full((len(words), width), self.filler, dtype=content.dtype)
        ids[:, 0] = self.begin
        np.copyto(ids[:, 1:-1], content, where=np.arange(width - 2) < lengths)
        ids[np.arange(len(words)), lengths[:, 0] + 1] = self.end
        boundary_tokens = self.boundary_tokens
        for position, word in enumerate(words):
            if word in boundary_tokens:
                ids[position, 1:] = self.filler
                ids[position, 1:3] = boundary_tokens[word], self.end
        return ids.astype(np.int64)

    def char_ids_to_words(self, char_ids: np.ndarray) -> list[str | None]:
        """Convert character ids to words.

        Args:
            char_ids: `[n, C]`; `are_char_ids` must hold for them.

        Returns:
            `n` words, `None` for a row of zeros. U+FFFD stands for a character that was cut or has no id.
        """
        boundary_tokens = {content: word for word, content in self.boundary_tokens.items()}
        words: list[str | None] = []
        for row in char_ids.tolist():
            if row[0] == 0:
                words.append(None)
            elif row[1] in boundary_tokens:
                words.append(boundary_tokens[row[1]])
            else:
                words.append(self.decode_content(row[1 : row.index(self.end)]))
        return words

    def are_char_ids(self, ids: np.ndarray) -> bool:
        """Distinguish the character ids of words from a batch of word ids, which has two axes, too.

        Args:
            ids: Integers, `[n, C]`.

        Returns:
            Whether every row is zero or spells a word, and at least one spells a word.
        """
        if ids.ndim != 2 or ids.shape[1] < 3 or not ids.any():
            return False
        rows = ids[ids.any(axis=1)]
        ends = rows == self.end
        # [n]
        end = ends.argmax(axis=1)
        is_boundary = np.isin(rows[:, 1], [*self.boundary_tokens.values()])
        # [n, C - 1]
        inside, content = np.arange(1, ids.shape[1]) < end[:, None], rows[:, 1:]
        outside = np.arange(1, ids.shape[1]) > end[:, None]
        is_word = self.is_content(content) | ~inside
        return bool(
            (rows[:, 0] == self.begin).all()
            and (ends.sum(axis=1) == 1).all()
            and (is_word.all(axis=1) | (is_boundary & (end == 2))).all()
            and ((content == self.filler) | ~outside).all()
        )

    def decode(self, char_ids: np.ndarray, pad_token: str, *, skip_special_tokens: bool) -> str:
        """Convert the character ids of a sentence to its words, joined by spaces.

        Args:
            char_ids: `[n, C]`.
            pad_token: What to show for padding.
            skip_special_tokens: Whether to leave out boundary tokens and padding.

        Raises:
            ValueError: If a row spells no word.
        """
        if char_ids.any() and not self.are_char_ids(char_ids):
            raise ValueError(f"Ids {list(char_ids.shape)} in a batch are no character ids: a row is not framed.")
        words = self.char_ids_to_words(char_ids) if char_ids.size else []
        if skip_special_tokens:
            return " ".join(word for word in words if word is not None and word not in self.boundary_tokens)
        return " ".join(pad_token if word is None else word for word in words)


class ByteSpelling(Spelling):
    """Words as their UTF-8 bytes, with the ids of bilm-tf's `UnicodeCharsVocabulary`, plus one."""

    begin, end, filler = 259, 260, 261
    boundary_tokens: Mapping[str, int] = {"<S>": 257, "</S>": 258}

    def encode_content(self, words: Sequence[str], max_length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the content ids of each word, `[n, max_length]`, and how many it has, `[n, 1]`.

        A word is cut even inside a character. Lone surrogates have no bytes.
        """
        spelled = [word.encode("utf-8", "ignore")[:max_length] for word in words]
        # [n, 1]
        lengths = np.fromiter(map(len, spelled), dtype=np.int64, count=len(spelled))[:, None]
        # [n, max_length]; an "S" array drops trailing NUL bytes, which the lengths restore
        content = np.array(spelled, dtype=f"S{max_length}").view(np.uint8).reshape(len(spelled), max_length)
        return np.add(content, 1, dtype=np.uint16), lengths

    def decode_content(self, ids: list[int]) -> str:
        """Return the word with these content ids."""
        return bytes(number - 1 for number in ids).decode("utf-8", "replace")

    def is_content(self, ids: np.ndarray) -> np.ndarray:
        """Return for each id whether it is one of content."""
        return (ids >= 1) & (ids <= 256)


class DictionarySpelling(Spelling):
    """Words as their code points, with the ids of a dictionary, plus one.

    As in ELMoForManyLangs, a word begins with the id of `<eow>` and ends with that of `<bow>`, `<pad>` fills the row,
    and a character that the dictionary lacks is `<oov>`.

    Args:
        numbers: The number of each character, counted from 0, and of `<bow>`, `<eow>`, `<pad>`, `<oov>`, and the
            boundary tokens `<bos>` and `<eos>`.

    Raises:
        ValueError: If one of these is missing.
    """

    required = ("<bow>", "<eow>", "<pad>", "<oov>", "<bos>", "<eos>")

    def __init__(self, numbers: Mapping[str, int]) -> None:
        missing = [name for name in self.required if name not in numbers]
        if missing:
            raise ValueError(f"char_vocab lacks {', '.join(missing)}: give the whole dictionary.")
        self.begin, self.end, self.filler = (numbers[name] + 1 for name in ("<eow>", "<bow>", "<pad>"))
        self.unknown = numbers["<oov>"] + 1
        self.boundary_tokens = {word: numbers[word] + 1 for word in ("<bos>", "<eos>")}
        characters = sorted((ord(name), number + 1) for name, number in numbers.items() if len(name) == 1)
        self.characters = {number: chr(point) for point, number in reversed(characters)}
        # code points in order, and their ids; the last entry catches those beyond all others
        self.points, self.point_ids = np.array([*characters, (0x110000, self.unknown)], dtype=np.int64).T

    def vocabulary_words(self, words: Sequence[str], width: int) -> Sequence[str]:
        """Return the words cut to `width - 2` characters, as ELMoForManyLangs looks them up."""
        return [word if word in self.boundary_tokens else word[: width - 2] for word in words]

    def encode_content(self, words: Sequence[str], max_length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the content ids of each word, `[n, max_length]`, and how many it has, `[n, 1]`."""
        # [n, 1]
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words)).clip(max=max_length)[:, None]
        # [n, max_length]; a "U" array cuts the words and drops trailing NULs, which the lengths restore
        points = np.array(words, dtype=f"U{max_length}").view(np.uint32).reshape(len(words), max_length)
        position = self.points.searchsorted(points)
        return np.where(self.points[position] == points, self.point_ids[position], self.unknown), lengths

    def decode_content(self, ids: list[int]) -> str:
        """Return the word with these content ids."""
        return "".join(self.characters.get(number, REPLACEMENT) for number in ids)

    def is_content(self, ids: np.ndarray) -> np.ndarray:
        """Return for each id whether it is one of content."""
        return (ids >= 1) & ~np.isin(ids, [self.begin, self.end, self.filler, *self.boundary_tokens.values()])


def number_characters(char_vocab: Sequence[str] | Mapping[str, int]) -> dict[str, int]:
    """Convert a dictionary of characters, or a list of them in order, to a dictionary.

    Raises:
        TypeError: If a character is not a str, or `char_vocab` is one.
        ValueError: If the number of a character is not an int from 0 up.
    """
    if isinstance(char_vocab, (str, bytes)):
        raise TypeError(f"char_vocab is a {type(char_vocab).__name__}; give a dict, or a list of characters.")
    if not isinstance(char_vocab, Mapping):
        char_vocab = {character: number for number, character in enumerate(char_vocab)}
    for character, number in char_vocab.items():
        if not isinstance(character, str):
            raise TypeError(f"char_vocab: {character!r} is a {type(character).__name__}; a character is a str.")
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError(f"char_vocab: the number of {character!r} is {number!r}; it is an int from 0 up.")
    return dict(char_vocab)


BYTES = ByteSpelling()

__all__ = ["BYTES", "ByteSpelling", "DictionarySpelling", "Spelling", "number_characters"]
