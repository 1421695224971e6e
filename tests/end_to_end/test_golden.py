"""Converted models against what the original programs computed."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf import ElmoForPreTraining, ElmoTokenizer
from elmo_hf.training.batching import StreamBatches
from elmo_hf.training.perplexity import CorpusScore, load_language_model, score
from elmo_hf_conversion import convert


TOLERANCE = 1e-5

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]


def load(folder: Path) -> Loaded:
    return AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


@torch.inference_mode()
def run(loaded: Loaded, sentences: list[list[str]], state: object = None) -> tuple[list[np.ndarray], object]:
    """Return for each sentence every layer, `[L + 1, words, H]`, and the state after the batch."""
    model, tokenizer = loaded
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    output = model(**batch, state=state, output_hidden_states=True, use_cache=True)
    # [L + 1, B, T, H]
    layers = torch.stack(output.hidden_states)
    return [layers[:, i, 1 : len(words) + 1].numpy() for i, words in enumerate(sentences)], output.state


@pytest.fixture(scope="module")
def allennlp(allennlp_model: Path) -> Loaded:
    return load(allennlp_model)


@pytest.fixture(scope="module")
def batches(allennlp_fixture: Path) -> list[list[list[str]]]:
    """Ten batches of three sentences, as TensorFlow saw them."""
    rows = json.loads((allennlp_fixture / "sentences.json").read_text(encoding="utf-8"))
    return [[text.split() for text in texts] for texts in zip(*rows, strict=True)]


@pytest.fixture(scope="module")
def recorded(allennlp_fixture: Path) -> list[list[np.ndarray]]:
    """TensorFlow's top layer `[words, H]` of each sentence of each batch."""
    vectors = []
    for row in range(3):
        with h5py.File(allennlp_fixture / f"lm_embeddings_{row}.hdf5") as file:
            # [2, words, P]: the two directions
            vectors.append([np.concatenate(list(file[str(i)][...]), axis=1) for i in range(10)])
    return [list(batch) for batch in zip(*vectors, strict=True)]


def test_all_sentences_with_the_state_passed_on(
    allennlp: Loaded, batches: list[list[list[str]]], recorded: list[list[np.ndarray]]
) -> None:
    state = None
    differences = []

    for sentences, expected in zip(batches, recorded, strict=True):
        layers, state = run(allennlp, sentences, state)
        differences += [np.abs(a[-1] - b).max() for a, b in zip(layers, expected, strict=True)]

    assert len(differences) == 30
    assert max(differences) < TOLERANCE


@pytest.mark.parametrize("row", [0, 1, 2])
def test_the_first_sentences_alone_without_state(
    row: int, allennlp: Loaded, batches: list[list[list[str]]], recorded: list[list[np.ndarray]]
) -> None:
    layers, _ = run(allennlp, [batches[0][row]])

    np.testing.assert_allclose(layers[0][-1], recorded[0][row], rtol=0, atol=TOLERANCE)


