"""`prediction.predicates`: predicates that a record names, and those of a list or of a part of speech."""

import re
from pathlib import Path
from typing import Any

import pytest

from elmo_hf import ElmoError
from elmo_hf.prediction.predicates import PredicateFinder, read_predicates


WORDS = ["Ann", "saw", "Bob", "leave", "Will"]
LEMMAS = ["Ann", "see", "Bob", "leave", "will"]
PENN = ["NNP", "VBD", "NNP", "VB", "MD"]
LIST = PredicateFinder(words=frozenset({"see", "will"}))


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"predicates": [3, 1]}, [3, 1]),
        ({"predicates": []}, []),
        ({"pred": 2}, [2]),
        ({"predicate": 0, "pos": PENN}, [0]),
        ({"frames": [{"pred": 1, "tags": []}, {"predicate": 3}]}, [1, 3]),
        ({"frames": [], "pos": PENN}, []),
        ({"pos": PENN}, [1, 3]),
        ({"pos": ["PROPN", "VERB", "PROPN", "VERB", "AUX"]}, [1, 3, 4]),
        # an empty cell of a table
        ({"predicates": None, "pred": None, "frames": None, "pos": PENN}, [1, 3]),
    ],
)
def test_a_record_names_its_predicates_or_they_are_its_verbs(record: dict[str, Any], expected: list[int]) -> None:
    assert PredicateFinder().find(record, WORDS) == expected


def test_other_parts_of_speech() -> None:
    assert PredicateFinder(pos=("MD", "N")).find({"pos": PENN}, WORDS) == [0, 2, 4]


@pytest.mark.parametrize(
    ("record", "expected"),
    [({}, [4]), ({"lemmas": LEMMAS}, [1, 4]), ({"pos": PENN}, [4]), ({"predicates": [0]}, [0])],
)
def test_words_and_lemmas_of_a_list(record: dict[str, Any], expected: list[int]) -> None:
    assert LIST.find(record, WORDS) == expected


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {},
            "the model finds the roles of predicates, and nothing tells which they are: give records with predicates",
        ),
        ({"predicates": 3}, "predicates is 3: give a list"),
        ({"predicates": [5]}, "a predicate is 5: give 0 to 4, the number of its word"),
        ({"predicates": ["saw"]}, "a predicate is 'saw': give 0 to 4"),
        ({"frames": [{}]}, "a predicate is None: give 0 to 4"),
        ({"pos": ["NN"]}, "pos is ['NN']: give one for each of 5 words"),
    ],
)
def test_what_does_not_tell_a_predicate_is_refused(record: dict[str, Any], message: str) -> None:
    with pytest.raises(ElmoError, match=re.escape(message)):
        PredicateFinder().find(record, WORDS)


def test_lemmas_are_those_of_all_words() -> None:
    with pytest.raises(ElmoError, match="lemmas is 'see': give one for each of 5 words"):
        LIST.find({"lemmas": "see"}, WORDS)


def test_reads_a_list(tmp_path: Path) -> None:
    (tmp_path / "verbs.txt").write_text("see\n\n leave \n", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")

    assert read_predicates(tmp_path / "verbs.txt") == ["see", "leave"]
    with pytest.raises(ElmoError, match=r"empty\.txt holds no words: give a word or lemma"):
        read_predicates(tmp_path / "empty.txt")
