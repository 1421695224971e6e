"""Fine-tune a task model: load it for the labels of the data, train, and write its card."""

import hashlib
import json
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub.errors import StrictDataclassError
from huggingface_hub.repocard_data import CardData
from safetensors import SafetensorError
from tqdm.auto import tqdm
from transformers import (
    EarlyStoppingCallback,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from elmo_hf.bundled import model_folder
from elmo_hf.data.word_vectors import WordVectors, build_word_vectors
from elmo_hf.embedding.loading import first_of, quiet_loading
from elmo_hf.errors import ElmoError
from elmo_hf.files import naming_errors
from elmo_hf.history import LANGUAGE_MODELING, describe_text, gives_no_answer, trainings
from elmo_hf.hub.cards import CARD, Card, KeepsCard, code_block, render_card, table
from elmo_hf.hub.folder_card import card_sections, join_sections
from elmo_hf.hub.results import data_sets, model_index
from elmo_hf.hub.usage import ROLES, hub_tags, read_model, task_of
from elmo_hf.manifest import check_manifest, write_manifest
from elmo_hf.model.configuration_elmo import ElmoConfig
from elmo_hf.model.modeling_elmo import ElmoTaskModel
from elmo_hf.model.tokenization_elmo import ElmoTokenizer

from .checkpoints import last_checkpoint
from .documents import split_documents
from .finetuning_options import FineTuningOptions
from .frozen_layers import LayersCollator, Row, compute_layers, layers_size, what_head_reads
from .logs import EpochLog, replace_log
from .records import TrainingRecord, count_rows, describe_source, public_model_name, public_name


Model = TypeVar("Model", bound=ElmoTaskModel)

# the manifest in the folder of a training; a resumed training must have the same
JOB_FILE = "finetuning.json"
JOB_OPTIONS = (
    "model", "epochs", "batch_size", "accumulate", "learning_rate", "schedule", "warmup_steps", "weight_decay",
    "mix_regularization", "dropout", "head_hidden_size", "bf16", "seed", "word_vectors", "word_vectors_dim",
    "train_word_vectors", "task_chars",
)  # fmt: skip

# what the models of a task do with `elmo-hf predict`
USES = {
    "token-classification": "Tag text",
    ROLES: "Label roles",
    "text-classification": "Label text",
    "question-answering": "Answer questions",
    "coreference-resolution": "Find what means the same",
}

# bytes of layers that are held in memory
LAYERS_LIMIT = 4 * 2**30
# the folder in the output of layers that are not, until the script has ended
LAYERS_CACHE = "layers-cache"


def prepare(options: FineTuningOptions) -> None:
    """Set up the process of a script: its threads and random numbers, and no messages but the script's own.

    Args:
        options: The options of the run.
    """
    torch.set_num_threads(options.threads)
    set_seed(options.seed)
    # that a language model has no head, and a task no softmax, is as it should be
    set_verbosity_error()
    disable_progress_bar()


def find_word_vectors(
    options: FineTuningOptions, texts: Mapping[str, Iterable[str | Sequence[str]]]
) -> WordVectors | None:
    """Choose the words of which the task's model has vectors, as the options say.

    Args:
        options: The options of the run.
        texts: For each split its texts, which the model's tokenizer cuts into words, or their words. A file of vectors
            is searched for the words of all splits, because more of them cost no training; vectors that are learned
            are those of `train`.

    Returns:
        The words and their vectors for `load_task_model`, or `None` if the options ask for none.

    Raises:
        ElmoError: If the file cannot be read or has none of the words, or there are no words.
    """
    if options.word_vectors is None and options.word_vectors_dim is None:
        return None
    used = texts if options.word_vectors is not None else {"train": texts.get("train", ())}
    counts: Counter[str] = Counter()
    raw: dict[str, None] = {}
    for text in (text for part in used.values() for text in part):
        if isinstance(text, str):
            # a context has many questions
            raw[text] = None
        else:
            counts.update(text)
    if raw:
        tokenizer = _load_tokenizer(str(model_folder(options.model)))
        for text in raw:
            counts.update(tokenizer.tokenize(text))
    return build_word_vectors(counts, options.word_vectors, options.word_vectors_dim)


def _load_tokenizer(name: str, vectors: WordVectors | None = None) -> ElmoTokenizer:
    """Load the tokenizer of a model, with the words that have vectors.

    Raises:
        ElmoError: If there is none, or it is damaged.
    """
    own = {} if vectors is None else {"task_vocab": vectors.words, "task_lookup": vectors.lookup}
    try:
        return ElmoTokenizer.from_pretrained(name, **own)
    except (OSError, ValueError) as error:
        raise ElmoError(f"{name} cannot be loaded: {' '.join(str(error).split())[:300]}") from error


def load_with_vectors(
    cls: type[Model],
    options: FineTuningOptions,
    texts: Mapping[str, Iterable[str | Sequence[str]]],
    labels: Sequence[str] | None,
    **more: Any,
) -> tuple[Model, ElmoTokenizer]:
    """Load the model that the options name, with word vectors if they ask for some, and say what both are.

    Args:
        cls: As for `load_task_model`.
        options: The options of the run.
        texts: As for `find_word_vectors`.
        labels: As for `load_task_model`.
        **more: Other arguments of `load_task_model`.

    Returns:
        The model and its tokenizer.

    Raises:
        ElmoError: As `find_word_vectors` and `load_task_model`.
    """
    vectors = find_word_vectors(options, texts)
    model, tokenizer = load_task_model(
        cls, options.model, labels, word_vectors=vectors, **more, **options.model_fields()
    )
    tqdm.write(describe_base(options.model, model.config))
    if vectors is not None:
        tqdm.write(vectors.report)
    return model, tokenizer


def load_task_model(
    cls: type[Model],
    name: str,
    labels: Sequence[str] | None,
    *,
    default_head: str | None = None,
    head_fields: Mapping[str, Any] | None = None,
    word_vectors: WordVectors | None = None,
    **fields: Any,
) -> tuple[Model, ElmoTokenizer]:
    """Load a language model with a new head for these labels, or a model of this task to train further.

    Args:
        cls: `ElmoForTokenClassification`, `ElmoForSequenceClassification` or `ElmoForQuestionAnswering`.
        name: A folder, a name on the Hub, or `elmo-small-en`.
        labels: All labels of the data; none for a task that has no labels, and `None` for regression.
        default_head: The head for a language model if `fields` names none.
        head_fields: Other fields for the head of a language model, where `fields` has none.
        word_vectors: The vectors of the task's own words, for a language model; those without a table are trained.
        **fields: Fields of the configuration to set; `None` keeps the model's own value.

    Returns:
        The model, with the labels in its configuration, and its tokenizer.

    Raises:
        ElmoError: If there is no such model, or it is one of this task with other labels, words or another head, or
            weights are missing that are not those of a new head.
    """
    name = str(model_folder(name))
    fields = {field: value for field, value in fields.items() if value is not None}
    try:
        config: Any = ElmoConfig.from_pretrained(name)
        own = [config.id2label[number] for number in range(config.num_labels)]
        if config.architectures == [cls.__name__]:
            fits = config.problem_type == "regression" if labels is None else set(labels) <= set(own)
            if not fits:
                extra = "numbers" if labels is None else ", ".join(sorted(set(labels) - set(own)))
                raise ElmoError(
                    f"{name} has the labels {', '.join(own)}, and the data {extra}: begin from the language model."
                )
            if word_vectors is not None:
                own_words = "words of its own" if config.task_word_embedding_dim else "no words beside ELMo"
                raise ElmoError(f"{name} reads {own_words}: leave the word vectors, or begin from the language model.")
            head = config.head or next(iter(cls.heads))
            if fields.get("head", head) != head:
                raise ElmoError(f"{name} has the head {head}: leave it, or begin from the language model.")
            labels = own
        else:
            defaults = {"head": default_head, **(head_fields or {})}
            fields = {field: value for field, value in defaults.items() if value is not None} | fields
        if word_vectors is not None:
            fields |= {"num_task_words": len(word_vectors.words) + 2, "task_word_embedding_dim": word_vectors.width}
            fields["train_task_words"] = word_vectors.table is None or fields.get("train_task_words", False)
        names = {0: "score"} if labels is None else dict(enumerate(labels))
        if names:
            fields |= {"id2label": names, "label2id": {label: number for number, label in names.items()}}
        with quiet_loading():
            model, report = cls.from_pretrained(name, output_loading_info=True, **fields)
        if fields.get("train_task_words") and not model.config.task_word_embedding_dim:
            raise ElmoError(f"{name} has no word vectors of its own to train: give a file of them, or their width.")
        # all but the biLM is new for this task
        has_task = config.architectures == [cls.__name__]
        if missing := [key for key in report["missing_keys"] if has_task or key.startswith("elmo.")]:
            raise ElmoError(f"The weights in {name} lack {first_of(missing)}: save or convert the model again.")
        if word_vectors is not None and word_vectors.table is not None:
            table = model.task_embeddings.word_embeddings.weight
            table.data.copy_(torch.from_numpy(word_vectors.table))
        if not has_task and not model.has_bilm:
            # of a language model that is not in it
            model.config.training_history = None
        return model, _load_tokenizer(name, word_vectors)
    except (OSError, ValueError, RuntimeError, SafetensorError, StrictDataclassError) as error:
        given = ", ".join(
            f"{field} {value}" for field, value in fields.items() if not field.endswith(("2label", "2id"))
        )
        reason = " ".join(str(error).split())[:300]
        if isinstance(error, RuntimeError):
            raise ElmoError(
                f"The weights in {name} do not fit {given}: leave these as they are ({reason})."
            ) from error
        raise ElmoError(f"{name} cannot be loaded: {reason}") from error


def train(
    options: FineTuningOptions,
    model: ElmoTaskModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: dict[str, Any],
    collator: Callable[[list[dict[str, Any]]], dict[str, Any]],
    best: str,
    *,
    vary: Callable[[Sequence[Row]], Any] | None = None,
    record: Mapping[str, Any] | None = None,
    **more: Any,
) -> tuple[Trainer, dict[str, Any]]:
    """Train a model and save it.

    Args:
        options: The options of the run.
        model: The model, with the labels of the data.
        tokenizer: Its tokenizer.
        rows: For each split, the tokenizer's output for each sentence or pair, with `labels`, or `start_positions`
            and `end_positions`.
        collator: Makes a batch of rows.
        best: The metric by which the best epoch is chosen.
        vary: Makes the training set of its rows, if an epoch reads others of them, or parts.
        record: Other fields for the record of the training (`elmo_hf.history`).
        **more: Other arguments of `Trainer`.

    Returns:
        The trainer, whose `push_to_hub` keeps the card of `write_card`; and the rows as the model reads them, with the
        layers of a frozen biLM.
    """
    arguments = options.training_arguments(best, evaluate="dev" in rows)
    checkpoint: Path | None = None
    callbacks: list[TrainerCallback] = [LatestOfZeros()]
    if "train" in rows:
        # before another process stores layers in the folder
        with arguments.main_process_first(local=False):
            checkpoint = begin(options, model, rows["train"], main=arguments.process_index == 0)
        described = describe_finetuning(options, model, tokenizer, rows["train"]) | dict(record or {})
        callbacks += [TrainingRecord(described)]
        if options.patience:
            callbacks.append(Patience(options.patience))
    rows = add_layers(options, model, tokenizer, rows, arguments)
    trainer = OwnCardTrainer(
        model,
        arguments,
        data_collator=LayersCollator(collator),
        train_dataset=rows.get("train") if vary is None or "train" not in rows else vary(rows["train"]),
        eval_dataset=rows.get("dev"),
        processing_class=tokenizer,
        callbacks=callbacks,
        **more,
    )
    replace_log(trainer, EpochLog(lambda value: _score(trainer, value)))
    if "train" in rows:
        with naming_errors(options.output):
            result = trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
            trainer.save_model()
            trainer.save_metrics("train", result.metrics)
    if trainer.state.best_metric == 0 and trainer.is_world_process_zero():
        tqdm.write(
            "note: no epoch scores above 0 on the development set: train longer, with smaller batches, or at another "
            "learning rate"
        )
    return trainer, rows


def add_layers(
    options: FineTuningOptions,
    model: ElmoTaskModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Mapping[str, Any],
    arguments: TrainingArguments,
) -> dict[str, Any]:
    """Compute the layers of a frozen biLM once, unless the options say no; those that memory does not hold are stored.

    Args:
        options: The options of the run.
        model: The model.
        tokenizer: Its tokenizer.
        rows: The rows of each split.
        arguments: The arguments of Trainer.

    Returns:
        The rows of each split as the model reads them.

    Raises:
        ElmoError: If layers are asked for that change or are not there, or they cannot be stored.
    """
    if options.layers_once is None:
        once = model.has_bilm and model.config.freeze_bilm
    else:
        once = options.layers_once
    cache = options.cache_dir
    if once and cache is None:
        size = sum(layers_size(model.config, part) for part in rows.values())
        if size > LAYERS_LIMIT:
            cache = options.output / LAYERS_CACHE
            # without a training, they are read only once
            once = "train" in rows
            if once and arguments.process_index == 0:
                tqdm.write(
                    f"note: the layers of the biLM take {size / 1e9:,.1f} GB: they go to {cache} until the script "
                    "ends; --no-layers-once computes them in every epoch instead"
                )
    if once:
        return {
            name: compute_layers(model, tokenizer, part, device=arguments.device, cache=cache)
            for name, part in rows.items()
        }
    if model.has_bilm:
        return dict(rows)
    return {name: [what_head_reads(model, row) for row in part] for name, part in rows.items()}


def forget_layers(options: FineTuningOptions, trainer: Trainer) -> None:
    """Delete the layers of a run that has ended, unless they have a folder that the user named.

    Args:
        options: The options of the run.
        trainer: The trainer that `train` returned, which reads no rows any more.
    """
    trainer.accelerator.wait_for_everyone()
    if trainer.is_local_process_zero():
        shutil.rmtree(options.output / LAYERS_CACHE, ignore_errors=True)


def describe_result(options: FineTuningOptions, trainer: Trainer) -> str:
    """Say in one line what a training has written, how good it is, and how to use it.

    Args:
        options: The options of the run.
        trainer: The trainer that `train` returned.
    """
    best = f"eval_{trainer.args.metric_for_best_model}"
    measured = [entry for entry in trainer.state.log_history if best in entry]
    epoch, score = trainer.state.epoch or 0, ""
    if measured:
        # the first of equals, as Trainer chooses, and the last of zeros
        chosen = max(measured, key=lambda entry: entry[best])
        if chosen[best] == 0:
            chosen = measured[-1]
        epoch, score = chosen["epoch"], f", {_score(trainer, chosen[best])}"
    model: Any = trainer.model
    folder, task = shlex.quote(str(options.output)), _task_of(model)
    # plain text does not say which words are predicates
    more = " --predicates VERBS" if task == ROLES else ""
    more += " --no-answer" if gives_no_answer(model.config) else ""
    return (
        f"Wrote {options.output}: epoch {round(epoch, 2):g} of {options.epochs:g}{score}. "
        f"{USES[task]}: elmo-hf predict {folder} FILE{more}"
    )


def _task_of(model: Any) -> str:
    return task_of(type(model).__name__, model.config)


def _score(trainer: Trainer, value: float) -> str:
    """Write a value of the metric by which the best epoch is chosen."""
    metric = str(trainer.args.metric_for_best_model)
    return f"dev {'F1' if metric == 'f1' else metric} {value:.3f}"


def describe_base(name: str, config: ElmoConfig) -> str:
    """Say in one line on which model a fine-tuning stands, and on which text its language model was trained.

    Args:
        name: The name of the model, as the user gives it.
        config: Its configuration.

    Raises:
        ElmoError: If the record of its trainings is damaged.
    """
    if config.mix_at == "none":
        return "model: words of the task alone, without ELMo"
    records = [record for record in trainings(config) if record["task"] == LANGUAGE_MODELING]
    texts = " and then ".join(text for record in records if (text := describe_text(record)))
    return f"model: {name}, whose language model was trained on {texts or 'a text that is not recorded'}"


def describe_finetuning(
    options: FineTuningOptions, model: ElmoTaskModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Row]
) -> dict[str, Any]:
    """Return what the record of a training says of the task, the data and the options.

    Args:
        options: The options of the run.
        model: The model before the training.
        tokenizer: Its tokenizer.
        rows: The training data.
    """
    config = model.config
    own: dict[str, Any] = {}
    if config.task_word_embedding_dim:
        # a model that is trained further keeps the vectors that it has
        name = options.word_vectors and public_name(options.word_vectors)
        own["word_vectors"] = name or ("learned" if options.word_vectors_dim else None)
        own |= {"word_vectors_dim": config.task_word_embedding_dim, "train_word_vectors": config.train_task_words}
    if config.task_char_embedding_dim:
        own["task_chars"] = config.task_char_embedding_dim
    # without its biLM, nothing of a language model is in the model
    has_base = model.has_bilm or config.training_history
    files = [] if options.train is None else [options.train]
    split = options.splits[0] if options.dataset is not None else None
    return {
        "task": _task_of(model),
        "base_model": public_model_name(options.model) if has_base else None,
        **describe_source(files, options.dataset, config=options.dataset_config, split=split),
        **count_rows(split_documents(rows), tokenizer),
        "settings": {
            "batch_size": options.batch_size,
            "head": config.head or next(iter(model.heads)),
            "mix_at": config.mix_at,
            **({"freeze_bilm": config.freeze_bilm} if model.has_bilm else {}),
            "dropout": config.classifier_dropout,
            **{name: value for name, value in own.items() if value is not None},
        },
    }


