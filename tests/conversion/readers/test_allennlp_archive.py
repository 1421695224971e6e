"""`conversion.readers.allennlp_archive`: the ELMo of a trained model is found by the ends of its names."""

import logging
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_hf_conversion import ConversionError, read_original
from support.original_formats import VOCABULARY, allennlp_elmo, write_allennlp_archive, write_bilm_hdf5


State = dict[str, torch.Tensor]

PREFIX = "text_field_embedder.token_embedder_elmo._elmo."
TABLE = "_elmo_lstm._token_embedder._char_embedding_weights"
REST = {
    "encoder._module.weight_ih_l0": torch.ones(3, 4),
    "encoder.steps": torch.tensor(3),
    "encoder.shared": torch.ones(1).expand(1000, 1000),
}


@pytest.fixture
def state(tmp_path: Path) -> State:
    """A trained tagger with two mixes."""
    return REST | allennlp_elmo(tmp_path / "bilm", prefix=PREFIX, mixes=2)


def one_of_each(folder: Path, *languages: str) -> State:
    """AllenNLP's ELMo of several languages."""
    state: State = {}
    for seed, language in enumerate(languages):
        state |= allennlp_elmo(folder / language, prefix=f"embedder.elmo_{language}.", seed=seed)
        state[f"embedder.aligning_{language}.weight"] = torch.full((8, 8), float(seed))
    return state


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
def test_an_archive(zipped: bool, state: State, tmp_path: Path) -> None:
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state, zipped=zipped)

    with read_original([path]) as checkpoint:
        arrays = {name: array.read() for name, array in checkpoint.arrays.items()}

    assert checkpoint.format == "allennlp-torch"
    assert {name for name in arrays if not name.startswith("_elmo_lstm.")} == {
        "scalar_mix_0.gamma",
        *(f"scalar_mix_0.scalar_parameters.{j}" for j in range(3)),
    }
    np.testing.assert_array_equal(arrays[TABLE], state[f"{PREFIX}{TABLE}"].numpy())
    assert len(arrays) == 4 + sum("_elmo_lstm." in name for name in state)
    assert checkpoint.chosen == {"prefix": PREFIX, "mix": 0}
    assert set(checkpoint.left) == {*REST, *(name for name in state if "scalar_mix_1" in name)}
    assert [source.name for source in checkpoint.sources] == [
        "model.tar.gz",
        "model.tar.gz/weights.th",
        "model.tar.gz/config.json",
    ]
    assert checkpoint.options == {}


@pytest.mark.parametrize("prefix", ["", "a.b.", "_elmo.", "elmo_en."])
def test_weights_alone_with_any_prefix(prefix: str, tmp_path: Path) -> None:
    torch.save(allennlp_elmo(tmp_path, prefix=prefix), tmp_path / "best.th")

    with read_original([tmp_path / "best.th"]) as checkpoint:
        assert TABLE in checkpoint.arrays
        assert "scalar_mix_0.gamma" in checkpoint.arrays
    assert checkpoint.left == ()


def test_a_bilm_alone(tmp_path: Path) -> None:
    elmo = allennlp_elmo(tmp_path, mixes=0)
    bilm = {name.removeprefix("_elmo_lstm."): tensor for name, tensor in elmo.items()}
    bilm["_token_embedder._beginning_of_sentence_characters"] = torch.arange(50)
    torch.save(bilm, tmp_path / "weights.th")

    with read_original([tmp_path / "weights.th"]) as checkpoint:
        assert set(checkpoint.arrays) == set(elmo)
    assert checkpoint.left == ("_token_embedder._beginning_of_sentence_characters",)


def test_another_mix(state: State, tmp_path: Path) -> None:
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state)

    with read_original([path], mix=1) as checkpoint:
        assert checkpoint.arrays["scalar_mix_1.gamma"].read() == 3
        assert "scalar_mix_0.gamma" not in checkpoint.arrays


def test_a_mix_that_is_not_there(state: State, tmp_path: Path) -> None:
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state)

    with pytest.raises(ConversionError, match=r"weights.th has no mix 2. There is: 0, 1\."):
        read_original([path], mix=2)


def test_a_mix_of_a_model_without(tmp_path: Path) -> None:
    torch.save(allennlp_elmo(tmp_path, mixes=0), tmp_path / "weights.th")

    with pytest.raises(ConversionError, match="There is: none at all"):
        read_original([tmp_path / "weights.th"], mix=0)


def test_the_same_elmo_twice(state: State, tmp_path: Path) -> None:
    again = {f"hypothesis_{name}": tensor.clone() for name, tensor in state.items() if name.startswith(PREFIX)}
    torch.save(state | again, tmp_path / "weights.th")

    with read_original([tmp_path / "weights.th"]) as checkpoint:
        assert checkpoint.chosen["prefix"] == PREFIX
    assert set(again) < set(checkpoint.left)


