"""Read the JSON options that lie beside the weights."""

import json
from pathlib import Path
from typing import Any, Never

from .base import ConversionError


#: Released options files have 300 to 1,000 bytes.
MAX_BYTES = 1 << 20


def read_options(path: Path, *, name: str) -> dict[str, Any]:
    """Parse an options file.

    Args:
        path: The JSON file, in UTF-8.
        name: How messages call it.

    Returns:
        The object in it, whole.

    Raises:
        ConversionError: If it is no JSON object.
    """
    if path.stat().st_size > MAX_BYTES:
        raise ConversionError(f"{name} has more than {MAX_BYTES:,} bytes: this is no options file.")
    try:
        parsed = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise ConversionError(f"{name} is not UTF-8 text ({error.reason}). Get the options file again.") from error
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"{name} is not valid JSON ({error}). Get the options file again.") from error
    if not isinstance(parsed, dict):
        raise ConversionError(f"{name} holds a JSON {type(parsed).__name__}, not an object with options.")
    return parsed


def _refuse_constant(constant: str) -> Never:
    raise ValueError(f"{constant} is no number")


__all__ = ["read_options"]
