"""Words a second and peak memory of each head, in training and prediction, on layers that were computed before.

    python benchmarks/bench_heads.py --threads 1

The layers are random numbers in the sizes of a release (`--hidden-size 1024`, `--layers 2`); heads have the widths of
the paper's systems. A batch has 32 sentences of 20 words; or 8 questions of 12 words, each with a context of 150; or a
document of 50 sentences. Prediction of coreference reads 5,000 words. Every head runs in a process of its own; the
table has its peak memory less that after the imports.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers
from transformers.utils import logging

from elmo_hf import (
    ElmoConfig,
    ElmoForCoreferenceResolution,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
)


# a name, its class, its head, and the width that the paper's system has
HEADS: dict[str, tuple[Any, str, int]] = {
    "tags, linear": (ElmoForTokenClassification, "linear", 200),
    "names, bilstm-crf": (ElmoForTokenClassification, "bilstm-crf", 200),
    "semantic roles, alternating-lstm": (ElmoForTokenClassification, "alternating-lstm", 300),
    "sentences, mean": (ElmoForSequenceClassification, "mean", 200),
    "sentences, bcn": (ElmoForSequenceClassification, "bcn", 300),
    "pairs, esim": (ElmoForSequenceClassification, "esim", 300),
    "answers, linear": (ElmoForQuestionAnswering, "linear", 200),
    "answers, bidaf": (ElmoForQuestionAnswering, "bidaf", 90),
    "coreference": (ElmoForCoreferenceResolution, "coarse-to-fine", 200),
}
LABELS = 20
BOS, EOS, WORD = 1, 2, 3
SENTENCES, WORDS = 32, 20
QUESTIONS, QUESTION_WORDS, CONTEXT_WORDS = 8, 12, 150
DOCUMENT_SENTENCES, LONG_DOCUMENT_SENTENCES = 50, 250


def make_model(name: str, options: argparse.Namespace) -> Any:
    """Make the model of a head; its biLM is tiny, because it does not run."""
    cls, head, width = HEADS[name]
    names = ["O", *(f"{prefix}-{number}" for number in range(LABELS // 2) for prefix in "BI")]
    config = ElmoConfig(
        hidden_size=options.hidden_size,
        intermediate_size=8,
        num_hidden_layers=options.layers,
        char_filters=[[1, 4]],
        num_highway_layers=0,
        head=head,
        head_hidden_size=width,
        id2label=dict(enumerate(names)),
    )
    return cls(config)


def sentence_ids(count: int) -> list[int]:
    """Return the word ids of a sentence of `count` words."""
    return [BOS, *[WORD] * count, EOS]


def make_batch(name: str, options: argparse.Namespace, *, training: bool) -> tuple[dict[str, torch.Tensor], int]:
    """Return what a model of a head reads, with labels for training, and the number of its words."""
    cls, head, _ = HEADS[name]
    batch: dict[str, torch.Tensor] = {}
    if cls is ElmoForQuestionAnswering:
        ids = torch.tensor([sentence_ids(QUESTION_WORDS) + sentence_ids(CONTEXT_WORDS)] * QUESTIONS)
        first = torch.full((QUESTIONS,), QUESTION_WORDS + 10)
        labels = {"start_positions": first, "end_positions": first + 2}
    elif cls is ElmoForCoreferenceResolution:
        count = DOCUMENT_SENTENCES if training else LONG_DOCUMENT_SENTENCES
        ids = torch.tensor([[sentence_ids(WORDS)] * count])
        # a mention of two words in each sentence, ten clusters
        labels = {"labels": torch.tensor([[[WORDS * row, WORDS * row + 1, row % 10] for row in range(count)]])}
    else:
        pair = sentence_ids(WORDS) if head == "esim" else []
        ids = torch.tensor([sentence_ids(WORDS) + pair] * SENTENCES)
        labels = {"labels": torch.randint(LABELS, (SENTENCES,))}
        if cls is ElmoForTokenClassification:
            labels = {"labels": torch.where(ids == WORD, torch.randint(LABELS, ids.shape), -100)}
        if head == "alternating-lstm":
            batch["token_type_ids"] = torch.zeros_like(ids).index_fill(1, torch.tensor([3]), 1)
    batch |= {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    batch["bilm_layers"] = torch.randn(*ids.shape, options.layers + 1, options.hidden_size).half()
    return batch | (labels if training else {}), int((ids == WORD).sum())


def median_seconds(step: Callable[[], Any], seconds: float) -> float:
    """Run a step again and again, and return how long it takes in the median."""
    step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(name: str, options: argparse.Namespace, *, training: bool) -> dict[str, float]:
    """Measure a head in this process: words a second, and the peak of its memory in MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = make_model(name, options).train(training)
    batch, words = make_batch(name, options, training=training)
    optimizer = torch.optim.Adam([part for part in model.parameters() if part.requires_grad])

    def train() -> None:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    @torch.no_grad()
    def predict() -> None:
        model(**batch)

    seconds = median_seconds(train if training else predict, options.seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"words": words / seconds, "memory": peak / 1024}


def measure_elsewhere(name: str, *, training: bool) -> dict[str, float]:
    """Do what `measure` does in a process of its own."""
    own = [sys.executable, __file__, *sys.argv[1:], "--head", name, *(["--training"] if training else [])]
    done = subprocess.run(own, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure all heads, or one in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden-size", type=int, default=1024, help="width of a vector (default: 1024)")
    parser.add_argument("--layers", type=int, default=2, help="biLSTM layers (default: 2)")
    parser.add_argument("--threads", type=int, default=1, help="threads of the CPU (default: 1)")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement (default: 5)")
    parser.add_argument("--head", choices=HEADS, help=argparse.SUPPRESS)
    parser.add_argument("--training", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    logging.set_verbosity_error()
    if options.head:
        print(json.dumps(measure(options.head, options, training=options.training)))
        return
    print(f"{platform.machine()}, torch {torch.__version__}, transformers {transformers.__version__}")
    print("| head | training, words/s | MB | prediction, words/s | MB |\n|---|---|---|---|---|")
    for name in HEADS:
        cells = [measure_elsewhere(name, training=training) for training in (True, False)]
        shown = " | ".join(f"{cell['words']:,.0f} | {cell['memory']:,.0f}" for cell in cells)
        print(f"| {name} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
