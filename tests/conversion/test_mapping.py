"""`conversion.mapping`: every number lands where the formats' description says, and finds its way back."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from elmo_hf_conversion import ConversionError, OriginalCheckpoint, read_original
from elmo_hf_conversion.config import elmo_config
from elmo_hf_conversion.mapping import bilm_rules, rules_of, to_original, to_state_dict
from support.many_langs_format import write_many_langs
from support.original_formats import (
    VOCABULARY,
    allennlp_elmo,
    read_bilm_hdf5,
    tensorflow_variables,
    write_bilm_hdf5,
    write_tensorflow_checkpoint,
    write_training_folder,
)


CELL, PROJECTION = 8, 4

# TensorFlow's place of a gate -> ours: i, j (g), f, o -> i, f, g, o
GATES = {0: 0, 1: 2, 2: 1, 3: 3}


def arrays_of(checkpoint: OriginalCheckpoint) -> dict[str, np.ndarray]:
    return {name: array.read() for name, array in checkpoint.arrays.items()}


def converted(folder: Path, **shape: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The original arrays of a random model, and its parameters."""
    write_bilm_hdf5(folder, **shape)
    with read_original([folder]) as checkpoint:
        state = to_state_dict(checkpoint, elmo_config(checkpoint))
        return arrays_of(checkpoint), {name: tensor.numpy() for name, tensor in state.items()}


def gate(array: np.ndarray, number: int, axis: int) -> np.ndarray:
    return np.take(array, np.arange(number * CELL, (number + 1) * CELL), axis)


def test_character_table_has_a_zero_row_in_front(tmp_path: Path) -> None:
    original, state = converted(tmp_path)

    table = state["token_encoder.char_embeddings.weight"]

    assert not table[0].any()
    np.testing.assert_array_equal(table[1:], original["char_embed"])


def test_word_table_has_zero_rows_for_padding_and_missing_special_words(tmp_path: Path) -> None:
    original, state = converted(tmp_path, token_input=True, vocabulary=["the", "<S>", "of"])

    table = state["token_encoder.word_embeddings.weight"]

    assert table.shape == (1 + 3 + 2, PROJECTION)
    np.testing.assert_array_equal(table[1:4], original["embedding"])
    assert not table[[0, 4, 5]].any()


@pytest.mark.parametrize("i", [0, 1, 2])
def test_convolution_of_one_window(i: int, tmp_path: Path) -> None:
    original, state = converted(tmp_path)
    kernel = original[f"CNN/W_cnn_{i}"]
    _, width, depth, _ = kernel.shape
    window = np.random.default_rng(0).standard_normal((width, depth)).astype(np.float32)

    output = torch.nn.functional.conv1d(
        torch.from_numpy(window.T[None].copy()),
        torch.from_numpy(state[f"token_encoder.convolutions.{i}.weight"]),
        torch.from_numpy(state[f"token_encoder.convolutions.{i}.bias"]),
    )

    expected = sum(window[at] @ kernel[0, at] for at in range(width)) + original[f"CNN/b_cnn_{i}"]
    np.testing.assert_allclose(output.numpy()[0, :, 0], expected, atol=1e-5)


def test_highway_keeps_its_sign(tmp_path: Path) -> None:
    original, state = converted(tmp_path)

    np.testing.assert_array_equal(state["token_encoder.highways.1.gate.weight"], original["CNN_high_1/W_carry"].T)
    np.testing.assert_array_equal(state["token_encoder.highways.1.gate.bias"], original["CNN_high_1/b_carry"])
    np.testing.assert_array_equal(
        state["token_encoder.highways.1.transform.weight"], original["CNN_high_1/W_transform"].T
    )
    np.testing.assert_array_equal(state["token_encoder.highways.1.transform.bias"], original["CNN_high_1/b_transform"])


def test_projection_of_the_token_layer(tmp_path: Path) -> None:
    original, state = converted(tmp_path)

    np.testing.assert_array_equal(state["token_encoder.projection.weight"], original["CNN_proj/W_proj"].T)
    np.testing.assert_array_equal(state["token_encoder.projection.bias"], original["CNN_proj/b_proj"])


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("place", GATES)
def test_gates_of_the_kernel(place: int, direction: int, tmp_path: Path) -> None:
    original, state = converted(tmp_path)

    kernel = gate(original[f"RNN_{direction}/RNN/MultiRNNCell/Cell1/LSTMCell/W_0"], place, 1)

    of_input = gate(state[f"layers.1.input_projections.{direction}.weight"], GATES[place], 0)
    recurrent = gate(state["layers.1.recurrent_weight"][direction], GATES[place], 1)
    np.testing.assert_array_equal(of_input, kernel[:PROJECTION].T)
    np.testing.assert_array_equal(recurrent, kernel[PROJECTION:])


