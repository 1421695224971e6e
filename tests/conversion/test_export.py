"""`conversion.export`: what was converted comes back bit by bit, and what cannot come back is said.

Expected arrays are those of the original file; vectors are those of `NumpyBilm`, which reads the exported file itself.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

from elmo_hf import ElmoError, ElmoForMaskedLM, ElmoForPreTraining, ElmoForTokenClassification, ElmoModel
from elmo_hf_conversion import ConversionError, convert, export
from elmo_hf_conversion.numpy_bilm import NumpyBilm
from support.fresh_python import FRESH_PYTHON
from support.original_formats import (
    VOCABULARY,
    allennlp_elmo,
    read_bilm_hdf5,
    tensorflow_variables,
    write_bilm_hdf5,
    write_tensorflow_checkpoint,
    write_training_folder,
)


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "vocabulary": {"vocabulary": VOCABULARY},
    "words": {"token_input": True},
    "words-without-special-ones": {"token_input": True, "vocabulary": ["the", "<S>", "of"]},
    "three-layers": {"n_layers": 3},
    "no-cell-projection": {"dim": 4},
    "no-token-projection": {"dim": 32, "projection_dim": 16},
    "no-highways": {"n_highway": 0},
    "tanh-20-characters": {"activation": "tanh", "max_characters": 20},
    "no-skip-connections": {"use_skip_connections": False},
    "unclipped": {"cell_clip": 0, "proj_clip": None},
    "unknown-options": {"reverse": True, "n_tokens_vocab": 12, "dropout": 0.1},
}


def read_options(folder: Path) -> dict[str, Any]:
    options: dict[str, Any] = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    return options


def assert_same_arrays(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], strict=True, err_msg=name)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The folder of a converted model."""
    convert(write_bilm_hdf5(tmp_path / "original"), tmp_path / "model")
    return tmp_path / "model"


