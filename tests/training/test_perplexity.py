"""`training.perplexity`: what each sentence costs, however it is batched, and the command that says so of a text."""

import json
import math
import re
from io import BufferedReader, BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import torch

from elmo_hf import ElmoError, ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf.cli import main
from elmo_hf.training.perplexity import (
    CorpusScore,
    SentenceScore,
    load_language_model,
    open_score_file,
    score,
    score_each_word,
)
from support.tiny_models import tiny_model


VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "bank", "of", "river", "rose", "."]
# lengths of all kinds, words that are not in the vocabulary, one that is a boundary, and none
SENTENCES = [
    text.split()
    for text in (
        "the bank rose .",
        "the",
        "",
        "the bank of the river <S> rose and rose to the unusual height of the bank of the river .",
        "<UNK> rose .",
        "the bank rose .",
    )
]

LanguageModel = tuple[ElmoForPreTraining, ElmoTokenizer]
Captured = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("library_logging")


@pytest.fixture(scope="module", params=["characters", "words"])
def language_model(request: pytest.FixtureRequest) -> LanguageModel:
    """A tiny language model, and its tokenizer. Not to be changed."""
    tokenizer = ElmoTokenizer(VOCABULARY, max_characters_per_token=20)
    fields = {"word_embedding_dim": 6, "char_embedding_dim": 0} if request.param == "words" else {}
    model = tiny_model(ElmoForPreTraining, vocab_size=len(tokenizer), **fields)
    # random weights of an ordinary size hardly tell one word from another
    model.softmax.weight.data.mul_(5)
    return model, tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny language model. Not to be written to."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = ElmoTokenizer(VOCABULARY, max_characters_per_token=20)
    tokenizer.save_pretrained(folder)
    tiny_model(ElmoForPreTraining, vocab_size=len(tokenizer)).save_pretrained(folder)
    return folder


@torch.inference_mode()
def plain_loop(language_model: LanguageModel, words: list[str]) -> tuple[float, float]:
    """Read the sentence whole, and add up minus the log probabilities of what comes next, word by word."""
    model, tokenizer = language_model
    batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    output = model(**batch)
    # [T, V]
    forward = output.forward_logits[0].double().log_softmax(dim=1)
    backward = output.backward_logits[0].double().log_softmax(dim=1)
    ids = batch["input_ids"][0].tolist()
    sums = [0.0, 0.0]
    for k in range(len(ids) - 1):
        sums[0] -= float(forward[k, ids[k + 1]])
        sums[1] -= float(backward[k + 1, ids[k]])
    return sums[0], sums[1]


@torch.inference_mode()
def plain_stream(language_model: LanguageModel, sentences: list[list[str]]) -> list[tuple[float, float]]:
    """Read one word at a time in each direction, with the state carried on from sentence to sentence."""
    model, tokenizer = language_model
    state, sums = None, []
    for words in sentences:
        encoded = tokenizer([words], is_split_into_words=True, return_tensors="pt")
        ids, last = encoded["input_ids"][0], len(words) + 1
        costs = [0.0, 0.0]
        for k in range(last):
            places = torch.tensor([[[k], [last - k]]])
            read = {name: encoded[name][0][places] for name in ("input_ids", "char_ids")}
            output = model(**read, state=state, use_cache=True)
            state = output.state
            costs[0] -= float(output.forward_logits[0, 0].double().log_softmax(dim=0)[ids[k + 1]])
            costs[1] -= float(output.backward_logits[0, 0].double().log_softmax(dim=0)[ids[last - k - 1]])
        sums.append((costs[0], costs[1]))
    return sums


def nats(scores: list[SentenceScore]) -> list[tuple[float, float]]:
    return [(one.forward_nats, one.backward_nats) for one in scores]


def near(expected: list[tuple[float, float]]) -> list[object]:
    return [pytest.approx(pair, rel=0, abs=1e-5) for pair in expected]


# the least, so that all are cut; some sentences together; all at once
@pytest.mark.parametrize("words_per_batch", [1, 7, 13, 2048])
def test_a_sentence_costs_what_a_plain_loop_adds_up(language_model: LanguageModel, words_per_batch: int) -> None:
    scores = list(score(*language_model, SENTENCES, words_per_batch=words_per_batch))

    assert nats(scores) == near([plain_loop(language_model, words) for words in SENTENCES])


