"""Find a model by its name: a folder here, the model that comes with the package, or a model on the Hub."""

import re
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

from elmo_hf.bundled import model_folder
from elmo_hf.errors import ElmoError, one_line


HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")

# weights, configuration and tokenizer, but no code
FETCHED = ["*.json", "*.safetensors"]


def fetch_model(name: str | Path) -> Path:
    """Return the folder of a model; one on the Hub is downloaded to the cache first, without its code.

    Args:
        name: A folder, `elmo-small-en`, or `ORG/NAME` on the Hub. A folder of that name comes first.

    Raises:
        ElmoError: If the Hub has no such model, or cannot be reached.
    """
    folder = model_folder(str(name))
    if folder.exists() or not HUB_NAME.fullmatch(str(name)):
        return folder
    try:
        # files in folders are those of checkpoints
        return Path(snapshot_download(str(name), allow_patterns=FETCHED, ignore_patterns="*/*"))
    except RepositoryNotFoundError as error:
        raise ElmoError(
            f"{name} is neither a folder nor a model on the Hub that you may see: check the name, or run "
            "`hf auth login`."
        ) from error
    except Exception as error:
        # huggingface_hub lets errors of its libraries through
        is_unreachable = isinstance(error, LocalEntryNotFoundError)
        reason = "it is not in the cache, and the Hub cannot be reached" if is_unreachable else one_line(error)
        raise ElmoError(f"{name} is no folder, and cannot be downloaded ({reason}): check the name.") from error


__all__ = ["fetch_model"]
