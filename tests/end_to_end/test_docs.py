"""The pages: every `python` block runs, and every `elmo-hf` command of a `console` block prints what the page shows.

The reader's folder holds the original files `weights.hdf5` and `options.json`, the converted `my-elmo`,
`sentences.txt`, `corpus.txt` and `proteins.fasta`; the original of `examples/convert_original.py` is in the cache at
home. Python blocks run on random weights in the shape of AllenNLP's tiny ELMo, and so need no network. Commands run on
that ELMo itself, so that a page shows the output of a real model.

The tutorial's `bash` blocks run in order on a made-up language, with tiny models and few steps. Its `shell` blocks do
not run, because they need the network.

The page of commands and the Python reference have parts that `docs/site/generate.py` writes, which must be up to date.
"""

import contextlib
import importlib
import io
import itertools
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from doctest import ELLIPSIS
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from sybil import Document, Example
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

import elmo_hf
import elmo_hf_conversion
from elmo_hf import cli
from elmo_hf_conversion import convert
from support.fresh_python import FRESH_PYTHON
from support.original_formats import write_bilm_hdf5


ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
READERS_FILES = {
    "corpus.txt": "he left the house .\nshe left the room at night .\non the left side of the street .\n"
    "turn to the left hand .\nI can not bear this pain .\nthey must bear the burden .\nthe bear killed a sheep .\n"
    "a bear lives in the forest .\n",
    "sentences.txt": "The bank raised rates .\nThe river left its bank .\n",
    "proteins.fasta": ">sp|P68871|HBB_HUMAN Hemoglobin subunit beta\nMVHLTPEEKSAVTALWGKV\n>1abc/A\nSEQWENCE\n",
}

# what makes the scripts of the tutorial quick
QUICK = {
    "pretrain.py": "--hidden-size 8 --intermediate-size 6 --char-embedding-dim 4 --char-filters 1x4,2x6 --negatives 0 "
    "--words-per-batch 200 --steps 2 --threads 1",
    "task_results.py": "--epochs 1 --seeds 1",
    "finetune_ner.py": "--epochs 1 --head-hidden-size 4 --threads 1",
}

# what the page on clients imports and the package does without
CLIENTS = ("captum", "datasets", "peft", "spacy")

# a number with a fraction, which may differ in its last digit from machine to machine, and the size of a folder, which
# changes with the code that is in it
FRACTION, FOLDER_SIZE = re.compile(r"-?\d+\.\d+(?:e-?\d+)?"), re.compile(r"[\d.]+ [kM]B")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder with random weights."""
    folder = tmp_path_factory.mktemp("tiny")
    filters = [(1, 4), (2, 8), (3, 16), (4, 32), (5, 64)]
    write_bilm_hdf5(folder, dim=64, projection_dim=16, filters=filters)
    convert([folder / "weights.hdf5", folder / "options.json"], folder / "my-elmo")
    for name, content in READERS_FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def real_model(allennlp_fixture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder with AllenNLP's tiny ELMo."""
    folder = tmp_path_factory.mktemp("real")
    cached = folder / ".cache" / "elmo_hf" / allennlp_fixture.name
    shutil.copytree(allennlp_fixture, cached)
    convert([cached / "lm_weights.hdf5", cached / "options.json"], folder / "my-elmo")
    for name, content in READERS_FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


