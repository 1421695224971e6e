"""What the benchmarks of tasks share: errors of one line, options within bounds, and results that a file keeps."""

import argparse
import hashlib
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmo_hf.bundled import model_folder
from elmo_hf.embedding.engines import digest_of_model
from elmo_hf.errors import ElmoError, one_line


class Kept(NamedTuple):
    """A result in the file of a run."""

    settings: str
    row: str
    seed: int
    score: float


class KeptScores:
    """The scores of trainings in a file, so that a run that was ended goes on where it was.

    The file has a line of JSON for each training. A line that was cut off is dropped, and that training done again.
    Scores with other settings, other data or another model stay in the file and are not used.

    Args:
        path: The file; it is made by the first score.

    Raises:
        ElmoError: If the file is none of a run, or its folder does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise ElmoError(f"{path} cannot be a file of results: name a file in a folder that exists.")
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        self.whole_bytes = sum(len(line) for line in lines if line.endswith(b"\n"))
        try:
            self.scores = [Kept(**json.loads(line)) for line in lines if line.endswith(b"\n")]
        except (ValueError, TypeError) as error:
            raise ElmoError(f"{path} is no file of results: name another one.") from error
        if lines and not self.whole_bytes and not lines[0].startswith(b'{"settings"'[: len(lines[0])]):
            raise ElmoError(f"{path} is no file of results: name another one.")

    def find(self, settings: str, row: str, seeds: int) -> dict[int, float]:
        """Return the scores of a row that are there, by seed, below `seeds`."""
        return {
            kept.seed: kept.score for kept in self.scores if kept[:2] == (settings, row) and kept.seed in range(seeds)
        }

    def add(self, settings: str, row: str, seed: int, score: float) -> None:
        """Write the score of a training."""
        kept = Kept(settings, row, seed, score)
        with self.path.open("r+b" if self.path.exists() else "xb") as file:
            file.truncate(self.whole_bytes)
            file.seek(self.whole_bytes)
            self.whole_bytes += file.write(json.dumps(kept._asdict()).encode() + b"\n")
        self.scores.append(kept)

    def complete(self, settings: str, row: str, seeds: int, train: Callable[[int], float]) -> list[float]:
        """Return the scores of a row, one a seed; a seed without one is trained, and its score written."""
        for seed in sorted({*range(seeds)} - {*self.find(settings, row, seeds)}):
            self.add(settings, row, seed, train(seed))
        found = self.find(settings, row, seeds)
        return [found[seed] for seed in range(seeds)]


def settings_of(options: argparse.Namespace, sets: Any, without: Sequence[str]) -> str:
    """Return a digest of what a score depends on beside its row and seed.

    Args:
        options: The options.
        sets: The data, which JSON can hold.
        without: The options that no score depends on.
    """
    given = {name: value for name, value in sorted(vars(options).items()) if name not in without}
    folder = model_folder(options.model)
    given["model"] = digest_of_model(folder) if folder.is_dir() else options.model
    return hashlib.sha256(json.dumps([given, sets], default=str).encode()).hexdigest()[:16]


def mean_and_deviation(scores: Sequence[float]) -> tuple[float, float]:
    """Return the mean of what the seeds reached, and its standard deviation, which is 0 of one seed."""
    return statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else 0.0


def check_settings(folder: Path, settings: Sequence[str]) -> None:
    """Make a folder of results, or refuse one whose results have other settings.

    Args:
        folder: The folder; `settings.json` in it has the settings.
        settings: What all of its results depend on.

    Raises:
        ElmoError: If the folder has the results of other settings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, text = folder / "settings.json", json.dumps(settings, indent=1)
    if not path.exists():
        path.write_text(text, encoding="utf-8")
    elif path.read_text(encoding="utf-8") != text:
        raise ElmoError(f"{folder} has results of other settings, which {path} names: give another --work.")


def share(text: str) -> float:
    """Read a share, such as 0.1: above 0, and 1 at most."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share: give a number above 0, and 1 at most")
    return value


def run(main: Callable[[], None]) -> None:
    """Run a script; an input that it cannot use ends it with one line, and an interruption with another."""
    name = Path(sys.argv[0]).name
    try:
        main()
    except (ElmoError, OSError, UnicodeError) as error:
        sys.exit(f"{name}: error: {one_line(error)}")
    except KeyboardInterrupt:
        sys.exit(f"{name}: interrupted")
