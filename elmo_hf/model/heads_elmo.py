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
"""The heads of the task models: what the ELMo paper puts on the vectors to label words, sentences and pairs.

Every head reads `vectors`, `sentences`, `words` and `mix`: the vectors of ELMo, of the task's own words and
characters, or both joined, `[B, T, D]` with `D = config.head_input_size`; the sentence of each word or boundary token,
`[B, T]`, 1 or 2, or 0 at padding; where the words are, `[B, T]`, false at boundary tokens and padding; and the mix
that joins its encoder's output, `[B, T, H]`, if the configuration puts one there. `ElmoTaskModel` classifies what a
head returns by its `classifier`, a class that is made with the head's `output_size` and the number of labels. Heads of
sentences and pairs have `num_sentences`, the numbers of sentences that a row may have. Heads that find the answer to a
question have `find_candidates`, which tells where an answer can begin or end.

Shape notation: `B` rows, each a sentence or a pair, `T` words, `D` width of a vector, `H` width of the mix, `C` width
of one direction of a head's biLSTM (`config.head_hidden_size`), `E` width of an encoded word.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn
from transformers.utils import logging

from .configuration_elmo import ElmoConfig
from .crf_elmo import ElmoCrf, ElmoLabelSequence
from .packing_elmo import Packing, pack_words
from .recurrence_elmo import InputProjections, LstmWeights, read_sentences
from .scan_elmo import Grid


logger = logging.get_logger(__name__)

# McCann et al. 2017, section 5
MAXOUT_PIECES = 4
# He et al. 2017, section 3.1
ALTERNATING_LAYERS = 8
PREDICATE_DIM = 100


class HeadInputs(NamedTuple):
    """What a head reads.

    Attributes:
        vectors: `[B, T, D]`.
        sentences: `[B, T]`, 1 in the first sentence of a row, 2 in the second, 0 at padding.
        words: `[B, T]`, true at words, false at boundary tokens and padding.
        mix: `[B, T, H]`, the mix that joins the output of the head's encoder, if the configuration puts one there.
    """

    vectors: torch.Tensor
    sentences: torch.Tensor
    words: torch.Tensor
    mix: torch.Tensor | None


class ElmoTaskLstm(nn.Module):
    """One biLSTM layer as task models have it: both directions read the whole vector."""

    def __init__(self, input_size: int, width: int) -> None:
        super().__init__()
        self.input_projections = nn.ModuleList(nn.Linear(input_size, 4 * width) for _ in range(2))
        self.recurrent_weight = nn.Parameter(torch.empty(2, width, 4 * width))

    # as `ElmoModel.forward`
    @torch.compiler.disable
    def forward(self, vectors: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Read the words of each sentence, wherever they are.

        Args:
            vectors: `[B, T, D]`.
            words: `[B, T]`, true at words.

        Returns:
            `[B, T, 2 * C]`, the forward half first; zero where there is no word.
        """
        weights = LstmWeights(self.recurrent_weight, None, None, None)
        # [B, T, 2, D]
        vectors = vectors[:, :, None].expand(-1, -1, 2, -1)
        outputs, _ = read_sentences(vectors, pack_words(words), InputProjections(self.input_projections), weights)
        return outputs.flatten(2)


class ElmoVariationalDropout(nn.Dropout):
    """Dropout of the same features at all words of a sentence (Gal and Ghahramani 2016)."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Map `[B, T, D]` to the same shape."""
        return nn.functional.dropout1d(vectors.transpose(1, 2), self.p, self.training).transpose(1, 2)


class ElmoTaskEncoder(nn.Module):
    """A stack of biLSTM layers, with dropout on the input of each."""

    def __init__(self, config: ElmoConfig, num_layers: int, dropout: type[nn.Dropout] = nn.Dropout) -> None:
        super().__init__()
        width = config.head_hidden_size
        sizes = [config.head_input_size, *[2 * width] * (num_layers - 1)]
        self.layers = nn.ModuleList(ElmoTaskLstm(size, width) for size in sizes)
        self.dropout = dropout(config.classifier_dropout)
        # CODEPATH: the paper's models of SNLI and SQuAD add the mix at both places (section 5.2)
        self.output_size = 2 * width + config.output_mix_size

    def forward(self, vectors: torch.Tensor, words: torch.Tensor, mix: torch.Tensor | None) -> torch.Tensor:
        """Encode the words of each row.

        Args:
            vectors: `[B, T, D]`.
            words: `[B, T]`, true at words.
            mix: `[B, T, H]`, concatenated to the output of the last layer.

        Returns:
            `[B, T, E]`, zero where there is no word.
        """
        for layer in self.layers:
            vectors = layer(self.dropout(vectors), words)
        return vectors if mix is None else torch.cat([vectors, self.dropout(mix) * words[:, :, None]], dim=2)


