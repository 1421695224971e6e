"""Original checkpoint -> a folder that `from_pretrained` loads; whole, or not there at all."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.utils import logging

import elmo_hf
from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoModel, ElmoTokenizer

from .config import elmo_config
from .folders import new_folder, refuse_existing
from .mapping import to_state_dict
from .readers import tensorflow_checkpoint
from .readers.base import ConversionError, OriginalCheckpoint, printable
from .sources import read_original


logger = logging.get_logger(__name__)

PROVENANCE = "provenance.json"

#: Stands for a word to be predicted.
MASK = "<MASK>"

#: Room for configuration, tokenizer and code beside the weights.
SLACK = 1 << 20

MODEL_CARD = """\
---
library_name: transformers
tags:
- elmo
- feature-extraction
---

# ELMo, converted from {names}

A bidirectional language model (Peters et al. 2018, "Deep contextualized word representations"): {layers} biLSTM
layers, cells {cell} wide, vectors {width} wide, {parameters:,} parameters. {head}

```python
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder", trust_remote_code=True)
model = AutoModel.from_pretrained("path/to/this/folder", trust_remote_code=True)
batch = tokenizer([["EU-wide", "measures"]], is_split_into_words=True, return_tensors="pt")
output = model(**batch, output_hidden_states=True)
```

`output.hidden_states` are the layers, the token layer first; `output.last_hidden_state` is their mix, not the top
layer. The words `{begin}` and `{end}` around each sentence have vectors too.

## Source

| file | bytes | sha256 |
|---|---|---|
{table}

