"""The commands `build-vocab` and `perplexity`, which read a corpus."""

import argparse
import contextlib
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_hf.bundled import model_folder
from elmo_hf.errors import ElmoError, counted

from .shared import (
    Commands,
    add_files,
    add_pre_tokenizer,
    add_split_sentences,
    add_tokenized,
    make_splitter,
    printable,
    shows_progress,
    silence_libraries,
)


if TYPE_CHECKING:
    from elmo_hf import ElmoForPreTraining, ElmoTokenizer
    from elmo_hf.data.segmentation import SentenceSplitter
    from elmo_hf.training.perplexity import CorpusScore


def add_build_vocab(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf build-vocab`."""
    parser = commands.add_parser(
        "build-vocab",
        parents=[shared],
        help="build the vocabulary of a language model",
        description="Count the words of text files, and write them one a line, most frequent first, after <S>, </S> "
        "and <UNK>. The text is split into words as the training will split it: give examples/pretrain.py the same "
        "--tokenized and --pre-tokenizer.",
        epilog="example: elmo-hf build-vocab 'news/*.txt.gz' --output vocab.txt --min-count 3",
    )
    add_files(parser)
    add_tokenized(parser)
    add_pre_tokenizer(parser)
    add_split_sentences(parser)
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="file to create; it must not exist")
    parser.add_argument(
        "--min-count",
        type=int,
        default=2,
        metavar="N",
        help="leave out words that occur less than N times (default: 2), from which the model learns what <UNK> is",
    )
    parser.add_argument(
        "--max-size", type=int, metavar="N", help="keep the most frequent words, in a file of at most N lines"
    )
    parser.set_defaults(run=_build_vocab)


def _build_vocab(options: argparse.Namespace) -> int:
    from elmo_hf.data.corpus import read_sentences
    from elmo_hf.data.vocabulary import count_words, coverage, most_frequent, write_vocabulary
    from elmo_hf.data.vocabulary_checks import find_punctuated
    from elmo_hf.files import check_new_file
    from elmo_hf.model.tokenization_elmo import ElmoTokenizer

    check_new_file(options.output)
    limits = {"min_count": options.min_count, "max_size": options.max_size}
    # refuse wrong limits before reading the text
    special = most_frequent({}, **limits)
    # the mask is one word in a new model, too
    tokenizer = ElmoTokenizer(pre_tokenizer=options.pre_tokenizer or "moses", mask_token="<MASK>")
    tokenize = str.split if options.tokenized else tokenizer.tokenize
    sentences = read_sentences(options.files, tokenize=tokenize, splitter=make_splitter(options))
    counts = count_words(_with_progress(sentences))
    if not counts:
        raise _no_words(options)
    words = most_frequent(counts, **limits)
    write_vocabulary(options.output, words)
    print(f"Wrote {counted(len(words), 'word')} to {options.output}, {', '.join(special)} included.")
    print(f"The text has {counted(counts.total(), 'word')}, {len(counts):,} of them distinct.")
    print(f"The vocabulary covers {coverage(counts, words):.2%} of the text.")
    found = find_punctuated(words[len(special) :])
    if found is not None:
        print(
            f"elmo-hf: warning: {found.share:.1%} of these words end in punctuation, such as "
            f"{printable(found.example)}: for raw text, leave out --tokenized and --pre-tokenizer whitespace.",
            file=sys.stderr,
        )
    return 0


def _with_progress(sentences: Iterable[list[str]]) -> Iterator[list[str]]:
    """Count the words on a terminal while the sentences are read."""
    from tqdm import tqdm

    with tqdm(unit=" words", unit_scale=True, disable=not shows_progress()) as bar:
        for words in sentences:
            yield words
            bar.update(len(words))


def _no_words(options: argparse.Namespace) -> ElmoError:
    return ElmoError(f"{', '.join(options.files)}: there are no words: check the text.")


def add_perplexity(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf perplexity`."""
    parser = commands.add_parser(
        "perplexity",
        parents=[shared],
        help="measure how well a language model predicts a text",
        description="Compute the perplexity of a text, with the softmax over the whole vocabulary: of the forward "
        "direction, of the backward direction, and of the mean of their losses. Each sentence is read by itself, and "
        "words outside the vocabulary are predicted as <UNK>. Several files are also listed one by one.",
        epilog="example: elmo-hf perplexity my-elmo heldout.txt --tokenized",
    )
    parser.add_argument(
        "model", type=model_folder, metavar="MODEL", help="model folder with a softmax, or elmo-small-en"
    )
    add_files(parser)
    add_tokenized(parser)
    add_split_sentences(parser)
    parser.add_argument(
        "--stateful",
        action="store_true",
        help="read the sentences as one stream, and carry the state from each to the next, as bilm-tf does",
    )
    parser.add_argument(
        "--json-lines",
        type=Path,
        metavar="FILE",
        help="also write the scores of each sentence to this new file, as one JSON object a line",
    )
    parser.add_argument(
        "--batch", type=int, default=2048, metavar="WORDS", help="number of words computed at once (default: 2048)"
    )
    parser.set_defaults(run=_perplexity)


def _perplexity(options: argparse.Namespace) -> int:
    from elmo_hf.data.corpus import find_files
    from elmo_hf.files import check_new_file
    from elmo_hf.training.perplexity import load_language_model

    silence_libraries()
    # refuse wrong names before loading the model
    if options.json_lines is not None:
        check_new_file(options.json_lines)
    find_files(options.files)
    splitter = make_splitter(options)
    model, tokenizer = load_language_model(options.model)
    start = time.perf_counter()
    total, files = _score_files(options, splitter, model, tokenizer)
    speed = total.words / (time.perf_counter() - start)
    how = "read as one stream" if options.stateful else "each read by itself"
    print(f"perplexity   {total.perplexity:,.3f}")
    print(f"  forward    {total.forward_perplexity:,.3f}")
    print(f"  backward   {total.backward_perplexity:,.3f}")
    print(f"sentences    {total.sentences:,}, {how}")
    words = counted(total.words, "word")
    print(f"predictions  {total.predictions:,} in each direction: {words} and the sentences' ends")
    print(f"unknown      {total.unknown_rate:.2%} of the words, predicted as {tokenizer.unk_token}")
    print(f"speed        {speed:,.0f} words/s")
    if len(files) > 1:
        _print_files(files)
    return 0


def _score_files(
    options: argparse.Namespace,
    splitter: "SentenceSplitter | None",
    model: "ElmoForPreTraining",
    tokenizer: "ElmoTokenizer",
) -> tuple["CorpusScore", dict[str, "CorpusScore"]]:
    """Score every sentence; return the score of the corpus and those of its files, in the order of reading."""
    from elmo_hf.data.corpus import read_placed_sentences
    from elmo_hf.training.perplexity import CorpusScore, open_score_file, score

    tokenize = str.split if options.tokenized else tokenizer.tokenize
    # the file, line and words of each sentence that is being scored
    read: deque[tuple[str, int, list[str]]] = deque()

    def sentences() -> Iterator[list[str]]:
        for place in read_placed_sentences(options.files, tokenize=tokenize, splitter=splitter):
            read.append(place)
            yield place[2]

    total, files = CorpusScore(), dict[str, CorpusScore]()
    with contextlib.ExitStack() as stack:
        write = None if options.json_lines is None else stack.enter_context(open_score_file(options.json_lines))
        for sentence in score(model, tokenizer, sentences(), stateful=options.stateful, words_per_batch=options.batch):
            file, line, words = read.popleft()
            total.add(sentence)
            files.setdefault(file, CorpusScore()).add(sentence)
            if write is not None:
                write(words, sentence, file, line)
        if not total.sentences:
            # inside the block, so that no file of scores appears
            raise _no_words(options)
    return total, files


def _print_files(files: Mapping[str, "CorpusScore"]) -> None:
    """Print the scores of each file as a table."""
    print("\nperplexity     forward    backward  sentences       words  unknown  file")
    for name, score in files.items():
        print(
            f"{score.perplexity:>10,.3f}  {score.forward_perplexity:>10,.3f}  {score.backward_perplexity:>10,.3f}  "
            f"{score.sentences:>9,}  {score.words:>10,}  {score.unknown_rate:>7.2%}  "
            f"{'standard input' if name == '-' else printable(name)}"
        )


__all__ = ["add_build_vocab", "add_perplexity"]
