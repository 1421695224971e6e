"""peft, as it is: LoRA in the linear layers and convolutions of a tagger, saved, loaded, and merged."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from clients.annotated import ANNOTATED, NAMES
from elmo_hf import ElmoForTokenClassification, ElmoTokenizer
from support.english import ELMO_TINY_EN


# peft asks for it by its old name
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")

peft = pytest.importorskip("peft")

# the names of nn.Linear and nn.Conv1d in the biLM; the recurrent matrices are parameters, for `target_parameters`
TARGETS = r"elmo\..*\.(convolutions\.\d+|transform|gate|projection|input_projections\.\d+)"


def new_tagger() -> ElmoForTokenClassification:
    torch.manual_seed(0)
    return AutoModelForTokenClassification.from_pretrained(ELMO_TINY_EN, id2label=dict(enumerate(NAMES)))


@pytest.fixture(scope="module")
def batch(tokenizer: ElmoTokenizer) -> dict[str, torch.Tensor]:
    encoded = tokenizer(
        [part.words for part in ANNOTATED], is_split_into_words=True, padding=True, return_tensors="pt"
    )
    labels = torch.full_like(encoded["input_ids"], -100)
    for row, part in enumerate(ANNOTATED):
        labels[row, 1 : len(part.tags) + 1] = torch.tensor([NAMES.index(tag) for tag in part.tags])
    return {**encoded, "labels": labels}


@pytest.fixture(scope="module")
def trained(batch: dict[str, torch.Tensor]) -> Any:
    config = peft.LoraConfig(
        task_type="TOKEN_CLS", r=4, target_modules=TARGETS, modules_to_save=["classifier", "scalar_mix"]
    )
    model = peft.get_peft_model(new_tagger(), config).train()
    optimizer = torch.optim.SGD([part for part in model.parameters() if part.requires_grad], lr=0.1)
    for _ in range(2):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def logits(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        return model(**batch).logits


def test_every_linear_layer_and_convolution_of_the_bilm_is_a_target(trained: Any) -> None:
    adapted = {name for name, module in trained.base_model.model.named_modules() if hasattr(module, "lora_A")}
    kinds = (torch.nn.Linear, torch.nn.Conv1d)
    expected = {name for name, module in new_tagger().elmo.named_modules() if isinstance(module, kinds)}

    assert adapted == {f"elmo.{name}" for name in expected}


def test_all_of_the_adapter_is_trained_and_nothing_else(trained: Any) -> None:
    before, after = new_tagger().state_dict(), trained.base_model.model.state_dict()

    # in the first step only B moves, as it is zero; in the second, A too
    fresh = peft.get_peft_model(new_tagger(), trained.peft_config["default"]).base_model.model.state_dict()
    assert not [name for name in fresh if "lora_B" in name and torch.equal(fresh[name], after[name])]
    kept = {name.replace(".base_layer", ""): part for name, part in after.items() if "lora" not in name}
    assert all(torch.equal(part, kept[name]) for name, part in before.items() if name in kept)


def test_a_saved_adapter_gives_the_same(trained: Any, batch: dict[str, torch.Tensor], tmp_path: Path) -> None:
    trained.save_pretrained(tmp_path / "adapter")

    again = peft.PeftModel.from_pretrained(new_tagger(), tmp_path / "adapter").eval()

    assert (tmp_path / "adapter" / "adapter_model.safetensors").stat().st_size < 1e6
    assert not torch.allclose(logits(trained, batch), logits(new_tagger().eval(), batch), atol=1e-3)
    torch.testing.assert_close(logits(again, batch), logits(trained, batch), rtol=0, atol=1e-6)


def test_a_merged_model_is_an_elmo_again(trained: Any, batch: dict[str, torch.Tensor], tmp_path: Path) -> None:
    trained.save_pretrained(tmp_path / "adapter")
    merged = peft.PeftModel.from_pretrained(new_tagger(), tmp_path / "adapter").merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")

    again = AutoModelForTokenClassification.from_pretrained(tmp_path / "merged").eval()

    assert merged.state_dict().keys() == new_tagger().state_dict().keys()
    torch.testing.assert_close(logits(again, batch), logits(trained, batch), rtol=0, atol=1e-5)


def test_recurrent_matrices_are_adapted_and_merged(batch: dict[str, torch.Tensor]) -> None:
    names = ["layers.0.recurrent_weight", "layers.1.output_weight"]
    config = peft.LoraConfig(r=4, target_modules=[], target_parameters=names)
    model = peft.get_peft_model(new_tagger(), config).train()
    model(**batch).loss.backward()
    trainable = [part for part in model.parameters() if part.requires_grad]
    # in the first step only B moves, as it is zero
    assert sum(bool(part.grad.any()) for part in trainable) == len(names) == len(trainable) / 2
    torch.optim.SGD(trainable, lr=0.1).step()
    adapted = logits(model.eval(), batch)

    merged = model.merge_and_unload()

    before, after = new_tagger().state_dict(), merged.state_dict()
    assert {name for name in before if not torch.equal(before[name], after[name])} == {
        f"elmo.{name}" for name in names
    }
    torch.testing.assert_close(logits(merged, batch), adapted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"target_modules": ["char_embeddings"]}, id="LoRA of the table"),
        # the bytes "a" and "e"
        pytest.param(
            {"target_modules": ["projection"], "trainable_token_indices": {"char_embeddings": [98, 102]}},
            id="two rows",
        ),
    ],
)
def test_the_table_of_characters_is_adapted_saved_and_merged(
    options: dict[str, Any], batch: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    config = peft.LoraConfig(task_type="TOKEN_CLS", r=4, modules_to_save=["classifier"], **options)
    model = peft.get_peft_model(new_tagger(), config).train()
    optimizer = torch.optim.SGD([part for part in model.parameters() if part.requires_grad], lr=0.5)
    for _ in range(2):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    trained = logits(model.eval(), batch)
    model.save_pretrained(tmp_path)

    again = peft.PeftModel.from_pretrained(new_tagger(), tmp_path).eval()

    torch.testing.assert_close(logits(again, batch), trained, rtol=0, atol=1e-6)
    before, merged = new_tagger().eval(), again.merge_and_unload()
    torch.testing.assert_close(logits(merged, batch), trained, rtol=0, atol=1e-5)
    moved = merged.elmo.token_encoder.char_embeddings.weight != before.elmo.token_encoder.char_embeddings.weight
    rows = options.get("trainable_token_indices", {}).get("char_embeddings")
    assert moved.any()
    if rows is not None:
        assert set(moved.any(dim=1).nonzero().flatten().tolist()) == set(rows)


def test_a_classifier_of_pairs_is_trained_in_full(tokenizer: ElmoTokenizer) -> None:
    torch.manual_seed(0)
    classifier = AutoModelForSequenceClassification.from_pretrained(ELMO_TINY_EN, num_labels=2)
    config = peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=TARGETS)
    model = peft.get_peft_model(classifier, config).train()
    pairs = tokenizer(["It rains ."], ["We sing ."], return_tensors="pt")

    model(**pairs, labels=torch.tensor([1])).loss.backward()

    gradients = {name: part.grad for name, part in model.named_parameters() if part.requires_grad}
    assert next(part for name, part in gradients.items() if name.endswith("pair_weight")).any()


@pytest.mark.parametrize("place", ["input", "none"])
def test_words_of_the_task_reach_a_model_with_adapters(place: str) -> None:
    # peft keeps an argument `task_ids` for itself
    words = ["Ann", "met"]
    tokenizer = ElmoTokenizer.from_pretrained(ELMO_TINY_EN, task_vocab=words)
    torch.manual_seed(0)
    own = {"num_task_words": len(words) + 2, "task_word_embedding_dim": 3, "train_task_words": True, "mix_at": place}
    plain = ElmoForTokenClassification.from_pretrained(ELMO_TINY_EN, id2label=dict(enumerate(NAMES)), **own).eval()
    batch = tokenizer(["Ann met Bob ."], return_tensors="pt")
    expected = logits(plain, batch)
    config = peft.LoraConfig(task_type="TOKEN_CLS", r=2, target_modules=["word_embeddings"])

    torch.testing.assert_close(logits(peft.get_peft_model(plain, config).eval(), batch), expected, rtol=0, atol=0)
