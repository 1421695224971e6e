"""`conversion.convert`: a folder that loads appears, whole and the same each time, or nothing does."""

import errno
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining, AutoTokenizer

from elmo_hf import ElmoError, ElmoForMaskedLM, ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf_conversion import ConversionError, convert
from support.fresh_python import FRESH_PYTHON
from support.many_langs_format import WORDS, write_many_langs
from support.original_formats import (
    VOCABULARY,
    allennlp_elmo,
    write_allennlp_archive,
    write_bilm_hdf5,
    write_softmax,
    write_training_folder,
)


@pytest.fixture
def sources(tmp_path: Path) -> tuple[Path, Path]:
    return write_bilm_hdf5(tmp_path / "original")


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """After a failure the folder holds the original, and nothing else: no output, no temporary folder."""
    yield
    assert [path.name for path in tmp_path.iterdir()] == ["original"]


def test_the_folder_loads_by_the_auto_classes(sources: tuple[Path, Path], tmp_path: Path) -> None:
    config = convert(sources, tmp_path / "model")

    model = AutoModel.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    output = model(**tokenizer([["EU-wide", "measures"]], is_split_into_words=True, return_tensors="pt"))

    assert isinstance(model, ElmoModel)
    assert isinstance(tokenizer, ElmoTokenizer)
    assert model.config.hidden_size == config.hidden_size == 8
    assert output.last_hidden_state.shape == (1, 4, 8)


def test_the_mix_starts_as_the_mean(sources: tuple[Path, Path], tmp_path: Path) -> None:
    convert(sources, tmp_path / "model")

    with safe_open(tmp_path / "model/model.safetensors", "pt") as file:
        torch.testing.assert_close(file.get_tensor("scalar_mix.weights"), torch.zeros(3))
        torch.testing.assert_close(file.get_tensor("scalar_mix.gamma"), torch.ones(1))


def test_the_vocabulary_becomes_the_tokenizers(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "original", vocabulary=VOCABULARY)

    convert([tmp_path / "original"], tmp_path / "model")

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    ids = tokenizer([["bank", "nowhere"]], is_split_into_words=True)["input_ids"]
    # <S>, bank on line 12, <UNK>, </S>
    assert [list(row) for row in ids] == [[1, 12, 3, 2]]


VOCABULARIES = {
    "special-words-missing": ["the", "of"],
    "special-words-last": ["the", "<UNK>", "</S>", "<S>"],
    "doubles-and-blanks": ["<S>", "the", "", "the", "</S>", "<UNK>", "", "<S>"],
    "padding-as-a-word": ["<S>", "</S>", "<UNK>", "<PAD>", "the"],
    "maxtermid": ["<S>", "</S>", "<UNK>", "!!!MAXTERMID", "the"],
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES.keys())
def test_tokenizer_and_model_agree_on_an_odd_vocabulary(vocabulary: list[str], tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "original", vocabulary=vocabulary)

    config = convert([tmp_path / "original"], tmp_path / "model")

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert len(tokenizer) == config.vocab_size
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (config.bos_token_id, config.eos_token_id)


