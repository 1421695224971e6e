"""`LanguageModelTrainer`: the loss falls, a resumed training is the same training, and perplexity counts words."""

import json
import logging
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import TrainingArguments, set_seed

from elmo_hf import ElmoError, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.data.stored_text import store_sentences
from elmo_hf.data.vocabulary import build_vocabulary
from elmo_hf.training.batching import StreamBatches
from elmo_hf.training.logs import ReadableLog, replace_log
from elmo_hf.training.pretraining import STATE_FILE, LanguageModelTrainer, StreamTrainer
from support.tiny_models import tiny_config


SENTENCES = [
    line.split()
    for line in (
        "the king is here .",
        "the queen is there , and the king is not .",
        "no",
        "who is the king ?",
        "the old queen and the young king are here .",
        "here !",
        "is the queen old ?",
        "the young queen is not here , but there .",
    )
    * 4
]


def make_trainer(
    folder: Path,
    *,
    streams: bool = False,
    steps: int = 6,
    negatives: int = 0,
    predictions: int | None = None,
    data: dict[str, object] | None = None,
    **arguments: object,
) -> LanguageModelTrainer:
    """A new tiny model and its trainer, the same each time."""
    set_seed(3)
    tokenizer = ElmoTokenizer(vocab=build_vocabulary(SENTENCES), max_characters_per_token=20)
    config = tiny_config(
        vocab_size=len(tokenizer), hidden_dropout_prob=0.1, num_negative_samples=negatives, cell_clip=3.0
    )
    defaults = {
        "max_steps": steps,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "report_to": "none",
        "save_steps": 4,
        "logging_steps": 1,
        "use_cpu": True,
        "disable_tqdm": True,
        "seed": 3,
        "dataloader_pin_memory": False,
    }
    kind = partial(StreamTrainer, predictions=predictions) if streams else LanguageModelTrainer
    return kind(
        ElmoForPreTraining(config),
        TrainingArguments(str(folder), **{**defaults, **arguments}),
        tokenizer=tokenizer,
        **{
            "train": StreamBatches(SENTENCES, tokenizer, batch_size=3, unroll_steps=5) if streams else SENTENCES,
            "heldout": SENTENCES[:8],
            "words_per_batch": 60,
            **(data or {}),
        },
    )


def weights(trainer: LanguageModelTrainer) -> dict[str, torch.Tensor]:
    return {name: part.clone() for name, part in trainer.language_model.state_dict().items()}


@pytest.mark.parametrize("streams", [False, True], ids=["sentences", "streams"])
def test_the_loss_falls(streams: bool, tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, streams=streams, steps=40, save_strategy="no", learning_rate=3e-2)
    before = trainer.evaluate()["eval_loss"]

    trainer.train()

    assert trainer.evaluate()["eval_loss"] < before - 0.3


@pytest.mark.parametrize("negatives", [0, 5], ids=["full", "sampled"])
@pytest.mark.parametrize("streams", [False, True], ids=["sentences", "streams"])
def test_a_resumed_training_ends_with_the_same_weights(streams: bool, negatives: int, tmp_path: Path) -> None:
    whole = make_trainer(tmp_path / "whole", streams=streams, negatives=negatives)
    whole.train()
    make_trainer(tmp_path / "cut", streams=streams, negatives=negatives, steps=4).train()

    resumed = make_trainer(tmp_path / "cut", streams=streams, negatives=negatives)
    resumed.train(resume_from_checkpoint=True)

    # in the middle of an epoch
    assert (tmp_path / "cut" / "checkpoint-4").is_dir()
    for name, part in weights(whole).items():
        assert torch.equal(part, weights(resumed)[name]), name


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stored_text_makes_the_same_batches(workers: int, tmp_path: Path) -> None:
    stored = store_sentences(tmp_path / "text", SENTENCES)
    held = make_trainer(tmp_path / "held")
    mapped = make_trainer(tmp_path / "mapped", data={"train": stored}, dataloader_num_workers=workers)

    assert mapped.train_dataset is stored
    assert mapped.record.facts == held.record.facts
    for epoch in (0, 3):
        loaders = [trainer.get_train_dataloader() for trainer in (held, mapped)]
        for trainer in (held, mapped):
            trainer.epochs.sampler.set_epoch(epoch)
        for left, right in zip(*loaders, strict=True):
            assert left.keys() == right.keys()
            assert all(torch.equal(part, right[name]) for name, part in left.items())


