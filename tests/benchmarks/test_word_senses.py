"""The nearest sense: files, expressions, averages, fallbacks and F1, on made-up senses."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from elmo_hf import ElmoError
from support.english import ELMO_TINY_EN


BANK = ("bank", "n")
MONEY, RIVER = "bank%1:14:00::", "bank%1:17:01::"
XML = """<corpus lang="en"><text id="d0">
<sentence id="d0.s0"><wf lemma="the" pos="DET">The</wf><instance id="d0.s0.t0" lemma="Bank" pos="NOUN">banks</instance>
<instance id="d0.s0.t1" lemma="take_over" pos="VERB">took over</instance></sentence>
<sentence id="d0.s1"><wf lemma="no" pos="DET">No</wf></sentence></text></corpus>"""


def learn(script: ModuleType, *occurrences: tuple[str, list[float]]) -> object:
    """Learn senses of `bank`, each of one layer."""
    senses = script.Senses()
    for key, vector in occurrences:
        senses.add(script.Occurrence(0, BANK, [key]), np.array([vector], np.float32))
    return senses


def test_json_lines_keep_the_sentences_with_senses(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    rows = [{"words": ["A", "bank"], "senses": [[1, "bank", "n", MONEY, RIVER]]}, {"words": ["No"], "senses": []}]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    assert script.read(str(path)) == [(["A", "bank"], [(1, BANK, [MONEY, RIVER])])]


def test_the_xml_of_the_framework_is_read_with_its_keys(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "test.data.xml"
    path.write_text(XML, encoding="utf-8")
    (tmp_path / "test.gold.key.txt").write_text(f"d0.s0.t0 {MONEY} {RIVER}\nd0.s0.t1 take_over%2:41:00::\n")

    assert script.read(str(path)) == [
        (["The", "banks", "took_over"], [(1, BANK, [MONEY, RIVER]), (2, ("take_over", "v"), ["take_over%2:41:00::"])])
    ]


def test_xml_without_its_keys_is_refused(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "test.data.xml").write_text(XML, encoding="utf-8")

    with pytest.raises(ElmoError, match=r"test\.gold\.key\.txt is missing"):
        script.read(str(tmp_path / "test.data.xml"))


def test_both_files_of_wordnet_give_the_first_senses(script: ModuleType, tmp_path: Path) -> None:
    index, table = tmp_path / "index.sense", tmp_path / "senses.tsv"
    index.write_text(f"{RIVER} 09213565 1 25\n{MONEY} 08420278 2 20\nfat%5:00:00:rich:00 02363358 1 1\n")
    table.write_text(f"bank\tn\t{RIVER}\t{MONEY}\nfat\ta\tfat%5:00:00:rich:00\n")
    first = {BANK: RIVER, ("fat", "a"): "fat%5:00:00:rich:00"}

    assert script.read_first_senses(str(index)) == first
    assert script.read_first_senses(str(table)) == first


def test_expressions_are_split_and_found_again(script: ModuleType) -> None:
    words, places = script.split_expressions(["He", "took_over", "_", "soon"])

    assert words == ["He", "took", "over", "_", "soon"]
    assert [words[place] for place in places] == [["He"], ["took", "over"], ["_"], ["soon"]]


def test_the_nearest_average_wins_not_the_most_frequent_sense(script: ModuleType) -> None:
    senses = learn(script, (MONEY, [1, 0]), (MONEY, [3, 0]), (RIVER, [0.6, 0.8]))

    assert senses.nearest(BANK, np.array([[1, 1]], np.float32), 0) == RIVER
    assert senses.nearest(BANK, np.array([[3, 1]], np.float32), 0) == MONEY
    assert senses.most_frequent(BANK) == MONEY


def test_of_senses_that_are_equally_near_the_most_frequent_wins(script: ModuleType) -> None:
    senses = learn(script, (RIVER, [1, 2]), (MONEY, [1, 2]), (MONEY, [1, 2]))

    assert senses.nearest(BANK, np.array([[5, 1]], np.float32), 0) == MONEY


def test_an_unknown_lemma_falls_back_to_the_first_sense(script: ModuleType) -> None:
    senses, word = learn(script, (MONEY, [1, 0])), script.Occurrence(0, ("bat", "n"), ["bat%1:05:00::"])
    vectors = np.ones((1, 2), np.float32)
    rows = script.rows_of(senses, {("bat", "n"): "bat%1:05:00::"}, 1)

    assert {choose(word, vectors) for choose in rows.values()} == {"bat%1:05:00::"}
    assert {choose(word._replace(lemma=("cat", "n")), vectors) for choose in rows.values()} == {None}


def test_f1_counts_any_right_key_and_words_without_an_answer(script: ModuleType) -> None:
    word = script.Occurrence(0, BANK, [MONEY, RIVER])

    assert script.f1([(word, MONEY), (word, RIVER)]) == 100
    # precision 1/2, recall 1/3
    assert script.f1([(word, MONEY), (word, "bank%1:06:00::"), (word, None)]) == pytest.approx(40)


def test_the_vector_of_an_expression_is_the_mean_of_its_words(script: ModuleType) -> None:
    one = script.Sentence(["He", "took_over"], [script.Occurrence(1, ("take_over", "v"), ["k"])])
    words = script.Sentence(["He", "took", "over"], [script.Occurrence(place, BANK, ["k"]) for place in (1, 2)])

    ((_, mean), (_, first), (_, second)) = script.vectors_of([one, words], ELMO_TINY_EN, "")

    assert mean.shape == (3, 256)
    np.testing.assert_allclose(mean, (first + second) / 2, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "has none of the formats"),
        ('{"words": ["a"], "senses": [[0, "a", "n"]]}', "a sense has no word or no key"),
        ('{"words": ["a"], "senses": [[-1, "a", "n", "a%1"]]}', "a sense has no word or no key"),
        ('{"words": ["a"], "senses": []}', "knows the sense of no word"),
        ('{"text": "a"}', "has none of the formats"),
        ('{"words": ["a"', "has none of the formats"),
    ],
)
def test_lines_of_something_else_are_refused(script: ModuleType, tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "test.jsonl").write_text(f"{line}\n", encoding="utf-8")

    with pytest.raises(ElmoError, match=message):
        script.read(str(tmp_path / "test.jsonl"))


@pytest.mark.parametrize("content", ["", "bank\n", "bank\tn\n"])
def test_a_table_of_senses_that_has_none_is_refused(script: ModuleType, tmp_path: Path, content: str) -> None:
    (tmp_path / "senses.tsv").write_text(content, encoding="utf-8")

    with pytest.raises(ElmoError, match=r"senses\.tsv is no index\.sense, and no table of lemma"):
        script.read_first_senses(str(tmp_path / "senses.tsv"))