def changed(folder: Path, change: Any) -> Path:
    """Save a copy whose weights were changed."""
    model = AutoModel.from_pretrained(folder)
    with torch.no_grad():
        change(model)
    copy = folder.with_name("changed")
    model.save_pretrained(copy)
    AutoTokenizer.from_pretrained(folder).save_pretrained(copy)
    return copy


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_what_was_not_trained_comes_back(shape: dict[str, Any], tmp_path: Path) -> None:
    weights, _ = write_bilm_hdf5(tmp_path / "original", **shape)
    convert([tmp_path / "original"], tmp_path / "model")

    export(tmp_path / "model", tmp_path / "exported")

    assert_same_arrays(read_bilm_hdf5(tmp_path / "exported/weights.hdf5"), read_bilm_hdf5(weights))
    assert read_options(tmp_path / "exported") == read_options(tmp_path / "original")
    vocabulary = tmp_path / "original/vocab.txt"
    assert vocabulary.exists() == (tmp_path / "exported/vocab.txt").exists()
    assert not vocabulary.exists() or vocabulary.read_bytes() == (tmp_path / "exported/vocab.txt").read_bytes()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_there_and_back_and_there_again_is_the_same_model(shape: dict[str, Any], tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "original", **shape)
    convert([tmp_path / "original"], tmp_path / "model")

    export(tmp_path / "model", tmp_path / "exported")
    convert([tmp_path / "exported"], tmp_path / "again")
    export(tmp_path / "again", tmp_path / "exported again")

    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (tmp_path / "model" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    for path in (tmp_path / "exported").iterdir():
        assert path.read_bytes() == (tmp_path / "exported again" / path.name).read_bytes()


def test_a_single_layer_gets_the_names_that_are_read(tmp_path: Path) -> None:
    weights, _ = write_bilm_hdf5(tmp_path / "original", n_layers=1)
    convert([tmp_path / "original"], tmp_path / "model")

    export(tmp_path / "model", tmp_path / "exported")

    # training names it `LSTMCell` alone, which no program reads for vectors
    expected = {
        name.replace("/LSTMCell/", "/MultiRNNCell/Cell0/LSTMCell/"): array
        for name, array in read_bilm_hdf5(weights).items()
    }
    assert_same_arrays(read_bilm_hdf5(tmp_path / "exported/weights.hdf5"), expected)


def test_a_checkpoint_of_tensorflow_becomes_what_bilm_tf_would_dump(tmp_path: Path) -> None:
    weights, _ = write_bilm_hdf5(tmp_path / "original", n_characters=261)
    arrays = read_bilm_hdf5(weights)
    write_tensorflow_checkpoint(tmp_path / "original", tensorflow_variables(arrays))
    weights.unlink()
    convert([tmp_path / "original"], tmp_path / "model")

    export(tmp_path / "model", tmp_path / "exported")

    assert_same_arrays(read_bilm_hdf5(tmp_path / "exported/weights.hdf5"), arrays)
    assert read_options(tmp_path / "exported")["char_cnn"]["n_characters"] == 262


def test_a_model_of_allennlp_is_shifted_by_the_forget_bias(tmp_path: Path) -> None:
    torch.save(allennlp_elmo(tmp_path / "original"), tmp_path / "weights.th")
    convert([tmp_path / "weights.th"], tmp_path / "model")

    notes = export(tmp_path / "model", tmp_path / "exported")

    exported = read_bilm_hdf5(tmp_path / "exported/weights.hdf5")
    original = read_bilm_hdf5(tmp_path / "original/weights.hdf5")
    assert exported.keys() == original.keys()
    for name, array in original.items():
        np.testing.assert_allclose(exported[name], array, rtol=0, atol=3e-7, err_msg=name)
    # what was rounded when 1 was added is not rounded again
    (note,) = notes
    assert note.startswith("The trained mix of the layers was left out")


def test_biases_that_cannot_be_shifted_exactly_are_counted(tmp_path: Path) -> None:
    state = allennlp_elmo(tmp_path / "original", mixes=0)
    # the forget gate of the first cell, C = 8
    state["_elmo_lstm._elmo_lstm.forward_layer_0.state_linearity.bias"][8:11] = torch.tensor([1e-9, 1.5, 2e-9])
    torch.save(state, tmp_path / "weights.th")
    convert([tmp_path / "weights.th"], tmp_path / "model")

    notes = export(tmp_path / "model", tmp_path / "exported")

    assert len(notes) == 1
    assert "2 of 32 biases were rounded, by 2.0e-09 at most" in notes[0]


def test_once_exported_a_model_of_allennlp_is_stable(tmp_path: Path) -> None:
    torch.save(allennlp_elmo(tmp_path / "original"), tmp_path / "weights.th")
    convert([tmp_path / "weights.th"], tmp_path / "model")
    export(tmp_path / "model", tmp_path / "exported")

    convert([tmp_path / "exported"], tmp_path / "again")
    export(tmp_path / "again", tmp_path / "exported again")

    again = tmp_path / "exported again/weights.hdf5"
    assert again.read_bytes() == (tmp_path / "exported/weights.hdf5").read_bytes()


def test_a_trained_model_gives_its_own_vectors(model: Path, tmp_path: Path) -> None:
    trained = changed(model, lambda each: [parameter.mul_(0.5) for parameter in each.layers.parameters()])
    words = ["Hà", "Nội", "EU-wide", "", "."]
    batch = AutoTokenizer.from_pretrained(trained)([words], is_split_into_words=True, return_tensors="pt")

    export(trained, tmp_path / "exported")

    layers = NumpyBilm(tmp_path / "exported/weights.hdf5", tmp_path / "exported/options.json").layers(words)
    with torch.inference_mode():
        output = AutoModel.from_pretrained(trained)(**batch, output_hidden_states=True)
    # [L + 1, words, H]
    computed = torch.stack(output.hidden_states)[:, 0, 1:-1].numpy()
    np.testing.assert_allclose(computed, layers, rtol=0, atol=1e-5)


def test_options_are_made_where_none_are_recorded(model: Path, tmp_path: Path) -> None:
    (model / "provenance.json").unlink()

    export(model, tmp_path / "exported")

    assert read_options(tmp_path / "exported") == read_options(tmp_path / "original")


def test_options_that_do_not_hold_any_more_are_replaced(model: Path, tmp_path: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"cell_clip": None, "projection_clip": 2.5}))

    export(model, tmp_path / "exported")

    lstm = read_options(tmp_path / "exported")["lstm"]
    assert (lstm["cell_clip"], lstm["proj_clip"]) == (None, 2.5)


