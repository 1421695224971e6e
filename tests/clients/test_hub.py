"""`push_to_hub` of models, tokenizers and Trainer, as they are, carries the code, and no token."""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModelForTokenClassification, AutoTokenizer, DataCollatorForTokenClassification

import elmo_hf
from clients.training import make_examples, make_model, make_tokenizer, make_trainer
from elmo_hf.hub.sharing import push
from elmo_hf.training.finetuning import OwnCardTrainer, train, write_card
from elmo_hf.training.finetuning_options import FineTuningOptions, add_options, parse_options
from support.hub_server import WRITER, Hub, hub_for_this_process


# huggingface_hub says to its library of connections what that has another name for
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

NAME = "ann/tagger"
CODE = {path.name for path in Path(elmo_hf.__file__).parent.glob("*_elmo.py")}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_for_this_process(monkeypatch) as server:
        yield server


def assert_loads_with_its_code(hub: Hub) -> None:
    files = hub.files(NAME)
    assert files.keys() >= CODE | {"tokenizer.json", "tokenizer_config.json"}
    for name in ("config.json", "tokenizer_config.json"):
        assert "elmo." in str(json.loads(files[name])["auto_map"])
    assert WRITER.encode() not in b"".join(files.values())
    words = AutoTokenizer.from_pretrained(NAME)(["Ann"], is_split_into_words=True, return_tensors="pt")
    assert AutoModelForTokenClassification.from_pretrained(NAME)(**words).logits.shape == (1, 3, 3)


def test_a_model_and_its_tokenizer(hub: Hub, tmp_path: Path) -> None:
    model, tokenizer = make_model("linear"), make_tokenizer()

    model.push_to_hub(NAME, max_shard_size="2KB", tags=["elmo"])
    tokenizer.push_to_hub(NAME)

    assert_loads_with_its_code(hub)
    assert "model.safetensors.index.json" in hub.files(NAME)
    card = ModelCard(hub.files(NAME)["README.md"].decode())
    assert (card.data.library_name, card.data.tags) == ("transformers", ["elmo"])
    # and the same model by a folder, whose card is that of the Hub
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    pushed = push(tmp_path / "model", NAME, license="mit")
    assert "model.safetensors.index.json" in pushed.deleted
    assert ModelCard(hub.files(NAME)["README.md"].decode()).data.license == "mit"
    with torch.no_grad():
        assert_loads_with_its_code(hub)


def test_a_trainer(hub: Hub, tmp_path: Path) -> None:
    trainer = make_trainer(
        tmp_path / "out", "linear", max_steps=1, save_strategy="steps", save_steps=1, hub_model_id=NAME
    )
    trainer.train()

    trainer.push_to_hub(language="en", license="mit", dataset="names", tasks="token-classification")

    assert_loads_with_its_code(hub)
    assert not [name for name in hub.files(NAME) if "checkpoint" in name or name.endswith(".pt")]
    card = ModelCard(hub.files(NAME)["README.md"].decode())
    assert (card.data.license, card.data.library_name) == ("mit", "transformers")
    assert "generated_from_trainer" in card.data.tags
    # `elmo-hf push` leaves the pickled arguments, and completes the card
    upload = push(tmp_path / "out", "ann/again", license="mit")
    assert hub.files("ann/again").keys() & {"training_args.bin", "checkpoint-1"} == set()
    assert re.search(r"kept, with pipeline_tag added to its metadata$", upload.notes[0])


def test_a_trainer_leaves_the_card_of_a_script_alone(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    own = "---\nlicense: mit\ntags: [elmo]\n---\n# Of a script\n"
    for card, kept in ((own, True), (None, False), ("---\ntags: [generated_from_trainer]\n---\nold", False)):
        path = tmp_path / "out" / "README.md"
        path.unlink(missing_ok=True)
        if card is not None:
            path.write_text(card, encoding="utf-8")
        trainer = make_trainer(tmp_path / "out", "linear", cls=OwnCardTrainer, hub_model_id=NAME)

        trainer.push_to_hub()

        assert (hub.files(NAME)["README.md"].decode() == own) == kept


def test_a_fine_tuned_model_takes_its_card_along(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = make_model("linear"), make_tokenizer()
    parser = argparse.ArgumentParser()
    add_options(parser, type(model), formats="", usual_head="", learning_rate=1e-2)
    parser.add_argument("--max-words", type=int, default=400)
    arguments = ["train.conll", "--epochs", "1", "--output", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["finetune_ner.py", *arguments])
    collator = DataCollatorForTokenClassification(tokenizer)
    trainer, _ = train(
        parse_options(parser, FineTuningOptions), model, tokenizer, {"train": make_examples("linear")}, collator, "f1"
    )
    write_card(
        tmp_path / "out",
        model,
        task="token-classification",
        base="elmo-tiny-en",
        data="names",
        scores={"test": {"f1": 0.5}},
        command=sys.argv,
    )
    trainer.args.hub_model_id = NAME

    trainer.push_to_hub()

    assert_loads_with_its_code(hub)
    assert hub.files(NAME)["README.md"] == (tmp_path / "out" / "README.md").read_bytes()
    assert "# ELMo for token classification, fine-tuned on names\n" in hub.files(NAME)["README.md"].decode()
