"""What a script of `examples/` reaches: the same training with several seeds, on the whole training set or a part.

    python benchmarks/script_results.py finetune_qa.py train.json dev.json test.json --metrics exact_match f1 \
        --work runs/elmo -- --mix-at both --epochs 6
    python benchmarks/script_results.py finetune_srl.py train.jsonl dev.jsonl test.jsonl --part 0.1 \
        --work runs/none -- --without-elmo --word-vectors-dim 100

What follows `--` goes to the script. A part is made of random lines of JSON lines, or of random paragraphs of SQuAD's
JSON, the same for all seeds. Prints the scores of each seed on the test set, and their mean and standard deviation, in
percent. A seed whose scores are in the work folder is not trained again; a training that was ended goes on.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from shared import check_settings, mean_and_deviation, run, share

from elmo_hf.data.corpus import read_lines
from elmo_hf.errors import ElmoError, one_line
from elmo_hf.training.finetuning_options import at_least


EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    """Return the options of this script, and those of the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", help="the name of a script in examples/")
    parser.add_argument("files", nargs=3, type=Path, help="train, dev and test")
    parser.add_argument("--metrics", nargs="+", default=["f1"], help="as the script names them (default: f1)")
    parser.add_argument("--part", type=share, default=1.0, help="share of the training set (default: all of it)")
    parser.add_argument("--seeds", type=at_least(1), default=3, help="trainings, each with its own seed (default: 3)")
    parser.add_argument("--threads", type=at_least(1), default=1, help="threads of the CPU (default: 1)")
    parser.add_argument("--work", type=Path, required=True, help="folder of the trained models")
    own, others = sys.argv[1:], []
    if "--" in own:
        own, others = own[: own.index("--")], own[own.index("--") + 1 :]
    return parser.parse_args(own), others


def take_part(data: Any, part: float) -> Any:
    """Return a random part of the lines of a file, or of the paragraphs of SQuAD's JSON.

    Args:
        data: A list of lines, or the object of SQuAD's JSON.
        part: Their share.
    """
    choose = random.Random(0)
    if isinstance(data, list):
        return choose.sample(data, max(1, round(part * len(data))))
    paragraphs = [
        {"title": article.get("title", ""), "paragraphs": [paragraph]}
        for article in data["data"]
        for paragraph in article["paragraphs"]
    ]
    return {**data, "data": choose.sample(paragraphs, max(1, round(part * len(paragraphs))))}


def write_part(source: Path, part: float, folder: Path) -> Path:
    """Write a part of a training set to a folder, and return the file.

    Raises:
        ElmoError: If it is none of the two kinds of JSON, or would be overwritten.
    """
    path = folder / ("train.jsonl" if ".jsonl" in source.name else "train.json")
    if path.resolve() == source.resolve():
        raise ElmoError(f"{source} would be overwritten by a part of it: give another --work.")
    lines = list(read_lines(str(source)))
    if path.suffix == ".jsonl":
        text = "".join(f"{line}\n" for line in take_part(lines, part))
    else:
        try:
            text = json.dumps(take_part(json.loads("\n".join(lines)), part))
        except (ValueError, TypeError, LookupError) as error:
            raise ElmoError(f"{source} is neither JSON lines nor SQuAD's JSON ({one_line(error)}).") from error
    path.write_text(text, encoding="utf-8")
    return path


def run_seed(options: argparse.Namespace, train: Path, others: list[str], seed: int) -> dict[str, float]:
    """Train with a seed, unless that is done, and return the scores on the test set by name, in percent."""
    output = options.work / f"seed-{seed}"
    results = output / "test_results.json"
    if not results.exists():
        _, dev, test = options.files
        command = [sys.executable, EXAMPLES / options.script, train, "--dev", dev, "--test", test, "--output", output]
        command += ["--seed", str(seed), "--threads", str(options.threads), "--resume", *others]
        with (options.work / f"seed-{seed}.log").open("a", encoding="utf-8") as log:
            done = subprocess.run([*map(str, command)], check=False, stdout=log, stderr=log)
        if done.returncode:
            raise ElmoError(f"{options.script} failed: read the end of {log.name}.")
    try:
        scores = json.loads(results.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ElmoError(f"{results} is damaged ({one_line(error)}): delete it.") from error
    if unknown := [name for name in options.metrics if f"test_{name}" not in scores]:
        known = [name.removeprefix("test_") for name in scores if name.startswith("test_")]
        raise ElmoError(f"{options.script} reports no {unknown[0]!r}: choose --metrics among {', '.join(known)}.")
    return {name: 100 * scores[f"test_{name}"] for name in options.metrics}


def main() -> None:
    """Train with each seed and report."""
    options, others = parse_arguments()
    if not (EXAMPLES / options.script).is_file():
        known = ", ".join(path.name for path in sorted(EXAMPLES.glob("finetune_*.py")))
        raise ElmoError(f"There is no script {options.script!r}: choose one of {known}.")
    check_settings(options.work, [options.script, *map(str, options.files), f"{options.part:g}", *others])
    train = options.files[0]
    if options.part < 1:
        train = write_part(train, options.part, options.work)
    print(f"{options.script} {options.files[0].name}, part {options.part:g}: {' '.join(others)}", flush=True)
    rows = []
    for seed in range(options.seeds):
        start = time.perf_counter()
        rows.append(run_seed(options, train, others, seed))
        shown = ", ".join(f"{name} {value:.2f}" for name, value in rows[-1].items())
        print(f"seed {seed}: {shown}, {time.perf_counter() - start:.0f} s", flush=True)
    for name in options.metrics:
        values = [row[name] for row in rows]
        mean, spread = mean_and_deviation(values)
        print(f"{name}: mean {mean:.2f} standard deviation {spread:.2f}", flush=True)


if __name__ == "__main__":
    run(main)
