"""The tasks: what each asks of its model, and the answer that it makes of the model's numbers.

Shape notation: `B` rows, `T` words with boundary tokens, `K` labels.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch

from elmo_hf.data.tagged import find_spans, tag_scheme
from elmo_hf.errors import ElmoError
from elmo_hf.model.heads_elmo import ElmoRoleHead
from elmo_hf.model.modeling_elmo import (
    ElmoForCoreferenceResolution,
    ElmoForMultipleChoice,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
)

from .answers import MAX_ANSWER_WORDS, best_spans, cut_windows, null_odds, span_chances


if TYPE_CHECKING:
    from .inputs import Example

# what stands for a sentence in a result: everything in it is of a type that JSON has
Result: TypeAlias = dict[str, Any]
Batch: TypeAlias = Mapping[str, torch.Tensor]

# what a record's own field is called that has the name of an answer, such as the label of a test set
GIVEN = "given_"
GIVEN_PREFIXES = re.compile(f"^({GIVEN})+")

# float32 has seven digits, and the last ones depend on the other rows of a batch
DIGITS = 5


class Tags(NamedTuple):
    """The tags of the words of a sentence.

    Attributes:
        tags: The number of each word's tag.
        scores: The probability of each.
    """

    tags: list[int]
    scores: list[float]


class Task:
    """What a model does with a row of words.

    Args:
        model: The model.

    Attributes:
        names: The labels, in the order of the model's scores.
        num_sentences: The numbers of sentences that a row may have.
        reads_sentences: Whether the model reads a row as a whole, and not word by word.
        question_fields: The usual names of the field that a record has beside a question; none if the model reads no
            questions.
        has_choices: Whether this field has several answers, of which the model chooses one.
        reads_predicates: Whether a row has a predicate, whose roles the model finds.
        answers: The names of the answers.
        columns: The columns that a table has for the answers.
    """

    num_sentences: Sequence[int] = (1,)
    reads_sentences = True
    question_fields: Sequence[str] = ()
    has_choices = False
    reads_predicates = False
    answers: Sequence[str] = ()
    columns: Sequence[str] = ()

    def __init__(self, model: Any) -> None:
        self.names = _label_names(model.config)

    def compute(self, model: Any, batch: Batch) -> list[Any]:
        """Run the model on a batch; return the numbers of each row."""
        raise NotImplementedError

    def answer(self, example: "Example", numbers: Sequence[Any]) -> Result:
        """Make an answer of the numbers of an input's rows, of which an empty input has none."""
        raise NotImplementedError

    def table_rows(self, result: Result) -> tuple[Result, list[Result]]:
        """Return what a table shows of an input beside each of its answers, and a row of `columns` for each answer."""
        raise NotImplementedError


def _label_names(config: Any) -> list[str]:
    """Return the labels in the order of the model's scores.

    Raises:
        ElmoError: If a score has no label, or two have the same one.
    """
    given = config.id2label
    missing = next((number for number in range(len(given)) if number not in given), None)
    if missing is not None:
        raise ElmoError(
            f"config.json is damaged: id2label has {', '.join(map(str, given))}, and not {missing}, of "
            f"{len(given)} labels: number them from 0."
        )
    names = [str(given[number]) for number in range(len(given))]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ElmoError(f"id2label in config.json has the label {twice!r:.80} twice: rename one.")
    return names