@pytest.mark.parametrize("place", GATES)
def test_gates_of_the_bias(place: int, tmp_path: Path) -> None:
    original, state = converted(tmp_path)

    bias = gate(original["RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/B"], place, 0)

    np.testing.assert_array_equal(gate(state["layers.0.input_projections.1.bias"], GATES[place], 0), bias)


@pytest.mark.parametrize("direction", [0, 1])
def test_projection_of_the_cell(direction: int, tmp_path: Path) -> None:
    original, state = converted(tmp_path)

    np.testing.assert_array_equal(
        state["layers.1.output_weight"][direction],
        original[f"RNN_{direction}/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0"],
    )


def test_what_the_original_lacks_is_absent(tmp_path: Path) -> None:
    _, state = converted(tmp_path, dim=4, filters=[(1, 2), (2, 2)], n_highway=0)

    parts = {part for name in state for part in name.split(".")}
    assert not parts & {"projection", "highways", "output_weight", "word_embeddings"}


def test_one_layer_by_both_of_its_names(tmp_path: Path) -> None:
    _, alone = converted(tmp_path / "alone", n_layers=1, multi_rnn_cell=False)
    _, stacked = converted(tmp_path / "stacked", n_layers=1, multi_rnn_cell=True)

    assert alone.keys() == stacked.keys()
    assert all(np.array_equal(alone[name], stacked[name]) for name in alone)


SHAPES = {
    "as-the-releases": {},
    "one-layer": {"n_layers": 1},
    "three-layers": {"n_layers": 3, "n_highway": 1},
    "no-projections": {"dim": 4, "filters": [(1, 2), (2, 2)], "n_highway": 0},
    "words": {"token_input": True, "vocabulary": VOCABULARY[1:]},
}


def there_and_back(folder: Path, shape: dict[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    write_bilm_hdf5(folder, **shape)
    with read_original([folder]) as checkpoint:
        config = elmo_config(checkpoint)
        words = checkpoint.arrays["embedding"].shape[0] if "embedding" in checkpoint.arrays else 0
        single = "RNN_0/RNN/LSTMCell/W_0" in checkpoint.arrays
        rules = list(bilm_rules(config, words=words, single_cell=single))
        return arrays_of(checkpoint), to_original(to_state_dict(checkpoint, config), rules)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_there_and_back_is_the_same_to_the_bit(shape: dict[str, Any], tmp_path: Path) -> None:
    original, restored = there_and_back(tmp_path, shape)

    assert restored.keys() == original.keys()
    for name, array in original.items():
        np.testing.assert_array_equal(restored[name], array, strict=True)


def test_a_restored_file_converts_to_the_same_parameters_to_the_bit(tmp_path: Path) -> None:
    _, restored = there_and_back(tmp_path / "first", {})
    weights, options = write_bilm_hdf5(tmp_path / "second", seed=1)
    with h5py.File(weights, "w") as file:
        for name, array in restored.items():
            file[name] = array

    with read_original([weights, options]) as checkpoint:
        again = to_state_dict(checkpoint, elmo_config(checkpoint))

    with read_original([tmp_path / "first"]) as checkpoint:
        first = to_state_dict(checkpoint, elmo_config(checkpoint))
    assert all(torch.equal(again[name], first[name]) for name in first)


def test_tensors_own_their_memory(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path)

    with read_original([tmp_path]) as checkpoint:
        state = to_state_dict(checkpoint, elmo_config(checkpoint))

    assert all(tensor.is_contiguous() for tensor in state.values())
    assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in state.values())
    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)


def convert_damaged(folder: Path, name: str, array: np.ndarray | None) -> None:
    """Convert a model of which one array is replaced, added or, with `None`, taken away."""
    weights, options = write_bilm_hdf5(folder)
    with h5py.File(weights, "a") as file:
        if name in file:
            del file[name]
        if array is not None:
            file[name] = array
    with read_original([weights, options]) as checkpoint:
        to_state_dict(checkpoint, elmo_config(checkpoint))


def test_names_the_array_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(
        ConversionError, match=r"weights.hdf5 lacks arrays that options.json calls for: CNN_proj/b_proj. Give"
    ):
        convert_damaged(tmp_path, "CNN_proj/b_proj", None)


