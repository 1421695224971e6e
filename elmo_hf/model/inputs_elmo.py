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
"""What a batch holds: the neighbours of each word, the sentences of a row, and labels.

Shape notation: `B` rows, `T` words with the boundaries `<S>` and `</S>`, `H` width of a vector.
"""

import torch


def neighbours(labels: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """For each word of `[B, T]`, the label of the next and of the previous word, `[2, B, T]`; -100 if there is none.

    Padding, where `words` is false, is passed over.
    """
    length = labels.shape[1]
    places = torch.arange(length, device=words.device)
    # [B, T]: the places of the words, one after the other, and behind them those of padding
    order = torch.where(words, places, places + length).argsort(dim=1)
    # [B, T]: how many words come before each
    rank = words.long().cumsum(dim=1) - 1
    targets = []
    for wanted in (rank + 1, rank - 1):
        there = words & (wanted >= 0) & (wanted < words.long().sum(dim=1, keepdim=True))
        neighbour = labels.gather(1, order.gather(1, wanted.clamp(0, length - 1)))
        targets.append(neighbour.masked_fill(~there, -100))
    return torch.stack(targets)


def find_sentences(
    input_ids: torch.Tensor, real: torch.Tensor, bos: int | list[int] | None, eos: int | list[int] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Number the sentences of each row: one begins with `<S>`, after nothing or `</S>`, and ends with `</S>`.

    Args:
        input_ids: `[B, T]`.
        real: `[B, T]`, false at padding.
        bos: The id of `<S>`; without it, a row is one sentence.
        eos: The id of `</S>`.

    Returns:
        `[B, T]`, 1 at the first sentence, 2 at the second, 0 at padding; and `[B, T]`, true at words, false at
        boundaries and padding. An `<S>` or `</S>` elsewhere is a word of the text.
    """
    begins, ends = is_one_of(input_ids, bos), is_one_of(input_ids, eos)
    # at the ends of a row -100, which is not 0
    after, before = neighbours(begins.long(), real)[0], neighbours(ends.long(), real)[1]
    begins, ends = begins & (before != 0), ends & (after != 0)
    return begins.cumsum(dim=1).clamp(min=1) * real, real & ~begins & ~ends


def is_one_of(input_ids: torch.Tensor, wanted: int | list[int] | None) -> torch.Tensor:
    """Find some ids, `[B, T]`."""
    found = torch.zeros_like(input_ids, dtype=torch.bool)
    for number in wanted if isinstance(wanted, list) else [wanted]:
        if number is not None:
            found = found | (input_ids == number)
    return found


def check_labels(labels: torch.Tensor, shape: torch.Size, num_labels: int) -> None:
    """Refuse labels that the model has not, that are no integers, or of another shape.

    Raises:
        ValueError: If they do not fit.
    """
    if labels.shape != shape or labels.is_floating_point():
        raise ValueError(
            f"`labels` is {tuple(labels.shape)} of {labels.dtype} where the batch takes integers {tuple(shape)}: pad "
            "words and labels alike, labels with -100."
        )
    wrong = labels[(labels != -100) & ((labels < 0) | (labels >= num_labels))]
    if len(wrong):
        raise ValueError(
            f"`labels` has {int(wrong[0])} but this model has the labels 0 to {num_labels - 1}: load it with the "
            "`num_labels`, or `id2label`, of the data."
        )


def check_numbers(labels: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Give numbers to predict, or 1 and 0 for each of several labels, the type of `[B, labels]` logits.

    Raises:
        ValueError: If they have another shape; where there is one label, `[B]` will do.
    """
    if labels.shape != logits.shape and (logits.shape[1] > 1 or labels.shape != logits.shape[:1]):
        raise ValueError(
            f"`labels` is {tuple(labels.shape)} where the batch takes {tuple(logits.shape)}, a number for each label: "
            "load the model with the `num_labels` and `problem_type` of the data."
        )
    return labels.to(logits.dtype)


def share_of(labels: torch.Tensor, num_items: torch.Tensor | int | None) -> torch.Tensor | float:
    """Tell which share of the labels of a training step is in this batch; of none, none."""
    if num_items is None:
        return 1.0
    # a number to predict may be anything
    count = labels.numel() if labels.is_floating_point() else (labels != -100).sum()
    return torch.as_tensor(count / torch.as_tensor(num_items).clamp(min=1))


__all__ = ["check_labels", "check_numbers", "find_sentences", "neighbours", "share_of"]
