"""`elmo_hf.errors`: every error has a message of one line."""

import pytest

from elmo_hf.errors import counted, one_line


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("two\n lines"), "two lines"),
        (ValueError(), "ValueError"),
        (FileNotFoundError(2, "No such file", "a.json"), "a.json: No such file"),
        (
            UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates not allowed"),
            r"'a\udcff' is not UTF-8 (surrogates not allowed): rename or change it.",
        ),
    ],
)
def test_one_line(error: Exception, text: str) -> None:
    assert one_line(error) == text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "word", "1 word"),
        (0, "word", "0 words"),
        (2000, "word", "2,000 words"),
        (2, "mix", "2 mixes"),
        (1, "entry", "1 entry"),
        (2, "entry", "2 entries"),
        (2, "array", "2 arrays"),
        (2, "epoch", "2 epochs"),
    ],
)
def test_counts_in_words(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


@pytest.mark.parametrize(
    ("number", "spec", "text"), [(1.2, ".0f", "1 minute"), (0.96, ".3g", "0.96 minutes"), (59.7, ".0f", "60 minutes")]
)
def test_a_number_is_counted_as_it_is_shown(number: float, spec: str, text: str) -> None:
    assert counted(number, "minute", spec) == text
