"""The library datasets, as it is: `map` runs the tokenizer, in processes too, and finds again what it computed."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, DataCollatorWithPadding

from elmo_hf import ElmoTokenizer
from support.english import ELMO_TINY_EN


datasets = pytest.importorskip("datasets")

WORDS = [["The", "bank", "."], [], ["New-York", "日本"], ["a"] * 7]

Encode = Callable[[dict[str, Any]], Any]


@pytest.fixture
def data(tmp_path: Path) -> Any:
    """Twenty sentences on disk, as what is only in memory is not cached."""
    datasets.Dataset.from_dict({"words": WORDS * 5}).to_parquet(tmp_path / "data.parquet")
    return datasets.Dataset.from_parquet(str(tmp_path / "data.parquet"), cache_dir=str(tmp_path / "cache"))


def encoding(tokenizer: ElmoTokenizer) -> Encode:
    return lambda rows: tokenizer(rows["words"], is_split_into_words=True)


def test_map_gives_what_the_tokenizer_gives(data: Any, tokenizer: ElmoTokenizer) -> None:
    encoded = data.map(encoding(tokenizer), batched=True, batch_size=6)

    direct = tokenizer(WORDS * 5, is_split_into_words=True)
    assert {name: encoded[name][:] for name in direct} == dict(direct)


def test_processes_give_the_same(data: Any, tokenizer: ElmoTokenizer) -> None:
    def encode(rows: dict[str, Any]) -> dict[str, Any]:
        return {**tokenizer(rows["words"], is_split_into_words=True), "process": [os.getpid()] * len(rows["words"])}

    together = data.map(encode, batched=True, batch_size=6, num_proc=2)

    assert len(set(together["process"]) - {os.getpid()}) == 2
    direct = tokenizer(WORDS * 5, is_split_into_words=True)
    assert {name: together[name][:] for name in direct} == dict(direct)


def test_what_was_computed_is_found_again(data: Any) -> None:
    first = AutoTokenizer.from_pretrained(ELMO_TINY_EN)
    encoded = data.map(encoding(first), batched=True)
    # use leaves no trace in it, and another one is the same
    first(["a b", "c"], padding=True, truncation=True, max_length=3)

    for tokenizer in (first, AutoTokenizer.from_pretrained(ELMO_TINY_EN)):
        again = data.map(encoding(tokenizer), batched=True, load_from_cache_file=True)
        assert again.cache_files == encoded.cache_files


def test_torch_reads_it(data: Any, tokenizer: ElmoTokenizer) -> None:
    encoded = data.map(encoding(tokenizer), batched=True, remove_columns=["words"]).with_format("torch")

    assert encoded[3]["char_ids"].shape == (9, 50)
    batch = DataCollatorWithPadding(tokenizer)([encoded[number] for number in range(4)])
    direct = tokenizer(WORDS, is_split_into_words=True, padding=True, return_tensors="pt")
    assert batch.keys() == direct.keys()
    assert all(torch.equal(batch[name], direct[name]) for name in batch)


def test_rows_can_be_computed_when_they_are_read(data: Any, tokenizer: ElmoTokenizer) -> None:
    data.set_transform(encoding(tokenizer))

    direct = tokenizer(WORDS, is_split_into_words=True)
    assert data[:4] == dict(direct)
