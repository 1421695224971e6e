"""A stand-in for `python` that starts with torch imported: a process of its own, some seconds sooner.

`[*FRESH_PYTHON, "-c", program, ...]` does what `[sys.executable, "-c", program, ...]` does. A server, which has
imported torch and other libraries but no part of this package or of Transformers, forks for each command. The process
gets the environment, the folder and the streams of its caller, and ends as Python does. It is no child of its caller:
signals and limits of resources do not reach it, so a test that kills its process has to learn its number, and one that
limits it takes `sys.executable`.
"""

import atexit
import gc
import io
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any


# what Transformers imports of other libraries, the larger part of its import; no test sets a variable that they read
PRELOADED = (
    *("numpy", "torch._dynamo", "torch.distributed.tensor", "torch.fx.experimental.symbolic_shapes"),
    *("jinja2.sandbox", "PIL.Image", "regex", "safetensors.torch", "scipy.optimize", "tokenizers", "yaml"),
    # of which huggingface_hub has one
    *("httpx", "httpx2"),
)
STREAMS = {0: "stdin", 1: "stdout", 2: "stderr"}


class FreshPython:
    """The words of the command. Its server starts at the first use and ends with this process."""

    def __init__(self) -> None:
        self.folder = ""
        self.server: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End the server."""
        if self.server is not None:
            self.server.kill()
            self.server.wait()

    def __iter__(self) -> Iterator[str]:
        if not self.folder:
            self.folder = tempfile.mkdtemp(prefix="elmo-hf-fresh-")
            atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
            self.server = subprocess.Popen(
                [sys.executable, __file__, self.folder, "--serve"], stdin=subprocess.DEVNULL
            )
            atexit.register(self.stop)
        return iter([sys.executable, "-IS", __file__, self.folder])


FRESH_PYTHON = FreshPython()


def run_elsewhere(address: Path, arguments: list[str]) -> None:
    """Run Python with these arguments by the server, and end as it ends."""
    deadline = time.monotonic() + 300
    while not address.exists():
        if time.monotonic() > deadline:
            sys.exit(f"the server of {address} did not start")
        time.sleep(0.02)
    opened = [number for number in STREAMS if is_open(number)]
    request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ), "opened": opened}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(address))
        # a descriptor takes at least one byte along
        socket.send_fds(connection, [b" "], opened)
        connection.sendall(json.dumps(request).encode() + b"\n")
        status = os.waitstatus_to_exitcode(int(connection.makefile().readline()))
    if status < 0:
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def is_open(stream: int) -> bool:
    """Return whether a stream of this process is open."""
    try:
        os.fstat(stream)
    except OSError:
        return False
    return True


def serve(address: Path) -> list[str]:
    """Fork for each request. Only in a process that is to run a program, this returns, with its arguments."""
    for name in PRELOADED:
        with suppress(ImportError):
            import_module(name)
    # what is shared with the processes stays so
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(address) + ".new")
        server.listen(16)
        Path(str(address) + ".new").rename(address)
        server.settimeout(0.5)
        parent = os.getppid()
        while os.getppid() == parent:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                server.close()
                return answer(connection)
            connection.close()
            # those that have ended leave nothing behind
            with suppress(ChildProcessError):
                while any(os.waitpid(-1, os.WNOHANG)):
                    pass
    os._exit(0)


def answer(connection: socket.socket) -> list[str]:
    """Report how the program ended, in this process; return the arguments of the program in a process for it."""
    connection.setblocking(True)
    _, streams, _, _ = socket.recv_fds(connection, 1, len(STREAMS))
    request = json.loads(connection.makefile().readline())
    program = os.fork()
    if program:
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(program, 0)
        connection.sendall(f"{status}\n".encode())
        os._exit(0)
    connection.close()
    become(request, dict(zip(request["opened"], streams, strict=True)))
    return list(request["arguments"])


def become(request: dict[str, Any], streams: dict[int, int]) -> None:
    """Give this process the environment, the folder and the streams of a request."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, name in STREAMS.items():
        if number in streams:
            os.dup2(streams[number], number)
            raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
            buffered = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
            errors = "backslashreplace" if number == 2 else "surrogateescape"
            file = io.TextIOWrapper(buffered, encoding="utf-8", errors=errors, line_buffering=number == 2)
        else:
            os.close(number)
            file = None
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)
    for descriptor in streams.values():
        os.close(descriptor)
    if action := os.environ.get("PYTHONWARNINGS"):
        warnings.simplefilter(action)  # type: ignore[arg-type]


def run(arguments: list[str]) -> None:
    """Run a program as Python runs it with these arguments: `-c` code, `-m` a module, or a script."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as `python -c` does
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).parent))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    place = Path(sys.argv[1], "socket")
    if sys.argv[2] != "--serve":
        run_elsewhere(place, sys.argv[2:])
    # as if the folder of this file had never been in the path
    del sys.path[0]
    run(serve(place))
