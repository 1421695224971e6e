"""`conversion.readers.tensorflow_hub`: a module gives what the dump gives that it was made of."""

import json
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_hf_conversion import ConversionError, convert, read_original
from elmo_hf_conversion.config import elmo_config
from elmo_hf_conversion.mapping import rules_of, to_original, to_state_dict
from support.original_formats import (
    VOCABULARY,
    hub_variables,
    read_bilm_hdf5,
    write_bilm_hdf5,
    write_hub_module,
    write_tensorflow_checkpoint,
)


def variables_of(folder: Path, **shape: Any) -> dict[str, np.ndarray]:
    """Variables as in `write_bilm_hdf5`."""
    weights, _ = write_bilm_hdf5(folder, **shape)
    return hub_variables(read_bilm_hdf5(weights))


@pytest.fixture
def module(tmp_path: Path) -> Path:
    return write_hub_module(tmp_path / "module", variables_of(tmp_path / "dump"))


def test_the_variables_of_the_model_are_read_and_the_others_left(module: Path) -> None:
    with read_original([module]) as checkpoint:
        assert checkpoint.format == "tensorflow-hub"
        assert all(name.startswith("bilm/") for name in checkpoint.arrays)
        assert checkpoint.left == ("aggregation/scaling", "aggregation/weights", "bilm/Variable")
        assert checkpoint.options == {}
    assert [source.name for source in checkpoint.sources] == [
        "variables/variables.index",
        "variables/variables.data-00000-of-00001",
    ]


@pytest.mark.parametrize(
    "shape", [{}, {"n_layers": 3, "n_highway": 1}, {"projection_dim": 4, "filters": [(1, 1), (2, 3)]}]
)
def test_a_module_gives_what_its_dump_gives(shape: dict[str, Any], tmp_path: Path) -> None:
    write_hub_module(tmp_path / "module", variables_of(tmp_path / "dump", **shape))

    with read_original([tmp_path / "dump"]) as dump, read_original([tmp_path / "module"]) as module:
        assert elmo_config(module).to_dict() == elmo_config(dump).to_dict()
        expected, state = (to_state_dict(each, elmo_config(each)) for each in (dump, module))
        restored = to_original(state, rules_of(module, elmo_config(module)))
        original = {name: array.read() for name, array in module.arrays.items()}

    assert state.keys() == expected.keys()
    for name, tensor in state.items():
        assert torch.equal(tensor, expected[name]), name
    assert restored.keys() == original.keys()
    for name, array in restored.items():
        np.testing.assert_array_equal(array, original[name], err_msg=name)


def test_options_and_vocabulary_may_be_given(module: Path, tmp_path: Path) -> None:
    shape = {"cell_clip": 2, "use_skip_connections": False, "vocabulary": VOCABULARY}
    _, options = write_bilm_hdf5(tmp_path / "other", **shape)

    with read_original([module, options, options.with_name("vocab.txt")]) as checkpoint:
        config = elmo_config(checkpoint)

    assert (config.cell_clip, config.use_skip_connections, config.vocab_size) == (2, False, 13)


@pytest.mark.parametrize("pack", ["gztar", "zip"])
def test_in_an_archive(pack: str, module: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "elmo"), pack, module)

    config = convert([archive], tmp_path / "model")

    assert (config.hidden_size, config.intermediate_size, config.num_hidden_layers) == (8, 8, 2)
    provenance = json.loads((tmp_path / "model/provenance.json").read_text(encoding="utf-8"))
    assert provenance["format"] == "tensorflow-hub"
    assert provenance["left"][:2] == ["aggregation/scaling", "aggregation/weights"]
    assert provenance["language_model_head"] is False


def without_data(module: Path) -> None:
    (module / "variables/variables.data-00000-of-00001").unlink()


def another_model(module: Path) -> None:
    index = write_tensorflow_checkpoint(module / "variables", {"bert/embeddings": np.ones((2, 3), np.float32)})
    index.rename(index.with_name("variables.index"))


def two_modules(module: Path) -> None:
    shutil.copytree(module / "variables", module / "more/variables")


def without_a_layer(module: Path) -> None:
    variables = variables_of(module.parent / "again")
    del variables["bilm/RNN_1/RNN/MultiRNNCell/Cell1/rnn/lstm_cell/bias"]
    write_hub_module(module, variables)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without_data, "variables/variables.data-00000-of-00001 is missing among "),
        (another_model, r"variables.index has no variables of bilm-tf \(bilm/...\), but bert/embeddings"),
        (two_modules, "2 modules: more/variables/variables.index, variables/variables.index. Give the folder of one"),
        (without_a_layer, r"lacks arrays that the shape of its other variables calls for: bilm/RNN_1/.*/bias"),
    ],
)
def test_what_is_wrong_is_named(
    damage: Callable[[Path], None], message: str, module: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage(module)

    with caplog.at_level(logging.WARNING), pytest.raises(ConversionError) as caught:
        convert([module], module.parent / "model")

    assert re.search(message, str(caught.value))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_part_of_it(module: Path, tmp_path: Path) -> None:
    (tmp_path / "strange.bin").write_bytes(b"\x00")

    with pytest.raises(ConversionError, match=r"strange.bin .* is not part of this module"):
        read_original([module, tmp_path / "strange.bin"])