def test_a_checkpoint_of_a_text_in_memory_is_resumed_from_a_stored_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored = {"train": store_sentences(tmp_path / "text", SENTENCES)}
    whole = make_trainer(tmp_path / "whole", data=stored)
    whole.train()
    make_trainer(tmp_path / "cut", steps=4).train()

    resumed = make_trainer(tmp_path / "cut", data=stored)
    resumed.train(resume_from_checkpoint=True)

    assert not caplog.messages
    for name, part in weights(whole).items():
        assert torch.equal(part, weights(resumed)[name]), name


def test_streams_are_resumed_in_any_pass(tmp_path: Path) -> None:
    # 15 windows each
    whole = make_trainer(tmp_path / "whole", streams=True, steps=40, save_steps=36)
    whole.train()
    make_trainer(tmp_path / "cut", streams=True, steps=36, save_steps=36).train()

    resumed = make_trainer(tmp_path / "cut", streams=True, steps=40, save_steps=36)
    resumed.train(resume_from_checkpoint=True)

    assert resumed.epochs.passes.number == 2
    for name, part in weights(whole).items():
        assert torch.equal(part, weights(resumed)[name]), name


@pytest.mark.parametrize(
    ("streams", "options"),
    [(True, {}), (False, {}), (False, {"steps": -1, "num_train_epochs": 2})],
    ids=["streams", "sentences", "epochs"],
)
def test_a_training_that_has_ended_takes_no_step_more(streams: bool, options: dict[str, int], tmp_path: Path) -> None:
    whole = make_trainer(tmp_path, streams=streams, **options)
    whole.train()

    again = make_trainer(tmp_path, streams=streams, **options)
    again.train(resume_from_checkpoint=True)

    assert again.state.global_step == whole.state.global_step == again.total_steps()
    for name, part in weights(whole).items():
        assert torch.equal(part, weights(again)[name]), name


def test_the_epoch_of_streams_counts_their_words(tmp_path: Path) -> None:
    predictions = sum(len(words) + 1 for words in SENTENCES)
    options = {"streams": True, "save_strategy": "no", "gradient_accumulation_steps": 2}
    counted = make_trainer(tmp_path, **options, steps=math.ceil(2 * predictions / 30), predictions=predictions)
    unknown = make_trainer(tmp_path, **options, steps=12)

    counted.train()
    unknown.train()

    assert counted.state.epoch == pytest.approx(2, abs=30 / predictions)
    assert unknown.state.epoch == 1


def test_text_without_words_is_no_endless_stream(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, streams=True)
    trainer.train_dataset.sentences = [[]]

    with pytest.raises(ElmoError, match="No sentence has words"):
        trainer.train()


def test_each_kind_of_data_has_its_trainer(tmp_path: Path) -> None:
    sentences, streams = make_trainer(tmp_path), make_trainer(tmp_path, streams=True)
    given = {"tokenizer": sentences.processing_class}

    with pytest.raises(ElmoError, match="`train` is StreamBatches: train on streams with StreamTrainer"):
        LanguageModelTrainer(sentences.language_model, sentences.args, train=streams.train_dataset, **given)
    with pytest.raises(ElmoError, match="train on sentences with LanguageModelTrainer"):
        StreamTrainer(sentences.language_model, sentences.args, train=SENTENCES, **given)


