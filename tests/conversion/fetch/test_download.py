"""`conversion.fetch.download`: a file arrives whole over a bad connection, or one line says why not."""

import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from elmo_hf_conversion import ConversionError, convert
from elmo_hf_conversion.fetch import download as download_module
from elmo_hf_conversion.fetch.download import cache_folder, download, shown_url
from support.file_server import CONTENT, Site
from support.original_formats import write_bilm_hdf5


def test_a_file_arrives_whole(site: Site, tmp_path: Path) -> None:
    path = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert path.name == "weights.hdf5"
    assert path.read_bytes() == CONTENT


def test_it_is_downloaded_once(site: Site, tmp_path: Path) -> None:
    first = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)
    second = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert first == second
    assert site.requests == [None]


def test_links_of_the_same_file_name_are_kept_apart(site: Site, tmp_path: Path) -> None:
    site.files = {"/a/weights.hdf5": b"aaa", "/b/weights.hdf5": b"bbb"}

    paths = [download(f"{site.url}/{name}/weights.hdf5", cache_dir=tmp_path) for name in "ab"]

    assert [path.read_bytes() for path in paths] == [b"aaa", b"bbb"]


def test_a_broken_connection_is_resumed(site: Site, tmp_path: Path) -> None:
    site.break_after = [30_000, 40_000]

    path = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert path.read_bytes() == CONTENT
    assert site.requests == [None, "bytes=30000-", "bytes=70000-"]


def test_without_ranges_it_begins_anew(site: Site, tmp_path: Path) -> None:
    site.ranges = False
    site.break_after = [30_000]

    path = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert path.read_bytes() == CONTENT
    assert site.requests == [None, "bytes=30000-"]


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_strong_validator_it_begins_anew(etag: str | None, site: Site, tmp_path: Path) -> None:
    site.etag = etag
    site.break_after = [30_000]

    path = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert path.read_bytes() == CONTENT
    assert site.requests == [None, None]


def broken_off(site: Site, cache: Path) -> None:
    """Leave a part behind, as a process that gave up."""
    site.break_after = [30_000] + [0] * 20
    with pytest.raises(ConversionError):
        download(f"{site.url}/weights.hdf5", cache_dir=cache)
    site.break_after = []
    site.requests = []


def test_it_gives_up_after_some_attempts_that_bring_nothing(site: Site, tmp_path: Path) -> None:
    site.break_after = [30_000] + [0] * 20

    with pytest.raises(
        ConversionError,
        match=r"weights.hdf5: the download broke off \(30,000 of 102,000 bytes came\) at 30,000 bytes. Run .* again",
    ):
        download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert len(site.requests) == 1 + download_module.MAX_ATTEMPTS


@pytest.mark.parametrize("server", [{"refuses_ranges": True}, {"shift": 1}], ids=["refused", "another part"])
def test_it_gives_up_where_parts_are_refused(server: dict[str, Any], site: Site, tmp_path: Path) -> None:
    for name, value in server.items():
        setattr(site, name, value)
    site.break_after = [30_000] * 100

    with pytest.raises(ConversionError, match=r"broke off .* at 30,000 bytes. Run the command again to start over"):
        download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    # one part is asked for, and no second one
    assert site.requests == [None, "bytes=30000-", *[None] * (download_module.MAX_ATTEMPTS - 1)]


def test_a_whole_file_arrives_where_parts_are_refused(site: Site, tmp_path: Path) -> None:
    site.refuses_ranges = True
    site.break_after = [30_000, 20_000, 40_000]

    assert download(f"{site.url}/weights.hdf5", cache_dir=tmp_path).read_bytes() == CONTENT


def test_it_gives_up_where_every_attempt_begins_anew(site: Site, tmp_path: Path) -> None:
    site.etag = None
    site.break_after = [200, 100] * 100

    with pytest.raises(ConversionError, match="Run the command again to start over"):
        download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert site.requests == [None] * (1 + download_module.MAX_ATTEMPTS)


