"""What you may pass as a sentence, and the text and words that it stands for."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from transformers import PreTrainedTokenizerBase

from elmo_hf.errors import ElmoError


class Sentence(NamedTuple):
    """A sentence whose words are known.

    Attributes:
        text: The sentence as it stands in your file; formats that name sentences name it by this text.
        words: Its words, which are embedded as they are.
    """

    text: str
    words: list[str]


# raw text, for the tokenizer to split; or words; or both
SentenceInput: TypeAlias = str | Sequence[str] | Sentence


def split_words(sentence: SentenceInput, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Return the words of a sentence; the tokenizer splits raw text."""
    if isinstance(sentence, Sentence):
        return sentence.words
    return tokenizer.tokenize(sentence) if isinstance(sentence, str) else list(sentence)


def read_sentence(sentence: SentenceInput, tokenizer: PreTrainedTokenizerBase) -> Sentence:
    """Return the text and the words of a sentence; the text of mere words is the words joined by spaces.

    Raises:
        ElmoError: If the text contains a surrogate, half of a character, as JSON can.
    """
    words = split_words(sentence, tokenizer)
    if isinstance(sentence, Sentence):
        text = sentence.text
    else:
        text = sentence if isinstance(sentence, str) else " ".join(words)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ElmoError(f"The sentence {text!r:.80} holds half of a character (a surrogate): correct it.") from error
    return Sentence(text, words)


__all__ = ["Sentence", "SentenceInput", "read_sentence", "split_words"]
