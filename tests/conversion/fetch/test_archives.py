"""`conversion.fetch.archives`: an archive gives its parts, and nothing that it says of itself is trusted."""

import contextlib
import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from elmo_hf_conversion import ConversionError, read_original
from elmo_hf_conversion.fetch.archives import extract_tar, extract_zip
from elmo_hf_conversion.readers.base import InputFile
from elmo_hf_conversion.readers.content import Kind
from support.original_formats import VOCABULARY, write_bilm_hdf5


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


def test_an_empty_zip(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"195.zip is an empty archive"):
        read_original([archive(tmp_path, {}).location])


def test_only_what_a_model_is_made_of_is_extracted(tmp_path: Path) -> None:
    members = archive(tmp_path, {"a.json": b"{}", "a.pkl": b"\x80\x02}", "a.bin": b"\x00", "a.index": b"\x00"})
    folder = tmp_path / "extracted"
    folder.mkdir()

    files = extract_zip(members, folder)

    assert [(file.kind, file.path is not None) for file in files] == [
        (Kind.JSON, True),
        (Kind.PICKLE, True),
        (Kind.BINARY, False),
        # a part of a TensorFlow checkpoint can begin with anything
        (Kind.BINARY, True),
    ]
    assert len(list(folder.iterdir())) == 3


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
    monkeypatch.setattr("elmo_hf_conversion.fetch.archives.MAX_MEMBERS", 2)

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

    with pytest.raises(ConversionError, match=r"options.json' uses a compression that is not supported. Unpack it"):
        extract_zip(file, tmp_path)


@pytest.mark.parametrize("name", [".", "./", "a/../b", "//", "C:/a"])
def test_odd_names_of_members_are_no_paths(name: str, tmp_path: Path) -> None:
    file = archive(tmp_path, {name: b"{}"})
    folder = tmp_path / "extracted"
    folder.mkdir()

    with contextlib.suppress(ConversionError):
        extract_zip(file, folder)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["195.zip", "extracted"]


def test_a_member_before_the_start_of_the_file(tmp_path: Path) -> None:
    file = archive(tmp_path, {"options.json": b"{}"})
    content = bytearray(file.location.read_bytes())
    # the size of the directory, larger than what is there
    end = content.index(b"PK\x05\x06")
    content[end + 12 : end + 16] = (end + 1000).to_bytes(4, "little")
    file.location.write_bytes(content)

    with pytest.raises(ConversionError, match=r"195.zip is a damaged or truncated zip"):
        extract_zip(file, tmp_path)


def test_a_huge_directory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_hf_conversion.fetch.archives.MAX_PIECE", 1 << 17)
    file = archive(tmp_path, {f"{i:0100}": b"" for i in range(2000)})

    with pytest.raises(ConversionError, match=r"195.zip has a directory of"):
        extract_zip(file, tmp_path)


def tarball(folder: Path, *members: tarfile.TarInfo, mode: str = "w:gz", content: bytes = b"{}") -> InputFile:
    """A tar archive of options and of members with this content."""
    path = folder / "model.tar"
    _, options = write_bilm_hdf5(folder / "model")
    with tarfile.open(path, mode) as opened:  # type: ignore[call-overload]
        opened.add(options, "run/options.json")
        for member in members:
            member.size = len(content) if member.isreg() else 0
            opened.addfile(member, io.BytesIO(content))
    kind = {"w:gz": Kind.TAR_GZ, "w:bz2": Kind.TAR_BZ2, "w": Kind.TAR}[mode]
    return InputFile(path.name, kind, path)


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2"])
def test_a_tar_gives_its_files(mode: str, tmp_path: Path) -> None:
    names = ("run/weights.bin", "run/.hidden", "./run/a b\n.txt", "run/" + "long" * 50)
    archive = tarball(tmp_path, member("run", tarfile.DIRTYPE), *map(member, names), mode=mode)
    folder = tmp_path / "extracted"
    folder.mkdir()

    files = extract_tar(archive, folder)

    assert [file.name for file in files] == [
        "model.tar/run/options.json",
        "model.tar/run/weights.bin",
        "model.tar/./run/a b\N{REPLACEMENT CHARACTER}.txt",
        "model.tar/run/" + "long" * 50,
    ]
    assert files[0].location.read_bytes() == (tmp_path / "model/options.json").read_bytes()
    assert {path.parent for path in tmp_path.rglob("[0-9]")} == {folder}


