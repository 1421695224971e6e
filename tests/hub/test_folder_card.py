"""The card of a model folder says what the folder holds, and its examples run with and without the package."""

import ast
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from elmo_hf import (
    ELMO_SMALL_EN,
    ElmoForCoreferenceResolution,
    ElmoForMaskedLM,
    ElmoForMultipleChoice,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)
from elmo_hf.cli.main import build_parser
from elmo_hf.hub.cards import PLACEHOLDER
from elmo_hf.hub.folder_card import folder_metadata, make_card
from support.fresh_python import FRESH_PYTHON
from support.tiny_models import tiny_model


SPANS = {0: "O", 1: "B-PER", 2: "I-PER"}
PAIRS = [{"task": "text-classification", "inputs": "pairs", "base_model": "ann/base", "dataset": "ann/pairs"}]

# for each kind of model its class and fields, its task on the Hub, and what its card says or calls
KINDS = {
    "vectors": (ElmoModel, {}, "feature-extraction", "gives a vector for each word"),
    "characters": (ElmoModel, {"vocab_size": 4}, "feature-extraction", '"ELMo", "2018"'),
    "language_model": (ElmoForPreTraining, {}, "fill-mask", "<MASK>"),
    "masked": (ElmoForMaskedLM, {}, "fill-mask", "elmo-hf perplexity"),
    "spans": (ElmoForTokenClassification, {"id2label": SPANS, "head": "bilstm-crf", "head_hidden_size": 6},
              "token-classification", 'aggregation_strategy="simple"'),
    "tags": (ElmoForTokenClassification, {"num_labels": 3}, "token-classification", "ignore_labels=[]"),
    "roles": (ElmoForTokenClassification, {"id2label": SPANS, "head": "alternating-lstm", "head_hidden_size": 6},
              "semantic-role-labeling", 'batch["token_type_ids"][0, 1 + predicate] = 1'),
    "sentences": (ElmoForSequenceClassification, {"num_labels": 3}, "text-classification", "elmo-hf predict"),
    "several": (ElmoForSequenceClassification, {"num_labels": 3, "problem_type": "multi_label_classification"},
                "text-classification", "top_k=None"),
    "numbers": (ElmoForSequenceClassification, {"num_labels": 1, "problem_type": "regression"},
                "text-classification", "give sentences a number"),
    "number": (ElmoForSequenceClassification, {"num_labels": 1}, "text-classification", "gives each sentence of a"),
    "pairs": (ElmoForSequenceClassification, {"num_labels": 3, "head": "esim", "head_hidden_size": 6},
              "text-classification", '"text_pair": '),
    "default_pairs": (ElmoForSequenceClassification, {"num_labels": 3, "training_history": PAIRS},
                      "text-classification", "label pairs of sentences"),
    "choices": (ElmoForMultipleChoice, {}, "multiple-choice", "AutoModelForMultipleChoice"),
    "answers": (ElmoForQuestionAnswering, {}, "question-answering", "Answers to questions, and texts that hold them"),
    "mentions": (ElmoForCoreferenceResolution, {}, "coreference-resolution", "mentions of the same thing"),
}  # fmt: skip


def save(kind: str, folder: Path) -> Path:
    cls, fields, *_ = KINDS[kind]
    words = ["<S>", "</S>", "<UNK>", *([] if kind == "characters" else [",", "der", "die", "Straße"])]
    # quotes and backslashes must not end the strings of an example
    mask = {"language_model": {"mask_token": "<MASK>"}, "masked": {"mask_token": '<"M\\">'}}.get(kind, {})
    tokenizer = ElmoTokenizer(words, max_characters_per_token=20, **mask)
    tiny_model(cls, **{"vocab_size": tokenizer.vocab_size, **fields}).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def examples_of(card: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", card, re.DOTALL)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_card_says_what_it_is_and_its_examples_run(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save(kind, tmp_path / "model")
    _, _, task, part = KINDS[kind]

    card = make_card(folder, str(folder), {"license": "mit", **folder_metadata(folder, "ann/x", [])})

    # the Hub has no such tasks
    known = task not in ("coreference-resolution", "semantic-role-labeling")
    assert ModelCard(card).data.pipeline_tag == (task if known else None)
    assert ModelCard(card).data.tags == (["elmo"] if known else ["elmo", task])
    assert part in card
    assert "| parameters |" in card
    assert "Of a word it reads 18 bytes at most." in card
    assert "{" not in re.sub(r"```.*?```", "", card, flags=re.DOTALL)
    assert ("der die Straße" in card or '"der", "die", "Straße"' in card) == (kind != "characters")
    *_, with_package = examples_of(card)
    assert "import elmo_hf" in with_package
    assert "trust_remote_code" not in with_package
    for example in examples_of(card):
        exec(compile(example, "card", "exec"), {})  # noqa: S102 - it is what the card tells to do
    assert capsys.readouterr().out
    (command,) = re.findall(r"`elmo-hf ([^`]+)`", card)
    assert build_parser().parse_args(shlex.split(command))


# runs the examples of all cards, and stops at the first that fails
PROGRAM = """
import json, sys
sys.modules["elmo_hf"] = sys.modules["elmo_hf_conversion"] = None
for name, code in json.load(open(sys.argv[1], encoding="utf-8")):
    try:
        exec(compile(code, name, "exec"), {})
    except BaseException as error:
        raise SystemExit(f"{name}: {error!r}")
    print("ran", name)
"""


def test_the_examples_of_all_heads_run_where_the_package_is_not_installed(tmp_path: Path) -> None:
    examples = []
    for kind in KINDS:
        folder = save(kind, tmp_path / kind)
        *codes, _ = examples_of(make_card(folder, str(folder), {}))
        assert all("trust_remote_code=True" in code for code in codes)
        examples += [(kind, code) for code in codes]
    (tmp_path / "examples.json").write_text(json.dumps(examples), encoding="utf-8")
    environment = {**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}

    command = [*FRESH_PYTHON, "-c", PROGRAM, str(tmp_path / "examples.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("ran ")] == [
        kind for kind, _ in examples
    ]


def test_a_card_of_a_converted_model_names_its_sources(bilm_model: Path) -> None:
    card = make_card(bilm_model, "ann/tiny", {})

    for source in json.loads((bilm_model / "provenance.json").read_text(encoding="utf-8"))["sources"]:
        assert f"| {source['name']} | {source['size']:,} | `{source['sha256']}` |" in card
    assert card == make_card(bilm_model, "ann/tiny", {})


def test_without_a_mask_no_word_is_predicted(tmp_path: Path) -> None:
    folder = save("vectors", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["ElmoForPreTraining"]}))

    assert folder_metadata(folder, "ann/x", [])["pipeline_tag"] == "feature-extraction"


