"""Measure a language model: the loss of each sentence in each direction, and the perplexity of a text.

The forward direction reads `<S> w1 .. wn` and predicts `w1 .. wn </S>`; the backward direction reads `</S> wn .. w1`
and predicts `wn .. w1 <S>`: one prediction more than the sentence has words. A word outside the vocabulary is
predicted as `<UNK>`. The softmax is always over the whole vocabulary.

Shape notation: `B` rows, `T` steps of a row, `N` words of some sentences with their boundary tokens.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf.data.batches import BATCHES_PER_WINDOW, batches_by_length, windows
from elmo_hf.embedding.loading import load
from elmo_hf.embedding.sentences import SentenceInput, check_sentences, split_words
from elmo_hf.errors import ElmoError, counted
from elmo_hf.files import new_json_lines
from elmo_hf.inspection import read_config
from elmo_hf.model.modeling_elmo import ElmoForPreTraining
from elmo_hf.model.outputs_elmo import LayerState
from elmo_hf.model.tokenization_elmo import ElmoTokenizer

from .batching import NOTHING, boundaries
from .vocabulary import check_vocabulary


Places = NDArray[np.int64]
State = tuple[LayerState, ...]

WORDS_PER_BATCH = 2048
# from the position that a direction reads to the one that it predicts, which it reads next
STEPS = np.array([[1], [-1]])


@dataclass(frozen=True)
class SentenceScore:
    """The loss of a sentence.

    Attributes:
        words: The number of words, without boundary tokens.
        unknown_words: The number of words that are predicted as `<UNK>`: those outside the vocabulary, and `<UNK>`.
        predictions: The number of predictions of each direction: the words and one boundary token.
        forward_nats: Minus the log probability that the forward direction gives to the words and `</S>`, in nats.
        backward_nats: The same of the backward direction, and `<S>`.
    """

    words: int
    unknown_words: int
    predictions: int
    forward_nats: float
    backward_nats: float


class WordScore(NamedTuple):
    """The loss of one word, or of a boundary token, in its sentence.

    Attributes:
        word: The word.
        is_unknown: Whether it is predicted as `<UNK>`.
        forward_nats: Minus the log probability that the forward direction gives to it, in nats; `None` for `<S>`,
            which that direction does not predict.
        backward_nats: The same of the backward direction; `None` for `</S>`.
    """

    word: str
    is_unknown: bool
    forward_nats: float | None
    backward_nats: float | None


@dataclass
class CorpusScore:
    """The loss of a text: the sum over its sentences, so that each prediction has the same weight.

    Without predictions, the perplexities are NaN.

    Attributes:
        sentences: The number of sentences.
        words: The number of words, without boundary tokens.
        unknown_words: The number of words that are predicted as `<UNK>`.
        predictions: The number of predictions of each direction.
        forward_nats: The total loss of the forward direction, in nats.
        backward_nats: The total loss of the backward direction, in nats.
    """

    sentences: int = 0
    words: int = 0
    unknown_words: int = 0
    predictions: int = 0
    forward_nats: float = 0.0
    backward_nats: float = 0.0

    def add(self, sentence: SentenceScore) -> None:
        """Add the loss of a sentence."""
        self.sentences += 1
        for name, value in asdict(sentence).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def forward_perplexity(self) -> float:
        """The perplexity of the forward direction."""
        return _perplexity(self.forward_nats, self.predictions)

    @property
    def backward_perplexity(self) -> float:
        """The perplexity of the backward direction."""
        return _perplexity(self.backward_nats, self.predictions)

    @property
    def perplexity(self) -> float:
        """The perplexity of both directions, from the mean of their losses, as bilm-tf reports it."""
        return _perplexity(self.forward_nats + self.backward_nats, 2 * self.predictions)

    @property
    def unknown_rate(self) -> float:
        """The fraction of words that are outside the vocabulary."""
        return self.unknown_words / max(1, self.words)


def _perplexity(nats: float, predictions: int) -> float:
    if not predictions:
        return math.nan
    try:
        return math.exp(nats / predictions)
    except OverflowError:
        return math.inf


def load_language_model(folder: str | Path) -> tuple[ElmoForPreTraining, ElmoTokenizer]:
    """Load a language model with its softmax, and its tokenizer.

    Args:
        folder: A model folder, from a training or from `elmo-hf convert` with a checkpoint that has a softmax; or
            `elmo-small-en`, which comes with the package.

    Raises:
        ElmoError: If it has no softmax, or no vocabulary that fits the softmax, or a part is missing or damaged.
    """
    read_config(folder)
    model, tokenizer = load(folder, ElmoForPreTraining)
    return cast(ElmoForPreTraining, model), check_words_are_known(folder, model, tokenizer)


def check_words_are_known(
    folder: str | Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> ElmoTokenizer:
    """Return the tokenizer of a language model if it knows the words that the softmax predicts.

    Args:
        folder: The model folder that both were loaded from.
        model: The language model.
        tokenizer: The tokenizer.

    Raises:
        ElmoError: If the tokenizer has no vocabulary, or one that does not fit the softmax.
    """
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise ElmoError(
            f"The tokenizer in {folder} has no vocabulary, so it is not known which words the softmax predicts: "
            "convert the model again, with its vocabulary."
        )
    if not isinstance(tokenizer, ElmoTokenizer) or tokenizer.vocab_size != model.config.vocab_size:
        raise ElmoError(
            f"The vocabulary of the tokenizer in {folder} has {counted(tokenizer.vocab_size, 'word')} and the "
            f"softmax {model.config.vocab_size:,}, padding included: put the tokenizer there that the model was "
            "trained with."
        )
    return tokenizer


def score(
    model: ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    sentences: Iterable[SentenceInput],
    *,
    stateful: bool = False,
    words_per_batch: int = WORDS_PER_BATCH,
) -> Iterator[SentenceScore]:
    """Compute the loss of each sentence.

    A score does not depend on the batches, nor, without `stateful`, on the other sentences. The sentences may come
    from a generator and have any length.

    Args:
        model: A language model in evaluation mode, on any device.
        tokenizer: The tokenizer that belongs to it.
        sentences: Texts, which the tokenizer splits, or lists of words.
        stateful: Whether to read the sentences as one stream, as bilm-tf does: each direction carries its state from
            sentence to sentence, in the order of the text.
        words_per_batch: The number of predictions that each direction makes at once, padding included; more take more
            memory.

    Returns:
        A score for each sentence, in their order.

    Raises:
        ElmoError: If the tokenizer does not belong to the model, or has no boundary tokens; if `words_per_batch` is
            not positive; or if `sentences` is not one column of sentences.
        ValueError: If the model is in training mode.
    """
    if words_per_batch < 1:
        raise ElmoError(f"words_per_batch is {words_per_batch}: give 1 or more.")
    # refused before a sentence is read
    _check_model(model, tokenizer)
    split = (split_words(sentence, tokenizer) for sentence in check_sentences(sentences))
    if stateful:
        return _score_stream(model, tokenizer, split, words_per_batch)
    return _score_apart(model, tokenizer, split, words_per_batch)


def score_each_word(model: ElmoForPreTraining, tokenizer: ElmoTokenizer, sentence: SentenceInput) -> list[WordScore]:
    """Compute the loss of each word of a sentence; the sum over its words is what `score` returns.

    Args:
        model: As for `score`.
        tokenizer: As for `score`.
        sentence: A text, which the tokenizer splits, or a list of words.

    Returns:
        The scores of `<S>`, of the words, and of `</S>`, in the order of the text.

    Raises:
        ElmoError: If the tokenizer does not belong to the model, or has no boundary tokens.
        ValueError: If the model is in training mode.
    """
    _check_model(model, tokenizer)
    words = split_words(sentence, tokenizer)
    table = _Table(tokenizer, [words])
    (losses,), _ = _losses(model, table, [table.reading(0)], WORDS_PER_BATCH)
    forward, backward = losses.tolist()
    begin, end = boundaries(tokenizer)
    rows = zip(
        [begin, *words, end], table.unknown[1:].tolist(), [None, *forward], [*reversed(backward), None], strict=True
    )
    return [WordScore(*row) for row in rows]


def _check_model(model: ElmoForPreTraining, tokenizer: ElmoTokenizer) -> None:
    if model.training:
        raise ValueError("The model is in training mode, where losses are random: call `model.eval()` first.")
    boundaries(tokenizer)
    check_vocabulary(model, tokenizer)


def _score_stream(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, sentences: Iterable[list[str]], words_per_batch: int
) -> Iterator[SentenceScore]:
    state: State | None = None
    for window in windows(sentences, max_size=words_per_batch, size_of=_predictions):
        table = _Table(tokenizer, window)
        reading = np.concatenate([table.reading(i) for i in range(len(window))], axis=1)
        (losses,), state = _losses(model, table, [reading], words_per_batch, state)
        starts = np.cumsum([0, *(len(words) + 1 for words in window)])
        yield from (table.score(i, losses[:, starts[i] : starts[i + 1]]) for i in range(len(window)))


def _score_apart(
    model: ElmoForPreTraining, tokenizer: ElmoTokenizer, sentences: Iterable[list[str]], words_per_batch: int
) -> Iterator[SentenceScore]:
    for window in windows(sentences, max_size=BATCHES_PER_WINDOW * words_per_batch, size_of=_predictions):
        table = _Table(tokenizer, window)
        scores: dict[int, SentenceScore] = {}
        for batch in batches_by_length([_predictions(words) for words in window], max_positions=words_per_batch):
            losses, _ = _losses(model, table, [table.reading(i) for i in batch], words_per_batch)
            scores.update({i: table.score(i, own) for i, own in zip(batch, losses, strict=True)})
        yield from (scores[i] for i in range(len(window)))


def _predictions(words: Sequence[str]) -> int:
    """Return how many words each direction predicts: those of the sentence, and a boundary token."""
    return len(words) + 1


class _Table:
    """The ids of the words of some sentences, boundary tokens included; position 0 is padding.

    Attributes:
        columns: `input_ids` `[1 + N]`, and `char_ids` `[1 + N, S]` if the tokenizer spells words.
    """

    def __init__(self, tokenizer: ElmoTokenizer, sentences: Sequence[Sequence[str]]) -> None:
        self.lengths = [len(words) for words in sentences]
        # where each sentence begins
        self.starts = np.cumsum([1, *(length + 2 for length in self.lengths)])
        begin, end = boundaries(tokenizer)
        framed = [word for words in sentences for word in (begin, *words, end)]
        encoded = tokenizer(
            [framed], is_split_into_words=True, add_special_tokens=False, return_tensors="pt", verbose=False
        )
        self.columns = {
            name: torch.nn.functional.pad(encoded[name][0], (0, 0) * (encoded[name].ndim - 2) + (1, 0))
            for name in ("input_ids", "char_ids")
            if name in encoded
        }
        ids = self.columns["input_ids"]
        # the id of a mask lies beyond the vocabulary
        self.unknown = ((ids == tokenizer.unk_token_id) | (ids >= tokenizer.vocab_size)).numpy()

    def reading(self, i: int) -> Places:
        """Return the positions that each direction reads, `[2, n + 1]`: `<S> w1 .. wn`, and `</S> wn .. w1`."""
        first, last = self.starts[i], self.starts[i + 1] - 1
        return np.stack([np.arange(first, last), np.arange(last, first, -1)])

    def score(self, i: int, losses: NDArray[np.float64]) -> SentenceScore:
        """Sum the losses `[2, n + 1]` of a sentence."""
        forward, backward = losses.sum(axis=1).tolist()
        unknown = int(self.unknown[self.starts[i] + 1 : self.starts[i + 1] - 1].sum())
        return SentenceScore(self.lengths[i], unknown, self.lengths[i] + 1, forward, backward)


@torch.inference_mode()
def _losses(
    model: ElmoForPreTraining, table: _Table, readings: list[Places], most_steps: int, state: State | None = None
) -> tuple[list[NDArray[np.float64]], State | None]:
    """Compute the loss of each prediction.

    Args:
        model: The language model.
        table: The words.
        readings: `B` times `[2, steps]`, the positions that each direction reads, in its own order.
        most_steps: The number of steps of a row to take at once; the state carries over to the next ones.
        state: The initial state.

    Returns:
        `B` times the losses `[2, steps]`, in the order of reading, and the final state.
    """
    parts: list[list[NDArray[np.float64]]] = [[] for _ in readings]
    for start in range(0, max(reading.shape[1] for reading in readings), most_steps):
        pieces = [reading[:, start : start + most_steps] for reading in readings]
        # [B, 2, T], both in the order of the text, as the model takes them
        read = np.zeros((len(pieces), 2, max(piece.shape[1] for piece in pieces)), dtype=np.int64)
        for row, piece in zip(read, pieces, strict=True):
            row[0, : piece.shape[1]] = piece[0]
            row[1, : piece.shape[1]] = piece[1, ::-1]
        words = torch.from_numpy(read != 0)
        predicted = torch.from_numpy(read + STEPS)
        labels = table.columns["input_ids"][predicted.clamp(min=0)].where(words, NOTHING)
        batch = {name: column[torch.from_numpy(read)] for name, column in table.columns.items()}
        batch = {**batch, "attention_mask": words[:, 0].long(), "labels": labels}
        output = model(**{name: part.to(model.device) for name, part in batch.items()}, state=state, use_cache=True)
        state = output.state
        # [B, 2, T]
        losses = torch.stack([output.forward_losses, output.backward_losses], dim=1).double().cpu().numpy()
        for part, row, piece in zip(parts, losses, pieces, strict=True):
            own = row[:, : piece.shape[1]]
            part.append(np.stack([own[0], own[1, ::-1]]))
    return [np.concatenate(part, axis=1) for part in parts], state


@contextmanager
def open_score_file(path: str | Path) -> Iterator[Callable[[Sequence[str], SentenceScore, str, int], None]]:
    """Write scores as JSON Lines. The file appears when the block ends, and not at all if the block fails.

    Args:
        path: The new file.

    Yields:
        A function that adds a sentence: it takes the words, the score, and the file and the line of the sentence.

    Raises:
        ElmoError: If the file exists, or cannot be written.
    """
    with new_json_lines(Path(path)) as write:

        def add(words: Sequence[str], sentence: SentenceScore, source: str, line: int) -> None:
            write({"file": source, "line": line, "text": " ".join(words), **asdict(sentence)})

        yield add


__all__ = [
    "CorpusScore",
    "SentenceScore",
    "WordScore",
    "check_words_are_known",
    "load_language_model",
    "open_score_file",
    "score",
    "score_each_word",
]
