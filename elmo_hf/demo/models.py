"""What the page shows of a model, each tab by one method of `DemoModel`.

Shape notation: `N` words, `L` biLSTM layers.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf.embedding.index_files import unit_vectors
from elmo_hf.embedding.lazy_model import LazyModel
from elmo_hf.embedding.loading import load
from elmo_hf.embedding.neighbours import Neighbour, NeighbourIndex
from elmo_hf.embedding.occurrences import Occurrence
from elmo_hf.embedding.vectors import Vectors, embed
from elmo_hf.errors import ElmoError, counted, one_line
from elmo_hf.hub.fetching import fetch_model
from elmo_hf.inspection import read_config
from elmo_hf.model.modeling_elmo import ElmoForMaskedLM, ElmoForPreTraining
from elmo_hf.training.filling import MASK, Filling, WordFiller
from elmo_hf.training.perplexity import WordScore, score_each_word

from .text import Sentences


# what stays in memory: models, and for each of them texts, whose vectors and indexes of each layer are kept
MODELS, TEXTS = 4, 4
# rows of a table
TOP = 10
# occurrences of the same word, and other words, that the layers are compared on
SAME_WORD, OTHER_WORDS = 8, 5

_LOADING = Lock()


class DemoModel:
    """A model that is loaded once, for all tabs.

    Words are shown as the user wrote them: a mask is `[MASK]`, whatever the tokenizer calls it.

    Args:
        name: A model folder, `elmo-small-en`, or a name on the Hub.

    Attributes:
        name: The name.
        layers: The layers that vectors may come from, by their names on the page.

    Raises:
        ElmoError: If there is no such model, or it is damaged.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder = fetch_model(name)
        config = read_config(self._folder)
        upper = {f"layer {number}": number for number in range(1, config.num_hidden_layers + 1)}
        self.layers: dict[str, str | int] = {"mix": "mix", "token layer": 0, **upper}
        self._model: PreTrainedModel
        self._tokenizer: PreTrainedTokenizerBase
        self._filler: WordFiller | None = None
        try:
            self._filler = WordFiller(self._folder)
            self._model, self._tokenizer = self._filler.model, self._filler.tokenizer
        except ElmoError as error:
            # a model without a softmax still has vectors; a damaged one is refused again
            self._why_no_words = one_line(error)
            self._model, self._tokenizer = load(self._folder)
        self._embed = lru_cache(TEXTS)(self._embed_text)
        self._index = lru_cache(len(self.layers) * TEXTS)(self._make_index)

    def describe(self) -> str:
        """Return the name of the model with its size."""
        config = self._model.config
        layers = counted(config.num_hidden_layers, "biLSTM layer")
        return f"{self.name}: {layers}, {counted(config.hidden_size, 'number')} a word"

    def split(self, text: str) -> list[str]:
        """Split a sentence into words; `[MASK]` is one word if the model can fill it in."""
        return self._tokenizer.tokenize(text) if self._filler is None else self._filler.split(text)

    @property
    def mask(self) -> str | None:
        """The word that stands for a missing one, as `split` returns it; `None` if the model has none."""
        return self._tokenizer.mask_token

    def shown(self, words: Iterable[str]) -> list[str]:
        """Return the words as they are shown."""
        return [MASK if word == self.mask else word for word in words]

    def find_neighbours(
        self, sentences: Sentences, place: Occurrence, *, layer: str, distinct: bool = False
    ) -> list[Neighbour]:
        """Find the words of the other sentences that are nearest to a word.

        Args:
            sentences: The sentences to search in.
            place: The word in its sentence.
            layer: The name of a layer.
            distinct: Whether to return each word only once.
        """
        found = self._index(sentences, self.layers[layer]).search(place, top=TOP, distinct=distinct)
        return [self._shown(neighbour) for neighbour in found]

    def compare_words(self, first: Sequence[str], second: Sequence[str], *, layer: str) -> NDArray[np.float32]:
        """Compute the cosine of each word of a sentence with each word of another, `[N1, N2]`."""
        vectors = self._lazy(self.layers[layer]).embed([list(first), list(second)])
        down, across = map(unit_vectors, vectors)
        return down @ across.T

    def compare_layers(
        self, sentences: Sentences, place: Occurrence
    ) -> tuple[list[Neighbour], dict[str, NDArray[np.float32]]]:
        """Compute how similar a word is to others in each layer.

        Args:
            sentences: The sentences.
            place: The word in one of these sentences.

        Returns:
            The other occurrences of the word and then its nearest neighbours, all by the mix of all layers; and by the
            name of each layer the cosines `[N]`.
        """
        index = self._index(sentences, "mix")
        same, others = [], dict[str, Neighbour]()
        for neighbour in index.search(place, top=len(index)):
            word = neighbour.word.casefold()
            if word == place.word.casefold():
                same.append(neighbour)
            else:
                others.setdefault(word, neighbour)
        found = [*same[:SAME_WORD], *islice(others.values(), OTHER_WORDS)]
        rows = [neighbour.row for neighbour in found]
        number = sentences.index(tuple(place.words))
        own = sum(map(len, sentences[:number])) + place.position
        cosines = {}
        for name, layer in self.layers.items():
            index = self._index(sentences, layer)
            cosines[name] = index.cosines(index.vectors[own])[rows]
        return [self._shown(neighbour) for neighbour in found], cosines

    def fill(self, place: Occurrence) -> list[Filling]:
        """Find the words that the model expects in a place.

        Raises:
            ElmoError: If the model has no softmax.
        """
        (fillings,) = self._language_model().fill(place.words, [place.position], top=TOP)
        return fillings

    def score(self, words: Sequence[str]) -> list[WordScore]:
        """Compute the loss of each word of a sentence, in both directions.

        Raises:
            ElmoError: If the model has no softmax.
        """
        filler = self._language_model()
        scores = score_each_word(_for_pretraining(filler.model), filler.tokenizer, list(words))
        return [score._replace(word=self.shown([score.word])[0]) for score in scores]

    def _language_model(self) -> WordFiller:
        if self._filler is None:
            raise ElmoError(self._why_no_words)
        return self._filler

    def _lazy(self, layer: str | int) -> LazyModel:
        return LazyModel(self._folder, layers=layer, loaded=(self._model, self._tokenizer))

    def _embed_text(self, sentences: Sentences) -> list[Vectors]:
        """Compute all layers of each sentence, `[L + 1, words, H]`: once, which is what takes long."""
        return list(embed(self._model, self._tokenizer, map(list, sentences), layers="all"))

    @torch.inference_mode()
    def _mix(self, layers: Vectors) -> Vectors:
        """Mix all layers `[L + 1, words, H]` to `[words, H]`, as the model does."""
        base: Any = self._model.base_model
        mixed: Vectors = base.scalar_mix([*torch.from_numpy(layers)[:, None]])[0].numpy()
        return mixed

    def _make_index(self, sentences: Sentences, layer: str | int) -> NeighbourIndex:
        """Make the index of a layer."""
        layers = self._embed(sentences)
        vectors = [own[layer] if isinstance(layer, int) else self._mix(own) for own in layers]
        placed = [("the text", number, words) for number, words in enumerate(sentences, start=1)]
        return NeighbourIndex.in_memory(placed, vectors, self._lazy(layer))

    def _shown(self, neighbour: Neighbour) -> Neighbour:
        words, position = neighbour.occurrence
        return neighbour._replace(occurrence=Occurrence(self.shown(words), position))


def _for_pretraining(model: ElmoForMaskedLM) -> ElmoForPreTraining:
    """Return the language model that has the weights of this one, and not a copy of them."""
    with torch.device("meta"):
        shared = ElmoForPreTraining(model.config)
    shared.elmo, shared.softmax = model.elmo, model.softmax
    return shared.eval()


@lru_cache(MODELS)
def _load_once(name: str) -> DemoModel:
    return DemoModel(name)


def load_model(name: str) -> DemoModel:
    """Load a model, or return the one that is loaded already.

    Args:
        name: As for `DemoModel`.

    Raises:
        ElmoError: If there is no such model, or it is damaged.
    """
    with _LOADING:
        return _load_once(name.strip())


__all__ = ["DemoModel", "load_model"]
