"""Layers computed once are those of every epoch, in memory and on the disk, and rows are padded alike."""

import errno
import io
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding

from elmo_hf import (
    ElmoError,
    ElmoForCoreferenceResolution,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
)
from elmo_hf.data.coreference import Document
from elmo_hf.data.word_vectors import WordVectors
from elmo_hf.training import frozen_layers
from elmo_hf.training.documents import DocumentCollator, encode_document, split_documents
from elmo_hf.training.finetuning import load_task_model
from elmo_hf.training.frozen_layers import LayersCollator, compute_layers, layers_size
from support.english import ELMO_TINY_EN


NAMES = ["O", "B-PER", "I-PER"]


def rows_of(tokenizer: ElmoTokenizer) -> list[dict[str, Any]]:
    """Three sentences, the longest not the first, with the tags of their words."""
    rows = []
    for text in ("the king", "the queen is here with the king", "no"):
        row = dict(tokenizer(text))
        row["labels"] = [-100, *[1] * (len(row["input_ids"]) - 2), -100]
        rows.append(row)
    return rows


@pytest.mark.parametrize("side", ["right", "left"])
def test_layers_computed_once_give_the_loss_of_the_bilm(
    tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, side: str
) -> None:
    tokenizer.padding_side = side
    rows = rows_of(tokenizer)
    collate = LayersCollator(DataCollatorForTokenClassification(tokenizer))

    once = compute_layers(tagger, tokenizer, rows, batch_size=2)

    assert [row["bilm_layers"].shape for row in once] == [(len(row["input_ids"]), 3, 256) for row in rows]
    assert {row["bilm_layers"].dtype for row in once} == {np.dtype(np.float16)}
    assert all("char_ids" not in row for row in once)
    batch = collate(once)
    assert "char_ids" not in batch
    ran, read = tagger(**collate(rows)), tagger(**batch)
    # float16 rounds
    torch.testing.assert_close(read.loss, ran.loss, rtol=0, atol=2e-3)
    torch.testing.assert_close(read.logits, ran.logits, rtol=0, atol=2e-2)
    assert sum(row["bilm_layers"].nbytes for row in once) == layers_size(tagger.config, rows)


@pytest.mark.parametrize("characters", [0, 2])
def test_rows_keep_what_a_head_reads_beside_the_layers(characters: int) -> None:
    vectors = WordVectors(["king", "no"], "exact", 3, np.ones((4, 3), dtype=np.float32), "file", "")
    fields = {"classifier_dropout": 0.0, "task_char_embedding_dim": characters, "train_task_words": True}
    model, tokenizer = load_task_model(ElmoForTokenClassification, ELMO_TINY_EN, NAMES, word_vectors=vectors, **fields)
    assert model.task_embeddings.word_embeddings.weight.requires_grad
    rows = rows_of(tokenizer)
    collate = LayersCollator(DataCollatorForTokenClassification(tokenizer))

    once = compute_layers(model, tokenizer, rows, batch_size=2)

    assert once[0]["task_word_ids"] == [1, 1, 2, 1]
    assert {getattr(row.get("char_ids"), "dtype", None) for row in once} == {
        np.dtype(np.uint16) if characters else None
    }
    torch.testing.assert_close(model(**collate(once)).logits, model(**collate(rows)).logits, rtol=0, atol=2e-2)


def test_a_model_without_elmo_has_no_layers_to_compute(tokenizer: ElmoTokenizer) -> None:
    model, _ = load_task_model(
        ElmoForTokenClassification, ELMO_TINY_EN, NAMES, mix_at="none", task_char_embedding_dim=2
    )

    with pytest.raises(ElmoError, match=r"^This model has no biLM \(its mix_at is 'none'\): there are no layers"):
        compute_layers(model, tokenizer, rows_of(tokenizer))


def test_rows_of_one_sentence_share_their_layers(tokenizer: ElmoTokenizer) -> None:
    fields = {"head": "alternating-lstm", "head_hidden_size": 4}
    model, _ = load_task_model(ElmoForTokenClassification, ELMO_TINY_EN, NAMES, **fields)
    rows = rows_of(tokenizer)
    for row in rows:
        row["token_type_ids"] = [0] * len(row["input_ids"])
    # another predicate, and a word of other letters that has the same id
    other, unknown = {**rows[0], "token_type_ids": [1] * len(rows[0]["input_ids"])}, dict(tokenizer("Xyzzyx"))
    unknown["token_type_ids"] = [0, 1, 0]
    rows += [other, unknown, {**unknown, "char_ids": tokenizer("Xyzzyy")["char_ids"]}]

    once = compute_layers(model, tokenizer, rows)

    # all but the other predicate
    assert len(once.layers) == sum(len(row["input_ids"]) for row in rows) - len(other["input_ids"])
    assert np.shares_memory(once[-3]["bilm_layers"], once[0]["bilm_layers"])
    assert once[-3]["token_type_ids"] == other["token_type_ids"]
    assert not np.array_equal(once[-2]["bilm_layers"], once[-1]["bilm_layers"])
    assert once.layers.nbytes == layers_size(model.config, rows)


