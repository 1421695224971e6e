"""A small model with random weights, for the tests of `elmo_hf.embedding`."""

import shutil
from pathlib import Path

import pytest
from transformers import AutoModel, AutoTokenizer

from elmo_hf_conversion import convert
from support.original_formats import write_bilm_hdf5
from support.sentence_vectors import Loaded


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The model and its tokenizer."""
    folder = tmp_path_factory.mktemp("embedding")
    # without a projection, rounding errors do not grow from word to word
    convert(write_bilm_hdf5(folder / "original", dim=4), folder / "model")
    return AutoModel.from_pretrained(folder / "model"), AutoTokenizer.from_pretrained(folder / "model")


@pytest.fixture
def copy(loaded: Loaded, tmp_path: Path) -> Path:
    """A copy of the model folder, which a test may damage."""
    return shutil.copytree(loaded[0].name_or_path, tmp_path / "copy")