class Tagging(Task):
    """A tag for each word, and the spans that the tags mark."""

    reads_sentences = False

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.has_spans = tag_scheme(self.names) is not None
        self.answers = ["text", "words", "tags", "scores", *(["entities"] if self.has_spans else [])]
        self.columns = ["label", "start", "end", "text", "score"] if self.has_spans else ["word", "tag", "score"]

    def compute(self, model: Any, batch: Batch) -> list[Tags]:
        """Return the tags of each row; in evaluation, the argmax of a CRF's logits is its best sequence."""
        logits, probabilities = _tag_scores(model, batch)
        # [B, T, 1]
        best = logits.argmax(dim=2, keepdim=True)
        scores, tags = probabilities.gather(2, best)[:, :, 0].cpu(), best[:, :, 0].cpu()
        # the words between the boundary tokens, wherever the padding is
        return [
            Tags(tags[row][mask][1:-1].tolist(), rounded(scores[row][mask][1:-1]))
            for row, mask in enumerate(batch["attention_mask"].bool().cpu())
        ]

    def answer(self, example: "Example", numbers: Sequence[Tags]) -> Result:
        """Return `words`, `tags` and `scores`, and `entities` if the tags mark spans."""
        found = numbers[0] if numbers else Tags([], [])
        tags = [self.names[number] for number in found.tags]
        result = self._sentence(example) | {"tags": tags, "scores": found.scores}
        if self.has_spans:
            result["entities"] = self._spans(example.sentence.text, example.offsets(), tags, found.scores)
        return result

    @staticmethod
    def _sentence(example: "Example") -> Result:
        """Return the text and the words that the fields of an input do not have."""
        text, words, _ = example.sentence
        result: Result = {} if example.fields.get("text") == text else {"text": text}
        return result if example.fields.get("words") == words else {**result, "words": words}

    @staticmethod
    def _spans(text: str, offsets: list[tuple[int, int]], tags: list[str], scores: list[float]) -> list[Result]:
        """List the spans by their characters; the score of one is the mean of its words' scores."""
        entities = []
        for label, first, end in find_spans(tags):
            start, stop = offsets[first][0], offsets[end - 1][1]
            score = round(sum(scores[first:end]) / (end - first), DIGITS)
            entities.append({"label": label, "start": start, "end": stop, "text": text[start:stop], "score": score})
        return entities

    def table_rows(self, result: Result) -> tuple[Result, list[Result]]:
        """Show a span a row, or a word a row if the tags mark no spans."""
        beside = {name: value for name, value in result.items() if name not in self.answers}
        if self.has_spans:
            return beside, result["entities"]
        columns = [result[name] for name in self.answers if name != "text"]
        return beside, [dict(zip(self.columns, cells, strict=True)) for cells in zip(*columns, strict=True)]


class RoleLabelling(Tagging):
    """The roles of a sentence's words for each of its predicates."""

    reads_predicates = True

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.answers = ["text", "words", "frames"]
        self.columns = ["predicate", "label", "start", "end", "text", "score"]

    def answer(self, example: "Example", numbers: Sequence[Tags]) -> Result:
        """Return `words` and `frames`, one for each predicate, with its `tags`, `scores` and `roles`."""
        text, offsets, frames = example.sentence.text, example.offsets(), []
        for row, found in zip(example.rows, numbers, strict=True):
            tags = [self.names[number] for number in found.tags]
            roles = self._spans(text, offsets, tags, found.scores)
            frames.append({"predicate": row.predicate, "tags": tags, "scores": found.scores, "roles": roles})
        return self._sentence(example) | {"frames": frames}

    def table_rows(self, result: Result) -> tuple[Result, list[Result]]:
        """Show a role a row, with the number of the predicate's word, counted from 0."""
        beside = {name: value for name, value in result.items() if name not in self.answers}
        rows = [{"predicate": frame["predicate"], **role} for frame in result["frames"] for role in frame["roles"]]
        return beside, rows


