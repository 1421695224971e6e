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
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.modeling_utils import PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from .configuration_elmo import ElmoConfig
from .crf_elmo import ElmoCrf
from .heads_elmo import SENTENCE_HEADS, TAGGING_HEADS, ElmoTaskLstm, choose_head
from .inputs_elmo import check_labels, check_numbers, find_sentences, neighbours, share_of

# older versions of Transformers copy only the companions that are named here
from .kernels_elmo import find_kernels as find_kernels
from .outputs_elmo import (
    ElmoForPreTrainingOutput,
    ElmoMaskedLMOutput,
    ElmoModelOutput,
    ElmoTokenClassifierOutput,
    LayerState,
)
from .packing_elmo import Packing, is_exporting, pack_words
from .recurrence_elmo import InputProjections, LstmWeights, read_sentences
from .scan_elmo import Grid
from .softmax_elmo import ElmoSoftmax, log_uniform
from .token_encoder_elmo import ElmoHighwayGate, ElmoTokenEncoder, check_integers
from .word_cache_elmo import WordCache


# every class of the Hub files: a checkpoint saved from one of them loads as any other
AUTO_MAP = {
    "AutoConfig": "configuration_elmo.ElmoConfig",
    "AutoModel": "modeling_elmo.ElmoModel",
    "AutoModelForMaskedLM": "modeling_elmo.ElmoForMaskedLM",
    "AutoModelForPreTraining": "modeling_elmo.ElmoForPreTraining",
    "AutoModelForSequenceClassification": "modeling_elmo.ElmoForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_elmo.ElmoForTokenClassification",
}


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
        self, hidden_states: torch.Tensor, packing: Packing | Grid, state: LayerState | None = None
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

    The weights start equal, so that an untrained mix is the mean of the layers. `config.layer` can choose one layer,
    or their average, in place of the mix.
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
        """Return the share of each layer, `[L + 1]`; half precision, which rounds nearly equal weights, is widened."""
        weights = self.weights.to(torch.promote_types(self.weights.dtype, torch.float32))
        if isinstance(self.layer, int):
            return torch.zeros_like(weights).index_fill(0, torch.tensor(self.layer, device=weights.device), 1)
        if self.layer == "average":
            return torch.full_like(weights, 1 / len(weights))
        return weights.softmax(dim=0)

    def forward(self, layers: Sequence[torch.Tensor]) -> torch.Tensor:
        """Mix `L + 1` layers `[B, T, H]` into one `[B, T, H]` in their dtype."""
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


class ElmoPreTrainedModel(PreTrainedModel):
    """What all ELMo classes share: initialisation, and saving with everything a reader without this package needs."""

    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoTokenEncoder", "ElmoBiLstmLayer"]

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
        elif isinstance(module, ElmoTaskLstm):
            width, gates = module.recurrent_weight.shape[1:]
            init.uniform_(module.recurrent_weight, -1 / math.sqrt(width), 1 / math.sqrt(width))
            for linear in module.input_projections:
                bias = linear.get_parameter("bias")
                init.zeros_(bias)
                # remember at first (Jozefowicz et al. 2015); the gates are i, f, g, o
                init.ones_(bias[width : 2 * width])
        elif isinstance(module, ElmoCrf):
            init.zeros_(module.transitions)
            init.zeros_(module.starts)
            init.zeros_(module.ends)
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

    def mark_trainable(self) -> None:
        """Mark what is not trained: here the mix where one layer is chosen in its place, in subclasses other parts."""
        for module in self.modules():
            if isinstance(module, ElmoScalarMix):
                module.weights.requires_grad_(module.layer == "mix")
                module.gamma.requires_grad_(module.layer == "mix")

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """Load as any Transformers model; see `PreTrainedModel.from_pretrained`, which trains all weights."""
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.mark_trainable()
        return loaded

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
        self.mark_trainable()
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the table that the token layer begins with: of words, or of characters where there is no other."""
        return self.token_encoder.get_submodule(self.input_table)

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the table that `get_input_embeddings` returns."""
        self.token_encoder.set_submodule(self.input_table, value)

    # its loops are as long as the longest sentence: compiled, they would be compiled anew for every length
    @torch.compiler.disable
    @can_return_tuple
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
        starts = self.check_state(state, mask.shape[0])
        # [B, ways, T]: one row of words for both directions, or one for each
        places = mask[:, None].expand(ids.shape[:3])
        token_layer = self.token_encoder(ids.flatten(0, 2), places.flatten())
        # [B, T, 2, P] -> [B, T, H]
        halves = token_layer.reshape(*places.shape, token_layer.shape[1]).transpose(1, 2)
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
            hidden_states=self.select_layers(layers, kwargs.get("output_hidden_states")),
        )

    def cache_words(self, capacity: int) -> None:
        """Remember what the token layer gives for words, over batches: a text repeats most of its words.

        It is used where no gradients are computed, and starts anew when it is full or a weight has changed, but for
        changes through `.data`. It is not saved with the model.

        Args:
            capacity: The most words to remember, each of which takes its vector and about 600 bytes; 0 for none.
        """
        self.token_encoder.cache = WordCache(capacity) if capacity else None

    def select_layers(self, layers: Sequence[torch.Tensor], wanted: bool | list[int] | None) -> tuple[Any, ...] | None:
        """Show the layers that `output_hidden_states` asks for: all, none, or those of some indices.

        Other models of Transformers catch them by hooks, with which a model cannot be pickled any more.
        """
        if wanted is None:
            wanted = self.config.output_hidden_states
        kept = {index % len(layers) for index in wanted} if isinstance(wanted, list) else range(len(layers))
        return tuple(layer if index in kept else None for index, layer in enumerate(layers)) if wanted else None

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
        if any(mask.shape != masks[0].shape for mask in masks) or masks[0].ndim != 2:
            raise ValueError(f"The inputs differ in sentences and words: {[tuple(mask.shape) for mask in masks]}.")
        return torch.cat(columns, dim=3), torch.stack(masks).all(dim=0)


