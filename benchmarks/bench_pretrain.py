"""Words a second, and memory, of training a language model on continuous streams as bilm-tf does.

    python benchmarks/bench_pretrain.py TEXT --vocab vocab.txt --threads 2

The model has two layers with 256 cells, projected to 128. Batches of 128 streams of 20 words, 1,024 sampled words,
dropout 0.1, Adagrad and the gradient clipped by its norm are as bilm-tf trains. A word is counted once for both
directions.
"""

import argparse
import platform
import resource
import statistics
import time
from pathlib import Path

import torch

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.data.corpus import Corpus
from elmo_hf.data.vocabulary import read_vocabulary
from elmo_hf.training.batching import StreamBatches


def main() -> None:
    """Train for some seconds and report."""
    parser = argparse.ArgumentParser(description="Measure the speed and memory of training a language model.")
    parser.add_argument("text", help="one tokenised sentence a line, plain or compressed")
    parser.add_argument("--vocab", required=True, type=Path, metavar="FILE")
    parser.add_argument("--streams", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    tokenizer = ElmoTokenizer(read_vocabulary(options.vocab))
    config = ElmoConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=256,
        intermediate_size=256,
        char_filters=[[1, 16], [2, 32], [3, 64], [4, 96], [5, 96]],
        num_highway_layers=1,
        hidden_dropout_prob=0.1,
        num_negative_samples=1024,
    )
    model = ElmoForPreTraining(config).train()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.2, initial_accumulator_value=1.0)
    batches = StreamBatches(Corpus(options.text, seed=0), tokenizer, batch_size=options.streams)
    state, speeds, begin, before = None, [], time.perf_counter(), time.perf_counter()
    for step, batch in enumerate(batches):
        output = model(**batch, state=state, use_cache=True)
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10)
        optimizer.step()
        optimizer.zero_grad()
        state = tuple((hidden.detach(), cell.detach()) for hidden, cell in output.state)
        after = time.perf_counter()
        # the first steps warm up
        if step > 2:
            speeds.append(int(batch["attention_mask"].sum()) / (after - before))
        before = after
        if after - begin > options.seconds:
            break
    print(f"{platform.machine()}, {options.threads} threads, torch {torch.__version__}")
    print(f"{model.num_parameters():,} parameters, {options.streams} streams of 20 words, {len(speeds)} steps")
    quartiles = statistics.quantiles(speeds, n=4)
    print(f"words/s: median {quartiles[1]:,.0f}, quartiles {quartiles[0]:,.0f} to {quartiles[2]:,.0f}")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


if __name__ == "__main__":
    main()
