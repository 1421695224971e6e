"""Measure a biLSTM layer by the compiled code, by torch, and beside the machine's own products.

    python benchmarks/bench_levels.py --threads 1

Both codes read the same sentences of 22 words. The figures are milliseconds of the processor, divided by the number of
threads, so that other load matters little: the least of three rounds. `share` is what the products of the layer reach
of the speed of products of 2,048 x 2,048 numbers in float32. bfloat16 by torch is left out: a layer can take a minute.
ELMO_HF_LEVEL chooses a lower level.
"""

import argparse
import os
import time
from collections.abc import Callable

import torch

from elmo_hf import ElmoConfig
from elmo_hf.kernels import native
from elmo_hf.model.layers_elmo import ElmoBiLstmLayer
from elmo_hf.model.packing_elmo import pack_words


ROUNDS = 3
WORDS = 22
# widths of the cells and of the projection of the releases
SIZES = {"small": (1024, 128), "original": (4096, 512)}
# sentences, the dtype of the weights, and whether they are trained
READINGS = [
    *((sentences, torch.float32, False) for sentences in (1, 8, 32, 128)),
    *((sentences, torch.bfloat16, False) for sentences in (1, 32)),
    (32, torch.float32, True),
]


def random_reading(size: str, sentences: int, dtype: torch.dtype, *, train: bool) -> Callable[[], None]:
    """Return a function that runs a layer of random weights over random sentences, backward too in training."""
    cell_width, width = SIZES[size]
    layer = ElmoBiLstmLayer(ElmoConfig(hidden_size=2 * width, intermediate_size=cell_width), 1).train(train)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    layer = layer.to(dtype)
    packing = pack_words(torch.ones(sentences, WORDS, dtype=torch.bool))
    below = torch.randn(sentences, WORDS, 2 * width).to(dtype)

    def read() -> None:
        with torch.set_grad_enabled(train):
            outputs = layer(below, packing)[0]
            if train:
                outputs.sum().backward()

    return read


def least_seconds(read: Callable[[], object]) -> float:
    """Return how long a function takes at least, after one call that warms up."""
    taken = []
    for _ in range(ROUNDS + 1):
        start = time.process_time()
        read()
        taken.append((time.process_time() - start) / torch.get_num_threads())
    return min(taken[1:])


def least_milliseconds(code: str, read: Callable[[], None]) -> float:
    """Return how long a reading takes by one of the recurrences."""
    os.environ["ELMO_HF_RECURRENCE"] = code
    return 1000 * least_seconds(read)


def products(size: str, sentences: int, *, train: bool) -> int:
    """Return how many additions and multiplications the products of a layer are, in both directions."""
    cell_width, width = SIZES[size]
    each = 2 * width * 4 * cell_width + cell_width * width
    # the backward pass multiplies by the weights again, and computes their gradients
    return 2 * 2 * each * sentences * WORDS * (3 if train else 1)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads (default: 1)")
    torch.set_num_threads(parser.parse_args().threads)
    torch.manual_seed(0)
    square = torch.randn(2048, 2048)
    own = 2 * 2048**3 / least_seconds(lambda: square @ square) / torch.get_num_threads()
    print(f"Products of 2,048 x 2,048: {own / 1e9:.0f} GFLOP/s a thread\n")
    print(f"| | {native.find_libraries()[0].name.split('.')[0]} | share | torch | ratio |\n|---|---|---|---|---|")
    for size in SIZES:
        for sentences, dtype, train in READINGS:
            read = random_reading(size, sentences, dtype, train=train)
            ours = least_milliseconds("native", read)
            share = products(size, sentences, train=train) / ours * 1000 / torch.get_num_threads() / own
            name = f"{size}, {sentences} sentence{'s' * (sentences > 1)}{', training' * train}"
            if dtype == torch.bfloat16:
                print(f"| {name}, bfloat16 | {ours:,.0f} | {share:.0%} | | |", flush=True)
                continue
            torchs = least_milliseconds("packed", read)
            print(f"| {name} | {ours:,.0f} | {share:.0%} | {torchs:,.0f} | {torchs / ours:.1f} |", flush=True)


if __name__ == "__main__":
    main()
