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
"""The token layer of ELMo: what a word's vector is before its context is read.

Shape notation: `N` words of a batch, `D` distinct words among them, `S` characters of a word, `K` ids of a word
(itself, its characters, or both), `F` filters of all convolutions, `P` width of the token layer.
"""

import math
from collections.abc import Sequence

import torch
from torch import nn
from transformers.activations import ACT2FN

from .configuration_elmo import ElmoConfig
from .kernels_elmo import is_trained, linear
from .packing_elmo import FEWEST_ROWS, fill_up, to_list
from .scan_elmo import is_exporting
from .word_cache_elmo import WordCache


# words convolved at once: enough to keep a core busy, few enough that what they give stays in its cache
WORDS_PER_CONVOLUTION = 128

# as FEWEST_ROWS, for the windows of a convolution
FEWEST_WINDOWS = 2 * FEWEST_ROWS


class ElmoLinear(nn.Linear):
    """A linear map, which the compiled code computes on a CPU where nothing is trained."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Map `[D, in_features]` to `[D, out_features]`."""
        return linear(rows, self.weight, self.bias)


class ElmoHighwayGate(ElmoLinear):
    """The gate of a highway layer: a linear map whose bias is initialised otherwise than that of others."""


class ElmoCharConvolution(nn.Conv1d):
    """A convolution over characters, as a product of all windows and the filters.

    The results of a position lie together, so that the maximum over positions reads whole vectors; and for the few
    channels that characters have it is faster than a general convolution.
    """

    def forward(self, embedded: torch.Tensor) -> torch.Tensor:
        """Map `[D, E, S]` to `[D, filters, S - width + 1]`."""
        if is_exporting():
            # programs of other libraries know convolutions better
            return super().forward(embedded)
        # [D, S - width + 1, width, E]
        windows = embedded.transpose(1, 2).unfold(1, self.kernel_size[0], 1).transpose(2, 3)
        return linear(windows.flatten(2), self.weight.transpose(1, 2).flatten(1), self.bias).transpose(1, 2)


class ElmoHighway(nn.Module):
    """One highway layer (Srivastava et al. 2015): the gate says how much of the transformed input replaces it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform = ElmoLinear(width, width)
        self.gate = ElmoHighwayGate(width, width)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map `[D, F]` to `[D, F]`."""
        gate = self.gate(features).sigmoid()
        return gate * self.transform(features).relu() + (1 - gate) * features


