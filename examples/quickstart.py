"""Show what ELMo does, with the small English model that comes with the package. It needs no network.

python examples/quickstart.py
"""

import numpy as np
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline
from transformers.utils import logging

from elmo_hf import ELMO_TINY_EN
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
UNSEEN = ("democratically", "preachers", "shipbuilders", "truthfulness")

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
    tokenizer = AutoTokenizer.from_pretrained(ELMO_TINY_EN)
    language_model = AutoModelForMaskedLM.from_pretrained(ELMO_TINY_EN)
    print(f"The model: {ELMO_TINY_EN.name}, {language_model.num_parameters():,} parameters, English")

    def vectors_of(sentences: list[str], layers: str | int = "mix") -> list[Vectors]:
        """Compute one vector of length 1 for each word, so that a dot product is the cosine of two words."""
        words = [sentence.split() for sentence in sentences]
        return [unit(vectors) for vectors in embed(language_model.elmo, tokenizer, words, layers=layers)]

    print("\n1. One word, two meanings")
    print("   How similar is the [word] of the first sentence to the same word in the sentences below it?")
    print("   (The cosine of their vectors. With one vector per word, as in word2vec, it would always be 1.00.)")
    for word, sentences in MEANINGS.items():
        places = [sentence.split().index(word) for sentence in sentences]
        first, *others = [vectors[i] for vectors, i in zip(vectors_of(list(sentences)), places, strict=True)]
        print(f"\n   {mark(sentences[0], places[0])}")
        for sentence, place, vector in zip(sentences[1:], places[1:], others, strict=True):
            print(f"      {first @ vector:.2f}  {mark(sentence, place)}")

    print("\n2. Words outside the vocabulary")
    print("   The model reads their characters. Which four words of the vocabulary are most similar?\n")
    vocabulary = [word for word in tokenizer.get_vocab() if word not in tokenizer.all_special_tokens]
    # layer 0 knows a word by itself, without a sentence
    [known] = vectors_of([" ".join(vocabulary)], layers=0)
    [unseen] = vectors_of([" ".join(UNSEEN)], layers=0)
    for word, similarities in zip(UNSEEN, unseen @ known.T, strict=True):
        print(f"   {word:14}  {', '.join(vocabulary[i] for i in nearest(similarities, 4))}")

    sentences = [*(sentence for group in MEANINGS.values() for sentence in group), *OTHER_SENTENCES]
    places = [(sentence, place) for sentence in sentences for place in range(len(sentence.split()))]
    candidates = np.concatenate(vectors_of(sentences))
    print("\n3. The nearest neighbours of a word in its sentence")
    print(
        f"   Which two of the {len(places)} words in {len(sentences)} other sentences are most similar to the [word]?"
    )
    for sentence, place in QUERIES:
        similarities = candidates @ vectors_of([sentence])[0][place]
        print(f"\n   {mark(sentence, place)}")
        for i in nearest(similarities, 2):
            print(f"      {similarities[i]:.2f}  {mark(*places[i])}")

    print("\n4. Fill in a word")
    print("   Which four words does the language model expect in place of <MASK>?\n")
    fill = pipeline("fill-mask", model=language_model, tokenizer=tokenizer)
    for text in MASKED:
        print(f"   {text:43}  {', '.join(guess['token_str'] for guess in fill(text, top_k=4))}")
    print('\nNext, vectors of your own text: elmo-hf embed --text "The bank raised rates ."')


def unit(vectors: Vectors) -> Vectors:
    """Scale each row to length 1."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def nearest(similarities: Vectors, count: int) -> list[int]:
    """Find the indices of the largest values, the largest first."""
    return np.argsort(-similarities)[:count].tolist()


def mark(sentence: str, place: int) -> str:
    """Put brackets around a word of a sentence."""
    words = sentence.split()
    return " ".join([*words[:place], f"[{words[place]}]", *words[place + 1 :]])


if __name__ == "__main__":
    main()
