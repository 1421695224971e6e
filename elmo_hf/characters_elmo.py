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
"""ELMo character ids: a word is a row of UTF-8 bytes, framed as in bilm-tf.

    0         no word: the whole row is zero
    1 .. 256  a byte, plus one
    257, 258  the content of the boundary words `<S>` and `</S>`
    259, 260  begin and end of a word
    261       after the end of a word

Shape notation: `n` words, `C` characters a word, frame included (50 in every release).
"""

from collections.abc import Sequence

import numpy as np


# as in bilm-tf's `UnicodeCharsVocabulary`, moved up by one because 0 stands for "no word"
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, AFTER_WORD = 257, 258, 259, 260, 261

BOUNDARY_CHARACTERS = {"<S>": BEGIN_SENTENCE, "</S>": END_SENTENCE}


def words_to_char_ids(words: Sequence[str], width: int) -> np.ndarray:
    """Spell words as character ids.

    A word longer than `width - 2` bytes is cut there, even inside a character; lone surrogates have no bytes.
    `<S>` and `</S>` get the rows of the sentence boundaries.

    Args:
        words: `n` words.
        width: `C`, the length of a row.

    Returns:
        int64 ids, `[n, C]`.
    """
    spelled = [word.encode("utf-8", "ignore")[: width - 2] for word in words]
    # [n, 1]
    lengths = np.fromiter(map(len, spelled), dtype=np.int64, count=len(spelled))[:, None]
    # [n, C - 2]; an "S" array drops trailing NUL bytes, which the lengths bring back
    letters = np.array(spelled, dtype=f"S{width - 2}").view(np.uint8).reshape(len(spelled), width - 2)
    # [n, C]
    ids = np.full((len(spelled), width), AFTER_WORD, dtype=np.int64)
    ids[:, 0] = BEGIN_WORD
    np.copyto(ids[:, 1:-1], letters.astype(np.int64) + 1, where=np.arange(width - 2) < lengths)
    np.put_along_axis(ids, lengths + 1, END_WORD, axis=1)
    for position, word in enumerate(words):
        if word in BOUNDARY_CHARACTERS:
            ids[position, 1:] = AFTER_WORD
            ids[position, 1:3] = BOUNDARY_CHARACTERS[word], END_WORD
    return ids


def char_ids_to_words(char_ids: np.ndarray) -> list[str | None]:
    """Read the words of character ids.

    Args:
        char_ids: `[n, C]`, each row framed or zero, as `are_char_ids` finds out.

    Returns:
        `n` words, `None` for a row of zeros; a character that was cut shows as U+FFFD.
    """
    boundaries = {character: word for word, character in BOUNDARY_CHARACTERS.items()}
    words: list[str | None] = []
    for row in char_ids.tolist():
        if row[0] == 0:
            words.append(None)
        elif row[1] in boundaries:
            words.append(boundaries[row[1]])
        else:
            letters = row[1 : row.index(END_WORD)]
            words.append(bytes(letter - 1 for letter in letters).decode("utf-8", "replace"))
    return words


def are_char_ids(ids: np.ndarray) -> bool:
    """Tell the character ids of words from a batch of word ids, which also has two axes.

    Args:
        ids: Integers, `[n, C]`.

    Returns:
        Whether every row is zero or framed as a word, and one at least is framed.
    """
    if ids.ndim != 2 or ids.shape[1] < 3 or not ids.any():
        return False
    framed = ids[ids.any(axis=1)]
    ends = framed == END_WORD
    # [n]
    end = ends.argmax(axis=1)
    boundary = (framed[:, 1] == BEGIN_SENTENCE) | (framed[:, 1] == END_SENTENCE)
    # [n, C - 1]
    inside, content = np.arange(1, ids.shape[1]) < end[:, None], framed[:, 1:]
    after = np.arange(1, ids.shape[1]) > end[:, None]
    letters = ((content >= 1) & (content <= 256)) | ~inside
    return bool(
        (framed[:, 0] == BEGIN_WORD).all()
        and (ends.sum(axis=1) == 1).all()
        and (letters.all(axis=1) | (boundary & (end == 2))).all()
        and ((content == AFTER_WORD) | ~after).all()
    )


__all__ = ["BOUNDARY_CHARACTERS", "are_char_ids", "char_ids_to_words", "words_to_char_ids"]
