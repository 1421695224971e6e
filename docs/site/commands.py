"""A hook of MkDocs: the page of the commands, made of what `elmo-hf COMMAND --help` prints."""

import argparse
import os
from typing import Any

from mkdocs.structure.files import File, Files

from elmo_hf.cli import build_parser


INTRODUCTION = "# Commands\n\nWhat `elmo-hf --help` and `elmo-hf COMMAND --help` print.\n"


def commands_page(parser: argparse.ArgumentParser) -> str:
    """Write the page, in Markdown."""
    subparsers: Any = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    parts = [INTRODUCTION, block("elmo-hf", parser)]
    parts += [block(f"elmo-hf {name}", command) for name, command in subparsers.choices.items()]
    return "\n".join(parts)


def block(name: str, parser: argparse.ArgumentParser) -> str:
    """Write the section of one command."""
    return f"## {name}\n\n```text\n{parser.format_help().rstrip()}\n```\n"


def on_files(files: Files, config: Any) -> Files:
    """Add the page to those that are read from the folder."""
    # help is cut to this width, whatever the terminal
    os.environ["COLUMNS"] = "100"
    files.append(File.generated(config, "commands.md", content=commands_page(build_parser())))
    return files