def run_bilm(
    elmo: ElmoModel, *, parts: int = 1, output_hidden_states: bool | list[int] | None = None, **inputs: Any
) -> tuple[tuple[torch.Tensor, ...], ElmoModelOutput]:
    """Run the biLM for a class that needs all of its layers, whichever of them its caller asked to see.

    Args:
        elmo: The biLM.
        parts: Rows of the inputs that are parts of one sentence or pair, each with padding where the others are.
        output_hidden_states: What the caller asked to see; by default, what the configuration says.
        **inputs: As for `ElmoModel`.

    Returns:
        The `L + 1` layers `[B, T, H]`, and the output of `ElmoModel`.
    """
    outputs = elmo(**{**inputs, "output_hidden_states": True, "return_dict": True})
    layers = outputs.hidden_states
    if parts > 1:
        layers = tuple(layer.unflatten(0, (parts, -1)).sum(dim=0) for layer in layers)
    outputs.hidden_states = elmo.select_layers(layers, output_hidden_states)
    return layers, outputs


class ElmoLanguageModel(ElmoPreTrainedModel):
    """What the language models share: the biLM, and the softmax that both of its directions use (section 3.1)."""

    _tied_weights_keys = {"softmax.weight": "elmo.token_encoder.word_embeddings.weight"}

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.elmo = ElmoModel(config)
        # bilm-tf trains with dropout before and after each layer
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.softmax = ElmoSoftmax(config)
        self.mark_trainable()
        self.post_init()

    def mark_trainable(self) -> None:
        """Train all but the mix, which is a task's."""
        super().mark_trainable()
        self.elmo.scalar_mix.requires_grad_(False)

    def get_output_embeddings(self) -> nn.Module:
        """Return the softmax, whose rows are the words of the vocabulary."""
        return self.softmax

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Give the softmax other weights, of another number of words perhaps."""
        self.softmax.replace(new_embeddings)

    def known_words(self, labels: torch.Tensor) -> torch.Tensor:
        """Check words that are to be predicted, -100 for none; a mask behind the vocabulary is a word outside it.

        Raises:
            ValueError: If a label is no word of the vocabulary.
        """
        unknown = self.config.unk_token_id
        # CODEPATH: tokenizers with a mask that is none of the vocabulary's words, such as that of elmo-tiny-en
        if unknown is not None:
            labels = labels.masked_fill(labels == self.config.vocab_size, unknown)
        wrong = labels[(labels != -100) & ((labels < 1) | (labels >= self.config.vocab_size))]
        if len(wrong):
            raise ValueError(
                f"`labels` has {int(wrong[0])} but the vocabulary of this model has the words 1 to "
                f"{self.config.vocab_size - 1}: use the tokenizer saved with it, and -100 at padding."
            )
        return labels


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
        layers, outputs = run_bilm(
            self.elmo,
            input_ids=input_ids,
            attention_mask=attention_mask,
            char_ids=char_ids,
            state=state,
            use_cache=use_cache,
            **kwargs,
        )
        # [2, B, T, P]: what each direction knows after each word
        states = torch.stack(self.dropout(layers[-1]).chunk(2, dim=2))
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
        return self.known_words(targets)


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
            ValueError: As `ElmoModel`; or if the labels have another shape, or are not words of the vocabulary.
        """
        layers, outputs = run_bilm(
            self.elmo, input_ids=input_ids, attention_mask=attention_mask, char_ids=char_ids, **kwargs
        )
        # [2, B, T, P]: what each direction knows after each word
        states = torch.stack(self.dropout(layers[-1]).chunk(2, dim=2))
        # [2, B, T]: where each word's left and right neighbour is, -100 where there is none
        places = torch.arange(states.shape[2], device=states.device).expand(states.shape[1:3])
        right, left = neighbours(places, self.elmo.read_ids(input_ids, char_ids, attention_mask)[1])
        scores = []
        for half, place in zip(states, (left, right), strict=True):
            # [B, T, P]
            context = half.gather(1, place.clamp(min=0)[:, :, None].expand(half.shape))
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
            if labels.shape != logits.shape[:2]:
                raise ValueError(f"`labels` is {tuple(labels.shape)} where the batch is {tuple(logits.shape[:2])}.")
            labels = self.known_words(check_integers("labels", labels))
            loss = self.loss_function(logits, labels, self.config.vocab_size, **kwargs)
        return ElmoMaskedLMOutput(
            loss=loss,
            logits=logits,
            forward_logits=scores[0],
            backward_logits=scores[1],
            hidden_states=outputs.hidden_states,
        )


