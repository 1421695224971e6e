"""`training.batching`: every word is predicted once in each direction, from the words that the original gives it.

The streams are compared with a loop over plain lists that follows bilm-tf's description, and whole sentences with
the words themselves.
"""

import gc
import pickle
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from accelerate import skip_first_batches
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from elmo_hf import ElmoError, ElmoForPreTraining, ElmoTokenizer
from elmo_hf.model.characters_elmo import ByteSpelling
from elmo_hf.training import batching
from elmo_hf.training.batching import BucketedSentences, SentenceCollator, StreamBatches, words_of
from support.tiny_models import tiny_model


NOTHING = -100
VOCABULARY = ["<S>", "</S>", "<UNK>", *"abcdefghij"]
TOKENIZER = ElmoTokenizer(VOCABULARY, max_characters_per_token=8)

# words of the vocabulary, one outside it, and those that are spelled like a boundary or like padding
WORDS = st.sampled_from([*"abcdefghij", "unheard-of", "</S>", "<PAD>", ""])
SENTENCES = st.lists(st.lists(WORDS, max_size=9), max_size=12)

# four for each step: what the forward direction reads and predicts, then the backward one
Step = tuple[int, int, int, int]


def id_of(word: str) -> int:
    return VOCABULARY.index(word) + 1 if word in VOCABULARY else 3


def streams_by_loops(sentences: list[list[str]], rows: int, steps: int) -> Iterator[list[list[Step]]]:
    """Cut streams in windows: for each window and row the steps in the order of reading, at most `steps`."""
    waiting = [sentence for sentence in sentences if sentence]
    left: list[list[Step]] = [[] for _ in range(rows)]
    while True:
        windows: list[list[Step]] = []
        for row in range(rows):
            window: list[Step] = []
            while len(window) < steps and (left[row] or waiting):
                if not left[row]:
                    words = [id_of(word) for word in waiting.pop(0)]
                    n = len(words)
                    for k in range(n + 1):
                        read = 1 if k == 0 else words[k - 1]
                        predict = 2 if k == n else words[k]
                        read_back = 2 if k == 0 else words[n - k]
                        predict_back = 1 if k == n else words[n - k - 1]
                        left[row].append((read, predict, read_back, predict_back))
                window.append(left[row].pop(0))
            windows.append(window)
        if not any(windows):
            return
        yield windows


def check_characters(batch: dict[str, torch.Tensor], tokenizer: ElmoTokenizer = TOKENIZER) -> None:
    """Compare the spelling of the words of the vocabulary with the tokenizer's own, and that of padding with zeros."""
    spelled = torch.from_numpy(tokenizer.words_to_char_ids(VOCABULARY))
    ids, characters = batch["input_ids"], batch["char_ids"]
    known = (ids != 3) & (ids != 0)
    assert characters.shape == (*ids.shape, 8)
    assert torch.equal(characters[known].long(), spelled[ids[known] - 1])
    assert not characters[ids == 0].any()
    # an unknown word is spelled as it is, not as <UNK>
    assert not (characters[ids == 3] == torch.from_numpy(tokenizer.words_to_char_ids(["<UNK>"]))).all(dim=-1).any()


@settings(deadline=None, max_examples=50)
@given(SENTENCES, st.integers(1, 4), st.integers(1, 6))
def test_streams_are_those_of_a_loop_over_lists(sentences: list[list[str]], rows: int, steps: int) -> None:
    expected = list(streams_by_loops(sentences, rows, steps))

    batches = list(StreamBatches(sentences, TOKENIZER, batch_size=rows, unroll_steps=steps))

    assert len(batches) == len(expected)
    for batch, windows in zip(batches, expected, strict=True):
        assert batch["input_ids"].shape == batch["labels"].shape == (rows, 2, steps)
        check_characters(batch)
        for row, window in enumerate(windows):
            size, padding = len(window), steps - len(window)
            read, predict, read_back, predict_back = zip(*window, strict=True) if window else ((), (), (), ())
            assert batch["attention_mask"][row].tolist() == [1] * size + [0] * padding
            assert batch["input_ids"][row].tolist() == [
                [*read, *[0] * padding],
                [*reversed(read_back), *[0] * padding],
            ]
            assert batch["labels"][row].tolist() == [
                [*predict, *[NOTHING] * padding],
                [*reversed(predict_back), *[NOTHING] * padding],
            ]


