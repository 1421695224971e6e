"""Publish a model folder on the Hub: check it, choose its files, write or complete its card, and push one commit."""

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
from huggingface_hub.utils import get_session, hf_raise_for_status, validate_repo_id
from transformers.dynamic_module_utils import get_relative_import_files

from elmo_hf import __version__, model
from elmo_hf.bundled import model_folder
from elmo_hf.embedding.loading import load
from elmo_hf.errors import ElmoError, one_line
from elmo_hf.history import names_folders
from elmo_hf.inspection import read_config, read_json
from elmo_hf.model import MODEL_CLASSES

from .cards import CARD, complete_card, is_unedited, split_card
from .errors import explaining
from .folder_card import folder_metadata, make_card
from .metadata import check_language, check_license, check_metadata


# the files of a model; a push replaces all of those on the Hub, so that no old one is left beside new ones
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
    "task_vocab.json",
    "provenance.json",
    "*_elmo.py",
)
# other files of a model; they stay on the Hub if the folder has none
OTHER_FILES = ("LICENSE*", "LICENCE*", "NOTICE*", "*_results.json")

WEIGHTS, WEIGHTS_INDEX = "model.safetensors", "model.safetensors.index.json"

# a file beside the card that it shows or links to
LINKED = re.compile(r"""(?:\]\(|src=["'])([\w][\w. -]*)[)"'#]""")

MAIN = "main"


@dataclass(frozen=True)
class Upload:
    """The content of a push.

    Attributes:
        folder: The model folder.
        repo_id: `ORG/NAME`.
        files: The names and sizes in bytes of the files to send, the card included.
        left: The names in the folder that are not sent.
        card: The model card, README.md.
        given: The metadata that the caller asked for.
        own_card: Whether the card replaces one that somebody wrote on the Hub.
        notes: What was done to the card, and warnings for those who will load the model.
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
    """The result of a push.

    Attributes:
        url: The address of the model.
        commit: The commit on the Hub that has these files.
        changed: Whether the commit is new; if not, the Hub had all of these files already.
        deleted: The names of files of an older version of the model that the commit deletes.
        notes: Notes for the user.
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
    datasets: Sequence[str] = (),
    private: bool = False,
    revision: str = MAIN,
    message: str | None = None,
    replace_card: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
) -> Pushed:
    """Publish a model folder on the Hub in one commit.

    `prepare` checks the folder first; the folder does not change. If the folder has no card, a card on the Hub stays.

    Args:
        folder: A model folder from `elmo-hf convert`, `save_pretrained` or a training.
        repo_id: `ORG/NAME`; the repository is created if it does not exist.
        license: The Hub's identifier of the licence, such as `"apache-2.0"`; needed unless the folder's card has one.
        language: Language codes, such as `["en"]`.
        base_model: The name on the Hub of the model that this one was made from; by default what the model's record of
            its training names.
        datasets: The names on the Hub of the data sets that it was trained and measured on; by default as above.
        private: Whether to create a private repository; an error if the repository exists and is public.
        revision: The branch, which is created if it does not exist.
        message: The message of the commit.
        replace_card: Whether to write a new card in any case; the metadata of the old card are kept.
        token: The access token; by default that of `hf auth login` or HF_TOKEN. No message shows it.
        endpoint: The address of the Hub; by default HF_ENDPOINT or the usual one.

    Returns:
        The address of the model, and what was done.

    Raises:
        ElmoError: If the folder is not a complete model, the licence is not known, or the Hub refuses the push or
            cannot be reached.
    """
    upload = prepare(
        folder,
        repo_id,
        license=license,
        language=language,
        base_model=base_model,
        datasets=datasets,
        replace_card=replace_card,
    )
    if is_offline_mode():
        raise ElmoError("This is the offline mode, in which nothing can be pushed: unset HF_HUB_OFFLINE.")
    token = find_token(token)
    refuse_secrets(upload, token)
    api = HfApi(endpoint=endpoint, token=token, library_name="elmo_hf", library_version=__version__)
    with explaining(api.endpoint, repo_id, revision, token) as stays:
        # before a repository is created
        _let_hub_check(api, upload.card)
        before = _open_repository(api, repo_id, revision, private=private, stays=stays)
        names = {file.rfilename for file in before.siblings or []}
        if CARD in names and not upload.own_card:
            upload = _complete_remote_card(api, upload, before)
        stale = sorted(name for name in names - set(upload.files) if _matches(name, MODEL_FILES))
        message = message or f"Upload {Path(folder).resolve().name} by elmo-hf {__version__}"
        return _commit(api, upload, stale, before, message=message, revision=revision)


