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
"""The recurrence for `torch.export`: a loop over a padded batch that does not depend on the sentences' lengths.

Shape notation: `B` sentences, `T` words with padding, `P` width of one direction's output, `C` width of the cell. The
leading 2 is the direction: 0 reads a sentence from its first word, 1 from its last.
"""

from typing import Any, NamedTuple

import torch


class Grid(NamedTuple):
    """All positions of a batch, padding too, in the order in which the directions reach them.

    Attributes:
        sentences: `[B]`, the sentences in their own order.
        words: `[2, T * B]`, the positions `sentence * T + word`.
        is_word: `[T, 2, B]`, whether the position that a direction reaches at a time holds a word.
    """

    sentences: torch.Tensor
    words: torch.Tensor
    is_word: torch.Tensor


def pack_grid(mask: torch.Tensor) -> Grid:
    """List all positions of a batch `[B, T]`, true at words."""
    # [2, B, T]
    positions = torch.arange(mask.numel(), device=mask.device).reshape(mask.shape)
    positions = torch.stack([positions, positions.flip(1)])
    is_word = torch.stack([mask, mask.flip(1)])
    sentences = torch.arange(mask.shape[0], device=mask.device)
    return Grid(sentences, positions.transpose(1, 2).flatten(1), is_word.permute(2, 0, 1))


def scan_lstm(
    inputs: torch.Tensor, is_word: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor], weights: Any
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Scan every position; carry the state unchanged through padding.

    The loop is one operation of the exported program, so it runs as many steps as a batch has words.

    Args:
        inputs: `[2, T * B, 4 * C]`, the inputs of the gates i, f, g, o with the bias.
        is_word: As in `Grid`.
        state: `[2, B, P]` and `[2, B, C]`, the initial hidden and cell state.
        weights: The `LstmWeights` of a step.

    Returns:
        The hidden states `[2, T * B, P]`, zero at padding, and the final state.
    """
    # not public yet, and only exports need it
    from torch._higher_order_ops.scan import scan

    def step(
        state: tuple[torch.Tensor, torch.Tensor], position: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        (hidden, cell), (gate_inputs, is_word) = state, position
        i, f, g, o = torch.baddbmm(gate_inputs, hidden, weights.recurrent).chunk(4, dim=2)
        # [2, B, C]
        next_cell = clip(f.sigmoid() * cell + i.sigmoid() * g.tanh(), weights.cell_clip)
        # [2, B, P]
        next_hidden = o.sigmoid() * next_cell.tanh()
        if weights.output is not None:
            next_hidden = clip(torch.bmm(next_hidden, weights.output), weights.projection_clip)
        carried = torch.where(is_word, next_hidden, hidden), torch.where(is_word, next_cell, cell)
        return carried, next_hidden * is_word

    length, _, batch_size = is_word.shape
    # [T, 2, B, 4 * C]
    gate_inputs = inputs.reshape(2, length, batch_size, inputs.shape[2]).transpose(0, 1)
    state, outputs = scan(step, state, (gate_inputs, is_word[..., None]))
    # [T, 2, B, P] -> [2, T * B, P]
    return outputs.transpose(0, 1).reshape(2, length * batch_size, outputs.shape[3]), state


def clip(values: torch.Tensor, limit: float | None) -> torch.Tensor:
    """Limit values to plus and minus `limit`; `None` is no limit."""
    return values if limit is None else values.clamp(-limit, limit)


__all__ = ["Grid", "clip", "pack_grid", "scan_lstm"]
