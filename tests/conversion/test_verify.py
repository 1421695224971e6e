"""`conversion.verify`: converted models agree with NumPy in every variant, and wrong ones are found out."""

import codecs
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoModel

from elmo_hf_conversion import convert
from elmo_hf_conversion.readers.base import ConversionError
from elmo_hf_conversion.verify import LayerDifference, verify
from support.original_formats import write_bilm_hdf5, write_training_folder


def write_both(folder: Path, **variant: Any) -> None:
    """Write an original, and convert it."""
    write_bilm_hdf5(folder / "original", **variant)
    convert([folder / "original"], folder / "model")


def test_a_table_with_a_row_of_padding(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_both(tmp_path)
    weights, _ = write_bilm_hdf5(tmp_path / "padded")
    with h5py.File(weights, "a") as file:
        table = file["char_embed"][...]
        del file["char_embed"]
        file["char_embed"] = np.pad(table, ((1, 0), (0, 0)))

    config = convert([tmp_path / "padded"], tmp_path / "from padded")

    assert config.char_vocab_size == 262
    assert "char_embed has 262 rows, the first of zeros: it is taken for padding, and left out" in caplog.text
    # either original, either model
    assert all(each.passed for each in verify(tmp_path / "from padded", [tmp_path / "original"]))
    assert all(each.passed for each in verify(tmp_path / "model", [tmp_path / "padded"]))


def test_null_in_place_of_the_characters(tmp_path: Path) -> None:
    _, options = write_bilm_hdf5(tmp_path / "original", token_input=True)
    options.write_text(json.dumps(json.loads(options.read_text()) | {"char_cnn": None}))

    convert([tmp_path / "original"], tmp_path / "model")

    assert all(each.passed for each in verify(tmp_path / "model", [tmp_path / "original"]))


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param({}, id="as the releases"),
        pytest.param({"use_skip_connections": False}, id="no skip connections"),
        pytest.param({"omit": ["lstm.use_skip_connections"]}, id="skip connections absent"),
        pytest.param({"dim": 4, "projection_dim": 4}, id="no LSTM projection"),
        pytest.param({"filters": ((1, 2), (3, 2)), "projection_dim": 4}, id="no character projection"),
        pytest.param({"n_highway": 0}, id="no highways"),
        pytest.param({"omit": ["char_cnn.n_highway"], "n_highway": 0}, id="highways absent"),
        pytest.param({"n_highway": 1}, id="one highway"),
        pytest.param({"activation": "tanh", "cell_clip": 0.5, "proj_clip": 0.25}, id="tanh"),
        pytest.param({"omit": ["lstm.cell_clip", "lstm.proj_clip"]}, id="clips absent"),
        pytest.param({"cell_clip": None, "proj_clip": None}, id="clips null"),
        pytest.param({"cell_clip": 0, "proj_clip": 0}, id="clips zero"),
        pytest.param({"cell_clip": 0.5, "proj_clip": 0.25}, id="narrow clips"),
        pytest.param({"max_characters": 10}, id="ten characters"),
        pytest.param({"n_characters": 261}, id="261 characters"),
        pytest.param({"char_dim": 7, "dim": 6, "projection_dim": 5}, id="odd widths"),
        pytest.param({"filters": ((5, 3), (1, 4), (7, 2))}, id="filters out of order"),
        pytest.param({"n_layers": 1}, id="one layer"),
        pytest.param({"n_layers": 1, "multi_rnn_cell": True}, id="one layer in a stack"),
        pytest.param({"n_layers": 5}, id="five layers"),
        pytest.param({"dtype": "float64"}, id="float64"),
        pytest.param({"dtype": "float16"}, id="float16"),
        pytest.param({"token_input": True}, id="words"),
        pytest.param({"token_input": True, "n_layers": 1, "use_skip_connections": False}, id="words, one layer"),
        pytest.param({"vocabulary": ["<S>", "</S>", "<UNK>", "the"]}, id="characters and a vocabulary"),
    ],
)
def test_a_converted_model_equals_the_original(variant: dict[str, Any], tmp_path: Path) -> None:
    write_both(tmp_path, **variant)

    differences = verify(tmp_path / "model", [tmp_path / "original"])

    assert max(difference.max_abs for difference in differences) < 1e-9, differences


def test_a_model_with_its_softmax_equals_the_dump_of_its_checkpoint(tmp_path: Path) -> None:
    write_training_folder(tmp_path / "training", keep_dump=True)
    (tmp_path / "dump").mkdir()
    (tmp_path / "training/weights.hdf5").rename(tmp_path / "dump/weights.hdf5")
    convert([tmp_path / "training"], tmp_path / "model")

    differences = verify(tmp_path / "model", [tmp_path / "dump", tmp_path / "training/options.json"])

    assert max(difference.max_abs for difference in differences) < 1e-9, differences


