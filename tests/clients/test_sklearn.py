"""scikit-learn: ELMo in pipelines, searches, validation, copies and tables."""

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline

from elmo_hf import ElmoError
from elmo_hf.integrations.vectorizer import ElmoVectorizer


MONEY = ["The bank raised rates.", "The price fell.", "They sold shares.", "Profits rose."] * 3
WATER = ["The river left its bank.", "Rain fell all night.", "They swam in the lake.", "The sea rose."] * 3
TEXTS, LABELS = MONEY + WATER, [0] * len(MONEY) + [1] * len(WATER)


@pytest.fixture
def classifier() -> Pipeline:
    return make_pipeline(ElmoVectorizer(), LogisticRegression())


def test_a_pipeline_learns(classifier: Pipeline) -> None:
    assert classifier.fit(TEXTS, LABELS).score(TEXTS, LABELS) == 1.0
    assert classifier.predict([["Shares", "fell", "."]]) == [0]


def test_is_cross_validated(classifier: Pipeline) -> None:
    # every fold has each text
    assert cross_val_score(classifier, TEXTS, LABELS, cv=3).tolist() == [1.0, 1.0, 1.0]


def test_threads_share_the_vectors(classifier: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with joblib.parallel_config(backend="threading"):
        assert cross_val_score(classifier, TEXTS, LABELS, cv=3, n_jobs=2).tolist() == [1.0, 1.0, 1.0]

    # all are there now, and the model need not be loaded
    monkeypatch.setattr("elmo_hf.embedding.lazy_model.load", None)
    assert ElmoVectorizer().transform(TEXTS).shape == (24, 256)


def test_parameters_are_searched(classifier: Pipeline) -> None:
    search = GridSearchCV(classifier, {"elmovectorizer__layers": [0, "mix"]}, cv=2).fit(TEXTS, LABELS)

    assert search.best_params_["elmovectorizer__layers"] in (0, "mix")
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_clone_has_the_parameters() -> None:
    vectorizer = ElmoVectorizer(layers="top", pool="max", batch_size=2).fit(TEXTS)

    again = clone(vectorizer)

    assert again.get_params() == vectorizer.get_params()
    np.testing.assert_allclose(again.transform(TEXTS[:2]), vectorizer.transform(TEXTS[:2]), atol=1e-6)


def test_columns_have_names() -> None:
    names = ElmoVectorizer().get_feature_names_out()

    assert len(names) == 256
    assert [names[0], names[-1]] == ["elmovectorizer0", "elmovectorizer255"]


def test_a_table_of_one_column_is_its_column(classifier: Pipeline) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS}, index=range(7, 7 + len(TEXTS)))

    classifier.fit(table, LABELS)

    assert classifier.predict(table).tolist() == LABELS
    assert classifier.predict(table["text"]).tolist() == LABELS
    found = classifier[:-1].set_output(transform="pandas").transform(table)
    assert found.index.tolist() == table.index.tolist()
    with pytest.raises(ElmoError, match=r"DataFrame of shape \(24, 2\): give the column"):
        classifier.predict(table.assign(length=1))


@pytest.mark.parametrize("column", ["text", ["text"]], ids=["name", "list"])
def test_a_column_of_a_table_becomes_a_table(column: str | list[str]) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS[:3], "length": [1, 2, 3]}, index=[7, 8, 9])
    transformer = ColumnTransformer([("elmo", ElmoVectorizer(), column)], remainder="passthrough")

    found = transformer.set_output(transform="pandas").fit_transform(table)

    assert found.index.tolist() == [7, 8, 9]
    assert found.columns[0] == "elmo__elmovectorizer0"
    np.testing.assert_allclose(found.iloc[:, :256], ElmoVectorizer().transform(TEXTS[:3]), atol=1e-6)