@pytest.mark.parametrize("words", SENTENCES[:-1], ids=len)
def test_each_word_costs_what_its_logits_say(language_model: LanguageModel, words: list[str]) -> None:
    model, tokenizer = language_model
    batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    ids = batch["input_ids"][0].tolist()
    with torch.inference_mode():
        output = model(**batch)
    forward = output.forward_logits[0].double().log_softmax(dim=1)
    backward = output.backward_logits[0].double().log_softmax(dim=1)

    scores = score_each_word(model, tokenizer, words)

    assert [each.word for each in scores] == ["<S>", *words, "</S>"]
    known = {*VOCABULARY} - {"<UNK>"}
    assert [each.is_unknown for each in scores] == [each.word not in known for each in scores]
    assert (scores[0].forward_nats, scores[-1].backward_nats) == (None, None)
    for position in range(len(ids) - 1):
        nats = scores[position + 1].forward_nats
        assert nats == pytest.approx(-float(forward[position, ids[position + 1]]), abs=1e-5)
        nats = scores[position].backward_nats
        assert nats == pytest.approx(-float(backward[position + 1, ids[position]]), abs=1e-5)


def test_a_score_does_not_depend_on_the_other_sentences_or_their_order(language_model: LanguageModel) -> None:
    together = list(score(*language_model, reversed(SENTENCES)))

    alone = [next(score(*language_model, [words])) for words in SENTENCES]
    assert nats(together[::-1]) == near(nats(alone))


@pytest.mark.parametrize("words_per_batch", [1, 7, 13, 2048])
def test_a_stream_goes_on_from_sentence_to_sentence(language_model: LanguageModel, words_per_batch: int) -> None:
    scores = list(score(*language_model, SENTENCES, stateful=True, words_per_batch=words_per_batch))

    assert nats(scores) == near(plain_stream(language_model, SENTENCES))
    # the first and the last sentence are the same words
    assert scores[0].forward_nats != pytest.approx(scores[-1].forward_nats, abs=1e-3)


def test_a_text_is_cut_into_words_by_the_tokenizer(language_model: LanguageModel) -> None:
    (text,) = score(*language_model, ["the bank rose."])

    assert text == next(score(*language_model, [["the", "bank", "rose", "."]]))


def test_counts_words_and_those_outside_the_vocabulary(language_model: LanguageModel) -> None:
    scores = list(score(*language_model, SENTENCES))

    assert [one.words for one in scores] == [4, 1, 0, 20, 3, 4]
    assert [one.predictions for one in scores] == [5, 2, 1, 21, 4, 5]
    # "and", "to", "unusual", "height"; and <UNK> itself
    assert [one.unknown_words for one in scores] == [0, 0, 0, 4, 1, 0]


@pytest.mark.parametrize("stateful", [False, True])
def test_a_mask_is_predicted_as_an_unknown_word(language_model: LanguageModel, stateful: bool) -> None:
    model, _ = language_model
    tokenizer = ElmoTokenizer(VOCABULARY, max_characters_per_token=20, mask_token="<MASK>")

    masked, unknown = (
        next(score(model, tokenizer, [["the", "bank", word]], stateful=stateful)) for word in ("<MASK>", "unheard-of")
    )

    assert masked.unknown_words == 1
    # what the forward direction reads is the same: the mask is the last word
    assert masked.forward_nats - unknown.forward_nats == pytest.approx(
        boundary_cost(model, tokenizer, "<MASK>") - boundary_cost(model, tokenizer, "unheard-of"), abs=1e-5
    )


@torch.inference_mode()
def boundary_cost(model: ElmoForPreTraining, tokenizer: ElmoTokenizer, word: str) -> float:
    """Say what `</S>` costs after the words "the bank" and one more."""
    batch = tokenizer([["the", "bank", word]], is_split_into_words=True, return_tensors="pt")
    logits = model(**batch).forward_logits[0, 3].double()
    return -float(logits.log_softmax(dim=0)[tokenizer.eos_token_id])


def test_nothing_has_no_perplexity() -> None:
    nothing = CorpusScore()

    assert math.isnan(nothing.perplexity)
    assert math.isnan(nothing.forward_perplexity)
    assert math.isnan(nothing.backward_perplexity)
    assert nothing.unknown_rate == 0


