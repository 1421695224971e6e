"""Draw the picture of the first page: how similar the vectors of one word are in several sentences.

python docs/site/meanings.py docs/meanings.svg
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from elmo_hf import ELMO_SMALL_EN
from elmo_hf.embedding import embed, load


WORD = "left"
# two groups of sentences, each with one meaning of the word
GROUPS = {
    "went away": ("he left the house .", "she left the room at night .", "my brother left the town ."),
    "not right": (
        "turn to the left hand .",
        "on the left side of the street .",
        "the school is on the left bank of the river .",
    ),
}

CELL, MARGIN, LABELS, TOP = 58, 16, 350, 34
# the colours of the lowest and the highest similarity
LOW, HIGH = np.array([236, 244, 243]), np.array([0, 121, 107])
LOWEST = 0.4


def similarities(sentences: list[str]) -> np.ndarray:
    """Compute the cosine of the word's vectors in each two sentences, `[sentences, sentences]`."""
    model, tokenizer = load(ELMO_SMALL_EN)
    words = [sentence.split() for sentence in sentences]
    vectors = np.stack(
        [rows[text.index(WORD)] for rows, text in zip(embed(model, tokenizer, words), words, strict=True)]
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


def draw(sentences: list[str], matrix: np.ndarray) -> Iterator[str]:
    """Write the lines of the SVG: a row for each sentence, with a cell for each other one."""
    left, size = MARGIN + LABELS, CELL * len(sentences)
    width, height = left + size + MARGIN, TOP + size + MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="15">'
    )
    yield f"<title>Similarity of the word {WORD} in {len(sentences)} sentences</title>"
    yield f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>'
    start = left
    for meaning, group in GROUPS.items():
        yield text(start + CELL * len(group) / 2, TOP - 12, f"“{WORD}”: {meaning}", anchor="middle", fill="#37474f")
        start += CELL * len(group)
    for row, sentence in enumerate(sentences):
        middle = TOP + CELL * (row + 0.5) + 5
        yield text(left - 12, middle, sentence.replace(WORD, f"[{WORD}]"), anchor="end", fill="#263238")
        for column, value in enumerate(matrix[row]):
            share = np.clip((value - LOWEST) / (1 - LOWEST), 0, 1)
            red, green, blue = (LOW + share * (HIGH - LOW)).round().astype(int)
            x, y = left + CELL * column + 1, TOP + CELL * row + 1
            yield f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" fill="rgb({red},{green},{blue})"/>'
            fill = "#ffffff" if share > LOWEST else "#263238"
            yield text(x - 1 + CELL / 2, middle, f"{value:.2f}", anchor="middle", fill=fill)
    yield "</svg>"


def text(x: float, y: float, content: str, *, anchor: str, fill: str) -> str:
    """Write a text of the SVG."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}">{content}</text>'


def main() -> None:
    """Write the picture to the given path."""
    sentences = [sentence for group in GROUPS.values() for sentence in group]
    picture = "\n".join(draw(sentences, similarities(sentences)))
    Path(sys.argv[1]).write_text(picture + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
