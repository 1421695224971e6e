"""The finished parts of a corpus, kept on disk until they are joined in one file, so that a run can be resumed.

Shape notation: `N` rows, one for each word of the sentences in turn, or one for each sentence if they are pooled; `H`
width of a vector, or `L + 1` layers and the width.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from elmo_hf.errors import ElmoError
from elmo_hf.files import naming_errors, new_file
from elmo_hf.manifest import check_manifest, write_manifest

from .sentences import Sentence


# bytes of a file name that leave room for a prefix and a suffix
LONGEST_NAME = 200


class Part(NamedTuple):
    """Consecutive sentences of a corpus and their vectors.

    Attributes:
        texts: The text of each sentence.
        words: The words of each sentence.
        vectors: `[N, H]` or `[N, L + 1, H]`.
        pooled: Whether there is one row for each sentence instead of each word.
    """

    texts: list[str]
    words: list[list[str]]
    vectors: torch.Tensor
    pooled: bool

    def row_counts(self) -> list[int]:
        """Return the number of rows of each sentence."""
        return [1 if self.pooled else len(words) for words in self.words]

    def arrays(self) -> Iterator[torch.Tensor]:
        """Yield the vectors of each sentence as files hold them: `[H]` or `[L + 1, H]` if pooled, else with words.

        With words they are `[words, H]` or `[L + 1, words, H]`.
        """
        for rows in self.vectors.split(self.row_counts()):
            if self.pooled:
                yield rows[0]
            else:
                yield rows.transpose(0, 1).contiguous() if rows.ndim == 3 else rows


class UnfinishedPart(NamedTuple):
    """A part that is not on disk yet: the path to write it to, and its sentences."""

    path: Path
    sentences: list[Sentence]


class PartsFolder:
    """The hidden folder `.NAME.parts` beside an output file.

    It holds the manifest of the run, `job.json`; the finished parts, `00000000.safetensors` and so on; and in the end,
    in the folder `whole`, the files of the output until they are moved to their places.

    Args:
        output: The file that the parts are for.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        name = output.name
        if not name.isprintable() or len(os.fsencode(name)) > LONGEST_NAME:
            name = hashlib.sha256(os.fsencode(name)).hexdigest()
        self.folder = output.with_name(f".{name}.parts")
        self.manifest_path = self.folder / "job.json"
        self.whole = self.folder / "whole"

    @contextmanager
    def opened(self, manifest: Mapping[str, str], *, resume: bool) -> Iterator[None]:
        """Create the folder, and delete it when the block ends; if the block fails, keep it if it has parts.

        Args:
            manifest: What determines the vectors, of which all but `model`, the folder's name, must be as they were.
            resume: Whether the folder may exist, of an interrupted run.

        Raises:
            ElmoError: If the folder exists and `resume` is false, or it is of another run.
        """
        self._prepare(manifest, resume=resume)
        try:
            yield
        except BaseException:
            if not any(self.folder.glob("*.safetensors")):
                shutil.rmtree(self.folder, ignore_errors=True)
            raise
        # first, so that a folder that is only half deleted is not taken for an interrupted run
        self.manifest_path.unlink()
        shutil.rmtree(self.folder)

    def _prepare(self, manifest: Mapping[str, str], *, resume: bool) -> None:
        if self.folder.exists() and not self.manifest_path.exists():
            # left by a run that was stopped while it created or deleted the folder
            shutil.rmtree(self.folder)
        if self.folder.exists() and not resume:
            raise ElmoError(
                f"{self.folder} is of a run that was interrupted, or is not done yet: resume it, or delete that "
                "folder, once no run writes there."
            )
        with naming_errors(self.manifest_path):
            self.folder.mkdir(exist_ok=True)
        if not self.manifest_path.exists():
            write_manifest(self.manifest_path, manifest)
        # a model may be moved between the runs
        lasting = {name: value for name, value in manifest.items() if name != "model"}
        check_manifest(self.manifest_path, lasting, remedy="ask for the same, or delete that folder")

    def path_of(self, number: int) -> Path:
        """Return the path of a part, counted from 0."""
        return self.folder / f"{number:08}.safetensors"

    def has_output(self) -> bool:
        """Tell whether the files of the output are all written, though perhaps not all in their places."""
        return self.whole.exists()

    @contextmanager
    def new_output(self) -> Iterator[Path]:
        """Yield a folder to write the files of the output to; they count as written when the block ends."""
        with naming_errors(self.output), tempfile.TemporaryDirectory(dir=self.folder) as temporary:
            yield Path(temporary)
            Path(temporary).rename(self.whole)
            # TemporaryDirectory deletes the folder of that name
            Path(temporary).mkdir()

    def publish_output(self) -> None:
        """Move the files of the output to their places."""
        with naming_errors(self.output):
            # the requested file last: when it is there, the files that belong to it are, too
            for path in sorted(self.whole.iterdir(), key=lambda path: path.name == self.output.name):
                path.replace(self.output.with_name(path.name))


def is_done(path: Path, sentences: Sequence[Sentence]) -> bool:
    """Tell whether a part is on disk and whole; delete a damaged one.

    Raises:
        ElmoError: If it is of other sentences.
    """
    if not path.exists():
        return False
    try:
        with safe_open(path, framework="pt") as file:
            known = file.metadata()["sentences"]
    except SafetensorError:
        # the power failed before the disk had all of it
        path.unlink()
        return False
    if known != hashlib.sha256(_as_json(sentences)).hexdigest():
        raise ElmoError(
            f"{path.parent} is of a run with other sentences, from its part {int(path.stem):,} on: give the same "
            "ones, or delete that folder."
        )
    return True


def save_part(path: Path, part: Part) -> None:
    """Write a part; the file appears when it is whole.

    Raises:
        ElmoError: If it cannot be written.
    """
    sentences = _as_json(list(zip(part.texts, part.words, strict=True)))
    tensors = {"vectors": part.vectors, "lines": torch.frombuffer(bytearray(sentences), dtype=torch.uint8)}
    metadata = {"sentences": hashlib.sha256(sentences).hexdigest(), "pooled": str(part.pooled)}
    with new_file(path) as temporary, naming_errors(path):
        save_file(tensors, temporary, metadata=metadata)


def read_part(path: Path) -> Part:
    """Read a part that `save_part` wrote."""
    with safe_open(path, framework="pt") as file:
        sentences = json.loads(file.get_tensor("lines").numpy().tobytes())
        texts, words = [text for text, _ in sentences], [words for _, words in sentences]
        return Part(texts, words, file.get_tensor("vectors"), pooled=file.metadata()["pooled"] == "True")


def save_sentences(part: UnfinishedPart) -> None:
    """Write the sentences of a part beside the place of the part, for another process to compute it.

    Raises:
        ElmoError: If they cannot be written.
    """
    with naming_errors(part.path):
        part.path.with_suffix(".json").write_bytes(_as_json(part.sentences))


def read_unfinished_part(path: Path) -> UnfinishedPart:
    """Read the sentences that `save_sentences` wrote for the part with this path."""
    sentences = json.loads(path.with_suffix(".json").read_bytes())
    return UnfinishedPart(path, [Sentence(*sentence) for sentence in sentences])


def _as_json(sentences: Sequence[tuple[str, Sequence[str]]]) -> bytes:
    return json.dumps(sentences).encode("ascii")


__all__ = [
    "Part",
    "PartsFolder",
    "UnfinishedPart",
    "is_done",
    "read_part",
    "read_unfinished_part",
    "save_part",
    "save_sentences",
]