class ElmoTaggingHead(nn.Module):
    """The paper's named entity recogniser: two biLSTM layers, and the CRF that reads their classified output."""

    classifier = nn.Linear

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.encoder = ElmoTaskEncoder(config, num_layers=2)
        self.crf = ElmoCrf(config)
        self.output_size = self.encoder.output_size

    @property
    def sequence(self) -> ElmoLabelSequence:
        """What makes a loss and a sequence of labels of the classified output."""
        return self.crf

    def forward(
        self, vectors: torch.Tensor, sentences: torch.Tensor, words: torch.Tensor, mix: torch.Tensor | None
    ) -> torch.Tensor:
        """Encode each word.

        Args:
            vectors: `[B, T, D]`.
            sentences: `[B, T]`, which this head does not read.
            words: `[B, T]`, true at words.
            mix: `[B, T, H]`, what joins the encoder's output.

        Returns:
            `[B, T, E]`.
        """
        return self.encoder(vectors, words, mix)


class ElmoHighwayLstm(nn.Module):
    """An LSTM layer of one direction, with a highway around each cell (He et al. 2017, section 2.2).

    A fifth gate `r` mixes the hidden state of an LSTM with a linear map of the layer's input:
    `r * h_lstm + (1 - r) * W x`. Dropout removes the same features from all hidden states of a sentence, for the next
    word as for the next layer.
    """

    def __init__(self, input_size: int, width: int, *, direction: int, dropout: float) -> None:
        super().__init__()
        self.direction = direction
        self.dropout = nn.Dropout(dropout)
        self.input_projections = nn.ModuleList([nn.Linear(input_size, 5 * width)])
        self.highways = nn.ModuleList([nn.Linear(input_size, width, bias=False)])
        self.recurrent_weight = nn.Parameter(torch.empty(1, width, 5 * width))

    # as `ElmoModel.forward`
    @torch.compiler.disable
    def forward(self, vectors: torch.Tensor, packing: Packing | Grid) -> torch.Tensor:
        """Read the words of each sentence.

        Args:
            vectors: `[B, T, D]`.
            packing: Where the words are.

        Returns:
            `[B, T, C]`, zero where there is no word.
        """
        dropout = None
        if self.training and self.dropout.p:
            dropout = self.dropout(vectors.new_ones(len(vectors), 1, self.recurrent_weight.shape[1]))
        outputs, _ = read_sentences(
            vectors[:, :, None],
            packing.one_way(self.direction),
            InputProjections(self.input_projections, highways=self.highways),
            LstmWeights(self.recurrent_weight, None, None, None),
            dropout=dropout,
        )
        return outputs.squeeze(2)


class ElmoTagProjection(nn.Linear):
    """A linear classifier whose weights are orthogonal at first."""


class ElmoRoleHead(nn.Module):
    """The paper's model of semantic roles (He et al. 2017): the roles of the words of one predicate of a sentence.

    Eight layers read in alternating directions, the first one forward. Beside the vectors they read which words are
    the predicate's.
    """

    classifier = ElmoTagProjection

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        width, dropout = config.head_hidden_size, config.classifier_dropout
        self.dropout = nn.Dropout(dropout)
        self.predicate_embeddings = nn.Embedding(2, PREDICATE_DIM)
        sizes = [config.head_input_size + PREDICATE_DIM, *[width] * (ALTERNATING_LAYERS - 1)]
        self.layers = nn.ModuleList(
            ElmoHighwayLstm(size, width, direction=number % 2, dropout=dropout) for number, size in enumerate(sizes)
        )
        self.sequence = ElmoLabelSequence(config)
        self.output_size = width + config.output_mix_size

    def forward(
        self,
        vectors: torch.Tensor,
        sentences: torch.Tensor,
        words: torch.Tensor,
        mix: torch.Tensor | None,
        predicates: torch.Tensor,
    ) -> torch.Tensor:
        """Encode each word.

        Args:
            vectors: `[B, T, D]`.
            sentences: `[B, T]`, which this head does not read.
            words: `[B, T]`, true at words.
            mix: `[B, T, D]`, what joins the output of the layers.
            predicates: `[B, T]`, 1 at the words of the predicate, 0 at others.

        Returns:
            `[B, T, E]`, zero where there is no word.
        """
        packing = pack_words(words)
        states = torch.cat([self.dropout(vectors), self.predicate_embeddings(predicates).to(vectors.dtype)], dim=2)
        for layer in self.layers:
            states = layer(states, packing)
        return states if mix is None else torch.cat([states, self.dropout(mix) * words[:, :, None]], dim=2)


