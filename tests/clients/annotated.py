"""Sentences with names in them, as text, as words, and as what a client should find."""

from typing import NamedTuple


NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


class Annotated(NamedTuple):
    """A sentence: its text, the words, their labels, and the entities, each a label and a piece of the text."""

    text: str
    words: list[str]
    tags: list[str]
    entities: list[tuple[str, str]]


ANNOTATED = [
    Annotated(
        "Ann Lee met Bob, in New York.",
        ["Ann", "Lee", "met", "Bob", ",", "in", "New", "York", "."],
        ["B-PER", "I-PER", "O", "B-PER", "O", "O", "B-LOC", "I-LOC", "O"],
        [("PER", "Ann Lee"), ("PER", "Bob"), ("LOC", "New York")],
    ),
    # words without spaces between them, words that the vocabulary lacks, letters of several bytes
    Annotated(
        "(Zürich) didn't wait for O'Zwyx-Qúy!",
        ["(", "Zürich", ")", "didn", "'t", "wait", "for", "O", "'Zwyx-Qúy", "!"],
        ["O", "B-LOC", "O", "O", "O", "O", "O", "B-PER", "I-PER", "O"],
        [("LOC", "Zürich"), ("PER", "O'Zwyx-Qúy")],
    ),
]
