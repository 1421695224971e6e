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
"""The recurrence of the biLSTM: a reference that reads like the equations, and a fast one that gives the same numbers.

Shape notation: `B` sentences, `T` words, `N` words of the batch without padding, `P` width of one direction's output,
`C` width of the cell. The leading 2 is the direction: 0 reads a sentence from its first word, 1 from its last.
"""

import os
from typing import NamedTuple

import torch
from torch import nn


# Products of fewer rows take other paths in the common CPU libraries, which add up in another order. With a few rows
# more a sentence gets the same bits alone as in a batch; nothing is read from the rows in excess.
FEWEST_ROWS = 16
FEWEST_ROWS_IN_STEP = 4


class Packing(NamedTuple):
    """Where the words of a batch are, so that a step touches real words only.

    Packed words are in order of time, and within one time in order of descending sentence length. What is at time `t`
    is the sentence's word `t` for direction 0, and its word `t` from the end for direction 1.

    Attributes:
        sentences: `[B]`, the sentences from the longest to the shortest.
        words: `[2, N + spare]`, the position `sentence * T + word` of each packed word, the first one repeated at the
            end so that a step never finds too few rows.
        steps: How many sentences are still running at each time.
    """

    sentences: torch.Tensor
    words: torch.Tensor
    steps: list[int]


class LstmWeights(NamedTuple):
    """What one step needs: `recurrent` `[2, P, 4 * C]`, `output` `[2, C, P]` or `None`, and the two clips."""

    recurrent: torch.Tensor
    output: torch.Tensor | None
    cell_clip: float | None
    projection_clip: float | None


def pack_words(mask: torch.Tensor) -> Packing:
    """Find the real words of a batch, wherever the padding is.

    Args:
        mask: `[B, T]`, true at words.
    """
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


def fill_up(rows: torch.Tensor) -> torch.Tensor:
    """Repeat the first of `n` rows until there are `FEWEST_ROWS`; no rows stay none."""
    if not 0 < len(rows) < FEWEST_ROWS:
        return rows
    return torch.cat([rows, rows[:1].expand(FEWEST_ROWS - len(rows), *rows.shape[1:])])


def recurrence(
    inputs: torch.Tensor, steps: list[int], state: tuple[torch.Tensor, torch.Tensor], weights: LstmWeights
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Run both directions of a layer over packed words.

    `ELMO_HF_RECURRENCE=reference` in the environment chooses the slow, readable path.

    Args:
        inputs: `[2, N + spare, 4 * C]`, the input's share of the gates i, f, g, o, with the bias.
        steps: The number of running sentences at each time, as in `Packing`.
        state: `[2, B, P]` and `[2, B, C]`, the hidden and cell state to start from, longest sentence first.
        weights: The weights of the step.

    Returns:
        The hidden states `[2, N, P]`, and the state after each sentence's last word, in the form of `state`.

    Raises:
        ValueError: If the environment names no recurrence.
    """
    name = os.environ.get("ELMO_HF_RECURRENCE", "packed")
    if name not in RECURRENCES:
        raise ValueError(f"ELMO_HF_RECURRENCE is {name!r}; it can be one of {', '.join(sorted(RECURRENCES))}.")
    return RECURRENCES[name](inputs, steps, state, weights)


def reference_recurrence(
    inputs: torch.Tensor, steps: list[int], state: tuple[torch.Tensor, torch.Tensor], weights: LstmWeights
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Run one direction of one sentence after another, word by word; arguments and result as in `recurrence`."""
    outputs = state[0].new_zeros(2, sum(steps), state[0].shape[2])
    last_hidden, last_cell = state[0].clone(), state[1].clone()
    starts = [sum(steps[:time]) for time in range(len(steps))]
    for direction in range(2):
        for sentence in range(state[0].shape[1]):
            hidden, cell = state[0][direction, sentence], state[1][direction, sentence]
            for start, running in zip(starts, steps, strict=True):
                if sentence >= running:
                    break
                gates = inputs[direction, start + sentence] + hidden @ weights.recurrent[direction]
                i, f, g, o = gates.chunk(4)
                cell = clip(f.sigmoid() * cell + i.sigmoid() * g.tanh(), weights.cell_clip)
                hidden = o.sigmoid() * cell.tanh()
                if weights.output is not None:
                    hidden = clip(hidden @ weights.output[direction], weights.projection_clip)
                outputs[direction, start + sentence] = hidden
            last_hidden[direction, sentence], last_cell[direction, sentence] = hidden, cell
    return outputs, (last_hidden, last_cell)


def packed_recurrence(
    inputs: torch.Tensor, steps: list[int], state: tuple[torch.Tensor, torch.Tensor], weights: LstmWeights
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Run both directions of all running sentences in one product a step; arguments and result as in `recurrence`."""
    alive = state[0].shape[1]
    # [2, rows, P], [2, rows, C]
    hidden, cell = (nn.functional.pad(part, (0, 0, 0, max(FEWEST_ROWS_IN_STEP - alive, 0))) for part in state)
    outputs, ended, start = [], [], 0
    for running in steps:
        if running < alive:
            # the shortest sentences come last, and keep the state they ended with
            ended.append((hidden[:, running:alive], cell[:, running:alive]))
            alive = running
        rows = max(running, FEWEST_ROWS_IN_STEP)
        # [2, rows, 4 * C]
        gates = torch.baddbmm(inputs[:, start : start + rows], hidden[:, :rows], weights.recurrent)
        i, f, g, o = gates.chunk(4, dim=2)
        # [2, rows, C]
        cell = clip(f.sigmoid() * cell[:, :rows] + i.sigmoid() * g.tanh(), weights.cell_clip)
        hidden = o.sigmoid() * cell.tanh()
        if weights.output is not None:
            # [2, rows, P]
            hidden = clip(torch.bmm(hidden, weights.output), weights.projection_clip)
        outputs.append(hidden[:, :running])
        start += running
    ended.append((hidden[:, :alive], cell[:, :alive]))
    hiddens, cells = zip(*reversed(ended), strict=True)
    packed = torch.cat(outputs, dim=1) if outputs else hidden[:, :0]
    return packed, (torch.cat(hiddens, dim=1), torch.cat(cells, dim=1))


def clip(values: torch.Tensor, limit: float | None) -> torch.Tensor:
    """Keep values within plus and minus `limit`; `None` leaves them."""
    if limit is None:
        return values
    return values.clamp(-limit, limit)


RECURRENCES = {"packed": packed_recurrence, "reference": reference_recurrence}

__all__ = ["LstmWeights", "Packing", "fill_up", "pack_words", "recurrence"]
