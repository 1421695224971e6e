"""Pictures by matplotlib: a word in many sentences, its neighbours, the layers of a task (figure 2 of the paper)."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from elmo_hf.embedding.lazy_model import LazyModel
from elmo_hf.embedding.loading import first_of, quiet_loading
from elmo_hf.embedding.occurrences import Occurrence
from elmo_hf.embedding.vectors import Vectors
from elmo_hf.errors import ElmoError, counted, one_line
from elmo_hf.files import check_new_file, naming_errors, new_file
from elmo_hf.model import MODEL_CLASSES, ElmoConfig
from elmo_hf.model.modeling_elmo import ElmoTaskModel


# an extra: it is imported when there is something to draw
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TASK_CLASSES = {name: cls for name, cls in MODEL_CLASSES.items() if issubclass(cls, ElmoTaskModel)}

# a label shows at most this much on each side of the word
CONTEXT_WORDS, CONTEXT_CHARACTERS = 5, 24
# height of a label in inches
ROW = 0.24
# fewer vectors lie in a plane, whatever they are
MIN_POINTS = 3
# a blue that is dark to every eye, an orange that every eye tells from it, and a grey that does not hide them
DOT, QUERY, LINE = "#0072B2", "#D55E00", "#AAAAAA"


def context_of(occurrence: Occurrence, *, marked: bool = False) -> str:
    """Return a word with some of the words around it, as text that a picture can show.

    Args:
        occurrence: The word in its sentence.
        marked: Whether to put the word in brackets.
    """
    words, position = occurrence
    before = _as_many_as_fit(words[:position][::-1])[::-1]
    after = _as_many_as_fit(words[position + 1 :])
    parts = [*before, f"[{occurrence.word}]" if marked else occurrence.word, *after]
    first = ["…"] if len(before) < position else []
    last = ["…"] if position + 1 + len(after) < len(words) else []
    text = " ".join([*first, *parts, *last])
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _as_many_as_fit(words: Sequence[str]) -> list[str]:
    """Return the first words that fit into one side of a label."""
    ends = accumulate(len(word) + 1 for word in words[:CONTEXT_WORDS])
    return [word for word, end in zip(words, ends, strict=False) if end <= CONTEXT_CHARACTERS]


def find_occurrences(sentences: Iterable[Sequence[str]], word: str, *, most: int) -> list[Occurrence]:
    """Find the first occurrences of a word, in upper or lower case.

    Args:
        sentences: The words of each sentence. No more are read than needed.
        word: The word to look for.
        most: The number of occurrences to stop at.

    Raises:
        ElmoError: If there are fewer than three, because the distances between two say nothing.
    """
    wanted = word.casefold()
    found = (
        Occurrence(words, position)
        for words in sentences
        for position, other in enumerate(words)
        if other.casefold() == wanted
    )
    occurrences = list(islice(found, most))
    if len(occurrences) < MIN_POINTS:
        raise ElmoError(
            f"The text has {counted(len(occurrences), 'occurrence')} of {word!r}, and a picture needs {MIN_POINTS}: "
            "give more text, or another word."
        )
    return occurrences


def vectors_of(occurrences: Sequence[Occurrence], model: LazyModel) -> Vectors:
    """Compute the vector of each occurrence.

    Returns:
        Vectors `[N, W]`, where W is the model's `width`.
    """
    sentences = model.embed(occurrence.words for occurrence in occurrences)
    return np.stack([vectors[position] for vectors, (_, position) in zip(sentences, occurrences, strict=True)])


def project(vectors: Vectors) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Project vectors onto their first two principal components.

    The sign of a component is arbitrary; here its largest coordinate is positive, so that the same vectors always give
    the same picture.

    Args:
        vectors: Vectors `[N, H]`.

    Returns:
        The points `[N, 2]`, and the fraction of the variance that each component explains, `[2]`.

    Raises:
        ElmoError: If all vectors are equal.
    """
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    # float32 has 7 digits
    if sizes[0] <= 1e-5 * np.linalg.norm(vectors):
        raise ElmoError(
            "The word has the same vector in all sentences, as it does in layer 0: choose another layer, or more text."
        )
    points = left[:, :2] * sizes[:2]
    largest = np.abs(points).argmax(axis=0)
    return points * np.sign(points[largest, [0, 1]]), (sizes**2 / (sizes**2).sum())[:2]


def draw_occurrences(occurrences: Sequence[Occurrence], vectors: Vectors, title: str) -> "Figure":
    """Draw each occurrence of a word as a point, and a line from it to its context at the side of the picture.

    Args:
        occurrences: The occurrences of the word.
        vectors: Their vectors `[N, H]`.
        title: The title of the picture.

    Raises:
        ElmoError: If all vectors are equal, or matplotlib is not installed.
    """
    return _draw_points([context_of(occurrence) for occurrence in occurrences], vectors, title)


def draw_neighbours(query: Occurrence, neighbours: Sequence[Occurrence], vectors: Vectors, title: str) -> "Figure":
    """Draw a word and its nearest neighbours as `draw_occurrences` does, with the word in another colour.

    Args:
        query: The word in its sentence.
        neighbours: Its neighbours in theirs.
        vectors: The vectors `[1 + N, H]` of the word and its `N` neighbours.
        title: The title of the picture.

    Raises:
        ElmoError: If there are fewer than two neighbours, all vectors are equal, or matplotlib is not installed.
    """
    if 1 + len(neighbours) < MIN_POINTS:
        raise ElmoError(
            f"The word {query.word!r} has {counted(len(neighbours), 'neighbour')}, and a picture needs 2: give more "
            "text, or ask for more."
        )
    labels = [context_of(occurrence, marked=True) for occurrence in (query, *neighbours)]
    return _draw_points(labels, vectors, title, first_color=QUERY)


