"""`conversion.config`: options become the configuration, with the defaults of the original programs."""

import gzip
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch

from elmo_hf import ElmoConfig
from elmo_hf_conversion import ConversionError, read_original
from elmo_hf_conversion.config import elmo_config, word_ids
from support.many_langs_format import CHARACTERS, CONFIG_NAME, MARKS, WORDS, write_dictionary, write_many_langs
from support.original_formats import (
    VOCABULARY,
    allennlp_elmo,
    read_bilm_hdf5,
    tensorflow_variables,
    write_bilm_hdf5,
    write_tensorflow_checkpoint,
    write_training_folder,
)


def config_of(folder: Path, *sources: Path) -> ElmoConfig:
    with read_original(sources or [folder]) as checkpoint:
        return elmo_config(checkpoint)


def edited(folder: Path, key: str, value: Any, **shape: Any) -> Path:
    """A model with one option changed; `key` is a path such as `lstm.dim`."""
    _, path = write_bilm_hdf5(folder, **shape)
    options = json.loads(path.read_text(encoding="utf-8"))
    *sections, last = key.split(".")
    section = options
    for name in sections:
        section = section[name]
    section[last] = value
    path.write_text(json.dumps(options), encoding="utf-8")
    return folder


def test_every_option_arrives(tmp_path: Path) -> None:
    write_bilm_hdf5(
        tmp_path,
        n_layers=3,
        dim=12,
        projection_dim=6,
        filters=[(1, 3), (4, 5)],
        n_highway=1,
        activation="tanh",
        use_skip_connections=False,
        cell_clip=1.5,
        proj_clip=2,
        max_characters=20,
        char_dim=7,
    )

    config = config_of(tmp_path)

    assert config.num_hidden_layers == 3
    assert config.intermediate_size == 12
    assert config.hidden_size == 12
    assert config.char_filters == [[1, 3], [4, 5]]
    assert config.num_highway_layers == 1
    assert config.hidden_act == "tanh"
    assert config.use_skip_connections is False
    assert config.cell_clip == 1.5
    assert config.projection_clip == 2
    assert config.max_characters_per_token == 20
    assert config.char_embedding_dim == 7
    assert config.char_vocab_size == 262
    assert config.word_embedding_dim == 0
    assert config.vocab_size == 4


DEFAULTS = {
    "lstm.n_layers": ("num_hidden_layers", 1, {"n_layers": 1}),
    "lstm.cell_clip": ("cell_clip", None, {}),
    "lstm.proj_clip": ("projection_clip", None, {}),
    "lstm.use_skip_connections": ("use_skip_connections", False, {}),
    "char_cnn.n_highway": ("num_highway_layers", 0, {"n_highway": 0}),
    "char_cnn.max_characters_per_token": ("max_characters_per_token", 50, {}),
    "char_cnn.n_characters": ("char_vocab_size", 262, {}),
    "bidirectional": ("num_hidden_layers", 2, {}),
}


@pytest.mark.parametrize("key", DEFAULTS)
def test_a_missing_option_has_the_default_of_bilm_tf(key: str, tmp_path: Path) -> None:
    field, value, shape = DEFAULTS[key]
    write_bilm_hdf5(tmp_path, omit=[key], **shape)

    assert getattr(config_of(tmp_path), field) == value


@pytest.mark.parametrize("key", ["lstm.n_layers", "lstm.use_skip_connections", "char_cnn.n_highway"])
def test_null_stands_for_a_missing_option(key: str, tmp_path: Path) -> None:
    field, value, shape = DEFAULTS[key]
    edited(tmp_path, key, None, **shape)

    assert getattr(config_of(tmp_path), field) == value


def test_null_in_place_of_the_characters_is_a_model_that_reads_words(tmp_path: Path) -> None:
    edited(tmp_path, "char_cnn", None, token_input=True)

    config = config_of(tmp_path)

    assert (config.char_embedding_dim, config.word_embedding_dim, config.vocab_size) == (0, 4, len(VOCABULARY) + 1)


@pytest.mark.parametrize("clip", [None, 0, 0.0])
def test_no_clip(clip: float | None, tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, cell_clip=clip, proj_clip=clip)

    config = config_of(tmp_path)

    assert config.cell_clip is None
    assert config.projection_clip is None


