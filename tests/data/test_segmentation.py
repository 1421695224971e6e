"""Paragraphs become sentences, each with the line on which its paragraph begins."""

import sys
from pathlib import Path

import pytest

from elmo_hf import ElmoError
from elmo_hf.data.corpus import Corpus, read_placed_sentences
from elmo_hf.data.segmentation import SentenceSplitter


SPANISH = "El Sr. Díaz llegó. ¿Quién era? «Nada.»"


def test_splits_by_the_rules_of_the_language() -> None:
    assert SentenceSplitter("es").split(f" {SPANISH} ") == ["El Sr. Díaz llegó.", "¿Quién era?", "«Nada.»"]
    assert SentenceSplitter("en").split("Dr. Smith met J. R. Brown at 5 p.m. on Monday. It cost $3.50.") == [
        "Dr. Smith met J. R. Brown at 5 p.m. on Monday.",
        "It cost $3.50.",
    ]
    # by the rules of English
    assert SentenceSplitter("xx").split("One. Two!") == ["One.", "Two!"]


@pytest.mark.parametrize("text", ["", " \t ", "\n"])
def test_nothing_has_no_sentences(text: str) -> None:
    assert SentenceSplitter("en").split(text) == []


def test_a_line_is_a_paragraph_unless_lines_are_wrapped(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("CHAPTER I\n\nThe king slept\n  well. He woke\nup.\n \nNo.\n", encoding="utf-8")

    def read(*, wrapped: bool) -> list[tuple[int, str]]:
        splitter = SentenceSplitter("en", wrapped=wrapped)
        return [(line, " ".join(words)) for _, line, words in read_placed_sentences(path, splitter=splitter)]

    assert read(wrapped=False) == [
        (1, "CHAPTER I"),
        (3, "The king slept"),
        (4, "well."),
        (4, "He woke"),
        (5, "up."),
        (7, "No."),
    ]
    assert read(wrapped=True) == [(1, "CHAPTER I"), (3, "The king slept well."), (3, "He woke up."), (7, "No.")]
    assert len(list(Corpus(path, seed=1, splitter=SentenceSplitter("en", wrapped=True)))) == 4


def test_a_long_paragraph_takes_no_long_time() -> None:
    # versions of sentencex before 1.0.25 took seconds, or minutes
    assert len(SentenceSplitter("en").split("The king is here. Where is Mr. Smith? " * 10_000)) == 20_000


@pytest.mark.parametrize("language", ["english", "", "ES", "es_MX", "e s"])
def test_refuses_what_is_no_code(language: str) -> None:
    with pytest.raises(ElmoError, match=r"^'.*' is no code of a language: give one of ISO 639, such as en or es\.$"):
        SentenceSplitter(language)


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)

    with pytest.raises(ElmoError, match=r'needs sentencex: pip install "elmo_hf\[sentences\]"$'):
        SentenceSplitter("en")
