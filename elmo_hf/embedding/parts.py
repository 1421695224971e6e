"""The finished parts of a corpus, on disk until all of them are one file, so that an interrupted run can go on.

Shape notation: `N` rows, which are the words of all sentences one after the other, or one a sentence where they are
pooled; `H` width of a vector, or `L + 1` layers and the width.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from elmo_hf.errors import ElmoError
from elmo_hf.files import naming_errors, new_file


# bytes of a name that leave room for what is put around it
LONGEST_NAME = 200


class Line(NamedTuple):
    """A sentence as it stands in a file, and its words."""

    text: str
    words: list[str]


class Part(NamedTuple):
    """Consecutive sentences of a corpus and their vectors.

    Attributes:
        texts: Each sentence as it was given; words that were given are joined by spaces.
        words: The words of each.
        vectors: `[N, H]` or `[N, L + 1, H]`.
        pooled: Whether each sentence has one row, not one for each word.
    """

    texts: list[str]
    words: list[list[str]]
    vectors: torch.Tensor
    pooled: bool

    def rows(self) -> list[int]:
        """Count the rows of each sentence."""
        return [1 if self.pooled else len(words) for words in self.words]

    def arrays(self) -> Iterator[torch.Tensor]:
        """Give each sentence's vectors as a file holds them: `[words, H]`, `[L + 1, words, H]`, or without words."""
        for rows in self.vectors.split(self.rows()):
            if self.pooled:
                yield rows[0]
            else:
                yield rows.transpose(0, 1).contiguous() if rows.ndim == 3 else rows


def parts_folder(output: Path) -> Path:
    """Name the folder of the finished parts of a file."""
    name = output.name
    if not name.isprintable() or len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return output.with_name(f".{name}.parts")


@contextmanager
def working_in(folder: Path, about: dict[str, str], *, resume: bool) -> Iterator[None]:
    """Hold the folder of parts until the block ends; after an error, if there are any."""
    job = folder / "job.json"
    if folder.exists() and not job.exists():
        # of a run that was stopped while it made the folder, or took it away
        shutil.rmtree(folder)
    if folder.exists() and not resume:
        raise ElmoError(
            f"{folder} is of a run that was interrupted, or is not done yet: resume it, or delete that folder, once "
            "no run writes there."
        )
    with naming_errors(job):
        folder.mkdir(exist_ok=True)
        if not job.exists():
            with new_file(job) as temporary:
                temporary.write_text(json.dumps(about), encoding="utf-8")
        known = json.loads(job.read_text(encoding="utf-8"))
    # where the same model lies does not matter
    different = [
        f"{name}: {known.get(name)} then, {value} now"
        for name, value in about.items()
        if known.get(name) != value and name != "model"
    ]
    if different:
        raise ElmoError(
            f"{folder} is of another run ({'; '.join(different)}): ask for the same, or delete that folder."
        )
    try:
        yield
    except BaseException:
        if not any(folder.glob("*.safetensors")):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    job.unlink()
    shutil.rmtree(folder)


def is_done(path: Path, lines: Sequence[Line]) -> bool:
    """Tell whether a part is there and whole.

    Raises:
        ElmoError: If it is of other sentences.
    """
    if not path.exists():
        return False
    try:
        with safe_open(path, framework="pt") as file:
            known = file.metadata()["sentences"]
    except SafetensorError:
        # the power failed before it was on the disk
        path.unlink()
        return False
    if known != hashlib.sha256(_as_json(lines)).hexdigest():
        raise ElmoError(
            f"{path.parent} is of a run with other sentences, from its part {int(path.stem):,} on: give the same "
            "ones, or delete that folder."
        )
    return True


def save_part(path: Path, part: Part) -> None:
    """Write a part; it appears when it is whole."""
    lines = _as_json(list(zip(part.texts, part.words, strict=True)))
    tensors = {"vectors": part.vectors, "lines": torch.frombuffer(bytearray(lines), dtype=torch.uint8)}
    about = {"sentences": hashlib.sha256(lines).hexdigest(), "pooled": str(part.pooled)}
    with new_file(path) as temporary, naming_errors(path):
        save_file(tensors, temporary, metadata=about)


def read_part(path: Path) -> Part:
    """Read what `save_part` wrote."""
    with safe_open(path, framework="pt") as file:
        lines = json.loads(file.get_tensor("lines").numpy().tobytes())
        texts, words = [text for text, _ in lines], [words for _, words in lines]
        return Part(texts, words, file.get_tensor("vectors"), pooled=file.metadata()["pooled"] == "True")


def save_lines(path: Path, lines: Sequence[Line]) -> None:
    """Write the sentences of a part that is to be at a path, for another process to compute it."""
    with naming_errors(path):
        path.with_suffix(".json").write_bytes(_as_json(lines))


def read_lines_of(path: Path) -> list[Line]:
    """Read what `save_lines` wrote."""
    return [Line(*line) for line in json.loads(path.with_suffix(".json").read_bytes())]


def _as_json(lines: Sequence[tuple[str, Sequence[str]]]) -> bytes:
    return json.dumps(lines).encode("ascii")


__all__ = [
    "Line",
    "Part",
    "is_done",
    "parts_folder",
    "read_lines_of",
    "read_part",
    "save_lines",
    "save_part",
    "working_in",
]
