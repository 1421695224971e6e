"""Read the JSON options of a model."""

import json
import math
from pathlib import Path
from typing import Any, Never

from .base import ConversionError


#: Released options files have 300 to 1,000 bytes.
MAX_BYTES = 1 << 20

#: Nested objects and lists, of which releases have 3; Python cannot copy or write much deeper ones.
MAX_DEPTH = 32


def read_options(path: Path, *, name: str) -> dict[str, Any]:
    """Parse an options file.

    Args:
        path: The JSON file, in UTF-8.
        name: Its name in messages.

    Returns:
        The object in it, whole.

    Raises:
        ConversionError: If it is not a JSON object.
    """
    if path.stat().st_size > MAX_BYTES:
        raise ConversionError(f"{name} has more than {MAX_BYTES:,} bytes: this is not an options file.")
    try:
        parsed = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refuse_constant, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise ConversionError(f"{name} is not UTF-8 text ({error.reason}). Get the options file again.") from error
    except (ValueError, RecursionError) as error:
        raise ConversionError(f"{name} is not valid JSON ({error}). Get the options file again.") from error
    if not isinstance(parsed, dict):
        raise ConversionError(f"{name} holds a JSON {type(parsed).__name__}, not an object with options.")
    if _depth(parsed) > MAX_DEPTH:
        raise ConversionError(f"{name} is nested over {MAX_DEPTH} deep: this is not an options file.")
    try:
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ConversionError(f"{name} holds an invalid character ({error.reason}). Get the file again.") from error
    return parsed


def as_json(value: Any) -> str:
    """Write a value as the options file has it, cut to 80 characters for a message."""
    return f"{json.dumps(value, ensure_ascii=False):.80}"


def _depth(value: Any) -> int:
    """Return how deep objects and lists are nested, without recursion, because the parser allows deeper nesting."""
    depth, level = 0, [value]
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return depth


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text:.40} is too large a number")
    return number


def _refuse_constant(constant: str) -> Never:
    raise ValueError(f"{constant} is not a number")


__all__ = ["as_json", "read_options"]
