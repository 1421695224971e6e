"""`conversion.fetch.names`: each name of the table fetches its release, from the next address if one is dead."""

import hashlib
import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from elmo_hf.cli import main
from elmo_hf_conversion import ConversionError, convert, read_original
from elmo_hf_conversion.fetch import names
from elmo_hf_conversion.fetch.names import find_release
from elmo_hf_conversion.fetch.releases import RELEASES, Download, Release
from support.file_server import Site
from support.many_langs_format import write_many_langs
from support.original_formats import VOCABULARY, write_bilm_hdf5, write_softmax, write_training_folder


SINGLE = [release.name for release in RELEASES if release.name and not release.is_family]

WEB_PAGE = b"<!DOCTYPE html>\n<html>Moved</html>"


def path_of(url: str) -> str:
    """Return the path at which the server on loopback has what the table has at this address."""
    parts = urlsplit(url)
    return f"/{parts.netloc}{parts.path}"


def on_loopback(release: Release, site: Site) -> Release:
    downloads = (
        replace(each, urls=tuple(f"{site.url}{path_of(url)}" for url in each.urls)) for each in release.downloads
    )
    return replace(release, downloads=tuple(downloads))


@pytest.fixture
def table(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The server with all addresses of the table and no file yet, and a cache of the test's own."""
    monkeypatch.setenv("ELMO_HF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(names, "RELEASES", tuple(on_loopback(release, site) for release in RELEASES))
    monkeypatch.chdir(tmp_path)
    site.files = {}
    return site


def downloads_of(name: str) -> tuple[Download, ...]:
    """Return the files of a release, with the addresses of the table."""
    family, _, argument = name.partition(":")
    (release,) = (each for each in RELEASES if each.name in (name, f"{family}:ID", f"{family}:LANG"))
    places = {member.code: member.place for member in release.members}
    place = places.get(argument, argument)
    return release.of_place(place, name=name, content="").downloads


def serve(site: Site, name: str, *contents: Path, address: int = 0) -> None:
    """Serve a release's files, in the order of the table, at its first or a further address."""
    for each, content in zip(downloads_of(name), contents, strict=True):
        site.files[path_of(each.urls[address])] = content.read_bytes()


def serve_hdf5(site: Site, name: str, folder: Path, *, address: int = 0) -> None:
    serve(site, name, *write_bilm_hdf5(folder), address=address)


def zipped(folder: Path) -> Path:
    return Path(shutil.make_archive(str(folder), "zip", folder))


def weights_path(name: str, *, address: int = 0) -> str:
    return path_of(downloads_of(name)[0].urls[address])


def test_every_name_has_an_address_or_says_what_to_do(subtests: pytest.Subtests) -> None:
    for release in RELEASES:
        with subtests.test(release.title):
            assert bool(release.downloads) is not bool(release.by_hand) or not release.name
            assert all(url.startswith(("https://", "http://")) for each in release.downloads for url in each.urls)


@pytest.mark.parametrize("name", SINGLE)
def test_each_name_finds_its_release(name: str) -> None:
    release = find_release(name.upper())

    assert release is not None
    assert release.name == name


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("efml:zh", "http://vectors.nlpl.eu/repository/11/179.zip"),
        ("efml:ar", "http://vectors.nlpl.eu/repository/11/136.zip"),
        ("efml:Old_Church-Slavonic", "http://vectors.nlpl.eu/repository/11/140.zip"),
        ("efml:norwegian bokmål", "http://vectors.nlpl.eu/repository/11/165.zip"),
        ("EFML:Dutch", "http://vectors.nlpl.eu/repository/11/164.zip"),
        ("efml:zhs", "http://39.96.43.154/zhs.model.tar.bz2"),
        ("nlpl:0195", "http://vectors.nlpl.eu/repository/20/195.zip"),
        ("aligned:es", "https://www.dropbox.com/s/ygfjm7zmufl5gu2/es_weights.hdf5?dl=1"),
    ],
)
def test_a_family_takes_a_language_or_a_number(name: str, url: str) -> None:
    release = find_release(name)

    assert release is not None
    assert release.downloads[0].urls[0] == url


