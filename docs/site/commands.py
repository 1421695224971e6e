"""The generated part of the page of commands: a table of them, and what `--help` prints of each and of the scripts."""

import argparse
import contextlib
import io
import os
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path


# the width at which argparse wraps lines, in place of the terminal's
WIDTH = "100"


def render(parser: argparse.ArgumentParser, scripts: list[Path]) -> str:
    """Return the table and the sections in Markdown.

    Args:
        parser: The parser of `elmo-hf`.
        scripts: Scripts with a command line of their own.
    """
    commands = list(find_commands(parser.prog, parser))
    rows = [f"| [`{name}`](#{name.replace(' ', '-')}) | {summary} |" for name, summary, _ in commands]
    with fixed_width():
        helps = {parser.prog: parser.format_help(), **{name: command.format_help() for name, _, command in commands}}
        helps |= {f"examples/{script.name}": help_of_script(script) for script in scripts}
    sections = [f"## {name}\n\n```text\n{as_new_python(text)}\n```" for name, text in helps.items()]
    return "\n".join(["| command | what it does |", "|---|---|", *rows]) + "\n\n" + "\n\n".join(sections)


def find_commands(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield the name, the summary and the parser of each command; of a command with subcommands, those of each."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                inner, command = f"{name} {choice.dest}", action.choices[choice.dest]
                yield from list(find_commands(inner, command)) or [(inner, choice.help or "", command)]


@contextlib.contextmanager
def fixed_width() -> Iterator[None]:
    """Have argparse wrap lines at `WIDTH`."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def help_of_script(script: Path) -> str:
    """Return what a script prints for `--help`."""
    before, printed = sys.argv, io.StringIO()
    sys.argv = [script.name, "--help"]
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv = before
    return printed.getvalue()


def as_new_python(text: str) -> str:
    """Return a help as the newest Python formats it, which names the value of aliases once."""
    return re.sub(r"(--[\w-]+) [A-Z]+, (?=--)", r"\1, ", text).rstrip()


__all__ = ["render"]
