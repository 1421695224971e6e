"""Columns: the cells of a line, the names that data sets give to their columns, and the choice among them."""

import re
from collections.abc import Sequence

from elmo_hf.errors import ElmoError


# In each list, the more specific names come first.
WORDS_COLUMNS = ("tokens", "words")
TAGS_COLUMNS = ("ner_tags", "tags", "pos_tags", "upos", "labels")
# the column of a text, and that of the second text of a pair
TEXT_COLUMNS = {
    "premise": "hypothesis",
    "sentence1": "sentence2",
    "text1": "text2",
    "question1": "question2",
    "text": "text_pair",
    "sentence": None,
    "tokens": None,
    "words": None,
}
LABEL_COLUMNS = ("label", "labels", "gold_label")


def split_cells(line: str) -> list[str]:
    """Split a line at spaces and tabs; other white space, such as that within a number, belongs to a word."""
    return re.findall(r"[^ \t\r\n]+", line)


def is_cell(text: str) -> bool:
    """Return whether a text can stand in a column, which `split_cells` reads."""
    return split_cells(text) == [text]


def choose_column(names: Sequence[str], wanted: Sequence[str], content: str) -> str:
    """Return the first of the wanted columns that a data set has.

    Args:
        names: The columns of the data set.
        wanted: The names to look for.
        content: What the column holds, for the message of an error.

    Raises:
        ElmoError: If the data set has none of them.
    """
    found = next((name for name in wanted if name in names), None)
    if found is None:
        raise ElmoError(
            f"no column {' or '.join(wanted)}; there are {', '.join(map(str, names)) or 'none'}: name the one of the "
            f"{content}."
        )
    return found


__all__ = ["LABEL_COLUMNS", "TAGS_COLUMNS", "TEXT_COLUMNS", "WORDS_COLUMNS", "choose_column", "is_cell", "split_cells"]
