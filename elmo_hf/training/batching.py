"""Make batches for the language model: whole sentences of similar length, or continuous streams as bilm-tf does.

Shape notation: `B` sentences or streams, `T` words, `S` characters of a word.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils.data import IterableDataset, Sampler, get_worker_info
from transformers import PreTrainedTokenizerBase

from elmo_hf.data.batches import batch_bounds
from elmo_hf.errors import ElmoError, counted


# the words of a sentence, a text, or a row of a data set with one of these
Example: TypeAlias = Mapping[str, Any] | Sequence[str] | str
Batch: TypeAlias = dict[str, torch.Tensor]

# the label that the loss ignores
NOTHING = -100

# words whose spelling is cached across batches: the usual size of a vocabulary, some 50 MB
KEPT_WORDS = 1 << 18

# the window of bilm-tf (bin/train_elmo.py)
UNROLL_STEPS = 20


def words_of(example: Example, tokenize: Callable[[str], list[str]]) -> list[str]:
    """Return the words of an example; `None` has no words.

    Args:
        example: Words, which are taken as they are; a text; or a row of a data set with `words` or `text`.
        tokenize: Splits a text into words: the tokenizer's `tokenize`, or `str.split` for text that is tokenized
            already.

    Raises:
        ElmoError: If it has neither.
    """
    if isinstance(example, Mapping):
        name = next((name for name in ("words", "text") if name in example), None)
        if name is None:
            raise ElmoError(f"An example has {', '.join(map(repr, example))}: name a column `words`, or `text`.")
        example = example[name]
    if example is None:
        return []
    return tokenize(example) if isinstance(example, str) else list(example)


def boundaries(tokenizer: PreTrainedTokenizerBase) -> tuple[str, str]:
    """Return the boundary tokens that begin and end a sentence.

    Raises:
        ElmoError: If the tokenizer lacks one.
    """
    begin, end = tokenizer.bos_token, tokenizer.eos_token
    if not (isinstance(begin, str) and isinstance(end, str)):
        raise ElmoError("The tokenizer has no bos_token or no eos_token: a language model needs both.")
    return begin, end


class SentenceCollator:
    """Make batches of whole sentences, each from `<S>` to `</S>`.

    A long sentence is cut into pieces, and each piece is a row of the batch. A piece begins with the last word of the
    piece before, so that each word is still predicted once in each direction, and boundary tokens stand only at the
    ends of the sentence.

    Args:
        tokenizer: The tokenizer of the model.
        max_words: The largest number of words in a row, without boundary tokens.

    Raises:
        ElmoError: If `max_words` is not positive, or the tokenizer has no boundary tokens.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_words: int = 400) -> None:
        if max_words < 1:
            raise ElmoError(f"max_words is {max_words}: give 1 or more.")
        self.lexicon = _Lexicon(tokenizer)
        self.max_words = max_words

    def __call__(self, examples: Iterable[Example]) -> Batch:
        """Make a batch of sentences.

        Args:
            examples: Rows with `words`, a list, or `text`, which the tokenizer splits; or lists of words.

        Returns:
            `input_ids` `[B, T]`; `attention_mask` `[B, T]`; `char_ids` `[B, T, S]`, if the tokenizer spells words; and
            `labels` `[B, 2, T]`, at each word the id of the next word for the forward direction and of the
            previous word for the backward direction, -100 where there is none. Padding is on the right.

        Raises:
            ElmoError: If a row has neither `words` nor `text`, or a word is not a string.
        """
        rows = [piece for example in examples for piece in self._pieces(self.lexicon.words_of(example))]
        numbers = self.lexicon.number(rows)
        batch = self.lexicon.look_up(numbers)
        # [B, T - 1], true at words that follow another one
        follows, words = torch.from_numpy(numbers[:, 1:] != 0), batch["input_ids"]
        labels = words.new_full((len(rows), 2, words.shape[1]), NOTHING)
        labels[:, 0, :-1] = words[:, 1:].where(follows, NOTHING)
        labels[:, 1, 1:] = words[:, :-1].where(follows, NOTHING)
        return {**batch, "attention_mask": torch.from_numpy(numbers != 0).long(), "labels": labels}

    def _pieces(self, words: list[str]) -> Iterator[list[str]]:
        framed = [self.lexicon.bos, *words, self.lexicon.eos]
        step = self.max_words + 1
        return (framed[start : start + step + 1] for start in range(0, len(framed) - 1, step))