class OwnCardTrainer(KeepsCard, Trainer):
    """A Trainer that keeps the card of `write_card`."""


class LatestOfZeros(TrainerCallback):
    """Keeps the latest epoch, not the first, while none scores above 0: it is the one that was trained most."""

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002 - Transformers names them
        """Let the evaluation that has just ended be the best, whatever it gives."""
        if state.best_metric == 0:
            state.best_metric = None


class Patience(EarlyStoppingCallback):
    """Stops a training that no longer improves, but not before its first score above 0, which may take epochs."""

    def check_metric_value(self, args: Any, state: Any, control: Any, metric_value: float) -> None:
        """Count the evaluations without improvement since the first value above 0."""
        if metric_value > 0:
            super().check_metric_value(args, state, control, metric_value)


def begin(options: FineTuningOptions, model: ElmoTaskModel, rows: Sequence[Row], *, main: bool) -> Path | None:
    """Make the folder of a training, or return the checkpoint to resume from.

    Args:
        options: The options of the run.
        model: The model before the training.
        rows: The training data.
        main: Whether this process writes, of several.

    Raises:
        ElmoError: If the folder belongs to another training or holds something else, or cannot be made.
    """
    folder: Path = options.output
    job_file = folder / JOB_FILE
    job = {name: str(getattr(options, name)) for name in (*JOB_OPTIONS, *options.own_job_options)}
    job |= {
        name: str(getattr(model.config, name)) for name in ("head", "mix_at", "freeze_bilm", "num_labels", "id2label")
    }
    if options.word_vectors is not None:
        # the file may have changed since, and with it the words
        table = model.get_parameter("task_embeddings.word_embeddings.weight").detach()
        job["vectors"] = hashlib.sha256(table.float().cpu().numpy().tobytes()).hexdigest()[:16]
    digest = hashlib.sha256()
    for row in rows:
        labels = row["labels"] if "labels" in row else [row["start_positions"], row["end_positions"]]
        marks = [row["token_type_ids"]] if "token_type_ids" in row else []
        digest.update(json.dumps([row["input_ids"], labels, *marks]).encode())
    job["data"] = digest.hexdigest()[:16]
    checkpoint = last_checkpoint(folder) if options.resume else None
    if checkpoint is None:
        left = sorted(path.name for path in folder.glob("checkpoint-*")) if not options.resume else []
        if left:
            raise ElmoError(
                f"{folder} has checkpoints of a training: resume it with --resume, or choose another folder."
            )
        if folder.exists() and any(folder.iterdir()) and not job_file.exists():
            raise ElmoError(f"{folder} holds something else than a training: choose another folder.")
        if main:
            with naming_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
            write_manifest(job_file, job)
        return None
    check_manifest(job_file, job, remedy="resume that run, or choose another folder")
    return checkpoint