class ElmoPairClassifier(nn.Linear):
    """A classifier of single sentences, and of pairs by their comparison (Conneau et al. 2017, section 2.1).

    What only a pair has, the second sentence and the comparison, has weights of its own. They are 0 at first, and stay
    so in a model of single sentences.
    """

    def __init__(self, width: int, num_labels: int) -> None:
        super().__init__(width, num_labels)
        self.pair_weight = nn.Parameter(torch.zeros(num_labels, 3 * width))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map `[B, 4 * D]`, what `ElmoPoolingHead` returns, to `[B, labels]`."""
        first, pair = features.split([self.in_features, 3 * self.in_features], dim=1)
        return super().forward(first) + nn.functional.linear(pair, self.pair_weight)

    def warn_of_pairs(self) -> None:
        """Warn, once, if the model was never trained on pairs."""
        if not self.pair_weight.any():
            logger.warning_once(
                "This model was trained on single sentences: it classifies a pair by its first sentence alone."
            )


class ElmoPoolingHead(nn.Module):
    """The mean or the maximum of a sentence's word vectors, and for a pair the comparison of both."""

    classifier = ElmoPairClassifier
    num_sentences = (1, 2)

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.pool = {"mean": mean_over_words, "max": max_over_words}[config.head or "mean"]
        self.output_size = config.head_input_size

    def forward(
        self, vectors: torch.Tensor, sentences: torch.Tensor, words: torch.Tensor, mix: torch.Tensor | None
    ) -> torch.Tensor:
        """Pool the words of each sentence.

        Args:
            vectors: `[B, T, D]`.
            sentences: `[B, T]`, 1 in the first sentence, 2 in the second, 0 at padding.
            words: `[B, T]`, true at words.
            mix: `None`, because this head has no encoder.

        Returns:
            `[B, 4 * D]`: the vectors of the first and the second sentence, zero for one without words, and their
            absolute difference and product, zero without a second one.
        """
        first, second = (self.pool(vectors, words & (sentences == number)) for number in (1, 2))
        is_pair = (sentences == 2).any(dim=1, keepdim=True)
        return torch.cat([first, second, (first - second).abs() * is_pair, first * second], dim=1)


