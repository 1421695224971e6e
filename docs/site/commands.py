"""A hook of MkDocs: the page of the commands, made of what `elmo-hf COMMAND --help` prints."""

import argparse
import os
from collections.abc import Iterator
from typing import Any

from mkdocs.structure.files import File, Files

from elmo_hf.cli import build_parser


INTRODUCTION = "# Commands\n\nWhat `elmo-hf --help` and `elmo-hf COMMAND --help` print.\n"


def commands_page(parser: argparse.ArgumentParser) -> str:
    """Write the page, in Markdown."""
    return "\n".join([INTRODUCTION, *blocks("elmo-hf", parser)])


def blocks(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Write the sections of a command and of the commands in it."""
    yield block(name, parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner, command in action.choices.items():
                yield from blocks(f"{name} {inner}", command)


def block(name: str, parser: argparse.ArgumentParser) -> str:
    """Write the section of one command."""
    return f"## {name}\n\n```text\n{parser.format_help().rstrip()}\n```\n"


def on_files(files: Files, config: Any) -> Files:
    """Add the page to those that are read from the folder."""
    # help is cut to this width, whatever the terminal
    os.environ["COLUMNS"] = "100"
    files.append(File.generated(config, "commands.md", content=commands_page(build_parser())))
    return files
