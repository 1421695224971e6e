"""`conversion.numpy_bilm` against TensorFlow's own answers, and against small sums done by hand."""

import gzip
import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo_hf_conversion.numpy_bilm import NumpyBilm, spell
from support.original_formats import write_bilm_hdf5


# TensorFlow computed in float32
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def allennlp_bilm(allennlp_fixture: Path) -> NumpyBilm:
    return NumpyBilm(allennlp_fixture / "lm_weights.hdf5", allennlp_fixture / "options.json")


@pytest.mark.parametrize("row", [0, 1, 2])
def test_top_layer_equals_tensorflow_with_the_state_passed_on(
    row: int, allennlp_bilm: NumpyBilm, allennlp_fixture: Path
) -> None:
    sentences = json.loads((allennlp_fixture / "sentences.json").read_text(encoding="utf-8"))[row]
    state = None
    tops = []

    for sentence in sentences:
        layers, state = allennlp_bilm.run(sentence.split(), state)
        tops.append(layers[-1])

    with h5py.File(allennlp_fixture / f"lm_embeddings_{row}.hdf5") as file:
        recorded = [np.concatenate(list(file[str(i)][...]), axis=1) for i in range(10)]
    np.testing.assert_allclose(np.concatenate(tops), np.concatenate(recorded), rtol=0, atol=TOLERANCE)