def test_elmo_for_many_langs_has_its_44_languages_at_numbers_136_to_179() -> None:
    (family,) = (release for release in RELEASES if release.name == "efml:LANG")

    assert sorted(int(member.place) for member in family.members) == [*range(136, 180)]
    assert len({member.code for member in family.members} | {m.language for m in family.members}) == 88


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("efml:xx", r"efml:xx is not a release: give efml:LANG with one of ar, .*, zh, zhs\.$"),
        ("efml", r"efml needs a language: give efml:LANG with one of ar, "),
        ("aligned:xx", r"with one of de, en, es, fr, it, pt, sv\.$"),
        ("nlpl:zh", r"nlpl:ID needs a number in place of ID, such as nlpl:195\.$"),
        ("nlpl:", r"nlpl:ID needs a number"),
        ("nlpl:../x", r"nlpl:ID needs a number"),
        (f"nlpl:{'1' * 5000}", r"nlpl:ID needs a number"),
        ("nlpl:\N{ARABIC-INDIC DIGIT ONE}", r"nlpl:ID needs a number"),
    ],
)
def test_an_argument_that_a_family_does_not_have(name: str, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        find_release(name)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("orignal", r"^orignal is neither a path nor the name of a release. Did you mean original.*\? .* --list"),
        ("5.5", r"Did you mean 5.5B\?"),
        ("my-weights.hdf5", r"^my-weights.hdf5 does not exist. Check the path, or see .* `elmo-hf convert --list`\.$"),
    ],
)
def test_a_name_with_a_typing_error(typed: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=message):
        convert([typed], tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "bioelmo",
            r"bioelmo cannot be converted by its name: download .* links in https://github.com/Andy-jqa/bioelmo",
        ),
        ("german-checkpoint", r"cat bilm-output-result\.tgz\.part-\* > german\.tgz"),
        ("transformer-elmo", r"transformer-elmo cannot be converted: it is not an LSTM ELMo"),
    ],
)
def test_a_release_without_an_address_says_what_to_do(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=message):
        convert([name], tmp_path / "model")


def test_a_name_converts_and_verifies(table: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    serve_hdf5(table, "small", tmp_path / "original")

    assert main(["convert", "small", "--output", str(tmp_path / "model")]) == 0

    assert capsys.readouterr().err == (
        "small: English small (English, 1 Billion Word benchmark). Files: "
        "elmo_2x1024_128_2048cnn_1xhighway_weights.hdf5, elmo_2x1024_128_2048cnn_1xhighway_options.json. "
        "Size: ~54 MB, vectors 256. Licence: not stated by its publisher.\n"
    )
    assert main(["verify", str(tmp_path / "model"), "small"]) == 0
    provenance = json.loads((tmp_path / "model/provenance.json").read_text(encoding="utf-8"))
    assert [source["url"] for source in provenance["sources"]] == [
        f"{table.url}{path_of(each.urls[0])}" for each in downloads_of("small")
    ]


def test_the_licence_is_said_before_the_download(table: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "russian-wiki", "--output", "model"]) == 1

    first, error = capsys.readouterr().err.splitlines()
    assert first.startswith("russian-wiki: ")
    assert first.endswith("Licence: Apache 2.0.")
    assert "HTTP 404" in error
    assert len(table.requests) == 1


def test_a_single_name_is_a_source_in_python_too(table: Site, tmp_path: Path) -> None:
    serve_hdf5(table, "5.5B", tmp_path / "original")

    with read_original("5.5b") as checkpoint:
        assert checkpoint.weights_name == "elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5"


def test_an_archive_converts_by_its_name(table: Site, tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "original")
    serve(table, "seqvec", zipped(tmp_path / "original"))

    assert convert(["seqvec"], tmp_path / "model").hidden_size == 8


def test_families_convert(table: Site, tmp_path: Path) -> None:
    write_many_langs(tmp_path / "179", char_dim=5)
    write_bilm_hdf5(tmp_path / "195")
    serve(table, "efml:zh", zipped(tmp_path / "179"))
    serve(table, "nlpl:195", zipped(tmp_path / "195"))

    assert convert(["efml:Chinese"], tmp_path / "chinese").word_embedding_dim
    assert not convert(["nlpl:195"], tmp_path / "russian").word_embedding_dim


def test_a_checkpoint_brings_its_softmax(table: Site, tmp_path: Path) -> None:
    original = tmp_path / "original"
    write_training_folder(original)
    (index,), (data,) = original.glob("*.index"), original.glob("*.data-*")
    serve(table, "original-checkpoint", original / "options.json", index, data, original / "vocab.txt")

    assert convert(["original-checkpoint"], tmp_path / "model").architectures == ["ElmoForPreTraining"]


def test_weights_bring_the_softmax_that_is_published_beside_them(table: Site, tmp_path: Path) -> None:
    original = tmp_path / "files"
    weights, options = write_bilm_hdf5(original, vocabulary=VOCABULARY)
    write_softmax(original)
    serve(table, "5.5B-softmax", weights, options, original / "softmax_weights.hdf5", original / "vocab.txt")

    assert convert(["5.5B-softmax"], tmp_path / "model").architectures == ["ElmoForPreTraining"]


def test_a_name_goes_with_other_sources(table: Site, tmp_path: Path) -> None:
    serve_hdf5(table, "small", tmp_path / "original")
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n", encoding="utf-8")

    assert convert(["small", "vocab.txt"], tmp_path / "model").vocab_size == 5