def test_the_vector_is_what_the_trained_model_saw(tmp_path: Path) -> None:
    alignment = torch.randn(8, 8)
    state = allennlp_elmo(tmp_path / "bilm", prefix="elmo_es.") | {"aligning_es.weight": alignment}
    path = write_allennlp_archive(tmp_path / "model.tar.gz", state)

    convert([path], tmp_path / "model", language="es")

    model = AutoModel.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    batch = tokenizer([["EU-wide", "measures"]], is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        output = model(**batch, output_hidden_states=True)
    shares = np.exp([0, 0.5, 1]) / np.exp([0, 0.5, 1]).sum()
    mixed = 2 * sum(share * layer.numpy() for share, layer in zip(shares, output.hidden_states, strict=True))
    np.testing.assert_allclose(output.last_hidden_state.numpy(), mixed @ alignment.numpy().T, rtol=1e-4, atol=1e-5)


def test_rows_that_no_word_has(tmp_path: Path) -> None:
    # words of white space are read as one, which leaves rows without a word, at the end too
    folder = write_many_langs(tmp_path / "original", words=(*WORDS[:5], "\u00a0", *WORDS[5:], "\u2003"))
    lines = (folder / "word.dic").read_text(encoding="utf-8").splitlines()
    (folder / "word.dic").write_text("\n".join([*lines[:5], lines[-1], *lines[6:-1], lines[5]]), encoding="utf-8")

    config = convert([folder], tmp_path / "model")

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert len(tokenizer) == config.vocab_size == len(WORDS) + 3
    # the last line counts
    assert tokenizer.convert_tokens_to_ids("\u3000") == 6
    assert tokenizer(["\u3000", "\u00a0", "bad"], is_split_into_words=True)["input_ids"] == [2, 6, 1, 12, 3]


@pytest.mark.parametrize(
    "shape",
    [{}, {"token_input": True}, {"token_input": True, "share_embedding_softmax": True}],
    ids=["characters", "words", "that of the words"],
)
def test_the_softmax_is_saved_and_loaded(shape: dict[str, Any], tmp_path: Path) -> None:
    variables = write_training_folder(tmp_path / "original", n_negative_samples_batch=5, **shape)
    weight = torch.tensor(variables.get("lm/softmax/W", variables.get("lm/embedding")))

    config = convert([tmp_path / "original"], tmp_path / "model")

    assert json.loads((tmp_path / "model/config.json").read_text())["architectures"] == ["ElmoForPreTraining"]
    assert config.num_negative_samples == 5
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    batch = tokenizer([["EU-wide", "measures"]], is_split_into_words=True, return_tensors="pt")
    vectors = AutoModel.from_pretrained(tmp_path / "model")(**batch, output_hidden_states=True).hidden_states[-1]
    for auto, cls in ((AutoModelForPreTraining, ElmoForPreTraining), (AutoModelForMaskedLM, ElmoForMaskedLM)):
        model = auto.from_pretrained(tmp_path / "model")
        assert isinstance(model, cls)
        assert torch.equal(model.softmax.weight[1:], weight)
        assert torch.equal(model.softmax.bias[1:], torch.tensor(variables["lm/softmax/b"]))
        tied = model.softmax.weight is model.get_input_embeddings().weight if "token_input" in shape else False
        assert tied == ("share_embedding_softmax" in shape)
        assert torch.equal(model.elmo(**batch, output_hidden_states=True).hidden_states[-1], vectors)


@pytest.mark.parametrize("kind", ["checkpoint", "folder with HDF5", "HDF5 files"])
def test_the_softmax_predicts_the_words_of_its_rows(kind: str, tmp_path: Path) -> None:
    original = tmp_path / "original"
    if kind == "checkpoint":
        variables = write_training_folder(original)
    else:
        write_bilm_hdf5(original, vocabulary=VOCABULARY)
        variables = {f"lm/{name}": array for name, array in write_softmax(original).items()}

    convert([*original.iterdir()] if kind == "HDF5 files" else [original], tmp_path / "model")

    model = AutoModelForPreTraining.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    batch = tokenizer([["EU-wide", "measures"]], is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        output = model(**batch, output_hidden_states=True)
    forward, _ = output.hidden_states[-1].chunk(2, dim=2)
    for row, word in enumerate(VOCABULARY):
        score = forward @ torch.tensor(variables["lm/softmax/W"][row]) + variables["lm/softmax/b"][row]
        torch.testing.assert_close(output.forward_logits[..., tokenizer.convert_tokens_to_ids(word)], score)


@pytest.mark.parametrize(
    ("vocabulary", "number"),
    [(VOCABULARY, 13), (["<S>", "</S>", "<UNK>", "<MASK>", "the"], 4)],
    ids=["behind the words", "one of them"],
)
def test_with_a_softmax_words_can_be_masked(vocabulary: Sequence[str], number: int, tmp_path: Path) -> None:
    write_training_folder(tmp_path / "original", vocabulary=vocabulary)

    config = convert([tmp_path / "original"], tmp_path / "model")

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert (tokenizer.mask_token, tokenizer.mask_token_id) == ("<MASK>", number)
    assert tokenizer.vocab_size == config.vocab_size == len(vocabulary) + 1
    assert tokenizer(["the", "<MASK>"], is_split_into_words=True)["input_ids"][2] == number


def test_without_a_softmax_they_cannot(sources: tuple[Path, Path], tmp_path: Path) -> None:
    convert(sources, tmp_path / "model")

    assert AutoTokenizer.from_pretrained(tmp_path / "model").mask_token is None


def test_the_softmaxes_of_bilm_tf(oracles: Path, tmp_path: Path) -> None:
    for name in ("char", "token"):
        sources = [oracles / f"bilm_tiny/ckpt_{name}", oracles / "bilm_tiny/data/vocab.txt"]

        config = convert(sources, tmp_path / name)

        assert (config.vocab_size, config.num_negative_samples) == (3004, 512)
        model = AutoModelForPreTraining.from_pretrained(tmp_path / name)
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / name)
        batch = tokenizer([["The", "government", "of", "the"]], is_split_into_words=True, return_tensors="pt")
        with torch.inference_mode():
            output = model(**batch, labels=batch["input_ids"])
        # 3,003 words at random are 8.0 nats, after a word in the middle of many much less
        assert output.loss < 6


def test_unknown_options_survive_in_the_configuration(tmp_path: Path) -> None:
    convert(write_bilm_hdf5(tmp_path / "original", reverse=True), tmp_path / "model")

    assert AutoModel.from_pretrained(tmp_path / "model").config.original_options == {"reverse": True}


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_converting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "original", vocabulary=VOCABULARY, reverse=True)

    convert([tmp_path / "original"], tmp_path / "a")
    convert([tmp_path / "original"], tmp_path / "b")

    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_nothing_is_shown_unless_asked_for(
    sources: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    convert(sources, tmp_path / "model")

    assert capfd.readouterr() == ("", "")


def test_missing_parent_folders_are_made(sources: tuple[Path, Path], tmp_path: Path) -> None:
    convert(sources, tmp_path / "a/b/model")

    assert (tmp_path / "a/b/model/config.json").is_file()


def test_a_missing_folder_may_lead_up_again(sources: tuple[Path, Path], tmp_path: Path) -> None:
    convert(sources, tmp_path / "new/../model")

    assert (tmp_path / "new/../model/config.json").is_file()
    assert (tmp_path / "model/config.json").is_file()


@pytest.mark.parametrize("name", ["a" * 255, "日" * 85, "\udcff"])
def test_any_name_that_the_system_allows(name: str, sources: tuple[Path, Path], tmp_path: Path) -> None:
    convert(sources, tmp_path / "sub" / name)

    assert [path.name for path in (tmp_path / "sub").iterdir()] == [name]
    assert (tmp_path / "sub" / name / "config.json").is_file()


def as_file(path: Path) -> None:
    path.touch()


def as_empty_folder(path: Path) -> None:
    path.mkdir()


def as_dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("gone"))


