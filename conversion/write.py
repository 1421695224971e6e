"""Write a converted model: weights, configuration, tokenizer, code, provenance and model card in one new folder."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers.utils import logging

import elmo_hf
from elmo_hf import ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf.files import new_folder

from .readers.base import OriginalCheckpoint


PROVENANCE = "provenance.json"

#: Bytes that configuration, tokenizer and code take beside the weights.
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


def write_folder(
    output: Path,
    checkpoint: OriginalCheckpoint,
    model: ElmoModel | ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    *,
    progress: bool = False,
) -> None:
    """Write a model with its tokenizer, provenance and card to a new folder, whole or not at all.

    Args:
        output: The folder to create.
        checkpoint: The original that the model was made from.
        model: The converted model.
        tokenizer: Its tokenizer.
        progress: Show the progress bars of Transformers.

    Raises:
        ElmoError: If the folder exists, or cannot be written.
    """
    size = sum(parameter.nbytes for parameter in model.parameters()) + SLACK
    with new_folder(output, size=size) as folder:
        with _progress_bars(shown=progress):
            model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        _write_json(folder / PROVENANCE, provenance(checkpoint) | {"language_model_head": _has_head(model)})
        (folder / "README.md").write_text(model_card(checkpoint, model, tokenizer), encoding="utf-8")


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


__all__ = ["PROVENANCE", "SLACK", "model_card", "provenance", "write_folder"]
