"""Originals that are damaged or made to do harm: a valid model, or one line that names a file, and nothing else.

Every format is written, mutated and converted. What a mutation gives is known beforehand only as that: no other
exception, nothing left behind, no long wait, no memory out of proportion.
"""

import copy
import gzip
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from elmo_hf.cli import main
from elmo_hf.inspection import read_config
from elmo_hf_conversion import ConversionError, convert
from elmo_hf_conversion.readers import tensor_bundle
from support.hostile_originals import HARMFUL, LARGE, TRACE
from support.many_langs_format import write_many_langs
from support.original_formats import (
    VOCABULARY,
    allennlp_elmo,
    hub_variables,
    read_bilm_hdf5,
    tensorflow_variables,
    write_allennlp_archive,
    write_bilm_hdf5,
    write_hub_module,
    write_tensorflow_checkpoint,
    write_training_folder,
)


Draw = Callable[[st.SearchStrategy[Any]], Any]

ROOT = Path(__file__).resolve().parents[2]

SECONDS = 10.0

#: Resident bytes that a conversion may take beside twice the size of its input.
ROOM = 200 * 10**6


def write_hdf5(folder: Path) -> None:
    write_bilm_hdf5(folder, vocabulary=VOCABULARY, reverse=True)


def write_word_hdf5(folder: Path) -> None:
    write_bilm_hdf5(folder, token_input=True)


def write_zip(folder: Path) -> None:
    write_bilm_hdf5(folder / "model", vocabulary=VOCABULARY)
    with zipfile.ZipFile(folder / "195.zip", "w", zipfile.ZIP_DEFLATED) as opened:
        for path in sorted((folder / "model").iterdir()):
            opened.write(path, path.name)
    shutil.rmtree(folder / "model")


def write_gzip_vocabulary(folder: Path) -> None:
    write_bilm_hdf5(folder, vocabulary=VOCABULARY)
    packed = gzip.compress((folder / "vocab.txt").read_bytes(), mtime=0)
    (folder / "vocab.txt").unlink()
    (folder / "vocab.txt.gz").write_bytes(packed)


def write_archive(folder: Path) -> None:
    state = allennlp_elmo(folder, prefix="text_field_embedder.token_embedder_elmo._elmo.", mixes=2)
    shutil.rmtree(folder)
    folder.mkdir()
    write_allennlp_archive(folder / "model.tar.gz", state)


def write_weights(folder: Path) -> None:
    torch.save(allennlp_elmo(folder), folder / "weights.th")
    (folder / "weights.hdf5").unlink()


def write_old_weights(folder: Path) -> None:
    torch.save(allennlp_elmo(folder), folder / "best.th", _use_new_zipfile_serialization=False)
    (folder / "weights.hdf5").unlink()


def write_checkpoint(folder: Path) -> None:
    weights, _ = write_bilm_hdf5(folder)
    write_tensorflow_checkpoint(folder, tensorflow_variables(read_bilm_hdf5(weights)))
    weights.unlink()


def write_training(folder: Path) -> None:
    write_training_folder(folder)


def write_module(folder: Path) -> None:
    weights, options = write_bilm_hdf5(folder)
    write_hub_module(folder, hub_variables(read_bilm_hdf5(weights)))
    weights.unlink()
    options.unlink()


def write_dictionaries(folder: Path) -> None:
    write_many_langs(folder / "en.model")


FORMATS: dict[str, Callable[[Path], None]] = {
    "bilm-hdf5": write_hdf5,
    "bilm-hdf5-words": write_word_hdf5,
    "zip": write_zip,
    "gzip-vocabulary": write_gzip_vocabulary,
    "allennlp-archive": write_archive,
    "allennlp-weights": write_weights,
    "allennlp-old-weights": write_old_weights,
    "bilm-tensorflow": write_checkpoint,
    "bilm-tensorflow-softmax": write_training,
    "tensorflow-hub": write_module,
    "many-langs": write_dictionaries,
}


def check(folder: Path, *, files: bool = False) -> str | None:
    """Convert what is in a folder; return the error, if there was one, after looking at what it left."""
    output = folder.parent / "out" / "model"
    names = [path.name for path in folder.rglob("*") if path.is_file()]
    sources = sorted(folder.iterdir()) if files else [folder]
    started = time.monotonic()
    try:
        convert(sources, output)
    except ConversionError as error:
        message = str(error)
        assert "\n" not in message
        assert any(name in message for name in [*names, str(folder)]), message
        assert not output.parent.exists()
    else:
        message = None
        read_config(output)
        assert all(np.isfinite(array).all() for array in load_file(output / "model.safetensors").values())
    assert time.monotonic() - started < SECONDS
    return message


def flip(data: bytearray, draw: Draw) -> None:
    data[draw(st.integers(0, len(data) - 1))] ^= draw(st.integers(1, 255))