def test_processes_that_do_not_train_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = make_trainer(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")

    with pytest.raises(ElmoError, match=r"^WORLD_SIZE is 2, but TrainingArguments make it 1, .*give use_cpu=True"):
        LanguageModelTrainer(
            alone.language_model, alone.args, tokenizer=alone.processing_class, train=SENTENCES, heldout=SENTENCES
        )


def test_the_log_is_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = make_trainer(tmp_path, steps=4, eval_strategy="steps", eval_steps=2, save_strategy="no")
    replace_log(trainer, ReadableLog())

    trainer.train()

    shown = capsys.readouterr()
    # no terminal, no bars
    assert shown.err == ""
    lines = shown.out.splitlines()
    assert re.fullmatch(
        r"step 1 of 4, epoch 0\.\d\d: loss \d\.\d{4}, learning rate 0\.01, gradient \d+(\.\d+)?", lines[0]
    )
    assert re.fullmatch(
        r"step 2 of 4, epoch 0\.\d\d: held-out perplexity [\d,.]+, forward [\d,.]+, backward [\d,.]+", lines[2]
    )
    assert lines[-1].startswith("step 4 of 4, epoch ")


def test_streams_pass_their_state_on_and_save_it(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, streams=True, steps=4)

    trainer.train()

    saved = load_file(tmp_path / "checkpoint-4" / STATE_FILE)
    assert {name: tuple(part.shape) for name, part in saved.items()} == {
        f"{layer}.{name}": (3, 2, width) for layer in range(2) for name, width in (("hidden", 8), ("cell", 12))
    }
    assert all(part.abs().sum() > 0 for part in saved.values())


def test_perplexity_weighs_predictions_not_batches(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    model, tokenizer = trainer.language_model.eval(), trainer.processing_class

    metrics = trainer.evaluate()

    totals, predictions = torch.zeros(2), 0
    for words in SENTENCES[:8]:
        batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            output = model(**batch, labels=batch["input_ids"])
        totals += torch.stack([output.forward_losses.sum(), output.backward_losses.sum()])
        predictions += len(words) + 1
    forward, backward = (totals / predictions).tolist()
    assert metrics["eval_forward_loss"] == pytest.approx(forward, rel=1e-5)
    assert metrics["eval_backward_perplexity"] == pytest.approx(math.exp(backward), rel=1e-5)
    assert metrics["eval_perplexity"] == pytest.approx(math.exp((forward + backward) / 2), rel=1e-5)


def test_evaluation_takes_all_words_where_training_samples(tmp_path: Path) -> None:
    full, sampled = make_trainer(tmp_path), make_trainer(tmp_path, negatives=5)

    assert sampled.evaluate()["eval_loss"] == pytest.approx(full.evaluate()["eval_loss"], rel=1e-6)


def test_accumulated_batches_equal_one_large_batch(tmp_path: Path) -> None:
    large = make_trainer(tmp_path / "large", steps=1, save_strategy="no", optim="sgd")
    large.words_per_batch = 10_000
    small = make_trainer(tmp_path / "small", steps=1, save_strategy="no", optim="sgd", gradient_accumulation_steps=100)
    for trainer in (large, small):
        trainer.language_model.train().dropout.p = 0
        for layer in trainer.language_model.elmo.layers:
            layer.dropout.p = 0
        trainer.train()

    for name, part in weights(large).items():
        torch.testing.assert_close(part, weights(small)[name], rtol=0, atol=1e-6, msg=name)


def test_a_loss_that_is_no_number_stops_the_training(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, learning_rate=1e30)

    with pytest.raises(ElmoError, match=r"loss is (nan|inf) after [1-5] steps?: lower the learning rate"):
        trainer.train()


def test_both_losses_are_logged(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, steps=4, eval_strategy="steps", eval_steps=2)

    trainer.train()

    state = json.loads((tmp_path / "checkpoint-4" / "trainer_state.json").read_text())
    names = {name for entry in state["log_history"] for name in entry}
    assert {"loss", "eval_forward_loss", "eval_backward_loss", "eval_perplexity"} <= names


def test_the_sampler_of_the_last_loader_is_told_the_epoch(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, steps=-1, num_train_epochs=2, save_strategy="no")
    trainer.get_train_dataloader()
    told = len(trainer.callback_handler.callbacks)

    trainer.train()

    # two epochs, the first of which is number 0
    assert trainer.epochs.sampler.epoch == 1
    assert len(trainer.callback_handler.callbacks) == told


def test_several_sets_are_evaluated_apart(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, data={"heldout": {"short": [["no"]], "long": iter(SENTENCES[:8])}})

    metrics = trainer.evaluate()

    alone = make_trainer(tmp_path).evaluate(SENTENCES[:8])
    assert metrics["eval_long_perplexity"] == pytest.approx(alone["eval_perplexity"], rel=1e-6)
    assert metrics["eval_short_loss"] == trainer.evaluate("short")["eval_loss"]
    assert trainer.evaluate({"a": [["no"]]})["eval_a_loss"] == metrics["eval_short_loss"]


def test_several_sets_are_evaluated_in_a_training(tmp_path: Path) -> None:
    data = {"heldout": {"short": [["no"]], "long": SENTENCES[:8]}}
    trainer = make_trainer(tmp_path, data=data, steps=2, eval_strategy="steps", eval_steps=2, save_strategy="no")

    trainer.train()

    names = {name for entry in trainer.state.log_history for name in entry}
    assert {"eval_short_perplexity", "eval_long_perplexity"} <= names


def test_other_text_is_evaluated_in_any_form(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    expected = trainer.evaluate()

    assert trainer.evaluate(iter(SENTENCES[:8])) == expected
    assert trainer.evaluate([{"text": " ".join(words)} for words in SENTENCES[:8]]) == expected


def test_a_huge_loss_has_an_infinite_perplexity(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    trainer.language_model.softmax.weight.data.mul_(1e6)

    metrics = trainer.evaluate()

    assert metrics["eval_perplexity"] == metrics["eval_forward_perplexity"] == math.inf
    assert math.isfinite(metrics["eval_loss"])


@pytest.mark.parametrize(
    ("data", "message", "arguments"),
    [
        ({"train": "the king"}, r"`train` is one text: give a list of sentences, or a data set\.", {}),
        ({"train": {"a": [["no"]]}}, r"`train` is a dict of 'a': give a list", {}),
        ({"heldout": "the king"}, "`heldout` is one text", {}),
        ({"heldout": {"a": "the king"}}, "`heldout` is one text", {}),
        ({"heldout": [[]]}, "`heldout` has no words to evaluate on: check", {"eval_strategy": "epoch"}),
        ({"heldout": {"a": [["no"]], "b": []}}, "`heldout` has no words", {"eval_strategy": "epoch"}),
    ],
    ids=range(6),
)
def test_text_that_cannot_be_meant_is_refused(
    data: dict[str, object], message: str, arguments: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ElmoError, match=f"^{message}"):
        make_trainer(tmp_path, data=data, **arguments)


def test_what_cannot_be_measured_is_one_line(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, data={"heldout": ()})

    for nothing in (None, [], [[]]):
        with pytest.raises(ElmoError, match=r"^There are no words to evaluate on: give `heldout`, or sentences\.$"):
            trainer.evaluate(nothing)
    with pytest.raises(ElmoError, match=r"^`eval_dataset` is one text: give a list"):
        trainer.evaluate("the king")
    with pytest.raises(
        ElmoError, match=r"measure sentences with `evaluate`, or each of them with `elmo_hf\.training\.perplexity"
    ):
        trainer.predict(SENTENCES)


@pytest.mark.parametrize("streams", [False, True], ids=["sentences", "streams"])
def test_goes_on_from_the_last_whole_checkpoint(
    streams: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = make_trainer(tmp_path, streams=streams, steps=12)
    whole.train()
    (tmp_path / "checkpoint-12" / "trainer_state.json").unlink()
    weights_file = tmp_path / "checkpoint-8" / "model.safetensors"
    weights_file.write_bytes(weights_file.read_bytes()[:-9])

    resumed = make_trainer(tmp_path, streams=streams, steps=12)
    resumed.train(resume_from_checkpoint=True)

    assert [message.partition(" is passed over: ")[2] for message in caplog.messages] == [
        "its trainer_state.json is missing.",
        "its model.safetensors is damaged.",
    ]
    for name, part in weights(whole).items():
        assert torch.equal(part, weights(resumed)[name]), name


def test_a_save_that_stops_anywhere_leaves_no_whole_checkpoint_without_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo_hf.training.pretraining.save_file", stop)
    with pytest.raises(KeyboardInterrupt):
        make_trainer(tmp_path, streams=True, steps=4).train()

    with pytest.raises(ElmoError, match="has no checkpoint that is whole: train from the start"):
        make_trainer(tmp_path, streams=True).train(resume_from_checkpoint=True)


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("PytorchStreamWriter failed writing file"),
        SafetensorError("I/O error: No space left"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_full_disk_is_one_line(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    trainer = make_trainer(tmp_path, steps=4)
    monkeypatch.setattr(trainer, "_save_optimizer_and_scheduler", fail)

    with pytest.raises(ElmoError, match=r"^[^\n]*checkpoint-4 cannot be written \([^\n]*: make room, [^\n]*$"):
        trainer.train()


def damage(checkpoint: Path) -> None:
    (checkpoint / "optimizer.pt").write_bytes(b"PK")


def forget_streams(checkpoint: Path) -> None:
    (checkpoint / STATE_FILE).unlink()


@pytest.mark.parametrize(
    ("change", "batch_size", "message"),
    [
        (damage, 3, r"cannot be resumed, its optimizer\.pt is damaged: name another checkpoint\."),
        (forget_streams, 3, r"has no recurrent_state\.safetensors: it is of sentences, or not whole; name another\."),
        (lambda _: None, 4, r"0\.cell is \(3, 2, 12\) there and \(4, 2, 12\) here\): give as many streams\."),
    ],
    ids=["damaged", "no streams", "other streams"],
)
def test_a_checkpoint_that_cannot_be_gone_on_with_is_refused(
    change: Callable[[Path], None], batch_size: int, message: str, tmp_path: Path
) -> None:
    make_trainer(tmp_path, streams=True, steps=4).train()
    change(tmp_path / "checkpoint-4")
    trainer = make_trainer(tmp_path, streams=True)
    trainer.train_dataset.batch_size = batch_size

    with pytest.raises(ElmoError, match=rf"^[^\n]*checkpoint-4[^\n]*{message}$"):
        trainer.train(resume_from_checkpoint=tmp_path / "checkpoint-4")


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    make_trainer(tmp_path, steps=4).train()
    trainer = make_trainer(tmp_path)
    trainer.language_model.resize_token_embeddings(50)

    with pytest.raises(ElmoError, match=r"\(softmax\.\w+ is \(22,.* there and \(50,.* here\): give the same model"):
        trainer.train(resume_from_checkpoint=True)


def test_a_second_training_begins_streams_anew(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, streams=True, steps=2, save_strategy="no")
    trainer.train()
    trainer.train_dataset.batch_size = 2

    trainer.train()

    assert trainer.recurrent_state[0][0].shape == (2, 2, 8)


@pytest.mark.parametrize("accumulated", [1, 3])
@pytest.mark.parametrize("streams", [False, True], ids=["sentences", "streams"])
def test_other_batches_than_those_of_the_checkpoint_are_said(
    streams: bool, accumulated: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"streams": streams, "gradient_accumulation_steps": accumulated}
    make_trainer(tmp_path, **options, steps=4, predictions=200).train()

    with caplog.at_level(logging.WARNING):
        make_trainer(tmp_path, **options, predictions=200).train(resume_from_checkpoint=True)
        assert not caplog.messages
        data = {} if streams else {"words_per_batch": 30}
        other = make_trainer(tmp_path, **options, predictions=300, data=data)
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))

    (message,) = caplog.messages
    assert message.startswith("The text, or what makes its batches, is not that of the checkpoint: 4 steps were ")
