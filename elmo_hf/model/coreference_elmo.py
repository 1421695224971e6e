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
"""The head of coreference resolution: spans of words, what they mention, and what each of them refers back to.

The model of Lee et al. 2017 with the coarse-to-fine antecedents and the refinement of Lee et al. 2018. Every document
is read for itself. What grows with the square of its length is computed in blocks.

Shape notation: `N` words of a document without boundary tokens, `D` width of a vector that the head reads, `E` width
of an encoded word, `S` spans, `G` width of a span, `K` antecedents of a span, `M` marked mentions.
"""

from typing import Any, NamedTuple

import torch
from torch import nn

from .configuration_elmo import ElmoConfig
from .heads_elmo import ElmoTaskEncoder
from .inputs_elmo import IGNORED, check_integers
from .packing_elmo import to_list


# Lee et al. 2017, section 6: widths of the layers, of the embeddings of features, and dropout
FEED_FORWARD_SIZE = 150
FEATURE_SIZE = 20
FEED_FORWARD_DROPOUT = 0.2

# the first distance of each bucket after that of 0: how many mentions an antecedent lies back
DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)

# how many are computed at once, which bounds the memory
SPANS_AT_ONCE = 2048
PAIRS_AT_ONCE = 4096
SCORES_AT_ONCE = 1 << 22


class Antecedents(NamedTuple):
    """What the head finds in a document.

    Attributes:
        spans: `[S, 2]`, the first and the last word of each span that is kept, in the order of the text.
        mention_scores: `[S]`, how likely each is to mention something.
        antecedents: `[S, K]`, the numbers of the spans that each may refer back to; -100 for none.
        scores: `[S, K + 1]`, the score of referring to nothing, 0, and then of each antecedent; the lowest number for
            none.
    """

    spans: torch.Tensor
    mention_scores: torch.Tensor
    antecedents: torch.Tensor
    scores: torch.Tensor