@pytest.mark.parametrize("said", [261, 262])
def test_characters_are_counted_in_the_array(said: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_bilm_hdf5(tmp_path, n_characters=said)

    assert config_of(tmp_path).char_vocab_size == 262
    assert not caplog.records


def test_another_number_of_characters_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_bilm_hdf5(tmp_path, n_characters=256000)

    assert config_of(tmp_path).char_vocab_size == 262
    assert "n_characters is 256000, but char_embed has 261 rows" in caplog.text


@pytest.mark.parametrize("rows", [262, 267])
def test_more_rows_than_bytes_and_markers_are_reported(
    rows: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    weights, _ = write_bilm_hdf5(tmp_path, n_characters=rows)
    with h5py.File(weights, "a") as file:
        table = file["char_embed"][...]
        del file["char_embed"]
        file["char_embed"] = [*table, *table[: rows - 261]]

    assert config_of(tmp_path).char_vocab_size == rows + 1
    assert f"array char_embed has {rows} rows, more than the 261 of bytes and markers" in caplog.text
    assert len(caplog.records) == 1


def test_too_few_characters_for_bytes(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path)
    with h5py.File(weights, "a") as file:
        del file["char_embed"]
        file["char_embed"] = [[1.0] * 4] * 100

    with pytest.raises(ConversionError, match="array char_embed has 100 rows, fewer than the 261"):
        config_of(tmp_path, weights, options)


def test_unknown_options_are_kept_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_bilm_hdf5(tmp_path, reverse=True, n_epochs=10)
    edited(tmp_path, "lstm.kind", "new", reverse=True, n_epochs=10)

    config = config_of(tmp_path)

    assert config.original_options == {"lstm.kind": "new", "reverse": True}
    assert "options.json: options kept, but not used: lstm.kind, reverse" in caplog.text


def test_options_of_the_training_program_are_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_bilm_hdf5(tmp_path, n_epochs=10, dropout=0.1, batch_size=128, unroll_steps=20, n_tokens_vocab=793471)

    with caplog.at_level(logging.INFO):
        config = config_of(tmp_path)

    assert not hasattr(config, "original_options")
    assert not caplog.records


WRONG = {
    "lstm": ([], r"options.json: lstm is \[\]; it must be an object"),
    "lstm.dim": ("8", 'options.json: lstm.dim is "8"; it must be a whole number from 1 to 65536'),
    "lstm.projection_dim": (-4, "lstm.projection_dim is -4; it must be a whole number from 1"),
    "lstm.n_layers": (10**9, "lstm.n_layers is 1000000000; it must be a whole number from 1 to 64"),
    "lstm.cell_clip": (-3, "lstm.cell_clip is -3; it must be a number, 0 or null for no clipping"),
    "lstm.proj_clip": (True, "lstm.proj_clip is true; it must be a number"),
    "lstm.use_skip_connections": ("yes", 'lstm.use_skip_connections is "yes"; it must be true or false'),
    "char_cnn": ([], r"char_cnn is \[\]; it must be an object"),
    "char_cnn.activation": ("gelu", 'char_cnn.activation is "gelu"; it must be "relu" or "tanh"'),
    "char_cnn.embedding": (4, "char_cnn.embedding is 4; it must be an object"),
    "char_cnn.embedding.dim": (1.5, "char_cnn.embedding.dim is 1.5; it must be a whole number"),
    "char_cnn.filters": ([[1, 4], [60, 4]], r"char_cnn.filters is .*widths up to 50"),
    "char_cnn.max_characters_per_token": (
        2,
        "char_cnn.max_characters_per_token is 2; it must be a whole",
    ),
    "char_cnn.n_highway": (-1, "char_cnn.n_highway is -1; it must be a whole number from 0 to 64"),
    "bidirectional": (False, "bidirectional is false; it must be true: a model of one direction is not an ELMo"),
}


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_option_is_named(key: str, tmp_path: Path) -> None:
    value, message = WRONG[key]
    edited(tmp_path, key, value)

    with pytest.raises(ConversionError, match=message):
        config_of(tmp_path)


FILTERS: dict[str, Any] = {
    "none": [],
    "no-list": 3,
    "no-pair": [[1, 2, 3]],
    "text": [["1", 4]],
    "no-width": [[0, 4]],
    "too-many": [[1, 4]] * 65,
    "too-wide": [[1, 40000], [2, 40000]],
}


@pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS.keys())
def test_wrong_filters(filters: Any, tmp_path: Path) -> None:
    edited(tmp_path, "char_cnn.filters", filters)

    with pytest.raises(ConversionError, match=r"char_cnn.filters is .*; it must be a list of \[width, number\]"):
        config_of(tmp_path)


@pytest.mark.parametrize("key", ["lstm.dim", "lstm.projection_dim", "char_cnn.activation", "char_cnn.embedding"])
def test_a_missing_option_without_default_is_named(key: str, tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, omit=[key])

    with pytest.raises(ConversionError, match=f"options.json: {key} is missing; it must be"):
        config_of(tmp_path)


def test_a_projection_wider_than_the_cell(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, dim=8, projection_dim=16)

    with pytest.raises(ConversionError, match=r"lstm.projection_dim is 16; it must be at most lstm.dim, which is 8"):
        config_of(tmp_path)


def test_what_makes_no_model_for_reasons_of_its_own_is_named(tmp_path: Path) -> None:
    edited(tmp_path, "lstm.proj_clip", 1e12)

    with pytest.raises(ConversionError, match=r"^options\.json: `projection_clip` is 1"):
        config_of(tmp_path)


def test_words_instead_of_characters(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, token_input=True)

    config = config_of(tmp_path)

    assert config.word_embedding_dim == 4
    assert config.char_embedding_dim == 0
    assert config.vocab_size == len(VOCABULARY) + 1


def test_words_without_a_vocabulary(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path, token_input=True)

    with pytest.raises(ConversionError, match=r"weights.hdf5 reads words, .*12 rows\), and needs its vocabulary"):
        config_of(tmp_path, *sources)


def test_words_with_a_vocabulary_of_another_length(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, token_input=True)
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")

    with pytest.raises(ConversionError, match=r"vocab.txt has 3 words, but array embedding of .* has 12 rows"):
        config_of(tmp_path)


def test_options_of_a_character_model_for_a_word_model(tmp_path: Path) -> None:
    weights, _ = write_bilm_hdf5(tmp_path / "words", token_input=True)
    _, options = write_bilm_hdf5(tmp_path / "characters")

    with pytest.raises(ConversionError, match=r"array char_embed is missing, options.json calls for a matrix"):
        config_of(tmp_path, weights, options)


def test_a_vocabulary_gives_a_character_model_its_word_ids(tmp_path: Path) -> None:
    sources = write_bilm_hdf5(tmp_path)
    path = tmp_path / "words.gz"
    path.write_bytes(gzip.compress(b"the\n</S>\n<S>\n<UNK>\n"))

    config = config_of(tmp_path, *sources, path)

    assert (config.vocab_size, config.bos_token_id, config.eos_token_id) == (5, 3, 2)


def test_a_vocabulary_of_another_size_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_bilm_hdf5(tmp_path, vocabulary=VOCABULARY, n_tokens_vocab=5)

    config_of(tmp_path)

    assert "vocab.txt has 12 words, but options.json says n_tokens_vocab 5" in caplog.text


WORD_IDS = {
    "usual": (("<S>", "</S>", "<UNK>", "the"), (5, 1, 2, 3)),
    "elsewhere": (("the", "<UNK>", "</S>", "<S>"), (5, 4, 3, 2)),
    "missing-ones-are-appended": (("the", "of"), (6, 3, 4, 5)),
    "only-unk-missing": (("</S>", "<S>"), (4, 2, 1, 3)),
    "the-last-of-doubles-counts": (("<S>", "</S>", "<S>", "<UNK>"), (5, 3, 2, 4)),
}


@pytest.mark.parametrize(("vocabulary", "ids"), WORD_IDS.values(), ids=WORD_IDS.keys())
def test_word_ids(vocabulary: tuple[str, ...], ids: tuple[int, ...]) -> None:
    assert tuple(word_ids(vocabulary).values()) == ids


# ELMoForManyLangs


def edited_many_langs(folder: Path, key: str, value: Any, **shape: Any) -> Path:
    """A model of ELMoForManyLangs with one option changed; `key` is a path such as `encoder.dim`."""
    path = write_many_langs(folder, **shape) / CONFIG_NAME
    options = json.loads(path.read_text(encoding="utf-8"))
    section, _, last = key.rpartition(".")
    (options[section] if section else options)[last] = value
    path.write_text(json.dumps(options), encoding="utf-8")
    return folder


def test_every_option_of_many_langs_arrives(tmp_path: Path) -> None:
    write_many_langs(tmp_path, n_layers=3, dim=12, projection_dim=6, n_highway=1, activation="tanh", clip=1.5)

    config = config_of(tmp_path)

    assert (config.hidden_size, config.intermediate_size, config.num_hidden_layers) == (12, 12, 3)
    assert (config.word_embedding_dim, config.char_embedding_dim) == (6, 5)
    assert (config.vocab_size, config.char_vocab_size) == (len(WORDS) + 1, len(CHARACTERS) + 1)
    assert config.char_filters == [[1, 3], [2, 4], [3, 5]]
    assert (config.num_highway_layers, config.hidden_act, config.max_characters_per_token) == (1, "tanh", 12)
    assert (config.cell_clip, config.projection_clip, config.forget_bias) == (1.5, 1.5, 0.0)
    assert config.use_skip_connections
    assert config.always_project
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id, config.unk_token_id) == (0, 2, 3, 1)


