"""Pictures: one word in many sentences, and what tasks make of the layers (figure 2 of the paper)."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_hf.embedding.vectors import Vectors
from elmo_hf.errors import ElmoError
from elmo_hf.files import check_new_file, naming_errors, new_file
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo import ElmoForSequenceClassification, ElmoForTokenClassification

from .named_model import NamedModel


# an extra, which is imported when there is something to draw
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASKS = {cls.__name__: cls for cls in (ElmoForTokenClassification, ElmoForSequenceClassification)}

# to each side of a word in its label
CONTEXT_WORDS, CONTEXT_CHARACTERS = 5, 24
# inches that a label takes
ROW = 0.24
# a blue that is dark to everyone, and a grey that does not hide it
DOT, LINE = "#0072B2", "#AAAAAA"


class Occurrence(NamedTuple):
    """A word in its sentence: the words, and its place among them."""

    words: Sequence[str]
    place: int

    def context(self) -> str:
        """Write the word with some of its neighbours."""
        before = _as_many_as_fit(self.words[: self.place][::-1])[::-1]
        after = _as_many_as_fit(self.words[self.place + 1 :])
        parts = [*before, self.words[self.place], *after]
        first = ["…"] if len(before) < self.place else []
        last = ["…"] if self.place + 1 + len(after) < len(self.words) else []
        text = " ".join([*first, *parts, *last])
        return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _as_many_as_fit(words: Sequence[str]) -> list[str]:
    """Take the first of some words."""
    ends = accumulate(len(word) + 1 for word in words[:CONTEXT_WORDS])
    return [word for word, end in zip(words, ends, strict=False) if end <= CONTEXT_CHARACTERS]


def find_occurrences(sentences: Iterable[Sequence[str]], word: str, *, most: int) -> list[Occurrence]:
    """Find the first occurrences of a word, written in capitals or not.

    Args:
        sentences: The words of each.
        word: The word.
        most: Stop after so many.

    Raises:
        ElmoError: If there are fewer than three, which lie in any two dimensions as they do in all.
    """
    wanted = word.casefold()
    found = (
        Occurrence(words, place)
        for words in sentences
        for place, other in enumerate(words)
        if other.casefold() == wanted
    )
    occurrences = list(islice(found, most))
    if len(occurrences) < 3:
        raise ElmoError(f"{word!r} occurs {len(occurrences)} times: give text with three of it, or another word.")
    return occurrences


def vectors_of(occurrences: Sequence[Occurrence], model: NamedModel) -> Vectors:
    """Compute the vector of each occurrence, `[N, W]`."""
    sentences = model.embed(occurrence.words for occurrence in occurrences)
    return np.stack([vectors[place] for vectors, (_, place) in zip(sentences, occurrences, strict=True)])


def project(vectors: Vectors) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Find the two directions in which vectors differ most, the principal components.

    Args:
        vectors: `[N, H]`.

    Returns:
        The points, `[N, 2]`, and the share of the variance that lies in each direction, `[2]`. The largest coordinate
        in each is positive, so that equal vectors give equal pictures.

    Raises:
        ElmoError: If the vectors are all the same.
    """
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    # float32 has 7 digits
    if sizes[0] <= 1e-5 * np.linalg.norm(vectors):
        raise ElmoError("The word has one vector in all sentences, as in layer 0: choose another layer, or more text.")
    points = left[:, :2] * sizes[:2]
    largest = np.abs(points).argmax(axis=0)
    return points * np.sign(points[largest, [0, 1]]), (sizes**2 / (sizes**2).sum())[:2]


def draw_neighbours(occurrences: Sequence[Occurrence], vectors: Vectors, title: str) -> "Figure":
    """Draw each occurrence as a point, and its context at the side, with a line between them.

    Args:
        occurrences: What stands at the points.
        vectors: `[N, H]`, of each of them.
        title: What stands above.

    Raises:
        ElmoError: If the vectors are all the same.
    """
    points, shares = project(vectors)
    per_side = (len(points) + 1) // 2
    # labels stand beside it: a picture grows around what it shows when it is saved
    figure = _new_figure(6, max(3.5, ROW * per_side))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.scatter(points[:, 0], points[:, 1], s=24, color=DOT, edgecolors="white", linewidths=0.5, zorder=3)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.06)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(LINE)
    axes.set_xlabel(f"principal components: across {shares[0]:.0%}, up {shares[1]:.0%} of the variance")
    axes.set_title(title, parse_math=False)
    from_left = points[:, 0].argsort(kind="stable")
    _label_side(axes, points, occurrences, from_left[:per_side], left=True)
    _label_side(axes, points, occurrences, from_left[per_side:], left=False)
    return figure


