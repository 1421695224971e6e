"""What `elmo-hf embed` takes beside the model: reading, making ids, saving parts, and writing the file.

    python benchmarks/bench_embed.py open.train.txt.gz
    python benchmarks/bench_embed.py open.train.txt.gz --model my-elmo --sentences 20000 --formats .hdf5

The text has a sentence a line, plain or compressed. For each format, a round embeds it, and then lets the model alone
compute the same batches, with the clock stopped for all else. A line has the words a second of the whole, the time of
the model alone as a share of the whole, and the share of each step in the run. Parts are saved beside the rest; after
"all" of them, only the end of the file is left to write.
"""

import argparse
import itertools
import os
import platform
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.data.corpus import read_lines
from elmo_hf.embedding import engines
from elmo_hf.embedding.corpus import CorpusRun, embed_corpus
from elmo_hf.embedding.engines import LocalEngine
from elmo_hf.embedding.parts import save_part


Seconds = dict[str, float]


@contextmanager
def timed(places: list[tuple[Any, str, str]]) -> Iterator[Seconds]:
    """Measure functions while the block runs.

    Args:
        places: The object that has a function, the function's name, and the step that it is counted as.

    Yields:
        The seconds of each step so far.
    """
    seconds: Seconds = defaultdict(float)
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for (owner, name, step), (*_, function) in zip(places, originals, strict=True):
        setattr(owner, name, counted(function, step, seconds))
    try:
        yield seconds
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


def counted(function: Callable[..., Any], step: str, seconds: Seconds) -> Callable[..., Any]:
    """Return a function that adds its time to a step; that of a generator is the time until each of its items."""

    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = function(*args, **kwargs)
        seconds[step] += time.perf_counter() - start
        return count_items(result) if isinstance(result, Iterator) else result

    def count_items(items: Iterator[Any]) -> Iterator[Any]:
        while True:
            start = time.perf_counter()
            item = next(items, None)
            seconds[step] += time.perf_counter() - start
            if item is None:
                return
            yield item

    return call


STEPS: list[tuple[Any, str, str]] = [
    (CorpusRun, "_unfinished_parts", "reading"),
    (ElmoTokenizer, "_encode_plus", "ids"),
    (ElmoModel, "forward", "model"),
    (engines, "save_part", "parts"),
    (LocalEngine, "__call__", "all"),
]


def run(options: argparse.Namespace, sentences: list[str], suffix: str) -> tuple[float, Seconds, int]:
    """Embed the text; return the seconds of the whole without loading, of each step, and the number of words."""
    with tempfile.TemporaryDirectory(dir=options.work) as folder, timed(STEPS) as seconds:
        start = 0.0

        def read() -> Iterator[str]:
            nonlocal start
            # the model is loaded
            start = time.perf_counter()
            yield from sentences

        path = Path(folder, f"vectors{suffix}")
        _, words = embed_corpus(options.model, read(), path, batch_size=options.batch_size)
        return time.perf_counter() - start, seconds, words


def run_alone(options: argparse.Namespace, sentences: list[str]) -> float:
    """Let the model alone compute the batches of the same parts; return its seconds."""

    class Alone(LocalEngine):
        def __call__(self, parts: Any, embedder: Any, progress: Any) -> None:
            for part in list(parts):
                save_part(part.path, embedder.embed_part(part.sentences, progress))

    with tempfile.TemporaryDirectory(dir=options.work) as folder, timed(STEPS) as seconds:
        embed_corpus(
            options.model, sentences, Path(folder, "vectors.npy"), batch_size=options.batch_size, engine=Alone()
        )
        return seconds["model"]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="a sentence a line, plain or compressed")
    parser.add_argument("--model", default="elmo-small-en")
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--formats", nargs="+", default=[".npy", ".hdf5", ".npz", ".safetensors", ".parquet"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--work", type=Path, help="the folder to write to, for a while")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    sentences = list(itertools.islice((line for line in read_lines(options.text) if line.strip()), options.sentences))
    print(f"{platform.machine()}, {os.cpu_count()} cores, {options.threads} threads, torch {torch.__version__}")
    names = list(dict.fromkeys(step for *_, step in STEPS))
    print(f"{'':14}{'words/s':>9}{'model alone':>13}  in the run:" + "".join(f"{name:>9}" for name in names))
    run(options, sentences[:500], ".npy")
    for suffix in options.formats:
        rounds = [(run(options, sentences, suffix), run_alone(options, sentences)) for _ in range(options.rounds)]
        share = statistics.median(alone / whole for (whole, *_), alone in rounds)
        speed = statistics.median(words / whole for (whole, _, words), _ in rounds)
        steps = [statistics.median(seconds[name] / whole for (whole, seconds, _), _ in rounds) for name in names]
        print(
            f"{suffix:14}{speed:>9,.0f}{share:>13.1%}{'':13}" + "".join(f"{step:>9.1%}" for step in steps), flush=True
        )


if __name__ == "__main__":
    main()
