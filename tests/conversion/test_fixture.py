"""`conversion.fixture`: the cache is used, and what cannot be had is said."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from elmo_hf.errors import ElmoError
from elmo_hf_conversion import fixture
from elmo_hf_conversion.fixture import fetch_allennlp_fixture


def pip_that(returncode: int, *, stderr: str = "", wheel: bytes | None = None) -> Any:
    """Make a stand-in for `subprocess.run` that acts as pip would."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if wheel is not None:
            folder = Path(command[command.index("--dest") + 1])
            (folder / "allennlp-0.9.0-py3-none-any.whl").write_bytes(wheel)
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    return run


def test_what_is_cached_is_not_downloaded(
    allennlp_fixture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / allennlp_fixture.name).symlink_to(allennlp_fixture)
    monkeypatch.setattr(fixture.subprocess, "run", pip_that(1))

    assert fetch_allennlp_fixture(tmp_path) == tmp_path / allennlp_fixture.name


def test_the_cache_is_where_the_environment_says(
    allennlp_fixture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / allennlp_fixture.name).symlink_to(allennlp_fixture)
    monkeypatch.setenv("ELMO_HF_CACHE", str(tmp_path))

    assert fetch_allennlp_fixture() == tmp_path / allennlp_fixture.name


def test_a_failed_download_is_one_line_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = "WARNING: retrying\nERROR: Could not find a version.\nERROR: No matching distribution found.\n"
    monkeypatch.setattr(fixture.subprocess, "run", pip_that(1, stderr=errors))

    with pytest.raises(ElmoError, match=r"^Could not download .*No matching distribution found\)[^\n]*$"):
        fetch_allennlp_fixture(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_another_wheel_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixture.subprocess, "run", pip_that(0, wheel=b"another"))

    with pytest.raises(ElmoError, match="sha256"):
        fetch_allennlp_fixture(tmp_path)

    assert list(tmp_path.iterdir()) == []
