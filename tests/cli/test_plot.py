"""`cli.plot`: each command writes its picture, or says in one line why not."""

import sys
from pathlib import Path

import pytest

from elmo_hf import ElmoForSequenceClassification
from elmo_hf.cli import main
from support.cli_runs import Captured, error_of
from support.tiny_models import tiny_model


pytestmark = pytest.mark.usefixtures("library_logging")

TEXT = "The bank raised rates.\n\nIt rained.\nThe river left its bank.\nBank on it.\nNo bank!\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder with a text and a fine-tuned model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    tiny_model(ElmoForSequenceClassification).save_pretrained("classifier")
    return tmp_path


def test_draws_a_word_in_its_sentences(bilm_model: Path, capsys: Captured) -> None:
    arguments = ["--word", "bank", "--model", str(bilm_model), "--output", "bank.png"]

    assert main(["plot", "occurrences", "text.txt", *arguments]) == 0

    assert capsys.readouterr().out == "Drew 4 occurrences of bank in bank.png.\n"
    assert Path("bank.png").read_bytes().startswith(b"\x89PNG")


def test_words_that_are_apart_are_not_split(bilm_model: Path, capsys: Captured) -> None:
    arguments = ["--word", "bank", "--model", str(bilm_model), "--output", "bank.png"]

    # `bank.` and `bank!` are other words
    assert main(["plot", "occurrences", "text.txt", "--tokenized", *arguments]) == 1

    assert "The text has 2 occurrences of 'bank', and a picture needs 3" in error_of(capsys)


def test_draws_as_many_as_are_wanted_in_the_same_way_again(bilm_model: Path, capsys: Captured) -> None:
    arguments = ["--word", "BANK", "--most", "3", "--layers", "top", "--model", str(bilm_model)]

    main(["plot", "occurrences", "text.txt", *arguments, "--output", "one.png"])
    main(["plot", "occurrences", "text.txt", *arguments, "--output", "two.png"])

    assert capsys.readouterr().out.startswith("Drew 3 occurrences")
    assert Path("one.png").read_bytes() == Path("two.png").read_bytes()


def test_draws_a_word_among_its_neighbours(bilm_model: Path, capsys: Captured) -> None:
    arguments = ["--text", "She sat on the bank.", "--word", "bank", "--model", str(bilm_model)]

    assert main(["plot", "neighbours", "text.txt", *arguments, "--top", "5", "--output", "bank.svg"]) == 0

    assert capsys.readouterr().out == "Drew 5 neighbours of bank in bank.svg.\n"
    assert Path("bank.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_draws_the_layers(capsys: Captured) -> None:
    assert main(["plot", "layers", "classifier", "--output", "layers.svg"]) == 0

    assert capsys.readouterr().out == "Drew 1 mix in layers.svg.\n"
    assert Path("layers.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["layers", "absent", "--output", "a.png"], "absent cannot be loaded"),
        (["layers", "classifier", "--output", "a.nothing"], ".nothing is not a format of pictures"),
        (["occurrences", "absent.txt", "--word", "bank", "--output", "a.png"], "absent.txt"),
        (
            ["occurrences", "text.txt", "--word", "bank", "--model", "absent", "--output", "a.png"],
            "absent is not a model",
        ),
        (["occurrences", "text.txt", "--word", "bank", "--layers", "9", "--output", "a.png"], "There is no layer '9'"),
        (
            ["neighbours", "text.txt", "--text", "rain", "--word", "rain", "--min-count", "9", "--output", "a.png"],
            "The word 'rain' has 0 neighbours, and a picture needs 2",
        ),
        (
            ["occurrences", "text.txt", "--word", "rain", "--output", "a.png"],
            "The text has 0 occurrences of 'rain', and a picture needs 3",
        ),
    ],
)
def test_what_cannot_be_drawn_is_one_line(arguments: list[str], message: str, capsys: Captured) -> None:
    assert main(["plot", *arguments]) == 1

    assert message in error_of(capsys)
    assert not list(Path().glob("a.*"))


def test_fewer_than_three_are_wrong_usage(capsys: Captured) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["plot", "occurrences", "text.txt", "--word", "bank", "--most", "2", "--output", "a.png"])

    assert "--most must be 3 or more" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--text", "a"], ["--top", "1"]], ids=" ".join)
def test_several_queries_and_one_neighbour_are_wrong_usage(more: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["plot", "neighbours", "text.txt", "--text", "a", "--word", "a", *more, "--output", "a.png"])

    assert "give one --text, and --top 2 or more" in capsys.readouterr().err


def test_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    assert main(["plot", "layers", "classifier", "--output", "layers.png"]) == 1

    assert 'pip install "elmo_hf[plot]"' in error_of(capsys)