class BucketedSentences(Sampler[list[int]]):
    """Group sentences of similar length into batches, in a new order every epoch.

    Use it as the `batch_sampler` of a torch DataLoader, with `SentenceCollator` as its `collate_fn`. The seed and the
    epoch determine the batches; all epochs have the same number of them.

    Args:
        lengths: The number of words of each sentence; empty sentences are left out.
        words_per_batch: The largest number of words in a batch, padding and the boundary tokens included. A longer
            sentence is a batch of its own.
        seed: The seed of the order.
        processes: The number of processes that share the batches. The number of batches is a multiple of it, so that
            no process waits for another in vain.

    Raises:
        ElmoError: If `words_per_batch` is not positive, no sentence has words, or there are fewer sentences than
            processes.
    """

    def __init__(
        self, lengths: Sequence[int] | np.ndarray, *, words_per_batch: int, seed: int = 0, processes: int = 1
    ) -> None:
        # no copy of those of a stored text
        self.lengths = np.asarray(lengths, dtype=np.int32)
        if words_per_batch < 1:
            raise ElmoError(f"words_per_batch is {words_per_batch}: give 1 or more.")
        if not self.lengths.any():
            raise ElmoError("No sentence has words: check the text.")
        self.seed = seed
        self.epoch = 0
        longest_first = np.sort(self.lengths[self.lengths > 0])[::-1]
        # with both boundary tokens
        self.bounds = batch_bounds(longest_first + 2, max_positions=words_per_batch)
        while len(self) % processes:
            # halve the batch with the most sentences
            sizes = np.diff(self.bounds)
            place = int(sizes.argmax())
            if sizes[place] < 2:
                raise ElmoError(
                    f"{counted(len(longest_first), 'sentence')} cannot be shared by {processes} processes: use fewer."
                )
            self.bounds.insert(place + 1, self.bounds[place] + int(sizes[place]) // 2)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order of the next iteration; Trainer and Accelerate call this."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[list[int]]:
        choose = np.random.default_rng([self.seed, self.epoch])
        sentences = choose.permutation(self.lengths.nonzero()[0].astype(np.uint32))
        longest = self.lengths.max()
        # small integers are sorted several times as fast
        keys = (longest - self.lengths[sentences]).astype(np.min_scalar_type(longest))
        # sentences of one length stay shuffled
        sentences = sentences[np.argsort(keys, kind="stable")]
        for batch in choose.permutation(len(self)):
            yield sentences[self.bounds[batch] : self.bounds[batch + 1]].tolist()


class StreamBatches(IterableDataset[Batch]):
    """Cut continuous streams of text into windows, the batches of bilm-tf.

    Each stream continues in the next batch, so pass the model's state on. A stream takes the next sentence when one
    ends, and no sentence is in two streams. The forward direction reads `<S> w1 .. wn` of a sentence and predicts
    `w1 .. wn </S>`; the backward direction reads `</S> wn .. w1` and predicts `wn .. w1 <S>`. Each window of the
    backward direction is stored from its last step to its first, as `ElmoModel` takes it.

    Use it as the data set of a torch DataLoader with `batch_size=None` and at most one worker.

    Args:
        sentences: Lists of words, or rows of a data set as for `SentenceCollator`; empty sentences are skipped. They
            are read once per epoch, and receive the epoch if they have `set_epoch`.
        tokenizer: The tokenizer of the model.
        batch_size: The number of streams, `B`.
        unroll_steps: The number of steps of a window, `T`.
        drop_last: Whether to end as bilm-tf does, at the first window that a stream cannot fill. By default, windows
            are padded until every stream has ended.

    Raises:
        ElmoError: If a size is not positive, `sentences` can be read only once, or the tokenizer has no boundary
            tokens.
    """

    def __init__(
        self,
        sentences: Iterable[Example],
        tokenizer: PreTrainedTokenizerBase,
        *,
        batch_size: int,
        unroll_steps: int = UNROLL_STEPS,
        drop_last: bool = False,
    ) -> None:
        if min(batch_size, unroll_steps) < 1:
            raise ElmoError(f"batch_size is {batch_size}, unroll_steps {unroll_steps}: give 1 or more of each.")
        if isinstance(sentences, Iterator):
            raise ElmoError("The sentences can be read only once: give a list, a data set, or a Corpus.")
        self.sentences = sentences
        self.lexicon = _Lexicon(tokenizer)
        self.batch_size = batch_size
        self.unroll_steps = unroll_steps
        self.drop_last = drop_last

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch to the sentences, which determines their order; Trainer and Accelerate call this."""
        if hasattr(self.sentences, "set_epoch"):
            self.sentences.set_epoch(epoch)

    def __iter__(self) -> Iterator[Batch]:
        """Yield one window after the other.

        Yields:
            `input_ids` `[B, 2, T]` and, if the tokenizer spells words, `char_ids` `[B, 2, T, S]`, the words that each
            direction reads; `labels` `[B, 2, T]`, the words that it predicts there, -100 at padding; and
            `attention_mask` `[B, T]` for both directions.

        Raises:
            ElmoError: If several workers of a DataLoader read.
        """
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise ElmoError(
                f"{worker.num_workers} workers cannot share continuous streams: set num_workers to 1 or 0."
            )
        # all streams draw from this
        source = (words for words in map(self.lexicon.words_of, self.sentences) if words)
        streams = [self._steps(source) for _ in range(self.batch_size)]
        while True:
            windows = [list(islice(stream, self.unroll_steps)) for stream in streams]
            taken = [len(window) for window in windows]
            if not any(taken) or (self.drop_last and min(taken) < self.unroll_steps):
                return
            yield self._batch(windows)

    def _steps(self, source: Iterator[list[str]]) -> Iterator[tuple[str, str, str, str]]:
        """Yield the words that each direction reads and predicts at each step of a stream, forward first."""
        for words in source:
            framed = [self.lexicon.bos, *words, self.lexicon.eos]
            yield from zip(framed, framed[1:], reversed(framed), framed[-2::-1], strict=False)

    def _batch(self, windows: list[list[tuple[str, str, str, str]]]) -> Batch:
        rows: list[Sequence[str]] = []
        for window in windows:
            read, predicted, read_back, predicted_back = zip(*window, strict=True) if window else ((), (), (), ())
            rows += [read, read_back[::-1], predicted, predicted_back[::-1]]
        # [B, 2 (inputs, targets), 2 (forward, backward), T]
        numbers = self.lexicon.number(rows, self.unroll_steps).reshape(len(windows), 2, 2, self.unroll_steps)
        batch = self.lexicon.look_up(numbers[:, 0])
        words = torch.from_numpy(numbers[:, 0, 0] != 0)
        labels = self.lexicon.word_ids(numbers[:, 1]).where(words[:, None], NOTHING)
        return {**batch, "attention_mask": words.long(), "labels": labels}


class _Numbers(dict[str, int]):
    """Numbers words from 1 in the order of their first use; 0 is padding. `new` lists the words not looked up yet."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        self.new.append(word)
        self[word] = number = len(self) + 1
        return number


class _Lexicon:
    """Caches the ids and characters of words, because a text repeats most of its words."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.bos, self.eos = boundaries(tokenizer)
        self.tokenizer = tokenizer
        self._forget()

    def words_of(self, example: Example) -> list[str]:
        """Return the words of an example; the tokenizer splits a text."""
        return words_of(example, self.tokenizer.tokenize)

    def _forget(self) -> None:
        self.numbers = _Numbers()
        # a row for each number, and some spare rows
        self.tables: dict[str, np.ndarray] = {}
        # the tables exist from the start, so that a batch may be empty
        _ = self.numbers[self.bos], self.numbers[self.eos]
        self._learn()

    def number(self, rows: Sequence[Sequence[str]], length: int | None = None) -> np.ndarray:
        """Number the words of rows, `[rows, T]` with 0 at padding; valid until the next call."""
        if len(self.numbers) > KEPT_WORDS:
            self._forget()
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        places = np.arange(lengths.max(initial=0) if length is None else length) < lengths[:, None]
        numbers = np.zeros(places.shape, dtype=np.int64)
        found = map(self.numbers.__getitem__, chain.from_iterable(rows))
        numbers[places] = np.fromiter(found, dtype=np.int64, count=int(lengths.sum()))
        if self.numbers.new:
            try:
                self._learn()
            except BaseException:
                # the words must not keep numbers without rows
                self._forget()
                raise
        return numbers

    def _learn(self) -> None:
        """Look up the words that are new since the last call.

        Raises:
            ElmoError: If one is not a string.
        """
        new = self.numbers.new
        for word in new:
            if not isinstance(word, str):
                raise ElmoError(f"{word!r} is not a word: give words as strings.")
        end = len(self.numbers) + 1
        encoded = self.tokenizer(
            [new], is_split_into_words=True, add_special_tokens=False, return_tensors="np", verbose=False
        )
        for name in ("input_ids", "char_ids"):
            # the tokenizer of a model that reads only words has no characters
            if name in encoded:
                # [words, ...]; the characters in int32, the smallest dtype that every device takes
                values = encoded[name][0].astype(np.int64 if name == "input_ids" else np.int32)
                table = self.tables.get(name)
                if table is None:
                    padding = (self.tokenizer.pad_token_id or 0) if name == "input_ids" else 0
                    table = np.full_like(values, padding, shape=(1, *values.shape[1:]))
                if len(table) < end:
                    grown = np.zeros_like(table, shape=(2 * end, *table.shape[1:]))
                    grown[: len(table)] = table
                    table = self.tables[name] = grown
                table[end - len(new) : end] = values
        self.numbers.new = []

    def word_ids(self, numbers: np.ndarray) -> torch.Tensor:
        """Look up the ids of words, of the shape of their numbers."""
        return torch.from_numpy(self.tables["input_ids"][numbers])

    def look_up(self, numbers: np.ndarray) -> Batch:
        """Look up the ids and the characters of words, of the shape of their numbers; 0 at padding."""
        return {name: torch.from_numpy(table[numbers]) for name, table in self.tables.items()}


__all__ = [
    "NOTHING",
    "Batch",
    "BucketedSentences",
    "Example",
    "SentenceCollator",
    "StreamBatches",
    "boundaries",
    "words_of",
]
