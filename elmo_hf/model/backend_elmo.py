# Copyright 2026 The elmo_hf authors. All rights reserved.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""The Rust tokenizer behind ElmoTokenizer: the vocabulary, and how raw text becomes words.

All of it is written to tokenizer.json.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.models import WordLevel, WordPiece
from tokenizers.pre_tokenizers import PreTokenizer, Split
from tokenizers.processors import TemplateProcessing


PAD, BOS, EOS, UNK = "<PAD>", "<S>", "</S>", "<UNK>"

# stands in for an empty word, which Rust drops
EMPTY_WORD = "\u200b"

# stands in for a lone surrogate, which Rust refuses; as long, so that offsets hold
SURROGATE, LONE = re.compile("[\ud800-\udfff]"), "\ue000"

# begins no word, so that WordPiece finds a word whole or not at all
CONTINUATION = "\0\0"

# a raw text or the words of one; an example has one, or two for a pair
Sentence: TypeAlias = str | Sequence[str]
Example: TypeAlias = tuple[Sentence, ...]

# Onig's \s is Unicode's white space; the four separators of ASCII are white space to `str.split` only
SPACE = r"\s\x1c-\x1f"

# abbreviations that keep their period: before anything, ...
TITLES = (
    "Adm|Brig|Capt|Cmdr|Col|Cpl|Dr|Drs|Fr|Ft|Gen|Gov|Hon|Lt|Maj|Messrs|Mlle|Mme|Mr|Mrs|Ms|Mt|Mx|Pres|Prof|Pvt"
    "|Rep|Reps|Rev|Sen|Sens|Sgt|St|Ste|Supt|cf|v|viz|vs"
)
# ... inside a sentence (before a word that is not capitalised, or before other punctuation), ...
INSIDE = (
    "Apr|Assn|Aug|Ave|Bldg|Blvd|Bros|Co|Corp|Cos|Dec|Dept|Est|Feb|Inc|Jan|Jr|Jul|Jun|Ltd|Mar|Nov|Oct|Rd|Sep|Sept|Sq"
    "|Sr|Univ|al|approx|dept|ed|eds|esp|est|etc|ft|govt|hr|hrs|incl|lb|lbs|min|mo|mos|oz|sec|sq|yr|yrs"
)
# ... before a number
NUMBERED = "Art|Ch|Chap|Fig|Figs|No|Nos|Nr|Vol|Vols|art|ch|fig|figs|no|nos|p|pp|vol|vols"

WORD = rf"[^{SPACE}\p{{P}}\p{{S}}]"
# a hyphen stays in its word, a dash of two does not; a comma stays between digits
PART = rf"(?:{WORD}|[\x{{2010}}\x{{2011}}]|-(?!-)|(?<=\p{{N}}),(?=\p{{N}}))++"
DOTTED = rf"\.?{PART}(?:\.{PART})*+"
STARTS = rf"(?<!{WORD})(?<![-\x{{2010}}\x{{2011}}.])"
ENDS = rf"(?!{WORD}|[-\x{{2010}}\x{{2011}}.])"

# what a word can be, the first that fits
MOSES = "|".join(
    [
        # a special word standing alone
        rf"(?<![^{SPACE}])(?:</?S>|<UNK>|<PAD>)(?![^{SPACE}])",
        r"\.{2,}+",
        # U.S., a.m., Ph.D.
        rf"{STARTS}(?:\p{{L}}{{1,2}}\.){{2,}}+{ENDS}",
        rf"{STARTS}(?:{TITLES})\.{ENDS}",
        rf"{STARTS}(?:{INSIDE})\.{ENDS}(?=[{SPACE}]*+[^{SPACE}\p{{Lu}}])",
        rf"{STARTS}(?:{NUMBERED})\.{ENDS}(?=[{SPACE}]*+\p{{N}})",
        # an initial, but not the last word of the text
        rf"{STARTS}\p{{Lu}}\.{ENDS}(?=[{SPACE}]*+[^{SPACE}])",
        # didn 't, people 's, 1990 's, U.S. 's
        rf"(?:(?<=[\p{{L}}\p{{M}}\p{{N}}])|(?<=\.)(?=.s{ENDS}))['\x{{2019}}](?=\p{{L}}){DOTTED}",
        DOTTED,
        r"--++|`++|''",
        # a symbol with its marks: an emoji is one word
        r"\p{S}(?:[\p{M}\x{1F3FB}-\x{1F3FF}]|\x{200D}\p{S})*+",
        rf"[^{SPACE}]",
    ]
)

# A comment in the pattern names it, so that tokenizer.json tells ours, of whatever version, from a user's own.
PATTERNS = {name: f"(?#{name}){words}" for name, words in (("moses", MOSES), ("whitespace", rf"[^{SPACE}]++"))}
NAMED = re.compile(r"\(\?#(\w+)\)")


def make_pre_tokenizer(name: str) -> PreTokenizer:
    """Make a pre-tokenizer; text is only cut, never changed, so that offsets are exact.

    Args:
        name: `moses` cuts as the text of the 1 Billion Word benchmark, which the English ELMos learnt from:
            punctuation apart, hyphenated words whole, `didn 't`. `whitespace` cuts at white space only.

    Raises:
        ValueError: If there is no such pre-tokenizer.
    """
    if name not in PATTERNS:
        raise ValueError(f"pre_tokenizer is {name!r}; it can be one of {sorted(PATTERNS)}.")
    return Split(Regex(PATTERNS[name]), behavior="removed", invert=True)


def name_of(pre_tokenizer: PreTokenizer) -> str | None:
    """Name a pre-tokenizer that `make_pre_tokenizer` made, in this version or another; `None` for any other."""
    state = json.loads(pre_tokenizer.__getstate__())
    pattern = state.get("pattern")
    found = NAMED.match(pattern.get("Regex", "")) if isinstance(pattern, dict) else None
    return found[1] if found else None