def test_layers_of_pairs(tokenizer: ElmoTokenizer) -> None:
    model, _ = load_task_model(ElmoForSequenceClassification, ELMO_TINY_EN, ["no", "yes"], head="esim")
    rows = [dict(tokenizer(*pair)) for pair in [("the king", "a queen"), ("no", "who is the king")]]
    collate = LayersCollator(DataCollatorWithPadding(tokenizer))

    once = compute_layers(model, tokenizer, rows)

    torch.testing.assert_close(model(**collate(once)).logits, model(**collate(rows)).logits, rtol=0, atol=1e-2)


def test_layers_are_computed_once_of_a_frozen_bilm_only(
    tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer
) -> None:
    tagger.unfreeze_bilm()

    with pytest.raises(ElmoError, match=r"^The biLM is trained, so its layers change: freeze it"):
        compute_layers(tagger, tokenizer, rows_of(tokenizer))


def test_no_rows_have_no_layers(tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, tmp_path: Path) -> None:
    assert len(compute_layers(tagger, tokenizer, [], cache=tmp_path)) == 0
    assert not list(tmp_path.iterdir())


def test_layers_of_documents_are_those_of_their_sentences_one_behind_the_other(tmp_path: Path) -> None:
    # sentences of 5, 4 and 6 words, the second one twice, and a document without words
    stories = [
        Document("x", [["Ann", "met", "Bob"], ["She", "left"], ["He", "saw", "her", "go"], ["She", "left"]], []),
        Document("y", [], []),
    ]
    model, tokenizer = load_task_model(ElmoForCoreferenceResolution, ELMO_TINY_EN, ())
    rows = [encode_document(story, tokenizer) for story in stories]
    sentences = split_documents(rows)

    full, empty = once = compute_layers(model, tokenizer, rows)

    alone = compute_layers(model, tokenizer, sentences)
    np.testing.assert_array_equal(full["bilm_layers"], np.concatenate([alone[n]["bilm_layers"] for n in range(4)]))
    np.testing.assert_array_equal(full["bilm_layers"][5:9], full["bilm_layers"][15:19])
    np.testing.assert_array_equal(empty["bilm_layers"], alone[4]["bilm_layers"])
    assert full["labels"] == rows[0]["labels"]
    assert "char_ids" not in full
    assert once.layers.nbytes == layers_size(model.config, rows)
    # one without words is padded with the others
    assert LayersCollator(DocumentCollator(tokenizer))([full, empty])["bilm_layers"].shape == (2, 4, 6, 3, 256)
    stored = compute_layers(model, tokenizer, rows, cache=tmp_path)
    np.testing.assert_array_equal(stored[0]["bilm_layers"], full["bilm_layers"])
    np.testing.assert_array_equal(stored[1]["bilm_layers"], empty["bilm_layers"])


def test_stored_layers_are_those_in_memory_and_cannot_be_changed(
    tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, tmp_path: Path
) -> None:
    rows = rows_of(tokenizer) * 2

    held = compute_layers(tagger, tokenizer, rows)
    stored = compute_layers(tagger, tokenizer, rows, cache=tmp_path / "new" / "cache")

    assert len(stored) == len(rows)
    for left, right in zip(held, stored, strict=True):
        np.testing.assert_array_equal(left.pop("bilm_layers"), right.pop("bilm_layers"))
        assert left == right
    np.testing.assert_array_equal(stored[-1]["bilm_layers"], held[2]["bilm_layers"])
    with pytest.raises(IndexError):
        stored[len(rows)]
    with pytest.raises(ValueError, match="read-only"):
        stored[0]["bilm_layers"][0] = 1
    # sentences that occur twice are stored once
    (file,) = (tmp_path / "new" / "cache").glob("*/layers.bin")
    assert file.stat().st_size == layers_size(tagger.config, rows) == layers_size(tagger.config, rows[:3])


