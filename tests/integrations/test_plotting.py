"""`integrations.plotting`: the place and label of each point, and what cannot be drawn."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from safetensors.torch import load_file, save_file

from elmo_hf import ElmoError, ElmoForTokenClassification
from elmo_hf.embedding.lazy_model import LazyModel
from elmo_hf.embedding.occurrences import Occurrence
from elmo_hf.integrations.plotting import (
    check_picture,
    context_of,
    draw_layer_weights,
    draw_neighbours,
    draw_occurrences,
    find_occurrences,
    project,
    read_layer_weights,
    save_picture,
    vectors_of,
)
from support.cli_runs import vectors_of as words_of
from support.english import ELMO_TINY_EN
from support.tiny_models import tiny_model


SENTENCES = [["Bank", "on", "it"], ["no"], [], ["the", "bank", "of", "a", "bank"], ["a", "BANK"]]


@pytest.fixture(scope="module")
def many() -> tuple[list[Occurrence], np.ndarray]:
    """Forty occurrences of a word, each in different words, and their vectors."""
    rng = np.random.default_rng(0)
    words = [[f"{letter}{number}" * 2 for letter in "abc"] for number in range(40)]
    occurrences = [Occurrence([*part, "bank", *part], 3) for part in words]
    return occurrences, rng.standard_normal((40, 8)).astype(np.float32)


def test_finds_a_word_in_upper_and_lower_case() -> None:
    found = find_occurrences(SENTENCES, "bank", most=9)

    assert [(sentence[position], position) for sentence, position in found] == [
        ("Bank", 0),
        ("bank", 1),
        ("bank", 4),
        ("BANK", 1),
    ]


def test_reads_no_further_than_it_has_to() -> None:
    sentences = iter([*SENTENCES, ["unread"]])

    find_occurrences(sentences, "bank", most=3)

    assert next(sentences) == ["a", "BANK"]


def test_too_few_occurrences_are_named() -> None:
    with pytest.raises(ElmoError, match=r"^The text has 1 occurrence of 'on', and a picture needs 3: give more text"):
        find_occurrences(SENTENCES, "on", most=9)


@pytest.mark.parametrize(
    ("words", "position", "context"),
    [
        (["a", "bank"], 1, "a bank"),
        (["bank"], 0, "bank"),
        (list("abcdefghijklm"), 6, "… b c d e f g h i j k l …"),
        (["x" * 30, "in", "the", "bank", "y" * 30], 3, "… in the bank …"),
        (["a\x1b", "bank"], 1, "a\N{REPLACEMENT CHARACTER} bank"),
    ],
)
def test_a_context_is_whole_words_near_the_word(words: list[str], position: int, context: str) -> None:
    assert context_of(Occurrence(words, position)) == context


def test_an_occurrence_has_the_vector_at_its_position(bilm_model: Path) -> None:
    occurrences = find_occurrences(SENTENCES, "bank", most=9)

    found = vectors_of(occurrences, LazyModel(bilm_model))

    expected = [words_of(bilm_model, list(sentence))[position] for sentence, position in occurrences]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_points_lie_along_the_principal_components() -> None:
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.standard_normal((8, 8)))
    # far apart in one direction, less in another, around somewhere
    plane = np.array([[9.0, 1.0], [-4.0, 2.0], [-5.0, -3.0], [0.0, 0.0]])
    vectors = (plane @ turn[:2] + 7).astype(np.float32)

    points, shares = project(vectors)

    # their distances are kept, and their covariance is diagonal
    distances = [np.linalg.norm(one - other) for one, other in combinations(points, 2)]
    expected = [np.linalg.norm(one - other) for one, other in combinations(plane, 2)]
    np.testing.assert_allclose(distances, expected, rtol=1e-4)
    covariance = points.T @ points
    assert abs(covariance[0, 1]) < 1e-6 < covariance[1, 1] < covariance[0, 0]
    np.testing.assert_allclose(shares, np.diag(covariance) / covariance.trace(), rtol=1e-4)
    # the signs do not change the picture
    np.testing.assert_allclose(project(vectors[::-1])[0][::-1], points, atol=1e-4)
    assert (np.take_along_axis(points, np.abs(points).argmax(axis=0)[None], axis=0) > 0).all()


def test_one_vector_cannot_be_drawn(bilm_model: Path) -> None:
    occurrences = find_occurrences([["the", "bank"], ["a", "bank"], ["bank"]], "bank", most=9)

    with pytest.raises(
        ElmoError, match=r"has the same vector in all sentences, as it does in layer 0: choose another layer"
    ):
        project(vectors_of(occurrences, LazyModel(bilm_model, layers=0)))


def test_no_label_is_above_another_or_a_point(many: tuple[list[Occurrence], np.ndarray]) -> None:
    figure = draw_occurrences(*many, title="bank")

    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    axes = figure.axes[0]
    # the extent of the text without its line
    texts = [super(type(text), text).get_window_extent(renderer) for text in axes.texts]
    assert len(texts) == 40
    assert not [pair for pair in combinations(texts, 2) if pair[0].overlaps(pair[1])]
    assert not [text for text in texts if text.overlaps(axes.bbox)]


def test_a_label_is_at_the_side_of_its_point(many: tuple[list[Occurrence], np.ndarray]) -> None:
    occurrences, vectors = many
    points, _ = project(vectors)

    texts = draw_occurrences(occurrences, vectors, title="bank").axes[0].texts

    by_context = {context_of(occurrence): point for occurrence, point in zip(occurrences, points, strict=True)}
    left = [by_context[text.get_text()] for text in texts if text.get_ha() == "right"]
    right = [by_context[text.get_text()] for text in texts if text.get_ha() == "left"]
    assert len(left) == len(right) == 20
    assert max(point[0] for point in left) < min(point[0] for point in right)
    # from the top down
    assert [point[1] for point in left] == sorted((point[1] for point in left), reverse=True)


def test_neighbours_are_drawn_around_the_word_in_another_colour() -> None:
    query = Occurrence(["the", "left", "hand"], 1)
    neighbours = [Occurrence(["she", "went"], 1), Occurrence(["right"], 0)]

    axes = draw_neighbours(query, neighbours, np.eye(3, 4, dtype=np.float32), title="left").axes[0]

    colors = {text.get_text(): text.get_color() for text in axes.texts}
    assert set(colors) == {"the [left] hand", "she [went]", "[right]"}
    assert colors["she [went]"] == colors["[right]"] == "black" != colors["the [left] hand"]
    first, *others = axes.collections[0].get_facecolors().tolist()
    assert first not in others
    with pytest.raises(ElmoError, match=r"^The word 'left' has 1 neighbour, and a picture needs 2: give more text"):
        draw_neighbours(query, neighbours[:1], np.eye(2, 4, dtype=np.float32), title="left")


def test_dollar_signs_are_shown_as_they_are() -> None:
    occurrences = [Occurrence(["$5", "or", "$x_1", "bank"], 3)] * 3
    vectors = np.eye(3, 4, dtype=np.float32)

    # as mathematics, one of these could not be drawn
    figure = draw_occurrences(occurrences, vectors, title="$^$")

    figure.draw(FigureCanvasAgg(figure).get_renderer())


def test_reads_the_weights_of_each_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_model(
        ElmoForTokenClassification, head="bilstm-crf", mix_at="both", id2label={0: "a", 1: "b"}
    ).save_pretrained("tagger")

    weights = read_layer_weights("tagger")

    assert list(weights) == ["tagger, input", "tagger, output"]
    # weights -1, 0, 1
    assert weights["tagger, input"] == pytest.approx([0.0900, 0.2447, 0.6652], abs=1e-4)


def test_a_model_without_elmo_has_no_layers_to_draw(tmp_path: Path) -> None:
    fields = {"mix_at": "none", "task_char_embedding_dim": 2, "id2label": {0: "a", 1: "b"}}
    tiny_model(ElmoForTokenClassification, **fields).save_pretrained(tmp_path)

    with pytest.raises(ElmoError, match=r" has no biLM, whose layers it could weigh: give a model that was trained"):
        read_layer_weights(str(tmp_path))


def test_a_mix_that_is_missing_is_not_made_up(tmp_path: Path) -> None:
    tiny_model(ElmoForTokenClassification, id2label={0: "a", 1: "b"}).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "scalar_mix" not in name}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(
        ElmoError, match=r"lack elmo\.scalar_mix\.gamma, elmo\.scalar_mix\.weights: save the model again"
    ):
        read_layer_weights(str(tmp_path))


def test_draws_a_row_for_each_mix_with_as_many_layers_as_it_has() -> None:
    axes = draw_layer_weights({"a": [0.25, 0.75], "b": [0.5, 0.25, 0.25]}).axes[0]

    assert [label.get_text() for label in axes.get_xticklabels()] == ["token", "LSTM 1", "LSTM 2"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for text in axes.texts] == ["0.25", "0.75", "0.50", "0.25", "0.25"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (ELMO_TINY_EN, r"elmo-tiny-en is not a fine-tuned model but ElmoForPreTraining: fine-tune it first\.$"),
        ("absent", r"^absent cannot be loaded: .*$"),
    ],
)
def test_what_has_no_mix_of_a_task_is_named(name: str, message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        read_layer_weights(name)


@pytest.mark.parametrize("suffix", [".png", ".PDF", ".svg"])
def test_the_suffix_says_what_is_written(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"picture{suffix}"

    save_picture(draw_layer_weights({"a": [0.25, 0.75]}), path)

    start = {".png": b"\x89PNG", ".PDF": b"%PDF", ".svg": b"<?xml"}[suffix]
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("picture.nothing", r"picture\.nothing: \.nothing is not a format of pictures: use \.png, \.pdf or \.svg\.$"),
        ("picture", r"picture: no suffix is not a format of pictures"),
        ("no/picture.png", r"no is not a folder: create it first\.$"),
        ("there.png", r"there\.png exists already"),
    ],
)
def test_what_is_no_name_of_a_picture_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "there.png").touch()

    with pytest.raises(ElmoError, match=message):
        check_picture(tmp_path / name)
