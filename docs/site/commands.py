"""A hook of MkDocs: it adds to the page of the commands what `elmo-hf COMMAND --help` prints."""

import argparse
import os
from collections.abc import Iterator
from typing import Any

from mkdocs.structure.pages import Page

from elmo_hf.cli.main import build_parser


PAGE = "commands.md"


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


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Put the sections below the page's own text."""
    if page.file.src_uri != PAGE:
        return markdown
    # help is cut to this width, whatever the terminal
    os.environ["COLUMNS"] = "100"
    return "\n".join([markdown, *blocks("elmo-hf", build_parser())])
