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
"""What happens to each number in a step of the recurrence on a GPU, in Triton; `triton_elmo` calls it.

Numbers are kept in the dtype of the layer's input and computed in float32. A program has one word, one direction and a
block of columns. The shapes are those of `recurrence_elmo`, and all tensors are contiguous.

Imported only where there is a GPU, or Triton's interpreter: Triton needs most of a second to load.
"""

# Transformers asks readers of a checkpoint for whatever is imported outside of `try`
try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError("Triton is not installed") from error


@triton.jit
def sigmoid(x: tl.tensor) -> tl.tensor:
    """Give `1 / (1 + exp(-x))`; no number is too large for it."""
    small = tl.exp(-tl.abs(x))
    return tl.where(x < 0, small, 1.0) / (1.0 + small)


@triton.jit
def tanh(x: tl.tensor) -> tl.tensor:
    """Give the hyperbolic tangent; no number is too large for it."""
    small = tl.exp(-2.0 * tl.abs(x))
    return tl.where(x < 0, small - 1.0, 1.0 - small) / (1.0 + small)


@triton.jit
def clip(x: tl.tensor, limit: float) -> tl.tensor:
    """Keep `x` within plus and minus `limit`; what is no number stays so."""
    return tl.where(x > limit, limit, tl.where(x < -limit, -limit, x))


