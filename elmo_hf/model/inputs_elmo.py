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
"""The inputs of the models: ids and the mask of a batch, the neighbours of each word, the sentences of a row, labels.

Shape notation: `B` rows, `T` words with the boundary tokens `<S>` and `</S>`, `S` characters of a word, `K` ids of a
word (itself, its characters, or both), `P` width of the token layer, `H` width of a vector.
"""

from typing import NamedTuple

import torch

from .configuration_elmo import ElmoConfig
from .scan_elmo import is_exporting


# the label of a word that has none, as everywhere in Transformers
IGNORED = -100


class BilmInputs(NamedTuple):
    """What the biLM reads.

    Attributes:
        mask: `[B, T]`, true at words.
        ids: `[B, 1, T, K]`, or `[B, 2, T, K]` if each direction reads words of its own; `None` with `embeds`.
        embeds: `[B, T, P]`, vectors in place of those of the token layer.
    """

    mask: torch.Tensor
    ids: torch.Tensor | None
    embeds: torch.Tensor | None


def read_inputs(
    config: ElmoConfig,
    input_ids: torch.Tensor | None,
    char_ids: torch.Tensor | None,
    attention_mask: torch.Tensor | None,
    inputs_embeds: torch.Tensor | None,
) -> BilmInputs:
    """Collect what the biLM reads from the arguments of a model: vectors if they are given, or else ids.

    Args:
        config: The configuration says whether the model reads words, characters, or both.
        input_ids: `[B, T]`, or `[B, 2, T]` with words of their own for each direction.
        char_ids: `[B, T, S]` or `[B, 2, T, S]`.
        attention_mask: `[B, T]`, 0 at padding.
        inputs_embeds: `[B, T, P]`. Padding is then found by the mask, or else by `input_ids`.

    Raises:
        ValueError: If ids that the model reads are missing, or an argument is of another dtype or shape.
    """
    if inputs_embeds is None:
        ids, mask = read_ids(config, input_ids, char_ids, attention_mask)
        return BilmInputs(mask, ids, None)
    width = config.hidden_size // 2
    if inputs_embeds.ndim != 3 or inputs_embeds.shape[2] != width or not inputs_embeds.is_floating_point():
        raise ValueError(
            f"`inputs_embeds` is {tuple(inputs_embeds.shape)} of {inputs_embeds.dtype}; this model takes "
            f"floating-point numbers (sentences, words, {width}), as its `embed_words` returns them."
        )
    shape = inputs_embeds.shape[:2]
    for name, part in (("attention_mask", attention_mask), ("input_ids", input_ids)):
        if part is not None and part.shape != shape:
            raise ValueError(
                f"`{name}` is {tuple(part.shape)} where `inputs_embeds` has {tuple(shape)} sentences and words."
            )
    return BilmInputs(find_mask(config, input_ids, attention_mask, inputs_embeds), None, inputs_embeds)


def find_mask(
    config: ElmoConfig,
    input_ids: torch.Tensor | None,
    attention_mask: torch.Tensor | None,
    vectors: torch.Tensor,
) -> torch.Tensor:
    """Return where the words of `vectors`, `[B, T, ...]`, are, `[B, T]`: by the mask, or else by the word ids."""
    if attention_mask is not None:
        return attention_mask != 0
    if input_ids is not None:
        return ~is_one_of(input_ids, config.pad_token_id)
    return torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)


