"""The `elmo-hf` command: `main` parses and runs, and each other module is one family of commands.

The only room that prints. It may import every other room; none imports it.
"""

from .main import main


__all__ = ["main"]