def test_each_prediction_of_a_text_weighs_the_same() -> None:
    total = CorpusScore()

    total.add(SentenceScore(words=1, unknown_words=1, predictions=2, forward_nats=2.0, backward_nats=4.0))
    total.add(SentenceScore(words=3, unknown_words=0, predictions=4, forward_nats=7.0, backward_nats=11.0))

    assert (total.sentences, total.words, total.unknown_rate) == (2, 4, 0.25)
    assert total.forward_perplexity == pytest.approx(math.exp(9 / 6))
    assert total.backward_perplexity == pytest.approx(math.exp(15 / 6))
    assert total.perplexity == pytest.approx(math.exp(24 / 12))


def test_a_perplexity_beyond_all_numbers_is_infinite() -> None:
    assert CorpusScore(predictions=1, forward_nats=1e4).forward_perplexity == math.inf


def test_a_model_that_samples_in_training_is_measured_on_all_words() -> None:
    tokenizer = ElmoTokenizer(VOCABULARY, max_characters_per_token=20)
    model = tiny_model(ElmoForPreTraining, vocab_size=len(tokenizer), num_negative_samples=2)

    scores = list(score(model, tokenizer, SENTENCES))

    assert nats(scores) == near([plain_loop((model, tokenizer), words) for words in SENTENCES])


def test_refuses_what_would_give_wrong_numbers(language_model: LanguageModel) -> None:
    model, tokenizer = language_model

    with pytest.raises(ElmoError, match="The tokenizer has 11 words and the model 10"):
        score(model, ElmoTokenizer([*VOCABULARY, "more"]), SENTENCES)
    with pytest.raises(ElmoError, match="no eos_token"):
        score(model, ElmoTokenizer(VOCABULARY, eos_token=None), SENTENCES)
    with pytest.raises(ElmoError, match="words_per_batch is 0"):
        score(model, tokenizer, SENTENCES, words_per_batch=0)
    with pytest.raises(ElmoError, match="one text"):
        score(model, tokenizer, "the bank")
    with pytest.raises(ValueError, match="training mode"):
        score(tiny_model(ElmoForPreTraining, vocab_size=10).train(), tokenizer, SENTENCES)


def test_loads_a_language_model(folder: Path) -> None:
    model, tokenizer = load_language_model(folder)

    expected = tiny_model(ElmoForPreTraining, vocab_size=10)
    assert not model.training
    assert list(score(model, tokenizer, SENTENCES)) == list(score(expected, tokenizer, SENTENCES))


def test_refuses_a_model_without_softmax(tmp_path: Path) -> None:
    tokenizer = ElmoTokenizer(VOCABULARY, max_characters_per_token=20)
    tokenizer.save_pretrained(tmp_path)
    tiny_model(ElmoModel, vocab_size=len(tokenizer)).save_pretrained(tmp_path)

    with pytest.raises(ElmoError, match="has no softmax"):
        load_language_model(tmp_path)


def test_refuses_a_softmax_without_its_bias(tmp_path: Path) -> None:
    tokenizer = ElmoTokenizer(VOCABULARY, max_characters_per_token=20)
    tokenizer.save_pretrained(tmp_path)
    model = tiny_model(ElmoForPreTraining, vocab_size=len(tokenizer))
    weights = model.state_dict()
    del weights["softmax.bias"]
    model.save_pretrained(tmp_path, state_dict=weights)

    with pytest.raises(ElmoError, match=r"lack, .*, softmax.bias: convert it again"):
        load_language_model(tmp_path)


@pytest.mark.parametrize(
    ("vocabulary", "message"), [([], "has no vocabulary"), (VOCABULARY[:6], "has 7 words and the softmax 10")]
)
def test_refuses_a_vocabulary_that_is_not_the_models(vocabulary: list[str], message: str, tmp_path: Path) -> None:
    ElmoTokenizer(vocabulary, max_characters_per_token=20).save_pretrained(tmp_path)
    tiny_model(ElmoForPreTraining, vocab_size=10).save_pretrained(tmp_path)

    with pytest.raises(ElmoError, match=message):
        load_language_model(tmp_path)


