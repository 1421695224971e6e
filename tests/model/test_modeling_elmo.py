"""`model.modeling_elmo`: the vectors depend on the sentence alone, survive saving, and follow the equations."""

import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModel

from elmo_hf import (
    ElmoForMaskedLM,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from elmo_hf.model import modeling_elmo
from support.fresh_python import FRESH_PYTHON
from support.tiny_models import sentence, tiny_config, tiny_model


VARIANTS = {
    "original": {},
    "no skip connections": {"use_skip_connections": False},
    "no clips": {"cell_clip": None, "projection_clip": None},
    "no highway": {"num_highway_layers": 0},
    "tanh": {"hidden_act": "tanh"},
    "no token projection": {"hidden_size": 28},
    "no cell projection": {"intermediate_size": 8},
    "projections that keep the width": {"intermediate_size": 14, "hidden_size": 28, "always_project": True},
    "one layer": {"num_hidden_layers": 1},
    "four layers": {"num_hidden_layers": 4},
    "short words": {"max_characters_per_token": 5},
    "words": {"char_embedding_dim": 0, "word_embedding_dim": 8, "vocab_size": 40},
    "words, projected": {"char_embedding_dim": 0, "word_embedding_dim": 6, "vocab_size": 40},
    "words and characters": {"word_embedding_dim": 6, "vocab_size": 40},
}


def padded(sentences: list[dict[str, torch.Tensor]], length: int, side: str) -> dict[str, torch.Tensor]:
    """Pad sentences to `length` words, with zeros as the tokenizer does."""
    rows: dict[str, list[torch.Tensor]] = {key: [] for key in sentences[0]}
    for one in sentences:
        for key, value in one.items():
            missing = value.new_zeros(1, length - value.shape[1], *value.shape[2:])
            rows[key].append(torch.cat([value, missing] if side == "right" else [missing, value], dim=1))
    return {key: torch.cat(values) for key, values in rows.items()}


def layers(model: ElmoModel, batch: dict[str, torch.Tensor], **options: object) -> torch.Tensor:
    """All layers and the mix, `[L + 2, B, T, H]`."""
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True, **options)
    return torch.stack([*output.hidden_states, output.last_hidden_state])


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_sentence_does_not_see_its_batch(fields: dict, side: str) -> None:
    model = tiny_model(**fields)
    lengths = [5, 1, 9, 2]
    sentences = [sentence(length, model.config, seed) for seed, length in enumerate(lengths)]

    together = layers(model, padded(sentences, 12, side))

    for row, (one, length) in enumerate(zip(sentences, lengths, strict=True)):
        words = slice(12 - length, 12) if side == "left" else slice(0, length)
        torch.testing.assert_close(together[:, row, words], layers(model, one)[:, 0], atol=1e-6, rtol=0)


def test_padding_is_exactly_zero() -> None:
    model = tiny_model()
    batch = padded([sentence(3, model.config), sentence(6, model.config)], 8, "right")

    vectors = layers(model, batch)

    assert torch.equal(vectors[:, batch["attention_mask"] == 0], torch.zeros(4, 7, 16))
    assert (vectors[:, batch["attention_mask"] == 1].abs().sum(dim=-1) > 0).all()


def test_an_empty_sentence_disturbs_nobody() -> None:
    model = tiny_model()
    alone = sentence(4, model.config)
    nothing = {key: value[:, :0] for key, value in alone.items()}

    vectors = layers(model, padded([nothing, alone, nothing], 4, "right"))

    torch.testing.assert_close(vectors[:, 1], layers(model, alone)[:, 0], atol=1e-6, rtol=0)
    assert torch.equal(vectors[:, [0, 2]], torch.zeros(4, 2, 4, 16))


@pytest.mark.parametrize("shape", [(1, 0), (2, 3), (0, 0)], ids=["no words", "only padding", "no sentences"])
def test_a_batch_without_words_has_no_vectors(shape: tuple[int, int]) -> None:
    model = tiny_model()

    output = model(char_ids=torch.zeros(*shape, 20, dtype=torch.long), use_cache=True)

    assert torch.equal(output.last_hidden_state, torch.zeros(*shape, 16))
    assert output.state[0][0].shape == (shape[0], 2, 8)


def test_runs_twice_to_the_same_bits() -> None:
    model = tiny_model()
    batch = padded([sentence(7, model.config), sentence(4, model.config)], 7, "right")

    assert torch.equal(layers(model, batch), layers(model, batch))


def test_finds_words_without_a_mask() -> None:
    model = tiny_model()
    batch = padded([sentence(7, model.config), sentence(4, model.config)], 7, "right")

    assert torch.equal(layers(model, {"char_ids": batch["char_ids"]}), layers(model, batch))


