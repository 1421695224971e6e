"""A Hub on this machine, in memory: what huggingface_hub asks for to push and to load, and failures on demand.

Repositories have branches, a branch has commits, a commit has files. Weights go by LFS. A test says by `hub.fail` what
is to go wrong. `hub_for_this_process` also points the libraries at it, with the token of somebody who may write.
"""

import base64
import hashlib
import json
import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest


WRITER, READER = "hf_WriterWriterWriterWriter", "hf_ReaderReaderReaderReader"


@dataclass
class Commit:
    """A commit: its name, its message, and all files that are there after it."""

    oid: str
    message: str
    files: dict[str, bytes]


@dataclass
class Repository:
    """A repository: private or not, and the commits of each branch, the last one last."""

    private: bool
    branches: dict[str, list[Commit]] = field(default_factory=dict)

    def find(self, revision: str) -> Commit | None:
        """Return the last commit of a branch, or the one of this name."""
        if revision in self.branches:
            return self.branches[revision][-1]
        commits = [commit for branch in self.branches.values() for commit in branch]
        return next((commit for commit in commits if commit.oid == revision), None)

    def commit(self, branch: str, message: str, files: dict[str, bytes]) -> Commit:
        """Add a commit to a branch."""
        commits = self.branches.setdefault(branch, [])
        # as in git, of the content: caches hold what has the same name for the same
        parts = [str(len(commits)), message, *(name + object_id(name, content) for name, content in files.items())]
        oid = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
        commits.append(Commit(oid, message, files))
        return commits[-1]


