# Copyright 2026 The elmo_hf authors. All rights reserved.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""The outputs of the ELMo classes.

Shape notation: `B` sentences, `T` words with the boundary tokens `<S>` and `</S>`, `P` width of one direction,
`H = 2 * P` width of a vector, `C` width of the cell, `L` biLSTM layers, `V` words of the vocabulary.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from transformers.modeling_outputs import MaskedLMOutput, ModelOutput, TokenClassifierOutput


# one layer's recurrent state: hidden [B, 2, P] and cell [B, 2, C]
LayerState = tuple[torch.Tensor, torch.Tensor]


class BilmOutput(NamedTuple):
    """What the biLM computes for the classes built on it, before any mix.

    Attributes:
        layers: The `L + 1` layers `[B, T, H]`, the token layer first.
        states: For each biLSTM layer, the state after the last word that each direction read.
    """

    layers: tuple[torch.Tensor, ...]
    states: tuple[LayerState, ...]


@dataclass
class ElmoModelOutput(ModelOutput):
    """The output of `ElmoModel`.

    Attributes:
        last_hidden_state: `[B, T, H]`, the ELMo vector of each word: the scalar mix of all layers, not the top layer.
        state: With `use_cache=True`, for each biLSTM layer the hidden state `[B, 2, P]` and the cell state `[B, 2, C]`
            after the last word that each direction read, to pass to the next call.
        hidden_states: With `output_hidden_states=True`, the `L + 1` layers `[B, T, H]`, the token layer first.
    """

    last_hidden_state: torch.Tensor | None = None
    state: tuple[LayerState, ...] | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


@dataclass
class ElmoTokenClassifierOutput(TokenClassifierOutput):
    """The output of `ElmoForTokenClassification`: that of any token classifier, and the `state` of `ElmoModel`.

    Attributes:
        state: With `use_cache=True`, for each biLSTM layer the hidden state `[B, 2, P]` and the cell state
            `[B, 2, C]` after the last word that each direction read, to pass to the next call.
    """

    state: tuple[LayerState, ...] | None = None


@dataclass
class ElmoForPreTrainingOutput(ModelOutput):
    """The output of `ElmoForPreTraining`: the losses with `labels`, the logits without.

    Attributes:
        loss: The mean of `forward_loss` and `backward_loss`.
        forward_loss: The mean loss of the forward direction's predictions, in nats.
        backward_loss: The mean loss of the backward direction's predictions, in nats.
        forward_losses: `[B, T]`, the loss of each forward prediction, at the word that it was made from; 0 where none
            was made.
        backward_losses: `[B, T]`, the loss of each backward prediction, at the word that it was made from; 0 where
            none was made.
        forward_logits: `[B, T, V]`, scores of the word after each word.
        backward_logits: `[B, T, V]`, scores of the word before each word.
        state: With `use_cache=True`, for each biLSTM layer the hidden state `[B, 2, P]` and the cell state
            `[B, 2, C]` after the last word that each direction read, to pass to the next call.
        hidden_states: With `output_hidden_states=True`, the `L + 1` layers `[B, T, H]`, the token layer first.
    """

    loss: torch.Tensor | None = None
    forward_loss: torch.Tensor | None = None
    backward_loss: torch.Tensor | None = None
    forward_losses: torch.Tensor | None = None
    backward_losses: torch.Tensor | None = None
    forward_logits: torch.Tensor | None = None
    backward_logits: torch.Tensor | None = None
    state: tuple[LayerState, ...] | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


@dataclass
class ElmoMaskedLMOutput(MaskedLMOutput):
    """The output of `ElmoForMaskedLM`: that of any masked language model, and the scores that its logits consist of.

    Attributes:
        forward_logits: `[B, T, V]`, log-probabilities of each word given those left of it.
        backward_logits: `[B, T, V]`, log-probabilities of each word given those right of it.
    """

    forward_logits: torch.Tensor | None = None
    backward_logits: torch.Tensor | None = None


@dataclass
class ElmoCoreferenceOutput(ModelOutput):
    """The output of `ElmoForCoreferenceResolution`; `decode` finds the clusters in it.

    The spans of a document are in the order of the text. Documents with fewer spans than others are padded: with -100,
    and scores with 0.

    Attributes:
        loss: The mean over the documents of the mean negative log-likelihood of their spans, in nats.
        antecedent_scores: `[documents, spans, K + 1]`, first the score of referring to nothing, which is 0, and then
            that of each of the `antecedents`; the lowest number for none.
        antecedents: `[documents, spans, K]`, the numbers of earlier spans that each may refer to, the likeliest by a
            quick estimate first; -100 for none.
        spans: `[documents, spans, 2]`, the first and the last word of each span that may be a mention. Words are
            counted from 0 over the document, boundary tokens left out.
        mention_scores: `[documents, spans]`, how likely each span is to be a mention.
        hidden_states: With `output_hidden_states=True`, the `L + 1` layers `[documents * sentences, T, H]`.
    """

    loss: torch.Tensor | None = None
    antecedent_scores: torch.Tensor | None = None
    antecedents: torch.Tensor | None = None
    spans: torch.Tensor | None = None
    mention_scores: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


__all__ = [
    "BilmOutput",
    "ElmoCoreferenceOutput",
    "ElmoForPreTrainingOutput",
    "ElmoMaskedLMOutput",
    "ElmoModelOutput",
    "ElmoTokenClassifierOutput",
    "LayerState",
]
