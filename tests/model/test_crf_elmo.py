"""The CRF: against all sequences of labels of short sentences, one by one, in NumPy."""

import copy
import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from elmo_hf.model.crf_elmo import ElmoCrf, allowed_transitions
from support.tiny_models import tiny_config


BIO = ["O", "B-A", "I-A", "B-A-B", "I-A-B"]
BIOUL = ["O", "B-A", "I-A", "L-A", "U-A", "B-A-B", "I-A-B", "L-A-B", "U-A-B"]
BIOES = ["S-A", "E-A", "I-A", "B-A", "O"]
FREE = ["NOUN", "VERB", "X", "O"]

# rows of words with gaps on the left, on the right, between words, and none
ROWS = ["111111", "111000", "000111", "010101", "100001", "001000", "000000", "011110"]
WORDS = torch.tensor([[mark == "1" for mark in row] for row in ROWS])


def make_crf(labels: list[str], dtype: torch.dtype = torch.float64, scale: float = 1.0) -> ElmoCrf:
    crf = ElmoCrf(tiny_config(id2label=dict(enumerate(labels)))).to(dtype)
    for weight in crf.parameters():
        torch.nn.init.normal_(weight, std=scale)
    return crf


def make_scores(labels: list[str], words: torch.Tensor = WORDS, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*words.shape, len(labels), dtype=dtype)


