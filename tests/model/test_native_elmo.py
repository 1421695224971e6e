"""`model.native_elmo`: compiled once, and a reason where it cannot be; test_recurrence_elmo.py has its numbers."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elmo_hf.model import native_elmo


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Nothing is compiled yet."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "compiled"))
    native_elmo.load.cache_clear()
    yield tmp_path
    native_elmo.load.cache_clear()


def test_it_is_compiled_once(fresh: Path) -> None:
    first = native_elmo.compiled()
    stamp = first.stat().st_mtime_ns

    assert native_elmo.compiled() == first
    assert first.stat().st_mtime_ns == stamp
    assert list((fresh / "compiled" / "elmo_hf").iterdir()) == [first]


def no_compiler(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))


def failing_compiler(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    script = folder / "cxx"
    script.write_text("#!/bin/sh\necho no such flag >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))


def no_room(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "file").touch()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(folder / "file"))


def no_source(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(native_elmo, "SOURCE", folder / "native_elmo.cpp")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (no_compiler, "there is no C++ compiler"),
        (failing_compiler, "no such flag"),
        (no_room, "cannot be written"),
        (no_source, "install elmo_hf"),
    ],
)
def test_why_there_is_none_is_told_once(
    spoil: Callable, reason: str, fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(monkeypatch, fresh)
    monkeypatch.setattr(native_elmo, "logger", logging.getLogger("seen"))

    with caplog.at_level(logging.INFO, "seen"):
        missing = native_elmo.load()
        native_elmo.load()

    assert isinstance(missing, native_elmo.NotCompiledError)
    assert reason in str(missing)
    assert "\n" not in str(missing)
    assert [record.getMessage().endswith(str(missing)) for record in caplog.records] == [True]
