"""`elmo-hf push`: what it prints, and that it does what docs/publishing.md tells."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmo_hf.cli import main
from support.cli_runs import Captured, error_of
from support.hub_server import READER, WRITER, Hub, hub_for_this_process


pytestmark = pytest.mark.usefixtures("library_logging")

NAME = "ann/tiny-elmo"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "publishing.md"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_for_this_process(monkeypatch) as server:
        yield server


def test_a_dry_run_shows_all_and_sends_nothing(hub: Hub, spare_model: Path, capsys: Captured) -> None:
    (spare_model / "training_args.bin").write_bytes(b"secret")
    (spare_model / "README.md").write_text("---\ntags: [elmo]\n---\nMine\n", encoding="utf-8")

    assert main(["push", str(spare_model), NAME, "--licence", "mit", "--dry-run"]) == 0

    shown = capsys.readouterr()
    assert re.match(rf"Would be sent to {NAME} \(\d+(\.\d+)? kB\):\n    \w+_elmo\.py +\d+\.\d kB\n", shown.out)
    assert "\nWould be left: training_args.bin\n" in shown.out
    assert shown.out.endswith(
        "README.md: kept, with license, library_name and pipeline_tag added to its metadata\n"
        "Not checked: your access, the name on the Hub, and codes of languages with three letters.\n"
    )
    assert shown.err == ""
    assert hub.seen == []


def test_it_ends_with_the_address_and_the_commit(hub: Hub, bilm_model: Path, capsys: Captured) -> None:
    command = ["push", str(bilm_model), NAME, "--license=mit", "--language", "en", "--message=First", "--revision=one"]
    lines = []
    for _ in range(2):
        assert main(command) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        lines.append(shown.out.splitlines()[-1])

    commit = hub.repositories[NAME].branches["one"][-1]
    assert commit.message == "First"
    assert lines == [
        f"Pushed to {hub.url}/{NAME}, commit {commit.oid}",
        f"Nothing has changed at {hub.url}/{NAME}, commit {commit.oid}",
    ]


def test_files_of_an_older_version_are_told_of(hub: Hub, bilm_model: Path, capsys: Captured) -> None:
    main(["push", str(bilm_model), NAME, "--license=mit"])
    hub.repositories[NAME].commit("main", "old", hub.files(NAME) | {"char_vocab.json": b"{}", "data.txt": b""})

    main(["push", str(bilm_model), NAME, "--license=mit"])

    assert "\nDeleted there, as of an older version: char_vocab.json\n" in capsys.readouterr().out
    assert "data.txt" in hub.files(NAME)


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["", "debug"])
@pytest.mark.parametrize(
    ("token", "failure", "message"),
    [
        (READER, [], "may not write"),
        (f"{WRITER}\u00e9", [], "characters that no token has"),
        (WRITER, [("POST", (418, f"{WRITER} is a teapot"))], "[token]"),
        (WRITER, [("PUT", "break")] * 6, "The connection to"),
    ],
    ids=["reader", "odd", "repeated", "broken"],
)
def test_the_token_is_in_no_message(
    debug: list[str],
    token: str,
    failure: list[tuple[str, object]],
    message: str,
    hub: Hub,
    bilm_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    hub.fail = list(failure)

    assert main(["push", str(bilm_model), NAME, "--license=mit", *debug]) == 1

    if debug:
        shown = capsys.readouterr().err
        assert "Traceback" in shown
    else:
        shown = error_of(capsys)
    assert message in shown
    assert not re.search("WriterWriter|ReaderReader", shown + caplog.text)
    assert "signature" not in shown + caplog.text


def test_wrong_usage(bilm_model: Path, capsys: Captured) -> None:
    assert main(["push", str(bilm_model), NAME]) == 1
    assert "give that of the weights' owner by --license" in error_of(capsys)
    assert main(["push", str(bilm_model), "tiny", "--license=mit"]) == 1
    assert "'tiny' is no name on the Hub: write it as ORG/NAME" in error_of(capsys)
    with pytest.raises(SystemExit, match="2"):
        main(["push", str(bilm_model)])


def test_the_page_does_what_it_says(
    hub: Hub, bilm_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    for name in ("my-elmo", "my-ner"):
        shutil.copytree(bilm_model, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.replace("\\\n", " ").splitlines()]

    pushes = [command[1:] for command in commands if command[:2] == ["elmo-hf", "push"]]
    for command in pushes:
        assert main(command) == 0, command

    assert len(pushes) >= 3
    assert {"main", "v2"} <= hub.repositories["ann/my-elmo"].branches.keys()
    assert hub.repositories["ann/my-secret-elmo"].private
    assert "Pushed to" in capsys.readouterr().out
