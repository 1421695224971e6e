"""`demo.tables`: what a table says, what it escapes, and that its text can be read on its colour."""

import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from elmo_hf.demo.tables import (
    error_line,
    fillings_table,
    layers_table,
    neighbours_table,
    scores_table,
    shade,
    similarity_table,
)
from elmo_hf.embedding import Neighbour, Occurrence
from elmo_hf.training.filling import Filling
from elmo_hf.training.perplexity import WordScore


HOSTILE = "<script>&\"'"
PLACE = Occurrence(["a", HOSTILE, "."], 1)
NEIGHBOURS = [
    Neighbour(0.987, Occurrence(["the", HOSTILE], 1), "text", 3, 0),
    Neighbour(-0.001, Occurrence(["it"], 0), "text", 5, 1),
]


def cells(table: str) -> list[list[str]]:
    """Return the text of each row; the table must be well-formed."""
    root = ET.fromstring(table)
    return [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]


def test_neighbours_are_shown_in_their_sentences() -> None:
    assert cells(neighbours_table(PLACE, NEIGHBOURS)) == [
        ["word in its sentence", "sentence", "cosine"],
        [f"the {HOSTILE}", "3", "0.99"],
        ["it", "5", "0.00"],
    ]


def test_the_word_is_marked() -> None:
    assert "<mark>it</mark>" in neighbours_table(PLACE, NEIGHBOURS)


def test_the_picture_has_a_cell_for_each_two_words() -> None:
    table = similarity_table(["a", HOSTILE], ["b", "c", HOSTILE], np.array([[0.5, -0.1, 0], [1, 0.25, 0.7]]))

    assert cells(table) == [
        ["", "b", "c", HOSTILE],
        ["a", "0.50", "-0.10", "0.00"],
        [HOSTILE, "1.00", "0.25", "0.70"],
    ]
    # the lowest is white, and the highest has the full colour
    assert 'style="background:rgb(255,255,255);color:#000">-0.10' in table
    assert 'style="background:rgb(0,84,147);color:#fff">1.00' in table


def test_equal_similarities_are_no_error() -> None:
    assert cells(similarity_table(["a"], ["a"], np.ones((1, 1))))[1] == ["a", "1.00"]


def test_words_are_shown_with_their_probabilities() -> None:
    fillings = [Filling("man", 0.5, math.log(2), math.log(4)), Filling(HOSTILE, 0.0001, 20, 1)]

    assert cells(fillings_table(PLACE, fillings)) == [
        ["word", "probability", "from the left", "from the right"],
        ["man", "50.0 %", "50.0 %", "25.0 %"],
        [HOSTILE, "< 0.1 %", "< 0.1 %", "36.8 %"],
    ]


def test_the_perplexity_of_words_and_sentence() -> None:
    scores = [
        WordScore("<S>", False, None, math.log(8)),
        WordScore(HOSTILE, True, math.log(200), math.log(2)),
        WordScore("</S>", False, math.log(2), None),
    ]

    table = scores_table(scores)

    assert cells(table) == [
        ["word", "forward", "backward"],
        ["start", "not predicted", "8.0"],
        [f"{HOSTILE} (unknown)", "200", "2.0"],
        ["end", "2.0", "not predicted"],
    ]
    # the geometric means of two predictions, and of all four
    assert "forward 20.0, backward 4.0, both 8.9" in table


def test_the_layers_are_columns() -> None:
    table = layers_table(PLACE, NEIGHBOURS, {"mix": np.array([0.5, 0.25]), "layer 1": np.array([0.75, -0.5])})

    assert cells(table)[1:] == [[f"the {HOSTILE}", "0.50", "0.75"], ["it", "0.25", "-0.50"]]


def test_without_neighbours_a_sentence_says_what_to_do() -> None:
    assert "There are no other sentences" in neighbours_table(PLACE, [])
    assert "There are no other sentences" in layers_table(PLACE, [], {})


def test_an_error_is_escaped() -> None:
    assert error_line("<b>") == '<p class="elmo-error" role="alert">&lt;b&gt;</p>'


def brightness(part: int) -> float:
    return part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4


@pytest.mark.parametrize("color", [(0, 84, 147), (200, 82, 0)])
def test_text_can_be_read_on_every_shade(color: tuple[int, int, int]) -> None:
    for share in np.linspace(0, 1, 101):
        found = re.fullmatch(r"background:rgb\((\d+),(\d+),(\d+)\);color:#(000|fff)", shade(float(share), color))
        red, green, blue = (brightness(int(part)) for part in found.groups()[:3])
        luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        lighter, darker = sorted([luminance, 1.0 if found[4] == "fff" else 0.0], reverse=True)
        # what WCAG 2 asks for at level AA
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5