class ElmoScorer(nn.Module):
    """Two layers of rectified units, and a score."""

    def __init__(self, input_size: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(input_size, FEED_FORWARD_SIZE)
        self.second = nn.Linear(FEED_FORWARD_SIZE, FEED_FORWARD_SIZE)
        self.score = nn.Linear(FEED_FORWARD_SIZE, 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Score `[..., input_size]`, to `[...]`."""
        return self.finish(self.first(features))

    def finish(self, hidden: torch.Tensor) -> torch.Tensor:
        """Score `[..., FEED_FORWARD_SIZE]`, what the first layer gives before it is rectified."""
        hidden = self.dropout(hidden.relu())
        hidden = self.dropout(self.second(hidden).relu())
        return self.score(hidden).squeeze(-1)


class ElmoPairScorer(nn.Module):
    """Scores a span and an antecedent by both, their product, and features: `[g_i, g_j, g_i * g_j, features]`.

    The first layer is a sum, so that the part of a span is computed once for all of its pairs.
    """

    def __init__(self, span_size: int, num_features: int, dropout: float) -> None:
        super().__init__()
        self.scorer = ElmoScorer(span_size, dropout)
        self.antecedent = nn.Linear(span_size, FEED_FORWARD_SIZE, bias=False)
        self.product = nn.Linear(span_size, FEED_FORWARD_SIZE, bias=False)
        self.features = nn.Linear(num_features * FEATURE_SIZE, FEED_FORWARD_SIZE, bias=False)

    def forward(self, spans: torch.Tensor, antecedents: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Score pairs.

        Args:
            spans: `[S, G]`.
            antecedents: `[S, K]`, from 0.
            features: `[S, K, num_features * FEATURE_SIZE]`.

        Returns:
            `[S, K]`.
        """
        of_span, of_antecedent = self.scorer.first(spans), self.antecedent(spans)
        rows = max(1, PAIRS_AT_ONCE // max(1, antecedents.shape[1]))
        scores = []
        for start in range(0, len(spans), rows):
            block = slice(start, start + rows)
            chosen = antecedents[block]
            hidden = of_span[block, None] + of_antecedent[chosen] + self.features(features[block])
            hidden = hidden + self.product(spans[block, None] * spans[chosen])
            scores.append(self.scorer.finish(hidden))
        return torch.cat(scores) if scores else spans.new_zeros(antecedents.shape)


class ElmoCoreferenceHead(nn.Module):
    """Finds the spans of a document that mention something, and scores what each may refer back to."""

    # what this head returns is not classified any further
    classifier = None

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        dropout = min(FEED_FORWARD_DROPOUT, config.classifier_dropout)
        self.max_span_width = config.max_span_width
        self.spans_per_word = config.spans_per_word
        self.max_antecedents = config.max_antecedents
        self.refinement_passes = config.refinement_passes
        self.encoder = ElmoTaskEncoder(config, num_layers=1)
        width = self.encoder.output_size
        self.attention = nn.Linear(width, 1)
        self.widths = nn.Embedding(config.max_span_width, FEATURE_SIZE)
        self.output_size = 2 * width + FEATURE_SIZE + config.head_input_size
        self.mention_scorer = ElmoScorer(self.output_size, dropout)
        self.coarse = nn.Linear(self.output_size, self.output_size, bias=False)
        self.distances = nn.Embedding(len(DISTANCES) + 1, FEATURE_SIZE)
        self.same_speaker = None
        # CODEPATH: conversations, as in OntoNotes
        if config.use_speakers:
            self.same_speaker = nn.Embedding(2, FEATURE_SIZE)
        self.pair_scorer = ElmoPairScorer(self.output_size, 2 if config.use_speakers else 1, dropout)
        self.gate = None
        # CODEPATH: the second-order model of Lee et al. 2018
        if config.refinement_passes:
            self.gate = nn.Linear(2 * self.output_size, self.output_size)
        self.dropout = nn.Dropout(dropout)
        self.vector_dropout = nn.Dropout(config.classifier_dropout)

    # its loops are as long as the document
    @torch.compiler.disable
    def forward(
        self, encoded: torch.Tensor, vectors: torch.Tensor, sentences: torch.Tensor, speakers: torch.Tensor | None
    ) -> Antecedents:
        """Read a document.

        Args:
            encoded: `[N, E]`, what the encoder made of the words.
            vectors: `[N, D]`, what the encoder read.
            sentences: `[N]`, a number for the sentence of each word, which differs from that of the next sentence.
            speakers: `[N]`, a number for the speaker of each word, if the model reads speakers.
        """
        words = WordVectors(encoded, self.vector_dropout(vectors), self.attention(encoded).squeeze(1))
        spans, mention_scores = self.find_spans(words, sentences)
        embedded = self.embed_all(words, spans)
        antecedents, coarse = self.find_antecedents(embedded, mention_scores)
        chosen = antecedents.clamp(min=0)
        features = self.pair_features(spans, chosen, speakers)

        def score(embedded: torch.Tensor) -> torch.Tensor:
            fine = coarse + self.pair_scorer(embedded, chosen, features).to(coarse.dtype)
            return nn.functional.pad(fine.masked_fill(antecedents < 0, torch.finfo(fine.dtype).min), (1, 0))

        scores = score(embedded)
        for _ in range(self.refinement_passes):
            embedded = self.refine(embedded, chosen, scores)
            scores = score(embedded)
        return Antecedents(spans, mention_scores, antecedents, scores)

    def find_spans(self, words: "WordVectors", sentences: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the spans that are likely to be mentions, `[S, 2]`, and their scores, `[S]`."""
        spans = list_spans(sentences, self.max_span_width)
        blocks = spans.split(SPANS_AT_ONCE)
        scores = torch.cat([self.mention_scorer(self.embed_spans(words, block)) for block in blocks])
        kept = choose_spans(spans, scores, max(1, int(self.spans_per_word * len(sentences))))
        return spans[kept], scores[kept]

    def embed_all(self, words: "WordVectors", spans: torch.Tensor) -> torch.Tensor:
        """Return the vectors of spans as `embed_spans` does, of any number of them."""
        return torch.cat([self.embed_spans(words, block) for block in spans.split(SPANS_AT_ONCE)])

    def embed_spans(self, words: "WordVectors", spans: torch.Tensor) -> torch.Tensor:
        """Return the vectors of spans: both ends, the width, and the words' vectors weighted by attention.

        Args:
            words: The words of the document.
            spans: `[S, 2]`.

        Returns:
            `[S, G]`.
        """
        first, last = spans.unbind(1)
        # [S, width]
        inside = first[:, None] + torch.arange(self.max_span_width, device=spans.device)
        outside = inside > last[:, None]
        inside = inside.minimum(last[:, None])
        weights = widen(words.attention[inside]).masked_fill(outside, -torch.inf).softmax(dim=1)
        head = add_rows(words.vectors, inside, weights)
        width = self.dropout(self.widths(last - first))
        return torch.cat([words.encoded[first], words.encoded[last], width, head], dim=1)

    def find_antecedents(self, spans: torch.Tensor, mention_scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Find the most likely antecedents of each span by scores that are quick to compute.

        Args:
            spans: `[S, G]`.
            mention_scores: `[S]`.

        Returns:
            `[S, K]`, the antecedents of each span, the likeliest first, -100 for none; and their scores, `[S, K]`.
        """
        count = len(spans)
        dropped = self.dropout(spans)
        projected = self.dropout(self.coarse(spans))
        numbers = torch.arange(count, device=spans.device)
        found, scores = [], []
        for block in numbers.split(max(1, SCORES_AT_ONCE // max(1, count))):
            pairs = widen(projected[block] @ dropped.T) + mention_scores[block, None] + mention_scores
            pairs = pairs.masked_fill(numbers >= block[:, None], torch.finfo(pairs.dtype).min)
            best, places = pairs.topk(min(self.max_antecedents, count), dim=1)
            found.append(places.masked_fill(places >= block[:, None], IGNORED))
            scores.append(best)
        missing = max(0, self.max_antecedents - count)
        antecedents = nn.functional.pad(torch.cat(found), (0, missing), value=IGNORED)
        return antecedents, nn.functional.pad(torch.cat(scores), (0, missing))

    def pair_features(
        self, spans: torch.Tensor, antecedents: torch.Tensor, speakers: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the features of each pair, `[S, K, features]`: the distance, and whether the speaker is the same."""
        numbers = torch.arange(len(spans), device=spans.device)[:, None]
        bounds = torch.tensor(DISTANCES, device=spans.device)
        buckets = torch.bucketize((numbers - antecedents).clamp(min=0), bounds, right=True)
        features = [self.distances(buckets)]
        if self.same_speaker is not None and speakers is not None:
            own = speakers[spans[:, 0]]
            features.append(self.same_speaker((own[antecedents] == own[:, None]).long()))
        return self.dropout(torch.cat(features, dim=2))

    def refine(self, spans: torch.Tensor, antecedents: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Bring into each span what it expects of its antecedents, as much as a gate lets in.

        Args:
            spans: `[S, G]`.
            antecedents: `[S, K]`, from 0.
            scores: `[S, K + 1]`.

        Returns:
            `[S, G]`.
        """
        # what refers to nothing is expected to be itself
        own = torch.arange(len(spans), device=spans.device)[:, None]
        expected = add_rows(spans, torch.cat([own, antecedents], dim=1), scores.softmax(dim=1))
        gate: Any = self.gate
        share = gate(torch.cat([spans, expected], dim=1)).sigmoid()
        return share * spans + (1 - share) * expected


class WordVectors(NamedTuple):
    """The words of a document.

    Attributes:
        encoded: `[N, E]`.
        vectors: `[N, D]`.
        attention: `[N]`, how much each word says of a span that it is in, before the softmax over the span.
    """

    encoded: torch.Tensor
    vectors: torch.Tensor
    attention: torch.Tensor


def widen(numbers: torch.Tensor) -> torch.Tensor:
    """Return numbers of half precision in float32, others as they are."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def add_rows(rows: torch.Tensor, places: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Add up weighted rows without a copy of each.

    Args:
        rows: `[N, D]`.
        places: `[S, n]`, numbers of rows.
        weights: `[S, n]`.

    Returns:
        `[S, D]`.
    """
    return nn.functional.embedding_bag(places, rows, per_sample_weights=weights.to(rows.dtype), mode="sum")


def list_spans(sentences: torch.Tensor, max_width: int) -> torch.Tensor:
    """List all spans of words within a sentence.

    Args:
        sentences: `[N]`, a number for the sentence of each word.
        max_width: The most words of a span.

    Returns:
        `[S, 2]`, the first and the last word of each, in the order of the text.
    """
    count = len(sentences)
    first = torch.arange(count, device=sentences.device)[:, None]
    # [N, width]
    last = first + torch.arange(max_width, device=sentences.device)
    inside = (last < count) & (sentences[last.clamp(max=count - 1)] == sentences[:, None])
    starts, widths = inside.nonzero().unbind(1)
    return torch.stack([starts, starts + widths], dim=1)


def choose_spans(spans: torch.Tensor, scores: torch.Tensor, count: int) -> torch.Tensor:
    """Choose the spans with the highest scores of which no two cross each other.

    Of two that cross, neither within the other, the one with the lower score is left out.

    Args:
        spans: `[S, 2]`, in the order of the text.
        scores: `[S]`.
        count: The most spans to choose.

    Returns:
        The numbers of the spans, in the order of the text.
    """
    ranked = scores.argsort(descending=True, stable=True)
    chosen: list[int] = []
    # of the chosen spans: how far those go that begin at a word, and how far back those that end there
    latest_end: dict[int, int] = {}
    earliest_start: dict[int, int] = {}
    ends: Any = to_list(spans[ranked])
    for number, (first, last) in zip(to_list(ranked), ends, strict=True):
        if len(chosen) == count:
            break
        if any(latest_end.get(word, word) > last for word in range(first + 1, last + 1)):
            continue
        if any(earliest_start.get(word, word) < first for word in range(first, last)):
            continue
        chosen.append(number)
        latest_end[first] = max(last, latest_end.get(first, last))
        earliest_start[last] = min(first, earliest_start.get(last, first))
    return torch.tensor(sorted(chosen), dtype=torch.long, device=spans.device)


def marginal_loss(found: Antecedents, labels: torch.Tensor) -> torch.Tensor:
    """Compute the negative log-likelihood of all right antecedents, in nats a span.

    A span that is marked may refer to any span of its cluster that comes before it. One that has none, or is not
    marked, refers to nothing.

    Args:
        found: What the head has found, with at least one span.
        labels: `[M, 3]`, first word, last word and cluster of each marked mention.
    """
    marked = match_spans(found.spans, labels)
    antecedents = found.antecedents.clamp(min=0)
    # [S, K]
    right = (marked[antecedents] == marked[:, None]) & (marked[:, None] >= 0) & (found.antecedents >= 0)
    right = torch.cat([~right.any(dim=1, keepdim=True), right], dim=1)
    scores = widen(found.scores)
    of_right = scores.masked_fill(~right, -torch.inf).logsumexp(dim=1)
    return (scores.logsumexp(dim=1) - of_right).mean()


def match_spans(spans: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cluster of each span, `[S]`, -1 for one that is not marked; arguments as `marginal_loss`."""
    if not len(labels):
        return spans.new_full((len(spans),), -1)
    base = int(torch.cat([spans[:, 1], labels[:, 1]]).max()) + 1
    keys, order = (labels[:, 0] * base + labels[:, 1]).sort(stable=True)
    wanted = spans[:, 0] * base + spans[:, 1]
    place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return labels[order[place], 2].masked_fill(keys[place] != wanted, -1)


def find_clusters(spans: torch.Tensor, antecedents: torch.Tensor, scores: torch.Tensor) -> list[list[tuple[int, int]]]:
    """Join each span with its best antecedent, if that is likelier than none.

    Args:
        spans: `[S, 2]`; -100 at padding.
        antecedents: `[S, K]`.
        scores: `[S, K + 1]`; of equal ones, the first counts.

    Returns:
        The clusters, in the order of their first mentions, each with the first and the last word of its mentions.
    """
    best = scores.argmax(dim=1, keepdim=True)
    # -100 in place of nothing
    choices = nn.functional.pad(antecedents, (1, 0), value=IGNORED).gather(1, best).squeeze(1)
    mentions: Any = to_list(spans)
    clusters: list[list[tuple[int, int]]] = []
    cluster_of: dict[int, int] = {}
    for number, ((first, last), choice) in enumerate(zip(mentions, to_list(choices), strict=True)):
        if first < 0 or choice < 0:
            continue
        if choice not in cluster_of:
            cluster_of[choice] = len(clusters)
            clusters.append([tuple(mentions[choice])])
        cluster_of[number] = cluster_of[choice]
        clusters[cluster_of[number]].append((first, last))
    return sorted(clusters)


def check_mentions(labels: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Check marked mentions.

    Args:
        labels: `[documents, M, 3]`, first word, last word and cluster; -100 at padding. `[M, 3]` for one document.
        lengths: `[documents]`, the number of words of each.

    Returns:
        `[documents, M, 3]`.

    Raises:
        ValueError: If labels have another shape, are not integers, or a mention is not in its document.
    """
    documents, given = len(lengths), check_integers("labels", labels)
    labels = given[None] if given.ndim == 2 and documents == 1 else given
    if labels.ndim != 3 or labels.shape[::2] != (documents, 3):
        raise ValueError(
            f"`labels` is {tuple(given.shape)} where the batch takes ({documents}, mentions, 3): the first word, the "
            "last word and the cluster of each mention, -100 at padding."
        )
    for part, length in zip(labels, to_list(lengths), strict=True):
        first, last, cluster = part[(part != IGNORED).any(dim=1)].unbind(1)
        wrong = (first < 0) | (last < first) | (last >= length) | (cluster < 0)
        if wrong.any():
            mention = [int(numbers[wrong][0]) for numbers in (first, last, cluster)]
            raise ValueError(
                f"`labels` has {mention}, but the document has the words 0 to {length - 1}, boundary tokens left out: "
                "give the first word, the last word and the cluster, from 0."
            )
    return labels


__all__ = [
    "Antecedents",
    "ElmoCoreferenceHead",
    "check_mentions",
    "find_clusters",
    "marginal_loss",
]
