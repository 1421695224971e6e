"""`examples/space`: the Space has what the Hub asks for, and serves the page."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml


ROOT = Path(__file__).resolve().parents[3]
SPACE = ROOT / "examples" / "space"


def test_serves_the_page_where_the_hub_looks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def start(models: list[str], **options: object) -> SimpleNamespace:
        calls.append((models, options))
        return SimpleNamespace(block_thread=lambda: calls.append("waited"))

    monkeypatch.setitem(sys.modules, "elmo_hf.demo.page", SimpleNamespace(start=start))

    runpy.run_path(str(SPACE / "app.py"), run_name="__main__")

    assert calls == [(["elmo-small-en"], {"host": "0.0.0.0", "port": 7860}), "waited"]


def test_the_header_names_the_version_of_gradio_that_is_tested() -> None:
    _, header, _ = (SPACE / "README.md").read_text(encoding="utf-8").split("---\n", maxsplit=2)
    values = yaml.safe_load(header)

    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"gradio=={values['sdk_version']}" in constraints
    assert (values["sdk"], values["app_file"]) == ("gradio", "app.py")
    assert (SPACE / values["app_file"]).is_file()
    # the Hub refuses longer ones
    assert len(values["short_description"]) <= 60


def test_the_requirements_are_the_extra() -> None:
    assert (SPACE / "requirements.txt").read_text(encoding="utf-8") == "elmo_hf[demo]\n"