def test_it_says_when_nothing_comes(site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site.failures = [503, 503]

    download(f"{site.url}/weights.hdf5?token=secret", cache_dir=tmp_path)

    assert caplog.messages == [f"{site.url}/weights.hdf5: HTTP 503 Service Unavailable. Trying again."] * 2


def test_a_later_process_goes_on_where_it_stopped(site: Site, tmp_path: Path) -> None:
    broken_off(site, tmp_path)

    path = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert path.read_bytes() == CONTENT
    assert site.requests == ["bytes=30000-"]


def test_a_file_that_changed_meanwhile_begins_anew(site: Site, tmp_path: Path) -> None:
    broken_off(site, tmp_path)
    site.files["/weights.hdf5"] = CONTENT[::-1]
    site.etag = '"two"'

    path = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert path.read_bytes() == CONTENT[::-1]


def test_a_file_that_shrank_meanwhile_begins_anew(site: Site, tmp_path: Path) -> None:
    broken_off(site, tmp_path)
    site.files["/weights.hdf5"] = CONTENT[:1000]

    path = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert path.read_bytes() == CONTENT[:1000]


def test_a_part_with_damaged_notes_begins_anew(site: Site, tmp_path: Path) -> None:
    broken_off(site, tmp_path)
    (notes,) = tmp_path.rglob("*.part.json")
    notes.write_text("{")

    path = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert path.read_bytes() == CONTENT
    assert site.requests == [None]


def test_a_part_that_is_whole_is_only_renamed(site: Site, tmp_path: Path) -> None:
    broken_off(site, tmp_path)
    (part,) = tmp_path.rglob("*.part")
    part.write_bytes(CONTENT)

    path = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert path.read_bytes() == CONTENT
    assert site.requests == []


def test_nothing_but_the_file_is_left_in_the_cache(site: Site, tmp_path: Path) -> None:
    site.break_after = [30_000]

    path = download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert {each.name for each in path.parent.iterdir()} <= {"weights.hdf5", "lock"}


def test_a_size_that_is_not_told_is_not_checked(site: Site, tmp_path: Path) -> None:
    site.sized = False

    assert download(f"{site.url}/weights.hdf5", cache_dir=tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_passing_failure_is_tried_again(code: int, site: Site, tmp_path: Path) -> None:
    site.failures = [code, code]

    assert download(f"{site.url}/weights.hdf5", cache_dir=tmp_path).read_bytes() == CONTENT


def test_a_lasting_failure_is_named(site: Site, tmp_path: Path) -> None:
    site.failures = [503] * 20

    with pytest.raises(ConversionError, match=r"hdf5 cannot be downloaded \(HTTP 503 Service Unavailable\)\. Check"):
        download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_refusal_is_not_tried_again(code: int, site: Site, tmp_path: Path) -> None:
    site.failures = [code]

    with pytest.raises(ConversionError, match=rf"http://127.0.0.1:\d+/weights.hdf5: HTTP {code} .*. Check the link"):
        download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert len(site.requests) == 1


def test_a_web_page_by_its_type(site: Site, tmp_path: Path) -> None:
    site.content_type = "text/html; charset=utf-8"

    with pytest.raises(ConversionError, match=r"weights.hdf5 is a web page, not a file of a model"):
        download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)


def test_a_web_page_by_its_content(site: Site, tmp_path: Path) -> None:
    site.files["/weights.hdf5"] = b"<!DOCTYPE html>\n<html>Sign in</html>"

    with pytest.raises(ConversionError, match=r"weights.hdf5 is a web page, not a file of a model"):
        download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]


def test_an_empty_file(site: Site, tmp_path: Path) -> None:
    site.files["/weights.hdf5"] = b""

    with pytest.raises(ConversionError, match=r"weights.hdf5 is an empty file"):
        download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)


@pytest.mark.usefixtures("site")
def test_a_port_where_nobody_listens(tmp_path: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/weights.hdf5"

        with pytest.raises(ConversionError, match=r"cannot be downloaded \(.*refused.*\)\. Check the link"):
            download(url, cache_dir=tmp_path)


@pytest.mark.usefixtures("site")
def test_a_host_that_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", not_found)

    with pytest.raises(ConversionError, match=r"host nowhere.example is not found. Check the link and the network"):
        download("https://nowhere.example/weights.hdf5", cache_dir=tmp_path)


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    "url",
    [
        "http://[",
        "http://host:port/a",
        "https:///weights.hdf5",
        "http://ex ample/a",
        f"http://{'a' * 300}/a",
        "http://host/\ud800",
        "http://user:secret@host:port/a",
    ],
)
def test_a_link_that_is_none(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="is not a valid link") as caught:
        download(url, cache_dir=tmp_path)

    assert "secret" not in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("location", ["http://ex ample/a", "http://[/a", f"http://{'a' * 300}/a"])
def test_a_server_that_leads_to_no_valid_link(location: str, site: Site, tmp_path: Path) -> None:
    site.redirect = location

    with pytest.raises(ConversionError, match=r"weights.hdf5 leads to an invalid link .* Check the link"):
        download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert len(site.requests) == 1


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/f", "file:///etc/passwd", "data:text/plain,f"])
def test_a_server_leads_to_no_other_protocol(location: str, site: Site, tmp_path: Path) -> None:
    site.redirect = location

    with pytest.raises(ConversionError):
        download(f"{site.url}/weights.hdf5", cache_dir=tmp_path)

    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]