@pytest.mark.parametrize("options", [None, 5, [], {"lstm": 5}, {"lstm": {}, "char_cnn": []}])
def test_damaged_records_count_as_none(options: Any, model: Path, tmp_path: Path) -> None:
    (model / "provenance.json").write_text(json.dumps({"options": options}))

    export(model, tmp_path / "exported")

    assert read_options(tmp_path / "exported") == read_options(tmp_path / "original")


@pytest.mark.parametrize("key", ["lstm.cell_clip", "lstm.use_skip_connections", "char_cnn.n_highway", "bidirectional"])
def test_keys_that_readers_need_are_there(key: str, tmp_path: Path) -> None:
    shape = {"cell_clip": None, "use_skip_connections": False, "n_highway": 0}
    convert(write_bilm_hdf5(tmp_path / "original", omit=[key], **shape), tmp_path / "model")

    export(tmp_path / "model", tmp_path / "exported")

    value: Any = read_options(tmp_path / "exported")
    for part in key.split("."):
        value = value[part]
    assert value in (None, False, 0, True)


def test_a_tagger_leaves_its_head(model: Path, tmp_path: Path) -> None:
    ElmoForTokenClassification.from_pretrained(model, num_labels=3).save_pretrained(tmp_path / "tagger")

    notes = export(tmp_path / "tagger", tmp_path / "exported")

    original = read_bilm_hdf5(tmp_path / "original/weights.hdf5")
    assert_same_arrays(read_bilm_hdf5(tmp_path / "exported/weights.hdf5"), original)
    (note,) = notes
    assert "Left out" in note
    assert "classifier" in note


@pytest.mark.parametrize("share", [False, True], ids=["own table", "that of the words"])
@pytest.mark.parametrize("cls", [ElmoForPreTraining, ElmoForMaskedLM])
def test_a_language_model_leaves_its_softmax(cls: type[PreTrainedModel], share: bool, tmp_path: Path) -> None:
    original = tmp_path / "original"
    write_training_folder(original, keep_dump=True, token_input=True, share_embedding_softmax=share)
    expected = read_bilm_hdf5(original / "weights.hdf5")
    (original / "weights.hdf5").unlink()
    convert([original], tmp_path / "model")
    cls.from_pretrained(tmp_path / "model").save_pretrained(tmp_path / "copy")
    AutoTokenizer.from_pretrained(tmp_path / "model").save_pretrained(tmp_path / "copy")

    notes = export(tmp_path / "copy", tmp_path / "exported")

    assert_same_arrays(read_bilm_hdf5(tmp_path / "exported/weights.hdf5"), expected)
    assert (tmp_path / "exported/vocab.txt").read_bytes() == (original / "vocab.txt").read_bytes()
    assert notes[0] == "The softmax was left out: bilm-tf, too, writes none in this format."
    assert not [note for note in notes[1:] if "softmax" in note]


def test_several_files_of_weights(model: Path, tmp_path: Path) -> None:
    AutoModel.from_pretrained(model).save_pretrained(tmp_path / "sharded", max_shard_size="2KB")
    assert len([*(tmp_path / "sharded").glob("*.safetensors")]) > 1

    export(tmp_path / "sharded", tmp_path / "exported")

    original = read_bilm_hdf5(tmp_path / "original/weights.hdf5")
    assert_same_arrays(read_bilm_hdf5(tmp_path / "exported/weights.hdf5"), original)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions_become_float32(dtype: torch.dtype, model: Path, tmp_path: Path) -> None:
    AutoModel.from_pretrained(model, dtype=dtype).save_pretrained(tmp_path / "cast")

    export(tmp_path / "cast", tmp_path / "exported")

    original = read_bilm_hdf5(tmp_path / "original/weights.hdf5")
    expected = {name: torch.tensor(array).to(dtype).float().numpy() for name, array in original.items()}
    assert_same_arrays(read_bilm_hdf5(tmp_path / "exported/weights.hdf5"), expected)


