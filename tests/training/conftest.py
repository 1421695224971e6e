"""A tagger on the bundled model, and its tokenizer."""

import pytest

from elmo_hf import ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.training.finetuning import load_task_model
from support.english import ELMO_TINY_EN


NAMES = ["O", "B-PER", "I-PER"]


@pytest.fixture
def tokenizer() -> ElmoTokenizer:
    return ElmoTokenizer.from_pretrained(ELMO_TINY_EN)


@pytest.fixture
def tagger() -> ElmoForTokenClassification:
    return load_task_model(ElmoForTokenClassification, ELMO_TINY_EN, NAMES, classifier_dropout=0.0)[0]
