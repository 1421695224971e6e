"""`cli.embed`: what it shows and writes, of all kinds of files, and how it goes on."""

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from pyarrow import parquet
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from elmo_hf.cli import main
from support.cli_runs import MODULE, Captured, error_of, vectors_of
from support.fresh_python import FRESH_PYTHON


pytestmark = pytest.mark.usefixtures("library_logging")


def test_embed_shows_a_table(bilm_model: Path, capsys: Captured) -> None:
    assert main(["embed", "--text", "EU-wide 日本語.", "--text", "", "--model", str(bilm_model)]) == 0

    lines = capsys.readouterr().out.splitlines()
    expected = vectors_of(bilm_model, ["EU-wide", "日本語", "."])
    assert lines[0] == "# 0: EU-wide 日本語."
    for line, word, vector in zip(lines[2:5], ["EU-wide", "日本語", "."], expected, strict=True):
        name, norm, *numbers = line.removesuffix(" ...").split()
        assert name == word
        assert float(norm) == pytest.approx(np.linalg.norm(vector), abs=1e-3)
        assert [float(number) for number in numbers] == pytest.approx(vector[:6].tolist(), abs=1e-4)
    assert lines[5:] == ["", "# 1: ", "(no words)"]


def test_a_table_is_aligned_where_characters_are_wide(bilm_model: Path, capsys: Captured) -> None:
    main(["embed", "--text", "EU-wide 日本語 e\u0301", "--tokenized", "--model", str(bilm_model)])

    rows = capsys.readouterr().out.splitlines()[2:]
    # two columns for each of the three, none for the accent
    assert [row.index(".") for row in rows] == [12, 12 - 3, 12 + 1]


def test_embed_escapes_what_would_disturb_a_terminal(bilm_model: Path, capsys: Captured) -> None:
    main(["embed", "--text", "a\x1b[31mb \u202e", "--tokenized", "--model", str(bilm_model)])

    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert r"a\x1b[31mb" in output
    assert r"\u202e" in output


def test_embed_shows_all_layers(bilm_model: Path, capsys: Captured) -> None:
    main(["embed", "--text", "The bank", "--layers", "all", "--model", str(bilm_model)])

    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[:-8] for row in rows] == [["The", "0"], ["1"], ["2"], ["bank", "0"], ["1"], ["2"]]


