"""`elmo_hf.configuration_elmo`: defaults, what is refused, and the round trip through JSON."""

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
        pytest.param({"hidden_size": 0}, "must be even", id="no width"),
        pytest.param({"char_embedding_dim": 0}, "would read nothing", id="no input"),
        pytest.param({"cell_clip": 0}, "None not to clip", id="clip of nothing"),
        pytest.param({"projection_clip": -3.0}, "None not to clip", id="negative clip"),
        pytest.param({"max_characters_per_token": 6}, "spans 7 characters", id="filter wider than a word"),
        pytest.param({"char_filters": []}, "spans 0 characters", id="no filters"),
        pytest.param({"num_hidden_layers": "two"}, "num_hidden_layers", id="wrong type"),
    ],
)
def test_refuses_what_makes_no_model(fields: dict, message: str) -> None:
    with pytest.raises(Exception, match=message):
        ElmoConfig(**fields)


def test_a_word_model_has_no_character_features() -> None:
    config = ElmoConfig(char_embedding_dim=0, word_embedding_dim=12)

    assert config.char_feature_dim == 0
