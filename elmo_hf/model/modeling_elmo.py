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

Read this file beside the paper. `ElmoModel` is the bidirectional language model (biLM) of section 3.1: a token encoder
(`ElmoTokenEncoder`), biLSTM layers (`ElmoBiLstmLayer`), and the mix of equation 1 (`ElmoScalarMix`).
`ElmoForPreTraining` adds the softmax, as section 3.1 trains it, and `ElmoForMaskedLM` fills words in with it. The task
models add heads, as section 3.3 does: `ElmoForTokenClassification`, `ElmoForSequenceClassification`,
`ElmoForMultipleChoice`, `ElmoForQuestionAnswering` and `ElmoForCoreferenceResolution`.

Shape notation: `B` sentences, `T` words with the boundary tokens `<S>` and `</S>`, `S` characters of a word, `K` ids
of a word (itself, its characters, or both), `N` words to predict, `P` width of one direction, `H = 2 * P` width of a
vector, `C` width of the cell, `L` biLSTM layers, `V` words of the vocabulary.
"""

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_outputs import (
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
)
from transformers.modeling_utils import PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from .configuration_elmo import ElmoConfig, find_model
from .coreference_elmo import Antecedents, ElmoCoreferenceHead, check_mentions, find_clusters, marginal_loss
from .crf_elmo import ElmoCrf
from .heads_elmo import (
    SENTENCE_HEADS,
    SPAN_HEADS,
    TAGGING_HEADS,
    ElmoHighwayLstm,
    ElmoPairClassifier,
    ElmoRoleHead,
    ElmoTagProjection,
    ElmoTaskLstm,
    HeadInputs,
    choose_head,
)
from .inputs_elmo import (
    IGNORED,
    BilmInputs,
    check_integers,
    check_labels,
    check_numbers,
    check_positions,
    check_predicates,
    check_words,
    find_mask,
    find_sentences,
    is_one_of,
    label_fraction,
    neighbours,
    read_inputs,
)

# older versions of Transformers copy only the companions that are named here
from .kernels_elmo import find_kernels as find_kernels
from .layers_elmo import ElmoBiLstmLayer, ElmoScalarMix
from .outputs_elmo import (
    BilmOutput,
    ElmoCoreferenceOutput,
    ElmoForPreTrainingOutput,
    ElmoMaskedLMOutput,
    ElmoModelOutput,
    ElmoTokenClassifierOutput,
    LayerState,
)
from .packing_elmo import pack_words
from .recurrence_elmo import read_sentences as read_sentences
from .scan_elmo import Grid as Grid
from .scan_elmo import is_exporting
from .softmax_elmo import ElmoSoftmax, log_uniform
from .task_embeddings_elmo import ElmoTaskEmbeddings, ElmoTaskWords
from .token_encoder_elmo import ElmoHighwayGate, ElmoTokenEncoder
from .word_cache_elmo import WordCache


# the class that each Auto class loads, whichever of them saved the checkpoint; Transformers has no Auto class for
# coreference, so that one has its own name
AUTO_MAP = {
    "AutoConfig": "configuration_elmo.ElmoConfig",
    "AutoModel": "modeling_elmo.ElmoModel",
    "AutoModelForMaskedLM": "modeling_elmo.ElmoForMaskedLM",
    "AutoModelForMultipleChoice": "modeling_elmo.ElmoForMultipleChoice",
    "AutoModelForPreTraining": "modeling_elmo.ElmoForPreTraining",
    "AutoModelForQuestionAnswering": "modeling_elmo.ElmoForQuestionAnswering",
    "AutoModelForSequenceClassification": "modeling_elmo.ElmoForSequenceClassification",
    "AutoModelForTokenClassification": "modeling_elmo.ElmoForTokenClassification",
    "ElmoForCoreferenceResolution": "modeling_elmo.ElmoForCoreferenceResolution",
}


# of a document that the biLM reads in evaluation, to bound the memory
WORDS_AT_ONCE = 2048

# the weights of a folder that a task's model without a biLM leaves unread
BILM_KEYS = [r"^(elmo\.)?(token_encoder|layers|scalar_mix|softmax)\."]


class ElmoPreTrainedModel(PreTrainedModel):
    """The base of all ELMo classes: how weights start, which are trained, and what a saved checkpoint says."""

    config: ElmoConfig
    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ElmoTokenEncoder", "ElmoBiLstmLayer", "ElmoTaskEmbeddings"]

    @property
    def dummy_inputs(self) -> dict[str, torch.Tensor]:
        """One sentence of two words, for code that must call the model with something."""
        char_ids = torch.zeros(1, 2, self.config.max_characters_per_token, dtype=torch.long, device=self.device)
        char_ids[:, :, 0] = 1
        inputs = {"input_ids": torch.ones(1, 2, dtype=torch.long, device=self.device), "char_ids": char_ids}
        # CODEPATH: the paper's model of names
        return {**inputs, "task_word_ids": inputs["input_ids"]} if self.config.task_word_embedding_dim else inputs

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        # as in bilm-tf; every branch is for modules with parameters of their own
        factor = self.config.initializer_factor
        if isinstance(module, nn.Embedding):
            # words of a task have vectors of length 1 on average, whatever their width (Lample et al. 2016)
            bound = factor * math.sqrt(3 / module.embedding_dim) if isinstance(module, ElmoTaskWords) else factor
            init.uniform_(module.weight, -bound, bound)
            # a row has no mark that it was loaded
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, nn.Conv1d):
            init.uniform_(module.weight, -0.05 * factor, 0.05 * factor)
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, std=factor / math.sqrt(module.in_features))
            if isinstance(module, ElmoHighwayGate):
                # carry most of the features through at first
                init.constant_(module.bias, -2 * factor)
            if isinstance(module, ElmoPairClassifier):
                init.zeros_(module.pair_weight)
            if isinstance(module, ElmoTagProjection):
                orthogonal_(module.weight, factor, len(module.weight), 0)
        elif isinstance(module, ElmoBiLstmLayer):
            _, width, gates = module.recurrent_weight.shape
            # Glorot and Bengio 2010, for the matrix that input and state share in TensorFlow
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
                remember_(linear.get_parameter("bias"), width)
        elif isinstance(module, ElmoHighwayLstm):
            width = module.recurrent_weight.shape[1]
            projections, highways = module.input_projections[0], module.highways[0]
            # each gate of its own
            for weight, dim in (
                (projections.get_parameter("weight"), 0),
                (highways.get_parameter("weight"), 0),
                (module.recurrent_weight, 2),
            ):
                orthogonal_(weight, factor, width, dim)
            remember_(projections.get_parameter("bias"), width)
        elif isinstance(module, ElmoRoleHead):
            init.xavier_uniform_(module.predicate_embeddings.weight, gain=factor)
        elif isinstance(module, ElmoCrf):
            init.zeros_(module.transitions)
            init.zeros_(module.starts)
            init.zeros_(module.ends)
        elif isinstance(module, ElmoScalarMix):
            init.zeros_(module.weights)
            init.ones_(module.gamma)

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Resize the word vocabulary as `PreTrainedModel.resize_token_embeddings` does.

        Without word embeddings only the softmax of a language model and `config.vocab_size` change, because the table
        of characters has a row for every byte. A task's own table of words stays: it has a vocabulary of its own.
        """
        # CODEPATH: bilm-tf models trained without a character encoder
        if self.config.word_embedding_dim and getattr(self, "has_bilm", True):
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
        """Train the weights of a mix only if `config.layer` is `"mix"`; subclasses freeze other parts."""
        for module in self.modules():
            if isinstance(module, ElmoScalarMix):
                module.weights.requires_grad_(module.layer == "mix")
                module.gamma.requires_grad_(module.layer == "mix")

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str] | None, *args: Any, **kwargs: Any
    ) -> Any:
        """Load as `PreTrainedModel.from_pretrained` does, then freeze what the configuration says is not trained.

        Args:
            pretrained_model_name_or_path: A folder, a name on the Hub, or `elmo-small-en`, which comes with the
                package elmo_hf. `None` with a `state_dict`.
            *args: Passed on.
            **kwargs: Passed on, too.
        """
        name = pretrained_model_name_or_path
        loaded = super().from_pretrained(name if name is None else find_model(name), *args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        model.mark_trainable()
        return loaded

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Save as `PreTrainedModel.save_pretrained` does, with an `auto_map` of all ELMo classes."""
        self.config.auto_map = dict(AUTO_MAP)
        super().save_pretrained(*args, **kwargs)

    def select_outputs(self, bilm: BilmOutput, use_cache: bool | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Select the `state` and the `hidden_states` that the caller asks for, or else the configuration.

        Hooks, by which other models of Transformers collect hidden states, would keep a model from being pickled.

        Args:
            bilm: What the biLM computed.
            use_cache: Whether to return the state.
            kwargs: `output_hidden_states` asks for all layers, none, or those of a list of indices.
        """
        if use_cache is None:
            use_cache = self.config.use_cache
        wanted = kwargs.get("output_hidden_states")
        if wanted is None:
            wanted = self.config.output_hidden_states
        count = len(bilm.layers)
        kept = {index % count for index in wanted} if isinstance(wanted, list) else range(count)
        shown = tuple(layer if index in kept else None for index, layer in enumerate(bilm.layers))
        return {"state": bilm.states if use_cache else None, "hidden_states": shown if wanted else None}


# both set whole parameters: Transformers marks those that were loaded, and would not know a part of one
def orthogonal_(weight: torch.Tensor, factor: float, size: int, dim: int) -> None:
    """Fill each block of `size` along a dimension of a matrix with an orthogonal matrix times a factor."""
    # torch computes them in float32 and float64 only
    wide = torch.promote_types(weight.dtype, torch.float32)
    # a dimension of 1 in front is that of a direction
    shapes = [part.reshape(part.shape[-2:]).shape for part in weight.split(size, dim)]
    blocks = [nn.init.orthogonal_(weight.new_empty(shape, dtype=wide), gain=factor) for shape in shapes]
    init.copy_(weight, torch.cat(blocks, dim=dim - weight.ndim).reshape(weight.shape))


def remember_(bias: torch.Tensor, width: int) -> None:
    """Let the cells of an LSTM remember at first (Jozefowicz et al. 2015): 1 for the forget gate, the second one."""
    init.copy_(bias, torch.cat([bias.new_full((width,), float(gate == 1)) for gate in range(len(bias) // width)]))


class ElmoModel(ElmoPreTrainedModel):
    """The biLM without its softmax (section 3.1): from words to `L + 1` layers of vectors, and their mix."""

    # folders of language models have it
    _keys_to_ignore_on_load_unexpected = [r"^softmax\."]

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
        """Return the table that the token encoder begins with: that of words, or else that of characters.

        Its rows are not `inputs_embeds`: `embed_words` returns those.
        """
        return self.token_encoder.get_submodule(self.input_table)

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the table that `get_input_embeddings` returns."""
        self.token_encoder.set_submodule(self.input_table, value)

    @torch.compiler.disable
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        state: tuple[LayerState, ...] | None = None,
        use_cache: bool | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoModelOutput:
        """Embed sentences. The vectors of a sentence depend only on the sentence, and on `state` if given.

        Args:
            input_ids: `[B, T]`, word ids; only models with word embeddings read them. `[B, 2, T]` gives each direction
                words of its own, both in the order of the text, with padding at the same positions: bilm-tf trains on
                these, because its backward direction never reads `<S>` and its forward direction never `</S>`.
            attention_mask: `[B, T]`, 1 at words, 0 at padding, wherever it is; by default the model finds the words by
                their ids. A row of `char_ids` that is all 0 is never a word.
            char_ids: `[B, T, S]` or `[B, 2, T, S]`, character ids with `S = config.max_characters_per_token`, as the
                tokenizer makes them; only models with character embeddings read them.
            state: What an earlier call with `use_cache=True` returned for as many sentences. Each sentence then
                continues the one in its row, in both directions. By default each starts from zero.
            use_cache: Whether to return the state; by default as the configuration says.
            inputs_embeds: `[B, T, P]`, vectors in place of those of the token layer, as `embed_words` returns them.
                The model then reads no ids, and finds padding by the mask, or else by `input_ids`.
            **kwargs: `output_hidden_states` and `return_dict`.

        Returns:
            The vectors, zero at padding. `last_hidden_state` is the scalar mix, not the top layer.

        Raises:
            ValueError: If the ids that the model reads are missing or of another shape, or `state` or `inputs_embeds`
                is of another shape.
        """
        inputs = read_inputs(self.config, input_ids, char_ids, attention_mask, inputs_embeds)
        bilm = self.run_bilm(inputs, state)
        return ElmoModelOutput(
            last_hidden_state=self.scalar_mix(bilm.layers), **self.select_outputs(bilm, use_cache, kwargs)
        )

    # its loops are as long as the longest sentence: torch.compile would compile them again for every length
    @torch.compiler.disable
    def run_bilm(self, inputs: BilmInputs, state: tuple[LayerState, ...] | None = None) -> BilmOutput:
        """Run the token encoder and the biLSTM layers, for this class and those built on it.

        Args:
            inputs: The words, as `read_inputs` returns them.
            state: The states that the layers start from; zero by default.

        Returns:
            The `L + 1` layers, and the states that they end in.
        """
        return self.run_layers(self.encode_words(inputs), inputs.mask, state)

    @torch.compiler.disable
    def run_layers(
        self, token_layer: torch.Tensor, mask: torch.Tensor, state: tuple[LayerState, ...] | None = None
    ) -> BilmOutput:
        """Run the biLSTM layers.

        Args:
            token_layer: `[B, 1 or 2, T, P]`, zero at padding, as `encode_words` returns it.
            mask: `[B, T]`, true at words.
            state: The states that the layers start from; zero by default.

        Returns:
            The `L + 1` layers, and the states that they end in.
        """
        states = self.check_state(state, mask.shape[0])
        # [B, T, 1 or 2, P] -> [B, T, 2, P] -> [B, T, H]
        halves = token_layer.transpose(1, 2).expand(-1, -1, 2, -1)
        hidden_states = halves.reshape(*mask.shape, self.config.hidden_size)
        layers, ends = [hidden_states], []
        packing = pack_words(mask)
        for layer, start in zip(self.layers, states, strict=True):
            hidden_states, end = layer(hidden_states, packing, start)
            layers.append(hidden_states)
            ends.append(end)
        return BilmOutput(tuple(layers), tuple(ends))

    # its groups of words differ from batch to batch: as `run_bilm`
    @torch.compiler.disable
    def encode_words(self, inputs: BilmInputs) -> torch.Tensor:
        """Return the token layer, `[B, 1, T, P]`, or `[B, 2, T, P]` with words of their own for each direction."""
        if inputs.embeds is not None:
            return inputs.embeds.to(self.dtype).masked_fill(~inputs.mask[:, :, None], 0)[:, None]
        ids: Any = inputs.ids
        # [B, 1 or 2, T]
        is_word = inputs.mask[:, None].expand(ids.shape[:3])
        return self.token_encoder(ids, is_word)

    def embed_words(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Compute the vectors of the token layer, which know a word's spelling but not its context.

        Args:
            input_ids: `[B, T]`, as for `forward`.
            attention_mask: `[B, T]`, as for `forward`.
            char_ids: `[B, T, S]`, as for `forward`.

        Returns:
            `[B, T, P]`, zero at padding, which you can change and pass on as `inputs_embeds`.

        Raises:
            ValueError: If the ids that the model reads are missing or of another shape.
        """
        inputs = read_inputs(self.config, input_ids, char_ids, attention_mask, None)
        # the words of the forward direction, if each has its own
        return self.encode_words(inputs)[:, 0]

    def check_state(self, state: tuple[LayerState, ...] | None, batch_size: int) -> Sequence[LayerState | None]:
        """Return the state that each layer starts from, and refuse the state of another batch or model."""
        if state is None:
            return [None] * len(self.layers)
        width, cell = self.config.hidden_size // 2, self.config.intermediate_size
        wanted = [[(batch_size, 2, width), (batch_size, 2, cell)]] * len(self.layers)
        given = [[tuple(part.shape) for part in layer] for layer in state]
        if given != wanted:
            raise ValueError(
                f"`state` has the shapes {given}, but a model with num_hidden_layers={len(self.layers)} and a "
                f"batch of size {batch_size} need {wanted}: pass what an earlier call returned for as many sentences."
            )
        return state

    def cache_words(self, capacity: int) -> None:
        """Cache the token layer's vectors of words across batches: a text repeats most of its words.

        The cache is used where no gradients are computed. It empties itself when it is full or a weight has changed,
        except by changes through `.data`. It is not saved with the model.

        Args:
            capacity: The most words to keep, each of which takes its vector and about 600 bytes; 0 for no cache.
        """
        self.token_encoder.cache = WordCache(capacity) if capacity else None


class ElmoLanguageModel(ElmoPreTrainedModel):
    """The base of the language models: the biLM, and the softmax that both of its directions share (section 3.1)."""

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
        """Train all weights but those of the mix, which belongs to a task."""
        super().mark_trainable()
        self.elmo.scalar_mix.requires_grad_(False)

    def get_output_embeddings(self) -> nn.Module:
        """Return the softmax, whose rows are the words of the vocabulary."""
        return self.softmax

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        """Replace the weights of the softmax, perhaps by those of another number of words."""
        self.softmax.replace(new_embeddings)

    def split_directions(self, top_layer: torch.Tensor) -> torch.Tensor:
        """Split the top layer `[B, T, H]` into what each direction knows after each word, `[2, B, T, P]`."""
        return torch.stack(self.dropout(top_layer).chunk(2, dim=2))


class ElmoForPreTraining(ElmoLanguageModel):
    """The language model as section 3.1 trains it: each direction predicts its next word."""

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        state: tuple[LayerState, ...] | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoForPreTrainingOutput:
        """Predict the next word from each word and those before it, and the previous one from it and those after it.

        Args:
            input_ids: `[B, T]`, word ids; only models with word embeddings read them. `[B, 2, T]` gives each direction
                words of its own, both in the order of the text, with padding at the same positions.
            attention_mask: `[B, T]`, 1 at words, 0 at padding; by default the model finds the words by their ids.
            char_ids: `[B, T, S]` or `[B, 2, T, S]`, character ids; only models with character embeddings read them.
            state: What an earlier call with `use_cache=True` returned for as many sentences, to continue them; by
                default each sentence starts from zero.
            labels: `[B, T]`, the ids of the words themselves, -100 for words not to predict and for padding; or
                `[B, 2, T]`, the word that each state of the forward and of the backward direction predicts, -100 for
                none.
            use_cache: Whether to return the state; by default as the configuration says.
            inputs_embeds: `[B, T, P]`, vectors in place of those of the token layer; see `ElmoModel.embed_words`.
            **kwargs: `output_hidden_states` and `return_dict`; and `num_items_in_batch`, the number of labels over
                which the loss is averaged, which Trainer passes.

        Returns:
            With `labels` the losses, without them the logits. In training, if the configuration asks for it, the
            softmax of the losses is over a sample of the vocabulary; otherwise it is over all words.

        Raises:
            ValueError: If the ids that the model reads are missing or of another shape, `state` or `labels` are of
                another shape, or a label is not a word of the vocabulary.
        """
        inputs = read_inputs(self.config, input_ids, char_ids, attention_mask, inputs_embeds)
        bilm = self.elmo.run_bilm(inputs, state)
        # [2, B, T, P]
        states = self.split_directions(bilm.layers[-1])
        result = ElmoForPreTrainingOutput(**self.select_outputs(bilm, use_cache, kwargs))
        if labels is None:
            result.forward_logits, result.backward_logits = self.softmax(states)
            return result
        # [2, B, T]
        targets = self.read_targets(labels, inputs.mask)
        predicted = targets != IGNORED
        # [2], at least 1
        counts = predicted.sum(dim=(1, 2)).clamp(min=1)
        share = 0.5 / counts
        num_items = kwargs.get("num_items_in_batch")
        if num_items is not None:
            # each of the labels `[B, T]` is predicted twice
            share = torch.ones_like(share) / (num_items * (4 - labels.ndim))
        # [N]
        scales = share[:, None, None].expand(targets.shape)[predicted]
        result.loss, losses = self.softmax(states[predicted], targets[predicted], scales)
        # [2, B, T]
        spread = losses.new_zeros(targets.shape).masked_scatter(predicted, losses)
        result.forward_losses, result.backward_losses = spread
        result.forward_loss, result.backward_loss = spread.sum(dim=(1, 2)) / counts
        return result

    def read_targets(self, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the word that each direction predicts at each word, `[2, B, T]`, -100 for none."""
        labels, (sentences, length) = check_integers("labels", labels), mask.shape
        if labels.shape == (sentences, 2, length):
            targets = labels.transpose(0, 1)
        elif labels.shape == mask.shape:
            targets = neighbours(labels, mask)
        else:
            raise ValueError(
                f"`labels` is {tuple(labels.shape)} where the batch is {sentences, length}: pass the word ids of the "
                "batch."
            )
        return check_words(targets, self.config)


class ElmoForMaskedLM(ElmoLanguageModel):
    """The language model that fills in words, from the forward direction on the left and the backward on the right.

    Neither direction has read the word itself, so that it need not be masked.
    """

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoMaskedLMOutput:
        """Score all words of the vocabulary at the position of each word.

        Args:
            input_ids: `[B, T]`, word ids; only models with word embeddings read them.
            attention_mask: `[B, T]`, 1 at words, 0 at padding; by default the model finds the words by their ids.
            char_ids: `[B, T, S]`, character ids; only models with character embeddings read them.
            labels: `[B, T]`, the word at each position; -100 where the loss does not count it.
            inputs_embeds: `[B, T, P]`, vectors in place of those of the token layer; see `ElmoModel.embed_words`.
            **kwargs: `output_hidden_states` and `return_dict`; and `num_items_in_batch`, the number of labels over
                which the loss is averaged, which Trainer passes.

        Returns:
            `logits`: the sum of the log-probabilities that the two directions give each word, minus the word's own
            log-probability, which both of them contain (Bayes' rule, if left and right are independent given the
            word). The word's own probability is log-uniform, because the vocabulary is in descending frequency.
            Padding has the lowest number. With `labels`, the loss is their mean cross-entropy.

        Raises:
            ValueError: If the ids that the model reads are missing or of another shape, `labels` are of another
                shape, or a label is not a word of the vocabulary.
        """
        inputs = read_inputs(self.config, input_ids, char_ids, attention_mask, inputs_embeds)
        mask, bilm = inputs.mask, self.elmo.run_bilm(inputs)
        logits, scores = self.score_words(*self.read_contexts(bilm.layers[-1], mask))
        loss = None
        if labels is not None:
            if labels.shape != mask.shape:
                raise ValueError(f"`labels` is {tuple(labels.shape)} where the batch is {tuple(mask.shape)}.")
            labels = check_words(check_integers("labels", labels), self.config)
            loss = self.loss_function(logits, labels, self.config.vocab_size, **kwargs)
        return ElmoMaskedLMOutput(
            loss=loss,
            logits=logits,
            forward_logits=scores[0],
            backward_logits=scores[1],
            hidden_states=self.select_outputs(bilm, False, kwargs)["hidden_states"],
        )

    def read_contexts(self, top_layer: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Find what each direction has read before it comes to a word.

        Args:
            top_layer: `[B, T, H]`.
            mask: `[B, T]`, true at words.

        Returns:
            The states of the words on the left and on the right, `[2, B, T, P]`, and whether there is such a word,
            `[2, B, T]`.
        """
        states = self.split_directions(top_layer)
        positions = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
        right, left = neighbours(positions, mask)
        # [2, B, T]: -100 for none
        beside = torch.stack([left, right])
        contexts = states.gather(2, beside.clamp(min=0)[..., None].expand(states.shape))
        return contexts, beside >= 0

    def score_words(self, contexts: torch.Tensor, known: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Score all words of the vocabulary at places of which `read_contexts` found the contexts.

        Args:
            contexts: `[2, ..., P]`.
            known: `[2, ...]`.

        Returns:
            The logits `[..., V]` of both directions together, and the log-probabilities `[..., V]` of each.
        """
        # without a neighbour every word is as likely as any other
        scores = [
            self.softmax(context).log_softmax(dim=-1).masked_fill(~exists[..., None], 0)
            for context, exists in zip(contexts, known, strict=True)
        ]
        words = self.config.vocab_size - 1
        # [V], padding first
        prior = log_uniform(torch.arange(words, device=contexts.device), words).to(contexts)
        # with one neighbour there is only one probability, and nothing to subtract
        logits = scores[0] + scores[1] - (known[0] & known[1])[..., None] * nn.functional.pad(prior, (1, 0))
        logits[..., 0] = torch.finfo(logits.dtype).min
        return logits, scores


class ElmoTaskModel(ElmoPreTrainedModel):
    """The base of the task models (section 3.3).

    A model has a biLM, frozen by default, the mix of its layers, a head and a classifier. Beside the mix the head may
    read words and characters of the task's own, `[x; ELMo]`; without a biLM (`config.mix_at` is `"none"`) it reads `x`
    alone, as the paper's baselines do.
    """

    _keys_to_ignore_on_load_unexpected = ElmoModel._keys_to_ignore_on_load_unexpected
    # the classes of the heads by their names in `config.head`, the default first
    heads: Mapping[str, Any] = {}
    head: Any
    # what the classifier computes for a word or row; by default a score for each label
    num_scores: int | None = None

    def __init__(self, config: ElmoConfig) -> None:
        # `from_pretrained(..., id2label=...)` changes one of the two, and others after they were checked
        config.match_labels()
        config.validate_architecture()
        super().__init__(config)
        self.num_labels = config.num_labels or 0
        self.task_embeddings = None
        # CODEPATH: the paper's model of names reads words and characters of its own, too
        if config.task_embedding_dim:
            self.task_embeddings = ElmoTaskEmbeddings(config)
        # CODEPATH: the paper's baselines have no biLM
        self.has_bilm = config.mix_at != "none"
        if self.has_bilm:
            self.elmo = ElmoModel(config)
        else:
            self._keys_to_ignore_on_load_unexpected = BILM_KEYS
            # CODEPATH: baselines that read words of their own; others read characters alone
            table = "word_embeddings" if config.task_word_embedding_dim else "char_embeddings"
            self.input_table = f"task_embeddings.{table}"
        self.output_mix = None
        # CODEPATH: the paper's models of SNLI and SQuAD add the mix at both places (section 5.2)
        if config.mix_at == "both":
            self.output_mix = ElmoScalarMix(config)
        head = choose_head(config, self.heads)
        self.head = None if head is None else head(config)
        # the hidden states of semantic roles have their dropout already
        self.dropout = nn.Dropout(0 if isinstance(self.head, ElmoRoleHead) else config.classifier_dropout)
        num_scores = self.num_scores or self.num_labels
        if self.head is None:
            self.classifier = nn.Linear(config.head_input_size, num_scores)
        elif self.head.classifier is not None:
            self.classifier = self.head.classifier(self.head.output_size, num_scores)
        self.mark_trainable()
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the table of the biLM; without a biLM, that of the task's words, or else characters."""
        if self.has_bilm:
            return super().get_input_embeddings()
        return self.get_submodule(self.input_table)

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the table that `get_input_embeddings` returns."""
        if self.has_bilm:
            super().set_input_embeddings(value)
        else:
            self.set_submodule(self.input_table, value)

    def mark_trainable(self) -> None:
        """Freeze or train the biLM and the task's table of words, as the configuration says."""
        super().mark_trainable()
        for parameter in self.bilm_parameters():
            parameter.requires_grad_(not self.config.freeze_bilm)
        if self.task_embeddings is not None and self.task_embeddings.word_embeddings is not None:
            self.task_embeddings.word_embeddings.requires_grad_(self.config.train_task_words)
        self.train(self.training)

    def freeze_bilm(self) -> None:
        """Freeze the biLM and switch off its dropout; the mix of its layers is still trained."""
        self.config.freeze_bilm = True
        self.mark_trainable()

    def unfreeze_bilm(self) -> None:
        """Train the biLM as well."""
        self.config.freeze_bilm = False
        self.mark_trainable()

    def bilm_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the biLM without those of the mix; none if the model has no biLM."""
        if not self.has_bilm:
            return []
        mix = {id(self.elmo.scalar_mix.weights), id(self.elmo.scalar_mix.gamma)}
        return [parameter for parameter in self.elmo.parameters() if id(parameter) not in mix]

    def train(self, mode: bool = True) -> "ElmoTaskModel":
        """Set training or evaluation mode; a fully frozen biLM stays in evaluation mode."""
        super().train(mode)
        if self.has_bilm:
            self.elmo.train(mode and any(parameter.requires_grad for parameter in self.bilm_parameters()))
        return self

    def mixes(self) -> dict[str, ElmoScalarMix]:
        """Return the mixes by where the head reads them: `input`, `output`, both, or none without a biLM."""
        if not self.has_bilm:
            return {}
        if self.output_mix is not None:
            return {"input": self.elmo.scalar_mix, "output": self.output_mix}
        return {self.config.mix_at: self.elmo.scalar_mix}

    def layer_weights(self) -> dict[str, dict[str, Any]]:
        """Return what the task has learned about the layers (figure 2 of the paper).

        Returns:
            For each place where the head reads a mix, `weights`, the shares of the layers from the token layer up,
            which add up to 1, and `gamma`, the factor on their sum.
        """
        return {
            place: {"weights": mix.normalized_weights().tolist(), "gamma": mix.gamma.item()}
            for place, mix in self.mixes().items()
        }

    def read_given_layers(
        self, bilm_layers: torch.Tensor, input_ids: torch.Tensor | None, attention_mask: torch.Tensor | None
    ) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """Return layers that the frozen biLM gave in an earlier call, `[B, T, H]` each, and the mask `[B, T]`.

        Raises:
            ValueError: If the biLM is trained, or the layers are not those of this model and batch.
        """
        if not self.config.freeze_bilm:
            raise ValueError(
                "The biLM is trained, but with `bilm_layers` it is not run: call `freeze_bilm()`, or leave "
                "`bilm_layers` out."
            )
        batch = bilm_layers.shape[:2] if input_ids is None else input_ids.shape
        wanted = (*batch, len(self.elmo.layers) + 1, self.config.hidden_size)
        if tuple(bilm_layers.shape) != wanted:
            raise ValueError(
                f"`bilm_layers` is {tuple(bilm_layers.shape)}; this model and batch take {wanted}, (sentences, words, "
                "layers, width): stack the model's own `hidden_states`."
            )
        mask = find_mask(self.config, input_ids, attention_mask, bilm_layers)
        # whatever stands at padding
        return bilm_layers.to(self.dtype).masked_fill(~mask[:, :, None, None], 0).unbind(dim=2), mask

    def find_words(self, input_ids: torch.Tensor | None, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the number of each word's sentence in its row, and where words are that are not boundary tokens.

        Raises:
            ValueError: If there are no `input_ids`, by which boundary tokens are known.
        """
        if input_ids is None:
            raise ValueError("This head finds the words by `input_ids`: pass all that the tokenizer returns.")
        return find_sentences(input_ids, mask, self.config.bos_token_id, self.config.eos_token_id)

    def find_mask_without_bilm(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        char_ids: torch.Tensor | None,
        task_word_ids: torch.Tensor | None,
        **unread: Any,
    ) -> torch.Tensor:
        """Return where the words are, `[B, T]`, in a model without a biLM.

        Raises:
            ValueError: If there are no ids, or one of the `unread` arguments is given, which are for a biLM.
        """
        given = next((name for name, value in unread.items() if value is not None), None)
        if given is not None:
            raise ValueError(f"This model has no biLM (its `mix_at` is 'none'), which would read `{given}`: leave it.")
        own: Any = self.task_embeddings
        return own.find_mask(input_ids, attention_mask, task_word_ids, char_ids, self.config.pad_token_id)

    def join_inputs(
        self,
        layers: Sequence[torch.Tensor],
        mask: torch.Tensor,
        task_word_ids: torch.Tensor | None,
        char_ids: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Join what the head reads: the task's own words and characters, and ELMo (`[x; ELMo]` in section 3.3).

        Args:
            layers: The `L + 1` layers of the biLM, `[B, T, H]` each; none if the model has no biLM.
            mask: `[B, T]`, false at padding.
            task_word_ids: `[B, T]`, ids in the task's vocabulary.
            char_ids: `[B, T, S]`.

        Returns:
            The vectors at the head's input, `[B, T, D]` with `D = config.head_input_size`, and the mix that joins its
            encoder's output, `[B, T, H]`, or `None`. Both are zero at padding.
        """
        own = None if self.task_embeddings is None else self.task_embeddings.read(task_word_ids, char_ids, mask)
        if own is not None and not self.has_bilm:
            return own, None
        mixed = self.elmo.scalar_mix(layers)
        # CODEPATH: "output only" in the paper's comparison (section 5.2)
        if self.config.mix_at == "output":
            return layers[0] if own is None else own, mixed
        vectors = mixed if own is None else torch.cat([own, mixed], dim=2)
        return vectors, None if self.output_mix is None else self.output_mix(layers)

    def read_rows(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        char_ids: torch.Tensor | None,
        bilm_layers: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        task_word_ids: torch.Tensor | None,
        kwargs: Mapping[str, Any],
    ) -> tuple[HeadInputs, tuple[torch.Tensor, ...] | None]:
        """Compute what the head reads and the hidden states that the caller asks for; arguments as `forward`."""
        hidden_states, inputs = None, None
        layers: Sequence[torch.Tensor] = ()
        if not self.has_bilm:
            unread = {"bilm_layers": bilm_layers, "inputs_embeds": inputs_embeds}
            mask = self.find_mask_without_bilm(input_ids, attention_mask, char_ids, task_word_ids, **unread)
        elif bilm_layers is None:
            inputs = read_inputs(self.config, input_ids, char_ids, attention_mask, inputs_embeds)
            mask = inputs.mask
        else:
            layers, mask = self.read_given_layers(bilm_layers, input_ids, attention_mask)
        sentences, words = self.find_words(input_ids, mask)
        if inputs is not None:
            bilm = self.run_sentences(inputs, sentences)
            layers, hidden_states = bilm.layers, self.select_outputs(bilm, False, kwargs)["hidden_states"]
        vectors, mix = self.join_inputs(layers, mask, task_word_ids, char_ids)
        return HeadInputs(vectors, sentences, words, mix), hidden_states

    def run_sentences(self, inputs: BilmInputs, sentences: torch.Tensor) -> BilmOutput:
        """Run the biLM on rows of one sentence each; the number of each word's sentence is `[B, T]`."""
        del sentences
        return self.elmo.run_bilm(inputs)

    def add_penalty(self, loss: Any, fraction: torch.Tensor | float) -> torch.Tensor:
        """Add the squared weights of the mixes (section 3.3), times this batch's fraction of the step's labels."""
        # CODEPATH: the paper's models of SNLI and NER
        if self.config.mix_regularization and self.has_bilm:
            squares = torch.stack([mix.weights.square().sum() for mix in self.mixes().values()]).sum()
            loss = loss + self.config.mix_regularization * fraction * squares
        return loss


class ElmoForTokenClassification(ElmoTaskModel):
    """A label for each word, such as its part of speech, or where a name begins and continues.

    `config.head` is `"linear"`, a classifier on the vectors, or `"bilstm-crf"`, the paper's named entity recogniser:
    two biLSTM layers and a CRF, or `"alternating-lstm"`, its model of semantic roles: eight LSTM layers of alternating
    direction, which label the words by their roles for the predicate that `token_type_ids` mark. If the labels are
    named by a scheme such as `B-PER`, `I-PER` and `O`, these two never decode a sequence that breaks it.
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
        inputs_embeds: torch.Tensor | None = None,
        task_word_ids: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoTokenClassifierOutput:
        """Score the labels of each word.

        Args:
            input_ids: `[B, T]`, word ids. Models with word embeddings read them, and heads with an encoder find the
                boundary tokens by them.
            attention_mask: `[B, T]`, 1 at words, 0 at padding; by default the model finds the words by their ids.
            char_ids: `[B, T, S]`, character ids; only models with characters in the biLM or beside it read them.
            state: What an earlier call with `use_cache=True` returned for as many sentences, to continue them; by
                default each sentence starts from zero.
            labels: `[B, T]`, the label of each word; -100 where there is none, as at boundary tokens and padding. To a
                CRF, a word without a label may have any.
            bilm_layers: `[B, T, L + 1, H]`, the layers that the frozen biLM gave in an earlier call; it does not run
                then.
            use_cache: Whether to return the state; by default as the configuration says.
            inputs_embeds: `[B, T, P]`, vectors in place of those of the token layer; see `ElmoModel.embed_words`.
            task_word_ids: `[B, T]`, ids in the task's own vocabulary; only models with a table of these words read
                them.
            token_type_ids: `[B, T]`, 1 at the words of the predicate, 0 at others; only `"alternating-lstm"` reads
                them.
            **kwargs: `output_hidden_states` and `return_dict`; and `num_items_in_batch`, the number of labels over
                which the loss is averaged, which Trainer passes.

        Returns:
            Logits `[B, T, labels]`. With the heads that decode sequences they are, in evaluation, the scores of the
            best sequence with the label at the word, so that the argmax is the best sequence; in training they are
            the classifier's. With `labels`, the loss is their mean cross-entropy, or the CRF's negative log
            likelihood, in nats a label.

        Raises:
            ValueError: If the ids that the model reads are missing or of another shape, `state`, `labels`,
                `bilm_layers` or `token_type_ids` are of another shape, a label is not one of the model's, the head
                reads the predicate and none is given, or the biLM is trained and its layers are given.
        """
        outputs: dict[str, Any] = {}
        layers: Sequence[torch.Tensor] = ()
        if not self.has_bilm:
            unread = {"bilm_layers": bilm_layers, "inputs_embeds": inputs_embeds, "state": state}
            mask = self.find_mask_without_bilm(input_ids, attention_mask, char_ids, task_word_ids, **unread)
        elif bilm_layers is None:
            inputs = read_inputs(self.config, input_ids, char_ids, attention_mask, inputs_embeds)
            mask, bilm = inputs.mask, self.elmo.run_bilm(inputs, state)
            layers, outputs = bilm.layers, self.select_outputs(bilm, use_cache, kwargs)
        else:
            layers, mask = self.read_given_layers(bilm_layers, input_ids, attention_mask)
        if labels is not None:
            check_labels(labels, mask.shape, self.num_labels)
        num_items = kwargs.get("num_items_in_batch")
        loss = None
        vectors, mix = self.join_inputs(layers, mask, task_word_ids, char_ids)
        # CODEPATH: taggers
        if self.head is None:
            logits = self.classifier(self.dropout(vectors))
            if labels is not None:
                loss = self.loss_function(logits, labels, self.config, **kwargs)
        else:
            rows = HeadInputs(vectors, *self.find_words(input_ids, mask), mix)
            marks = (check_predicates(token_type_ids, mask),) if isinstance(self.head, ElmoRoleHead) else ()
            logits = self.classifier(self.dropout(self.head(*rows, *marks)))
            if labels is not None:
                count = (labels != IGNORED).sum() if num_items is None else torch.as_tensor(num_items)
                loss = self.head.sequence.loss(logits, rows.words, labels).sum() / count.clamp(min=1)
            if not self.training:
                logits = self.head.sequence.decode(logits, rows.words)
        if labels is not None:
            loss = self.add_penalty(loss, label_fraction(labels, num_items))
        return ElmoTokenClassifierOutput(loss=loss, logits=logits, **outputs)


class ElmoSentenceModel(ElmoTaskModel):
    """The base of the task models that read sentences or pairs.

    To score whole rows, `config.head` is `"mean"` or `"max"`, the mean or the maximum of the vectors, of a pair those
    of both sentences and their comparison; for single sentences `"bcn"`, the paper's model of SST-5; for pairs
    `"esim"`, its model of SNLI. The biLM reads the sentences of a pair separately, as it was trained.
    """

    heads: Mapping[str, Any] = SENTENCE_HEADS
    # models of single sentences that were saved before the default head read pairs
    _keys_to_ignore_on_load_missing = [r"classifier\.pair_weight"]

    def score(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        char_ids: torch.Tensor | None,
        bilm_layers: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        task_word_ids: torch.Tensor | None,
        kwargs: Mapping[str, Any],
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...] | None]:
        """Compute the logits `[B, labels]` and the hidden states that the caller asks for; arguments as `forward`."""
        rows, hidden_states = self.read_rows(
            input_ids, attention_mask, char_ids, bilm_layers, inputs_embeds, task_word_ids, kwargs
        )
        return self.classifier(self.dropout(self.head(*rows))), hidden_states

    def find_words(self, input_ids: torch.Tensor | None, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what `ElmoTaskModel.find_words` does.

        Raises:
            ValueError: If there are no `input_ids`, or a row has another number of sentences than the head reads.
        """
        sentences, words = super().find_words(input_ids, mask)
        if is_exporting():
            return sentences, words
        # a row of no words at all has no highest number
        counts = sentences.amax(dim=1) if sentences.shape[1] else sentences.new_zeros(len(sentences))
        wrong = counts[~is_one_of(counts, list(self.head.num_sentences))]
        if len(wrong):
            count, name = int(wrong[0]), self.config.head or next(iter(self.heads))
            wanted = {(1,): "single sentences", (2,): "pairs", (1, 2): "single sentences and pairs"}
            others = [name for name, head in self.heads.items() if count in head.num_sentences]
            choice = f"choose the head {' or '.join(others)}, or pass" if others else "pass"
            raise ValueError(
                f"The head {name!r} reads {wanted[self.head.num_sentences]}, but a row has {count} "
                f"{'sentence' if count == 1 else 'sentences'}: {choice} rows as the tokenizer makes them, of pairs by "
                "`tokenizer(first, second)`."
            )
        if not self.training and isinstance(self.classifier, ElmoPairClassifier) and (counts == 2).any():
            self.classifier.warn_of_pairs()
        return sentences, words

    def run_sentences(self, inputs: BilmInputs, sentences: torch.Tensor) -> BilmOutput:
        """Run the biLM on each sentence of a pair in a row of its own, with padding in place of the other one.

        Args:
            inputs: The words of `B` rows.
            sentences: `[B, T]`, the number of each word's sentence, from 1.

        Returns:
            The `L + 1` layers, `[B, T, H]` each, without states.
        """
        *_, count = self.head.num_sentences
        # an exported program reads whatever comes
        if not is_exporting() and count > self.head.num_sentences[0] and len(sentences):
            count = int(sentences.max())
        masks = torch.cat([sentences == number + 1 for number in range(count)])
        # the token layer is that of whole rows
        token_layer = self.elmo.encode_words(inputs).repeat(count, 1, 1, 1)
        bilm = self.elmo.run_layers(token_layer.masked_fill(~masks[:, None, :, None], 0), masks)
        return BilmOutput(tuple(layer.unflatten(0, (count, -1)).sum(dim=0) for layer in bilm.layers), ())


class ElmoForSequenceClassification(ElmoSentenceModel):
    """A label, several labels, or a number for each sentence or pair of sentences, as `config.problem_type` says.

    `ElmoSentenceModel` lists the heads.
    """

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        bilm_layers: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        task_word_ids: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> SequenceClassifierOutput:
        """Score the labels of each sentence or pair.

        Args:
            input_ids: `[B, T]`, word ids, by which the model finds the boundary tokens: `<S> .. </S>` around a
                sentence, and `<S> .. </S> <S> .. </S>` around those of a pair.
            attention_mask: `[B, T]`, 1 at words, 0 at padding; by default the model finds the words by their ids.
            char_ids: `[B, T, S]`, character ids; only models with characters in the biLM or beside it read them.
            labels: `[B]`, the label of each row, or its number; or `[B, labels]`, 1 for each label that it has and 0
                for others.
            bilm_layers: `[B, T, L + 1, H]`, the layers that the frozen biLM gave in an earlier call; it does not run
                then.
            inputs_embeds: `[B, T, P]`, vectors in place of those of the token layer; see `ElmoModel.embed_words`.
            task_word_ids: `[B, T]`, ids in the task's own vocabulary; only models with a table of these words read
                them.
            **kwargs: `output_hidden_states` and `return_dict`; and `num_items_in_batch`, the number of labels over
                which the loss is averaged, which Trainer passes.

        Returns:
            Logits `[B, labels]`. With `labels`, the loss is their mean cross-entropy, binary cross-entropy if a row
            has several labels, or squared error.

        Raises:
            ValueError: If the ids that the model reads are missing or of another shape, `labels`, `bilm_layers` or
                `inputs_embeds` are of another shape, a label is not one of the model's, a row has another number of
                sentences than the head reads, or the biLM is trained and its layers are given.
        """
        logits, hidden_states = self.score(
            input_ids, attention_mask, char_ids, bilm_layers, inputs_embeds, task_word_ids, kwargs
        )
        loss = None
        if labels is not None:
            loss = self.label_loss(logits, labels, kwargs.get("num_items_in_batch"))
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=hidden_states)

    def label_loss(
        self, logits: torch.Tensor, labels: torch.Tensor, num_items: torch.Tensor | int | None
    ) -> torch.Tensor:
        """Compute the loss of the problem that `config.problem_type`, or else the shape of the labels, implies."""
        single = self.config.problem_type == "single_label_classification"
        if single or (self.config.problem_type is None and self.num_labels > 1 and labels.ndim == 1):
            check_labels(labels, logits.shape[:1], self.num_labels)
            if not (labels != IGNORED).any():
                # the mean over no labels is no number
                return logits.sum() * 0
        else:
            labels = check_numbers(labels, logits)
        fraction = label_fraction(labels, num_items)
        loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return self.add_penalty(loss * fraction, fraction)


class ElmoForMultipleChoice(ElmoSentenceModel):
    """The best of several choices, each a sentence, or a pair of a question and an answer.

    `ElmoSentenceModel` lists the heads.
    """

    num_scores = 1

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        task_word_ids: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> MultipleChoiceModelOutput:
        """Score the choices of each example.

        Args:
            input_ids: `[B, choices, T]`, word ids, by which the model finds the boundary tokens.
            attention_mask: `[B, choices, T]`, 1 at words, 0 at padding.
            char_ids: `[B, choices, T, S]`, character ids, or `[B, choices, T * S]`, as Transformers' collator for
                multiple choice gives them; only models with character embeddings read them.
            labels: `[B]`, the number of the right choice of each example.
            inputs_embeds: `[B, choices, T, P]`, vectors in place of those of the token layer; see
                `ElmoModel.embed_words`.
            task_word_ids: `[B, choices, T]`, ids in the task's own vocabulary; only models with a table of these words
                read them.
            **kwargs: `output_hidden_states` and `return_dict`; and `num_items_in_batch`, the number of labels over
                which the loss is averaged, which Trainer passes.

        Returns:
            Logits `[B, choices]`; hidden states have `B * choices` rows. With `labels`, the loss is their mean
            cross-entropy.

        Raises:
            ValueError: If the ids are missing or of another shape, a label is not the number of a choice, or a row
                has another number of sentences than the head reads.
        """
        if input_ids is None or input_ids.ndim != 3:
            shape = None if input_ids is None else tuple(input_ids.shape)
            raise ValueError(f"`input_ids` is {shape}; this model takes (examples, choices, words).")
        choices, length = input_ids.shape[1:]

        def flatten(part: torch.Tensor | None, *width: int) -> torch.Tensor | None:
            return None if part is None else part.reshape(-1, length, *width)

        logits, hidden_states = self.score(
            flatten(input_ids),
            flatten(attention_mask),
            flatten(char_ids, self.config.max_characters_per_token),
            None,
            flatten(inputs_embeds, self.config.hidden_size // 2),
            flatten(task_word_ids),
            kwargs,
        )
        # [B, choices]
        logits = logits.unflatten(0, (-1, choices)).squeeze(2)
        loss = None
        if labels is not None:
            check_labels(labels, logits.shape[:1], choices, remedy=f"an example of the batch has {choices} choices")
            num_items = kwargs.get("num_items_in_batch")
            count = (labels != IGNORED).sum() if num_items is None else torch.as_tensor(num_items)
            loss = nn.functional.cross_entropy(logits, labels, reduction="sum") / count.clamp(min=1)
            loss = self.add_penalty(loss, label_fraction(labels, num_items))
        return MultipleChoiceModelOutput(loss=loss, logits=logits, hidden_states=hidden_states)


class ElmoForQuestionAnswering(ElmoSentenceModel):
    """The words of a context with which the answer to a question begins and ends.

    `config.head` is `"linear"`, a linear classifier of each word and its comparison with the question, or `"bidaf"`,
    the paper's model of SQuAD: biLSTM layers with attention between question and context, and in the context.
    """

    heads = SPAN_HEADS
    num_scores = 2

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        bilm_layers: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        task_word_ids: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> QuestionAnsweringModelOutput:
        """Score each word as the first and as the last of the answer.

        Args:
            input_ids: `[B, T]`, word ids, by which the model finds the boundary tokens: `<S> .. </S>` around the
                question, then `<S> .. </S>` around the context.
            attention_mask: `[B, T]`, 1 at words, 0 at padding; by default the model finds the words by their ids.
            char_ids: `[B, T, S]`, character ids; only models with characters in the biLM or beside it read them.
            start_positions: `[B]`, where the first word of the answer is in the row. It is where the row begins, 0
                without padding at the left, if the context has no answer. Positions that have no score, as beyond the
                row, and -100 are ignored.
            end_positions: `[B]`, where its last word is, in the same way.
            bilm_layers: `[B, T, L + 1, H]`, the layers that the frozen biLM gave in an earlier call; it does not run
                then.
            inputs_embeds: `[B, T, P]`, vectors in place of those of the token layer; see `ElmoModel.embed_words`.
            task_word_ids: `[B, T]`, ids in the task's own vocabulary; only models with a table of these words read
                them.
            **kwargs: `output_hidden_states` and `return_dict`; and `num_items_in_batch`, the number of rows over which
                the loss is averaged.

        Returns:
            `start_logits` and `end_logits`, `[B, T]`. The lowest number stands where there is no score: at padding,
            and with `"bidaf"` everywhere but in the context and where the row begins. With positions, the loss is the
            mean of the cross-entropies of both.

        Raises:
            ValueError: If the ids that the model reads are missing or of another shape, the positions, `bilm_layers`
                or `inputs_embeds` are of another shape, a position is negative, one kind of position is missing, a row
                is not a pair, or the biLM is trained and its layers are given.
        """
        rows, hidden_states = self.read_rows(
            input_ids, attention_mask, char_ids, bilm_layers, inputs_embeds, task_word_ids, kwargs
        )
        # [B, T, 2]
        logits = self.classifier(self.dropout(self.head(*rows)))
        scored = self.head.find_candidates(rows.sentences, rows.words)
        logits = logits.masked_fill(~scored[:, :, None], torch.finfo(logits.dtype).min)
        loss = None
        if start_positions is not None or end_positions is not None:
            positions = check_positions(start_positions, end_positions, scored)
            loss = self.span_loss(logits, positions, kwargs.get("num_items_in_batch"))
        start_logits, end_logits = logits.unbind(dim=2)
        return QuestionAnsweringModelOutput(
            loss=loss,
            start_logits=start_logits.contiguous(),
            end_logits=end_logits.contiguous(),
            hidden_states=hidden_states,
        )

    def span_loss(
        self, logits: torch.Tensor, positions: torch.Tensor, num_items: torch.Tensor | int | None
    ) -> torch.Tensor:
        """Compute the mean cross-entropy of first and last words.

        Args:
            logits: `[B, T, 2]`.
            positions: `[B, 2]`, -100 for none.
            num_items: The number of rows over which the loss is averaged; `None` for those of this batch.
        """
        # [B, 2]
        losses = nn.functional.cross_entropy(logits.float(), positions, reduction="none")
        count = (positions != IGNORED).sum(dim=0) if num_items is None else torch.as_tensor(num_items)
        loss = (losses.sum(dim=0) / count.clamp(min=1)).mean()
        return self.add_penalty(loss, label_fraction(positions[:, 0], num_items))


class ElmoForCoreferenceResolution(ElmoTaskModel):
    """The mentions of a document that mean the same thing: the model of Lee et al. 2017, the paper's for coreference.

    A document is a list of sentences, each a row. A biLSTM reads each sentence. Spans of up to `config.max_span_width`
    words are scored as mentions; the best, `config.spans_per_word` for each word, are compared with up to
    `config.max_antecedents` earlier ones.
    """

    heads = {"coarse-to-fine": ElmoCoreferenceHead}
    # the loss is a mean over documents, which Trainer does not count: it divides the loss of accumulated batches
    accepts_loss_kwargs = False

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        speaker_ids: torch.Tensor | None = None,
        bilm_layers: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        task_word_ids: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> ElmoCoreferenceOutput:
        """Find the mentions of documents, and score what each may refer back to.

        What is found in a document does not depend on the other documents of a batch.

        Args:
            input_ids: `[documents, sentences, T]`, word ids, by which the model finds the boundary tokens around each
                sentence; `[sentences, T]` is one document.
            attention_mask: In the same shape, 1 at words, 0 at padding; by default the model finds the words by their
                ids. Sentences that are missing in a document are rows of padding.
            char_ids: In the same shape with a last dimension `S`, character ids; only models with characters in the
                biLM or beside it read them.
            labels: `[documents, M, 3]`, of each marked mention the first word, the last word and the number of its
                cluster. Words are counted from 0 over the document, boundary tokens left out; -100 is padding.
                `[M, 3]` for one document.
            speaker_ids: In the shape of `input_ids`, a number for the speaker of each word; models with
                `config.use_speakers` read them.
            bilm_layers: `[documents, sentences, T, L + 1, H]`, the layers that the frozen biLM gave in an earlier
                call; it does not run then.
            inputs_embeds: `[documents, sentences, T, P]`, vectors in place of those of the token layer; see
                `ElmoModel.embed_words`.
            task_word_ids: In the shape of `input_ids`, ids in the task's own vocabulary; only models with a table of
                these words read them.
            **kwargs: `output_hidden_states` and `return_dict`.

        Returns:
            Spans, antecedents and their scores, for `decode`. With `labels`, the loss is the marginal negative
            log-likelihood of the right antecedents, a mean over the spans of a document and then over documents.

        Raises:
            ValueError: If the ids that the model reads are missing or of another shape, a mention is not in its
                document, speakers are missing, or the biLM is trained and its layers are given.
        """
        if input_ids is None or input_ids.ndim not in (2, 3) or (input_ids.ndim == 3 and not len(input_ids)):
            shape = None if input_ids is None else tuple(input_ids.shape)
            raise ValueError(
                f"`input_ids` is {shape}; this model takes (documents, sentences, words), at least one document, or "
                "(sentences, words) of one."
            )
        if is_exporting():
            raise ValueError(
                "ElmoForCoreferenceResolution cannot be exported, because it chooses spans one by one: export the "
                "biLM under it, `elmo`, and pass its layers to this model as `bilm_layers`."
            )
        documents = len(input_ids) if input_ids.ndim == 3 else 1

        def flatten(part: torch.Tensor | None) -> torch.Tensor | None:
            return part if part is None or input_ids.ndim == 2 else part.flatten(0, 1)

        rows, hidden_states = self.read_rows(
            flatten(input_ids),
            flatten(attention_mask),
            flatten(char_ids),
            flatten(bilm_layers),
            flatten(inputs_embeds),
            flatten(task_word_ids),
            kwargs,
        )
        found = self.find_mentions(rows, documents, self.read_speakers(flatten(speaker_ids), rows.words))
        loss = None
        if labels is not None:
            lengths = rows.words.reshape(documents, -1).sum(dim=1)
            loss = self.document_loss(found, check_mentions(labels, lengths))
        return ElmoCoreferenceOutput(loss=loss, **self.pad_documents(found), hidden_states=hidden_states)

    def run_sentences(self, inputs: BilmInputs, sentences: torch.Tensor) -> BilmOutput:
        """Run the biLM, where no gradient is wanted on a few sentences at a time, so that memory is bounded."""
        # CODEPATH: training with an unfrozen biLM
        if torch.is_grad_enabled() and not self.config.freeze_bilm:
            return super().run_sentences(inputs, sentences)
        blocks = (inputs.mask.sum(dim=1).cumsum(dim=0) // WORDS_AT_ONCE).unique_consecutive(return_counts=True)[1]
        sizes = blocks.tolist() or [0]
        parts = zip(*((None,) * len(sizes) if part is None else part.split(sizes) for part in inputs), strict=True)
        outputs = [self.elmo.run_bilm(BilmInputs(*part)) for part in parts]
        return BilmOutput(tuple(map(torch.cat, zip(*(output.layers for output in outputs), strict=True))), ())

    def read_speakers(self, speaker_ids: torch.Tensor | None, words: torch.Tensor) -> torch.Tensor | None:
        """Return a number for the speaker of each position, `[B, T]`, or `None` if the model reads no speakers."""
        # CODEPATH: models of conversations, as in OntoNotes
        if not self.config.use_speakers:
            return None
        if speaker_ids is None or speaker_ids.shape != words.shape:
            raise ValueError(
                "This model reads speakers: pass `speaker_ids`, a number for each word, in the shape of `input_ids`."
            )
        return check_integers("speaker_ids", speaker_ids)

    def find_mentions(self, rows: HeadInputs, documents: int, speakers: torch.Tensor | None) -> list[Antecedents]:
        """Run the head on each document.

        Args:
            rows: What the head reads of the sentences of all documents, `[B, T]`.
            documents: How many documents they are.
            speakers: `[B, T]`, if the model reads speakers.
        """
        encoded = self.head.encoder(rows.vectors, rows.words, rows.mix)
        # a number for each sentence of the batch, even where a row has several
        numbers = torch.arange(len(rows.words), device=encoded.device)[:, None] * rows.words.shape[1]
        numbers = numbers + rows.sentences
        parts = [encoded, rows.vectors, numbers, rows.words] + ([] if speakers is None else [speakers])
        split = [part.reshape(documents, -1, *part.shape[2:]) for part in parts]
        found = []
        for of_document in zip(*split, strict=True):
            vectors, heads, sentences, words, *voices = of_document
            voice = voices[0][words] if voices else None
            found.append(self.head(vectors[words], heads[words], sentences[words], voice))
        return found

    def document_loss(self, found: Sequence[Antecedents], labels: torch.Tensor) -> torch.Tensor:
        """Compute the mean loss of documents, of which those without words have none; labels `[documents, M, 3]`."""
        losses = [
            marginal_loss(each, marked[(marked != IGNORED).any(dim=1)]) if len(each.spans) else each.scores.sum()
            for each, marked in zip(found, labels, strict=True)
        ]
        return self.add_penalty(torch.stack(losses).mean(), 1.0)

    def pad_documents(self, found: Sequence[Antecedents]) -> dict[str, torch.Tensor]:
        """Stack what was found in documents with different numbers of spans."""
        padding = {"spans": IGNORED, "mention_scores": 0, "antecedents": IGNORED, "antecedent_scores": 0}
        return {
            name: nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=padding[name])
            for name, parts in zip(padding, map(list, zip(*found, strict=True)), strict=True)
        }

    @staticmethod
    def decode(outputs: ElmoCoreferenceOutput) -> list[list[list[tuple[int, int]]]]:
        """Find the clusters in what the model returned: each span is joined with its best antecedent, if any.

        Args:
            outputs: The output of a call.

        Returns:
            For each document its clusters of two mentions or more, in the order of their first mentions. A mention is
            its first and its last word, counted from 0 over the document.
        """
        parts = [outputs.spans, outputs.antecedents, outputs.antecedent_scores]
        return [find_clusters(*of_document) for of_document in zip(*parts, strict=True)]


__all__ = [
    "ElmoForCoreferenceResolution",
    "ElmoForMaskedLM",
    "ElmoForMultipleChoice",
    "ElmoForPreTraining",
    "ElmoForQuestionAnswering",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoModel",
    "ElmoPreTrainedModel",
]