def test_a_model_of_characters_alone_has_its_words_all_the_same(tmp_path: Path) -> None:
    config = config_of(write_many_langs(tmp_path, word_dim=0))

    assert (config.vocab_size, config.word_embedding_dim) == (len(WORDS) + 1, 0)


def test_a_model_of_characters_alone_does_without_words(tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path, word_dim=0)
    (folder / "word.dic").unlink()

    config = config_of(folder)

    assert (config.vocab_size, config.bos_token_id, config.eos_token_id) == (4, 1, 2)


def test_an_unknown_option_of_many_langs_is_kept_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_of(edited_many_langs(tmp_path, "token_embedder.char_cased", False))

    assert config.original_options == {"token_embedder.char_cased": False}
    assert "options kept, but not used: token_embedder.char_cased" in caplog.text


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("encoder", None, "cnn_tiny.json: encoder is null; it must be an object"),
        ("encoder.name", "lstm", 'encoder.name is "lstm"; it must be "elmo"'),
        ("token_embedder.name", "lstm", 'token_embedder.name is "lstm"; it must be "cnn"'),
        ("encoder.dim", 0, "encoder.dim is 0; it must be a whole number from 1"),
        ("encoder.dim", "8", 'encoder.dim is "8"; it must be a whole number'),
        ("encoder.cell_clip", -1, "encoder.cell_clip is -1; it must be a number, 0 or null"),
        ("token_embedder.word_dim", -6, "token_embedder.word_dim is -6; it must be a whole number from 0"),
        ("token_embedder.word_dim", 10**9, "token_embedder.word_dim is 1000000000; it must be a whole number"),
        ("token_embedder.filters", [[1]], "token_embedder.filters is .*; it must be a list of"),
        ("token_embedder.filters", [[13, 2]], "with widths up to 12"),
        ("token_embedder.activation", "gelu", 'token_embedder.activation is "gelu"; it must be "relu" or "tanh"'),
        (
            "token_embedder.max_characters_per_token",
            2,
            "max_characters_per_token is 2; it must be a whole number from 3",
        ),
    ],
)
def test_an_option_of_many_langs_out_of_range(key: str, value: Any, message: str, tmp_path: Path) -> None:
    folder = edited_many_langs(tmp_path, key, value)

    with pytest.raises(ConversionError, match=message):
        config_of(folder)


