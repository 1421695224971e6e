"""`cli.predict`: files and standard input, where answers go, and what is refused, in one line each."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from elmo_hf import (
    ElmoForCoreferenceResolution,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
)
from elmo_hf.cli import main
from elmo_hf.data.coreference import Document, read_documents, write_conll_documents
from elmo_hf.data.tagged import read_tagged
from elmo_hf.prediction import load, predict
from support.cli_runs import Captured, error_of
from support.task_models import NAMES, save_task_model


pytestmark = pytest.mark.usefixtures("library_logging")

LINES = "Ann met Bob,  in New York.\n\n👩‍👩‍👧 e\u0301 Zürich\n"


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "tagger"
    return str(save_task_model(ElmoForTokenClassification, folder, id2label=dict(enumerate(NAMES))))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "classifier"
    return str(save_task_model(ElmoForSequenceClassification, folder, id2label={0: "no", 1: "yes"}))


@pytest.fixture(scope="module")
def resolver(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "resolver"
    return str(save_task_model(ElmoForCoreferenceResolution, folder))


def answers(model: str, inputs: list[Any], **options: Any) -> list[dict[str, Any]]:
    return list(predict(*load(model), inputs, **options))


def printed(captured: Captured) -> list[dict[str, Any]]:
    output, error = captured.readouterr()
    assert error == ""
    return [json.loads(line) for line in output.splitlines()]


def test_each_line_of_a_file_has_a_line_of_output(tagger: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "lines.txt").write_text(LINES, encoding="utf-8")

    assert main(["predict", tagger, "--batch-size", "1", str(tmp_path / "lines.txt")]) == 0

    results = printed(capsys)
    assert results == answers(tagger, LINES.split("\n")[:-1])
    assert results[1] == {"text": "", "words": [], "tags": [], "scores": [], "entities": []}


def test_standard_input_and_texts(
    tagger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    expected = answers(tagger, ["didn't stop", "b"], tokenized=True)
    capsys.readouterr()
    assert main(["predict", tagger, "--text", "didn't stop", "--text", "b", "--tokenized"]) == 0
    assert printed(capsys) == expected

    (tmp_path / "input").write_text('{"body": "didn\'t stop"}\n{"body": "b"}\n', encoding="utf-8")
    with (tmp_path / "input").open(encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert main(["predict", tagger, "-", "--format=jsonl", "--text-field=body", "--tokenized"]) == 0
    assert printed(capsys) == [{"body": result["text"], **result} for result in expected]


def test_pairs_keep_the_fields_of_their_records(classifier: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "pairs.csv").write_text('id,a,b,label\n1,"It rains, now.",We sing.,no\n2,,,yes\n', encoding="utf-8")

    assert main(["predict", classifier, str(tmp_path / "pairs.csv"), "--text-field=a", "--pair-field=b"]) == 0

    records = [
        {"id": "1", "a": "It rains, now.", "b": "We sing.", "label": "no"},
        {"id": "2", "a": "", "b": "", "label": "yes"},
    ]
    results = printed(capsys)
    assert results == answers(classifier, records, text_field="a", pair_field="b")
    assert results[1] == {"id": "2", "a": "", "b": "", "given_label": "yes", "label": None, "scores": None}


def test_columns_in_and_out(tagger: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "in.conll").write_text("Ann B-PER\nmet O\n\nHà\u00a0Nội B-LOC\n", encoding="utf-8")
    output = tmp_path / "out.conll"

    assert main(["predict", tagger, str(tmp_path / "in.conll"), "--output", str(output)]) == 0

    assert capsys.readouterr().out == f"Wrote the predictions for 2 inputs to {output}.\n"
    sentences = [["Ann", "met"], ["Hà\u00a0Nội"]]
    assert read_tagged(output) == [(result["words"], result["tags"]) for result in answers(tagger, sentences)]


def test_a_model_without_elmo_predicts(tmp_path: Path, capsys: Captured) -> None:
    own = {"mix_at": "none", "task_char_embedding_dim": 4, "task_char_filters": [[3, 6]]}
    model = str(save_task_model(ElmoForTokenClassification, tmp_path / "m", id2label=dict(enumerate(NAMES)), **own))
    expected = answers(model, ["Ann met Bob ."])
    capsys.readouterr()

    assert main(["predict", model, "--text", "Ann met Bob ."]) == 0
    assert printed(capsys) == expected


def test_a_csv_file_is_a_table_with_commas(classifier: str, tmp_path: Path) -> None:
    output = tmp_path / "out.CSV"
    assert main(["predict", classifier, "--text", "It rains, now.", "--output", str(output)]) == 0

    (result,) = answers(classifier, ["It rains, now."])
    assert output.read_text(encoding="utf-8") == (
        'input,text,label,score_no,score_yes\n1,"It rains, now.",'
        f"{result['label']},{result['scores']['no']},{result['scores']['yes']}\n"
    )


def test_half_a_character_in_another_field_stays(
    classifier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a", "title": "\\ud800"}\n', encoding="utf-8")
    output = tmp_path / "out.jsonl"

    assert main(["predict", classifier, str(tmp_path / "a.jsonl"), "--output", str(output)]) == 0

    assert json.loads(output.read_text(encoding="utf-8"))["title"] == "\ud800"
    # as a terminal in another encoding is
    with (tmp_path / "stdout").open("w", encoding="ascii") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert main(["predict", classifier, str(tmp_path / "a.jsonl")]) == 0
    assert (tmp_path / "stdout").read_bytes() == output.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["elmo-small-en", "--text=a"], "elmo-small-en is a language model .*`elmo-hf fill`"),
        (["MODEL", "no.txt"], r"no\.txt cannot be read"),
        (["MODEL", "--text=a", "--device=moon"], "no device 'moon'"),
        (["MODEL", "--text=a", "--output=out.txt"], r"out\.txt does not tell the format"),
        (["MODEL", "--text=a", "--output=taken.csv"], r"taken\.csv exists already"),
        (["MODEL", "--text=a", "--output-format=conll"], "CoNLL columns are for the tags of words"),
        (["MODEL", "taken.csv", "--output=out.csv"], r"taken\.csv, line 2: no column premise"),
        (["MODEL", "", "--output=out.csv"], "The name of the file is empty: give a file"),
        (["MODEL", "--text=a", "--text=\udcff", "--output=out.csv"], "Input 2: The sentence .* half of a character"),
        (["MODEL", "inf.JSONL"], r"inf\.JSONL, line 3: x holds inf, a number that JSON does not have"),
        (["MODEL", "bad.jsonl", "--output=out.csv"], r"bad\.jsonl, line 2: not JSON"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_no_file(
    arguments: list[str],
    message: str,
    classifier: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken.csv").write_text("my,own\n1,2\n", encoding="utf-8")
    Path("inf.JSONL").write_text('{"text": "a", "x": NaN}\n\n{"text": "a", "x": [1e999]}\n', encoding="utf-8")
    Path("bad.jsonl").write_text('{"text": "a"}\n{\n', encoding="utf-8")

    assert main(["predict", *(classifier if part == "MODEL" else part for part in arguments)]) == 1

    assert re.search(message, error_of(capsys))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "inf.JSONL", "taken.csv"]


@pytest.mark.parametrize(
    "options",
    [
        *(["--batch-size=0"], ["--threads=0"], ["--text=b"], ["--text-field=a"], ["--pair-field=a"]),
        *(["--word-column=1"], ["--predicate-column=1"]),
        ["--format=conll", "--predicate-column=1", "--predicate-pos=V"],
        *(["--no-answer-threshold=1"], ["--no-answer", "--no-answer-threshold=nan"]),
    ],
    ids=" ".join,
)
def test_wrong_options_are_wrong_usage(options: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["predict", "model", "file", *options])
    assert "elmo-hf predict: error:" in capsys.readouterr().err


def test_an_interruption_leaves_no_file(
    classifier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def interrupted(*_: object, **__: object) -> Any:
        yield {"text": "a", "label": "no", "scores": {}}
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo_hf.prediction.predict", interrupted)
    output = tmp_path / "out.jsonl"

    assert main(["predict", classifier, "--text=a", "--output", str(output)]) == 130

    assert capsys.readouterr().err == f"Interrupted: {output} was not written.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_and_a_full_disk(classifier: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["predict", classifier, "--text=a"]) == 141
    assert capsys.readouterr().err == ""

    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["predict", classifier, "--text=a"]) == 1
    assert error_of(capsys) == "elmo-hf: error: standard input or output fails: No space left on device\n"


def test_the_questions_of_squads_json_and_of_records(tmp_path: Path, capsys: Captured) -> None:
    model = str(save_task_model(ElmoForQuestionAnswering, tmp_path / "model"))
    # what the library prints of loading and saving
    capsys.readouterr()
    asked = [{"id": "q1", "question": "Who met Bob?"}, {"id": "q2", "question": "Where?"}]
    context = "Ann met Bob, in New York."
    squad = {"data": [{"title": "x", "paragraphs": [{"context": context, "qas": asked}]}]}
    (tmp_path / "squad.json").write_text(json.dumps(squad, indent=1), encoding="utf-8")
    records = [{"context": context, **question} for question in asked]
    (tmp_path / "lines.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")

    assert main(["predict", model, str(tmp_path / "squad.json")]) == 0
    results = printed(capsys)
    assert results == answers(model, records)
    capsys.readouterr()
    assert [list(result)[:3] for result in results] == [["context", "id", "question"]] * 2
    assert main(["predict", model, str(tmp_path / "lines.jsonl"), "--output-format", "table"]) == 0

    (tmp_path / "bad.jsonl").write_text(f"\n{json.dumps(records[0])}\n{{}}\n", encoding="utf-8")
    table = capsys.readouterr().out
    assert main(["predict", model, str(tmp_path / "bad.jsonl")]) == 1
    assert re.search(r"bad\.jsonl, line 3: no column question", error_of(capsys))

    header, first, _ = table.splitlines()
    assert header.split("\t") == ["input", "context", "id", "question", "answer", "start", "end", "score"]
    assert first.split("\t")[4] == (results[0]["answer"] or "")


def test_documents_in_every_format(
    resolver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    lines = ["Ann met Bob .", "She saw him ."]
    (tmp_path / "story.txt").write_text("\n".join(lines), encoding="utf-8")
    sentences = [line.split() for line in lines]
    with (tmp_path / "story.conll").open("w", encoding="utf-8") as file:
        write_conll_documents([Document("x", sentences, [], None, 2)], file)
    (tmp_path / "words.conll").write_text("\n\n".join("\n".join(words) for words in sentences), encoding="utf-8")
    (tmp_path / "story.jsonl").write_text(json.dumps({"doc": "x", "sentences": sentences}), encoding="utf-8")
    (expected,) = answers(resolver, ["\n".join(lines)])
    assert expected["clusters"]

    for name in ("story.txt", "story.conll", "words.conll", "story.jsonl"):
        assert main(["predict", resolver, str(tmp_path / name)]) == 0
        (result,) = printed(capsys)
        assert (result["sentences"], result["mentions"]) == (sentences, expected["mentions"]), name
    assert main(["predict", resolver, "--text", lines[0], "--text", lines[1]]) == 0
    assert printed(capsys) == [expected]
    # OntoNotes has a suffix of its own, and standard input none
    (tmp_path / "story.v4_gold_conll").write_bytes((tmp_path / "story.conll").read_bytes())
    (tmp_path / "later.conll").write_text("\n# by hand\n" + (tmp_path / "story.conll").read_text())
    for name, arguments in (
        *(("story.v4_gold_conll", []), ("story.conll", []), ("later.conll", [])),
        ("words.conll", ["--format=conll"]),
    ):
        with (tmp_path / name).open(encoding="utf-8") as file:
            monkeypatch.setattr(sys, "stdin", file)
            for source in ["-"] if "words" in name else [str(tmp_path / name), "-"]:
                assert main(["predict", resolver, source, *arguments]) == 0
                (result,) = printed(capsys)
                assert (result["sentences"], result["mentions"]) == (sentences, expected["mentions"]), name
                assert result.get("part") == (None if "words" in name else 2)

    assert main(["predict", resolver, str(tmp_path / "story.jsonl"), "--output", str(tmp_path / "out.conll")]) == 0
    (document,) = read_documents(tmp_path / "out.conll")
    assert (document.name, document.clusters) == ("x", [[(*part,) for part in each] for each in expected["clusters"]])
    assert main(["predict", resolver, str(tmp_path / "story.jsonl"), "--output", str(tmp_path / "out.tsv")]) == 0
    header, *rows = (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "input\tdoc\tcluster\tstart\tend\ttext"
    assert len(rows) == sum(map(len, expected["clusters"]))


def test_sentences_are_split_for_documents_only(tagger: str, resolver: str, capsys: Captured) -> None:
    pytest.importorskip("sentencex")

    assert main(["predict", resolver, "--text", "Ann met Bob. She saw him.", "--split-sentences", "en"]) == 0
    (result,) = printed(capsys)
    assert len(result["sentences"]) == 2
    assert main(["predict", tagger, "--text", "Ann met Bob.", "--split-sentences", "en"]) == 1
    assert "--split-sentences is for coreference" in error_of(capsys)


@pytest.fixture(scope="module")
def labeller(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "labeller"
    names = {0: "O", 1: "B-V", 2: "I-V", 3: "B-ARG0", 4: "I-ARG0"}
    return str(save_task_model(ElmoForTokenClassification, folder, head="alternating-lstm", id2label=names))


def predicates(captured: Captured) -> list[list[int]]:
    return [[frame["predicate"] for frame in result["frames"]] for result in printed(captured)]


def test_roles_for_verbs_of_columns_and_for_words_of_a_list(labeller: str, tmp_path: Path, capsys: Captured) -> None:
    words = [("They", "they", "PRON", "X"), ("saw", "see", "VERB", "Y"), ("it", "it", "PRON", "X")]
    rows = [[str(n), word, lemma, pos, *["_"] * 6] for n, (word, lemma, pos, _) in enumerate(words, start=1)]
    (tmp_path / "in.conllu").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    marks = {"X": "x", "Y": "-"}
    (tmp_path / "in.conll").write_text("".join(f"{row[0]} {row[3]} {marks[row[3]]}\n" for row in words))
    (tmp_path / "in.gold_conll").write_text(
        "#begin document (a); part 000\n"
        "a 0 0 They PRP * - - - - * (ARG0*) -\na 0 1 saw VBD * see 01 1 - * (V*) -\n\n"
        "a 0 0 Hearings NNS * hearing - - - * * (ARG0*) -\na 0 1 follow VBP * follow 01 - - * (V*) * -\n"
        "a 0 2 hearings NNS * hearing 01 - - * * (V*) -\n#end document\n"
    )
    (tmp_path / "list.txt").write_text("They\nIT\n", encoding="utf-8")
    (tmp_path / "lemmas.txt").write_text("see\n", encoding="utf-8")

    for arguments, expected in (
        (["in.conllu"], [[1]]),
        (["in.conllu", "--predicate-pos", "PRON"], [[0, 2]]),
        (["in.conll", "--pos-column=1", "--predicate-pos=Y"], [[1]]),
        (["in.conll", "--predicates", str(tmp_path / "list.txt")], [[0, 2]]),
        (["in.conllu", "--predicates", str(tmp_path / "lemmas.txt")], [[1]]),
        (["in.conll", "--predicate-column=2"], [[0, 2]]),
        (["in.gold_conll"], [[1], [1]]),
        (["in.gold_conll", "--predicates", str(tmp_path / "lemmas.txt")], [[1], []]),
        (["in.gold_conll", "--predicate-column=7"], [[1], [1, 2]]),
    ):
        assert main(["predict", labeller, str(tmp_path / arguments[0]), *arguments[1:]]) == 0
        assert predicates(capsys) == expected
    output = tmp_path / "out.conll"
    assert main(["predict", labeller, str(tmp_path / "in.conllu"), "--output", str(output)]) == 0
    assert [line.split("\t")[:2] for line in output.read_text().splitlines()[:3]] == [
        ["They", "-"],
        ["saw", "saw"],
        ["it", "-"],
    ]


def test_predicates_that_nothing_tells_or_asks_for_are_one_line(
    labeller: str, tagger: str, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "in.txt").write_text("They saw it .\n", encoding="utf-8")

    assert main(["predict", labeller, str(tmp_path / "in.txt")]) == 1
    assert (
        "in.txt, line 1: the model finds the roles of predicates, and nothing tells which" in capsys.readouterr().err
    )
    (tmp_path / "in.conll").write_text("They X\n", encoding="utf-8")
    for arguments in (["in.txt", "--predicate-pos=V"], ["in.conll", "--predicate-column=1"]):
        assert main(["predict", tagger, str(tmp_path / arguments[0]), arguments[1]]) == 1
        assert "The model finds no semantic roles: leave the predicates out." in capsys.readouterr().err