@settings(deadline=None, max_examples=50)
@given(SENTENCES, st.integers(1, 3), st.integers(1, 6))
def test_streams_end_as_in_bilm_tf_where_that_is_asked_for(sentences: list[list[str]], rows: int, steps: int) -> None:
    every = StreamBatches(sentences, TOKENIZER, batch_size=rows, unroll_steps=steps)
    # all but what follows the first window that is not full
    full = []
    for batch in every:
        if not batch["attention_mask"].all():
            break
        full.append(batch)

    dropped = list(StreamBatches(sentences, TOKENIZER, batch_size=rows, unroll_steps=steps, drop_last=True))

    assert len(dropped) == len(full)
    for one, other in zip(dropped, full, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_stream_in_words() -> None:
    (batch,) = StreamBatches([["a", "b"], ["c"]], TOKENIZER, batch_size=1, unroll_steps=6)

    def shown(ids: torch.Tensor) -> str:
        return " ".join("-" if number in (0, NOTHING) else VOCABULARY[number - 1] for number in ids.tolist())

    assert [shown(row) for row in batch["input_ids"][0]] == ["<S> a b <S> c -", "c </S> a b </S> -"]
    assert [shown(row) for row in batch["labels"][0]] == ["a b </S> c </S> -", "<S> c <S> a b -"]


def losses_of_streams(model: ElmoForPreTraining, sentences: list[list[str]], **sizes: int) -> torch.Tensor:
    """Sum the losses of each direction over all windows, with the state passed on."""
    state, total = None, torch.zeros(2)
    for batch in StreamBatches(sentences, TOKENIZER, **sizes):
        output = model(**batch, state=state, use_cache=True)
        state = output.state
        total += torch.stack([output.forward_losses.sum(), output.backward_losses.sum()])
    return total


@torch.no_grad()
def test_windows_cut_a_stream_without_changing_its_losses() -> None:
    model = tiny_model(ElmoForPreTraining, max_characters_per_token=8, vocab_size=len(VOCABULARY) + 1)
    sentences = [list("abc"), list("de"), list("fghijab"), list("c")]

    cut, whole = (losses_of_streams(model, sentences, batch_size=1, unroll_steps=steps) for steps in (3, 17))

    torch.testing.assert_close(cut, whole)


@torch.no_grad()
def test_a_sentence_has_the_same_losses_whole_and_as_a_stream() -> None:
    model = tiny_model(ElmoForPreTraining, max_characters_per_token=8, vocab_size=len(VOCABULARY) + 1)
    # a sentence fills a window, so that no stream takes a second one
    sentences = [list("abcd"), list("efgh"), list("ijab")]

    streams = losses_of_streams(model, sentences, batch_size=3, unroll_steps=5)
    whole = model(**SentenceCollator(TOKENIZER)([{"words": words} for words in sentences]))

    torch.testing.assert_close(streams, torch.stack([whole.forward_losses.sum(), whole.backward_losses.sum()]))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(WORDS, max_size=9), min_size=1, max_size=6), st.integers(1, 9))
def test_every_word_is_predicted_once_from_its_neighbour(sentences: list[list[str]], max_words: int) -> None:
    batch = SentenceCollator(TOKENIZER, max_words=max_words)([{"words": words} for words in sentences])

    check_characters(batch)
    ids, labels, mask = batch["input_ids"], batch["labels"], batch["attention_mask"] != 0
    assert ids.shape[1] <= max_words + 2
    assert torch.equal(mask, ids != 0)
    assert (labels[~mask[:, None].expand(labels.shape)] == NOTHING).all()
    expected: list[Counter[tuple[int, int]]] = [Counter(), Counter()]
    for sentence in sentences:
        framed = [1, *map(id_of, sentence), 2]
        expected[0].update(pairwise(framed))
        expected[1].update((after, before) for before, after in pairwise(framed))
    for direction in range(2):
        predicts = labels[:, direction] != NOTHING
        pairs = zip(ids[predicts].tolist(), labels[:, direction][predicts].tolist(), strict=True)
        assert Counter(pairs) == expected[direction]


