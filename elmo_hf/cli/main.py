"""The `elmo-hf` command as a whole: its parser, its exit status, and its errors."""

import argparse
import contextlib
import io
import os
import sys
import traceback
from collections.abc import Sequence

from elmo_hf import __version__
from elmo_hf.errors import ElmoError, one_line

from .demo import add_demo
from .embed import add_embed
from .fill import add_fill
from .hub import add_copy, add_push
from .models import add_convert, add_export, add_inspect, add_verify
from .neighbours import add_neighbours
from .plot import add_plot
from .predict import add_predict
from .sentences import add_split
from .shared import printable
from .text import add_build_vocab, add_perplexity


# what the extra `convert` installs
CONVERT_EXTRA = ("h5py",)
# the exit status that a shell reports for a program that SIGINT or SIGPIPE ended
INTERRUPTED, BROKEN_PIPE = 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The arguments after the program's name; by default those of this process.

    Returns:
        The exit status: 0 after success, 1 after an error, which is one line on standard error.

    Raises:
        SystemExit: With status 2 after wrong usage, and 0 after `--help` and `--version`.
    """
    options = build_parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that cannot show a character shows its escape instead
            stream.reconfigure(errors="backslashreplace")
    try:
        if sys.stdout is None and _prints_result(options):
            raise ElmoError("Standard output is closed: open it, or name a file for the result.")
        status: int = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except (ElmoError, OSError, ValueError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name not in CONVERT_EXTRA:
            raise
        if options.debug:
            traceback.print_exc()
        if _is_of_a_stream(error):
            _discard_output()
        print(f"elmo-hf: error: {printable(_message_of(error))}", file=sys.stderr)
        return 1


def _prints_result(options: argparse.Namespace) -> bool:
    """Tell whether standard output is where the result goes; what is printed beside a file are notes."""
    given = vars(options)
    # push sends a folder, and neighbours without a word to look for writes an index
    writes = given.get("dry_run") is False or (given.get("index") is not None and not given["text"])
    return not writes and given.get("output") is None and given.get("json_lines") in (None, "-")


def _message_of(error: Exception) -> str:
    """Return the line that tells the user what went wrong."""
    message = one_line(error)
    if isinstance(error, ModuleNotFoundError):
        return f'{error.name} is not installed: pip install "elmo_hf[convert]"'
    if _is_of_a_stream(error):
        return f"standard input or output fails: {message}"
    if _may_be_a_bug(error):
        return f"unexpected {type(error).__name__} ({message}): run it again with --debug, and report what that shows."
    return message


def _is_of_a_stream(error: Exception) -> bool:
    """Tell whether a standard stream failed: every other file has a name, and so has its error."""
    return isinstance(error, OSError) and error.filename is None


def _may_be_a_bug(error: Exception) -> bool:
    """Tell whether nobody meant the user to read this error.

    `elmo_hf` refuses an input by an `ElmoError`, and the Hub files, which cannot import it, by a `ValueError`. Python
    raises a `UnicodeError` for a name that is not UTF-8, which the user can change. Any other `ValueError` comes from
    a library, or from a mistake in this package.
    """
    if not isinstance(error, ValueError) or isinstance(error, UnicodeError):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return not frame.f_globals["__name__"].endswith("_elmo")


def _discard_output() -> None:
    """Throw away what could not be written to standard output: Python tries again at exit, and complains."""
    with contextlib.suppress(AttributeError, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of every command; the documentation's page of commands is made from it."""
    parser = argparse.ArgumentParser(
        prog="elmo-hf",
        description="Convert an original ELMo for Transformers, check it, publish it, and compute its vectors.",
        epilog="An error is one line on standard error. The exit status is then 1, or 2 for wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"elmo-hf {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--debug", action="store_true", help="show the traceback of an error")
    add_convert(commands, shared)
    add_export(commands, shared)
    add_inspect(commands, shared)
    add_verify(commands, shared)
    add_copy(commands, shared)
    add_push(commands, shared)
    add_embed(commands, shared)
    add_predict(commands, shared)
    add_neighbours(commands, shared)
    add_split(commands, shared)
    add_build_vocab(commands, shared)
    add_perplexity(commands, shared)
    add_fill(commands, shared)
    add_plot(commands, shared)
    add_demo(commands, shared)
    return parser


__all__ = ["build_parser", "main"]
