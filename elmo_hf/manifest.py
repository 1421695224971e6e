"""The manifest of a run: a JSON file of its options, which a run that resumes it must share."""

import json
from collections.abc import Mapping
from pathlib import Path

from .errors import ElmoError
from .files import naming_errors, new_file


def write_manifest(path: Path, values: Mapping[str, str]) -> None:
    """Write a manifest in place of an earlier one.

    Args:
        path: The file, in the folder of the run.
        values: The options of the run, and whatever else determines its result.

    Raises:
        ElmoError: If the file cannot be written.
    """
    with naming_errors(path):
        path.unlink(missing_ok=True)
        with new_file(path) as temporary:
            temporary.write_text(json.dumps(values, indent=1), encoding="utf-8")


def check_manifest(path: Path, values: Mapping[str, str], *, remedy: str) -> None:
    """Check that an interrupted run is the one that you want to resume.

    Args:
        path: The file, in the folder of the run.
        values: The options that the two runs must share; the manifest may hold more.
        remedy: Advice that ends the message of an error.

    Raises:
        ElmoError: If the manifest is missing or damaged, or a value differs.
    """
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        different = [
            f"{name}: {known.get(name)} then, {value} now"
            for name, value in values.items()
            if known.get(name) != value
        ]
    except (OSError, ValueError, AttributeError) as error:
        raise ElmoError(f"{path} is missing or damaged: {remedy}.") from error
    if different:
        raise ElmoError(f"{path.parent} is of another run ({'; '.join(different)}): {remedy}.")


__all__ = ["check_manifest", "write_manifest"]
