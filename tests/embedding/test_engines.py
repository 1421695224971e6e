"""`embedding.engines`: a part depends on its sentences and the options alone, and the manifest says what decides."""

from pathlib import Path

import pytest
import torch

from elmo_hf import ElmoError
from elmo_hf.embedding.engines import CorpusOptions, PartEmbedder, pool_words
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
