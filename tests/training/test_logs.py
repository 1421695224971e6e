"""The log of a fine-tuning has one line an epoch."""

from pathlib import Path

import pytest
from transformers import TrainerState, TrainingArguments

from elmo_hf.training.logs import EpochLog


@pytest.mark.parametrize("evaluated", [True, False])
def test_an_epoch_has_one_line(evaluated: bool, tmp_path: Path) -> None:
    arguments = TrainingArguments(
        str(tmp_path),
        num_train_epochs=20,
        eval_strategy="epoch" if evaluated else "no",
        metric_for_best_model="f1",
        use_cpu=True,
    )
    log, state = EpochLog(lambda value: f"dev F1 {value:.3f}"), TrainerState(epoch=3.0)
    logged = [{"loss": 0.28123, "epoch": 3.0}, {"eval_loss": 1.0, "eval_f1": 0.395}, {"train_runtime": 3.0}]

    lines = [log.describe(arguments, state, values) for values in logged]

    if evaluated:
        assert lines == ["", "epoch 3 of 20: loss 0.281, dev F1 0.395", ""]
    else:
        assert lines == ["epoch 3 of 20: loss 0.281", "", ""]