class ElmoMaxout(nn.Module):
    """A layer of units, each the largest of several linear ones (Goodfellow et al. 2013)."""

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(input_size, MAXOUT_PIECES * output_size)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map `[B, input_size]` to `[B, output_size]`."""
        return self.linear(features).unflatten(1, (-1, MAXOUT_PIECES)).amax(dim=2)


class ElmoBcnHead(nn.Module):
    """The biattentive classification network (McCann et al. 2017), the paper's model of SST-5, for one sentence.

    The sentence attends to itself, a second biLSTM integrates what it found, and four poolings and two maxout layers
    summarise it.
    """

    classifier = nn.Linear
    num_sentences = (1,)

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        width = config.head_hidden_size
        self.encoder = ElmoTaskEncoder(config, num_layers=1)
        self.integrator = ElmoTaskLstm(3 * self.encoder.output_size, width)
        self.attention = nn.Linear(2 * width, 1)
        self.maxouts = nn.ModuleList([ElmoMaxout(8 * width, 4 * width), ElmoMaxout(4 * width, 2 * width)])
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.output_size = 2 * width

    def forward(
        self, vectors: torch.Tensor, sentences: torch.Tensor, words: torch.Tensor, mix: torch.Tensor | None
    ) -> torch.Tensor:
        """Summarise the words of each sentence.

        Args:
            vectors: `[B, T, D]`.
            sentences: `[B, T]`, which this head does not read, because it takes one sentence.
            words: `[B, T]`, true at words.
            mix: `[B, T, H]`, what joins the encoder's output.

        Returns:
            `[B, 2 * C]`.
        """
        # [B, T, E]
        encoded = self.encoder(vectors, words, mix)
        attended = attend(encoded @ encoded.transpose(1, 2), encoded, words)
        joined = torch.cat([encoded, encoded - attended, encoded * attended], dim=2)
        # [B, T, 2 * C]
        integrated = self.integrator(joined, words)
        # [B, 1, T]
        scores = self.attention(integrated).transpose(1, 2)
        # [B, 8 * C]
        features = torch.cat(
            [
                max_over_words(integrated, words),
                mean_over_words(integrated, words),
                -max_over_words(-integrated, words),
                attend(scores, integrated, words).squeeze(1),
            ],
            dim=1,
        )
        for maxout in self.maxouts:
            features = maxout(self.dropout(features))
        return features


class ElmoEsimHead(nn.Module):
    """The enhanced sequential inference model (Chen et al. 2017), the paper's model of SNLI, for pairs of sentences.

    The words of each sentence attend to those of the other, a second biLSTM composes what they found, and the means
    and maxima of both sentences are compared.
    """

    classifier = nn.Linear
    num_sentences = (2,)

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        width = config.head_hidden_size
        self.encoder = ElmoTaskEncoder(config, num_layers=1)
        self.projection = nn.Linear(4 * self.encoder.output_size, width)
        self.composition = ElmoTaskLstm(width, width)
        self.summary = nn.Linear(8 * width, width)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.output_size = width

    def forward(
        self, vectors: torch.Tensor, sentences: torch.Tensor, words: torch.Tensor, mix: torch.Tensor | None
    ) -> torch.Tensor:
        """Compare the sentences of each pair.

        Args:
            vectors: `[B, T, D]`.
            sentences: `[B, T]`, 1 in the first sentence, 2 in the second, 0 at padding.
            words: `[B, T]`, true at words.
            mix: `[B, T, H]`, what joins the encoder's output.

        Returns:
            `[B, C]`.
        """
        # [2 * B, T]: the words of all first sentences, then those of all second ones
        of_first, of_second = words & (sentences == 1), words & (sentences == 2)
        words = torch.cat([of_first, of_second])
        encoded = self.encoder(vectors.repeat(2, 1, 1), words, None if mix is None else mix.repeat(2, 1, 1))
        # an exported program splits a number that it knows
        first, second = encoded.unflatten(0, (2, -1))
        # [B, T, T]
        similarity = first @ second.transpose(1, 2)
        # [2 * B, T, E]
        attended = torch.cat(
            [
                attend(similarity, second, of_second),
                attend(similarity.transpose(1, 2), first, of_first),
            ]
        )
        joined = torch.cat([encoded, attended, encoded - attended, encoded * attended], dim=2)
        # [2 * B, T, 2 * C]
        composed = self.composition(self.dropout(self.projection(joined).relu()), words)
        pooled = torch.cat([mean_over_words(composed, words), max_over_words(composed, words)], dim=1)
        # [B, 8 * C]
        features = torch.cat([*pooled.unflatten(0, (2, -1))], dim=1)
        return self.summary(self.dropout(features)).tanh()


class ElmoSpanHead(nn.Module):
    """Each word, and its comparison with the question (as Conneau et al. 2017, section 2.1), for a linear classifier.

    The comparison is what lets the question matter, because the biLM reads it apart from the context.
    """

    classifier = nn.Linear
    num_sentences = (2,)

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.output_size = 3 * config.head_input_size

    def find_candidates(self, sentences: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Return where there is no padding, `[B, T]`."""
        return sentences != 0

    def forward(
        self, vectors: torch.Tensor, sentences: torch.Tensor, words: torch.Tensor, mix: torch.Tensor | None
    ) -> torch.Tensor:
        """Compare each word with the mean of the question's words.

        Args:
            vectors: `[B, T, D]`.
            sentences: `[B, T]`, 1 in the question, 2 in the context, 0 at padding.
            words: `[B, T]`, true at words.
            mix: `None`, because this head has no encoder.

        Returns:
            `[B, T, 3 * D]`: the vector, its absolute difference from the question's, and the product of both.
        """
        question = mean_over_words(vectors, words & (sentences == 1))[:, None]
        return torch.cat([vectors, (vectors - question).abs(), vectors * question], dim=2)


