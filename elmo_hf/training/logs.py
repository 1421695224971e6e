"""Readable logs of a training, in place of Trainer's: bars on a terminal only, and lines that say what a number is."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from tqdm.auto import tqdm
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerControl, TrainerState, TrainingArguments


# what a line of the log shows: the name of a value, and its format
SHOWN = {
    "loss": ("loss", ".4f"),
    "train_loss": ("mean loss", ".4f"),
    "eval_perplexity": ("held-out perplexity", ",.2f"),
    "eval_forward_perplexity": ("forward", ",.2f"),
    "eval_backward_perplexity": ("backward", ",.2f"),
    "learning_rate": ("learning rate", ".3g"),
    "grad_norm": ("gradient", ".3g"),
    "train_tokens_per_second": ("words/s", ",.0f"),
    "train_runtime": ("seconds", ",.0f"),
}


class ReadableLog(ProgressCallback):
    """A progress bar and a readable log of a language model's training, in place of Trainer's `ProgressCallback`."""

    def on_train_begin(
        self,
        args: TrainingArguments,  # noqa: ARG002 - Trainer passes it
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002 - Trainer passes it
        **_: Any,
    ) -> None:
        """Show a bar if the standard error is a terminal."""
        if state.is_world_process_zero:
            self.training_bar = tqdm(total=state.max_steps, dynamic_ncols=True, disable=None)
        self.current_step = 0

    def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
        """Advance the bar of an evaluation if the standard error is a terminal."""
        if sys.stderr.isatty():
            super().on_prediction_step(*args, **kwargs)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002 - Trainer passes it
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Print the values that a step has logged."""
        line = self.describe(args, state, logs or {})
        if line and state.is_world_process_zero and self.training_bar is not None:
            self.training_bar.write(line)
            # a file that the output goes to shows the line at once
            sys.stdout.flush()

    def describe(
        self,
        args: TrainingArguments,  # noqa: ARG002 - `EpochLog` needs it
        state: TrainerState,
        logs: Mapping[str, Any],
    ) -> str:
        """Return the line for logged values; `""` for none."""
        parts = [f"{name} {logs[key]:{form}}" for key, (name, form) in SHOWN.items() if key in logs]
        place = f"step {state.global_step:,} of {state.max_steps:,}, epoch {state.epoch or 0:.2f}"
        return f"{place}: {', '.join(parts)}" if parts else ""


class EpochLog(ReadableLog):
    """A progress bar, and one line an epoch: its loss and, if there is a development set, the score on it.

    Args:
        show: Writes the metric by which the best epoch is chosen, such as `dev F1 0.395`.
    """

    def __init__(self, show: Callable[[float], str]) -> None:
        super().__init__()
        self.show = show
        self.loss: float | None = None

    def describe(self, args: TrainingArguments, state: TrainerState, logs: Mapping[str, Any]) -> str:
        """Return the line of an epoch when all of it is known; `""` before."""
        # Trainer logs the loss of an epoch before it evaluates
        self.loss = logs.get("loss", self.loss)
        parts = [] if self.loss is None else [f"loss {self.loss:.3g}"]
        if args.eval_strategy != "no":
            best = f"eval_{args.metric_for_best_model}"
            if best not in logs:
                return ""
            parts.append(self.show(logs[best]))
        elif "loss" not in logs:
            return ""
        return f"epoch {round(state.epoch or 0, 2):g} of {args.num_train_epochs:g}: {', '.join(parts)}"


def replace_log(trainer: Trainer, log: ReadableLog) -> None:
    """Let a Trainer write a log in place of its own."""
    for own in (ProgressCallback, PrinterCallback):
        trainer.remove_callback(own)
    trainer.add_callback(log)


__all__ = ["EpochLog", "ReadableLog", "replace_log"]