def test_names_the_array_that_is_left_over(tmp_path: Path) -> None:
    with pytest.raises(
        ConversionError, match=r"weights.hdf5 has arrays that options.json does not call for: CNN_high_2/W_carry. Give"
    ):
        convert_damaged(tmp_path, "CNN_high_2/W_carry", np.zeros((16, 16), np.float32))


def test_names_both_shapes(tmp_path: Path) -> None:
    with pytest.raises(
        ConversionError, match=r"array CNN_proj/W_proj is \(4, 16\), options.json calls for \(16, 4\). Give"
    ):
        convert_damaged(tmp_path, "CNN_proj/W_proj", np.zeros((4, 16), np.float32))


def test_names_the_array_that_holds_nan(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="array CNN_high_0/b_carry holds NaN"):
        convert_damaged(tmp_path, "CNN_high_0/b_carry", np.full(16, np.nan, np.float32))


def test_many_missing_arrays_make_one_short_line(tmp_path: Path) -> None:
    weights, _ = write_bilm_hdf5(tmp_path / "two", n_layers=2)
    _, options = write_bilm_hdf5(tmp_path / "three", n_layers=3)

    with (
        read_original([weights, options]) as checkpoint,
        pytest.raises(ConversionError, match=r"lacks arrays .*Cell2/LSTMCell/B and 2 more") as caught,
    ):
        to_state_dict(checkpoint, elmo_config(checkpoint))

    assert "\n" not in str(caught.value)


def test_options_of_another_model(tmp_path: Path) -> None:
    weights, _ = write_bilm_hdf5(tmp_path / "narrow", dim=8)
    _, options = write_bilm_hdf5(tmp_path / "wide", dim=16)

    with (
        read_original([weights, options]) as checkpoint,
        pytest.raises(ConversionError, match=r"array RNN_0/.*W_0 is \(8, 32\), options.json calls for \(8, 64\)"),
    ):
        to_state_dict(checkpoint, elmo_config(checkpoint))


def test_shapes_are_compared_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_hf_conversion.readers.bilm_hdf5._read", lambda *_: pytest.fail("read too early"))

    with pytest.raises(ConversionError, match="calls for"):
        convert_damaged(tmp_path, "CNN_proj/b_proj", np.zeros(5, np.float32))


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param({}, id="joined"),
        pytest.param({"word_dim": 0, "dim": 4, "filters": ((1, 4),)}, id="characters, equal widths"),
        pytest.param({"char_dim": 0, "n_layers": 1}, id="words, one layer"),
    ],
)
def test_many_langs_there_and_back_is_the_same_to_the_bit(shape: dict[str, Any], tmp_path: Path) -> None:
    with read_original([write_many_langs(tmp_path, **shape)]) as checkpoint:
        config = elmo_config(checkpoint)
        original, state = arrays_of(checkpoint), to_state_dict(checkpoint, config)
        restored = to_original(state, rules_of(checkpoint, config))

    assert restored.keys() == original.keys()
    for name, array in original.items():
        np.testing.assert_array_equal(restored[name], array)


def test_many_langs_gates_what_is_kept(tmp_path: Path) -> None:
    with read_original([write_many_langs(tmp_path)]) as checkpoint:
        original, state = arrays_of(checkpoint), to_state_dict(checkpoint, elmo_config(checkpoint))

    transform, carry = np.split(original["highways._layers.1.weight"], 2)
    np.testing.assert_array_equal(state["token_encoder.highways.1.transform.weight"], transform)
    np.testing.assert_array_equal(state["token_encoder.highways.1.gate.weight"], -carry)


def test_many_langs_padding_of_a_word_is_no_padding(tmp_path: Path) -> None:
    with read_original([write_many_langs(tmp_path)]) as checkpoint:
        original, state = arrays_of(checkpoint), to_state_dict(checkpoint, elmo_config(checkpoint))

    for part in ("word", "char"):
        table = state[f"token_encoder.{part}_embeddings.weight"]
        assert not table[0].any()
        np.testing.assert_array_equal(table[1:], original[f"{part}_emb_layer.embedding.weight"])


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"n_layers": 1},
        {"dim": 4},
        {"projection_dim": 4, "filters": [(1, 1), (2, 3)]},
        {"token_input": True, "vocabulary": ["the", "<S>", "of"]},
    ],
    ids=["usual", "one layer", "no projection", "no projection of characters", "words"],
)
def test_a_checkpoint_of_tensorflow_gives_what_its_dump_gives(shape: dict[str, Any], tmp_path: Path) -> None:
    weights, _ = write_bilm_hdf5(tmp_path, **shape)
    with read_original([tmp_path]) as dump:
        expected = to_state_dict(dump, elmo_config(dump))
    write_tensorflow_checkpoint(tmp_path, tensorflow_variables(read_bilm_hdf5(weights)))
    weights.unlink()

    with read_original([tmp_path]) as checkpoint:
        state = to_state_dict(checkpoint, elmo_config(checkpoint))

    assert state.keys() == expected.keys()
    for name, tensor in state.items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.parametrize("shape", [{}, {"token_input": True}], ids=["characters", "words"])
