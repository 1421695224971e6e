"""What ELMo adds to a task: the same head on its vectors, on the task's own words and characters, and on both.

    python benchmarks/task_results.py wnut17.train.conll wnut17.dev.conll wnut17.test.conll --head bilstm-crf
    python benchmarks/task_results.py sst5.train.jsonl sst5.dev.jsonl sst5.test.jsonl --head bcn --part 0.1
    python benchmarks/task_results.py train.conll dev.conll test.conll --head bilstm-crf --compare --word-vectors FILE

Files are columns (word first, tag last) or JSON lines (`tokens`, or `premise` and `hypothesis`; `label`), plain or
compressed. Of a single file of columns the last tenth is the test set, the tenth before it the development set. The
biLM is frozen, and its layers are computed once. The epoch that is best on the development set is tested. Prints a
line for each seed, and the mean and standard deviation of all: entity F1 where the tags are BIO, else accuracy, in
percent. Where the training set contains the whole development set, those examples are left out.

`--compare` trains with ELMo alone, with the words alone and with both, and ends with a table. Words that are learned
are those of the training set; one that it has once stands for unknown words half of the time.
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
from shared import mean_and_deviation, run, share
from torch import nn
from tqdm import tqdm
from transformers.utils import logging

from elmo_hf import (
    ELMO_SMALL_EN,
    ElmoError,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
)
from elmo_hf.data.records import read_labelled
from elmo_hf.data.tagged import read_tagged
from elmo_hf.data.word_vectors import WordVectors, build_word_vectors
from elmo_hf.embedding import load
from elmo_hf.errors import counted
from elmo_hf.inspection import read_config
from elmo_hf.training.finetuning import load_task_model
from elmo_hf.training.finetuning_options import TASK_CHAR_DIM, at_least


BATCH_SIZE = 32
# of how often a word was seen in training, at which it may stand for those that were not
SINGLETON = 1


class Example(NamedTuple):
    """A sentence, or the two of a pair, and its label or those of its words."""

    sentences: list[list[str]]
    labels: list[str]


def is_json(path: str) -> bool:
    """Tell whether a file has JSON lines, by its name."""
    return ".json" in Path(path).name


def read(path: str) -> list[Example]:
    """Read a file of columns or of JSON lines."""
    if not is_json(path):
        return [Example([words], tags) for words, tags in read_tagged(path)]
    return [
        Example([side if isinstance(side, list) else side.split() for side in sides if side is not None], [str(label)])
        for *sides, label in read_labelled(path)
    ]


def without_dev(train: list[Example], dev: Sequence[Example]) -> list[Example]:
    """Take out a development set that a training set contains as a whole, as that of some copies of SST-5 does.

    Raises:
        ElmoError: If nothing is left.
    """
    texts = set(map(text_of, dev))
    if not texts <= set(map(text_of, train)):
        return train
    rest = [example for example in train if text_of(example) not in texts]
    if not rest:
        raise ElmoError("The training set is the development set: give other files.")
    print(f"The training set contains the development set: {len(train) - len(rest):,} examples are left out.")
    return rest


def text_of(example: Example) -> tuple[tuple[str, ...], ...]:
    """Return the sentences of an example, to compare it by."""
    return tuple(map(tuple, example.sentences))


def check_head(head: str, files: Sequence[str], parts: Sequence[Sequence[Example]]) -> None:
    """Refuse a head that does not read what is in the files."""
    # sentences an example, 0 where its words have tags
    kinds = {
        len(example.sentences) if is_json(file) else 0
        for file, part in zip(files, parts, strict=True)
        for example in part
    }
    # of those of ElmoForTokenClassification, one reads predicates, which these files have not
    heads = {"linear": (0,), "bilstm-crf": (0,)}
    heads |= {name: cls.num_sentences for name, cls in ElmoForSequenceClassification.heads.items()}
    if head not in heads:
        raise ElmoError(f"There is no head {head!r}: choose one of {', '.join(heads)}.")
    if not kinds <= set(heads[head]):
        names = {0: "tags of words", 1: "single sentences", 2: "pairs of sentences"}
        found, reads = (", ".join(names[kind] for kind in sorted(part)) for part in (kinds, heads[head]))
        raise ElmoError(f"The head {head} reads {reads}, and the data are {found}: choose another head or file.")


def read_sets(files: Sequence[str], head: str = "linear") -> dict[str, list[Example]]:
    """Read training, development and test set; of a single file, the last two are the last two tenths.

    Raises:
        ElmoError: If a file cannot be read or is too small, or the head does not read what is in it.
    """
    parts = [read(file) for file in files]
    check_head(head, files, parts)
    if len(files) == 1:
        tenth = len(parts[0]) // 10
        if not tenth:
            raise ElmoError(f"{files[0]} has {counted(len(parts[0]), 'example')}: give 10 at least, or three files.")
        parts = [parts[0][: -2 * tenth], parts[0][-2 * tenth : -tenth], parts[0][-tenth:]]
        return dict(zip(("train", "dev", "test"), parts, strict=True))
    train, dev, test = parts
    return {"train": without_dev(train, dev), "dev": dev, "test": test}


class Task:
    """The data of a task, encoded, with the layers of the biLM for each row."""

    def __init__(self, sets: dict[str, list[Example]], model: str, with_elmo: bool) -> None:
        # which says what is wrong with a folder that has no ELMo
        read_config(model)
        elmo, self.tokenizer = load(model)
        self.of_words = any(len(example.labels) > 1 for example in sets["train"])
        self.names = sorted({label for examples in sets.values() for example in examples for label in example.labels})
        self.sets = sets
        self.rows: dict[int, torch.Tensor] = {}
        if with_elmo:
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

    def batch(self, chunk: Sequence[Example], model: Any, words: "TaskWords") -> dict[str, Any]:
        """Make what the model takes."""
        columns = [list(side) for side in zip(*(example.sentences for example in chunk), strict=True)]
        characters = bool(model.config.task_char_embedding_dim)
        encoded = words.tokenizer(
            *columns, is_split_into_words=True, padding=True, return_tensors="pt", return_char_ids=characters
        )
        numbers = {name: number for number, name in enumerate(self.names)}
        if self.of_words:
            labels = torch.full_like(encoded["input_ids"], -100)
            for row, example in zip(labels, chunk, strict=True):
                row[1 : len(example.labels) + 1] = torch.tensor([numbers[label] for label in example.labels])
        else:
            labels = torch.tensor([numbers[example.labels[0]] for example in chunk])
        batch = {**encoded, "labels": labels}
        if words.single is not None and model.training:
            # half of the words that were seen once stand for those that were not
            task_word_ids = encoded["task_word_ids"]
            batch["task_word_ids"] = task_word_ids.masked_fill(
                words.single[task_word_ids] & (torch.rand(task_word_ids.shape) < 0.5), 1
            )
        if model.has_bilm:
            layers = [self.rows[id(example)] for example in chunk]
            batch["bilm_layers"] = nn.utils.rnn.pad_sequence(layers, batch_first=True).clone()
        return batch


class TaskWords(NamedTuple):
    """What a model reads beside ELMo.

    Attributes:
        tokenizer: The tokenizer, with the words that have vectors.
        single: Whether a word was seen once in training, by its id, if the vectors are learned from nothing.
    """

    tokenizer: ElmoTokenizer
    single: torch.Tensor | None


def choose_words(task: Task, options: argparse.Namespace) -> tuple[WordVectors | None, torch.Tensor | None]:
    """Choose the words that have vectors, and those of them that were seen once if the vectors are learned."""
    width = options.word_vectors_dim
    if options.word_vectors is None and width is None:
        if options.task_chars or not options.without_elmo:
            return None, None
        # as wide as ELMo
        width = read_config(options.model).hidden_size
    names = ("train",) if options.word_vectors is None else tuple(task.sets)
    counts = Counter(
        word for name in names for example in task.sets[name] for words in example.sentences for word in words
    )
    vectors = build_word_vectors(counts, options.word_vectors, width, min_count=1)
    if vectors.table is not None:
        return vectors, None
    return vectors, torch.tensor([False, False, *(counts[word] == SINGLETON for word in vectors.words)])


def size_of(example: Example) -> int:
    """Count the words of an example."""
    return sum(map(len, example.sentences))


def chunks(examples: Sequence[Example]) -> Iterator[Sequence[Example]]:
    """Cut in batches."""
    return (examples[start : start + BATCH_SIZE] for start in range(0, len(examples), BATCH_SIZE))


@torch.no_grad()
def measure(model: Any, task: Task, name: str, words: TaskWords) -> float:
    """Compute entity F1 or accuracy, in percent."""
    model.eval()
    found: list[list[str]] = []
    right: list[list[str]] = []
    for chunk in chunks(sorted(task.sets[name], key=size_of)):
        batch = task.batch(chunk, model, words)
        labels = batch.pop("labels").reshape(len(chunk), -1)
        best = model(**batch).logits.argmax(dim=-1).reshape(len(chunk), -1)
        for row, own in zip(labels, best, strict=True):
            right.append([task.names[label] for label in row[row != -100].tolist()])
            found.append([task.names[label] for label in own[row != -100].tolist()])
    if any(label.startswith("B-") for label in task.names):
        from seqeval.metrics import f1_score

        return 100 * float(f1_score(right, found))
    pairs = [pair for rows in zip(right, found, strict=True) for pair in zip(*rows, strict=True)]
    return 100 * statistics.fmean(one == other for one, other in pairs)


def train(task: Task, options: argparse.Namespace, seed: int) -> tuple[float, float, Any]:
    """Train with one seed; return the scores on the development and the test set, and the layer weights.

    Raises:
        ElmoError: If the loss is not a number.
    """
    torch.manual_seed(seed)
    choose = random.Random(seed)
    cls: Any = ElmoForTokenClassification if task.of_words else ElmoForSequenceClassification
    vectors, single = choose_words(task, options)
    model, tokenizer = load_task_model(
        cls,
        options.model,
        task.names,
        word_vectors=vectors,
        train_task_words=options.train_word_vectors or None,
        task_char_embedding_dim=TASK_CHAR_DIM if options.task_chars else None,
        head=options.head,
        head_hidden_size=options.hidden_size,
        layer=options.layer,
        mix_at="none" if options.without_elmo else options.mix_at,
        mix_regularization=options.mix_regularization,
        classifier_dropout=options.dropout,
    )
    words = TaskWords(tokenizer, single)
    parameters = [part for part in model.parameters() if part.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=options.learning_rate)
    best, state, waited = -1.0, copy.deepcopy(model.state_dict()), 0
    for epoch in range(options.epochs):
        model.train()
        # sentences of like length, in another order each time
        order = sorted(task.sets["train"], key=lambda example: size_of(example) + 3 * choose.random())
        batches = list(chunks(order))
        choose.shuffle(batches)
        for chunk in tqdm(batches, desc=f"seed {seed}, epoch {epoch}", unit="batch", leave=False, disable=None):
            loss = model(**task.batch(chunk, model, words)).loss
            if not loss.isfinite():
                raise ElmoError(f"The loss of seed {seed} is {loss.item()} in epoch {epoch}: lower --learning-rate.")
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 5)
            optimizer.step()
            optimizer.zero_grad()
        score = measure(model, task, "dev", words)
        if sys.stderr.isatty():
            print(f"seed {seed}, epoch {epoch}: dev {score:.2f}", file=sys.stderr)
        # of few sentences, the first epochs may find no entity at all
        waited += score > 0
        if score > best:
            best, state, waited = score, copy.deepcopy(model.state_dict()), 0
        if waited >= options.patience:
            break
    model.load_state_dict(state)
    return best, measure(model, task, "test", words), model.layer_weights()


def layer_of(text: str) -> str | int:
    """Read the name or the number of a layer."""
    return int(text) if text.isdigit() else text


def part_of(train: Sequence[Example], part: float, seed: int = 0) -> list[Example]:
    """Take a share of the training set at random, the same with and without ELMo."""
    return random.Random(seed).sample(train, size_of_part(train, part))


def size_of_part(train: Sequence[Example], part: float) -> int:
    """Return how many examples a share of the training set has, one at least."""
    return max(1, round(part * len(train)))


def add_training(parser: argparse.ArgumentParser) -> None:
    """Describe the options of the model and of its training, which other benchmarks have too."""
    parser.add_argument("--model", default=ELMO_SMALL_EN, help="folder of the biLM; elmo-small-en by default")
    parser.add_argument("--word-vectors", help="file of word vectors that the head reads beside ELMo")
    parser.add_argument("--word-vectors-dim", type=at_least(1), help="width of words that are learned with the task")
    parser.add_argument("--train-word-vectors", action="store_true", help="train the vectors of the file")
    parser.add_argument("--task-chars", action="store_true", help="read characters beside ELMo")
    parser.add_argument(
        "--mix-at", default="input", choices=("input", "output", "both"), help="where ELMo goes in (default: input)"
    )
    parser.add_argument("--mix-regularization", type=at_least(0.0), default=0.0, help="lambda of the mix (default: 0)")
    parser.add_argument("--hidden-size", type=at_least(1), default=100, help="width of one direction of a biLSTM")
    parser.add_argument("--dropout", type=at_least(0.0), help="dropout of the head (default: 0.5)")
    parser.add_argument("--epochs", type=at_least(1), default=15, help="most epochs (default: 15)")
    parser.add_argument("--patience", type=at_least(1), default=4, help="epochs without a better score before the end")
    parser.add_argument("--learning-rate", type=at_least(0.0, above=True), default=1e-3, help="default: 0.001")
    parser.add_argument("--seeds", type=at_least(1), default=3, help="trainings, each with its own seed (default: 3)")
    parser.add_argument("--threads", type=at_least(1), default=1, help="threads of the CPU (default: 1)")


def add_tasks(parser: argparse.ArgumentParser) -> None:
    """Describe the option of several tasks; `check_tasks` looks at what was given."""
    parser.add_argument(
        "--task", nargs="+", action="append", required=True, metavar="NAME", help="name, head, and one or three files"
    )


def check_files(parser: argparse.ArgumentParser, files: Sequence[str]) -> None:
    """End the program if there are neither one file nor three."""
    if len(files) not in (1, 3):
        parser.error("give one file of columns, or three files: train, dev and test")


def check_tasks(parser: argparse.ArgumentParser, tasks: Sequence[Sequence[str]]) -> None:
    """End the program if a task has not the files that it needs, or its head is read at one place only."""
    if any(len(task) not in (3, 5) for task in tasks):
        parser.error("a --task is a name, a head, and one or three files")
    if len({task[0] for task in tasks}) < len(tasks):
        parser.error("each --task needs a name of its own")
    if single := {task[1] for task in tasks} & {"linear", "mean", "max"}:
        parser.error(f"the head {min(single)} has no encoder, and so no output: choose bilstm-crf, bcn or esim")


def read_tasks(tasks: Sequence[Sequence[str]]) -> dict[str, tuple[str, dict[str, list[Example]]]]:
    """Read the files of all tasks; return the head and the data of each by its name."""
    return {name: (head, read_sets(files, head)) for name, head, *files in tasks}


def kinds_of(options: argparse.Namespace) -> list[argparse.Namespace]:
    """Return what is trained: what the options say, or ELMo alone, the words alone, and both."""
    if not options.compare:
        return [options]
    given = vars(options)
    if not (options.word_vectors or options.word_vectors_dim or options.task_chars):
        given = {**given, "word_vectors_dim": read_config(options.model).hidden_size}
    alone = {"word_vectors": None, "word_vectors_dim": None, "task_chars": False}
    changes: list[dict[str, Any]] = [{**alone, "without_elmo": False}, {"without_elmo": True}, {"without_elmo": False}]
    return [argparse.Namespace(**{**given, **change}) for change in changes]


def describe(options: argparse.Namespace) -> str:
    """Say what the head reads."""
    parts = ["without ELMo" if options.without_elmo else "with ELMo"]
    if options.word_vectors:
        parts.append(Path(options.word_vectors).name)
    elif options.word_vectors_dim:
        parts.append(f"learned words {options.word_vectors_dim} wide")
    if options.task_chars:
        parts.append("characters")
    return ", ".join(parts)


def report(task: Task, options: argparse.Namespace) -> str:
    """Train with each seed, print the scores, and return their mean and standard deviation."""
    examples = len(task.sets["train"])
    name = Path(options.files[0]).name
    print(f"{name}, {options.head}, {describe(options)}, {examples:,} training examples", flush=True)
    scores = []
    for seed in range(options.seeds):
        start = time.perf_counter()
        dev, test, weights = train(task, options, seed)
        scores.append(test)
        # without ELMo there are no layers to weigh
        shown = "" if options.without_elmo else f", {weights}"
        print(f"seed {seed}: dev {dev:.2f} test {test:.2f}, {time.perf_counter() - start:.0f} s{shown}", flush=True)
    mean, spread = mean_and_deviation(scores)
    print(f"mean {mean:.2f} standard deviation {spread:.2f}", flush=True)
    return f"{mean:.2f} ± {spread:.2f}"


def main() -> None:
    """Train with each seed and report."""
    parser = argparse.ArgumentParser(description="Measure what ELMo adds to a task.")
    parser.add_argument("files", nargs="+", help="train, dev and test; or one file of columns")
    parser.add_argument("--head", required=True, help="linear, bilstm-crf, mean, max, bcn or esim")
    parser.add_argument(
        "--without-elmo",
        action="store_true",
        help="read words and characters alone; by default learned words, as wide as ELMo",
    )
    parser.add_argument("--part", type=share, default=1.0, help="share of the training set that is used")
    parser.add_argument(
        "--layer", default="mix", type=layer_of, help="mix (default), average, top, or a layer's number"
    )
    parser.add_argument("--compare", action="store_true", help="train with ELMo alone, the words alone, and both")
    add_training(parser)
    options = parser.parse_args()
    check_files(parser, options.files)
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    sets = read_sets(options.files, options.head)
    sets["train"] = part_of(sets["train"], options.part)
    kinds = kinds_of(options)
    task = Task(sets, options.model, with_elmo=not all(kind.without_elmo for kind in kinds))
    means = [report(task, kind) for kind in kinds]
    if options.compare:
        rows = [f"| {describe(kind)} | {mean} |" for kind, mean in zip(kinds, means, strict=True)]
        print("\n".join(["", "| the head reads | score |", "|---|---|", *rows]))


if __name__ == "__main__":
    run(main)
