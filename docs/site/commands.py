"""The generated part of the page of commands: a table of them, and what `elmo-hf COMMAND --help` prints."""

import argparse
import os
import re
from collections.abc import Iterator


# the width at which argparse wraps lines, in place of the terminal's
WIDTH = "100"


def render(parser: argparse.ArgumentParser) -> str:
    """Return the table and the sections in Markdown.

    Args:
        parser: The parser of `elmo-hf`.
    """
    commands = list(find_commands(parser.prog, parser))
    rows = [f"| [`{name}`](#{name.replace(' ', '-')}) | {summary} |" for name, summary, _ in commands]
    everything = [(parser.prog, parser), *((name, command) for name, _, command in commands)]
    sections = [f"## {name}\n\n```text\n{help_of(command)}\n```" for name, command in everything]
    return "\n".join(["| command | what it does |", "|---|---|", *rows]) + "\n\n" + "\n\n".join(sections)


def find_commands(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield the name, the summary and the parser of each command; of a command with subcommands, those of each."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                inner, command = f"{name} {choice.dest}", action.choices[choice.dest]
                yield from list(find_commands(inner, command)) or [(inner, choice.help or "", command)]


def help_of(parser: argparse.ArgumentParser) -> str:
    """Return the help of a command as the newest Python formats it, which names the value of aliases once."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        text = parser.format_help()
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return re.sub(r"(--[\w-]+) [A-Z]+, (?=--)", r"\1, ", text).rstrip()


__all__ = ["render"]
