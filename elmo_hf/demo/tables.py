"""The tables of the page, as HTML: whatever a visitor wrote is escaped, and colour only repeats what a number says.

Each function returns a table, or a sentence in its place. The classes are those of `page.css`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from elmo_hf.embedding.neighbours import Neighbour
from elmo_hf.embedding.occurrences import Occurrence
from elmo_hf.training.filling import Filling
from elmo_hf.training.perplexity import CorpusScore, SentenceScore, WordScore


# from white to a blue for similarity, and to an orange for surprise; every eye tells these apart
BLUE, ORANGE = (0, 84, 147), (200, 82, 0)
# a perplexity that has the full colour: about that of words drawn evenly from a small vocabulary
HIGHEST_PERPLEXITY = 10_000
NO_OTHERS = "There are no other sentences, or all are the same as this one: add some."


def neighbours_table(place: Occurrence, neighbours: Sequence[Neighbour]) -> str:
    """Show the neighbours of a word, each in its sentence.

    Args:
        place: The word that was searched for, with the words of its sentence.
        neighbours: Its neighbours, nearest first.
    """
    if not neighbours:
        return _note(NO_OTHERS)
    rows = (
        f'<tr><th scope="row">{_marked(neighbour.occurrence)}</th><td>{neighbour.line}</td>'
        f"<td>{neighbour.cosine:z.2f}{_bar(neighbour.cosine)}</td></tr>"
        for neighbour in neighbours
    )
    return _table(f"Nearest words to {_marked(place)}", ("word in its sentence", "sentence", "cosine"), rows)


def similarity_table(first: Sequence[str], second: Sequence[str], cosines: NDArray[np.float32]) -> str:
    """Show the similarity of the words of two sentences as a picture.

    Args:
        first: The words of a sentence, one for each row.
        second: The words of another, one for each column.
        cosines: The cosines `[rows, columns]`.
    """
    low, high = float(cosines.min()), float(cosines.max())
    rows = (
        f'<tr><th scope="row">{escape(word)}</th>'
        + "".join(_shaded(f"{value:z.2f}", _share(value, low, high), BLUE) for value in map(float, values))
        + "</tr>"
        for word, values in zip(first, cosines, strict=True)
    )
    caption = f"Cosines from {_shade_sample(low, 0)} to {_shade_sample(high, 1)}"
    return _table(caption, ("", *second), rows, kind="picture")


def fillings_table(place: Occurrence, fillings: Sequence[Filling]) -> str:
    """Show the words that a model expects in a place.

    Args:
        place: The place, with the words of its sentence.
        fillings: The words, most probable first.
    """
    highest = max(filling.probability for filling in fillings)
    rows = (
        f'<tr><th scope="row">{escape(filling.word)}</th>'
        f"<td>{_percent(filling.probability)}{_bar(filling.probability / highest)}</td>"
        f"<td>{_percent(math.exp(-filling.forward_nats))}</td><td>{_percent(math.exp(-filling.backward_nats))}</td></tr>"
        for filling in fillings
    )
    return _table(
        f"Words in place of {_marked(place)}", ("word", "probability", "from the left", "from the right"), rows
    )


def scores_table(scores: Sequence[WordScore]) -> str:
    """Show the perplexity of each word of a sentence, and that of the sentence.

    Args:
        scores: The scores of `<S>`, the words, and `</S>`.
    """
    names = ["start", *(escape(score.word) for score in scores[1:-1]), "end"]
    rows = (
        f'<tr><th scope="row"{_boundary(number, scores)}>{name}{" (unknown)" * score.is_unknown}</th>'
        f"{_surprise(score.forward_nats)}{_surprise(score.backward_nats)}</tr>"
        for number, (name, score) in enumerate(zip(names, scores, strict=True))
    )
    total = _total(scores)
    caption = (
        f"Perplexity of the sentence: forward {total.forward_perplexity:,.1f}, backward "
        f"{total.backward_perplexity:,.1f}, both {total.perplexity:,.1f}"
    )
    return _table(caption, ("word", "forward", "backward"), rows)


def layers_table(
    place: Occurrence, neighbours: Sequence[Neighbour], cosines: Mapping[str, NDArray[np.float32]]
) -> str:
    """Show how similar a word is to others in each layer.

    Args:
        place: The word, with the words of its sentence.
        neighbours: The other words, one for each row.
        cosines: The cosines `[rows]` of each layer, by its name.
    """
    if not neighbours:
        return _note(NO_OTHERS)
    columns = np.stack(list(cosines.values()), axis=1)
    rows = (
        f'<tr><th scope="row">{_marked(neighbour.occurrence)}</th>'
        + "".join(_shaded(f"{value:z.2f}", _share(value, 0, 1), BLUE) for value in map(float, values))
        + "</tr>"
        for neighbour, values in zip(neighbours, columns, strict=True)
    )
    return _table(f"Cosine with {_marked(place)} in each layer", ("word in its sentence", *cosines), rows)


def error_line(message: str) -> str:
    """Show why there is nothing to show."""
    return f'<p class="elmo-error" role="alert">{escape(message)}</p>'


def _note(text: str) -> str:
    return f'<p class="elmo-note">{escape(text)}</p>'


def _table(caption: str, header: Sequence[str], rows: Iterable[str], *, kind: str = "list") -> str:
    """Join a table whose caption and rows are HTML and whose header is text; it scrolls sideways if it is too wide."""
    cells = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' if name else "<td></td>" for name in header)
    return (
        f'<div class="elmo-table" tabindex="0" role="region" aria-label="table"><table class="elmo-{kind}">'
        f"<caption>{caption}</caption><thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _marked(occurrence: Occurrence) -> str:
    words = [escape(word) for word in occurrence.words]
    words[occurrence.position] = f"<mark>{words[occurrence.position]}</mark>"
    return " ".join(words)


def _bar(share: float) -> str:
    width = 100 * _share(share, 0, 1)
    return f'<span class="elmo-bar" aria-hidden="true"><span style="width:{width:.1f}%"></span></span>'


def _share(value: float, low: float, high: float) -> float:
    """Return where a value is between two others, from 0 to 1."""
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 1.0


def _shaded(text: str, share: float, color: tuple[int, int, int]) -> str:
    return f'<td style="{shade(share, color)}">{text}</td>'


def _shade_sample(value: float, share: float) -> str:
    return f'<span class="elmo-sample" style="{shade(share, BLUE)}">{value:z.2f}</span>'


def shade(share: float, color: tuple[int, int, int]) -> str:
    """Return the style of a cell, from white at 0 to the colour at 1, with the text that is easier to read on it."""
    mixed = [round(255 + share * (part - 255)) for part in color]
    text = "#000" if _luminance(mixed) > 0.18 else "#fff"
    return f"background:rgb({mixed[0]},{mixed[1]},{mixed[2]});color:{text}"


def _luminance(color: Sequence[int]) -> float:
    """Compute the relative luminance, from 0 to 1, as WCAG defines it."""
    parts = [part / 255 for part in color]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def _percent(probability: float) -> str:
    return "&lt; 0.1 %" if probability < 0.001 else f"{100 * probability:.1f} %"


def _boundary(number: int, scores: Sequence[WordScore]) -> str:
    return ' class="elmo-boundary"' if number in (0, len(scores) - 1) else ""


def _surprise(nats: float | None) -> str:
    """Return a cell with the perplexity of a word; a direction does not predict where it begins."""
    if nats is None:
        return "<td><span >not predicted</span></td>"
    share = _share(nats, 0, math.log(HIGHEST_PERPLEXITY))
    perplexity = math.exp(min(nats, 700))
    return _shaded(f"{perplexity:,.1f}" if perplexity < 100 else f"{perplexity:,.0f}", share, ORANGE)


def _total(scores: Sequence[WordScore]) -> CorpusScore:
    """Add up the scores of a sentence's words and boundary tokens."""
    total = CorpusScore()
    total.add(
        SentenceScore(
            words=len(scores) - 2,
            unknown_words=sum(score.is_unknown for score in scores),
            predictions=len(scores) - 1,
            forward_nats=sum(score.forward_nats or 0 for score in scores),
            backward_nats=sum(score.backward_nats or 0 for score in scores),
        )
    )
    return total


__all__ = [
    "error_line",
    "fillings_table",
    "layers_table",
    "neighbours_table",
    "scores_table",
    "shade",
    "similarity_table",
]