def overwrite(data: bytearray, draw: Draw) -> None:
    start = draw(st.integers(0, len(data) - 1))
    new = draw(st.sampled_from([b"\0" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\x80" * 3, b"\n", b'"', b"\xc3("]))
    data[start : start + len(new)] = new


def truncate(data: bytearray, draw: Draw) -> None:
    del data[draw(st.integers(0, len(data) - 1)) :]


def swap(data: bytearray, draw: Draw) -> None:
    size = draw(st.sampled_from([1, 8, 64, 512]))
    a, b = (draw(st.integers(0, max(0, len(data) - size))) for _ in range(2))
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


def repeat(data: bytearray, draw: Draw) -> None:
    start = draw(st.integers(0, len(data) - 1))
    data[start:start] = data[start : start + draw(st.integers(1, 2000))]


MUTATIONS = (flip, flip, overwrite, truncate, swap, repeat)


def mutate_bytes(folder: Path, draw: Draw) -> None:
    path = draw(st.sampled_from(sorted(path for path in folder.rglob("*") if path.is_file())))
    data = bytearray(path.read_bytes())
    for _ in range(draw(st.integers(1, 3))):
        if data:
            draw(st.sampled_from(MUTATIONS))(data, draw)
    path.write_bytes(data)


DEEP: Any = 1
for _ in range(40):
    DEEP = {"lstm": [DEEP]}

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1, 2, 3, 4, 8, -1, 50, 65535, 65536, 2**31, 2**63, 2**64]),
    st.floats(allow_nan=True),
    st.text(max_size=5),
    st.just("\ud800"),
    st.just("text\nover lines\x1b[31m"),
    st.just([]),
    st.just({}),
    st.just([[1, 4], [2, 2**40]]),
    st.just([[0, 0]]),
    st.just([[-1, 4]]),
    st.just([["1", "4"]]),
    st.just(DEEP),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in JSON with each of its keys."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


def mutate_options(path: Path, draw: Draw) -> None:
    options = json.loads(path.read_text(encoding="utf-8"))
    for _ in range(draw(st.integers(1, 2))):
        container, key = draw(st.sampled_from(places(options)))
        what = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
        if what == "replace":
            container[key] = copy.deepcopy(draw(VALUES))
        elif what == "add" and isinstance(container, dict):
            container[draw(st.text(max_size=4))] = copy.deepcopy(draw(VALUES))
        else:
            del container[key]
        if not places(options):
            break
    path.write_text(json.dumps(options), encoding="utf-8")


def fuzz(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The same inputs each time, and as many as there is time for."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[*HealthCheck],
    )


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each format. Not to be written to."""
    folder = tmp_path_factory.mktemp("originals")
    for name, make in FORMATS.items():
        (folder / name).mkdir()
        make(folder / name)
    return {name: folder / name for name in FORMATS}


def mutated(original: Path, mutate: Callable[[Path], None], *, files: bool = False) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "original")
        shutil.copytree(original, folder)
        mutate(folder)
        check(folder, files=files)


@pytest.mark.parametrize("name", FORMATS)
def test_an_original_as_it_is_converts(name: str, originals: dict[str, Path]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        shutil.copytree(originals[name], Path(temporary, "original"))

        assert check(Path(temporary, "original")) is None


def change_bytes(original: Path, data: st.DataObject) -> None:
    files = original.name != "many-langs" and data.draw(st.booleans())
    mutated(original, lambda folder: mutate_bytes(folder, data.draw), files=files)


def change_options(original: Path, data: st.DataObject) -> None:
    names = sorted(path.name for path in original.rglob("*.json"))
    name = data.draw(st.sampled_from(names))
    mutated(original, lambda folder: mutate_options(next(folder.rglob(name)), data.draw))


with_options = pytest.mark.parametrize(
    "name",
    ["bilm-hdf5", "bilm-hdf5-words", "allennlp-weights", "bilm-tensorflow", "bilm-tensorflow-softmax", "many-langs"],
)
each_format = pytest.mark.parametrize("name", FORMATS)


@each_format
@fuzz(20)
@given(data=st.data())
def test_changed_bytes(name: str, originals: dict[str, Path], data: st.DataObject) -> None:
    change_bytes(originals[name], data)


@with_options
@fuzz(40)
@given(data=st.data())
def test_changed_options(name: str, originals: dict[str, Path], data: st.DataObject) -> None:
    change_options(originals[name], data)


@pytest.mark.slow
@each_format
@fuzz(1500)
@given(data=st.data())
def test_many_changed_bytes(name: str, originals: dict[str, Path], data: st.DataObject) -> None:
    change_bytes(originals[name], data)


class Equal:
    """A checksum that is equal to any."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zip", "bilm-tensorflow"])
@fuzz(1500)
@given(data=st.data())
def test_many_changed_bytes_behind_checksums(name: str, originals: dict[str, Path], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensor_bundle, "masked_crc32c", lambda _: Equal())
        patch.setattr(zipfile.ZipExtFile, "_update_crc", lambda *_: None)
        change_bytes(originals[name], data)


@pytest.mark.slow
@with_options
@fuzz(1500)
@given(data=st.data())
def test_many_changed_options(name: str, originals: dict[str, Path], data: st.DataObject) -> None:
    change_options(originals[name], data)


