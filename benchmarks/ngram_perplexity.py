"""Perplexity of n-gram models with interpolated modified Kneser-Ney smoothing, on the vocabulary of an ELMo.

    python benchmarks/ngram_perplexity.py --vocab vocab.txt train.txt.gz heldout.txt.gz
    python benchmarks/ngram_perplexity.py --vocab vocab.txt train.txt.gz books.txt.gz news.txt.gz --order 2 3 4

The models are KenLM's. Its Python package has no builder of models; `lmplz` is made from the sources of the same
package with a C++ compiler, CMake and Boost (Debian's libboost-{program-options,system,thread,test}-dev):

    pip install kenlm==0.3.0
    pip download --no-deps --no-binary kenlm kenlm==0.3.0 && tar xf kenlm-0.3.0.tar.gz
    cmake -S kenlm-0.3.0 -B build && cmake --build build --target lmplz    # then --lmplz build/bin/lmplz

Texts have a tokenised sentence a line, plain or compressed. Words that are not in the vocabulary are <UNK> in both,
before anything is counted, and <UNK> is predicted like a word. A sentence of n words has n + 1 predictions: forward,
its words and </S> after <S>, and backward, on reversed text, its words and <S> after </S>. Perplexity is exp of the
nats per prediction.
"""

import argparse
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import kenlm
from shared import run

from elmo_hf.data.corpus import read_lines
from elmo_hf.errors import ElmoError


FIRST_WORDS = ("<S>", "</S>", "<UNK>")
# what the sum of a distribution may differ from 1: KenLM has log10 probabilities of 32 bits
TOLERANCE = 1e-5


def read_vocabulary(path: Path) -> dict[str, str]:
    """Give each word its line number, which is how KenLM sees it: no word is then one that KenLM has reserved."""
    words = list(read_lines(str(path)))
    if tuple(words[:3]) != FIRST_WORDS:
        sys.exit(f"{path}: the first lines have to be {', '.join(FIRST_WORDS)}")
    return {word: str(number) for number, word in enumerate(words)}


def read_sentences(path: Path, vocabulary: dict[str, str]) -> list[list[str]]:
    """Read sentences as line numbers of the vocabulary; lines without words are passed over.

    Raises:
        ElmoError: If the file cannot be read or has no words.
    """
    unknown = vocabulary["<UNK>"]
    lines = (line.split() for line in read_lines(str(path)))
    sentences = [[vocabulary.get(word, unknown) for word in words] for words in lines if words]
    if not sentences:
        raise ElmoError(f"{path} has no words: give text with a sentence a line.")
    return sentences


def build_model(lmplz: str, sentences: Sequence[Sequence[str]], order: int) -> kenlm.Model:
    """Estimate a model, nothing pruned."""
    with tempfile.TemporaryDirectory() as folder:
        text, arpa = Path(folder, "text"), Path(folder, "arpa")
        text.write_text("".join(" ".join(words) + "\n" for words in sentences), encoding="utf-8")
        command = [lmplz, "--order", str(order), "--memory", "1G", "--temp_prefix", f"{folder}/"]
        done = subprocess.run(
            [*command, "--text", text, "--arpa", arpa], stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
        config = kenlm.Config()
        config.show_progress = False
        config.arpa_complain = kenlm.ARPALoadComplain.NONE
        return kenlm.Model(str(arpa), config)


def check_sums(model: kenlm.Model, vocabulary: dict[str, str], sentences: Sequence[Sequence[str]]) -> None:
    """Exit unless the probabilities after the first words of each of these sentences have the sum 1."""
    words = [number for word, number in vocabulary.items() if word not in FIRST_WORDS[:2]]
    # KenLM keeps a small share for words that it never saw
    predicted = [*words, "</s>", "<unk>"]
    for sentence in sentences:
        state, after = kenlm.State(), kenlm.State()
        model.BeginSentenceWrite(state)
        for number in sentence:
            total = sum(10 ** model.BaseScore(state, word, after) for word in predicted)
            if abs(total - 1) > TOLERANCE:
                sys.exit(f"the probabilities after {sentence} have the sum {total}, not 1")
            model.BaseScore(state, number, after)
            state, after = after, kenlm.State()


def perplexity(model: kenlm.Model, sentences: Sequence[Sequence[str]]) -> float:
    """Weight every prediction alike."""
    nats = -math.log(10) * sum(model.score(" ".join(words)) for words in sentences)
    return math.exp(nats / sum(len(words) + 1 for words in sentences))


def main() -> None:
    """Estimate, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path, help="what the models are estimated from")
    parser.add_argument("heldout", type=Path, nargs="+", help="what they are measured on")
    parser.add_argument("--vocab", type=Path, required=True, help="a word a line, <S> </S> <UNK> first")
    parser.add_argument("--order", type=int, nargs="+", default=[3], help="n of each model (default: 3)")
    parser.add_argument("--lmplz", default="lmplz", help="KenLM's builder, where it is not on the PATH")
    arguments = parser.parse_args()
    if not shutil.which(arguments.lmplz):
        parser.error(f"no program {arguments.lmplz}: build it as said above, and give its path as --lmplz")

    vocabulary = read_vocabulary(arguments.vocab)
    train = read_sentences(arguments.train, vocabulary)
    heldout = {str(path): read_sentences(path, vocabulary) for path in arguments.heldout}
    seen = {number for words in train for number in words}
    absent = [word for word, number in vocabulary.items() if number not in seen and word not in FIRST_WORDS[:2]]
    if absent:
        sys.exit(
            f"{arguments.train} lacks {len(absent)} words of {arguments.vocab}, such as {absent[0]!r}: "
            "make the vocabulary of this text (elmo-hf build-vocab)"
        )
    print(f"{len(vocabulary)} words; {len(train)} sentences, {sum(map(len, train))} words to estimate from")
    for name, sentences in heldout.items():
        predictions = sum(len(words) + 1 for words in sentences)
        unknown = sum(words.count(vocabulary["<UNK>"]) for words in sentences)
        print(f"{name}: {len(sentences)} sentences held out, {predictions} predictions, {unknown} of them <UNK>")
    width = max(map(len, heldout))
    print(f"{'order':>5}  {'':{width}}{'forward':>10}{'backward':>10}")
    for order in arguments.order:
        figures: dict[str, list[float]] = {name: [] for name in heldout}
        for step in (1, -1):
            model = build_model(arguments.lmplz, [words[::step] for words in train], order)
            for name, sentences in heldout.items():
                measured = [words[::step] for words in sentences]
                check_sums(model, vocabulary, measured[:3])
                figures[name].append(perplexity(model, measured))
        for name, found in figures.items():
            print(f"{order:>5}  {name:{width}}" + "".join(f"{figure:>10.2f}" for figure in found), flush=True)


if __name__ == "__main__":
    run(main)
