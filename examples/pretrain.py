"""Train the bidirectional language model of an ELMo, from nothing or from a model that is there.

    elmo-hf build-vocab corpus/*.gz --output vocab.txt --min-count 5
    python examples/pretrain.py corpus/*.gz --vocab vocab.txt --heldout heldout.txt --output my-elmo

Needs `pip install "elmo_hf[train]"`. The text has one sentence a line, which is split into words as the model will
split raw text later; give both commands `--tokenized` if the text has spaces between all words already. `--dataset
NAME` takes a data set of the library datasets instead. `torchrun --nproc-per-node 2 examples/pretrain.py ...` trains
in two processes. `--model DIR` goes on from a model, as on the text of a domain. With `--resume` an interrupted
training goes on from its last checkpoint to the same result, and one that has none yet begins.
"""

import argparse
import glob
import json
import math
import os
import secrets
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn


# the rest is imported in functions, after the arguments are checked: torch and Transformers take seconds
if TYPE_CHECKING:
    from transformers import TrainingArguments

    from elmo_hf import ElmoForPreTraining, ElmoTokenizer
    from elmo_hf.data.segmentation import SentenceSplitter
    from elmo_hf.data.stored_text import StoredSentences
    from elmo_hf.training.batching import Example, StreamBatches
    from elmo_hf.training.pretraining import LanguageModelTrainer

SCHEDULES = ("constant", "constant_with_warmup", "cosine", "inverse_sqrt", "linear", "polynomial")
# the model that comes with the package
BUNDLED = "elmo-small-en"
# sentences by which the vocabulary is checked
CHECKED_SENTENCES = 10_000
# the folder in --output of the text as it was read, until the training has ended
TEXT_CACHE = "text-cache"


def filters(text: str) -> list[list[int]]:
    """Read `1x16,2x32` as `[[1, 16], [2, 32]]`: the width and number of the convolutions."""
    pairs = [[int(number) for number in pair.split("x")] for pair in text.split(",")]
    if not all(len(pair) == 2 and min(pair) > 0 for pair in pairs):
        raise ValueError(text)
    return pairs


def number(kind: Callable[[str], Any], least: float, below: float = math.inf) -> Callable[[str], Any]:
    """Make the type of an argument that is a number in a range."""

    def read(text: str) -> Any:
        value = kind(text)
        if not least <= value < below:
            raise argparse.ArgumentTypeError(f"{text} is out of range")
        return value

    read.__name__ = kind.__name__
    return read


