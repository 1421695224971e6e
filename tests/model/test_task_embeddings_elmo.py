"""`task_embeddings_elmo`: words of the task and its characters against a loop in NumPy, padding, gradients, errors."""

import numpy as np
import pytest
import torch

from elmo_hf import ElmoConfig
from elmo_hf.model.task_embeddings_elmo import ElmoTaskEmbeddings
from support.tiny_models import stack, tiny_config


Array = np.ndarray
Batch = dict[str, torch.Tensor]

WORDS = {"num_task_words": 9, "task_word_embedding_dim": 5}
CHARACTERS = {"task_char_embedding_dim": 3, "task_char_filters": [[3, 4], [2, 6]]}


def make(**fields: object) -> ElmoTaskEmbeddings:
    """Embeddings with random weights, in float64."""
    torch.manual_seed(0)
    module = ElmoTaskEmbeddings(tiny_config(**fields)).double().eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def words_of(lengths: list[int]) -> list[Batch]:
    """Sentences with ids in the task's vocabulary and words of every length, the longest without an end."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for length in lengths:
        char_ids = torch.full((1, length, 20), 261)
        for word in range(length):
            size = (1, 20, 5, 11)[word % 4]
            char_ids[0, word, :size] = torch.randint(1, 261, (size,), generator=generator)
        rows.append({"task_word_ids": torch.randint(1, 9, (1, length), generator=generator), "char_ids": char_ids})
    for part in rows:
        part["input_ids"] = torch.ones_like(part["task_word_ids"])
    return rows


def expected(module: ElmoTaskEmbeddings, task_word_ids: Array, char_ids: Array) -> Array:
    """Embed the words of one sentence in NumPy, word by word and window by window."""
    weights = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    vectors = []
    for number, characters in zip(task_word_ids, char_ids, strict=True):
        parts = []
        if "word_embeddings.weight" in weights:
            parts.append(weights["word_embeddings.weight"][number])
        if "char_embeddings.weight" in weights:
            # [S, E]
            spelled = weights["char_embeddings.weight"][characters]
            for index in range(2):
                # [filters, E, width]
                filters, bias = weights[f"convolutions.{index}.weight"], weights[f"convolutions.{index}.bias"]
                width = filters.shape[2]
                windows = [
                    [(one * spelled[start : start + width].T).sum() for one in filters]
                    for start in range(len(spelled) - width + 1)
                ]
                parts.append(np.maximum(np.max(np.array(windows) + bias, axis=0), 0))
        vectors.append(np.concatenate(parts))
    return np.array(vectors)


@pytest.mark.parametrize("fields", [WORDS, CHARACTERS, WORDS | CHARACTERS], ids=["words", "characters", "both"])
@pytest.mark.parametrize("left", [False, True])
def test_equals_numpy_on_each_sentence_with_any_padding(fields: dict, left: bool) -> None:
    module = make(**fields)
    rows = words_of([4, 1, 7])
    batch = stack(rows, left=left)
    mask = batch["input_ids"] != 0

    result = module.read(batch["task_word_ids"], batch["char_ids"], mask).detach()

    assert result.shape[2] == tiny_config(**fields).task_embedding_dim
    assert not result[~mask].any()
    for number, row in enumerate(rows):
        wanted = expected(module, row["task_word_ids"][0].numpy(), row["char_ids"][0].numpy())
        np.testing.assert_allclose(result[number][mask[number]].numpy(), wanted, rtol=0, atol=1e-12)


def test_widths() -> None:
    assert ElmoConfig().task_embedding_dim == 0
    assert ElmoConfig(task_char_embedding_dim=16).task_embedding_dim == 128
    config = tiny_config(**WORDS, **CHARACTERS)
    assert config.task_embedding_dim == 15
    widths = [
        (config.head_input_size, config.output_mix_size) for config.mix_at in ("input", "output", "both", "none")
    ]
    assert widths == [(31, 0), (15, 16), (31, 16), (15, 0)]
    plain = tiny_config()
    assert [(plain.head_input_size, plain.output_mix_size) for plain.mix_at in ("input", "output", "both")] == [
        (16, 0),
        (16, 16),
        (16, 16),
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mix_at": "none"}, r"`mix_at` is 'none' and the task has no words or characters of its own, so its head"),
        ({"task_word_embedding_dim": 5}, r"`num_task_words` is 0: a task with words of its own needs the number"),
        (
            {"task_char_embedding_dim": 2, "task_char_filters": [[21, 3]]},
            r"`task_char_filters` has \[21, 3\]; it takes \[width, filters\] with a width of 1 to "
            r"`max_characters_per_token`, which is 20",
        ),
    ],
)
def test_sizes_that_make_no_model_are_refused(fields: dict, message: str) -> None:
    # the error of strict dataclasses
    with pytest.raises(Exception, match=message):
        tiny_config(**fields)


@pytest.mark.parametrize(
    ("fields", "changes", "message"),
    [
        (
            WORDS,
            {"task_word_ids": None},
            r"^This model reads words of its task: pass `task_word_ids`, as the tokenizer that",
        ),
        (WORDS, {"task_word_ids": torch.ones(1, 3)}, r"^`task_word_ids` is of torch.float32: pass integers"),
        (
            WORDS,
            {"task_word_ids": torch.tensor([[1, 9, 2]])},
            r"^`task_word_ids` goes from 1 to 9 but this model has ids 0 to 8",
        ),
        (
            WORDS,
            {"task_word_ids": torch.ones(1, 2).long()},
            r"^`task_word_ids` and `char_ids` have \[\(1, 2\)\] sentences and",
        ),
        (CHARACTERS, {"char_ids": None}, r"^This model reads characters: pass `char_ids`"),
    ],
)
def test_ids_that_do_not_fit_are_named(fields: dict, changes: dict, message: str) -> None:
    row = words_of([3])[0] | changes

    with pytest.raises(ValueError, match=message):
        make(**fields).read(row["task_word_ids"], row["char_ids"], torch.ones(1, 3).bool())


def test_finds_the_words_by_what_is_there() -> None:
    module, batch = make(**WORDS, **CHARACTERS), stack(words_of([2, 4]))
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    input_ids, task_word_ids, char_ids = batch["input_ids"], batch["task_word_ids"], batch["char_ids"]

    for given in (
        (None, mask, None, None),
        (input_ids, None, None, None),
        (None, None, task_word_ids, None),
        (None, None, None, char_ids),
    ):
        assert torch.equal(module.find_mask(*given, 0), mask.bool())
