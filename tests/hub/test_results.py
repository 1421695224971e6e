"""The results of a card are those of the model, by names that people know."""

import json
from pathlib import Path

from elmo_hf import ElmoConfig
from elmo_hf.hub.results import data_sets, metric_name, recorded_metrics, result_blocks, training_blocks


def test_counters_of_a_training_are_no_results(tmp_path: Path) -> None:
    metrics = {
        "test_f1": 0.51239,
        "test_loss": 0.3,
        "test_runtime": 3.0,
        "test_samples_per_second": 4.0,
        "test_model_preparation_time": 0.1,
        "test_num_input_tokens_seen": 9,
        "total_flos": 1e9,
        "global_step": 4,
        "steps": 4,
        "epoch": 2.0,
        "test_note": "x",
        "test_nan": float("nan"),
        "test_flag": True,
        "test_huge": 10**400,
    }
    (tmp_path / "test_results.json").write_text(json.dumps(metrics), encoding="utf-8")
    (tmp_path / "train_results.json").write_text('{"train_loss": 1.0}', encoding="utf-8")
    (tmp_path / "all_results.json").write_text(json.dumps(metrics), encoding="utf-8")

    assert recorded_metrics(tmp_path) == {"test": {"f1": 0.51239, "loss": 0.3}}


def test_metrics_have_names() -> None:
    assert [metric_name(key) for key in ("f1", "pearson", "PER_f1", "my_own")] == [
        "F1", "Pearson correlation", "F1 of PER", "my own",
    ]  # fmt: skip


def test_trainings_and_perplexity_are_in_tables() -> None:
    heldout = {"text": ["held.txt"], "words": 38_454, "perplexity": 104.888}
    heldout |= {"forward_perplexity": 105.06, "backward_perplexity": 104.71}
    first = {"task": "language-modeling", "text": ["news.txt"], "words": 1_400_000, "steps": 9, "heldout": [heldout]}
    first |= {
        "settings": {"bf16": False, "seed": 0, "freeze": True, "words_per_batch": 1536, "learning_rate": 0.003},
        "versions": {"torch": "2.13.0"},
    }
    second = {"task": "token-classification", "base_model": "my-elmo", "dataset": "ann/names"}

    config = ElmoConfig(training_history=[first])
    assert training_blocks(config) == [
        "### Language model",
        "| | |\n|---|---|\n| text | news.txt, 1.4 million words |\n| length | 9 steps |\n"
        "| settings | learning rate 0.003, words per batch 1536, seed 0, freeze |\n| versions | torch 2.13.0 |",
    ]
    (results,) = result_blocks(config, {"eval": {"loss": 4.65}})
    assert "| held.txt, 38,454 words | Perplexity | 104.89 |\n" in results
    assert "Loss" not in results
    config = ElmoConfig(training_history=[first, second])
    assert training_blocks(config)[2:] == [
        "### Token classification",
        "| | |\n|---|---|\n| base model | my-elmo |\n| data | ann/names |",
    ]
    (results,) = result_blocks(config, {"dev": {"f1": 0.5}})
    assert results.endswith("| development | F1 | 0.5000 |")
    assert result_blocks(config, {}) == []
    assert data_sets(config) == ["ann/names"]
    assert training_blocks(ElmoConfig()) == data_sets(ElmoConfig()) == []
