"""Random models small enough to be quick and asymmetric enough to be wrong, and sentences for them."""

import torch

from elmo_hf import ElmoConfig, ElmoModel


Batch = dict[str, torch.Tensor]

BOS, EOS = 1, 2


def tiny_config(**fields: object) -> ElmoConfig:
    """A model small enough to be exact and large enough to be wrong."""
    defaults = {
        "hidden_size": 16,
        "intermediate_size": 12,
        "char_embedding_dim": 4,
        "max_characters_per_token": 20,
        "char_filters": [[1, 4], [2, 4], [3, 6]],
        "cell_clip": 0.5,
        "projection_clip": 0.3,
        # asymmetric and large: clips fire, and a swapped half cannot hide
    }
    return ElmoConfig(**{**defaults, **fields})


def tiny_model(cls: type = ElmoModel, **fields: object) -> ElmoModel:
    torch.manual_seed(1)
    model = cls(tiny_config(**fields)).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("scalar_mix.weights"):
            parameter.data = torch.linspace(-1, 1, parameter.numel())
        elif name.endswith(("bias", "pair_weight")):
            parameter.data.normal_(std=0.3)
    return model


def sentence(length: int, config: ElmoConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    """One sentence with words of every length, some of them twice."""
    generator = torch.Generator().manual_seed(100 * seed + length)
    width = config.max_characters_per_token
    char_ids = torch.full((1, length, width), 261)
    for word in range(length):
        size = int(torch.randint(2, width + 1, (), generator=generator))
        char_ids[0, word, :size] = torch.randint(1, 261, (size,), generator=generator)
    if length > 3:
        char_ids[0, 3] = char_ids[0, 0]
    input_ids = torch.randint(1, config.vocab_size, (1, length), generator=generator)
    return {"input_ids": input_ids, "char_ids": char_ids, "attention_mask": torch.ones(1, length, dtype=torch.long)}


def row(*lengths: int, model: torch.nn.Module, seed: int = 0) -> Batch:
    """One sentence, or a pair, of so many words, each between its boundaries."""
    parts = []
    for number, length in enumerate(lengths):
        part = sentence(length + 2, model.config, seed=seed + number)
        part["input_ids"] = part["input_ids"] % 26 + 4
        part["input_ids"][0, 0], part["input_ids"][0, -1] = BOS, EOS
        parts.append(part)
    return {name: torch.cat([part[name] for part in parts], dim=1) for name in parts[0]}


def stack(rows: list[Batch], *, left: bool = False) -> Batch:
    """A batch of rows, padded on one side."""
    longest = max(part["input_ids"].shape[1] for part in rows)
    batch = {}
    for name in rows[0]:
        padded = []
        for part in rows:
            missing = longest - part[name].shape[1]
            sizes = (missing, 0) if left else (0, missing)
            padded.append(torch.nn.functional.pad(part[name], (0, 0) * (part[name].ndim - 2) + sizes))
        batch[name] = torch.cat(padded)
    return batch


def batch(lengths: list[int], *, left: bool = False, **fields: object) -> dict[str, torch.Tensor]:
    """Sentences of these lengths, padded."""
    config, rows = tiny_config(**fields), {}
    for number, length in enumerate(lengths):
        missing = max(lengths) - length
        for name, value in sentence(length, config, seed=number).items():
            padding = [missing, 0] if left else [0, missing]
            rows.setdefault(name, []).append(torch.nn.functional.pad(value, [*[0, 0] * (value.ndim - 2), *padding]))
    return {name: torch.cat(values) for name, values in rows.items()}


def tensors(output: dict) -> list[torch.Tensor]:
    """Flatten what a model returns."""
    flat = [output] if isinstance(output, torch.Tensor) else []
    # an exported program gives them in another order
    for part in [] if flat else ([output[name] for name in sorted(output)] if isinstance(output, dict) else output):
        flat += tensors(part)
    return flat
