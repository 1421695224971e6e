"""`elmo_hf.history`: the record of a training in words."""

import pytest

from elmo_hf import ElmoConfig, ElmoError
from elmo_hf.history import describe_training, readable_count, readable_time, trainings


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
    ],
    ids=str,
)
def test_a_damaged_record_is_named(record: dict[str, object]) -> None:
    with pytest.raises(ElmoError, match=r"^The training_history in config\.json is damaged"):
        trainings(ElmoConfig(training_history=[record]))
