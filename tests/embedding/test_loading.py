"""`embedding.loading` loads a whole model, or says in one line what is wrong with its folder."""

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModel, PreTrainedModel
from transformers.utils import logging as transformers_logging

from elmo_hf import ElmoForTokenClassification, ElmoInt8Config, ElmoTokenizer
from elmo_hf.embedding import embed, load
from elmo_hf.errors import ElmoError
from support.damage import set_weight
from support.sentence_vectors import Loaded, alone
from support.tiny_models import tiny_model


def test_loads_a_model_in_evaluation_mode(loaded: Loaded) -> None:
    model, tokenizer = load(loaded[0].name_or_path)

    assert not model.training
    assert next(embed(model, tokenizer, [["The"]])).shape == (1, 8)


def test_threads_load_one_after_the_other(loaded: Loaded) -> None:
    tie_weights = PreTrainedModel.tie_weights

    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(load, [loaded[0].name_or_path] * 8))

    assert len(models) == 8
    # Transformers exchanges it while it loads
    assert PreTrainedModel.tie_weights is tie_weights


def as_tagger(folder: Path) -> None:
    """Replace a model by a tagger of it, whose weights have a prefix, and a head."""
    ElmoForTokenClassification.from_pretrained(folder).save_pretrained(folder)


def set_config(folder: Path, **values: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


@pytest.mark.parametrize("prepare", [lambda _: None, as_tagger], ids=["model", "tagger"])
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "num_highway_layers",
            1,
            r"not call for, (elmo\.)?token_encoder\.highways\.1\.gate\.bias, .*transform\.weight: convert",
        ),
        ("num_hidden_layers", 1, r"lack, or have in another shape, scalar_mix\.weights: convert"),
        ("num_highway_layers", 3, r"lack, .*shape, token_encoder\.highways\.2\.gate\.bias, .*: convert"),
        ("hidden_size", 16, r"lack, .* and \d+ more: convert"),
    ],
)
def test_weights_that_do_not_fit_the_configuration(
    field: str, value: int, message: str, prepare: Callable[[Path], None], copy: Path
) -> None:
    prepare(copy)
    set_config(copy, **{field: value})

    with pytest.raises(ElmoError, match=message):
        load(copy)


@pytest.fixture
def transformers_log(
    library_logging: None,  # noqa: ARG001 - puts the level back
    caplog: pytest.LogCaptureFixture,
) -> Iterator[pytest.LogCaptureFixture]:
    """What Transformers logs while it loads weights."""
    transformers_logging.set_verbosity_warning()
    transformers_logging.enable_progress_bar()
    logger = logging.getLogger("transformers.modeling_utils")
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


def test_loads_quietly(
    copy: Path, transformers_log: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    as_tagger(copy)
    assert "classifier.weight" in transformers_log.text
    transformers_log.clear()
    capsys.readouterr()

    # the head is left out, which is what it was asked for
    load(copy)

    assert (transformers_log.text, capsys.readouterr().err) == ("", "")
    # Transformers itself goes on to report what is new or left out
    AutoModel.from_pretrained(copy)
    assert "classifier.weight" in transformers_log.text
    assert "Loading weights" in capsys.readouterr().err


def test_loads_the_model_of_a_tagger(copy: Path, loaded: Loaded) -> None:
    as_tagger(copy)

    (array,) = embed(*load(copy), [["The", "bank"]])

    np.testing.assert_array_equal(array, next(embed(*loaded, [["The", "bank"]])))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda array: array * np.float32("nan"), r"NaN or infinite numbers in layers\.0\.recurrent_weight: convert"),
        (lambda array: array / np.float32(0), r"NaN or infinite numbers in layers\.0\.recurrent_weight: convert"),
        (lambda array: array.astype(np.int8), r"integers in layers\.0\.recurrent_weight: convert"),
    ],
    ids=["NaN", "infinity", "int8"],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_weights_that_are_no_numbers(change: Callable[[np.ndarray], np.ndarray], message: str, copy: Path) -> None:
    set_weight(copy, "layers.0.recurrent_weight", change)

    with pytest.raises(ElmoError, match=message):
        load(copy)


def test_a_tagger_with_words_of_its_own_gives_vectors_and_one_without_elmo_none(tmp_path: Path) -> None:
    tokenizer = ElmoTokenizer(max_characters_per_token=20, task_vocab=["king"])
    for place in ("input", "none"):
        fields = {"mix_at": place, "num_task_words": 3, "task_word_embedding_dim": 4, "num_labels": 3}
        tiny_model(ElmoForTokenClassification, **fields).save_pretrained(tmp_path / place)
        tokenizer.save_pretrained(tmp_path / place)

    model, again = load(tmp_path / "input")
    (vectors,) = embed(model, again, [["the", "king"]])
    assert vectors.shape == (2, 16)
    with pytest.raises(ElmoError, match=r"none is a task's model without ELMo \(its mix_at is 'none'\), which has no"):
        load(tmp_path / "none")


def test_loads_int8_weights(loaded: Loaded, tmp_path: Path) -> None:
    folder = loaded[0].name_or_path
    AutoModel.from_pretrained(folder, quantization_config=ElmoInt8Config()).save_pretrained(tmp_path / "int8")
    loaded[1].save_pretrained(tmp_path / "int8")

    (array,) = embed(*load(tmp_path / "int8"), [["The", "bank"]])

    # of random weights, which are rounded
    np.testing.assert_allclose(array, alone(loaded, ["The", "bank"])[0], rtol=0, atol=0.1)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff\x00", b"[" * 100_000])
def test_whatever_is_damaged_is_one_line_that_names_the_folder(name: str, content: bytes, copy: Path) -> None:
    (copy / name).write_bytes(content)

    with pytest.raises(ElmoError, match=rf"^The \w+ in {copy} .*: convert it again\.$"):
        load(copy)
