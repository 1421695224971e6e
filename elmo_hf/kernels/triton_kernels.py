"""The Triton kernels of a step of the recurrence, which `triton` launches.

Numbers are stored in the dtype of the layer's input and computed in float32. A program handles one word, one direction
and a block of columns. Shapes are those of `contract`, and all tensors are contiguous.

This module is imported only where there is a GPU or Triton's interpreter: Triton takes most of a second to load.
"""

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError("Triton is not installed") from error


@triton.jit
def sigmoid(x: tl.tensor) -> tl.tensor:
    """Return `1 / (1 + exp(-x))` without overflow."""
    small = tl.exp(-tl.abs(x))
    return tl.where(x < 0, small, 1.0) / (1.0 + small)


@triton.jit
def tanh(x: tl.tensor) -> tl.tensor:
    """Return the hyperbolic tangent without overflow."""
    small = tl.exp(-2.0 * tl.abs(x))
    return tl.where(x < 0, small - 1.0, 1.0 - small) / (1.0 + small)


@triton.jit
def clip(x: tl.tensor, limit: float) -> tl.tensor:
    """Limit `x` to plus and minus `limit`; NaN stays NaN."""
    return tl.where(x > limit, limit, tl.where(x < -limit, -limit, x))


@triton.jit
def read(position: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """Load numbers as float32."""
    return tl.load(position, mask=inside, other=0.0).to(tl.float32)


# arguments that differ from step to step must not lead to another compilation
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
    save: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Compute the cell of a word and `o * tanh(cell)`; sentences that have ended keep theirs.

    Args:
        inputs: `[2, input_rows, 4 * C]`, the inputs of the gates i, f, g, o.
        product: `[2, sentences, 4 * C]`, the hidden state times the recurrent weights.
        starts: `[T + 1]`, int32, where the packed words of each time begin, and where the last ones end.
        cell: `[2, sentences, C]`, overwritten by the new cell.
        squashed: `[2, sentences, C]`, receives `o * tanh(cell)`.
        gates: `[2, words, 4 * C]`, receives the gates after their non-linearities if `save`.
        cells: `[2, words, C]`, receives the cells if `save`.
        time: The step.
        input_rows: The number of rows of `inputs`.
        words: The number of packed words.
        sentences: The number of sentences.
        width: `C`.
        limit: The clip of the cell, rounded to its dtype, or infinity.
        save: Whether to fill `gates` and `cells`.
        block: The columns of a program, a power of 2.
    """
    row, direction = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    column = tl.program_id(2) * block + tl.arange(0, block)
    word = tl.load(starts + time) + row
    inside = (column < width) & (word < tl.load(starts + time + 1))
    gate_input = inputs + (direction * input_rows + word) * 4 * width + column
    sentence = direction * sentences + row
    gate_product = product + sentence * 4 * width + column
    i = sigmoid(read(gate_input, inside) + read(gate_product, inside))
    f = sigmoid(read(gate_input + width, inside) + read(gate_product + width, inside))
    g = tanh(read(gate_input + 2 * width, inside) + read(gate_product + 2 * width, inside))
    o = sigmoid(read(gate_input + 3 * width, inside) + read(gate_product + 3 * width, inside))
    position = sentence * width + column
    new = clip(f * read(cell + position, inside) + i * g, limit)
    tl.store(cell + position, new, mask=inside)
    tl.store(squashed + position, o * tanh(new), mask=inside)
    if save:
        saved = direction * words + word
        tl.store(cells + saved * width + column, new, mask=inside)
        gate = gates + saved * 4 * width + column
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
    """Clip the projection and store it as the new hidden state; sentences that have ended keep theirs.

    Args:
        projected: `[2, sentences, P]`.
        starts: `[T + 1]`, int32, where the packed words of each time begin, and where the last ones end.
        hidden: `[2, sentences, P]`, overwritten by the new hidden state.
        outputs: `[2, words, P]`, receives the hidden state of the word.
        time: The step.
        words: The number of packed words.
        sentences: The number of sentences.
        width: `P`.
        limit: The clip of the projection, rounded to its dtype, or infinity.
        block: The columns of a program, a power of 2.
    """
    row, direction = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    column = tl.program_id(2) * block + tl.arange(0, block)
    word = tl.load(starts + time) + row
    inside = (column < width) & (word < tl.load(starts + time + 1))
    position = (direction * sentences + row) * width + column
    new = clip(read(projected + position, inside), limit)
    tl.store(hidden + position, new, mask=inside)
    tl.store(outputs + (direction * words + word) * width + column, new, mask=inside)


@triton.jit(do_not_specialize=["start", "earlier", "words", "sentences"])
def backward_gates(
    gates: tl.tensor,
    cells: tl.tensor,
    first_cell: tl.tensor,
    squashed_gradient: tl.tensor,
    cell_gradient: tl.tensor,
    gradients: tl.tensor,
    start: int,
    earlier: int,
    words: int,
    sentences: int,
    width: int,
    limit: float,
    block: tl.constexpr,
) -> None:
    """Compute the gradients of `step_gates`.

    Args:
        gates: `[2, words, 4 * C]`, after their non-linearities.
        cells: `[2, words, C]`.
        first_cell: `[2, sentences, C]`, the initial cell.
        squashed_gradient: `[2, sentences, C]`, the gradient of `o * tanh(cell)`.
        cell_gradient: `[2, sentences, C]`, the gradient of the cell from the next step, overwritten by that of the
            previous cell.
        gradients: `[2, words, 4 * C]`, receives the gradients of the gates before their non-linearities.
        start: Where the words of this time begin.
        earlier: Where the words of the previous time begin, or -1 at the first.
        words: The number of packed words.
        sentences: The number of sentences.
        width: `C`.
        limit: The clip of the cell, rounded to its dtype, or infinity.
        block: The columns of a program, a power of 2.
    """
    row, direction = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    column = tl.program_id(2) * block + tl.arange(0, block)
    inside = column < width
    word = direction * words + start + row
    gate = gates + word * 4 * width + column
    i, f = read(gate, inside), read(gate + width, inside)
    g, o = read(gate + 2 * width, inside), read(gate + 3 * width, inside)
    cell = read(cells + word * width + column, inside)
    position = (direction * sentences + row) * width + column
    # one of the two loads is masked and gives 0
    before = read(cells + (direction * words + earlier + row) * width + column, inside & (earlier >= 0))
    before += read(first_cell + position, inside & (earlier < 0))
    squashed = tanh(cell)
    through = read(squashed_gradient + position, inside)
    into = read(cell_gradient + position, inside) + through * o * (1.0 - squashed * squashed)
    # a clipped cell passes no gradient
    into = tl.where(tl.abs(cell) < limit, into, 0.0)
    gradient = gradients + word * 4 * width + column
    tl.store(gradient, into * g * i * (1.0 - i), mask=inside)
    tl.store(gradient + width, into * before * f * (1.0 - f), mask=inside)
    tl.store(gradient + 2 * width, into * i * (1.0 - g * g), mask=inside)
    tl.store(gradient + 3 * width, through * squashed * o * (1.0 - o), mask=inside)
    tl.store(cell_gradient + position, into * f, mask=inside)


__all__ = ["backward_gates", "step_gates", "step_hidden"]
