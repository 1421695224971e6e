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
"""ELMo character ids: a word is a row of ids, framed; what stands in the frame are bytes, or characters by dictionary.

Bytes, as in bilm-tf:

    0         no word: the whole row is zero
    1 .. 256  a byte, plus one
    257, 258  the content of the boundary words `<S>` and `</S>`
    259, 260  begin and end of a word
    261       after the end of a word

Characters by dictionary, as in ELMoForManyLangs: ids are those of the dictionary, plus one, and so are the marks.

Shape notation: `n` words, `C` ids a word, frame included (50 in every release).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np


# what a character that has no id, or an id that has no character, is shown as
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Spelling(ABC):
    """A way to write words as rows of ids.

    Attributes:
        begin: Id of the mark before a word.
        end: Id of the mark after it.
        after: Id of what fills the row.
        boundaries: For each boundary word the one id between its marks.
    """

    begin: int
    end: int
    after: int
    boundaries: Mapping[str, int]

    @abstractmethod
    def letters(self, words: Sequence[str], room: int) -> tuple[np.ndarray, np.ndarray]:
        """Give the ids of each word's content, cut to `[n, room]`, and how many there are, `[n, 1]`."""

    @abstractmethod
    def join(self, letters: list[int]) -> str:
        """Make a word of the ids of its content."""

    @abstractmethod
    def are_letters(self, ids: np.ndarray) -> np.ndarray:
        """Tell the ids of content from those of marks."""

    def words_to_char_ids(self, words: Sequence[str], width: int) -> np.ndarray:
        """Spell words as character ids.

        A word is cut where it is longer than `width - 2`. The boundary words get rows of their own.

        Args:
            words: `n` words.
            width: `C`, the length of a row.

        Returns:
            int64 ids, `[n, C]`.
        """
        # [n, C - 2], [n, 1]
        letters, lengths = self.letters(words, width - 2)
        # [n, C]
        ids = np.full((len(words), width), self.after, dtype=np.int64)
        ids[:, 0] = self.begin
        np.copyto(ids[:, 1:-1], letters, where=np.arange(width - 2) < lengths)
        np.put_along_axis(ids, lengths + 1, self.end, axis=1)
        boundaries = self.boundaries
        for position, word in enumerate(words):
            if word in boundaries:
                ids[position, 1:] = self.after
                ids[position, 1:3] = boundaries[word], self.end
        return ids

    def char_ids_to_words(self, char_ids: np.ndarray) -> list[str | None]:
        """Read the words of character ids.

        Args:
            char_ids: `[n, C]`, each row framed or zero, as `are_char_ids` finds out.

        Returns:
            `n` words, `None` for a row of zeros; a character that was cut, or has no id, shows as U+FFFD.
        """
        boundaries = {content: word for word, content in self.boundaries.items()}
        words: list[str | None] = []
        for row in char_ids.tolist():
            if row[0] == 0:
                words.append(None)
            elif row[1] in boundaries:
                words.append(boundaries[row[1]])
            else:
                words.append(self.join(row[1 : row.index(self.end)]))
        return words

    def are_char_ids(self, ids: np.ndarray) -> bool:
        """Tell the character ids of words from a batch of word ids, which also has two axes.

        Args:
            ids: Integers, `[n, C]`.

        Returns:
            Whether every row is zero or framed as a word, and one at least is framed.
        """
        if ids.ndim != 2 or ids.shape[1] < 3 or not ids.any():
            return False
        framed = ids[ids.any(axis=1)]
        ends = framed == self.end
        # [n]
        end = ends.argmax(axis=1)
        boundary = np.isin(framed[:, 1], [*self.boundaries.values()])
        # [n, C - 1]
        inside, content = np.arange(1, ids.shape[1]) < end[:, None], framed[:, 1:]
        after = np.arange(1, ids.shape[1]) > end[:, None]
        letters = self.are_letters(content) | ~inside
        return bool(
            (framed[:, 0] == self.begin).all()
            and (ends.sum(axis=1) == 1).all()
            and (letters.all(axis=1) | (boundary & (end == 2))).all()
            and ((content == self.after) | ~after).all()
        )


