"""What the tests of clients share: the tokenizer of elmo-tiny-en, and taggers that know some sentences by heart."""

from collections.abc import Callable

import pytest
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

from clients.annotated import ANNOTATED, NAMES
from elmo_hf import ElmoForTokenClassification, ElmoTokenizer
from support.english import ELMO_TINY_EN


@pytest.fixture(scope="session")
def tokenizer() -> ElmoTokenizer:
    return AutoTokenizer.from_pretrained(ELMO_TINY_EN)


@pytest.fixture(scope="session")
def trained_tagger(tokenizer: ElmoTokenizer) -> Callable[[str], ElmoForTokenClassification]:
    """Make a tagger with a head of this name that knows the sentences of `ANNOTATED` by heart."""
    made: dict[str, ElmoForTokenClassification] = {}

    def make(head: str) -> ElmoForTokenClassification:
        if head not in made:
            made[head] = learn_by_heart(head, tokenizer)
        return made[head]

    return make


def learn_by_heart(head: str, tokenizer: ElmoTokenizer) -> ElmoForTokenClassification:
    torch.manual_seed(0)
    tagger = AutoModelForTokenClassification.from_pretrained(
        ELMO_TINY_EN, id2label=dict(enumerate(NAMES)), head=head, head_hidden_size=16, classifier_dropout=0.1
    ).train()
    batch = tokenizer(
        [example.words for example in ANNOTATED], is_split_into_words=True, padding=True, return_tensors="pt"
    )
    labels = torch.full_like(batch["input_ids"], -100)
    for row, example in enumerate(ANNOTATED):
        labels[row, 1 : len(example.tags) + 1] = torch.tensor([NAMES.index(tag) for tag in example.tags])
    optimizer = torch.optim.AdamW([part for part in tagger.parameters() if part.requires_grad], lr=2e-2)
    for _ in range(40):
        tagger(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return tagger.eval()
