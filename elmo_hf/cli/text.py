"""The commands that read a corpus: build-vocab and perplexity."""

import argparse
import contextlib
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_hf.bundled import model_folder
from elmo_hf.errors import ElmoError

from .shared import Commands, add_files, add_tokenized, printable, silence_libraries


if TYPE_CHECKING:
    from elmo_hf.training.perplexity import CorpusScore

# columns of a table of vectors
SHOWN_DIMENSIONS = 6


def add_build_vocab(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf build-vocab`."""
    parser = commands.add_parser(
        "build-vocab",
        parents=[shared],
        help="make the vocabulary of a language model",
        description="Count the words of text files, which white space parts, and write them by descending frequency, "
        "one a line, after <S>, </S> and <UNK>.",
        epilog="example: elmo-hf build-vocab 'news/*.txt.gz' --output vocab.txt --min-count 3",
    )
    add_files(parser)
    parser.add_argument("--output", required=True, type=Path, metavar="FILE", help="file to make; must not exist")
    parser.add_argument(
        "--min-count", type=int, default=1, metavar="N", help="leave out words that occur less often; 1 by default"
    )
    parser.add_argument(
        "--max-size", type=int, metavar="N", help="lines of the vocabulary at most; the most frequent words stay"
    )
    parser.set_defaults(run=_build_vocab)


def _build_vocab(options: argparse.Namespace) -> int:
    from elmo_hf.data.corpus import count_words, coverage, most_frequent, read_sentences, write_vocabulary
    from elmo_hf.files import check_new_file

    check_new_file(options.output)
    limits = {"min_count": options.min_count, "max_size": options.max_size}
    # refuse what can be refused before the text is read
    special = most_frequent({}, **limits)
    counts = count_words(read_sentences(options.files))
    if not counts:
        raise ElmoError(f"{', '.join(options.files)}: there are no words: check the text.")
    words = most_frequent(counts, **limits)
    write_vocabulary(options.output, words)
    print(f"Wrote {len(words):,} words to {options.output}, {', '.join(special)} included.")
    print(f"The text has {counts.total():,} words, {len(counts):,} of them distinct.")
    print(f"The vocabulary covers {coverage(counts, words):.2%} of the text.")
    return 0


def add_perplexity(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf perplexity`."""
    parser = commands.add_parser(
        "perplexity",
        parents=[shared],
        help="measure how well a language model predicts a text",
        description="Compute the perplexity of a text by a language model, with the softmax over all words: of the "
        "forward direction, of the backward one, and of the mean of their losses. Each sentence is read by itself, "
        "and words outside the vocabulary are predicted as <UNK>. Of several files, each has a line besides.",
        epilog="example: elmo-hf perplexity my-elmo heldout.txt --tokenized",
    )
    parser.add_argument(
        "model", type=model_folder, metavar="MODEL", help="a model folder that has a softmax, or elmo-tiny-en"
    )
    add_files(parser)
    add_tokenized(parser)
    parser.add_argument(
        "--stateful", action="store_true", help="go on from sentence to sentence as in one stream, as bilm-tf does"
    )
    parser.add_argument(
        "--json-lines",
        type=Path,
        metavar="FILE",
        help="new file for the scores of each sentence, a JSON object a line",
    )
    parser.add_argument(
        "--batch", type=int, default=2048, metavar="WORDS", help="words that are read at once, 2048 by default"
    )
    parser.set_defaults(run=_perplexity)


def _perplexity(options: argparse.Namespace) -> int:
    from elmo_hf.data.corpus import find_files, read_placed_sentences
    from elmo_hf.files import check_new_file
    from elmo_hf.training.perplexity import CorpusScore, load_language_model, open_score_file, score

    silence_libraries()
    # refuse what can be refused before the model is loaded
    if options.json_lines is not None:
        check_new_file(options.json_lines)
    find_files(options.files)
    model, tokenizer = load_language_model(options.model)
    tokenize = str.split if options.tokenized else tokenizer.tokenize
    # the places and words of the sentences that are being measured
    read: deque[tuple[str, int, list[str]]] = deque()

    def sentences() -> Iterator[list[str]]:
        for place in read_placed_sentences(options.files, tokenize=tokenize):
            read.append(place)
            yield place[2]

    total, parts, start = CorpusScore(), defaultdict[str, CorpusScore](CorpusScore), time.perf_counter()
    with contextlib.ExitStack() as stack:
        add = None if options.json_lines is None else stack.enter_context(open_score_file(options.json_lines))
        for sentence in score(model, tokenizer, sentences(), stateful=options.stateful, words_per_batch=options.batch):
            file, line, words = read.popleft()
            total.add(sentence)
            parts[file].add(sentence)
            if add is not None:
                add(words, sentence, file, line)
        if not total.sentences:
            raise ElmoError(f"{', '.join(options.files)}: there are no words: check the text.")
    speed = total.words / (time.perf_counter() - start)
    how = "read as one stream" if options.stateful else "each read by itself"
    print(f"perplexity   {total.perplexity:,.3f}")
    print(f"  forward    {total.forward_perplexity:,.3f}")
    print(f"  backward   {total.backward_perplexity:,.3f}")
    print(f"sentences    {total.sentences:,}, {how}")
    print(f"predictions  {total.predictions:,} in each direction: {total.words:,} words and the sentences' ends")
    print(f"unknown      {total.unknown_rate:.2%} of the words, predicted as {tokenizer.unk_token}")
    print(f"speed        {speed:,.0f} words/s")
    if len(parts) > 1:
        _print_parts(parts)
    return 0


def _print_parts(parts: Mapping[str, "CorpusScore"]) -> None:
    """Print the perplexities of each file as a table, in the order in which they were read."""
    print("\nperplexity     forward    backward  sentences       words  unknown  file")
    for name, part in parts.items():
        print(
            f"{part.perplexity:>10,.3f}  {part.forward_perplexity:>10,.3f}  {part.backward_perplexity:>10,.3f}  "
            f"{part.sentences:>9,}  {part.words:>10,}  {part.unknown_rate:>7.2%}  "
            f"{'standard input' if name == '-' else printable(name)}"
        )


__all__ = ["add_build_vocab", "add_perplexity"]
