"""Transformers' Trainer, as it is, on every head: what counts, what is trained, and what a resumed training is."""

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments

from clients.training import HEADS, TAGGERS, losses, make_examples, make_model, make_tokenizer, make_trainer, weights
from support.fresh_python import FRESH_PYTHON


each_head = pytest.mark.parametrize("head", HEADS)
each_tagger = pytest.mark.parametrize("head", TAGGERS)


@pytest.fixture(scope="module", autouse=True)
def quick_collections() -> Iterator[None]:
    """Leave what the imports made out of the garbage collections, of which each training makes one."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@each_tagger
@pytest.mark.parametrize("batch_size", [1, 7])
def test_boundaries_and_padding_do_not_count(head: str, batch_size: int, tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, head, per_device_eval_batch_size=batch_size)
    model, total, count = trainer.model.eval(), 0.0, 0
    for example in trainer.eval_dataset:
        words = {name: torch.tensor([row]) for name, row in example.items()}
        # without the boundaries' labels there are as many as words
        real = int(words["input_ids"].shape[1]) - 2
        with torch.no_grad():
            total += float(model(**words).loss) * real
        count += real

    predictions = trainer.predict(trainer.eval_dataset)

    assert (predictions.label_ids != -100).sum() == count
    if batch_size == 7:
        assert predictions.metrics["test_loss"] == pytest.approx(total / count, abs=1e-5)


def test_evaluates_where_only_some_layers_are_kept(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, "linear")
    expected = trainer.evaluate()["eval_loss"]

    try:
        trainer.model.config.output_hidden_states = [0, -1]
    except StrictDataclassError:
        pytest.skip("this version of Transformers takes no list of layers in a configuration")

    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected)


@each_head
def test_accumulated_gradients_equal_the_large_batch(head: str, tmp_path: Path) -> None:
    large = make_trainer(tmp_path, head, per_device_train_batch_size=8, max_steps=3, optim="sgd")
    small = make_trainer(
        tmp_path, head, per_device_train_batch_size=2, gradient_accumulation_steps=4, max_steps=3, optim="sgd"
    )

    large.train()
    small.train()

    assert losses(small) == pytest.approx(losses(large), abs=1e-5)
    torch.testing.assert_close(weights(small), weights(large), rtol=0, atol=1e-5)


def test_accumulation_counts_the_penalty_of_the_mix_once(tmp_path: Path) -> None:
    fields = {"mix_regularization": 0.5, "mix_at": "both"}
    sizes = [{"per_device_train_batch_size": 8}, {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}]
    large, small = (make_trainer(tmp_path, "bilstm-crf", fields=fields, max_steps=3, **size) for size in sizes)
    for trainer in (large, small):
        with torch.no_grad():
            trainer.model.output_mix.weights.copy_(torch.tensor([0.5, -1.0, 0.3]))
        trainer.train()

    assert losses(small) == pytest.approx(losses(large), abs=1e-5)
    torch.testing.assert_close(weights(small), weights(large), rtol=0, atol=1e-5)


@each_head
def test_the_frozen_language_model_keeps_its_bits(head: str, tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, head)
    before = weights(trainer)

    trainer.train()

    changed = {name for name, part in weights(trainer).items() if not torch.equal(part, before[name])}
    frozen = {name for name in before if name.startswith("elmo.") and "scalar_mix" not in name}
    # the data of this head has no pairs
    unused = {"classifier.pair_weight"} if head == "mean" else set()
    assert changed == before.keys() - frozen - unused


def test_an_unfrozen_language_model_is_trained(tmp_path: Path) -> None:
    # the second is the name in older versions of Transformers
    names = [
        name for name in ("activation_checkpointing", "gradient_checkpointing") if hasattr(TrainingArguments, name)
    ]
    trainer = make_trainer(tmp_path, "linear", fields={"freeze_bilm": False}, **{names[0]: True})
    before = weights(trainer)

    trainer.train()

    assert not any(torch.equal(part, before[name]) for name, part in weights(trainer).items())


@each_head
def test_trains_in_bfloat16(head: str, tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, head, bf16=True, max_steps=20)

    trainer.train()

    assert all(part.isfinite().all() and part.dtype == torch.float32 for part in weights(trainer).values())
    assert np.mean(losses(trainer)[-4:]) < np.mean(losses(trainer)[:4])


@pytest.mark.parametrize("head", ["bilstm-crf", "mean"])
def test_evaluates_by_steps_stops_early_and_keeps_the_best(head: str, tmp_path: Path) -> None:
    trainer = make_trainer(
        tmp_path,
        head,
        max_steps=30,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        # the loss falls, so that the first evaluation is the best and the next two are not
        greater_is_better=True,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )

    trainer.train()

    first, *later = losses(trainer, "eval_loss")
    assert len(later) == 2
    assert max(later) < first
    best = type(trainer.model).from_pretrained(tmp_path / "checkpoint-2")
    assert all(torch.equal(part, best.state_dict()[name]) for name, part in weights(trainer).items())


@each_head
def test_a_resumed_training_ends_with_the_same_weights(head: str, tmp_path: Path) -> None:
    options = {"fields": {"classifier_dropout": 0.3}, "save_strategy": "steps", "save_steps": 3}
    whole = make_trainer(tmp_path / "whole", head, **options)
    whole.train()
    shutil.copytree(tmp_path / "whole" / "checkpoint-3", tmp_path / "cut" / "checkpoint-3")

    resumed = make_trainer(tmp_path / "cut", head, **options)
    resumed.train(resume_from_checkpoint=True)

    assert resumed.state.global_step == 6
    assert all(torch.equal(part, weights(whole)[name]) for name, part in weights(resumed).items())


class WidthsOfBatches(Trainer):
    """Keeps how long the sentences of each batch are."""

    def compute_loss(self, model: torch.nn.Module, inputs: dict, *args: object, **kwargs: object) -> torch.Tensor:
        """Note the lengths, and go on."""
        self.__dict__.setdefault("lengths", []).append(inputs["attention_mask"].sum(dim=1))
        return super().compute_loss(model, inputs, *args, **kwargs)


@pytest.mark.parametrize("head", ["linear", "esim"])
def test_sentences_are_grouped_by_length(head: str, tmp_path: Path) -> None:
    padding = {}
    for strategy in ("random", "group_by_length"):
        trainer = make_trainer(
            tmp_path,
            head,
            cls=WidthsOfBatches,
            examples=make_examples(head, 48),
            train_sampling_strategy=strategy,
            max_steps=12,
        )
        trainer.train()
        padding[strategy] = sum(int((part.max() - part).sum()) for part in trainer.lengths)

    assert padding["group_by_length"] < 0.5 * padding["random"]


def test_every_run_of_a_search_begins_with_a_new_model(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, "bilstm-crf")
    search = Trainer(
        args=trainer.args,
        model_init=lambda: make_model("bilstm-crf"),
        train_dataset=trainer.train_dataset,
        data_collator=trainer.data_collator,
    )

    runs = []
    for _ in range(2):
        search.train()
        runs.append(weights(search))

    assert all(torch.equal(part, runs[1][name]) for name, part in runs[0].items())


@pytest.mark.slow  # and needs optuna
def test_searches_hyper_parameters(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    trainer = make_trainer(tmp_path, "bilstm-crf", eval_strategy="steps", eval_steps=6)
    search = Trainer(
        args=trainer.args,
        model_init=lambda trial: make_model(
            "bilstm-crf", head_hidden_size=trial.suggest_int("width", 3, 6) if trial else 3
        ),
        train_dataset=trainer.train_dataset,
        eval_dataset=trainer.eval_dataset,
        data_collator=trainer.data_collator,
    )

    best = search.hyperparameter_search(
        backend="optuna",
        direction="minimize",
        n_trials=3,
        hp_space=lambda trial: {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True)},
    )

    assert 1e-4 <= best.hyperparameters["learning_rate"] <= 1e-1
    assert 3 <= best.hyperparameters["width"] <= 6


class Memory(TrainerCallback):
    """Reads the resident memory of the process after each step."""

    def __init__(self) -> None:
        self.bytes: list[int] = []

    def on_step_end(self, *_: object, **__: object) -> None:
        """Read it."""
        gc.collect()
        self.bytes.append(psutil.Process().memory_info().rss)


@pytest.mark.slow
@each_head
@pytest.mark.parametrize("freeze", [True, False], ids=["frozen", "trained"])
def test_memory_does_not_grow_in_200_steps_of_changing_shapes(head: str, freeze: bool, tmp_path: Path) -> None:
    memory = Memory()
    # the longest batches come in the first steps, too: what is measured is growth, not the first use of a size
    examples = make_examples(head, 60)
    trainer = make_trainer(
        tmp_path, head, examples=examples, max_steps=250, fields={"freeze_bilm": freeze}, callbacks=[memory]
    )

    trainer.train()

    assert np.mean(memory.bytes[-10:]) < 1.02 * np.mean(memory.bytes[40:50])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's, about what it does not compile
def test_trains_compiled(tmp_path: Path) -> None:
    plain = make_trainer(tmp_path, "linear", max_steps=3)
    # without the compiler's own code, which takes a minute and changes no graph
    compiled = make_trainer(tmp_path, "linear", max_steps=3, torch_compile=True, torch_compile_backend="aot_eager")

    plain.train()
    compiled.train()

    assert losses(compiled) == pytest.approx(losses(plain), abs=1e-4)


# each process trains, and writes what it has in the end
DISTRIBUTED = """
import os, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from clients.training import make_examples, make_trainer, weights
folder = Path(sys.argv[1])
for head, place, count in [("linear", "input", 7), ("bilstm-crf", "both", 7), ("bcn", "output", 7),
                           ("esim", "both", 7), ("bilstm-crf", "both", 8)]:
    trainer = make_trainer(folder, head, fields={"mix_at": place}, examples=make_examples(head, count), optim="sgd",
                           per_device_train_batch_size=2, max_steps=-1, num_train_epochs=2, ddp_backend="gloo")
    trainer.train()
    assert trainer.args.world_size == 2 and trainer.state.global_step == 4, trainer.state
    # every example is evaluated once
    metrics = trainer.evaluate()
    assert len(trainer.predict(trainer.eval_dataset).predictions) == 7
    torch.save({**weights(trainer), "loss": torch.tensor(metrics["eval_loss"])},
               folder / f"{head}-{count}-{os.environ['RANK']}.pt")