def test_a_sentence_in_words() -> None:
    batch = SentenceCollator(TOKENIZER, max_words=3)([{"text": "a b  c d"}, {"words": ["e"]}])

    a, b, c, d, e = range(4, 9)
    assert batch["input_ids"].tolist() == [[1, a, b, c, d], [d, 2, 0, 0, 0], [1, e, 2, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]
    x = NOTHING
    assert batch["labels"].tolist() == [
        [[a, b, c, d, x], [x, 1, a, b, c]],
        [[2, x, x, x, x], [x, d, x, x, x]],
        [[e, 2, x, x, x], [x, 1, e, x, x]],
    ]


def test_a_model_that_spells_no_words_needs_no_characters() -> None:
    tokenizer = ElmoTokenizer(VOCABULARY, model_input_names=["input_ids", "attention_mask"])

    assert set(SentenceCollator(tokenizer)(["a"])) == {"input_ids", "attention_mask", "labels"}
    (batch,) = StreamBatches(["a"], tokenizer, batch_size=1)
    assert set(batch) == {"input_ids", "attention_mask", "labels"}


def test_words_are_spelled_again_when_too_many_were_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [[random.Random(number).choice("abcdefghij") for _ in range(5)] for number in range(20)]
    expected = [batch["char_ids"] for batch in StreamBatches(sentences, TOKENIZER, batch_size=2, unroll_steps=3)]
    monkeypatch.setattr(batching, "KEPT_WORDS", 4)

    batches = [batch["char_ids"] for batch in StreamBatches(sentences, TOKENIZER, batch_size=2, unroll_steps=3)]

    assert all(map(torch.equal, batches, expected))


def test_each_word_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = ElmoTokenizer(VOCABULARY)
    spelled: list[str] = []
    spell = ByteSpelling.words_to_char_ids
    monkeypatch.setattr(
        ByteSpelling,
        "words_to_char_ids",
        lambda self, words, width: (spelled.extend(words), spell(self, words, width))[1],
    )
    collate = SentenceCollator(tokenizer)

    for text in ("a b a", "b c", "a c"):
        collate([text])

    # the empty word stands for padding
    assert sorted(filter(None, spelled)) == ["</S>", "<S>", "a", "b", "c"]


def test_words_of_an_example() -> None:
    assert words_of({"text": " a  b", "words": ["c d", "e"]}, str.split) == ["c d", "e"]
    assert words_of({"text": None}, str.split) == words_of({"words": None}, str.split) == []
    assert words_of({"text": " a  b"}, str.split) == words_of(" a  b", str.split) == ["a", "b"]
    assert words_of(("a,", "b"), TOKENIZER.tokenize) == ["a,", "b"]
    assert words_of("a, b", TOKENIZER.tokenize) == ["a", ",", "b"]
    with pytest.raises(ElmoError, match=r"^An example has 'tokens': name a column `words`, or `text`\.$"):
        words_of({"tokens": ["a"]}, str.split)


@pytest.mark.parametrize("pre_tokenizer", ["moses", "whitespace"])
def test_the_tokenizer_splits_a_text(pre_tokenizer: str) -> None:
    tokenizer = ElmoTokenizer([*VOCABULARY, "a,"], pre_tokenizer=pre_tokenizer)

    for split, text in ((tokenizer.tokenize("b (a, b)."), "b (a, b)."), (["a,", "b"], {"words": ["a,", "b"]})):
        for batches in (
            lambda given: SentenceCollator(tokenizer)([given]),
            lambda given: next(iter(StreamBatches([given], tokenizer, batch_size=1))),
        ):
            of_words, of_text = batches(split), batches(text)
            assert all(torch.equal(part, of_text[name]) for name, part in of_words.items())


def buckets(lengths: list[int], epoch: int = 0, **options: int) -> list[list[int]]:
    sampler = BucketedSentences(lengths, **options)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert len(sampler) == len(batches)
    return batches


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=60).filter(any),
    st.integers(1, 60),
    st.integers(0, 2**63),
    st.integers(0, 5),
)
def test_batches_keep_to_the_budget_and_lose_no_sentence(
    lengths: list[int], budget: int, seed: int, epoch: int
) -> None:
    batches = buckets(lengths, epoch, words_per_batch=budget, seed=seed)

    sentences = [sentence for batch in batches for sentence in batch]
    assert sorted(sentences) == [number for number, length in enumerate(lengths) if length]
    for batch in batches:
        assert len(batch) == 1 or len(batch) * (max(lengths[sentence] for sentence in batch) + 2) <= budget
    # of like length: no batch lies between the shortest and the longest of another
    spans = sorted((min(lengths[i] for i in batch), max(lengths[i] for i in batch)) for batch in batches)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert buckets(lengths, epoch, words_per_batch=budget, seed=seed) == batches
    assert len(buckets(lengths, epoch + 1, words_per_batch=budget, seed=seed)) == len(batches)


