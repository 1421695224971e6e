"""Questions about a context and their answers: SQuAD's JSON, records, data sets by name, and how SQuAD scores."""

import json
import logging
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from elmo_hf.errors import ElmoError

from .corpus import Source, read_lines
from .named_datasets import load_split
from .records import read_records


ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)

logger = logging.getLogger(__name__)


class Answer(NamedTuple):
    """An answer, as it stands in the context.

    Attributes:
        text: The answer.
        start: Where it begins in the context, counted in characters; `None` if it is not there.
    """

    text: str
    start: int | None


class Question(NamedTuple):
    """A question about a context.

    Attributes:
        key: The name of the question, which predictions go by.
        question: The question.
        context: The text that has the answer, or has none.
        answers: The answers that different people gave; none if the context has no answer.
    """

    key: str
    question: str
    context: str
    answers: list[Answer]


def read_questions(path: Source) -> list[Question]:
    """Read questions with their answers from SQuAD's JSON, version 1.1 or 2, or from records, one a line.

    An answer that is not where the file says it begins is looked for by its text, and the nearest place is taken.

    Args:
        path: A file in UTF-8, plain or compressed.

    Raises:
        ElmoError: If the file cannot be read, holds no questions, a question lacks a part, or two have the same id.
    """
    return _with_places((record for _, record in read_question_records(path)), str(path))


def load_questions(name: str, split: str, *, config: str | None = None) -> list[Question]:
    """Load questions with their answers of a data set with the library datasets.

    Args:
        name: The name on the Hub, or a folder.
        split: The name of the split, such as `"train"`.
        config: The configuration of the data set, if it has several.

    Raises:
        ElmoError: If there is no such data set or split, a question lacks a part, or two have the same id.
    """
    return _with_places(load_split(name, config, split), f"{name}, {split}")


def read_question_records(path: Source) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """Yield a record for each question, with `id`, `question`, `context`, and what else the file has.

    Before it stands the number of its line; `None` in SQuAD's JSON, where questions have no lines of their own.

    Args:
        path: As for `read_questions`, or a file of records in JSON Lines, CSV or TSV.

    Raises:
        ElmoError: If the file cannot be read.
    """
    whole = _read_whole(path) if ".json" in map(str.lower, Path(path).suffixes) else None
    if whole is None:
        yield from read_records(path)
    else:
        yield from ((None, record) for record in _flat_records(whole, str(path)))


def _read_whole(path: Source) -> list[Any] | None:
    """Return what SQuAD's files have under `data`, or `None` if a file has a record on each line."""
    try:
        content = json.loads("\n".join(read_lines(str(path))))
    except (ValueError, RecursionError):
        return None
    data = content.get("data") if isinstance(content, dict) else content
    return data if isinstance(data, list) else None


