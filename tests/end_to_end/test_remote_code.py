"""A saved checkpoint carries its code: it loads, works and saves again where `elmo_hf` cannot be imported."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import elmo_hf
from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from support.fresh_python import FRESH_PYTHON


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
from transformers.dynamic_module_utils import get_class_from_dynamic_module
torch.set_num_threads(1)
options = {} if how == "with" else {"trust_remote_code": True}
config = AutoConfig.from_pretrained(source, **options)
tokenizer = AutoTokenizer.from_pretrained(source, **options)
model = AutoModel.from_pretrained(source, **options)
tagger = AutoModelForTokenClassification.from_pretrained(source, **options)
# Transformers has no Auto class for it
resolver = get_class_from_dynamic_module(config.auto_map["ElmoForCoreferenceResolution"].split("--")[-1], source)
assert resolver(config).decode
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
    command = [*FRESH_PYTHON, "-c", PROGRAM, how, str(source), str(again)]
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
        "AutoModelForMultipleChoice": "modeling_elmo.ElmoForMultipleChoice",
        "AutoModelForPreTraining": "modeling_elmo.ElmoForPreTraining",
        "AutoModelForQuestionAnswering": "modeling_elmo.ElmoForQuestionAnswering",
        "AutoModelForSequenceClassification": "modeling_elmo.ElmoForSequenceClassification",
        "AutoModelForTokenClassification": "modeling_elmo.ElmoForTokenClassification",
        # Transformers has no Auto class for it
        "ElmoForCoreferenceResolution": "modeling_elmo.ElmoForCoreferenceResolution",
    }
    assert {path.name for path in folder.glob("*.py")} == HUB_FILES


@pytest.mark.parametrize("how", ["with", "both"])
def test_loads_and_saves_again(how: str, checkpoint: tuple[Path, dict], tmp_path: Path) -> None:
    folder, expected = checkpoint

    actual = read_elsewhere(how, folder, tmp_path / "again")

    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value)
    assert {path.name for path in (tmp_path / "again").glob("*.py")} == HUB_FILES


def test_what_was_saved_without_the_package_loads_with_it_and_without(
    checkpoint: tuple[Path, dict], tmp_path: Path
) -> None:
    folder, expected = checkpoint
    second = read_elsewhere("without", folder, tmp_path / "second")
    assert {path.name for path in (tmp_path / "second").glob("*.py")} == HUB_FILES

    without, packaged = (read_elsewhere(how, tmp_path / "second", tmp_path / how) for how in ("without", "with"))

    for name, value in expected.items():
        for actual in (second, without, packaged):
            np.testing.assert_array_equal(actual[name], value)


def test_a_tokenizer_with_a_dictionary_travels(tmp_path: Path) -> None:
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

    read_elsewhere("without", tmp_path / "first", tmp_path / "second")
    actual = read_elsewhere("with", tmp_path / "second", tmp_path / "third")

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
        [*FRESH_PYTHON, "-c", program, tmp_path / "model"],
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
            [*FRESH_PYTHON, "-c", program, how, tmp_path / "model"],
            env={**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)

    assert answers[0] == answers[1]


# loads a checkpoint's own code, and shows by which backends it can compute, what ran, and what it logged
BACKENDS_PROGRAM = """
import logging, sys
source, output = sys.argv[1:]
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="log: %(message)s")
import numpy as np, torch
from transformers import AutoModel
torch.set_num_threads(1)
model = AutoModel.from_pretrained(source, trust_remote_code=True).eval()
assert type(model).__module__.startswith("transformers_modules."), type(model)
recurrence = sys.modules[type(model).__module__.rpartition(".")[0] + ".recurrence_elmo"]
for backend in recurrence.backends():
    print("backend:", backend.name)
char_ids = torch.ones(1, 3, model.config.max_characters_per_token, dtype=torch.long)
char_ids[:, :, 0] = torch.tensor([5, 6, 7])
with torch.no_grad():
    vectors = model(char_ids=char_ids).last_hidden_state