def _draw_points(labels: Sequence[str], vectors: Vectors, title: str, *, first_color: str = DOT) -> "Figure":
    """Draw points in the first two principal components of their vectors `[N, H]`, and their labels at the sides."""
    points, shares = project(vectors)
    colors = [first_color, *[DOT] * (len(points) - 1)]
    per_side = (len(points) + 1) // 2
    # labels are outside the axes: saving enlarges the picture to hold them
    figure = _new_figure(6, max(3.5, ROW * per_side))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.scatter(points[:, 0], points[:, 1], s=24, color=colors, edgecolors="white", linewidths=0.5, zorder=3)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.06)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(LINE)
    axes.set_xlabel(f"principal components: across {shares[0]:.0%}, up {shares[1]:.0%} of the variance")
    axes.set_title(title, parse_math=False)
    texts = ["black" if color == DOT else color for color in colors]
    from_left = points[:, 0].argsort(kind="stable")
    _label_side(axes, points, labels, texts, from_left[:per_side], left=True)
    _label_side(axes, points, labels, texts, from_left[per_side:], left=False)
    return figure


def _label_side(
    axes: "Axes",
    points: NDArray[np.float64],
    labels: Sequence[str],
    colors: Sequence[str],
    indices: NDArray[np.intp],
    *,
    left: bool,
) -> None:
    """Write the labels of these points below each other, in the order of the points, so that few lines cross."""
    from_above = indices[(-points[indices, 1]).argsort(kind="stable")]
    for row, index in enumerate(from_above):
        axes.annotate(
            labels[index],
            xy=tuple(points[index]),
            xytext=(-0.03 if left else 1.03, 1 - (row + 0.5) / len(from_above)),
            textcoords="axes fraction",
            ha="right" if left else "left",
            va="center",
            fontsize=8,
            color=colors[index],
            # show dollar signs as they are
            parse_math=False,
            # the line begins at the end of the text that is next to the points
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
    """Read the weight of each layer in the mixes of a fine-tuned model.

    Args:
        name: A model folder, or a name on the Hub.

    Returns:
        The weights of each mix, from the token layer up, by the label of its row in the picture.

    Raises:
        ElmoError: If there is no such model, or it has no task.
    """
    try:
        architecture = (ElmoConfig.from_pretrained(name).architectures or ["none"])[0]
        if architecture not in TASK_CLASSES:
            raise ElmoError(f"{name} is not a fine-tuned model but {architecture}: fine-tune it first.")
        with quiet_loading():
            model, report = TASK_CLASSES[architecture].from_pretrained(name, output_loading_info=True)
    except (OSError, ValueError) as error:
        raise ElmoError(f"{name} cannot be loaded: {one_line(error)}") from error
    if report["missing_keys"]:
        raise ElmoError(f"The weights in {name} lack {first_of(report['missing_keys'])}: save the model again.")
    if not model.has_bilm:
        raise ElmoError(f"{name} has no biLM, whose layers it could weigh: give a model that was trained with ELMo.")
    short = Path(name).resolve().name if Path(name).exists() else name
    return {f"{short}, {where}": mix["weights"] for where, mix in model.layer_weights().items()}


def draw_layer_weights(weights: dict[str, list[float]]) -> "Figure":
    """Draw a row of coloured cells for each mix: the token layer, then each biLSTM layer.

    Args:
        weights: The weights of each mix, from 0 to 1, by the label of its row.

    Raises:
        ElmoError: If matplotlib is not installed.
    """
    num_layers = max(map(len, weights.values()))
    # a model with fewer layers leaves the rest of its row empty
    rows = [row + [float("nan")] * (num_layers - len(row)) for row in weights.values()]
    figure = _new_figure(0.9 * num_layers, 0.4 * len(rows))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(rows, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    axes.set_xticks(range(num_layers), ["token", *(f"LSTM {layer}" for layer in range(1, num_layers))])
    axes.set_yticks(range(len(rows)), list(weights), parse_math=False)
    axes.set_title("weight of each layer")
    for row, values in enumerate(weights.values()):
        for layer, weight in enumerate(values):
            color = "white" if weight > 0.6 else "black"
            axes.text(layer, row, f"{weight:.2f}", ha="center", va="center", color=color)
    return figure


def _new_figure(width: float, height: float) -> "Figure":
    """Create an empty picture, given the size of its axes in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ElmoError('Pictures need matplotlib: pip install "elmo_hf[plot]"') from error
    return Figure(figsize=(width, height))


def check_picture(path: Path) -> None:
    """Check that a new picture can have this name, before there is anything to draw.

    Raises:
        ElmoError: If the file exists, its folder does not, matplotlib has no format of this suffix, or is not
            installed.
    """
    check_new_file(path)
    if path.suffix[1:].lower() not in _new_figure(1, 1).canvas.get_supported_filetypes():
        raise ElmoError(f"{path}: {path.suffix or 'no suffix'} is not a format of pictures: use .png, .pdf or .svg.")


def save_picture(figure: "Figure", path: Path) -> None:
    """Write a picture in the format of the suffix, large enough for all of its labels.

    Args:
        figure: The picture.
        path: The file to create, such as `.png`, `.pdf` or `.svg`.

    Raises:
        ElmoError: If `check_picture` refuses the name, or the file cannot be written.
    """
    check_picture(path)
    with new_file(path) as temporary, naming_errors(path):
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=200, bbox_inches="tight")


__all__ = [
    "check_picture",
    "context_of",
    "draw_layer_weights",
    "draw_neighbours",
    "draw_occurrences",
    "find_occurrences",
    "project",
    "read_layer_weights",
    "save_picture",
    "vectors_of",
]