def test_a_model_of_many_langs_that_reads_nothing(tmp_path: Path) -> None:
    folder = edited_many_langs(tmp_path, "token_embedder.char_dim", 0, word_dim=0)

    with pytest.raises(ConversionError, match="word_dim is 0; it must not be 0 where char_dim is 0"):
        config_of(folder)


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("char.dic", [f"{i}" for i in range(19)], "char.dic lacks <bos>, <eos>, <oov>, <pad>, <bow>, <eow>"),
        ("char.dic", (*CHARACTERS, "z"), "char.dic goes up to number 19, but the table .* has 19 rows"),
        ("char.dic", MARKS, "char.dic goes up to number 5, but the table .* has 19 rows"),
        ("word.dic", ("the", "<oov>", *WORDS[3:], "a"), "word.dic lacks <bos>, <eos>"),
        ("word.dic", WORDS[:-1], "word.dic goes up to number 9, but the table .* has 11 rows"),
        ("word.dic", (*WORDS, "z"), "word.dic goes up to number 11, but the table .* has 11 rows"),
        ("char.dic", None, "cnn_tiny.json calls for characters, char_dim 5, and there is no char.dic"),
        ("word.dic", None, "the model reads words, and there is no word.dic"),
    ],
)
def test_a_dictionary_of_another_model(name: str, keys: Sequence[str] | None, message: str, tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path)
    (folder / name).unlink()
    if keys is not None:
        write_dictionary(folder / name, keys)

    with pytest.raises(ConversionError, match=message):
        config_of(folder)


