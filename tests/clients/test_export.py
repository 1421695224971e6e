"""`torch.export`: a model exported at one number of sentences and words computes all others, too."""

import pytest
import torch

from elmo_hf import (
    ElmoForCoreferenceResolution,
    ElmoForMaskedLM,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)
from support.tiny_models import Batch, batch, row, stack, tensors, tiny_model


# the exporter warns about itself
pytestmark = pytest.mark.filterwarnings("ignore")

READS = ("input_ids", "attention_mask", "char_ids")

# one sentence, more than traced, fewer, one word
SHAPES = ([1], [9], [5, 5, 2, 12, 1], [3, 8])


def export(model: ElmoModel, **fields: object) -> torch.nn.Module:
    """Trace a model on three sentences."""
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("words")}
    example = batch([4, 7, 2], **fields)
    return torch.export.export(model, (), example, dynamic_shapes=dict.fromkeys(READS, axes)).module()


def check(cls: type, **fields: object) -> None:
    model = tiny_model(cls, output_hidden_states=True, **fields)
    exported = export(model, **fields)

    for lengths in SHAPES:
        for left in (False, True):
            inputs = batch(lengths, left=left, **fields)
            with torch.no_grad():
                torch.testing.assert_close(tensors(exported(**inputs)), tensors(model(**inputs)), atol=1e-5, rtol=0)


def test_exports_words_characters_layers_and_state() -> None:
    check(ElmoModel, word_embedding_dim=5, use_cache=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (ElmoModel, {"cell_clip": None, "projection_clip": None, "use_skip_connections": False}),
        (ElmoModel, {"intermediate_size": 8, "num_hidden_layers": 3, "layer": "top"}),
        (ElmoModel, {"char_embedding_dim": 0, "char_filters": [], "word_embedding_dim": 8, "vocab_size": 30}),
        # as ELMoForManyLangs has them: characters of Unicode, and a projection in any case
        (ElmoModel, {"char_vocab_size": 3000, "word_embedding_dim": 5, "always_project": True, "forget_bias": 0.0}),
        (ElmoModel, {"num_hidden_layers": 1, "mix_layer_norm": True, "num_highway_layers": 2, "hidden_act": "tanh"}),
        (ElmoForTokenClassification, {"num_labels": 3}),
        (ElmoForMaskedLM, {"vocab_size": 30}),
        (ElmoForPreTraining, {"vocab_size": 30}),
    ],
    ids=["plain", "unprojected", "words", "unicode", "normalised", "tagger", "masked", "language model"],
)
def test_exports_every_configuration(cls: type, fields: dict) -> None:
    check(cls, **fields)


NAMES = dict(enumerate(["O", "B-X", "I-X", "B-Y", "I-Y"]))
ROLES = {"id2label": NAMES, "label2id": {name: number for number, name in NAMES.items()}}


def rows_for(model: ElmoModel, lengths: list[int], *, left: bool = False) -> Batch:
    """Sentences of so many words, or pairs of them, as the head of a model reads them."""
    count = 2 if model.config.head == "esim" or isinstance(model, ElmoForQuestionAnswering) else 1
    rows = stack([row(*[length] * count, model=model, seed=length) for length in lengths], left=left)
    if model.config.head == "alternating-lstm":
        rows["token_type_ids"] = torch.zeros_like(rows["input_ids"])
        rows["token_type_ids"][:, rows["input_ids"].shape[1] // 2] = 1
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (ElmoForTokenClassification, {"head": "bilstm-crf", **ROLES}),
        (ElmoForTokenClassification, {"head": "alternating-lstm", **ROLES}),
        (ElmoForSequenceClassification, {"head": "bcn"}),
        (ElmoForSequenceClassification, {"head": "esim"}),
        (ElmoForQuestionAnswering, {"head": "linear"}),
        (ElmoForQuestionAnswering, {"head": "bidaf"}),
    ],
    ids=["names", "roles", "sentences", "pairs", "spans", "answers"],
)
def test_exports_every_head(cls: type, fields: dict) -> None:
    mix_at = "input" if fields["head"] == "linear" else "both"
    model = tiny_model(cls, head_hidden_size=6, mix_at=mix_at, **fields)
    axes = {0: torch.export.Dim("rows"), 1: torch.export.Dim("words")}
    example = rows_for(model, [4, 2, 7])

    program = torch.export.export(model, (), example, dynamic_shapes=dict.fromkeys(example, axes)).module()

    for lengths in SHAPES:
        for left in (False, True):
            inputs = rows_for(model, lengths, left=left)
            with torch.no_grad():
                torch.testing.assert_close(tensors(program(**inputs)), tensors(model(**inputs)), atol=1e-5, rtol=0)


def test_says_that_coreference_is_not_exported() -> None:
    model = tiny_model(ElmoForCoreferenceResolution, head_hidden_size=6)

    with pytest.raises(ValueError, match="cannot be exported, because it chooses spans one by one: export the"):
        torch.export.export(model, (), rows_for(model, [3]))
