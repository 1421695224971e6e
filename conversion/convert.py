"""Convert an original checkpoint to a folder that `from_pretrained` loads: read, configure, map, build, write."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers.utils import logging

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf.files import refuse_existing

from .config import elmo_config
from .fetch.sources import read_original
from .mapping import to_state_dict
from .readers.base import ConversionError, OriginalCheckpoint, printable
from .write import PROVENANCE, write_folder


logger = logging.get_logger(__name__)

#: The token that stands for a word to predict.
MASK = "<MASK>"


def convert(
    sources: Sequence[str | Path],
    output: str | Path,
    *,
    mix: int | None = None,
    language: str | None = None,
    progress: bool = False,
) -> ElmoConfig:
    """Convert an original ELMo to a folder that `AutoModel.from_pretrained` loads.

    The folder appears once it is complete; a failure leaves nothing behind. The same sources give the same bytes.

    Args:
        sources: Weights, options and, if there is one, a vocabulary, in any order; or a folder or archive that holds
            them; or `https://` and `http://` links to these; or the name of a known release, such as `original` or
            `efml:zh`, which is downloaded. A path wins over a name.
        output: The folder to create; it must not exist.
        mix: The number of the layer mix to take from an AllenNLP model with several, from 0; the first by default.
        language: The language to take from AllenNLP's multilingual ELMo, such as `es`.
        progress: Show a progress bar while downloading.

    Returns:
        The configuration of the model.

    Raises:
        ConversionError: If the sources are not one intact model.
        ElmoError: If the folder exists, or cannot be written.
    """
    output = Path(output)
    refuse_existing(output)
    with read_original(sources, mix=mix, language=language, progress=progress) as checkpoint:
        config = elmo_config(checkpoint)
        state = to_state_dict(checkpoint, config)
        checkpoint.check_unchanged()
    _log_left(checkpoint)
    model = load_strictly(config, state)
    mask_token = MASK if isinstance(model, ElmoForPreTraining) else None
    tokenizer = make_tokenizer(config, checkpoint, mask_token=mask_token)
    write_folder(output, checkpoint, model, tokenizer, progress=progress)
    return config


def load_strictly(config: ElmoConfig, state: dict[str, Tensor]) -> ElmoModel | ElmoForPreTraining:
    """Build a model around these tensors, without copying them; the state must hold every parameter.

    Args:
        config: The configuration.
        state: The parameters of `ElmoModel`, and `softmax.*` of a language model. A biLM has no layer mix; without one
            the mix starts as the mean of the layers.

    Returns:
        The model, on the CPU: `ElmoForPreTraining` if the state holds a softmax, `ElmoModel` otherwise.
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
    # Assigning gives each name a parameter of its own.
    model.tie_weights()
    return model


def make_tokenizer(
    config: ElmoConfig, checkpoint: OriginalCheckpoint, *, mask_token: str | None = None
) -> ElmoTokenizer:
    """Build the tokenizer with the vocabulary of the original.

    Args:
        config: The configuration.
        checkpoint: The original.
        mask_token: The token that stands for a word to predict. If the vocabulary lacks it, its id follows those of
            the words.

    Returns:
        The tokenizer.

    Raises:
        ConversionError: If its ids differ from those of the configuration.
    """
    tokenizer = ElmoTokenizer(
        vocab=None if checkpoint.vocabulary is None else list(checkpoint.vocabulary),
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


def _log_left(checkpoint: OriginalCheckpoint) -> None:
    """Tell the user what the files hold beside the model."""
    if not checkpoint.left:
        return
    names = [f"{printable(name):.80}" for name in checkpoint.left[:3]]
    logger.warning(
        "%s: %d arrays %s and are left out (all are listed in %s): %s",
        checkpoint.left_name or checkpoint.weights_name,
        len(checkpoint.left),
        checkpoint.left_reason,
        PROVENANCE,
        ", ".join(names) + (", ..." if len(checkpoint.left) > 3 else ""),
    )


__all__ = ["convert", "load_strictly", "make_tokenizer"]
