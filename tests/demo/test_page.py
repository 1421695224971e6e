"""`demo.page`: the page is served, asks no other server for anything, and a visitor's choices have their effect."""

import gc
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from elmo_hf import ElmoError


gradio = pytest.importorskip("gradio")

from elmo_hf.demo import page  # noqa: E402 - it needs gradio


# Gradio leaves sockets and event loops to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

TEXT = "the bank raised rates .\nthe river left its [MASK] ."


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator["gradio.Blocks"]:
    """The page of the tiny model, at a port of this machine."""
    served = page.start([str(folder)])
    yield served
    served.close()
    gc.collect()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Collect what Gradio leaves before the tests of other modules, where it would be an error."""
    yield
    gc.collect()


def labels(blocks: "gradio.Blocks") -> set[str]:
    components = blocks.get_config_file()["components"]
    return {each["props"].get("label") for each in components} - {None}


def test_the_page_is_served(served: "gradio.Blocks") -> None:
    with urlopen(served.local_url) as answer:
        text = answer.read().decode()

    assert "ELMo: words in context" in text
    sources = re.findall(r'(?:src|href)="(?:https?:)?//([^/"]+)', text)
    assert set(sources) <= {"127.0.0.1", "localhost"}


def test_everything_that_can_be_chosen_has_a_label(served: "gradio.Blocks") -> None:
    inputs = {"Model", "Sentences", "Sentence", "Word", "Second sentence", "Vectors from", "Show each word only once"}
    tabs = {"Neighbours", "Similarity", "Fill in", "Perplexity", "Layers"}

    assert inputs | tabs <= labels(served)


def test_nothing_is_reported_and_no_event_is_open_to_programs(served: "gradio.Blocks") -> None:
    config = served.get_config_file()

    assert not served.analytics_enabled
    assert {each["api_visibility"] for each in config["dependencies"]} == {"private"}


def test_a_text_becomes_choices(folder: Path) -> None:
    applied, status, sentence, word, second, layer, _ = page._apply(None, str(folder), TEXT)

    assert applied == (str(folder), TEXT)
    assert status.startswith("2 sentences, 11 words. ")
    assert sentence["choices"] == [("1. the bank raised rates .", 0), ("2. the river left its [MASK] .", 1)]
    assert (word["choices"][1], word["value"]) == (("bank", 1), 0)
    assert second["value"] == 1
    assert layer["choices"] == ["mix", "token layer", "layer 1", "layer 2"]


def test_the_name_of_a_model_is_escaped(folder: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "<b>model"
    hostile.symlink_to(folder)

    status = page._apply(None, str(hostile), TEXT)[1]

    assert "&lt;b&gt;model: 2 biLSTM layers" in status
    assert "<b>" not in status


def test_another_sentence_has_other_words(folder: Path) -> None:
    word = page._choose_sentence((str(folder), TEXT), 1)

    assert (word["choices"][4], word["value"]) == (("[MASK]", 4), 4)


def test_a_text_that_is_refused_changes_nothing_but_the_status(folder: Path) -> None:
    applied, status, *rest = page._apply((str(folder), TEXT), str(folder), "a\n" * 1000)

    assert (
        "The text has 1,000 sentences: give at most 200, one a line. The results are still those of the last" in status
    )
    assert {each["__type__"] for each in [applied, *rest]} == {"update"}
    assert all(len(each) == 1 for each in [applied, *rest])


def test_a_text_that_is_refused_first_leaves_no_results(folder: Path) -> None:
    _, status, *_ = page._apply(None, str(folder), "")

    assert "The text has no words" in status
    assert "The results" not in status


def test_a_paste_that_is_too_long_arrives_and_is_refused(folder: Path) -> None:
    components = page.build_page([str(folder)]).get_config_file()["components"]
    (text,) = (each for each in components if each["props"].get("label") == "Sentences")

    pasted = ("word " * 20 + "\n") * 250
    assert len(pasted) < text["props"]["max_length"]
    assert "The text has 25,250 characters: give at most 20,000." in page._apply(None, str(folder), pasted)[1]


def test_a_file_that_is_refused_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff")

    with pytest.raises(gradio.Error, match=r"a\.txt is not UTF-8 text"):
        page._open(str(tmp_path / "a.txt"))


def test_only_visitors_on_this_machine_type_other_models(folder: Path) -> None:
    def allowed(*, any_model: bool) -> bool:
        components = page.build_page([str(folder)], any_model=any_model).get_config_file()["components"]
        (model,) = (each for each in components if each["props"].get("label") == "Model")
        return model["props"]["allow_custom_value"]

    assert allowed(any_model=True)
    assert not allowed(any_model=False)


def test_a_port_that_is_taken_is_named(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(
            ElmoError, match=rf"^The page cannot be served at 127\.0\.0\.1, port {port} \(.*\): choose"
        ):
            page.start([str(folder)], port=port)