@triton.jit
def read(place: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """Load numbers as float32."""
    return tl.load(place, mask=inside, other=0.0).to(tl.float32)


# what differs from step to step is no reason to compile anew
@triton.jit(do_not_specialize=["time", "input_rows", "words", "sentences"])
def step_gates(
    inputs: tl.tensor,
    product: tl.tensor,
    starts: tl.tensor,
    cell: tl.tensor,
    squashed: tl.tensor,
    gates: tl.tensor,
    cells: tl.tensor,
    time: int,
    input_rows: int,
    words: int,
    sentences: int,
    width: int,
    limit: float,
    keeps: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Make the cell of a word and `o * tanh(cell)`; sentences that have ended keep theirs.

    Args:
        inputs: `[2, input_rows, 4 * C]`, the input's share of the gates i, f, g, o.
        product: `[2, sentences, 4 * C]`, the share of the hidden state.
        starts: `[T + 1]`, int32, where the words of each time begin among the packed ones, and where the last end.
        cell: `[2, sentences, C]`; the new one takes its place.
        squashed: `[2, sentences, C]`, written: `o * tanh(cell)`.
        gates: `[2, words, 4 * C]`, written if `keeps`: the gates after their non-linearities.
        cells: `[2, words, C]`, written if `keeps`.
        time: The step.
        input_rows: See `inputs`.
        words: See `gates`.
        sentences: See `cell`.
        width: `C`.
        limit: Of the cell, a number of its dtype, or infinity.
        keeps: Whether to write `gates` and `cells`.
        block: The columns of a program, a power of 2.
    """
    row, way = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    column = tl.program_id(2) * block + tl.arange(0, block)
    word = tl.load(starts + time) + row
    inside = (column < width) & (word < tl.load(starts + time + 1))
    given = inputs + (way * input_rows + word) * 4 * width + column
    sentence = way * sentences + row
    added = product + sentence * 4 * width + column
    i = sigmoid(read(given, inside) + read(added, inside))
    f = sigmoid(read(given + width, inside) + read(added + width, inside))
    g = tanh(read(given + 2 * width, inside) + read(added + 2 * width, inside))
    o = sigmoid(read(given + 3 * width, inside) + read(added + 3 * width, inside))
    place = sentence * width + column
    new = clip(f * read(cell + place, inside) + i * g, limit)
    tl.store(cell + place, new, mask=inside)
    tl.store(squashed + place, o * tanh(new), mask=inside)
    if keeps:
        kept = way * words + word
        tl.store(cells + kept * width + column, new, mask=inside)
        gate = gates + kept * 4 * width + column
        tl.store(gate, i, mask=inside)
        tl.store(gate + width, f, mask=inside)
        tl.store(gate + 2 * width, g, mask=inside)
        tl.store(gate + 3 * width, o, mask=inside)


@triton.jit(do_not_specialize=["time", "words", "sentences"])
def step_hidden(
    projected: tl.tensor,
    starts: tl.tensor,
    hidden: tl.tensor,
    outputs: tl.tensor,
    time: int,
    words: int,
    sentences: int,
    width: int,
    limit: float,
    block: tl.constexpr,
) -> None:
    """Clip the projected `[2, sentences, P]`: the new `hidden`, alike, and the word's in `outputs`, `[2, words, P]`.

    Sentences that have ended keep their hidden state. The other arguments are those of `step_gates`; `width` is `P`.
    """
    row, way = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    column = tl.program_id(2) * block + tl.arange(0, block)
    word = tl.load(starts + time) + row
    inside = (column < width) & (word < tl.load(starts + time + 1))
    place = (way * sentences + row) * width + column
    new = clip(read(projected + place, inside), limit)
    tl.store(hidden + place, new, mask=inside)
    tl.store(outputs + (way * words + word) * width + column, new, mask=inside)


@triton.jit(do_not_specialize=["start", "earlier", "words", "sentences"])
def back_gates(
    gates: tl.tensor,
    cells: tl.tensor,
    first_cell: tl.tensor,
    squashed_slope: tl.tensor,
    cell_slope: tl.tensor,
    slopes: tl.tensor,
    start: int,
    earlier: int,
    words: int,
    sentences: int,
    width: int,
    limit: float,
    block: tl.constexpr,
) -> None:
    """Go back through `step_gates`.

    Args:
        gates: `[2, words, 4 * C]`, after their non-linearities.
        cells: `[2, words, C]`.
        first_cell: `[2, sentences, C]`, what the first step started from.
        squashed_slope: `[2, sentences, C]`, of `o * tanh(cell)`.
        cell_slope: `[2, sentences, C]`, of the cell, from the step after; that of the cell before takes its place.
        slopes: `[2, words, 4 * C]`, written: of the gates before their non-linearities.
        start: Where the words of this time begin.
        earlier: Where those of the time before do, or -1 at the first.
        words: See `gates`.
        sentences: See `cell_slope`.
        width: `C`.
        limit: As in `step_gates`.
        block: The columns of a program, a power of 2.
    """
    row, way = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    column = tl.program_id(2) * block + tl.arange(0, block)
    inside = column < width
    word = way * words + start + row
    gate = gates + word * 4 * width + column
    i, f = read(gate, inside), read(gate + width, inside)
    g, o = read(gate + 2 * width, inside), read(gate + 3 * width, inside)
    cell = read(cells + word * width + column, inside)
    place = (way * sentences + row) * width + column
    # one of the two, and 0 of the other
    before = read(cells + (way * words + earlier + row) * width + column, inside & (earlier >= 0))
    before += read(first_cell + place, inside & (earlier < 0))
    squashed = tanh(cell)
    through = read(squashed_slope + place, inside)
    into = read(cell_slope + place, inside) + through * o * (1.0 - squashed * squashed)
    # nothing flows back into what was clipped
    into = tl.where(tl.abs(cell) < limit, into, 0.0)
    slope = slopes + word * 4 * width + column
    tl.store(slope, into * g * i * (1.0 - i), mask=inside)
    tl.store(slope + width, into * before * f * (1.0 - f), mask=inside)
    tl.store(slope + 2 * width, into * i * (1.0 - g * g), mask=inside)
    tl.store(slope + 3 * width, through * squashed * o * (1.0 - o), mask=inside)
    tl.store(cell_slope + place, into * f, mask=inside)


__all__ = ["back_gates", "step_gates", "step_hidden"]