Converted by {converter}; the original options are in `{provenance}`. The licence of the source is not
recorded here.
"""


WITH_HEAD = """\
The softmax with which it predicts {words:,}
words is there: `AutoModelForPreTraining` and `AutoModelForMaskedLM` load it."""
WITHOUT_HEAD = """\
The softmax with which it
predicted words is not there: it gives vectors, and no probabilities."""


def convert(
    sources: Sequence[str | Path],
    output: str | Path,
    *,
    mix: int | None = None,
    language: str | None = None,
    progress: bool = False,
) -> ElmoConfig:
    """Convert an original ELMo to a folder for `AutoModel.from_pretrained`.

    The folder appears when all is well; nothing is left behind otherwise. The same sources give the same bytes.

    Args:
        sources: Weights, options and perhaps a vocabulary, in any order; or one folder; or one zip as NLPL publishes
            it; or links to these.
        output: The folder to make; it must not exist.
        mix: Which of the mixes of layers that an AllenNLP model was trained with, from 0; the first by default.
        language: Which language of AllenNLP's multilingual ELMo.
        progress: Show a bar while downloading.

    Returns:
        The configuration of the model.

    Raises:
        ConversionError: If the sources are not one intact model, or the folder cannot be written.
    """
    output = Path(output)
    refuse_existing(output)
    with read_original(sources, mix=mix, language=language, progress=progress) as checkpoint:
        config = elmo_config(checkpoint)
        state = to_state_dict(checkpoint, config)
        checkpoint.check_unchanged()
    _log_left(checkpoint)
    model = load_strictly(config, state)
    tokenizer = make_tokenizer(config, checkpoint, mask_token=MASK if _has_head(model) else None)
    with new_folder(output, room=sum(tensor.nbytes for tensor in state.values()) + SLACK) as folder:
        with _progress_bars(shown=progress):
            model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        _write_json(folder / PROVENANCE, provenance(checkpoint) | {"language_model_head": _has_head(model)})
        (folder / "README.md").write_text(model_card(checkpoint, model, tokenizer), encoding="utf-8")
    return config


def load_strictly(config: ElmoConfig, state: dict[str, Tensor]) -> ElmoModel | ElmoForPreTraining:
    """Make the model of these very tensors, without a copy; every parameter must be among them.

    Args:
        config: The configuration.
        state: All parameters but the mix of the layers, which a biLM does not have: it starts as their mean.

    Returns:
        The model, on the CPU; with its softmax where that is there.
    """
    mix = {
        "scalar_mix.weights": torch.zeros(config.num_hidden_layers + 1),
        "scalar_mix.gamma": torch.ones(1),
    }
    softmax = {name: tensor for name, tensor in state.items() if name.startswith("softmax.")}
    state = mix | {name: tensor for name, tensor in state.items() if name not in softmax}
    with torch.device("meta"):
        model = ElmoForPreTraining(config) if softmax else ElmoModel(config)
    if softmax:
        if config.tie_word_embeddings:
            softmax["softmax.weight"] = state["token_encoder.word_embeddings.weight"]
        state = {f"{model.base_model_prefix}.{name}": tensor for name, tensor in state.items()} | softmax
    model.load_state_dict(state, strict=True, assign=True)
    # what is assigned is not shared any more
    model.tie_weights()
    return model


def make_tokenizer(
    config: ElmoConfig, checkpoint: OriginalCheckpoint, *, mask_token: str | None = None
) -> ElmoTokenizer:
    """Make the tokenizer with the original's vocabulary.

    Args:
        config: The configuration.
        checkpoint: The original.
        mask_token: What stands for a word to be predicted; its id is behind those of the words, if it is none.

    Returns:
        The tokenizer.

    Raises:
        ConversionError: If its word ids are not those of the configuration.
    """
    vocabulary = None if checkpoint.vocabulary is None else list(checkpoint.vocabulary)
    if vocabulary is not None and config.word_embedding_dim and checkpoint.characters is not None:
        # rows at the end that no word has, which a dictionary of ELMoForManyLangs may leave
        vocabulary += [f"\0row {row}" for row in range(len(vocabulary), config.vocab_size - 1)]
    tokenizer = ElmoTokenizer(
        vocab=vocabulary,
        max_characters_per_token=config.max_characters_per_token,
        char_vocab=checkpoint.characters,
        **({"mask_token": mask_token} if mask_token else {}),
    )
    ids = (tokenizer.vocab_size, tokenizer.bos_token_id, tokenizer.eos_token_id)
    if ids != (config.vocab_size, config.bos_token_id, config.eos_token_id):
        raise ConversionError(
            f"{checkpoint.vocabulary_name}: the tokenizer has size and ids {ids} where the model has "
            f"{(config.vocab_size, config.bos_token_id, config.eos_token_id)}. Report this vocabulary."
        )
    return tokenizer


def provenance(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """What the model was made of: names, sizes and hashes of the sources, and the original options, whole.

    Also what of the sources was chosen and what was left, where there was something.
    """
    sources = []
    for source in checkpoint.sources:
        entry: dict[str, Any] = {"name": source.name, "size": source.size, "sha256": source.sha256}
        sources.append(entry | ({"url": source.url} if source.url else {}))
    return {
        "format": checkpoint.format,
        "sources": sources,
        "options": checkpoint.options,
        **({"chosen": dict(checkpoint.chosen)} if checkpoint.chosen else {}),
        **({"left": list(checkpoint.left)} if checkpoint.left else {}),
        "converter": f"elmo_hf {elmo_hf.__version__}",
    }


def _log_left(checkpoint: OriginalCheckpoint) -> None:
    if checkpoint.left:
        names = [f"{printable(name):.80}" for name in checkpoint.left[:3]]
        shown = ", ".join(names) + (", ..." if len(checkpoint.left) > 3 else "")
        training = checkpoint.format == tensorflow_checkpoint.FORMAT and all(
            map(tensorflow_checkpoint.LEFT.fullmatch, checkpoint.left)
        )
        logger.warning(
            "%s: %d arrays are %s and are left (all are listed in %s): %s",
            checkpoint.left_name or checkpoint.weights_name,
            len(checkpoint.left),
            "of the training alone, such as the optimiser's," if training else "no part of the biLM",
            PROVENANCE,
            shown,
        )


def model_card(checkpoint: OriginalCheckpoint, model: ElmoModel | ElmoForPreTraining, tokenizer: ElmoTokenizer) -> str:
    """Write the README of the folder."""
    config = model.config
    head = WITH_HEAD.format(words=config.vocab_size - 1) if _has_head(model) else WITHOUT_HEAD
    return MODEL_CARD.format(
        names=" and ".join(source.name for source in checkpoint.sources[:2]),
        layers=config.num_hidden_layers,
        cell=config.intermediate_size,
        width=config.hidden_size,
        head=head,
        begin=tokenizer.bos_token,
        end=tokenizer.eos_token,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        table="\n".join(
            f"| {f'[{source.name}]({source.url})' if source.url else f'`{source.name}`'} "
            f"| {source.size:,} | `{source.sha256}` |"
            for source in checkpoint.sources
        ),
        converter=f"elmo_hf {elmo_hf.__version__}",
        provenance=PROVENANCE,
    )


def _has_head(model: ElmoModel | ElmoForPreTraining) -> bool:
    return isinstance(model, ElmoForPreTraining)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextlib.contextmanager
def _progress_bars(*, shown: bool) -> Iterator[None]:
    """Keep Transformers' bars to those who asked for bars."""
    before = logging.is_progress_bar_enabled()
    if not shown:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            logging.enable_progress_bar()


__all__ = ["convert", "load_strictly", "make_tokenizer", "model_card", "provenance"]
