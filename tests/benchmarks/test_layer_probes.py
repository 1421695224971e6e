"""The linear probe: scores, the most frequent tag, and what a linear classifier can learn and cannot."""

from types import ModuleType

import pytest
import torch


@pytest.fixture(autouse=True)
def small_batches(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few hundred words be enough."""
    monkeypatch.setattr(script, "BATCH_SIZE", 20)
    monkeypatch.setattr(script, "LEARNING_RATE", 0.1)


def test_scores_count_all_words_and_those_that_training_did_not_see(script: ModuleType) -> None:
    test = script.Words(["a", "dog", "cat", "ran"], ["DT", "NN", "NN", "VB"])

    assert script.score(["DT", "NN", "VB", "NN"], test, {"a", "dog", "ran"}) == (50, 0)
    assert script.score(["DT", "NN", "NN", "NN"], test, {"a", "dog", "ran"}) == (75, 100)


def test_an_unseen_word_has_the_tag_that_is_most_frequent_of_all(script: ModuleType) -> None:
    train = script.Words(["run", "run", "run", "dog", "cat", "a"], ["VB", "VB", "NN", "NN", "NN", "DT"])

    assert script.most_frequent_tags(train, script.Words(["run", "a", "bird"], [])) == ["VB", "DT", "NN"]


def test_the_probe_learns_what_is_linear_at_any_scale(script: ModuleType) -> None:
    torch.manual_seed(0)
    vectors = {name: torch.randn(400, 4) for name in ("train", "dev", "test")}
    tags = {name: (part[:, 0] > part[:, 1]).long() for name, part in vectors.items()}
    moved = {name: 1000 * part + 50 for name, part in vectors.items()}

    found = script.probe(moved, tags, 2, seed=1)

    assert (found == tags["test"]).float().mean() > 0.9


def test_the_probe_takes_the_epoch_that_is_best_on_the_development_set(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    vectors = {name: torch.randn(400, 4) for name in ("train", "dev", "test")}
    tags = {name: (part[:, 0] > 0).long() for name, part in vectors.items()}
    # the development set says the opposite, so that the first epoch is better than all after it
    tags["dev"] = 1 - tags["dev"]
    found = script.probe(vectors, tags, 2, seed=1)
    monkeypatch.setattr(script, "EPOCHS", 1)

    assert torch.equal(found, script.probe(vectors, tags, 2, seed=1))


def test_vectors_are_standardized_by_the_training_set(script: ModuleType) -> None:
    vectors = {"train": torch.tensor([[1.0, 5.0], [3.0, 5.0]]), "test": torch.tensor([[2.0, 6.0]])}

    train, test = script.standardize(vectors).values()

    torch.testing.assert_close(train, torch.tensor([[-(0.5**0.5), 0.0], [0.5**0.5, 0.0]]))
    assert test[0, 0] == 0
