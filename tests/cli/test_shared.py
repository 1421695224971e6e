"""`cli.shared`: text that a terminal shows as it is meant, and notes at last."""

import logging

import pytest

from elmo_hf.cli.shared import notes_held_back, printable, width_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Hà Nội 日本", "Hà Nội 日本"),
        ("a\x1b[31mb\n\u202e", r"a\x1b[31mb\n\u202e"),
        ("\u0646\u200c\u0647", "\u0646\u200c\u0647"),
        ("\udcff", r"\udcff"),
    ],
    ids=["text", "control", "joiner", "surrogate"],
)
def test_what_would_disturb_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(("text", "columns"), [("bank", 4), ("日本", 4), ("e\u0301", 1), ("", 0)])
def test_counts_columns(text: str, columns: int) -> None:
    assert width_of(text) == columns


def test_notes_are_shown_at_last_and_not_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("elmo_hf_conversion.config")
    with notes_held_back():
        logger.warning("a note")
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err == "a note\n"

    def fail() -> None:
        with notes_held_back():
            logger.warning("a note")
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    assert capsys.readouterr().err == ""