class Losses(torch.nn.Module):
    """A module whose call is `crf.loss`, for functions that call modules."""

    def __init__(self, crf: ElmoCrf) -> None:
        super().__init__()
        self.crf = crf

    def forward(self, scores: torch.Tensor, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the losses, `[B]`."""
        return self.crf.loss(scores, words, labels)


def best_path(crf: ElmoCrf, scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Return the label of each word on the best sequence, `[B, T]`, -100 elsewhere."""
    return crf.decode(scores, words).argmax(dim=2).masked_fill(~words, -100)


def path_score(crf: ElmoCrf, scores: np.ndarray, path: tuple[int, ...]) -> float:
    """Score one sequence of labels, of a sentence `[M, K]` of at least one word."""
    starts, ends, transitions = (
        weight.detach().double().numpy() for weight in (crf.starts, crf.ends, crf.transitions)
    )
    total = starts[path[0]] + ends[path[-1]]
    total += sum(scores[place, label] for place, label in enumerate(path))
    return total + sum(transitions[pair] for pair in itertools.pairwise(path))


def sentences(scores: torch.Tensor, words: torch.Tensor) -> Iterator[tuple[int, np.ndarray]]:
    """List the rows that have words, and their words' scores `[M, K]`."""
    for row in range(len(words)):
        if words[row].any():
            yield row, scores[row][words[row]].detach().double().numpy()


def log_sum(numbers: list[float]) -> float:
    highest = max(numbers)
    return highest + math.log(sum(math.exp(number - highest) for number in numbers))


def expected_losses(crf: ElmoCrf, scores: torch.Tensor, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    losses = torch.zeros(len(words), dtype=torch.float64)
    for row, sentence in sentences(scores, words):
        given = labels[row][words[row]].tolist()
        every = {
            path: path_score(crf, sentence, path)
            for path in itertools.product(range(sentence.shape[1]), repeat=len(sentence))
        }
        fitting = [
            score
            for path, score in every.items()
            if all(wanted in (-100, label) for wanted, label in zip(given, path, strict=True))
        ]
        losses[row] = log_sum(list(every.values())) - log_sum(fitting)
    return losses


# --- schemes ---


def outlines(words: int, kinds: list[str]) -> Iterator[list[tuple[int, str | None]]]:
    """List all ways to divide words into spans of a kind and words outside, as lengths and kinds."""
    if not words:
        yield []
    for length in range(1, words + 1):
        for kind in [*kinds, None] if length == 1 else kinds:
            for rest in outlines(words - length, kinds):
                yield [(length, kind), *rest]


def encode(outline: list[tuple[int, str | None]], last: str | None, single: str) -> tuple[str, ...]:
    labels = []
    for length, kind in outline:
        if kind is None:
            labels.append("O")
        elif length == 1:
            labels.append(f"{single}-{kind}")
        else:
            labels += [f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"{last or 'I'}-{kind}"]
    return tuple(labels)


def is_allowed(path: tuple[int, ...], allowed: tuple) -> bool:
    follows, starts, ends = allowed
    return starts[path[0]] and ends[path[-1]] and all(follows[i][j] for i, j in itertools.pairwise(path))


@pytest.mark.parametrize("words", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("labels", "kinds", "last", "single"),
    [
        pytest.param(BIO, ["A", "A-B"], None, "B", id="bio"),
        pytest.param(BIOUL, ["A", "A-B"], "L", "U", id="bioul"),
        pytest.param(BIOES, ["A"], "E", "S", id="bioes"),
    ],
)
def test_allows_what_spans_are_written_as_and_nothing_else(
    labels: list[str], kinds: list[str], last: str | None, single: str, words: int
) -> None:
    allowed = allowed_transitions(labels)
    assert allowed is not None

    found = {
        tuple(labels[label] for label in path)
        for path in itertools.product(range(len(labels)), repeat=words)
        if is_allowed(path, allowed)
    }

    assert found == {encode(outline, last, single) for outline in outlines(words, kinds)}


def test_the_order_of_the_labels_does_not_matter() -> None:
    follows, starts, ends = allowed_transitions(BIOUL)
    backward = allowed_transitions(BIOUL[::-1])

    assert backward == ([row[::-1] for row in follows[::-1]], starts[::-1], ends[::-1])


def test_prefixes_alone_are_one_type() -> None:
    assert allowed_transitions(["B", "I", "O"]) == allowed_transitions(["B-A", "I-A", "O"])


@pytest.mark.parametrize("lacking", ["I-A", "U-A"])
def test_a_type_need_not_have_all_prefixes(lacking: str) -> None:
    labels = [label for label in BIOUL if label != lacking]
    kept = [BIOUL.index(label) for label in labels]
    follows, starts, ends = allowed_transitions(BIOUL)

    assert allowed_transitions(labels) == (
        [[follows[i][j] for j in kept] for i in kept],
        [starts[i] for i in kept],
        [ends[i] for i in kept],
    )


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(["NOUN", "VERB", "ADJ", "X"], id="parts of speech"),
        pytest.param(["LABEL_0", "LABEL_1"], id="no names"),
        pytest.param(["O", "I-PER", "I-LOC", "B-LOC"], id="IOB1"),
        pytest.param(["O", "I-PER", "E-PER"], id="IOE"),
        pytest.param(["O", "B-PER", "I-PER", "L-PER", "S-PER"], id="two schemes"),
        pytest.param(["O", "B-PER", "I-PER", "E-PER", "S-PER", "L-PER"], id="two ends"),
        pytest.param(["O", "B-PER", "U-PER"], id="no end"),
        pytest.param(["O", "L-PER", "U-PER"], id="no beginning"),
        pytest.param(["O", "B-PER", "I-PER", "O-PER"], id="outside of a type"),
        pytest.param(["O", "B-PER", "I-PER", "V"], id="one label that is none"),
        pytest.param(["O", "b-per", "i-per"], id="small letters"),
        pytest.param(["O", "B-PER", "B-LOC"], id="first words only"),
        pytest.param(["O", "U-PER", "U-LOC"], id="single words only"),
        pytest.param(["O"], id="nothing but O"),
        pytest.param(["-"], id="a dash"),
        pytest.param([], id="no labels"),
    ],
)
def test_other_labels_are_free(labels: list[str]) -> None:
    assert allowed_transitions(labels) is None


# --- likelihood ---


@pytest.mark.parametrize("labels", [BIO, FREE, ["O", "B-A"]], ids=["bio", "free", "two"])
def test_losses_of_known_labels(labels: list[str]) -> None:
    crf, scores = make_crf(labels), make_scores(labels)
    targets = torch.randint(len(labels), WORDS.shape)

    losses = crf.loss(scores, WORDS, targets)

    torch.testing.assert_close(losses, expected_losses(crf, scores, WORDS, targets), rtol=0, atol=1e-10)