def test_sizes_of_allennlp_are_those_of_its_tensors(tmp_path: Path) -> None:
    torch.save(allennlp_elmo(tmp_path), tmp_path / "weights.th")
    from_options = config_of(tmp_path, tmp_path / "weights.hdf5", tmp_path / "options.json").to_dict()

    config = config_of(tmp_path, tmp_path / "weights.th").to_dict()

    assert config == from_options | {"forget_bias": 0.0, "always_project": True}
    assert (config["cell_clip"], config["projection_clip"], config["max_characters_per_token"]) == (3, 3, 50)
    assert config["use_skip_connections"] is True


def test_options_beside_the_tensors_of_allennlp_count(tmp_path: Path) -> None:
    torch.save(allennlp_elmo(tmp_path), tmp_path / "weights.th")
    _, options = write_bilm_hdf5(tmp_path / "other", cell_clip=None, max_characters=20, use_skip_connections=False)

    config = config_of(tmp_path, tmp_path / "weights.th", options)

    assert (config.cell_clip, config.projection_clip, config.max_characters_per_token) == (None, 3, 20)
    assert config.use_skip_connections is False


def test_one_language_is_aligned(tmp_path: Path) -> None:
    state = allennlp_elmo(tmp_path, prefix="elmo_es.") | {"aligning_es.weight": torch.eye(8)}
    torch.save(state, tmp_path / "weights.th")

    assert config_of(tmp_path, tmp_path / "weights.th").alignment is True


def test_tensors_of_allennlp_without_an_lstm(tmp_path: Path) -> None:
    state = {name: tensor for name, tensor in allennlp_elmo(tmp_path).items() if "_layer_" not in name}
    torch.save(state, tmp_path / "weights.th")

    with pytest.raises(ConversionError, match=r"forward_layer_0.state_projection.weight is missing"):
        config_of(tmp_path, tmp_path / "weights.th")


def test_words_of_a_checkpoint_need_their_vocabulary(tmp_path: Path) -> None:
    weights, _ = write_bilm_hdf5(tmp_path, token_input=True)
    write_tensorflow_checkpoint(tmp_path, tensorflow_variables(read_bilm_hdf5(weights)))
    for name in ("weights.hdf5", "vocab.txt"):
        (tmp_path / name).unlink()

    with pytest.raises(
        ConversionError, match=r"model.ckpt-7 reads words, not characters .array lm/embedding, 12 rows"
    ):
        config_of(tmp_path)


@pytest.mark.parametrize(
    ("options", "samples"),
    [
        ({"n_negative_samples_batch": 8192}, 8192),
        ({}, 0),
        ({"n_negative_samples_batch": 8192, "sample_softmax": False}, 0),
    ],
    ids=["sampled", "not said", "not sampled"],
)
def test_words_that_the_softmax_samples(options: dict[str, Any], samples: int, tmp_path: Path) -> None:
    write_training_folder(tmp_path, **options)

    assert config_of(tmp_path).num_negative_samples == samples


def test_without_a_softmax_none_are_sampled(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path, vocabulary=VOCABULARY, n_negative_samples_batch=8192, share_embedding_softmax=True)

    config = config_of(tmp_path)

    assert (config.num_negative_samples, config.tie_word_embeddings) == (0, False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_negative_samples_batch": "many"}, 'n_negative_samples_batch is "many"; it must be a whole number from 0'),
        ({"sample_softmax": 1}, "sample_softmax is 1; it must be true or false"),
    ],
)
def test_options_of_the_softmax_that_are_none(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_training_folder(tmp_path, **options)

    with pytest.raises(ConversionError, match=f"options.json: {message}"):
        config_of(tmp_path)


@pytest.mark.parametrize("share", [False, True])
def test_a_softmax_that_is_the_table_of_the_words(share: bool, tmp_path: Path) -> None:
    write_training_folder(tmp_path, token_input=True, share_embedding_softmax=share)

    assert config_of(tmp_path).tie_word_embeddings is share


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("_elmo_lstm._elmo_lstm.forward_layer_0.state_projection.weight", (9, 8), "projection: 9, not 1 to 8"),
        ("_elmo_lstm._token_embedder.char_conv_0.weight", (3, 4, 51), r"\[width, number\]: \[\[51, 3\]"),
    ],
)
def test_tensors_of_allennlp_of_sizes_that_no_elmo_has(
    name: str, shape: tuple[int, ...], message: str, tmp_path: Path
) -> None:
    state = allennlp_elmo(tmp_path)
    state[name] = torch.ones(shape)
    torch.save(state, tmp_path / "weights.th")

    with pytest.raises(ConversionError, match=f"weights.th has arrays of no ELMo .*{message}"):
        config_of(tmp_path, tmp_path / "weights.th")
