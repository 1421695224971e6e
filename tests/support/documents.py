"""Documents of random words, and a model that resolves coreference in them."""

from typing import Any

import torch

from elmo_hf import ElmoForCoreferenceResolution

from .tiny_models import Batch, row, stack, tiny_model


def document(model: torch.nn.Module, *lengths: int, seed: int = 0) -> Batch:
    """One document of sentences of so many words, `[sentences, T]`."""
    return stack([row(length, model=model, seed=seed + number) for number, length in enumerate(lengths)])


def several(documents: list[Batch]) -> Batch:
    """A batch of documents, `[documents, sentences, T]`."""
    rows, length = (max(part["input_ids"].shape[axis] for part in documents) for axis in (0, 1))
    batch: dict[str, list[torch.Tensor]] = {}
    for part in documents:
        for name, value in part.items():
            padded = value.new_zeros(rows, length, *value.shape[2:])
            padded[: value.shape[0], : value.shape[1]] = value
            batch.setdefault(name, []).append(padded)
    return {name: torch.stack(values) for name, values in batch.items()}


def coreference_model(**fields: Any) -> ElmoForCoreferenceResolution:
    """A random model whose scores are large enough to link spans."""
    settings = {"head_hidden_size": 5, "max_span_width": 3, "max_antecedents": 4, "spans_per_word": 0.5}
    model: Any = tiny_model(ElmoForCoreferenceResolution, **{**settings, **fields})
    with torch.no_grad():
        # large enough to matter, in a model of a few numbers
        for linear in (model.head.mention_scorer.score, model.head.pair_scorer.scorer.score, model.head.coarse):
            linear.weight.mul_(4)
    return model