class ElmoTokenEncoder(nn.Module):
    """The context-independent token layer: a word's characters, or its own embedding, or both joined.

    Characters pass through convolutions, a maximum over positions, the non-linearity, highways and a projection.
    """

    # the argument of a model that has the ids of words
    ids_name = "input_ids"

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.cache: WordCache | None = None
        self.word_embeddings = None
        # CODEPATH: bilm-tf models trained without a character encoder
        if config.word_embedding_dim:
            self.word_embeddings = nn.Embedding(config.vocab_size, config.word_embedding_dim, config.pad_token_id)
        self.char_embeddings = None
        # CODEPATH: every English release
        if config.char_embedding_dim:
            self.char_embeddings = nn.Embedding(config.char_vocab_size, config.char_embedding_dim, padding_idx=0)
            self.activation = ACT2FN[config.hidden_act]
            self.widest = max(width for width, _ in config.char_filters)
            self.convolutions = nn.ModuleList(
                ElmoCharConvolution(config.char_embedding_dim, filters, kernel_size=width)
                for width, filters in config.char_filters
            )
            self.highways = nn.ModuleList(
                ElmoHighway(config.char_feature_dim) for _ in range(config.num_highway_layers)
            )
        width = config.word_embedding_dim + config.char_feature_dim
        self.projection = None
        # CODEPATH: every English release; bilm-tf makes none where there is nothing to narrow, ELMoForManyLangs always
        if config.always_project or width != config.hidden_size // 2:
            self.projection = ElmoLinear(width, config.hidden_size // 2)

    def forward(self, ids: torch.Tensor, is_word: torch.Tensor) -> torch.Tensor:
        """Encode the words of a batch, each distinct one once.

        Args:
            ids: `[..., K]`, the ids of all places; a word's own id comes before its characters.
            is_word: `[...]`, false at padding.

        Returns:
            `[..., P]`, zero at padding.
        """
        encoded = self.encode_places(ids.flatten(end_dim=-2), is_word.flatten())
        return encoded.unflatten(0, is_word.shape)

    def encode_places(self, ids: torch.Tensor, is_word: torch.Tensor) -> torch.Tensor:
        """Do what `forward` does with `M` places in one row: `[M, K]` and `[M]` to `[M, P]`."""
        if is_exporting():
            # how many words there are, and which are alike, is not known yet
            return self.encode(ids).masked_fill(~is_word[:, None], 0)
        # [N]
        places = is_word.nonzero().squeeze(1)
        # [D, K], [N]
        distinct, which = distinct_rows(ids[places])
        if self.cache is None or is_trained(*self.parameters()) or torch.compiler.is_compiling():
            encoded = self.encode_all(distinct)
        else:
            encoded = self.cache.look_up(distinct, self.parameters(), self.encode_all)
        # as in `gather_words`
        encoded = nn.functional.embedding(which, encoded)
        return encoded.new_zeros(len(ids), encoded.shape[1]).index_copy(0, places, encoded)

    def encode_all(self, distinct: torch.Tensor) -> torch.Tensor:
        """Encode words as `encode` does, no fewer than `FEWEST_ROWS` at a time."""
        return self.encode(fill_up(distinct))[: len(distinct)]

    def encode(self, distinct: torch.Tensor) -> torch.Tensor:
        """Encode words, `[D, K]`, as `[D, P]`."""
        features = []
        if self.word_embeddings is not None:
            features.append(look_up(self.word_embeddings, distinct[:, 0], self.config.vocab_size, self.ids_name))
            distinct = distinct[:, 1:]
        if self.char_embeddings is not None:
            features.append(self.spell(self.char_embeddings, distinct))
        # [D, F]
        encoded = torch.cat(features, dim=1)
        if self.projection is not None:
            # [D, P]
            encoded = self.projection(encoded)
        return encoded

    def spell(self, table: nn.Module, char_ids: torch.Tensor) -> torch.Tensor:
        """Encode the characters of `D` words, `[D, S]`, as features `[D, F]`."""
        features = self.convolve(table, char_ids) if is_exporting() else self.convolve_short(table, char_ids)
        for highway in self.highways:
            features = highway(features)
        return features

    def convolve_short(self, table: nn.Module, char_ids: torch.Tensor) -> torch.Tensor:
        """Do what `convolve` does, short words over few positions."""
        length = char_ids.shape[1]
        # A row ends in a run of one character. Windows inside the run are all alike: the first of them is enough.
        run_start = (torch.arange(1, length + 1, device=char_ids.device) * (char_ids != char_ids[:, -1:])).amax(dim=1)
        # [D], in steps of 4, so that few groups are left
        positions = ((run_start + self.widest + 3) // 4 * 4).clamp(max=length)
        order = positions.argsort(stable=True)
        sizes, counts = positions.unique(return_counts=True)
        groups = gather_groups(to_list(sizes), to_list(counts))
        pieces = []
        for size, group in zip(groups, order.split(list(groups.values())), strict=True):
            # the widest filter has the fewest windows in a word
            fewest = math.ceil(FEWEST_WINDOWS / (size - self.widest + 1))
            pieces += [
                self.convolve(table, fill_up(char_ids[words, :size], fewest))[: len(words)]
                for words in group.split(WORDS_PER_CONVOLUTION)
            ]
        if not pieces:
            return self.convolve(table, char_ids)
        # [D, F], in the order of `char_ids` again
        return torch.cat(pieces)[order.argsort()]

    def convolve(self, table: nn.Module, char_ids: torch.Tensor) -> torch.Tensor:
        """Convolve the characters of words, `[D, S]`, and keep each filter's maximum, `[D, F]`."""
        # [D, char_embedding_dim, S]
        embedded = look_up(table, char_ids, self.config.char_vocab_size, "char_ids").transpose(1, 2)
        # the maximum first: the non-linearities are monotonic, and it leaves them less to do
        maxima = [convolution(embedded).amax(dim=2) for convolution in self.convolutions]
        return self.activation(torch.cat(maxima, dim=1))


def look_up(table: nn.Module, ids: torch.Tensor, rows: int, name: str) -> torch.Tensor:
    """Embed ids, and say which argument is wrong where the table has no such row.

    Args:
        table: An embedding, or the adapter that a library puts in its place.
        ids: Ids of any shape.
        rows: The number of rows of the table.
        name: The argument that the ids come from.
    """
    if not is_exporting() and ids.numel() and (ids.min() < 0 or ids.max() >= rows):
        raise ValueError(
            f"`{name}` goes from {int(ids.min())} to {int(ids.max())} but this model has ids 0 to {rows - 1}: use the "
            "tokenizer saved with it."
        )
    return table(ids)


def gather_groups(sizes: Sequence[int], counts: Sequence[int]) -> dict[int, int]:
    """Join small groups of words with the next larger ones, so that a sentence does not take a call for each word.

    Args:
        sizes: The positions of each group's words, ascending.
        counts: How many words each has.

    Returns:
        The number of words by their positions.
    """
    groups, waiting = {}, 0
    for size, count in zip(sizes, counts, strict=True):
        waiting += count
        if waiting >= FEWEST_ROWS or size == sizes[-1]:
            groups[size], waiting = waiting, 0
    return groups


def distinct_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the distinct rows of `[N, K]`: `[D, K]`, and for each row its place among them, `[N]`. Exact."""
    # Sorting one 64-bit key a row is many times faster than sorting rows; the keys are powers of an odd multiplier.
    factors = torch.full((rows.shape[1],), 6364136223846793005, device=rows.device).cumprod(dim=0)
    keys, which = torch.unique((rows * factors).sum(dim=1), return_inverse=True)
    representative = torch.zeros_like(keys).scatter_(0, which, torch.arange(rows.shape[0], device=rows.device))
    distinct = rows[representative]
    if not torch.equal(distinct[which], rows):
        # two different rows share a key
        distinct, which = torch.unique(rows, dim=0, return_inverse=True)
    return distinct, which


__all__ = ["ElmoHighwayGate", "ElmoTokenEncoder", "distinct_rows"]
