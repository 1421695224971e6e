"""`examples/finetune_coreference.py` finds clusters, scores them, goes on, and refuses what it cannot read."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file

from elmo_hf import ElmoError, ElmoForCoreferenceResolution
from elmo_hf.data.coreference import Document, read_documents, write_conll_documents, write_json_documents


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "finetune_coreference.py"
Run = Callable[..., None]

STORIES = [
    Document(
        "one",
        [["Ann", "met", "Bob", "."], ["She", "liked", "him", "."], ["It", "rained", "."]],
        [[(0, 0), (4, 4)], [(2, 2), (6, 6)], [(8, 8)]],
        [["A"] * 4, ["B"] * 4, ["A"] * 3],
    ),
    Document("two", [["A", "dog", "barked", "."], ["Sue", "saw", "the", "dog", "."]], [[(1, 1), (7, 7)], [(4, 4)]]),
]


def write(path: str, documents: list[Document] = STORIES) -> None:
    text = io.StringIO()
    (write_conll_documents if path.endswith("conll") else write_json_documents)(documents, text)
    Path(path).write_text(text.getvalue(), encoding="utf-8")


@pytest.fixture
def run(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the script in a folder with two documents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    write("train.jsonl")

    def main(*arguments: str, train: str = "train.jsonl") -> None:
        small = ["--threads=1", "--output=out", "--head-hidden-size=6", "--epochs=1"]
        monkeypatch.setattr(sys, "argv", ["finetune_coreference.py", *([train] if train else []), *small, *arguments])
        script.main()

    return main


def results(folder: str = "out") -> dict[str, float]:
    return json.loads(Path(folder, "all_results.json").read_text())


def test_learns_clusters_from_columns(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    write("train.conll")
    settings = ["--learning-rate=0.01", "--dropout=0", "--head-hidden-size=16", "--refinement-passes=1"]
    run(
        "--dev=train.conll",
        "--epochs=25",
        "--use-speakers",
        "--spans-per-word=3",
        "--max-span-width=2",
        *settings,
        train="train.conll",
    )

    assert results()["dev_conll"] == results()["dev_muc_f1"] == results()["dev_mentions_recall"] == 1
    # single mentions are dropped
    expected = [document.clusters[: 2 - number] for number, document in enumerate(STORIES)]
    assert [document.clusters for document in read_documents("out/dev_predictions.jsonl")] == expected
    model = ElmoForCoreferenceResolution.from_pretrained("out")
    assert (model.config.use_speakers, model.config.refinement_passes) == (True, 1)
    (record,) = [each for each in model.config.training_history if each["task"] == "coreference-resolution"]
    assert (record["sentences"], record["words"]) == (5, 20)
    printed = capsys.readouterr().out
    assert "MUC             1.0000    1.0000    1.0000" in printed
    assert "Find what means the same: elmo-hf predict out FILE" in printed
    card = Path("out/README.md").read_text(encoding="utf-8")
    assert "| development | CoNLL-2012 (mean F1) | 1.0000 |" in card
    assert "pipeline_tag" not in card
    assert "- coreference-resolution" in card


@pytest.mark.parametrize("place", [[], ["--without-elmo"]], ids=["beside", "without"])
def test_reads_word_vectors_and_characters_beside_elmo_or_without(place: list[str], run: Run) -> None:
    Path("vectors.txt").write_text("ann 1 2\nbob 3 4\ndog 5 6\n", encoding="utf-8")
    run("--dev=train.jsonl", "--word-vectors=vectors.txt", "--task-chars", *place)

    weights = load_file("out/model.safetensors")
    assert weights["task_embeddings.word_embeddings.weight"][2:].tolist() == [[5, 6], [1, 2], [3, 4]]
    assert any(name.startswith("elmo.") for name in weights) == (not place)
    run("--model=out", "--test=train.jsonl", "--output=again", train="")
    assert results("again")["test_conll"] == results()["dev_conll"]


def test_a_trained_model_is_measured_alone_with_single_mentions_and_on_gap(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sentencex")
    run("--dev=train.jsonl")
    columns = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref"
    gap = f"{columns}\nx\tAnn met Sue. She left.\tShe\t13\tAnn\t0\tTRUE\tSue\t8\tFALSE\n"
    Path("gap.tsv").write_text(gap, encoding="utf-8")

    run("--model=out", "--test=train.jsonl", "--output=again", "--keep-singletons", "--gap=gap.tsv", train="")

    scores = json.loads(Path("again/gap_results.json").read_text())
    assert scores["gap_f1"] == scores["gap_feminine_f1"] >= scores["gap_masculine_f1"] == 0
    assert "feminine" in capsys.readouterr().out

    assert results("again")["test_mentions_recall"] <= 6 / 8
    assert [document.name for document in read_documents("again/test_predictions.jsonl")] == ["one", "two"]


def test_a_resumed_training_of_parts_ends_with_the_same_weights(run: Run, tmp_path: Path) -> None:
    options = ["--dev=train.jsonl", "--epochs=3", "--max-sentences=2", "--mix-at=both"]
    run("--output=whole", *options)
    run("--output=cut", *options)
    for checkpoint in sorted(Path("cut").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[1:]:
        checkpoint.rename(tmp_path / f"away-{checkpoint.name}")

    run("--output=cut", *options, "--resume")

    whole, cut = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(part, cut[name]) for name, part in whole.items())
    with pytest.raises(ElmoError, match=r"^missing\.tsv cannot be read"):
        # before the training
        run("--output=never", *options, "--gap=missing.tsv")
    assert not Path("never").exists()
    with pytest.raises(ElmoError, match=r"^cut is of another run \(.*max_sentences: 2 then, 3 now.*\)"):
        run("--output=cut", *options, "--max-sentences=3", "--resume")


def test_layers_that_are_computed_once_train_the_same(run: Run) -> None:
    options = ["--epochs=2", "--max-sentences=1", "--dropout=0"]
    run("--output=once", *options)
    run("--output=each", "--no-layers-once", *options)

    once, each = (load_file(Path(name, "model.safetensors")) for name in ("once", "each"))
    for name, part in once.items():
        # the layers have half precision
        torch.testing.assert_close(part, each[name], atol=2e-2, rtol=2e-2, msg=name)


def test_a_training_set_without_clusters_is_refused(run: Run) -> None:
    Path("x.jsonl").write_text('{"sentences": [["Ann", "left"]], "clusters": [[[0, 0]]]}\n', encoding="utf-8")

    with pytest.raises(ElmoError, match=r"^x\.jsonl has no clusters of two mentions: give documents"):
        run(train="x.jsonl")


def test_a_file_that_is_no_document_is_named(run: Run) -> None:
    Path("x.jsonl").write_text('{"text": "Ann"}\n', encoding="utf-8")

    with pytest.raises(ElmoError, match=r"^x\.jsonl, line 1: sentences is None: give a list of sentences"):
        run(train="x.jsonl")
