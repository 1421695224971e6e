"""`conversion.fetch.releases`: the table is complete, readable, and the one of the documentation."""

import json
import re
from pathlib import Path

import pytest

from elmo_hf_conversion.fetch.releases import RELEASES, as_data, as_markdown, as_text


PAGE = Path(__file__).resolve().parents[3] / "docs/conversion.md"


def test_the_page_shows_this_table() -> None:
    assert as_markdown() in PAGE.read_text(encoding="utf-8"), "put as_markdown() into docs/conversion.md"


def test_titles_and_names_are_unique() -> None:
    titles = [release.title for release in RELEASES]
    names = [release.name.casefold() for release in RELEASES if release.name]

    assert len(set(titles)) == len(titles)
    assert len(set(names)) == len(names)


def test_checksums_have_an_algorithm_and_its_digits() -> None:
    checksums = [each.checksum for release in RELEASES for each in release.downloads if each.checksum]

    assert all(re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", checksum) for checksum in checksums)


@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit_but_for_what_cannot_be_broken(width: int) -> None:
    too_long = [line for line in as_text(width=width).splitlines() if len(line) > width]

    assert all(len(line.split()) <= 2 for line in too_long)


def test_every_release_says_what_a_user_asks(subtests: pytest.Subtests) -> None:
    for release, text in zip(RELEASES, as_text().split("\n\n"), strict=True):
        with subtests.test(release.title):
            assert [line.split()[0] for line in text.splitlines()[1:] if line[2] != " "] == [
                "name",
                "content",
                "format",
                "files",
                "where",
                "licence",
                "converts",
            ]


def test_the_data_is_json() -> None:
    assert json.loads(json.dumps(as_data()))[0]["name"] == "small"
