"""The commands `push`, which publishes a model on the Hub, and `copy`, which copies one with its code."""

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmo_hf.bundled import model_folder

from .shared import Commands, printable, shows_progress, silence_libraries


def add_copy(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf copy`."""
    parser = commands.add_parser(
        "copy",
        parents=[shared],
        help="copy a model with the code that it needs elsewhere",
        description="Copy a model folder with the code of this version, so that any script loads the copy with "
        "trust_remote_code=True, also where elmo_hf is not installed. The weights are the same to the byte.",
        epilog="example: elmo-hf copy elmo-small-en my-elmo",
    )
    parser.add_argument("model", type=model_folder, metavar="DIR", help="model folder, or elmo-small-en")
    parser.add_argument("output", type=Path, metavar="OUTPUT", help="folder to create; it must not exist")
    parser.set_defaults(run=_copy)


def _copy(options: argparse.Namespace) -> int:
    from elmo_hf.hub.copying import copy_model

    silence_libraries()
    copy_model(options.model, options.output)
    folder = str(options.output)
    print(printable(f"Copied to {folder}. Any script loads it:"))
    print(f"    model = AutoModel.from_pretrained({folder!r}, trust_remote_code=True)")
    print(f"    tokenizer = AutoTokenizer.from_pretrained({folder!r}, trust_remote_code=True)")
    return 0


def add_push(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """Add the parser of `elmo-hf push`."""
    parser = commands.add_parser(
        "push",
        parents=[shared],
        help="publish a model on the Hub",
        description="Check a model folder, create or complete its model card, and publish both in one commit. Log in "
        "first with `hf auth login`, or set HF_TOKEN.",
        epilog="example: elmo-hf push my-elmo my-name/my-elmo --license apache-2.0 --language en --dry-run",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="model folder; it is not changed")
    parser.add_argument("repo_id", metavar="ORG/NAME", help="name on the Hub; created if it does not exist")
    parser.add_argument(
        "--license",
        "--licence",
        metavar="ID",
        help="the license as the Hub names it, such as apache-2.0; required unless the folder's README.md has one",
    )
    parser.add_argument(
        "--language", nargs="+", default=[], metavar="CODE", help="language of the model, such as en, or en de"
    )
    parser.add_argument("--base-model", metavar="ORG/NAME", help="the model on the Hub that this one was made from")
    parser.add_argument(
        "--dataset",
        nargs="+",
        default=[],
        metavar="ORG/NAME",
        help="the data sets on the Hub that this model was trained and measured on",
    )
    parser.add_argument("--private", action="store_true", help="create a private repository")
    parser.add_argument(
        "--revision", default="main", metavar="BRANCH", help="branch; created if it does not exist (default: main)"
    )
    parser.add_argument("--message", metavar="TEXT", help="commit message")
    parser.add_argument(
        "--replace-card",
        action="store_true",
        help="write a new README.md; by default the folder's, or the Hub's, is kept and its metadata completed",
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything and show what would be sent")
    parser.set_defaults(run=_push)


def _push(options: argparse.Namespace) -> int:
    from elmo_hf.hub.sharing import push

    silence_libraries()
    card = {
        "license": options.license,
        "language": options.language,
        "base_model": options.base_model,
        "datasets": options.dataset,
        "replace_card": options.replace_card,
    }
    if options.dry_run:
        return _show_upload(options, card)
    with _quiet_hub():
        pushed = push(
            options.folder,
            options.repo_id,
            private=options.private,
            revision=options.revision,
            message=options.message,
            **card,
        )
    _print_notes(pushed.notes)
    if pushed.deleted:
        print(printable(f"Deleted there, as of an older version: {', '.join(pushed.deleted)}"))
    print(f"{'Pushed to' if pushed.changed else 'Nothing has changed at'} {pushed.url}, commit {pushed.commit}")
    return 0


def _show_upload(options: argparse.Namespace, card: dict[str, Any]) -> int:
    """Print what would be sent."""
    from elmo_hf.hub.sharing import prepare
    from elmo_hf.inspection import readable_size

    upload = prepare(options.folder, options.repo_id, **card)
    print(printable(f"Would be sent to {options.repo_id} ({readable_size(sum(upload.files.values()))}):"))
    width = max(map(len, upload.files))
    for name, size in upload.files.items():
        print(printable(f"    {name:<{width}}  {size / 1000:>11,.1f} kB"))
    if upload.left:
        print(printable(f"Would be left: {', '.join(upload.left)}"))
    _print_notes(upload.notes)
    print("Not checked: your access, the name on the Hub, and codes of languages with three letters.")
    return 0


def _print_notes(notes: list[str]) -> None:
    for note in notes:
        print(printable(note))


@contextlib.contextmanager
def _quiet_hub() -> Iterator[None]:
    """Hide huggingface_hub's warnings, which show addresses with secrets, and bars that nobody would see."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars, logging

    verbosity, hidden = logging.get_verbosity(), are_progress_bars_disabled()
    logging.set_verbosity_error()
    if not shows_progress():
        disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if not hidden:
            enable_progress_bars()


__all__ = ["add_copy", "add_push"]
