"""`embedding.neighbours`: the neighbours are those of a plain loop over the vectors of the corpus."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo_hf import ElmoError
from elmo_hf.embedding import neighbours
from elmo_hf.embedding.lazy_model import LazyModel
from elmo_hf.embedding.neighbours import Neighbour, NeighbourIndex
from elmo_hf.embedding.occurrences import Occurrence, find_word
from support.sentence_vectors import Loaded, alone


TEXT = """the bank raised rates .
The river left its bank .
the bank raised rates .
a bank of the River
no
rates rose at the Bank , and the river rose
the bank left .""".splitlines()
PLACED = [("a.txt" if number < 4 else "-", number + 1, line.split()) for number, line in enumerate(TEXT)]
QUERY = find_word(["the", "river", "left", "the", "other", "bank", "."], "bank")


@pytest.fixture(scope="module")
def folder(loaded: Loaded) -> Path:
    """The folder of the model."""
    return Path(loaded[0].name_or_path)


@pytest.fixture(scope="module")
def index(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> NeighbourIndex:
    """An index of the text."""
    return NeighbourIndex.build(tmp_path_factory.mktemp("neighbours") / "index", iter(PLACED), folder, batch_size=2)


@pytest.fixture(scope="module")
def expected(loaded: Loaded) -> list[Neighbour]:
    """All words of the text by their cosine with the query, from the model itself."""
    query = alone(loaded, list(QUERY.words))[0][QUERY.position]
    found = []
    for file, line, words in PLACED:
        for position, vector in enumerate(alone(loaded, words)[0]):
            cosine = float(vector @ query / np.linalg.norm(vector) / np.linalg.norm(query))
            found.append(Neighbour(cosine, Occurrence(words, position), file, line, len(found)))
    return sorted(found, key=lambda neighbour: -neighbour.cosine)


def assert_equal(found: list[Neighbour], expected: list[Neighbour]) -> None:
    """Compare places exactly and cosines up to float16; equally near words, up to float16, may change places."""
    assert [each.cosine for each in found] == pytest.approx([each.cosine for each in expected], abs=3e-4)
    key = {each.row: each.cosine for each in expected}
    assert sorted(each.row for each in found) == sorted(key)
    for each in found:
        assert each.cosine == pytest.approx(key[each.row], abs=3e-4)
        same = next(other for other in expected if other.row == each.row)
        assert each[1:] == same[1:]


def test_finds_what_a_plain_loop_finds(index: NeighbourIndex, expected: list[Neighbour]) -> None:
    assert_equal(index.search(QUERY, top=99), expected)
    # the best ones are further apart than float16 can confuse
    assert [each.row for each in index.search(QUERY, top=1)] == [expected[0].row]
    assert len(index) == len(expected)
    assert index.num_sentences == len(TEXT)


def test_equally_near_words_come_in_the_order_of_the_text(index: NeighbourIndex) -> None:
    found = index.search(QUERY, word="raised")

    assert [(each.line, each.word) for each in found] == [(1, "raised"), (3, "raised")]
    assert found[0].cosine == found[1].cosine


def of_word(expected: list[Neighbour], *words: str) -> list[Neighbour]:
    return [each for each in expected if each.word.casefold() in words]


def first_of_each(expected: list[Neighbour]) -> list[Neighbour]:
    return list({each.word.casefold(): each for each in reversed(expected)}.values())[::-1]


@pytest.mark.parametrize(
    ("options", "select"),
    [
        ({"word": "bank"}, lambda all: of_word(all, "bank")),
        ({"word": "BANK"}, lambda all: of_word(all, "bank")),
        ({"min_count": 3}, lambda all: of_word(all, "bank", "the", "rates", "river", ".")),
        ({"distinct": True}, lambda all: sorted(first_of_each(all), key=lambda each: -each.cosine)),
    ],
    ids=["of one word", "in any case", "frequent", "distinct"],
)
def test_selects_words(options: dict, select: Callable, index: NeighbourIndex, expected: list[Neighbour]) -> None:
    wanted = select(expected)

    found = index.search(QUERY, top=99, **options)

    assert len(found) == len(wanted) > 1
    words = [each.word.casefold() for each in found]
    assert sorted(words) == sorted(each.word.casefold() for each in wanted)
    assert [each.cosine for each in found] == pytest.approx([each.cosine for each in wanted], abs=3e-4)


def test_leaves_out_the_sentence_of_the_query(index: NeighbourIndex) -> None:
    query = find_word(["the", "bank", "raised", "rates", "."], "bank")

    found = index.search(query, top=99)

    assert {each.line for each in found} == {2, 4, 5, 6, 7}
    # a vector has no sentence
    assert {each.line for each in index.search(index.vector_of(query), top=2)} == {1, 3}


def test_blocks_change_nothing(index: NeighbourIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = index.search(QUERY, top=99)

    monkeypatch.setattr(neighbours, "BLOCK", 5)

    assert index.search(QUERY, top=99) == whole


def test_is_opened_again(index: NeighbourIndex, folder: Path) -> None:
    opened = NeighbourIndex.open(index.path, folder)

    assert opened.search(QUERY) == index.search(QUERY)


def test_a_few_sentences_are_searched_in_memory(index: NeighbourIndex, folder: Path, loaded: Loaded) -> None:
    vectors = (alone(loaded, words)[0] for _, _, words in PLACED)

    kept = NeighbourIndex.in_memory(iter(PLACED), vectors, LazyModel(folder, loaded=loaded))

    assert_equal(kept.search(QUERY, top=99), index.search(QUERY, top=99))
    assert (len(kept), kept.num_sentences) == (len(index), index.num_sentences)


def test_sentences_without_words_are_refused(folder: Path) -> None:
    with pytest.raises(ElmoError, match=r"^The sentences have no words: give some text\.$"):
        NeighbourIndex.in_memory([("a.txt", 1, [])], [np.empty((0, 8))], LazyModel(folder))


def test_all_layers_are_concatenated(folder: Path, loaded: Loaded, tmp_path: Path) -> None:
    index = NeighbourIndex.build(tmp_path / "index", PLACED[:1], folder, layers="all")

    layers = alone(loaded, PLACED[0][2])[1]
    together = np.concatenate(list(layers), axis=1)
    together /= np.linalg.norm(together, axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(index.vectors, dtype=np.float32), together, atol=1e-3)
    assert NeighbourIndex.open(index.path, folder).search(QUERY)


def test_another_model_or_layer_is_refused(index: NeighbourIndex, folder: Path, copy: Path) -> None:
    (copy / "config.json").write_text((copy / "config.json").read_text(encoding="utf-8") + " ", encoding="utf-8")

    with pytest.raises(
        ElmoError, match=r"is of a model model with other files than .*copy: give that model, or make another index\.$"
    ):
        NeighbourIndex.open(index.path, copy)
    with pytest.raises(ElmoError, match=r"is of the layers mix, not 2: ask for those, or make another index\.$"):
        NeighbourIndex.open(index.path, folder, layers="top")


def test_what_cannot_be_searched_is_named(index: NeighbourIndex) -> None:
    with pytest.raises(ElmoError, match=r"^The corpus does not have the word 'shore': choose another one"):
        index.search(QUERY, word="shore")
    with pytest.raises(ElmoError, match=r"^top is 0 and min_count 1: give 1 or more\.$"):
        index.search(QUERY, top=0)
    with pytest.raises(ElmoError, match=r"^The vector has the shape \[3\], but those of the index .* have \[8\]"):
        index.search(np.ones(3, np.float32))


def test_no_index_is_made_of_nothing_or_in_place_of_something(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()

    with pytest.raises(ElmoError, match=r"^The corpus has no words: check the text\.$"):
        NeighbourIndex.build(tmp_path / "index", [], folder)
    with pytest.raises(ElmoError, match=r"there exists already: remove it or choose another name\.$"):
        NeighbourIndex.build(tmp_path / "there", PLACED, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_vector_without_a_direction_is_named(value: float, index: NeighbourIndex) -> None:
    with pytest.raises(ElmoError, match=r"^The vector has infinite, NaN or too large values: give one that a model"):
        index.search(np.full(index.vectors.shape[1], value))


def test_a_long_vector_has_the_neighbours_of_a_short_one(index: NeighbourIndex) -> None:
    vector = index.vectors[3].astype(np.float32)

    assert index.search(vector * np.float32(1e30)) == index.search(vector)
    with pytest.raises(ElmoError, match=r"^The position 9 is none of a sentence of 7 words"):
        index.search(Occurrence(QUERY.words, 9))