model(char_ids=char_ids).last_hidden_state.sum().backward()
np.savez(output, vectors=vectors, gradient=model.layers[0].recurrent_weight.grad)
"""


def run_with(
    package: str, checkpoint: Path, folder: Path, source: Path | None = None
) -> tuple[list[str], dict[str, np.ndarray]]:
    """Run `BACKENDS_PROGRAM` beside a package; return the lines that it printed, and its numbers.

    Args:
        package: `installed`, the package as it is; `none`; or `other`, one whose kernels have another interface.
        checkpoint: The folder of the checkpoint.
        folder: An empty folder.
        source: The folder that holds the installed package.
    """
    stub = folder / "stub" / "elmo_hf"
    if package != "installed":
        stub.mkdir(parents=True)
        (stub / "__init__.py").write_text("raise ImportError('not installed')" if package == "none" else "")
    if package == "other":
        (stub / "kernels.py").write_text("INTERFACE = 999\n")
    paths = [str(stub.parent) if package != "installed" else "", os.environ.get("PYTHONPATH", ""), str(source or "")]
    environment = {
        **os.environ,
        "HF_HOME": str(folder / "cache"),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    del environment["ELMO_HF_RECURRENCE"]
    command = [*FRESH_PYTHON, "-c", BACKENDS_PROGRAM, str(checkpoint), str(folder / "numbers.npz")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "numbers.npz") as file:
        return done.stdout.splitlines(), dict(file)


@pytest.fixture(scope="module")
def bilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bilm")
    torch.manual_seed(0)
    config = ElmoConfig(hidden_size=16, intermediate_size=12, char_filters=[[1, 4], [2, 4]])
    ElmoModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def by_torch(bilm: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[str, np.ndarray]]:
    return run_with("none", bilm, tmp_path_factory.mktemp("none"))


PACKAGE_FOLDER = Path(elmo_hf.__file__).resolve().parents[1]


def test_remote_code_without_the_package_computes_by_torch(bilm: Path, by_torch: tuple) -> None:
    lines, numbers = by_torch
    model = ElmoModel.from_pretrained(bilm)
    char_ids = torch.ones(1, 3, model.config.max_characters_per_token, dtype=torch.long)
    char_ids[:, :, 0] = torch.tensor([5, 6, 7])

    assert [line for line in lines if line.startswith("backend")] == ["backend: packed"]
    assert lines.count("log: No elmo_hf with kernels is installed: torch computes the recurrences") == 1
    with torch.no_grad():
        # `computed_by_torch` holds here
        np.testing.assert_array_equal(numbers["vectors"], model(char_ids=char_ids).last_hidden_state)


def test_remote_code_uses_the_kernels_of_the_package(bilm: Path, by_torch: tuple, tmp_path: Path) -> None:
    lines, numbers = run_with("installed", bilm, tmp_path, PACKAGE_FOLDER)

    assert [line for line in lines if line.startswith("backend")] == [
        "backend: native",
        "backend: triton",
        "backend: packed",
    ]
    assert any(line.startswith("log: elmo_hf runs its compiled recurrence on the CPU: ") for line in lines)
    for name, value in by_torch[1].items():
        np.testing.assert_allclose(numbers[name], value, atol=1e-5)


def test_remote_code_beside_kernels_of_another_interface_computes_by_torch(
    bilm: Path, by_torch: tuple, tmp_path: Path
) -> None:
    lines, numbers = run_with("other", bilm, tmp_path)

    assert [line for line in lines if line.startswith("backend")] == ["backend: packed"]
    message = "log: The installed elmo_hf has kernels of interface 999, and this model's code needs 3"
    assert sum(line.startswith(message) for line in lines) == 1
    for name, value in by_torch[1].items():
        np.testing.assert_array_equal(numbers[name], value)


@pytest.mark.parametrize("package", ["none", "installed"])
def test_a_checkpoint_with_a_module_that_is_gone_still_loads(package: str, bilm: Path, tmp_path: Path) -> None:
    old = Path(shutil.copytree(bilm, tmp_path / "old"))
    # as checkpoints of earlier versions have it
    (old / "native_elmo.py").write_text("def load() -> None: ...\n")
    modeling = old / "modeling_elmo.py"
    modeling.write_text(
        modeling.read_text().replace("import torch\n", "import torch\nfrom .native_elmo import load\n", 1)
    )
    (tmp_path / "run").mkdir()

    _, numbers = run_with(package, old, tmp_path / "run", PACKAGE_FOLDER)

    assert np.isfinite(numbers["vectors"]).all()


def test_a_checkpoint_carries_no_kernels(bilm: Path) -> None:
    code = {path.name: path.read_text(encoding="utf-8") for path in bilm.glob("*.py")}

    assert {path.name for path in bilm.iterdir()} == {*code, "config.json", "model.safetensors"}
    assert not [name for name, text in code.items() if re.search(r"ctypes|subprocess|import triton|cuda\.graph", text)]
