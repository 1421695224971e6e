"""`elmo_hf.embedding`: right vectors in the right order, however they are batched, and files that hold them."""

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf import ElmoForTokenClassification, ElmoInt8Config
from elmo_hf.embedding import vectors
from elmo_hf.embedding.vectors import Line, cut_parts, embed, embed_corpus, load, parse_layer
from elmo_hf.errors import ElmoError
from elmo_hf_conversion import convert
from support.original_formats import write_bilm_hdf5


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
    (array,) = embed(*loaded, [["The", "bank"]], layers=layer)

    np.testing.assert_array_equal(array, alone(loaded, ["The", "bank"])[1][index])


def test_all_layers_come_as_one_array(loaded: Loaded) -> None:
    vectors = list(embed(*loaded, SENTENCES, layers="all"))

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


CORPUS = [["The", "bank"], [], ["a", "b", "c", "d", "e"], ["The", "bank"], [""], ["a / b"], ["日本語"] * 3, ["x"] * 9]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a corpus in parts of three sentences, or of ten words 8 wide."""
    monkeypatch.setattr("elmo_hf.embedding.vectors.PART_SENTENCES", 3)
    monkeypatch.setattr("elmo_hf.embedding.vectors.PART_BYTES", 10 * 8 * 4)


def npz(path: Path) -> list[np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return [file[str(number)] for number in range(len(file.files))]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("layers", ["mix", "all", 0])
def test_a_file_has_what_embed_gives(layers: str | int, loaded: Loaded, tmp_path: Path) -> None:
    counts = embed_corpus(loaded[0].name_or_path, CORPUS, tmp_path / "v.npz", layers=layers)

    assert counts == (8, 23)
    for array, expected in zip(npz(tmp_path / "v.npz"), embed(*loaded, CORPUS, layers=layers), strict=True):
        np.testing.assert_allclose(array, expected, rtol=0, atol=TOLERANCE)
    assert [path.name for path in tmp_path.iterdir()] == ["v.npz"]


@pytest.mark.parametrize(("pool", "reduce"), [("mean", np.mean), ("max", np.max)])
@pytest.mark.parametrize("layers", ["top", "all"])
def test_a_pooled_sentence_has_one_vector(
    pool: str, reduce: Callable[..., np.ndarray], layers: str, loaded: Loaded, tmp_path: Path
) -> None:
    embed_corpus(loaded[0].name_or_path, CORPUS, tmp_path / "v.npz", layers=layers, pool=pool)

    for array, words in zip(npz(tmp_path / "v.npz"), embed(*loaded, CORPUS, layers=layers), strict=True):
        expected = reduce(words, axis=-2) if words.shape[-2] else np.zeros(array.shape, np.float32)
        np.testing.assert_allclose(array, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["v.npz", "v.hdf5", "v.safetensors", "v.parquet", "v.npy"])
@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_a_resumed_run_makes_the_same_file(
    stop_at: int, name: str, loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir()
    cut.mkdir()
    embed_corpus(loaded[0].name_or_path, CORPUS, whole / name)
    parts, real = 0, vectors.save_part

    def fail(*arguments: object) -> None:
        nonlocal parts
        parts += 1
        if parts > stop_at:
            raise KeyboardInterrupt
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("elmo_hf.embedding.vectors.save_part", fail)
        with pytest.raises(KeyboardInterrupt):
            embed_corpus(loaded[0].name_or_path, CORPUS, cut / name)
    assert [path.name for path in cut.iterdir()] == [f".{name}.parts"]
    with pytest.raises(
        ElmoError, match=rf"\.{name}\.parts is of a run that was interrupted, or is not done yet: resume it, or delete"
    ):
        embed_corpus(loaded[0].name_or_path, CORPUS, cut / name)

    embed_corpus(loaded[0].name_or_path, CORPUS, cut / name, resume=True)

    assert {path.name: path.read_bytes() for path in cut.iterdir()} == {
        path.name: path.read_bytes() for path in whole.iterdir()
    }


@pytest.fixture
def interrupted(loaded: Loaded, tmp_path: Path, small_parts: None) -> Path:  # noqa: ARG001 - sets them
    """What is left of a run that ended at the seventh sentence."""

    def sentences() -> Iterator[list[str]]:
        yield from CORPUS[:7]
        raise ElmoError("text, line 8: cannot be read")

    with pytest.raises(ElmoError, match="line 8"):
        embed_corpus(loaded[0].name_or_path, sentences(), tmp_path / "v.npz")
    return tmp_path / "v.npz"


def test_what_is_left_of_other_sentences_is_refused(interrupted: Path, loaded: Loaded) -> None:
    with pytest.raises(ElmoError, match=r"is of a run with other sentences, from its part 0 on: give the same"):
        embed_corpus(loaded[0].name_or_path, [["other"], *CORPUS[1:]], interrupted, resume=True)


def test_what_is_left_of_other_options_is_refused(interrupted: Path, loaded: Loaded) -> None:
    with pytest.raises(ElmoError, match=r"is of another run \(layers: mix then, 0 now; pool: none then, max now\)"):
        embed_corpus(loaded[0].name_or_path, CORPUS, interrupted, layers=0, pool="max", resume=True)


def test_what_is_left_of_another_model_is_refused(interrupted: Path, copy: Path) -> None:
    set_weight(copy, "scalar_mix.gamma", lambda array: array * 2)

    with pytest.raises(ElmoError, match=r"is of another run \(model_sha256: "):
        embed_corpus(copy, CORPUS, interrupted, resume=True)


def test_an_error_before_the_first_part_leaves_nothing(loaded: Loaded, tmp_path: Path) -> None:
    def sentences() -> Iterator[list[str]]:
        yield ["a"]
        raise ElmoError("text, line 2: cannot be read")

    with pytest.raises(ElmoError, match="line 2"):
        embed_corpus(loaded[0].name_or_path, sentences(), tmp_path / "v.npz", resume=True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["v.npz", "v.hdf5", "v.safetensors", "v.parquet", "v.npy"])
def test_an_empty_corpus_has_an_empty_file(name: str, loaded: Loaded, tmp_path: Path) -> None:
    assert embed_corpus(loaded[0].name_or_path, [], tmp_path / name) == (0, 0)

    assert (tmp_path / name).exists()


def test_a_line_keeps_its_text(loaded: Loaded, tmp_path: Path) -> None:
    embed_corpus(loaded[0].name_or_path, [Line("a  b", ["a", "b"]), "The bank."], tmp_path / "v.hdf5")

    with h5py.File(tmp_path / "v.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"a  b": "0", "The bank.": "1"}
        assert file["0"].shape == (2, 8)
        assert file["1"].shape == (3, 8)


@pytest.mark.parametrize("name", ["é" * 100, "\udcff", "a\u202eb"])
def test_the_folder_of_parts_has_a_name_that_can_be_written(name: str, loaded: Loaded, tmp_path: Path) -> None:
    embed_corpus(loaded[0].name_or_path, [["a"]], tmp_path / f"{name}.npz")

    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.npz"]


def test_what_cannot_be_asked_for_is_named(loaded: Loaded, tmp_path: Path) -> None:
    folder = loaded[0].name_or_path
    with pytest.raises(ElmoError, match=r"no pool 'sum': choose none, mean, max"):
        embed_corpus(folder, [["a"]], tmp_path / "v.npz", pool="sum")
    with pytest.raises(ElmoError, match=r"no device 'abacus' \("):
        embed_corpus(folder, [["a"]], tmp_path / "v.npz", device="abacus")
    with pytest.raises(ElmoError, match=r"no layer '3'"):
        embed_corpus(folder, [["a"]], tmp_path / "v.npz", layers=3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("gone", ["v.npy", "v.offsets.npy"])
def test_a_run_that_ended_between_its_files_goes_on(
    gone: str, loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.replace

    def stop_before(path: Path, target: Path) -> Path:
        if target.name == gone:
            raise KeyboardInterrupt
        return real(path, target)

    monkeypatch.setattr(Path, "replace", stop_before)
    with pytest.raises(KeyboardInterrupt):
        embed_corpus(loaded[0].name_or_path, CORPUS, tmp_path / "v.npy")
    monkeypatch.undo()

    assert embed_corpus(loaded[0].name_or_path, CORPUS, tmp_path / "v.npy", resume=True) == (8, 23)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.npy", "v.offsets.npy"]
    assert np.load(tmp_path / "v.npy").shape == (23, 8)


def test_long_sentences_come_in_smaller_batches(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    monkeypatch.setattr(loaded[0], "forward", spy_on(loaded[0].forward, shapes))

    vectors = list(embed(*loaded, [["w"] * 300, *[["w"] * 30] * 8], batch_size=4))

    # at most 4 * 128 words, padding included
    assert shapes == [(1, 302), (4, 32), (4, 32)]
    assert [len(array) for array in vectors] == [300, *[30] * 8]


def spy_on(forward: Callable[..., object], shapes: list[tuple[int, ...]]) -> Callable[..., object]:
    """Note the shape of what a model is given."""

    def noting(**batch: torch.Tensor) -> object:
        shapes.append(tuple(batch["input_ids"].shape))
        return forward(**batch)

    return noting


def test_too_little_memory_is_named(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")

    monkeypatch.setattr(loaded[0], "forward", fail)

    with pytest.raises(ElmoError, match=r"not enough memory for 1 sentences of up to 2 words: make the batches"):
        next(embed(*loaded, [["a", "b"]]))


def test_half_a_character_is_named(loaded: Loaded, tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"'a\\ud800' holds half of a character"):
        embed_corpus(loaded[0].name_or_path, [["a\ud800"]], tmp_path / "v.parquet")


def test_parts_have_a_bounded_size(small_parts: None) -> None:  # noqa: ARG001 - sets them
    lines = [Line("", ["w"] * count) for count in (1, 1, 1, 1, 9, 2, 30, 0, 0)]

    parts = [[len(line.words) for line in part] for part in cut_parts(lines, 32)]

    # of ten words and three sentences, but for a sentence that is longer by itself
    assert parts == [[1, 1, 1], [1, 9], [2], [30], [0, 0]]
