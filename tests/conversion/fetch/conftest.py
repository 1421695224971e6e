"""The server on loopback, for the tests of this folder."""

import urllib.request
from collections.abc import Iterator

import pytest

from elmo_hf_conversion.fetch import download as download_module
from support.file_server import Site, serving


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(download_module, "WAIT", 0.0)
    # no proxy between the test and loopback
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    monkeypatch.setattr(urllib.request, "_opener", None)
    with serving(Site()) as site:
        yield site
