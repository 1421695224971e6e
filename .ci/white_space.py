"""Fail if a file has space at the end of a line, or does not end in one newline: `white_space.py FILE...`."""

import sys
from pathlib import Path


def fault(text: str) -> str:
    """Say what is wrong with a file's text, or return an empty string."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line != line.rstrip():
            return f"line {number} ends in white space"
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        return "the file does not end in exactly one newline"
    return ""


def main(names: list[str]) -> int:
    """Print the fault of each file that has one, and return 1 if any does."""
    faults = {name: fault(Path(name).read_text(encoding="utf-8")) for name in names}
    sys.stdout.writelines(f"{name}: {why}\n" for name, why in faults.items() if why)
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
