"""Words a second beside AllenNLP: vectors, training of a tagger, and tokenizing, with the same weights and sentences.

    python benchmarks/bench_speed.py brown.inorder.txt.gz --peer PYTHON --threads 2 --output speed.svg

`PYTHON` is that of an environment with AllenNLP 2.10.1 (see README.md). Both sides run in processes of their own and
take turns with the same batches, round after round; a ratio is the median over the rounds. Weights are random, in the
sizes of the releases. The vectors of the first batch are compared. The picture shows the words a second of vectors.
"""

import argparse
import gzip
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from transformers.utils import logging

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.integrations.plotting import DOT, QUERY, check_picture, save_picture
from elmo_hf_conversion import export


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# width of the cells, of the projection, and highway layers of AllenNLP's releases
SIZES = {"small": (1024, 128, 1), "medium": (2048, 256, 1), "original": (4096, 512, 2)}
FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
WORKERS = Path(__file__).parent / "workers"
# the sentences of a batch whose vectors the picture shows
DRAWN = ("1", "8", "32", "128 sorted")


class Speed(NamedTuple):
    """How fast both sides make the vectors of batches, in words a second; `theirs` is None without AllenNLP."""

    size: str
    dtype: str
    batches: str
    mine: float
    theirs: float | None


class Side:
    """A worker process."""

    def __init__(self, name: str, python: str, script: Path) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [python, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        )

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send a request and wait for the answer."""
        print(json.dumps({"do": do, **request}), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise SystemExit(f"{self.name} failed: run its script by hand to see why.")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def make_model(size: str, folder: Path) -> Path:
    """Write a model of random weights, and beside it what AllenNLP reads."""
    cell, projection, highways = SIZES[size]
    torch.manual_seed(0)
    config = ElmoConfig(
        hidden_size=2 * projection,
        intermediate_size=cell,
        char_filters=FILTERS,
        num_highway_layers=highways,
    )
    ElmoModel(config).save_pretrained(folder / size)
    ElmoTokenizer().save_pretrained(folder / size)
    export(folder / size, folder / f"{size}-hdf5")
    for path in (folder / f"{size}-hdf5").iterdir():
        path.rename(folder / size / {".hdf5": "weights.hdf5", ".json": "options.json"}[path.suffix])
    return folder / size


def make_batches(corpus: Path, number: int) -> dict[str, list[list[list[str]]]]:
    """Cut a text in batches: in the order of the text, sorted by length, and one sentence at a time."""
    opener = gzip.open if corpus.suffix == ".gz" else open
    with opener(corpus, "rt", encoding="utf-8") as file:
        sentences = [line.split() for line in file if line.strip()]
    by_length = sorted(sentences[: 128 * number], key=len)
    twenty = [sentence for sentence in sentences if len(sentence) == 20]
    batches = {f"{size}": cut(sentences, size)[:number] for size in (8, 32, 128)}
    # of all lengths, though few
    batches |= {f"{size} sorted": spread(cut(by_length, size), number) for size in (32, 128)}
    batches["1"] = [[sentence] for sentence in twenty[: 4 * number]]
    batches["tokens"] = cut(sentences, 64)
    return batches


def cut(sentences: list[list[str]], size: int) -> list[list[list[str]]]:
    """Cut in whole batches."""
    return [sentences[start : start + size] for start in range(0, len(sentences) - size + 1, size)]


def spread(batches: list[Any], number: int) -> list[Any]:
    """Choose some, at even distances."""
    return [batches[(2 * place + 1) * len(batches) // (2 * number)] for place in range(number)]


class Benchmark:
    """The two sides with one model, and what they are asked."""

    def __init__(self, sides: list[Side], batches: dict[str, list[list[list[str]]]], rounds: int) -> None:
        self.sides, self.batches, self.rounds = sides, batches, rounds
        self.cost = 0.0
        self.peak = 0.0

    def compare(self, title: str, do: str, name: str, peer_name: str | None = None) -> tuple[float, float | None]:
        """Let the sides take turns; print words a second of both, and the ratio; return the words a second.

        Args:
            title: What it is called.
            do: What is asked.
            name: Of the batches.
            peer_name: Of those of the other side, where it is better with others.
        """
        speeds: dict[str, list[float]] = {side.name: [] for side in self.sides}
        shares = []
        for number in range(self.rounds + 1):
            for side, own in zip(self.sides, (name, peer_name or name), strict=False):
                batches = self.batches[own]
                span = {} if do == "tokenize" else {"first": 0, "last": len(batches)}
                answer = side.ask(do, batches=own, **span)
                words = sum(len(sentence) for batch in batches for sentence in batch)
                # the first round warms up
                if number:
                    speeds[side.name].append(words / answer["seconds"])
                    if "layers" in answer:
                        # boundaries are computed, too
                        rows = sum(len(sentence) + 2 for batch in batches for sentence in batch)
                        shares.append(self.cost * rows / answer["layers"] / self.peak)
        medians = [statistics.median(rounds) for rounds in speeds.values()]
        line = f"{title:<34}" + "".join(f" {median:>10,.0f}" for median in medians)
        if len(medians) > 1:
            ratio = statistics.median(one / other for one, other in zip(*speeds.values(), strict=True))
            line += f" {ratio:>7.2f}"
        if shares:
            line += f"  recurrence at {statistics.median(shares):.0%} of the machine's products"
        print(line, flush=True)
        return medians[0], medians[1] if len(medians) > 1 else None

    def memory(self) -> None:
        """Print the peak memory of the sides."""
        found = [side.ask("memory")["mebibytes"] for side in self.sides]
        print(f"{'peak memory, MiB':<34} " + " ".join(f"{one:>10,.0f}" for one in found), end="")
        print(f" {found[0] / found[1]:>7.2f}" if len(found) > 1 else "", flush=True)

    def check(self, folder: Path) -> None:
        """Print by how much the vectors of a batch differ, in a fresh process: AllenNLP keeps state."""
        vectors = []
        for side in self.sides:
            side.ask("vectors", batches="32", output=str(folder / "vectors.npy"))
            vectors.append(np.load(folder / "vectors.npy"))
        if len(vectors) > 1:
            one, other = (part.reshape(-1, part.shape[2]) for part in vectors)
            cosine = (one * other).sum(axis=1) / (np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1) + 1e-30)
            words = np.abs(other).sum(axis=1) > 0
            print(
                f"{'largest difference of vectors':<34} {np.abs(one - other).max():.1e}, of values to "
                f"{np.abs(other).max():.2g}; least cosine {cosine[words].min():.6f}",
                flush=True,
            )


@contextmanager
def started(options: argparse.Namespace, folder: Path, size: str, trained: str, dtype: str) -> Iterator[Benchmark]:
    """Start both sides with a model."""
    cell, projection, _ = SIZES[size]
    with ExitStack() as stack:
        sides = [Side("elmo_hf", sys.executable, WORKERS / "elmo_hf_worker.py")]
        if options.peer:
            sides.append(Side("AllenNLP", options.peer, WORKERS / "allennlp_worker.py"))
        benchmark = Benchmark(sides, options.batches, options.rounds)
        # input and recurrent products, and the projection, of two directions and two layers
        benchmark.cost = 2 * 2 * 2 * (2 * projection * 4 * cell + cell * projection)
        own = {"folder": str(folder / size), "threads": options.threads, "trained": trained, "dtype": dtype}
        for side in sides:
            stack.callback(side.close)
            versions = side.ask("load", batches=str(folder / "batches.json"), **own)["versions"]
            print(f"{side.name}: {versions}")
        # in a process of its own, so that its memory does not count
        other = Side("elmo_hf", sys.executable, WORKERS / "elmo_hf_worker.py")
        benchmark.peak = other.ask("peak", threads=options.threads)["flops"]
        other.close()
        print(f"{size}, {dtype}, trained: {trained}; products in float32 at {benchmark.peak / 1e9:,.0f} GFLOP/s")
        yield benchmark


def main() -> None:
    """Run what is asked for, and print it."""
    parser = argparse.ArgumentParser(description="Measure speed and memory beside AllenNLP.")
    parser.add_argument("corpus", type=Path, help="one tokenised sentence a line, plain or .gz")
    parser.add_argument("--peer", metavar="PYTHON", help="of an environment with AllenNLP")
    parser.add_argument("--sizes", nargs="+", default=["small", "original"], choices=tuple(SIZES))
    parser.add_argument("--what", nargs="+", default=["vectors", "bfloat16", "frozen", "all", "tokens"])
    parser.add_argument("--batches", type=int, default=4, help="in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="new picture of the vectors' speed: .svg, .png or .pdf")
    options = parser.parse_args()
    if options.output:
        check_picture(options.output)
    logging.disable_progress_bar()
    options.batches = make_batches(options.corpus, options.batches)
    print(f"{platform.machine()}, {os.cpu_count()} cores, {options.threads} threads; words/s, and their ratio")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "batches.json").write_text(json.dumps(options.batches), encoding="utf-8")
        speeds = []
        for size, what in itertools.product(options.sizes, options.what):
            if not (folder / size).exists():
                make_model(size, folder)
            speeds += run(options, folder, size, what)
    if options.output:
        save_picture(draw(speeds), options.output)
        print(f"Drew {options.output}.")


def run(options: argparse.Namespace, folder: Path, size: str, what: str) -> list[Speed]:
    """Measure one thing with one model, and return the speeds of vectors."""
    speeds = []
    trained = what if what in ("frozen", "all") else "nothing"
    dtype = "bfloat16" if what == "bfloat16" else "float32"
    print(f"\n{'':<34} {'elmo_hf':>10} {'AllenNLP':>10} {'ratio':>7}")
    with started(options, folder, size, trained, dtype) as benchmark:
        if what in ("vectors", "bfloat16"):
            benchmark.check(folder)
            speeds += [
                Speed(size, dtype, name, *benchmark.compare(f"batches of {name}", "embed", name))
                for name in ("1", "8", "32", "32 sorted")
            ]
            benchmark.memory()
            for name, peer_name in (("128", "128"), ("128 sorted", "128 sorted"), ("128 sorted", "32 sorted")):
                beside = f" beside {peer_name}" if peer_name != name else ""
                found = benchmark.compare(f"batches of {name}{beside}", "embed", name, peer_name)
                if name == peer_name:
                    speeds.append(Speed(size, dtype, name, *found))
        elif what == "tokens":
            benchmark.compare("tokenizing", "tokenize", "tokens")
        else:
            benchmark.compare("training a tagger, batches of 32", "train", "32")
            benchmark.memory()
    return speeds


def draw(speeds: list[Speed]) -> "Figure":
    """Draw the words a second of vectors: a part for each size, bars for each dtype and for AllenNLP."""
    from matplotlib.figure import Figure

    sizes = list(dict.fromkeys(speed.size for speed in speeds))
    figure = Figure(figsize=(4.2 * len(sizes), 3.4), layout="constrained")
    for size, axes in zip(sizes, figure.subplots(1, len(sizes), squeeze=False)[0], strict=True):
        draw_size(axes, [speed for speed in speeds if speed.size == size and speed.batches in DRAWN])
        axes.set_title(f"{size} size")
    return figure


def draw_size(axes: "Axes", speeds: list[Speed]) -> None:
    """Draw the bars of one size."""
    named = {f"elmo_hf, {dtype}": (dtype, "mine") for dtype in dict.fromkeys(speed.dtype for speed in speeds)}
    if speeds[0].theirs:
        named["AllenNLP, float32"] = ("float32", "theirs")
    colors = dict(zip(named, (DOT, "#56B4E9", QUERY) if len(named) > 2 else (DOT, QUERY), strict=False))
    for place, (label, (dtype, side)) in enumerate(named.items()):
        own = [speed for speed in speeds if speed.dtype == dtype]
        starts = [number + (place - (len(named) - 1) / 2) * 0.27 for number in range(len(own))]
        bars = axes.bar(starts, [getattr(speed, side) for speed in own], 0.25, label=label, color=colors[label])
        axes.bar_label(bars, fmt="{:,.0f}", fontsize=6)
    axes.set_xticks(range(len(DRAWN)), [name.replace(" ", "\n") for name in DRAWN])
    axes.set_xlabel("sentences in a batch")
    axes.set_ylabel("words per second")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)


if __name__ == "__main__":
    main()