@pytest.mark.parametrize("share", [0.2, 0.7, 1.0])
def test_an_unknown_label_can_be_any(share: float) -> None:
    crf, scores = make_crf(FREE), make_scores(FREE)
    targets = torch.randint(len(FREE), WORDS.shape)
    targets[torch.rand(WORDS.shape) < share] = -100

    losses = crf.loss(scores, WORDS, targets)

    torch.testing.assert_close(losses, expected_losses(crf, scores, WORDS, targets), rtol=0, atol=1e-10)


def test_the_likelihoods_of_all_sequences_add_up_to_1() -> None:
    crf, scores = make_crf(FREE), make_scores(FREE, WORDS[:1, :4])
    every = torch.tensor(list(itertools.product(range(4), repeat=4)))

    losses = crf.loss(scores.expand(len(every), -1, -1), WORDS[:1, :4].expand(len(every), -1), every)

    torch.testing.assert_close((-losses).exp().sum().item(), 1.0, rtol=0, atol=1e-12)


def test_what_stands_where_no_word_is_does_not_matter() -> None:
    crf, scores = make_crf(BIO), make_scores(BIO)
    targets = torch.randint(len(BIO), WORDS.shape)
    expected = crf.loss(scores, WORDS, targets)
    scores[~WORDS], targets[~WORDS] = math.nan, 99
    scores.requires_grad_()

    losses = crf.loss(scores, WORDS, targets)
    losses.sum().backward()

    assert torch.equal(losses, expected)
    assert torch.equal(scores.grad[~WORDS], torch.zeros_like(scores)[~WORDS])
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("label", [-1, 5, -101])
def test_refuses_a_label_that_is_not_there(label: int) -> None:
    targets = torch.zeros(WORDS.shape, dtype=torch.long)
    targets[0, 3] = label

    with pytest.raises(ValueError, match=rf"A label is {label}; it can be 0 to 4, or -100 where it is not known\."):
        make_crf(BIO).loss(make_scores(BIO), WORDS, targets)


@pytest.mark.parametrize("shape", [(2, 0), (2, 1), (0, 3), (2, 3)])
def test_no_words_cost_nothing_and_have_no_gradient(shape: tuple[int, int]) -> None:
    crf, words = make_crf(BIO), torch.zeros(shape, dtype=torch.bool)
    scores = make_scores(BIO, words).requires_grad_()

    losses = crf.loss(scores, words, torch.full(shape, -100))
    losses.sum().backward()

    assert torch.equal(losses, torch.zeros(shape[0], dtype=torch.float64))
    assert all(torch.equal(part.grad, torch.zeros_like(part)) for part in (scores, *crf.parameters()))
    assert torch.equal(best_path(crf, scores, words), torch.full(shape, -100))
    assert torch.equal(crf.decode(scores, words), scores)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_gradients(share: float) -> None:
    crf, scores = make_crf(["O", "B-A", "I-A"]), make_scores(["O", "B-A", "I-A"]).requires_grad_()
    targets = torch.randint(3, WORDS.shape)
    targets[torch.rand(WORDS.shape) < share] = -100

    def losses(scores: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        named = dict(zip(("crf.transitions", "crf.starts", "crf.ends"), weights, strict=True))
        return torch.func.functional_call(Losses(crf), named, (scores, WORDS, targets))

    assert torch.autograd.gradcheck(losses, (scores, *crf.parameters()))


def test_large_scores_keep_their_digits() -> None:
    crf, words = make_crf(BIO, torch.float32), torch.ones(4, 50, dtype=torch.bool)
    scores = make_scores(BIO, words, torch.float32)
    targets = torch.randint(len(BIO), words.shape)
    # labels that are all but sure, at scores of thousands and millions
    scores.scatter_add_(2, targets[:, :, None], torch.full((4, 50, 1), 9.0))
    scores += torch.tensor([0.0, 1e4, -1e4, 3e5])[:, None, None]
    scores.requires_grad_()

    losses = crf.loss(scores, words, targets)
    losses.sum().backward()

    expected = copy.deepcopy(crf).double().loss(scores.detach().double(), words, targets)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-6)
    assert all(part.grad.isfinite().all() for part in (scores, *crf.parameters()))


