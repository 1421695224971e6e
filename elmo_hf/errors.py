"""The error that `elmo_hf` raises for an input that it cannot use, and what makes a message of one line.

The Hub files travel to where this package is not installed, and therefore raise `ValueError` in its place.
"""


class ElmoError(Exception):
    """An input cannot be used; the message is one line that names the culprit and the remedy."""


def one_line(error: BaseException) -> str:
    """Return an error's message as one line.

    Args:
        error: Any error. An `OSError` is shown by its file and the system's reason, and an error without a message
            by its class.
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object!r:.200} is not {error.encoding.upper()} ({error.reason}): rename or change it."
    return " ".join(str(error).split()) or type(error).__name__


def counted(number: float, noun: str, spec: str = ",") -> str:
    """Return a number with its noun: `1 word`, `2,000 words`, `2 mixes`, `2 entries`.

    Args:
        number: The number.
        noun: The noun in the singular.
        spec: How the number is shown, as `format` takes it.
    """
    shown = f"{number:{spec}}"
    if shown == "1":
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{shown} {noun[:-1]}ies"
    return f"{shown} {noun}{'es' if noun.endswith('x') else 's'}"


__all__ = ["ElmoError", "counted", "one_line"]