def make_backend(
    vocab: Sequence[str], pre_tokenizer: str, special_words: tuple[str, str, str] = (BOS, EOS, UNK)
) -> Tokenizer:
    """Build the Rust tokenizer; the id of a vocabulary line is its number, counted from 1."""
    bos, eos, unk = special_words
    if isinstance(vocab, (str, bytes, Mapping)) or not isinstance(vocab, Sequence):
        raise TypeError(f"vocab is a {type(vocab).__name__}; give the lines of a vocabulary file, a list of str.")
    check_words(vocab, "vocab")
    # the last line of a word counts
    lines = {word: line for line, word in enumerate(vocab, 1) if word != PAD and not SURROGATE.search(word)}
    # lines that no word has keep their row under a name that no word has
    lines.update({f"\0line {line}": line for line, word in enumerate(vocab, 1) if lines.get(word) != line})
    for word in special_words:
        lines.setdefault(word, len(lines) + 1)
    backend = Tokenizer(word_model({PAD: 0, **lines}, unk))
    # in a plain `tokenizers.Tokenizer`, too, these are special only when not part of a word
    backend.add_special_tokens(
        [AddedToken(word, single_word=True, special=True, normalized=False) for word in (PAD, *special_words)]
    )
    backend.pre_tokenizer = make_pre_tokenizer(pre_tokenizer)
    backend.post_processor = TemplateProcessing(
        single=f"{bos}:0 $A:0 {eos}:0",
        pair=f"{bos}:0 $A:0 {eos}:0 {bos}:1 $B:1 {eos}:1",
        special_tokens=[(bos, lines[bos]), (eos, lines[eos])],
    )
    return backend


def word_model(vocab: Mapping[str, int], unk_token: str = UNK) -> WordPiece:
    """Make the model that looks up words.

    It is a WordPiece without pieces, not a WordLevel: where the model has a prefix for pieces, Transformers'
    token-classification pipeline knows that a token equal to its text is a whole word, and else it takes `.` in
    `end.` for a part of a word.
    """
    return WordPiece(
        dict(vocab),
        unk_token=unk_token,
        # longer words are unknown without a search
        max_input_chars_per_word=max(map(len, vocab)),
        continuing_subword_prefix=CONTINUATION,
    )


def with_model(backend: Tokenizer, model: WordLevel | WordPiece) -> Tokenizer:
    """Copy a backend around another model with the same ids."""
    copied = Tokenizer(model)
    copied.add_tokens([token for _, token in sorted(backend.get_added_tokens_decoder().items())])
    copied.normalizer, copied.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    copied.post_processor = backend.post_processor
    return copied


def check_words(words: Sequence[Any], where: str) -> None:
    """Raise a TypeError that names the first word that is not a str."""
    try:
        "".join(words)
    except TypeError:
        number, word = next((number, word) for number, word in enumerate(words) if not isinstance(word, str))
        raise TypeError(f"{where}: word {number} is {word!r}, a {type(word).__name__}; a word is a str.") from None


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, character by character."""
    return text if text.isascii() else SURROGATE.sub(LONE, text)


def read_examples(text: Any, text_pair: Any, is_split_into_words: bool) -> tuple[list[Example], bool]:
    """Bring what `__call__` takes to a list of examples, and tell whether it was a batch."""
    is_batched = isinstance(text, (list, tuple))
    if is_split_into_words:
        is_batched = is_batched and bool(text) and isinstance(text[0], (list, tuple))
    examples: list[Example]
    if not is_batched:
        examples = [(text,) if text_pair is None else (text, text_pair)]
    elif text_pair is None:
        part: Any = (list, tuple) if is_split_into_words else str
        examples = [
            tuple(item)
            if isinstance(item, (list, tuple)) and len(item) == 2 and all(isinstance(half, part) for half in item)
            else (item,)
            for item in text
        ]
    elif isinstance(text_pair, (list, tuple)) and len(text_pair) == len(text):
        examples = list(zip(text, text_pair, strict=True))
    else:
        raise ValueError(f"text is a batch of {len(text)}; text_pair must be a list of as many.")
    for number, example in enumerate(examples):
        for sentence in example:
            _check_sentence(sentence, f"sentence {number}", is_split_into_words)
    return examples, is_batched


def _check_sentence(sentence: Any, where: str, is_split_into_words: bool) -> None:
    kind = type(sentence).__name__
    if not is_split_into_words and not isinstance(sentence, str):
        remedy = "give is_split_into_words=True for words" if isinstance(sentence, (list, tuple)) else "give a str"
        raise TypeError(f"{where} is a {kind}: {remedy}.")
    if is_split_into_words:
        if not isinstance(sentence, (list, tuple)):
            raise TypeError(f"{where} is a {kind}: with is_split_into_words=True, give a list of words.")
        check_words(sentence, where)


def for_rust(example: Example) -> Any:
    """Make of an example what Rust can take: without empty words and lone surrogates."""
    cleaned = [
        without_surrogates(sentence) if isinstance(sentence, str) else _words_for_rust(sentence)
        for sentence in example
    ]
    return cleaned[0] if len(cleaned) == 1 else tuple(cleaned)


def _words_for_rust(words: Sequence[str]) -> list[str]:
    if not "".join(words).isascii():
        words = [without_surrogates(word) for word in words]
    return [word or EMPTY_WORD for word in words]


__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "PATTERNS",
    "UNK",
    "Example",
    "Sentence",
    "check_words",
    "for_rust",
    "make_backend",
    "make_pre_tokenizer",
    "name_of",
    "read_examples",
    "with_model",
    "without_surrogates",
    "word_model",
]
