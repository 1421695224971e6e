"""The examples of a card have words that the model knows."""

from elmo_hf.hub.usage import example_words


def test_words_of_an_example_have_letters_only() -> None:
    words = ["<S>", ",", "the", "पानी", "2018", "'s", "U.S.", "水", "a\u202eb", "", "x"]

    assert example_words(words) == ["the", "पानी", "水", "x"]
    assert example_words(map(chr, range(0x61, 0x80))) == list("abcdef")
