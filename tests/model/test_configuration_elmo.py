"""`model.configuration_elmo`: defaults, what is refused, and the round trip through JSON."""

from pathlib import Path

import pytest

from elmo_hf import ElmoConfig


def test_defaults_are_the_original_release() -> None:
    config = ElmoConfig()

    assert (config.hidden_size, config.intermediate_size, config.num_hidden_layers) == (1024, 4096, 2)
    assert config.char_feature_dim == 2048
    assert (config.char_vocab_size, config.max_characters_per_token) == (262, 50)


def test_equals_its_saved_copy(tmp_path: Path) -> None:
    config = ElmoConfig(char_filters=((2, 3), (1, 5)), cell_clip=None, num_labels=7)

    config.save_pretrained(tmp_path)

    assert ElmoConfig.from_pretrained(tmp_path).to_dict() == config.to_dict()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"hidden_size": 31}, "must be even", id="odd width"),
        pytest.param({"hidden_size": 0}, "hidden_size", id="no width"),
        pytest.param({"char_embedding_dim": 0}, "would read nothing", id="no input"),
        pytest.param({"cell_clip": 0}, "cell_clip", id="clip of nothing"),
        pytest.param({"cell_clip": float("nan")}, "cell_clip", id="clip of no number"),
        pytest.param({"projection_clip": -3.0}, "projection_clip", id="negative clip"),
        pytest.param({"max_characters_per_token": 6}, "max_characters_per_token`, which is 6", id="too wide a filter"),
        pytest.param({"char_filters": []}, "`char_filters` is empty", id="no filters"),
        pytest.param({"char_filters": [[1, -4]]}, r"\[1, -4\]", id="negative filters"),
        pytest.param({"char_filters": [[1, 2, 3]]}, r"\[1, 2, 3\]", id="no pair"),
        pytest.param({"hidden_act": "gelu"}, "relu, tanh", id="not monotonic"),
        pytest.param({"num_highway_layers": -1}, "num_highway_layers", id="negative depth"),
        pytest.param({"num_hidden_layers": 10_000_000}, "1 to 64", id="absurd depth"),
        pytest.param({"intermediate_size": 10**9}, "intermediate_size", id="absurd width"),
        pytest.param({"vocab_size": -1}, "vocab_size", id="negative vocabulary"),
        pytest.param({"hidden_dropout_prob": 7}, "hidden_dropout_prob", id="no probability"),
        pytest.param({"word_embedding_dim": 4, "pad_token_id": None}, "pad_token_id", id="words without padding"),
        pytest.param({"num_hidden_layers": "two"}, "num_hidden_layers", id="wrong type"),
    ],
)
def test_refuses_what_makes_no_model(fields: dict, message: str) -> None:
    with pytest.raises(Exception, match=message):
        ElmoConfig(**fields)


def test_a_word_model_has_no_character_features() -> None:
    config = ElmoConfig(char_embedding_dim=0, word_embedding_dim=12)

    assert config.char_feature_dim == 0


def test_labels_named_in_one_direction_are_known_in_both(tmp_path: Path) -> None:
    config = ElmoConfig(id2label={0: "no", 1: "yes"})
    assert config.label2id == {"no": 0, "yes": 1}
    # as scripts change it
    config.id2label, config.label2id = {0: "bad", 1: "good"}, None

    config.save_pretrained(tmp_path)

    assert ElmoConfig.from_pretrained(tmp_path).label2id == {"bad": 0, "good": 1}