#: Converts each folder in a process of its own, and prints its error and how many bytes more were resident at most.
MEASURED = """
import os, resource, sys
import elmo_hf_conversion

def measure(folder):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        elmo_hf_conversion.convert([folder], folder + ".out")
        message = ""
    except elmo_hf_conversion.ConversionError as error:
        message = str(error)
    print(os.path.basename(folder), 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before), message)

for folder in sys.argv[1:]:
    child = os.fork()
    if not child:
        measure(folder)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("make", HARMFUL, ids=lambda make: make.__name__)
def test_harm_is_refused_in_one_line(make: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "original"
    folder.mkdir()
    make(folder)

    assert check(folder) is not None

    assert not TRACE.exists()


@pytest.mark.slow
@pytest.mark.parametrize("make", LARGE, ids=lambda make: make.__name__)
def test_harm_of_many_bytes(make: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "original"
    folder.mkdir()
    make(folder)

    assert check(folder) is not None


@pytest.mark.slow
def test_harm_takes_no_memory(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for make in (*HARMFUL, *LARGE):
        (tmp_path / make.__name__).mkdir()
        make(tmp_path / make.__name__)
    folders = sorted(path for path in tmp_path.iterdir() if path.is_dir())

    run = subprocess.run([sys.executable, "-c", MEASURED, *folders], capture_output=True, text=True, check=True)

    lines = [line.split(" ", 2) for line in run.stdout.splitlines()]
    assert [name for name, _, _ in lines] == [folder.name for folder in folders]
    for folder, (name, taken, message) in zip(folders, lines, strict=True):
        with subtests.test(name):
            size = sum(path.stat().st_size for path in folder.iterdir())
            assert message
            assert int(taken) < 2 * size + ROOM


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "original")
    (tmp_path / "secret").write_text("<S>\nsecret\n")
    (tmp_path / "original/vocab.txt").symlink_to("../secret")

    convert([tmp_path / "original"], tmp_path / "model")

    assert "secret" not in (tmp_path / "model/tokenizer.json").read_text(encoding="utf-8")


def test_links_of_the_hubs_cache_are_followed(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "blobs")
    snapshot = tmp_path / "snapshots/0123"
    snapshot.mkdir(parents=True)
    for path in (tmp_path / "blobs").iterdir():
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")

    assert check(snapshot) is None


def test_only_given_files_are_opened(originals: dict[str, Path], tmp_path: Path) -> None:
    """Every file that Python opens for reading is the input, a temporary one, or part of an installed package."""
    opened: set[str] = set()
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and isinstance(arguments[0], str | os.PathLike):
            opened.add(os.fspath(arguments[0]))

    # a hook cannot be taken away
    sys.addaudithook(watch)
    for name, original in originals.items():
        convert([original], tmp_path / name)
    watching = False

    allowed = (str(tmp_path), tempfile.gettempdir(), *map(os.path.realpath, (sys.prefix, sys.base_prefix, ROOT)))
    assert not [path for path in opened if not os.path.realpath(path).startswith((*allowed, "/proc", "/sys", "/dev"))]


@pytest.mark.parametrize(
    "name", ["with space", "Ελμο 模型 \N{PARTY POPPER}", "-weights", "--output", "a\nb", "é" * 100], ids=ascii
)
def test_names_of_every_kind(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bilm_hdf5(tmp_path / "original")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "original/weights.hdf5").rename(f"{name}.hdf5")
    (tmp_path / "original/options.json").rename(f"{name}.json")

    status = main(["convert", f"--output={name}", "--", f"{name}.hdf5", f"{name}.json"])

    assert (status, capsys.readouterr().err) == (0, "")
    assert (tmp_path / name / "config.json").is_file()


def test_a_file_that_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights, options = write_bilm_hdf5(tmp_path / "original")

    def grow(config: Any, *_: Any) -> Any:
        with weights.open("ab") as file:
            file.write(b"more")
        return original(config)

    pipeline = importlib.import_module("elmo_hf_conversion.convert")
    original = pipeline.elmo_config
    monkeypatch.setattr(pipeline, "elmo_config", grow)

    with pytest.raises(ConversionError, match=r"weights\.hdf5 changed while it was read"):
        convert([weights, options], tmp_path / "model")

    assert not (tmp_path / "model").exists()


KILLED = """
import sys
from elmo_hf_conversion import convert
print("ready", flush=True)
number = 0
while True:
    convert([sys.argv[1]], f"{sys.argv[2]}/{number}")
    number += 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_killed_process_leaves_whole_folders(seed: int, tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "original")
    out = tmp_path / "out"
    out.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path / "original", out], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        try:
            process.stdout.readline()
            time.sleep(random.Random(seed).uniform(0.2, 1.0))
        finally:
            process.kill()

    finished = [path for path in out.iterdir() if not path.name.startswith(".")]
    names = {path.name for path in finished[0].iterdir()} if finished else set()
    assert all({path.name for path in folder.iterdir()} == names for folder in finished)
    assert len([*out.iterdir()]) - len(finished) <= 1
    for folder in finished:
        read_config(folder)
        load_file(folder / "model.safetensors")
