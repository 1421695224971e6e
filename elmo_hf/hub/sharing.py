"""Publish a model folder on the Hub: check it, choose its files, make or complete its card, send all in one commit."""

import fnmatch
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    ModelInfo,
    get_token,
    is_offline_mode,
)
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id
from transformers.dynamic_module_utils import get_relative_import_files

from elmo_hf import __version__, model
from elmo_hf.embedding.loading import load
from elmo_hf.errors import ElmoError, one_line
from elmo_hf.inspection import read_config, read_json
from elmo_hf.model import MODEL_CLASSES

from .cards import CARD, complete_card, is_unedited, split_card
from .errors import explaining
from .folder_card import make_card, task_of


# what a reader loads, and what an older version of it on the Hub is replaced by as a whole
MODEL_FILES = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "char_vocab.json",
    "provenance.json",
    "*_elmo.py",
)
# what belongs to it besides, and stays on the Hub where the folder has none
OTHER_FILES = ("LICENSE*", "LICENCE*", "NOTICE*", "*_results.json")

WEIGHTS, WEIGHTS_INDEX = "model.safetensors", "model.safetensors.index.json"

# a file that a card shows or links to: no address, no folder
LINKED = re.compile(r"""(?:\]\(|src=["'])([\w][\w. -]*)[)"'#]""")

# one identifier of the Hub's, such as apache-2.0; which there are, the Hub says
LICENSE_ID = re.compile(r"[a-z0-9][a-z0-9.+-]*")

MAIN = "main"


@dataclass(frozen=True)
class Upload:
    """What `push` is going to send.

    Args:
        folder: The model's.
        repo_id: `ORG/NAME`.
        files: Names of the files that belong to the model, with the card, and their sizes in bytes.
        left: Names of what is in the folder and is not sent.
        card: The model card, README.md.
        given: The metadata that were asked for.
        own_card: Whether this card is to take the place of one on the Hub that somebody wrote there.
        notes: What was done to the card, and what a reader of the model may stumble upon.
    """

    folder: Path
    repo_id: str
    files: dict[str, int]
    left: list[str]
    card: str
    given: dict[str, Any]
    own_card: bool
    notes: list[str]


class Pushed(NamedTuple):
    """What `push` did.

    Args:
        url: The address of the model.
        commit: The commit on the Hub that has these files.
        changed: Whether it is new; if not, the Hub had all of these files before.
        deleted: Names of files of an older version of the model that the commit deletes.
        notes: What there is to be told.
    """

    url: str
    commit: str
    changed: bool
    deleted: list[str]
    notes: list[str]


def push(
    folder: str | Path,
    repo_id: str,
    *,
    license: str | None = None,
    language: Sequence[str] = (),
    base_model: str | None = None,
    private: bool = False,
    revision: str = MAIN,
    message: str | None = None,
    replace_card: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
) -> Pushed:
    """Publish a model folder on the Hub, in one commit, or none.

    The folder is checked first, as `prepare` does, and is left as it is. A card that is on the Hub already stays where
    the folder has none.

    Args:
        folder: A model folder, as `elmo-hf convert`, `save_pretrained` or a training makes it.
        repo_id: `ORG/NAME`; it is created if it does not exist.
        license: The licence, as the Hub calls it, such as `"apache-2.0"`; needed unless the folder's card names one.
        language: Codes of the languages, such as `["en"]`.
        base_model: The name on the Hub of the model that this one was made from.
        private: Create a private repository; an error if it exists and is public.
        revision: The branch, which is created if it does not exist.
        message: Of the commit.
        replace_card: Write a new card; what the metadata of the old one say is kept.
        token: The access token; by default that of `hf auth login`, or of HF_TOKEN. It is in no message.
        endpoint: The address of the Hub, if it is not the usual one or that of HF_ENDPOINT.

    Returns:
        Where it is, and what was done.

    Raises:
        ElmoError: If the folder is no whole model, the licence is not known, or the Hub refuses or cannot be reached.
    """
    upload = prepare(
        folder, repo_id, license=license, language=language, base_model=base_model, replace_card=replace_card
    )
    if is_offline_mode():
        raise ElmoError("This is the offline mode, in which nothing can be pushed: unset HF_HUB_OFFLINE.")
    token = find_token(token)
    refuse_secrets(upload, token)
    api = HfApi(endpoint=endpoint, token=token, library_name="elmo_hf", library_version=__version__)
    with explaining(api.endpoint, repo_id, revision, token) as stays:
        before = _open_repository(api, repo_id, revision, private=private, stays=stays)
        names = {file.rfilename for file in before.siblings or []}
        if CARD in names and not upload.own_card:
            upload = _complete_remote_card(api, upload, before)
        stale = sorted(name for name in names - set(upload.files) if _matches(name, MODEL_FILES))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            commit = api.create_commit(
                repo_id,
                [*_additions(upload), *map(CommitOperationDelete, stale)],
                commit_message=message or f"Upload {Path(folder).resolve().name} by elmo-hf {__version__}",
                revision=revision,
                parent_commit=before.sha,
            )
    return Pushed(
        url=f"{api.endpoint}/{repo_id}",
        commit=commit.oid,
        changed=commit.oid != before.sha,
        deleted=stale,
        # what the Hub says of the card; others, of its libraries, are none of the user's business
        notes=upload.notes + [" ".join(str(each.message).split()) for each in caught if each.category is UserWarning],
    )