def test_a_file_of_scores_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    one = SentenceScore(words=1, unknown_words=0, predictions=2, forward_nats=2.0, backward_nats=4.0)

    def stop_on_the_way() -> None:
        with open_score_file(tmp_path / "scores.jsonl") as add:
            add(["bank"], one, "text", 1)
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        stop_on_the_way()

    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_the_perplexities_of_a_text(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    text, scores = tmp_path / "text.txt", tmp_path / "scores.jsonl"
    text.write_text("the bank rose.\n\nthe river\n", encoding="utf-8")

    status = main(["perplexity", str(folder), str(text), "--json-lines", str(scores)])

    model, tokenizer = load_language_model(folder)
    total = CorpusScore()
    for one in score(model, tokenizer, [["the", "bank", "rose", "."], ["the", "river"]]):
        total.add(one)
    printed = capsys.readouterr()
    assert (status, printed.err) == (0, "")
    assert re.sub(r"[\d,]+ words/s", "N words/s", printed.out) == (
        f"perplexity   {total.perplexity:.3f}\n"
        f"  forward    {total.forward_perplexity:.3f}\n"
        f"  backward   {total.backward_perplexity:.3f}\n"
        "sentences    2, each read by itself\n"
        "predictions  8 in each direction: 6 words and the sentences' ends\n"
        "unknown      0.00% of the words, predicted as <UNK>\n"
        "speed        N words/s\n"
    )
    lines = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines()]
    assert [line["text"] for line in lines] == ["the bank rose .", "the river"]
    assert sum(line["backward_nats"] for line in lines) == pytest.approx(total.backward_nats)
    assert [(line["file"], line["line"]) for line in lines] == [(str(text), 1), (str(text), 3)]
    numbers = {"words", "unknown_words", "predictions", "forward_nats", "backward_nats"}
    assert lines[0].keys() == {"file", "line", "text", *numbers}


@pytest.mark.parametrize("stateful", [[], ["--stateful"]])
def test_each_of_several_files_has_a_line(
    stateful: list[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    # the longest comes second, and would be first in a batch
    texts = {"b": "the river\n", "-": "\nthe bank of the river rose .\nthe <UNK>\n", "a": "the bank\n\n.\n"}
    for name in ("a", "b"):
        Path(name).write_text(texts[name], encoding="utf-8")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BufferedReader(BytesIO(texts["-"].encode()))))

    assert main(["perplexity", str(folder), *texts, "--tokenized", "--json-lines", "scores", *stateful]) == 0

    sentences = [(name, line.split()) for name, text in texts.items() for line in text.splitlines() if line]
    parts = {name: CorpusScore() for name in texts}
    scores = score(*load_language_model(folder), [words for _, words in sentences], stateful=bool(stateful))
    for (name, _), one in zip(sentences, scores, strict=True):
        parts[name].add(one)
    rows = [line.split() for line in capsys.readouterr().out.partition("\n\n")[2].splitlines()]
    assert rows[0] == ["perplexity", "forward", "backward", "sentences", "words", "unknown", "file"]
    shown = {"b": "b", "-": "standard input", "a": "a"}
    assert [" ".join(row) for row in rows[1:]] == [
        f"{part.perplexity:.3f} {part.forward_perplexity:.3f} {part.backward_perplexity:.3f} "
        f"{part.sentences} {part.words} {part.unknown_rate:.2%} {shown[name]}"
        for name, part in parts.items()
    ]
    entries = [json.loads(line) for line in Path("scores").read_text(encoding="utf-8").splitlines()]
    assert [(entry["file"], entry["line"]) for entry in entries] == [("b", 1), ("-", 2), ("-", 3), ("a", 1), ("a", 3)]


def test_the_command_takes_words_and_one_stream(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the bank rose.\nthe river\n", encoding="utf-8")

    assert main(["perplexity", str(folder), str(text), "--tokenized", "--stateful", "--batch", "3"]) == 0

    model, tokenizer = load_language_model(folder)
    total = CorpusScore()
    for one in score(model, tokenizer, [["the", "bank", "rose."], ["the", "river"]], stateful=True):
        total.add(one)
    printed = capsys.readouterr().out
    assert printed.startswith(f"perplexity   {total.perplexity:.3f}\n")
    assert "2, read as one stream\n" in printed
    assert "20.00% of the words" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.txt"], "missing.txt is no file"),
        (["empty.txt"], "empty.txt: there are no words"),
        (["empty.txt", "--json-lines", "empty.txt"], "empty.txt exists already"),
        (["text.txt", "--batch", "0"], "words_per_batch is 0"),
    ],
)
def test_an_error_of_the_command_is_one_line_and_leaves_nothing(
    arguments: list[str],
    message: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n", encoding="utf-8")
    Path("text.txt").write_text("the bank\n", encoding="utf-8")

    assert main(["perplexity", str(folder), "--json-lines", "scores.jsonl", *arguments]) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(rf"elmo-hf: error: {re.escape(message)}[^\n]*\n", captured.err)
    assert sorted(path.name for path in Path().iterdir()) == ["empty.txt", "text.txt"]
