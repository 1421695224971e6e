"""Words for a place in a sentence: in the place of a mask, or of a word (lexical substitution).

The forward direction reads what is on the left of the place, the backward direction what is on the right, and neither
reads the word that stands there.

Shape notation: `V` rows of the vocabulary, row 0 standing for padding.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import torch

from elmo_hf.bundled import ELMO_SMALL_EN
from elmo_hf.embedding.loading import load, move_to_device
from elmo_hf.embedding.occurrences import check_position
from elmo_hf.errors import ElmoError
from elmo_hf.inspection import read_config
from elmo_hf.model.inputs_elmo import read_inputs
from elmo_hf.model.modeling_elmo import ElmoForMaskedLM
from elmo_hf.model.tokenizer_backend_elmo import PAD, vocabulary_lines

from .perplexity import check_words_are_known


#: What you may write for a missing word, besides the mask token of the tokenizer.
MASK = "[MASK]"

# places that are scored at a time: a score for each word of the vocabulary takes much memory
PLACES_AT_A_TIME = 64

# the mask token of a tokenizer that has none
ADDED_MASK = "<MASK>"


class Filling(NamedTuple):
    """A word for a place in a sentence.

    Attributes:
        word: The word.
        probability: Its probability among the words of the vocabulary, from both directions.
        forward_nats: Minus the log probability that the forward direction gives to it, in nats.
        backward_nats: The same of the backward direction.
    """

    word: str
    probability: float
    forward_nats: float
    backward_nats: float


class WordFiller:
    """A language model that suggests words for a place in a sentence.

    Args:
        model: A model folder with a softmax, or `elmo-small-en`.
        device: The device that computes, as PyTorch names it.

    Attributes:
        model: The `ElmoForMaskedLM`.
        tokenizer: Its tokenizer, with a mask token.

    Raises:
        ElmoError: If there is no such model, it has no softmax, or its vocabulary does not fit it.
    """

    def __init__(self, model: str | Path = ELMO_SMALL_EN, *, device: str = "cpu") -> None:
        read_config(model)
        loaded, tokenizer = load(model, ElmoForMaskedLM)
        self.tokenizer = check_words_are_known(model, loaded, tokenizer)
        self.model = cast(ElmoForMaskedLM, loaded)
        move_to_device(self.model, device)
        if self.tokenizer.mask_token is None:
            self.tokenizer.add_special_tokens({"mask_token": ADDED_MASK})
        # the word of each row of the vocabulary; a line that repeats a word is shown as padding
        self._words = [PAD, *vocabulary_lines(self.tokenizer.get_vocab())][: self.model.config.vocab_size]
        special = {PAD, *self.tokenizer.all_special_tokens}
        self._is_word = torch.tensor([word not in special for word in self._words], device=self.model.device)

    def split(self, text: str, tokenize: Callable[[str], list[str]] | None = None) -> list[str]:
        """Split a text into words; a mask, written as `[MASK]` or as the tokenizer's mask token, is one word.

        Args:
            text: The text.
            tokenize: Splits the text; by default, the tokenizer does. For text that is tokenized already, pass
                `str.split`.

        Returns:
            The words, with the tokenizer's mask token for each mask.
        """
        mask = self.tokenizer.mask_token
        if tokenize is not None:
            return [mask if word == MASK else word for word in tokenize(text)]
        return self.tokenizer.tokenize(text.replace(MASK, mask))

    def find_masks(self, words: Sequence[str]) -> list[int]:
        """Return the positions of the masks in a sentence, counted from 0."""
        return [position for position, word in enumerate(words) if word == self.tokenizer.mask_token]

    @torch.inference_mode()
    def fill(self, words: Sequence[str], positions: Sequence[int], *, top: int = 10) -> list[list[Filling]]:
        """Find the most probable words for places in a sentence, each by itself.

        Args:
            words: The words of the sentence, with the tokenizer's mask token for each mask.
            positions: The places, counted from 0.
            top: The number of words for each place.

        Returns:
            For each place its words, the most probable first, without special tokens, and without the word that stands
            there, in upper or lower case.

        Raises:
            ElmoError: If `top` is not positive, or the sentence has no such place.
        """
        if top < 1:
            raise ElmoError(f"top is {top}: give 1 or more.")
        for position in positions:
            check_position(words, position)
        batch = self.tokenizer([list(words)], is_split_into_words=True, return_tensors="pt").to(self.model.device)
        inputs = read_inputs(
            self.model.config, batch.get("input_ids"), batch.get("char_ids"), batch["attention_mask"], None
        )
        top_layer = self.model.elmo.run_bilm(inputs).layers[-1]
        # [2, T, P] and [2, T] without <S>, the first row
        contexts, known = (part[:, 0, 1:] for part in self.model.read_contexts(top_layer, inputs.mask))
        fillings = []
        for start in range(0, len(positions), PLACES_AT_A_TIME):
            places = list(positions[start : start + PLACES_AT_A_TIME])
            logits, directions = self.model.score_words(contexts[:, places], known[:, places])
            for place, *scores in zip(places, logits, *directions, strict=True):
                fillings.append(self._best(words[place], *scores, top=top))
        return fillings

    def _best(
        self, word: str, logits: torch.Tensor, forward: torch.Tensor, backward: torch.Tensor, *, top: int
    ) -> list[Filling]:
        """Return the most probable words for a place, from its scores, all `[V]`, and the word that stands there."""
        logits = logits.float().masked_fill(~self._is_word, -torch.inf)
        probabilities = logits.softmax(dim=0)
        return [
            Filling(
                self._words[number], probabilities[number].item(), -forward[number].item(), -backward[number].item()
            )
            # the spellings of the word itself are among the best ones
            for number in self._without(word, logits.argsort(descending=True, stable=True), top)
        ]

    def _without(self, word: str, order: torch.Tensor, top: int) -> list[int]:
        """Return the first rows of the vocabulary that are words other than the given one."""
        best: list[int] = []
        for number in order[: int(self._is_word.sum())]:
            if len(best) == top:
                break
            if self._words[number].casefold() != word.casefold():
                best.append(int(number))
        return best


__all__ = ["MASK", "Filling", "WordFiller"]
