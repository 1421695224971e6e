"""Train the language model with Transformers' Trainer, on whole sentences or on continuous streams as bilm-tf does."""

import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from huggingface_hub.repocard_data import CardData
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, IterableDataset
from transformers import (
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, PredictionOutput, TrainOutput
from transformers.utils import SAFE_WEIGHTS_NAME

from elmo_hf.data.stored_text import StoredSentences
from elmo_hf.errors import ElmoError, counted
from elmo_hf.files import naming_errors
from elmo_hf.history import LANGUAGE_MODELING
from elmo_hf.hub.cards import CARD, PLACEHOLDER, Card, is_unedited, render_card
from elmo_hf.hub.folder_card import card_sections, folder_metadata, join_sections
from elmo_hf.hub.results import recorded_metrics
from elmo_hf.hub.usage import read_model
from elmo_hf.model.modeling_elmo import ElmoForPreTraining
from elmo_hf.model.outputs_elmo import LayerState

from .batching import NOTHING, Batch, BucketedSentences, Example, SentenceCollator, StreamBatches
from .checkpoints import check_shapes, find_damage, last_checkpoint
from .records import TrainingRecord


# the recurrent state of all streams, in each checkpoint of a training on streams
STATE_FILE = "recurrent_state.safetensors"

logger = logging.getLogger(__name__)


class LanguageModelTrainer(Trainer):
    """A Trainer for `ElmoForPreTraining` that reads whole sentences, in batches of similar length.

    It evaluates with the softmax over the whole vocabulary, where each prediction has the same weight, and stops when
    the loss is NaN or infinite. `StreamTrainer` trains on continuous streams instead.

    Args:
        model: The language model.
        args: As for any Trainer; the batch sizes are not used.
        tokenizer: The tokenizer of the model.
        train: Sentences: lists of words, texts, which the tokenizer splits, or rows of a data set with `words` or
            `text`. They are held in memory, except `StoredSentences`, which stay on the disk.
        heldout: Sentences to evaluate on, or several named sets of them, each with its own metrics.
        words_per_batch: The largest number of words in a batch of sentences, padding and boundary tokens included.
        max_words: The length at which a sentence is cut into pieces.
        source: The names of the text, from `describe_source`, for the record of the training in the configuration.
        heldout_source: The same of held-out text.
        **kwargs: As for any Trainer.

    Raises:
        ElmoError: If there is nothing to evaluate on, if `train` is `StreamBatches`, or if the processes of a launcher
            do not train together.
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
        source: Mapping[str, Any] | None = None,
        heldout_source: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        # A launcher such as torchrun sets this; Trainer ignores it where there is no accelerator.
        started = int(os.environ.get("WORLD_SIZE", 1))
        if started != args.world_size:
            raise ElmoError(
                f"WORLD_SIZE is {started}, but TrainingArguments make it {args.world_size}, so each process would "
                "train a model of its own: give use_cpu=True where there is no accelerator."
            )
        self.words_per_batch = words_per_batch
        self.collator = SentenceCollator(tokenizer, max_words)
        # batches hold different numbers of sentences, so there is no number to fill the last one up to
        accelerator_config: Any = args.accelerator_config
        accelerator_config.even_batches = False
        if args.ddp_find_unused_parameters is None:
            # every batch uses all trained parameters
            args.ddp_find_unused_parameters = False
        super().__init__(
            model=model,
            args=args,
            train_dataset=self.read_training_data(train),
            eval_dataset=self._read_heldout(heldout, required=args.eval_strategy != "no"),
            processing_class=tokenizer,
            **kwargs,
        )
        self.language_model = model
        self.epochs = self.make_epoch_counter()
        self.add_callback(self.epochs)
        self.heldout_source = dict(heldout_source or {})
        self.record = TrainingRecord(self.describe_training(dict(source or {})))
        self.add_callback(self.record)

    def describe_training(self, source: dict[str, Any]) -> dict[str, Any]:
        """Return what the record of the training says of the task, the text and the batches.

        Args:
            source: The names of the text.
        """
        config = self.language_model.config
        settings = {
            **self.describe_batches(),
            "dropout": config.hidden_dropout_prob,
            "negatives": config.num_negative_samples,
            "vocabulary": config.vocab_size - 1,
        }
        return {"task": LANGUAGE_MODELING, **source, **self.count_text(), "settings": settings}

    def count_text(self) -> dict[str, int]:
        """Return the size of the text to train on."""
        return _count(self.train_dataset)

    def describe_batches(self) -> dict[str, Any]:
        """Return the settings of the batches."""
        return {"batches": "sentences", "words_per_batch": self.words_per_batch}

    def read_training_data(self, train: Any) -> Any:
        """Return the sentences to train on: lists of words, or `StoredSentences` as they are.

        Raises:
            ElmoError: If `train` is `StreamBatches`.
        """
        if isinstance(train, StreamBatches):
            raise ElmoError("`train` is StreamBatches: train on streams with StreamTrainer, or give sentences.")
        return self._sentences("train", train)

    def _read_heldout(self, heldout: Iterable[Example] | Mapping[str, Iterable[Example]], *, required: bool) -> Any:
        """Return held-out sentences as lists of words, in named sets if they are given so; `None` if there are none.

        Raises:
            ElmoError: If they are required and a set is empty.
        """
        sets = heldout if isinstance(heldout, Mapping) else {"": heldout}
        read = {name: self._sentences("heldout", part) for name, part in sets.items()}
        if required and not (read and all(read.values())):
            raise ElmoError("`heldout` has no words to evaluate on: check the text, or set eval_strategy to 'no'.")
        return (read if isinstance(heldout, Mapping) else read[""]) or None

    def _sentences(self, name: str, examples: Iterable[Example]) -> list[list[str]] | StoredSentences:
        """Return the words of each sentence, without empty sentences; `StoredSentences` have none.

        Args:
            name: The name of the argument, for errors.
            examples: The sentences.

        Raises:
            ElmoError: If `examples` is a single text, or several sets.
        """
        if isinstance(examples, (str, Mapping)):
            what = "one text" if isinstance(examples, str) else f"a dict of {', '.join(map(repr, examples))}"
            raise ElmoError(f"`{name}` is {what}: give a list of sentences, or a data set.")
        if isinstance(examples, StoredSentences):
            return examples
        return [words for words in map(self.collator.lexicon.words_of, examples) if words]

    def make_epoch_counter(self) -> "EpochCounter":
        """Return the callback that counts epochs."""
        return SentenceEpochs()

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batch the sentences by length."""
        loader, sampler = self._sentence_loader(self.train_dataset, self.args.world_size)
        if isinstance(self.epochs, SentenceEpochs):
            self.epochs.sampler = sampler
        return loader

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """Batch held-out sentences by length.

        Args:
            eval_dataset: Sentences, or the name of a set in `heldout`; by default `heldout`.

        Raises:
            ElmoError: If there are no sentences.
        """
        wanted: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(wanted, str) and isinstance(self.eval_dataset, Mapping):
            wanted = self.eval_dataset.get(wanted, wanted)
        sentences = [] if wanted is None else self._sentences("eval_dataset", wanted)
        if not sentences:
            raise ElmoError("There are no words to evaluate on: give `heldout`, or sentences.")
        return self._sentence_loader(sentences)[0]

    def _sentence_loader(self, sentences: Any, processes: int = 1) -> tuple[DataLoader[Any], BucketedSentences]:
        sampler = BucketedSentences(
            _lengths(sentences),
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

    def train(self, resume_from_checkpoint: str | Path | bool | None = None, *args: Any, **kwargs: Any) -> TrainOutput:
        """Train from the start, or resume from a checkpoint.

        Args:
            resume_from_checkpoint: The folder of a checkpoint, or True for the last complete one in `output_dir`.
            *args: As for any Trainer.
            **kwargs: As for any Trainer.

        Returns:
            As any Trainer.

        Raises:
            ElmoError: If there is no complete checkpoint; if it belongs to another model or other streams; if one
                cannot be written; or if the loss is NaN or infinite.
        """
        checkpoint = None
        if resume_from_checkpoint:
            given = None if resume_from_checkpoint is True else Path(resume_from_checkpoint)
            checkpoint = str(self.check_checkpoint(given))
        return super().train(checkpoint, *args, **kwargs)

    def check_checkpoint(self, checkpoint: Path | None) -> Path:
        """Return a checkpoint that can be resumed.

        Args:
            checkpoint: Its folder; by default the last complete one in `output_dir`.

        Raises:
            ElmoError: If it is damaged, or belongs to another model; or if there is none.
        """
        if checkpoint is None:
            checkpoint = last_checkpoint(str(self.args.output_dir))
        if checkpoint is None:
            raise ElmoError(f"{self.args.output_dir} has no checkpoint that is whole: train from the start.")
        damage = find_damage(checkpoint)
        if damage is not None:
            raise ElmoError(f"{checkpoint} cannot be resumed, its {damage}: name another checkpoint.")
        weights = checkpoint / SAFE_WEIGHTS_NAME
        if weights.is_file():
            shapes = {name: part.shape for name, part in self.language_model.state_dict().items()}
            check_shapes(weights, shapes, "give the same model and vocabulary")
        return checkpoint

    def total_steps(self) -> int:
        """Return the number of steps of the whole training, including those before it was resumed."""
        if self.args.max_steps > 0:
            return self.args.max_steps
        _, sampler = self._sentence_loader(self.train_dataset, self.args.world_size)
        return math.ceil(self.args.num_train_epochs * _steps_of_epoch(sampler, self.args))

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Skip the epoch if the resumed training has taken all steps: Trainer would take one more."""
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*args, **kwargs)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Take one step, and stop if the loss is NaN or infinite."""
        loss = super().training_step(*args, **kwargs)
        if not torch.isfinite(loss):
            raise ElmoError(
                f"The loss is {loss.item()} after {counted(self.state.global_step, 'step')}: lower the learning rate, "
                "or clip the gradient lower. Checkpoints that are saved already can be used."
            )
        return loss

    def evaluate(
        self,
        eval_dataset: Any = None,
        ignore_keys: list[str] | None = None,  # noqa: ARG002 - Trainer passes it
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Measure losses and perplexities, sentence by sentence, with the softmax over the whole vocabulary.

        Args:
            eval_dataset: Sentences, or named sets of them; by default `heldout`.
            ignore_keys: Not used.
            metric_key_prefix: The beginning of the metrics' names; the name of a set follows it.

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
            if eval_dataset is None:
                self._record_perplexity(metrics, {name: f"{metric_key_prefix}_{name}" for name in sets})
            return metrics
        model = self.language_model.eval()
        # the summed losses of both directions, and the number of predictions of each
        sums = torch.zeros(3, dtype=torch.float64)
        for batch in self.get_eval_dataloader(eval_dataset):
            with torch.no_grad(), self.autocast_smart_context_manager():
                outputs = model(**self._prepare_inputs(batch))
            for place, losses in enumerate((outputs.forward_losses, outputs.backward_losses)):
                sums[place] += losses.double().sum().cpu()
            sums[2] += int((batch["labels"][:, 0] != NOTHING).sum())
        sums = self.accelerator.reduce(sums.to(self.args.device)).cpu()
        # both directions together, then each
        losses = torch.stack([sums[:2].mean(), sums[0], sums[1]]) / sums[2]
        metrics = {}
        # torch's exponential is infinite where Python's is an error
        for name, loss, perplexity in zip(
            ("", "forward_", "backward_"), losses.tolist(), losses.exp().tolist(), strict=True
        ):
            metrics[f"{metric_key_prefix}_{name}loss"] = loss
            metrics[f"{metric_key_prefix}_{name}perplexity"] = perplexity
        self.log(metrics)
        if eval_dataset is None:
            self._record_perplexity(metrics, {"": metric_key_prefix})
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _record_perplexity(self, metrics: Mapping[str, float], prefixes: Mapping[str, str]) -> None:
        """Add the perplexity of `heldout` to the record of the training.

        Args:
            metrics: What was measured.
            prefixes: For the name of each set, the beginning of its metrics' names.
        """
        heldout: Any = self.eval_dataset
        sets = heldout if isinstance(heldout, Mapping) else {"": heldout}
        measured = [
            {
                **({"name": name} if name else {}),
                **self.heldout_source,
                **_count(sets[name]),
                **{
                    f"{direction}perplexity": metrics[f"{prefix}_{direction}perplexity"]
                    for direction in ("", "forward_", "backward_")
                },
            }
            for name, prefix in prefixes.items()
        ]
        self.record.measure(measured, self.state, self.language_model)

    def predict(self, *_: Any, **__: Any) -> PredictionOutput:
        """Refuse to predict, because the scores of the whole vocabulary at each position need too much memory.

        Raises:
            ElmoError: Always.
        """
        raise ElmoError(
            "The scores of all words need too much memory: measure sentences with `evaluate`, or each of them with "
            "`elmo_hf.training.perplexity.score`."
        )

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        folder = Path(str(self.args.output_dir), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        try:
            super()._save_checkpoint(*args, **kwargs)
        # a full disk is any of these
        except (OSError, RuntimeError, SafetensorError) as error:
            reason = " ".join(str(error).split())
            raise ElmoError(
                f"{folder} cannot be written ({reason}): make room, and resume from the checkpoint before."
            ) from error

    def _save_rng_state(self, output_dir: str) -> None:
        """Save the random state of each process, before the file that marks the checkpoint as complete."""
        super()._save_rng_state(output_dir)
        self.save_stream_state(output_dir)
        self.accelerator.wait_for_everyone()

    def save_stream_state(self, output_dir: str) -> None:
        """Save nothing: sentences have no state that lasts from batch to batch."""


class StreamTrainer(LanguageModelTrainer):
    """A Trainer for `ElmoForPreTraining` that reads continuous streams, as bilm-tf trains.

    Each window of a stream starts from the state in which the previous one ended, and passes no gradient back to it.

    Args:
        model: The language model.
        args: As for any Trainer; the batch sizes are not used.
        train: The streams.
        predictions: The number of predictions of each direction in an epoch, which are the words and one boundary
            token per sentence. With it, the log names the epoch exactly; without it, it counts completed passes.
        **kwargs: As for `LanguageModelTrainer`.

    Raises:
        ElmoError: If `train` is anything else, if several processes would read the streams, or as
            `LanguageModelTrainer`.
    """

    def __init__(
        self,
        model: ElmoForPreTraining,
        args: TrainingArguments,
        *,
        train: StreamBatches,
        predictions: int | None = None,
        **kwargs: Any,
    ) -> None:
        if args.world_size > 1:
            raise ElmoError("Several processes cannot read continuous streams: train on sentences, or in one process.")
        self.predictions = predictions
        self.recurrent_state: tuple[LayerState, ...] | None = None
        super().__init__(model, args, train=train, **kwargs)

    def read_training_data(self, train: Any) -> Any:
        """Return the streams.

        Raises:
            ElmoError: If `train` is anything else.
        """
        if not isinstance(train, StreamBatches):
            raise ElmoError("`train` must be StreamBatches: train on sentences with LanguageModelTrainer.")
        return train

    def count_text(self) -> dict[str, int]:
        """Return the number of predictions in an epoch, if it is known."""
        return {} if self.predictions is None else {"predictions": self.predictions}

    def describe_batches(self) -> dict[str, Any]:
        """Return the settings of the batches."""
        streams: Any = self.train_dataset
        return {"batches": "streams", "streams": streams.batch_size, "unroll_steps": streams.unroll_steps}

    def make_epoch_counter(self) -> "EpochCounter":
        """Return the callback that counts epochs."""
        return StreamEpochs()

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the windows of the streams, which are batches already."""
        streams: Any = self.train_dataset
        passes = EndlessStreams(streams, self.predictions)
        if isinstance(self.epochs, StreamEpochs):
            self.epochs.passes = passes
        return self.accelerator.prepare(DataLoader(passes, batch_size=None))

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """Compute the loss of a window, starting from the state in which the previous one ended."""
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        inputs = {**inputs, "state": self.recurrent_state, "use_cache": True}
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        self.recurrent_state = tuple((hidden.detach(), cell.detach()) for hidden, cell in outputs["state"])
        return (loss, outputs) if return_outputs else loss

    def train(self, *args: Any, **kwargs: Any) -> TrainOutput:
        """Train from the start, or resume from a checkpoint; see `LanguageModelTrainer.train`."""
        self.recurrent_state = None
        return super().train(*args, **kwargs)

    def check_checkpoint(self, checkpoint: Path | None) -> Path:
        """Return a checkpoint that can be resumed.

        Args:
            checkpoint: Its folder; by default the last complete one in `output_dir`.

        Raises:
            ElmoError: As `LanguageModelTrainer.check_checkpoint`; or if it was trained on sentences, or on another
                number of streams.
        """
        checkpoint = super().check_checkpoint(checkpoint)
        streams = checkpoint / STATE_FILE
        if not streams.is_file():
            raise ElmoError(f"{checkpoint} has no {STATE_FILE}: it is of sentences, or not whole; name another.")
        config, data = self.language_model.config, cast(StreamBatches, self.train_dataset)
        widths = {"hidden": config.hidden_size // 2, "cell": config.intermediate_size}
        shapes = {
            f"{layer}.{name}": (data.batch_size, 2, width)
            for layer in range(config.num_hidden_layers)
            for name, width in widths.items()
        }
        check_shapes(streams, shapes, "give as many streams")
        return checkpoint

    def save_stream_state(self, output_dir: str) -> None:
        """Save the recurrent state of all streams."""
        if self.recurrent_state is not None:
            parts = {
                f"{layer}.{name}": part.contiguous()
                for layer, pair in enumerate(self.recurrent_state)
                for name, part in zip(("hidden", "cell"), pair, strict=True)
            }
            save_file(parts, Path(output_dir, STATE_FILE))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Restore the random state where Trainer does, right before it continues, and the streams' state with it."""
        super()._load_rng_state(checkpoint)
        if checkpoint is not None:
            parts = load_file(Path(checkpoint, STATE_FILE), device=str(self.args.device))
            self.recurrent_state = tuple(
                (parts[f"{layer}.hidden"], parts[f"{layer}.cell"]) for layer in range(len(parts) // 2)
            )


class EndlessStreams(IterableDataset[Batch]):
    """Streams that start again at their end. To Trainer they are one epoch, so a training resumes in any pass.

    Args:
        streams: The streams.
        predictions: The number of predictions of each direction in a pass, if it is known.

    Attributes:
        windows: The number of windows of a pass without the padding at its end; `None` if it is not known.
        number: The number of completed passes.
    """

    def __init__(self, streams: StreamBatches, predictions: int | None) -> None:
        self.streams = streams
        self.windows = None if predictions is None else predictions / (streams.batch_size * streams.unroll_steps)
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


class EpochCounter(TrainerCallback):
    """Counts epochs by steps, and warns if a resumed training would continue with other batches."""

    def epoch_at(self, step: int, args: TrainingArguments) -> float | None:
        """Return the epoch after a number of steps, as Trainer counts it; `None` if it is not known."""
        raise NotImplementedError

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        """Warn if the checkpoint was made with other batches."""
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


class SentenceEpochs(EpochCounter):
    """Tells the sampler which epoch begins: Trainer does not reach a sampler that Accelerate wraps more than once.

    Attributes:
        sampler: The sampler of the training data; `None` before the training.
    """

    sampler: BucketedSentences | None = None

    def epoch_at(self, step: int, args: TrainingArguments) -> float | None:
        """Return the epoch after a number of steps, as Trainer counts it; `None` before the training."""
        if self.sampler is None:
            return None
        batches = math.ceil(len(self.sampler) / args.world_size)
        epochs, steps = divmod(step, _steps_of_epoch(self.sampler, args))
        return epochs + min(1, steps * args.gradient_accumulation_steps / batches)

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        """Set the sampler's epoch by the number of steps, which is exact in a resumed training too."""
        if self.sampler is not None:
            self.sampler.set_epoch(state.global_step // _steps_of_epoch(self.sampler, args))


class StreamEpochs(EpochCounter):
    """Tells Trainer the epoch of streams.

    Attributes:
        passes: The streams; `None` before the training.
    """

    passes: EndlessStreams | None = None

    def epoch_at(self, step: int, args: TrainingArguments) -> float | None:
        """Return the epoch after a number of steps; `None` if nobody has counted the predictions of an epoch."""
        if self.passes is None or not self.passes.windows:
            return None
        return step * args.gradient_accumulation_steps / self.passes.windows

    def on_step_end(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        """Set the epoch, or the number of completed passes if the epoch is not known."""
        if self.passes is not None:
            epoch = self.epoch_at(state.global_step, args)
            state.epoch = float(self.passes.number) if epoch is None else epoch


def _count(sentences: Any) -> dict[str, int]:
    """Return the numbers of sentences and words, as a record has them."""
    return {"sentences": len(sentences), "words": int(_lengths(sentences).sum())}


def _lengths(sentences: list[list[str]] | StoredSentences) -> np.ndarray:
    """Return the number of words of each sentence, `[sentences]`."""
    if isinstance(sentences, StoredSentences):
        return sentences.lengths
    return np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))


def _steps_of_epoch(sampler: BucketedSentences, args: TrainingArguments) -> int:
    return math.ceil(len(sampler) / args.world_size / args.gradient_accumulation_steps)


def write_card(folder: str | Path) -> None:
    """Write the model card, README.md, of a language model, unless somebody has edited the one that is there.

    `elmo-hf push` replaces it as long as nobody has edited it.

    Args:
        folder: The folder of the saved model.

    Raises:
        ElmoError: If it is no model folder, or the card cannot be written.
    """
    folder = Path(folder)
    path = folder / CARD
    with naming_errors(path):
        if path.is_file() and not is_unedited(path.read_text(encoding="utf-8")):
            return
        name = folder.resolve().name
        card = Card(
            title=name,
            blocks=join_sections(card_sections(folder, read_model(folder, PLACEHOLDER), recorded_metrics(folder))),
            metadata=CardData(**folder_metadata(folder, name, [])),
            generated=True,
        )
        path.write_text(render_card(card), encoding="utf-8")


__all__ = ["LanguageModelTrainer", "StreamTrainer", "write_card"]
