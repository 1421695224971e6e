"""Write answers as JSON Lines, as CoNLL columns, or as a table."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from elmo_hf.data.coreference import NAME_FIELDS, document_of, write_conll_documents
from elmo_hf.data.frames import Frame, FramedSentence, write_conll_frames
from elmo_hf.data.tagged import NEW_DOCUMENT
from elmo_hf.errors import ElmoError

from .tasks import Coreference, Result, RoleLabelling, Tagging, Task, rename_given


# formats of files by their suffixes
FORMATS = {".jsonl": "jsonl", ".json": "jsonl", ".conll": "conll", ".tsv": "table", ".csv": "table"}
# what ends a cell that no quotes surround
BREAKS = set("\t\r\n")


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
    if path.suffix.lower() not in FORMATS:
        raise ElmoError(
            f"{path} does not tell the format by its suffix: choose one of {', '.join(FORMATS)}, or --output-format."
        )
    return FORMATS[path.suffix.lower()]


def write_results(results: Iterable[Result], name: str, file: TextIO, task: Task, *, delimiter: str = "\t") -> int:
    """Write answers, and return their number.

    Args:
        results: The answers of `predict`.
        name: The format: `jsonl`, a JSON object a line; `conll`, a word and its tag a line, and an empty line after
            each sentence, or the columns of CoNLL-2005 for semantic roles and of CoNLL-2012 for coreference; `table`,
            columns with a header.
        file: The open file.
        task: The task that answers.
        delimiter: What separates the columns of a table: a tab or a comma.

    Raises:
        ElmoError: If the format is for taggers, and the model is another one, or if the format cannot hold an answer.
    """
    if name == "conll":
        if isinstance(task, Coreference):
            return _write_each(results, lambda result: _write_document(file, result))
        if isinstance(task, RoleLabelling):
            return _write_each(results, lambda result: write_conll_frames([_framed_sentence(result)], file))
        if not isinstance(task, Tagging):
            raise ElmoError(
                "CoNLL columns are for the tags of words, and this model gives none: choose jsonl or table."
            )
        return _write_each(results, lambda result: _write_conll(file, result))
    if name == "jsonl":
        return _write_each(results, lambda result: _write_json(file, result))
    table = _Table(file, task, delimiter)
    number = _write_each(results, table.write)
    if not number:
        table.write_header({})
    return number


def _write_each(results: Iterable[Result], write: Callable[[Result], None]) -> int:
    number = 0
    for result in results:
        write(result)
        number += 1
    return number


def _framed_sentence(result: Result) -> FramedSentence:
    """Return the sentence of an answer with its frames, whose lemmas are those that the record gave."""
    given = [frame for frame in result.get("given_frames") or [] if isinstance(frame, Mapping)]
    lemmas = {frame.get("pred", frame.get("predicate")): frame.get("lemma") for frame in given}
    frames = [
        Frame(
            frame["predicate"],
            frame["tags"],
            None if (lemma := lemmas.get(frame["predicate"])) is None else str(lemma),
        )
        for frame in result["frames"]
    ]
    return FramedSentence(result["words"], frames)


def _write_json(file: TextIO, result: Result) -> None:
    file.write(f"{json.dumps(result, ensure_ascii=False)}\n")


def _write_document(file: TextIO, result: Result) -> None:
    name = next((str(result[field]) for field in NAME_FIELDS if result.get(field) is not None), "document")
    write_conll_documents([document_of({**result, "doc": name, "speakers": result.get("speakers")}, 1)], file)


def _write_conll(file: TextIO, result: Result) -> None:
    lines = list(zip(result["words"], result["tags"], strict=True))
    for content, cell in (
        (content, cell) for line in lines for content, cell in zip(("word", "tag"), line, strict=True)
    ):
        # readers take the marker of a new document and spaces around a cell for what they are elsewhere
        if not cell or cell != cell.strip(" ") or set(cell) & BREAKS or (content == "word" and cell == NEW_DOCUMENT):
            raise ElmoError(f"The {content} {cell!r:.80} cannot stand in a column: choose jsonl.")
    file.write("".join(f"{word}\t{tag}\n" for word, tag in lines) + "\n")


class _Table:
    """Writes rows under a header, which the first answer determines.

    As `data.records` reads them, cells of TSV stand as they are, and those of CSV in quotes where they need them.
    """

    def __init__(self, file: TextIO, task: Task, delimiter: str) -> None:
        by_tab = delimiter == "\t"
        self.rows = csv.writer(
            file,
            delimiter=delimiter,
            lineterminator="\n",
            quoting=csv.QUOTE_NONE if by_tab else csv.QUOTE_MINIMAL,
            quotechar=None if by_tab else '"',
        )
        # before Python 3.13, the other one leaves a carriage return without quotes, where readers end the row
        self.quoted_rows = csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
        self.forbidden = BREAKS if by_tab else set()
        self.task = task
        # names that no answer has, which `predict` has renamed already
        self.taken = {"input", *task.columns} - {*task.answers}
        self.header: list[str] = []
        self.number = 0

    def write_header(self, beside: Result) -> None:
        """Write the names of the columns, those of an input's own fields first."""
        self.header = ["input", *beside, *self.task.columns]
        self._write_row(self.header)

    def write(self, result: Result) -> None:
        """Write the rows of an answer, each with the number of its input, counted from 1."""
        self.number += 1
        beside, rows = self.task.table_rows(result)
        beside = rename_given(beside, self.taken)
        if not self.header:
            self.write_header(beside)
        new = [name for name in beside if name not in self.header]
        if new:
            raise ElmoError(
                f"Record {self.number} has the field {new[0]!r:.80}, for which the table has no column, because the "
                "first record has no such field: choose jsonl."
            )
        # an input without entities has a row, too, for what stands beside them
        for row in rows or [{}]:
            full = {"input": self.number, **beside, **row}
            self._write_row([_cell(full.get(name)) for name in self.header])

    def _write_row(self, cells: Sequence[Any]) -> None:
        wrong = next((cell for cell in cells if isinstance(cell, str) and self.forbidden & set(cell)), None)
        if wrong is not None:
            raise ElmoError(
                f"{wrong!r:.80} cannot stand in a column of TSV, for a tab or the end of a line: choose .csv or jsonl."
            )
        has_return = any(isinstance(cell, str) and "\r" in cell for cell in cells)
        (self.quoted_rows if has_return else self.rows).writerow(cells)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list, bool)) else value


__all__ = ["FORMATS", "choose_format", "write_results"]