@pytest.mark.parametrize("occupy", [as_file, as_empty_folder, as_dangling_link])
def test_an_output_that_exists_is_left_alone(occupy: Any, sources: tuple[Path, Path], tmp_path: Path) -> None:
    occupy(tmp_path / "model")
    before = sorted(tmp_path.iterdir())

    with pytest.raises(ElmoError, match=r"model exists already: remove it or choose another name\.$"):
        convert(sources, tmp_path / "model")

    assert sorted(tmp_path.iterdir()) == before


def test_an_output_that_appears_meanwhile_is_left_alone(
    sources: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = ElmoModel.save_pretrained

    def slow(self: ElmoModel, folder: Path) -> None:
        save(self, folder)
        (tmp_path / "model").mkdir()

    monkeypatch.setattr(ElmoModel, "save_pretrained", slow)

    with pytest.raises(ElmoError, match="exists already"):
        convert(sources, tmp_path / "model")

    assert not list((tmp_path / "model").iterdir())


def test_a_parent_that_is_a_file(sources: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ElmoError, match=r"file cannot be written \(.*\): make room, or choose another place\.$"):
        convert(sources, tmp_path / "file/model")


FAILURES = {
    "full-disk": (
        OSError(errno.ENOSPC, "No space left on device"),
        r"model cannot be written \(No space left on device\)",
    ),
    "full-disk-in-safetensors": (
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        r"model cannot be written \(No space left on device\)",
    ),
    "full-disk-in-tokenizers": (
        Exception("No space left on device (os error 28)"),
        r"model cannot be written \(No space left on device\)",
    ),
    "permission": (
        PermissionError(errno.EACCES, "Permission denied"),
        r"model cannot be written \(Permission denied\)",
    ),
    "other": (OSError(errno.EIO, "Input/output error"), r"model cannot be written \(Input/output error\)"),
}


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(("error", "message"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failure_while_writing_leaves_nothing(
    error: Exception, message: str, sources: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: ElmoModel, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise error

    monkeypatch.setattr(ElmoModel, "save_pretrained", fail)

    with pytest.raises(ElmoError, match=message):
        convert(sources, tmp_path / "sub/model")


@pytest.mark.usefixtures("nothing_left")
def test_a_disk_that_is_too_small_is_known_before_writing(
    sources: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))  # type: ignore[attr-defined]

    with pytest.raises(
        ElmoError, match=r"model cannot be written \(No space left on device: [\d,]+ bytes are needed, 0 are free\)"
    ):
        convert(sources, tmp_path / "model")


@pytest.mark.usefixtures("nothing_left")
def test_a_defect_of_ours_is_not_blamed_on_the_disk(
    sources: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr(ElmoModel, "save_pretrained", fail)

    with pytest.raises(TypeError, match="a defect"):
        convert(sources, tmp_path / "model")


@pytest.mark.usefixtures("nothing_left")
def test_an_interruption_leaves_nothing(
    sources: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ElmoModel, "save_pretrained", interrupt)

    with pytest.raises(KeyboardInterrupt):
        convert(sources, tmp_path / "model")


@pytest.mark.usefixtures("nothing_left")
def test_a_damaged_input_leaves_nothing(sources: tuple[Path, Path], tmp_path: Path) -> None:
    with h5py.File(sources[0], "a") as file:
        file["CNN_proj/W_proj"][0, 0] = np.nan

    with pytest.raises(ConversionError, match="array CNN_proj/W_proj holds NaN"):
        convert(sources, tmp_path / "model")


KILLED = """
import os, signal, sys
from elmo_hf import ElmoModel
from elmo_hf_conversion import convert
ElmoModel.save_pretrained = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
convert(sys.argv[1:3], sys.argv[3])
"""


def test_what_a_killed_process_leaves_is_in_nobodys_way(sources: tuple[Path, Path], tmp_path: Path) -> None:
    output = tmp_path / "model"
    killed = subprocess.run([*FRESH_PYTHON, "-c", KILLED, *sources, output], check=False)
    assert killed.returncode == -9
    assert not output.exists()

    convert(sources, output)

    assert (output / "config.json").is_file()


def test_as_a_module_it_is_the_command(sources: tuple[Path, Path], tmp_path: Path) -> None:
    command = [*FRESH_PYTHON, "-m", "elmo_hf_conversion", *sources, "--output", tmp_path / "model"]

    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    assert (tmp_path / "model/config.json").is_file()
