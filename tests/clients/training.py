"""A task for each head, small and quick, for the tests that train by Trainer, in one process or several."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

from elmo_hf import ElmoForSequenceClassification, ElmoForTokenClassification, ElmoTokenizer
from support.tiny_models import tiny_config


NAMES = ["O", "B-PER", "I-PER"]
WORDS = ["the", "river", "saw", "Ann", "Bob", "Lee", "and", "left", "."]
TAGGERS = ["linear", "bilstm-crf", "alternating-lstm"]
HEADS = [*TAGGERS, "mean", "max", "bcn", "esim"]
# "max" reads single sentences too, as "mean" does here
PAIR_HEADS = ["max", "esim"]

Example = dict[str, Any]


def make_tokenizer() -> ElmoTokenizer:
    return ElmoTokenizer(["<S>", "</S>", "<UNK>", *WORDS], max_characters_per_token=20)


def sentences(count: int, seed: int = 0) -> list[list[str]]:
    """Sentences of 1 to 12 words, in no order of their lengths."""
    generator = torch.Generator().manual_seed(seed)
    return [
        [WORDS[int(word)] for word in torch.randint(len(WORDS), (1 + number * 5 % 12,), generator=generator)]
        for number in range(count)
    ]


def tag(words: list[str]) -> list[int]:
    """Label names, which begin with a capital: 1 at the first word of one, 2 at the next ones."""
    tags: list[int] = []
    for word in words:
        inside = bool(tags and tags[-1])
        tags.append(1 + inside if word[0].isupper() else 0)
    return tags


def make_examples(head: str, count: int = 16, seed: int = 0) -> list[Example]:
    tokenizer, examples = make_tokenizer(), []
    texts = sentences(count, seed)
    for number, words in enumerate(texts):
        pair = [texts[number - 1]] if head in PAIR_HEADS else []
        encoded = dict(tokenizer(words, *pair, is_split_into_words=True))
        tags = tag(words)
        if head in TAGGERS:
            encoded["labels"] = [-100, *tags, -100]
            # only heads of roles read it
            encoded["token_type_ids"] = [int(label == 1) for label in encoded["labels"]]
        else:
            encoded["labels"] = min(sum(label == 1 for label in tags), 2)
        examples.append(encoded)
    return examples


def make_model(head: str, **fields: object) -> ElmoForTokenClassification | ElmoForSequenceClassification:
    cls = ElmoForTokenClassification if head in TAGGERS else ElmoForSequenceClassification
    defaults = {
        "vocab_size": len(make_tokenizer()),
        "head": head,
        "head_hidden_size": 6,
        "id2label": dict(enumerate(NAMES)),
        "classifier_dropout": 0.0,
        "cell_clip": 3.0,
        "projection_clip": 3.0,
    }
    return cls(tiny_config(**{**defaults, **fields}))


def make_trainer(
    folder: Path,
    head: str,
    *,
    fields: dict[str, object] | None = None,
    examples: list[Example] | None = None,
    cls: type[Trainer] = Trainer,
    callbacks: list[Any] | None = None,
    **arguments: object,
) -> Trainer:
    """A new tiny model and its trainer, the same each time."""
    set_seed(3)
    tokenizer = make_tokenizer()
    collator = DataCollatorForTokenClassification if head in TAGGERS else DataCollatorWithPadding
    defaults = {
        "max_steps": 6,
        "per_device_train_batch_size": 4,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.1,
        "report_to": "none",
        "save_strategy": "no",
        "logging_steps": 1,
        "use_cpu": True,
        "disable_tqdm": True,
        "seed": 3,
        "dataloader_pin_memory": False,
    }
    return cls(
        make_model(head, **(fields or {})),
        TrainingArguments(str(folder), **{**defaults, **arguments}),
        train_dataset=make_examples(head) if examples is None else examples,
        eval_dataset=make_examples(head, 7, seed=1),
        data_collator=collator(tokenizer),
        processing_class=tokenizer,
        callbacks=callbacks,
    )


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: part.clone() for name, part in trainer.model.state_dict().items()}


def losses(trainer: Trainer, name: str = "loss") -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]