def test_the_vectors_of_words_without_context(allennlp: Loaded, allennlp_fixture: Path) -> None:
    text = (allennlp_fixture / "vocab_test.txt").read_text(encoding="utf-8")
    words = [line for line in text.split("\n") if line]

    layers, _ = run(allennlp, [words])

    with h5py.File(allennlp_fixture / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    assert expected.shape == (458, 16)
    np.testing.assert_allclose(layers[0][0], np.tile(expected, 2), rtol=0, atol=TOLERANCE)


@pytest.fixture(scope="module", params=["char", "token"])
def bilm_tiny(
    request: pytest.FixtureRequest, oracles: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Loaded, dict[str, np.ndarray]]:
    """A model by bilm-tf, converted, and what bilm-tf computed with it."""
    folder = oracles / "bilm_tiny"
    cases = json.loads((folder / "oracle.json").read_text(encoding="utf-8"))["cases"]
    case = next(case for case in cases if case["name"] == request.param)
    model = tmp_path_factory.mktemp(request.param) / "model"
    convert([folder / name for name in case["source"]], model)
    with np.load(folder / case["vectors"]) as vectors:
        return load(model), dict(vectors)


@pytest.fixture(scope="module")
def ten_sentences(oracles: Path) -> list[list[str]]:
    text = (oracles / "bilm_tiny" / "sentences10.txt").read_text(encoding="utf-8")
    return [line.split(" ") for line in text.splitlines()]


@pytest.mark.parametrize("second", [False, True], ids=["fresh", "with state"])
def test_every_layer_of_bilm_tf_in_one_batch(
    second: bool, bilm_tiny: tuple[Loaded, dict[str, np.ndarray]], ten_sentences: list[list[str]]
) -> None:
    loaded, expected = bilm_tiny

    layers, state = run(loaded, ten_sentences)
    if second:
        layers, _ = run(loaded, ten_sentences, state)

    for i, sentence in enumerate(layers):
        recorded = expected[f"{i}_second" if second else str(i)]
        np.testing.assert_allclose(sentence, recorded, rtol=0, atol=TOLERANCE, err_msg=f"sentence {i}")


def test_every_layer_of_bilm_tf_one_sentence_at_a_time(
    bilm_tiny: tuple[Loaded, dict[str, np.ndarray]], ten_sentences: list[list[str]]
) -> None:
    loaded, expected = bilm_tiny

    for i, words in enumerate(ten_sentences):
        (layers,), _ = run(loaded, [words])

        np.testing.assert_allclose(layers, expected[str(i)], rtol=0, atol=TOLERANCE, err_msg=f"sentence {i}")


@pytest.mark.parametrize("name", ["mix", "mix_top"])
def test_the_mix_is_that_of_bilm_tf(name: str, oracles: Path, ten_sentences: list[list[str]], tmp_path: Path) -> None:
    folder = oracles / "bilm_tiny"
    convert([folder / "lm_weights_char.hdf5", folder / "options.json"], tmp_path / "model")
    model, tokenizer = load(tmp_path / "model")
    if name == "mix_top":
        # softmax of this is the top layer alone
        model.scalar_mix.weights.data.copy_(torch.tensor([0.0, 0.0, 1e3]))
    batch = tokenizer(ten_sentences, is_split_into_words=True, padding=True, return_tensors="pt")

    with torch.inference_mode():
        mixed = model(**batch).last_hidden_state.numpy()

    with np.load(folder / "embeddings_char.npz") as file:
        expected = file[f"run1_{name}"]
    for i, words in enumerate(ten_sentences):
        n = len(words)
        np.testing.assert_allclose(mixed[i, 1 : n + 1], expected[i, :n], rtol=0, atol=TOLERANCE)


Case = tuple[Loaded, list[list[str]], dict[str, np.ndarray], dict[str, np.ndarray]]


@pytest.fixture(scope="module", params=["en", "charonly"])
def many_langs(request: pytest.FixtureRequest, oracles: Path, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A model by ELMoForManyLangs, converted, ten sentences, what that program computed, and what it read."""
    folder, name = oracles / "efml_tiny", request.param
    model = tmp_path_factory.mktemp(name) / "model"
    convert([folder / f"{name}.model"], model)
    text = (folder / f"{name}_sentences10.txt").read_text(encoding="utf-8")
    with np.load(folder / f"expected_{name}.npz") as vectors, np.load(folder / f"{name}_embeddings.npz") as read:
        return load(model), [line.split(" ") for line in text.splitlines()], dict(vectors), dict(read)


@pytest.mark.parametrize("second", [False, True], ids=["fresh", "with state"])
def test_every_layer_of_many_langs_in_one_batch(second: bool, many_langs: Case) -> None:
    loaded, sentences, expected, _ = many_langs

    layers, state = run(loaded, sentences)
    if second:
        layers, _ = run(loaded, sentences, state)

    for i, sentence in enumerate(layers):
        recorded = expected[f"{i}_second" if second else str(i)]
        np.testing.assert_allclose(sentence, recorded, rtol=0, atol=TOLERANCE, err_msg=f"sentence {i}")


@pytest.mark.parametrize("second", [False, True], ids=["fresh", "with state"])
def test_every_layer_of_many_langs_one_sentence_at_a_time(second: bool, many_langs: Case) -> None:
    loaded, sentences, expected, _ = many_langs

    for i, words in enumerate(sentences):
        (layers,), state = run(loaded, [words])
        if second:
            (layers,), _ = run(loaded, [words], state)

        recorded = expected[f"{i}_second" if second else str(i)]
        np.testing.assert_allclose(layers, recorded, rtol=0, atol=TOLERANCE, err_msg=f"sentence {i}")


def test_the_ids_are_one_more_than_those_of_many_langs(many_langs: Case) -> None:
    (_, tokenizer), sentences, _, read = many_langs

    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="np")

    words = batch["attention_mask"].astype(bool)
    assert (batch["char_ids"][words] == read["char_ids"][words] + 1).all()
    if "word_ids" in read:
        assert (batch["input_ids"][words] == read["word_ids"][words] + 1).all()


def test_the_default_vector_of_many_langs(many_langs: Case) -> None:
    (model, tokenizer), sentences, _, read = many_langs
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")

    with torch.inference_mode():
        vectors = model(**batch).last_hidden_state.numpy()

    for i, words in enumerate(sentences):
        expected = read[f"call1_sent{i}_layer-1"]
        np.testing.assert_allclose(vectors[i, 1 : len(words) + 1], expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("second", [False, True], ids=["fresh", "with state"])
@pytest.mark.parametrize(
    ("sources", "vectors"),
    [(["ckpt_char"], "expected_char.npz"), (["ckpt_token", "data/vocab.txt"], "expected_token.npz")],
    ids=["characters", "words"],
)
def test_every_layer_of_a_checkpoint_of_tensorflow(
    sources: list[str], vectors: str, second: bool, oracles: Path, ten_sentences: list[list[str]], tmp_path: Path
) -> None:
    folder = oracles / "bilm_tiny"
    convert([folder / name for name in sources], tmp_path / "model")
    loaded = load(tmp_path / "model")

    layers, state = run(loaded, ten_sentences)
    if second:
        layers, _ = run(loaded, ten_sentences, state)

    with np.load(folder / vectors) as expected:
        for i, sentence in enumerate(layers):
            recorded = expected[f"{i}_second" if second else str(i)]
            np.testing.assert_allclose(sentence, recorded, rtol=0, atol=TOLERANCE, err_msg=f"sentence {i}")


# by bilm-tf's own run_test: one stream, and 32 of which the last incomplete window is dropped
PERPLEXITIES = {"ckpt_char": (70.18923, 69.97493), "ckpt_token": (71.691505, 71.8218)}


@pytest.fixture(scope="module", params=PERPLEXITIES)
def language_model(
    request: pytest.FixtureRequest, oracles: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ElmoForPreTraining, ElmoTokenizer, tuple[float, float]]:
    """A checkpoint of a training by bilm-tf, converted, and its perplexities."""
    folder = oracles / "bilm_tiny"
    model = tmp_path_factory.mktemp(request.param) / "model"
    convert([folder / request.param, folder / "data" / "vocab.txt"], model)
    return *load_language_model(model), PERPLEXITIES[request.param]


@pytest.fixture(scope="module")
def heldout(oracles: Path) -> list[list[str]]:
    text = (oracles / "bilm_tiny" / "data" / "heldout.txt").read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines()]


def test_the_perplexity_of_bilm_tf_in_one_stream(
    language_model: tuple[ElmoForPreTraining, ElmoTokenizer, tuple[float, float]], heldout: list[list[str]]
) -> None:
    model, tokenizer, (expected, _) = language_model
    total = CorpusScore()

    for sentence in score(model, tokenizer, heldout, stateful=True):
        total.add(sentence)

    assert total.predictions == 9019
    assert total.perplexity == pytest.approx(expected, rel=1e-5)


@torch.inference_mode()
def test_the_perplexity_of_bilm_tf_in_many_streams(
    language_model: tuple[ElmoForPreTraining, ElmoTokenizer, tuple[float, float]], heldout: list[list[str]]
) -> None:
    model, tokenizer, (_, expected) = language_model
    state, losses = None, []

    for window in StreamBatches(heldout, tokenizer, batch_size=32, unroll_steps=1, drop_last=True):
        output = model(**window, state=state, use_cache=True)
        state = output.state
        losses.append(output.loss.double())

    assert len(losses) == 266
    assert float(torch.stack(losses).mean().exp()) == pytest.approx(expected, rel=1e-5)


def test_the_trained_mix_of_a_tagger_by_allennlp(oracles: Path, tmp_path: Path) -> None:
    folder = oracles / "allennlp_tagger"
    convert([folder / "model.tar.gz"], tmp_path / "model")
    model, tokenizer = load(tmp_path / "model")
    text = (folder / "sentences10.txt").read_text(encoding="utf-8")
    sentences = [line.split(" ") for line in text.splitlines()]
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")

    with torch.inference_mode():
        mixed = model(**batch).last_hidden_state.numpy()

    with np.load(folder / "expected_mix.npz") as expected:
        for i, words in enumerate(sentences):
            vectors = mixed[i, 1 : len(words) + 1]
            np.testing.assert_allclose(vectors, expected[str(i)], rtol=0, atol=TOLERANCE, err_msg=f"sentence {i}")
