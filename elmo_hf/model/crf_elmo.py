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
"""The labels of a sentence: their likelihood, and the best sequence of labels.

Each sentence is a linear chain of its words. The score of a sequence of labels is the sum of a score for each label at
its word and, in a conditional random field (Lafferty et al. 2001), for each pair of neighbouring labels, for the first
label and for the last. As in the paper's taggers, sequences that break the labelling scheme, such as `O I-PER`, count
in training but are never decoded.

Shape notation: `B` sentences, `T` positions of a row, `M` words of the longest sentence, `K` labels.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from .configuration_elmo import ElmoConfig
from .inputs_elmo import IGNORED
from .scan_elmo import is_exporting, scan


# the prefixes of each scheme: for the first word of a span, one inside, the last, and the only one
SCHEMES = ("BI", "BILU", "BIES")


class Allowed(NamedTuple):
    """The sequences that a labelling scheme allows.

    Attributes:
        follows: `[K, K]`, whether the column's label may follow the row's.
        starts: `[K]`, whether a sentence may begin with the label.
        ends: `[K]`, whether a sentence may end with the label.
    """

    follows: list[list[bool]]
    starts: list[bool]
    ends: list[bool]


class Chains(NamedTuple):
    """The words of each sentence without gaps, and the scores of neighbouring labels.

    Attributes:
        scores: `[B, M, K]`, in float32 at least; 0 after the last word.
        mask: `[B, M]`, true at words. `M` is at least 2, so that all weights get gradients in every batch.
        positions: `[B, M]`, the position of each word in its row.
        transitions: `[K, K]`, the scores of pairs of neighbours, from row to column.
        starts: `[K]`, the scores of first labels.
        ends: `[K]`, the scores of last labels.
    """

    scores: torch.Tensor
    mask: torch.Tensor
    positions: torch.Tensor
    transitions: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor


def allowed_transitions(labels: Sequence[str]) -> Allowed | None:
    """Find which labels may be neighbours, from their names.

    The schemes are BIO (IOB2), BIOUL (BILOU) and BIOES (IOBES). A label is `O`, or a prefix with a type, such as
    `B-PER`; if there is only one type, the prefix may stand alone.

    Returns:
        What the scheme allows. `None` if it allows everything, or the labels follow none of these schemes: for
        example IOB1, which has an `I-PER` without a `B-PER`.
    """
    parts = [label.partition("-")[::2] for label in labels]
    spans = set(parts) - {("O", "")}
    prefixes = {prefix for prefix, _ in spans}
    scheme = next((scheme for scheme in SCHEMES if prefixes <= set(scheme)), None)
    if scheme is None:
        return None
    last = scheme[2:3]
    # the prefixes that cannot be first in a span, and those that cannot be last
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
    return Allowed(follows, starts, ends)


class ElmoLabelSequence(nn.Module):
    """Sequences of labels that are scored by the scores of their labels alone: the softmax of each word.

    Args:
        config: `id2label` has the names of the labels, which `decode` reads at each call, because scripts set them
            after they make the model.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config

    def pair_weights(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the scores of neighbours `[K, K]`, first labels `[K]` and last labels `[K]`; here all are 0."""
        count = scores.shape[2]
        return scores.new_zeros(count, count), scores.new_zeros(count), scores.new_zeros(count)

    # `loss` and `decode` get the weights by this call, because hooks on it fetch weights that are on disk
    def forward(self, scores: torch.Tensor, words: torch.Tensor) -> Chains:
        """Move the words of each row to its left, drop positions that no sentence fills, and add the weights.

        An exported program drops none.

        Args:
            scores: `[B, T, K]`, the score of each label at each position.
            words: `[B, T]`, true at words.

        Returns:
            The chains, in the wider dtype of scores and weights, float32 at least.
        """
        # two more positions, without a word
        positions = nn.functional.pad(~words, (0, 2), value=True).byte().argsort(dim=1, stable=True)
        mask = torch.arange(positions.shape[1], device=words.device) < words.sum(dim=1, keepdim=True)
        if not is_exporting():
            longest = max(int(mask.any(dim=0).sum()), 2)
            positions, mask = positions[:, :longest], mask[:, :longest]
        weights = self.pair_weights(scores)
        dtype = torch.promote_types(torch.promote_types(scores.dtype, weights[0].dtype), torch.float32)
        scores = nn.functional.pad(scores.to(dtype), (0, 0, 0, 2))
        # [B, M, K]
        scores = scores.gather(1, positions[:, :, None].expand(-1, -1, scores.shape[2]))
        scores = scores.masked_fill(~mask[:, :, None], 0)
        return Chains(scores, mask, positions, *(part.to(dtype) for part in weights))

    def loss(self, scores: torch.Tensor, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Compute the negative log likelihood of the labels of each sentence.

        Args:
            scores: `[B, T, K]`, the score of each label at each position.
            words: `[B, T]`, true at words, wherever they are in the row: a word's neighbour is the next word,
                whatever is between them.
            labels: `[B, T]`, the label of each word. A word with -100 may have any label: the likelihood is the sum
                over all of them.

        Returns:
            `[B]` in nats, 0 for a sentence without words; float32 at least.

        Raises:
            ValueError: If a word has a label that the model has not.
        """
        check(labels, words, scores.shape[2])
        known = labels.long().masked_fill(~words, IGNORED)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        losses = nn.functional.cross_entropy(
            scores.flatten(0, 1), known.flatten(), ignore_index=IGNORED, reduction="none"
        )
        return losses.reshape(words.shape).sum(dim=1)

    def decode(self, scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Score each label of each word by the best allowed sequence that has this label at this word.

        The argmax over the labels is the best allowed sequence. If another sequence scores the same, its scores are
        lowered by the smallest step of the dtype, so that the argmax never mixes two sequences.

        Args:
            scores: `[B, T, K]`, the score of each label at each position.
            words: `[B, T]`, true at words, wherever they are in the row.

        Returns:
            `[B, T, K]`, float32 at least; the dtype's lowest number for a label that the scheme forbids at the word,
            and `scores` themselves where there is no word. If the scheme allows no sequence for a sentence, such as
            one word with the labels `B` and `L`, any sequence is allowed.
        """
        chains = self(scores, words)
        best = self._over_allowed(max_marginals, chains).clamp(min=torch.finfo(chains.scores.dtype).min)
        return torch.where(words[:, :, None], at_words(best, words), scores)

    def marginals(self, scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Compute the probability of each label at each word, over all sequences that the scheme allows.

        Args:
            scores: `[B, T, K]`, the score of each label at each position.
            words: `[B, T]`, true at words, wherever they are in the row.

        Returns:
            `[B, T, K]`, float32 at least; 0 where there is no word. If the scheme allows no sequence for a sentence,
            any sequence is allowed, as in `decode`.
        """
        found = self._over_allowed(sum_marginals, self(scores, words)).softmax(dim=2)
        return at_words(found, words).masked_fill(~words[:, :, None], 0)

    def _over_allowed(self, score: Callable[[Chains], torch.Tensor], chains: Chains) -> torch.Tensor:
        """Score the labels `[B, M, K]` over the sequences that the scheme allows, or over all if it allows none."""
        names: Any = self.config.id2label
        allowed = allowed_transitions([str(names.get(label, label)) for label in range(len(chains.starts))])
        found = score(chains if allowed is None else forbid(chains, allowed))
        if allowed is not None:
            stuck = found[:, 0].amax(dim=1).isneginf()
            if is_exporting() or stuck.any():
                found = torch.where(stuck[:, None, None], score(chains), found)
        return found


class ElmoCrf(ElmoLabelSequence):
    """A linear-chain CRF on the scores that a tagger gives the labels of each word.

    Args:
        config: As of `ElmoLabelSequence`; `num_labels` is the number of labels.
    """

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        count = config.num_labels or 0
        self.transitions = nn.Parameter(torch.empty(count, count))
        self.starts = nn.Parameter(torch.empty(count))
        self.ends = nn.Parameter(torch.empty(count))

    def pair_weights(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the learned scores of neighbours `[K, K]`, first labels `[K]` and last labels `[K]`."""
        del scores
        return self.transitions, self.starts, self.ends

    def loss(self, scores: torch.Tensor, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Compute the negative log likelihood over all sequences; arguments and result as `ElmoLabelSequence.loss`."""
        check(labels, words, scores.shape[2])
        chains = self(scores, words)
        # [B, M]
        given = nn.functional.pad(labels.long(), (0, 2)).gather(1, chains.positions).masked_fill(~chains.mask, 0)
        known = given != IGNORED
        path = torch.where(known, given, chains.scores.argmax(dim=2))
        losses = sum_paths(chains, path)
        # if all labels are known, the only path that fits them is `path`, whose sum relative to itself is 0
        rows = (~known).any(dim=1).nonzero().squeeze(1)
        if len(rows):
            # [B', M, K]
            other = torch.arange(scores.shape[2], device=path.device) != path[rows, :, None]
            fitting = chains.scores[rows].masked_fill(other & known[rows, :, None], -math.inf)
            part = chains._replace(scores=fitting, mask=chains.mask[rows], positions=chains.positions[rows])
            losses = losses.index_add(0, rows, sum_paths(part, path[rows]), alpha=-1)
        return losses.masked_fill(~chains.mask[:, 0], 0)


def check(labels: torch.Tensor, words: torch.Tensor, count: int) -> None:
    """Raise `ValueError` if a word has a label that is neither -100 nor one of `count` labels."""
    wrong = words & (labels != IGNORED) & ((labels < 0) | (labels >= count))
    if wrong.any():
        raise ValueError(
            f"A label is {int(labels[wrong][0])}; it can be 0 to {count - 1}, or {IGNORED} where it is not known."
        )


def forbid(chains: Chains, allowed: Allowed) -> Chains:
    """Lower the scores of what the scheme does not allow to minus infinity."""
    follows, starts, ends = (torch.tensor(part, device=chains.scores.device) for part in allowed)
    return chains._replace(
        transitions=chains.transitions.masked_fill(~follows, -math.inf),
        starts=chains.starts.masked_fill(~starts, -math.inf),
        ends=chains.ends.masked_fill(~ends, -math.inf),
    )


def sum_paths(chains: Chains, path: torch.Tensor) -> torch.Tensor:
    """Sum over all sequences of labels of each sentence, relative to one of them.

    Scores relative to those of a path stay small, and keep their digits, where the scores themselves add up to
    thousands.

    Args:
        chains: The sentences. A score of minus infinity excludes the label at that word.
        path: `[B, M]`, the labels of one sequence, none of them excluded.

    Returns:
        `[B]`, the logarithm of the sum of `exp(score - score of the path)`.
    """
    # [B, M, K]
    scores = chains.scores - chains.scores.gather(2, path[:, :, None])
    # [B, M - 1, 1]
    path_transitions = chains.transitions[path[:, :-1], path[:, 1:]][:, :, None]
    # [B, K]
    sums = chains.starts - chains.starts[path[:, :1]] + scores[:, 0]
    for time in range(1, scores.shape[1]):
        # [B, K, K]
        pairs = sums[:, :, None] + chains.transitions
        longer = pairs.logsumexp(dim=1) - path_transitions[:, time - 1] + scores[:, time]
        sums = torch.where(chains.mask[:, time, None], longer, sums)
    last = path.gather(1, (chains.mask.sum(dim=1, keepdim=True) - 1).clamp(min=0))
    return (sums + chains.ends - chains.ends[last]).logsumexp(dim=1)


def max_marginals(chains: Chains) -> torch.Tensor:
    """Score each label of each word by the best sequence that has this label at this word (Viterbi 1967).

    Args:
        chains: The sentences. A score of minus infinity forbids a label, or a pair of neighbours.

    Returns:
        `[B, M, K]`; at each word, the label on the best sequence scores higher than all others. If every sequence is
        forbidden, all scores are minus infinity.
    """
    # [M, B, K], [M, B, 1], [B, K]
    scores, mask = chains.scores.transpose(0, 1), chains.mask.t()[:, :, None]
    starts, ends = (part.expand_as(scores[0]).contiguous() for part in (chains.starts, chains.ends))

    def end_with(rest: torch.Tensor, place: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """Find the best score of what follows each label of the word before."""
        score, is_word = place
        # [B, K, K]
        best = (chains.transitions + (score + rest)[:, None]).amax(dim=2)
        rest = torch.where(is_word, best, ends)
        return rest, rest.clone()

    def begin_with(sums: torch.Tensor, place: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """Find the best score of each label with what precedes it."""
        score, rest = place
        sums = (sums[:, :, None] + chains.transitions).amax(dim=1) + score
        return sums, sums + rest

    def go_on(label: torch.Tensor, place: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        """Find the label that follows on the best sequence."""
        label = (transitions[label.squeeze(1)] + place[0]).argmax(dim=1, keepdim=True)
        return label, label.clone()

    # [M, B, K]
    # a copy: the exporter would take the state of a step for `ends`, which the step reads too
    _, rest = scan(end_with, ends.clone(), (scores[1:].flip(0), mask[1:].flip(0)))
    rest = torch.cat([rest.flip(0), ends[None]])
    sums = starts + scores[0]
    first = sums + rest[0]
    _, marginals = scan(begin_with, sums, (scores[1:], rest[1:]))
    # a scan of integers has no gradients
    label, transitions = first.detach().argmax(dim=1, keepdim=True), chains.transitions.detach()
    _, path = scan(go_on, label, ((scores[1:] + rest[1:]).detach(),))
    # [B, M, K], [B, M, 1]
    marginals, path = torch.cat([first[None], marginals]), torch.cat([label[None], path])
    return raise_path(marginals.transpose(0, 1), path.transpose(0, 1))


def sum_marginals(chains: Chains) -> torch.Tensor:
    """Sum, for each label of each word, over the sequences that have this label at this word.

    Args:
        chains: The sentences. A score of minus infinity forbids a label, or a pair of neighbours.

    Returns:
        `[B, M, K]`, logarithms that lack a number of their own at each word: the softmax over the labels is their
        probabilities. If every sequence is forbidden, all are minus infinity.
    """
    longest = chains.scores.shape[1]
    # from the end: the sum over what follows each label
    rest = [chains.ends.expand_as(chains.scores[:, 0])]
    for time in range(longest - 1, 0, -1):
        # [B, K, K]
        pairs = chains.transitions + (chains.scores[:, time] + rest[0])[:, None]
        rest.insert(0, torch.where(chains.mask[:, time, None], lowered(pairs.logsumexp(dim=2)), chains.ends))
    # from the beginning: the sum over what precedes each label
    before = chains.starts.expand_as(chains.scores[:, 0])
    sums = [before + chains.scores[:, 0] + rest[0]]
    for time in range(1, longest):
        pairs = (before + chains.scores[:, time - 1])[:, :, None] + chains.transitions
        before = lowered(pairs.logsumexp(dim=1))
        sums.append(before + chains.scores[:, time] + rest[time])
    return torch.stack(sums, dim=1)


def lowered(sums: torch.Tensor) -> torch.Tensor:
    """Subtract the highest number from `[B, K]`, so that sums keep their digits in long sentences."""
    return sums - sums.amax(dim=1, keepdim=True).clamp(min=torch.finfo(sums.dtype).min)


def at_words(scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Move the scores `[B, M, K]` of the words of chains to where the words `[B, T]` are in their rows."""
    # [B, T]: the number of each word in its sentence
    order = (words.cumsum(dim=1) - 1).clamp(min=0)
    return scores.gather(1, order[:, :, None].expand(-1, -1, scores.shape[2]))


def raise_path(marginals: torch.Tensor, path: torch.Tensor) -> torch.Tensor:
    """Lower scores `[B, M, K]` that equal that of the label on the path, `[B, M, 1]`, by the smallest step."""
    best = marginals.gather(2, path)
    below = best.detach().nextafter(best.new_tensor(-math.inf))
    return marginals.minimum(below).scatter(2, path, best)


__all__ = ["ElmoCrf", "ElmoLabelSequence", "allowed_transitions"]
