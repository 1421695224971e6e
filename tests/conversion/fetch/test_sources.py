"""`conversion.fetch.sources`: what the user gives becomes files, or one clear line."""

import errno
import os
import re
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from elmo_hf_conversion import ConversionError, read_original
from elmo_hf_conversion.fetch import sources
from elmo_hf_conversion.fetch.sources import gather
from support.many_langs_format import write_many_langs
from support.original_formats import (
    allennlp_elmo,
    read_bilm_hdf5,
    tensorflow_variables,
    write_allennlp_archive,
    write_bilm_hdf5,
    write_tensorflow_checkpoint,
)


def names(folder: Path) -> list[str]:
    with ExitStack() as resources:
        return [file.name for file in gather([folder], resources)]


def test_a_folder_lists_its_files_in_a_fixed_order(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "sub/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")

    assert names(tmp_path) == ["a.json", "b.json", "sub/c.json"]


def test_hidden_files_and_resource_forks_are_left_out(tmp_path: Path) -> None:
    for name in (".a.json", "__MACOSX/a.json", ".git/a.json", "b.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")

    assert names(tmp_path) == ["b.json"]


def test_linked_folders_are_not_entered(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.json").write_text("{}")
    (folder / "circle").symlink_to(folder)

    assert names(folder) == ["a.json"]


def test_a_single_path_is_a_source_too(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path)

    with read_original(tmp_path) as checkpoint:  # type: ignore[arg-type]
        assert checkpoint.weights_name == "weights.hdf5"


def test_nothing_given() -> None:
    with pytest.raises(ConversionError, match="No source given"):
        read_original([])


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"nowhere.hdf5 does not exist"):
        read_original([tmp_path / "nowhere.hdf5"])


def test_a_source_that_does_not_exist_is_named_before_another_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "download", lambda *_args, **_options: pytest.fail("it was downloaded"))

    with pytest.raises(ConversionError, match=r"nowhere.hdf5 does not exist"):
        read_original(["https://example.org/options.json", "nowhere.hdf5"])


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="holds no files"):
        read_original([tmp_path])


def test_a_folder_of_very_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_hf_conversion.fetch.sources.MAX_FILES", 2)
    for i in range(3):
        (tmp_path / f"{i}").touch()

    with pytest.raises(ConversionError, match="holds more than 2 files"):
        read_original([tmp_path])


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "weights.hdf5").symlink_to(tmp_path / "gone")

    with pytest.raises(ConversionError, match=r"weights.hdf5 is a link that leads nowhere"):
        read_original([tmp_path / "weights.hdf5"])


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "weights.hdf5")

    with pytest.raises(ConversionError, match=r"weights.hdf5 is not a regular file"):
        read_original([tmp_path / "weights.hdf5"])


@pytest.mark.parametrize("scheme", ["s3", "ftp", "file", "hf"])
def test_links_of_other_kinds(scheme: str) -> None:
    with pytest.raises(ConversionError, match=f"{scheme} links are not supported"):
        read_original([f"{scheme}://host/weights.hdf5"])


ERRORS = {
    "permission": (PermissionError(errno.EACCES, "Permission denied", "a/weights.hdf5"), "a/weights.hdf5 .* denied"),
    "full-disk": (OSError(errno.ENOSPC, "No space left on device"), "The disk is full .* TMPDIR"),
    "limit": (OSError(errno.EFBIG, "File too large"), "A file would be larger than .* TMPDIR"),
    "other": (OSError(errno.EIO, "Input/output error", "a"), r"a cannot be read \(Input/output error\)"),
}


@pytest.mark.parametrize(("error", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_of_the_system(error: OSError, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = write_bilm_hdf5(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("elmo_hf_conversion.fetch.sources.kind_of", fail)

    with pytest.raises(ConversionError, match=message):
        read_original(sources)


def test_a_file_given_twice_is_one(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path)
    (tmp_path / "link").symlink_to(weights)

    with read_original([weights, options, weights, tmp_path / "link"]) as checkpoint:
        assert [source.name for source in checkpoint.sources] == ["weights.hdf5", "options.json"]


def test_files_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        write_bilm_hdf5(Path(folder), seed=ord(folder))

    with pytest.raises(ConversionError, match=r"2 files of weights \(HDF5\): a/weights.hdf5, b/weights.hdf5"):
        read_original(["a/weights.hdf5", "b/weights.hdf5", "a/options.json"])


def test_an_empty_name() -> None:
    with pytest.raises(ConversionError, match="empty name"):
        read_original([""])


def test_text_in_utf_16(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path)
    (tmp_path / "vocab.txt").write_text("<S>\nthe\n", encoding="utf-16")

    with pytest.raises(ConversionError, match=r"vocab.txt is text in UTF-16.* Save it as UTF-8"):
        read_original([weights, options, tmp_path / "vocab.txt"])


def test_a_vocabulary_may_begin_with_a_brace(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path, vocabulary=["{", "}", "the"])

    with read_original([weights, options, tmp_path / "vocab.txt"]) as checkpoint:
        assert checkpoint.vocabulary == ("{", "}", "the")


def test_links_in_a_folder_stay_in_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_bilm_hdf5(tmp_path / "model")
    (tmp_path / "vocab.txt").write_text("<S>\n")
    (tmp_path / "model/vocab.txt").symlink_to("../vocab.txt")
    (tmp_path / "model/vocab2.txt").symlink_to("gone")

    with read_original([tmp_path / "model"]) as checkpoint:
        assert checkpoint.vocabulary is None

    assert "vocab.txt is a link that leads out of its folder" in caplog.text
    assert "vocab2.txt is a link that leads nowhere" in caplog.text


# models of several formats


def test_models_of_two_formats_in_a_folder(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "char")
    write_many_langs(tmp_path / "en")

    message = "Models of 2 formats: en/encoder.pkl (many-langs), char/weights.hdf5 (bilm-hdf5). Name the files of one"
    with pytest.raises(ConversionError, match=re.escape(message)):
        read_original([tmp_path])


def test_hdf5_beside_a_model_of_allennlp_is_another_model(tmp_path: Path) -> None:
    weights, options = write_bilm_hdf5(tmp_path / "char")
    archive = write_allennlp_archive(tmp_path / "model.tar.gz", allennlp_elmo(tmp_path / "before"))

    with pytest.raises(ConversionError, match=r"2 formats: model\.tar\.gz/weights\.th .*, weights\.hdf5 "):
        read_original([archive, weights, options])


def test_the_hdf5_that_a_training_began_with_is_part_of_its_unpacked_archive(tmp_path: Path) -> None:
    write_bilm_hdf5(tmp_path / "fta")
    torch.save(allennlp_elmo(tmp_path / "before"), tmp_path / "weights.th")
    (tmp_path / "before/weights.hdf5").unlink()
    (tmp_path / "before/options.json").unlink()

    with read_original([tmp_path]) as checkpoint:
        assert checkpoint.format == "allennlp-torch"


def test_a_dump_in_the_folder_of_its_training_is_taken_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    weights, _ = write_bilm_hdf5(tmp_path, n_characters=261)
    write_tensorflow_checkpoint(tmp_path, tensorflow_variables(read_bilm_hdf5(weights)))

    with read_original([tmp_path]) as checkpoint:
        assert checkpoint.format == "bilm-hdf5"
    assert (
        "weights.hdf5 is converted, as a dump of model.ckpt-7.index. If it is none, or to keep the softmax"
        in caplog.text
    )
