"""The `elmo-hf` command: `main` parses and runs, and every other module is one family of commands.

This is the only room that prints. It may import every other room; none imports it. The parser imports none of them, so
that `--help` and wrong usage are answered at once: a command imports what it needs when it runs.
"""

from .main import main


__all__ = ["main"]
