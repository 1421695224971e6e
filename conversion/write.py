"""Original checkpoint -> a folder that `from_pretrained` loads; whole, or not there at all."""

import contextlib
import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.utils import logging

import elmo_hf
from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer

from .config import elmo_config
from .mapping import to_state_dict
from .readers.base import ConversionError, OriginalCheckpoint
from .sources import read_original


PROVENANCE = "provenance.json"

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
layers, cells {cell} wide, vectors {width} wide, {parameters:,} parameters.

```python
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("path/to/this/folder", trust_remote_code=True)
model = AutoModel.from_pretrained("path/to/this/folder", trust_remote_code=True)
batch = tokenizer([["EU-wide", "measures"]], is_split_into_words=True, return_tensors="pt")
output = model(**batch, output_hidden_states=True)
```

`output.hidden_states` are the layers, the token layer first; `output.last_hidden_state` is their mix, not the top
layer. The words `<S>` and `</S>` around each sentence have vectors too.

## Source

| file | bytes | sha256 |
|---|---|---|
{table}

Converted by {converter}; the original options are in `{provenance}`. The licence of the source is not
recorded here.
"""


def convert(sources: Sequence[str | Path], output: str | Path, *, progress: bool = False) -> ElmoConfig:
    """Convert an original ELMo to a folder for `AutoModel.from_pretrained`.

    The folder appears when all is well; nothing is left behind otherwise. The same sources give the same bytes.

    Args:
        sources: Weights, options and perhaps a vocabulary, in any order; or one folder; or one zip as NLPL publishes
            it; or links to these.
        output: The folder to make; it must not exist.
        progress: Show a bar while downloading.

    Returns:
        The configuration of the model.

    Raises:
        ConversionError: If the sources are not one intact model, or the folder cannot be written.
    """
    output = Path(output)
    _refuse_existing(output)
    with read_original(sources, progress=progress) as checkpoint:
        config = elmo_config(checkpoint)
        state = to_state_dict(checkpoint, config)
    model = load_strictly(config, state)
    tokenizer = make_tokenizer(config, checkpoint)
    with _new_folder(output, room=sum(tensor.nbytes for tensor in state.values()) + SLACK) as folder:
        with _progress_bars(shown=progress):
            model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        _write_json(folder / PROVENANCE, provenance(checkpoint))
        (folder / "README.md").write_text(model_card(checkpoint, model), encoding="utf-8")
    return config


def load_strictly(config: ElmoConfig, state: dict[str, Tensor]) -> ElmoModel:
    """Make the model of these very tensors, without a copy; every parameter must be among them.

    Args:
        config: The configuration.
        state: All parameters but the mix of the layers, which a biLM does not have: it starts as their mean.

    Returns:
        The model, on the CPU.
    """
    mix = {
        "scalar_mix.weights": torch.zeros(config.num_hidden_layers + 1),
        "scalar_mix.gamma": torch.ones(1),
    }
    with torch.device("meta"):
        model = ElmoModel(config)
    model.load_state_dict(mix | state, strict=True, assign=True)
    return model


def make_tokenizer(config: ElmoConfig, checkpoint: OriginalCheckpoint) -> ElmoTokenizer:
    """Make the tokenizer with the original's vocabulary.

    Raises:
        ConversionError: If its word ids are not those of the configuration.
    """
    vocabulary = None if checkpoint.vocabulary is None else list(checkpoint.vocabulary)
    tokenizer = ElmoTokenizer(vocab=vocabulary, max_characters_per_token=config.max_characters_per_token)
    ids = (len(tokenizer), tokenizer.bos_token_id, tokenizer.eos_token_id)
    if ids != (config.vocab_size, config.bos_token_id, config.eos_token_id):
        raise ConversionError(
            f"{checkpoint.vocabulary_name}: the tokenizer has size and ids {ids} where the model has "
            f"{(config.vocab_size, config.bos_token_id, config.eos_token_id)}. Report this vocabulary."
        )
    return tokenizer


def provenance(checkpoint: OriginalCheckpoint) -> dict[str, Any]:
    """What the model was made of: names, sizes and hashes of the sources, and the original options, whole."""
    sources = []
    for source in checkpoint.sources:
        entry: dict[str, Any] = {"name": source.name, "size": source.size, "sha256": source.sha256}
        sources.append(entry | ({"url": source.url} if source.url else {}))
    return {
        "format": checkpoint.format,
        "sources": sources,
        "options": checkpoint.options,
        "converter": f"elmo_hf {elmo_hf.__version__}",
    }


def model_card(checkpoint: OriginalCheckpoint, model: ElmoModel) -> str:
    """Write the README of the folder."""
    config = model.config
    return MODEL_CARD.format(
        names=" and ".join(source.name for source in checkpoint.sources[:2]),
        layers=config.num_hidden_layers,
        cell=config.intermediate_size,
        width=config.hidden_size,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        table="\n".join(
            f"| {f'[{source.name}]({source.url})' if source.url else f'`{source.name}`'} "
            f"| {source.size:,} | `{source.sha256}` |"
            for source in checkpoint.sources
        ),
        converter=f"elmo_hf {elmo_hf.__version__}",
        provenance=PROVENANCE,
    )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _refuse_existing(output: Path) -> None:
    # also a link that leads nowhere
    if os.path.lexists(output):
        raise ConversionError(f"{output} already exists. Give another --output, or remove it first.")


@contextlib.contextmanager
def _new_folder(output: Path, *, room: int) -> Iterator[Path]:
    """Give a temporary folder beside `output` that takes its name at the end, if nothing goes wrong.

    What a killed process leaves is a hidden folder `.NAME-XXXX.partial`, which is in nobody's way.
    """
    made = _make_parents(output.absolute().parent)
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(dir=output.absolute().parent, prefix=f".{output.name}-", suffix=".partial"))
        _check_room(folder, room)
        yield folder
        _make_readable(folder)
        _refuse_existing(output)
        folder.rename(output)
    except Exception as error:
        problem = _system_error(error)
        if problem is None:
            raise
        raise _as_conversion_error(problem, output) from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        for parent in made:
            # those that hold the finished folder are not empty, and stay
            with contextlib.suppress(OSError):
                parent.rmdir()


def _make_parents(parent: Path) -> list[Path]:
    """Make the folder that will hold the output; returns those that were not there, innermost first."""
    missing = [each for each in (parent, *parent.parents) if not each.exists()]
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _as_conversion_error(error, parent) from error
    return missing


def _check_room(folder: Path, room: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < room:
        raise OSError(errno.ENOSPC, f"{room:,} bytes are needed, {free:,} are free")


def _system_error(error: Exception) -> OSError | None:
    """What the system refused, if that is what went wrong.

    safetensors and tokenizers are in Rust and pass it on in words, tokenizers in a plain `Exception`.
    """
    if isinstance(error, OSError):
        return error
    number = re.search(r"\(os error (\d+)\)", str(error))
    return None if number is None else OSError(int(number[1]), os.strerror(int(number[1])))


def _as_conversion_error(error: OSError, output: Path) -> ConversionError:
    reason = error.strerror or error
    if error.errno == errno.ENOSPC:
        return ConversionError(f"{output}: the disk is full ({reason}). Make room, or give an --output elsewhere.")
    return ConversionError(f"{output} cannot be written ({reason}). Give an --output elsewhere.")


def _make_readable(folder: Path) -> None:
    """Give folder and files the permissions that new ones have: temporary folders and safetensors are private."""
    # the system has no way to read the mask but to set it
    mask = os.umask(0o077)
    os.umask(mask)
    folder.chmod(0o777 & ~mask)
    for path in folder.iterdir():
        path.chmod(0o666 & ~mask)


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
