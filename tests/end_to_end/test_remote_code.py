"""A saved checkpoint carries its code: it loads, works and saves again where `elmo_hf` cannot be imported."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoTokenizer


SENTENCES = [["EU-wide", "measures"], ["Hà Nội"], []]

# what a reader's process runs: load with the Auto classes, compute, save again
PROGRAM = """
import sys
how, source, again = sys.argv[1:]
if how == "without":
    sys.modules["elmo_hf"] = sys.modules["elmo_hf_conversion"] = None
else:
    import elmo_hf
import numpy as np, torch
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification, AutoTokenizer
torch.set_num_threads(1)
options = {} if how == "with" else {"trust_remote_code": True}
config = AutoConfig.from_pretrained(source, **options)
tokenizer = AutoTokenizer.from_pretrained(source, **options)
model = AutoModel.from_pretrained(source, **options)
tagger = AutoModelForTokenClassification.from_pretrained(source, **options)
assert config.model_type == "elmo" and type(tokenizer).__name__ == "ElmoTokenizer" and tokenizer.is_fast
if how != "both":
    for part in (type(config), type(tokenizer), type(model), type(tagger)):
        assert part.__module__.startswith("elmo_hf." if how == "with" else "transformers_modules."), part
sentences = [["EU-wide", "measures"], ["H\u00e0 N\u1ed9i"], []]
batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
with torch.no_grad():
    vectors, logits = model(**batch).last_hidden_state, tagger(**batch).logits
tagger.save_pretrained(again)
tokenizer.save_pretrained(again)
np.savez(again + ".npz", vectors=vectors, logits=logits, char_ids=batch["char_ids"])
"""

HUB_FILES = {path.name for path in Path(sys.modules[ElmoModel.__module__].__file__).parent.glob("*_elmo.py")}


def read_elsewhere(how: str, source: Path, again: Path) -> dict[str, np.ndarray]:
    """Run `PROGRAM` in a process with its own cache, and return what it computed."""
    environment = {**os.environ, "HF_HOME": str(again) + ".cache", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "error"}
    if how == "without":
        # it finds by itself that there is no other
        del environment["ELMO_HF_RECURRENCE"]
    command = [sys.executable, "-c", PROGRAM, how, str(source), str(again)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(str(again) + ".npz") as file:
        return dict(file)


@pytest.fixture(scope="module", autouse=True)
def computed_by_torch() -> Iterator[None]:
    """Compute as code that came with a checkpoint does, to the bit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELMO_HF_RECURRENCE", "packed")
        yield


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """A tagger saved where the package is installed, and what it computes there."""
    folder = tmp_path_factory.mktemp("saved")
    torch.manual_seed(0)
    config = ElmoConfig(hidden_size=16, intermediate_size=12, char_filters=[[1, 4], [2, 4]], num_labels=3)
    tagger, tokenizer = ElmoForTokenClassification(config).eval(), ElmoTokenizer()
    tagger.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    batch = tokenizer(SENTENCES, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        vectors, logits = tagger.elmo(**batch).last_hidden_state.numpy(), tagger(**batch).logits.numpy()
    return folder, {"vectors": vectors, "logits": logits, "char_ids": batch["char_ids"].numpy()}


def test_a_saved_folder_lists_every_class_and_holds_every_file(checkpoint: tuple[Path, dict]) -> None:
    folder, _ = checkpoint

    auto_map = json.loads((folder / "config.json").read_text())["auto_map"]
    assert auto_map == {
        "AutoConfig": "configuration_elmo.ElmoConfig",
        "AutoModel": "modeling_elmo.ElmoModel",
        "AutoModelForMaskedLM": "modeling_elmo.ElmoForMaskedLM",
        "AutoModelForPreTraining": "modeling_elmo.ElmoForPreTraining",
        "AutoModelForSequenceClassification": "modeling_elmo.ElmoForSequenceClassification",
        "AutoModelForTokenClassification": "modeling_elmo.ElmoForTokenClassification",
    }
    assert {path.name for path in folder.glob("*.py")} == HUB_FILES


@pytest.mark.parametrize("how", ["without", "with", "both"])
def test_loads_and_saves_again(how: str, checkpoint: tuple[Path, dict], tmp_path: Path) -> None:
    folder, expected = checkpoint

    actual = read_elsewhere(how, folder, tmp_path / "again")

    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value)
    assert {path.name for path in (tmp_path / "again").glob("*.py")} == HUB_FILES


