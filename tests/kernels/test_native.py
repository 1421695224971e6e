"""`kernels.native`: compiled once, and a reason where it cannot be; test_recurrence_elmo.py has its numbers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elmo_hf.kernels import native


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Nothing is compiled yet."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "compiled"))
    native.load.cache_clear()
    yield tmp_path
    native.load.cache_clear()


def test_it_is_compiled_once(fresh: Path) -> None:
    first = native.compiled()
    stamp = first.stat().st_mtime_ns

    assert native.compiled() == first
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
    monkeypatch.setattr(native, "SOURCE", folder / "native.cpp")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (no_compiler, "there is no C++ compiler"),
        (failing_compiler, "no such flag"),
        (no_room, "cannot be written"),
        (no_source, "install elmo_hf again"),
    ],
)
def test_the_reason_is_found_once(spoil: Callable, reason: str, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, fresh)

    missing = native.load()

    assert isinstance(missing, native.NotCompiledError)
    assert reason in str(missing)
    assert "\n" not in str(missing)
    assert native.load() is missing
