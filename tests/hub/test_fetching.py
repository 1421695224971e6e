"""`hub.fetching`: a folder, the model of the package, or a model on the Hub without its code."""

from pathlib import Path

import pytest

from elmo_hf import ELMO_SMALL_EN, ElmoError
from elmo_hf.hub.fetching import fetch_model
from elmo_hf.hub.sharing import push
from support.hub_server import hub_for_this_process


def test_a_folder_and_the_model_of_the_package_are_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("org/model").mkdir(parents=True)

    assert fetch_model("org/model") == Path("org/model")
    assert fetch_model("elmo-small-en") == Path(ELMO_SMALL_EN)
    assert fetch_model(tmp_path / "none") == tmp_path / "none"
    assert fetch_model("none") == Path("none")


def test_a_model_that_is_not_in_the_cache_is_named() -> None:
    # the tests are offline
    with pytest.raises(ElmoError, match=r"^org/none is no folder, and .* not in the cache, and the Hub cannot be"):
        fetch_model("org/none")


# huggingface_hub says to its library of connections what that has another name for
@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_a_model_on_the_hub_comes_without_its_code(bilm_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hub_for_this_process(monkeypatch):
        push(bilm_model, "ann/elmo", license="mit")
        folder = fetch_model("ann/elmo")
        names = {path.name for path in folder.iterdir()}
        assert names >= {"config.json", "model.safetensors", "tokenizer.json"}
        assert not [name for name in names if name.endswith(".py")]
        assert (folder / "model.safetensors").read_bytes() == (bilm_model / "model.safetensors").read_bytes()
        with pytest.raises(ElmoError, match="ann/none is neither a folder nor a model on the Hub that you may see"):
            fetch_model("ann/none")