class ElmoTaskModel(ElmoPreTrainedModel):
    """What the classes of tasks share: a biLM, frozen by default, its mix for the task, a head, and a classifier."""

    # by the names in `config.head`, the default first
    heads: Mapping[str, type[nn.Module] | None] = {}
    head: Any

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels or 0
        self.elmo = ElmoModel(config)
        self.output_mix = None
        # CODEPATH: the paper's models of SNLI and SQuAD take the mix in at both places (section 5.2)
        if config.mix_at == "both":
            self.output_mix = ElmoScalarMix(config)
        head = choose_head(config, self.heads)
        self.head = None if head is None else head(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        width = config.hidden_size if self.head is None else self.head.output_size
        self.classifier = nn.Linear(width, self.num_labels)
        self.mark_trainable()
        self.post_init()

    def mark_trainable(self) -> None:
        """Train the biLM as the configuration says."""
        super().mark_trainable()
        for parameter in self.bilm_parameters():
            parameter.requires_grad_(not self.config.freeze_bilm)
        self.train(self.training)

    def freeze_bilm(self) -> None:
        """Leave the biLM as it is in training, without dropout; the mix of its layers is still trained."""
        self.config.freeze_bilm = True
        self.mark_trainable()

    def unfreeze_bilm(self) -> None:
        """Train the biLM, too."""
        self.config.freeze_bilm = False
        self.mark_trainable()

    def bilm_parameters(self) -> list[nn.Parameter]:
        """List the parameters of the biLM, without those of the mix."""
        mix = {id(self.elmo.scalar_mix.weights), id(self.elmo.scalar_mix.gamma)}
        return [parameter for parameter in self.elmo.parameters() if id(parameter) not in mix]

    def train(self, mode: bool = True) -> "ElmoTaskModel":
        """Choose training or evaluation; a biLM of which nothing is trained computes as in evaluation."""
        super().train(mode)
        self.elmo.train(mode and any(parameter.requires_grad for parameter in self.bilm_parameters()))
        return self

    def mixes(self) -> dict[str, ElmoScalarMix]:
        """List the mixes by where they go in: `input`, `output`, or both."""
        if self.output_mix is not None:
            return {"input": self.elmo.scalar_mix, "output": self.output_mix}
        return {self.config.mix_at: self.elmo.scalar_mix}

    def layer_weights(self) -> dict[str, dict[str, Any]]:
        """Read what the task has learned of the layers (figure 2 of the paper).

        Returns:
            For each place where the mix goes in, `weights`, the share of each layer from the token layer up, which add
            up to 1, and `gamma`, the factor on their sum.
        """
        return {
            place: {"weights": mix.normalized_weights().tolist(), "gamma": mix.gamma.item()}
            for place, mix in self.mixes().items()
        }

    def read_layers(
        self, bilm_layers: torch.Tensor | None, **inputs: Any
    ) -> tuple[tuple[torch.Tensor, ...], ElmoModelOutput]:
        """Run the biLM, or take the layers that it gave before, `[B, T, L + 1, H]`."""
        if bilm_layers is None:
            return run_bilm(self.elmo, **inputs)
        if not self.config.freeze_bilm:
            raise ValueError(
                "The biLM is trained, but with `bilm_layers` it is not run: freeze it, or do without them."
            )
        wanted = (len(self.elmo.layers) + 1, self.config.hidden_size)
        ids, parts = inputs.get("input_ids"), inputs.get("parts", 1)
        batch = bilm_layers.shape[:2] if ids is None else (ids.shape[0] // parts, ids.shape[1])
        if tuple(bilm_layers.shape) != (*batch, *wanted):
            raise ValueError(
                f"`bilm_layers` is {tuple(bilm_layers.shape)}; this model and batch take {(*batch, *wanted)}, "
                "(sentences, words, layers, width): stack the model's own `hidden_states`."
            )
        return bilm_layers.to(self.dtype).unbind(dim=2), ElmoModelOutput()

    def vectors_of(self, layers: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Make of the layers what a head reads, and what joins its encoder's output; `[B, T, H]` each."""
        mixed = self.elmo.scalar_mix(layers)
        # CODEPATH: "output only" in the paper's comparison (section 5.2)
        if self.config.mix_at == "output":
            return layers[0], mixed
        return mixed, None if self.output_mix is None else self.output_mix(layers)

    def find_words(
        self,
        input_ids: torch.Tensor | None,
        char_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        bilm_layers: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Find where the sentences of each row are, and their words without boundaries; see `find_sentences`.

        Raises:
            ValueError: If there are no `input_ids`, by which boundaries are known.
        """
        if input_ids is None:
            raise ValueError("This head finds the words by `input_ids`: pass all that the tokenizer returns.")
        if bilm_layers is None:
            _, real = self.elmo.read_ids(input_ids, char_ids, attention_mask)
        else:
            real = (input_ids != self.config.pad_token_id) if attention_mask is None else attention_mask.bool()
        return find_sentences(input_ids, real, self.config.bos_token_id, self.config.eos_token_id)

    def add_penalty(self, loss: Any, share: torch.Tensor | float) -> torch.Tensor:
        """Add the squared weights of the mixes (section 3.3), as far as this batch's share of a step goes."""
        # CODEPATH: the paper's models of SNLI and NER
        if self.config.mix_regularization:
            squares = torch.stack([mix.weights.square().sum() for mix in self.mixes().values()]).sum()
            loss = loss + self.config.mix_regularization * share * squares
        return loss


class ElmoForTokenClassification(ElmoTaskModel):
    """A label for each word, such as its part of speech, or where a name begins and goes on.

    `config.head` is `"linear"`, a classifier of the vectors, or `"bilstm-crf"`, the paper's named entity recogniser:
    two biLSTM layers and a CRF. Labels such as `B-PER`, `I-PER` and `O` forbid sequences that make no sense.
    """

    heads = TAGGING_HEADS

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        state: tuple[LayerState, ...] | None = None,
        labels: torch.Tensor | None = None,
        bilm_layers: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoTokenClassifierOutput:
        """Score the labels of each word.

        Args:
            input_ids: As for `ElmoModel`, and so are `attention_mask`, `char_ids`, `state` and `use_cache`; but a CRF
                needs it always, to know the boundaries.
            attention_mask: See `input_ids`.
            char_ids: See `input_ids`.
            state: See `input_ids`.
            labels: `[B, T]`, the label of each word; -100 where there is none, as at boundaries and padding. For a
                CRF, a word without a label may have any.
            bilm_layers: `[B, T, L + 1, H]`, the layers that the frozen biLM gave before; it is not run then.
            use_cache: See `input_ids`.
            **kwargs: `output_hidden_states`, `return_dict`, and `num_items_in_batch` as Trainer gives it: the number
                of labels over which the loss is averaged.

        Returns:
            Logits `[B, T, labels]`. In evaluation those of a CRF are the scores of the best sequence with this label
            at this word, so that the largest ones are the best sequence; in training they are what the CRF reads.
            With `labels`, their mean cross-entropy, or the CRF's negative log-likelihood, in nats per label.

        Raises:
            ValueError: As `ElmoModel`; or if labels have another shape than the words, or the model has no such label.
        """
        layers, outputs = self.read_layers(
            bilm_layers,
            input_ids=input_ids,
            attention_mask=attention_mask,
            char_ids=char_ids,
            state=state,
            use_cache=use_cache,
            **kwargs,
        )
        vectors, mix = self.vectors_of(layers)
        if labels is not None:
            check_labels(labels, vectors.shape[:2], self.num_labels)
        loss = None
        # CODEPATH: taggers
        if self.head is None:
            logits = self.classifier(self.dropout(vectors))
            if labels is not None:
                loss = self.loss_function(logits, labels, self.config, **kwargs)
        else:
            _, words = self.find_words(input_ids, char_ids, attention_mask, bilm_layers)
            logits = self.classifier(self.dropout(self.head(vectors, words, mix)))
            if labels is not None:
                num_items = kwargs.get("num_items_in_batch")
                count = (labels != -100).sum() if num_items is None else torch.as_tensor(num_items)
                loss = self.head.crf(logits, words, labels).sum() / count.clamp(min=1)
            if not self.training:
                logits = self.head.crf(logits, words)
        if labels is not None:
            loss = self.add_penalty(loss, share_of(labels, kwargs.get("num_items_in_batch")))
        return ElmoTokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, state=outputs.state
        )


class ElmoForSequenceClassification(ElmoTaskModel):
    """A label, several labels, or a number for each sentence or pair of sentences, as `config.problem_type` says.

    `config.head` is `"mean"` or `"max"`, the mean or maximum of the vectors; `"bcn"`, the paper's model of SST-5; or
    for pairs `"esim"`, its model of SNLI. The sentences of a pair are read apart, as ELMo was trained.
    """

    heads = SENTENCE_HEADS

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        bilm_layers: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> SequenceClassifierOutput:
        """Score the labels of each sentence or pair.

        Args:
            input_ids: `[B, T]`, word ids, by which the boundaries are known: `<S> .. </S>` of a sentence, and
                `<S> .. </S> <S> .. </S>` of a pair.
            attention_mask: As for `ElmoModel`, and so are `char_ids`.
            char_ids: See `attention_mask`.
            labels: `[B]`, the label of each, or its number; or `[B, labels]`, 1.0 for each label it has, 0.0 for
                others.
            bilm_layers: `[B, T, L + 1, H]`, the layers that the frozen biLM gave before; it is not run then.
            **kwargs: `output_hidden_states`, `return_dict`, and `num_items_in_batch` as Trainer gives it: the number
                of labels over which the loss is averaged.

        Returns:
            Logits `[B, labels]`, and with `labels` their mean cross-entropy (of several labels, the binary one), or
            squared error.

        Raises:
            ValueError: As `ElmoModel`; if there are pairs and the head reads sentences, or the other way round; or if
                the labels do not fit the model's.
        """
        num_items = kwargs.pop("num_items_in_batch", None)
        sentence, words = self.find_words(input_ids, char_ids, attention_mask, bilm_layers)
        count = 2 if self.head.pairs else 1
        if not is_exporting() and (sentence.amax(dim=1) != count).any():
            wanted = "pairs of sentences" if self.head.pairs else "single sentences"
            raise ValueError(
                f"This model reads {wanted}, with its head {self.config.head or 'mean'!r}, and there are others: "
                f"`head` can be {', '.join(self.heads)}, of which esim reads pairs."
            )
        # each sentence of a pair in a row of its own, with nothing where the other is
        apart = [sentence == number + 1 for number in range(count)]
        inputs = {"input_ids": input_ids, "char_ids": char_ids}
        inputs = {name: ids if ids is None else torch.cat([ids] * count) for name, ids in inputs.items()}
        layers, outputs = self.read_layers(
            bilm_layers, parts=count, **inputs, attention_mask=torch.cat(apart), **kwargs
        )
        logits = self.classifier(self.dropout(self.head(*self.vectors_of(layers), sentence * words)))
        loss = None
        if labels is not None:
            single = self.config.problem_type == "single_label_classification"
            # what is not said, Transformers tells by the labels
            if single or (self.config.problem_type is None and self.num_labels > 1 and labels.ndim == 1):
                check_labels(labels, logits.shape[:1], self.num_labels)
            else:
                labels = check_numbers(labels, logits)
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
            share = share_of(labels, num_items)
            loss = self.add_penalty(loss * share, share)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


__all__ = [
    "ElmoForMaskedLM",
    "ElmoForPreTraining",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoModel",
    "ElmoPreTrainedModel",
]