def test_what_was_saved_again_loads_again(checkpoint: tuple[Path, dict], tmp_path: Path) -> None:
    folder, expected = checkpoint
    read_elsewhere("without", folder, tmp_path / "second")

    actual = read_elsewhere("without", tmp_path / "second", tmp_path / "third")

    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value)


def test_the_package_reads_what_was_saved_without_it(checkpoint: tuple[Path, dict], tmp_path: Path) -> None:
    folder, expected = checkpoint
    read_elsewhere("without", folder, tmp_path / "second")

    actual = read_elsewhere("with", tmp_path / "second", tmp_path / "third")

    np.testing.assert_array_equal(actual["vectors"], expected["vectors"])


@pytest.mark.parametrize("how", ["without", "with"])
def test_a_tokenizer_with_a_dictionary_travels(how: str, tmp_path: Path) -> None:
    tokenizer = ElmoTokenizer(
        ["<oov>", "<bos>", "<eos>", "EU-wide"],
        char_vocab=[*"EU-wideHà Nộ", "<bow>", "<eow>", "<pad>", "<oov>", "<bos>", "<eos>"],
    )
    config = ElmoConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=12,
        word_embedding_dim=3,
        char_vocab_size=20,
        char_filters=[[1, 4], [2, 4]],
        bos_token_id=2,
        eos_token_id=3,
    )
    tagger = ElmoForTokenClassification(config).eval()
    tagger.save_pretrained(tmp_path / "first")
    tokenizer.save_pretrained(tmp_path / "first")
    batch = tokenizer(SENTENCES, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        vectors = tagger.elmo(**batch).last_hidden_state.numpy()

    read_elsewhere(how, tmp_path / "first", tmp_path / "second")
    actual = read_elsewhere(how, tmp_path / "second", tmp_path / "third")

    np.testing.assert_array_equal(actual["vectors"], vectors)
    np.testing.assert_array_equal(actual["char_ids"], batch["char_ids"])
    assert (tmp_path / "third/char_vocab.json").is_file()


def test_a_model_saved_alone_loads_alone(tmp_path: Path) -> None:
    config = ElmoConfig(hidden_size=16, intermediate_size=12, char_filters=[[1, 4], [2, 4]])
    ElmoModel(config).save_pretrained(tmp_path / "model")
    program = """
import sys
sys.modules["elmo_hf"] = None
from transformers import AutoModel
print(type(AutoModel.from_pretrained(sys.argv[1], trust_remote_code=True)).__name__)
"""

    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "model"],
        env={**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )

    assert done.stdout.strip() == "ElmoModel", done.stderr


def test_words_are_filled_in_without_the_package(tmp_path: Path) -> None:
    tokenizer = ElmoTokenizer(["<S>", "</S>", "<UNK>", "the", "bank"], mask_token="<MASK>")
    config = ElmoConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=16, intermediate_size=12, char_filters=[[1, 4], [2, 4]]
    )
    ElmoForPreTraining(config).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    program = """
import sys
if sys.argv[1] == "without":
    sys.modules["elmo_hf"] = None
else:
    import elmo_hf
from transformers import AutoModelForPreTraining, AutoTokenizer, pipeline
options = {"trust_remote_code": True} if sys.argv[1] == "without" else {}
model = AutoModelForPreTraining.from_pretrained(sys.argv[2], **options).eval()
tokenizer = AutoTokenizer.from_pretrained(sys.argv[2], **options)
batch = tokenizer("the bank", return_tensors="pt")
fill = pipeline("fill-mask", sys.argv[2], **options)
print(model(**batch, labels=batch["input_ids"]).loss.item(), fill("the <MASK>")[0]["score"])
"""

    answers = []
    for how in ("without", "with"):
        done = subprocess.run(
            [sys.executable, "-c", program, how, tmp_path / "model"],
            env={**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)

    assert answers[0] == answers[1]
