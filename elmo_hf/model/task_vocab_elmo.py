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
"""The vocabulary of a task: the words of which its model has vectors of its own, beside ELMo."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .tokenizer_inputs_elmo import check_words


PADDING, UNKNOWN = 0, 1
# how a word is looked up that is not in the vocabulary
LOOKUPS = ("exact", "lower")


class TaskVocab:
    """Looks up words: 0 is padding, 1 a word that is not in the vocabulary, and its words count from 2.

    Args:
        words: Different words.
        lookup: `exact`, or `lower` to look up a word that is not in the vocabulary in lower case.

    Attributes:
        numbers: The id of each word, in order.
        lookup: As given.

    Raises:
        TypeError: If `words` is not a sequence of words.
        ValueError: If a word occurs twice, or there is no such lookup.
    """

    def __init__(self, words: Sequence[str], lookup: str = "exact") -> None:
        if isinstance(words, (str, bytes, Mapping)) or not isinstance(words, Sequence):
            raise TypeError(f"task_vocab is a {type(words).__name__}; give a list of words.")
        check_words(words, "task_vocab")
        if lookup not in LOOKUPS:
            raise ValueError(f"task_lookup is {lookup!r}; it can be one of {', '.join(LOOKUPS)}.")
        self.lookup = lookup
        self.numbers = {word: number for number, word in enumerate(words, start=UNKNOWN + 1)}
        if len(self.numbers) < len(words):
            twice = next(word for number, word in enumerate(words) if self.numbers[word] != number + UNKNOWN + 1)
            raise ValueError(f"task_vocab has the word {twice!r:.80} twice: leave one out.")

    def look_up(self, words: Iterable[str]) -> Iterator[int]:
        """Yield the id of each word."""
        find = self.numbers.get
        for word in words:
            number = find(word, UNKNOWN)
            if number == UNKNOWN and self.lookup == "lower":
                number = find(word.lower(), UNKNOWN)
            yield number


__all__ = ["PADDING", "UNKNOWN", "TaskVocab"]
