"""Words a second of ElmoTokenizer on one core.

    python benchmarks/bench_tokenizer.py
    python benchmarks/bench_tokenizer.py corpus.txt.gz --batch-size 64

The text has a tokenised sentence a line, plain or gzip; without one, sentences are made whose words follow Zipf's law.
Every kind of call gets the same batches in turn, round after round, so that a busy machine slows all of them alike.
"""

import argparse
import gzip
import itertools
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path


# before anything loads `tokenizers`, or NumPy's and PyTorch's thread pools
os.environ.update(TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")

import numpy as np
import torch

from elmo_hf import ElmoTokenizer


def make_sentences(number: int) -> list[list[str]]:
    """Make sentences of 2 to 40 words, about as many distinct ones as in a corpus of that size."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 41, size=number)
    letters = np.array(list("etaoinshrdlu"))
    ranks = rng.zipf(1.3, size=lengths.sum()) % 1_000_000
    words = {rank: "".join(rng.choice(letters, size=1 + rank % 9)) + f"{rank:x}" for rank in set(ranks)}
    spelled = [words[rank] for rank in ranks]
    ends = np.cumsum(lengths)
    return [spelled[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def read_sentences(path: Path, number: int) -> list[list[str]]:
    """Read the first sentences of a corpus."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [line.split() for line in itertools.islice(file, number)]


def calls(tokenizer: ElmoTokenizer) -> dict[str, Callable[[list[list[str]]], object]]:
    """List what is measured, each for a batch of sentences."""
    return {
        "words, np": lambda batch: tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="np"),
        "words, pt": lambda batch: tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="pt"),
        "words, lists": lambda batch: tokenizer(batch, is_split_into_words=True, padding=True),
        "raw text, np": lambda batch: tokenizer(list(map(" ".join, batch)), padding=True, return_tensors="np"),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="?", help="a tokenised sentence a line, plain or .gz")
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if arguments.corpus:
        sentences = read_sentences(arguments.corpus, arguments.sentences)
    else:
        sentences = make_sentences(arguments.sentences)
    batches = [sentences[at : at + arguments.batch_size] for at in range(0, len(sentences), arguments.batch_size)]
    words = sum(map(len, sentences))
    measured = calls(ElmoTokenizer())
    # words a second of the clock, and of this process's time on the core, which neighbours do not change
    clock: dict[str, list[float]] = {name: [] for name in measured}
    core: dict[str, list[float]] = {name: [] for name in measured}
    # the first round warms up
    for round_ in range(arguments.rounds + 1):
        for name, call in measured.items():
            start, used = time.perf_counter(), time.process_time()
            for batch in batches:
                call(batch)
            if round_:
                clock[name].append(words / (time.perf_counter() - start))
                core[name].append(words / (time.process_time() - used))

    print(f"{platform.machine()}, {os.cpu_count()} cores, 1 used, load {os.getloadavg()[0]:.1f}; one thread")
    packages = ("elmo_hf", "transformers", "tokenizers", "numpy", "torch")
    print(f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in packages))
    distinct = len({word for sentence in sentences for word in sentence})
    print(
        f"{arguments.corpus.name if arguments.corpus else 'made text'}: {len(sentences)} sentences, {words} words, "
        f"{distinct} distinct; batches of {arguments.batch_size}, {arguments.rounds} rounds"
    )
    print(f"{'words a second':16}{'median':>10}{'slowest':>10}{'fastest':>10}{'a core second, median':>24}")
    for name, rates in clock.items():
        figures = (statistics.median(rates), min(rates), max(rates))
        print(
            f"{name:16}"
            + "".join(f"{figure:>10,.0f}" for figure in figures)
            + f"{statistics.median(core[name]):>24,.0f}"
        )


if __name__ == "__main__":
    main()
