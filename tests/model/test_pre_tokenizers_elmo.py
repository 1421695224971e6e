"""`model.pre_tokenizers_elmo`: raw text is cut as Moses cuts it, and offsets are exact."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from elmo_hf.model.pre_tokenizers_elmo import PATTERNS, PLAIN, make_pre_tokenizer


def cut(text: str, name: str = "moses") -> list[str]:
    return [word for word, _ in make_pre_tokenizer(name).pre_tokenize_str(text)]


# the words of the text of the 1 Billion Word benchmark, separated by a space
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The bank raised rates.", "The bank raised rates ."),
        ("EU-wide measures, yes!", "EU-wide measures , yes !"),
        ("He didn't, I'm sure they'll go.", "He didn 't , I 'm sure they 'll go ."),
        ("the dogs' day", "the dogs ' day"),
        ("the U.S.'s role", "the U.S. 's role"),
        ("in the 1990's", "in the 1990 's"),
        ("He said 'no'.", "He said ' no ' ."),
        ("Mr. Smith met Dr. Jones.", "Mr. Smith met Dr. Jones ."),
        ("He moved to the U.S.", "He moved to the U.S."),
        ("a U.S.-led force at 5 p.m. today", "a U.S.-led force at 5 p.m. today"),
        ("J. R. R. Tolkien", "J. R. R. Tolkien"),
        ("That was plan B.", "That was plan B ."),
        ("Acme Inc. said so. It is Acme Inc.", "Acme Inc. said so . It is Acme Inc ."),
        ("No. 5 is alive. No. He is not.", "No. 5 is alive . No . He is not ."),
        ("cats, dogs, etc. are", "cats , dogs , etc. are"),
        ("3.5 or .5 or 1,000 or 1,2 ,3", "3.5 or .5 or 1,000 or 1,2 , 3"),
        ("in 2012.", "in 2012 ."),
        ("$5, 50% and #1", "$ 5 , 50 % and # 1"),
        ("Wait... what?!", "Wait ... what ? !"),
        ('"Hi," (she) said.', '" Hi , " ( she ) said .'),
        ("“Hi,” she didn\u2019t say", "“ Hi , ” she didn \u2019t say"),
        ("``Hi'' he said", "`` Hi '' he said"),
        ("well--known -- or not", "well -- known -- or not"),
        ("AT&T and a/b", "AT & T and a / b"),
        ("www.example.com.", "www.example.com ."),
        ("Zürich, हिन्दी, עברית.", "Zürich , हिन्दी , עברית ."),
        ("e\u0301te\u0301", "e\u0301te\u0301"),
        ("生活的真谛是", "生活的真谛是"),
        ("nice 👍🏽❤️👩\u200d👧!", "nice 👍🏽 ❤️ 👩\u200d👧 !"),
        # a flag is two symbols
        ("🇫🇷", "🇫 🇷"),
        ("<S> a </S> <UNK> <PAD>", "<S> a </S> <UNK> <PAD>"),
        ("x<S>y (<S>)", "x < S > y ( < S > )"),
        ("&apos;re", "& apos ; re"),
    ],
)
def test_moses_words(text: str, words: str) -> None:
    assert cut(text) == words.split(" ")


@pytest.mark.parametrize("name", ["moses", "whitespace"])
def test_white_space_of_any_kind_separates(name: str) -> None:
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]

    assert cut("x".join(spaces), name) == ["x"] * (len(spaces) - 1)


def test_whitespace_cuts_nowhere_else() -> None:
    assert cut(" Mr.  (Smith's) x<S>y ", "whitespace") == ["Mr.", "(Smith's)", "x<S>y"]


@pytest.mark.parametrize("name", ["moses", "whitespace"])
@settings(derandomize=True, database=None, max_examples=200)
@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(".,'-<S>/ aA1\n"))))
def test_every_character_but_white_space_is_in_the_word_that_its_offsets_say(name: str, text: str) -> None:
    pieces = make_pre_tokenizer(name).pre_tokenize_str(text)

    assert [text[start:end] for _, (start, end) in pieces] == [word for word, _ in pieces]
    assert "".join(word for word, _ in pieces) == "".join(text.split())


@settings(derandomize=True, database=None, max_examples=300)
@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(".,'-<S>/ aA1\n\u0301"))))
def test_plain_words_are_those_that_the_other_alternatives_find(text: str) -> None:
    others = PATTERNS["moses"].replace(f"{PLAIN}|", "")
    assert others != PATTERNS["moses"]
    pieces = Split(Regex(others), behavior="removed", invert=True).pre_tokenize_str(text)

    assert cut(text) == [word for word, _ in pieces]


@pytest.mark.parametrize("unit", ["a", "a.", "a-", "'", "a'", "1,", ".", "--", " ", "U.", "\u0301"])
def test_long_texts_without_a_break_are_fast(unit: str) -> None:
    text = unit * 100_000

    assert "".join(cut(text)) == text.replace(" ", "")


def test_an_unknown_pre_tokenizer_is_named() -> None:
    with pytest.raises(ValueError, match="'spacy'; it can be one of"):
        make_pre_tokenizer("spacy")
