"""The finished parts of a corpus, kept on disk until they are joined in one file, so that a run can be resumed.

Shape notation: `N` rows, one for each word of the sentences in turn, or one for each sentence if they are pooled; `H`
width of a vector, or `L + 1` layers and the width.
"""

import hashlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from elmo_hf.errors import ElmoError
from elmo_hf.files import naming_errors, new_file, refuse_existing
from elmo_hf.manifest import check_manifest, write_manifest

from .sentences import Sentence


# bytes of a file name that leave room for a prefix and a suffix
LONGEST_NAME = 200
# the files in the folder that keep other runs out, and say which process does
LOCK, OWNER = "lock", "owner.txt"


class Part(NamedTuple):
    """Consecutive sentences of a corpus and their vectors.

    Attributes:
        sentences: The sentences.
        vectors: `[N, H]` or `[N, L + 1, H]`.
        pooled: Whether there is one row for each sentence instead of each word.
    """

    sentences: list[Sentence]
    vectors: torch.Tensor
    pooled: bool

    def names(self, first: int) -> list[str]:
        """Return the name of each sentence's array: its key, or its number in the corpus, counted on from `first`."""
        numbers = enumerate(self.sentences, start=first)
        return [str(number) if sentence.key is None else sentence.key for number, sentence in numbers]

    def row_counts(self) -> list[int]:
        """Return the number of rows of each sentence."""
        return [1 if self.pooled else len(sentence.words) for sentence in self.sentences]

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

    It holds the manifest of the run, `job.json`; the finished parts, `00000000.safetensors` and so on; in the end, in
    the folder `whole`, the files of the output until they are moved to their places; and the lock of the run that
    writes there, which the system opens when the process ends, whatever ends it.

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
            resume: Whether the folder may have parts, of an interrupted run.

        Raises:
            ElmoError: If another run writes to the folder; if it has parts and `resume` is false, or they are of
                another run; or if the output exists.
        """
        with self._locked():
            try:
                self._prepare(manifest, resume=resume)
                yield
            except BaseException:
                if not self._has_parts():
                    shutil.rmtree(self.folder, ignore_errors=True)
                raise
            # first, so that a folder that is only half deleted is not taken for an interrupted run
            self.manifest_path.unlink()
            # another run may be about to create its lock in the folder
            shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other runs out of the folder until the block ends, or this process."""
        lock, owner = FileLock(self.folder / LOCK, timeout=0), self.folder / OWNER
        with naming_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
            try:
                lock.acquire()
            except Timeout as error:
                known = owner.read_text(encoding="utf-8") if owner.exists() else "another process"
                raise ElmoError(f"{known} is writing {self.output}: wait for it, or stop it.") from error
            except NotImplementedError:
                # a file system without locks, where users look after themselves
                pass
            owner.write_text(f"Process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        try:
            yield
        finally:
            lock.release()

    def _prepare(self, manifest: Mapping[str, str], *, resume: bool) -> None:
        if not self.has_output():
            # another run may have written it since the caller looked
            refuse_existing(self.output)
        if not self.manifest_path.exists() or not self._has_parts():
            # left by a run that was stopped before its first part, or while it deleted the folder
            self._clear()
        elif not resume:
            raise ElmoError(f"{self.folder} is of a run that was interrupted: resume it, or delete that folder.")
        # what a killed run had written of the file
        for path in self.folder.iterdir():
            if path.is_dir() and path != self.whole:
                shutil.rmtree(path)
        if not self.manifest_path.exists():
            write_manifest(self.manifest_path, manifest)
        # a model may be moved between the runs
        lasting = {name: value for name, value in manifest.items() if name != "model"}
        check_manifest(self.manifest_path, lasting, remedy="ask for the same, or delete that folder")

    def _has_parts(self) -> bool:
        return any(self.folder.glob("*.safetensors"))

    def _clear(self) -> None:
        """Delete all but the lock and the name of its owner."""
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in (LOCK, OWNER):
                path.unlink()

    def path_of(self, number: int) -> Path:
        """Return the path of a part, counted from 0."""
        return self.folder / f"{number:08}.safetensors"

    def has_output(self) -> bool:
        """Tell whether the files of the output are all written, though perhaps not all in their places."""
        return self.whole.exists()

    @contextmanager
    def new_output(self) -> Iterator[Path]:
        """Yield a folder to write the files of the output to; they count as written when the block ends."""
        with ExitStack() as stack:
            # but not around the block, which may have other errors
            with naming_errors(self.output):
                temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.folder)))
            yield temporary
            with naming_errors(self.output):
                temporary.rename(self.whole)
                # TemporaryDirectory deletes the folder of that name
                temporary.mkdir()

    def publish_output(self) -> None:
        """Move the files of the output to their places.

        Raises:
            ElmoError: If another program has written one of them meanwhile; it is kept, and so are ours.
        """
        with naming_errors(self.output):
            # the requested file last: when it is there, the files that belong to it are, too
            for path in sorted(self.whole.iterdir(), key=lambda path: path.name == self.output.name):
                refuse_existing(self.output.with_name(path.name))
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
    sentences = _as_json(part.sentences)
    tensors = {"vectors": part.vectors, "lines": torch.frombuffer(bytearray(sentences), dtype=torch.uint8)}
    metadata = {"sentences": hashlib.sha256(sentences).hexdigest(), "pooled": str(part.pooled)}
    with new_file(path) as temporary, naming_errors(path):
        save_file(tensors, temporary, metadata=metadata)


def read_part(path: Path) -> Part:
    """Read a part that `save_part` wrote."""
    with safe_open(path, framework="pt") as file:
        sentences = _from_json(file.get_tensor("lines").numpy().tobytes())
        return Part(sentences, file.get_tensor("vectors"), pooled=file.metadata()["pooled"] == "True")


def save_sentences(part: UnfinishedPart) -> None:
    """Write the sentences of a part beside the place of the part, for another process to compute it.

    Raises:
        ElmoError: If they cannot be written.
    """
    with naming_errors(part.path):
        part.path.with_suffix(".json").write_bytes(_as_json(part.sentences))


def read_unfinished_part(path: Path) -> UnfinishedPart:
    """Read the sentences that `save_sentences` wrote for the part with this path."""
    return UnfinishedPart(path, _from_json(path.with_suffix(".json").read_bytes()))


def _as_json(sentences: Sequence[Sentence]) -> bytes:
    return json.dumps(sentences).encode("ascii")


def _from_json(text: bytes) -> list[Sentence]:
    return [Sentence(*sentence) for sentence in json.loads(text)]


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
