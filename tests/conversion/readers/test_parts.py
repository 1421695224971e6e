"""`conversion.readers.parts`: options and vocabulary are found by their content."""

from pathlib import Path

import pytest

from elmo_hf_conversion.readers.base import ConversionError, InputFile
from elmo_hf_conversion.readers.content import Kind
from elmo_hf_conversion.readers.parts import find_options, find_vocabulary, only, options_among, read_lines


def written(folder: Path, name: str, content: str, kind: Kind, *, explicit: bool = False) -> InputFile:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return InputFile(name, kind, path, explicit=explicit)


def test_options_have_a_section_lstm(tmp_path: Path) -> None:
    options = written(tmp_path, "odd name", '{"lstm": {}}', Kind.JSON)
    files = [written(tmp_path, "options.json", "{}", Kind.JSON), written(tmp_path, "b", '{"ls', Kind.JSON), options]

    assert find_options(files) is options


def test_damaged_options_that_were_named(tmp_path: Path) -> None:
    files = [written(tmp_path, "options.json", '{"lstm"', Kind.JSON, explicit=True)]

    with pytest.raises(ConversionError, match=r"options.json is not valid JSON"):
        options_among(files)


def test_two_of_a_role_are_named(tmp_path: Path) -> None:
    files = [written(tmp_path, name, "", Kind.TEXT) for name in ("a.json", "b.json")]

    with pytest.raises(ConversionError, match=r"2 files of options: a.json, b.json. Name the files of one model"):
        only(files, "options", files)


def test_a_vocabulary_by_its_name_or_its_first_lines(tmp_path: Path) -> None:
    readme = written(tmp_path, "README", "of a model", Kind.TEXT)
    named = written(tmp_path, "vocab-2016.txt", "the", Kind.TEXT)
    begun = written(tmp_path, "words.txt", "</S>\n<S>\nthe\n", Kind.TEXT)

    assert find_vocabulary([readme]) is None
    assert find_vocabulary([readme, named]) is named
    assert find_vocabulary([readme, begun]) is begun


def test_the_user_knows_better(tmp_path: Path) -> None:
    guessed = written(tmp_path, "vocab.txt", "the", Kind.TEXT)
    given = written(tmp_path, "words.txt", "of\n", Kind.TEXT, explicit=True)

    vocabulary = find_vocabulary([guessed, given])

    assert vocabulary is given
    assert read_lines(given) == ("of",)
