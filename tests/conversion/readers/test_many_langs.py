"""`conversion.readers.many_langs`: every part arrives as that program reads it, and a missing one is named."""

import bz2
import json
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_hf_conversion import ConversionError, read_original
from elmo_hf_conversion.readers.base import InputFile
from elmo_hf_conversion.readers.content import Kind
from elmo_hf_conversion.readers.many_langs import RELEASED, read_dictionary, rows_of
from support.many_langs_format import CHARACTERS, CONFIG_NAME, WORDS, write_dictionary, write_json, write_many_langs


def dictionary(folder: Path, text: str | bytes) -> InputFile:
    path = folder / "char.dic"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return InputFile(path.name, Kind.TEXT, path)


# the whole


@pytest.mark.parametrize("new_format", [True, False])
def test_every_part_arrives(new_format: bool, tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path, new_format=new_format)

    with read_original([folder]) as checkpoint:
        expected = torch.load(folder / "token_embedder.pkl") | torch.load(folder / "encoder.pkl")
        assert checkpoint.arrays.keys() == expected.keys()
        for name, tensor in expected.items():
            np.testing.assert_array_equal(checkpoint.arrays[name].read(), tensor.numpy())
    assert checkpoint.format == "many-langs"
    assert checkpoint.vocabulary == WORDS
    assert checkpoint.characters == {character: number for number, character in enumerate(CHARACTERS)}
    assert checkpoint.options["arguments"]["config_path"] == f"/home/author/configs/{CONFIG_NAME}"
    assert checkpoint.options["configuration"] == json.loads((folder / CONFIG_NAME).read_text())
    assert [source.name for source in checkpoint.sources] == [
        "token_embedder.pkl",
        "encoder.pkl",
        "config.json",
        CONFIG_NAME,
        "word.dic",
        "char.dic",
    ]


def test_files_named_one_by_one(tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path)

    with read_original(sorted(folder.iterdir(), reverse=True)) as checkpoint:
        assert checkpoint.vocabulary == WORDS


@pytest.mark.parametrize("suffix", [".zip", ".tar.bz2", ".tar.gz", ".tar"])
def test_an_archive(suffix: str, tmp_path: Path) -> None:
    # a dictionary that looks like JSON, and one with a NUL
    folder = write_many_langs(tmp_path / "136", characters=("{", *CHARACTERS), words=(*WORDS, "\0"))
    (folder / "meta.json").write_text('{"id": 136}')
    path = tmp_path / f"136{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for file in sorted(folder.iterdir()):
                zipped.write(file, f"136/{file.name}")
    else:
        with tarfile.open(path, f"w:{suffix[5:]}") as tarred:
            tarred.add(folder, "136")

    with read_original([path]) as checkpoint:
        assert checkpoint.vocabulary == (*WORDS, "\0")
        assert checkpoint.characters is not None
        assert checkpoint.characters["{"] == 0
        assert checkpoint.arrays["projection.bias"].read().shape == (4,)


def test_a_damaged_archive(tmp_path: Path) -> None:
    (tmp_path / "zhs.tar.bz2").write_bytes(bz2.compress(b"a" * 9000)[:40])

    with pytest.raises(ConversionError, match=r"zhs.tar.bz2 is a damaged or truncated tar"):
        read_original([tmp_path / "zhs.tar.bz2"])


def test_the_softmax_is_left(tmp_path: Path) -> None:
    with read_original([write_many_langs(tmp_path, classifier=True)]) as checkpoint:
        assert checkpoint.left == ("column_emb.weight",)
        assert checkpoint.left_name == "classifier.pkl"


# the configuration


@pytest.mark.parametrize("config_path", [CONFIG_NAME, rf"C:\elmo\configs\{CONFIG_NAME}", f"../x/{CONFIG_NAME}"])
def test_of_the_path_of_the_configuration_only_the_name_counts(config_path: str, tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path, config_path=config_path)

    with read_original([folder]) as checkpoint:
        assert checkpoint.options_name == CONFIG_NAME


