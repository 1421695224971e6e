"""Find the last complete checkpoint of a training, and check what it holds."""

import json
import logging
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from elmo_hf.errors import ElmoError


# Trainer writes this file last, so an interrupted save lacks it
TRAINER_STATE_FILE = "trainer_state.json"

logger = logging.getLogger(__name__)


def last_checkpoint(folder: str | Path) -> Path | None:
    """Return the last complete checkpoint in a folder, or `None`; warn about damaged ones that it skips."""
    steps = {
        int(found[1]): path
        for path in Path(folder).glob(f"{PREFIX_CHECKPOINT_DIR}-*")
        if (found := re.fullmatch(r".*-(\d+)", path.name)) and path.is_dir()
    }
    for step in sorted(steps, reverse=True):
        damage = find_damage(steps[step])
        if damage is None:
            return steps[step]
        logger.warning("%s is passed over: its %s.", steps[step], damage)
    return None


def find_damage(checkpoint: Path) -> str | None:
    """Return which file of a checkpoint is missing or damaged, by quick checks; `None` if it is complete."""
    state = checkpoint / TRAINER_STATE_FILE
    try:
        json.loads(state.read_bytes())
    except FileNotFoundError:
        return f"{state.name} is missing"
    except (OSError, ValueError):
        return f"{state.name} is damaged"
    for file in sorted(checkpoint.iterdir()):
        # torch.save writes zip files, whose list of contents comes last
        damaged = file.suffix in (".pt", ".pth") and not zipfile.is_zipfile(file)
        if file.suffix == ".safetensors":
            try:
                read_shapes(file)
            except (OSError, SafetensorError):
                damaged = True
        if damaged:
            return f"{file.name} is damaged"
    return None


def check_shapes(file: Path, expected: Mapping[str, Sequence[int]], advice: str) -> None:
    """Compare the shapes in a file of a checkpoint with those that the training needs.

    Args:
        file: A safetensors file.
        expected: The shapes by name; names that only one side has are not compared.
        advice: The remedy, for the message of an error.

    Raises:
        ElmoError: If a shape differs.
    """
    for name, shape in read_shapes(file).items():
        wanted = tuple(expected.get(name, shape))
        if wanted != shape:
            raise ElmoError(f"{file} is of another training ({name} is {shape} there and {wanted} here): {advice}.")


def read_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes in a safetensors file by name; safetensors checks the size of the file."""
    with safe_open(file, "pt") as stored:
        return {name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118 - no dict


__all__ = ["check_shapes", "find_damage", "last_checkpoint", "read_shapes"]
