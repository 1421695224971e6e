"""Which layer knows parts of speech: a linear classifier on each frozen layer, as in section 5.3 of the paper.

    python benchmarks/layer_probes.py ptb_sample.conll.gz

Takes columns, word first, tag last, of which the last tenth is the test set, the tenth before it the development set;
or three files. Each classifier is one linear layer on the vector of a word, standardized, trained by Adam; the epoch
that is best on the development set is tested. Prints the accuracy in percent, mean and standard deviation over seeds,
on all words and on those that do not occur in the training set, for each layer, for all layers concatenated, and for
the most frequent tag of a word.
"""

import argparse
import copy
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import torch
from shared import run
from task_results import check_files, read_sets
from torch import nn

from elmo_hf import ELMO_SMALL_EN
from elmo_hf.embedding import embed, load
from elmo_hf.training.finetuning_options import at_least


BATCH_SIZE = 1024
LEARNING_RATE = 3e-3
EPOCHS = 40


class Words(NamedTuple):
    """The words of a data set, one after the other, with their tags."""

    words: list[str]
    tags: list[str]


class Scores(NamedTuple):
    """Accuracy in percent on all words, and on those that training did not see."""

    all: float
    unseen: float


def score(found: Sequence[str], test: Words, seen: set[str]) -> Scores:
    """Compute the accuracies; that of no unseen word is 0."""
    right = [(tag == own, word not in seen) for tag, own, word in zip(test.tags, found, test.words, strict=True)]
    unseen = [hit for hit, new in right if new]
    return Scores(100 * statistics.fmean(hit for hit, _ in right), 100 * statistics.fmean(unseen or [0]))


def most_frequent_tags(train: Words, test: Words) -> list[str]:
    """Give each word its most frequent tag, or the most frequent of all if training did not see it."""
    tags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(*train, strict=True):
        tags[word][tag] += 1
    most = Counter(train.tags).most_common(1)[0][0]
    return [tags[word].most_common(1)[0][0] if word in tags else most for word in test.words]


def embed_words(sets: dict[str, list[list[str]]], model: str) -> dict[str, torch.Tensor]:
    """Compute the vectors of all words of each data set in all layers, `[L + 1, N, H]`."""
    elmo, tokenizer = load(model)
    return {
        name: torch.cat([torch.from_numpy(rows) for rows in embed(elmo, tokenizer, sentences, layers="all")], dim=1)
        for name, sentences in sets.items()
    }


def standardize(vectors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Shift and scale each number of the vectors `[N, H]` to mean 0 and deviation 1 in the training set."""
    deviation, mean = torch.std_mean(vectors["train"], dim=0)
    return {name: (part - mean) / deviation.clamp(min=1e-6) for name, part in vectors.items()}


def probe(vectors: dict[str, torch.Tensor], tags: dict[str, torch.Tensor], num_tags: int, seed: int) -> torch.Tensor:
    """Train a linear classifier; return the tags that it gives the test set, `[N]`.

    Args:
        vectors: For each of `train`, `dev` and `test`, the vectors of its words, `[N, H]`.
        tags: The numbers of their tags, `[N]`.
        num_tags: How many tags there are.
        seed: Of the first weights and of the order.
    """
    torch.manual_seed(seed)
    vectors = standardize(vectors)
    classifier = nn.Linear(vectors["train"].shape[1], num_tags)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=LEARNING_RATE)
    best, state = -1.0, copy.deepcopy(classifier.state_dict())
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(tags["train"])).split(BATCH_SIZE):
            loss = nn.functional.cross_entropy(classifier(vectors["train"][rows]), tags["train"][rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            right = (classifier(vectors["dev"]).argmax(dim=-1) == tags["dev"]).float().mean().item()
        if right > best:
            best, state = right, copy.deepcopy(classifier.state_dict())
    classifier.load_state_dict(state)
    with torch.no_grad():
        return classifier(vectors["test"]).argmax(dim=-1)


def show(name: str, scores: Sequence[Scores]) -> None:
    """Print the row of a classifier: means and standard deviations."""
    columns = [
        f"{statistics.fmean(column):.2f}" + (f" ± {statistics.stdev(column):.2f}" if len(column) > 1 else "")
        for column in zip(*scores, strict=True)
    ]
    print(f"| {name} | {' | '.join(columns)} |", flush=True)


def main() -> None:
    """Train the classifiers and report."""
    parser = argparse.ArgumentParser(description="Measure which layer knows parts of speech.")
    parser.add_argument("files", nargs="+", help="train, dev and test; or one file")
    parser.add_argument("--model", default=ELMO_SMALL_EN, help="folder of the biLM; elmo-small-en by default")
    parser.add_argument("--seeds", type=at_least(1), default=3, help="trainings, each with its own seed (default: 3)")
    parser.add_argument("--threads", type=at_least(1), default=1, help="threads of the CPU (default: 1)")
    options = parser.parse_args()
    check_files(parser, options.files)
    torch.set_num_threads(options.threads)
    sets = read_sets(options.files)
    sentences = {name: [example.sentences[0] for example in examples] for name, examples in sets.items()}
    words = {
        name: Words(list(chain(*sentences[name])), [tag for example in examples for tag in example.labels])
        for name, examples in sets.items()
    }
    names = sorted({tag for part in words.values() for tag in part.tags})
    tags = {name: torch.tensor([names.index(tag) for tag in part.tags]) for name, part in words.items()}
    seen, test = set(words["train"].words), words["test"]
    unseen = sum(word not in seen for word in test.words)
    print(f"| accuracy | all {len(test.words):,} words | {unseen:,} unseen words |\n|---|---|---|")
    show("most frequent tag", [score(most_frequent_tags(words["train"], test), test, seen)])
    layers = embed_words(sentences, options.model)
    rows = {"token layer" if layer == 0 else f"layer {layer}": [layer] for layer in range(len(layers["train"]))}
    rows["all layers"] = list(range(len(layers["train"])))
    for row, chosen in rows.items():
        # the vectors of the chosen layers side by side
        vectors = {name: torch.cat([part[layer] for layer in chosen], dim=-1) for name, part in layers.items()}
        found = [probe(vectors, tags, len(names), seed) for seed in range(options.seeds)]
        show(row, [score([names[tag] for tag in one.tolist()], test, seen) for one in found])


if __name__ == "__main__":
    run(main)
