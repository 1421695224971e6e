"""The command that publishes: push."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from .shared import Commands, printable, silence_libraries


def add_push(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Describe `elmo-hf push`."""
    parser = commands.add_parser(
        "push",
        parents=[shared],
        help="publish a model on the Hub",
        description="Check a model folder, make or complete its model card, and publish it in one commit. The access "
        "token is that of `hf auth login`, or HF_TOKEN.",
        epilog="example: elmo-hf push my-elmo my-name/my-elmo --license apache-2.0 --language en --dry-run",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a model folder, which is left as it is")
    parser.add_argument("repo_id", metavar="ORG/NAME", help="the name on the Hub; created if it does not exist")
    parser.add_argument(
        "--license",
        "--licence",
        metavar="ID",
        help="as the Hub calls it, such as apache-2.0; needed unless the folder's README.md names one",
    )
    parser.add_argument("--language", nargs="+", default=[], metavar="CODE", help="such as en, or en de")
    parser.add_argument("--base-model", metavar="ORG/NAME", help="the model on the Hub that this one was made from")
    parser.add_argument("--private", action="store_true", help="create it for yourself and your organisation alone")
    parser.add_argument("--revision", default="main", metavar="BRANCH", help="created if it does not exist")
    parser.add_argument("--message", metavar="TEXT", help="of the commit")
    parser.add_argument(
        "--replace-card",
        action="store_true",
        help="write a new README.md; by default the folder's, or that of the Hub, is kept and its metadata completed",
    )
    parser.add_argument("--dry-run", action="store_true", help="check all, show what would be sent, and send nothing")
    parser.set_defaults(run=_push)


def _push(options: argparse.Namespace) -> int:
    from elmo_hf.hub.sharing import prepare, push
    from elmo_hf.inspection import readable_size

    silence_libraries()
    about = {
        "license": options.license,
        "language": options.language,
        "base_model": options.base_model,
        "replace_card": options.replace_card,
    }
    if options.dry_run:
        upload = prepare(options.folder, options.repo_id, **about)
        print(printable(f"Would be sent to {options.repo_id} ({readable_size(sum(upload.files.values()))}):"))
        width = max(map(len, upload.files))
        for name, size in upload.files.items():
            print(printable(f"    {name:<{width}}  {size / 1000:>11,.1f} kB"))
        if upload.left:
            print(printable(f"Would be left: {', '.join(upload.left)}"))
        _print_notes(upload.notes)
        return 0
    with _quiet():
        pushed = push(
            options.folder,
            options.repo_id,
            private=options.private,
            revision=options.revision,
            message=options.message,
            **about,
        )
    _print_notes(pushed.notes)
    if pushed.deleted:
        print(printable(f"Deleted there, as of an older version: {', '.join(pushed.deleted)}"))
    print(f"{'Pushed to' if pushed.changed else 'Nothing has changed at'} {pushed.url}, commit {pushed.commit}")
    return 0


def _print_notes(notes: list[str]) -> None:
    for note in notes:
        print(printable(note))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what huggingface_hub says to bars, for those who can see them; its warnings show addresses with secrets."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars, logging

    verbosity, hidden = logging.get_verbosity(), are_progress_bars_disabled()
    logging.set_verbosity_error()
    if sys.stderr is None or not sys.stderr.isatty():
        disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if not hidden:
            enable_progress_bars()


__all__ = ["add_push"]
