"""Write answers as JSON Lines, as CoNLL columns, or as a table."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from elmo_hf.errors import ElmoError

from .tasks import Result, Tagging, Task


Write: TypeAlias = Callable[[Result], None]

# formats of files by their suffixes
FORMATS = {".jsonl": "jsonl", ".json": "jsonl", ".conll": "conll", ".tsv": "table", ".csv": "table"}


def choose_format(path: Path | None, name: str | None) -> str:
    """Return the format of a file: the one that is named, or what the suffix says.

    Args:
        path: The file; `None` for standard output, which gets JSON Lines unless another format is named.
        name: The name of the format.

    Raises:
        ElmoError: If no format is named, and the suffix is none of `FORMATS`.
    """
    if name is not None or path is None:
        return name or "jsonl"
    if path.suffix not in FORMATS:
        raise ElmoError(
            f"{path} does not tell the format by its suffix: choose one of {', '.join(FORMATS)}, or --output-format."
        )
    return FORMATS[path.suffix]


def make_writer(name: str, file: TextIO, task: Task, *, delimiter: str = "\t") -> Write:
    """Return a function that writes an answer.

    Args:
        name: The format: `jsonl`, a JSON object a line; `conll`, a word and its tag a line, and an empty line after
            each sentence; `table`, columns with a header.
        file: The open file.
        task: The task that answers.
        delimiter: What separates the columns of a table.

    Raises:
        ElmoError: If the format is for taggers, and the model is another one.
    """
    if name == "conll":
        if not isinstance(task, Tagging):
            raise ElmoError(
                "CoNLL columns are for the tags of words, and this model gives none: choose jsonl or table."
            )
        return lambda result: _write_conll(file, result)
    if name == "table":
        return _Table(file, task, delimiter).write
    return lambda result: _write_json(file, result)


def _write_json(file: TextIO, result: Result) -> None:
    file.write(f"{json.dumps(result, ensure_ascii=False)}\n")


def _write_conll(file: TextIO, result: Result) -> None:
    wrong = next((word for word in result["words"] if not word.strip(" ") or set(word) & set("\t\r\n")), None)
    if wrong is not None:
        raise ElmoError(f"The word {wrong!r:.80} cannot stand in a column: choose jsonl.")
    file.write("".join(f"{word}\t{tag}\n" for word, tag in zip(result["words"], result["tags"], strict=True)) + "\n")


class _Table:
    """Writes rows under a header, which the first answer determines."""

    def __init__(self, file: TextIO, task: Task, delimiter: str) -> None:
        self.rows = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        self.task = task
        self.header: list[str] = []
        self.number = 0

    def write(self, result: Result) -> None:
        """Write the rows of an answer, each with the number of its input, counted from 1."""
        self.number += 1
        beside, rows = self.task.table_rows(result)
        taken = {"input", *self.task.columns}
        beside = {f"given_{name}" if name in taken else name: value for name, value in beside.items()}
        if not self.header:
            self.header = ["input", *beside, *self.task.columns]
            self.rows.writerow(self.header)
        new = [name for name in beside if name not in self.header]
        if new:
            raise ElmoError(
                f"Record {self.number} has the field {new[0]!r:.80}, for which the table has no column, because the "
                "first record has no such field: choose jsonl."
            )
        for row in rows:
            full = {"input": self.number, **beside, **row}
            self.rows.writerow([_cell(full.get(name)) for name in self.header])


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list, bool)) else value


__all__ = ["FORMATS", "choose_format", "make_writer"]
