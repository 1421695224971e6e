"""`elmo_hf.errors`: every error has a message of one line."""

import pytest

from elmo_hf.errors import one_line


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