def test_tokenized_words_are_not_split(bilm_model: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("didn't stop.\n", encoding="utf-8")
    arguments = [str(tmp_path / "lines.txt"), "--model", str(bilm_model)]

    main(["embed", *arguments, "--output", str(tmp_path / "raw.npz")])
    main(["embed", *arguments, "--tokenized", "--output", str(tmp_path / "tokenized.npz")])

    with np.load(tmp_path / "raw.npz") as raw, np.load(tmp_path / "tokenized.npz") as tokenized:
        np.testing.assert_allclose(raw["0"], vectors_of(bilm_model, ["didn", "'t", "stop", "."]), atol=1e-5)
        np.testing.assert_allclose(tokenized["0"], vectors_of(bilm_model, ["didn't", "stop."]), atol=1e-5)


def test_lines_are_kept_as_they_are_counted(bilm_model: Path, tmp_path: Path) -> None:
    # a mark of byte order, ends of lines of two systems, no end at last, and an end of line that is none
    (tmp_path / "lines.txt").write_bytes("\ufeffa\r\n\nb\u2028c".encode())

    main(["embed", str(tmp_path / "lines.txt"), "--model", str(bilm_model), "--output", str(tmp_path / "v.hdf5")])

    with h5py.File(tmp_path / "v.hdf5") as file:
        assert json.loads(file["sentence_to_index"][0]) == {"a": "0", "": "1", "b\u2028c": "2"}
        np.testing.assert_allclose(file["0"][...], vectors_of(bilm_model, ["a"]), atol=1e-5)


def test_a_line_that_is_not_utf_8_is_named(bilm_model: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "latin.txt").write_bytes(b"good\nna\xefve\n")
    output = tmp_path / "v.npz"

    assert main(["embed", str(tmp_path / "latin.txt"), "--model", str(bilm_model), "--output", str(output)]) == 1

    assert re.search(r"latin\.txt, line 2: byte 0xef is not UTF-8", error_of(capsys))
    assert [path.name for path in tmp_path.iterdir()] == ["latin.txt"]


def test_one_sentence_of_one_word_is_counted_in_the_singular(
    bilm_model: Path, tmp_path: Path, capsys: Captured
) -> None:
    output = tmp_path / "v.npz"

    main(["embed", "--text", "a", "--model", str(bilm_model), "--output", str(output)])

    assert capsys.readouterr().out == f"Wrote 1 sentence of 1 word to {output}.\n"


def test_a_file_of_vectors_is_not_overwritten(bilm_model: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "v.npz").write_text("mine")

    assert main(["embed", "--text", "a", "--model", str(bilm_model), "--output", str(tmp_path / "v.npz")]) == 1

    assert "exists already" in error_of(capsys)
    assert (tmp_path / "v.npz").read_text() == "mine"


@pytest.mark.parametrize("layer", ["3", "best"])
def test_a_layer_that_is_not_there_is_named(layer: str, bilm_model: Path, capsys: Captured) -> None:
    assert main(["embed", "--text", "a", "--layers", layer, "--model", str(bilm_model)]) == 1

    assert f"no layer '{layer}'" in error_of(capsys)


@pytest.mark.parametrize("text", ["", "{}", "[]"])
def test_a_damaged_tokenizer(text: str, spare_model: Path, capsys: Captured) -> None:
    (spare_model / "tokenizer.json").write_text(text)

    assert main(["embed", "--text", "a", "--model", str(spare_model)]) == 1

    assert "tokenizer" in error_of(capsys)


def test_missing_weights_are_not_made_up(spare_model: Path, capsys: Captured) -> None:
    weights = load_file(spare_model / "model.safetensors")
    del weights["layers.1.recurrent_weight"]
    save_file(weights, spare_model / "model.safetensors", metadata={"format": "pt"})

    assert main(["embed", "--text", "a", "--model", str(spare_model)]) == 1

    assert "layers.1.recurrent_weight" in error_of(capsys)


def test_a_closed_standard_input_is_named(bilm_model: Path) -> None:
    arguments = [*FRESH_PYTHON, *MODULE, "embed", "-", "--model", str(bilm_model)]
    process = subprocess.run(f"{shlex.join(arguments)} <&-", shell=True, capture_output=True, text=True, check=False)

    assert process.returncode == 1
    assert process.stderr == "elmo-hf: error: Standard input is closed: give a file.\n"


def test_a_name_that_is_not_utf_8_is_named(bilm_model: Path, tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "m\udcff"
    shutil.copytree(bilm_model, folder)

    assert main(["embed", "--text", "a", "--model", str(folder)]) == 1

    assert re.search(r"m\\udcff.* not valid UTF-8", error_of(capsys))


def test_a_full_disk_is_one_line_and_no_crash_when_hdf5_ends(allennlp_model: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("The bank raised rates because it had no choice , said Mr. Smith .\n" * 600)

    program = """
import resource, sys
from elmo_hf.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (512_000, resource.RLIM_INFINITY))
sys.exit(main(["embed", "text", "--model", sys.argv[1], "--output", "v.hdf5"]))
"""
    done = subprocess.run(
        [*FRESH_PYTHON, "-c", program, str(allennlp_model)], cwd=tmp_path, capture_output=True, text=True
    )

    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert not (tmp_path / "v.hdf5").exists()


def arrays_of(path: Path) -> list[np.ndarray]:
    with np.load(path) as file:
        return [file[str(number)] for number in range(len(file.files))]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("s.conll", "a O\nb B-X\n\nEU-wide O\n", []),
        ("s.conllu", "# text = a b\n1\ta\tx" + "\t_" * 7 + "\n2\tb\tx" + "\t_" * 7 + "\n\n1\tEU-wide" + "\t_" * 8, []),
        ("s.jsonl", '{"tokens": ["a", "b"]}\n{"tokens": ["EU-wide"]}\n', []),
        ("s.jsonl", '{"id": 1, "body": "a b"}\n{"id": 2, "body": "EU-wide"}\n', ["--text-field=body", "--tokenized"]),
        ("s.csv", 'text,label\n"a b",1\nEU-wide,2\n', []),
        ("s.txt", "O a\nO b\n\nO EU-wide\n", ["--format=conll", "--word-column=1"]),
        ("s.txt", "a b\nEU-wide\n", ["--tokenized"]),
    ],
)
def test_reads_every_kind_of_file(
    name: str, content: str, options: list[str], bilm_model: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")

    assert (
        main(
            ["embed", str(tmp_path / name), "--model", str(bilm_model), "--output", str(tmp_path / "v.npz"), *options]
        )
        == 0
    )

    for array, words in zip(arrays_of(tmp_path / "v.npz"), [["a", "b"], ["EU-wide"]], strict=True):
        np.testing.assert_allclose(array, vectors_of(bilm_model, words), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.conll", "a O\nb\n", r"s\.conll, line 1: 'a O' does not have the columns 5 \(word\) of 2"),
        ("s.jsonl", '{"text": "a"}\n{"text": 3}\n', r"s\.jsonl, line 2: text is 3: give a text or a list of words"),
        ("s.jsonl", '{"text": "a"}\nno\n', r"s\.jsonl, line 2: not JSON"),
        (
            "s.jsonl",
            '{"body": "a"}\n',
            r"s\.jsonl, line 1: no column premise or .* there are body: name the one",
        ),
        ("s.jsonl", '{"text": "a\\ud800"}\n', r"holds half of a character"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(
    name: str, content: str, message: str, bilm_model: Path, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    options = ["--output", str(tmp_path / "v.npz"), *(["--word-column=5"] if name == "s.conll" else [])]

    assert main(["embed", str(tmp_path / name), "--model", str(bilm_model), *options]) == 1

    assert re.search(message, error_of(capsys))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_pools_layers_and_types_reach_the_file(bilm_model: Path, tmp_path: Path) -> None:
    options = ["--layers=all", "--pool=mean", "--dtype=bfloat16", "--batch-size=1", "--threads=1", "--device=cpu"]
    output = tmp_path / "v.safetensors"

    main(["embed", "--text", "a b", "--text", "", "--model", str(bilm_model), "--output", str(output), *options])

    with safe_open(output, framework="pt") as file:
        assert file.get_slice("0").get_dtype() == "BF16"
        about = json.loads(file.metadata()["elmo_hf"])
        assert file.get_slice("1").get_shape() == file.get_slice("0").get_shape() == [3, 8]
        assert not file.get_tensor("1").any()
    assert {name: about[name] for name in ("layers", "pool", "dtype")} == {
        "layers": "all",
        "pool": "mean",
        "dtype": "bfloat16",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pool=mean"], "--pool, --dtype, --rows, --engine and --resume need --output"),
        (["--rows=words"], "--pool, --dtype, --rows, --engine and --resume need --output"),
        (["--batch-size=0"], "must be 1 or more"),
        (["--format=word"], "invalid choice"),
    ],
)
def test_wrong_usage(options: list[str], message: str, bilm_model: Path, capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["embed", "--text", "a", "--model", str(bilm_model), *options])

    assert message in capsys.readouterr().err


def test_rows_of_words(bilm_model: Path, tmp_path: Path) -> None:
    output = tmp_path / "v.parquet"

    main(
        ["embed", "--text", "a b", "--text", "c", "--model", str(bilm_model), "--output", str(output), "--rows=words"]
    )

    assert parquet.read_table(output)["word"].to_pylist() == ["a", "b", "c"]


def writer_of(parts: Path) -> int:
    """Return the number of the process that writes parts into this folder."""
    return int((parts / "owner.txt").read_text().split()[1])


def test_a_killed_run_goes_on_to_the_same_file(allennlp_model: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("".join(f"rates {i}\n" for i in range(4200)), encoding="utf-8")
    arguments = ["embed", "text", "--model", str(allennlp_model), "--threads=1", "--output", "killed.hdf5"]
    parts = tmp_path / ".killed.hdf5.parts"
    with subprocess.Popen([*FRESH_PYTHON, *MODULE, *arguments], cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and not list(parts.glob("*.safetensors")):
            time.sleep(0.01)
        assert process.poll() is None
        os.kill(writer_of(parts), signal.SIGKILL)
    assert parts.exists()

    for name in ("killed.hdf5", "whole.hdf5"):
        output = ["--output", str(tmp_path / name), "--resume"]
        main(["embed", str(tmp_path / "text"), "--model", str(allennlp_model), "--threads=1", *output])

    assert (tmp_path / "killed.hdf5").read_bytes() == (tmp_path / "whole.hdf5").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed.hdf5", "text", "whole.hdf5"]


FASTA = ">sp|P1|ONE The first\nmkt\nAY*\n>two/1-3\nSEQ\n"


@pytest.mark.parametrize(
    ("name", "options"), [("p.fa.gz", []), ("p.faa", []), ("p.fasta", []), ("p", ["--format=fasta"])]
)
def test_a_protein_has_its_vectors_under_its_identifier(
    name: str, options: list[str], bilm_model: Path, tmp_path: Path, capsys: Captured
) -> None:
    content = FASTA.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    output = tmp_path / "v.hdf5"

    main(["embed", str(tmp_path / name), "--model", str(bilm_model), "--output", str(output), *options])

    assert capsys.readouterr().out == f"Wrote 2 sequences of 8 residues to {output}.\n"
    with h5py.File(output) as file:
        assert sorted(file) == ["sp|P1|ONE", "two_1-3"]
        np.testing.assert_allclose(file["sp|P1|ONE"][...], vectors_of(bilm_model, list("MKTAY")), atol=1e-5)
        np.testing.assert_allclose(file["two_1-3"][...], vectors_of(bilm_model, list("SEQ")), atol=1e-5)


def test_a_table_shows_the_identifier_of_a_protein(bilm_model: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "p.fasta").write_text(FASTA)

    main(["embed", str(tmp_path / "p.fasta"), "--model", str(bilm_model), "--layers=sum"])

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# 0: sp|P1|ONE", "# 1: two/1-3"]
    assert [line.split()[0] for line in lines[2:7]] == list("MKTAY")


def test_a_repeated_identifier_is_refused_before_anything_is_computed(
    bilm_model: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_hf.embedding.corpus.PART_SENTENCES", 1)
    monkeypatch.setattr("elmo_hf.embedding.engines.save_part", lambda *_: pytest.fail("computed"))
    (tmp_path / "p.fasta").write_text(f"{FASTA}>two/1-3\nMKT\n")

    output = ["--output", str(tmp_path / "v.npz")]
    assert main(["embed", str(tmp_path / "p.fasta"), "--model", str(bilm_model), *output]) == 1

    message = r"p\.fasta, line 6: 'two/1-3' is the identifier of the record at line 4, too: rename or remove one"
    assert re.search(message, error_of(capsys))
    assert [path.name for path in tmp_path.iterdir()] == ["p.fasta"]


def test_a_second_run_to_the_same_file_stops(bilm_model: Path, tmp_path: Path, capsys: Captured) -> None:
    output = tmp_path / "v.npz"
    arguments = ["embed", "-", "--tokenized", "--model", str(bilm_model), "--output", str(output)]
    with subprocess.Popen(
        [*FRESH_PYTHON, *MODULE, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        # it waits for its input
        while first.poll() is None and not (tmp_path / ".v.npz.parts" / "job.json").exists():
            time.sleep(0.01)
        writer = writer_of(tmp_path / ".v.npz.parts")
        status = main([*arguments, "--resume"])
        written, _ = first.communicate("a b\n")

    assert status == 1
    refused = rf"Process {writer} on \S+ is writing {re.escape(str(output))}: wait for it, or stop it\."
    assert re.search(refused, error_of(capsys))
    assert written == f"Wrote 1 sentence of 2 words to {output}.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["v.npz"]
