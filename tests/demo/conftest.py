"""What the tests of the page share: a language model with random weights."""

from pathlib import Path

import pytest

from elmo_hf import ElmoForPreTraining, ElmoTokenizer
from elmo_hf.demo.models import DemoModel
from support.tiny_models import tiny_model


VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "bank", "raised", "rates", "river", "left", "its", "."]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a language model whose tokenizer has no mask. Not to be written to."""
    folder = tmp_path_factory.mktemp("demo") / "model"
    tokenizer = ElmoTokenizer(VOCABULARY, 20)
    tokenizer.save_pretrained(folder)
    tiny_model(ElmoForPreTraining, vocab_size=tokenizer.vocab_size).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def model(folder: Path) -> DemoModel:
    """That model, as the page holds it."""
    return DemoModel(str(folder))
