"""What ELMo adds to a task: the same head on its vectors, and on word embeddings of its own that it learns.

    python benchmarks/task_results.py wnut17.train.conll wnut17.dev.conll wnut17.test.conll --head bilstm-crf
    python benchmarks/task_results.py sst5.train.jsonl sst5.dev.jsonl sst5.test.jsonl --head bcn --part 0.1

Files are columns (word first, tag last) or JSON lines (`tokens`, or `premise` and `hypothesis`; `label`), plain or
compressed. Of a single file of columns the last tenth is the test set, the tenth before it the development set. The
biLM is frozen, and its layers are computed once. The epoch that is best on the development set is tested. Prints a
line for each seed, and the mean and standard deviation of all: entity F1 where the tags are BIO, else accuracy, in
percent. Where the training set contains the whole development set, those examples are left out.
"""

import argparse
import copy
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from seqeval.metrics import f1_score
from torch import nn
from tqdm import tqdm
from transformers.utils import logging

from elmo_hf import ELMO_TINY_EN, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from elmo_hf.data.records import read_labelled
from elmo_hf.data.tagged import read_tagged


BATCH_SIZE = 32
# of how often a word was seen in training, at which it may stand for those that were not
SINGLETON = 1


class Example(NamedTuple):
    """A sentence, or the two of a pair, and its label or those of its words."""

    sentences: list[list[str]]
    labels: list[str]


def read(path: str) -> list[Example]:
    """Read a file of columns or of JSON lines."""
    if ".json" not in Path(path).name:
        return [Example([words], tags) for words, tags in read_tagged(path)]
    return [
        Example([side if isinstance(side, list) else side.split() for side in sides if side is not None], [str(label)])
        for *sides, label in read_labelled(path)
    ]


def without_dev(train: list[Example], dev: Sequence[Example]) -> list[Example]:
    """Take out a development set that a training set contains as a whole, as that of some copies of SST-5 does."""
    texts = [example.sentences for example in dev]
    rest = [example for example in train if example.sentences not in texts]
    if len(train) - len(rest) < len(dev):
        return train
    print(f"The training set contains the development set: {len(train) - len(rest):,} examples are left out.")
    return rest


def read_sets(files: Sequence[str]) -> dict[str, list[Example]]:
    """Read training, development and test set; of a single file, the last two are the last two tenths."""
    sets = dict(zip(("train", "dev", "test"), map(read, files), strict=False))
    if len(files) == 1:
        everything = sets["train"]
        tenth = len(everything) // 10
        sets = {"train": everything[: -2 * tenth], "dev": everything[-2 * tenth : -tenth], "test": everything[-tenth:]}
    return {**sets, "train": without_dev(sets["train"], sets["dev"])}


class WordEmbeddings(nn.Module):
    """Word embeddings that are learned with the task, in the place of the layers of a biLM."""

    def __init__(self, train: Sequence[Example], width: int, layers: int) -> None:
        super().__init__()
        counts = Counter(word for example in train for words in example.sentences for word in words)
        # 0 is padding, 1 a word that was not seen
        self.numbers = {word: number for number, word in enumerate(counts, start=2)}
        self.single = torch.tensor([False, False, *(count == SINGLETON for count in counts.values())])
        self.table = nn.Embedding(len(counts) + 2, width, padding_idx=0)
        nn.init.uniform_(self.table.weight, -((3 / width) ** 0.5), (3 / width) ** 0.5)
        self.layers = layers

    def forward(self, rows: list[list[str]]) -> torch.Tensor:
        """Look up the words of each row, `[B, T, L + 1, H]`."""
        ids = nn.utils.rnn.pad_sequence(
            [torch.tensor([self.numbers.get(word, 1) for word in row]) for row in rows], batch_first=True
        )
        if self.training:
            dropped = self.single[ids] & (torch.rand(ids.shape) < 0.5)
            ids = ids.masked_fill(dropped, 1)
        return self.table(ids)[:, :, None].expand(-1, -1, self.layers, -1)


