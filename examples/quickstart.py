"""What ELMo does, on the small English model that comes with the package; no network is needed.

python examples/quickstart.py
"""

import torch
from torch.nn.functional import cosine_similarity, normalize
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerBase, pipeline
from transformers.utils import logging

from elmo_hf import ELMO_TINY_EN, ElmoModel


# the word of each pair of sentences in one meaning, then in another
MEANINGS = {
    "left": (
        ("he left the house .", "she left the room at night ."),
        ("on the left side of the street .", "turn to the left hand ."),
    ),
    "bear": (
        ("I can not bear this pain .", "they must bear the burden ."),
        ("the bear killed a sheep .", "a bear lives in the forest ."),
    ),
    "will": (
        ("it is the will of the people .", "we obey the will of God ."),
        ("he will come tomorrow .", "they will not go there ."),
    ),
}

# words that the model was not trained on; it reads them by their characters
UNSEEN = ("democratically", "preachers", "shipbuilders", "truthfulness")

# where the words of the queries below look for their like
SENTENCES = [sentence for meanings in MEANINGS.values() for pair in meanings for sentence in pair] + [
    "the king went into the city with his men .",
    "we went away from the village in the morning .",
    "the right side of the ship was damaged .",
    "a wolf came down from the hill .",
    "they sold the old house to a friend .",
    "the senate passed the bill last week .",
    "I have no money to buy a new car .",
    "the law of the country protects every citizen .",
]
QUERIES = [("my brother left the town .", 2), ("the school is on the left bank of the river .", 5)]

FILL_IN = ("my fellow <MASK> , we must work together .", "I do not <MASK> what you mean .", "thank you very <MASK> .")


def main() -> None:
    """Run the demonstration."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    print("1. Load the model with the Auto classes")
    tokenizer = AutoTokenizer.from_pretrained(ELMO_TINY_EN)
    language_model = AutoModelForMaskedLM.from_pretrained(ELMO_TINY_EN)
    model = language_model.elmo
    print(f"   {language_model.num_parameters():,} parameters, from {ELMO_TINY_EN}")

    print("\n2. One spelling, two meanings: the cosine of its vectors in two sentences")
    for word, (first, second) in MEANINGS.items():
        vectors = [embed(model, tokenizer, [sentence])[0][sentence.split().index(word)] for sentence in first + second]
        same = [cosine(vectors[0], vectors[1]), cosine(vectors[2], vectors[3])]
        other = [cosine(one, two) for one in vectors[:2] for two in vectors[2:]]
        print(f"   {word:6} the same {same[0]:.2f} {same[1]:.2f}   another {min(other):.2f} to {max(other):.2f}")

    print("\n3. Words it never saw, and the words of its vocabulary that are most like them in the token layer")
    vocabulary = [word for word in tokenizer.get_vocab() if word not in tokenizer.all_special_tokens]
    table = normalize(token_layer(model, tokenizer, vocabulary), dim=1)
    for word in UNSEEN:
        best = (table @ normalize(token_layer(model, tokenizer, [word]), dim=1)[0]).topk(4).indices
        print(f"   {word:15} {', '.join(vocabulary[i] for i in best)}")

    print("\n4. A word in its sentence, and its nearest neighbours in others (as table 4 of the paper)")
    places = [(sentence, place) for sentence in SENTENCES for place in range(len(sentence.split()))]
    known = normalize(torch.cat(embed(model, tokenizer, SENTENCES)), dim=1)
    for sentence, place in QUERIES:
        vector = normalize(embed(model, tokenizer, [sentence])[0][place], dim=0)
        print(f"   {mark(sentence, place)}")
        for i in (known @ vector).topk(2).indices:
            print(f"      {mark(*places[i])}")

    print("\n5. Fill in a word, from what is left and right of it")
    fill = pipeline("fill-mask", model=language_model, tokenizer=tokenizer)
    for text in FILL_IN:
        print(f"   {text}  {', '.join(guess['token_str'] for guess in fill(text, top_k=4))}")
    print("\nTry next: elmo-hf embed --text 'The bank raised rates .'")


@torch.inference_mode()
def embed(model: ElmoModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str]) -> list[torch.Tensor]:
    """Get the ELMo vectors of the words of each sentence, `[words, H]`, without the boundaries."""
    batch = tokenizer(
        [text.split() for text in sentences], is_split_into_words=True, padding=True, return_tensors="pt"
    )
    vectors = model(**batch).last_hidden_state
    return [row[1 : 1 + len(text.split())] for row, text in zip(vectors, sentences, strict=True)]


@torch.inference_mode()
def token_layer(model: ElmoModel, tokenizer: PreTrainedTokenizerBase, words: list[str]) -> torch.Tensor:
    """Get what the model knows of words by themselves, `[words, H]`: its layer 0."""
    batch = tokenizer([words], is_split_into_words=True, add_special_tokens=False, return_tensors="pt")
    return model(**batch, output_hidden_states=True).hidden_states[0][0]


def cosine(one: torch.Tensor, two: torch.Tensor) -> float:
    """Compare two vectors: 1 for the same direction."""
    return cosine_similarity(one, two, dim=0).item()


def mark(sentence: str, place: int) -> str:
    """Put a word of a sentence in brackets."""
    words = sentence.split()
    return " ".join([*words[:place], f"[{words[place]}]", *words[place + 1 :]])


if __name__ == "__main__":
    main()
