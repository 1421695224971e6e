"""The content of each tab, as HTML, of what a visitor wrote and picked; Gradio is not needed here."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

from elmo_hf.embedding.occurrences import Occurrence, check_position
from elmo_hf.errors import ElmoError, one_line

from .models import DemoModel, load_model
from .tables import (
    error_line,
    fillings_table,
    layers_table,
    neighbours_table,
    scores_table,
    similarity_table,
)
from .text import Sentences, split_text


# what was read last: the name of a model and a text; nothing before a page has been read
Applied: TypeAlias = tuple[str, str] | None

# what a visitor can cause; anything else is a mistake in this package, which Gradio logs
REFUSALS = (ElmoError, OSError, ValueError)


def show_neighbours(model: DemoModel, sentences: Sentences, place: Occurrence, layer: str, distinct: bool) -> str:
    """Show the words of the other sentences that are nearest to the picked one."""
    found = model.find_neighbours(sentences, place, layer=layer, distinct=distinct)
    return neighbours_table(_shown(model, place), found)


def show_similarity(model: DemoModel, sentences: Sentences, place: Occurrence, second: int, layer: str) -> str:
    """Show how similar the words of two sentences are."""
    other = sentence_of(sentences, second)
    cosines = model.compare_words(place.words, other, layer=layer)
    return similarity_table(model.shown(place.words), model.shown(other), cosines)


def show_fillings(model: DemoModel, _: Sentences, place: Occurrence) -> str:
    """Show the words that the model expects in place of the picked one."""
    return fillings_table(_shown(model, place), model.fill(place))


def show_scores(model: DemoModel, _: Sentences, place: Occurrence) -> str:
    """Show the perplexity of each word of the sentence."""
    return scores_table(model.score(place.words))


def show_layers(model: DemoModel, sentences: Sentences, place: Occurrence) -> str:
    """Show how similar the picked word is to others in each layer."""
    return layers_table(_shown(model, place), *model.compare_layers(sentences, place))


def read(name: str, text: str) -> tuple[DemoModel, Sentences]:
    """Load a model, and split a text into sentences and words.

    Raises:
        ElmoError: If there is no such model, or the text is too long or has no words.
    """
    model = load_model(name)
    return model, split_text(text, model.split)


def first_choice(sentences: Sentences, sentence: int, mask: str | None) -> int:
    """Return the position of the word that is picked when a sentence is chosen.

    It is the first mask, or else the longest word that another sentence has, too, or else the longest word.
    """
    words = sentences[sentence]
    if mask in words:
        return words.index(mask)
    others = {word for number, other in enumerate(sentences) if number != sentence for word in other}
    return max(range(len(words)), key=lambda position: (words[position] in others, len(words[position])))


def _shown(model: DemoModel, place: Occurrence) -> Occurrence:
    return Occurrence(model.shown(place.words), place.position)


def sentence_of(sentences: Sentences, number: int) -> tuple[str, ...]:
    """Return the words of a sentence, counted from 0.

    Raises:
        ElmoError: If there is no such sentence.
    """
    if not 0 <= number < len(sentences):
        raise ElmoError(f"There is no sentence {number + 1}: choose one of the list.")
    return sentences[number]


def answer(show: Callable[..., str]) -> Callable[..., str]:
    """Make a tab's content of what was read last and of what is picked; what cannot be shown is one line."""

    @wraps(show)
    def answered(applied: Applied, sentence: int, word: int, *choices: Any) -> str:
        if applied is None or sentence is None or word is None:
            return ""
        try:
            model, sentences = read(*applied)
            words = sentence_of(sentences, sentence)
            # not every tab looks at the word
            check_position(words, word)
            return show(model, sentences, Occurrence(words, word), *choices)
        except REFUSALS as error:
            return error_line(one_line(error))

    return answered


__all__ = [
    "REFUSALS",
    "Applied",
    "answer",
    "first_choice",
    "read",
    "sentence_of",
    "show_fillings",
    "show_layers",
    "show_neighbours",
    "show_scores",
    "show_similarity",
]
