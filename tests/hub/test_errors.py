"""What goes wrong with a Hub is said in one line, from what lies behind an error, and without the token."""

import importlib
import traceback

import pytest
from huggingface_hub.errors import HfHubHTTPError

from elmo_hf import ElmoError
from elmo_hf.hub.errors import explain, explaining


# that by which this huggingface_hub connects, httpx or httpx2
httpx = importlib.import_module(HfHubHTTPError.__mro__[1].__module__.partition(".")[0])

HUB, NAME, TOKEN = "https://hub.example", "ann/tiny", "hf_SecretSecretSecret"


def refusal(status: int, said: str | None = None) -> HfHubHTTPError:
    response = httpx.Response(status, request=httpx.Request("POST", HUB))
    return HfHubHTTPError(f"{status} for {HUB}\n\nlong", response=response, server_message=said)


def said(error: BaseException) -> str:
    return explain(error, HUB, NAME, "main")


def behind(error: BaseException) -> RuntimeError:
    """What huggingface_hub makes of an error of an upload."""
    try:
        raise RuntimeError("Error while uploading 'model.safetensors' to the Hub.") from error
    except RuntimeError as outer:
        return outer


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (refusal(403), f"The access token may not write to {NAME} (403): use one that may, of ann or a member of it."),
        (refusal(400, "no\nsuch"), f"The Hub refuses {NAME} (no such): correct that, and push again."),
        (refusal(500), "The Hub has trouble (status 500): push again later."),
        (
            httpx.ConnectError("no route"),
            f"{HUB} cannot be reached (no route): see to the network, and that HF_ENDPOINT is right.",
        ),
        (
            httpx.ReadTimeout(""),
            f"The connection to {HUB} broke (ReadTimeout): push again; what has arrived is not sent again.",
        ),
        (FileNotFoundError(2, "No such file", "a/b"), "a/b: No such file: see to the file, and push again."),
        (ValueError("a\nb"), f"{NAME} cannot be pushed (a b): correct that, or push again."),
    ],
    ids=["403", "400", "500", "not there", "timeout", "file", "other"],
)
def test_errors_are_explained(error: Exception, message: str) -> None:
    assert said(error) == message


def test_what_lies_behind_an_error_is_explained() -> None:
    assert "may not write" in said(behind(refusal(403)))
    assert "broke (reset)" in said(behind(httpx.WriteError("reset")))


def test_what_stays_is_said() -> None:
    def fail() -> None:
        with explaining(HUB, NAME, "main", TOKEN) as stays:
            stays.append("It stays.")
            raise refusal(500)

    with pytest.raises(ElmoError, match=r"push again later\. It stays\.$"):
        fail()


def test_own_errors_pass() -> None:
    with pytest.raises(ElmoError, match=r"^as it is$"), explaining(HUB, NAME, "main", TOKEN):
        raise ElmoError("as it is")


def test_the_token_is_nowhere() -> None:
    with pytest.raises(ElmoError, match=r"\[token\]") as caught, explaining(HUB, NAME, "main", TOKEN):
        raise behind(ValueError(f"Illegal header: Bearer {TOKEN}"))

    assert TOKEN not in "".join(traceback.format_exception(caught.value))


def test_where_it_is_not_the_errors_behind_are_kept() -> None:
    with pytest.raises(ElmoError) as caught, explaining(HUB, NAME, "main", TOKEN):
        raise behind(ValueError("plain"))

    assert "ValueError: plain" in "".join(traceback.format_exception(caught.value))
