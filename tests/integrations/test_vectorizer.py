"""`integrations.vectorizer`: one vector for each text, and the rules of scikit-learn."""

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from elmo_hf import ELMO_SMALL_EN, ElmoError
from elmo_hf.embedding import Sentence
from elmo_hf.embedding.lazy_model import LazyModel
from elmo_hf.integrations.vector_cache import VECTOR_CACHE
from elmo_hf.integrations.vectorizer import ElmoVectorizer
from support.cli_runs import vectors_of


TEXTS = ["The bank raised rates.", ["didn't", "stop."], ""]
WORDS = ["The", "bank", "raised", "rates", "."]


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    VECTOR_CACHE.clear()
    yield
    VECTOR_CACHE.clear()


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The texts that are computed, in a list that grows."""
    texts: list[object] = []
    embed = LazyModel.embed

    def record(self: LazyModel, sentences: list[object]) -> object:
        texts.extend(sentences)
        return embed(self, sentences)

    monkeypatch.setattr(LazyModel, "embed", record)
    return texts


def test_the_vector_of_a_text_is_the_mean_of_its_words() -> None:
    found = ElmoVectorizer().fit_transform(TEXTS)

    assert found.shape == (3, 256)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], vectors_of(ELMO_SMALL_EN, WORDS).mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found[1], vectors_of(ELMO_SMALL_EN, TEXTS[1]).mean(axis=0), atol=1e-5)
    assert not found[2].any()


def test_or_the_maximum_of_its_words() -> None:
    found = ElmoVectorizer(pool="max").transform([WORDS])

    np.testing.assert_allclose(found[0], vectors_of(ELMO_SMALL_EN, WORDS).max(axis=0), atol=1e-5)


def test_all_layers_are_concatenated(bilm_model: Path) -> None:
    texts = [["The", "bank"], []]
    each = [ElmoVectorizer(bilm_model, layers=layer).transform(texts) for layer in range(3)]

    found = ElmoVectorizer(bilm_model, layers="all").transform(texts)

    np.testing.assert_allclose(found, np.concatenate(each, axis=1), atol=1e-6)


def test_takes_a_generator_and_an_array(bilm_model: Path) -> None:
    vectorizer = ElmoVectorizer(bilm_model, batch_size=2)

    found = vectorizer.transform(word for word in ["a", "b", "c"])

    np.testing.assert_allclose(found, vectorizer.transform(np.array(["a", "b", "c"])), atol=1e-6)
    assert vectorizer.transform([]).shape == (0, 8)


def test_a_table_of_one_column_is_its_column(bilm_model: Path) -> None:
    vectorizer = ElmoVectorizer(bilm_model)

    found = vectorizer.fit_transform(np.array([["a"], ["b c"], ["d"]], dtype=object))

    np.testing.assert_allclose(found, vectorizer.transform(["a", "b c", "d"]), atol=1e-6)


@pytest.mark.parametrize("texts", ["The bank", {"text": ["a"]}, np.array([["a", "b"]])], ids=type)
def test_fit_refuses_what_is_not_one_column(texts: object) -> None:
    with pytest.raises(ElmoError, match=r"The sentences are .*: (give|put)"):
        ElmoVectorizer().fit(texts)


def test_changed_parameters_take_effect_at_once(bilm_model: Path) -> None:
    vectorizer = ElmoVectorizer(bilm_model).fit([])
    vectorizer.transform(["a"])

    vectorizer.set_params(model=ELMO_SMALL_EN)

    assert vectorizer.transform(["a"]).shape == (1, 256)


def test_a_pickle_holds_the_name_and_not_the_weights() -> None:
    vectorizer = ElmoVectorizer().fit([])
    expected = vectorizer.transform(TEXTS)

    pickled = pickle.dumps(vectorizer)

    assert len(pickled) < 2000
    np.testing.assert_array_equal(pickle.loads(pickled).transform(TEXTS), expected)  # noqa: S301 - our own


def test_keeps_the_rules_of_scikit_learn() -> None:
    # most of its checks need tables of numbers, and skip themselves
    with pytest.warns(UserWarning, match="Can't test estimator ElmoVectorizer"):
        results = check_estimator(ElmoVectorizer(), on_fail="raise", on_skip=None)

    assert {result["status"] for result in results} <= {"passed", "skipped"}


@pytest.mark.parametrize(
    ("parameters", "texts", "message"),
    [
        *(({"cache_size": size}, [], rf"cache_size is {size!r}: give the megabytes") for size in ("5", None, True)),
        *(
            ({"batch_size": size}, [], rf"batch_size is {size!r}: give the number")
            for size in (0, 1.5, "5", None, True)
        ),
        ({"cache_size": -1}, [], r"cache_size is -1: give the megabytes to use, or 0\."),
        ({"pool": "sum"}, [], r"There is no pool 'sum': choose mean or max\."),
        ({"layers": 7}, [], r"There is no layer '7'"),
        ({"model": "absent"}, [], r"absent is not a model folder"),
        ({}, "The bank", r"The sentences are one text: put it in a list\."),
        ({}, {"text": ["a"]}, r"The sentences are a dict: give the column"),
        ({}, np.array([["a", "b"]]), r"ndarray of shape \(1, 2\): give the column"),
        ({}, ["a", None], r"Sentence 1 is None: give a text or a list of words"),
        ({}, [["a", 1]], r"Sentence 0 is \['a', 1\]: give a text"),
    ],
)
def test_what_cannot_be_used_is_named(parameters: dict[str, object], texts: object, message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        ElmoVectorizer(**parameters).fit_transform(texts)


def test_a_text_is_computed_once_for_all_vectorizers_like_this_one(bilm_model: Path, computed: list[object]) -> None:
    vectorizer = ElmoVectorizer(bilm_model)

    first = vectorizer.transform(["a b", "c", "a b", ""])
    again = clone(vectorizer).transform(["", "a b", ["d"]])
    unpickled = pickle.loads(pickle.dumps(vectorizer)).transform([["d"], "c"])  # noqa: S301 - our own

    assert computed == ["a b", "c", "", ["d"]]
    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_array_equal(again[:2], first[[3, 0]])
    np.testing.assert_array_equal(unpickled, [again[2], first[1]])


def test_a_list_of_words_is_not_its_text(bilm_model: Path, computed: list[object]) -> None:
    ElmoVectorizer(bilm_model).transform(["a.", ["a."], ["a", "."], Sentence("text", ["a", "."])])

    # and a sentence is its words
    assert computed[:2] == ["a.", ["a."]]
    assert len(computed) == 3


@pytest.mark.parametrize("other", [{"pool": "max"}, {"layers": 0}, {"layers": "sum"}], ids=str)
def test_other_parameters_have_vectors_of_their_own(
    bilm_model: Path, computed: list[object], other: dict[str, object]
) -> None:
    vectorizer = ElmoVectorizer(bilm_model)
    before = vectorizer.transform(["a b"])

    after = vectorizer.set_params(**other).transform(["a b"])

    assert computed == ["a b", "a b"]
    assert not np.allclose(before, after)


def test_a_changed_model_has_vectors_of_its_own(bilm_model: Path, tmp_path: Path, computed: list[object]) -> None:
    folder = tmp_path / "model"
    shutil.copytree(bilm_model, folder)
    loaded = ElmoVectorizer(folder)
    before = loaded.transform(["a b"])
    shutil.rmtree(folder)
    shutil.copytree(ELMO_SMALL_EN, folder)

    assert ElmoVectorizer(folder).transform(["a b"]).shape == (1, 256)
    np.testing.assert_array_equal(loaded.transform(["a b"]), before)
    assert computed == ["a b", "a b"]


def test_without_memory_for_vectors_every_text_is_computed(bilm_model: Path, computed: list[object]) -> None:
    vectorizer = ElmoVectorizer(bilm_model, cache_size=0)

    first, second = vectorizer.transform(["a", "a"])

    assert computed == ["a", "a"]
    assert VECTOR_CACHE.num_bytes == 0
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_the_memory_for_vectors_has_a_limit(bilm_model: Path) -> None:
    vectorizer = ElmoVectorizer(bilm_model, cache_size=0.01)

    found = vectorizer.transform([str(number) for number in range(100)])

    assert 5_000 < VECTOR_CACHE.num_bytes <= 10_000
    np.testing.assert_allclose(found[:5], vectorizer.transform(list("01234")), atol=1e-6)