@pytest.mark.parametrize("seed", range(8))
def test_rounding_that_large_weights_amplify_is_no_difference(seed: int, tmp_path: Path) -> None:
    # in float32 these differ by 1.5e-5 to 2e-2, in proportion to the largest value
    write_both(tmp_path, seed=seed, dim=32, n_layers=3, cell_clip=None)

    differences = verify(tmp_path / "model", [tmp_path / "original"])

    assert all(difference.passed for difference in differences), differences


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float16, 2**-11), (torch.bfloat16, 2**-8)])
def test_weights_in_half_precision_may_differ_by_their_rounding(
    dtype: torch.dtype, rounding: float, tmp_path: Path
) -> None:
    # without projection, rounding is not amplified from word to word
    write_both(tmp_path, dim=4)
    AutoModel.from_pretrained(tmp_path / "model", dtype=dtype).save_pretrained(tmp_path / "model")

    differences = verify(tmp_path / "model", [tmp_path / "original"])

    assert all(difference.passed for difference in differences), differences
    assert all(difference.max_abs > rounding / 100 for difference in differences)


def test_reports_every_layer_fresh_and_with_state(tmp_path: Path) -> None:
    write_both(tmp_path, n_layers=3)

    differences = verify(tmp_path / "model", [tmp_path / "original"])

    assert [(difference.with_state, difference.layer) for difference in differences] == [
        (with_state, layer) for with_state in (False, True) for layer in range(4)
    ]


def test_takes_a_zip(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "original", dim=4)
    archive = tmp_path / "original.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for path in (tmp_path / "original").iterdir():
            opened.write(path, path.name)
    convert([archive], tmp_path / "model")

    assert all(difference.passed for difference in verify(tmp_path / "model", [archive]))


@pytest.mark.parametrize(
    ("parameter", "first_wrong_layer"),
    [
        ("token_encoder.convolutions.2.bias", 0),
        ("layers.0.recurrent_weight", 1),
        ("layers.1.output_weight", 2),
    ],
)
def test_a_wrong_parameter_shows_in_its_layer(parameter: str, first_wrong_layer: int, tmp_path: Path) -> None:
    write_both(tmp_path)
    weights = load_file(tmp_path / "model" / "model.safetensors")
    weights[parameter] += 1e-5
    save_file(weights, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})

    differences = verify(tmp_path / "model", [tmp_path / "original"])

    wrong = {difference.layer for difference in differences if not difference.passed}
    assert min(wrong) == first_wrong_layer


def test_sentences_may_be_given(tmp_path: Path) -> None:
    write_both(tmp_path)

    differences = verify(tmp_path / "model", [tmp_path / "original"], [["the", "bank"], ["Hà"]])

    assert all(difference.passed for difference in differences)


def test_no_sentences_are_an_error(tmp_path: Path) -> None:
    write_both(tmp_path)

    with pytest.raises(ConversionError, match="at least one"):
        verify(tmp_path / "model", [tmp_path / "original"], [])


def test_the_original_of_another_model_is_named(tmp_path: Path) -> None:
    write_both(tmp_path)
    shutil.rmtree(tmp_path / "original")
    write_bilm_hdf5(tmp_path / "original", n_layers=3)

    with pytest.raises(ConversionError, match=r"has 3 layers .* has 4 layers"):
        verify(tmp_path / "model", [tmp_path / "original"])


def test_a_source_without_weights_is_an_error(tmp_path: Path) -> None:
    write_both(tmp_path)
    (tmp_path / "original" / "weights.hdf5").unlink()

    with pytest.raises(ConversionError, match="HDF5"):
        verify(tmp_path / "model", [tmp_path / "original"])


def test_a_difference_that_is_not_a_number_does_not_pass() -> None:
    difference = LayerDifference(layer=0, with_state=False, max_abs=float("nan"), scale=1.0, tolerance=1e-5)

    assert not difference.passed


def test_options_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path / "original")
    options.write_bytes(codecs.BOM_UTF8 + options.read_bytes())
    convert([weights, options], tmp_path / "model")

    assert all(difference.passed for difference in verify(tmp_path / "model", [weights, options]))


def test_an_array_that_the_original_lacks_is_named(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path / "original")
    convert([weights, options], tmp_path / "model")
    with h5py.File(weights, "a") as file:
        del file["CNN/W_cnn_0"]

    with pytest.raises(ConversionError, match=r"weights\.hdf5 has no array CNN/W_cnn_0"):
        verify(tmp_path / "model", [weights, options])