def test_the_softmax_has_the_rows_of_the_vocabulary_below_one_for_padding(
    shape: dict[str, Any], tmp_path: Path
) -> None:
    write_training_folder(tmp_path, **shape)

    with read_original([tmp_path]) as checkpoint:
        config = elmo_config(checkpoint)
        original, state = arrays_of(checkpoint), to_state_dict(checkpoint, config)

    assert not config.tie_word_embeddings
    for part, name in (("weight", "lm/softmax/W"), ("bias", "lm/softmax/b")):
        table = state[f"softmax.{part}"]
        assert len(table) == config.vocab_size == len(VOCABULARY) + 1
        assert not table[0].any()
        np.testing.assert_array_equal(table[1:], original[name])


@pytest.mark.parametrize("share", [False, True], ids=["own table", "that of the words"])
def test_there_and_back_is_the_same_with_a_softmax(share: bool, tmp_path: Path) -> None:
    write_training_folder(tmp_path, token_input=True, share_embedding_softmax=share)

    with read_original([tmp_path]) as checkpoint:
        config = elmo_config(checkpoint)
        state = to_state_dict(checkpoint, config)
        restored = to_original(state, rules_of(checkpoint, config))
        original = arrays_of(checkpoint)

    assert config.tie_word_embeddings == share == ("softmax.weight" not in state)
    assert restored.keys() == original.keys()
    for name, array in restored.items():
        np.testing.assert_array_equal(array, original[name], err_msg=name)


@pytest.mark.parametrize("missing", ["lm/softmax/W", "lm/softmax/b"])
def test_half_a_softmax(missing: str, tmp_path: Path) -> None:
    variables = write_training_folder(tmp_path)
    del variables[missing]
    write_tensorflow_checkpoint(tmp_path, variables)

    with (
        read_original([tmp_path]) as checkpoint,
        pytest.raises(ConversionError, match=f"model.ckpt-7 lacks arrays that options.json calls for: {missing}"),
    ):
        to_state_dict(checkpoint, elmo_config(checkpoint))


def test_tensors_of_allennlp_give_what_the_file_they_are_from_gives(tmp_path: Path) -> None:
    torch.save(allennlp_elmo(tmp_path), tmp_path / "weights.th")
    with read_original([tmp_path / "weights.hdf5", tmp_path / "options.json"]) as original:
        expected = to_state_dict(original, elmo_config(original))
    for name, tensor in expected.items():
        if name.endswith(".bias") and "input_projections" in name:
            # the 1 of the forget gate, which is second
            tensor[CELL : 2 * CELL] += 1

    with read_original([tmp_path / "weights.th"]) as checkpoint:
        state = to_state_dict(checkpoint, elmo_config(checkpoint))

    assert state.pop("scalar_mix.weights").tolist() == [0, 0.5, 1]
    assert state.pop("scalar_mix.gamma").tolist() == [2]
    assert state.keys() == expected.keys()
    for name, tensor in state.items():
        assert torch.equal(tensor, expected[name]), name


def test_there_and_back_is_the_same_for_allennlp(tmp_path: Path) -> None:
    torch.save(
        {f"elmo_es.{name}": tensor for name, tensor in allennlp_elmo(tmp_path).items()}
        | {"aligning_es.weight": torch.randn(8, 8)},
        tmp_path / "weights.th",
    )

    with read_original([tmp_path / "weights.th"]) as checkpoint:
        config = elmo_config(checkpoint)
        restored = to_original(to_state_dict(checkpoint, config), rules_of(checkpoint, config))
        original = arrays_of(checkpoint)

    assert restored.keys() == original.keys()
    for name, array in restored.items():
        np.testing.assert_array_equal(array, original[name], err_msg=name)


def test_a_mix_without_a_layer(tmp_path: Path) -> None:
    state = allennlp_elmo(tmp_path)
    del state["scalar_mix_0.scalar_parameters.2"]
    torch.save(state, tmp_path / "weights.th")

    with (
        read_original([tmp_path / "weights.th"]) as checkpoint,
        pytest.raises(ConversionError, match=r"lacks arrays that the shape.*: scalar_mix_0.scalar_parameters.2"),
    ):
        to_state_dict(checkpoint, elmo_config(checkpoint))
