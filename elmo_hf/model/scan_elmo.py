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

`scan` is such a loop, for whatever else goes from word to word.

Shape notation: `B` sentences, `T` words with padding, `P` width of one direction's output, `C` width of the cell, `G`
gates: 4, or 5 with a highway. The leading 2 is the direction: 0 reads a sentence from its first word, 1 from its last.
A layer that reads in one direction has 1 there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch


# torch 2.6 does not know whether it exports, and cannot export a loop over the words either
is_exporting = getattr(torch.compiler, "is_exporting", bool)


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

    def one_way(self, direction: int) -> "Grid":
        """Return the grid for a layer that reads in one direction: `words` is `[1, T * B]`, `is_word` `[T, 1, B]`."""
        one = slice(direction, direction + 1)
        return self._replace(words=self.words[one], is_word=self.is_word[:, one])


def scan(
    step: Callable[[Any, Any], tuple[Any, torch.Tensor]], state: Any, places: tuple[torch.Tensor, ...]
) -> tuple[Any, torch.Tensor]:
    """Call a step for each time; in an exported program, the loop is one operation.

    Args:
        step: Takes the state and what each of `places` has at a time, and returns the next state and the output of the
            time, which is no tensor of the state.
        state: A tensor or a tuple of them.
        places: `[T, ...]` each.

    Returns:
        The last state, and the outputs, `[T, ...]`.
    """
    if is_exporting():
        # not public yet, and only exports need it
        from torch._higher_order_ops.scan import scan as scan_in_program

        return scan_in_program(step, state, places)
    outputs = []
    for place in zip(*places, strict=True):
        state, output = step(state, place)
        outputs.append(output)
    return state, torch.stack(outputs)


def pack_grid(mask: torch.Tensor) -> Grid:
    """List all positions of a batch `[B, T]`, true at words."""
    # [2, B, T]
    positions = torch.arange(mask.numel(), device=mask.device).reshape(mask.shape)
    positions = torch.stack([positions, positions.flip(1)])
    is_word = torch.stack([mask, mask.flip(1)])
    sentences = torch.arange(mask.shape[0], device=mask.device)
    return Grid(sentences, positions.transpose(1, 2).flatten(1), is_word.permute(2, 0, 1))


def scan_lstm(
    inputs: torch.Tensor,
    is_word: torch.Tensor,
    state: tuple[torch.Tensor, torch.Tensor],
    weights: Any,
    carried: torch.Tensor | None = None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Scan every position; carry the state unchanged through padding.

    Args:
        inputs: `[2, T * B, G * C]`, the inputs of the gates i, f, g, o, and r with a highway, with the bias.
        is_word: As in `Grid`.
        state: `[2, B, P]` and `[2, B, C]`, the initial hidden and cell state.
        weights: The `LstmWeights` of a step.
        carried: `[2, T * B, C]`, what a highway carries around the cell; `None` without one.

    Returns:
        The hidden states `[2, T * B, P]`, zero at padding, and the final state.
    """

    def step(
        state: tuple[torch.Tensor, torch.Tensor], place: tuple[torch.Tensor, ...]
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        (hidden, cell), (gate_inputs, is_word, *around) = state, place
        i, f, g, o, *r = torch.baddbmm(gate_inputs, hidden, weights.recurrent).chunk(4 + len(around), dim=2)
        # [2, B, C]
        next_cell = clip(f.sigmoid() * cell + i.sigmoid() * g.tanh(), weights.cell_clip)
        # [2, B, P]
        next_hidden = o.sigmoid() * next_cell.tanh()
        if around:
            share = r[0].sigmoid()
            next_hidden = share * next_hidden + (1 - share) * around[0]
        if weights.output is not None:
            next_hidden = clip(torch.bmm(next_hidden, weights.output), weights.projection_clip)
        carried = torch.where(is_word, next_hidden, hidden), torch.where(is_word, next_cell, cell)
        return carried, next_hidden * is_word

    length, directions, batch_size = is_word.shape
    # [T, 2, B, G * C], and [T, 2, B, C] with a highway
    gate_inputs, *around = (
        part.reshape(directions, length, batch_size, part.shape[2]).transpose(0, 1)
        for part in (inputs, carried)
        if part is not None
    )
    state, outputs = scan(step, state, (gate_inputs, is_word[..., None], *around))
    # [T, 2, B, P] -> [2, T * B, P]
    return outputs.transpose(0, 1).reshape(directions, length * batch_size, outputs.shape[3]), state


def clip(values: torch.Tensor, limit: float | None) -> torch.Tensor:
    """Limit values to plus and minus `limit`; `None` is no limit."""
    return values if limit is None else values.clamp(-limit, limit)


__all__ = ["Grid", "clip", "is_exporting", "pack_grid", "scan", "scan_lstm"]
