"""Measure a biLSTM layer by the compiled code of each level of instructions, and by torch.

    python benchmarks/bench_levels.py --threads 1

All read the same sentences of 22 words and take turns. The figures are the medians of five rounds in milliseconds, and
how many times as long torch takes as the highest level.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

import torch

from elmo_hf import ElmoConfig
from elmo_hf.kernels import native
from elmo_hf.model.layers_elmo import ElmoBiLstmLayer
from elmo_hf.model.packing_elmo import pack_words


ROUNDS = 5
# widths of the cells and of the projection of the releases
SIZES = {"small": (1024, 128), "original": (4096, 512)}


def choose(code: str) -> None:
    """Let the following layers run by a level of the compiled code, or by "torch"."""
    os.environ["ELMO_HF_RECURRENCE"] = "packed" if code == "torch" else "native"
    os.environ["ELMO_HF_LEVEL"] = "" if code == "torch" else code
    native.load.cache_clear()


def random_reading(size: str, sentences: int, *, train: bool) -> Callable[[], None]:
    """Return a function that runs a layer of random weights over random sentences, backward too in training."""
    cell_width, width = SIZES[size]
    layer = ElmoBiLstmLayer(ElmoConfig(hidden_size=2 * width, intermediate_size=cell_width), 1).train(train)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    packing, below = pack_words(torch.ones(sentences, 22, dtype=torch.bool)), torch.randn(sentences, 22, 2 * width)

    def read() -> None:
        with torch.set_grad_enabled(train):
            outputs = layer(below, packing)[0]
            if train:
                outputs.sum().backward()

    return read


def median_milliseconds(read: Callable[[], None], codes: list[str]) -> list[float]:
    """Return how long a reading takes by each code."""
    taken: dict[str, list[float]] = {code: [] for code in codes}
    for _ in range(ROUNDS + 1):
        for code in codes:
            choose(code)
            start = time.perf_counter()
            read()
            taken[code].append(1000 * (time.perf_counter() - start))
    # the first round warms up
    return [statistics.median(times[1:]) for times in taken.values()]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads (default: 1)")
    torch.set_num_threads(parser.parse_args().threads)
    torch.manual_seed(0)
    codes = [*native.usable_libraries(), "torch"]
    print(f"| {torch.backends.cpu.get_cpu_capability()} | {' | '.join(codes)} | ratio |\n{'|---' * (len(codes) + 2)}|")
    for size in SIZES:
        for sentences, train in [(1, False), (8, False), (32, False), (32, True)]:
            times = median_milliseconds(random_reading(size, sentences, train=train), codes)
            name = f"{size}, {sentences} sentence{'s' * (sentences > 1)}{', training' * train}"
            print(
                f"| {name} | {' | '.join(f'{one:,.0f}' for one in times)} | {times[-1] / times[0]:.1f} |", flush=True
            )


if __name__ == "__main__":
    main()
