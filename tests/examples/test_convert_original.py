"""`examples/convert_original.py` runs, tells the truth, and harms nothing."""

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from transformers.utils import logging

from elmo_hf.errors import ElmoError
from support.fresh_python import FRESH_PYTHON


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "convert_original.py"

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, about to run in an empty folder with `--output model`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["convert_original.py", "--output", "model"])
    monkeypatch.setattr(logging, "disable_progress_bar", lambda: None)
    spec = importlib.util.spec_from_file_location("convert_original", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("allennlp_fixture")
def test_prints_small_differences_and_where_the_model_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [*FRESH_PYTHON, str(SCRIPT), "--output", "model"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    differences = [float(number) for number in re.findall(r"max \|difference\| (\S+)", done.stdout)]
    assert len(differences) == 4
    assert 0 < max(differences) < 1e-5
    assert "bitwise equal: True" in done.stdout
    assert str(tmp_path / "model") in done.stdout
    assert (tmp_path / "model" / "model.safetensors").is_file()


@pytest.mark.usefixtures("allennlp_fixture")
def test_a_second_run_uses_the_same_model(script: ModuleType, tmp_path: Path, capsys: Captured) -> None:
    assert script.main() == 0
    before = (tmp_path / "model" / "model.safetensors").stat()

    assert script.main() == 0

    assert "from an earlier run" in capsys.readouterr().out
    assert (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.usefixtures("allennlp_fixture")
def test_a_folder_of_something_else_is_left_alone(script: ModuleType, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").write_text("mine")

    assert script.main() == 1

    assert re.fullmatch(r"convert_original: error: [^\n]*model[^\n]*\n", capsys.readouterr().err)
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["mine.txt"]


@pytest.mark.usefixtures("allennlp_fixture")
def test_a_difference_is_not_glossed_over(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    recorded = script.read_recorded
    monkeypatch.setattr(script, "read_recorded", lambda *arguments: recorded(*arguments) + 1e-3)

    assert script.main() == 1

    assert "exceeds 1e-05" in capsys.readouterr().err


def test_says_what_to_do_where_the_wheel_cannot_be_had(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("ELMO_HF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")

    assert script.main() == 1

    assert re.fullmatch(r"convert_original: error: [^\n]*allennlp==0\.9\.0[^\n]*\n", capsys.readouterr().err)


def pip_that(returncode: int, *, stderr: str = "", wheel: bytes | None = None) -> Any:
    """Make a stand-in for `subprocess.run` that acts as pip would."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if wheel is not None:
            folder = Path(command[command.index("--dest") + 1])
            (folder / "allennlp-0.9.0-py3-none-any.whl").write_bytes(wheel)
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    return run


def test_a_cached_model_is_not_downloaded(
    script: ModuleType, allennlp_fixture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / allennlp_fixture.name).symlink_to(allennlp_fixture)
    monkeypatch.setattr(script.subprocess, "run", pip_that(1))

    assert script.fetch_allennlp_fixture(tmp_path) == tmp_path / allennlp_fixture.name


def test_the_environment_names_the_cache(
    script: ModuleType, allennlp_fixture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / allennlp_fixture.name).symlink_to(allennlp_fixture)
    monkeypatch.setenv("ELMO_HF_CACHE", str(tmp_path))

    assert script.fetch_allennlp_fixture() == tmp_path / allennlp_fixture.name


def test_a_failed_download_names_its_reason_in_one_line(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = "WARNING: retrying\nERROR: Could not find a version.\nERROR: No matching distribution found.\n"
    monkeypatch.setattr(script.subprocess, "run", pip_that(1, stderr=errors))

    with pytest.raises(ElmoError, match=r"^Could not download .*No matching distribution found\)[^\n]*$"):
        script.fetch_allennlp_fixture(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_a_wheel_with_another_hash_is_refused(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script.subprocess, "run", pip_that(0, wheel=b"another"))

    with pytest.raises(ElmoError, match="sha256"):
        script.fetch_allennlp_fixture(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_without_its_extra_the_script_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)

    with pytest.raises(
        SystemExit, match=r'^convert_original\.py: error: h5py is not .*: pip install "elmo_hf\[convert\]"$'
    ):
        runpy.run_path(str(SCRIPT))
