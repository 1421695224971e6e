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
"""How raw text becomes words: the pre-tokenizers `moses` and `whitespace`, as they are written to tokenizer.json."""

import json
import re

from tokenizers import Regex
from tokenizers.pre_tokenizers import PreTokenizer, Split


# Onig's \s is Unicode's white space; `str.split` also splits at the four separators of ASCII
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
# a word keeps its hyphens but not a dash of two; a number keeps the commas between its digits
PART = rf"(?:{WORD}|[\x{{2010}}\x{{2011}}]|-(?!-)|(?<=\p{{N}}),(?=\p{{N}}))++"
DOTTED = rf"\.?{PART}(?:\.{PART})*+"
STARTS = rf"(?<!{WORD})(?<![-\x{{2010}}\x{{2011}}.])"
ENDS = rf"(?!{WORD}|[-\x{{2010}}\x{{2011}}.])"

# letters and digits between white space, which DOTTED would find too: most words, in half of the time
PLAIN = rf"(?<![^{SPACE}])[\p{{L}}\p{{M}}\p{{N}}]++(?![^{SPACE}])"

# the alternatives for a word; the first match wins
MOSES = "|".join(
    [
        PLAIN,
        # a special token that stands alone
        rf"(?<![^{SPACE}])(?:</?S>|<UNK>|<PAD>)(?![^{SPACE}])",
        r"\.{2,}+",
        # U.S., a.m., Ph.D.
        rf"{STARTS}(?:\p{{L}}{{1,2}}\.){{2,}}+{ENDS}",
        rf"{STARTS}(?:{TITLES})\.{ENDS}",
        rf"{STARTS}(?:{INSIDE})\.{ENDS}(?=[{SPACE}]*+[^{SPACE}\p{{Lu}}])",
        rf"{STARTS}(?:{NUMBERED})\.{ENDS}(?=[{SPACE}]*+\p{{N}})",
        # an initial, unless it ends the text
        rf"{STARTS}\p{{Lu}}\.{ENDS}(?=[{SPACE}]*+[^{SPACE}])",
        # didn 't, people 's, 1990 's, U.S. 's
        rf"(?:(?<=[\p{{L}}\p{{M}}\p{{N}}])|(?<=\.)(?=.s{ENDS}))['\x{{2019}}](?=\p{{L}}){DOTTED}",
        DOTTED,
        r"--++|`++|''",
        # a symbol with its modifiers and joiners, such as an emoji; a flag is two symbols, thus two words
        r"\p{S}(?:[\p{M}\x{1F3FB}-\x{1F3FF}]|\x{200D}\p{S})*+",
        rf"[^{SPACE}]",
    ]
)

# the comment inside the pattern names it, so that any version of this package recognises it in tokenizer.json
PATTERNS = {name: f"(?#{name}){words}" for name, words in (("moses", MOSES), ("whitespace", rf"[^{SPACE}]++"))}
NAMED = re.compile(r"\(\?#(\w+)\)")


def make_pre_tokenizer(name: str) -> PreTokenizer:
    """Make a pre-tokenizer, which cuts text without changing it, so that offsets are exact.

    Args:
        name: `moses` cuts as the text of the 1 Billion Word benchmark is cut, on which the English ELMos were
            trained: it separates punctuation, keeps hyphenated words, and writes `didn 't`. `whitespace` cuts at
            white space only.

    Raises:
        ValueError: If `name` is neither.
    """
    if name not in PATTERNS:
        raise ValueError(f"pre_tokenizer is {name!r}; it can be one of {sorted(PATTERNS)}.")
    return Split(Regex(PATTERNS[name]), behavior="removed", invert=True)


def name_of_pre_tokenizer(pre_tokenizer: PreTokenizer) -> str | None:
    """Return the name of a pre-tokenizer that any version of `make_pre_tokenizer` made, or `None` for another one."""
    state = json.loads(pre_tokenizer.__getstate__())
    pattern = state.get("pattern")
    found = NAMED.match(pattern.get("Regex", "")) if isinstance(pattern, dict) else None
    return found[1] if found else None


__all__ = ["PATTERNS", "make_pre_tokenizer", "name_of_pre_tokenizer"]
