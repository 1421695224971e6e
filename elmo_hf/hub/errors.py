"""Turn errors of the Hub into one line that names the remedy and never shows the access token."""

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

from elmo_hf.errors import ElmoError, one_line


@contextmanager
def explaining(endpoint: str, repo_id: str, revision: str, token: str) -> Iterator[list[str]]:
    """Turn errors of the Hub in this block into one line without the token.

    Args:
        endpoint: The address of the Hub.
        repo_id: `ORG/NAME`.
        revision: The branch.
        token: The access token.

    Yields:
        A list to which the block adds sentences on what stays on the Hub if it fails.

    Raises:
        ElmoError: In place of every error.
    """
    stays: list[str] = []
    try:
        yield stays
    except Exception as error:
        reason = str(error) if isinstance(error, ElmoError) else explain(error, endpoint, repo_id, revision)
        message = without(token, " ".join([reason, *stays]))
        if token in "".join(map(repr, _chain(error))):
            # a traceback would show the errors of the chain
            raise ElmoError(message) from None
        raise ElmoError(message) from error


def explain(error: BaseException, endpoint: str, repo_id: str, revision: str) -> str:
    """Return one line on an error of the Hub and its remedy.

    Args:
        error: The error that huggingface_hub raised.
        endpoint: The address of the Hub.
        repo_id: `ORG/NAME`.
        revision: The branch.
    """
    while isinstance(error, RuntimeError) and error.__cause__ is not None:
        # huggingface_hub's "Error while uploading"
        error = error.__cause__
    error = next((e for e in _chain(error) if isinstance(e, HfHubHTTPError) or _is_of_network(e)), error)
    if _is_of_network(error):
        if type(error).__name__ == "ConnectError":
            return (
                f"{endpoint} cannot be reached ({one_line(error)}): see to the network, and that HF_ENDPOINT is right."
            )
        return (
            f"The connection to {endpoint} broke ({one_line(error)}): push again; what has arrived is not sent again."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"There is no branch {revision!r} of {repo_id}: see to its name."
    if isinstance(error, HfHubHTTPError):
        return _explain_status(error, error.response.status_code, repo_id)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{one_line(error)}: see to the file, and push again."
    return f"{repo_id} cannot be pushed ({one_line(error)}): correct that, or push again."


def _explain_status(error: HfHubHTTPError, status: int, repo_id: str) -> str:
    said = error.server_message or f"status {status}"
    reason = " ".join(said.split())
    owner = repo_id.partition("/")[0]
    if isinstance(error, RepositoryNotFoundError) or status == 404:
        return (
            f"{repo_id} does not exist, or is not yours to see ({status}): see to its name, and to the token's rights."
        )
    match status:
        case 401:
            return "The Hub does not know the access token (401): run `hf auth login` again, or set HF_TOKEN."
        case 403:
            return (
                f"The access token may not write to {repo_id} (403): use one that may, of {owner} or a member of it."
            )
        case 409 | 412:
            return f"{repo_id} was changed by somebody else meanwhile ({status}): push again."
        case 429:
            return "The Hub had too many requests (429): push again in some minutes."
    if status >= 500:
        return f"The Hub has trouble ({reason}): push again later."
    return f"The Hub refuses {repo_id} ({reason}): correct that, and push again."


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_of_network(error: BaseException) -> bool:
    """Return whether an error comes from the library that huggingface_hub connects with, httpx or httpx2."""
    return type(error).__module__.startswith("httpx") and type(error).__name__ != "HTTPStatusError"


def without(token: str, text: str) -> str:
    """Return a text with the access token hidden."""
    return text.replace(token, "[token]")


__all__ = ["explain", "explaining", "without"]