def read_ids(
    config: ElmoConfig,
    input_ids: torch.Tensor | None,
    char_ids: torch.Tensor | None,
    attention_mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Collect the ids that a model reads, and find the words among them.

    Args:
        config: The configuration says whether the model reads words, characters, or both.
        input_ids: `[B, T]`, or `[B, 2, T]` with words of their own for each direction.
        char_ids: `[B, T, S]` or `[B, 2, T, S]`.
        attention_mask: `[B, T]`, 0 at padding.

    Returns:
        The ids, `[B, 1, T, K]`, or `[B, 2, T, K]` if each direction reads words of its own; and the mask, `[B, T]`,
        true at words.

    Raises:
        ValueError: If ids that the model reads are missing, are not integers, or differ in shape.
    """
    read = []
    if config.word_embedding_dim:
        read.append(read_word_ids(config, input_ids))
    if config.char_embedding_dim:
        read.append(read_char_ids(config, char_ids))
    ids, masks = [part for part, _ in read], [mask for _, mask in read]
    # CODEPATH: the training of bilm-tf, whose backward direction never reads `<S>`, nor its forward one `</S>`
    if all(mask.shape[1:-1] == (2,) for mask in masks):
        masks = [part for mask in masks for part in mask.unbind(dim=1)]
    else:
        ids = [part[:, None] for part in ids]
    if attention_mask is not None:
        masks.append(attention_mask != 0)
    if any(mask.shape != masks[0].shape for mask in masks) or masks[0].ndim != 2:
        raise ValueError(
            f"The inputs differ in sentences and words: {[tuple(mask.shape) for mask in masks]}. Pass all of them as "
            "the tokenizer returns them."
        )
    return torch.cat(ids, dim=3), torch.stack(masks).all(dim=0)


def read_word_ids(config: ElmoConfig, input_ids: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return word ids, `[..., T, 1]`, and where they are not padding, `[..., T]`."""
    if input_ids is None:
        raise ValueError("This model reads word ids: pass `input_ids`, as its tokenizer returns them.")
    words = check_integers("input_ids", input_ids)
    mask = ~is_one_of(words, config.pad_token_id)
    # CODEPATH: bilm-tf models trained without a character encoder have no row for a mask token behind the vocabulary
    if config.unk_token_id is not None:
        words = words.masked_fill(words == config.vocab_size, config.unk_token_id)
    return words[..., None], mask


def read_char_ids(config: ElmoConfig, char_ids: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return character ids, `[..., T, S]`, and where they are not padding, `[..., T]`."""
    width = config.max_characters_per_token
    if char_ids is None:
        raise ValueError("This model reads characters: pass `char_ids`, as its tokenizer returns them.")
    if char_ids.ndim not in (3, 4) or char_ids.shape[-1] != width:
        raise ValueError(
            f"`char_ids` is {tuple(char_ids.shape)} but this model reads (sentences, words, {width}): use the "
            f"tokenizer saved with it, or one with max_characters_per_token={width}."
        )
    return check_integers("char_ids", char_ids), (char_ids != 0).any(dim=-1)


def check_predicates(token_type_ids: torch.Tensor | None, mask: torch.Tensor) -> torch.Tensor:
    """Return the marks of predicates `[B, T]` as int64.

    Args:
        token_type_ids: `[B, T]`, 1 at the words of the predicate, 0 at others.
        mask: `[B, T]`, true at words.

    Raises:
        ValueError: If there are none, or they are of another dtype or shape, or are something else than 0 and 1.
    """
    if token_type_ids is None:
        raise ValueError(
            "The head 'alternating-lstm' finds the roles of one predicate: pass `token_type_ids`, 1 at the words of "
            "the predicate and 0 at all others."
        )
    marks = check_integers("token_type_ids", token_type_ids)
    if marks.shape != mask.shape:
        raise ValueError(f"`token_type_ids` is {tuple(marks.shape)} where the batch is {tuple(mask.shape)}.")
    if not is_exporting() and len(wrong := marks[mask & (marks != 0) & (marks != 1)]):
        raise ValueError(
            f"`token_type_ids` has {int(wrong[0])}: pass 1 at the words of the predicate, and 0 elsewhere."
        )
    return marks.masked_fill(~mask, 0)


def check_integers(name: str, ids: torch.Tensor) -> torch.Tensor:
    """Widen integers of any dtype to int64.

    Raises:
        ValueError: If the argument called `name` does not hold integers.
    """
    if ids.is_floating_point() or ids.is_complex():
        raise ValueError(f"`{name}` is of {ids.dtype}: pass integers, as the tokenizer returns them.")
    return ids.long()


def neighbours(labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return the label of the next and of the previous word of each word, skipping padding.

    Args:
        labels: `[B, T]`.
        mask: `[B, T]`, true at words.

    Returns:
        `[2, B, T]`, -100 where there is no such neighbour.
    """
    length = labels.shape[1]
    positions = torch.arange(length, device=mask.device)
    # [B, T]: the positions of the words in order, then those of padding
    order = torch.where(mask, positions, positions + length).argsort(dim=1)
    # [B, T]: the number of words before each word
    rank = mask.long().cumsum(dim=1) - 1
    count = mask.long().sum(dim=1, keepdim=True)
    found = []
    for wanted in (rank + 1, rank - 1):
        exists = mask & (wanted >= 0) & (wanted < count)
        neighbour = labels.gather(1, order.gather(1, wanted.clamp(0, length - 1)))
        found.append(neighbour.masked_fill(~exists, IGNORED))
    return torch.stack(found)


def find_sentences(
    input_ids: torch.Tensor, mask: torch.Tensor, bos: int | list[int] | None, eos: int | list[int] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Number the sentences of each row, and find the words between their boundary tokens.

    A sentence begins with an `<S>` that is first in the row or follows `</S>`, and ends with a `</S>` that is last or
    stands before `<S>`. Any other `<S>` or `</S>` is a word of the text.

    Args:
        input_ids: `[B, T]`.
        mask: `[B, T]`, false at padding.
        bos: The id of `<S>`; without it, a row is one sentence.
        eos: The id of `</S>`.

    Returns:
        `[B, T]`, 1 in the first sentence, 2 in the second, 0 at padding; and `[B, T]`, true at words, false at
        boundary tokens and padding.
    """
    begins, ends = is_one_of(input_ids, bos), is_one_of(input_ids, eos)
    # at the ends of a row these are -100, which is not 0
    begins_next, ended_before = neighbours(begins.long(), mask)[0], neighbours(ends.long(), mask)[1]
    begins, ends = begins & (ended_before != 0), ends & (begins_next != 0)
    return begins.cumsum(dim=1).clamp(min=1) * mask, mask & ~begins & ~ends


def is_one_of(input_ids: torch.Tensor, wanted: int | list[int] | None) -> torch.Tensor:
    """Return where the ids are one of those wanted, in the shape of the ids."""
    found = torch.zeros_like(input_ids, dtype=torch.bool)
    for number in wanted if isinstance(wanted, list) else [wanted]:
        if number is not None:
            found = found | (input_ids == number)
    return found


def check_labels(labels: torch.Tensor, shape: torch.Size, num_labels: int, *, remedy: str | None = None) -> None:
    """Check the labels of words or sentences.

    Args:
        labels: Integers from 0 to `num_labels - 1`, or -100 for none.
        shape: The shape that the batch takes.
        num_labels: How many labels there are.
        remedy: What the message for another label ends with, if the model's configuration is not the cause.

    Raises:
        ValueError: If labels have another shape, are not integers, or are not among the model's.
    """
    if labels.shape != shape or labels.is_floating_point():
        raise ValueError(
            f"`labels` is {tuple(labels.shape)} of {labels.dtype} where the batch takes integers {tuple(shape)}: pad "
            "words and labels alike, labels with -100."
        )
    wrong = labels[(labels != IGNORED) & ((labels < 0) | (labels >= num_labels))]
    if len(wrong):
        remedy = remedy or "load the model with the `num_labels`, or `id2label`, of the data"
        raise ValueError(f"`labels` has {int(wrong[0])}, which is not one of 0 to {num_labels - 1}: {remedy}.")


def check_positions(
    start_positions: torch.Tensor | None, end_positions: torch.Tensor | None, scored: torch.Tensor
) -> torch.Tensor:
    """Check where answers begin and end.

    Args:
        start_positions: `[B]` or `[B, 1]`, -100 for none.
        end_positions: In the same way.
        scored: `[B, T]`, false where there can be no answer, as at padding.

    Returns:
        `[B, 2]`, -100 where there is no score, beyond the row included.

    Raises:
        ValueError: If one of the two is missing, they have another shape, are not integers, or one is negative.
    """
    checked = []
    for name, part in (("start_positions", start_positions), ("end_positions", end_positions)):
        if part is None:
            raise ValueError(f"`{name}` is missing: pass where an answer begins and where it ends.")
        # as Trainer gives them to several GPUs
        positions = check_integers(name, part.squeeze(1) if part.ndim == 2 and part.shape[1] == 1 else part)
        if positions.shape != scored.shape[:1]:
            raise ValueError(f"`{name}` is {tuple(part.shape)} where the batch takes {tuple(scored.shape[:1])}.")
        wrong = positions[(positions != IGNORED) & (positions < 0)]
        if len(wrong):
            raise ValueError(
                f"`{name}` has {int(wrong[0])}: count words from 0, where the row begins, which is the position of no "
                "answer; -100 is ignored."
            )
        checked.append(positions)
    # [B, 2]
    positions = torch.stack(checked, dim=1)
    length = scored.shape[1]
    inside = (positions >= 0) & (positions < length)
    found = scored.gather(1, positions.clamp(0, length - 1)) & inside
    return positions.masked_fill(~found, IGNORED)


def check_numbers(labels: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Cast the labels of a regression, or of a problem with several labels a sentence, to the dtype of the logits.

    Args:
        labels: `[B, labels]`, a number for each label; or `[B]` if there is one label.
        logits: `[B, labels]`.

    Raises:
        ValueError: If the labels have another shape.
    """
    if labels.shape != logits.shape and (logits.shape[1] > 1 or labels.shape != logits.shape[:1]):
        raise ValueError(
            f"`labels` is {tuple(labels.shape)} where the batch takes {tuple(logits.shape)}, a number for each label: "
            "load the model with the `num_labels` and `problem_type` of the data."
        )
    return labels.to(logits.dtype)


def check_words(labels: torch.Tensor, config: ElmoConfig) -> torch.Tensor:
    """Check the words that a language model is to predict, and read a mask token behind the vocabulary as unknown.

    Args:
        labels: Word ids of any shape, -100 for none.
        config: The configuration has the size of the vocabulary.

    Raises:
        ValueError: If a label is not a word of the vocabulary.
    """
    # CODEPATH: tokenizers whose mask token is not a word of the vocabulary, such as that of elmo-small-en
    if config.unk_token_id is not None:
        labels = labels.masked_fill(labels == config.vocab_size, config.unk_token_id)
    wrong = labels[(labels != IGNORED) & ((labels < 1) | (labels >= config.vocab_size))]
    if len(wrong):
        raise ValueError(
            f"`labels` has {int(wrong[0])} but the vocabulary of this model has the words 1 to "
            f"{config.vocab_size - 1}: use the tokenizer saved with it, and -100 at padding."
        )
    return labels


def label_fraction(labels: torch.Tensor, num_items: torch.Tensor | int | None) -> torch.Tensor | float:
    """Return this batch's fraction of the labels of a training step; 0 if the step has no labels.

    Args:
        labels: Labels of any shape, -100 for none, or numbers.
        num_items: The labels of the step, over all batches that it accumulates; `None` for those of this batch.
    """
    if num_items is None:
        return 1.0
    # -100 is a valid number
    count = labels.numel() if labels.is_floating_point() else (labels != IGNORED).sum()
    return torch.as_tensor(count / torch.as_tensor(num_items).clamp(min=1))


__all__ = [
    "IGNORED",
    "BilmInputs",
    "check_integers",
    "check_labels",
    "check_numbers",
    "check_positions",
    "check_words",
    "find_mask",
    "find_sentences",
    "is_one_of",
    "label_fraction",
    "neighbours",
    "read_inputs",
]
