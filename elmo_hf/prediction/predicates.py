"""Where the predicates of a sentence are: named by its record, or found by a list of words or by parts of speech."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from elmo_hf.data.corpus import Source, read_lines
from elmo_hf.data.frames import check_predicate
from elmo_hf.errors import ElmoError, counted


# how the parts of speech of verbs begin: Penn's `VB`, `VBD`, .. and `VERB` and `AUX` of Universal Dependencies
VERBS = ("V", "AUX")


class PredicateFinder(NamedTuple):
    """Finds the predicates of sentences.

    Attributes:
        words: Words and lemmas that are predicates, in lower case; `None` to go by parts of speech.
        pos: How the parts of speech of predicates begin.
    """

    words: frozenset[str] | None = None
    pos: tuple[str, ...] = VERBS

    def find(self, record: Mapping[str, Any], words: Sequence[str]) -> list[int]:
        """Return the numbers of the words that are predicates.

        Args:
            record: What is known of the sentence. `predicates`, `pred` or `predicate`, or `frames` name the
                predicates; or else `lemmas` and `pos` have a lemma and a part of speech for each word.
            words: The words of the sentence.

        Raises:
            ElmoError: If nothing tells the predicates, or a field is not what it should be.
        """
        named = _named(record)
        if named is not None:
            return [check_predicate(value, words) for value in named]
        if self.words is not None:
            lemmas = _of_each_word(record, "lemmas", words) or words
            pairs = enumerate(zip(words, lemmas, strict=True))
            return [place for place, pair in pairs if self.words & {part.lower() for part in pair}]
        pos = _of_each_word(record, "pos", words)
        if pos is None:
            raise ElmoError(
                "the model finds the roles of predicates, and nothing tells which they are: give records with "
                "predicates, the numbers of their words, or with pos, or columns that mark them, or a list of words."
            )
        return [place for place, tag in enumerate(pos) if tag.startswith(self.pos)]


VERB_FINDER = PredicateFinder()


def _named(record: Mapping[str, Any]) -> list[Any] | None:
    """Return the predicates that a record names, or `None` if it names none."""
    for name in ("predicates", "frames"):
        given = record.get(name)
        if given is not None and not isinstance(given, list):
            raise ElmoError(f"{name} is {given!r:.80}: give a list.")
    if record.get("predicates") is not None:
        return list(record["predicates"])
    single = record.get("pred", record.get("predicate"))
    if single is not None:
        return [single]
    frames = record.get("frames")
    if frames is None:
        return None
    return [frame.get("pred", frame.get("predicate")) if isinstance(frame, Mapping) else frame for frame in frames]


def _of_each_word(record: Mapping[str, Any], name: str, words: Sequence[str]) -> list[str] | None:
    given = record.get(name)
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != len(words) or not all(isinstance(part, str) for part in given):
        raise ElmoError(f"{name} is {given!r:.80}: give one for each of {counted(len(words), 'word')}.")
    return given


def read_predicates(path: Source) -> list[str]:
    """Read words and lemmas that are predicates, one a line.

    Args:
        path: A file in UTF-8, plain or compressed, or `-` for standard input.

    Raises:
        ElmoError: If the file cannot be read, or has no words.
    """
    words = [line.strip() for line in read_lines(str(path)) if line.strip()]
    if not words:
        raise ElmoError(f"{path} holds no words: give a word or lemma that is a predicate on each line.")
    return words


__all__ = ["VERBS", "VERB_FINDER", "PredicateFinder", "read_predicates"]