def test_seed_and_epoch_change_the_batches() -> None:
    lengths = [number % 5 + 1 for number in range(100)]

    orders = [
        buckets(lengths, epoch, words_per_batch=30, seed=seed) for seed, epoch in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]

    assert len({str(order) for order in orders}) == 4
    assert len({str(sorted(map(sorted, order))) for order in orders}) == 4


def load(rows: Any, epoch: int = 0, workers: int = 0) -> list[dict[str, torch.Tensor]]:
    sampler = BucketedSentences([len(row["words"]) for row in rows], words_per_batch=20, seed=3)
    sampler.set_epoch(epoch)
    return list(DataLoader(rows, batch_sampler=sampler, collate_fn=SentenceCollator(TOKENIZER), num_workers=workers))


# of which torch warns where there are fewer cores
many_workers = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


@many_workers
def test_a_data_loader_gives_the_same_batches_with_workers_and_when_it_goes_on() -> None:
    rows = [{"words": list("abcdefghij")[: number % 7 + 1]} for number in range(40)]
    batches = load(rows, epoch=2)
    sampler = BucketedSentences([len(row["words"]) for row in rows], words_per_batch=20, seed=3)
    loader = DataLoader(rows, batch_sampler=sampler, collate_fn=SentenceCollator(TOKENIZER))
    rest = skip_first_batches(loader, 4)
    sampler.set_epoch(2)

    for other in (load(rows, epoch=2, workers=2), batches[:4] + list(rest)):
        assert len(other) == len(batches)
        assert all(torch.equal(one["labels"], two["labels"]) for one, two in zip(batches, other, strict=True))


@many_workers
def test_a_data_loader_reads_streams_with_one_worker_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # how long torch waits for each worker of a reading that failed
    monkeypatch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.1)
    streams = StreamBatches([list("abc")] * 9, TOKENIZER, batch_size=2, unroll_steps=4)
    expected = list(streams)

    for workers in (0, 1):
        batches = list(DataLoader(streams, batch_size=None, num_workers=workers))
        assert all(torch.equal(one["labels"], two["labels"]) for one, two in zip(batches, expected, strict=True))
    with pytest.raises(ElmoError, match="2 workers cannot share continuous streams: set num_workers to 1 or 0"):
        list(DataLoader(streams, batch_size=None, num_workers=2))
    # which ends them before the setting does
    gc.collect()


def test_streams_tell_their_sentences_of_the_epoch() -> None:
    class Source(list[str]):
        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    source = Source(["a b"])
    StreamBatches(source, TOKENIZER, batch_size=1).set_epoch(3)
    # which a list does not need
    StreamBatches(["a b"], TOKENIZER, batch_size=1).set_epoch(3)

    assert source.epoch == 3