class Hub(ThreadingHTTPServer):
    """The server; `with` it is running.

    `fail` holds, for patterns of `METHOD /path`, what happens instead, once each time that it is listed: a status, a
    status with a message, or `"break"`, which ends the connection without an answer.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}
        self.fail: list[tuple[str, int | str | tuple[int, str]]] = []
        self.seen: list[str] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that a test breaks."""

    def files(self, name: str, revision: str = "main") -> dict[str, bytes]:
        """Return the files of a repository."""
        commit = self.repositories[name].find(revision)
        assert commit is not None
        return commit.files


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - as http.server calls them

    def answer(self) -> None:
        self.path = unquote(urlsplit(self.path).path)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = f"{self.command} {self.path}"
        self.server.seen.append(request)
        for number, (pattern, failure) in enumerate(self.server.fail):
            if re.search(pattern, request):
                del self.server.fail[number]
                self.break_or_refuse(failure)
                return
        for pattern, method in ROUTES:
            if found := re.fullmatch(pattern, request):
                method(self, *found.groups())
                return
        self.refuse(HTTPStatus.NOT_FOUND, f"no route for {request}")

    def break_or_refuse(self, failure: int | str | tuple[int, str]) -> None:
        if isinstance(failure, int):
            self.refuse(failure, "as the test wants it")
        elif isinstance(failure, tuple):
            self.refuse(*failure)
        else:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def send(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_json(self, content: object, status: int = 200) -> None:
        self.send(json.dumps(content).encode(), status)

    def refuse(self, status: int, message: str, code: str = "") -> None:
        self.send(json.dumps({"error": message}).encode(), status, X_Error_Message=message, X_Error_Code=code)

    # who asks, for what

    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def known(self) -> bool:
        if self.token() not in ("", WRITER, READER):
            self.refuse(401, "Invalid credentials in Authorization header")
            return False
        return True

    def may_write(self) -> bool:
        if not self.known():
            return False
        if self.token() != WRITER:
            self.refuse(401 if not self.token() else 403, "You don't have the rights")
            return False
        return True

    def find(self, name: str) -> Repository | None:
        if not self.known():
            return None
        repository = self.server.repositories.get(name)
        if repository is None or (repository.private and not self.token()):
            self.refuse(404 if self.token() else 401, "Repository not found", "RepoNotFound")
            return None
        return repository

    def find_commit(self, name: str, revision: str) -> Commit | None:
        repository = self.find(name)
        commit = repository.find(revision) if repository is not None else None
        if repository is not None and commit is None:
            self.refuse(404, "Invalid rev id", "RevisionNotFound")
        return commit

    # what can be asked for

    def create(self) -> None:
        if not self.may_write():
            return
        wanted = json.loads(self.body)
        name = "/".join(filter(None, (wanted.get("organization") or "writer", wanted["name"])))
        url, repositories = f"{self.server.url}/{name}", self.server.repositories
        if name in repositories:
            self.send_json({"error": "You already created this model repo", "url": url}, 409)
            return
        private = bool(wanted.get("private")) or wanted.get("visibility") == "private"
        repositories[name] = Repository(private)
        repositories[name].commit("main", "initial commit", {".gitattributes": b"*.safetensors filter=lfs\n"})
        self.send_json({"url": url, "name": name})

    def validate(self) -> None:
        if "\nlanguage: qqq\n" in json.loads(self.body)["content"]:
            self.send_json({"errors": [{"message": '"language" must be a code of ISO 639'}], "warnings": []}, 400)
        else:
            self.send_json({"errors": [], "warnings": []})

    def describe(self, name: str, revision: str | None) -> None:
        commit = self.find_commit(name, revision or "main")
        if commit is not None:
            siblings = [{"rfilename": file} for file in sorted(commit.files)]
            private = self.server.repositories[name].private
            self.send_json({"id": name, "sha": commit.oid, "private": private, "siblings": siblings, "tags": []})

    def tree(self, name: str, revision: str) -> None:
        commit = self.find_commit(name, revision)
        if commit is not None:
            files = commit.files.items()
            self.send_json([{"type": "file", "path": p, "size": len(c), "oid": object_id(p, c)} for p, c in files])

    def branch(self, name: str, branch: str) -> None:
        if not self.may_write() or (repository := self.find(name)) is None:
            return
        if branch in repository.branches:
            self.send_json({"error": "Reference already exists"}, 409)
            return
        repository.branches[branch] = list(repository.branches["main"])
        self.send_json({})

    def preupload(self, name: str, revision: str) -> None:
        if not self.may_write() or (commit := self.find_commit(name, revision)) is None:
            return
        answers = []
        for path in [file["path"] for file in json.loads(self.body)["files"]]:
            mode = "lfs" if path.endswith(".safetensors") else "regular"
            there = commit.files.get(path)
            oid = None if there is None else object_id(path, there)
            answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        self.send_json({"files": answers})

    def lfs_batch(self, name: str) -> None:
        if not self.may_write() or self.find(name) is None:
            return
        answers = []
        for wanted in json.loads(self.body)["objects"]:
            answer: dict[str, object] = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.server.objects:
                answer["actions"] = {"upload": {"href": f"{self.server.url}/storage/{wanted['oid']}?secret=signature"}}
            answers.append(answer)
        self.send_json({"transfer": "basic", "objects": answers})

    def store(self, oid: str) -> None:
        assert hashlib.sha256(self.body).hexdigest() == oid
        self.server.objects[oid] = self.body
        self.send(b"")

    def commit(self, name: str, branch: str) -> None:
        if not self.may_write() or (before := self.find_commit(name, branch)) is None:
            return
        header, *lines = [json.loads(line) for line in self.body.splitlines()]
        if header["value"].get("parentCommit") not in (None, before.oid):
            self.refuse(412, "A commit has happened since. Please refresh and try again.")
            return
        files = dict(before.files)
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            else:
                del files[value["path"]]
        commit = self.server.repositories[name].commit(branch, header["value"]["summary"], files)
        url = f"{self.server.url}/{name}/commit/{commit.oid}"
        self.send_json({"success": True, "commitOid": commit.oid, "commitUrl": url})

    def resolve(self, name: str, revision: str, file: str) -> None:
        commit = self.find_commit(name, revision)
        if commit is None:
            return
        if file not in commit.files:
            self.refuse(404, "Entry not found", "EntryNotFound")
            return
        content = commit.files[file]
        tag = hashlib.sha256(content).hexdigest()
        self.send(content, X_Repo_Commit=commit.oid, ETag=f'"{tag}"', Content_Type="application/octet-stream")


REPOSITORY, REVISION = r"([^/ ]+/[^/ ]+)", r"([^/]+)"
ROUTES = [
    (r"POST /api/repos/create", Handler.create),
    (r"POST /api/validate-yaml", Handler.validate),
    (rf"GET /api/models/{REPOSITORY}(?:/revision/{REVISION})?", Handler.describe),
    (rf"GET /api/models/{REPOSITORY}/tree/{REVISION}", Handler.tree),
    (rf"POST /api/models/{REPOSITORY}/branch/{REVISION}", Handler.branch),
    (rf"POST /api/models/{REPOSITORY}/preupload/{REVISION}", Handler.preupload),
    (rf"POST /{REPOSITORY}\.git/info/lfs/objects/batch", Handler.lfs_batch),
    (r"PUT /storage/(\w+)", Handler.store),
    (rf"POST /api/models/{REPOSITORY}/commit/{REVISION}", Handler.commit),
    (rf"(?:GET|HEAD) /{REPOSITORY}/resolve/{REVISION}/(.+)", Handler.resolve),
]


def object_id(path: str, content: bytes) -> str:
    """Compute the name of a file's content: SHA-256 where it goes by LFS, and git's where not."""
    if path.endswith(".safetensors"):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()


@contextmanager
def running_hub() -> Iterator[Hub]:
    """Run a Hub in a thread."""
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def hub_for_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Run a Hub, point the libraries of this process at it, and give them an empty cache.

    A cache that an earlier test has filled would answer what this Hub refuses.
    """
    from huggingface_hub import constants, hf_api
    from huggingface_hub.utils import close_session

    with running_hub() as server, tempfile.TemporaryDirectory() as cache:
        monkeypatch.setattr(constants, "HF_HUB_CACHE", cache)
        # what huggingface_hub read from the environment when it was imported
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(hf_api.api, "endpoint", server.url)
        monkeypatch.setattr("transformers.utils.hub._hf_api", None, raising=False)
        monkeypatch.setenv("HF_TOKEN", WRITER)
        # between a failure and the next try
        monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
        yield server
        close_session()


__all__ = ["READER", "WRITER", "Hub", "hub_for_this_process", "running_hub"]