class Bytes(Spelling):
    """Words as their UTF-8 bytes, with the ids of bilm-tf's `UnicodeCharsVocabulary`, one more each."""

    begin, end, after = 259, 260, 261
    boundaries: Mapping[str, int] = {"<S>": 257, "</S>": 258}

    def letters(self, words: Sequence[str], room: int) -> tuple[np.ndarray, np.ndarray]:
        """Give the ids of each word's content, `[n, room]`, and how many there are, `[n, 1]`.

        A word is cut even inside a character; lone surrogates have no bytes.
        """
        spelled = [word.encode("utf-8", "ignore")[:room] for word in words]
        # [n, 1]
        lengths = np.fromiter(map(len, spelled), dtype=np.int64, count=len(spelled))[:, None]
        # [n, room]; an "S" array drops trailing NUL bytes, which the lengths bring back
        letters = np.array(spelled, dtype=f"S{room}").view(np.uint8).reshape(len(spelled), room)
        return letters.astype(np.int64) + 1, lengths

    def join(self, letters: list[int]) -> str:
        """Make a word of the ids of its content."""
        return bytes(letter - 1 for letter in letters).decode("utf-8", "replace")

    def are_letters(self, ids: np.ndarray) -> np.ndarray:
        """Tell the ids of content from those of marks."""
        return (ids >= 1) & (ids <= 256)


class CharacterDictionary(Spelling):
    """Words as their code points, by a dictionary.

    The names of the two marks are swapped, as in ELMoForManyLangs: a word begins with the id of `<eow>` and ends with
    that of `<bow>`. A character that the dictionary lacks is `<oov>`.

    Args:
        numbers: The number of each character, counted from 0, and of `<bow>`, `<eow>`, `<pad>`, `<oov>`, and the
            boundary words `<bos>` and `<eos>`.

    Raises:
        ValueError: If one of these is missing.
    """

    marks = ("<bow>", "<eow>", "<pad>", "<oov>", "<bos>", "<eos>")

    def __init__(self, numbers: Mapping[str, int]) -> None:
        missing = [name for name in self.marks if name not in numbers]
        if missing:
            raise ValueError(f"char_vocab lacks {', '.join(missing)}: give the whole dictionary.")
        self.begin, self.end, self.after = (numbers[name] + 1 for name in ("<eow>", "<bow>", "<pad>"))
        self.unknown = numbers["<oov>"] + 1
        self.boundaries = {word: numbers[word] + 1 for word in ("<bos>", "<eos>")}
        characters = sorted((ord(name), number + 1) for name, number in numbers.items() if len(name) == 1)
        self.characters = {number: chr(point) for point, number in reversed(characters)}
        # code points in order, and the id of each; the last is none, and the place of all that are beyond
        self.points, self.point_ids = np.array([*characters, (0x110000, self.unknown)], dtype=np.int64).T

    def letters(self, words: Sequence[str], room: int) -> tuple[np.ndarray, np.ndarray]:
        """Give the ids of each word's content, `[n, room]`, and how many there are, `[n, 1]`."""
        # [n, 1]
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words)).clip(max=room)[:, None]
        # [n, room]; a "U" array cuts, and drops trailing NULs, which the lengths bring back
        points = np.array(words, dtype=f"U{room}").view(np.uint32).reshape(len(words), room)
        place = self.points.searchsorted(points)
        return np.where(self.points[place] == points, self.point_ids[place], self.unknown), lengths

    def join(self, letters: list[int]) -> str:
        """Make a word of the ids of its content."""
        return "".join(self.characters.get(letter, REPLACEMENT) for letter in letters)

    def are_letters(self, ids: np.ndarray) -> np.ndarray:
        """Tell the ids of content from those of marks."""
        return (ids >= 1) & ~np.isin(ids, [self.begin, self.end, self.after, *self.boundaries.values()])


def number_characters(char_vocab: Sequence[str] | Mapping[str, int]) -> dict[str, int]:
    """Bring a dictionary of characters, or a list of them in order, to a dictionary.

    Raises:
        TypeError: If a character is not a str, or the whole is one.
        ValueError: If the number of a character is no number from 0 up.
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


BYTES = Bytes()

__all__ = ["BYTES", "Bytes", "CharacterDictionary", "Spelling", "number_characters"]
