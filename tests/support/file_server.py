"""A server on loopback for tests of downloads, which can break connections, fail and send something else."""

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


CONTENT = bytes(range(1, 256)) * 400


@dataclass
class Site:
    """What the server on loopback does, and what it was asked for.

    Attributes:
        files: Content by path.
        break_after: For each coming answer the number of bytes after which the connection breaks.
        failures: For each coming request an HTTP error to answer with.
        ranges: Whether parts of files are served.
        refuses_ranges: Answer each request for a part with an error.
        shift: Bytes by which a part that is sent begins too late.
        sized: Whether sizes are told.
        etag: The validator that is told.
        content_type: The type that is told.
        redirect: Where every request is sent on to.
        requests: The `Range` of every request.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=lambda: {"/weights.hdf5": CONTENT})
    break_after: list[int] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    ranges: bool = True
    refuses_ranges: bool = False
    shift: int = 0
    sized: bool = True
    etag: str | None = '"one"'
    content_type: str = "application/octet-stream"
    redirect: str = ""
    requests: list[str | None] = field(default_factory=list)


def handler(site: Site) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            site.requests.append(asked)
            content = site.files.get(self.path.partition("?")[0])
            if site.failures or content is None:
                self.send_error(site.failures.pop(0) if site.failures else 404)
                return
            start = int(re.findall(r"\d+", asked)[0]) if asked and site.ranges else 0
            if start and self.headers["If-Range"] not in (None, site.etag):
                start = 0
            start += site.shift * bool(start)
            if start and (site.refuses_ranges or start >= len(content) > 0):
                self.send_error(416)
                return
            if site.redirect:
                self.send_response(302)
                self.send_header("Location", site.redirect)
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            if site.sized:
                self.send_header("Content-Length", str(len(content) - start))
            if site.etag:
                self.send_header("ETag", site.etag)
            self.send_header("Content-Type", site.content_type)
            self.end_headers()
            length = site.break_after.pop(0) if site.break_after else len(content)
            self.wfile.write(content[start : start + length])

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Run a server for the site, and tell the site its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(site)) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield site
        server.shutdown()
        thread.join()
