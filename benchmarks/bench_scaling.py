"""Words a second of one process and of two, one thread each: of `elmo-hf embed`, or of training a language model.

    python benchmarks/bench_scaling.py embed TEXT
    python benchmarks/bench_scaling.py train TEXT

The commands are those that users type. `embed` computes the text by one process; by two processes that have a half
each, as one does by hand; and by Ray, where it is installed, with one worker and with two. It shows the time of a
whole command, and beside it that of the same command on one sentence, which is what starting takes and a large corpus
does not notice. All files of the whole text must be equal. `train` takes steps of as many words: one process two
batches a step, two processes a batch each.
"""

import argparse
import filecmp
import gzip
import itertools
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path


ROOT = Path(__file__).resolve().parents[1]
EMBED = (str(Path(sys.executable).with_name("elmo-hf")), "embed")
PROCESSES = (1, 2)


def run(*commands: Sequence[str]) -> tuple[float, str]:
    """Run commands side by side, one thread each; give the seconds until all are done, and what the last printed."""
    begin = time.perf_counter()
    running = [
        subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
    printed = [process.communicate()[0] for process in running]
    seconds = time.perf_counter() - begin
    for command, process, text in zip(commands, running, printed, strict=True):
        if process.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{text}")
    return seconds, printed[-1]


def embed(options: argparse.Namespace, lines: list[str], folder: Path) -> None:
    """Measure `elmo-hf embed`, and print a table."""
    (folder / "whole.txt").write_text("".join(lines), encoding="utf-8")
    (folder / "line.txt").write_text(lines[0], encoding="utf-8")
    for number, half in enumerate((lines[::2], lines[1::2])):
        (folder / f"half{number}.txt").write_text("".join(half), encoding="utf-8")
    common = ("--tokenized", "--model", options.model, "--threads", "1")

    def command(source: str, output: str, *more: str) -> list[str]:
        return [*EMBED, str(folder / source), "--output", str(folder / f"{output}.npy"), *common, *more]

    # for each way its processes: the text that each reads, and options
    ways = {"one process": [["whole.txt"]], "two processes, a half each": [["half0.txt"], ["half1.txt"]]}
    if find_spec("ray"):
        ways |= {f"Ray, workers: {n}": [["whole.txt", "--engine", "ray", "--workers", str(n)]] for n in PROCESSES}
    words = sum(len(line.split()) for line in lines)
    print(f"{'':28}{'seconds':>9}{'to start':>9}{'words/s':>9}{'without start':>15}")
    for number, (name, inputs) in enumerate(ways.items()):
        parts = list(enumerate(inputs))
        start, _ = run(*(command("line.txt", f"{number}-{part}-line", *more) for part, (_, *more) in parts))
        seconds, _ = run(*(command(source, f"{number}-{part}", *more) for part, (source, *more) in parts))
        # on a busy machine a short text may take no longer than one sentence
        rest = f"{words / (seconds - start):,.0f}" if seconds > start else "-"
        speeds = f"{words / seconds:>9,.0f}{rest:>15}"
        print(f"{name:28}{seconds:>9.1f}{start:>9.1f}{speeds}", flush=True)
        if len(inputs) == 1 and not filecmp.cmp(folder / "0-0.npy", folder / f"{number}-0.npy", shallow=False):
            sys.exit(f"{name} wrote another file than one process")


def train(options: argparse.Namespace, lines: list[str], folder: Path) -> None:
    """Measure `examples/pretrain.py`, and print a table."""
    (folder / "text.txt").write_text("".join(lines), encoding="utf-8")
    print(f"{'':28}{'words/s':>9}")
    for processes in PROCESSES:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        arguments = ["--model", options.model, "--steps", options.steps, "--log-steps", options.steps, "--threads", 1]
        arguments += ["--accumulate", PROCESSES[-1] // processes, "--output", folder / f"of-{processes}"]
        script = [str(ROOT / "examples" / "pretrain.py"), str(folder / "text.txt"), "--tokenized"]
        _, printed = run([*(launcher if processes > 1 else launcher[:1]), *script, *map(str, arguments)])
        speed = re.findall(r"words/s ([\d,]*\d)", printed)
        if not speed:
            sys.exit(f"no speed in\n{printed}")
        print(f"{f'processes: {processes}':28}{speed[-1]:>9}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("embed", "train"))
    parser.add_argument("text", type=Path, help="a tokenised sentence a line, plain or .gz")
    parser.add_argument("--model", default="elmo-small-en", help="a folder, or elmo-small-en")
    parser.add_argument("--sentences", type=int, default=12000, help="how many of the text are taken")
    parser.add_argument("--steps", type=int, default=30, help="of a training")
    options = parser.parse_args()
    opener = gzip.open if options.text.suffix == ".gz" else open
    with opener(options.text, "rt", encoding="utf-8") as file:
        lines = list(itertools.islice((line for line in file if line.strip()), options.sentences))
    words = sum(len(line.split()) for line in lines)
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; one thread a process")
    packages = ("elmo_hf", "transformers", "torch", *(["ray"] if find_spec("ray") else []))
    print(f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in packages))
    print(f"{options.text.name}: {len(lines):,} sentences, {words:,} words; {options.model}")
    with tempfile.TemporaryDirectory() as folder:
        (embed if options.what == "embed" else train)(options, lines, Path(folder))


if __name__ == "__main__":
    main()