def prepare(
    folder: str | Path,
    repo_id: str,
    *,
    license: str | None = None,
    language: Sequence[str] = (),
    base_model: str | None = None,
    replace_card: bool = False,
) -> Upload:
    """Check a model folder and choose what of it is published; without network.

    Args:
        folder: As for `push`.
        repo_id: As for `push`.
        license: As for `push`.
        language: As for `push`.
        base_model: As for `push`.
        replace_card: As for `push`.

    Returns:
        What `push` would send.

    Raises:
        ElmoError: If the folder is no whole model, a name is not one of the Hub's, or the licence is not known.
    """
    folder = Path(folder)
    check_name(repo_id)
    given = {"license": _check_license(license), "language": _one_or_list(language), "base_model": base_model}
    given = {key: value for key, value in given.items() if value}
    notes = check_folder(folder)
    old = _read_text(folder / CARD) if (folder / CARD).is_file() else None
    if not (license or (old and split_card(old)[1].get("license"))):
        raise ElmoError(
            f"{folder} does not say its licence: give that of the weights' owner by --license, such as apache-2.0."
        )
    card, note = _card(folder, repo_id, given, old, str(folder / CARD), replace_card=replace_card)
    names = sorted(path.name for path in folder.iterdir())
    sent = [name for name in names if name != CARD and (folder / name).is_file() and _belongs(folder, name, card)]
    return Upload(
        folder=folder,
        repo_id=repo_id,
        files={name: (folder / name).stat().st_size for name in sent} | {CARD: len(card.encode())},
        left=[name for name in names if name not in (*sent, CARD)],
        card=card,
        given=given,
        own_card=replace_card or (old is not None and not is_unedited(old)),
        notes=[f"{CARD}: {note}", *notes],
    )


def _card(
    folder: Path, repo_id: str, given: dict[str, Any], old: str | None, where: str, *, replace_card: bool = False
) -> tuple[str, str]:
    """Write a new card, or complete one that somebody wrote; tell the card, and what was done.

    Raises:
        ElmoError: If the metadata of the old one cannot be read, or contradict what is given.
    """
    known = split_card(old or "")[1]
    for key, value in given.items():
        if not replace_card and _listed(known.get(key, value)) != _listed(value):
            raise ElmoError(f"{where} has the {key} {known[key]}, not {value}: correct the one or the other.")
    wanted = {"library_name": "transformers", "pipeline_tag": task_of(folder), "tags": ["elmo"]}
    if old is None or replace_card or is_unedited(old):
        return make_card(folder, repo_id, wanted | known | given), "a new one"
    card, added = complete_card(old, repo_id, given | wanted)
    return card, "kept" + (f", with {_and(added)} added to its metadata" if added else "")


def check_name(repo_id: str) -> None:
    """Refuse a name that the Hub does not take.

    Raises:
        ElmoError: In that case.
    """
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ElmoError(f"{repo_id!r} is no name on the Hub ({one_line(error)}): choose another one.") from error
    if repo_id.count("/") != 1:
        raise ElmoError(
            f"{repo_id!r} is no name on the Hub: write it as ORG/NAME, with your user name or organisation."
        )


def check_folder(folder: Path) -> list[str]:
    """Check that a folder is a whole model, which loads where this package is not installed, too.

    Returns:
        What a reader of the model may stumble upon.

    Raises:
        ElmoError: If a file is missing or damaged.
    """
    if not folder.is_dir():
        raise ElmoError(f"{folder} is not a folder: give that of a model.")
    config = read_config(folder)
    architecture = (config.architectures or [""])[0]
    if architecture not in MODEL_CLASSES:
        raise ElmoError(
            f"{folder / 'config.json'} names no class of elmo_hf ({architecture!r}): save the model again."
        )
    if (folder / WEIGHTS).exists() and (folder / WEIGHTS_INDEX).exists():
        raise ElmoError(f"{folder} has its weights twice, in one file and in parts: delete {WEIGHTS} or the parts.")
    notes = check_code(folder)
    model, _ = load(folder, MODEL_CLASSES[architecture])
    del model
    return notes


