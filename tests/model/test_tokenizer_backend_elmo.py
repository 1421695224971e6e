"""`model.tokenizer_backend_elmo`: an id is a line of the vocabulary."""

import pytest

from elmo_hf.model.tokenizer_backend_elmo import make_backend


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


@pytest.mark.parametrize("vocab", ["vocab.txt", {"a": 1}, 5, b"a"])
def test_a_vocabulary_must_be_a_list(vocab: object) -> None:
    with pytest.raises(TypeError, match="give the lines of a vocabulary file"):
        make_backend(vocab, "moses")  # type: ignore[arg-type]
