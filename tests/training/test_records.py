"""`TrainingRecord`: what a model was trained on is in its configuration, without the folders of this machine."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainingArguments

from elmo_hf import ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from elmo_hf.training.pretraining import LanguageModelTrainer
from elmo_hf.training.records import count_rows, describe_source, frequent_words, public_model_name, public_names
from support.tiny_models import tiny_model


SENTENCES = [["the", "king"], ["the", "queen", "is", "here"], ["no"]] * 4


def make_trainer(folder: Path, model: ElmoForPreTraining | None = None, **arguments: Any) -> LanguageModelTrainer:
    tokenizer = ElmoTokenizer(["<S>", "</S>", "<UNK>", "the", "king", "queen"], max_characters_per_token=20)
    defaults = {
        "max_steps": 4,
        "save_steps": 2,
        "lr_scheduler_type": "constant",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
    }
    return LanguageModelTrainer(
        model or tiny_model(ElmoForPreTraining, vocab_size=tokenizer.vocab_size, num_negative_samples=0),
        TrainingArguments(str(folder), **{**defaults, **arguments}),
        tokenizer=tokenizer,
        train=SENTENCES,
        heldout=SENTENCES[:3],
        words_per_batch=20,
        source=describe_source(["/home/ann/secret/news.txt"]),
        heldout_source=describe_source(["/home/ann/secret/heldout.txt"]),
    )


def history_of(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))["training_history"]


def without_time(records: Any) -> Any:
    return [{name: value for name, value in record.items() if name != "seconds"} for record in records]


def test_the_record_is_in_the_model_and_in_every_copy(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path / "training")
    trainer.train()
    metrics = trainer.evaluate()
    trainer.save_model(str(tmp_path / "model"))

    (record,) = history_of(tmp_path / "model")
    assert record["task"] == "language-modeling"
    assert (record["text"], record["sentences"], record["words"]) == (["news.txt"], 12, 28)
    assert (record["steps"], record["epochs"]) == (4, trainer.state.epoch)
    assert record["settings"]["optimizer"] == "adamw_torch_fused"
    assert record["settings"]["words_per_batch"] == 20
    assert record["settings"]["vocabulary"] == 6
    (heldout,) = record["heldout"]
    assert (heldout["text"], heldout["sentences"], heldout["words"]) == (["heldout.txt"], 3, 7)
    assert heldout["perplexity"] == round(metrics["eval_perplexity"], 4)
    assert "secret" not in (tmp_path / "model" / "config.json").read_text(encoding="utf-8")
    # that of half of the steps, before anything was measured
    assert [(each["steps"], "heldout" in each) for each in history_of(tmp_path / "training/checkpoint-2")] == [
        (2, False)
    ]
    for cls in (ElmoModel, ElmoForTokenClassification):
        cls.from_pretrained(tmp_path / "model").save_pretrained(tmp_path / "copy")
        assert history_of(tmp_path / "copy") == [record]


def test_only_the_held_out_text_is_recorded_and_only_of_these_weights(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, save_strategy="no")

    trainer.train()
    trainer.evaluate(SENTENCES[:1])
    assert "heldout" not in trainer.language_model.config.training_history[0]
    trainer.evaluate()
    trainer.args.max_steps = 2
    trainer.train()

    assert ["heldout" in record for record in trainer.language_model.config.training_history] == [True, False]


def test_a_resumed_training_has_the_record_of_one_without_a_break(tmp_path: Path) -> None:
    whole = make_trainer(tmp_path / "whole")
    whole.train()
    whole.evaluate()
    make_trainer(tmp_path / "cut", max_steps=2).train()
    checkpoint = tmp_path / "cut" / "checkpoint-2" / "config.json"
    config = json.loads(checkpoint.read_text(encoding="utf-8"))
    config["training_history"][0]["seconds"] = 5000
    checkpoint.write_text(json.dumps(config), encoding="utf-8")

    # from a new model, and from that of the checkpoint
    for model in (None, ElmoForPreTraining.from_pretrained(tmp_path / "cut" / "checkpoint-2")):
        resumed = make_trainer(tmp_path / "cut", model)
        resumed.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-2"))
        resumed.evaluate()

        expected, actual = (trainer.language_model.config.training_history for trainer in (whole, resumed))
        assert without_time(actual) == without_time(expected)
        assert 5000 <= actual[0]["seconds"] < 5000 + 60


def test_a_training_that_goes_on_from_a_model_adds_to_its_history(tmp_path: Path) -> None:
    first = make_trainer(tmp_path / "first", save_strategy="no")
    first.train()
    first.save_model(str(tmp_path / "model"))
    before = history_of(tmp_path / "model")
    second = make_trainer(
        tmp_path / "second", ElmoForPreTraining.from_pretrained(tmp_path / "model"), save_strategy="no", max_steps=1
    )

    second.evaluate()
    assert second.language_model.config.training_history == before
    second.train()

    assert second.language_model.config.training_history[:-1] == before
    assert [record["steps"] for record in second.language_model.config.training_history] == [4, 1]


def test_no_folder_of_this_machine_is_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir()

    assert public_names([folder, "news/*.gz", "~/x/a.txt", "b/a.txt", "-", "https://u:p@host/d/x.txt?key=1"]) == [
        "private", "*.gz", "a.txt", "standard input", "x.txt",
    ]  # fmt: skip
    assert public_names(map(str, range(1025)))[-2:] == ["19", "1,005 more"]
    assert describe_source([], "ann/news", split="train") == {"dataset": "ann/news", "split": "train"}
    assert describe_source([], "imdb", config="plain") == {"dataset": "imdb", "config": "plain"}
    assert describe_source(["x/a.json"], "json", split="train") == {"text": ["a.json"]}
    assert describe_source([], str(folder), split="train") == {"text": ["private"]}
    assert describe_source([], "/data/secret/news") == {"text": ["news"]}
    assert describe_source() == {}
    assert public_model_name(folder) == "private"
    assert public_model_name("ann/elmo") == "ann/elmo"


@pytest.mark.parametrize(
    "char_vocab",
    [None, ["<bos>", "<eos>", "<oov>", "<bow>", "<eow>", "<pad>", *"abdehiknrstuoz"]],
    ids=["bytes", "dictionary"],
)
def test_frequent_words_of_a_task_where_the_model_has_no_vocabulary(char_vocab: list[str] | None) -> None:
    tokenizer = ElmoTokenizer(max_characters_per_token=20, char_vocab=char_vocab)
    texts = ["der Hund und die Katze".lower().split()] * 9 + [["der", "und", "1", "."]] * 9 + [["geheim"]]
    rows = [dict(tokenizer(words, is_split_into_words=True)) for words in texts]

    assert set(frequent_words(rows, tokenizer)) == {"der", "und"}
    counts = count_rows(rows, tokenizer)
    assert (counts["inputs"], counts["sentences"], counts["words"]) == ("sentences", 19, 9 * 5 + 9 * 4 + 1)
    assert count_rows([dict(tokenizer("a b", "c"))], tokenizer) == {"inputs": "pairs", "sentences": 1, "words": 3}