def check_code(folder: Path) -> list[str]:
    """Check that the code which configuration and tokenizer name is in a folder, and compare it with this package's.

    Returns:
        A note, if it is not this package's.

    Raises:
        ElmoError: If something is missing.
    """
    again = "load model and tokenizer, and save both again by `save_pretrained`"
    needed: set[str] = set()
    for name in ("config.json", "tokenizer_config.json"):
        classes = read_json(folder / name).get("auto_map")
        if not isinstance(classes, dict) or not classes:
            raise ElmoError(f"{folder / name} has no auto_map, without which others cannot load it: {again}.")
        for value in classes.values():
            for target in value if isinstance(value, list) else [value]:
                if target is None:
                    continue
                module = str(target).partition(".")[0]
                if not (folder / f"{module}.py").is_file():
                    raise ElmoError(f"{folder} has no {module}.py, the code of {target!s:.80}: {again}.")
                needed.add(f"{module}.py")
    try:
        needed |= {Path(path).name for name in needed for path in get_relative_import_files(folder / name)}
        here = Path(model.__file__).parent
        changed = [
            name
            for name in sorted(needed)
            if not (here / name).is_file() or (here / name).read_bytes() != (folder / name).read_bytes()
        ]
    except FileNotFoundError as error:
        raise ElmoError(f"{error.filename} is missing, which the code of the model imports: {again}.") from error
    return [f"the code in {folder} is not that of elmo_hf {__version__}: {_and(changed)}"] if changed else []


def find_token(token: str | None = None) -> str:
    """Find the access token.

    Raises:
        ElmoError: If there is none, or it cannot be one; it is not in the message.
    """
    try:
        token = (token or get_token() or "").strip()
    except Exception as error:
        # it may be in a file, or asked for from a server
        raise ElmoError(f"The access token cannot be read ({one_line(error)}): run `hf auth login`.") from error
    if not token:
        raise ElmoError("You are not logged in to the Hub: run `hf auth login`, or set HF_TOKEN.")
    if not (token.isascii() and token.isprintable() and " " not in token):
        # libraries show what they cannot send
        raise ElmoError("The access token has characters that no token has: copy it again, or run `hf auth login`.")
    return token


def refuse_secrets(upload: Upload, token: str) -> None:
    """Refuse to publish a file that holds the access token.

    Raises:
        ElmoError: In that case.
    """
    texts = {name: upload.folder / name for name in upload.files if not name.endswith(".safetensors") and name != CARD}
    for name, path in texts.items():
        if token.encode() in path.read_bytes():
            raise ElmoError(f"{upload.folder / name} holds your access token: take it out, and make a new token.")
    if token in upload.card:
        raise ElmoError(f"{upload.folder / CARD} holds your access token: take it out, and make a new token.")


def _open_repository(api: HfApi, repo_id: str, revision: str, *, private: bool, stays: list[str]) -> ModelInfo:
    """Find or create a repository and the branch, and describe what is in the branch."""
    try:
        info = api.model_info(repo_id)
    except RepositoryNotFoundError:
        api.create_repo(repo_id, private=private or None, exist_ok=True)
        info = api.model_info(repo_id)
        stays.append(f"{repo_id} was created, and stays.")
    if private and not info.private:
        raise ElmoError(f"{repo_id} is public: make it private in its settings first, or choose another name.")
    if revision == MAIN:
        return info
    api.create_branch(repo_id, branch=revision, exist_ok=True)
    return api.model_info(repo_id, revision=revision)


def _complete_remote_card(api: HfApi, upload: Upload, info: ModelInfo) -> Upload:
    """Put the card that is on the Hub in place of a new one."""
    with TemporaryDirectory() as folder:
        path = api.hf_hub_download(upload.repo_id, CARD, revision=info.sha, local_dir=folder)
        old = _read_text(Path(path))
    card, note = _card(upload.folder, upload.repo_id, upload.given, old, f"{CARD} on the Hub")
    return replace(
        upload,
        files=upload.files | {CARD: len(card.encode())},
        card=card,
        notes=[f"{CARD} on the Hub: {note}", *upload.notes[1:]],
    )


def _additions(upload: Upload) -> Iterator[CommitOperationAdd]:
    for name in upload.files:
        yield CommitOperationAdd(name, upload.card.encode() if name == CARD else upload.folder / name)


def _belongs(folder: Path, name: str, card: str) -> bool:
    """Tell whether a file belongs to the model that a folder is."""
    if name in (WEIGHTS, CARD) or not name.endswith(".safetensors"):
        return name == CARD or _matches(name, (*MODEL_FILES, *OTHER_FILES)) or name in LINKED.findall(card)
    parts = json.loads(_read_text(folder / WEIGHTS_INDEX)) if (folder / WEIGHTS_INDEX).exists() else {}
    return name in parts.get("weight_map", {}).values()


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _check_license(license: str | None) -> str | None:
    if license is not None and not LICENSE_ID.fullmatch(license.lower()):
        raise ElmoError(f"{license!r} is no name of a licence on the Hub: give one such as apache-2.0 or cc-by-4.0.")
    return license.lower() if license else None


def _one_or_list(values: Sequence[str]) -> str | list[str] | None:
    if isinstance(values, str):
        return values
    return values[0] if len(values) == 1 else list(values) or None


def _listed(value: object) -> object:
    """Give one value as a list of one, which means the same in a card."""
    return value if isinstance(value, list) else [value]


def _read_text(path: Path) -> str:
    try:
        # as it is, with the ends of its lines
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ElmoError(f"{path} is not UTF-8 ({error.reason}): convert it.") from error


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


__all__ = ["Pushed", "Upload", "prepare", "push"]
