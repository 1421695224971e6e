"""Show what ELMo does, with the small English model that comes with the package. It needs no network.

python examples/quickstart.py
"""

from collections.abc import Sequence

import numpy as np
from transformers import AutoModelForMaskedLM, AutoTokenizer, FillMaskPipeline, PreTrainedTokenizerBase, pipeline
from transformers.utils import logging

from elmo_hf import ELMO_SMALL_EN, ElmoModel
from elmo_hf.embedding import Vectors, embed


# for each word: a sentence, another with the same meaning of the word, and two with another meaning
MEANINGS = {
    "left": (
        "he left the house .",
        "she left the room at night .",
        "on the left side of the street .",
        "turn to the left hand .",
    ),
    "bear": (
        "I can not bear this pain .",
        "they must bear the burden .",
        "the bear killed a sheep .",
        "a bear lives in the forest .",
    ),
    "will": (
        "it is the will of the people .",
        "we obey the will of God .",
        "he will come tomorrow .",
        "they will not go there .",
    ),
}

# none of these is in the model's vocabulary
UNSEEN = ("skateboarders", "shipbuilders", "colorfully", "kindheartedness")

OTHER_SENTENCES = (
    "the king went into the city with his men .",
    "we went away from the village in the morning .",
    "the right side of the ship was damaged .",
    "a wolf came down from the hill .",
    "they sold the old house to a friend .",
    "the senate passed the bill last week .",
    "I have no money to buy a new car .",
    "the law of the country protects every citizen .",
)
QUERIES = (("my brother left the town .", 2), ("the school is on the left bank of the river .", 5))

MASKED = (
    "my fellow <MASK> , we must work together .",
    "I do not <MASK> what you mean .",
    "the President of the United <MASK> .",
)


def main() -> None:
    """Run the demonstration."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(ELMO_SMALL_EN)
    model = AutoModelForMaskedLM.from_pretrained(ELMO_SMALL_EN)
    print(f"The model: elmo-small-en, {model.num_parameters():,} parameters, English")

    show_meanings(model.elmo, tokenizer)
    show_unseen_words(model.elmo, tokenizer)
    show_neighbours(model.elmo, tokenizer)
    fill_in(pipeline("fill-mask", model=model, tokenizer=tokenizer))
    print('\nNext, vectors of your own text: elmo-hf embed --text "The bank raised rates ."')


def show_meanings(model: ElmoModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Compare the vectors of one word in several sentences."""
    print("\n1. One word, two meanings")
    print("   How similar is the [word] of the first sentence to the same word in the sentences below it?")
    print("   (The cosine of their vectors. With one vector per word, as in word2vec, it would always be 1.00.)")
    for word, sentences in MEANINGS.items():
        places = [sentence.split().index(word) for sentence in sentences]
        first, *others = map(mark, sentences, places)
        vectors = unit_vectors(model, tokenizer, sentences)
        vector, *other_vectors = [rows[place] for rows, place in zip(vectors, places, strict=True)]
        print(f"\n   {first}")
        for sentence, other in zip(others, other_vectors, strict=True):
            print(f"      {vector @ other:.2f}  {sentence}")


def show_unseen_words(model: ElmoModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Find the words of the vocabulary that are most similar to words outside it."""
    print("\n2. Words outside the vocabulary")
    print("   The model reads their characters. Which four words of the vocabulary are most similar?\n")
    vocabulary = [word for word in tokenizer.get_vocab() if word not in tokenizer.all_special_tokens]
    # layer 0 sees each word by itself, without a sentence
    known, unseen = unit_vectors(model, tokenizer, [" ".join(vocabulary), " ".join(UNSEEN)], layers=0)
    for word, similarities in zip(UNSEEN, unseen @ known.T, strict=True):
        print(f"   {word:15}  {', '.join(vocabulary[i] for i in nearest(similarities, 4))}")


def show_neighbours(model: ElmoModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Find the words in other sentences that are most similar to a word in its sentence."""
    sentences = [*(sentence for group in MEANINGS.values() for sentence in group), *OTHER_SENTENCES]
    places = [(sentence, place) for sentence in sentences for place in range(len(sentence.split()))]
    candidates = np.concatenate(unit_vectors(model, tokenizer, sentences))
    print("\n3. The nearest neighbours of a word in its sentence")
    print(
        f"   Which two of the {len(places)} words in {len(sentences)} other sentences are most similar to the [word]?"
    )
    for sentence, place in QUERIES:
        similarities = candidates @ unit_vectors(model, tokenizer, [sentence])[0][place]
        print(f"\n   {mark(sentence, place)}")
        for i in nearest(similarities, 2):
            print(f"      {similarities[i]:.2f}  {mark(*places[i])}")


def fill_in(fill: FillMaskPipeline) -> None:
    """Predict words from both sides."""
    print("\n4. Fill in a word")
    print("   Which four words does the language model expect in place of <MASK>?\n")
    for text in MASKED:
        print(f"   {text:43}  {', '.join(guess['token_str'] for guess in fill(text, top_k=4))}")


def unit_vectors(
    model: ElmoModel, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str], *, layers: str | int = "mix"
) -> list[Vectors]:
    """Compute the vectors of the words of each sentence, scaled to length 1: their dot product is their cosine."""
    words = [sentence.split() for sentence in sentences]
    return [
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in embed(model, tokenizer, words, layers=layers)
    ]


def nearest(similarities: Vectors, count: int) -> list[int]:
    """Find the indices of the largest values, the largest first."""
    return np.argsort(-similarities)[:count].tolist()


def mark(sentence: str, place: int) -> str:
    """Put brackets around a word of a sentence."""
    words = sentence.split()
    return " ".join([*words[:place], f"[{words[place]}]", *words[place + 1 :]])


if __name__ == "__main__":
    main()
