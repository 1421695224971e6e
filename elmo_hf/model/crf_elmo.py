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
"""A conditional random field over the labels of a sentence: their likelihood, and the best of all words together.

Each sentence is a linear chain of its words (Lafferty et al. 2001): the score of a sequence of labels is the sum of
one score for each label at its word, one for each pair of neighbours, one for the first label and one for the last. As
in the paper's taggers, labels that break their scheme, such as `O I-PER`, are possible in training and never decoded.

Shape notation: `B` sentences, `T` places of a row, `M` words of the longest sentence, `K` labels.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from .configuration_elmo import ElmoConfig


# the label of a word whose label is not known, as everywhere in Transformers
UNKNOWN = -100

# the prefixes of each scheme: of the first word of a span, one inside, the last, and the only one
SCHEMES = ("BI", "BILU", "BIES")

# may label j follow i, may a sentence begin with i, may it end with i
Allowed = tuple[list[list[bool]], list[bool], list[bool]]


class Chains(NamedTuple):
    """The words of each sentence without gaps.

    Attributes:
        scores: `[B, M, K]`, in float32 at least; 0 behind the last word.
        there: `[B, M]`, true at words. `M` is 2 at least, so that all weights have gradients in every batch.
        places: `[B, M]`, where in its row each word was.
    """

    scores: torch.Tensor
    there: torch.Tensor
    places: torch.Tensor


class Weights(NamedTuple):
    """The scores of neighbours, `transitions` `[K, K]` from row to column, and `starts` and `ends`, `[K]`."""

    transitions: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor


def allowed_transitions(labels: Sequence[str]) -> Allowed | None:
    """Find which labels may be neighbours, from their names.

    The schemes are BIO (IOB2), BIOUL (BILOU) and BIOES (IOBES). A label is `O`, or a prefix with a type, such as
    `B-PER`; where there is one type only, the prefix may stand alone.

    Returns:
        `[K, K]`, whether the row's label may stand before the column's; `[K]`, whether a sentence may begin with a
        label; `[K]`, whether it may end with it. `None` where nothing is forbidden, or the labels are of no such
        scheme: among others IOB1, which shows by an `I-PER` that has no `B-PER`.
    """
    parts = [label.partition("-")[::2] for label in labels]
    spans = set(parts) - {("O", "")}
    prefixes = {prefix for prefix, _ in spans}
    scheme = next((scheme for scheme in SCHEMES if prefixes <= set(scheme)), None)
    if scheme is None:
        return None
    last = scheme[2:3]
    # what must not be the first word of a span, and what must not be the last
    continuing = {"I", last}
    unfinished = {"B", "I"} if last else set()
    for prefix, kind in spans:
        if prefix in continuing and ("B", kind) not in spans:
            return None
        if prefix in unfinished and (last, kind) not in spans:
            return None
    follows = [
        [
            before in ("B", "I") and kind == other if after in continuing else before not in unfinished
            for after, other in parts
        ]
        for before, kind in parts
    ]
    starts = [prefix not in continuing for prefix, _ in parts]
    ends = [prefix not in unfinished for prefix, _ in parts]
    if all(starts) and all(ends) and all(map(all, follows)):
        return None
    return follows, starts, ends


class ElmoCrf(nn.Module):
    """A linear-chain CRF, whose scores of a word's labels come from elsewhere.

    Args:
        config: `num_labels` is the number of labels, and `id2label` their names, which are read when a sentence is
            decoded: scripts set them after the model is made.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        count = config.num_labels or 0
        self.transitions = nn.Parameter(torch.empty(count, count))
        self.starts = nn.Parameter(torch.empty(count))
        self.ends = nn.Parameter(torch.empty(count))

    def forward(self, scores: torch.Tensor, words: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Compute how unlikely the labels of each sentence are, among all sequences of labels; without, the `logits`.

        Args:
            scores: `[B, T, K]`, of each label at each place.
            words: `[B, T]`, true at the words of the sentence, wherever they are in the row. A word's neighbour is the
                next word, whatever is between them.
            labels: `[B, T]`. A word with -100 can have any label: the likelihood is the sum of them all.

        Returns:
            `[B]`, the negative log likelihood in nats, 0 for a sentence without words; in float32 at least.

        Raises:
            ValueError: If a word has a label that is not there.
        """
        if labels is None:
            return self.logits(scores, words)
        self.check(labels, words)
        chains = gather_words(scores, words, self.transitions.dtype)
        weights = self.weights(chains.scores.dtype)
        # [B, M]
        given = nn.functional.pad(labels.long(), (0, 2)).gather(1, chains.places).masked_fill(~chains.there, 0)
        known = given != UNKNOWN
        path = torch.where(known, given, chains.scores.argmax(dim=2))
        losses = sum_paths(chains, path, weights)
        # the sum over one path alone, relative to it, is 0
        rows = (~known).any(dim=1).nonzero().squeeze(1)
        if len(rows):
            # [B', M, K]
            other = torch.arange(scores.shape[2], device=path.device) != path[rows, :, None]
            scores = chains.scores[rows].masked_fill(other & known[rows, :, None], -math.inf)
            part = Chains(scores, chains.there[rows], chains.places[rows])
            losses = losses.index_add(0, rows, sum_paths(part, path[rows], weights), alpha=-1)
        return losses.masked_fill(~chains.there[:, 0], 0)

    def best_paths(self, scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Find the best sequence of labels that the scheme allows; arguments as in `forward`.

        Returns:
            `[B, T]`, the label of each word, -100 elsewhere.
        """
        return self.logits(scores, words).argmax(dim=2).masked_fill(~words, UNKNOWN)

    def logits(self, scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Compute, for each word and label, the score of the best allowed sequence with this label at this word.

        The highest at each word are those of one sequence, the best one: where another is as good, its scores are
        lowered by as little as the numbers allow.

        Args:
            scores: As in `forward`.
            words: As in `forward`.

        Returns:
            `[B, T, K]` in float32 at least, the lowest number for a label that the scheme forbids there, and the given
            scores where no words are. Of a sentence of which the scheme allows nothing at all, as of one word with
            `B` and `L` alone, anything is allowed.
        """
        chains = gather_words(scores, words, self.transitions.dtype)
        weights = self.weights(chains.scores.dtype)
        names: Any = self.config.id2label
        allowed = allowed_transitions([str(names.get(label, label)) for label in range(len(self.starts))])
        if allowed is None:
            marginals = max_marginals(chains, weights)
        else:
            pairs = zip(weights, (torch.tensor(part, device=scores.device) for part in allowed), strict=True)
            marginals = max_marginals(chains, Weights(*(part.masked_fill(~may, -math.inf) for part, may in pairs)))
            stuck = marginals[:, 0].amax(dim=1).isneginf()
            if stuck.any():
                marginals = torch.where(stuck[:, None, None], max_marginals(chains, weights), marginals)
        marginals = marginals.clamp(min=torch.finfo(marginals.dtype).min)
        # [B, T]: the number of each word in its sentence
        order = (words.cumsum(dim=1) - 1).clamp(min=0)
        marginals = marginals.gather(1, order[:, :, None].expand_as(scores))
        return torch.where(words[:, :, None], marginals, scores)

    def check(self, labels: torch.Tensor, words: torch.Tensor) -> None:
        """Refuse labels of words that are neither -100 nor from 0 to `K - 1`; arguments as in `forward`."""
        count = len(self.starts)
        wrong = words & (labels != UNKNOWN) & ((labels < 0) | (labels >= count))
        if wrong.any():
            label = int(labels[wrong][0])
            raise ValueError(f"A label is {label}; it can be 0 to {count - 1}, or {UNKNOWN} where it is not known.")

    def weights(self, dtype: torch.dtype) -> Weights:
        """Return the parameters in another precision."""
        return Weights(self.transitions.to(dtype), self.starts.to(dtype), self.ends.to(dtype))


def gather_words(scores: torch.Tensor, words: torch.Tensor, dtype: torch.dtype) -> Chains:
    """Move the words of each row to its left, and drop the places that no sentence fills.

    Args:
        scores: `[B, T, K]`.
        words: `[B, T]`.
        dtype: The precision of the weights; the result has the wider one, and float32 at least.
    """
    # two places more that are no word's
    places = nn.functional.pad(~words, (0, 2), value=True).byte().argsort(dim=1, stable=True)
    there = torch.arange(places.shape[1], device=words.device) < words.sum(dim=1, keepdim=True)
    longest = max(int(there.any(dim=0).sum()), 2)
    places, there = places[:, :longest], there[:, :longest]
    scores = scores.to(torch.promote_types(torch.promote_types(scores.dtype, dtype), torch.float32))
    scores = nn.functional.pad(scores, (0, 0, 0, 2)).gather(1, places[:, :, None].expand(-1, -1, scores.shape[2]))
    return Chains(scores.masked_fill(~there[:, :, None], 0), there, places)


def sum_paths(chains: Chains, path: torch.Tensor, weights: Weights) -> torch.Tensor:
    """Add up all sequences of labels of each sentence, relative to one of them.

    What is relative to the labels at hand stays small, and keeps its digits, where the scores add up to thousands.

    Args:
        chains: The sentences. Of a score of minus infinity, the label is not possible there.
        path: `[B, M]`, the labels of the one sequence, each of them possible.
        weights: The scores of neighbours.

    Returns:
        `[B]`, the logarithm of the sum of `exp(score - score of the path)`.
    """
    scores = chains.scores - chains.scores.gather(2, path[:, :, None])
    # [B, M - 1, 1]
    steps = weights.transitions[path[:, :-1], path[:, 1:]][:, :, None]
    # [B, K]
    sums = weights.starts - weights.starts[path[:, :1]] + scores[:, 0]
    for time in range(1, scores.shape[1]):
        # [B, K, K]
        pairs = sums[:, :, None] + weights.transitions
        longer = pairs.logsumexp(dim=1) - steps[:, time - 1] + scores[:, time]
        sums = torch.where(chains.there[:, time, None], longer, sums)
    last = path.gather(1, (chains.there.sum(dim=1, keepdim=True) - 1).clamp(min=0))
    return (sums + weights.ends - weights.ends[last]).logsumexp(dim=1)


def max_marginals(chains: Chains, weights: Weights) -> torch.Tensor:
    """Find the best sequence with each label at each word, and the best of them all (Viterbi 1967).

    Args:
        chains: The sentences.
        weights: The scores of neighbours, minus infinity where they are forbidden.

    Returns:
        `[B, M, K]`, the scores; at each word the one on the best sequence is higher than all others. Without a
        sequence that is not forbidden, all are minus infinity.
    """
    longest = chains.scores.shape[1]
    # from the end: the best score of what comes after a label, and the label that it begins with
    rest = [weights.ends.expand_as(chains.scores[:, 0])]
    next_labels: list[torch.Tensor] = []
    for time in range(longest - 1, 0, -1):
        # [B, K, K]
        pairs = weights.transitions + (chains.scores[:, time] + rest[0])[:, None]
        best, label = pairs.max(dim=2)
        rest.insert(0, torch.where(chains.there[:, time, None], best, weights.ends))
        next_labels.insert(0, label)
    # from the beginning: the best score of what comes before a label, and the best sequence
    before = weights.starts.expand_as(chains.scores[:, 0])
    marginals = [before + chains.scores[:, 0] + rest[0]]
    path = [marginals[0].argmax(dim=1, keepdim=True)]
    for time in range(1, longest):
        pairs = (before + chains.scores[:, time - 1])[:, :, None] + weights.transitions
        before = pairs.amax(dim=1)
        marginals.append(before + chains.scores[:, time] + rest[time])
        path.append(next_labels[time - 1].gather(1, path[-1]))
    # [B, M, K]
    scores = torch.stack(marginals, dim=1)
    # [B, M, 1]
    labels = torch.stack(path, dim=1)
    best = scores.gather(2, labels)
    below = best.detach().nextafter(best.new_tensor(-math.inf))
    return scores.minimum(below).scatter(2, labels, best)


__all__ = ["ElmoCrf", "allowed_transitions"]
