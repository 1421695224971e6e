"""`elmo_hf.embedding`: right vectors in the right order, however they are batched, and files that hold them."""

import gc
import itertools
import json
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf import ElmoForTokenClassification
from elmo_hf.embedding import embed, load, open_vector_file, parse_layer
from elmo_hf.errors import ElmoError
from elmo_hf_conversion import convert
from original_formats import write_bilm_hdf5


Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]

# of sums in another order
TOLERANCE = 1e-5

SENTENCES = [["The", "bank"], [], ["a", "b", "c", "d", "e"], ["The", "bank"], [""], ["a / b"], ["日本語"] * 3]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("embedding")
    # without projection, rounding is not amplified from word to word
    convert(write_bilm_hdf5(folder / "original", dim=4), folder / "model")
    return AutoModel.from_pretrained(folder / "model"), AutoTokenizer.from_pretrained(folder / "model")


@torch.inference_mode()
def alone(loaded: Loaded, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mix `[words, H]` and all layers `[L + 1, words, H]` of one sentence."""
    model, tokenizer = loaded
    batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    output = model(**batch, output_hidden_states=True)
    return output.last_hidden_state[0, 1:-1].numpy(), torch.cat(output.hidden_states)[:, 1:-1].numpy()


@pytest.mark.parametrize("batch_size", [1, 2, 3, 32])
def test_each_sentence_has_its_own_vectors_in_the_given_order(batch_size: int, loaded: Loaded) -> None:
    vectors = list(embed(*loaded, SENTENCES, batch_size=batch_size))

    assert [array.shape for array in vectors] == [(len(words), 8) for words in SENTENCES]
    for array, words in zip(vectors, SENTENCES, strict=True):
        np.testing.assert_allclose(array, alone(loaded, words)[0], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("layer", "index"), [("top", 2), (0, 0), (1, 1), ("2", 2)])
def test_a_layer_is_that_of_the_model(layer: str | int, index: int, loaded: Loaded) -> None:
    (array,) = embed(*loaded, [["The", "bank"]], layer=layer)

    np.testing.assert_array_equal(array, alone(loaded, ["The", "bank"])[1][index])


def test_all_layers_come_as_one_array(loaded: Loaded) -> None:
    vectors = list(embed(*loaded, SENTENCES, layer="all"))

    assert [array.shape for array in vectors] == [(3, len(words), 8) for words in SENTENCES]
    np.testing.assert_allclose(vectors[2], alone(loaded, SENTENCES[2])[1], rtol=0, atol=TOLERANCE)


def test_raw_text_is_split_by_the_tokenizer(loaded: Loaded) -> None:
    (raw,) = embed(*loaded, ["The EU-wide bank."])
    (split,) = embed(*loaded, [["The", "EU-wide", "bank", "."]])

    np.testing.assert_array_equal(raw, split)


def test_a_tokenizer_may_pad_on_the_left(loaded: Loaded) -> None:
    model, tokenizer = loaded
    left = AutoTokenizer.from_pretrained(tokenizer.name_or_path, padding_side="left")

    for array, words in zip(embed(model, left, SENTENCES), SENTENCES, strict=True):
        np.testing.assert_allclose(array, alone(loaded, words)[0], rtol=0, atol=TOLERANCE)


def test_a_generator_is_read_as_far_as_needed(loaded: Loaded) -> None:
    read = 0

    def endless() -> Iterator[list[str]]:
        nonlocal read
        for read in itertools.count(1):  # noqa: B007 - counts what is taken
            yield ["The", "bank"]

    list(itertools.islice(embed(*loaded, endless(), batch_size=2), 100))

    assert read < 200


def test_no_sentences_give_no_vectors(loaded: Loaded) -> None:
    assert list(embed(*loaded, [])) == []


def test_vectors_need_no_gradient_and_are_float32(loaded: Loaded) -> None:
    model = AutoModel.from_pretrained(loaded[0].name_or_path, dtype=torch.bfloat16)

    (array,) = embed(model, loaded[1], [["The"]])

    assert array.dtype == np.float32


def test_a_model_in_training_mode_is_refused(loaded: Loaded) -> None:
    model = AutoModel.from_pretrained(loaded[0].name_or_path).train()

    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        next(embed(model, loaded[1], [["The"]]))


@pytest.mark.parametrize("layer", ["3", -1, "best", "", "1.0"])
def test_a_layer_that_is_not_there_is_named(layer: str | int) -> None:
    with pytest.raises(ElmoError, match=r"no layer .* from 0 to 2"):
        parse_layer(layer, 2)


def test_batches_of_nothing_are_refused(loaded: Loaded) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        next(embed(*loaded, [["The"]], batch_size=0))


ARRAYS = [np.full((2, 4), 1, np.float32), np.zeros((0, 4), np.float32), np.full((1, 4), 2, np.float32)]
LINES = ["a / b", "", "a / b"]


def read_vector_file(path: Path) -> dict[str, np.ndarray]:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    if path.suffix == ".safetensors":
        return load_file(path)
    with h5py.File(path) as file:
        return {key: file[key][...] for key in file if key != "sentence_to_index"}


@pytest.mark.parametrize("name", ["v.npz", "v.safetensors", "v.hdf5", "v.h5"])
def test_a_file_has_an_array_for_each_line_under_its_number(name: str, tmp_path: Path) -> None:
    with open_vector_file(tmp_path / name) as file:
        for line, array in zip(LINES, ARRAYS, strict=True):
            file.add(line, array)

    arrays = read_vector_file(tmp_path / name)
    assert sorted(arrays) == ["0", "1", "2"]
    for i, array in enumerate(ARRAYS):
        np.testing.assert_array_equal(arrays[str(i)], array)


def test_hdf5_has_allennlps_index_of_sentences(tmp_path: Path) -> None:
    with open_vector_file(tmp_path / "v.hdf5") as file:
        for line, array in zip(LINES, ARRAYS, strict=True):
            file.add(line, array)

    with h5py.File(tmp_path / "v.hdf5") as opened:
        index = opened["sentence_to_index"]
        assert index.shape == (1,)
        assert json.loads(index[0]) == {"a / b": "2", "": "1"}


@pytest.mark.parametrize("name", ["v.npz", "v.safetensors", "v.hdf5"])
def test_an_error_leaves_no_file(name: str, tmp_path: Path) -> None:
    def write() -> None:
        with open_vector_file(tmp_path / name) as file:
            file.add("a", ARRAYS[0])
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["v.npz", "v.safetensors", "v.hdf5"])
def test_a_full_disk_is_one_error_that_leaves_no_file(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    large = np.ones((5000, 4), np.float32)

    def write() -> None:
        with open_vector_file(tmp_path / name) as file:
            for i in range(10):
                file.add(f"{i}", large)

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(ElmoError, match=rf"{name} cannot be written .*File too large"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    gc.collect()

    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""


def test_one_text_is_no_list_of_texts(loaded: Loaded) -> None:
    with pytest.raises(TypeError, match="put it in a list"):
        next(embed(*loaded, "The bank"))


def test_loads_a_model_in_evaluation_mode(loaded: Loaded) -> None:
    model, tokenizer = load(loaded[0].name_or_path)

    assert not model.training
    assert next(embed(model, tokenizer, [["The"]])).shape == (1, 8)


@pytest.fixture
def copy(loaded: Loaded, tmp_path: Path) -> Path:
    """The folder of the model, for a test to damage."""
    return shutil.copytree(loaded[0].name_or_path, tmp_path / "copy")


def as_tagger(folder: Path) -> None:
    """Replace a model by a tagger of it, whose weights have a prefix, and a head."""
    ElmoForTokenClassification.from_pretrained(folder).save_pretrained(folder)


def set_config(folder: Path, **values: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


def set_weight(folder: Path, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    weights = load_file(folder / "model.safetensors")
    weights[name] = change(weights[name])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


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


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff\x00", b"[" * 100_000])
def test_whatever_is_damaged_is_one_line_that_names_the_folder(name: str, content: bytes, copy: Path) -> None:
    (copy / name).write_bytes(content)

    with pytest.raises(ElmoError, match=rf"^The \w+ in {copy} .*: convert it again\.$"):
        load(copy)


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".safetensors"])
def test_a_name_may_be_as_long_as_the_system_allows(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"{'a' * (255 - len(suffix))}{suffix}"
    with open_vector_file(path) as file:
        file.add("a", ARRAYS[0])

    assert list(tmp_path.iterdir()) == [path]
    np.testing.assert_array_equal(read_vector_file(path)["0"], ARRAYS[0])


@pytest.mark.parametrize("suffix", [".npz", ".hdf5", ".safetensors"])
def test_a_name_need_not_be_utf_8(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"\udcff{suffix}"
    with open_vector_file(path) as file:
        file.add("a", ARRAYS[0])

    assert list(tmp_path.iterdir()) == [path]


def test_a_link_that_leads_nowhere_is_kept(tmp_path: Path) -> None:
    (tmp_path / "v.npz").symlink_to(tmp_path / "gone")

    with pytest.raises(ElmoError, match=r"v\.npz exists already"), open_vector_file(tmp_path / "v.npz"):
        pass

    assert (tmp_path / "v.npz").is_symlink()


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "v.npz").write_text("mine")

    with pytest.raises(ElmoError, match=r"v\.npz exists already"), open_vector_file(tmp_path / "v.npz"):
        pass

    assert (tmp_path / "v.npz").read_text() == "mine"


@pytest.mark.parametrize(("name", "message"), [("v.txt", r"\.npz"), ("absent/v.npz", "not a folder")])
def test_a_name_that_cannot_be_written_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=message), open_vector_file(tmp_path / name):
        pass