def test_a_path_wins_over_a_name(table: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_bilm_hdf5(tmp_path / "small")

    convert(["small"], tmp_path / "model")

    assert caplog.messages == ["small is here, and is taken instead of the release of this name."]
    assert table.requests == []


def test_a_broken_connection_is_resumed(table: Site, tmp_path: Path) -> None:
    serve_hdf5(table, "small", tmp_path / "original")
    table.break_after = [5000, 3000]

    convert(["small"], tmp_path / "model")

    assert table.requests == [None, "bytes=5000-", "bytes=8000-", None]


def test_a_download_that_breaks_off_is_resumed_later_and_asks_no_other_address(table: Site, tmp_path: Path) -> None:
    serve_hdf5(table, "small", tmp_path / "original")
    serve_hdf5(table, "small", tmp_path / "original", address=1)
    table.break_after = [5000] + [0] * 20
    with pytest.raises(ConversionError, match=r"broke off .* at 5,000 bytes. Run the command again to continue"):
        convert(["small"], tmp_path / "model")
    table.break_after, table.requests = [], []

    convert(["small"], tmp_path / "model")

    assert table.requests == ["bytes=5000-", None]


def test_a_file_that_ends_early_is_not_kept(table: Site, tmp_path: Path) -> None:
    serve_hdf5(table, "small", tmp_path / "original")
    table.sized = False
    whole = table.files[weights_path("small")]
    table.files[weights_path("small")] = whole[:5000]
    with pytest.raises(ConversionError, match=r"_weights\.hdf5"):
        convert(["small"], tmp_path / "model")
    table.files[weights_path("small")] = whole

    convert(["small"], tmp_path / "model")


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "HTTP 404 Not Found"), (WEB_PAGE, "is a web page, not a file of a model"), (b"", "is an empty file")],
    ids=["dead", "web page", "empty"],
)
def test_the_next_address_is_tried(
    content: bytes | None, problem: str, table: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    serve_hdf5(table, "original", tmp_path / "files")
    serve_hdf5(table, "original", tmp_path / "files", address=2)
    del table.files[weights_path("original")]
    if content is not None:
        table.files[weights_path("original")] = content

    convert(["original"], tmp_path / "model")

    first, second = caplog.messages
    assert problem in first
    assert first.endswith(f". Trying the next address, {table.url}{weights_path('original', address=1)}.")
    assert "HTTP 404" in second
    assert second.endswith("/huggingface.co/lysandre/elmo-2x4096_512_2048cnn_2xhighway/resolve/main/weights.hdf5.")


def test_a_dead_address_is_not_asked_again_once_another_gave_the_file(table: Site, tmp_path: Path) -> None:
    serve_hdf5(table, "small", tmp_path / "original", address=1)
    convert(["small"], tmp_path / "model")
    table.requests = []

    convert(["small"], tmp_path / "again")

    assert table.requests == []


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        (
            "basque",
            "No address of this file of basque is left: get weights.hdf5 elsewhere, and give all files instead "
            "(weights.hdf5, options.json).",
        ),
        ("seqvec", "No address of seqvec is left: get seqvec.zip elsewhere, and give it instead."),
    ],
)
def test_one_line_says_what_to_do_if_all_addresses_are_dead(
    name: str, remedy: str, table: Site, tmp_path: Path
) -> None:
    with pytest.raises(ConversionError) as caught:
        convert([name], tmp_path / "model")

    assert str(caught.value) == f"{table.url}{weights_path(name)}: HTTP 404 Not Found. {remedy}"


def with_checksum_of(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the table state the MD5 sum of this content for the weights of `german`, and none for its options."""
    (german,) = (release for release in names.RELEASES if release.name == "german")
    weights, options = german.downloads
    weights = replace(weights, checksum=f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}")
    german = replace(german, downloads=(weights, replace(options, checksum="")))
    monkeypatch.setattr(names, "RELEASES", (german,))


def test_a_checksum_that_agrees(table: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_hdf5(table, "german", tmp_path / "original")
    with_checksum_of(table.files[weights_path("german")], monkeypatch)

    convert(["german"], tmp_path / "model")


def test_a_file_with_another_checksum_is_refused_and_not_kept(table: Site, tmp_path: Path) -> None:
    serve_hdf5(table, "german", tmp_path / "original")
    found = hashlib.md5(table.files[weights_path("german")], usedforsecurity=False).hexdigest()

    with pytest.raises(
        ConversionError,
        match=rf"weights.hdf5 has the MD5 sum {found}, but its publisher states f3ab3a68caae6d42bac47c230b3a65bf. Run",
    ):
        convert(["german"], tmp_path / "model")

    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != "lock"]
    assert not (tmp_path / "model").exists()
