"""The error that `elmo_hf` raises for an input that it cannot use, and how an error is shown in one line.

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


__all__ = ["ElmoError", "one_line"]
