"""Train the bidirectional language model of an ELMo, from nothing or from a model that is there.

    elmo-hf build-vocab corpus/*.gz --output vocab.txt --min-count 5
    python examples/pretrain.py corpus/*.gz --vocab vocab.txt --heldout heldout.txt --output my-elmo

One sentence a line, words apart by white space; `--dataset NAME` takes a data set of the library datasets instead.
`torchrun --nproc-per-node 2 examples/pretrain.py ...` trains in two processes. `--model DIR` goes on from a model, as
on the text of a domain. Run again with `--resume`, an interrupted training goes on from its last checkpoint to the
same result.
"""

import argparse
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments, set_seed
from transformers.integrations import is_tensorboard_available

from elmo_hf import ElmoConfig, ElmoError, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.batching import Example, StreamBatches, words_of
from elmo_hf.corpus import SHUFFLE_BUFFER, Corpus, read_sentences, read_vocabulary
from elmo_hf.pretraining import LanguageModelTrainer
from elmo_hf.vocabulary import change_vocabulary


def filters(text: str) -> list[list[int]]:
    """Read `1x16,2x32` as `[[1, 16], [2, 32]]`: the width and number of the convolutions."""
    return [[int(number) for number in pair.split("x")] for pair in text.split(",")]


def parse_arguments() -> argparse.Namespace:
    """Describe the command line; the defaults are those of a small model on a CPU."""
    parser = argparse.ArgumentParser(
        description="Train the bidirectional language model of an ELMo.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "files", nargs="*", help="text, one sentence a line, words apart by white space; may be .gz; or of --dataset"
    )
    data.add_argument("--dataset", metavar="NAME", help="a data set: on the Hub, in a folder, or json, ... of FILES")
    data.add_argument("--dataset-config", metavar="NAME", help="which of the data set's configurations")
    data.add_argument("--split", default="train", help="of the data set")
    data.add_argument("--column", default="text", help="of the data set, a sentence a row: a text, or a list of words")
    data.add_argument("--stream", action="store_true", help="do not store the data set on the disk")
    heldout = data.add_mutually_exclusive_group()
    heldout.add_argument("--heldout", nargs="*", default=[], metavar="FILE", help="text to measure perplexity on")
    heldout.add_argument("--heldout-split", metavar="SPLIT", help="of the data set, to measure perplexity on")
    data.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the model and checkpoints")
    data.add_argument("--batching", choices=("sentences", "streams"), default="sentences", help="streams: as bilm-tf")
    data.add_argument("--words-per-batch", type=int, default=2048, help="of sentences, padding included")
    data.add_argument("--max-words", type=int, default=400, help="cut longer sentences")
    data.add_argument("--streams", type=int, default=128, help="streams of a batch")
    data.add_argument("--unroll-steps", type=int, default=20, help="words of a window of a stream")
    model = parser.add_argument_group("model")
    model.add_argument("--vocab", type=Path, metavar="FILE", help="vocabulary, from elmo-hf build-vocab")
    model.add_argument("--model", metavar="DIR", help="go on from this model; with --vocab, in another vocabulary")
    model.add_argument("--hidden-size", type=int, default=256, help="width of a vector, both directions")
    model.add_argument("--intermediate-size", type=int, default=256, help="width of a cell")
    model.add_argument("--layers", type=int, default=2)
    model.add_argument("--char-embedding-dim", type=int, default=16)
    model.add_argument("--char-filters", type=filters, default="1x16,2x32,3x64,4x96,5x96")
    model.add_argument("--highways", type=int, default=1)
    model.add_argument("--dropout", type=float, default=0.1, help="on the input of each layer and of the softmax")
    model.add_argument("--negatives", type=int, default=2048, help="words sampled for a batch; 0: the whole softmax")
    training = parser.add_argument_group("training")
    training.add_argument("--epochs", type=float, default=5)
    training.add_argument("--steps", type=int, default=-1, help="end after so many steps, whatever the epochs")
    training.add_argument("--optimizer", choices=("adamw_torch", "adagrad"), default="adamw_torch")
    training.add_argument("--learning-rate", type=float, default=3e-3, help="bilm-tf: 0.2 with adagrad")
    training.add_argument("--schedule", default="cosine", help="of the learning rate; bilm-tf: constant")
    training.add_argument("--warmup-steps", type=int, default=200)
    training.add_argument("--weight-decay", type=float, default=0.01)
    training.add_argument("--clip-norm", type=float, default=1.0, help="of the gradient; bilm-tf: 10")
    training.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    training.add_argument("--bf16", action="store_true", help="multiply in bfloat16")
    training.add_argument("--save-steps", type=int, default=500)
    training.add_argument("--log-steps", type=int, default=50)
    training.add_argument("--resume", action="store_true", help="go on from the last checkpoint in DIR")
    training.add_argument("--half", action="store_true", help="store the result in float16; it loads in float32")
    training.add_argument("--threads", type=int, default=torch.get_num_threads())
    training.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.model is None and options.vocab is None:
        parser.error("give --vocab to begin from nothing, or --model to go on")
    if not options.files and options.dataset is None:
        parser.error("give files of text, or --dataset")
    if options.dataset is None and (options.stream or options.heldout_split or options.dataset_config):
        parser.error("--stream, --heldout-split and --dataset-config are for --dataset")
    return options


