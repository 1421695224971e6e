"""`manifest`: a resumed run shares the options of the interrupted one, or an error names what differs."""

from pathlib import Path

import pytest

from elmo_hf.errors import ElmoError
from elmo_hf.manifest import check_manifest, write_manifest


VALUES = {"layers": "mix", "model": "my-elmo"}


def test_the_same_run_is_accepted(tmp_path: Path) -> None:
    write_manifest(tmp_path / "job.json", {"layers": "top"})
    write_manifest(tmp_path / "job.json", VALUES)

    check_manifest(tmp_path / "job.json", VALUES, remedy="delete it")
    # a value that is not asked for may differ
    check_manifest(tmp_path / "job.json", {"layers": "mix"}, remedy="delete it")
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"]


def test_each_difference_is_named(tmp_path: Path) -> None:
    write_manifest(tmp_path / "job.json", VALUES)

    message = r" is of another run \(layers: mix then, top now; seed: None then, 1 now\): delete it\.$"
    with pytest.raises(ElmoError, match=message):
        check_manifest(tmp_path / "job.json", {"layers": "top", "seed": "1"}, remedy="delete it")


@pytest.mark.parametrize("content", [None, b"", b"[]", b"\xff"])
def test_a_damaged_manifest_is_named(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "job.json").write_bytes(content)

    with pytest.raises(ElmoError, match=r"job\.json is missing or damaged: delete it\.$"):
        check_manifest(tmp_path / "job.json", VALUES, remedy="delete it")


def test_a_manifest_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"absent is not a folder"):
        write_manifest(tmp_path / "absent" / "job.json", VALUES)
