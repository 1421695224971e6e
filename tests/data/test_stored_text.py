"""Stored sentences are those that were read; a text is written once, and whole, or not at all."""

import errno
import io
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_hf import ElmoError
from elmo_hf.data import stored_text
from elmo_hf.data.stored_text import StoredSentences, cached_sentences, describe_files, store_sentences


# a letter of each length in UTF-8, and a lone surrogate, as JSON may have it
SENTENCES = [
    ["the", "king", "is", "the", "king"],
    ["á", "日本", "😀", "\ud800"],
    ["no"],
    ["is", "the", "queen", "日本"],
]


def test_stored_sentences_are_those_that_were_read(tmp_path: Path) -> None:
    stored = store_sentences(tmp_path / "text", iter([[], *SENTENCES[:2], [], *SENTENCES[2:]]))

    assert list(stored) == [stored[index] for index in range(len(stored))] == SENTENCES
    assert stored[-1] == SENTENCES[-1]
    assert stored[np.int64(1)] == SENTENCES[1]
    assert stored.lengths.tolist() == [5, 4, 1, 4]
    assert (len(stored), stored.words) == (4, 14)
    with pytest.raises(IndexError):
        stored[4]
    # each spelling once, of 3 + 4 + 2 + 2 + 6 + 4 + 3 + 2 + 5 bytes
    assert (tmp_path / "text" / "letters.bin").stat().st_size == 31


def test_words_that_were_forgotten_are_numbered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_text, "KEPT_SPELLINGS", 2)

    assert list(store_sentences(tmp_path / "text", SENTENCES)) == SENTENCES


def test_a_copy_for_another_process_opens_the_same_files(tmp_path: Path) -> None:
    stored = store_sentences(tmp_path / "text", SENTENCES * 1000)

    copied = pickle.dumps(stored)

    assert len(copied) < 1000
    assert pickle.loads(copied)[1] == SENTENCES[1]  # noqa: S301 - its own


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([], "No sentence has words: check the text"),
        ([[]], "No sentence"),
        ([["a", 3]], "3 is not a word: give words"),
    ],
)
def test_what_is_no_text_is_refused_and_leaves_nothing(
    sentences: list[list[Any]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ElmoError, match=f"^{message}"):
        store_sentences(tmp_path / "new" / "text", sentences)

    assert not list(tmp_path.iterdir())


def cut(folder: Path) -> None:
    path = folder / "words.bin"
    path.write_bytes(path.read_bytes()[:-1])


def forget_facts(folder: Path) -> None:
    (folder / "text.json").unlink()


def damage_facts(folder: Path) -> None:
    (folder / "text.json").write_text('{"counts": []}')


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut, r"words\.bin has 55 bytes in place of 56"),
        (forget_facts, "No such file"),
        (damage_facts, "list indices"),
    ],
)
def test_damaged_files_are_never_read(damage: Callable[[Path], None], reason: str, tmp_path: Path) -> None:
    store_sentences(tmp_path / "text", SENTENCES)
    damage(tmp_path / "text")

    with pytest.raises(ElmoError, match=rf"^\S*text is no whole stored text \([^\n]*{reason}.*\): delete it\.$"):
        StoredSentences(tmp_path / "text")


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullFile(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", lambda *_: FullFile())

    with pytest.raises(ElmoError, match=r"^[^\n]*text cannot be written \(No space left on device\): make room, "):
        store_sentences(tmp_path / "text", SENTENCES)
    assert not list(tmp_path.iterdir())


def test_a_text_that_cannot_be_read_is_no_full_disk(tmp_path: Path) -> None:
    def read() -> Iterator[list[str]]:
        yield ["the"]
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

    with pytest.raises(ElmoError, match=r"^The text cannot be read \(Connection reset by peer\): check where"):
        store_sentences(tmp_path / "text", read())


def test_a_known_text_is_not_read_again(tmp_path: Path) -> None:
    def fail() -> Iterator[list[str]]:
        yield from ()
        pytest.fail("read again")

    source = {"files": [["a.txt", 3, 4]]}
    first = cached_sentences(tmp_path / "new" / "cache", source, SENTENCES)

    assert list(cached_sentences(tmp_path / "new" / "cache", source, fail())) == SENTENCES
    other = cached_sentences(tmp_path / "new" / "cache", {"files": [["a.txt", 3, 5]]}, [["no"]])
    assert list(other) == [["no"]]
    assert first.folder.parent == other.folder.parent


def test_files_are_known_by_place_size_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("the king")
    os.utime("a.txt", ns=(1, 2))
    before = describe_files(["a.txt"])

    assert before == [[str(tmp_path.resolve() / "a.txt"), 8, 2]]
    os.utime("a.txt", ns=(1, 3))
    assert describe_files(["a.txt"]) != before
    with pytest.raises(ElmoError, match=r"^b\.txt: No such file or directory: check the file\.$"):
        describe_files(["b.txt"])


def write_half_a_text(cache: Path, begun: int) -> None:
    """Begin to write a text, say so, and never end."""

    def read() -> Iterator[list[str]]:
        yield ["half", "of", "a", "text"]
        os.write(begun, b".")
        time.sleep(600)

    try:
        cached_sentences(cache, {}, read())
    finally:
        os._exit(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_others_wait_for_the_first_and_a_killed_one_leaves_nothing_that_is_read(tmp_path: Path) -> None:
    begun, say_begun = os.pipe()
    child = os.fork()
    if not child:
        write_half_a_text(tmp_path, say_begun)
    os.read(begun, 1)
    found: list[list[list[str]]] = []
    waiting = [
        threading.Thread(target=lambda text=text: found.append(list(cached_sentences(tmp_path, {}, text))))
        for text in (SENTENCES, [["no"]])
    ]
    for thread in waiting:
        thread.start()
    time.sleep(0.3)
    assert all(thread.is_alive() for thread in waiting)

    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for thread in waiting:
        thread.join()

    # one of them wrote, and the other one read it
    assert found[0] == found[1]
    assert found[0] in (SENTENCES, [["no"]])
    assert not list(tmp_path.glob(".*"))
