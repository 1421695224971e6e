"""A tagger on the bundled model, and its tokenizer."""

import pytest

from elmo_hf import ELMO_TINY_EN, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.training.finetuning import load_task_model


NAMES = ["O", "B-PER", "I-PER"]


@pytest.fixture
def tokenizer() -> ElmoTokenizer:
    return ElmoTokenizer.from_pretrained(ELMO_TINY_EN)


@pytest.fixture
def tagger() -> ElmoForTokenClassification:
    return load_task_model(ElmoForTokenClassification, "elmo-tiny-en", NAMES, classifier_dropout=0.0)[0]
