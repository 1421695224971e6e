"""`elmo_hf.inspection`: what a folder holds, and one line if it is damaged; tests/cli/test_models.py has the whole."""

import json
from pathlib import Path

import pytest

from elmo_hf import ElmoConfig, ElmoError, ElmoForTokenClassification
from elmo_hf.inspection import describe, describe_layers, read_config, read_json, readable_size
from elmo_hf_conversion import convert
from support.original_formats import write_training_folder
from support.tiny_models import tiny_model


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (374_434_776, "374 MB"), (4 * 10**9, "4 GB")],
)
def test_readable_size(size: int, text: str) -> None:
    assert readable_size(size) == text


def test_layers_in_words() -> None:
    config = ElmoConfig(num_hidden_layers=1, use_skip_connections=False)

    assert describe_layers(config) == "the token layer and 1 biLSTM layer without skip connections"


def test_an_absent_file_is_empty(tmp_path: Path) -> None:
    assert read_json(tmp_path / "config.json") == {}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":' + "[" * 100_000], ids=["empty", "list", "cut", "deep"])
def test_damaged_json_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(ElmoError, match=r"config\.json is damaged"):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize("values", [{"model_type": "bert"}, {"model_type": "elmo", "hidden_size": 3}])
def test_the_configuration_of_something_else(values: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(values))

    with pytest.raises(ElmoError, match=str(tmp_path)):
        read_config(tmp_path)


def test_the_softmax_is_counted_last(tmp_path: Path) -> None:
    write_training_folder(tmp_path / "original")
    convert([tmp_path / "original"], tmp_path / "model")

    rows = dict(describe(tmp_path / "model"))

    assert rows["model"] == "ElmoForPreTraining, float32"
    parts = [name.strip() for name in rows if name.startswith("  ")]
    assert parts[parts.index("biLSTM layer 2") + 1 :][:2] == ["mix", "softmax"]
    # 12 words and padding
    assert int(rows["  softmax"].split()[0]) == 13 * 4 + 13
    assert "task" not in parts


@pytest.mark.parametrize(("place", "reads"), [("both", "the mix at both"), ("none", "no ELMo")])
def test_says_what_a_head_reads_beside_elmo(place: str, reads: str, tmp_path: Path) -> None:
    words = {"num_task_words": 1202, "task_word_embedding_dim": 4, "train_task_words": True}
    fields = {"head": "bilstm-crf", "mix_at": place, "task_char_embedding_dim": 2, **words}
    tiny_model(ElmoForTokenClassification, **fields).save_pretrained(tmp_path)

    rows = dict(describe(tmp_path))

    assert (
        rows["head reads"] == f"1,200 words of the task, 4 wide, trained; characters, 2 wide, filters 3x128; {reads}"
    )
    assert ("layers" in rows) == (place == "both")
    # words, characters, filters and their biases
    assert rows["  words of the task"].split()[0] == f"{1202 * 4 + 262 * 2 + 128 * (3 * 2 + 1):,}"


def test_what_may_be_a_name_on_the_hub_names_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ElmoError, match=r"or download one of the Hub with `hf download ann/elmo --local-dir elmo`\.$"):
        read_config(Path("ann/elmo"))
    Path("ann/elmo").mkdir(parents=True)
    for folder in ("ann/elmo", "../elmo", "elmo", "a/b/c", tmp_path / "x"):
        lack = "has no config.json" if folder == "ann/elmo" else "is not there"
        with pytest.raises(ElmoError, match=rf"as it {lack}: check its name, or make one with .* in examples/\.$"):
            read_config(Path(folder))
