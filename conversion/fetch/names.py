"""Find a release by the name that the user typed, and download its files from the first address that gives them."""

import difflib
import hashlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path

from ..readers.base import ConversionError, printable
from .download import UnavailableError, cached_path, download, shown_url
from .releases import NOT_STATED, RELEASES, Download, Release


logger = logging.getLogger(__name__)


def find_release(name: str) -> Release | None:
    """Find a release by its name, in upper or lower case.

    Args:
        name: The name: `original`, `efml:zh`, `efml:Chinese`, `nlpl:195`.

    Returns:
        The release, with the addresses of one language or number if the name is that of a family; `None` if no
        release has this name.

    Raises:
        ConversionError: If the argument of a family is missing or unknown.
    """
    typed = name.casefold()
    for release in RELEASES:
        if release.name.casefold() == typed and typed and not release.is_family:
            return release
    family, _, argument = typed.partition(":")
    for release in RELEASES:
        if release.is_family and release.name.partition(":")[0] == family:
            return _member(release, argument)
    return None


def _member(family: Release, argument: str) -> Release:
    """Return one member of a family."""
    prefix = family.name.partition(":")[0]
    if not family.members:
        if not re.fullmatch("[0-9]{1,6}", argument):
            raise ConversionError(f"{family.name} needs a number in place of ID, such as {prefix}:195.")
        number = str(int(argument))
        return family.of_place(number, name=f"{prefix}:{number}", content=f"number {number}")
    wanted = " ".join(argument.replace("-", " ").replace("_", " ").split())
    for member in family.members:
        if wanted in (member.code, member.language.casefold()):
            return family.of_place(member.place, name=f"{prefix}:{member.code}", content=member.language)
    raise ConversionError(_no_such_language(family, prefix, argument))


def _no_such_language(family: Release, prefix: str, argument: str) -> str:
    codes = [
        each.name.partition(":")[2] for each in RELEASES if each.name.startswith(f"{prefix}:") and not each.is_family
    ]
    choice = ", ".join(sorted([*codes, *(member.code for member in family.members)]))
    problem = f"{prefix}:{printable(argument)} is not a release" if argument else f"{prefix} needs a language"
    return f"{problem}: give {family.name} with one of {choice}."


def note_name_taken(path: str) -> None:
    """Tell the user if this path, which is taken, is the name of a release too."""
    if any(release.name == path for release in RELEASES if release.name):
        logger.warning("%s is here, and is taken instead of the release of this name.", printable(path))


def unknown_source(name: str) -> ConversionError:
    """Return the error for a source that is neither a path nor a name, with the names that look like it."""
    names = {release.name.casefold(): release.name for release in RELEASES if release.name}
    close = [names[each] for each in difflib.get_close_matches(name.casefold(), names)]
    if close:
        choice = " or ".join(close)
        return ConversionError(
            f"{printable(name)} is neither a path nor the name of a release. Did you mean {choice}? "
            "`elmo-hf convert --list` shows all names."
        )
    return ConversionError(
        f"{printable(name)} does not exist. Check the path, or see the releases with `elmo-hf convert --list`."
    )


def fetch(release: Release, *, progress: bool = False) -> Iterator[tuple[Path, str]]:
    """Download the files of a release, and say first what they are.

    Args:
        release: The release, as `find_release` returns it.
        progress: Show a bar while downloading.

    Yields:
        The path of each file in the cache, and the address that gave it.

    Raises:
        ConversionError: If the release does not convert or has no address, if no address gives one of its files, or
            if a file differs from its publisher's checksum.
    """
    if not release.downloads:
        manner = " by its name" if release.converts else ""
        raise ConversionError(f"{release.name} cannot be converted{manner}: {release.by_hand}.")
    logger.info("%s", _announcement(release))
    for each in release.downloads:
        yield _fetch_one(each, release, progress=progress)


def _announcement(release: Release) -> str:
    licence = f"{NOT_STATED} by its publisher" if release.licence == NOT_STATED else release.licence
    return (
        f"{release.name}: {release.title} ({release.content}). Files: {release.file_names}. "
        f"Size: {release.measures or NOT_STATED}. Licence: {licence}."
    )


def _fetch_one(file: Download, release: Release, *, progress: bool) -> tuple[Path, str]:
    """Download a file from the first address that gives it, or take it from the cache."""
    # an address that failed last time is not asked again if another one gave the file
    urls = [url for url in file.urls if cached_path(url).exists()][:1] or file.urls
    for url, further in zip(urls, [*urls[1:], None], strict=True):
        try:
            path = download(url, progress=progress)
            _check_sum(path, url, file.checksum)
        except UnavailableError as error:
            if further is None:
                raise ConversionError(f"{error.problem}. {_remedy(file, release)}") from error
            logger.warning("%s. Trying the next address, %s.", error.problem, shown_url(further))
        else:
            return path, url
    raise AssertionError("a download has an address")


def _check_sum(path: Path, url: str, checksum: str) -> None:
    """Compare a download with the publisher's checksum; remove it from the cache if they differ."""
    if not checksum:
        return
    algorithm, _, expected = checksum.partition(":")
    with path.open("rb") as content:
        found = hashlib.file_digest(content, algorithm).hexdigest()
    if found != expected:
        path.unlink()
        raise ConversionError(
            f"{shown_url(url)}: {path.name} has the {algorithm.upper()} sum {found}, but its publisher states "
            f"{expected}. Run the command again to download it once more."
        )


def _remedy(file: Download, release: Release) -> str:
    """Say what to do by hand if no address gives a file."""
    if len(release.downloads) == 1:
        return f"No address of {release.name} is left: get {file.file_name} elsewhere, and give it instead."
    return (
        f"No address of this file of {release.name} is left: get {file.file_name} elsewhere, and give all files "
        f"instead ({release.file_names})."
    )


__all__ = ["fetch", "find_release", "note_name_taken", "unknown_source"]
