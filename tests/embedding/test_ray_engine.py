"""`embedding.ray_engine`: a worker writes what this process would, and the file is the same when workers die."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from elmo_hf.cli import main
from elmo_hf.embedding import Sentence, embed_corpus
from elmo_hf.embedding.engines import CorpusOptions, PartEmbedder
from elmo_hf.embedding.parts import UnfinishedPart, read_part, save_sentences
from elmo_hf.embedding.ray_engine import PartWorker, RayEngine
from support.cli_runs import Captured, error_of


SENTENCES = [Sentence("the bank", ["the", "bank"]), Sentence("", []), Sentence("a", ["a"], "a/1")]


def test_a_worker_computes_what_this_process_would(bilm_model: Path, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    options, path = CorpusOptions("all", "none", "float16", 2), tmp_path / "00000000.safetensors"
    # left by a worker that was stopped
    path.write_bytes(b"half")
    save_sentences(UnfinishedPart(path, SENTENCES))

    answer = PartWorker(str(bilm_model), "cpu", options)({"path": str(path)})

    assert answer == {"path": str(path), "words": 3}
    expected, found = PartEmbedder(bilm_model, "cpu", options).embed_part(SENTENCES), read_part(path)
    assert torch.equal(found.vectors, expected.vectors)
    assert found.sentences == expected.sentences == SENTENCES
    torch.set_num_threads(threads)


def test_ray_that_is_not_installed_is_named(
    bilm_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    output = ["--output", str(tmp_path / "v.npz")]
    assert main(["embed", "--text", "a", "--model", str(bilm_model), "--engine=ray", *output]) == 1

    assert error_of(capsys) == "elmo-hf: error: The engine ray needs Ray: pip install 'elmo_hf[ray]'\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_workers_of_which_one_is_killed_make_the_same_file(
    bilm_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setattr("elmo_hf.embedding.corpus.PART_SENTENCES", 50)
    sentences = [["word", str(number)] * (1 + number % 30) for number in range(1000)]
    killed = []

    def kill_one() -> None:
        """Kill a worker as soon as there is a part."""
        while not list((tmp_path / ".ray.hdf5.parts").glob("*.safetensors")):
            time.sleep(0.05)
        processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
        killed.append(
            next(int(path.name) for path in processes if b"ray::MapWorker" in (path / "cmdline").read_bytes())
        )
        os.kill(killed[0], signal.SIGKILL)

    ray.init(num_cpus=2, logging_level="error", log_to_driver=False, include_dashboard=False)
    thread = threading.Thread(target=kill_one)
    thread.start()
    embed_corpus(bilm_model, sentences, tmp_path / "ray.hdf5", engine=RayEngine(2))
    thread.join()
    ray.shutdown()
    embed_corpus(bilm_model, sentences, tmp_path / "local.hdf5")

    assert killed
    assert (tmp_path / "ray.hdf5").read_bytes() == (tmp_path / "local.hdf5").read_bytes()