# what Trainer's data loader says on a machine without an accelerator
@pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning")
# what peft asks the model for, by an old name
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_run(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "~/.cache/elmo_hf/allennlp" in page.read_text(encoding="utf-8"):
        cache = tmp_path / ".cache" / "elmo_hf"
        cache.mkdir(parents=True)
        fixture = request.getfixturevalue("allennlp_fixture")
        (cache / fixture.name).symlink_to(fixture)
        monkeypatch.setenv("HOME", str(tmp_path))
    if page.stem == "clients":
        for client in CLIENTS:
            pytest.importorskip(client)
    shutil.copytree(request.getfixturevalue("tiny_model"), tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    for example in Document.parse(str(page), PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), SkipParser()):
        example.evaluate()


@pytest.mark.usefixtures("library_logging")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_print_what_is_shown(
    page: Path, real_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(real_model, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    for example in Document.parse(str(page), CodeBlockParser("console", evaluator=lambda _: None)):
        for command, shown in commands(str(example.parsed)):
            cli.main([str(Path(word).expanduser()) for word in shlex.split(command)[1:]])
            captured = capfd.readouterr()
            printed = comparable(captured.out + captured.err)
            # a line of dots stands for lines that the page leaves out
            begin, *end = map(comparable, re.split(r"^ *\.\.\.$", shown, flags=re.MULTILINE))
            assert (printed[: len(begin)] if end else printed) == begin, command
            assert not end or printed[-len(end[0]) :] == end[0], command


def test_the_picture_shows_what_the_model_computes(tmp_path: Path) -> None:
    script, drawn = ROOT / "docs" / "site" / "meanings.py", tmp_path / "meanings.svg"
    subprocess.run([*FRESH_PYTHON, str(script), str(drawn)], check=True, capture_output=True)

    texts, committed = (
        " ".join(re.findall(r">([^<>]+)</", path.read_text(encoding="utf-8")))
        for path in (drawn, ROOT / "docs" / "meanings.svg")
    )
    assert len(FRACTION.findall(committed)) == 36
    assert comparable(texts, abs=0.011) == comparable(committed)


@pytest.fixture
def made_up_language(tmp_path: Path) -> Path:
    """A reader's folder with text, and with names in it tagged."""
    words = (
        ["Ana", "Luis", "Eva", "Juan", "Rosa", "Iván"],
        ["vio", "oyó"],
        ["a", "con"],
        ["Lima", "Cuba", "Roma"],
        ["ayer", "hoy"],
        ["aquí", "allí"],
    )
    sentences = [list(choice) for choice in itertools.product(*words)]
    (tmp_path / "texts").mkdir()
    for number, part in enumerate((sentences[:200], sentences[200:])):
        # paragraphs of two sentences
        pairs = zip(part[::2], part[1::2], strict=True)
        text = "".join(f"{' '.join(first)}. {' '.join(second)}.\n" for first, second in pairs)
        (tmp_path / "texts" / f"{number}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "new.txt").write_text("Ana vive en Lima. Luis vio a Eva.\n", encoding="utf-8")
    tags = ["B-PER", "O", "O", "B-LOC", "O", "O"]
    columns = ["".join(f"{word}\t{tag}\n" for word, tag in zip(sentence, tags, strict=True)) for sentence in sentences]
    for name, part in {"train": columns[:20], "dev": columns[20:24], "test": columns[24:28]}.items():
        (tmp_path / f"{name}.conll").write_text("\n".join(part), encoding="utf-8")
    return tmp_path


@pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning")
@pytest.mark.usefixtures("library_logging")
def test_the_tutorial_runs(made_up_language: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made_up_language)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")

    def run_block(example: Example) -> None:
        for line in example.parsed.replace("\\\n", " ").splitlines():
            run_line(line, monkeypatch)

    for example in Document.parse(str(ROOT / "docs" / "tutorial.md"), CodeBlockParser("bash", evaluator=run_block)):
        example.evaluate()
    # a line for each sentence of the paragraph
    names = [json.loads(line)["text"] for line in Path("names.jsonl").read_text(encoding="utf-8").splitlines()]
    assert names == ["Ana vive en Lima.", "Luis vio a Eva."]
    assert {"README.md", "config.json"} <= {path.name for path in Path("es-elmo").iterdir()}


def run_line(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a line of the tutorial; what it says of Python runs in this process, and so do both ends of a pipe."""
    if " | elmo-hf " in line:
        line, _, reader = line.partition(" | ")
        piped = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stdout(piped):
            run_line(line, monkeypatch)
        piped.seek(0)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(piped.detach())))
        run_line(reader, monkeypatch)
        return
    program, *arguments = shlex.split(line, comments=True)
    if program == "elmo-hf":
        assert cli.main(arguments) == 0, line
    elif program == "python":
        script = ROOT / arguments[0]
        monkeypatch.setattr(sys, "argv", [script.name, *arguments[1:], *QUICK[script.name].split()])
        # as Python does for a script
        monkeypatch.syspath_prepend(script.parent)
        runpy.run_path(str(script), run_name="__main__")
    elif program != "pip":
        subprocess.run(["bash", "-euo", "pipefail", "-c", line], check=True)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A function that imports a module of the site."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")
    return importlib.import_module


def test_generated_parts_are_up_to_date(site: Callable[[str], ModuleType]) -> None:
    for page, text in site("generate").pages():
        # argparse wraps lines differently from version to version
        assert page.read_text(encoding="utf-8").split() == text.split(), "run `python docs/site/generate.py`"


def test_the_reference_has_every_public_name(site: Callable[[str], ModuleType]) -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    names = {*elmo_hf.__all__, *elmo_hf_conversion.__all__}
    assert names == {name for name in names if re.search(rf"^\* `{name}\b", page, re.MULTILINE)}

    on_the_site = site("reference").on_page_markdown(
        page, SimpleNamespace(file=SimpleNamespace(src_uri="reference.md"))
    )
    assert on_the_site.count(":::") > 20
    assert "generated" not in on_the_site


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Find the `elmo-hf` commands of a block, each after `$ `, and what is shown below each."""
    for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = piece.replace("\\\n", " ").partition("\n")
        if command.startswith("elmo-hf "):
            yield command, shown


def comparable(output: str, *, abs: float = 2e-4) -> list[object]:
    """Split an output at white space, with fractions as numbers that may differ by a little."""
    words = FOLDER_SIZE.sub("SIZE", output).split()
    return [pytest.approx(float(word), abs=abs) if FRACTION.fullmatch(word) else word for word in words]
