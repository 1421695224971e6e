"""`data.named_datasets`: a data set that does not load is one error, and classes are found in columns and lists."""

import sys
from types import SimpleNamespace

import pytest

from elmo_hf import ElmoError
from elmo_hf.data.named_datasets import class_names, load_split


def test_says_which_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(ElmoError, match="needs the library datasets: pip install datasets"):
        load_split("a", None, "train")


def test_names_the_data_set_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(*_: object, split: str) -> None:
        raise ValueError(f"no split {split}")

    exceptions = SimpleNamespace(DatasetsError=RuntimeError)
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset, exceptions=exceptions))
    monkeypatch.setitem(sys.modules, "datasets.exceptions", exceptions)

    with pytest.raises(ElmoError, match=r"^news cannot be loaded \(no split test\): check its name"):
        load_split("news", None, "test")


def test_finds_classes_of_a_column_and_of_a_column_of_lists() -> None:
    classes = SimpleNamespace(names=["O", "B-PER"])

    assert class_names(classes) == ["O", "B-PER"]
    assert class_names(SimpleNamespace(feature=classes)) == ["O", "B-PER"]
    assert class_names(SimpleNamespace(dtype="string")) is None
