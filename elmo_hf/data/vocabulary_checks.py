"""Signs that a vocabulary does not fit its text: words with punctuation at their end, and too many unknown words."""

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from .vocabulary import count_words, coverage, most_frequent


# Punctuation that ends a word of tokenized text, too: of abbreviations, elisions (l'), subwords (@@), percentages and
# addresses, and the marks that end every word of Tibetan.
PART_OF_WORD = frozenset(".'\u2019\u05f3@#%&*/\\\u0f0b\u0f0c")

# Of a vocabulary of tokenized text, 0.8% of the words end in other punctuation at most, in English, Spanish and Dutch,
# news and tweets; of text that was split at white space, 2.4% among the 500 most frequent words, and 4.5% to 28% in
# larger vocabularies.
MOST_PUNCTUATED = 0.02

# A vocabulary of the text itself leaves as many unknown words as is expected, or fewer; that of another genre about
# 1.3 times as many, and one that was split in another way, lower-cased, or of another language mostly more.
MOST_UNKNOWN = 1.3


class Punctuated(NamedTuple):
    """Words that end in punctuation.

    Attributes:
        share: The fraction of them among the words.
        example: The first of them.
    """

    share: float
    example: str


class Unknown(NamedTuple):
    """Words of a text that are outside a vocabulary.

    Attributes:
        share: The fraction of them in the text.
        expected: The fraction that a vocabulary of the same size leaves, if it is made of similar text.
        example: The most frequent of them.
    """

    share: float
    expected: float
    example: str


def ends_in_punctuation(word: str) -> bool:
    """Tell whether a word has letters or digits, and a sign of punctuation at its end that tokenizers separate."""
    last = word[-1:]
    if not last or last in PART_OF_WORD or last.isalnum():
        return False
    # closing brackets and quotation marks, and other punctuation; no dashes, which may be hyphens
    return unicodedata.category(last) in ("Pe", "Pf", "Po") and any(map(str.isalnum, word))


def find_punctuated(words: Collection[str]) -> Punctuated | None:
    """Return the words that end in punctuation, if they are many: then raw text was split at white space.

    Args:
        words: The vocabulary.
    """
    found = [word for word in words if ends_in_punctuation(word)]
    if len(found) <= MOST_PUNCTUATED * len(words):
        return None
    return Punctuated(len(found) / len(words), found[0])


def find_unknown(sentences: Sequence[Sequence[str]], vocabulary: Iterable[str]) -> Unknown | None:
    """Return the words of a text that are outside a vocabulary, if they are far more than a vocabulary has to leave.

    What it has to leave is measured: every other sentence makes a vocabulary of the same size, and the rest is the
    text.

    Args:
        sentences: The words of some sentences.
        vocabulary: The lines of the vocabulary, special words included.
    """
    known = set(vocabulary)
    counts = count_words(sentences)
    share = 1 - coverage(counts, known)
    similar = most_frequent(count_words(sentences[::2]), max_size=max(len(known), 3))
    expected = 1 - coverage(count_words(sentences[1::2]), similar)
    if not counts or share <= MOST_UNKNOWN * expected:
        return None
    return Unknown(share, expected, next(word for word, _ in counts.most_common() if word not in known))


__all__ = ["Punctuated", "Unknown", "ends_in_punctuation", "find_punctuated", "find_unknown"]
