"""accelerate, as it is: wherever it puts the weights, the numbers are the same to the bit."""

from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from packaging.version import Version
from transformers import AutoModel, AutoModelForTokenClassification

from elmo_hf import ELMO_TINY_EN, ElmoTokenizer


pytest.importorskip("accelerate")

TEXTS = ["The bank raised rates.", "No.", ""]

# of the parts of the model, as `device_map` calls them
ON_DISK = {"token_encoder": "disk", "layers.0": "cpu", "layers.1": "disk", "scalar_mix": "cpu"}


@pytest.mark.parametrize("device_map", ["auto", {"": "cpu"}, ON_DISK], ids=["auto", "cpu", "disk"])
def test_vectors_are_the_same(device_map: str | dict[str, str], tokenizer: ElmoTokenizer, tmp_path: Path) -> None:
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    plain = AutoModel.from_pretrained(ELMO_TINY_EN).eval()
    placed = AutoModel.from_pretrained(ELMO_TINY_EN, device_map=device_map, offload_folder=tmp_path).eval()

    with torch.no_grad():
        expected, found = (model(**batch, output_hidden_states=True) for model in (plain, placed))

    if device_map is ON_DISK:
        assert {str(part.device) for part in placed.parameters()} == {"cpu", "meta"}
    # where modules bring their weights when they are called, torch multiplies the inputs, and rounds otherwise
    atol = 1e-6 if device_map is ON_DISK else 0
    both = zip(
        (*expected.hidden_states, expected.last_hidden_state),
        (*found.hidden_states, found.last_hidden_state),
        strict=True,
    )
    for one, other in both:
        torch.testing.assert_close(one.cpu(), other.cpu(), atol=atol, rtol=0)


@pytest.mark.skipif(
    Version(version("transformers")) < Version("5.24"),
    reason="Transformers 5.6 leaves outputs of weights on disk there",
)
# accelerate brings the weights of a module when its `forward` is called, as the CRF's must be to find paths
@pytest.mark.parametrize("head", ["linear", "bilstm-crf"])
def test_a_tagger_on_disk_gives_the_same(head: str, tokenizer: ElmoTokenizer, tmp_path: Path) -> None:
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
    torch.testing.assert_close(expected, found.cpu(), atol=1e-6, rtol=1e-6)
