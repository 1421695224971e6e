"""What all tests share: no network, one thread, a seed a test, and the models with answers from outside."""

import atexit
import os
import runpy
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


# before anything imports huggingface_hub, which reads these once; the tests of subprocesses inherit them
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="elmo-hf-tests-")
atexit.register(shutil.rmtree, os.environ["HF_HOME"], ignore_errors=True)

import torch  # noqa: E402 - after the environment


# small recurrent steps on two threads can be a thousand times slower under load than on one
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef) -> None:
    # a fixture that several tests share is made before their seed: it must not depend on the test before
    if fixturedef.scope != "function":
        torch.manual_seed(0)


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Triton's interpreter, which runs its kernels on a CPU."""
    from elmo_hf.kernels.triton import check_kernels

    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    # a kernel is for the interpreter from when it is made
    monkeypatch.delitem(sys.modules, "elmo_hf.kernels.triton_kernels", raising=False)
    check_kernels.cache_clear()
    yield
    sys.modules.pop("elmo_hf.kernels.triton_kernels", None)
    check_kernels.cache_clear()


@pytest.fixture
def library_logging() -> Iterator[None]:
    """For tests that call `main`, which silences Transformers for its process: undo that for the other tests."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    yield
    logging.set_verbosity(verbosity)
    if bars:
        logging.enable_progress_bar()


@pytest.fixture(scope="session")
def oracles() -> Path:
    """The folder of tiny models trained by the original programs, with those programs' answers."""
    folder = os.environ.get("ELMO_HF_ORACLES")
    if not folder:
        pytest.skip("ELMO_HF_ORACLES does not name the folder of models by the original programs")
    return Path(folder)


@pytest.fixture(scope="session")
def allennlp_fixture() -> Path:
    """AllenNLP's tiny ELMo, trained by TensorFlow, with TensorFlow's answers."""
    from elmo_hf.errors import ElmoError

    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "convert_original.py"))
    try:
        return Path(example["fetch_allennlp_fixture"]())
    except ElmoError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def allennlp_model(allennlp_fixture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of that model, converted. Not to be written to."""
    from elmo_hf_conversion import convert

    folder = tmp_path_factory.mktemp("allennlp") / "model"
    convert([allennlp_fixture / "lm_weights.hdf5", allennlp_fixture / "options.json"], folder)
    return folder


@pytest.fixture(scope="session")
def bilm_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny original. Not to be written to."""
    from support.original_formats import write_bilm_hdf5

    folder = tmp_path_factory.mktemp("bilm") / "original"
    # without projection, rounding is not amplified from word to word
    write_bilm_hdf5(folder, dim=4)
    return folder


@pytest.fixture(scope="session")
def bilm_model(bilm_original: Path) -> Path:
    """The folder of that original, converted. Not to be written to."""
    from elmo_hf_conversion import convert

    folder = bilm_original.parent / "model"
    convert([bilm_original], folder)
    return folder


@pytest.fixture
def spare_model(bilm_model: Path, tmp_path: Path) -> Path:
    """A copy of that model, which a test may damage."""
    return Path(shutil.copytree(bilm_model, tmp_path / "copy"))
