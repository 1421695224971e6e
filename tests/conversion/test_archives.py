"""`conversion.archives`: a zip gives its parts, and nothing that it says of itself is trusted."""

import io
import stat
import zipfile
from pathlib import Path

import pytest

from elmo_hf_conversion import ConversionError, read_original
from elmo_hf_conversion.archives import extract_zip
from elmo_hf_conversion.readers.base import InputFile
from elmo_hf_conversion.readers.content import Kind
from original_formats import VOCABULARY, write_bilm_hdf5


def archive(folder: Path, members: dict[str | zipfile.ZipInfo, bytes]) -> InputFile:
    path = folder / "195.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return InputFile(path.name, Kind.ZIP, path)


def zipped_model(folder: Path, *, prefix: str = "") -> Path:
    """A model as NLPL publishes it, with what macOS and file managers leave beside it."""
    weights, options = write_bilm_hdf5(folder / "model", vocabulary=VOCABULARY)
    members: dict[str | zipfile.ZipInfo, bytes] = {
        f"{prefix}meta.json": b'{"id": 195, "algorithm": "ELMo"}',
        f"{prefix}model.hdf5": weights.read_bytes(),
        f"{prefix}options.json": options.read_bytes(),
        f"{prefix}vocab.txt": (folder / "model/vocab.txt").read_bytes(),
        f"{prefix}README": b"A model\nof the NLPL repository\n",
        "__MACOSX/._options.json": b'{"lstm": 1}',
        f"{prefix}.DS_Store": b"\x00",
    }
    return archive(folder, members).location


@pytest.mark.parametrize("prefix", ["", "elmo/русский/"])
def test_a_model_as_nlpl_publishes_it(prefix: str, tmp_path: Path) -> None:
    path = zipped_model(tmp_path, prefix=prefix)

    with read_original([path]) as checkpoint:
        assert checkpoint.vocabulary == VOCABULARY
        assert checkpoint.arrays["char_embed"].read().shape == (261, 4)
        assert [source.name for source in checkpoint.sources] == [
            "195.zip",
            f"195.zip/{prefix}model.hdf5",
            f"195.zip/{prefix}options.json",
            f"195.zip/{prefix}vocab.txt",
        ]


def test_temporary_files_go_with_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    with read_original([zipped_model(tmp_path)]):
        assert list(temporary.iterdir())

    assert not list(temporary.iterdir())


def test_temporary_files_go_when_reading_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = archive(tmp_path, {"a.json": b"{}"}).location

    with pytest.raises(ConversionError):
        read_original([path])

    assert not list(temporary.iterdir())


def test_a_zip_without_options(tmp_path: Path) -> None:
    weights, _ = write_bilm_hdf5(tmp_path / "model")
    path = archive(tmp_path, {"model.hdf5": weights.read_bytes(), "meta.json": b"{}"}).location

    with pytest.raises(ConversionError, match=r"No options .* among 195.zip/model.hdf5 \(HDF5\)"):
        read_original([path])


def test_a_zip_of_many_langs(tmp_path: Path) -> None:
    path = archive(tmp_path, {"136/config.json": b"{}", "136/encoder.pkl": b"\x80\x02}", "136/char.dic": b"a\t1"})

    with pytest.raises(ConversionError, match=r"195.zip/136/encoder.pkl is part of an ELMoForManyLangs model"):
        read_original([path.location])


def test_an_empty_zip(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"195.zip is an empty archive"):
        read_original([archive(tmp_path, {}).location])


def test_only_what_a_model_is_made_of_is_extracted(tmp_path: Path) -> None:
    members = archive(tmp_path, {"a.json": b"{}", "a.pkl": b"\x80\x02}", "a.bin": b"\x00"})
    folder = tmp_path / "extracted"
    folder.mkdir()

    files = extract_zip(members, folder)

    assert [(file.kind, file.path is not None) for file in files] == [
        (Kind.JSON, True),
        (Kind.PICKLE, False),
        (Kind.BINARY, False),
    ]
    assert len(list(folder.iterdir())) == 1


def link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("options.json")
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


HOSTILE = {
    "parent": ({"../options.json": b"{}"}, r"member '../options.json' leads out of the archive"),
    "parent-inside": ({"a/../../options.json": b"{}"}, "leads out of the archive"),
    "absolute": ({"/etc/options.json": b"{}"}, "leads out of the archive"),
    "drive": ({"C:/options.json": b"{}"}, "leads out of the archive"),
    "link": ({link(): b"/etc/passwd"}, "member 'options.json' is a link"),
    "bomb": ({"vocab.txt": b"a\n" * (1 << 24)}, "this looks like a zip bomb"),
}


@pytest.mark.parametrize(("members", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile(members: dict[str | zipfile.ZipInfo, bytes], message: str, tmp_path: Path) -> None:
    folder = tmp_path / "extracted"
    folder.mkdir()

    with pytest.raises(ConversionError, match=message):
        extract_zip(archive(tmp_path, members), folder)

    assert not list(folder.iterdir())


def test_encrypted(tmp_path: Path) -> None:
    file = archive(tmp_path, {"options.json": b"{}"})
    content = bytearray(file.location.read_bytes())
    content[6] |= 1  # the flag in the local header
    content[content.index(b"PK\x01\x02") + 8] |= 1  # and in the directory
    file.location.write_bytes(content)

    with pytest.raises(ConversionError, match=r"member 'options.json' is encrypted"):
        extract_zip(file, tmp_path)


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_hf_conversion.archives.MAX_MEMBERS", 2)

    with pytest.raises(ConversionError, match="has 3 members"):
        extract_zip(archive(tmp_path, {"a": b"", "b": b"", "c": b""}), tmp_path)


def test_truncated(tmp_path: Path) -> None:
    path = zipped_model(tmp_path)
    path.write_bytes(path.read_bytes()[:1000])

    with pytest.raises(ConversionError, match=r"195.zip is a damaged or truncated zip .* Download it again"):
        read_original([path])


def test_damaged_member(tmp_path: Path) -> None:
    path = zipped_model(tmp_path)
    content = bytearray(path.read_bytes())
    middle = content.index(b"model.hdf5") + 2000
    content[middle : middle + 100] = bytes(100)
    path.write_bytes(content)

    with pytest.raises(ConversionError, match=r"195.zip is a damaged or truncated zip"):
        read_original([path])


def test_a_member_longer_than_it_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = archive(tmp_path, {"options.json": b"{}"})
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: io.BytesIO(b"{" + b" " * 100))
    folder = tmp_path / "extracted"
    folder.mkdir()

    with pytest.raises(ConversionError, match=r"195.zip/options.json is longer than the archive says"):
        extract_zip(file, folder)


def test_compression_that_python_cannot_undo(tmp_path: Path) -> None:
    file = archive(tmp_path, {"options.json": b"{}"})
    content = bytearray(file.location.read_bytes())
    content[8] = 97  # WavPack, in the local header
    content[content.index(b"PK\x01\x02") + 10] = 97
    file.location.write_bytes(content)

    with pytest.raises(ConversionError, match=r"195.zip cannot be unpacked \(.*\). Unpack it and give the folder"):
        extract_zip(file, tmp_path)
