"""What the tests of the commands share: how to run one, and what its answer is held to."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from support.fresh_python import FRESH_PYTHON


MODULE = ["-m", "elmo_hf.cli"]

Captured = pytest.CaptureFixture[str]


def error_of(captured: Captured) -> str:
    """Return the one line on standard error."""
    error = captured.readouterr().err
    assert re.fullmatch(r"elmo-hf: error: [^\n]+\n", error), error
    return error


def run(*arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*FRESH_PYTHON, *MODULE, *map(str, arguments)], input=stdin, capture_output=True, encoding="utf-8", check=False
    )


def vectors_of(model: Path, words: list[str]) -> np.ndarray:
    """Compute the mix of a sentence's words, `[words, H]`, without the code under test."""
    batch = AutoTokenizer.from_pretrained(model)([words], is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        return AutoModel.from_pretrained(model)(**batch).last_hidden_state[0, 1:-1].numpy()
