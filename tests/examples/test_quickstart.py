"""`examples/quickstart.py` runs without a network, what it claims holds, and the pages show what it prints."""

import re
import subprocess
from pathlib import Path

import pytest

from support.fresh_python import FRESH_PYTHON


ROOT = Path(__file__).resolve().parents[2]
SIMILARITY = re.compile(r"\d\.\d\d")


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the script prints, in an empty folder in which it leaves nothing."""
    folder = tmp_path_factory.mktemp("empty")
    done = subprocess.run(
        [*FRESH_PYTHON, str(ROOT / "examples" / "quickstart.py")],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(folder.iterdir())
    return done.stdout


def comparable(text: str) -> list[object]:
    """Split a text at white space; a similarity may differ in its last digit from machine to machine."""
    return [pytest.approx(float(word), abs=0.011) if SIMILARITY.fullmatch(word) else word for word in text.split()]


def test_a_word_is_nearer_to_its_own_meaning(output: str) -> None:
    section = output[output.index("1. ") : output.index("2. ")]

    similarities = [float(value) for value in re.findall(r"^ +(\d\.\d\d)  ", section, flags=re.MULTILINE)]
    assert len(similarities) == 9
    for same, *others in zip(*[iter(similarities)] * 3, strict=True):
        assert same > max(others) + 0.1


def test_the_nearest_neighbours_of_a_word_have_its_meaning(output: str) -> None:
    assert re.search(r"my brother \[left\] the town \.\n +[\d.]+  s?he \[left\]", output)
    assert re.search(r"the \[left\] bank of the river \.\n +[\d.]+  .+ the \[left\] (side|hand)", output)


def test_fills_in_words(output: str) -> None:
    assert re.search(r"my fellow <MASK> .+  Americans, people", output)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_pages_show_what_is_printed(page: str, output: str) -> None:
    """Each `text` block of the page is a part of the output; a line of dots stands for what the page leaves out."""
    printed = comparable(output)
    blocks = re.findall(
        r"^```text\n(.+?)^```$", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    assert blocks
    for part in re.split(r"^ *\.\.\.$", "...\n".join(blocks), flags=re.MULTILINE):
        shown = comparable(part)
        assert any(printed[i : i + len(shown)] == shown for i in range(len(printed))), part