def test_scores_far_apart_do_not_overflow() -> None:
    crf, scores = make_crf(BIO, torch.float32, scale=1e4), 1e4 * make_scores(BIO, dtype=torch.float32)
    scores.requires_grad_()
    targets = torch.randint(len(BIO), WORDS.shape)
    targets[:, ::3] = -100

    losses = crf.loss(scores, WORDS, targets)
    losses.sum().backward()

    expected = copy.deepcopy(crf).double().loss(scores.detach().double(), WORDS, targets)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-6, atol=0.1)
    assert all(part.grad.isfinite().all() for part in (scores, *crf.parameters()))
    assert crf.decode(scores, WORDS).isfinite().all()


# --- decoding ---


def expected_marginals(crf: ElmoCrf, sentence: np.ndarray, allowed: tuple | None) -> tuple[list[int], np.ndarray]:
    """Find the best sequence of one sentence, and the score of the best one with each label at each word."""
    words, labels = sentence.shape
    marginals = np.full((words, labels), -np.inf)
    best, highest = None, -np.inf
    for path in itertools.product(range(labels), repeat=words):
        if allowed and not is_allowed(path, allowed):
            continue
        score = path_score(crf, sentence, path)
        if score > highest:
            best, highest = path, score
        places = (np.arange(words), path)
        marginals[places] = np.maximum(marginals[places], score)
    return list(best), marginals


@pytest.mark.parametrize("labels", [BIO, BIOES, FREE], ids=["bio", "bioes", "free"])
def test_finds_the_best_allowed_sequence(labels: list[str]) -> None:
    crf, scores = make_crf(labels), make_scores(labels)
    allowed = allowed_transitions(labels)

    paths, logits = best_path(crf, scores, WORDS), crf.decode(scores, WORDS)

    assert torch.equal(logits[~WORDS], scores[~WORDS])
    assert (paths[~WORDS] == -100).all()
    for row, sentence in sentences(scores, WORDS):
        best, marginals = expected_marginals(crf, sentence, allowed)
        found = logits[row][WORDS[row]].detach()
        assert paths[row][WORDS[row]].tolist() == best
        assert found.argmax(dim=1).tolist() == best
        possible = np.isfinite(marginals)
        np.testing.assert_allclose(found.numpy()[possible], marginals[possible], rtol=0, atol=1e-10)
        assert (found.numpy()[~possible] == np.finfo(np.float64).min).all()


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("labels", [BIO, BIOES, FREE], ids=["bio", "bioes", "free"])
def test_of_sequences_that_are_as_good_the_logits_show_one(labels: list[str], levels: int) -> None:
    crf, scores = make_crf(labels), torch.randint(levels, (*WORDS.shape, len(labels))).double()
    for weight in crf.parameters():
        weight.data.round_()

    paths, logits = best_path(crf, scores, WORDS), crf.decode(scores, WORDS).detach()

    allowed = allowed_transitions(labels)
    for row, sentence in sentences(scores, WORDS):
        path = tuple(paths[row][WORDS[row]].tolist())
        _, marginals = expected_marginals(crf, sentence, allowed)
        highest = logits[row][WORDS[row]].topk(2, dim=1)
        assert highest.indices[:, 0].tolist() == list(path)
        assert (highest.values[:, 0] > highest.values[:, 1]).all()
        assert allowed is None or is_allowed(path, allowed)
        assert path_score(crf, sentence, path) == marginals.max()


def test_rounding_does_not_part_the_logits_from_one_sequence() -> None:
    crf, words = make_crf(BIOUL, torch.float32, scale=0.01), torch.ones(50, 60, dtype=torch.bool)
    # many sequences within a rounding error of each other
    scores = 1e-4 * make_scores(BIOUL, words, torch.float32) + 1000
    allowed = allowed_transitions(BIOUL)

    paths = crf.decode(scores, words).argmax(dim=2)

    assert all(is_allowed(tuple(path), allowed) for path in paths.tolist())
    exact = copy.deepcopy(crf).double().decode(scores.double(), words).amax(dim=2)[:, 0].tolist()
    for row, sentence in sentences(scores, words):
        assert path_score(crf, sentence, tuple(paths[row].tolist())) == pytest.approx(exact[row], abs=0.1)