def test_a_row_of_no_characters_is_no_word_whatever_the_mask_says() -> None:
    model = tiny_model()
    batch = padded([sentence(7, model.config), sentence(4, model.config)], 7, "right")

    careless = {**batch, "attention_mask": torch.ones_like(batch["attention_mask"])}

    assert torch.equal(layers(model, careless), layers(model, batch))


@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS)
def test_the_readable_recurrence_gives_the_same_vectors(fields: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(**fields)
    batch = padded([sentence(7, model.config), sentence(4, model.config)], 8, "right")
    fast = layers(model, batch)

    monkeypatch.setenv("ELMO_HF_RECURRENCE", "reference")

    torch.testing.assert_close(layers(model, batch), fast, atol=1e-6, rtol=0)


def test_state_continues_each_sentence_in_both_directions() -> None:
    model = tiny_model().double()
    whole = sentence(9, model.config)
    first, second = ({key: value[:, part] for key, value in whole.items()} for part in (slice(4), slice(4, 9)))

    state = model(**first, use_cache=True).state
    forward = layers(model, second, state=state)
    state = model(**second, use_cache=True).state
    backward = layers(model, first, state=state)

    # the first biLSTM layer: its forward half has read the words before, its backward half the words after
    expected = layers(model, whole)[1, 0]
    torch.testing.assert_close(forward[1, 0, :, :8], expected[4:, :8], atol=1e-12, rtol=0)
    torch.testing.assert_close(backward[1, 0, :, 8:], expected[:4, 8:], atol=1e-12, rtol=0)


def test_state_belongs_to_its_row() -> None:
    model = tiny_model()
    batch = padded([sentence(2, model.config, 1), sentence(6, model.config, 2)], 6, "right")
    again = padded([sentence(5, model.config, 3), sentence(1, model.config, 4)], 5, "left")

    with torch.no_grad():
        output = model(**again, state=model(**batch, use_cache=True).state, use_cache=True)

        for row in range(2):
            start = model(**{key: value[row : row + 1] for key, value in batch.items()}, use_cache=True).state
            alone = {key: value[row : row + 1] for key, value in again.items()}
            expected = model(**alone, state=start, use_cache=True)
            torch.testing.assert_close(output.last_hidden_state[row], expected.last_hidden_state[0], atol=1e-6, rtol=0)
            for layer, one in zip(output.state, expected.state, strict=True):
                torch.testing.assert_close([part[row] for part in layer], [part[0] for part in one], atol=1e-6, rtol=0)


def test_an_empty_sentence_keeps_its_state() -> None:
    model = tiny_model()
    state = model(**sentence(5, model.config), use_cache=True).state

    kept = model(char_ids=torch.zeros(1, 2, 20, dtype=torch.long), state=state, use_cache=True).state

    torch.testing.assert_close(kept, state, atol=0, rtol=0)


def test_returns_no_state_unless_asked() -> None:
    model = tiny_model()

    assert model(**sentence(3, model.config)).state is None
    assert tiny_model(use_cache=True)(**sentence(3, model.config)).state is not None


@pytest.mark.parametrize(
    ("fields", "inputs", "message"),
    [
        pytest.param({}, {"input_ids": torch.ones(1, 2).long()}, "pass `char_ids`", id="no characters"),
        pytest.param(
            {"char_embedding_dim": 0, "word_embedding_dim": 8},
            {"char_ids": torch.ones(1, 2, 20).long()},
            "pass `input_ids`",
            id="no words",
        ),
        pytest.param({}, {"char_ids": torch.ones(1, 2, 50).long()}, "max_characters_per_token=20", id="width"),
        pytest.param({}, {"char_ids": torch.ones(2, 20).long()}, "max_characters_per_token=20", id="no batch"),
        pytest.param(
            {},
            {"char_ids": torch.ones(1, 2, 20).long(), "attention_mask": torch.ones(1, 3)},
            "differ in sentences and words",
            id="mask of another length",
        ),
        pytest.param({}, {"char_ids": torch.full((1, 2, 20), 262)}, "262", id="character out of range"),
        pytest.param({}, {"char_ids": torch.ones(1, 2, 20)}, "pass integers", id="not integers"),
        pytest.param(
            {},
            {"char_ids": torch.ones(1, 2, 20).long(), "state": ()},
            "with num_hidden_layers=2",
            id="no layers",
        ),
        pytest.param(
            {},
            {
                "char_ids": torch.ones(1, 2, 20).long(),
                "state": ((torch.zeros(2, 2, 8), torch.zeros(2, 2, 12)),) * 2,
            },
            "num_hidden_layers=2 and a batch of size 1",
            id="state of another batch",
        ),
        pytest.param(
            {},
            {"char_ids": torch.ones(1, 2, 20).long(), "state": ((torch.zeros(1, 2, 8), torch.zeros(1, 2, 12)),)},
            "with num_hidden_layers=2",
            id="state of another model",
        ),
    ],
)
def test_names_what_does_not_fit(fields: dict, inputs: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny_model(**fields)(**inputs)


def test_weights_survive_saving_in_a_fresh_process(tmp_path: Path) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        model = tiny_model(ElmoForTokenClassification, num_labels=3).to(dtype)
        model.save_pretrained(tmp_path / str(dtype))
        torch.save(model.state_dict(), tmp_path / str(dtype) / "expected.pt")
    program = """
import sys, torch
from pathlib import Path
from elmo_hf import ElmoForTokenClassification
for folder in Path(sys.argv[1]).iterdir():
    expected = torch.load(folder / "expected.pt", weights_only=True)
    for options in ({}, {"device_map": "cpu"}, {"device_map": {"": "cpu"}}):
        model = ElmoForTokenClassification.from_pretrained(folder, **options)
        actual = model.state_dict()
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert actual[name].dtype == value.dtype and torch.equal(actual[name], value), (folder, name)
        assert {name for name, _ in model.named_buffers()} == set()
"""
    subprocess.run([*FRESH_PYTHON, "-c", program, tmp_path], check=True)


def test_half_precision_stays_near_full() -> None:
    model = tiny_model()
    batch = padded([sentence(7, model.config), sentence(4, model.config)], 7, "right")
    expected = model(**batch).last_hidden_state

    half = tiny_model().bfloat16()(**batch, use_cache=True)

    assert half.last_hidden_state.dtype == torch.bfloat16
    words = batch["attention_mask"].bool()
    cosine = nn.functional.cosine_similarity(expected[words], half.last_hidden_state[words].float(), dim=-1)
    assert cosine.min() > 0.999


def test_a_head_on_a_base_checkpoint_keeps_the_bilm(tmp_path: Path) -> None:
    model = tiny_model()
    model.save_pretrained(tmp_path)

    tagger = ElmoForTokenClassification.from_pretrained(tmp_path, num_labels=5)

    for name, value in model.state_dict().items():
        assert torch.equal(tagger.elmo.state_dict()[name], value), name
    assert torch.isfinite(tagger.classifier.weight).all()


def test_the_bilm_of_a_tagger_loads_alone(tmp_path: Path) -> None:
    tagger = tiny_model(ElmoForTokenClassification)
    tagger.save_pretrained(tmp_path)

    model = AutoModel.from_pretrained(tmp_path)

    assert type(model) is ElmoModel
    for name, value in tagger.elmo.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name


def test_new_weights_are_initialised_as_in_bilm_tf() -> None:
    config = tiny_config(hidden_size=64, intermediate_size=48)
    torch.manual_seed(0)

    model = ElmoModel(config).requires_grad_(False)

    assert model.scalar_mix.weights.tolist() == [0, 0, 0]
    assert model.scalar_mix.gamma.tolist() == [1]
    encoder = model.token_encoder
    assert encoder.char_embeddings.weight.abs().max() == pytest.approx(1, rel=0.01)
    assert not encoder.char_embeddings.weight[0].any()
    for highway in encoder.highways:
        assert highway.gate.weight.std() == pytest.approx(14**-0.5, rel=0.2)
        assert (highway.gate.bias == -2).all()
        assert not highway.transform.bias.any()
    for layer in model.layers:
        assert not any(projection.bias.any() for projection in layer.input_projections)
        # Glorot's bounds of TensorFlow's matrices, [P + P, 4 * C] and [C, P]
        bound = (6 / (2 * 32 + 4 * 48)) ** 0.5
        for weight in (layer.recurrent_weight, layer.input_projections[0].weight):
            assert weight.abs().max() == pytest.approx(bound, rel=0.01)
        assert layer.output_weight.abs().max() == pytest.approx((6 / (48 + 32)) ** 0.5, rel=0.01)


def test_the_forget_bias_is_added_to_the_stored_one() -> None:
    stored, added = tiny_model(forget_bias=0.0), tiny_model(forget_bias=1.0)
    for layer in stored.layers:
        for projection in layer.input_projections:
            projection.bias.data.reshape(4, -1)[1] += 1

    batch = sentence(7, stored.config)

    torch.testing.assert_close(layers(stored, batch), layers(added, batch), atol=1e-6, rtol=0)


def test_more_words_do_not_touch_the_characters() -> None:
    model = tiny_model()

    model.resize_token_embeddings(5000)

    assert model.config.vocab_size == 5000
    assert model.token_encoder.char_embeddings.weight.shape == (262, 4)


def test_more_words_in_a_word_model() -> None:
    model = tiny_model(**VARIANTS["words"])
    before = model.token_encoder.word_embeddings.weight[:40].clone()

    model.resize_token_embeddings(50)

    assert model.token_encoder.word_embeddings.weight.shape == (50, 8)
    assert torch.equal(model.token_encoder.word_embeddings.weight[:40], before)


# the name that every supported version of Transformers knows
@pytest.mark.filterwarnings("ignore:.gradient_checkpointing_enable:FutureWarning")
def test_gradient_checkpointing_changes_no_gradient() -> None:
    model = tiny_model(ElmoForTokenClassification, num_labels=3, classifier_dropout=0.0, freeze_bilm=False).train()
    batch = padded([sentence(7, model.config), sentence(4, model.config)], 7, "right")
    labels = torch.arange(14).reshape(2, 7) % 3

    def gradients() -> dict[str, torch.Tensor]:
        model.zero_grad()
        model(**batch, labels=labels).loss.backward()
        return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    plain = gradients()
    model.gradient_checkpointing_enable()

    torch.testing.assert_close(gradients(), plain)


def test_token_classification_loss_ignores_minus_100() -> None:
    model = tiny_model(ElmoForTokenClassification, num_labels=3)
    batch = padded([sentence(7, model.config), sentence(4, model.config)], 7, "right")
    labels = torch.arange(14).reshape(2, 7) % 3
    labels[0, 0] = labels[0, 6] = -100
    labels[batch["attention_mask"] == 0] = -100

    with torch.no_grad():
        output = model(**batch, labels=labels)

    scores = output.logits.double().log_softmax(dim=-1)
    counted = [(row, word) for row in range(2) for word in range(7) if labels[row, word] != -100]
    expected = -sum(scores[row, word, labels[row, word]] for row, word in counted) / len(counted)
    assert output.logits.shape == (2, 7, 3)
    assert output.loss.item() == pytest.approx(expected.item(), abs=1e-6)


def test_token_classification_averages_over_num_items_in_batch() -> None:
    model = tiny_model(ElmoForTokenClassification, num_labels=3)
    batch = sentence(6, model.config)
    labels = torch.tensor([[0, 1, 2, -100, 1, 0]])

    with torch.no_grad():
        mean = model(**batch, labels=labels).loss
        shared = model(**batch, labels=labels, num_items_in_batch=10).loss

    torch.testing.assert_close(shared, mean * 5 / 10)


def test_a_tagger_passes_the_state_on() -> None:
    model = tiny_model(ElmoForTokenClassification)
    state = model(**sentence(5, model.config), use_cache=True).state

    fresh, continued = (model(**sentence(4, model.config), state=start).logits for start in (None, state))

    assert not torch.allclose(fresh, continued)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32], ids=str)
