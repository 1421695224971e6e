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
"""ELMo (Peters et al. 2018, "Deep contextualized word representations") for Transformers.

Read it beside the paper: `ElmoTokenEncoder` spells each word by its characters, `ElmoBiLstmLayer` is one layer of the
bidirectional language model (section 3.1), `ElmoScalarMix` is equation 1, and `ElmoModel` joins them.
`ElmoForPreTraining` is the language model with its softmax, as section 3.1 trains it.

Shape notation: `B` sentences, `T` words with the boundaries `<S>` and `</S>`, `S` characters of a word, `K` ids of a
word (itself, its characters, or both), `N` words of the batch without padding, `P` width of one direction, `H = 2 * P`
width of a vector, `C` width of the cell, `L` biLSTM layers, `V` words of the vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import MaskedLMOutput, ModelOutput, TokenClassifierOutput
from transformers.modeling_utils import PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple
from transformers.utils.output_capturing import capture_outputs

from .configuration_elmo import ElmoConfig
from .recurrence_elmo import LstmWeights, Packing, pack_words, recurrence
from .softmax_elmo import ElmoSoftmax, log_uniform
from .token_layer_elmo import ElmoHighwayGate, ElmoTokenEncoder, check_integers


# one layer's recurrent state: hidden [B, 2, P] and cell [B, 2, C]
LayerState = tuple[torch.Tensor, torch.Tensor]

# every class of the Hub files: a checkpoint saved from one of them loads as any other
AUTO_MAP = {
    "AutoConfig": "configuration_elmo.ElmoConfig",
    "AutoModel": "modeling_elmo.ElmoModel",
    "AutoModelForMaskedLM": "modeling_elmo.ElmoForMaskedLM",
    "AutoModelForPreTraining": "modeling_elmo.ElmoForPreTraining",
    "AutoModelForTokenClassification": "modeling_elmo.ElmoForTokenClassification",
}


@dataclass
class ElmoModelOutput(ModelOutput):
    """What `ElmoModel` returns.

    Attributes:
        last_hidden_state: `[B, T, H]`, the ELMo vector of each word: the scalar mix of all layers, not the top layer.
        state: With `use_cache=True`, for each biLSTM layer the hidden state `[B, 2, P]` and the cell state `[B, 2, C]`
            after the last word that each direction read, to be passed to the next call.
        hidden_states: With `output_hidden_states=True`, the `L + 1` layers `[B, T, H]`, the token layer first.
    """

    last_hidden_state: torch.Tensor | None = None
    state: tuple[LayerState, ...] | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


@dataclass
class ElmoTokenClassifierOutput(TokenClassifierOutput):
    """The loss, logits `[B, T, labels]` and hidden states of any token classifier, and the `state` of `ElmoModel`."""

    state: tuple[LayerState, ...] | None = None


@dataclass
class ElmoForPreTrainingOutput(ModelOutput):
    """What `ElmoForPreTraining` returns; the losses with `labels`, the logits without.

    Attributes:
        loss: The mean of `forward_loss` and `backward_loss`.
        forward_loss: The mean loss of the predicted words of the forward language model, in nats.
        backward_loss: The same of the backward one.
        forward_losses: `[B, T]`, of each forward prediction, at the word it was made from; 0 where none was made.
        backward_losses: `[B, T]`, the same of the backward predictions.
        forward_logits: `[B, T, V]`, scores of the word after each word.
        backward_logits: `[B, T, V]`, scores of the word before each word.
        state: As of `ElmoModel`.
        hidden_states: As of `ElmoModel`.
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
    """The loss, logits `[B, T, V]` and hidden states of any masked language model, and what the logits are made of.

    Attributes:
        forward_logits: `[B, T, V]`, log probabilities of each word by those left of it.
        backward_logits: `[B, T, V]`, log probabilities of each word by those right of it.
    """

    forward_logits: torch.Tensor | None = None
    backward_logits: torch.Tensor | None = None


