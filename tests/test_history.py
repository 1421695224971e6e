"""`elmo_hf.history`: the record of a training in words."""

import math

import pytest

from elmo_hf import ElmoConfig, ElmoError
from elmo_hf.history import describe_training, names_folders, readable_count, readable_time, trainings


LANGUAGE_MODEL = {
    "task": "language-modeling",
    "text": ["news.txt.gz"],
    "sentences": 71_904,
    "words": 1_400_000,
    "steps": 3567,
    "epochs": 3.5,
    "seconds": 3300,
    "heldout": [
        {
            "text": ["heldout.txt"],
            "sentences": 2000,
            "words": 38_454,
            "perplexity": 104.89,
            "forward_perplexity": 105.06,
            "backward_perplexity": 104.71,
        }
    ],
}


def test_a_training_in_words() -> None:
    tagger = {"task": "token-classification", "base_model": "ann/elmo", "dataset": "ann/names", "sentences": 9}
    tagger |= {"steps": 20, "best_step": 10}

    assert describe_training(LANGUAGE_MODEL) == [
        ("training", "language model: news.txt.gz, 71,904 sentences, 1.4 million words"),
        ("  length", "3,567 steps, 3.5 epochs, 55 minutes"),
        (
            "  held out",
            "perplexity 104.89 (forward 105.06, backward 104.71); heldout.txt, 2,000 sentences, 38,454 words",
        ),
    ]
    assert describe_training(tagger) == [
        ("training", "token-classification on ann/elmo: ann/names, 9 sentences"),
        ("  length", "20 steps, the weights of step 10"),
    ]
    assert describe_training({"task": "x", "inputs": "pairs", "sentences": 3}) == [("training", "x: 3 pairs")]
    assert describe_training({"task": "x"}) == [("training", "x: text not recorded")]


def test_numbers_that_people_read() -> None:
    counts = (1, 999_999, 1_404_000, 999_999_999, 1_234_567_890, 1_500_000_000_000)
    assert [readable_count(count, "word") for count in counts] == [
        "1 word", "999,999 words", "1.4 million words", "1000 million words", "1.23 billion words",
        "1500 billion words",
    ]  # fmt: skip
    assert [readable_time(seconds) for seconds in (1, 59, 60, 3599, 3600, 200_000, 9_000_000)] == [
        "1 second", "59 seconds", "1 minute", "60 minutes", "1 hour", "55.6 hours", "2,500 hours",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"task": "x", "steps": "9"},
        {"task": "x", "text": 5},
        {"task": "x", "heldout": [{}]},
        {"task": "x", "heldout": [5]},
        {"task": None},
        {"task": 5},
        {"task": "x\n# y"},
        {"task": "x", "settings": 5},
        {"task": "x", "settings": [1]},
        {"task": "x", "versions": "x"},
        {"task": "x", "frequent_words": 5},
        {"task": "x", "base_model": 5},
        {"task": "x", "text": "abc"},
        {"task": "x", "words": -5},
        {"task": "x", "words": 1.5},
        {"task": "x", "words": True},
        {"task": "x", "words": 10**400},
        {"task": "x", "seconds": 10**400},
        {"task": "x", "epochs": float("inf")},
        {
            "task": "x",
            "heldout": [dict.fromkeys(("perplexity", "forward_perplexity", "backward_perplexity"), math.nan)],
        },
    ],
    ids=str,
)
def test_a_damaged_record_is_named(record: dict[str, object]) -> None:
    with pytest.raises(ElmoError, match=r"^The training_history in config\.json is damaged"):
        trainings(ElmoConfig(training_history=[record]))


def test_an_error_names_the_field() -> None:
    with pytest.raises(ElmoError, match=r"is damaged \(words is -5, not a count\): correct it, or take it out\.$"):
        trainings(ElmoConfig(training_history=[{"task": "x"}, {"task": "x", "words": -5}]))


def test_records_show_no_folder() -> None:
    record = {"task": "x", "base_model": "/home/me/m", "config": None, "frequent_words": None}
    record |= {"text": ["/home/me/a.txt", "data/b.txt", r"C:\c.txt", "d.txt"], "versions": {"torch": "2.13.0"}}
    record |= {"settings": {"optimizer": "adamw", "negatives": 4, "parts": ["~/x/y", "ann/names"], "file": "./z/w"}}
    heldout = {"dataset": "/home/me/set", "perplexity": 2, "forward_perplexity": 2.0, "backward_perplexity": 2.0}

    (shown,) = trainings(ElmoConfig(training_history=[record | {"heldout": [heldout]}]))

    assert shown == {
        "task": "x",
        "base_model": "m",
        "text": ["a.txt", "b.txt", "c.txt", "d.txt"],
        "versions": {"torch": "2.13.0"},
        "settings": {"optimizer": "adamw", "negatives": 4, "parts": ["y", "ann/names"], "file": "w"},
        "heldout": [{"text": ["set"], "perplexity": 2, "forward_perplexity": 2.0, "backward_perplexity": 2.0}],
    }
    assert names_folders(ElmoConfig(training_history=[record]))
    assert trainings(ElmoConfig(training_history=[LANGUAGE_MODEL])) == [LANGUAGE_MODEL]
    assert not names_folders(ElmoConfig(training_history=[LANGUAGE_MODEL]))
