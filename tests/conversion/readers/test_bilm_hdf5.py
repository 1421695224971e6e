"""`conversion.readers.bilm_hdf5`: every array arrives, unchanged, and a damaged file is named."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo_hf_conversion import ConversionError, read_original
from elmo_hf_conversion.readers.base import InputFile
from elmo_hf_conversion.readers.bilm_hdf5 import content_of
from elmo_hf_conversion.readers.content import Kind
from support.original_formats import VOCABULARY, write_bilm_hdf5, write_softmax


W_0 = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_0"

# of a file with two layers, the array that comes last
LAST = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0"


def test_reads_every_array_unchanged(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path)
    expected: dict[str, np.ndarray] = {}
    with h5py.File(sources[0]) as file:
        file.visititems(
            lambda name, item: expected.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None
        )

    with read_original(sources) as checkpoint:
        read = {name: array.read() for name, array in checkpoint.arrays.items()}

    assert read.keys() == expected.keys()
    assert all(np.array_equal(read[name], expected[name]) for name in expected)


def test_reads_the_softmax_that_is_published_beside_weights(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, vocabulary=VOCABULARY)
    softmax = write_softmax(tmp_path)

    with read_original([tmp_path]) as checkpoint:
        read = {name: array.read() for name, array in checkpoint.arrays.items() if name.startswith("softmax")}
        assert "softmax_weights.hdf5" in {source.name for source in checkpoint.sources}

    assert read.keys() == softmax.keys()
    assert all(np.array_equal(read[name], softmax[name]) for name in softmax)


def without_vocabulary(folder: Path) -> None:
    (folder / "vocab.txt").unlink()


def without_unk(folder: Path) -> None:
    (folder / "vocab.txt").write_text("<S>\n</S>\nthe\n")


SOFTMAX_WITHOUT_WORDS = {
    without_vocabulary: "there is no vocabulary to name its rows; give the vocabulary to keep the softmax",
    without_unk: "the vocabulary lacks <UNK>, so that it was not trained to predict them",
}


@pytest.mark.parametrize("change", SOFTMAX_WITHOUT_WORDS, ids=lambda change: change.__name__)
def test_a_softmax_whose_rows_have_no_words(
    change: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_bilm_hdf5(tmp_path, vocabulary=VOCABULARY)
    write_softmax(tmp_path)
    change(tmp_path)
    reason = SOFTMAX_WITHOUT_WORDS[change]

    with read_original([tmp_path]) as checkpoint:
        assert checkpoint.softmax is None
    assert f"softmax_weights.hdf5: the softmax is left out, because {reason}." in caplog.text

    with pytest.raises(ConversionError, match=f"softmax_weights.hdf5 cannot be used, because {reason}. Leave it out"):
        read_original([*tmp_path.iterdir()])


def test_a_softmax_of_other_words(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, vocabulary=VOCABULARY)
    write_softmax(tmp_path, words=7)

    with pytest.raises(
        ConversionError, match=r"vocab.txt has 12 words, but array softmax/W of softmax_weights.hdf5 is \(7, 4\)"
    ):
        read_original([tmp_path])


def test_half_a_softmax(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, vocabulary=VOCABULARY)
    write_softmax(tmp_path)
    with h5py.File(tmp_path / "softmax_weights.hdf5", "a") as file:
        del file["softmax/b"]

    with pytest.raises(ConversionError, match=r"softmax_weights.hdf5 must hold softmax/W and softmax/b"):
        read_original([tmp_path])


def test_a_softmax_alone(tmp_path: Path) -> None:
    write_softmax(tmp_path)

    with pytest.raises(ConversionError, match=r"softmax_weights.hdf5 holds a softmax alone. Give the weights"):
        read_original([tmp_path / "softmax_weights.hdf5"])


@pytest.mark.parametrize("named", [True, False], ids=["named", "in the folder"])
def test_a_matrix_of_alignment_is_left_to_the_user(
    named: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_bilm_hdf5(tmp_path)
    # as it is published, a pickled array
    torch.save(np.eye(8), tmp_path / "es_best_mapping.pth")

    with read_original([*tmp_path.iterdir()] if named else [tmp_path]) as checkpoint:
        assert [source.name for source in checkpoint.sources] == ["weights.hdf5", "options.json"]

    assert "es_best_mapping.pth is a PyTorch file, and is left out. If it aligns this language" in caplog.text


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_precisions_become_float32(dtype: str, tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path, dtype=dtype)

    with read_original(sources) as checkpoint:
        array = checkpoint.arrays[W_0].read()

    with h5py.File(sources[0]) as file:
        np.testing.assert_array_equal(array, file[W_0][...].astype(np.float32), strict=True)


def test_options_are_kept_whole(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path, reverse=False, n_negative_samples_batch=8192)

    with read_original(sources) as checkpoint:
        assert checkpoint.options["reverse"] is False
        assert checkpoint.options["n_negative_samples_batch"] == 8192


def test_the_parts_come_in_any_order(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path, vocabulary=VOCABULARY)

    with read_original([tmp_path / "vocab.txt", options, weights]) as checkpoint:
        assert checkpoint.vocabulary == VOCABULARY
        assert [source.name for source in checkpoint.sources] == ["weights.hdf5", "options.json", "vocab.txt"]


def test_names_do_not_matter(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path)
    weights.rename(tmp_path / "a.txt")
    options.rename(tmp_path / "b.hdf5")

    with read_original([tmp_path / "a.txt", tmp_path / "b.hdf5"]) as checkpoint:
        assert checkpoint.weights_name == "a.txt"
        assert checkpoint.options_name == "b.hdf5"


def test_a_folder_is_searched_for_the_parts(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "model", vocabulary=VOCABULARY)
    (tmp_path / "meta.json").write_text('{"id": 195}')
    (tmp_path / "LICENSE").write_text("Do with it\nas you please\n")
    (tmp_path / ".DS_Store").write_bytes(b"\x00")

    with read_original([tmp_path]) as checkpoint:
        assert [source.name for source in checkpoint.sources] == [
            "model/weights.hdf5",
            "model/options.json",
            "model/vocab.txt",
        ]


def test_vectors_beside_the_weights_are_passed_over(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path)
    with h5py.File(tmp_path / "vectors.hdf5", "w") as file:
        file["0"] = np.zeros((3, 5, 8))

    with read_original([tmp_path]) as checkpoint:
        assert checkpoint.weights_name == "weights.hdf5"


def test_a_vocabulary_beside_its_packed_copy_is_one(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, vocabulary=VOCABULARY)
    (tmp_path / "vocab.txt.gz").write_bytes(gzip.compress((tmp_path / "vocab.txt").read_bytes()))

    with read_original([tmp_path]) as checkpoint:
        assert checkpoint.vocabulary == VOCABULARY


def test_two_vocabularies_are_named(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, vocabulary=VOCABULARY)
    (tmp_path / "vocab_small.txt").write_text("<S>\n</S>\n")

    with pytest.raises(ConversionError, match=r"2 files of vocabulary: vocab.txt, vocab_small.txt"):
        read_original([tmp_path])


def test_two_models_in_a_folder_are_named(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "a")
    write_bilm_hdf5(tmp_path / "b")

    with pytest.raises(ConversionError, match=r"2 files of weights \(HDF5\): a/weights.hdf5, b/weights.hdf5"):
        read_original([tmp_path])


def test_two_options_in_a_folder_are_named(tmp_path: Path) -> None:
    _, options = write_bilm_hdf5(tmp_path)
    shutil.copy(options, tmp_path / "options_262.json")

    with pytest.raises(ConversionError, match=r"2 files of options .*: options.json, options_262.json"):
        read_original([tmp_path])


def test_weights_without_options(tmp_path: Path) -> None:
    weights, _ = write_bilm_hdf5(tmp_path)

    with pytest.raises(ConversionError, match=r"No options \(JSON .*\) among weights.hdf5 \(HDF5\)"):
        read_original([weights])


def test_json_that_is_no_options_file(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path)
    options.write_text('{"model_type": "bert"}')

    with pytest.raises(ConversionError, match=r"No options .*options.json \(JSON\)"):
        read_original([weights, options])


def test_a_given_file_that_is_not_used(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path)
    (tmp_path / "meta.json").write_text("{}")

    with pytest.raises(ConversionError, match=r"meta.json \(JSON\) is not part of a biLM model"):
        read_original([*sources, tmp_path / "meta.json"])


def test_truncated(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path)
    whole = weights.stat().st_size
    weights.write_bytes(weights.read_bytes()[: whole // 2])

    with pytest.raises(ConversionError, match=f"weights.hdf5 is truncated: {whole // 2:,} of {whole:,} bytes"):
        read_original([weights, options])


def test_damaged_inside(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path)
    content = bytearray(weights.read_bytes())
    content[8:200] = bytes(192)
    weights.write_bytes(content)

    with pytest.raises(ConversionError, match=r"weights.hdf5 is damaged HDF5 \(.*\). Download it again"):
        read_original([weights, options])


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(number: float, tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path)
    with h5py.File(sources[0], "a") as file:
        file[W_0][0, 0] = number

    with read_original(sources) as checkpoint, pytest.raises(ConversionError, match=f"array {W_0} holds NaN or inf"):
        checkpoint.arrays[W_0].read()


def test_float64_beyond_the_range_of_float32(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path, dtype="float64")
    with h5py.File(sources[0], "a") as file:
        file[W_0][0, 0] = 1e300

    with read_original(sources) as checkpoint, pytest.raises(ConversionError, match=f"array {W_0} holds NaN or inf"):
        checkpoint.arrays[W_0].read()


def soft_link(file: h5py.File) -> None:
    file["CNN_proj/b_proj"] = h5py.SoftLink("/CNN_proj/W_proj")


def external_link(file: h5py.File) -> None:
    file["CNN_proj/b_proj"] = h5py.ExternalLink("/etc/passwd", "/")


def circle(file: h5py.File) -> None:
    file["CNN_proj/b_proj"] = file["/"]


def external_numbers(file: h5py.File) -> None:
    file.create_dataset("CNN_proj/b_proj", (4,), "f4", external="/etc/passwd")


def virtual_numbers(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("other.hdf5", "numbers", (4,))
    file.create_virtual_dataset("CNN_proj/b_proj", layout)


def whole_numbers(file: h5py.File) -> None:
    file["CNN_proj/b_proj"] = np.zeros(4, dtype=np.int64)


def records(file: h5py.File) -> None:
    file["CNN_proj/b_proj"] = np.zeros(4, dtype=[("a", "f4"), ("b", "f4")])


def no_numbers(file: h5py.File) -> None:
    file["CNN_proj/b_proj"] = h5py.Empty("f4")


def never_written(file: h5py.File) -> None:
    file.create_dataset("CNN_proj/b_proj", (4,), "f4", chunks=(4,))


def a_type(file: h5py.File) -> None:
    file["CNN_proj/b_proj"] = np.dtype("f4")


BROKEN = {
    soft_link: "is a link to elsewhere",
    external_link: "is a link to elsewhere",
    circle: "is not an array",
    a_type: "is not an array",
    external_numbers: "has its numbers in another file",
    virtual_numbers: "has its numbers in another file",
    whole_numbers: "is of type int64, not floating point",
    records: r"is of type .* not floating point",
    no_numbers: "has no numbers",
    never_written: "was never written",
}


@pytest.mark.parametrize(("damage", "message"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_what_should_be_an_array(damage: Callable[[h5py.File], None], message: str, tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path)
    with h5py.File(sources[0], "a") as file:
        del file["CNN_proj/b_proj"]
        damage(file)

    with pytest.raises(ConversionError, match=f"CNN_proj/b_proj {message}"):
        read_original(sources)


def test_absurd_sizes(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path)
    with h5py.File(sources[0], "a") as file:
        file.create_dataset("bomb", (1 << 20, 1 << 20), "f4", chunks=(1, 1 << 10))[0, 0] = 1

    with pytest.raises(ConversionError, match=r"weights.hdf5 claims 4,\d{3},\d{3},\d{3},\d{3} bytes of arrays"):
        read_original(sources)


@pytest.mark.parametrize("zeros", [1100, 4096])
def test_zeros_within_an_array_are_reported(zeros: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sources = write_bilm_hdf5(tmp_path, dim=64, projection_dim=32)
    with h5py.File(sources[0], "a") as file:
        array = file[W_0][...]
        array.reshape(-1)[37 : 37 + zeros] = 0
        file[W_0][...] = array

    with read_original(sources) as checkpoint:
        np.testing.assert_array_equal(checkpoint.arrays[W_0].read(), array)

    assert f"weights.hdf5: array {W_0} is full of zeros in places" in caplog.text


def test_a_filter_bank_may_be_unused(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path, filters=[(7, 64), (1, 4)], char_dim=16)
    with h5py.File(sources[0], "a") as file:
        file["CNN/W_cnn_0"][...] = 0

    with read_original(sources) as checkpoint:
        assert not checkpoint.arrays["CNN/W_cnn_0"].read().any()


def test_two_words_may_be_unused(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path, token_input=True, dim=512, projection_dim=512)
    with h5py.File(sources[0], "a") as file:
        file["embedding"][5:7] = 0

    with read_original(sources) as checkpoint:
        assert not checkpoint.arrays["embedding"].read()[5:7].any()


def test_a_download_into_reserved_space_that_broke_off(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path, dim=64, projection_dim=32)
    content = sources[0].read_bytes()
    sources[0].write_bytes(content[:-5000] + bytes(5000))

    with pytest.raises(
        ConversionError, match=rf"zeros from within array {LAST} to the end, 5,000 bytes: the download"
    ):
        read_original(sources)


def test_zeros_at_the_end_may_be_a_whole_array_or_be_compressed(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path, dim=64, projection_dim=32)
    with h5py.File(sources[0], "a") as file:
        file[LAST][...] = 0
    with read_original(sources) as checkpoint:
        assert not checkpoint.arrays[LAST].read().any()

    with h5py.File(sources[0], "a") as file:
        file[LAST][...] = np.arange(64)[:, None] < 8
    with pytest.raises(ConversionError, match=rf"zeros from within array {LAST} to the end, 7,\d\d\d bytes"):
        read_original(sources)

    with h5py.File(sources[0], "a") as file:
        array = file[LAST][...]
        del file[LAST]
        file.create_dataset(LAST, data=array, compression="gzip")
    with read_original(sources) as checkpoint:
        np.testing.assert_array_equal(checkpoint.arrays[LAST].read(), array)


def test_zeros_here_and_there_are_no_hole(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path, dim=64, projection_dim=32)
    with h5py.File(sources[0], "a") as file:
        array = file[W_0][...]
        array[:, 1:] *= array[:, :-1] > 0
        array[3] = 0
        file[W_0][...] = array

    with read_original(sources) as checkpoint:
        np.testing.assert_array_equal(checkpoint.arrays[W_0].read(), array)


def test_biases_may_be_zero(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path, dim=512, projection_dim=4)
    name = W_0.replace("W_0", "B")
    with h5py.File(sources[0], "a") as file:
        file[name][...] = 0

    with read_original(sources) as checkpoint:
        assert not checkpoint.arrays[name].read().any()


def test_chunks_that_were_never_written(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path)
    with h5py.File(sources[0], "a") as file:
        array = file[W_0][...]
        del file[W_0]
        file.create_dataset(W_0, array.shape, "f4", chunks=(1, array.shape[1]))[:-1] = array[:-1]

    with pytest.raises(ConversionError, match=f"array {W_0} was written in part only"):
        read_original(sources)


def test_names_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path)
    with h5py.File(sources[0], "a") as file:
        file["CNN/\x1b[31m\n"] = ["text"]

    with pytest.raises(ConversionError, match=r"array CNN/\ufffd\[31m\ufffd is of type"):
        read_original(sources)


def test_an_array_too_large_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = write_bilm_hdf5(tmp_path)

    def no_memory(*_: object) -> None:
        raise MemoryError

    with read_original(sources) as checkpoint:
        monkeypatch.setattr(h5py.Dataset, "__getitem__", no_memory)

        with pytest.raises(ConversionError, match=rf"array {W_0} \(8, 32\) does not fit in memory"):
            checkpoint.arrays[W_0].read()


def test_content_of_hdf5_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "keras.hdf5"
    with h5py.File(path, "w") as file:
        file["model_weights/dense/kernel"] = [1.0]

    assert content_of(InputFile(path.name, Kind.HDF5, path)).name == "OTHER"
