"""Change the vocabulary of a language model, and check that a tokenizer has it.

Shape notation: `V` words of the vocabulary, padding (row 0) included, `P` width of one direction.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import torch

from elmo_hf.errors import ElmoError, counted
from elmo_hf.model.modeling_elmo import ElmoPreTrainedModel
from elmo_hf.model.tokenization_elmo import ElmoTokenizer
from elmo_hf.model.tokenizer_backend_elmo import PAD


Model = TypeVar("Model", bound=ElmoPreTrainedModel)

# suffixes of the parameters that have a row for each word; a task's own table has another vocabulary
TABLES = ("softmax.weight", "softmax.bias", "token_encoder.word_embeddings.weight")


def change_vocabulary(model: Model, tokenizer: ElmoTokenizer, words: Sequence[str]) -> tuple[Model, ElmoTokenizer]:
    """Give a language model another vocabulary, such as that of the domain on which its training continues.

    Words of the old vocabulary, the boundary tokens and `<UNK>` keep their rows of the softmax and of the word
    embeddings. The old model read and predicted a new word as `<UNK>`, so it starts with the row of `<UNK>`. `<UNK>`
    and all new words share its probability equally: their bias is lower by the logarithm of their number.
    Words that you leave out are gone, and the others share their probability.

    Args:
        model: An ELMo of any class, with its trained weights; it does not change.
        tokenizer: The tokenizer of the model.
        words: The lines of the new vocabulary, in descending frequency for the sampled softmax. `ElmoTokenizer`
            appends `<S>`, `</S>` and `<UNK>` if they are missing.

    Returns:
        A new model of the same class, device and dtype, in evaluation mode, and its tokenizer.

    Raises:
        ElmoError: If the tokenizer does not belong to the model.
        TypeError: If `words` is not a sequence of words.
    """
    check_vocabulary(model, tokenizer)
    changed = _with_words(tokenizer, words)
    # [V], the old row of each new row, or that of <UNK>
    unknown = tokenizer.unk_token_id or 0
    old, rows = _rows(tokenizer), torch.zeros(changed.vocab_size, dtype=torch.long)
    new = torch.zeros(changed.vocab_size, dtype=torch.bool)
    for word, row in _rows(changed).items():
        rows[row] = old.get(word, unknown)
        new[row] = word not in old
    config = copy.deepcopy(model.config)
    config.vocab_size = changed.vocab_size
    config.bos_token_id, config.eos_token_id = changed.bos_token_id, changed.eos_token_id
    config.unk_token_id = changed.unk_token_id
    weights = {}
    for name, weight in model.state_dict().items():
        weights[name] = weight[rows.to(weight.device)] if name.endswith(TABLES) else weight
        if name.endswith("softmax.bias"):
            new[changed.unk_token_id] = True
            weights[name][new.to(weight.device)] -= math.log(int(new.sum()))
    model_class: type[Any] = type(model)
    result = model_class(config)
    result.load_state_dict(weights)
    return result.to(device=model.device, dtype=model.dtype).eval(), changed


def check_vocabulary(model: ElmoPreTrainedModel, tokenizer: ElmoTokenizer) -> None:
    """Refuse a tokenizer that does not belong to a model.

    Raises:
        ElmoError: If their vocabularies have different sizes.
    """
    if tokenizer.vocab_size != model.config.vocab_size:
        raise ElmoError(
            f"The tokenizer has {counted(tokenizer.vocab_size, 'word')} and the model {model.config.vocab_size:,}, "
            "padding included: use the tokenizer that was saved with the model."
        )


def _with_words(tokenizer: ElmoTokenizer, words: Sequence[str]) -> ElmoTokenizer:
    """Return a tokenizer that splits and spells like the given one, with other words; those of a task stay."""
    own = tokenizer.task_words
    mask = {} if tokenizer.mask_token is None else {"mask_token": tokenizer.mask_token}
    changed = ElmoTokenizer(
        words,
        tokenizer.max_characters_per_token,
        tokenizer.pre_tokenizer,
        char_vocab=tokenizer.char_numbers,
        task_vocab=None if own is None else list(own.numbers),
        task_lookup=tokenizer.task_lookup,
        bos_token=tokenizer.bos_token,
        eos_token=tokenizer.eos_token,
        unk_token=tokenizer.unk_token,
        pad_token=tokenizer.pad_token,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        model_max_length=tokenizer.model_max_length,
        **mask,
    )
    changed.backend_tokenizer.pre_tokenizer = tokenizer.backend_tokenizer.pre_tokenizer
    return changed


def _rows(tokenizer: ElmoTokenizer) -> dict[str, int]:
    """Return the row of each word, without padding and without tokens that were added after the vocabulary."""
    size = tokenizer.vocab_size
    return {word: row for word, row in tokenizer.get_vocab().items() if row < size and word != PAD}


__all__ = ["change_vocabulary", "check_vocabulary"]
