"""`conversion.readers.refused`: known things that are no weights are refused by name, with what to give instead."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_hf_conversion import ConversionError, read_original
from support.original_formats import write_bilm_hdf5, write_training_folder


def tensorflow_checkpoint(folder: Path) -> None:
    (folder / "checkpoint").write_text('model_checkpoint_path: "/home/author/model.ckpt-1"\n')
    (folder / "model.ckpt-1.index").write_bytes(b"\x00")
    _, options = write_bilm_hdf5(folder / "dump")
    options.rename(folder / "options.json")
    (folder / "dump/weights.hdf5").unlink()


def tensorflow_hub(folder: Path) -> None:
    (folder / "saved_model.pb").write_bytes(b"\x08\x01\x00")


def archive(path: Path, config: bytes) -> None:
    with tarfile.open(path, "w:gz") as opened:
        info = tarfile.TarInfo("config.json")
        info.size = len(config)
        opened.addfile(info, io.BytesIO(config))


def archive_without_weights(folder: Path) -> None:
    archive(folder / "model.tar.gz", b'{"model": {"type": "simple_tagger"}}')


def part_of_an_archive(folder: Path) -> None:
    archive(folder / "whole.tgz", b"{}")
    data = (folder / "whole.tgz").read_bytes()
    (folder / "whole.tgz").unlink()
    (folder / "bilm-output-result.tgz.part-00").write_bytes(data[:90])
    (folder / "bilm-output-result.tgz.part-01").write_bytes(data[90:])


def transformer_by_content(folder: Path) -> None:
    archive(folder / "model.tar.gz", b'{"type": "bidirectional_language_model_transformer"}')


def transformer_by_name(folder: Path) -> None:
    archive(folder / "transformer-elmo-2019.01.10.tar.gz", b"{}")


def torch_weights(folder: Path) -> None:
    torch.save({}, folder / "weights.th")


def old_torch_weights(folder: Path) -> None:
    torch.save({}, folder / "weights.th", _use_new_zipfile_serialization=False)


def token_cache(folder: Path) -> None:
    with h5py.File(folder / "cache.hdf5", "w") as file:
        file["embedding"] = np.zeros((3, 4), dtype=np.float32)


def vectors_by_number(folder: Path) -> None:
    with h5py.File(folder / "vectors.hdf5", "w") as file:
        file["0"] = np.zeros((3, 2, 8), dtype=np.float32)
        file["1"] = np.zeros((3, 5, 8), dtype=np.float32)


def vectors_with_index(folder: Path) -> None:
    with h5py.File(folder / "vectors.hdf5", "w") as file:
        file["0"] = np.zeros((3, 2, 8), dtype=np.float32)
        file["sentence_to_index"] = np.array(['{"a b": "0"}'], dtype=h5py.string_dtype())


def vectors_alone(folder: Path) -> None:
    with h5py.File(folder / "vectors.hdf5", "w") as file:
        file["the sentence"] = np.zeros((3, 2, 8), dtype=np.float32)


def other_hdf5(folder: Path) -> None:
    with h5py.File(folder / "keras.hdf5", "w") as file:
        file["model_weights/dense/kernel"] = [1.0]


def empty(folder: Path) -> None:
    (folder / "weights.hdf5").touch()


def web_page(folder: Path) -> None:
    (folder / "weights.hdf5").write_text("<html><body>Sign in</body></html>")


def lfs_pointer(folder: Path) -> None:
    (folder / "weights.hdf5").write_text("version https://git-lfs.github.com/spec/v1\n")


def dictionaries(folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    (folder / "word.dic").write_text("<bos>\t0\n")


def unknown(folder: Path) -> None:
    (folder / "weights.hdf5").write_bytes(b"\x00garbage")


REFUSED = {
    tensorflow_checkpoint: "checkpoint is part of a TensorFlow checkpoint, but not all of one is here",
    tensorflow_hub: "saved_model.pb is part of a TensorFlow Hub module, but not all of one is here",
    archive_without_weights: "No weights of a known format among model.tar.gz/config.json .JSON.",
    part_of_an_archive: r"part-00 is one part of a split archive. Join all parts in order, as in `cat model.tgz.part-",
    transformer_by_content: "model.tar.gz is a Transformer language model",
    transformer_by_name: "transformer-elmo-2019.01.10.tar.gz is a Transformer language model",
    torch_weights: "weights.th is a PyTorch or pickle file without an ELMo by AllenNLP",
    old_torch_weights: "weights.th is a PyTorch or pickle file without an ELMo by AllenNLP",
    token_cache: "cache.hdf5 holds an array `embedding` alone",
    vectors_by_number: "vectors.hdf5 is a dump of vectors",
    vectors_with_index: "vectors.hdf5 is a dump of vectors",
    vectors_alone: "vectors.hdf5 is a dump of vectors",
    other_hdf5: "keras.hdf5 is HDF5, but has none of a biLM's arrays",
    empty: "weights.hdf5 is empty",
    web_page: "weights.hdf5 is a web page",
    lfs_pointer: "weights.hdf5 is a Git LFS pointer",
    dictionaries: "word.dic is part of an ELMoForManyLangs model, but token_embedder.pkl and encoder.pkl are missing",
    unknown: "No weights of a known format among weights.hdf5",
}


@pytest.mark.parametrize(("write", "message"), REFUSED.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_folder(write: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    write(tmp_path)

    with pytest.raises(ConversionError, match=message):
        read_original([tmp_path])


@pytest.mark.parametrize("write", [token_cache, vectors_by_number, vectors_alone, empty, web_page, torch_weights])
def test_given_as_weights_with_options(write: Callable[[Path], None], tmp_path: Path) -> None:
    _, options = write_bilm_hdf5(tmp_path / "model")
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    write(wrong)
    (given,) = wrong.iterdir()

    with pytest.raises(ConversionError, match=REFUSED[write]):
        read_original([options, given])


@pytest.mark.parametrize(
    "name", ["vocab.txt", "model.ckpt-7.index", "model.ckpt-7.data-00000-of-00001", "options.json"]
)
def test_every_part_may_be_a_git_lfs_pointer(name: str, tmp_path: Path) -> None:
    write_training_folder(tmp_path)
    lfs_pointer(tmp_path)
    (tmp_path / "weights.hdf5").rename(tmp_path / name)

    with pytest.raises(ConversionError, match=rf"^{name} is a Git LFS pointer, .* Run `git lfs pull`"):
        read_original([tmp_path])


def test_several_git_lfs_pointers(tmp_path: Path) -> None:
    for name in ("options.json", "weights.hdf5"):
        (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\n")

    with pytest.raises(ConversionError, match=r"^options.json is a Git LFS pointer"):
        read_original([tmp_path])