class Task:
    """The data of a task, encoded, with the layers of the biLM for each row."""

    def __init__(self, sets: dict[str, list[Example]], model: str, with_elmo: bool) -> None:
        self.tokenizer = ElmoTokenizer.from_pretrained(model)
        self.of_words = any(len(example.labels) > 1 for example in sets["train"])
        self.names = sorted({label for examples in sets.values() for example in examples for label in example.labels})
        self.sets = sets
        self.rows: dict[int, torch.Tensor] = {}
        if with_elmo:
            elmo = ElmoModel.from_pretrained(model).eval()
            for examples in sets.values():
                batches = list(chunks(sorted(examples, key=size_of)))
                # on a terminal only
                for chunk in tqdm(batches, desc="layers", unit="batch", leave=False, disable=None):
                    self.embed(elmo, chunk)

    @torch.inference_mode()
    def embed(self, elmo: Any, chunk: Sequence[Example]) -> None:
        """Compute the layers of some examples, each sentence by itself."""
        sentences = [words for example in chunk for words in example.sentences]
        batch = self.tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
        output = elmo(**batch, output_hidden_states=True)
        layers = torch.stack(output.hidden_states, dim=2)
        parts = iter([row[mask.bool()] for row, mask in zip(layers, batch["attention_mask"], strict=True)])
        for example in chunk:
            self.rows[id(example)] = torch.cat([next(parts) for _ in example.sentences])

    def batch(self, chunk: Sequence[Example], embeddings: WordEmbeddings | None) -> dict[str, Any]:
        """Make what the model takes."""
        columns = [list(side) for side in zip(*(example.sentences for example in chunk), strict=True)]
        encoded = self.tokenizer(*columns, is_split_into_words=True, padding=True, return_tensors="pt")
        numbers = {name: number for number, name in enumerate(self.names)}
        if self.of_words:
            labels = torch.full_like(encoded["input_ids"], -100)
            for row, example in zip(labels, chunk, strict=True):
                row[1 : len(example.labels) + 1] = torch.tensor([numbers[label] for label in example.labels])
        else:
            labels = torch.tensor([numbers[example.labels[0]] for example in chunk])
        if embeddings is None:
            layers = nn.utils.rnn.pad_sequence([self.rows[id(example)] for example in chunk], batch_first=True).clone()
        else:
            layers = embeddings(
                [[word for words in example.sentences for word in ("<S>", *words, "</S>")] for example in chunk]
            )
        return {
            "input_ids": encoded["input_ids"],
            "attention_mask": encoded["attention_mask"],
            "bilm_layers": layers,
            "labels": labels,
        }


def size_of(example: Example) -> int:
    """Count the words of an example."""
    return sum(map(len, example.sentences))


def chunks(examples: Sequence[Example]) -> Iterator[Sequence[Example]]:
    """Cut in batches."""
    return (examples[start : start + BATCH_SIZE] for start in range(0, len(examples), BATCH_SIZE))


@torch.no_grad()
def measure(model: Any, task: Task, name: str, embeddings: WordEmbeddings | None) -> float:
    """Compute entity F1 or accuracy, in percent."""
    model.eval()
    found: list[list[str]] = []
    right: list[list[str]] = []
    for chunk in chunks(sorted(task.sets[name], key=size_of)):
        batch = task.batch(chunk, embeddings)
        labels = batch.pop("labels").reshape(len(chunk), -1)
        best = model(**batch).logits.argmax(dim=-1).reshape(len(chunk), -1)
        for row, own in zip(labels, best, strict=True):
            right.append([task.names[label] for label in row[row != -100].tolist()])
            found.append([task.names[label] for label in own[row != -100].tolist()])
    if any(label.startswith("B-") for label in task.names):
        return 100 * float(f1_score(right, found))
    pairs = [pair for rows in zip(right, found, strict=True) for pair in zip(*rows, strict=True)]
    return 100 * statistics.fmean(one == other for one, other in pairs)


