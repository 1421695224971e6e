"""Download a file over HTTP: resume, check, and keep it in the user's cache folder.

This uses the standard library, because huggingface_hub depends on httpx in some versions and httpx2 in others, and its
own download function expects the Hub's responses.
"""

import contextlib
import hashlib
import http.client
import json
import logging
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from filelock import FileLock
from tqdm import tqdm

from elmo_hf.errors import counted

from ..readers.base import CHUNK, ConversionError, SelectionError, printable
from ..readers.content import Kind, kind_of


logger = logging.getLogger(__name__)

#: Seconds without a byte after which a connection counts as broken.
TIMEOUT = 30.0

#: Consecutive attempts that bring no new byte, at most.
MAX_ATTEMPTS = 5

#: Seconds before the first retry; doubled for each further one.
WAIT = 1.0

#: HTTP statuses that may change on a retry.
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})

#: Handlers for HTTP alone: `urlopen` would also follow a redirection to ftp.
HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.UnknownHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPRedirectHandler,
    urllib.request.HTTPErrorProcessor,
)


class UnavailableError(ConversionError):
    """Raised for an address that does not give its file, so that another address is worth a try.

    Attributes:
        problem: The message without its remedy.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}. {remedy}")
        self.problem = problem


class _BrokenDownloadError(Exception):
    """Raised if a connection breaks off, so that the download is tried again."""


@dataclass
class _Partial:
    """A file that is being downloaded, and its description by the server, so that only the same file is resumed.

    Attributes:
        path: The bytes so far.
        validator: The server's strong ETag, or its date of last change; without one the download is not resumed.
        total: The size of the whole file in bytes, if the server states it.
        ranges: Whether to request ranges; false after the server refused one.
    """

    path: Path
    validator: str | None = None
    total: int | None = None
    ranges: bool = True

    @property
    def notes(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def resumable(self) -> bool:
        return self.ranges and self.size > 0 and self.validator is not None

    def load(self) -> None:
        """Load the notes of an earlier process; ignore notes that cannot be read."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            notes = json.loads(self.notes.read_text(encoding="utf-8"))
            self.validator, self.total = notes["validator"], notes["total"]

    def restart(self, headers: http.client.HTTPMessage) -> None:
        """Start again with the file that these headers describe."""
        etag = headers.get("ETag", "")
        self.validator = etag if etag.startswith('"') else headers.get("Last-Modified")
        length = headers.get("Content-Length", "")
        self.total = int(length) if length.isdecimal() else None
        self.path.write_bytes(b"")
        self.notes.write_text(json.dumps({"validator": self.validator, "total": self.total}), encoding="utf-8")

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)

    def refuse(self) -> None:
        """Discard the file, which does not match the server's, and request whole files from now on."""
        self.remove()
        self.ranges = False


def cache_folder() -> Path:
    """Return the folder for downloads: `$ELMO_HF_CACHE`, or else `~/.cache/elmo_hf`."""
    return Path(os.environ.get("ELMO_HF_CACHE") or Path.home() / ".cache" / "elmo_hf")


def download(url: str, *, cache_dir: Path | None = None, progress: bool = False) -> Path:
    """Download a file, or return it from the cache.

    A broken download is resumed, even by a later process, if the server supports it and still has the same file
    (`Range` with `If-Range`). The size is compared with the server's.

    Args:
        url: A link that begins with `https://` or `http://`.
        cache_dir: The folder to keep it in; `cache_folder()` by default. To download the file again, delete it there,
            or let `refused_is_forgotten` do so.
        progress: Show a progress bar.

    Returns:
        The path of the file in the cache.

    Raises:
        UnavailableError: If the link does not give the file.
        ConversionError: If the download fails; the message is one line that names the link and the reason.
    """
    _check_link(url)
    final = cached_path(url, cache_dir=cache_dir)
    partial = _Partial(final.with_name(f"{final.name}.part"))
    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(final.parent / "lock"):
        if not final.exists():
            partial.load()
            _fetch(url, partial, progress=progress)
            _check_content(url, partial)
            partial.path.replace(final)
            partial.remove()
    return final


def cached_path(url: str, *, cache_dir: Path | None = None) -> Path:
    """Return where the file of a link is kept once it has been downloaded."""
    folder = (cache_dir or cache_folder()) / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:16]
    return folder / (_file_name(url) or "file")


@contextlib.contextmanager
def refused_is_forgotten(path: Path) -> Iterator[None]:
    """Remove a download from the cache if this block raises an error that names it.

    If a server states no size, or a wrong one, a truncated download is noticed only when the file is read. The next
    run then downloads it again instead of reading the same half.
    """
    try:
        yield
    except SelectionError:
        raise
    except ConversionError as error:
        if path.name in str(error):
            path.unlink(missing_ok=True)
        raise


def shown_url(url: str) -> str:
    """Return a link without parts that may be secret: user, password, query and fragment. It need not be valid."""
    return printable(re.sub(r"(?<=//)[^/]*@", "", re.split(r"[?#]", url, maxsplit=1)[0]))


def _check_link(url: str) -> None:
    try:
        url.encode()
        parts = urlsplit(url)
        host = parts.hostname or " "
        host.encode("idna")
        # reading the port checks it
        valid = parts.scheme in ("http", "https") and parts.port != 0 and not re.search(r"\s", host)
    except ValueError:
        valid = False
    if not valid:
        raise _invalid(url)
    if parts.username or parts.password:
        raise ConversionError(f"{shown_url(url)}: a user and password are not sent. Download it, and give the file.")


def _invalid(url: str) -> ConversionError:
    return ConversionError(f"{shown_url(url)} is not a valid link. Check it.")


