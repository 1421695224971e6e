"""`cli.demo`: the command serves the page until it is interrupted, or says in one line why not."""

import sys
from types import SimpleNamespace

import pytest

from elmo_hf.cli import main
from support.cli_runs import Captured, error_of


pytestmark = pytest.mark.usefixtures("library_logging")


def test_serves_the_page_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    calls = []

    def start(models: list[str], **options: object) -> SimpleNamespace:
        calls.append((models, options))
        return SimpleNamespace(local_url="http://127.0.0.1:7/", block_thread=lambda: calls.append("waited"))

    monkeypatch.setitem(sys.modules, "elmo_hf.demo.page", SimpleNamespace(start=start))

    assert main(["demo", "a", "b", "--port", "7", "--open"]) == 0

    assert calls == [(["a", "b"], {"host": "127.0.0.1", "port": 7, "open_browser": True}), "waited"]
    assert capsys.readouterr().out == "The page is at http://127.0.0.1:7/ (Ctrl-C ends it).\n"


def test_without_gradio_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delitem(sys.modules, "elmo_hf.demo.page", raising=False)

    assert main(["demo"]) == 1

    assert error_of(capsys) == 'elmo-hf: error: The page needs Gradio: pip install "elmo_hf[demo]"\n'


def test_a_model_that_is_not_there_is_one_line(capsys: Captured) -> None:
    pytest.importorskip("gradio")

    assert main(["demo", "absent"]) == 1

    assert "absent is not a model folder" in error_of(capsys)


def test_a_port_that_cannot_be_is_wrong_usage(capsys: Captured) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["demo", "--port", "70000"])

    assert "--port must be from 1 to 65535" in capsys.readouterr().err