def test_workers_open_the_same_file(
    tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, tmp_path: Path
) -> None:
    rows = compute_layers(tagger, tokenizer, rows_of(tokenizer), cache=tmp_path)

    copied = pickle.loads(pickle.dumps(rows))  # noqa: S301 - its own

    assert len(pickle.dumps(rows.layers)) < 1000
    np.testing.assert_array_equal(copied[1]["bilm_layers"], rows[1]["bilm_layers"])
    collate = LayersCollator(DataCollatorForTokenClassification(tokenizer))
    here, there = (DataLoader(rows, 2, collate_fn=collate, num_workers=workers) for workers in (0, 1))  # type: ignore[arg-type]
    for left, right in zip(here, there, strict=True):
        assert torch.equal(left["bilm_layers"], right["bilm_layers"])


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many words had layers each time that the biLM was run."""
    words: list[int] = []
    run = frozen_layers._run

    def note(model: Any, tokenizer: Any, plan: Any, *rest: Any) -> Any:
        # a generator, because what is never read is not run
        words.append(plan.words)
        yield from run(model, tokenizer, plan, *rest)

    monkeypatch.setattr(frozen_layers, "_run", note)
    return words


def test_layers_of_the_same_bilm_and_sentences_are_computed_once(
    tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, tmp_path: Path, computed: list[int]
) -> None:
    rows = rows_of(tokenizer)
    first = compute_layers(tagger, tokenizer, rows, cache=tmp_path)

    # another head, other labels, another mix, and a second row of the first sentence
    other, _ = load_task_model(ElmoForTokenClassification, ELMO_TINY_EN, ["O"], default_head="bilstm-crf")
    other.elmo.scalar_mix.gamma.data.fill_(3)
    again = compute_layers(other, tokenizer, [*({**row, "labels": [-100]} for row in rows), rows[0]], cache=tmp_path)

    assert len(computed) == 1
    for one, two in ((0, 0), (1, 1), (2, 2), (0, 3)):
        np.testing.assert_array_equal(first[one]["bilm_layers"], again[two]["bilm_layers"])
    facts = json.loads(next(tmp_path.glob("*/layers.json")).read_bytes())
    assert facts["model"] == tagger.name_or_path
    assert facts["shape"] == [4 + 9 + 3, 3, 256]


def change_weight(model: ElmoForTokenClassification, rows: list[dict[str, Any]]) -> None:  # noqa: ARG001 - as the others
    model.elmo.layers[1].recurrent_weight.data.view(-1)[-1] += 0.5


def change_field(model: ElmoForTokenClassification, rows: list[dict[str, Any]]) -> None:  # noqa: ARG001 - as the others
    model.config.cell_clip = 0.1


def change_dtype(model: ElmoForTokenClassification, rows: list[dict[str, Any]]) -> None:  # noqa: ARG001 - as the others
    torch.nn.Module.to(model, torch.bfloat16)


def change_letter(model: ElmoForTokenClassification, rows: list[dict[str, Any]]) -> None:  # noqa: ARG001 - as the others
    rows[0]["char_ids"] = [list(word) for word in rows[0]["char_ids"]]
    rows[0]["char_ids"][1][2] += 1


def change_order(model: ElmoForTokenClassification, rows: list[dict[str, Any]]) -> None:  # noqa: ARG001 - as the others
    rows.reverse()


@pytest.mark.parametrize("change", [change_weight, change_field, change_dtype, change_letter, change_order])
def test_what_changes_layers_is_computed_again(
    change: Callable[[Any, Any], None],
    tagger: ElmoForTokenClassification,
    tokenizer: ElmoTokenizer,
    tmp_path: Path,
    computed: list[int],
) -> None:
    rows = rows_of(tokenizer)
    compute_layers(tagger, tokenizer, rows, cache=tmp_path)
    change(tagger, rows)

    stored = compute_layers(tagger, tokenizer, rows, cache=tmp_path)

    assert len(computed) == len(list(tmp_path.glob("*/layers.json"))) == 2
    held = compute_layers(tagger, tokenizer, rows)
    for left, right in zip(held, stored, strict=True):
        np.testing.assert_array_equal(left["bilm_layers"], right["bilm_layers"])


def cut(folder: Path) -> None:
    path = folder / "layers.bin"
    path.write_bytes(path.read_bytes()[:-1])


def forget_facts(folder: Path) -> None:
    (folder / "layers.json").unlink()


def damage_facts(folder: Path) -> None:
    (folder / "layers.json").write_text('{"shape": [1, "2", 3]}')


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut, r"layers\.bin has 24,575 bytes in place of 24,576"),
        (forget_facts, "No such file"),
        (damage_facts, "[^)]*"),
    ],
)
def test_damaged_files_are_never_read(
    damage: Callable[[Path], None],
    reason: str,
    tagger: ElmoForTokenClassification,
    tokenizer: ElmoTokenizer,
    tmp_path: Path,
) -> None:
    folder = compute_layers(tagger, tokenizer, rows_of(tokenizer), cache=tmp_path).layers.folder
    damage(folder)

    message = rf"^\S*{folder.name} holds no whole layers \([^\n]*{reason}.*\): delete it\.$"
    with pytest.raises(ElmoError, match=message):
        compute_layers(tagger, tokenizer, rows_of(tokenizer), cache=tmp_path)


def test_a_disk_without_room_is_one_line_before_the_bilm_is_run(
    tagger: ElmoForTokenClassification,
    tokenizer: ElmoTokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    computed: list[int],
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=24_575))

    with pytest.raises(
        ElmoError,
        match=r"^\S+ cannot be written \(No space left on device: 24,576 bytes are needed, 24,575 are free\): make "
        r"room, or choose another place\.$",
    ):
        compute_layers(tagger, tokenizer, rows_of(tokenizer), cache=tmp_path)
    assert not computed


def test_a_disk_that_fills_up_is_one_line_and_leaves_no_layers(
    tagger: ElmoForTokenClassification, tokenizer: ElmoTokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullFile(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda *_: FullFile())
        with pytest.raises(ElmoError, match=r"^\S+ cannot be written \(No space left on device\): make room, or"):
            compute_layers(tagger, tokenizer, rows_of(tokenizer), cache=tmp_path)

    assert not [*tmp_path.glob(".*"), *tmp_path.glob("*/*")]
    # the next run with more room
    assert len(compute_layers(tagger, tokenizer, rows_of(tokenizer), cache=tmp_path)) == 3