class ElmoTrilinear(nn.Module):
    """Scores of pairs of words, linear in both of their vectors and in the product of them (Seo et al. 2017)."""

    def __init__(self, width: int, *, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * width, 1, bias=bias)

    def forward(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Score each word of `rows`, `[B, rows, E]`, with each of `columns`, `[B, T, E]`, as `[B, rows, T]`."""
        of_rows, of_columns, of_product = self.linear.weight[0].chunk(3)
        scores = (rows * of_product) @ columns.transpose(1, 2)
        scores = scores + (rows @ of_rows)[:, :, None] + (columns @ of_columns)[:, None]
        return scores if self.linear.bias is None else scores + self.linear.bias


class ElmoSelfAttention(nn.Module):
    """The residual block of Clark and Gardner 2018: a biLSTM, and attention of each word to the others or to none."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.lstm = ElmoTaskLstm(2 * width, width)
        self.similarity = ElmoTrilinear(2 * width, bias=True)
        self.projection = nn.Linear(6 * width, 2 * width)
        self.dropout = ElmoVariationalDropout(dropout)

    def forward(self, vectors: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Add to each word what it finds among the others.

        Args:
            vectors: `[B, T, 2 * C]`.
            words: `[B, T]`, true at the words that attend and are attended to.

        Returns:
            `[B, T, 2 * C]`.
        """
        read = self.dropout(self.lstm(self.dropout(vectors), words))
        scores = self.similarity(read, read)
        itself = torch.eye(words.shape[1], dtype=torch.bool, device=words.device)
        scores = scores.masked_fill(itself, torch.finfo(scores.dtype).min)
        # the last place is that of no word, with the score 0: the bias says how much better any word is
        scores, others = nn.functional.pad(scores, (0, 1)), nn.functional.pad(read, (0, 0, 0, 1))
        attended = attend(scores, others, nn.functional.pad(words, (0, 1), value=True))
        joined = torch.cat([read, attended, read * attended], dim=2)
        return vectors + self.projection(joined).relu()


class ElmoSpanClassifier(nn.Linear):
    """A linear classifier whose every score has features of its own."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Map `[B, T, scores, D]` to `[B, T, scores]`."""
        return (features * self.weight).sum(dim=3) + self.bias


class ElmoBidafHead(nn.Module):
    """The paper's model of SQuAD: attention between question and context (Clark and Gardner 2018, after Seo et al.).

    One biLSTM reads question and context. Each word of the context attends to the question, and the words that the
    question is most like give one vector for all; then the context attends to itself. One more biLSTM finds where the
    answer begins, and another, which also reads the first, where it ends. The recurrent layers are biLSTMs, as in the
    other heads and in Seo et al., where Clark and Gardner have biGRUs. The attention to the question has no bias,
    which its softmax would cancel. The `<S>` with which the row begins stands before the context as a word of it: it
    is the answer of a question that has none.
    """

    classifier = ElmoSpanClassifier
    num_sentences = (2,)

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        width = config.head_hidden_size
        self.encoder = ElmoTaskEncoder(config, num_layers=1, dropout=ElmoVariationalDropout)
        self.similarity = ElmoTrilinear(self.encoder.output_size, bias=False)
        self.projection = nn.Linear(4 * self.encoder.output_size, 2 * width)
        self.self_attention = ElmoSelfAttention(width, config.classifier_dropout)
        self.start = ElmoTaskLstm(2 * width, width)
        self.end = ElmoTaskLstm(4 * width, width)
        self.dropout = ElmoVariationalDropout(config.classifier_dropout)
        self.output_size = 2 * width

    def find_candidates(self, sentences: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Return the words of the context, and where the row begins, `[B, T]`."""
        begins = (sentences != 0) & ((sentences != 0).cumsum(dim=1) == 1)
        return begins | (words & (sentences == 2))

    def forward(
        self, vectors: torch.Tensor, sentences: torch.Tensor, words: torch.Tensor, mix: torch.Tensor | None
    ) -> torch.Tensor:
        """Find out about each word of the context whether the answer begins or ends there.

        Args:
            vectors: `[B, T, D]`.
            sentences: `[B, T]`, 1 in the question, 2 in the context, 0 at padding.
            words: `[B, T]`, true at words.
            mix: `[B, T, H]`, what joins the encoder's output.

        Returns:
            `[B, T, 2, 2 * C]`, for the beginning and for the end; zero outside the context.
        """
        of_question, of_context = words & (sentences == 1), self.find_candidates(sentences, words)
        encoded = self.encoder(
            vectors.repeat(2, 1, 1),
            torch.cat([of_question, of_context]),
            None if mix is None else mix.repeat(2, 1, 1),
        )
        # [B, T, E]
        question, context = self.dropout(encoded).unflatten(0, (2, -1))
        # [B, T of the context, T of the question]
        similarity = self.similarity(context, question)
        found = attend(similarity, question, of_question)
        # [B, 1, T]
        likeness = max_over_words(similarity.transpose(1, 2), of_question)[:, None]
        asked = attend(likeness, context, of_context)
        joined = torch.cat([context, found, context * found, context * asked], dim=2)
        # [B, T, 2 * C]
        aware = self.dropout(self.self_attention(self.projection(joined).relu(), of_context))
        start = self.start(aware, of_context)
        return torch.stack([start, self.end(torch.cat([start, aware], dim=2), of_context)], dim=2)


def mean_over_words(vectors: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Average `[B, T, D]` over the words `[B, T]`, to `[B, D]`; zero where there are none."""
    words = words[:, :, None].to(vectors)
    return (vectors * words).sum(dim=1) / words.sum(dim=1).clamp(min=1)


def max_over_words(vectors: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Take the maximum of `[B, T, D]` over the words `[B, T]`, to `[B, D]`; zero where there are none."""
    lowest = torch.finfo(vectors.dtype).min
    highest = vectors.masked_fill(~words[:, :, None], lowest).amax(dim=1)
    return highest.masked_fill(~words.any(dim=1, keepdim=True), 0)


def attend(scores: torch.Tensor, vectors: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Average vectors by the softmax of scores over words.

    Args:
        scores: `[B, rows, T]`.
        vectors: `[B, T, D]`; zero in a sentence without words.
        words: `[B, T]`, true at words.

    Returns:
        `[B, rows, D]`; zero in a sentence without words.
    """
    scores = scores.masked_fill(~words[:, None], torch.finfo(scores.dtype).min)
    return scores.softmax(dim=2) @ vectors


# by `config.head`, the default first; with `None` the classifier reads the vectors themselves
TAGGING_HEADS = {"linear": None, "bilstm-crf": ElmoTaggingHead, "alternating-lstm": ElmoRoleHead}
SENTENCE_HEADS = {"mean": ElmoPoolingHead, "max": ElmoPoolingHead, "bcn": ElmoBcnHead, "esim": ElmoEsimHead}
SPAN_HEADS = {"linear": ElmoSpanHead, "bidaf": ElmoBidafHead}
# these can only have the mix at their input, or none
WITHOUT_ENCODER = ("linear", "mean", "max")


def choose_head(config: ElmoConfig, heads: Mapping[str, type[nn.Module] | None]) -> type[nn.Module] | None:
    """Return the class that `config.head` names among the heads of a task.

    Raises:
        ValueError: If the task has no such head, or the head has no encoder for the mix that `config.mix_at` asks for.
    """
    name = config.head or next(iter(heads))
    if name not in heads:
        raise ValueError(f"`head` is {name!r}; for this task choose one of {', '.join(heads)}.")
    if name in WITHOUT_ENCODER and config.output_mix_size:
        raise ValueError(
            f"`mix_at` is {config.mix_at!r}, but the head {name!r} has no encoder: leave `mix_at` at 'input'."
        )
    return heads[name]


__all__ = [
    "SENTENCE_HEADS",
    "SPAN_HEADS",
    "TAGGING_HEADS",
    "ElmoHighwayLstm",
    "ElmoPairClassifier",
    "ElmoRoleHead",
    "ElmoTagProjection",
    "ElmoTaskLstm",
    "HeadInputs",
    "choose_head",
]