def predict(trainer: Trainer, rows: Any, split: str) -> tuple[Any, dict[str, float]]:
    """Predict the labels of a split, and show and save its metrics.

    Args:
        trainer: The trainer that `train` returned.
        rows: The rows of the split.
        split: `dev` or `test`.

    Returns:
        The output of `Trainer.predict`, in the order of the rows, and the values of the metrics.
    """
    # with "group_by_length", predictions would come back sorted by length
    trainer.args.train_sampling_strategy = "random"
    output = trainer.predict(rows, metric_key_prefix=split)
    metrics = output.metrics or {}
    if trainer.is_world_process_zero():
        trainer.log_metrics(split, metrics)
    trainer.save_metrics(split, metrics)
    return output, {name.removeprefix(f"{split}_"): value for name, value in metrics.items()}


def finish(
    options: FineTuningOptions,
    trainer: Trainer,
    model: ElmoTaskModel,
    scores: Mapping[str, Mapping[str, float]],
    *,
    report: str = "",
) -> None:
    """End a script: after a training write the card and say what was written, and delete layers on the disk.

    Args:
        options: The options of the run.
        trainer: The trainer that `train` returned.
        model: The model that it has trained.
        scores: For each split, such as `test`, the values of the metrics.
        report: A table of more figures for the card.

    Raises:
        ElmoError: If the card cannot be written.
    """
    if trainer.is_world_process_zero() and trainer.train_dataset is not None:
        write_card(
            options.output,
            model,
            task=_task_of(model),
            base=options.model,
            data=options.data_name,
            scores=scores,
            # a card is for others: no folders of this machine before the script
            command=["python", f"examples/{Path(sys.argv[0]).name}", *sys.argv[1:]],
            report=report,
        )
        tqdm.write(describe_result(options, trainer))
    forget_layers(options, trainer)


