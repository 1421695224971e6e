"""`model.tokenizer_backend_elmo`: an id is a line of the vocabulary, and copies keep up with added tokens."""

import copy
import pickle
from collections.abc import Callable

import pytest
from tokenizers.normalizers import Lowercase

from elmo_hf import ElmoTokenizer
from elmo_hf.model import tokenizer_backend_elmo
from elmo_hf.model.tokenizer_backend_elmo import make_backend, vocabulary_lines


@pytest.mark.parametrize(
    ("vocab", "ids"),
    [
        pytest.param([], {"<PAD>": 0, "<S>": 1, "</S>": 2, "<UNK>": 3}, id="none"),
        pytest.param(
            ["a", "<UNK>", "b"], {"<PAD>": 0, "a": 1, "<UNK>": 2, "b": 3, "<S>": 4, "</S>": 5}, id="some missing"
        ),
        pytest.param(
            ["</S>", "<S>", "<UNK>", ""], {"<PAD>": 0, "</S>": 1, "<S>": 2, "<UNK>": 3, "": 4}, id="any order"
        ),
    ],
)
def test_an_id_is_a_line_counted_from_one(vocab: list[str], ids: dict[str, int]) -> None:
    assert make_backend(vocab, "moses").get_vocab() == ids


def test_the_last_line_of_a_word_counts_and_every_line_has_an_id() -> None:
    backend = make_backend(["<S>", "</S>", "<UNK>", "a", "b", "a", "<PAD>"], "moses")

    assert [backend.token_to_id(word) for word in ("a", "b", "<PAD>")] == [6, 5, 0]
    assert sorted(backend.get_vocab().values()) == list(range(8))


def test_the_lines_of_a_vocabulary_come_back_from_its_ids() -> None:
    ids = make_backend(["<S>", "</S>", "<UNK>", "a", "b", "a", "<PAD>"], "moses").get_vocab()

    lines = vocabulary_lines(ids)

    assert lines == ["<S>", "</S>", "<UNK>", "<PAD>", "b", "a", "<PAD>"]
    assert make_backend(lines, "moses").get_vocab() == ids


@pytest.mark.parametrize("vocab", ["vocab.txt", {"a": 1}, 5, b"a"])
def test_a_vocabulary_must_be_a_list(vocab: object) -> None:
    with pytest.raises(TypeError, match="give the lines of a vocabulary file"):
        make_backend(vocab, "moses")  # type: ignore[arg-type]


# added tokens and normalizers


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The backends that were copied with their added tokens."""
    made: list[object] = []
    make = tokenizer_backend_elmo._copy_with_added_tokens
    monkeypatch.setattr(
        tokenizer_backend_elmo, "_copy_with_added_tokens", lambda backend: (made.append(backend), make(backend))[1]
    )
    return made


def test_tokens_are_added_once_and_not_in_each_call(copies: list[object]) -> None:
    tokenizer = ElmoTokenizer(["new"])
    tokenizer.add_tokens(["New York"])

    for text in ("a New York b", "c", "New York"):
        tokenizer(text, padding="max_length", max_length=9)

    assert tokenizer.tokenize("in New York") == ["in", "New York"]
    assert len(copies) == 1


ADDED: dict[str, Callable[[ElmoTokenizer], object]] = {
    "tokenizer": lambda tokenizer: tokenizer.add_tokens(["New York"]),
    "special": lambda tokenizer: tokenizer.add_special_tokens({"mask_token": "New York"}),
    "a copy": lambda tokenizer: copy.copy(tokenizer).add_tokens(["New York"]),
    "backend": lambda tokenizer: tokenizer.backend_tokenizer.add_tokens(["New York"]),
}


@pytest.mark.parametrize("add", ADDED.values(), ids=ADDED.keys())
def test_a_token_counts_as_soon_as_it_is_added(add: Callable[[ElmoTokenizer], object]) -> None:
    tokenizer = ElmoTokenizer(["a", "New"])
    assert tokenizer.tokenize("a New York") == ["a", "New", "York"]

    add(tokenizer)

    assert tokenizer.tokenize("a New York") == ["a", "New York"]
    assert tokenizer("a New York")["input_ids"] == [3, 1, 6, 4]


def test_a_line_of_the_vocabulary_can_be_added() -> None:
    tokenizer = ElmoTokenizer(["New York"])
    assert tokenizer.tokenize("New York") == ["New", "York"]

    tokenizer.add_tokens(["New York"])

    assert tokenizer("New York")["input_ids"] == [2, 1, 3]


def test_copies_of_a_tokenizer_have_their_own_added_tokens() -> None:
    tokenizer = ElmoTokenizer()
    tokenizer("a b")
    copied, pickled = copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))  # noqa: S301 - our own

    copied.add_tokens(["a b"])

    assert [len(one.tokenize("a b")) for one in (tokenizer, copied, pickled)] == [2, 1, 2]


def test_a_normalizer_is_refused() -> None:
    tokenizer = ElmoTokenizer(["the"])
    tokenizer.backend_tokenizer.normalizer = Lowercase()

    calls: list[Callable[[], object]] = [
        lambda: tokenizer("The"),
        lambda: tokenizer(["The"], is_split_into_words=True),
        lambda: tokenizer.tokenize("The"),
        lambda: tokenizer.train_new_from_iterator(["The"], 9),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"has a normalizer, Lowercase, .* normalize the text yourself"):
            call()

    tokenizer.backend_tokenizer.normalizer = None
    assert tokenizer("the")["input_ids"] == [2, 1, 3]