def _file_name(url: str) -> str:
    return re.sub(r"[^\w.\-]", "_", unquote(urlsplit(url).path).rsplit("/", 1)[-1])[-100:].lstrip(".")


def _fetch(url: str, partial: _Partial, *, progress: bool) -> None:
    """Try until the file is complete; give up after `MAX_ATTEMPTS` consecutive attempts without a new byte."""
    failures = 0
    # compare with the largest size so far, because an attempt that starts again loses bytes at first
    largest = partial.size
    while True:
        try:
            _attempt(url, partial, progress=progress)
        except _BrokenDownloadError as error:
            failures = 0 if partial.size > largest else failures + 1
            largest = max(largest, partial.size)
            if failures >= MAX_ATTEMPTS:
                raise _gave_up(url, partial, error) from error
            if failures:
                logger.warning("%s: %s. Trying again.", shown_url(url), printable(str(error)))
            time.sleep(WAIT * 2**failures)
        else:
            return


def _gave_up(url: str, partial: _Partial, error: _BrokenDownloadError) -> ConversionError:
    if not partial.size:
        return UnavailableError(f"{shown_url(url)} cannot be downloaded ({error})", "Check the link and the network.")
    remedy = "to continue from there" if partial.resumable else "to start over"
    return ConversionError(
        f"{shown_url(url)}: the download broke off ({error}) at {counted(partial.size, 'byte')}. "
        f"Run the command again {remedy}."
    )


def _attempt(url: str, partial: _Partial, *, progress: bool) -> None:
    if partial.resumable and partial.size == partial.total:
        # an earlier process ended between the last byte and the renaming
        return
    request = urllib.request.Request(_encoded(url), headers={"User-Agent": "elmo_hf"})
    if partial.resumable:
        request.add_header("Range", f"bytes={partial.size}-")
        request.add_header("If-Range", str(partial.validator))
    with _translated(url, partial), _open(request) as response:
        _check_type(url, response.headers)
        if response.status != http.client.PARTIAL_CONTENT:
            partial.restart(response.headers)
        elif not _continues(response.headers, partial):
            partial.refuse()
            raise _BrokenDownloadError("the server sent a different part than requested")
        _copy(response, partial, progress=progress)
    if partial.total is not None and partial.size != partial.total:
        size = partial.size
        if size > partial.total:
            partial.remove()
        raise _BrokenDownloadError(f"{size:,} of {partial.total:,} bytes came")


def _open(request: urllib.request.Request) -> http.client.HTTPResponse:
    opener = urllib.request.OpenerDirector()
    for handler in HANDLERS:
        opener.add_handler(handler())
    return opener.open(request, timeout=TIMEOUT)


def _copy(response: http.client.HTTPResponse, partial: _Partial, *, progress: bool) -> None:
    with (
        partial.path.open("ab") as file,
        tqdm(
            total=partial.total,
            initial=partial.size,
            desc=partial.path.stem,
            unit="B",
            unit_scale=True,
            unit_divisor=1024,
            disable=not progress,
        ) as bar,
    ):
        while chunk := response.read1(CHUNK):
            file.write(chunk)
            bar.update(len(chunk))


@contextlib.contextmanager
def _translated(url: str, partial: _Partial) -> Iterator[None]:
    """Turn errors of the connection into a retry or a one-line error."""
    shown = shown_url(url)
    try:
        yield
    except ConversionError:
        raise
    except (http.client.InvalidURL, ValueError) as error:
        # the server redirected to it
        raise UnavailableError(f"{shown} leads to an invalid link ({error})", "Check the link.") from error
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            partial.refuse()
            raise _BrokenDownloadError("the file on the server has changed") from error
        if error.code in TRANSIENT:
            raise _BrokenDownloadError(f"HTTP {error.code} {error.reason}") from error
        raise UnavailableError(f"{shown}: HTTP {error.code} {error.reason}", "Check the link.") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, socket.gaierror):
            host = urlsplit(url).hostname
            raise UnavailableError(f"{shown}: host {host} is not found", "Check the link and the network.") from error
        if isinstance(error.reason, OSError) and "CERTIFICATE" not in str(error.reason):
            raise _BrokenDownloadError(str(error.reason)) from error
        raise UnavailableError(f"{shown}: {error.reason}", "Download it in another way, and give the file.") from error
    except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        raise _BrokenDownloadError(str(error) or type(error).__name__) from error


def _encoded(url: str) -> str:
    """Encode the spaces and non-ASCII letters of a pasted link."""
    return quote(url, safe="%/:=&?~#+!$,;'@()*[]")


def _continues(headers: http.client.HTTPMessage, partial: _Partial) -> bool:
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
    if match is None or int(match[1]) != partial.size:
        return False
    return partial.total is None or match[2] in ("*", str(partial.total))


def _check_type(url: str, headers: http.client.HTTPMessage) -> None:
    if headers.get_content_type() == "text/html":
        raise _web_page(url)


def _check_content(url: str, partial: _Partial) -> None:
    with partial.path.open("rb") as file:
        kind = kind_of(file)
    if kind in (Kind.WEB_PAGE, Kind.EMPTY):
        partial.remove()
        raise (
            _web_page(url)
            if kind is Kind.WEB_PAGE
            else UnavailableError(f"{shown_url(url)} is an empty file", "Check the link.")
        )


def _web_page(url: str) -> UnavailableError:
    return UnavailableError(
        f"{shown_url(url)} is a web page, not a file of a model", "Give the link of the file itself."
    )


__all__ = ["UnavailableError", "cache_folder", "cached_path", "download", "refused_is_forgotten", "shown_url"]