def train(task: Task, options: argparse.Namespace, seed: int) -> tuple[float, float, Any]:
    """Train with one seed; return the scores on the development and the test set, and the layer weights."""
    torch.manual_seed(seed)
    choose = random.Random(seed)
    cls = ElmoForTokenClassification if task.of_words else ElmoForSequenceClassification
    model = cls.from_pretrained(
        options.model,
        head=options.head,
        head_hidden_size=options.hidden_size,
        id2label=dict(enumerate(task.names)),
        # a model without ELMo takes its embeddings, whatever the number of layers
        layer=0 if options.without_elmo else options.layer,
        mix_at=options.mix_at,
        mix_regularization=options.mix_regularization,
    )
    embeddings = None
    if options.without_elmo:
        embeddings = WordEmbeddings(task.sets["train"], model.config.hidden_size, model.config.num_hidden_layers + 1)
    trained = nn.ModuleList([model] if embeddings is None else [model, embeddings])
    parameters = [part for part in trained.parameters() if part.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=options.learning_rate)
    best, state, waited = -1.0, copy.deepcopy(trained.state_dict()), 0
    for epoch in range(options.epochs):
        trained.train()
        # sentences of like length, in another order each time
        order = sorted(task.sets["train"], key=lambda example: size_of(example) + 3 * choose.random())
        batches = list(chunks(order))
        choose.shuffle(batches)
        for chunk in tqdm(batches, desc=f"seed {seed}, epoch {epoch}", unit="batch", leave=False, disable=None):
            loss = model(**task.batch(chunk, embeddings)).loss
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 5)
            optimizer.step()
            optimizer.zero_grad()
        score = measure(trained.eval()[0], task, "dev", embeddings)
        if sys.stderr.isatty():
            print(f"seed {seed}, epoch {epoch}: dev {score:.2f}", file=sys.stderr)
        # of few sentences, the first epochs may find no entity at all
        waited += score > 0
        if score > best:
            best, state, waited = score, copy.deepcopy(trained.state_dict()), 0
        if waited >= options.patience:
            break
    trained.load_state_dict(state)
    return best, measure(trained.eval()[0], task, "test", embeddings), model.layer_weights()


def layer_of(text: str) -> str | int:
    """Read the name or the number of a layer."""
    return int(text) if text.isdigit() else text


def part_of(train: Sequence[Example], part: float, seed: int = 0) -> list[Example]:
    """Take a share of the training set at random, the same with and without ELMo."""
    return random.Random(seed).sample(train, round(part * len(train)))


def add_training(parser: argparse.ArgumentParser) -> None:
    """Describe the options of the model and of its training, which other benchmarks have too."""
    parser.add_argument("--model", default=ELMO_TINY_EN, help="folder of the biLM; elmo-tiny-en by default")
    parser.add_argument("--mix-at", default="input", help="where the head reads ELMo: input (default), output or both")
    parser.add_argument("--mix-regularization", type=float, default=0.0, help="lambda of the mix (default: 0)")
    parser.add_argument("--hidden-size", type=int, default=100, help="width of one direction of a biLSTM")
    parser.add_argument("--epochs", type=int, default=15, help="most epochs (default: 15)")
    parser.add_argument("--patience", type=int, default=4, help="epochs without a better score before the end")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of Adam (default: 0.001)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings, each with its own seed (default: 3)")
    parser.add_argument("--threads", type=int, default=1, help="threads of the CPU (default: 1)")


def main() -> None:
    """Train with each seed and report."""
    parser = argparse.ArgumentParser(description="Measure what ELMo adds to a task.")
    parser.add_argument("files", nargs="+", help="train, dev and test; or one file of columns")
    parser.add_argument("--head", required=True, help="linear, bilstm-crf, mean, max, bcn or esim")
    parser.add_argument("--without-elmo", action="store_true", help="learn word embeddings instead")
    parser.add_argument("--part", type=float, default=1.0, help="share of the training set that is used")
    parser.add_argument(
        "--layer", default="mix", type=layer_of, help="mix (default), average, top, or a layer's number"
    )
    add_training(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    sets = read_sets(options.files)
    sets["train"] = part_of(sets["train"], options.part)
    task = Task(sets, options.model, with_elmo=not options.without_elmo)
    kind = "without ELMo" if options.without_elmo else "with ELMo"
    print(
        f"{Path(options.files[0]).name}, {options.head}, {kind}, {len(sets['train']):,} training examples", flush=True
    )
    scores = []
    for seed in range(options.seeds):
        start = time.perf_counter()
        dev, test, weights = train(task, options, seed)
        scores.append(test)
        # without ELMo there are no layers to weigh
        shown = "" if options.without_elmo else f", {weights}"
        print(f"seed {seed}: dev {dev:.2f} test {test:.2f}, {time.perf_counter() - start:.0f} s{shown}", flush=True)
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    print(f"mean {statistics.fmean(scores):.2f} standard deviation {spread:.2f}", flush=True)


if __name__ == "__main__":
    main()