@pytest.mark.parametrize("config_path", ["/Users/author/cnn_50_100_512_4096_sample.json", None, 3])
def test_without_a_configuration_that_of_the_releases(
    config_path: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_many_langs(tmp_path)
    write_json(folder / "config.json", {"config_path": config_path})

    with read_original([folder]) as checkpoint:
        assert checkpoint.options["configuration"] == RELEASED
        assert checkpoint.options_name == "cnn_50_100_512_4096_sample.json of the releases"
    assert not caplog.records


def test_a_configuration_of_another_name_that_is_missing_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_many_langs(tmp_path)
    (folder / CONFIG_NAME).unlink()

    with read_original([folder]):
        pass

    assert f"{CONFIG_NAME} is not among the files: going by cnn_50_100_512" in caplog.text
    assert "of the releases" in caplog.text


def test_instead_of_a_configuration_that_is_missing_the_one_that_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_many_langs(tmp_path)
    (folder / CONFIG_NAME).rename(folder / "cnn_50_100_512_4096_sample.json")

    with read_original([folder]) as checkpoint:
        assert checkpoint.options["configuration"]["token_embedder"]["char_dim"] == 5
    assert "of the releases" not in caplog.text


def test_the_configuration_of_the_releases() -> None:
    embedder = RELEASED["token_embedder"]
    # as that of the English "original", but for the widths of words and characters, which give the file its name
    assert (RELEASED["encoder"]["projection_dim"], RELEASED["encoder"]["dim"]) == (512, 4096)
    assert (embedder["char_dim"], embedder["word_dim"], embedder["max_characters_per_token"]) == (50, 100, 50)
    assert sum(number for _, number in embedder["filters"]) == 2048


# dictionaries


DICTIONARIES: dict[str, tuple[str, dict[str, int]]] = {
    "plain": ("a\t0\nb\t1\n", {"a": 0, "b": 1}),
    "no end of line": ("a\t0\nb\t1", {"a": 0, "b": 1}),
    "CRLF": ("a\t0\r\nb\t1\r\n", {"a": 0, "b": 1}),
    "white space around": (" a \t1\n  b\t0 \n", {"a ": 1, "b": 0}),
    "a key of white space": ("a\t0\n\u00a0\t1\n", {"a": 0, "\u3000": 1}),
    "an ideographic space": ("a\t0\n\u3000\t1\n", {"a": 0, "\u3000": 1}),
    "later keys of white space overwrite": ("\u00a0\t0\na\t1\n \t2\n", {"\u3000": 2, "a": 1}),
    "a number alone": ("0\na\t1\n", {"\u3000": 0, "a": 1}),
    "a key that ends a line": ("a\t0\n\u0085\t1\n\u2028\t2\n\x0b\t3\n", {"a": 0, "\u3000": 3}),
    "equal keys": ("a\t0\na\t1\n", {"a": 1}),
    "a mark of byte order": ("\ufeffa\t0\n", {"\ufeffa": 0}),
    "a digit": ("7\t0\n0\t1\n", {"7": 0, "0": 1}),
}


@pytest.mark.parametrize(("text", "numbers"), DICTIONARIES.values(), ids=DICTIONARIES)
def test_a_dictionary_as_that_program_reads_it(text: str, numbers: dict[str, int], tmp_path: Path) -> None:
    assert read_dictionary(dictionary(tmp_path, text)) == numbers


BROKEN: dict[str, tuple[str | bytes, str]] = {
    "three columns": ("a\t0\t1\n", r"char.dic: 'a\\t0\\t1' is not a word and a number"),
    "no number": ("a\tb\n", r"char.dic: 'a\\tb' is not a word and a number"),
    "a word alone": ("abc\n", "char.dic: 'abc' is not a word and a number"),
    "a negative number": ("a\t-1\n", "is not a word and a number"),
    "an endless number": ("a\t" + "9" * 5000, "is not a word and a number"),
    "a number beyond": ("a\t0\nb\t99999999\n", "char.dic: 'b' has the number 99,999,999, but there are 2 lines"),
    "no UTF-8": ("ä\t0\n".encode("latin-1"), r"char.dic is not UTF-8 \(.*byte 0xe4\)"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_dictionary(text: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=message) as raised:
        read_dictionary(dictionary(tmp_path, text))

    assert len(str(raised.value)) < 200


def test_more_lines_than_any_dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_hf_conversion.readers.many_langs.MAX_LINES", 2)
    path = tmp_path / "word.dic"
    path.write_text("a\t0\nb\t1\nc\t2\n")

    with pytest.raises(ConversionError, match=r"word\.dic has more than 2 lines"):
        read_dictionary(InputFile(path.name, Kind.TEXT, path))


def test_a_row_without_a_word_has_a_name_that_no_text_has() -> None:
    assert rows_of({"b": 2, "a": 0}, "word.dic") == ("a", "\0row 1", "b")


def test_two_words_of_one_number() -> None:
    with pytest.raises(ConversionError, match=r"word.dic: 'a' and 'b' have one number, 0"):
        rows_of({"a": 0, "b": 0}, "word.dic")


# what is wrong


@pytest.mark.parametrize("name", ["config.json", "token_embedder.pkl", "encoder.pkl"])
def test_a_missing_part_is_named(name: str, tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path)
    (folder / name).unlink()

    with pytest.raises(ConversionError, match=f"No {name} among .*all files of the ELMoForManyLangs model"):
        read_original([folder])


def test_two_models_in_one_folder(tmp_path: Path) -> None:
    write_many_langs(tmp_path / "136")
    write_many_langs(tmp_path / "137")

    with pytest.raises(
        ConversionError, match=r"2 files token_embedder.pkl: 136/token_embedder.pkl, 137/token_embedder"
    ):
        read_original([tmp_path])


def test_a_file_too_many(tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path / "model")
    write_dictionary(tmp_path / "label.dic", ["a"])

    with pytest.raises(ConversionError, match=r"label.dic .* is not part of an ELMoForManyLangs model"):
        read_original([folder, tmp_path / "label.dic"])


def test_a_choice_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="leave --mix out"):
        read_original([write_many_langs(tmp_path)], mix=0)


@pytest.mark.parametrize("name", ["token_embedder.pkl", "encoder.pkl", "classifier.pkl"])
def test_a_pickle_that_would_run_code(name: str, tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path, classifier=True)
    (folder / name).write_bytes(pickle.dumps({"weight": print}, protocol=2))

    with pytest.raises(ConversionError, match=rf"{name} is a pickle that would run code \(print\)"):
        read_original([folder])


@pytest.mark.parametrize(
    "content", [b"", b"<html>", b"version https://git-lfs.github.com/spec/v1\n", b"\x80\x02garbage"]
)
def test_a_broken_download(content: bytes, tmp_path: Path) -> None:
    folder = write_many_langs(tmp_path)
    (folder / "encoder.pkl").write_bytes(content)

    with pytest.raises(ConversionError, match=r"encoder.pkl .*(again|git lfs pull)"):
        read_original([folder])
