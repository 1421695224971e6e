"""Measure the eight layers of semantic roles beside a biLM layer of their width, in prediction and in training.

    python benchmarks/bench_roles.py --width 300

Both read the same 64 sentences of 5 to 39 words in one thread; the biLM layer has no projection. In training both
compute the gradient of what they read. The figures are medians of seven runs, in words a second of processor time.
"""

import argparse
import time
from collections.abc import Callable

import torch

from elmo_hf import ElmoConfig
from elmo_hf.model.heads_elmo import ALTERNATING_LAYERS, ElmoHighwayLstm
from elmo_hf.model.layers_elmo import ElmoBiLstmLayer
from elmo_hf.model.packing_elmo import pack_words


RUNS = 7


def median_seconds(run: Callable[[], torch.Tensor], *, train: bool) -> float:
    """Return how long a run takes, with the backward pass or without gradients."""
    seconds = []
    for _ in range(RUNS):
        start = time.process_time()
        if train:
            run().sum().backward()
        else:
            with torch.no_grad():
                run()
        seconds.append(time.process_time() - start)
    return sorted(seconds)[RUNS // 2]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=300, help="width of a cell (default: 300)")
    width = parser.parse_args().width
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lengths = torch.randint(5, 40, (64,))
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    config = ElmoConfig(hidden_size=2 * width, intermediate_size=width, cell_clip=None)
    bilm = ElmoBiLstmLayer(config, 1)
    roles = torch.nn.ModuleList(
        ElmoHighwayLstm(width, width, direction=number % 2, dropout=0.1) for number in range(ALTERNATING_LAYERS)
    )
    for parameter in (*bilm.parameters(), *roles.parameters()):
        torch.nn.init.normal_(parameter, std=0.05)
    both, one = (torch.randn(*mask.shape, size, requires_grad=True) for size in (2 * width, width))

    def read_roles() -> torch.Tensor:
        packing, states = pack_words(mask), one
        for layer in roles:
            states = layer(states, packing)
        return states

    for train in (False, True):
        bilm.train(train)
        roles.train(train)
        # a layer of roles reads in one direction
        direction = median_seconds(lambda: bilm(both, pack_words(mask))[0], train=train) / 2
        layer = median_seconds(read_roles, train=train) / ALTERNATING_LAYERS
        words = int(mask.sum())
        of_all = words / layer / ALTERNATING_LAYERS
        print(
            f"{'training' if train else 'prediction'}: a direction of the biLM layer {words / direction:,.0f}, "
            f"a layer of roles {words / layer:,.0f} ({direction / layer:.2f}), all eight {of_all:,.0f}"
        )


if __name__ == "__main__":
    main()
