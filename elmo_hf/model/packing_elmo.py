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
"""The words of a batch without padding, in the order in which a recurrence reads them.

Shape notation: `B` sentences, `T` words with padding, `N` words of the batch without padding. The leading 2 is the
direction: 0 reads a sentence from its first word, 1 from its last. A layer that reads in one direction has 1 there.
"""

import math
from typing import NamedTuple

import torch
from torch import nn

from .kernels_elmo import is_transformed
from .scan_elmo import Grid, is_exporting, pack_grid


# Common CPU libraries add up products of fewer rows in another order. With a few more rows, a sentence gets, on one
# thread of most processors, the same bits alone as in a batch; the additional rows are never read.
FEWEST_ROWS = 16

# Torch compiles a product in half precision anew for each number of rows on a CPU, which often takes longer than the
# product itself. A step of training has another number of words each time: mixed precision fills it up to a multiple.
ROWS_AT_ONCE = 32


class Packing(NamedTuple):
    """The words of a batch in the order of torch's `PackedSequence`, for both directions.

    Words are in order of time, and within one time in order of descending sentence length. Time `t` is the sentence's
    word `t` for direction 0, and its word `t` from the end for direction 1.

    Attributes:
        sentences: `[B]`, the sentences from the longest to the shortest.
        words: `[2, N + spare]`, the position `sentence * T + word` of each packed word; the first word is repeated at
            the end so that every step finds enough rows.
        batch_sizes: The number of running sentences at each time.
    """

    sentences: torch.Tensor
    words: torch.Tensor
    batch_sizes: list[int]

    def one_way(self, direction: int) -> "Packing":
        """Return the packing for a layer that reads in one direction: `words` is `[1, N + spare]`."""
        return self._replace(words=self.words[direction : direction + 1])


def pack_words(mask: torch.Tensor) -> Packing | Grid:
    """Find the words of a batch, wherever its padding is; while exporting, list all positions.

    Args:
        mask: `[B, T]`, true at words.
    """
    if is_exporting():
        return pack_grid(mask)
    batch_size = mask.shape[0]
    # [B]
    lengths = mask.sum(dim=1)
    sentences = lengths.argsort(descending=True, stable=True)
    rank = sentences.argsort()
    # [B, T]
    forward_time = mask.cumsum(dim=1) - 1
    backward_time = lengths[:, None] - 1 - forward_time
    # [N]
    positions = mask.flatten().nonzero().squeeze(1)
    # [2, N]
    times = torch.stack([forward_time.flatten()[positions], backward_time.flatten()[positions]])
    order = (times * batch_size + rank.repeat_interleave(mask.shape[1])[positions]).argsort(dim=1)
    running = lengths[:, None] > torch.arange(mask.shape[1], device=mask.device)
    words = positions[order]
    if len(positions):
        spare = count_rows(len(positions) + FEWEST_ROWS - 1) - len(positions)
        words = torch.cat([words, words[:, :1].expand(2, spare)], dim=1)
    return Packing(sentences, words, [count for count in to_list(running.sum(dim=0)) if count])


def gather_words(vectors: torch.Tensor, packing: Packing | Grid) -> torch.Tensor:
    """Bring `[B, T, 2, D]`, a vector for each direction, into packed order, `[2, N + spare, D]`."""
    count = vectors.shape[2]
    rows = packing.words * count + torch.arange(count, device=vectors.device)[:, None]
    # the gradient of an embedding is computed several times faster than that of an index
    return nn.functional.embedding(rows, vectors.flatten(0, 2))


def scatter_words(packed: torch.Tensor, packing: Packing | Grid, shape: torch.Size) -> torch.Tensor:
    """Bring packed words `[2, N, P]` back to a batch of shape `[B, T]`: `[B, T, 2, P]`, zero at padding."""
    directions = torch.arange(len(packed), device=packed.device)[:, None]
    result = packed.new_zeros(shape[0] * shape[1], len(packed), packed.shape[2])
    result = result.index_put((packing.words[:, : packed.shape[1]], directions), packed)
    return result.reshape(*shape, len(packed), packed.shape[2])


def to_list(numbers: torch.Tensor) -> list[int]:
    """Return a tensor of integers as a list; `torch.func` hides the memory that `tolist` reads."""
    return [int(number) for number in numbers] if is_transformed() else numbers.tolist()


def count_rows(count: int) -> int:
    """Return to how many rows `count` rows are filled up: a multiple of `ROWS_AT_ONCE` in mixed precision on a CPU."""
    if not torch.is_autocast_enabled("cpu"):
        return count
    return math.ceil(count / ROWS_AT_ONCE) * ROWS_AT_ONCE


def fill_up(rows: torch.Tensor, fewest: int = FEWEST_ROWS) -> torch.Tensor:
    """Repeat the first of `n` rows up to `count_rows` of as many as wanted; an empty tensor stays empty."""
    if is_exporting() or not len(rows):
        return rows
    missing = count_rows(max(len(rows), fewest)) - len(rows)
    return torch.cat([rows, rows[:1].expand(missing, *rows.shape[1:])]) if missing else rows


__all__ = ["Packing", "fill_up", "gather_words", "pack_words", "scatter_words", "to_list"]