def test_results_of_the_model_are_in_card_and_metadata(tmp_path: Path) -> None:
    folder = save("default_pairs", tmp_path / "model")
    metrics = {"test_macro_f1": 0.51239, "test_runtime": 3.0, "test_loss": 0.3, "epoch": 2.0}
    (folder / "test_results.json").write_text(json.dumps(metrics), encoding="utf-8")

    metadata = folder_metadata(folder, "ann/judge", [])
    card = ModelCard(make_card(folder, "ann/judge", metadata))

    assert "| test | Macro F1 | 0.5124 |" in card.text
    assert "| base model | ann/base |" in card.text
    assert (card.data.base_model, card.data.datasets) == ("ann/base", ["ann/pairs"])
    (score,) = [result for result in card.data.eval_results if result.metric_type == "f1"]
    assert (score.dataset_type, score.dataset_split, score.metric_value) == ("ann/pairs", "test", 0.5124)
    other = folder_metadata(folder, "ann/judge", ["bob/own"])
    assert other["model-index"][0]["results"][0]["dataset"]["type"] == "bob/own"
    # a file is no data set of the Hub
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    history = [{"task": "text-classification", "text": ["test.jsonl"], "base_model": "my-folder"}]
    (folder / "config.json").write_text(json.dumps(config | {"training_history": history}))
    assert not {"datasets", "model-index", "base_model"} & folder_metadata(folder, "ann/judge", []).keys()


def test_a_base_model_that_is_a_folder_is_no_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save("default_pairs", tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    Path("out/ner").mkdir(parents=True)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))

    for base in ("out/ner", "/home/me/m", "a/b/c", "../m"):
        history = [{"task": "text-classification", "base_model": base}]
        (folder / "config.json").write_text(json.dumps(config | {"training_history": history}))
        metadata = folder_metadata(folder, "ann/judge", [])
        assert "base_model" not in metadata
        assert "/home" not in make_card(folder, "ann/judge", metadata)


def test_code_of_a_card_is_short(tmp_path: Path) -> None:
    folder = save("spans", tmp_path / "model")

    card = make_card(folder, "ann/x", {})

    assert "| labels | O, B-PER, I-PER |" in card
    # of no name, the example says so
    assert 'print(len(spans), "spans found")' in card
    *_, with_package = examples_of(card)
    body = [ast.Import, ast.ImportFrom, ast.Assign, ast.Expr]
    assert [type(line) for line in ast.parse(with_package).body] == body


def test_the_card_on_the_page_is_a_real_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "publishing.md").read_text(encoding="utf-8")
    shown = re.search(r"^````markdown\n(.*?)^````$", page, re.DOTALL | re.MULTILINE)
    metadata = folder_metadata(Path(ELMO_SMALL_EN), "ann/my-elmo", [])

    card = make_card(Path(ELMO_SMALL_EN), "ann/my-elmo", {"license": "apache-2.0", "language": "en", **metadata})

    assert shown is not None
    assert card.startswith(shown[1].rstrip())


def test_the_examples_of_the_bundled_model_run(capsys: pytest.CaptureFixture[str]) -> None:
    card = Path(ELMO_SMALL_EN, "README.md").read_text(encoding="utf-8")

    for example in examples_of(card):
        exec(compile(example.replace(PLACEHOLDER, ELMO_SMALL_EN), "card", "exec"), {})  # noqa: S102 - what the card tells

    assert ModelCard(card).data.pipeline_tag == "fill-mask"
    assert capsys.readouterr().out == "States\nStates\n"