def test_reads_ids_of_any_integer_type(dtype: torch.dtype) -> None:
    model = tiny_model()
    char_ids = sentence(5, model.config)["char_ids"]

    assert torch.equal(layers(model, {"char_ids": char_ids.to(dtype)}), layers(model, {"char_ids": char_ids}))


def test_a_changed_configuration_is_checked_again(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)

    with pytest.raises(ValueError, match="cell_clip"):
        ElmoModel.from_pretrained(tmp_path, cell_clip=0)


def test_returns_tuples_on_request() -> None:
    model = tiny_model()
    batch = sentence(3, model.config)

    mix, state, hidden_states = model(**batch, output_hidden_states=True, use_cache=True, return_dict=False)

    assert (mix.shape, len(hidden_states), len(state)) == ((1, 3, 16), 3, 2)


@pytest.mark.parametrize(
    ("cls", "mixes"),
    [
        (ElmoModel, 1),
        (ElmoForPreTraining, 0),
        (ElmoForMaskedLM, 0),
        (ElmoForTokenClassification, 1),
        (ElmoForSequenceClassification, 1),
    ],
)
def test_every_class_reads_the_ids_once_and_mixes_only_what_it_uses(
    cls: type, mixes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(cls, vocab_size=30)
    batch = sentence(5, model.config)
    reads, mixed = [], []
    read_inputs = modeling_elmo.read_inputs
    monkeypatch.setattr(modeling_elmo, "read_inputs", lambda *inputs: reads.append(1) or read_inputs(*inputs))
    mix = model.scalar_mix if cls is ElmoModel else model.elmo.scalar_mix
    mix.register_forward_hook(lambda *_: mixed.append(1))

    model(**batch, **({"labels": batch["input_ids"]} if cls is ElmoForPreTraining else {}))

    assert (len(reads), len(mixed)) == (1, mixes)
