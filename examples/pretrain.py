"""Train the bidirectional language model of an ELMo on text files, from nothing or from a model that is there.

    elmo-hf build-vocab corpus/*.gz --output vocab.txt --min-count 5
    python examples/pretrain.py corpus/*.gz --vocab vocab.txt --heldout heldout.txt --output my-elmo

One sentence a line, words apart by white space. `torchrun --nproc-per-node 2 examples/pretrain.py ...` trains in two
processes. `--model DIR` goes on from a model, as on the text of a domain. Run again with `--resume`, an interrupted
training goes on from its last checkpoint to the same result.
"""

import argparse
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments, set_seed
from transformers.integrations import is_tensorboard_available

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.batching import StreamBatches
from elmo_hf.corpus import Corpus, read_sentences, read_vocabulary
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
    data.add_argument("files", nargs="+", help="text, one sentence a line, words apart by white space; may be .gz")
    data.add_argument("--heldout", nargs="*", default=[], metavar="FILE", help="text to measure perplexity on")
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


def main() -> None:
    """Train, evaluate and save."""
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    set_seed(options.seed)
    model, tokenizer = make_model(options)
    steps = -1
    train: Iterable[list[str]] | StreamBatches
    if options.batching == "streams":
        corpus = Corpus(options.files, seed=options.seed)
        predictions = sum(len(words) + 1 for words in read_sentences(corpus.names))
        steps = math.ceil(options.epochs * predictions / (options.streams * options.unroll_steps))
        train = StreamBatches(corpus, tokenizer, batch_size=options.streams, unroll_steps=options.unroll_steps)
    else:
        train = read_sentences(options.files)
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
        eval_strategy="steps" if options.heldout else "no",
        eval_steps=options.save_steps,
        save_steps=options.save_steps,
        save_total_limit=2,
        logging_steps=options.log_steps,
        include_num_input_tokens_seen="all",
        report_to="tensorboard" if is_tensorboard_available() else "none",
        dataloader_pin_memory=torch.cuda.is_available(),
        seed=options.seed,
    )
    trainer = LanguageModelTrainer(
        model,
        arguments,
        tokenizer=tokenizer,
        train=train,
        heldout=read_sentences(options.heldout) if options.heldout else (),
        words_per_batch=options.words_per_batch,
        max_words=options.max_words,
    )
    trainer.train(resume_from_checkpoint=options.resume or None)
    if options.heldout:
        trainer.evaluate()
    if trainer.is_world_process_zero():
        state = {name: part.half() if options.half else part for name, part in model.state_dict().items()}
        model.save_pretrained(options.output, state_dict=state)
        tokenizer.save_pretrained(options.output)


if __name__ == "__main__":
    main()
