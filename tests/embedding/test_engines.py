"""`embedding.engines`: a part depends on its sentences and the options alone, and the manifest says what decides."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo_hf import ElmoError
from elmo_hf.embedding import engines
from elmo_hf.embedding.engines import CorpusOptions, LocalEngine, PartEmbedder, pool_words
from elmo_hf.embedding.parts import UnfinishedPart
from elmo_hf.embedding.sentences import Sentence


OPTIONS = CorpusOptions(layers="mix", pool="none", dtype="float32", batch_size=2)
SENTENCES = [Sentence("a b", ["a", "b"]), Sentence("", []), Sentence("c d e", ["c", "d", "e"])]


def test_a_part_does_not_depend_on_what_was_computed_before(bilm_model: Path) -> None:
    used, fresh = (PartEmbedder(bilm_model, "cpu", OPTIONS) for _ in range(2))
    used.embed_part([Sentence("e a f", ["e", "a", "f"])])

    one, other = used.embed_part(SENTENCES), fresh.embed_part(SENTENCES)

    assert one.vectors.shape == (5, *used.vector_shape)
    assert torch.equal(one.vectors, other.vectors)


@pytest.mark.parametrize(("pool", "expected"), [("mean", [2.0, 3.0]), ("max", [3.0, 5.0])])
def test_pools_words(pool: str, expected: list[float]) -> None:
    assert pool_words(torch.tensor([[1.0, 5.0], [3.0, 1.0]]), pool).tolist() == expected
    assert pool_words(torch.zeros(0, 2), pool).tolist() == [0, 0]


def test_the_manifest_changes_with_the_options_and_the_weights(bilm_model: Path, spare_model: Path) -> None:
    known = PartEmbedder(bilm_model, "cpu", OPTIONS).manifest()
    (spare_model / "more.json").write_text("{}", encoding="utf-8")

    assert PartEmbedder(bilm_model, "cpu", OPTIONS._replace(layers="top")).manifest() != known
    assert PartEmbedder(spare_model, "cpu", OPTIONS).manifest()["model_sha256"] != known["model_sha256"]


def test_an_unknown_pool_is_named(bilm_model: Path) -> None:
    with pytest.raises(ElmoError, match="There is no pool 'sum': choose none, mean, max"):
        PartEmbedder(bilm_model, "cpu", OPTIONS._replace(pool="sum"))


class Recorder:
    """An embedder whose parts are their sentences; it notes in which thread it computes."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.may_end = threading.Event()

    def embed_part(self, sentences: list[Sentence], progress: Callable[[int], object]) -> list[Sentence]:
        """Return the sentences when it may."""
        self.threads.add(threading.get_ident())
        assert self.may_end.wait(30)
        progress(len(sentences))
        return sentences


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the parts that were saved, in their order."""
    lengths: list[int] = []
    monkeypatch.setattr(engines, "save_part", lambda _, part: lengths.append(len(part)))
    return lengths


def parts_of(number: int) -> Iterator[UnfinishedPart]:
    """Yield parts of 1, 2, ... sentences."""
    for length in range(1, number + 1):
        yield UnfinishedPart(Path(str(length)), SENTENCES[:1] * length)


def test_a_part_is_saved_while_the_next_one_is_read_and_computed_here(
    saved: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder, done = Recorder(), []
    save, may_save = engines.save_part, threading.Event()

    def wait(path: Path, part: Any) -> None:
        assert may_save.wait(30)
        save(path, part)

    def read() -> Iterator[UnfinishedPart]:
        parts = parts_of(3)
        yield next(parts)
        # the first part is not saved before
        assert not saved
        may_save.set()
        yield from parts

    embedder.may_end.set()
    monkeypatch.setattr(engines, "save_part", wait)
    LocalEngine()(read(), embedder, done.append)  # type: ignore[arg-type]

    assert saved == done == [1, 2, 3]
    # where torch has its threads already
    assert embedder.threads == {threading.get_ident()}


def test_an_interruption_while_reading_ends_the_run(saved: list[int]) -> None:
    embedder, done = Recorder(), []

    def read() -> Iterator[UnfinishedPart]:
        parts = parts_of(2)
        embedder.may_end.set()
        yield next(parts)
        yield next(parts)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalEngine()(read(), embedder, done.append)  # type: ignore[arg-type]

    assert saved == [1, 2]


def test_an_error_of_a_part_ends_the_run(saved: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, _: object) -> None:
        raise ElmoError(f"{path} cannot be written")

    embedder = Recorder()
    embedder.may_end.set()
    monkeypatch.setattr(engines, "save_part", refuse)

    with pytest.raises(ElmoError, match=r"^1 cannot be written$"):
        LocalEngine()(parts_of(9), embedder, saved.append)  # type: ignore[arg-type]
    # the run ends with the part that was computed meanwhile
    assert len(saved) <= 3


def test_no_parts_are_no_work(saved: list[int]) -> None:
    LocalEngine()(iter(()), Recorder(), saved.append)  # type: ignore[arg-type]

    assert not saved
