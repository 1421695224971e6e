"""What the tests of predictions share: the tokenizer of elmo-tiny-en, and task models on it."""

from collections.abc import Callable
from typing import Any

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from support.english import ELMO_TINY_EN
from support.task_models import task_model


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(ELMO_TINY_EN)


@pytest.fixture
def make_model() -> Callable[..., Any]:
    """Make a task model of a class with these fields of its configuration."""
    return task_model
