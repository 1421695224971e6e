"""Train the language model with Transformers' Trainer: on whole sentences, or on the original's continuous streams."""

import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, IterableDataset
from transformers import (
    PreTrainedTokenizerBase,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, PredictionOutput, TrainOutput
from transformers.utils import SAFE_WEIGHTS_NAME

from elmo_hf.errors import ElmoError
from elmo_hf.model.modeling_elmo import ElmoForPreTraining
from elmo_hf.model.outputs_elmo import LayerState

from .batching import NOTHING, Batch, BucketedSentences, Example, SentenceCollator, StreamBatches, words_of
from .checkpoints import check_shapes, find_damage, last_checkpoint


# in the checkpoints of a training on streams: where each stream stands
STATE_FILE = "recurrent_state.safetensors"

logger = logging.getLogger(__name__)

# what a line of the log shows, under which name and how
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


class LanguageModelTrainer(Trainer):
    """A Trainer for `ElmoForPreTraining`.

    It batches sentences of like length, or carries the recurrent state from window to window of continuous streams
    with the gradient cut between them, as bilm-tf does. It evaluates with the softmax over all words, each prediction
    weighing the same, and a loss that is no number stops it.

    Args:
        model: The language model.
        args: As for any Trainer; the batch sizes are not used.
        tokenizer: The tokenizer of the model.
        train: Sentences, as lists of words or rows of a data set with `words` or `text`; or `StreamBatches`.
        heldout: Sentences to evaluate on; or several sets of them by name, each with metrics of its own.
        words_per_batch: Words of a batch of sentences at most, padding and boundaries included.
        max_words: A longer sentence is cut in pieces.
        predictions: Of each direction in an epoch of streams, which are the words and a boundary of each sentence, if
            they have been counted: to say which epoch it is.
        **kwargs: As for any Trainer.

    Raises:
        ElmoError: If several processes are to read continuous streams, or were started but do not train together.
    """

    def __init__(
        self,
        model: ElmoForPreTraining,
        args: TrainingArguments,
        *,
        tokenizer: PreTrainedTokenizerBase,
        train: Iterable[Example] | StreamBatches,
        heldout: Iterable[Example] | Mapping[str, Iterable[Example]] = (),
        words_per_batch: int = 2048,
        max_words: int = 400,
        predictions: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.on_streams = isinstance(train, StreamBatches)
        # what a launcher such as torchrun tells its processes; Trainer passes over it where there is no accelerator
        started = int(os.environ.get("WORLD_SIZE", 1))
        if started != args.world_size:
            raise ElmoError(
                f"WORLD_SIZE is {started}, but TrainingArguments make it {args.world_size}, so each process would "
                "train a model of its own: give use_cpu=True where there is no accelerator."
            )
        if self.on_streams and args.world_size > 1:
            raise ElmoError("Several processes cannot read continuous streams: train on sentences, or in one process.")
        self.words_per_batch = words_per_batch
        self.predictions = predictions
        self.collator = SentenceCollator(tokenizer, max_words)
        self.recurrent_state: tuple[LayerState, ...] | None = None
        # batches differ in sentences: there is no number that a last one could be filled up to
        accelerator_config: Any = args.accelerator_config
        accelerator_config.even_batches = False
        if args.ddp_find_unused_parameters is None:
            # every batch uses all that is trained
            args.ddp_find_unused_parameters = False
        # lists serve where the signature says data set
        sentences: Any = train if self.on_streams else _sentences("train", train)
        sets = heldout if isinstance(heldout, Mapping) else {"": heldout}
        evaluated: Any = {name: _sentences("heldout", part) for name, part in sets.items()}
        if args.eval_strategy != "no" and not (evaluated and all(evaluated.values())):
            raise ElmoError("`heldout` has no words to evaluate on: check the text, or set eval_strategy to 'no'.")
        if not isinstance(heldout, Mapping):
            evaluated = evaluated[""]
        super().__init__(
            model=model,
            args=args,
            train_dataset=sentences,
            eval_dataset=evaluated or None,
            processing_class=tokenizer,
            **kwargs,
        )
        self.language_model = model
        self.tell_epoch = _TellEpoch()
        self.add_callback(self.tell_epoch)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batch the sentences by length; streams are batches already."""
        if self.on_streams:
            streams: Any = self.train_dataset
            self.tell_epoch.passes = _Passes(streams, self.predictions)
            return self.accelerator.prepare(DataLoader(self.tell_epoch.passes, batch_size=None))
        loader, self.tell_epoch.sampler = self._sentence_loader(self.train_dataset, self.args.world_size)
        return loader

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """Batch sentences to evaluate on by length.

        Args:
            eval_dataset: Sentences, or the name of a set of `heldout`; by default `heldout`.

        Raises:
            ElmoError: If there are none.
        """
        wanted: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(wanted, str) and isinstance(self.eval_dataset, Mapping):
            wanted = self.eval_dataset.get(wanted, wanted)
        sentences = [] if wanted is None else _sentences("eval_dataset", wanted)
        if not sentences:
            raise ElmoError("There are no words to evaluate on: give `heldout`, or sentences.")
        return self._sentence_loader(sentences)[0]

    def _sentence_loader(self, sentences: Any, processes: int = 1) -> tuple[DataLoader[Any], BucketedSentences]:
        sampler = BucketedSentences(
            [len(words) for words in sentences],
            words_per_batch=self.words_per_batch,
            seed=self.args.seed,
            processes=processes,
        )
        loader: DataLoader[Any] = DataLoader(
            sentences,
            batch_sampler=sampler,
            collate_fn=self.collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
        )
        return self.accelerator.prepare(loader), sampler

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """Compute the loss; a window of streams starts from the state in which the one before it ended."""
        if self.on_streams and model.training:
            inputs = {**inputs, "state": self.recurrent_state, "use_cache": True}
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        if self.on_streams and model.training:
            self.recurrent_state = tuple((hidden.detach(), cell.detach()) for hidden, cell in outputs["state"])
        return (loss, outputs) if return_outputs else loss

    def train(self, resume_from_checkpoint: str | Path | bool | None = None, *args: Any, **kwargs: Any) -> TrainOutput:
        """Train from the start, or go on from a checkpoint.

        Args:
            resume_from_checkpoint: Its folder; or True for the last one in `output_dir` that is whole.
            *args: As for any Trainer.
            **kwargs: As for any Trainer.

        Returns:
            As any Trainer.

        Raises:
            ElmoError: If there is no checkpoint that is whole; if it is of another model or of other streams; if one
                cannot be written; or if the loss is no number.
        """
        self.recurrent_state = None
        checkpoint = None
        if resume_from_checkpoint:
            given = None if resume_from_checkpoint is True else Path(resume_from_checkpoint)
            checkpoint = str(self._check_checkpoint(given))
        return super().train(checkpoint, *args, **kwargs)

    def _check_checkpoint(self, checkpoint: Path | None) -> Path:
        if checkpoint is None:
            checkpoint = last_checkpoint(str(self.args.output_dir))
        if checkpoint is None:
            raise ElmoError(f"{self.args.output_dir} has no checkpoint that is whole: train from the start.")
        damage = find_damage(checkpoint)
        if damage is not None:
            raise ElmoError(f"{checkpoint} cannot be resumed, its {damage}: name another checkpoint.")
        weights, streams = checkpoint / SAFE_WEIGHTS_NAME, checkpoint / STATE_FILE
        if weights.is_file():
            shapes = {name: part.shape for name, part in self.language_model.state_dict().items()}
            check_shapes(weights, shapes, "give the same model and vocabulary")
        if isinstance(self.train_dataset, StreamBatches):
            if not streams.is_file():
                raise ElmoError(f"{checkpoint} has no {STATE_FILE}: it is of sentences, or not whole; name another.")
            config, rows = self.language_model.config, self.train_dataset.batch_size
            widths = {"hidden": config.hidden_size // 2, "cell": config.intermediate_size}
            shapes = {
                f"{layer}.{name}": (rows, 2, width)
                for layer in range(config.num_hidden_layers)
                for name, width in widths.items()
            }
            check_shapes(streams, shapes, "give as many streams")
        return checkpoint

    def total_steps(self) -> int:
        """Count the steps of the training, those before it was resumed included."""
        if self.args.max_steps > 0:
            return self.args.max_steps
        _, sampler = self._sentence_loader(self.train_dataset, self.args.world_size)
        return math.ceil(self.args.num_train_epochs * _steps_of_epoch(sampler, self.args))

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Take no step where a training is resumed that has taken all: Trainer would take one more."""
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*args, **kwargs)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Take one step, and stop where the loss is no number."""
        loss = super().training_step(*args, **kwargs)
        if not torch.isfinite(loss):
            raise ElmoError(
                f"The loss is {loss.item()} after {self.state.global_step} steps: lower the learning rate, or clip "
                "the gradient lower. Checkpoints that are saved already can be used."
            )
        return loss

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,  # noqa: ARG002 - Trainer passes it
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Measure the losses and perplexities, each sentence by itself, with the softmax over all words.

        Args:
            eval_dataset: Sentences, or sets of them by name; by default those given as `heldout`.
            ignore_keys: Not used.
            metric_key_prefix: What the names begin with; the name of a set comes after it.

        Returns:
            `loss`, the mean of `forward_loss` and `backward_loss` in nats per prediction, and `perplexity`,
            `forward_perplexity` and `backward_perplexity`.

        Raises:
            ElmoError: If there are no sentences.
        """
        sets: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(sets, Mapping):
            metrics = {}
            for name, sentences in sets.items():
                metrics.update(self.evaluate(sentences, metric_key_prefix=f"{metric_key_prefix}_{name}"))
            return metrics
        model = self.language_model.eval()
        # the sums of both directions, and how many predictions each made
        sums = torch.zeros(3, dtype=torch.float64)
        for batch in self.get_eval_dataloader(eval_dataset):
            with torch.no_grad(), self.autocast_smart_context_manager():
                outputs = model(**self._prepare_inputs(batch))
            for place, losses in enumerate((outputs.forward_losses, outputs.backward_losses)):
                sums[place] += losses.double().sum().cpu()
            sums[2] += int((batch["labels"][:, 0] != NOTHING).sum())
        sums = self.accelerator.reduce(sums.to(self.args.device)).cpu()
        # of both directions, and of either
        losses = torch.stack([sums[:2].mean(), sums[0], sums[1]]) / sums[2]
        metrics = {}
        # torch's exponential is infinite where Python's is an error
        for name, loss, perplexity in zip(
            ("", "forward_", "backward_"), losses.tolist(), losses.exp().tolist(), strict=True
        ):
            metrics[f"{metric_key_prefix}_{name}loss"] = loss
            metrics[f"{metric_key_prefix}_{name}perplexity"] = perplexity
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def predict(self, *_: Any, **__: Any) -> PredictionOutput:
        """Refuse: the scores of all words at each place are too many to be kept.

        Raises:
            ElmoError: Always.
        """
        raise ElmoError(
            "The scores of all words are too many to be kept: measure sentences by `evaluate`, or each of them by "
            "`elmo_hf.perplexity.score`."
        )

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        folder = Path(str(self.args.output_dir), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        try:
            super()._save_checkpoint(*args, **kwargs)
        # the three ways in which a full disk is told
        except (OSError, RuntimeError, SafetensorError) as error:
            reason = " ".join(str(error).split())
            raise ElmoError(
                f"{folder} cannot be written ({reason}): make room, and resume from the checkpoint before."
            ) from error

    def _save_rng_state(self, output_dir: str) -> None:
        """Save the random numbers of each process and the streams' state, before what tells that all is there."""
        super()._save_rng_state(output_dir)
        if self.recurrent_state is not None:
            parts = {
                f"{layer}.{name}": part.contiguous()
                for layer, pair in enumerate(self.recurrent_state)
                for name, part in zip(("hidden", "cell"), pair, strict=True)
            }
            save_file(parts, Path(output_dir, STATE_FILE))
        self.accelerator.wait_for_everyone()

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Restore the random numbers where Trainer does, right before it goes on, and with them the streams' state."""
        super()._load_rng_state(checkpoint)
        if checkpoint is not None and self.on_streams:
            parts = load_file(Path(checkpoint, STATE_FILE), device=str(self.args.device))
            self.recurrent_state = tuple(
                (parts[f"{layer}.hidden"], parts[f"{layer}.cell"]) for layer in range(len(parts) // 2)
            )


class _Passes(IterableDataset[Batch]):
    """Streams that begin again at their end: one epoch for Trainer, so that a training is resumed in any pass."""

    def __init__(self, streams: StreamBatches, predictions: int | None) -> None:
        self.streams = streams
        # without the padding at the end
        self.windows = None if predictions is None else predictions / (streams.batch_size * streams.unroll_steps)
        # that are over
        self.number = 0

    def __iter__(self) -> Iterator[Batch]:
        self.number = 0
        while True:
            self.streams.set_epoch(self.number)
            batch = None
            for batch in self.streams:
                yield batch
            if batch is None:
                raise ElmoError("No sentence has words: check the text.")
            self.number += 1


class _TellEpoch(TrainerCallback):
    """Tell the sampler which epoch begins, as Trainer does not reach it where Accelerate wraps it more than once.

    Of streams, tell Trainer what the epoch is.
    """

    # of the loader that was made last
    sampler: BucketedSentences | None = None
    passes: _Passes | None = None

    def epoch_at(self, step: int, args: TrainingArguments) -> float | None:
        """Tell the epoch after so many steps as Trainer counts it; None if nobody has counted the words."""
        if self.sampler is not None:
            batches = math.ceil(len(self.sampler) / args.world_size)
            epochs, steps = divmod(step, _steps_of_epoch(self.sampler, args))
            return epochs + min(1, steps * args.gradient_accumulation_steps / batches)
        if self.passes is not None and self.passes.windows:
            return step * args.gradient_accumulation_steps / self.passes.windows
        return None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        """Warn where a checkpoint was made with other batches, which the training cannot go on with."""
        epoch = self.epoch_at(state.global_step, args)
        if not (state.global_step and state.epoch and epoch and state.is_world_process_zero):
            return
        if not math.isclose(epoch, state.epoch, rel_tol=1e-6):
            logger.warning(
                "The text, or what makes its batches, is not that of the checkpoint: %d steps were %.4g epochs, and "
                "are %.4g now. The training goes on, but not as it would have without a break.",
                state.global_step,
                state.epoch,
                epoch,
            )

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        """Count epochs by steps, which are whole numbers, also after a training is resumed."""
        if self.sampler is not None:
            self.sampler.set_epoch(state.global_step // _steps_of_epoch(self.sampler, args))

    def on_step_end(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        """Count the words of streams, or, where nobody has counted those of an epoch, the epochs that are over."""
        if self.passes is not None:
            epoch = self.epoch_at(state.global_step, args)
            state.epoch = float(self.passes.number) if epoch is None else epoch


def _sentences(name: str, examples: Iterable[Example]) -> list[list[str]]:
    """Find the words of sentences, and leave out those of none.

    Args:
        name: Of the argument, for errors.
        examples: The sentences.

    Raises:
        ElmoError: If it is one text, or several sets.
    """
    if isinstance(examples, (str, Mapping)):
        what = "one text" if isinstance(examples, str) else f"a dict of {', '.join(map(repr, examples))}"
        raise ElmoError(f"`{name}` is {what}: give a list of sentences, or a data set.")
    return [words for words in map(words_of, examples) if words]


def _steps_of_epoch(sampler: BucketedSentences, args: TrainingArguments) -> int:
    return math.ceil(len(sampler) / args.world_size / args.gradient_accumulation_steps)


class ReadableLog(ProgressCallback):
    """A progress bar, and lines of the log in words, in place of Trainer's `ProgressCallback`."""

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002 - Trainer passes it
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002 - Trainer passes it
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Show what is known of a step."""
        parts = [f"{name} {logs[key]:{form}}" for key, (name, form) in SHOWN.items() if logs and key in logs]
        if parts and state.is_world_process_zero and self.training_bar is not None:
            place = f"step {state.global_step:,} of {state.max_steps:,}, epoch {state.epoch or 0:.2f}"
            self.training_bar.write(f"{place}: {', '.join(parts)}")


__all__ = ["LanguageModelTrainer", "ReadableLog"]
