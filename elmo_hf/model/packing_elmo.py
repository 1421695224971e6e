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
"""Where the words of a batch are, in the order in which a recurrence comes to them.

Shape notation: `B` sentences, `T` words, `N` words of the batch without padding. The leading 2 is the direction: 0
reads a sentence from its first word, 1 from its last.
"""

from typing import NamedTuple

import torch


# Products of fewer rows take other paths in the common CPU libraries, which add up in another order. With a few rows
# more a sentence gets the same bits alone as in a batch; nothing is read from the rows in excess.
FEWEST_ROWS = 16

# torch 2.6 cannot tell, and cannot export the loop over the words either
is_exporting = getattr(torch.compiler, "is_exporting", bool)


class Packing(NamedTuple):
    """Where the words of a batch are, so that a step touches real words only; in an export, all places.

    Packed words are in order of time, and within one time in order of descending sentence length. What is at time `t`
    is the sentence's word `t` for direction 0, and its word `t` from the end for direction 1.

    Attributes:
        sentences: `[B]`, the sentences from the longest to the shortest.
        words: `[2, N + spare]`, the position `sentence * T + word` of each packed word, the first one repeated at the
            end so that a step never finds too few rows.
        steps: How many sentences are still running at each time. In an export, `[T, 2, B]` in place of it: whether the
            place that a direction comes to holds a word.
    """

    sentences: torch.Tensor
    words: torch.Tensor
    steps: list[int] | torch.Tensor


def pack_words(mask: torch.Tensor) -> Packing:
    """Find the real words of a batch, wherever the padding is.

    Args:
        mask: `[B, T]`, true at words.
    """
    if is_exporting():
        return all_places(mask)
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
        words = torch.cat([words, words[:, :1].expand(2, FEWEST_ROWS - 1)], dim=1)
    return Packing(sentences, words, [count for count in running.sum(dim=0).tolist() if count])


def all_places(mask: torch.Tensor) -> Packing:
    """Take all places of a batch `[B, T]`, padding too, in the order in which the directions come to them."""
    # [2, B, T]
    places = torch.arange(mask.numel(), device=mask.device).reshape(mask.shape)
    places = torch.stack([places, places.flip(1)])
    found = torch.stack([mask, mask.flip(1)])
    sentences = torch.arange(mask.shape[0], device=mask.device)
    return Packing(sentences, places.transpose(1, 2).flatten(1), found.permute(2, 0, 1))


def fill_up(rows: torch.Tensor) -> torch.Tensor:
    """Repeat the first of `n` rows until there are `FEWEST_ROWS`; no rows stay none."""
    if is_exporting() or not 0 < len(rows) < FEWEST_ROWS:
        return rows
    return torch.cat([rows, rows[:1].expand(FEWEST_ROWS - len(rows), *rows.shape[1:])])


__all__ = ["Packing", "fill_up", "is_exporting", "pack_words"]
