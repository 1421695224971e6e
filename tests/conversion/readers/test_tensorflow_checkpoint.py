"""`conversion.readers.tensorflow_checkpoint`: the folder of a training is read, and what is missing in it is named."""

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo_hf_conversion import ConversionError, read_original
from support.original_formats import (
    VOCABULARY,
    read_bilm_hdf5,
    tensorflow_variables,
    write_bilm_hdf5,
    write_tensorflow_checkpoint,
)


def variables_of(folder: Path, **shape: object) -> dict[str, np.ndarray]:
    """Variables as in `write_bilm_hdf5`, whose options are left in the folder."""
    weights, _ = write_bilm_hdf5(folder, **{"n_characters": 261, **shape})  # type: ignore[arg-type]
    variables = tensorflow_variables(read_bilm_hdf5(weights))
    weights.unlink()
    return variables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A training folder."""
    folder = tmp_path / "run"
    write_tensorflow_checkpoint(folder, variables_of(folder))
    return folder


def test_the_variables_of_the_model_are_read_and_the_others_left(folder: Path) -> None:
    variables = variables_of(folder)

    with read_original([folder]) as checkpoint:
        arrays = {name: array.read() for name, array in checkpoint.arrays.items()}

    assert checkpoint.format == "bilm-tensorflow"
    assert {"global_step", "lm/softmax/W", "lm/char_embed/Adagrad", "train_perplexity"} < set(checkpoint.left)
    assert arrays.keys() == variables.keys() - set(checkpoint.left)
    assert not [name for name in arrays if "Adagrad" in name or "softmax" in name]
    np.testing.assert_array_equal(
        arrays["lm/RNN_1/rnn/multi_rnn_cell/cell_0/lstm_cell/projection/kernel"],
        variables["lm/RNN_1/rnn/multi_rnn_cell/cell_0/lstm_cell/projection/kernel"],
    )
    assert [source.name for source in checkpoint.sources] == [
        "model.ckpt-7.index",
        "model.ckpt-7.data-00000-of-00001",
        "options.json",
    ]


@pytest.mark.parametrize("slots", [("Adam", "Adam_1"), ("AdamWeightDecay", "AdamWeightDecay_1"), ("lamb_m", "lamb_v")])
def test_the_slots_of_every_optimizer_are_left(slots: tuple[str, str], folder: Path) -> None:
    variables = {name: array for name, array in variables_of(folder).items() if "Adagrad" not in name}
    model = [name for name in variables if name.startswith("lm/")]
    kept = {f"{name}/{slot}": np.ones_like(variables[name]) for name in model for slot in slots}
    write_tensorflow_checkpoint(folder, variables | kept | {"beta1_power": np.array(0.9, np.float32)})

    with read_original([folder]) as checkpoint:
        assert {*kept, "beta1_power"} < set(checkpoint.left)
        assert checkpoint.arrays.keys() == {name for name in model if "softmax" not in name}


def test_several_data_files_given_by_name_with_a_vocabulary(tmp_path: Path) -> None:
    variables = variables_of(tmp_path, vocabulary=VOCABULARY)
    index = write_tensorflow_checkpoint(tmp_path, variables, shards=3)
    (tmp_path / "model.ckpt-7.meta").write_bytes(b"\x0a\x00")

    with read_original(sorted(tmp_path.iterdir())) as checkpoint:
        assert checkpoint.vocabulary == VOCABULARY
        assert len(checkpoint.sources) == 6
        np.testing.assert_array_equal(checkpoint.arrays["lm/char_embed"].read(), variables["lm/char_embed"])
    assert checkpoint.weights_name == index.stem


def test_a_vocabulary_makes_the_softmax_part_of_the_model(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    variables = variables_of(folder, vocabulary=VOCABULARY)

    with caplog.at_level(logging.WARNING), read_original([folder]) as checkpoint:
        for name in ("lm/softmax/W", "lm/softmax/b"):
            np.testing.assert_array_equal(checkpoint.arrays[name].read(), variables[name])

    assert not [name for name in checkpoint.left if name in ("lm/softmax/W", "lm/softmax/b")]
    assert "lm/softmax/W/Adagrad" in checkpoint.left
    assert not caplog.text


def test_without_a_vocabulary_the_softmax_is_left(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), read_original([folder]) as checkpoint:
        assert {"lm/softmax/W", "lm/softmax/b"} < set(checkpoint.left)

    assert [record.getMessage() for record in caplog.records] == [
        "model.ckpt-7.index: the softmax is left out, because there is no vocabulary to name its rows; "
        "give the vocabulary to keep the softmax."
    ]


def test_a_softmax_that_was_not_trained_on_sentences_is_left(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    variables_of(folder, vocabulary=[word for word in VOCABULARY if word not in ("</S>", "<UNK>")])

    with caplog.at_level(logging.WARNING), read_original([folder]) as checkpoint:
        assert {"lm/softmax/W", "lm/softmax/b"} < set(checkpoint.left)

    assert "the softmax is left out, because the vocabulary lacks </S>, <UNK>, so that" in caplog.text


def test_a_softmax_of_another_vocabulary_is_named(folder: Path) -> None:
    variables_of(folder, vocabulary=[*VOCABULARY, "more"])

    with pytest.raises(
        ConversionError,
        match=r"vocab.txt has 13 words, but array lm/softmax/W of model.ckpt-7.index is \(12, 4\). Give the voc",
    ):
        read_original([folder])


@pytest.mark.parametrize("pack", [("zip", ".zip"), ("gztar", ".tar.gz"), ("bztar", ".tar.bz2"), ("tar", ".tar")])
def test_in_an_archive(pack: tuple[str, str], folder: Path) -> None:
    archive = shutil.make_archive(str(folder.parent / "run"), pack[0], folder.parent, "run")

    with read_original([archive]) as checkpoint:
        assert checkpoint.arrays["lm/char_embed"].read().shape == (261, 4)
    assert checkpoint.sources[0].name == f"run{pack[1]}"


def second(folder: Path, step: int) -> None:
    """A later or earlier checkpoint of the same training; `checkpoint` names the first."""
    state = (folder / "checkpoint").read_bytes()
    write_tensorflow_checkpoint(folder, variables_of(folder), step=step)
    (folder / "checkpoint").write_bytes(state)


@pytest.mark.parametrize("state", ["/home/author/run/model.ckpt-7", "C:\\run\\model.ckpt-7", "model.ckpt-7"])
def test_of_several_checkpoints_the_one_that_is_named(state: str, folder: Path) -> None:
    second(folder, 12)
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "{state}"\nall_model_checkpoint_paths: "/home/author/model.ckpt-12"\n'
    )

    with read_original([folder]) as checkpoint:
        assert checkpoint.weights_name == "model.ckpt-7"


@pytest.mark.parametrize("state", [None, "", 'model_checkpoint_path: "/home/author/model.ckpt-99"\n', "\udce4"])
def test_else_the_last(state: str | None, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    second(folder, 12)
    (folder / "checkpoint").unlink()
    if state is not None:
        (folder / "checkpoint").write_text(state, errors="surrogateescape")

    with caplog.at_level(logging.WARNING), read_original([folder]) as checkpoint:
        assert checkpoint.weights_name == "model.ckpt-12"
    assert ("names none of the checkpoints" in caplog.text) == bool(state)


def test_else_an_error(folder: Path) -> None:
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(folder / f"model.ckpt-7{suffix}", folder / f"best{suffix}")
    (folder / "checkpoint").unlink()

    with pytest.raises(
        ConversionError, match=r"2 checkpoints, best, model.ckpt-7, and no file `checkpoint` says which"
    ):
        read_original([folder])


def test_checkpoints_in_several_folders(folder: Path) -> None:
    shutil.copytree(folder, folder / "more")

    with pytest.raises(ConversionError, match=r"Checkpoints in 2 folders: model.ckpt-7, more/model.ckpt-7"):
        read_original([folder])


def without_data(folder: Path) -> None:
    (folder / "model.ckpt-7.data-00000-of-00001").unlink()


def without_options(folder: Path) -> None:
    (folder / "options.json").unlink()


def truncated_data(folder: Path) -> None:
    data = folder / "model.ckpt-7.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])


def truncated_index(folder: Path) -> None:
    index = folder / "model.ckpt-7.index"
    index.write_bytes(index.read_bytes()[:1000])


def another_scope(folder: Path) -> None:
    write_tensorflow_checkpoint(folder, {"bilm/char_embed": np.ones((261, 4), np.float32)})


def whole_numbers(folder: Path) -> None:
    write_tensorflow_checkpoint(folder, variables_of(folder) | {"lm/char_embed": np.ones((261, 4), np.int64)})


def in_pieces(folder: Path) -> None:
    write_tensorflow_checkpoint(folder, variables_of(folder), entry={"lm/char_embed": b"\x3a\x00"})


def another_data_file(folder: Path) -> None:
    write_tensorflow_checkpoint(folder, variables_of(folder), entry={"lm/char_embed": b"\x18\x03"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without_data, "model.ckpt-7.data-00000-of-00001 is missing among checkpoint"),
        (without_options, "No options .JSON with a section 'lstm'. among checkpoint"),
        (truncated_data, r"variable lm/.* lies behind the end of the data file \(1,000 bytes\)"),
        (truncated_index, "model.ckpt-7.index does not end as an index of a checkpoint does: it is truncated"),
        (another_scope, r"no variables of bilm-tf \(lm/...\), but bilm/char_embed"),
        (whole_numbers, "variable lm/char_embed has numbers of TensorFlow's type 9"),
        (in_pieces, "variable lm/char_embed is in several pieces"),
        (another_data_file, "variable lm/char_embed is in a data file that is not there"),
    ],
)
def test_what_is_wrong_is_named(damage: Callable[[Path], None], message: str, folder: Path) -> None:
    damage(folder)

    with pytest.raises(ConversionError) as caught:
        read_original([folder])

    assert re.search(message, str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite(value: float, tmp_path: Path) -> None:
    variables = variables_of(tmp_path)
    variables["lm/CNN_proj/b_proj"][1] = value
    write_tensorflow_checkpoint(tmp_path, variables)

    with read_original([tmp_path]) as checkpoint, pytest.raises(ConversionError, match="CNN_proj/b_proj holds NaN"):
        checkpoint.arrays["lm/CNN_proj/b_proj"].read()


def test_a_file_that_is_no_part_of_it(folder: Path) -> None:
    (folder / "strange.bin").write_bytes(b"\x00")

    with pytest.raises(ConversionError, match=r"strange.bin .* is not part of this checkpoint"):
        read_original(sorted(folder.iterdir()))


def test_nothing_is_to_be_chosen(folder: Path) -> None:
    with pytest.raises(ConversionError, match="holds one model without a trained mix: leave --mix out"):
        read_original([folder], mix=0)
