"""Write a converted model: weights, configuration, tokenizer, code, provenance and model card in one new folder."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from huggingface_hub.repocard_data import CardData
from transformers.utils import logging

import elmo_hf
from elmo_hf import ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf.files import new_folder
from elmo_hf.hub.cards import CARD, Card, render_card, table
from elmo_hf.hub.usage import read_model, usage_blocks

from .readers.base import OriginalCheckpoint, SourceFile


PROVENANCE = "provenance.json"

# bytes of the configuration, tokenizer and code beside the weights
SLACK = 1 << 20

# paragraphs of the card
ABOUT = """\
A bidirectional language model (Peters et al. 2018, "Deep contextualized word representations"): {layers} biLSTM
layers, cells {cell} wide, vectors {width} wide, {parameters:,} parameters. {head}"""
WITH_HEAD = """\
Its softmax, which predicts {words:,}
words, is included: `AutoModelForPreTraining` and `AutoModelForMaskedLM` load it."""
WITHOUT_HEAD = """\
Its softmax, which
predicted words, is not included: the model computes vectors, but no probabilities."""
CONVERTED = f"""\
Converted by {{converter}}; the original options are in `{PROVENANCE}`. The licence of the source is not
recorded here."""


def write_folder(
    output: Path,
    checkpoint: OriginalCheckpoint,
    model: ElmoModel | ElmoForPreTraining,
    tokenizer: ElmoTokenizer,
    *,
    progress: bool = False,
) -> None:
    """Write a model with its tokenizer, provenance and card to a new folder, which appears once it is complete.

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
        (folder / CARD).write_text(model_card(checkpoint, model, folder), encoding="utf-8")


def provenance(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """Describe what the model was made of, as `provenance.json` records it.

    Args:
        checkpoint: The original.

    Returns:
        Names, sizes and hashes of the sources, the original options, and the parts of the sources that were chosen
        and left out, if any.
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
        "converter": _converter(),
    }


def model_card(checkpoint: OriginalCheckpoint, model: ElmoModel | ElmoForPreTraining, folder: Path) -> str:
    """Render the card of a converted model, a draft that `elmo-hf push` replaces while nobody has edited it.

    Args:
        checkpoint: The original that the model was made from.
        model: The converted model.
        folder: Its folder, without the card.

    Returns:
        The text of the README.md.
    """
    names = " and ".join(source.name for source in checkpoint.sources[:2])
    return render_card(
        Card(
            title=f"ELMo, converted from {names}",
            blocks=[
                _about(model),
                "## Use",
                *usage_blocks(read_model(folder)),
                "## Source",
                table(("file", "bytes", "sha256"), map(_source_row, checkpoint.sources)),
                CONVERTED.format(converter=_converter()),
            ],
            metadata=CardData(library_name="transformers", tags=["elmo", "feature-extraction"]),
            generated=True,
        )
    )


def _about(model: ElmoModel | ElmoForPreTraining) -> str:
    config = model.config
    return ABOUT.format(
        layers=config.num_hidden_layers,
        cell=config.intermediate_size,
        width=config.hidden_size,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        head=WITH_HEAD.format(words=config.vocab_size - 1) if _has_head(model) else WITHOUT_HEAD,
    )


def _source_row(source: SourceFile) -> tuple[str, str, str]:
    name = f"[{source.name}]({source.url})" if source.url else f"`{source.name}`"
    return name, f"{source.size:,}", f"`{source.sha256}`"


def _converter() -> str:
    return f"elmo_hf {elmo_hf.__version__}"


def _has_head(model: ElmoModel | ElmoForPreTraining) -> bool:
    return isinstance(model, ElmoForPreTraining)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextlib.contextmanager
def _progress_bars(*, shown: bool) -> Iterator[None]:
    """Hide the progress bars of Transformers unless the user asked for bars."""
    before = logging.is_progress_bar_enabled()
    if not shown:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            logging.enable_progress_bar()


__all__ = ["PROVENANCE", "SLACK", "model_card", "provenance", "write_folder"]