def _label_side(
    axes: "Axes",
    points: NDArray[np.float64],
    occurrences: Sequence[Occurrence],
    which: NDArray[np.intp],
    *,
    left: bool,
) -> None:
    """Write the contexts of some points one below the other, as high as the points, so that few lines cross."""
    from_above = which[(-points[which, 1]).argsort(kind="stable")]
    for row, index in enumerate(from_above):
        axes.annotate(
            occurrences[index].context(),
            xy=tuple(points[index]),
            xytext=(-0.03 if left else 1.03, 1 - (row + 0.5) / len(from_above)),
            textcoords="axes fraction",
            ha="right" if left else "left",
            va="center",
            fontsize=8,
            # a dollar is a dollar
            parse_math=False,
            # from the end of the text that is next to the points
            arrowprops={
                "arrowstyle": "-",
                "color": LINE,
                "linewidth": 0.6,
                "relpos": (1 if left else 0, 0.5),
                "shrinkA": 0,
                "shrinkB": 2,
            },
            annotation_clip=False,
        )


def read_layer_weights(name: str) -> dict[str, list[float]]:
    """Read the shares of the layers in each mix of a fine-tuned model, by what to call it in the picture.

    Args:
        name: A folder, or a name on the Hub.

    Raises:
        ElmoError: If there is no such model, or it is not fine-tuned.
    """
    try:
        architecture = (ElmoConfig.from_pretrained(name).architectures or ["none"])[0]
        if architecture not in TASKS:
            raise ElmoError(f"{name} is no fine-tuned model but {architecture}: fine-tune it first.")
        model = TASKS[architecture].from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ElmoError(f"{name} cannot be loaded: {' '.join(str(error).split())}") from error
    short = Path(name).resolve().name if Path(name).exists() else name
    return {f"{short}, {place}": mix["weights"] for place, mix in model.layer_weights().items()}


def draw_layer_weights(weights: dict[str, list[float]]) -> "Figure":
    """Draw a row of colours for each mix, a column for each layer, the token layer first.

    Args:
        weights: Shares from 0 to 1, under the name of each row.
    """
    most = max(map(len, weights.values()))
    # a model with fewer layers leaves the rest of its row empty
    shares = [row + [float("nan")] * (most - len(row)) for row in weights.values()]
    figure = _new_figure(0.9 * most, 0.4 * len(shares))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(shares, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    axes.set_xticks(range(most), ["token", *(f"LSTM {layer}" for layer in range(1, most))])
    axes.set_yticks(range(len(shares)), list(weights), parse_math=False)
    axes.set_title("share of each layer")
    for row, places in enumerate(weights.values()):
        for layer, share in enumerate(places):
            axes.text(layer, row, f"{share:.2f}", ha="center", va="center", color="white" if share > 0.6 else "black")
    return figure


def _new_figure(width: float, height: float) -> "Figure":
    """Make an empty picture, of which inches of its axes are given."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ElmoError('Pictures need matplotlib: pip install "elmo_hf[plot]"') from error
    return Figure(figsize=(width, height))


def check_picture(path: Path) -> None:
    """Refuse what cannot be the name of a new picture, before there is anything to draw.

    Raises:
        ElmoError: If it exists, its folder does not, its suffix is of no picture, or matplotlib is not installed.
    """
    check_new_file(path)
    if path.suffix[1:].lower() not in _new_figure(1, 1).canvas.get_supported_filetypes():
        raise ElmoError(f"{path}: {path.suffix or 'no suffix'} is of no picture: name it .png, .pdf or .svg.")


def save_picture(figure: "Figure", path: Path) -> None:
    """Write a new picture, large enough for all of its labels, as its suffix says: PNG, PDF, SVG, ...

    Raises:
        ElmoError: As `check_picture`, or if it cannot be written.
    """
    check_picture(path)
    with new_file(path) as temporary, naming_errors(path):
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=200, bbox_inches="tight")


__all__ = [
    "Occurrence",
    "check_picture",
    "draw_layer_weights",
    "draw_neighbours",
    "find_occurrences",
    "project",
    "read_layer_weights",
    "save_picture",
    "vectors_of",
]
