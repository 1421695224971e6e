"""Hook of MkDocs that adds the output of `elmo-hf COMMAND --help` to the page of commands."""

import argparse
import os
from collections.abc import Iterator
from typing import Any

from mkdocs.structure.pages import Page

from elmo_hf.cli.main import build_parser


PAGE = "commands.md"


def blocks(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the section of a command, and those of its subcommands."""
    yield block(name, parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner, command in action.choices.items():
                yield from blocks(f"{name} {inner}", command)


def block(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the section of one command."""
    return f"## {name}\n\n```text\n{parser.format_help().rstrip()}\n```\n"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Append the sections to the page's own text."""
    if page.file.src_uri != PAGE:
        return markdown
    # argparse wraps lines at this width instead of the terminal's
    os.environ["COLUMNS"] = "100"
    return "\n".join([markdown, *blocks("elmo-hf", build_parser())])