def test_what_reads_is_sent_to_other_processes() -> None:
    collate = SentenceCollator(TOKENIZER)
    collate(["a b"])
    streams = StreamBatches(["a b"], TOKENIZER, batch_size=1)

    copied = pickle.loads(pickle.dumps(collate))  # noqa: S301
    assert torch.equal(copied(["b c"])["char_ids"], collate(["b c"])["char_ids"])
    assert len(list(pickle.loads(pickle.dumps(streams)))) == 1  # noqa: S301


@pytest.mark.parametrize("streams", [False, True])
def test_a_mask_in_the_text_is_learned_as_an_unknown_word(streams: bool) -> None:
    tokenizer = ElmoTokenizer(VOCABULARY, max_characters_per_token=8, mask_token="<MASK>")
    sentences = [["a", "<MASK>", "b"], ["<MASK>"]]
    if streams:
        (batch,) = StreamBatches(sentences, tokenizer, batch_size=2)
    else:
        batch = SentenceCollator(tokenizer)(sentences)
    model = tiny_model(ElmoForPreTraining, vocab_size=len(VOCABULARY) + 1, max_characters_per_token=8)

    loss = model(**batch).loss
    loss.backward()

    unknown = batch["labels"].where(batch["labels"] != tokenizer.mask_token_id, tokenizer.unk_token_id)
    assert not torch.equal(unknown, batch["labels"])
    assert loss == model(**{**batch, "labels": unknown}).loss


@pytest.mark.parametrize("wrong", [5, None, b"c"])
def test_a_word_that_is_no_text_is_named_and_leaves_nothing_behind(wrong: object) -> None:
    collate = SentenceCollator(TOKENIZER)

    with pytest.raises(ElmoError, match=rf"^{wrong!r} is not a word: give words as strings\.$"):
        collate([["a", wrong, "b"]])

    batch, expected = collate([["b", "a"]]), SentenceCollator(TOKENIZER)([["b", "a"]])
    assert all(torch.equal(part, expected[name]) for name, part in batch.items())


def test_a_batch_of_nothing_has_no_rows() -> None:
    batch = SentenceCollator(TOKENIZER)([])

    assert {name: tuple(part.shape) for name, part in batch.items()} == {
        "input_ids": (0, 0),
        "char_ids": (0, 0, 8),
        "attention_mask": (0, 0),
        "labels": (0, 2, 0),
    }


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SentenceCollator(TOKENIZER, max_words=0), "max_words is 0"),
        (lambda: SentenceCollator(ElmoTokenizer(bos_token=None)), "no bos_token"),
        (lambda: BucketedSentences([1], words_per_batch=0), "words_per_batch is 0"),
        (lambda: BucketedSentences([], words_per_batch=9), "No sentence has words"),
        (lambda: BucketedSentences([0, 0], words_per_batch=9), "No sentence has words"),
        (lambda: StreamBatches([], TOKENIZER, batch_size=0), "batch_size is 0"),
        (lambda: StreamBatches([], TOKENIZER, batch_size=1, unroll_steps=-1), "unroll_steps -1"),
        (lambda: StreamBatches(iter([]), TOKENIZER, batch_size=1), "only once"),
    ],
    ids=range(8),
)
def test_refuses_what_cannot_be_meant(make: Any, message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        make()


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_processes_get_equally_many_batches_of_all_sentences(processes: int) -> None:
    sampler = BucketedSentences([3, 9, 4, 4, 0, 1, 7, 2, 2, 5, 8], words_per_batch=25, processes=processes)

    assert len(sampler) % processes == 0
    assert sorted(sentence for batch in sampler for sentence in batch) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]


def test_more_processes_than_sentences_are_refused() -> None:
    with pytest.raises(ElmoError, match="2 sentences cannot be shared by 3 processes: use fewer"):
        BucketedSentences([3, 9], words_per_batch=25, processes=3)
