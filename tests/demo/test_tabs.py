"""`demo.tabs`: each tab has its content, and what cannot be shown is one line."""

from pathlib import Path

import pytest

from elmo_hf.demo.tabs import (
    answer,
    first_choice,
    show_fillings,
    show_layers,
    show_neighbours,
    show_scores,
    show_similarity,
)


TEXT = "the bank raised rates .\nthe river left its bank .\nthe [MASK] left ."
# each tab with what can be chosen in it
TABS = [
    (show_neighbours, ["mix", False]),
    (show_similarity, [1, "layer 1"]),
    (show_fillings, []),
    (show_scores, []),
    (show_layers, []),
]


@pytest.mark.parametrize(("show", "choices"), TABS)
def test_each_tab_has_a_table(show: object, choices: list[object], folder: Path) -> None:
    content = answer(show)((str(folder), TEXT), 0, 1, *choices)

    assert content.count("<table") == 1
    assert content.count("<tr>") > 2


@pytest.mark.parametrize(("show", "choices"), TABS)
def test_a_mask_is_shown_as_it_was_written(show: object, choices: list[object], folder: Path) -> None:
    content = answer(show)((str(folder), TEXT), 2, 1, *choices)

    assert "[MASK]" in content
    assert "&lt;MASK&gt;" not in content


@pytest.mark.parametrize(
    ("read", "sentence", "word", "message"),
    [
        (("absent", TEXT), 0, 0, "absent is not a model folder"),
        (("{folder}", ""), 0, 0, "The text has no words"),
        (("{folder}", TEXT), 9, 0, "There is no sentence 10: choose one of the list."),
        (("{folder}", TEXT), 0, 99, "The position 99 is none of a sentence of 5 words"),
        (("{folder}", "half \ud800 a character"), 0, 0, "surrogate"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    read: tuple[str, str], sentence: int, word: int, message: str, folder: Path
) -> None:
    name, text = read

    content = answer(show_neighbours)((name.format(folder=folder), text), sentence, word, "mix", False)

    assert content.startswith('<p class="elmo-error" role="alert">')
    assert message in content
    assert "\n" not in content


def test_a_word_that_is_not_there_is_refused_by_the_tabs_that_show_the_whole_sentence(folder: Path) -> None:
    content = answer(show_scores)((str(folder), TEXT), 0, 99)

    assert "The position 99 is none of a sentence of 5 words" in content


def test_there_is_nothing_to_show_before_something_is_read() -> None:
    assert answer(show_scores)(None, None, None) == ""


def test_the_word_that_is_picked_first() -> None:
    sentences = (("he", "left", "the", "house"), ("she", "left", "the", "<MASK>"), ("no", "word", "again"))

    assert first_choice(sentences, 0, "<MASK>") == 1
    assert first_choice(sentences, 1, "<MASK>") == 3
    assert first_choice(sentences, 1, None) == 1
    assert first_choice(sentences, 2, None) == 2