def warm_up(text: str) -> float:
    """Read a number of steps, or below 1 a share of all steps."""
    value = float(text)
    if not 0 <= value < math.inf or (value > 1 and value % 1):
        raise argparse.ArgumentTypeError(f"{text} is neither a number of steps nor a share below 1")
    return value if 0 < value < 1 else int(value)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Describe the options of the text."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="text, one sentence a line; may be compressed by gzip, bzip2 or xz",
    )
    # as in the commands of elmo-hf
    data.add_argument(
        "--tokenized", action="store_true", help="split the text at white space only, because it is tokenized already"
    )
    data.add_argument(
        "--pre-tokenizer",
        choices=("moses", "whitespace"),
        help="how a new model splits raw text: moses (the default) separates punctuation, as the text of the English "
        "models was split; whitespace (the default with --tokenized) splits at white space only. Give --tokenized and "
        "--pre-tokenizer moses if Moses has tokenized the text",
    )
    data.add_argument(
        "--split-sentences",
        metavar="LANG",
        help="split each line, which is a paragraph then, into sentences by the rules of this language: en, es, ...; "
        'needs pip install "elmo_hf[sentences]"',
    )
    data.add_argument(
        "--wrapped",
        action="store_true",
        help="with --split-sentences: a paragraph is broken into lines, as in Project Gutenberg's books, and ends at "
        "an empty line",
    )
    data.add_argument(
        "--dataset", metavar="NAME", help="a data set instead: on the Hub, in a folder, or json, csv, ... of FILE"
    )
    data.add_argument("--dataset-config", metavar="NAME", help="which of the data set's configurations")
    data.add_argument("--split", default="train", help="of the data set, to train on (default: %(default)s)")
    data.add_argument(
        "--column",
        default="text",
        help="of the data set, a sentence a row: a text, or a list of words (default: %(default)s)",
    )
    data.add_argument(
        "--stream", action="store_true", help="read the data set from its source, and copy no files of it"
    )
    heldout = data.add_mutually_exclusive_group()
    heldout.add_argument("--heldout", nargs="*", default=[], metavar="FILE", help="text to measure perplexity on")
    heldout.add_argument("--heldout-split", metavar="SPLIT", help="of the data set, to measure perplexity on")
    data.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="new folder for the model and its checkpoints"
    )
    data.add_argument(
        "--cache-dir",
        type=Path,
        metavar="DIR",
        help="folder that keeps the text of whole sentences, 4 bytes a word, for other trainings on the same text "
        "(default: text-cache in the folder of --output, which is deleted when the training has ended)",
    )
    data.add_argument(
        "--batching",
        choices=("sentences", "streams"),
        default="sentences",
        help="whole sentences of like length, or continuous streams as in bilm-tf (default: %(default)s)",
    )
    positive = number(int, 1)
    for name, default, text in (
        ("--words-per-batch", 2048, "of whole sentences, padding included"),
        ("--max-words", 400, "cut sentences that are longer"),
        ("--streams", 128, "streams of a batch"),
        ("--unroll-steps", 20, "words of a stream in a batch"),
    ):
        data.add_argument(name, type=positive, default=default, metavar="N", help=f"{text} (default: %(default)s)")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Describe the options of the model; the defaults are those of a small one."""
    model = parser.add_argument_group("model")
    model.add_argument("--vocab", type=Path, metavar="FILE", help="vocabulary, from elmo-hf build-vocab")
    model.add_argument(
        "--model",
        metavar="DIR",
        help=f"go on from this model, a folder or {BUNDLED}; with --vocab, in another vocabulary. Without it a new "
        "model is made, of these sizes:",
    )
    positive = number(int, 1)
    for name, kind, default, text in (
        ("--hidden-size", positive, 256, "width of a vector, both directions together"),
        ("--intermediate-size", positive, 256, "width of the cells of an LSTM"),
        ("--layers", positive, 2, "biLSTM layers"),
        ("--char-embedding-dim", positive, 16, "width of the vector of a character"),
        ("--highways", number(int, 0), 1, "highway layers behind the convolutions"),
    ):
        model.add_argument(name, type=kind, default=default, metavar="N", help=f"{text} (default: %(default)s)")
    model.add_argument(
        "--char-filters",
        type=filters,
        default="1x16,2x32,3x64,4x96,5x96",
        metavar="WxN,...",
        help="the convolutions over the characters of a word, width x number: 1x16,2x32 are 16 that read one "
        "character and 32 that read two (default: %(default)s)",
    )
    model.add_argument(
        "--dropout",
        type=number(float, 0, 1),
        default=0.1,
        metavar="P",
        help="on the input of each layer and of the softmax (default: %(default)s)",
    )
    model.add_argument(
        "--negatives",
        type=number(int, 0),
        default=2048,
        metavar="N",
        help="words that the softmax samples for a batch; 0: it takes all (default: %(default)s)",
    )


def add_training(parser: argparse.ArgumentParser) -> None:
    """Describe the options of the training; the defaults are those for a small model on a CPU."""
    training = parser.add_argument_group("training")
    positive, natural, share = number(int, 1), number(int, 0), number(float, 0)
    training.add_argument(
        "--optimizer",
        choices=("adamw_torch_fused", "adagrad"),
        default="adamw_torch_fused",
        help="bilm-tf: adagrad (default: %(default)s)",
    )
    training.add_argument(
        "--schedule",
        choices=SCHEDULES,
        default="cosine",
        help="of the learning rate; bilm-tf: constant (default: %(default)s)",
    )
    for name, kind, default, text in (
        ("--epochs", share, 5.0, "times that the text is read"),
        ("--steps", positive, None, "end after so many steps, whatever the epochs"),
        ("--learning-rate", share, 3e-3, "the highest; bilm-tf: 0.2 with adagrad"),
        (
            "--warmup-steps",
            warm_up,
            200,
            "steps in which the learning rate rises; below 1, a share of all steps",
        ),
        ("--weight-decay", share, 0.01, "of adamw_torch_fused"),
        ("--clip-norm", share, 1.0, "most that the norm of the gradient may be; bilm-tf: 10"),
        ("--accumulate", positive, 1, "batches of a step"),
        ("--save-steps", positive, 500, "steps from one checkpoint, and measurement, to the next"),
        ("--log-steps", positive, 50, "steps from one line of the log to the next"),
        ("--threads", positive, None, "of the CPU; as many as torch takes by itself, if not given"),
        ("--seed", natural, 0, "of the first weights, the order of the text, dropout and samples"),
    ):
        shown = "" if default is None else " (default: %(default)s)"
        training.add_argument(name, type=kind, default=default, metavar="N", help=f"{text}{shown}")
    training.add_argument("--bf16", action="store_true", help="multiply in bfloat16")
    training.add_argument(
        "--resume", action="store_true", help="go on from the last checkpoint in DIR, or begin if there is none"
    )
    training.add_argument("--half", action="store_true", help="store the result in float16; it loads in float32")


def parse_arguments() -> argparse.Namespace:
    """Describe the command line, and refuse what can be refused without reading anything."""
    parser = argparse.ArgumentParser(
        usage="%(prog)s FILE ... --vocab FILE --output DIR [options]",
        description="Train the bidirectional language model of an ELMo.",
        epilog=f"example, on the text of a domain: %(prog)s domain.txt --model {BUNDLED} --vocab domain-vocab.txt "
        "--learning-rate 5e-4 --epochs 2 --output my-elmo",
    )
    add_data(parser)
    add_model(parser)
    add_training(parser)
    options = parser.parse_args()
    if options.model is None and options.vocab is None:
        parser.error("give --vocab to begin from nothing, or --model to go on")
    if not options.files and options.dataset is None:
        parser.error("give files of text, or --dataset")
    if options.dataset is None and (options.stream or options.heldout_split or options.dataset_config):
        parser.error("--stream, --heldout-split and --dataset-config are for --dataset")
    if options.cache_dir is not None and "-" in options.files:
        parser.error("--cache-dir is for a text that is read again: save that of standard input as a file")
    if options.wrapped and options.split_sentences is None:
        parser.error("--wrapped has no meaning without --split-sentences: give both")
    if options.model is not None and options.pre_tokenizer is not None:
        parser.error("--pre-tokenizer is for a new model: that of --model has its own")
    if not options.epochs and options.steps is None:
        parser.error("--epochs is to be more than 0, if there are no --steps")
    return options


def check_files(options: argparse.Namespace) -> None:
    """Refuse files that are not there, and to write over what an earlier training left."""
    sources = [*options.heldout, *(options.files if options.dataset is None else [])]
    for name in sources:
        # Path.glob takes no absolute pattern
        if name != "-" and not Path(name).exists() and not glob.glob(name, recursive=True):  # noqa: PTH207
            refuse(f"{name} is no file, and no pattern that matches one: check the name.")
    if options.vocab is not None and not options.vocab.exists():
        refuse(f"{options.vocab} is no file: make a vocabulary with `elmo-hf build-vocab`.")
    if options.model not in (None, BUNDLED) and not Path(options.model, "config.json").is_file():
        refuse(f"{options.model} is no model folder: check the name; one of the Hub is to be downloaded first.")
    place = next(path for path in (options.output, *options.output.parents) if path.exists())
    if not place.is_dir():
        refuse(f"{place} is no folder: choose another --output.")
    left = sorted(path.name for path in options.output.glob("checkpoint-*"))
    if left and not options.resume:
        refuse(f"{options.output} holds {left[0]} of a training: go on by --resume, or choose another --output.")
    if not left and (options.output / "model.safetensors").exists():
        refuse(f"{options.output} holds a model already: choose another --output.")


def refuse(message: str) -> NoReturn:
    """End with one line."""
    sys.exit(f"pretrain.py: error: {message}")


def say(message: str) -> None:
    """Print a line, in the first of several processes."""
    if os.environ.get("RANK", "0") == "0":
        print(message)


def make_model(options: argparse.Namespace) -> "tuple[ElmoForPreTraining, ElmoTokenizer]":
    """Load the model to go on from, with another vocabulary if one is given, or initialise one for the vocabulary."""
    from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
    from elmo_hf.data.vocabulary import read_vocabulary
    from elmo_hf.training.vocabulary import change_vocabulary

    if options.model is not None:
        model, tokenizer = load_model(options)
        if options.vocab is not None:
            model, tokenizer = change_vocabulary(model, tokenizer, read_vocabulary(options.vocab))
        return model, tokenizer
    tokenizer = ElmoTokenizer(
        vocab=read_vocabulary(options.vocab),
        pre_tokenizer=options.pre_tokenizer or ("whitespace" if options.tokenized else "moses"),
        mask_token="<MASK>",
    )
    config = ElmoConfig(
        vocab_size=tokenizer.vocab_size,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        unk_token_id=tokenizer.unk_token_id,
        hidden_size=options.hidden_size,
        intermediate_size=options.intermediate_size,
        num_hidden_layers=options.layers,
        char_embedding_dim=options.char_embedding_dim,
        char_filters=options.char_filters,
        num_highway_layers=options.highways,
        hidden_dropout_prob=options.dropout,
        num_negative_samples=options.negatives,
    )
    return ElmoForPreTraining(config), tokenizer


def load_model(options: argparse.Namespace) -> "tuple[ElmoForPreTraining, ElmoTokenizer]":
    """Load the model to go on from; its softmax may be new.

    Raises:
        ElmoError: If it cannot be loaded.
    """
    from elmo_hf import ElmoError, ElmoForPreTraining, ElmoTokenizer
    from elmo_hf.bundled import model_folder
    from elmo_hf.embedding.loading import first_of, quiet_loading

    folder = model_folder(options.model)
    try:
        with quiet_loading():
            loaded: Any = ElmoForPreTraining.from_pretrained(
                folder,
                num_negative_samples=options.negatives,
                hidden_dropout_prob=options.dropout,
                output_loading_info=True,
            )
        tokenizer = ElmoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ElmoError(f"{options.model} cannot be loaded: {' '.join(str(error).split())}") from error
    model, loading = loaded
    if missing := [name for name in loading["missing_keys"] if not name.startswith("softmax.")]:
        raise ElmoError(f"The weights in {options.model} lack {first_of(missing)}: save or convert the model again.")
    if loading["missing_keys"]:
        say(f"warning: {options.model} has no softmax: this one is new, and its perplexity means nothing yet")
    return model, tokenizer


class Text(NamedTuple):
    """The text of a training.

    Attributes:
        source: What the trainer reads: sentences, or streams.
        first: The first sentences, by which the vocabulary is checked.
        sentences: Their number; `None` of streams with `--steps`, which nobody counts.
        words: The number of words.
    """

    source: "Iterable[Example] | StreamBatches"
    first: list[list[str]]
    sentences: int | None = None
    words: int | None = None


class Rows:
    """The rows of a data set that have words, and whose texts are split.

    Args:
        rows: The rows, each with a `text`, which may be a list of words.
        tokenize: Splits a sentence.
        splitter: Splits a text into sentences; without it, each is a sentence.
    """

    def __init__(
        self, rows: Any, *, tokenize: Callable[[str], list[str]], splitter: "SentenceSplitter | None" = None
    ) -> None:
        self.rows = rows
        self.tokenize = tokenize
        self.splitter = splitter

    def set_epoch(self, epoch: int) -> None:
        """Choose the order in which the rows are read next."""
        self.rows.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[str]]:
        from elmo_hf.training.batching import words_of

        for row in self.rows:
            text = row["text"]
            # a list of words is a sentence already
            split = self.splitter if isinstance(text, str) else None
            for sentence in [text] if split is None else split.split(text):
                words = words_of({"text": sentence}, self.tokenize)
                if words:
                    yield words


def load_rows(options: argparse.Namespace, split: str) -> Any:
    """Load a split of the data set, as rows whose `text` is a sentence.

    Raises:
        ElmoError: If the library is missing, or there is no such data set, split or column.
    """
    from elmo_hf import ElmoError

    try:
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError
    except ImportError as error:
        raise ElmoError("--dataset needs the library datasets: pip install datasets") from error
    try:
        rows = load_dataset(
            options.dataset,
            options.dataset_config,
            data_files=options.files or None,
            split=split,
            streaming=options.stream,
        )
    except (OSError, ValueError, DatasetsError) as error:
        reason = " ".join(str(error).split())
        raise ElmoError(f"{options.dataset} cannot be loaded ({reason}): check its name, files and split.") from error
    # a stream need not tell
    if rows.column_names is not None and options.column not in rows.column_names:
        raise ElmoError(f"{options.dataset} has the columns {', '.join(rows.column_names)}: name one by --column.")
    rows = rows.select_columns([options.column])
    return rows if options.column == "text" else rows.rename_column(options.column, "text")


def read_text(
    options: argparse.Namespace, files: Sequence[str], split: str | None, ways: dict[str, Any]
) -> "Iterable[list[str]]":
    """Read sentences from a split of the data set, or from files if there is no split.

    Args:
        options: The options.
        files: The files.
        split: The split.
        ways: What `ways_to_split` returns.
    """
    from elmo_hf.data.corpus import read_sentences

    return read_sentences(files, **ways) if split is None else Rows(load_rows(options, split), **ways)


def make_training_data(options: argparse.Namespace, tokenizer: "ElmoTokenizer") -> Text:
    """Find the text, and make streams of it if they are asked for."""
    from elmo_hf.data.corpus import SHUFFLE_BUFFER, Corpus
    from elmo_hf.training.batching import StreamBatches

    ways = ways_to_split(options, tokenizer)
    split = None if options.dataset is None else options.split
    if options.batching == "sentences":
        stored = store_text(options, tokenizer, ways)
        return Text(stored, list(islice(stored, CHECKED_SENTENCES)), len(stored), stored.words)
    # what is read again for every epoch
    source: Any
    if split is None:
        source = Corpus(options.files, **ways, seed=options.seed)
    else:
        rows = load_rows(options, split)
        rows = rows if options.stream else rows.to_iterable_dataset()
        source = Rows(rows.shuffle(seed=options.seed, buffer_size=SHUFFLE_BUFFER), **ways)
    streams = StreamBatches(source, tokenizer, batch_size=options.streams, unroll_steps=options.unroll_steps)
    sentences = iter(read_text(options, options.files, split, ways))
    first = list(islice(sentences, CHECKED_SENTENCES))
    if options.steps is not None:
        return Text(streams, first)
    lengths = Counter(map(len, chain(first, sentences)))
    return Text(streams, first, lengths.total(), sum(length * count for length, count in lengths.items()))


def store_text(options: argparse.Namespace, tokenizer: "ElmoTokenizer", ways: dict[str, Any]) -> "StoredSentences":
    """Write the text to memory-mapped files, unless they are there already: sorted by length, it is read at random.

    Args:
        options: The options.
        tokenizer: The tokenizer, which splits raw text.
        ways: What `ways_to_split` returns.
    """
    from elmo_hf import __version__
    from elmo_hf.data.corpus import find_files, read_sentences
    from elmo_hf.data.stored_text import cached_sentences, describe_files

    source: dict[str, Any] = {"elmo_hf": __version__, "language": options.split_sentences, "wrapped": options.wrapped}
    if not options.tokenized:
        # what decides how a text is split; the vocabulary does not
        backend = json.loads(tokenizer.backend_tokenizer.to_str())
        special = [token["content"] for token in backend["added_tokens"]]
        source |= {"pre_tokenizer": backend["pre_tokenizer"], "special_tokens": special}
    sentences: Iterable[list[str]]
    if options.dataset is None:
        names = find_files(options.files)
        # standard input is another text each time
        source["files"] = secrets.token_hex() if "-" in names else describe_files(names)
        sentences = read_sentences(names, **ways)
    else:
        rows = load_rows(options, options.split)
        # a stream has no fingerprint: it is known by its name, and by those of its files that are here
        named = [options.dataset, options.dataset_config, options.split, options.column, options.files]
        local = describe_files(name for name in options.files if Path(name).is_file())
        source["dataset"] = [*named, local] if options.stream else rows._fingerprint
        sentences = Rows(rows, **ways)
    return cached_sentences(options.cache_dir or options.output / TEXT_CACHE, source, sentences)


def forget_text(options: argparse.Namespace, trainer: "LanguageModelTrainer") -> None:
    """Delete the stored text of a training that has ended, unless it has a folder that the user named."""
    trainer.accelerator.wait_for_everyone()
    if trainer.is_local_process_zero():
        shutil.rmtree(options.output / TEXT_CACHE, ignore_errors=True)


def ways_to_split(options: argparse.Namespace, tokenizer: "ElmoTokenizer") -> dict[str, Any]:
    """Return what splits a text into sentences and words, as `read_sentences` takes it."""
    from elmo_hf.data.segmentation import SentenceSplitter

    language = options.split_sentences
    splitter = None if language is None else SentenceSplitter(language, wrapped=options.wrapped)
    return {"tokenize": str.split if options.tokenized else tokenizer.tokenize, "splitter": splitter}


def find_long_warm_up(arguments: "TrainingArguments", steps: int) -> Iterator[str]:
    """Say if the learning rate rises in more than half of a training.

    Args:
        arguments: The arguments of the trainer.
        steps: The number of steps of the training.
    """
    rises = arguments.get_warmup_steps(steps)
    # the schedule constant has no warm-up
    if rises > max(steps / 2, 1) and arguments.lr_scheduler_type != "constant":
        yield (
            f"the learning rate rises in the first {rises:,} steps, and the training has {steps:,}, so it hardly "
            "learns: train longer, or give --warmup-steps 0.05, which is a twentieth of the training"
        )


def find_doubts(options: argparse.Namespace, tokenizer: Any, first: list[list[str]]) -> Iterator[str]:
    """Say what shows that the vocabulary, or the text, was not split as it should be.

    Args:
        options: The options.
        tokenizer: The tokenizer, with the vocabulary.
        first: The first sentences of the text.
    """
    from elmo_hf.data.vocabulary import FIRST_WORDS, build_vocabulary
    from elmo_hf.data.vocabulary_checks import find_punctuated, find_unknown

    name = options.vocab or f"the vocabulary of {options.model}"
    vocabulary = [word for word, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    words = [word for word in vocabulary if word not in tokenizer.all_special_tokens]
    remedy = "leave out --tokenized and --pre-tokenizer whitespace"
    if (punctuated := find_punctuated(words)) is not None:
        yield (
            f"{punctuated.share:.1%} of the words of {name} end in punctuation, such as {punctuated.example}: "
            f"if it is of raw text, build it again, and {remedy}"
        )
    elif (punctuated := find_punctuated(build_vocabulary(first)[len(FIRST_WORDS) :])) is not None:
        yield (
            f"{punctuated.share:.1%} of the different words of the text end in punctuation, such as "
            f"{punctuated.example}: if the text is raw, {remedy}"
        )
    if (unknown := find_unknown(first, vocabulary)) is not None:
        yield (
            f"{unknown.share:.1%} of the first words of the text are not in {name}, such as {unknown.example}; "
            f"{unknown.expected:.1%} would be expected of its size: build one from this text, with the same "
            "--tokenized and --pre-tokenizer"
        )


def make_trainer(options: argparse.Namespace) -> "tuple[LanguageModelTrainer, Text]":
    """Put the model, the text and the options together.

    Returns:
        The trainer, and the text that it reads.
    """
    import torch
    from transformers import TrainingArguments
    from transformers.integrations import is_tensorboard_available

    from elmo_hf.training.logs import ReadableLog, replace_log
    from elmo_hf.training.pretraining import LanguageModelTrainer, StreamTrainer
    from elmo_hf.training.records import describe_source

    model, tokenizer = make_model(options)
    text = make_training_data(options, tokenizer)
    heldout = read_text(options, options.heldout, options.heldout_split, ways_to_split(options, tokenizer))
    measured = bool(options.heldout or options.heldout_split)
    # those of the epochs, which the trainer finds by itself of sentences
    steps, predictions = options.steps or -1, None
    if options.batching == "streams" and text.sentences is not None and text.words is not None:
        # a word, or the end of a sentence
        predictions = text.sentences + text.words
        step = options.streams * options.unroll_steps * options.accumulate
        steps = max(1, math.ceil(options.epochs * predictions / step))
    arguments = TrainingArguments(
        str(options.output),
        num_train_epochs=options.epochs,
        max_steps=steps,
        optim=options.optimizer,
        learning_rate=options.learning_rate,
        lr_scheduler_type=options.schedule,
        warmup_steps=options.warmup_steps,
        weight_decay=options.weight_decay,
        max_grad_norm=options.clip_norm,
        gradient_accumulation_steps=options.accumulate,
        bf16=options.bf16,
        eval_strategy="steps" if measured else "no",
        eval_steps=options.save_steps,
        save_steps=options.save_steps,
        save_total_limit=2,
        logging_steps=options.log_steps,
        # words and boundaries; in streams both directions read the same ones
        include_num_input_tokens_seen="non_padding",
        report_to="tensorboard" if is_tensorboard_available() else "none",
        # or Trainer does not see that there are several processes
        use_cpu=not torch.accelerator.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        seed=options.seed,
    )
    given: dict[str, Any] = {
        "tokenizer": tokenizer,
        "train": text.source,
        "heldout": heldout,
        "words_per_batch": options.words_per_batch,
        "max_words": options.max_words,
        "source": describe_source(
            options.files, options.dataset, config=options.dataset_config, split=options.dataset and options.split
        ),
        "heldout_source": describe_source(
            options.heldout,
            options.dataset if options.heldout_split else None,
            config=options.dataset_config,
            split=options.heldout_split,
        ),
    }
    if options.batching == "streams":
        trainer: LanguageModelTrainer = StreamTrainer(model, arguments, predictions=predictions, **given)
    else:
        trainer = LanguageModelTrainer(model, arguments, **given)
    replace_log(trainer, ReadableLog())
    return trainer, text


def describe(options: argparse.Namespace, trainer: "LanguageModelTrainer", text: Text) -> str:
    """Say in one line what is trained on what."""
    from elmo_hf.errors import counted

    model, steps = trainer.language_model, trainer.total_steps()
    config, parameters = model.config, sum(part.numel() for part in model.parameters())
    size = ""
    if text.words is not None and text.sentences is not None:
        size = f"text of {counted(text.sentences, 'sentence')} and {counted(text.words, 'word')}; "
    epochs = "" if options.steps is not None else f"epochs: {options.epochs:g}, "
    return (
        f"{'new model' if options.model is None else options.model}: {parameters:,} parameters, "
        f"{counted(config.num_hidden_layers, 'layer')}, vectors {config.hidden_size} and cells "
        f"{config.intermediate_size} wide, vocabulary of {counted(config.vocab_size - 1, 'word')}; "
        f"{size}{epochs}steps: {steps:,}"
    )


def train(options: argparse.Namespace) -> None:
    """Train, evaluate and save."""
    import torch
    from transformers import set_seed
    from transformers.utils.logging import disable_progress_bar

    from elmo_hf.errors import counted
    from elmo_hf.training.checkpoints import last_checkpoint
    from elmo_hf.training.pretraining import write_card

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    set_seed(options.seed)
    disable_progress_bar()
    checkpoint = last_checkpoint(options.output)
    trainer, text = make_trainer(options)
    if checkpoint is not None:
        steps, end = int(checkpoint.name.rpartition("-")[2]), trainer.total_steps()
        # which is written last of all
        if steps >= end and (options.output / "all_results.json").is_file():
            say(f"{options.output}: this training ended after {counted(steps, 'step')}: there is nothing to do.")
            forget_text(options, trainer)
            return
        say(f"{options.output}: going on after {steps:,} of {counted(end, 'step')}.")
    elif options.resume:
        say(f"{options.output}: there is no checkpoint yet: beginning from the start.")
    say(describe(options, trainer, text))
    for doubt in chain(
        find_long_warm_up(trainer.args, trainer.total_steps()),
        find_doubts(options, trainer.collator.lexicon.tokenizer, text.first),
    ):
        say(f"warning: {doubt}")
    metrics = trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint)).metrics
    measured = trainer.evaluate() if trainer.eval_dataset else {}
    if trainer.is_world_process_zero():
        model, tokenizer = trainer.language_model, trainer.collator.lexicon.tokenizer
        state = {name: part.half() if options.half else part for name, part in model.state_dict().items()}
        model.save_pretrained(options.output, state_dict=state)
        tokenizer.save_pretrained(options.output)
        trainer.save_metrics("train", metrics)
        trainer.save_metrics("eval", measured)
        write_card(options.output)
        print(f"Wrote the model and its card to {options.output}, after {counted(trainer.state.global_step, 'step')}.")
        if measured:
            print(
                f"Perplexity of the held-out text: {measured['eval_perplexity']:,.2f} "
                f"(forward {measured['eval_forward_perplexity']:,.2f}, "
                f"backward {measured['eval_backward_perplexity']:,.2f})."
            )
    forget_text(options, trainer)


def main() -> None:
    """Check the arguments, then train; an error is one line."""
    options = parse_arguments()
    check_files(options)
    if find_spec("accelerate") is None:
        refuse('a training needs accelerate: pip install "elmo_hf[train]"')
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError

    from elmo_hf import ElmoError

    try:
        train(options)
    except ElmoError as error:
        refuse(str(error))
    except StrictDataclassError as error:
        # what the configuration refuses is the cause of what its base class says
        refuse(" ".join(str(error.__cause__ or error).split()))
    except (OSError, SafetensorError) as error:
        refuse(f"{' '.join(str(error).split())}: check the files, and that there is room in {options.output}.")


if __name__ == "__main__":
    main()
