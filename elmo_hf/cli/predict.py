"""The command `predict`, which tags, classifies and scores sentences with a fine-tuned model."""

import argparse
import contextlib
import math
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from elmo_hf.errors import ElmoError, counted

from .reading import add_reading, add_source, check_reading, check_source, format_of, read_input
from .shared import (
    Commands,
    add_batches,
    add_split_sentences,
    check_batches,
    make_splitter,
    noting_interruption,
    print_in_utf8,
    set_threads,
    shows_progress,
    silence_libraries,
)


if TYPE_CHECKING:
    from elmo_hf.prediction.documents import DocumentInput
    from elmo_hf.prediction.inputs import PredictionInput
    from elmo_hf.prediction.tasks import Task


def add_predict(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf predict`."""
    parser = commands.add_parser(
        "predict",
        parents=[shared],
        help="tag, classify or score sentences with a fine-tuned model",
        description="Write what a fine-tuned model says of each sentence: tags and entities, semantic roles, the "
        "label and the probabilities of all labels, a number, the best of several answers, or the answer in a "
        "context. Pairs of sentences, and questions, are records with these fields; questions may be in SQuAD's JSON. "
        "A model of coreference finds the mentions of the same thing in documents: a text is one, a record another, "
        "and FILE may be in the columns of CoNLL-2012. Records keep their other fields.",
        epilog='examples: elmo-hf predict my-ner --text "Ann met Bob in New York."; '
        "elmo-hf predict my-roles tagged.conllu --output roles.jsonl; "
        "elmo-hf predict my-classes reviews.csv --output classes.csv",
    )
    parser.add_argument(
        "model", metavar="MODEL", help="folder of a fine-tuned model, or its name on the Hub, ORG/NAME"
    )
    add_source(parser)
    group = parser.add_argument_group("input")
    add_reading(group)
    group.add_argument(
        "--pair-field",
        metavar="NAME",
        help="field or column of the second text of a pair (default: the one that belongs to the text, such as "
        "hypothesis to premise), of the answers to a question (default: choices, answers or endings), or of its "
        "context (default: context, passage or paragraph)",
    )
    add_split_sentences(group)
    add_batches(parser.add_argument_group("computation"))
    group = parser.add_argument_group("answers to questions")
    group.add_argument(
        "--no-answer",
        action="store_true",
        help="answer null where no answer is more probable, or as --no-answer-threshold says; for a model that was "
        "trained on questions without one, too (default: the best answer of the context)",
    )
    group.add_argument(
        "--no-answer-threshold",
        type=float,
        metavar="T",
        help="with --no-answer, by how much the logarithm of the probability of no answer must be above that of the "
        "best one; finetune_qa.py says which T is best on its development set (default: 0)",
    )
    _add_predicates(parser.add_argument_group("predicates, for a model of semantic roles"))
    _add_writing(parser.add_argument_group("output"))
    parser.set_defaults(run=_predict, wrong_usage=parser.error)


def _add_predicates(group: Any) -> None:
    group.add_argument(
        "--predicates",
        metavar="FILE",
        help="words that are predicates, one a line, each in all its forms, because lemmas match only if the "
        "input has lemmas, as CoNLL-U and CoNLL-2012 have; where a record of jsonl does not name predicates itself, "
        "by predicates, pred or frames (default: words whose part of speech is that of a verb)",
    )
    group.add_argument(
        "--predicate-pos",
        nargs="+",
        metavar="POS",
        help="how the parts of speech of predicates begin; the field pos has them in jsonl (default: V AUX)",
    )
    group.add_argument(
        "--pos-column",
        type=int,
        metavar="K",
        help="column of parts of speech in conll (default: 3 in CoNLL-U, 4 in CoNLL-2012)",
    )
    group.add_argument(
        "--predicate-column",
        type=int,
        metavar="K",
        help="column that marks the predicates in conll by something other than - or _, such as 7 in CoNLL-2012, "
        "which has their senses",
    )


def _add_writing(group: Any) -> None:
    group.add_argument(
        "--output", type=Path, metavar="FILE", help="file to create, once it is complete (default: standard output)"
    )
    group.add_argument(
        "--output-format",
        choices=("jsonl", "conll", "table"),
        help="jsonl: one JSON object a line; conll: a word and its tag a line, separated by TAB, and an empty line "
        "after each sentence, or the columns of CoNLL-2005 for semantic roles and of CoNLL-2012 for coreference; "
        "table: columns with a header, a row for each entity, role, mention, word or sentence, separated by TAB, or "
        "by commas in a .csv file (default: by the suffix, .jsonl, .json, .conll, .tsv or .csv; jsonl on "
        "standard output)",
    )


def _predict(options: argparse.Namespace) -> int:
    # refuse wrong options and names before loading the model
    check_source(options)
    check_reading(options)
    check_batches(options)
    if options.predicate_column is not None and (options.predicates or options.predicate_pos):
        options.wrong_usage("--predicate-column names the predicates: leave --predicates and --predicate-pos out")
    if options.no_answer_threshold is not None:
        if not options.no_answer:
            options.wrong_usage("--no-answer-threshold needs --no-answer")
        if math.isnan(options.no_answer_threshold):
            options.wrong_usage("--no-answer-threshold is no number")
    from elmo_hf.files import check_new_file
    from elmo_hf.prediction.formats import choose_format

    file_format = choose_format(options.output, options.output_format)
    if options.output is not None:
        check_new_file(options.output)
    silence_libraries()
    set_threads(options)
    with contextlib.nullcontext() if options.output is None else noting_interruption(options.output):
        count = _write(options, file_format)
    if options.output is not None:
        print(f"Wrote the predictions for {counted(count, 'input')} to {options.output}.")
    return 0


def _write(options: argparse.Namespace, file_format: str) -> int:
    """Write the answers to all inputs, and return their number."""
    from tqdm import tqdm

    from elmo_hf.embedding.engines import CACHED_WORDS
    from elmo_hf.embedding.loading import move_to_device
    from elmo_hf.prediction import load, predict, resolve
    from elmo_hf.prediction.formats import write_results
    from elmo_hf.prediction.predicates import read_predicates
    from elmo_hf.prediction.tasks import Coreference, make_task

    splitter = make_splitter(options)
    words = None if options.predicates is None else read_predicates(options.predicates)
    model, tokenizer = load(options.model)
    move_to_device(model, options.device)
    elmo: Any = model.base_model
    # a model without ELMo has no token layer
    if elmo is not model:
        # it is computed once for each distinct word
        elmo.cache_words(CACHED_WORDS)
    task = make_task(model)
    place = _Place(options)
    results: Iterable[Any]
    told = (words, options.predicate_pos, options.pos_column, options.predicate_column)
    if not task.reads_predicates and any(value is not None for value in told):
        raise ElmoError("The model finds no semantic roles: leave the predicates out.")
    if isinstance(task, Coreference):
        if options.no_answer:
            raise ElmoError("--no-answer is for models that answer questions: leave it out.")
        results = resolve(
            model,
            tokenizer,
            _read_documents(options, place),
            splitter=splitter,
            text_field=options.text_field,
            tokenized=options.tokenized,
        )
    elif splitter is not None:
        raise ElmoError("--split-sentences is for coreference: split into sentences by elmo-hf split-sentences first.")
    else:
        results = predict(
            model,
            tokenizer,
            _read_inputs(options, task, place),
            text_field=options.text_field,
            pair_field=options.pair_field,
            tokenized=options.tokenized,
            predicates=words,
            predicate_pos=options.predicate_pos,
            no_answer=options.no_answer,
            no_answer_threshold=options.no_answer_threshold or 0.0,
            batch_size=options.batch_size,
        )
    with _opened(options.output) as file, place.named_in_errors():
        delimiter = "," if options.output is not None and options.output.suffix.lower() == ".csv" else "\t"
        # a bar would stand between the answers on a terminal
        hidden = not shows_progress() or (options.output is None and sys.stdout.isatty())
        shown = tqdm(results, unit=" inputs", disable=hidden)
        return write_results(shown, file_format, file, task, delimiter=delimiter)


class _Place:
    """The line of the input that is read."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.file = "standard input" if options.file == "-" else options.file
        self.is_text = options.text is None and format_of(options) == "text"
        # known of records
        self.line: int | None = None

    def follow(self, records: "Iterable[tuple[int | None, Any]]") -> "Iterator[Any]":
        """Yield records, each of which comes with its line."""
        for self.line, record in records:
            yield record

    @contextlib.contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Name the line in the error of an input, where it is known."""
        from elmo_hf.prediction.inputs import InputError

        try:
            yield
        except InputError as error:
            line = error.number if self.is_text else self.line
            if line is None:
                raise
            raise ElmoError(f"{self.file}, line {line}: {error.reason}") from error


def _read_inputs(options: argparse.Namespace, task: "Task", place: _Place) -> "Iterator[PredictionInput]":
    """Read what the options name: sentences, or records with all of their fields."""
    from elmo_hf.data.questions import read_question_records
    from elmo_hf.data.records import read_records
    from elmo_hf.data.tagged import read_conll_records
    from elmo_hf.prediction.tasks import QuestionAnswering

    def records(path: str) -> "Iterable[PredictionInput]":
        read = read_question_records if isinstance(task, QuestionAnswering) else read_records
        return place.follow(read(path))

    if task.reads_predicates and options.text is None and format_of(options) == "conll":
        return read_conll_records(
            options.file,
            word_column=options.word_column,
            pos_column=options.pos_column,
            predicate_column=options.predicate_column,
        )
    return read_input(options, records)


def _read_documents(options: argparse.Namespace, place: _Place) -> "Iterator[DocumentInput]":
    """Read what the options name as documents: a text, the sentences of a file in columns, or records."""
    from elmo_hf.data.coreference import BEGIN, read_documents
    from elmo_hf.data.corpus import read_lines
    from elmo_hf.data.records import read_records
    from elmo_hf.data.tagged import lines_to_first_word, read_conll_words

    file_format = "text" if options.text is not None else format_of(options)
    # a document begins on no line of its own
    place.is_text = False
    if file_format == "jsonl":
        yield from place.follow(read_records(options.file))
    elif options.text is not None:
        yield "\n".join(options.text)
    elif file_format in ("text", "conll"):
        # once, because it may be standard input
        lines = read_lines(options.file)
        head = list(lines_to_first_word(lines))
        lines = chain(head, lines)
        # these files have suffixes of their own, such as .v4_gold_conll
        if options.format != "text" and any(map(BEGIN.match, head)):
            yield from read_documents(options.file, lines)
        elif file_format == "text":
            yield "\n".join(lines)
        else:
            yield list(read_conll_words(options.file, word_column=options.word_column, lines=lines))
    else:
        # the words of each sentence
        sentences: Iterable[Any] = read_input(options, read_records)
        yield [getattr(words, "words", words) for words in sentences]


@contextlib.contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    """Open a new file, which appears when the block ends without an error, or standard output, in UTF-8."""
    from elmo_hf.files import naming_errors, new_file

    if path is None:
        print_in_utf8()
        yield sys.stdout
        return
    # half a character, which JSON can hold, is written as JSON writes it
    with (
        new_file(path) as temporary,
        naming_errors(path),
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file,
    ):
        yield file


__all__ = ["add_predict"]