def test_the_softmax_of_the_logits_is_a_confidence() -> None:
    crf, words = make_crf(["O", "B-A", "I-A"]), torch.ones(1, 3, dtype=torch.bool)
    for weight in crf.parameters():
        torch.nn.init.zeros_(weight)
    # without scores of neighbours, a word's own, where the scheme has nothing against them
    scores = torch.tensor([[[0.0, 2.0, 9.0], [3.0, 1.0, -20.0], [0.5, 1.0, -20.0]]], dtype=torch.float64)

    confidence = crf.decode(scores, words).softmax(dim=2)

    assert confidence[0, 0, 2] == 0
    torch.testing.assert_close(confidence[0, 1:, :2], scores[0, 1:, :2].softmax(dim=1), rtol=0, atol=1e-6)


def test_the_gradient_of_a_logit_is_the_sequence() -> None:
    crf, scores = make_crf(BIO), make_scores(BIO).requires_grad_()

    crf.decode(scores, WORDS)[0, 2].amax().backward()

    path = best_path(crf, scores, WORDS)[0]
    expected = torch.zeros_like(scores)
    expected[0] = torch.nn.functional.one_hot(path, len(BIO))
    assert torch.equal(scores.grad, expected)
    assert crf.transitions.grad.isfinite().all()


@pytest.mark.parametrize("labels", [BIO, BIOES, FREE])
def test_marginals_are_sums_over_all_allowed_sequences(labels: list[str]) -> None:
    crf, words = make_crf(labels), WORDS[:, :5]
    scores, allowed = make_scores(labels, words), allowed_transitions(labels)

    found = crf.marginals(scores, words)

    for row, sentence in sentences(scores, words):
        expected, total = np.zeros_like(sentence), 0.0
        for path in itertools.product(range(len(labels)), repeat=len(sentence)):
            if allowed is None or is_allowed(path, allowed):
                weight = math.exp(path_score(crf, sentence, path))
                expected[range(len(path)), path] += weight
                total += weight
        np.testing.assert_allclose(found[row][words[row]].detach().numpy(), expected / total, rtol=1e-9, atol=1e-12)
    assert not found[~words].any()


def test_marginals_of_long_sentences_keep_their_digits() -> None:
    crf, words = make_crf(BIO, torch.float32), torch.ones(1, 2000, dtype=torch.bool)
    scores = 20 + 3 * make_scores(BIO, words, torch.float32)

    exact = copy.deepcopy(crf).double().marginals(scores.double(), words)

    torch.testing.assert_close(crf.marginals(scores, words).double(), exact, rtol=0, atol=2e-5)


def test_marginals_where_the_scheme_allows_nothing_are_over_all_sequences() -> None:
    labels, words = ["B-A", "L-A"], torch.tensor([[True, False, False], [True, True, True]])
    crf = make_crf(labels)
    scores = make_scores(labels, words)

    found = crf.marginals(scores, words)

    free = (scores[0, 0] + crf.starts + crf.ends).softmax(dim=0)
    torch.testing.assert_close(found[0, 0], free)
    assert found.isfinite().all()


def test_where_the_scheme_allows_nothing_anything_is_allowed() -> None:
    labels = ["B-A", "L-A"]
    crf, scores = make_crf(labels), make_scores(labels)

    paths, logits = best_path(crf, scores, WORDS), crf.decode(scores, WORDS).detach()

    assert logits[WORDS].isfinite().all()
    for row, sentence in sentences(scores, WORDS):
        odd = len(sentence) % 2
        best, marginals = expected_marginals(crf, sentence, None if odd else allowed_transitions(labels))
        assert paths[row][WORDS[row]].tolist() == best
        if odd:
            np.testing.assert_allclose(logits[row][WORDS[row]].numpy(), marginals, rtol=0, atol=1e-10)


# --- batches, precision, life as a module ---


