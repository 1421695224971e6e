"""accelerate, as it is: wherever it puts the weights, the numbers are the same to the bit."""

from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from packaging.version import Version
from transformers import AutoModel, AutoModelForTokenClassification

from elmo_hf import ElmoTokenizer
from support.english import ELMO_TINY_EN


pytest.importorskip("accelerate")

TEXTS = ["The bank raised rates.", "No.", ""]

# of the parts of the model, as `device_map` calls them
ON_DISK = {"token_encoder": "disk", "layers.0": "cpu", "layers.1": "disk", "scalar_mix": "cpu"}


@pytest.mark.parametrize("device_map", ["auto", {"": "cpu"}, ON_DISK], ids=["auto", "cpu", "disk"])
def test_vectors_are_the_same(
    device_map: str | dict[str, str], tokenizer: ElmoTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    plain = AutoModel.from_pretrained(ELMO_TINY_EN).eval()
    placed = AutoModel.from_pretrained(ELMO_TINY_EN, device_map=device_map, offload_folder=tmp_path).eval()

    def vectors(model: torch.nn.Module) -> list[torch.Tensor]:
        with torch.no_grad():
            output = model(**batch, output_hidden_states=True)
        return [part.cpu() for part in (*output.hidden_states, output.last_hidden_state)]

    if device_map is ON_DISK:
        assert {str(part.device) for part in placed.parameters()} == {"cpu", "meta"}
        # modules bring their weights when they are called, so that torch multiplies the inputs, and rounds otherwise
        torch.testing.assert_close(vectors(placed), vectors(plain), atol=1e-6, rtol=0)
        monkeypatch.setenv("ELMO_HF_RECURRENCE", "packed")
    for one, other in zip(vectors(plain), vectors(placed), strict=True):
        assert torch.equal(one, other)


@pytest.mark.skipif(
    Version(version("transformers")) < Version("5.24"),
    reason="Transformers 5.6 leaves outputs of weights on disk there",
)
# accelerate brings the weights of a module when its `forward` is called, as the CRF's must be to find paths
@pytest.mark.parametrize("head", ["linear", "bilstm-crf"])
def test_a_tagger_on_disk_gives_the_same(
    head: str, tokenizer: ElmoTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the compiled code multiplies the inputs of weights that are there, torch those of weights on disk
    monkeypatch.setenv("ELMO_HF_RECURRENCE", "packed")
    plain = AutoModelForTokenClassification.from_pretrained(
        ELMO_TINY_EN, id2label={0: "a", 1: "b"}, head=head, head_hidden_size=8
    ).eval()
    plain.save_pretrained(tmp_path / "tagger")
    batch = tokenizer(TEXTS[:2], padding=True, return_tensors="pt")
    placed = AutoModelForTokenClassification.from_pretrained(
        tmp_path / "tagger", device_map={"": "disk"}, offload_folder=tmp_path / "offload"
    ).eval()

    with torch.no_grad():
        expected, found = (model(**batch).logits for model in (plain, placed))

    assert {str(part.device) for part in placed.parameters()} == {"meta"}
    assert torch.equal(expected, found.cpu())