def train_mix(model: ElmoModel) -> None:
    model.scalar_mix.weights += torch.tensor([0.5, 0.0, -0.25])


def test_a_trained_mix_is_told(model: Path, tmp_path: Path) -> None:
    notes = export(changed(model, train_mix), tmp_path / "exported")

    (note,) = notes
    assert "weights 0.5, 0, -0.25, gamma 1" in note
    assert "scalar_mix_parameters" in note


def test_equal_weights_are_the_mean_and_so_no_mix(model: Path, tmp_path: Path) -> None:
    assert export(changed(model, lambda each: each.scalar_mix.weights.add_(0.5)), tmp_path / "exported") == ()


def test_trained_rows_of_appended_words_get_their_lines(tmp_path: Path) -> None:
    convert([write_words(tmp_path / "original")], tmp_path / "model")

    def train(model: ElmoModel) -> None:
        model.token_encoder.word_embeddings.weight[-2:] = torch.tensor([[1.0], [2.0]])

    export(changed(tmp_path / "model", train), tmp_path / "exported")

    # `</S>` and `<UNK>` were appended to these
    assert (tmp_path / "exported/vocab.txt").read_text().split() == ["the", "<S>", "of", "</S>", "<UNK>"]
    embedding = read_bilm_hdf5(tmp_path / "exported/weights.hdf5")["embedding"]
    np.testing.assert_array_equal(embedding[3:], [[1] * 4, [2] * 4])


def write_words(folder: Path) -> Path:
    write_bilm_hdf5(folder, token_input=True, vocabulary=["the", "<S>", "of"])
    return folder


def test_repeated_lines_of_a_vocabulary_keep_the_numbers(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "original", vocabulary=["the", "", "<S>", "the", "</S>", "<UNK>", "<PAD>", ""])
    convert([tmp_path / "original"], tmp_path / "model")

    export(tmp_path / "model", tmp_path / "exported")

    # the last of equal lines counts, so that the first of them can say anything
    lines = (tmp_path / "exported/vocab.txt").read_text().split("\n")[:-1]
    assert lines == ["<PAD>", "<PAD>", "<S>", "the", "</S>", "<UNK>", "<PAD>", ""]


ALLENNLP_CANNOT = {
    "word input": {"token_input": True},
    "cells as wide as the projection": {"dim": 4},
    "no token projection": {"dim": 32, "projection_dim": 16},
    "no skip connections": {"use_skip_connections": False},
    "words of other than 50 characters": {"max_characters": 20},
}


@pytest.mark.parametrize(("reason", "shape"), ALLENNLP_CANNOT.items(), ids=ALLENNLP_CANNOT.keys())
def test_what_only_bilm_tf_reads_is_told(reason: str, shape: dict[str, Any], tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "original", **shape)
    convert([tmp_path / "original"], tmp_path / "model")

    notes = export(tmp_path / "model", tmp_path / "exported")

    assert notes == (f"For bilm-tf only: AllenNLP and Flair do not take {reason}.",)


def set_nan(model: PreTrainedModel) -> None:
    model.layers[0].output_weight[0, 0, 0] = torch.nan


def test_numbers_that_are_none_are_refused(model: Path, tmp_path: Path) -> None:
    folder = changed(model, set_nan)

    with pytest.raises(ConversionError, match=r"weight layers.0.output_weight holds NaN"):
        export(folder, tmp_path / "exported")

    assert not (tmp_path / "exported").exists()


def rewrite(folder: Path, **changes: torch.Tensor | None) -> None:
    weights = load_file(folder / "model.safetensors")
    for name, tensor in changes.items():
        del weights[name]
        if tensor is not None:
            weights[name] = tensor
    save_file(weights, folder / "model.safetensors")