def test_token_layer_equals_tensorflow(allennlp_bilm: NumpyBilm, allennlp_fixture: Path) -> None:
    words = (allennlp_fixture / "vocab_test.txt").read_text(encoding="utf-8").split("\n")

    tokens = allennlp_bilm.token_layer([word for word in words if word])

    with h5py.File(allennlp_fixture / "elmo_token_embeddings.hdf5") as file:
        np.testing.assert_allclose(tokens, file["embedding"][...], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("sentence", range(10))
@pytest.mark.parametrize(
    ("sources", "answers"),
    [
        pytest.param(("lm_weights_char.hdf5", "options.json"), "expected_char.npz", id="characters"),
        pytest.param(
            ("lm_weights_token.hdf5", "options_token.json", "data/vocab.txt"), "expected_token.npz", id="words"
        ),
    ],
)
def test_every_layer_equals_bilm_tf(sources: tuple[str, ...], answers: str, sentence: int, oracles: Path) -> None:
    folder = oracles / "bilm_tiny"
    bilm = NumpyBilm(*(folder / name for name in sources))
    words = (folder / "sentences10.txt").read_text(encoding="utf-8").split("\n")[sentence].split(" ")

    first, state = bilm.run(words)
    second = bilm.layers(words, state)

    with np.load(folder / answers) as expected:
        np.testing.assert_allclose(first, expected[str(sentence)], rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(second, expected[f"{sentence}_second"], rtol=0, atol=TOLERANCE)


def test_one_step_of_a_cell_without_projection_by_hand(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(
        tmp_path, n_layers=1, dim=2, projection_dim=2, token_input=True, vocabulary=["<S>", "</S>"], cell_clip=0.5
    )
    bilm = NumpyBilm(weights, options, tmp_path / "vocab.txt")

    layers = bilm.layers([], keep_boundaries=True)

    with h5py.File(weights) as file:
        kernel, bias = file["RNN_0/RNN/LSTMCell/W_0"][...], file["RNN_0/RNN/LSTMCell/B"][...]
        x = file["embedding"][0]
    # gates in TensorFlow's order i, j, f, o; from an empty cell the forget gate has nothing to forget
    gates = x @ kernel[:2] + bias
    cell = np.clip(np.tanh(gates[2:4]) / (1 + np.exp(-gates[0:2])), -0.5, 0.5)
    expected = np.tanh(cell) / (1 + np.exp(-gates[6:8]))
    np.testing.assert_allclose(layers[1, 0, :2], expected, rtol=1e-6)


def test_a_skip_connection_adds_the_layer_below_from_the_second_on(tmp_path: Path) -> None:
    plain = NumpyBilm(*write_bilm_hdf5(tmp_path / "plain", use_skip_connections=False))
    skipping = NumpyBilm(*write_bilm_hdf5(tmp_path / "skipping", use_skip_connections=True))
    words = ["the", "bank"]

    without, with_skips = plain.layers(words), skipping.layers(words)

    np.testing.assert_array_equal(with_skips[1], without[1])
    np.testing.assert_allclose(with_skips[2], without[2] + without[1])


def test_clips_that_are_absent_do_not_clip(tmp_path: Path) -> None:
    absent = write_bilm_hdf5(tmp_path / "absent", omit=["lstm.cell_clip", "lstm.proj_clip"])
    wide = write_bilm_hdf5(tmp_path / "wide", cell_clip=1e9, proj_clip=1e9)
    narrow = write_bilm_hdf5(tmp_path / "narrow", cell_clip=0.1, proj_clip=0.1)

    free, wide_layers, narrow_layers = (NumpyBilm(*files).layers(["the", "bank"]) for files in (absent, wide, narrow))

    np.testing.assert_array_equal(free, wide_layers)
    assert np.abs(narrow_layers[1]).max() == 0.1
    assert np.abs(free[1]).max() > 0.1


def test_both_names_of_a_single_layer_are_read(tmp_path: Path) -> None:
    alone = NumpyBilm(*write_bilm_hdf5(tmp_path / "alone", n_layers=1, multi_rnn_cell=False))
    stacked = NumpyBilm(*write_bilm_hdf5(tmp_path / "stacked", n_layers=1, multi_rnn_cell=True))

    np.testing.assert_array_equal(alone.layers(["the"]), stacked.layers(["the"]))


def test_sentences_side_by_side_are_those_one_by_one(tmp_path: Path) -> None:
    bilm = NumpyBilm(*write_bilm_hdf5(tmp_path, dim=4))
    sentences = [["the", "bank"], [], ["a", "b", "c", "d"], ["the"]]
    states = [None, bilm.run(["of"])[1], bilm.run(["the"])[1], None]

    together = bilm.run_many(sentences, states)

    for (layers, after), words, state in zip(together, sentences, states, strict=True):
        alone, after_alone = bilm.run(words, state)
        np.testing.assert_allclose(layers, alone, rtol=0, atol=1e-12)
        np.testing.assert_allclose(after[1][0][1], after_alone[1][0][1], rtol=0, atol=1e-12)


def test_a_sentence_without_words_has_no_vectors(tmp_path: Path) -> None:
    bilm = NumpyBilm(*write_bilm_hdf5(tmp_path))

    assert bilm.layers([]).shape == (3, 0, 8)


def test_a_word_is_spelled_by_its_first_bytes_between_its_marks() -> None:
    assert spell("é", 6) == [258, 0xC3, 0xA9, 259, 260, 260]
    assert spell("日本", 6) == [258, 0xE6, 0x97, 0xA5, 0xE6, 259]
    assert spell("", 4) == [258, 259, 260, 260]


def test_boundary_words_are_spelled_by_their_own_characters() -> None:
    assert spell("<S>", 5) == [258, 256, 259, 260, 260]
    assert spell("</S>", 5) == [258, 257, 259, 260, 260]
    assert spell("<s>", 6) == [258, *b"<s>", 259, 260]


def test_a_vocabulary_may_be_compressed(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path, token_input=True)
    compressed = tmp_path / "vocab.txt.gz"
    compressed.write_bytes(gzip.compress((tmp_path / "vocab.txt").read_bytes()))

    layers = NumpyBilm(weights, options, compressed).layers(["the", "Hà"])

    np.testing.assert_array_equal(layers, NumpyBilm(weights, options, tmp_path / "vocab.txt").layers(["the", "Hà"]))


def test_a_model_that_reads_words_asks_for_its_vocabulary(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path, token_input=True)

    with pytest.raises(ValueError, match="vocabulary"):
        NumpyBilm(weights, options)


def test_names_the_array_that_is_missing(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path)
    with h5py.File(weights, "a") as file:
        del file["CNN_high_1/W_carry"]

    with pytest.raises(ValueError, match="CNN_high_1/W_carry"):
        NumpyBilm(weights, options).layers(["the"])


def test_names_the_file_that_is_not_hdf5(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path)
    weights.write_bytes(b"not HDF5")

    with pytest.raises(ValueError, match=r"weights\.hdf5"):
        NumpyBilm(weights, options)
