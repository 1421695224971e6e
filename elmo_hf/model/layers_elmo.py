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
"""The layers of the biLM, and the mix of their outputs.

Shape notation: `B` sentences, `T` words with the boundary tokens `<S>` and `</S>`, `P` width of one direction,
`H = 2 * P` width of a vector, `C` width of the cell, `L` biLSTM layers.
"""

from collections.abc import Sequence

import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from .configuration_elmo import ElmoConfig
from .outputs_elmo import LayerState
from .packing_elmo import Packing
from .recurrence_elmo import InputProjections, LstmWeights, read_sentences
from .scan_elmo import Grid


class ElmoBiLstmLayer(GradientCheckpointingLayer):
    """One layer of the biLM: a forward and a backward LSTM, projected and clipped, independent of each other."""

    def __init__(self, config: ElmoConfig, layer_idx: int) -> None:
        super().__init__()
        width, cell = config.hidden_size // 2, config.intermediate_size
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.input_projections = nn.ModuleList(nn.Linear(width, 4 * cell) for _ in range(2))
        self.recurrent_weight = nn.Parameter(torch.empty(2, width, 4 * cell))
        self.output_weight = None
        # CODEPATH: every English release; bilm-tf makes none where cell and output are equal, ELMoForManyLangs always
        if config.always_project or cell != width:
            self.output_weight = nn.Parameter(torch.empty(2, cell, width))
        self.cell_clip = config.cell_clip
        self.projection_clip = config.projection_clip
        self.forget_bias = config.forget_bias
        # CODEPATH: every English release has skip connections; bilm-tf's own test model has none
        self.skip = config.use_skip_connections and layer_idx > 0

    def forward(
        self, hidden_states: torch.Tensor, packing: Packing | Grid, state: LayerState | None = None
    ) -> tuple[torch.Tensor, LayerState]:
        """Read each sentence in both directions.

        Args:
            hidden_states: `[B, T, H]`, the layer below, zero at padding.
            packing: Where the words are.
            state: The hidden state `[B, 2, P]` and the cell state `[B, 2, C]` to start from; zero by default.

        Returns:
            `[B, T, H]`, zero at padding, and the state after each direction's last word.
        """
        hidden_states = self.dropout(hidden_states)
        # [B, T, 2, P]
        outputs, state = read_sentences(
            hidden_states.unflatten(2, (2, -1)),
            packing,
            InputProjections(self.input_projections, self.forget_bias),
            LstmWeights(self.recurrent_weight, self.output_weight, self.cell_clip, self.projection_clip),
            state,
        )
        result = outputs.flatten(2)
        return (result + hidden_states if self.skip else result), state


class ElmoScalarMix(nn.Module):
    """The task's mix of the layers (equation 1): `gamma * sum_j softmax(weights)_j * layer_j`.

    The weights start equal, so that an untrained mix is the mean of the layers. `config.layer` can select one layer,
    or the average of all, in place of the mix.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        # CODEPATH: "last layer only" in the paper's comparison (section 5.1)
        self.layer: str | int = config.num_hidden_layers if config.layer == "top" else config.layer
        self.weights = nn.Parameter(torch.empty(config.num_hidden_layers + 1))
        self.gamma = nn.Parameter(torch.empty(1))
        self.normalize = config.mix_layer_norm
        self.alignment = None
        # CODEPATH: AllenNLP's ELMos of several languages
        if config.alignment:
            self.alignment = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def normalized_weights(self) -> torch.Tensor:
        """Return the share of each layer, `[L + 1]`, which add up to 1; float32 at least.

        Half precision would round nearly equal weights to equal ones.
        """
        weights = self.weights.to(torch.promote_types(self.weights.dtype, torch.float32))
        if isinstance(self.layer, int):
            return torch.zeros_like(weights).index_fill(0, torch.tensor(self.layer, device=weights.device), 1)
        if self.layer == "average":
            return torch.full_like(weights, 1 / len(weights))
        return weights.softmax(dim=0)

    def forward(self, layers: Sequence[torch.Tensor]) -> torch.Tensor:
        """Mix the layers.

        Args:
            layers: `L + 1` layers `[B, T, H]`, the token layer first.

        Returns:
            `[B, T, H]`, in the dtype of the layers.
        """
        # CODEPATH: the paper normalises for some tasks (section 3.2); bilm-tf and AllenNLP do so over the whole batch
        if self.normalize:
            layers = [nn.functional.layer_norm(layer, layer.shape[2:]) for layer in layers]
        if isinstance(self.layer, int):
            mixed = layers[self.layer]
        else:
            gamma = self.gamma if self.layer == "mix" else 1
            shares = (gamma * self.normalized_weights()).to(layers[0].dtype)
            mixed = shares[0] * layers[0]
            for share, layer in zip(shares[1:], layers[1:], strict=True):
                mixed = mixed + share * layer
        return mixed if self.alignment is None else self.alignment(mixed)


__all__ = ["ElmoBiLstmLayer", "ElmoScalarMix"]