"""


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DISTRIBUTED)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [*command, str(tmp_path / "train.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": tests},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr

    for name in ("linear-7", "bilstm-crf-7", "bcn-7", "esim-7", "bilstm-crf-8"):
        first, second = (torch.load(tmp_path / f"{name}-{rank}.pt") for rank in range(2))
        assert all(torch.equal(part, second[key]) for key, part in first.items()), name
    alone = make_trainer(
        tmp_path,
        "bilstm-crf",
        fields={"mix_at": "both"},
        examples=make_examples("bilstm-crf", 8),
        optim="sgd",
        max_steps=4,
    )
    alone.train()
    first = torch.load(tmp_path / "bilstm-crf-8-0.pt")
    torch.testing.assert_close({name: first[name] for name in weights(alone)}, weights(alone), rtol=0, atol=1e-5)


# what a process without the package runs on each folder
PREDICT = """
import json, sys
sys.modules["elmo_hf"] = sys.modules["elmo_hf_conversion"] = None
import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer
torch.set_num_threads(1)
found = {}
for head, folder, kind, batch in json.load(open(sys.argv[1])):
    auto = AutoModelForTokenClassification if kind == "tagger" else AutoModelForSequenceClassification
    model = auto.from_pretrained(folder, trust_remote_code=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    with torch.no_grad():
        found[head] = model(**tokenizer.pad(batch, return_tensors="pt")).logits.tolist()
print(json.dumps(found))
"""


def test_a_trained_checkpoint_predicts_the_same_without_the_package(tmp_path: Path) -> None:
    jobs, expected = [], {}
    for head in HEADS:
        trainer = make_trainer(tmp_path / head, head, max_steps=2)
        trainer.train()
        trainer.save_model()
        words = [["the", "river", "Ann"], *([["Bob", "left"]] if head == "esim" else [])]
        tokenizer = make_tokenizer()
        batch = {name: [part] for name, part in tokenizer(*words, is_split_into_words=True).items()}
        if head == "alternating-lstm":
            batch["token_type_ids"] = [[0, 0, 1, 0, 0]]
        with torch.no_grad():
            expected[head] = trainer.model.eval()(**tokenizer.pad(batch, return_tensors="pt")).logits.tolist()
        jobs.append([head, str(tmp_path / head), "tagger" if head in TAGGERS else "other", batch])
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))

    done = subprocess.run(
        [*FRESH_PYTHON, "-c", PREDICT, str(tmp_path / "jobs.json")],
        env={**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() == expected.keys()
    for head, logits in expected.items():
        np.testing.assert_allclose(found[head], logits, rtol=0, atol=1e-6)