@pytest.mark.parametrize(
    ("hostile", "message"),
    [
        (member("../options.json"), "leads out of the archive"),
        (member("run/../../options.json"), "leads out of the archive"),
        (member("/etc/passwd"), "leads out of the archive"),
        (member("C:\\options.json"), "leads out of the archive"),
        (member("options.json", tarfile.SYMTYPE, "/etc/passwd"), "is a link"),
        (member("options.json", tarfile.LNKTYPE, "run/options.json"), "is a link"),
        (member("options.json", tarfile.FIFOTYPE), "is not a regular file"),
        (member("options.json", tarfile.CHRTYPE), "is not a regular file"),
    ],
)
def test_a_hostile_tar(hostile: tarfile.TarInfo, message: str, tmp_path: Path) -> None:
    archive = tarball(tmp_path, hostile)

    with pytest.raises(ConversionError, match=message) as caught:
        read_original([archive.location])

    assert "\n" not in str(caught.value)


def test_a_tar_bomb(tmp_path: Path) -> None:
    archive = tarball(tmp_path, *(member(f"bomb{i}.bin") for i in range(3)), content=bytes(1 << 23))

    with pytest.raises(ConversionError, match=r"model.tar unpacks to many times its size"):
        read_original([archive.location])


def test_a_tar_with_a_name_of_many_megabytes(tmp_path: Path) -> None:
    archive = tarball(tmp_path, member("x" * (1 << 20)), mode="w")

    with pytest.raises(ConversionError, match="beside the header of a member"):
        read_original([archive.location])


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2"])
@pytest.mark.parametrize("kept", [0.4, 0.7])
def test_a_truncated_tar(kept: float, mode: str, tmp_path: Path) -> None:
    # bzip2 packs in blocks, so that a short archive is all there or not at all
    archive = tarball(tmp_path, member("weights.th"), mode=mode, content=bytes(range(256)) * 256)
    data = archive.location.read_bytes()
    archive.location.write_bytes(data[: int(kept * len(data))])

    with pytest.raises(ConversionError, match=r"model.tar is a damaged or truncated tar"):
        extract_tar(archive, tmp_path)


@pytest.mark.parametrize(("mode", "place"), [("w:gz", -8), ("w:gz", -1), ("w:bz2", -5)])
def test_a_tar_whose_checksum_is_wrong(mode: str, place: int, tmp_path: Path) -> None:
    archive = tarball(tmp_path, member("weights.th"), mode=mode, content=bytes(range(256)) * 256)
    damaged = bytearray(archive.location.read_bytes())
    damaged[place] ^= 1
    archive.location.write_bytes(damaged)

    with pytest.raises(ConversionError, match=r"model.tar is a damaged or truncated tar"):
        extract_tar(archive, tmp_path)


@pytest.mark.parametrize("name", [".hidden", "__MACOSX/x", "weights.th"])
def test_a_tar_member_that_claims_exabytes(name: str, tmp_path: Path) -> None:
    info = member(name)
    info.size = 1 << 62
    path = tmp_path / "model.tar"
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    archive = InputFile("model.tar", Kind.TAR, path)

    with pytest.raises(ConversionError, match=rf"{name}' claims 4,611,686,018,427,387,904 bytes"):
        extract_tar(archive, tmp_path)


def test_a_tar_that_lacks_a_member_is_not_read_for_ever(tmp_path: Path) -> None:
    info = member(".hidden")
    info.size = 1 << 23
    path = tmp_path / "model.tar"
    path.write_bytes(info.tobuf() + bytes(512))

    with pytest.raises(ConversionError, match=r"model.tar is a damaged or truncated tar"):
        extract_tar(InputFile("model.tar", Kind.TAR, path), tmp_path)
