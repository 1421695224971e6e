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
"""The softmax of the language model: in chunks over the whole vocabulary, or over a sample of it.

Both directions of ELMo share one softmax (Peters et al. 2018, section 3.1). The sampled softmax is TensorFlow's
`sampled_softmax_loss`, with which bilm-tf trained. It assumes that the vocabulary is in order of descending frequency.

Shape notation: `N` predictions, `P` width of one direction, `V` rows of the vocabulary, row 0 standing for padding,
`M` candidates.
"""

import math
from typing import Any

import torch
from torch import nn

from .configuration_elmo import ElmoConfig
from .kernels_elmo import is_transformed, recompute_gradients


# Logits in memory at a time: 16 MB, which stay in a processor's cache. A chunk has at least so many rows that using
# the weights costs more than reading them.
LOGITS_PER_CHUNK, FEWEST_ROWS_PER_CHUNK = 1 << 22, 64
# of probabilities over the rows of a chunk, which float16 holds when they are multiplied by states of 7 at most
LARGEST_SUM = 1 << 13


class ElmoSoftmax(nn.Linear):
    """The softmax that predicts the next word of a direction, from all words of the vocabulary but padding."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config.hidden_size // 2, config.vocab_size)
        self.num_negative_samples = config.num_negative_samples

    # one entrance for both, because hooks on this call fetch weights that are on disk or on other processes
    def forward(  # type: ignore[override]
        self, hidden: torch.Tensor, targets: torch.Tensor | None = None, scales: torch.Tensor | None = None
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Return `scores(hidden)`, or with targets `loss(hidden, targets, scales)`.

        Args:
            hidden: `[..., P]`; with targets `[N, P]`.
            targets: `[N]`, the word that each state predicts.
            scales: `[N]`, the weight of each prediction in the total.
        """
        if targets is None or scales is None:
            return self.scores(hidden)
        return self.loss(hidden, targets, scales)

    def scores(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map states `[..., P]` to logits `[..., V]`, with the lowest number for padding."""
        logits = super().forward(hidden)
        row = torch.zeros(1, dtype=torch.long, device=logits.device)
        return logits.index_fill(-1, row, torch.finfo(logits.dtype).min)

    def loss(
        self, hidden: torch.Tensor, targets: torch.Tensor, scales: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the cross-entropy of each target.

        In training, if the configuration asks for it, the softmax is over a sample of the vocabulary; otherwise it is
        over all words.

        Args:
            hidden: `[N, P]`.
            targets: `[N]`, the word that each state predicts.
            scales: `[N]`, the weight of each prediction in the total.

        Returns:
            The total `sum(scales * losses)`, through which gradients flow, and the losses `[N]` in nats, without
            gradient.
        """
        words = self.out_features - 1
        if self.training and 0 < self.num_negative_samples < words:
            negatives, tries = sample_words(self.num_negative_samples, words, hidden.device)
            return sampled_losses(hidden, self.weight, self.bias, targets, scales, negatives, tries)
        return full_losses(hidden, self.weight, self.bias, targets, scales)

    def replace(self, linear: nn.Linear) -> None:
        """Replace the weights and the bias by those of another linear layer."""
        self.weight, self.bias, self.out_features = linear.weight, linear.bias, linear.out_features


def full_losses(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor, scales: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the cross-entropy of each target among all words.

    Args:
        hidden: `[N, P]`.
        weight: `[V, P]`.
        bias: `[V]`.
        targets: `[N]`, rows of the vocabulary.
        scales: `[N]`, the weight of each loss in the total.

    Returns:
        The total and the losses, as `ElmoSoftmax.loss`.
    """
    target_logits = score(hidden, weight, bias, targets)
    offsets = bias.index_fill(0, torch.zeros(1, dtype=torch.long, device=bias.device), -math.inf)
    return cross_entropy(hidden, weight, offsets, target_logits, targets, scales)


def score(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Compute the logit of one row of the vocabulary, `[N]`, for each state, `[N, P]`; float32 at least."""
    wide = torch.promote_types(weight.dtype, torch.float32)
    return (hidden.to(wide) * nn.functional.embedding(rows, weight).to(wide)).sum(dim=1) + bias[rows].to(wide)


def cross_entropy(
    hidden: torch.Tensor,
    candidates: torch.Tensor,
    offsets: torch.Tensor,
    target_logits: torch.Tensor,
    places: torch.Tensor,
    scales: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the cross-entropy of targets beside other candidates, in chunks that save memory.

    Args:
        hidden: `[N, P]`.
        candidates: `[M, P]`, rows of the softmax.
        offsets: `[M]`, added to the candidates' scores.
        target_logits: `[N]`, the score of each target.
        places: `[N]`, the index of the target among the candidates, so that it is not counted twice; -1 if it is not
            among them.
        scales: `[N]`, the share of each loss in the total.

    Returns:
        The total `sum(scales * losses)`, through which gradients flow, and the losses `[N]`, without gradient.
    """
    arguments = hidden, candidates, offsets, target_logits, places, scales
    if is_transformed():
        total, losses = plain_cross_entropy(*arguments)
        return total, losses.detach()
    return ChunkedCrossEntropy.apply(*arguments, torch.is_grad_enabled())


def plain_cross_entropy(
    hidden: torch.Tensor,
    candidates: torch.Tensor,
    offsets: torch.Tensor,
    target_logits: torch.Tensor,
    places: torch.Tensor,
    scales: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute what `cross_entropy` does with all logits at once; torch differentiates it to any order."""
    wide = target_logits.dtype
    logits = offsets.to(wide) + hidden.to(wide) @ candidates.to(wide).T
    is_target = torch.arange(len(candidates), device=places.device) == places[:, None]
    logits = logits.masked_fill(is_target, -math.inf)
    losses = torch.cat([logits, target_logits[:, None]], dim=1).logsumexp(dim=1) - target_logits
    return (losses * scales).sum(), losses


class ChunkedCrossEntropy(torch.autograd.Function):
    """`cross_entropy` with only a chunk of the logits in memory at a time.

    The forward pass computes the gradients too, chunk by chunk, so that no logits are saved or computed twice. Torch
    takes these gradients for constants; if their graph is asked for, `plain_cross_entropy` computes them instead.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        candidates: torch.Tensor,
        offsets: torch.Tensor,
        target_logits: torch.Tensor,
        places: torch.Tensor,
        scales: torch.Tensor,
        grad_enabled: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the total and the losses; arguments as of `cross_entropy`, and whether gradients are enabled."""
        device = hidden.device.type
        # half precision is for the products only
        narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else candidates.dtype
        wide = target_logits.dtype
        wanted = grad_enabled and any(ctx.needs_input_grad)
        rows = max(LOGITS_PER_CHUNK // len(candidates), FEWEST_ROWS_PER_CHUNK)
        # Gradients are computed in this unit and multiplied by it at the end: in half precision, probabilities times a
        # share of the total would be too small, and sums over the rows of a chunk must not be too large.
        unit = nn.functional.pad(scales, (0, 1)).amax().to(wide).clamp(min=torch.finfo(wide).tiny) * rows / LARGEST_SUM
        losses = torch.empty_like(target_logits)
        inputs = (hidden, candidates, offsets, target_logits)
        gradients = [torch.zeros_like(part, dtype=wide) for part in inputs] if wanted else []
        with torch.autocast(device, enabled=False):
            matrix, wide_offsets = candidates.to(narrow), offsets.to(wide)
            for start in range(0, len(hidden), rows):
                chunk = slice(start, start + rows)
                # [n, P]
                states = hidden[chunk].to(narrow)
                # [n, M]
                logits = multiply(wide_offsets, states, matrix.T)
                there = (places[chunk] >= 0).nonzero().squeeze(1)
                logits[there, places[chunk][there]] = -math.inf
                own = target_logits[chunk]
                highest = torch.maximum(logits.amax(dim=1), own)
                others = logits.sub_(highest[:, None]).exp_()
                target = (own - highest).exp()
                total = others.sum(dim=1) + target
                losses[chunk] = total.log() + highest - own
                if not wanted:
                    continue
                # the gradient of a loss is each candidate's probability, minus 1 for the target
                share = scales[chunk].to(wide) / unit
                gradient = others.mul_((share / total)[:, None])
                gradients[2] += gradient.sum(dim=0)
                gradients[3][chunk] = (target / total - 1) * share
                gradient = gradient.to(narrow)
                gradients[0][chunk] = gradient @ matrix
                gradients[1] = multiply(gradients[1], gradient.T, states)
        if wanted:
            ctx.save_for_backward(*(gradient.mul_(unit) for gradient in gradients), *inputs, places, scales)
        ctx.mark_non_differentiable(losses)
        return (losses * scales).sum(), losses

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Scale the gradients that `forward` computed."""
        # gradient checkpointing lets them be read only once
        tensors = ctx.saved_tensors
        computed, inputs, (places, scales) = tensors[:4], tensors[4:8], tensors[8:]
        found: list[torch.Tensor | None]
        # `create_graph=True`
        if torch.is_grad_enabled():
            with torch.autocast(places.device.type, enabled=False):
                found = recompute_gradients(
                    lambda hidden, candidates, offsets, target_logits: plain_cross_entropy(
                        hidden, candidates, offsets, target_logits, places, scales
                    )[:1],
                    inputs,
                    [gradient],
                )
        else:
            parts = zip(computed, inputs, ctx.needs_input_grad, strict=False)
            found = [(part * gradient).to(given.dtype) if wanted else None for part, given, wanted in parts]
        return *found, None, None, None


def multiply(added: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return `added + left @ right` in the precision of `added`, the product in that of its factors."""
    if added.dtype == left.dtype:
        return torch.addmm(added, left, right)
    return (left @ right).to(added.dtype).add_(added)


def sample_words(count: int, words: int, device: torch.device) -> tuple[torch.Tensor, int]:
    """Draw distinct words from the log-uniform distribution.

    Word `k` of `words` has the probability `log((k + 2) / (k + 1)) / log(words + 1)`, near the frequencies of the
    words of a natural language in descending order.

    Returns:
        `count` distinct words, counted from 0, and the number of draws that it took to find them.
    """
    draws = torch.empty(0, dtype=torch.long, device=device)
    while True:
        uniform = torch.rand(2 * count + len(draws), dtype=torch.float64, device=device)
        fresh = (uniform * math.log(words + 1)).exp().long() - 1
        draws = torch.cat([draws, fresh.clamp_(0, words - 1)])
        distinct, which = draws.unique(return_inverse=True)
        if len(distinct) >= count:
            break
    times = torch.arange(len(draws), device=device)
    first = torch.full_like(distinct, len(draws)).scatter_reduce(0, which, times, "amin")
    earliest = first.argsort()[:count]
    return distinct[earliest], int(first[earliest[-1]]) + 1


def log_uniform(numbers: torch.Tensor, words: int) -> torch.Tensor:
    """Return the log-probability of each of `numbers`, from 0 to `words - 1`, in float64."""
    numbers = numbers.double()
    return (((numbers + 2) / (numbers + 1)).log() / math.log(words + 1)).log()


def log_expected_count(numbers: torch.Tensor, words: int, tries: int) -> torch.Tensor:
    """Return the log of the expected count of each of `numbers` among the distinct words of `tries` draws, float64."""
    return (-torch.expm1(tries * torch.log1p(-log_uniform(numbers, words).exp()))).log()


def sampled_losses(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    targets: torch.Tensor,
    scales: torch.Tensor,
    negatives: torch.Tensor,
    tries: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the cross-entropy of each target among itself and sampled words (Jean et al. 2015).

    The logarithm of its expected count is subtracted from the score of each word, so that words which are drawn often
    do not weigh more. A sampled word that is the target does not count twice.

    Args:
        hidden: `[N, P]`.
        weight: `[V, P]`.
        bias: `[V]`.
        targets: `[N]`, rows of the vocabulary.
        scales: `[N]`, the weight of each loss in the total.
        negatives: `[M]`, distinct words, counted from 0 without padding, as `sample_words` returns them.
        tries: The number of draws that it took to find them.

    Returns:
        The total and the losses, as `ElmoSoftmax.loss`.
    """
    words = len(weight) - 1
    rows = negatives + 1
    offsets = bias[rows] - log_expected_count(negatives, words, tries).to(bias)
    target_logits = score(hidden, weight, bias, targets)
    target_logits = target_logits - log_expected_count(targets - 1, words, tries).to(target_logits)
    # [V]
    places = torch.full((len(weight),), -1, device=rows.device)
    places[rows] = torch.arange(len(rows), device=rows.device)
    candidates = nn.functional.embedding(rows, weight)
    return cross_entropy(hidden, candidates, offsets, target_logits, places[targets], scales)


__all__ = ["ElmoSoftmax", "full_losses", "log_uniform", "sample_words", "sampled_losses"]
