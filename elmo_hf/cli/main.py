"""The `elmo-hf` command: convert an original ELMo, inspect, verify and use it, and measure a language model."""

import argparse
import contextlib
import io
import os
import sys
import traceback
from collections.abc import Sequence

from elmo_hf import __version__
from elmo_hf.errors import ElmoError, one_line

from .embed import add_embed
from .hub import add_push
from .models import add_convert, add_export, add_inspect, add_verify
from .plot import add_plot
from .shared import printable
from .text import add_build_vocab, add_perplexity


# what the extra `convert` installs
CONVERT_EXTRA = ("h5py", "filelock")
# the exit status that a shell reports for a program that SIGINT or SIGPIPE ended
INTERRUPTED, BROKEN_PIPE = 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Those after the program's name; by default the process's own.

    Returns:
        The exit status: 0 if all went well, 1 after an error, which is one line on standard error, 2 for wrong usage.
    """
    options = build_parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a terminal that cannot show a character shows its escape instead
            stream.reconfigure(errors="backslashreplace")
    try:
        status = options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except ModuleNotFoundError as error:
        if error.name not in CONVERT_EXTRA:
            raise
        print(f'elmo-hf: error: {error.name} is not installed: pip install "elmo_hf[convert]"', file=sys.stderr)
        return 1
    except (ElmoError, OSError, ValueError) as error:
        if options.debug:
            traceback.print_exc()
        message = one_line(error)
        if isinstance(error, OSError) and error.filename is None:
            # files have names, and commands name those that the system does not
            message = f"standard input or output fails: {message}"
            _discard_output()
        print(f"elmo-hf: error: {printable(message)}", file=sys.stderr)
        return 1
    return status


def _discard_output() -> None:
    """Throw away what could not be written to standard output: Python tries again at its end, and complains."""
    with contextlib.suppress(AttributeError, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> argparse.ArgumentParser:
    """Describe the arguments of every command; the reference page is made from it."""
    parser = argparse.ArgumentParser(
        prog="elmo-hf",
        description="ELMo for Transformers: convert an original model, check it, and get its vectors.",
        epilog="Each error is one line on standard error; the exit status is then 1, or 2 for wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"elmo-hf {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--debug", action="store_true", help="show where an error came from")
    add_convert(commands, shared)
    add_export(commands, shared)
    add_inspect(commands, shared)
    add_verify(commands, shared)
    add_push(commands, shared)
    add_embed(commands, shared)
    add_build_vocab(commands, shared)
    add_perplexity(commands, shared)
    add_plot(commands, shared)
    return parser


__all__ = ["build_parser", "main"]