def _tag_scores(model: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits and the probabilities of the labels of each word, `[B, T, K]` each."""
    if model.head is None:
        logits = model(**batch).logits.float()
        return logits, logits.softmax(dim=2)
    # The logits are scores of sequences. The probabilities are those of what is decoded.
    read: list[tuple[torch.Tensor, torch.Tensor]] = []
    hook = model.head.sequence.register_forward_pre_hook(lambda _, inputs: read.append(inputs))
    try:
        logits = model(**batch).logits
    finally:
        hook.remove()
    return logits, model.head.sequence.marginals(*read[0])


class Classification(Task):
    """A label, several labels, or numbers for each sentence or pair."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.num_sentences = model.head.num_sentences
        problem = model.config.problem_type
        if problem is None:
            # as the loss of a training has it
            problem = "regression" if len(self.names) == 1 else "single_label_classification"
        self.problem = problem
        # the score of a regression has no other name
        self.is_one_number = problem == "regression" and len(self.names) == 1
        answer = {"regression": [], "multi_label_classification": ["labels"]}.get(problem, ["label"])
        self.answers = ["score"] if self.is_one_number else [*answer, "scores"]
        self.columns = ["score"] if self.is_one_number else [*answer, *(f"score_{name}" for name in self.names)]

    def compute(self, model: Any, batch: Batch) -> list[list[float]]:
        """Return the scores of each row, `K` each."""
        # [B, K]
        logits = model(**batch).logits.float()
        if self.problem == "regression":
            scores = logits
        elif self.problem == "multi_label_classification":
            scores = logits.sigmoid()
        else:
            scores = logits.softmax(dim=1)
        return scores.tolist()

    def answer(self, example: "Example", numbers: Sequence[list[float]]) -> Result:
        """Return `label`, or `labels` of which each is more probable than not, and `scores`; or `score`, a number."""
        del example
        values = None
        if numbers:
            # what is chosen is chosen by the scores that you see
            values = list(map(significant, numbers[0])) if self.problem == "regression" else rounded(numbers[0])
        scores = None if values is None else dict(zip(self.names, values, strict=True))
        if self.is_one_number:
            return {"score": None if scores is None else scores[self.names[0]]}
        if self.problem == "regression":
            return {"scores": scores}
        if self.problem == "multi_label_classification":
            likely = (
                None
                if values is None
                else [name for name, value in zip(self.names, values, strict=True) if value > 0.5]
            )
            return {"labels": likely, "scores": scores}
        return {"label": None if values is None else self.names[values.index(max(values))], "scores": scores}

    def table_rows(self, result: Result) -> tuple[Result, list[Result]]:
        """Show an input a row, with a column for the score of each label."""
        row = {name: result[name] for name in self.answers if name != "scores"}
        if not self.is_one_number:
            row |= {f"score_{name}": value for name, value in (result["scores"] or {}).items()}
        return {name: value for name, value in result.items() if name not in self.answers}, [row]


class Choice(Task):
    """The best of several answers to a question."""

    num_sentences = (2,)
    question_fields = ("choices", "answers", "endings")
    has_choices = True
    answers = columns = ("choice", "scores")

    def __init__(self, model: Any) -> None:
        del model
        self.names = []

    def compute(self, model: Any, batch: Batch) -> list[float]:
        """Return the score of each row, which is one question with one answer."""
        one_choice = {name: part.unsqueeze(1) for name, part in batch.items()}
        return model(**one_choice).logits.float()[:, 0].tolist()

    def answer(self, example: "Example", numbers: Sequence[float]) -> Result:
        """Return `choice`, the number of the best answer, counted from 0, and `scores`, the probability of each."""
        del example
        scores = rounded(torch.tensor(numbers).softmax(dim=0))
        return {"choice": scores.index(max(scores)), "scores": scores}

    def table_rows(self, result: Result) -> tuple[Result, list[Result]]:
        """Show an input a row, with the scores of its answers in one cell."""
        row = {"choice": result["choice"], "scores": json.dumps(result["scores"])}
        return {name: value for name, value in result.items() if name not in self.columns}, [row]


class QuestionAnswering(Task):
    """The words of a context that answer a question.

    Args:
        model: The model.
        top_k: The most answers to find.
        max_words: The most words of an answer.

    Attributes:
        no_answer: Whether a context may have no answer.
        no_answer_threshold: The null odds (`null_odds`) above which it has none.
    """

    num_sentences = (2,)
    question_fields = ("context", "passage", "paragraph")
    answers = columns = ("answer", "start", "end", "score")

    def __init__(self, model: Any, *, top_k: int = 1, max_words: int = MAX_ANSWER_WORDS) -> None:
        del model
        self.names = []
        self.top_k = top_k
        self.max_words = max_words
        self.no_answer = False
        self.no_answer_threshold = 0.0

    def compute(self, model: Any, batch: Batch) -> list[np.ndarray]:
        """Return the probabilities of no answer and of each word of each row's context, `[1 + W, 2]`."""
        output = model(**batch)
        mask = batch["attention_mask"].bool()
        sentences, words = model.find_words(batch["input_ids"], mask)
        # [B, T, 2]
        logits = torch.stack([output.start_logits, output.end_logits], dim=2).float().cpu().numpy()
        contexts, real = (words & (sentences == 2)).cpu().numpy(), mask.cpu().numpy()
        return [
            span_chances(scores[kept], context[kept])
            for scores, context, kept in zip(logits, contexts, real, strict=True)
        ]

    def find(self, example: "Example", numbers: Sequence[np.ndarray]) -> tuple[list[Result], float]:
        """Return the best answers in the windows of a context, and the probability that there is none."""
        if not numbers:
            return [], 1.0
        text, words, _ = example.sentence
        starts = [start for start, _ in cut_windows(len(words))]
        spans, none = best_spans(numbers, starts, max_words=self.max_words, top_k=self.top_k)
        offsets, found = example.offsets(), []
        for first, last, score in spans:
            start, end = offsets[first][0], offsets[last][1]
            found.append({"answer": text[start:end], "start": start, "end": end, "score": score})
        return found, none

    def answer(self, example: "Example", numbers: Sequence[np.ndarray]) -> Result:
        """Return `answer`, its `start` and `end` in the context, counted in characters, and its `score`."""
        found, none = self.find(example, numbers)
        best: Result = {"answer": None, "start": None, "end": None, "score": none}
        if found and not (self.no_answer and null_odds(none, found[0]["score"]) > self.no_answer_threshold):
            best = found[0]
        return {**best, "score": significant(best["score"])}

    def table_rows(self, result: Result) -> tuple[Result, list[Result]]:
        """Show a question a row."""
        beside = {name: value for name, value in result.items() if name not in self.answers}
        return beside, [{name: result[name] for name in self.columns}]


class Coreference(Task):
    """The mentions of the same thing in a document, of which `resolve` reads one at a time."""

    answers = ("text", "sentences", "clusters", "mentions")
    columns = ("cluster", "start", "end", "text")

    def __init__(self, model: Any) -> None:
        self.names = []
        self.use_speakers = bool(model.config.use_speakers)

    def compute(self, model: Any, batch: Batch) -> list[Any]:
        """Return the clusters of each document, with the first and the last word of each mention."""
        return model.decode(model(**batch))

    def table_rows(self, result: Result) -> tuple[Result, list[Result]]:
        """Show a mention a row, with the number of its cluster, counted from 0."""
        beside = {name: value for name, value in result.items() if name not in self.answers}
        clusters = enumerate(result["mentions"])
        return beside, [{"cluster": number, **mention} for number, cluster in clusters for mention in cluster]


TASKS: dict[type[Any], type[Task]] = {
    ElmoForTokenClassification: Tagging,
    ElmoForSequenceClassification: Classification,
    ElmoForMultipleChoice: Choice,
    ElmoForQuestionAnswering: QuestionAnswering,
    ElmoForCoreferenceResolution: Coreference,
}


def make_task(model: Any) -> Task:
    """Return the task of a model.

    Raises:
        ElmoError: If the model has no head for a task.
    """
    cls = next((cls for cls in TASKS if isinstance(model, cls)), None)
    if cls is None:
        names = ", ".join(each.__name__ for each in TASKS)
        raise ElmoError(f"{type(model).__name__} has no head for a task: load one of {names}, as `load` does.")
    # one class has taggers, and the model of roles, which reads a predicate
    is_labeller = cls is ElmoForTokenClassification and isinstance(model.head, ElmoRoleHead)
    return RoleLabelling(model) if is_labeller else TASKS[cls](model)


def rename_given(fields: Mapping[str, Any], taken: Collection[str]) -> dict[str, Any]:
    """Return fields without the names that are taken: `label` becomes `given_label`.

    A field that has such a name already, `given_label`, becomes `given_given_label`, whatever other fields there are.
    So no two fields get the same name, and a field gets the same one in every record.

    Args:
        fields: The fields of a record.
        taken: The names of answers or columns.
    """
    return {f"{GIVEN}{name}" if GIVEN_PREFIXES.sub("", str(name)) in taken else name: fields[name] for name in fields}


def rounded(numbers: torch.Tensor | Sequence[float]) -> list[float]:
    """Return probabilities `[n]` as Python's numbers, without digits that depend on the batch."""
    values = numbers.tolist() if isinstance(numbers, torch.Tensor) else numbers
    return [round(value, DIGITS) for value in values]


def significant(number: float) -> float:
    """Return a number of any size without digits that depend on the batch."""
    return float(f"{number:.{DIGITS}g}")


__all__ = [
    "TASKS",
    "Choice",
    "Classification",
    "Coreference",
    "QuestionAnswering",
    "Result",
    "RoleLabelling",
    "Tagging",
    "Task",
    "make_task",
    "rename_given",
    "significant",
]