def test_two_elmos_that_differ(state: State, tmp_path: Path) -> None:
    torch.save(state | allennlp_elmo(tmp_path, prefix="other.", mixes=2, seed=1), tmp_path / "weights.th")

    with pytest.raises(ConversionError, match=rf"2 ELMos that differ, with prefixes {PREFIX}, other\."):
        read_original([tmp_path / "weights.th"])


def test_one_language_of_several(tmp_path: Path) -> None:
    state = one_of_each(tmp_path, "en", "es")
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state)

    with read_original([path], language="es") as checkpoint:
        np.testing.assert_array_equal(checkpoint.arrays[TABLE].read(), state[f"embedder.elmo_es.{TABLE}"].numpy())
        np.testing.assert_array_equal(checkpoint.arrays["aligning_es.weight"].read(), np.ones((8, 8)))
    assert checkpoint.chosen == {"prefix": "embedder.elmo_es.", "mix": 0, "language": "es"}
    assert "embedder.aligning_en.weight" in checkpoint.left


@pytest.mark.parametrize(
    ("languages", "language", "message"),
    [
        (("en", "es"), None, "has ELMos of several languages: en, es. Give one, as --language"),
        (("en", "es"), "de", "has no --language de. Languages in it: en, es"),
        ((), "de", "has no --language de. Languages in it: none"),
    ],
)
def test_a_language_that_is_not_there(
    languages: tuple[str, ...], language: str | None, message: str, tmp_path: Path
) -> None:
    torch.save(one_of_each(tmp_path, *languages) or allennlp_elmo(tmp_path), tmp_path / "weights.th")

    with pytest.raises(ConversionError, match=re.escape(message)):
        read_original([tmp_path / "weights.th"], language=language)


def test_options_in_the_archive(state: State, tmp_path: Path) -> None:
    _, options = write_bilm_hdf5(tmp_path / "bilm", cell_clip=5)
    name = "fta/model.text_field_embedder.token_embedders.elmo.options_file"
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state, members={name: options.read_bytes()})

    with read_original([path]) as checkpoint:
        assert checkpoint.options["lstm"]["cell_clip"] == 5
    assert checkpoint.options_name == f"model.tar.gz/{name}"


def test_options_and_a_vocabulary_given_beside(state: State, tmp_path: Path) -> None:
    _, options = write_bilm_hdf5(tmp_path / "bilm", vocabulary=VOCABULARY)
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state)

    with read_original([path, options, tmp_path / "bilm/vocab.txt"]) as checkpoint:
        assert checkpoint.options_name == "options.json"
        assert checkpoint.vocabulary == VOCABULARY


def test_the_weights_of_before_the_training_in_the_archive(state: State, tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path / "before", seed=1)
    members = {"fta/weight_file": weights.read_bytes(), "fta/options_file": options.read_bytes()}
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state, members=members)

    with read_original([path]) as checkpoint:
        assert checkpoint.format == "allennlp-torch"


def test_a_folder_of_a_training(state: State, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("best.th", "model_state_epoch_3.th", "weights.th"):
        torch.save(state, folder / name)

    with read_original([folder]) as checkpoint:
        assert checkpoint.weights_name == "best.th"


def test_layer_normalisation_is_not_reproduced(state: State, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = {"model": {"embedders": [{"type": "elmo_token_embedder", "do_layer_norm": True}]}}
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state, config=config)

    with caplog.at_level(logging.WARNING), read_original([path]):
        pass

    assert [record.getMessage() for record in caplog.records] == [
        "model.tar.gz/config.json: do_layer_norm is true; this is not reproduced, so the mixed vectors differ from "
        "AllenNLP's."
    ]


class Evil:
    """Prints when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return print, (TABLE,)


def test_no_pickle_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "weights.th").write_bytes(pickle.dumps({TABLE: Evil()}, protocol=2))

    with pytest.raises(ConversionError) as caught:
        read_original([tmp_path / "weights.th"])

    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


def test_a_tensor_that_repeats_itself(state: State, tmp_path: Path) -> None:
    state[f"{PREFIX}{TABLE}"] = torch.ones(1).expand(100_000, 10_000)
    torch.save(state, tmp_path / "weights.th")

    with pytest.raises(ConversionError, match=rf"array {TABLE}.* more"):
        read_original([tmp_path / "weights.th"])


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("kept", [0.4, 0.9, 0.999])
def test_truncated_weights(kept: float, zipped: bool, state: State, tmp_path: Path) -> None:
    path = tmp_path / "weights.th"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data))])

    with pytest.raises(ConversionError, match=r"weights.th .*damaged") as caught:
        read_original([path])

    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_part_of_it(state: State, tmp_path: Path) -> None:
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state)
    (tmp_path / "strange.bin").write_bytes(b"\x00")

    with pytest.raises(ConversionError, match=r"strange.bin .* is not part of this model"):
        read_original([path, tmp_path / "strange.bin"])