def write_card(
    folder: str | Path,
    model: ElmoTaskModel,
    *,
    task: str,
    base: str,
    data: str,
    scores: Mapping[str, Mapping[str, float]],
    command: Sequence[str],
    report: str = "",
) -> None:
    """Write the model card, README.md, of a fine-tuned model, with scores that the Hub shows for a data set on it.

    Args:
        folder: The folder of the saved model.
        model: The model, whose layer weights the card shows.
        task: The task by its name on the Hub, such as `token-classification`.
        base: The model that was fine-tuned.
        data: The name of the data.
        scores: For each split, such as `test`, the values of the metrics.
        command: The words of the command line that trained it: `python`, the script, and its arguments, of whose files
            the card does not name the folder.
        report: A table of more figures.

    Raises:
        ElmoError: If the file cannot be written.
    """
    folder = Path(folder)
    base_name = public_model_name(base)
    bilm = "was left as it is" if model.config.freeze_bilm else "was trained, too"
    made = (
        f"{base_name} with the head `{{head}}`; the biLM {bilm}" if model.has_bilm else "a head `{head}` without ELMo"
    )
    # the name of the folder means nothing to others, and that of the repository is above the card
    title = f"ELMo for {task.replace('-', ' ')}, fine-tuned on {data}"
    read = read_model(folder)
    head = model.config.head or next(iter(model.heads))
    sections = card_sections(folder, read, scores)
    sections[""].insert(1, f"It is {made.format(head=head)}.")
    words = [*command[:2], *map(_without_folder, command[2:])]
    sections["Training"] += ["Made by", f"    {shlex.join(words)}"]
    sections["Results"] += [code_block(report)] if report else []
    sections["Layers"] = model.has_bilm * [
        "What the task makes of the layers, from the token layer up:",
        table(
            ("mix at", "shares", "gamma"),
            [
                (place, " ".join(f"{weight:.3f}" for weight in mix["weights"]), f"{mix['gamma']:.3f}")
                for place, mix in model.layer_weights().items()
            ],
        ),
    ]
    sets = data_sets(read.config)
    metadata: dict[str, Any] = {
        "library_name": "transformers",
        **hub_tags(task),
        # only names on the Hub
        "base_model": base if model.has_bilm and "/" in base and not Path(base).exists() else None,
        "datasets": sets or None,
        "model-index": model_index(title, task, sets[-1], scores) if sets else None,
    }
    card = Card(title=title, blocks=join_sections(sections), metadata=CardData(**metadata))
    with naming_errors(folder / CARD):
        (folder / CARD).write_text(render_card(card), encoding="utf-8")


def _without_folder(word: str) -> str:
    """Return a word of a command line without the folder before a file: a card is for others."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    is_path = "/" in value and (Path(value).is_absolute() or Path(value).exists())
    return f"{option}{equals}{public_name(value) if is_path else value}"


__all__ = [
    "add_layers",
    "describe_base",
    "describe_result",
    "find_word_vectors",
    "finish",
    "forget_layers",
    "load_task_model",
    "load_with_vectors",
    "predict",
    "prepare",
    "train",
    "write_card",
]
