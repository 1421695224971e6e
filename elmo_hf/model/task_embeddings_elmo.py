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
"""What a task's model reads beside ELMo: words and characters of its own, the `x` of `[x; ELMo]` (section 3.3).

Shape notation: `B` rows, `T` words with the boundary tokens, `S` characters of a word, `X` width of `x`
(`config.task_embedding_dim`).
"""

import torch
from torch import nn

from .configuration_elmo import ElmoConfig
from .inputs_elmo import check_integers, read_char_ids
from .token_encoder_elmo import ElmoTokenEncoder


class ElmoTaskWords(nn.Embedding):
    """A task's table of words, initialised otherwise than other tables: row 0 is padding, row 1 the unknown word."""


class ElmoTaskEmbeddings(ElmoTokenEncoder):
    """The task's own vector of a word: that of a table of words, one of convolutions over its characters, or both.

    A token encoder like that of the biLM, smaller and without highways: the convolutions pass through a maximum over
    the positions and ReLU, as in AllenNLP's models of the paper. A word that is not in the task's vocabulary has the
    vector of the unknown word, and so have boundary tokens; their characters are those that the tokenizer gives them.
    """

    ids_name = "task_word_ids"

    def __init__(self, config: ElmoConfig) -> None:
        own = ElmoConfig(
            vocab_size=max(1, config.num_task_words),
            word_embedding_dim=config.task_word_embedding_dim,
            char_embedding_dim=config.task_char_embedding_dim,
            char_filters=config.task_char_filters,
            char_vocab_size=config.char_vocab_size,
            max_characters_per_token=config.max_characters_per_token,
            num_highway_layers=0,
            # of which the token encoder makes half: nothing is projected
            hidden_size=2 * config.task_embedding_dim,
        )
        super().__init__(own)
        if config.task_word_embedding_dim:
            self.word_embeddings = ElmoTaskWords(config.num_task_words, config.task_word_embedding_dim, padding_idx=0)

    def find_mask(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        task_word_ids: torch.Tensor | None,
        char_ids: torch.Tensor | None,
        pad_token_id: int | None,
    ) -> torch.Tensor:
        """Return where the words are, `[B, T]`, for a model without a biLM: by the mask, or else by the ids.

        Raises:
            ValueError: If there are no ids.
        """
        if attention_mask is not None:
            return attention_mask != 0
        if input_ids is not None and pad_token_id is not None:
            return input_ids != pad_token_id
        if task_word_ids is not None:
            return task_word_ids != 0
        return read_char_ids(self.config, char_ids)[1]

    def read(
        self, task_word_ids: torch.Tensor | None, char_ids: torch.Tensor | None, mask: torch.Tensor
    ) -> torch.Tensor:
        """Embed the words of a batch.

        Args:
            task_word_ids: `[B, T]`, ids in the task's vocabulary; read if there is a table of words.
            char_ids: `[B, T, S]`; read if there are convolutions.
            mask: `[B, T]`, false at padding.

        Returns:
            `[B, T, X]`, the vectors of the table before those of the convolutions; zero at padding.

        Raises:
            ValueError: If ids that the model reads are missing, are not integers, or differ in shape from the mask.
        """
        ids = []
        if self.word_embeddings is not None:
            if task_word_ids is None:
                raise ValueError(
                    "This model reads words of its task: pass `task_word_ids`, as the tokenizer that was saved with "
                    "it returns them."
                )
            ids.append(check_integers("task_word_ids", task_word_ids)[..., None])
        if self.char_embeddings is not None:
            ids.append(read_char_ids(self.config, char_ids)[0])
        if any(part.shape[:-1] != mask.shape for part in ids):
            raise ValueError(
                f"`task_word_ids` and `char_ids` have {[tuple(part.shape[:-1]) for part in ids]} sentences and words "
                f"where the batch has {tuple(mask.shape)}: pass all that the tokenizer returns."
            )
        return self(torch.cat(ids, dim=2), mask)


__all__ = ["ElmoTaskEmbeddings", "ElmoTaskWords"]
