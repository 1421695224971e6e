"""How much text an ELMo needs: a task's score against the words of the text that the language model was trained on.

    python benchmarks/text_curve.py text.gz --texts 30000x20 300000x8 --task tags.conll --head linear --work curve

Takes sentences at random, as many words of each file, so that the smaller texts are parts of the larger ones. For
each size it builds a vocabulary, trains an ELMo of 3 million parameters with examples/pretrain.py, and runs
task_results.py on it. The last row is the same head without ELMo. `30000x20` is 30,000 words, read 20 times: read
small texts more often. `--work` keeps what is finished: run the command again to go on, or with another task.
"""

import argparse
import hashlib
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from shared import check_settings, run, share
from task_results import check_files, read_sets

from elmo_hf.data.corpus import read_sentences
from elmo_hf.errors import ElmoError, counted
from elmo_hf.files import new_file
from elmo_hf.training.finetuning_options import at_least


HERE = Path(__file__).parent
WORDS_PER_BATCH = 1536
# a word of the vocabulary occurs at least so often, by the number of words of the text
MIN_COUNTS = {0: 2, 200_000: 3, 1_000_000: 5}
# the text has spaces between all words
CUT = "--tokenized"
MEAN = re.compile(r"^mean (.*)", re.MULTILINE)


class Text(NamedTuple):
    """A part of the text, and the folder that holds it and the model that is trained on it."""

    words: int
    epochs: float
    folder: Path

    @property
    def file(self) -> Path:
        """The sentences, one a line."""
        return self.folder / "text.txt"

    @property
    def model(self) -> Path:
        """The folder of the model."""
        return self.folder / "elmo"


def size(text: str) -> tuple[int, float]:
    """Read `30000x20` as 30,000 words that are read 20 times."""
    words, epochs = text.split("x")
    return int(at_least(1)(words)), at_least(0.0, above=True)(epochs)


def cut_texts(options: argparse.Namespace) -> list[Text]:
    """Write the text of each size, if an earlier run has not."""
    texts = [Text(words, epochs, options.work / str(words)) for words, epochs in sorted(options.texts)]
    if all(text.file.is_file() for text in texts):
        return texts
    # as many words of each file
    sentences = list(mix([list(read_sentences(file)) for file in options.files], texts[-1].words))
    for text in texts:
        ends = accumulate(len(words) for words in sentences)
        number = next(place for place, end in enumerate(ends, start=1) if end >= text.words)
        text.folder.mkdir(exist_ok=True)
        if not text.file.exists():
            with new_file(text.file) as temporary:
                temporary.write_text("".join(" ".join(words) + "\n" for words in sentences[:number]), encoding="utf-8")
    return texts


def mix(files: Sequence[list[list[str]]], most: int) -> Iterator[list[str]]:
    """Take sentences at random, about the same number of words of each file, until there are enough words."""
    rng, total = random.Random(0), 0
    for sentences in files:
        rng.shuffle(sentences)
    taken, places = [0] * len(files), [0] * len(files)
    while total < most:
        left = [file for file, sentences in enumerate(files) if places[file] < len(sentences)]
        if not left:
            raise ElmoError(f"The files have {counted(total, 'word')}, not {most:,}: ask for fewer.")
        file = min(left, key=lambda file: taken[file])
        words = files[file][places[file]]
        places[file] += 1
        taken[file] += len(words)
        total += len(words)
        yield words


def train(text: Text, options: argparse.Namespace) -> None:
    """Build the vocabulary and train the model, if an earlier run has not."""
    vocabulary = text.folder / "vocab.txt"
    min_count = max((words, count) for words, count in MIN_COUNTS.items() if words <= text.words)[1]
    if not vocabulary.exists():
        build = ["-m", "elmo_hf.cli", "build-vocab", text.file, "--output", vocabulary]
        run_python([*build, "--min-count", min_count, CUT])
    heldout = ["--heldout", *options.heldout] if options.heldout else []
    command = [HERE.parent / "examples" / "pretrain.py", text.file, "--vocab", vocabulary, "--output", text.model]
    numbers = {
        "epochs": text.epochs,
        "words-per-batch": WORDS_PER_BATCH,
        "negatives": 1024,
        "threads": options.threads,
    }
    settings = [part for name, number in numbers.items() for part in (f"--{name}", number)]
    print(run_python([*command, *heldout, *settings, CUT, "--pre-tokenizer", "moses", "--resume"])[-300:], flush=True)


def measure(options: argparse.Namespace, model: Sequence[Any], kept: Path) -> str:
    """Return the score of the task, from an earlier run if there is one."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not kept.exists():
        task = ["--head", options.head, "--part", options.part, "--epochs", options.task_epochs]
        task += ["--learning-rate", "3e-3", "--seeds", options.seeds, "--threads", options.threads]
        scores = run_python([HERE / "task_results.py", *options.task, *task, *model])
        with new_file(kept) as temporary:
            temporary.write_text(scores)
    return MEAN.findall(kept.read_text())[-1]


def run_python(command: Sequence[Any]) -> str:
    """Run Python and return what it prints; an error ends this script."""
    done = subprocess.run([sys.executable, *map(str, command)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def main() -> None:
    """Train a model on each size of text, measure the task, and print a row for each."""
    parser = argparse.ArgumentParser(description="Measure how a task depends on the text of the language model.")
    parser.add_argument("files", nargs="+", help="tokenised text, one sentence a line")
    parser.add_argument("--texts", nargs="+", type=size, required=True, metavar="WORDSxEPOCHS", help="sizes of text")
    parser.add_argument("--heldout", nargs="*", default=[], help="text to measure perplexity on")
    parser.add_argument("--task", nargs="+", required=True, help="the files of task_results.py")
    parser.add_argument("--head", required=True, help="linear, bilstm-crf, mean, max, bcn or esim")
    parser.add_argument("--part", type=share, default=1.0, help="share of the task's training set that is used")
    parser.add_argument("--task-epochs", type=at_least(1), default=20)
    parser.add_argument("--seeds", type=at_least(1), default=3)
    parser.add_argument("--threads", type=at_least(1), default=1)
    parser.add_argument("--work", type=Path, required=True, help="folder for texts, models and results")
    options = parser.parse_args()
    if len({words for words, _ in options.texts}) < len(options.texts):
        parser.error("each of --texts needs a size of its own")
    check_files(parser, options.task)
    # what is wrong with the task is said before a language model is trained
    read_sets(options.task, options.head)
    check_settings(options.work, [*options.files, *(f"{words}x{epochs:g}" for words, epochs in sorted(options.texts))])
    # the scores of other tasks and trainings have other names
    given = [*options.task, options.head, options.part, options.task_epochs, options.seeds]
    digest = hashlib.sha256(repr(given).encode()).hexdigest()[:8]
    name = f"{Path(options.task[0]).name}-{options.head}-{digest}.txt"
    rows = []
    for text in cut_texts(options):
        train(text, options)
        rows.append((f"{text.words:,}", measure(options, ["--model", text.model], text.folder / name)))
        print(*rows[-1], flush=True)
    rows.append(("without ELMo", measure(options, ["--without-elmo"], options.work / name)))
    print("words of text | score in percent")
    for row in rows:
        print(*row, sep=" | ")


if __name__ == "__main__":
    run(main)