def _flat_records(data: list[Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield the questions of articles and their paragraphs, or of a list of questions."""
    try:
        for article in data:
            for paragraph in article.get("paragraphs", [article]):
                for asked in paragraph.get("qas", [paragraph]):
                    yield {"context": paragraph["context"], **asked}
    except (AttributeError, KeyError, TypeError) as error:
        raise ElmoError(
            f"{name} is JSON, but not SQuAD's: give data with paragraphs, each with a context and its qas."
        ) from error


def _with_places(records: Iterable[Mapping[str, Any]], name: str) -> list[Question]:
    """Make questions of records, and say how many answers are not at their place."""
    questions: dict[str, Question] = {}
    counts = Counter[str]()
    for number, record in enumerate(records, start=1):
        try:
            asked = question_of(record, number, counts)
        except ElmoError as error:
            raise ElmoError(f"{name}, question {number}: {error}") from error
        # answers and scores go by it
        if asked.key in questions:
            raise ElmoError(f"{name}, question {number}: an earlier question has the id {asked.key!r}: change one.")
        questions[asked.key] = asked
    if not questions:
        raise ElmoError(
            f"{name} holds no questions: give SQuAD's JSON, or records with question, context and answers."
        )
    if counts["moved"]:
        logger.warning("%s: %d answers are not where they should begin; their text was found.", name, counts["moved"])
    if counts["lost"]:
        logger.warning("%s: %d answers are not in their context, and teach nothing.", name, counts["lost"])
    return list(questions.values())


def question_of(record: Mapping[str, Any], number: int, counts: Counter[str] | None = None) -> Question:
    """Make a question of a record.

    Args:
        record: With `question` and `context`, and `answers` as SQuAD's JSON or the library datasets have them; with
            `is_impossible`, there are none. The name is its `id`.
        number: The name of a question without one.
        counts: Where to count the answers that are `moved` or `lost`.

    Raises:
        ElmoError: If a part is missing or is not what it should be.
    """
    counts = Counter() if counts is None else counts
    for name in ("question", "context"):
        if not isinstance(record.get(name), str):
            raise ElmoError(f"{name} is {record.get(name)!r:.80}: give a text.")
    context, answers = record["context"], []
    for text, start in _given_answers(record):
        place = find_answer(context, text, start)
        counts["lost"] += place is None
        counts["moved"] += place is not None and start is not None and place != start
        answers.append(Answer(text, place))
    key = record.get("id")
    return Question(str(number if key is None else key), record["question"], context, answers)


def _given_answers(record: Mapping[str, Any]) -> list[tuple[str, int | None]]:
    """Return the texts of answers, and where they should begin."""
    given = record.get("answers")
    if record.get("is_impossible"):
        given = []
    if isinstance(given, Mapping):
        # as the library datasets has them
        texts, starts = given.get("text"), given.get("answer_start")
        paired = isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts)
        given = list(zip(texts, starts, strict=True)) if paired else None  # type: ignore[arg-type]
    elif isinstance(given, list) and all(isinstance(answer, Mapping) for answer in given):
        given = [(answer.get("text"), answer.get("answer_start")) for answer in given]
    if not isinstance(given, list) or not all(
        isinstance(text, str) and text and (start is None or type(start) is int) for text, start in given
    ):
        raise ElmoError(
            f"answers are {record.get('answers')!r:.80}: give a list, each with a text and answer_start, a number."
        )
    return given


def find_answer(context: str, text: str, start: int | None) -> int | None:
    """Return where the text of an answer is in a context, the nearest place to `start`, or `None`."""
    wanted = start or 0
    places = (match.start() for match in re.finditer(f"(?={re.escape(text)})", context))
    return min(places, key=lambda place: abs(place - wanted), default=None)


def normalize_answer(text: str) -> str:
    """Return an answer as SQuAD compares it: in lower case, without punctuation, articles and further white space."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def exact_match(found: str, answers: Sequence[str]) -> float:
    """Return 1 if what was found is one of the answers, when normalized, or else 0; of none, `""` is right."""
    return float(any(normalize_answer(found) == answer for answer in _normalized(answers)))


def answer_f1(found: str, answers: Sequence[str]) -> float:
    """Return the F1 of the words of what was found, normalized, against the best of the answers; of none, `""`."""
    return max(_words_f1(normalize_answer(found).split(), answer.split()) for answer in _normalized(answers))


def _normalized(answers: Sequence[str]) -> list[str]:
    # as SQuAD's script: an answer of which nothing is left does not count
    return [text for text in map(normalize_answer, answers) if text] or [""]


def _words_f1(found: list[str], wanted: list[str]) -> float:
    if not found or not wanted:
        return float(found == wanted)
    common = (Counter(found) & Counter(wanted)).total()
    return 2 * common / (len(found) + len(wanted))


def score_answers(questions: Sequence[Question], found: Mapping[str, str]) -> dict[str, float]:
    """Score answers as SQuAD's script does, but between 0 and 1 where it gives percent.

    Args:
        questions: The questions.
        found: The answer to each question by its key, `""` for no answer.

    Returns:
        `exact_match` and `f1`, the means over all questions; and if some have no answer, `f1` of those that have one,
        `answered_f1`, and of those that have none, `unanswered_f1`.
    """
    texts = {asked.key: [answer.text for answer in asked.answers] for asked in questions}
    exact = [exact_match(found[key], answers) for key, answers in texts.items()]
    f1 = {key: answer_f1(found[key], answers) for key, answers in texts.items()}
    scores = {"exact_match": _mean(exact), "f1": _mean(f1.values())}
    if not all(texts.values()):
        scores["answered_f1"] = _mean(value for key, value in f1.items() if texts[key])
        scores["unanswered_f1"] = _mean(value for key, value in f1.items() if not texts[key])
    return scores


def best_thresholds(
    questions: Sequence[Question], found: Mapping[str, str], odds: Mapping[str, float]
) -> dict[str, float]:
    """Find the null odds above which it is best to give no answer, as SQuAD 2's script does.

    Args:
        questions: The questions.
        found: The best answer to each question by its key, whether it is more probable than none or not.
        odds: The null odds of each question by its key, `elmo_hf.prediction.answers.null_odds`.

    Returns:
        `best_exact_match` and `best_f1`, the highest means over all questions, and `best_exact_match_threshold` and
        `best_f1_threshold`, where they are reached.
    """
    texts = {asked.key: [answer.text for answer in asked.answers] for asked in questions}
    ranked = sorted(texts, key=odds.__getitem__)
    # below all odds, between two, and above all
    ends = [odds[ranked[0]] - 1, *(odds[key] for key in ranked), odds[ranked[-1]] + 1]
    scores: dict[str, float] = {}
    for name, score in (("exact_match", exact_match), ("f1", answer_f1)):
        # what an answer gains over none; any answer to a question that has none loses
        gains = [score(found[key], texts[key]) if texts[key] else -float(found[key] != "") for key in ranked]
        totals = list(accumulate(gains, initial=sum(not answers for answers in texts.values())))
        places = [place for place in range(len(totals)) if ends[place] < ends[place + 1]]
        best = max(places, key=totals.__getitem__)
        scores[f"best_{name}"] = totals[best] / len(ranked)
        scores[f"best_{name}_threshold"] = _shortest_between(ends[best], ends[best + 1])
    return scores


def _shortest_between(low: float, high: float) -> float:
    """Return a number from `low` on and below `high`, near `low`, with as few decimals as can be."""
    middle = low + min(1.0, high - low) / 2
    short = (round(middle, digits) for digits in range(18))
    return next((value for value in short if low <= value < high), low)


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / max(1, len(values))


__all__ = [
    "Answer",
    "Question",
    "answer_f1",
    "best_thresholds",
    "exact_match",
    "find_answer",
    "load_questions",
    "normalize_answer",
    "question_of",
    "read_question_records",
    "read_questions",
    "score_answers",
]