class ElmoBiLstmLayer(GradientCheckpointingLayer):
    """One layer of the biLM: a forward and a backward LSTM, projected and clipped, which do not see each other."""

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
        self, hidden_states: torch.Tensor, packing: Packing, state: LayerState | None = None
    ) -> tuple[torch.Tensor, LayerState]:
        """Read each sentence in both directions.

        Args:
            hidden_states: `[B, T, H]`, the layer below, zero at padding.
            packing: Where the words are.
            state: The hidden state `[B, 2, P]` and the cell state `[B, 2, C]` to start from; zero if absent.

        Returns:
            `[B, T, H]`, zero at padding, and the state after each direction's last word.
        """
        hidden_states = self.dropout(hidden_states)
        # [B * T, 2, P]
        halves = hidden_states.reshape(-1, 2, hidden_states.shape[2] // 2)
        # [2, N + spare, 4 * C]: the input's share of all gates of all steps, in one product a direction
        inputs = torch.stack(
            [project(halves[packing.words[way], way]) for way, project in enumerate(self.input_projections)]
        )
        cell_width = inputs.shape[2] // 4
        # forget little at first (Jozefowicz et al. 2015); not part of the bias, so that files go there and back intact
        inputs[:, :, cell_width : 2 * cell_width] += self.forget_bias
        # [2, N, P]
        outputs, (hidden, cell) = recurrence(
            inputs,
            packing.steps,
            self.initial_state(inputs, packing, state),
            LstmWeights(self.recurrent_weight, self.output_weight, self.cell_clip, self.projection_clip),
        )
        ways = torch.arange(2, device=outputs.device)[:, None]
        # [B, T, H]
        words = packing.words[:, : outputs.shape[1]]
        result = outputs.new_zeros(halves.shape).index_put((words, ways), outputs).reshape(hidden_states.shape)
        if self.skip:
            result = result + hidden_states
        back = packing.sentences.argsort()
        return result, (hidden.transpose(0, 1)[back], cell.transpose(0, 1)[back])

    def initial_state(
        self, inputs: torch.Tensor, packing: Packing, state: LayerState | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Bring `state` to `[2, B, P]` and `[2, B, C]`, longest sentence first; zeros where it is `None`."""
        batch_size = packing.sentences.shape[0]
        _, width, gates = self.recurrent_weight.shape
        if state is None:
            return inputs.new_zeros(2, batch_size, width), inputs.new_zeros(2, batch_size, gates // 4)
        hidden, cell = (part.to(inputs)[packing.sentences].transpose(0, 1) for part in state)
        return hidden, cell


class ElmoScalarMix(nn.Module):
    """The task's mix of the layers (equation 1): `gamma * sum_j softmax(weights)_j * layer_j`.

    The weights start equal, so that an untrained mix is the mean of the layers.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.empty(config.num_hidden_layers + 1))
        self.gamma = nn.Parameter(torch.empty(1))
        self.alignment = None
        # CODEPATH: AllenNLP's ELMos of several languages
        if config.alignment:
            self.alignment = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def normalized_weights(self) -> torch.Tensor:
        """Return the share of each layer, `[L + 1]`; half precision, which rounds nearly equal weights, is widened."""
        return self.weights.to(torch.promote_types(self.weights.dtype, torch.float32)).softmax(dim=0)

    def forward(self, layers: list[torch.Tensor]) -> torch.Tensor:
        """Mix `L + 1` layers `[B, T, H]` into one `[B, T, H]` in their dtype."""
        shares = (self.gamma * self.normalized_weights()).to(layers[0].dtype)
        mixed = shares[0] * layers[0]
        for share, layer in zip(shares[1:], layers[1:], strict=True):
            mixed = mixed + share * layer
        return mixed if self.alignment is None else self.alignment(mixed)


class ElmoPreTrainedModel(PreTrainedModel):
    """What all ELMo classes share: initialisation, and saving with everything a reader without this package needs."""

    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoTokenEncoder", "ElmoBiLstmLayer"]
    _can_record_outputs = {"hidden_states": ElmoBiLstmLayer}

    @property
    def dummy_inputs(self) -> dict[str, torch.Tensor]:
        """One sentence of two words, for code that must call the model with something."""
        char_ids = torch.zeros(1, 2, self.config.max_characters_per_token, dtype=torch.long, device=self.device)
        char_ids[:, :, 0] = 1
        return {"input_ids": torch.ones(1, 2, dtype=torch.long, device=self.device), "char_ids": char_ids}

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        # as in bilm-tf; here go only modules that hold parameters of their own
        factor = self.config.initializer_factor
        if isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -factor, factor)
            init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, nn.Conv1d):
            init.uniform_(module.weight, -0.05 * factor, 0.05 * factor)
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, std=factor / math.sqrt(module.in_features))
            if isinstance(module, ElmoHighwayGate):
                # at first most of the features pass as they are
                init.constant_(module.bias, -2 * factor)
        elif isinstance(module, ElmoBiLstmLayer):
            _, width, gates = module.recurrent_weight.shape
            # Glorot and Bengio 2010, of the matrix that input and state share in TensorFlow
            bound = factor * math.sqrt(6 / (2 * width + gates))
            init.uniform_(module.recurrent_weight, -bound, bound)
            for linear in module.input_projections:
                init.uniform_(linear.get_parameter("weight"), -bound, bound)
            if module.output_weight is not None:
                bound = factor * math.sqrt(6 / (width + gates // 4))
                init.uniform_(module.output_weight, -bound, bound)
        elif isinstance(module, ElmoScalarMix):
            init.zeros_(module.weights)
            init.ones_(module.gamma)

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Give the word vocabulary another size; see `PreTrainedModel.resize_token_embeddings`.

        Without word embeddings only the softmax of a language model and `config.vocab_size` change: the table of
        characters has a row for every byte.
        """
        # CODEPATH: bilm-tf models trained without a character encoder
        if self.config.word_embedding_dim:
            return super().resize_token_embeddings(new_num_tokens, *args, **kwargs)
        self.config.vocab_size = new_num_tokens or self.config.vocab_size
        self.config.validate_architecture()
        softmax = self.get_output_embeddings()
        if isinstance(softmax, ElmoSoftmax):
            mean_resizing = kwargs.get("mean_resizing", True)
            softmax.replace(self._get_resized_lm_head(softmax, self.config.vocab_size, mean_resizing=mean_resizing))
        embeddings = self.get_input_embeddings()
        # the parent's signature says Embedding where its get_input_embeddings says Module
        return embeddings  # type: ignore[return-value]

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Save as any Transformers model, with an `auto_map` of all classes; see `PreTrainedModel.save_pretrained`."""
        self.config.auto_map = dict(AUTO_MAP)
        super().save_pretrained(*args, **kwargs)


class ElmoModel(ElmoPreTrainedModel):
    """The bidirectional language model without its softmax: from words to `L + 1` layers of vectors, and their mix."""

    def __init__(self, config: ElmoConfig) -> None:
        # `from_pretrained(..., cell_clip=0)` changes a configuration after it was checked
        config.validate_architecture()
        super().__init__(config)
        self.token_encoder = ElmoTokenEncoder(config)
        self.layers = nn.ModuleList(ElmoBiLstmLayer(config, index) for index in range(config.num_hidden_layers))
        self.scalar_mix = ElmoScalarMix(config)
        # CODEPATH: words in bilm-tf models trained without a character encoder, characters in every English release
        self.input_table = "word_embeddings" if config.word_embedding_dim else "char_embeddings"
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the table that the token layer begins with: of words, or of characters where there is no other."""
        return self.token_encoder.get_submodule(self.input_table)

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the table that `get_input_embeddings` returns."""
        self.token_encoder.set_submodule(self.input_table, value)

    @capture_outputs(tie_last_hidden_states=False)
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        state: tuple[LayerState, ...] | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoModelOutput:
        """Embed sentences. A sentence's vectors depend on nothing but the sentence, and on `state` if given.

        Args:
            input_ids: `[B, T]`, word ids; read by models with word embeddings only. `[B, 2, T]` gives each direction
                words of its own, both in the order of the text, with padding at the same places: what bilm-tf
                trains on, whose backward direction never reads `<S>` and its forward one never `</S>`.
            attention_mask: `[B, T]`, 1 at words, 0 at padding, wherever it is; by default the words are found by
                their ids. A row of `char_ids` that is all 0 is never a word.
            char_ids: `[B, T, S]` or `[B, 2, T, S]`, character ids with `S = config.max_characters_per_token`, as the
                tokenizer makes them; read by models with character embeddings.
            state: What an earlier call with `use_cache=True` returned for as many sentences: each sentence then goes
                on where the one in its row ended, in both directions. By default each begins afresh.
            use_cache: Return the state; by default as the config says.
            **kwargs: `output_hidden_states`, `return_dict`.

        Returns:
            The vectors, zero at padding. `last_hidden_state` is the scalar mix, not the top layer.

        Raises:
            ValueError: If the ids that the model reads are absent or of another width, or `state` is of another size.
        """
        ids, mask = self.read_ids(input_ids, char_ids, attention_mask)
        starts = self.check_state(state, len(mask))
        # [B, ways, T]: one row of words for both directions, or one for each
        places = mask[:, None].expand(ids.shape[:3])
        # [N], or [2 * N]
        words = places.flatten().nonzero().squeeze(1)
        encoded = self.token_encoder(ids.flatten(0, 2)[words])
        token_layer = encoded.new_zeros(places.numel(), encoded.shape[1]).index_copy(0, words, encoded)
        # [B, T, 2, P] -> [B, T, H]
        halves = token_layer.reshape(*places.shape, encoded.shape[1]).transpose(1, 2)
        hidden_states = halves.expand(-1, -1, 2, -1).reshape(*mask.shape, self.config.hidden_size)
        layers, states = [hidden_states], []
        packing = pack_words(mask)
        for layer, start in zip(self.layers, starts, strict=True):
            hidden_states, end = layer(hidden_states, packing, start)
            layers.append(hidden_states)
            states.append(end)
        if use_cache is None:
            use_cache = self.config.use_cache
        return ElmoModelOutput(
            last_hidden_state=self.scalar_mix(layers),
            state=tuple(states) if use_cache else None,
        )

    def check_state(self, state: tuple[LayerState, ...] | None, batch_size: int) -> Sequence[LayerState | None]:
        """Give each layer the state to start from, and refuse that of another batch or model."""
        if state is None:
            return [None] * len(self.layers)
        width, cell = self.config.hidden_size // 2, self.config.intermediate_size
        wanted = [[(batch_size, 2, width), (batch_size, 2, cell)]] * len(self.layers)
        given = [[tuple(part.shape) for part in layer] for layer in state]
        if given != wanted:
            raise ValueError(
                f"`state` has the shapes {given}, but this model of {len(self.layers)} layers and a batch of "
                f"{batch_size} sentences need {wanted}: pass on what the call before returned for as many sentences."
            )
        return state

    def read_ids(
        self, input_ids: torch.Tensor | None, char_ids: torch.Tensor | None, attention_mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Take the ids that this model reads, `[B, ways, T, K]`, and find the words among them, `[B, T]`."""
        columns, masks = [], []
        if self.token_encoder.word_embeddings is not None:
            if input_ids is None:
                raise ValueError("This model reads word ids: pass `input_ids`, as its tokenizer returns them.")
            words = check_integers("input_ids", input_ids)
            masks.append(words != self.config.pad_token_id)
            # CODEPATH: bilm-tf models trained without a character encoder have no row for a mask behind the words
            if self.config.unk_token_id is not None:
                words = words.masked_fill(words == self.config.vocab_size, self.config.unk_token_id)
            columns.append(words[..., None])
        if self.token_encoder.char_embeddings is not None:
            width = self.config.max_characters_per_token
            if char_ids is None:
                raise ValueError("This model reads characters: pass `char_ids`, as its tokenizer returns them.")
            if char_ids.ndim not in (3, 4) or char_ids.shape[-1] != width:
                raise ValueError(
                    f"`char_ids` is {tuple(char_ids.shape)} but this model reads (sentences, words, {width}): use the "
                    f"tokenizer saved with it, or one with max_characters_per_token={width}."
                )
            columns.append(check_integers("char_ids", char_ids))
            masks.append((char_ids != 0).any(dim=-1))
        # a third axis holds the words of each direction
        if {tuple(mask.shape[1:-1]) for mask in masks} == {(2,)}:
            masks = [mask[:, way] for mask in masks for way in range(2)]
        else:
            columns = [column[:, None] for column in columns]
        if attention_mask is not None:
            masks.append(attention_mask != 0)
        if len({mask.shape for mask in masks}) > 1 or masks[0].ndim != 2:
            raise ValueError(f"The inputs differ in sentences and words: {[tuple(mask.shape) for mask in masks]}.")
        return torch.cat(columns, dim=3), torch.stack(masks).all(dim=0)


class ElmoLanguageModel(ElmoPreTrainedModel):
    """What the language models share: the biLM, and the softmax that both of its directions use (section 3.1)."""

    _tied_weights_keys = {"softmax.weight": "elmo.token_encoder.word_embeddings.weight"}

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.elmo = ElmoModel(config)
        # the mix is trained by tasks
        self.elmo.scalar_mix.requires_grad_(False)
        # bilm-tf trains with dropout before and after each layer
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.softmax = ElmoSoftmax(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """Return the softmax, whose rows are the words of the vocabulary."""
        return self.softmax

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Give the softmax other weights, of another number of words perhaps."""
        self.softmax.replace(new_embeddings)

    def encode(
        self, output_hidden_states: bool | list[int] | None = None, **inputs: Any
    ) -> tuple[torch.Tensor, ElmoModelOutput]:
        """Run the biLM on inputs as `ElmoModel` takes them.

        Returns:
            `[2, B, T, P]`, what each direction knows after each word, and the output of `ElmoModel`.
        """
        outputs = self.elmo(**{**inputs, "output_hidden_states": True, "return_dict": True})
        layers = outputs.hidden_states
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        outputs.hidden_states = layers if wanted else None
        if isinstance(wanted, list):
            kept = {index % len(layers) for index in wanted}
            outputs.hidden_states = tuple(layer if index in kept else None for index, layer in enumerate(layers))
        return torch.stack(self.dropout(layers[-1]).chunk(2, dim=2)), outputs


class ElmoForPreTraining(ElmoLanguageModel):
    """The bidirectional language model as it is trained: each direction predicts its next word."""

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        state: tuple[LayerState, ...] | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoForPreTrainingOutput:
        """Predict the next word from each word and those before it, and the previous one from it and those after.

        Args:
            input_ids: As for `ElmoModel`, and so are `attention_mask`, `char_ids`, `state` and `use_cache`.
            attention_mask: See `input_ids`.
            char_ids: See `input_ids`.
            state: See `input_ids`.
            labels: `[B, T]`, the ids of the words themselves, -100 for one that is not to be predicted, as padding
                is; or `[B, 2, T]`, the word that each state of the forward direction, then of the backward direction
                is to predict, -100 for none.
            use_cache: See `input_ids`.
            **kwargs: `output_hidden_states`, `return_dict`, and `num_items_in_batch` as Trainer gives it: the number
                of labels over which the loss is averaged.

        Returns:
            With `labels` the losses, over a sample of the vocabulary in training if the configuration says so, else
            over all of it; without, the logits.

        Raises:
            ValueError: As `ElmoModel`; or if the labels have another shape, or are not words of the vocabulary.
        """
        num_items = kwargs.get("num_items_in_batch")
        # [2, B, T, P]
        states, outputs = self.encode(
            input_ids=input_ids,
            attention_mask=attention_mask,
            char_ids=char_ids,
            state=state,
            use_cache=use_cache,
            **kwargs,
        )
        result = ElmoForPreTrainingOutput(state=outputs.state, hidden_states=outputs.hidden_states)
        if labels is None:
            result.forward_logits, result.backward_logits = self.softmax(states)
            return result
        _, words = self.elmo.read_ids(input_ids, char_ids, attention_mask)
        targets = self.read_targets(labels, words)
        predicted = targets != -100
        # [2], at least 1
        counts = predicted.sum(dim=(1, 2)).clamp(min=1)
        share = 0.5 / counts
        if num_items is not None:
            # of labels `[B, T]` each is predicted twice
            share = torch.ones_like(share) / (num_items * (4 - labels.ndim))
        # [N]
        scales = share[:, None, None].expand(targets.shape)[predicted]
        result.loss, losses = self.softmax(states[predicted], targets[predicted], scales)
        spread = losses.new_zeros(targets.shape).masked_scatter(predicted, losses)
        result.forward_losses, result.backward_losses = spread
        result.forward_loss, result.backward_loss = spread.sum(dim=(1, 2)) / counts
        return result

    def read_targets(self, labels: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Find what each direction predicts at each word, `[2, B, T]`, -100 for nothing."""
        labels, (sentences, length) = check_integers("labels", labels), words.shape
        if labels.shape == (sentences, 2, length):
            targets = labels.transpose(0, 1)
        elif labels.shape == words.shape:
            targets = neighbours(labels, words)
        else:
            raise ValueError(
                f"`labels` is {tuple(labels.shape)} where the batch is {sentences, length}: pass the word ids of the "
                "batch."
            )
        wrong = targets[(targets != -100) & ((targets < 1) | (targets >= self.config.vocab_size))]
        if len(wrong):
            raise ValueError(
                f"`labels` has {int(wrong[0])} but the vocabulary of this model has the words 1 to "
                f"{self.config.vocab_size - 1}: use the tokenizer saved with it, and -100 at padding."
            )
        return targets


def neighbours(labels: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """For each word of `[B, T]`, the label of the next and of the previous word, `[2, B, T]`; -100 if there is none.

    Padding, where `words` is false, is passed over.
    """
    targets = labels.new_full((2, *labels.shape), -100)
    # [N], [N]
    sentence, place = words.nonzero(as_tuple=True)
    together = sentence[1:] == sentence[:-1]
    sentence, earlier, later = sentence[1:][together], place[:-1][together], place[1:][together]
    targets[0, sentence, earlier] = labels[sentence, later]
    targets[1, sentence, later] = labels[sentence, earlier]
    return targets


class ElmoForMaskedLM(ElmoLanguageModel):
    """Each word from the forward direction left of it and the backward direction right of it.

    Neither has read the word, whatever it is: it need not be masked.
    """

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoMaskedLMOutput:
        """Score the words of the vocabulary at the place of each word.

        Args:
            input_ids: As for `ElmoModel`, and so are `attention_mask` and `char_ids`.
            attention_mask: See `input_ids`.
            char_ids: See `input_ids`.
            labels: `[B, T]`, the word of each place; -100 where the loss takes none.
            **kwargs: `output_hidden_states`, `return_dict`, and `num_items_in_batch` as Trainer gives it: the number
                of labels over which the loss is averaged.

        Returns:
            `logits`: the sum of the log probabilities that the two directions give each word, less the logarithm of
            the word's own, which both contain (Bayes' rule, if left and right are independent given the word).
            That is the log-uniform one, as the vocabulary is in descending frequency. The lowest number for padding.
            With `labels`, their mean cross-entropy.

        Raises:
            ValueError: As `ElmoModel`.
        """
        # [2, B, T, P]
        states, outputs = self.encode(input_ids=input_ids, attention_mask=attention_mask, char_ids=char_ids, **kwargs)
        # [2, B, T]: where each word's left and right neighbour is, -100 where there is none
        places = torch.arange(states.shape[2], device=states.device).expand(states.shape[1:3])
        right, left = neighbours(places, self.elmo.read_ids(input_ids, char_ids, attention_mask)[1])
        scores = []
        for half, place in zip(states, (left, right), strict=True):
            # [B, T, P]
            context = half.take_along_dim(place.clamp(min=0)[:, :, None], dim=1)
            log_probabilities = self.softmax(context).log_softmax(dim=2)
            # without a neighbour every word is as likely as any other
            scores.append(log_probabilities.masked_fill((place < 0)[:, :, None], 0))
        words = self.config.vocab_size - 1
        # [V], padding first
        prior = nn.functional.pad(log_uniform(torch.arange(words, device=states.device), words).to(states), (1, 0))
        # with one neighbour there is nothing to take out
        both = (left >= 0) & (right >= 0)
        logits = scores[0] + scores[1] - both[:, :, None] * prior
        logits[..., 0] = torch.finfo(logits.dtype).min
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, self.config.vocab_size, **kwargs)
        return ElmoMaskedLMOutput(
            loss=loss,
            logits=logits,
            forward_logits=scores[0],
            backward_logits=scores[1],
            hidden_states=outputs.hidden_states,
        )


class ElmoForTokenClassification(ElmoPreTrainedModel):
    """A label for each word, such as its part of speech: scalar mix, dropout, linear classifier."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.elmo = ElmoModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels or 0)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        state: tuple[LayerState, ...] | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoTokenClassifierOutput:
        """Score the labels of each word.

        Args:
            input_ids: As for `ElmoModel`, and so are `attention_mask`, `char_ids`, `state` and `use_cache`.
            attention_mask: See `input_ids`.
            char_ids: See `input_ids`.
            state: See `input_ids`.
            labels: `[B, T]`, the label of each word; -100 where there is none, as at boundaries and padding.
            use_cache: See `input_ids`.
            **kwargs: `output_hidden_states`, `return_dict`, and `num_items_in_batch` as Trainer gives it: the number
                of labels over which the loss is averaged.

        Returns:
            Logits `[B, T, labels]`, and with `labels` their mean cross-entropy.

        Raises:
            ValueError: As `ElmoModel`.
        """
        outputs = self.elmo(
            input_ids,
            attention_mask=attention_mask,
            char_ids=char_ids,
            state=state,
            use_cache=use_cache,
            **kwargs,
        )
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, self.config, **kwargs)
        return ElmoTokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, state=outputs.state
        )


__all__ = ["ElmoForMaskedLM", "ElmoForPreTraining", "ElmoForTokenClassification", "ElmoModel", "ElmoPreTrainedModel"]
