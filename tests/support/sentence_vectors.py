"""Vectors of one sentence at a time, to compare those of batches and files with."""

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase


Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]

# for sums in another order
TOLERANCE = 1e-5


@torch.inference_mode()
def alone(loaded: Loaded, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mix `[words, H]` and all layers `[L + 1, words, H]` of one sentence."""
    model, tokenizer = loaded
    batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    output = model(**batch, output_hidden_states=True)
    return output.last_hidden_state[0, 1:-1].numpy(), torch.cat(output.hidden_states)[:, 1:-1].numpy()