def test_a_user_and_password_are_refused_and_not_shown(site: Site, tmp_path: Path) -> None:
    url = f"{site.url}/weights.hdf5".replace("//", "//user:secret@")

    with pytest.raises(ConversionError, match=rf"^{site.url}/weights.hdf5: a user and password are not sent"):
        download(url, cache_dir=tmp_path)

    assert site.requests == []


def test_names_that_a_link_may_have(site: Site, tmp_path: Path) -> None:
    site.files = {"/a%20b/elmo%20%E6%97%A5.hdf5": b"abc"}

    path = download(f"{site.url}/a b/elmo%20日.hdf5?token=secret#part", cache_dir=tmp_path)

    assert path.name == "elmo_日.hdf5"


def test_a_progress_bar_only_where_it_is_asked_for(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    download(f"{site.url}/weights.hdf5", cache_dir=tmp_path / "silent")
    silent = capsys.readouterr().err
    download(f"{site.url}/weights.hdf5", cache_dir=tmp_path / "shown", progress=True)

    assert silent == ""
    assert "weights.hdf5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:password@host/a.hdf5?token=x#y", "https://host/a.hdf5"),
        ("https://host:8080/a@1.0/b.hdf5#x", "https://host:8080/a@1.0/b.hdf5"),
        ("http://user:password@[", "http://["),
        ("http://host/\x1b[31m", "http://host/\ufffd[31m"),
    ],
)
def test_secrets_are_not_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_the_cache_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ELMO_HF_CACHE", str(tmp_path))

    assert cache_folder() == tmp_path


@pytest.fixture
def served(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The server with a tiny original, and a cache of the test's own."""
    monkeypatch.setenv("ELMO_HF_CACHE", str(tmp_path / "cache"))
    weights, options = write_bilm_hdf5(tmp_path / "original")
    site.files = {"/weights.hdf5": weights.read_bytes(), "/options.json": options.read_bytes()}
    return site


@pytest.mark.parametrize("kept", [5, 5000, -100])
def test_half_a_file_that_no_size_betrays_is_not_kept(kept: int, served: Site, tmp_path: Path) -> None:
    served.sized = False
    urls = [f"{served.url}/{name}" for name in ("weights.hdf5", "options.json")]
    whole = served.files["/weights.hdf5"]
    served.files["/weights.hdf5"] = whole[:kept]
    with pytest.raises(ConversionError, match=r"weights\.hdf5"):
        convert(urls, tmp_path / "model")
    served.files["/weights.hdf5"] = whole

    convert(urls, tmp_path / "model")

    assert (tmp_path / "model/config.json").is_file()


def test_a_part_that_is_found_damaged_late_is_not_kept(served: Site, tmp_path: Path) -> None:
    urls = [f"{served.url}/{name}" for name in ("weights.hdf5", "options.json")]
    whole = served.files["/weights.hdf5"]
    write_bilm_hdf5(tmp_path / "other", dim=6)
    served.files["/weights.hdf5"] = (tmp_path / "other/weights.hdf5").read_bytes()
    with pytest.raises(ConversionError, match=r"weights\.hdf5"):
        convert(urls, tmp_path / "model")
    served.files["/weights.hdf5"] = whole

    convert(urls, tmp_path / "model")


def test_an_intact_file_is_kept_when_another_was_forgotten(served: Site, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="No options"):
        convert([f"{served.url}/weights.hdf5"], tmp_path / "model")

    convert([f"{served.url}/{name}" for name in ("weights.hdf5", "options.json")], tmp_path / "model")

    assert len(served.requests) == 2


def test_two_links_in_any_order_convert(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_HF_CACHE", str(tmp_path / "cache"))
    weights, options = write_bilm_hdf5(tmp_path / "original")
    site.files = {"/elmo/weights.hdf5": weights.read_bytes(), "/elmo/options.json": options.read_bytes()}

    convert([f"{site.url}/elmo/options.json?token=secret", f"{site.url}/elmo/weights.hdf5"], tmp_path / "model")

    provenance = json.loads((tmp_path / "model/provenance.json").read_text(encoding="utf-8"))
    assert [source["url"] for source in provenance["sources"]] == [
        f"{site.url}/elmo/weights.hdf5",
        f"{site.url}/elmo/options.json",
    ]