def _commit(api: HfApi, upload: Upload, stale: list[str], before: ModelInfo, *, message: str, revision: str) -> Pushed:
    """Push the files of an upload, and delete stale ones, in one commit on top of the last one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        commit = api.create_commit(
            upload.repo_id,
            [*_additions(upload), *map(CommitOperationDelete, stale)],
            commit_message=message,
            revision=revision,
            parent_commit=before.sha,
        )
    return Pushed(
        url=f"{api.endpoint}/{upload.repo_id}",
        commit=commit.oid,
        changed=commit.oid != before.sha,
        deleted=stale,
        # the Hub's remarks on the card; other warnings come from its libraries and do not concern the user
        notes=upload.notes + [" ".join(str(each.message).split()) for each in caught if each.category is UserWarning],
    )


def prepare(
    folder: str | Path,
    repo_id: str,
    *,
    license: str | None = None,
    language: Sequence[str] = (),
    base_model: str | None = None,
    datasets: Sequence[str] = (),
    replace_card: bool = False,
) -> Upload:
    """Check a model folder and choose the files to publish, without network.

    Args:
        folder: A model folder from `elmo-hf convert`, `save_pretrained` or a training.
        repo_id: `ORG/NAME`.
        license: The Hub's identifier of the licence; needed unless the folder's card has one.
        language: Language codes, such as `["en"]`.
        base_model: The name on the Hub of the model that this one was made from; by default what the model's record of
            its training names.
        datasets: The names on the Hub of the data sets that it was trained and measured on; by default as above.
        replace_card: Whether to write a new card in any case; the metadata of the old card are kept.

    Returns:
        The files and the card that `push` would send.

    Raises:
        ElmoError: If the folder is not a complete model, the Hub does not allow a name, or the licence is not known.
    """
    folder = model_folder(folder)
    check_name(repo_id)
    given = {
        "license": license and check_license(license),
        "language": check_language(language),
        "base_model": base_model,
        "datasets": [datasets] if isinstance(datasets, str) else list(datasets),
    }
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
    """Write a new card, or complete one that somebody wrote; return it with a note on what was done.

    Raises:
        ElmoError: If the metadata of the old card cannot be read, or contradict the given ones.
    """
    known = split_card(old or "")[1]
    for key, value in given.items():
        if not replace_card and _listed(known.get(key, value)) != _listed(value):
            raise ElmoError(f"{where} has the {key} {known[key]}, not {value}: correct the one or the other.")
    wanted = folder_metadata(folder, repo_id, given.get("datasets", []))
    if old is None or replace_card or is_unedited(old):
        # figures of an older version are not those of this one
        figures = {key: value for key, value in wanted.items() if key == "model-index"}
        metadata = wanted | known | given | figures
        check_metadata(metadata, where)
        is_new = old is None or replace_card
        note = "a new one" if is_new else "made anew, because nobody has edited the old one"
        return make_card(folder, repo_id, metadata), note
    card, added = complete_card(old, repo_id, given | {key: wanted[key] for key in wanted if key not in given})
    check_metadata(split_card(card)[1], where)
    return card, "kept" + (f", with {_and(added)} added to its metadata" if added else "")


def check_name(repo_id: str) -> None:
    """Check the name of a repository.

    Raises:
        ElmoError: If the Hub does not allow it.
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
    """Check that a folder is a complete model, which also loads where this package is not installed.

    Returns:
        Warnings for those who will load the model, and of what they will read.

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
    if names_folders(config):
        notes.append(
            "config.json: training_history names folders, which the card leaves out: take them out there, too."
        )
    model, _ = load(folder, MODEL_CLASSES[architecture])
    del model
    return notes


def check_code(folder: Path) -> list[str]:
    """Check that a folder has the code that its configuration and tokenizer name, and compare it with this package's.

    Returns:
        A note if the code differs from this package's.

    Raises:
        ElmoError: If a file is missing.
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
    """Return the access token.

    Raises:
        ElmoError: If there is none, or it is malformed; the message does not show it.
    """
    try:
        token = (token or get_token() or "").strip()
    except Exception as error:
        # it may come from a file or a server
        raise ElmoError(f"The access token cannot be read ({one_line(error)}): run `hf auth login`.") from error
    if not token:
        raise ElmoError("You are not logged in to the Hub: run `hf auth login`, or set HF_TOKEN.")
    if not (token.isascii() and token.isprintable() and " " not in token):
        # libraries would show it in their errors
        raise ElmoError("The access token has characters that no token has: copy it again, or run `hf auth login`.")
    return token


def refuse_secrets(upload: Upload, token: str) -> None:
    """Check that no file to publish contains the access token.

    Raises:
        ElmoError: If one does.
    """
    texts = {name: upload.folder / name for name in upload.files if not name.endswith(".safetensors") and name != CARD}
    for name, path in texts.items():
        if token.encode() in path.read_bytes():
            raise ElmoError(f"{upload.folder / name} holds your access token: take it out, and make a new token.")
    if token in upload.card:
        raise ElmoError(f"{upload.folder / CARD} holds your access token: take it out, and make a new token.")


def _let_hub_check(api: HfApi, card: str) -> None:
    """Let the Hub check the metadata of a card, which knows all licences and languages.

    Raises:
        ElmoError: If the Hub refuses them.
    """
    response = get_session().post(f"{api.endpoint}/api/validate-yaml", json={"content": card, "repoType": "model"})
    if response.status_code == 400:
        reasons = "; ".join(" ".join(str(error.get("message")).split()) for error in response.json()["errors"])
        raise ElmoError(f"The Hub refuses the metadata of {CARD} ({reasons}): correct them.")
    hf_raise_for_status(response)


def _open_repository(api: HfApi, repo_id: str, revision: str, *, private: bool, stays: list[str]) -> ModelInfo:
    """Find or create the repository and the branch, and return what the Hub knows of the branch."""
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
    """Return the upload with the card on the Hub, completed, in place of a new card."""
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
    """Return whether a file of a model folder is part of the model."""
    if name in (WEIGHTS, CARD) or not name.endswith(".safetensors"):
        return name == CARD or _matches(name, (*MODEL_FILES, *OTHER_FILES)) or name in LINKED.findall(card)
    parts = json.loads(_read_text(folder / WEIGHTS_INDEX)) if (folder / WEIGHTS_INDEX).exists() else {}
    return name in parts.get("weight_map", {}).values()


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _listed(value: object) -> object:
    """Return a value as a list: in a card, one value means the same as a list of one."""
    return value if isinstance(value, list) else [value]


def _read_text(path: Path) -> str:
    try:
        # keep the line endings
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ElmoError(f"{path} is not UTF-8 ({error.reason}): convert it.") from error


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


__all__ = ["Pushed", "Upload", "prepare", "push"]