def make_model(options: argparse.Namespace) -> tuple[ElmoForPreTraining, ElmoTokenizer]:
    """Load the model to go on from, with another vocabulary if one is given, or initialise one for the vocabulary."""
    if options.model is not None:
        loaded: Any = ElmoForPreTraining.from_pretrained(
            options.model,
            num_negative_samples=options.negatives,
            hidden_dropout_prob=options.dropout,
            output_loading_info=True,
        )
        model, loading = loaded
        tokenizer = ElmoTokenizer.from_pretrained(options.model)
        if any(name.startswith("softmax") for name in loading["missing_keys"]):
            print(f"warning: {options.model} has no softmax: this one is new, and its perplexity means nothing yet")
        if options.vocab is not None:
            model, tokenizer = change_vocabulary(model, tokenizer, read_vocabulary(options.vocab))
        return model, tokenizer
    tokenizer = ElmoTokenizer(vocab=read_vocabulary(options.vocab), mask_token="<MASK>")
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


def load_rows(options: argparse.Namespace, split: str) -> Any:
    """Load a split of the data set, as rows whose `text` is a sentence.

    Raises:
        ElmoError: If the library is missing, or there is no such data set, split or column.
    """
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


def make_training_data(
    options: argparse.Namespace, tokenizer: ElmoTokenizer
) -> tuple[Iterable[Example] | StreamBatches, int]:
    """Find the text and make streams of it if they are asked for.

    Returns:
        The sentences, or streams; and how many steps to take, -1 for those that the trainer finds by the epochs.
    """
    if options.batching == "sentences":
        # the trainer holds them all, to sort them by length
        sentences = read_sentences(options.files) if options.dataset is None else load_rows(options, options.split)
        return sentences, options.steps
    # what is read again for every epoch, and the same once, in any order
    source: Any
    text: Iterable[Example]
    if options.dataset is None:
        source = Corpus(options.files, seed=options.seed)
        text = read_sentences(source.names)
    else:
        text = rows = load_rows(options, options.split)
        source = rows if options.stream else rows.to_iterable_dataset()
        source = source.shuffle(seed=options.seed, buffer_size=SHUFFLE_BUFFER)
    steps = options.steps
    if steps < 0:
        predictions = sum(len(words) + 1 for words in map(words_of, text) if words)
        steps = math.ceil(options.epochs * predictions / (options.streams * options.unroll_steps))
    streams = StreamBatches(source, tokenizer, batch_size=options.streams, unroll_steps=options.unroll_steps)
    return streams, steps


def main() -> None:
    """Train, evaluate and save."""
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    set_seed(options.seed)
    model, tokenizer = make_model(options)
    train, steps = make_training_data(options, tokenizer)
    heldout: Iterable[Example] = ()
    if options.heldout_split is not None:
        heldout = load_rows(options, options.heldout_split)
    elif options.heldout:
        heldout = read_sentences(options.heldout)
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
        eval_strategy="steps" if heldout else "no",
        eval_steps=options.save_steps,
        save_steps=options.save_steps,
        save_total_limit=2,
        logging_steps=options.log_steps,
        # words and boundaries; in streams both directions read the same ones
        include_num_input_tokens_seen="non_padding",
        report_to="tensorboard" if is_tensorboard_available() else "none",
        dataloader_pin_memory=torch.cuda.is_available(),
        seed=options.seed,
    )
    trainer = LanguageModelTrainer(
        model,
        arguments,
        tokenizer=tokenizer,
        train=train,
        heldout=heldout,
        words_per_batch=options.words_per_batch,
        max_words=options.max_words,
    )
    trainer.train(resume_from_checkpoint=options.resume or None)
    if trainer.eval_dataset:
        trainer.evaluate()
    if trainer.is_world_process_zero():
        state = {name: part.half() if options.half else part for name, part in model.state_dict().items()}
        model.save_pretrained(options.output, state_dict=state)
        tokenizer.save_pretrained(options.output)


if __name__ == "__main__":
    try:
        main()
    except ElmoError as error:
        sys.exit(f"pretrain.py: error: {error}")
