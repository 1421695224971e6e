"""Train the language model with Transformers' Trainer: on whole sentences, or on the original's continuous streams."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from .batching import NOTHING, BucketedSentences, Example, SentenceCollator, StreamBatches, words_of
from .errors import ElmoError
from .modeling_elmo import ElmoForPreTraining
from .outputs_elmo import LayerState


# in the checkpoints of a training on streams: where each stream stands
STATE_FILE = "recurrent_state.safetensors"


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
        heldout: Sentences to evaluate on.
        words_per_batch: Words of a batch of sentences at most, padding and boundaries included.
        max_words: A longer sentence is cut in pieces.
        **kwargs: As for any Trainer.

    Raises:
        ElmoError: If several processes are to read continuous streams.
    """

    def __init__(
        self,
        model: ElmoForPreTraining,
        args: TrainingArguments,
        *,
        tokenizer: PreTrainedTokenizerBase,
        train: Iterable[Example] | StreamBatches,
        heldout: Iterable[Example] = (),
        words_per_batch: int = 2048,
        max_words: int = 400,
        **kwargs: Any,
    ) -> None:
        self.on_streams = isinstance(train, StreamBatches)
        if self.on_streams and args.world_size > 1:
            raise ElmoError("Several processes cannot read continuous streams: train on sentences, or in one process.")
        self.words_per_batch = words_per_batch
        self.collator = SentenceCollator(tokenizer, max_words)
        self.recurrent_state: tuple[LayerState, ...] | None = None
        # batches differ in sentences: there is no number that a last one could be filled up to
        accelerator_config: Any = args.accelerator_config
        accelerator_config.even_batches = False
        # lists serve where the signature says data set
        sentences: Any = train if self.on_streams else [words for words in map(words_of, train) if words]
        evaluated: Any = [words for words in map(words_of, heldout) if words] or None
        super().__init__(
            model=model,
            args=args,
            train_dataset=sentences,
            eval_dataset=evaluated,
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
            return self.accelerator.prepare(DataLoader(streams, batch_size=None))
        loader, self.tell_epoch.sampler = self._sentence_loader(self.train_dataset, self.args.world_size)
        return loader

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """Batch sentences to evaluate on by length."""
        return self._sentence_loader(self.eval_dataset if eval_dataset is None else eval_dataset)[0]

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
            eval_dataset: Sentences; by default those given as `heldout`.
            ignore_keys: Not used.
            metric_key_prefix: What the names begin with.

        Returns:
            `loss`, the mean of `forward_loss` and `backward_loss` in nats per prediction, and `perplexity`,
            `forward_perplexity` and `backward_perplexity`.
        """
        model = self.language_model.eval()
        # the sums of both directions, and how many predictions each made
        sums = torch.zeros(3, dtype=torch.float64)
        for batch in self.get_eval_dataloader(eval_dataset):
            with torch.no_grad(), self.autocast_smart_context_manager():
                outputs = model(**self._prepare_inputs(batch))
            for place, losses in enumerate((outputs.forward_losses, outputs.backward_losses)):
                sums[place] += losses.double().sum().cpu()
            sums[2] += int((batch["labels"][:, 0] != NOTHING).sum())
        forward, backward, predictions = self.accelerator.reduce(sums.to(self.args.device)).tolist()
        losses = {"": (forward + backward) / 2, "forward_": forward, "backward_": backward}
        metrics = {}
        for name, total in losses.items():
            metrics[f"{metric_key_prefix}_{name}loss"] = total / predictions
            metrics[f"{metric_key_prefix}_{name}perplexity"] = math.exp(total / predictions)
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        super()._save_checkpoint(*args, **kwargs)
        if self.recurrent_state is not None:
            parts = {
                f"{layer}.{name}": part.contiguous()
                for layer, pair in enumerate(self.recurrent_state)
                for name, part in zip(("hidden", "cell"), pair, strict=True)
            }
            folder = Path(str(self.args.output_dir), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
            save_file(parts, folder / STATE_FILE)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Restore the random numbers where Trainer does, right before it goes on, and with them the streams' state."""
        super()._load_rng_state(checkpoint)
        file = None if checkpoint is None else Path(checkpoint, STATE_FILE)
        if file is not None and file.is_file():
            parts = load_file(file, device=str(self.args.device))
            self.recurrent_state = tuple(
                (parts[f"{layer}.hidden"], parts[f"{layer}.cell"]) for layer in range(len(parts) // 2)
            )


class _TellEpoch(TrainerCallback):
    """Tell the sampler which epoch begins: Trainer does not reach it where Accelerate wraps it more than once."""

    # of the loader that was made last; streams have none
    sampler: BucketedSentences | None = None

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        """Count epochs by steps, which are whole numbers, also after a training is resumed."""
        if self.sampler is None:
            return
        steps = math.ceil(len(self.sampler) / args.world_size / args.gradient_accumulation_steps)
        self.sampler.set_epoch(state.global_step // steps)


__all__ = ["LanguageModelTrainer"]
