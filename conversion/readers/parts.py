"""Find the options and the vocabulary among the files that were given, by their content."""

from collections.abc import Mapping

from .base import SPECIAL_WORDS, ConversionError, InputFile, SelectionError, counted, describe
from .content import Kind
from .options import read_options
from .vocabulary import read_vocabulary


def only(candidates: list[InputFile], role: str, files: list[InputFile]) -> InputFile:
    """Return the only file of a role.

    Raises:
        ConversionError: If there is none or more than one.
    """
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise SelectionError(f"No {role} among {describe(files)}. Give weights and options together.")
    names = ", ".join(file.name for file in candidates)
    raise SelectionError(f"{len(candidates)} files of {role}: {names}. Name the files of one model.")


def find_options(files: list[InputFile]) -> InputFile:
    """Return the only file of options.

    Raises:
        ConversionError: If there is none or more than one, or if one that the user named is damaged.
    """
    return only(options_among(files), "options (JSON with a section 'lstm')", files)


def options_among(files: list[InputFile]) -> list[InputFile]:
    """Return the files of options: JSON with a section `lstm`."""
    return [file for file in files if _is_options(file)]


def _is_options(file: InputFile) -> bool:
    """Tell whether this is JSON with a section `lstm`; a damaged file is an error if the user named it."""
    if file.kind is not Kind.JSON:
        return False
    try:
        return "lstm" in read_options(file.location, name=file.name)
    except ConversionError:
        if file.explicit:
            raise
        return False


def find_vocabulary(files: list[InputFile]) -> InputFile | None:
    """Return the vocabulary: the text that the user named, or a file that looks like one in a folder or archive.

    Raises:
        ConversionError: If there is more than one.
    """
    candidates = [file for file in files if file.kind in (Kind.TEXT, Kind.GZIP)]
    named = [file for file in candidates if file.explicit]
    candidates = named or [file for file in candidates if _looks_like_vocabulary(file)]
    if len(candidates) > 1 and len({read_lines(file) for file in candidates}) == 1:
        # vocab.txt beside the vocab.txt.gz that it was unpacked from
        candidates = candidates[:1]
    return only(candidates, "vocabulary", files) if candidates else None


def _looks_like_vocabulary(file: InputFile) -> bool:
    if "vocab" in file.basename:
        return True
    if file.kind is not Kind.TEXT:
        return False
    with file.location.open("rb") as raw:
        return any(line.strip() == b"<S>" for line in raw.read(512).splitlines())


def read_lines(vocabulary: InputFile) -> tuple[str, ...]:
    """Read the words of a vocabulary."""
    return read_vocabulary(vocabulary.location, kind=vocabulary.kind, name=vocabulary.name)


def rows_without_words(words: tuple[str, ...] | None) -> str | None:
    """Return why the rows of a softmax cannot be assigned to words, or `None` if they can."""
    if words is None:
        return "there is no vocabulary to name its rows; give the vocabulary to keep the softmax"
    missing = [word for word in SPECIAL_WORDS if word not in words]
    if missing:
        return f"the vocabulary lacks {', '.join(missing)}, so that it was not trained to predict them"
    return None


def check_rows(shapes: Mapping[str, tuple[int, ...]], file: InputFile, words: int, vocabulary: InputFile) -> None:
    """Check that the arrays of a softmax have a row for each word.

    Args:
        shapes: The shapes of the arrays, by their names.
        file: The file that they are in.
        words: The number of words.
        vocabulary: The file of the words.

    Raises:
        ConversionError: If one has another number of rows.
    """
    for name, shape in shapes.items():
        if shape[:1] != (words,):
            raise ConversionError(
                f"{vocabulary.name} has {counted(words, 'word')}, but array {name} of {file.name} is {shape}. "
                "Give the vocabulary of this model."
            )


__all__ = [
    "check_rows",
    "find_options",
    "find_vocabulary",
    "only",
    "options_among",
    "read_lines",
    "rows_without_words",
]