def test_a_missing_weight_is_named(model: Path, tmp_path: Path) -> None:
    rewrite(model, **{"layers.1.recurrent_weight": None})

    with pytest.raises(ConversionError, match=r"the weights lack layers.1.recurrent_weight"):
        export(model, tmp_path / "exported")


def test_a_weight_of_another_shape_is_named(model: Path, tmp_path: Path) -> None:
    rewrite(model, **{"token_encoder.projection.bias": torch.zeros(5)})

    with pytest.raises(ConversionError, match=r"projection.bias is \(5,\), config.json calls for \(4,\)"):
        export(model, tmp_path / "exported")


def test_no_weights(model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").unlink()

    with pytest.raises(ConversionError, match=r"has no weights \(model.safetensors\)"):
        export(model, tmp_path / "exported")


@pytest.mark.parametrize("size", [0, 100, 3000])
def test_damaged_weights(size: int, model: Path, tmp_path: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])

    with pytest.raises(ConversionError, match=r"model.safetensors is damaged"):
        export(model, tmp_path / "exported")


@pytest.mark.parametrize("name", ["../elsewhere.safetensors", "/etc/passwd", "..", 5, "gone.safetensors"])
def test_an_index_cannot_lead_elsewhere(name: Any, model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    index = {"weight_map": {"layers.0.output_weight": name}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))

    with pytest.raises(ConversionError, match=r"has no weights|lacks (gone.safetensors|\.\.)"):
        export(model, tmp_path / "exported")


UNFIT = {
    "joins words and characters": {"word_embedding_dim": 4, "always_project": True},
    "reads words through a projection": {"word_embedding_dim": 6, "char_embedding_dim": 0, "always_project": True},
    "reads the characters of a dictionary": {"char_vocab_size": 200},
    "projects to the width that it already has": {"always_project": True, "intermediate_size": 4},
}


@pytest.mark.parametrize(("reason", "fields"), UNFIT.items(), ids=UNFIT.keys())
def test_what_the_format_cannot_hold_is_refused(
    reason: str, fields: dict[str, Any], model: Path, tmp_path: Path
) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | fields))

    with pytest.raises(ConversionError, match=reason):
        export(model, tmp_path / "exported")

    assert not (tmp_path / "exported").exists()


def test_a_large_dictionary_of_characters_is_refused(model: Path, tmp_path: Path) -> None:
    config = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps(config | {"spelling": "dictionary"}))

    with pytest.raises(ConversionError, match=r"dictionary of its own|tokenizer in .* is damaged"):
        export(model, tmp_path / "exported")


def test_a_model_that_reads_words_needs_its_tokenizer(tmp_path: Path) -> None:
    convert([write_words(tmp_path / "original")], tmp_path / "model")
    (tmp_path / "model/tokenizer.json").unlink()

    with pytest.raises(ConversionError, match="the tokenizer has 0 words, the model 6"):
        export(tmp_path / "model", tmp_path / "exported")


def test_an_output_that_exists_is_left_alone(model: Path, tmp_path: Path) -> None:
    (tmp_path / "exported").mkdir()

    with pytest.raises(ElmoError, match="exists already"):
        export(model, tmp_path / "exported")

    assert not list((tmp_path / "exported").iterdir())


def test_a_format_that_is_not_there(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"no format 'onnx' to export to. Give one of: allennlp-hdf5"):
        export(model, tmp_path / "exported", format="onnx")


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match="is not a model folder"):
        export(tmp_path, tmp_path / "exported")


def test_a_full_disk_is_one_error_and_no_crash(model: Path, tmp_path: Path) -> None:
    program = """
import resource, sys
from pathlib import Path
from elmo_hf import ElmoError
from elmo_hf_conversion import export
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    export(sys.argv[1], Path(sys.argv[2]))
except ElmoError as error:
    print(error)
"""
    done = subprocess.run(
        [*FRESH_PYTHON, "-c", program, str(model), str(tmp_path / "out")], capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "out cannot be written (File too large)" in done.stdout
    assert not any(path.name.endswith("partial") or path.name == "out" for path in tmp_path.iterdir())