def test_a_sentence_alone_gets_what_it_gets_in_a_batch() -> None:
    crf, words = make_crf(BIOUL, torch.float32), torch.rand(16, 30) < torch.rand(16, 1)
    scores, targets = make_scores(BIOUL, words, torch.float32), torch.randint(len(BIOUL), words.shape)
    targets[torch.rand(16) < 0.5, ::4] = -100
    losses, paths, logits = crf.loss(scores, words, targets), best_path(crf, scores, words), crf.decode(scores, words)

    for row in range(16):
        there = words[row]
        part = (scores[row, there][None], torch.ones(1, int(there.sum()), dtype=torch.bool))
        torch.testing.assert_close(
            crf.loss(*part, targets[row, there][None]), losses[row : row + 1], rtol=1e-6, atol=1e-6
        )
        assert torch.equal(best_path(crf, *part)[0], paths[row, there])
        assert torch.equal(crf.decode(*part)[0], logits[row, there])


def test_the_order_of_the_batch_does_not_matter() -> None:
    crf, scores = make_crf(BIO), make_scores(BIO)
    targets, order = torch.randint(len(BIO), WORDS.shape), torch.randperm(len(WORDS))

    shuffled = (scores[order], WORDS[order])

    assert torch.equal(crf.loss(*shuffled, targets[order]), crf.loss(scores, WORDS, targets)[order])
    assert torch.equal(crf.decode(*shuffled), crf.decode(scores, WORDS)[order])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened(dtype: torch.dtype) -> None:
    crf, scores = make_crf(BIO, dtype), make_scores(BIO, dtype=dtype).requires_grad_()
    wide, targets = copy.deepcopy(crf).float(), torch.randint(len(BIO), WORDS.shape)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses, logits = crf.loss(scores, WORDS, targets), crf.decode(scores, WORDS)
    losses.sum().backward()

    assert torch.equal(losses, wide.loss(scores.float(), WORDS, targets))
    assert torch.equal(logits, wide.decode(scores.float(), WORDS))
    assert scores.grad.dtype == dtype
    assert scores.grad.isfinite().all()


def test_labels_may_be_of_32_bits() -> None:
    crf, scores, targets = make_crf(BIO), make_scores(BIO), torch.randint(len(BIO), WORDS.shape)

    assert torch.equal(crf.loss(scores, WORDS, targets.int()), crf.loss(scores, WORDS, targets))


def test_constraints_survive_where_tensors_would_not() -> None:
    crf, scores = make_crf(BIO), make_scores(BIO)
    with torch.device("meta"):
        empty = ElmoCrf(tiny_config(id2label=dict(enumerate(BIO))))

    loaded = copy.deepcopy(empty).double().to_empty(device="cpu")
    loaded.load_state_dict(crf.state_dict())

    assert crf.state_dict().keys() == {"transitions", "starts", "ends"}
    assert torch.equal(loaded.decode(scores, WORDS), crf.decode(scores, WORDS))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # of torch.compile itself
def test_compiles() -> None:
    crf, scores, targets = make_crf(BIO), make_scores(BIO), torch.randint(len(BIO), WORDS.shape)
    compiled = torch.compile(crf.loss, backend="eager")

    torch.testing.assert_close(compiled(scores, WORDS, targets), crf.loss(scores, WORDS, targets))
    assert torch.equal(torch.compile(crf.decode, backend="eager")(scores, WORDS), crf.decode(scores, WORDS))


@pytest.mark.gpu
def test_a_gpu_finds_the_same() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    crf, scores, targets = make_crf(BIO), make_scores(BIO), torch.randint(len(BIO), WORDS.shape)
    expected = crf.loss(scores, WORDS, targets), crf.decode(scores, WORDS)

    crf, scores, words, targets = crf.cuda(), scores.cuda(), WORDS.cuda(), targets.cuda()

    torch.testing.assert_close(crf.loss(scores, words, targets).cpu(), expected[0], rtol=0, atol=1e-10)
    torch.testing.assert_close(crf.decode(scores, words).cpu(), expected[1], rtol=0, atol=1e-10)
