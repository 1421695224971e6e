"""Download one file over HTTP: resumable, checked, kept in the user's cache folder.

The standard library does it: huggingface_hub brings httpx in some versions and httpx2 in others, and its own download
function is for the Hub's answers.
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

from ..readers.base import CHUNK, ConversionError, SelectionError, printable
from ..readers.content import Kind, kind_of


logger = logging.getLogger(__name__)

#: Seconds without a byte after which a connection counts as broken.
TIMEOUT = 30.0

#: Attempts in a row that bring no new byte.
MAX_ATTEMPTS = 5

#: Seconds before the first new attempt; doubled at each further one.
WAIT = 1.0

#: HTTP answers that may be otherwise in a moment.
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})

#: What follows a redirection: `urlopen` would go on to ftp, too.
HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.UnknownHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPRedirectHandler,
    urllib.request.HTTPErrorProcessor,
)


class _BrokenDownloadError(Exception):
    """A connection that broke off: the reason to try again."""


@dataclass
class _Partial:
    """A file that is growing, and what the server said of it, so that only the same file is resumed.

    Attributes:
        path: The bytes so far.
        validator: The server's strong ETag, or its date of last change; without one nothing is resumed.
        total: Bytes of the whole file, where the server says it.
        ranges: Whether to ask for parts; not after the server refused one.
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
        """Take up what an earlier process left; notes that cannot be read count as none."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            notes = json.loads(self.notes.read_text(encoding="utf-8"))
            self.validator, self.total = notes["validator"], notes["total"]

    def restart(self, headers: http.client.HTTPMessage) -> None:
        """Begin anew with the file that these headers describe."""
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
        """Throw away what does not fit what the server sent, and take the whole file from now on."""
        self.remove()
        self.ranges = False


def cache_folder() -> Path:
    """Where downloads are kept: `$ELMO_HF_CACHE`, else `~/.cache/elmo_hf`."""
    return Path(os.environ.get("ELMO_HF_CACHE") or Path.home() / ".cache" / "elmo_hf")


def download(url: str, *, cache_dir: Path | None = None, progress: bool = False) -> Path:
    """Download a file, or take it from the cache where it is whole already.

    A broken download is taken up where it stopped, also by a later process, if the server can do so and still has
    the same file (`Range` with `If-Range`). The size is checked against the server's.

    Args:
        url: A link that begins with `https://` or `http://`.
        cache_dir: Where to keep it; `cache_folder()` by default. Delete the file there to download it anew, or let
            `refused_is_forgotten` do so.
        progress: Show a bar.

    Returns:
        The path of the file in the cache.

    Raises:
        ConversionError: If it cannot be had; one line that names the link and the reason.
    """
    _check_link(url)
    folder = (cache_dir or cache_folder()) / "downloads" / hashlib.sha256(url.encode()).hexdigest()[:16]
    final = folder / (_file_name(url) or "file")
    partial = _Partial(final.with_name(f"{final.name}.part"))
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if not final.exists():
            partial.load()
            _fetch(url, partial, progress=progress)
            _check_content(url, partial)
            partial.path.replace(final)
            partial.remove()
    return final


@contextlib.contextmanager
def refused_is_forgotten(path: Path) -> Iterator[None]:
    """Remove a download from the cache if what is done with it ends in an error that names it.

    A server that tells no size, or a wrong one, can break off without being found out, until the file is read. The
    next run is to have it afresh, not the same half of it.
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
    """The link without what may be secret in it: user, password, query and fragment. It need not be valid."""
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
    return ConversionError(f"{shown_url(url)} is no valid link. Check it.")


def _file_name(url: str) -> str:
    return re.sub(r"[^\w.\-]", "_", unquote(urlsplit(url).path).rsplit("/", 1)[-1])[-100:].lstrip(".")


def _fetch(url: str, partial: _Partial, *, progress: bool) -> None:
    """Try until the file is whole; give up after some attempts in a row that brought nothing new."""
    failures = 0
    # not the size before the attempt: one that begins anew may lose bytes, which the next one would seem to bring
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
        return ConversionError(f"{shown_url(url)} cannot be downloaded ({error}). Check the link and the network.")
    remedy = "to go on from there" if partial.resumable else "to begin anew"
    return ConversionError(
        f"{shown_url(url)}: the download broke off ({error}) at {partial.size:,} bytes. "
        f"Run the command again {remedy}."
    )


def _attempt(url: str, partial: _Partial, *, progress: bool) -> None:
    if partial.resumable and partial.size == partial.total:
        # an earlier process was ended between the last byte and the renaming
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
            raise _BrokenDownloadError("the server sent another part than was asked for")
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
    """Turn what can go wrong on a connection into another attempt or one clear line."""
    shown = shown_url(url)
    try:
        yield
    except ConversionError:
        raise
    except (http.client.InvalidURL, ValueError) as error:
        # where the server leads on to
        raise ConversionError(f"{shown} leads to no valid link ({error}). Check the link.") from error
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            partial.refuse()
            raise _BrokenDownloadError("the file on the server has changed") from error
        if error.code in TRANSIENT:
            raise _BrokenDownloadError(f"HTTP {error.code} {error.reason}") from error
        raise ConversionError(f"{shown}: HTTP {error.code} {error.reason}. Check the link.") from error
    except urllib.error.URLError as error:
        if isinstance(error.reason, socket.gaierror):
            host = urlsplit(url).hostname
            raise ConversionError(f"{shown}: host {host} is not found. Check the link and the network.") from error
        if isinstance(error.reason, OSError) and "CERTIFICATE" not in str(error.reason):
            raise _BrokenDownloadError(str(error.reason)) from error
        raise ConversionError(f"{shown}: {error.reason}. Download it in another way, and give the file.") from error
    except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
        raise _BrokenDownloadError(str(error) or type(error).__name__) from error


def _encoded(url: str) -> str:
    """Links as people paste them may hold spaces and letters beyond ASCII."""
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
            else ConversionError(f"{shown_url(url)} is an empty file. Check the link.")
        )


def _web_page(url: str) -> ConversionError:
    return ConversionError(f"{shown_url(url)} is a web page, not a file of a model. Give the link of the file itself.")


__all__ = ["cache_folder", "download", "refused_is_forgotten", "shown_url"]
