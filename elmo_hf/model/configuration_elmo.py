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
"""ELMo model configuration."""

from os import PathLike
from typing import Any

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig


# far above every release: what is larger is a damaged file, and would exhaust the memory before it failed
MOST, DEEPEST = 1 << 17, 64

# the lowest and the highest value of each number; a clip of 0 would leave nothing
LIMITS = {
    "vocab_size": (1, 1 << 28),
    "hidden_size": (2, MOST),
    "intermediate_size": (1, MOST),
    "num_hidden_layers": (1, DEEPEST),
    "char_embedding_dim": (0, MOST),
    "char_vocab_size": (1, 1 << 24),
    "max_characters_per_token": (3, MOST),
    "num_highway_layers": (0, DEEPEST),
    "word_embedding_dim": (0, MOST),
    "cell_clip": (1e-6, 1e6),
    "projection_clip": (1e-6, 1e6),
    "forget_bias": (-1e6, 1e6),
    "hidden_dropout_prob": (0, 1),
    "classifier_dropout": (0, 1),
    "head_hidden_size": (1, MOST),
    "mix_regularization": (0, 1e6),
    "max_span_width": (1, 1000),
    "spans_per_word": (1e-3, 1000),
    "max_antecedents": (1, 1 << 16),
    "refinement_passes": (0, DEEPEST),
    "initializer_factor": (0, 1e6),
    "num_negative_samples": (0, 1 << 28),
    "num_task_words": (0, 1 << 28),
    "task_word_embedding_dim": (0, MOST // 4),
    "task_char_embedding_dim": (0, MOST),
}

# where the paper adds its vectors to a task's model (section 5.2), or nowhere, in its baselines
MIX_PLACES = ("input", "output", "both", "none")
# in place of a number of a layer
LAYER_CHOICES = ("mix", "average", "top")

# non-linearities that commute with the maximum over a word's characters
MONOTONIC = ("relu", "tanh")


def find_model(name: str | PathLike[str]) -> str | PathLike[str]:
    """Return the folder of `elmo-small-en`, the model in the package elmo_hf, if it is installed; else the name."""
    try:
        from elmo_hf.bundled import NAME, model_folder
    except ImportError:
        return name
    return model_folder(NAME) if str(name) == NAME else name


@strict
class ElmoConfig(PreTrainedConfig):
    """Shape of an ELMo bidirectional language model (Peters et al. 2018, section 3).

    The defaults are those of the "original" English release: 93.6 million parameters, vectors 1024 wide.

    Args:
        vocab_size: Words of the language model's vocabulary, padding (id 0) included.
        hidden_size: Width `2P` of a word's vector: the forward half, then the backward half, `P` each.
        intermediate_size: Width `C` of the LSTM's cell. Its output is projected to `P`, unless they are equal.
        num_hidden_layers: biLSTM layers `L`. A word gets `L + 1` vectors: the token layer counts as layer 0.
        char_embedding_dim: Width of a character's embedding; 0 for a model that reads words only.
        char_vocab_size: Rows of the character table, row 0 standing for "no word".
        max_characters_per_token: Length of a row of `char_ids`; a word has two framing characters less.
        char_filters: `[width, filters]` of each convolution over the characters.
        num_highway_layers: Highway layers after the convolutions.
        hidden_act: Non-linearity after the maximum over a word's characters; the releases use `relu`, lm_1b `tanh`.
        word_embedding_dim: Width of a word's own embedding; 0 for a model that reads characters only.
        cell_clip: The cell is kept within plus and minus this value; `None` does not clip.
        projection_clip: The same for the projected output. Without a projection it has no effect, as in TensorFlow.
        always_project: Project the token layer and the cells' output even where that keeps the width, as in models
            trained in PyTorch (ELMoForManyLangs, AllenNLP).
        forget_bias: Added to the forget gate when the model runs, 1 in bilm-tf; 0 where the stored bias contains it.
        alignment: Map the mix of the layers linearly, into the space that AllenNLP's ELMos of several languages share.
        use_skip_connections: Add the input of each biLSTM layer from the second on to its output.
        hidden_dropout_prob: Dropout on the input of each biLSTM layer, in training.
        classifier_dropout: Dropout on the vectors that a task head reads, in training, and on the hidden states of
            `"alternating-lstm"`.
        head: What a task's class puts on the vectors, for words `"linear"`, `"bilstm-crf"` or `"alternating-lstm"`,
            for sentences `"mean"`, `"max"` or `"bcn"`, for pairs `"esim"`, for answers `"linear"` or `"bidaf"`, for
            coreference `"coarse-to-fine"`; by default the first of them. See the class.
        head_hidden_size: Width of one direction of the LSTMs of a head, and of its feed-forward layers, which have 150
            units in coreference resolution.
        layer: What `last_hidden_state` is: `"mix"`, the learned mix of all layers; `"average"` of them; `"top"`, or
            the number of one layer, 0 the token layer.
        mix_layer_norm: Normalise each layer's vector of a word before mixing (Ba et al. 2016), without weights.
        mix_at: Where a head with an encoder of its own takes the mix in: at its `"input"`; at its `"output"`, while
            the encoder reads the task's own words and characters, or else the token layer; or at `"both"`, with
            weights for each. With `"none"` a task's model has no biLM, and reads its own words and characters alone.
        mix_regularization: The loss of a task has so many times the squared weights of the mix added (lambda in
            section 3.3), which keeps it near the average.
        freeze_bilm: A task trains its head, the mix, and what it has of its own beside them, only.
        num_task_words: Rows of a task's own table of words, which it reads beside ELMo (`[x; ELMo]` in section 3.3):
            padding, the unknown word, then the words of the tokenizer's `task_vocab`.
        task_word_embedding_dim: Width of a vector in this table; 0 for a task without one.
        train_task_words: Train this table with the task.
        task_char_embedding_dim: Width of a character's embedding in a task's own convolutions over the characters of
            a word; 0 for a task without them. The paper's named entity recogniser has 16.
        task_char_filters: `[width, filters]` of each of these convolutions.
        max_span_width: The most words of a mention, in coreference resolution.
        spans_per_word: How many spans it takes for mentions, for each word of a document.
        max_antecedents: How many earlier spans it compares with each.
        refinement_passes: How often it brings into each span what it may refer to (Lee et al. 2018); 1 is the
            second-order model.
        use_speakers: Whether it reads who says each word.
        initializer_factor: Factor on all initial weights, which are those of bilm-tf.
        num_negative_samples: Words that the softmax of the language model samples for each batch in training, in place
            of the whole vocabulary; bilm-tf took 8,192. 0 takes all words. Evaluation always does.
        tie_word_embeddings: The softmax is the table of word embeddings, in a model that reads words.
        use_cache: Return the recurrent state, to be passed on to the next call.
        pad_token_id: Word id at padding.
        bos_token_id: Word id of `<S>`.
        eos_token_id: Word id of `</S>`.
        unk_token_id: Word id of `<UNK>`, as which a model that reads words reads a mask.
        training_history: How the model was trained: a record of each of its trainings, the earliest first. It does
            not change what the model computes.

    Raises:
        ValueError: If a field has the wrong type, or the sizes do not make a model.
    """

    model_type = "elmo"

    vocab_size: int = 4
    hidden_size: int = 1024
    intermediate_size: int = 4096
    num_hidden_layers: int = 2
    char_embedding_dim: int = 16
    char_vocab_size: int = 262
    max_characters_per_token: int = 50
    char_filters: list[list[int]] | tuple[tuple[int, int], ...] = (
        (1, 32),
        (2, 32),
        (3, 64),
        (4, 128),
        (5, 256),
        (6, 512),
        (7, 1024),
    )
    num_highway_layers: int = 2
    hidden_act: str = "relu"
    word_embedding_dim: int = 0
    cell_clip: float | int | None = 3.0
    projection_clip: float | int | None = 3.0
    always_project: bool = False
    alignment: bool = False
    forget_bias: float | int = 1.0
    use_skip_connections: bool = True
    hidden_dropout_prob: float | int = 0.0
    classifier_dropout: float | int = 0.5
    head: str | None = None
    head_hidden_size: int = 200
    layer: str | int = "mix"
    mix_layer_norm: bool = False
    mix_at: str = "input"
    mix_regularization: float | int = 0.0
    freeze_bilm: bool = True
    num_task_words: int = 0
    task_word_embedding_dim: int = 0
    train_task_words: bool = False
    task_char_embedding_dim: int = 0
    task_char_filters: list[list[int]] | tuple[tuple[int, int], ...] = ((3, 128),)
    max_span_width: int = 10
    spans_per_word: float | int = 0.4
    max_antecedents: int = 50
    refinement_passes: int = 0
    use_speakers: bool = False
    initializer_factor: float | int = 1.0
    num_negative_samples: int = 0
    tie_word_embeddings: bool = False
    use_cache: bool = False
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    unk_token_id: int | None = 3
    training_history: list[dict[str, Any]] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        # as JSON gives them back, so that a configuration equals its saved copy
        self.char_filters = [list(pair) for pair in self.char_filters]
        self.task_char_filters = [list(pair) for pair in self.task_char_filters]
        super().__post_init__(**kwargs)
        self.match_labels()

    def match_labels(self) -> None:
        """Make `label2id` the inverse of `id2label`, if it names other labels or none.

        Transformers leaves it so when you pass or save `id2label` alone; pipelines read both.
        """
        names: dict[Any, Any] = self.id2label or {}
        if set(names.values()) != set(self.label2id or {}):
            self.label2id = {name: number for number, name in names.items()}

    @classmethod
    def get_config_dict(
        cls, pretrained_model_name_or_path: str | PathLike[str], **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read as `PreTrainedConfig.get_config_dict` does, and `elmo-small-en` from the package elmo_hf."""
        return super().get_config_dict(find_model(pretrained_model_name_or_path), **kwargs)

    @property
    def keys_to_ignore_at_inference(self) -> list[str]:
        """What `Trainer` does not gather: the state, and layers of which only some are there."""
        return ["state", "hidden_states"] if isinstance(self.output_hidden_states, list) else ["state"]

    @property
    def char_feature_dim(self) -> int:
        """Width of a word's features after the convolutions; 0 for a model that reads words only."""
        if not self.char_embedding_dim:
            return 0
        return sum(filters for _, filters in self.char_filters)

    @property
    def task_embedding_dim(self) -> int:
        """Width of what a task reads beside ELMo, its own words and characters; 0 for a task without them."""
        if not self.task_char_embedding_dim:
            return self.task_word_embedding_dim
        return self.task_word_embedding_dim + sum(filters for _, filters in self.task_char_filters)

    @property
    def head_input_size(self) -> int:
        """Width of the vectors that a task's head reads."""
        own = self.task_embedding_dim
        # without words and characters of its own, a head reads the token layer where it does not read the mix
        return own if own and self.mix_at in ("output", "none") else own + self.hidden_size

    @property
    def output_mix_size(self) -> int:
        """Width of the mix that joins the output of a head's encoder; 0 if none does."""
        return self.hidden_size if self.mix_at in ("output", "both") else 0

    def validate_architecture(self) -> None:
        """Refuse values that do not make a model; runs at construction, before saving, and when a model is made.

        Raises:
            ValueError: If a value is out of range, or the sizes do not fit together.
        """
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                otherwise = ", or None not to clip" if name.endswith("clip") else ""
                raise ValueError(f"`{name}` is {value}; it can be {low:,} to {high:,}{otherwise}.")
        if self.hidden_size % 2:
            raise ValueError(f"`hidden_size` is {self.hidden_size}: it holds two directions, so it must be even.")
        if not (self.char_embedding_dim or self.word_embedding_dim):
            raise ValueError("`char_embedding_dim` and `word_embedding_dim` are both 0: the model would read nothing.")
        if self.word_embedding_dim and self.pad_token_id is None:
            raise ValueError("`pad_token_id` is None: a model with word embeddings knows padding by it, 0 as a rule.")
        if self.hidden_act not in MONOTONIC:
            raise ValueError(f"`hidden_act` is {self.hidden_act!r}; it can be one of {', '.join(MONOTONIC)}.")
        if self.mix_at not in MIX_PLACES:
            raise ValueError(f"`mix_at` is {self.mix_at!r}; it can be one of {', '.join(MIX_PLACES)}.")
        if self.layer not in (*LAYER_CHOICES, *range(self.num_hidden_layers + 1)):
            raise ValueError(
                f"`layer` is {self.layer!r}; it can be {', '.join(LAYER_CHOICES)}, or a number from 0 to "
                f"{self.num_hidden_layers}."
            )
        if self.tie_word_embeddings and self.word_embedding_dim != self.hidden_size // 2:
            raise ValueError(
                f"`tie_word_embeddings` is True, so that `word_embedding_dim`, {self.word_embedding_dim}, must be the "
                f"width of one direction, {self.hidden_size // 2}."
            )
        if self.char_embedding_dim:
            self._validate_filters("char_filters")
        self._validate_task_embeddings()

    def _validate_task_embeddings(self) -> None:
        if self.task_char_embedding_dim:
            self._validate_filters("task_char_filters")
        # padding and the unknown word
        if self.task_word_embedding_dim and self.num_task_words < 2:
            raise ValueError(
                f"`num_task_words` is {self.num_task_words}: a task with words of its own needs the number of rows of "
                "their table, 2 more than words."
            )
        if self.mix_at == "none" and not self.task_embedding_dim:
            raise ValueError(
                "`mix_at` is 'none' and the task has no words or characters of its own, so its head would read "
                "nothing: set `num_task_words` and `task_word_embedding_dim`, or `task_char_embedding_dim`."
            )

    def _validate_filters(self, name: str) -> None:
        filters = getattr(self, name)
        if not filters:
            raise ValueError(f"`{name}` is empty: a model with character embeddings needs [width, filters] pairs.")
        for pair in filters:
            if len(pair) != 2 or not (1 <= pair[0] <= self.max_characters_per_token and 1 <= pair[1] <= MOST):
                raise ValueError(
                    f"`{name}` has {pair}; it takes [width, filters] with a width of 1 to "
                    f"`max_characters_per_token`, which is {self.max_characters_per_token}."
                )


__all__ = ["ElmoConfig", "find_model"]
