"""Which layer knows word senses: the nearest sense of SemCor, as in section 5.3 of the paper.

    python benchmarks/word_senses.py semcor.jsonl.gz senseval2.jsonl.gz senseval3.jsonl.gz --senses senses.tsv.gz
    python benchmarks/word_senses.py SemCor/semcor.data.xml senseval2/senseval2.data.xml --senses dict/index.sense

The first file is to learn from, the others are to test. The vectors of each sense are averaged over its occurrences
in the first file; a word to test gets the sense of its lemma whose average is nearest by cosine, or WordNet's first
sense if the lemma does not occur there. The biLM is not trained. A file is the XML of Raganato et al. (2017), with
`X.gold.key.txt` beside `X.data.xml`, or JSON lines: `words`, and `senses`, each a list of the number of the word, its
lemma, its part of speech (n, v, a or r) and all keys that are right. `--senses` is the `index.sense` of WordNet 3.0,
or a table of lemma, part of speech and keys in WordNet's order. An expression of several words, such as
`took_place`, is split for the biLM, and its vector is the mean of theirs.

Prints F1 in percent: for each layer, for the first sense, and for the sense that is most frequent in the first file.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import torch
from shared import run
from tqdm import tqdm

from elmo_hf import ELMO_SMALL_EN, ElmoError
from elmo_hf.data.corpus import read_lines
from elmo_hf.embedding import embed, load
from elmo_hf.embedding.vectors import Vectors
from elmo_hf.errors import one_line
from elmo_hf.training.finetuning_options import at_least


# as XML and the keys name parts of speech; 5 is an adjective too, a satellite
POS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
POS_OF_KEY = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}

# lemma and part of speech
Lemma = tuple[str, str]


class Occurrence(NamedTuple):
    """A word whose sense is known."""

    position: int
    lemma: Lemma
    keys: list[str]


class Sentence(NamedTuple):
    """Words, with an underscore inside an expression, and those whose sense is known."""

    words: list[str]
    occurrences: list[Occurrence]


# chooses the sense of an occurrence, of its vectors `[L + 1, H]`; none if its lemma is unknown
Choose = Callable[[Occurrence, Vectors], "str | None"]


def read(path: str) -> list[Sentence]:
    """Read a file of sentences, without those in which no sense is known.

    Raises:
        ElmoError: If it is not of one of the two formats, or knows no sense.
    """
    try:
        sentences = [
            sentence
            for sentence in (read_xml(path) if path.endswith(".xml") else map(from_json, read_lines(path)))
            if sentence.occurrences
        ]
    except (ValueError, TypeError, LookupError, ElementTree.ParseError) as error:
        raise ElmoError(f"{path} has none of the formats that word_senses.py reads: {one_line(error)}") from error
    if not sentences:
        raise ElmoError(f"{path} knows the sense of no word: give a file with senses.")
    return sentences


def from_json(line: str) -> Sentence:
    """Read a line of JSON.

    Raises:
        ValueError: If a sense is of a word that the sentence has not.
    """
    record = json.loads(line)
    occurrences = [Occurrence(place, (lemma, pos), keys) for place, lemma, pos, *keys in record["senses"]]
    if not all(place in range(len(record["words"])) and keys for place, _, keys in occurrences):
        raise ValueError(f"a sense has no word or no key in {record['senses']}")
    return Sentence(record["words"], occurrences)


def read_xml(path: str) -> Iterator[Sentence]:
    """Read the XML of Raganato et al. and the file of keys beside it.

    Raises:
        ElmoError: If the file of keys is missing.
    """
    gold = Path(path.removesuffix(".data.xml") + ".gold.key.txt")
    if not gold.is_file():
        raise ElmoError(f"{gold} is missing: it has the keys of {path}.")
    keys = {name: right for name, *right in map(str.split, read_lines(str(gold)))}
    for sentence in ElementTree.parse(path).iter("sentence"):
        words = [(word.text or "").replace(" ", "_") for word in sentence]
        occurrences = [
            Occurrence(place, (word.attrib["lemma"].lower(), POS[word.attrib["pos"]]), keys[word.attrib["id"]])
            for place, word in enumerate(sentence)
            if word.tag == "instance"
        ]
        yield Sentence(words, occurrences)


def read_first_senses(path: str) -> dict[Lemma, str]:
    """Read the first sense of each lemma, from `index.sense` or a table.

    Raises:
        ElmoError: If a line is of neither.
    """
    rows = [line.split() for line in read_lines(path)]
    try:
        if not rows:
            raise ValueError("it is empty")
        if Path(path).name.startswith("index.sense"):
            # key, place in the database, number of the sense, count
            return {lemma_of(key): key for key, _, number, *_ in rows if number == "1"}
        return {(lemma, pos): keys[0] for lemma, pos, *keys in rows}
    except (ValueError, LookupError) as error:
        raise ElmoError(f"{path} is no index.sense, and no table of lemma, part of speech and keys.") from error


def lemma_of(key: str) -> Lemma:
    """Return the lemma and the part of speech of a key such as `art%1:09:00::`."""
    lemma, rest = key.split("%")
    return lemma, POS_OF_KEY[rest[0]]


def split_expressions(words: Sequence[str]) -> tuple[list[str], list[slice]]:
    """Split `took_place` into two words.

    Returns:
        All words, and where those of each given word are.
    """
    parts = [word.strip("_").split("_") if word.strip("_") else [word] for word in words]
    ends = np.cumsum([len(part) for part in parts])
    return [word for part in parts for word in part], [
        slice(end - len(part), end) for part, end in zip(parts, ends, strict=True)
    ]


def vectors_of(sentences: Sequence[Sentence], model: str, name: str) -> Iterator[tuple[Occurrence, Vectors]]:
    """Compute the vectors of each occurrence in all layers, `[L + 1, H]`."""
    elmo, tokenizer = load(model)
    split = [split_expressions(sentence.words) for sentence in sentences]
    layers = embed(elmo, tokenizer, (words for words, _ in split), layers="all")
    rows = zip(sentences, split, layers, strict=True)
    # on a terminal only
    for sentence, (_, places), vectors in tqdm(rows, name, len(sentences), unit="sentence", leave=False, disable=None):
        for occurrence in sentence.occurrences:
            yield occurrence, vectors[:, places[occurrence.position]].mean(axis=1)


class Senses:
    """The senses of each lemma in the file to learn from: how often each occurs, and its average vectors."""

    def __init__(self) -> None:
        self.counts: defaultdict[Lemma, Counter[str]] = defaultdict(Counter)
        self.sums: dict[tuple[Lemma, str], Vectors] = {}

    def add(self, occurrence: Occurrence, vectors: Vectors) -> None:
        """Count an occurrence for each of its keys, and add its vectors `[L + 1, H]`."""
        for key in occurrence.keys:
            sense = occurrence.lemma, key
            self.counts[occurrence.lemma][key] += 1
            self.sums[sense] = self.sums.get(sense, 0) + vectors

    def most_frequent(self, lemma: Lemma) -> str | None:
        """Return the sense that occurs most, of equals the one that came first; none if the lemma does not occur."""
        return self.counts[lemma].most_common(1)[0][0] if lemma in self.counts else None

    def nearest(self, lemma: Lemma, vectors: Vectors, layer: int) -> str | None:
        """Return the sense whose average in a layer is nearest by cosine, of equals the most frequent.

        None if the lemma does not occur.
        """
        if lemma not in self.counts:
            return None
        keys = [key for key, _ in self.counts[lemma].most_common()]
        # the cosine with a sum is that with the average
        sums = np.stack([self.sums[lemma, key][layer] for key in keys])
        cosines = sums @ vectors[layer] / (np.linalg.norm(sums, axis=1) * np.linalg.norm(vectors[layer]))
        # in the token layer a word has one vector, and all of its senses are equally near but for rounding
        return keys[int(np.argmax(cosines.round(5)))]


def f1(answers: Iterable[tuple[Occurrence, str | None]]) -> float:
    """Compute F1 in percent; a word without an answer lowers the recall only."""
    pairs = list(answers)
    right = sum(key in occurrence.keys for occurrence, key in pairs)
    answered = sum(key is not None for _, key in pairs)
    return 200 * right / (answered + len(pairs))


def rows_of(senses: Senses, first: dict[Lemma, str], layers: int) -> dict[str, Choose]:
    """Return the ways to choose a sense, by the name of their row."""

    def by_layer(layer: int) -> Choose:
        return lambda word, vectors: senses.nearest(word.lemma, vectors, layer) or first.get(word.lemma)

    return {
        "first sense of WordNet": lambda word, _: first.get(word.lemma),
        "most frequent sense": lambda word, _: senses.most_frequent(word.lemma) or first.get(word.lemma),
        "nearest, token layer": by_layer(0),
        **{f"nearest, layer {layer}": by_layer(layer) for layer in range(1, layers)},
    }


def main() -> None:
    """Learn the senses, test them and report."""
    parser = argparse.ArgumentParser(description="Measure which layer knows word senses.")
    parser.add_argument("train", help="the file to learn from: SemCor")
    parser.add_argument("tests", nargs="+", metavar="test", help="files to test")
    parser.add_argument("--senses", required=True, help="WordNet's index.sense, or a table")
    parser.add_argument("--model", default=ELMO_SMALL_EN, help="folder of the biLM; elmo-small-en by default")
    parser.add_argument("--threads", type=at_least(1), default=1, help="threads of the CPU (default: 1)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    # all files are read before anything is computed
    first, senses = read_first_senses(options.senses), Senses()
    train, *parts = map(read, [options.train, *options.tests])
    for occurrence, vectors in vectors_of(train, options.model, "senses"):
        senses.add(occurrence, vectors)
    tests = [
        list(vectors_of(part, options.model, Path(path).name)) for part, path in zip(parts, options.tests, strict=True)
    ]
    names = [Path(path).name.split(".")[0] for path in options.tests]
    print(f"| F1 | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for row, choose in rows_of(senses, first, len(vectors)).items():
        scores = [f1((word, choose(word, vectors)) for word, vectors in test) for test in tests]
        print(f"| {row} | {' | '.join(f'{score:.1f}' for score in scores)} |")


if __name__ == "__main__":
    run(main)
