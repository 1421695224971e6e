"""`coreference_elmo`: the head against loops in NumPy that share no code with it, and its parts against plain ones."""

import itertools

import numpy as np
import pytest
import torch

from elmo_hf import ElmoForCoreferenceResolution
from elmo_hf.model.coreference_elmo import Antecedents, choose_spans, find_clusters, list_spans, marginal_loss
from support.documents import coreference_model as make_model
from support.documents import document, several
from support.tiny_models import Batch


NONE = -100


class NumpyHead:
    """The head as the papers write it: one span and one pair after the other, from the words' vectors."""

    def __init__(self, model: ElmoForCoreferenceResolution) -> None:
        self.w = {name: value.double().numpy() for name, value in model.head.state_dict().items()}
        self.config = model.config

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return self.w[f"{name}.weight"] @ x + self.w.get(f"{name}.bias", 0)

    def _finish(self, name: str, hidden: np.ndarray) -> float:
        hidden = self._linear(f"{name}.second", np.maximum(hidden, 0))
        return float(self._linear(f"{name}.score", np.maximum(hidden, 0))[0])

    def _lstm(self, x: np.ndarray, direction: int) -> np.ndarray:
        width = self.config.head_hidden_size
        hidden, cell, outputs = np.zeros(width), np.zeros(width), {}
        for place in range(len(x)) if direction == 0 else reversed(range(len(x))):
            gates = self._linear(f"encoder.layers.0.input_projections.{direction}", x[place])
            gates = gates + hidden @ self.w["encoder.layers.0.recurrent_weight"][direction]
            i, f, g, o = gates.reshape(4, width)
            cell = cell / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
            hidden = np.tanh(cell) / (1 + np.exp(-o))
            outputs[place] = hidden
        return np.array([outputs[place] for place in range(len(x))])

    def _span(self, first: int, last: int) -> np.ndarray:
        scores = np.array([self._linear("attention", self.encoded[word])[0] for word in range(first, last + 1)])
        weights = np.exp(scores) / np.exp(scores).sum()
        head = sum(weight * self.x[word] for weight, word in zip(weights, range(first, last + 1), strict=True))
        return np.concatenate([self.encoded[first], self.encoded[last], self.w["widths.weight"][last - first], head])

    def _pair(self, i: int, j: int, g: list[np.ndarray], speakers: list[int] | None) -> float:
        distance = i - j
        bucket = distance if distance <= 4 else min(9, 3 + int(np.floor(np.log2(distance))))
        features = self.w["distances.weight"][bucket]
        if speakers is not None:
            same = speakers[self.kept[i][0]] == speakers[self.kept[j][0]]
            features = np.concatenate([features, self.w["same_speaker.weight"][int(same)]])
        # the first layer is one matrix for [g_i, g_j, g_i * g_j, features]
        names = ["scorer.first", "antecedent", "product", "features"]
        matrix = np.concatenate([self.w[f"pair_scorer.{name}.weight"] for name in names], axis=1)
        hidden = matrix @ np.concatenate([g[i], g[j], g[i] * g[j], features]) + self.w["pair_scorer.scorer.first.bias"]
        return self._finish("pair_scorer.scorer", hidden)

    def run(self, sentences: list[np.ndarray], speakers: list[int] | None = None) -> list[dict[int | None, float]]:
        """Return the score of each antecedent of each kept span, by its number; `None` is no antecedent."""
        self.x = np.concatenate(sentences)
        self.encoded = np.concatenate([np.hstack([self._lstm(part, 0), self._lstm(part, 1)]) for part in sentences])
        candidates, start = [], 0
        for part in sentences:
            words = range(start, start + len(part))
            candidates += [
                (first, last) for first in words for last in words if 0 <= last - first < self.config.max_span_width
            ]
            start += len(part)
        score = {
            span: self._finish("mention_scorer", self._linear("mention_scorer.first", self._span(*span)))
            for span in candidates
        }
        self.kept = keep(score, max(1, int(self.config.spans_per_word * start)))
        self.mention_scores = [score[span] for span in self.kept]
        g = [self._span(*span) for span in self.kept]
        coarse = [
            {j: score[one] + score[self.kept[j]] + g[j] @ self.w["coarse.weight"] @ g[i] for j in range(i)}
            for i, one in enumerate(self.kept)
        ]
        near = [sorted(each, key=lambda j: -each[j])[: self.config.max_antecedents] for each in coarse]
        for again in range(self.config.refinement_passes + 1):
            found: list[dict[int | None, float]] = [
                {None: 0.0, **{j: coarse[i][j] + self._pair(i, j, g, speakers) for j in near[i]}}
                for i in range(len(g))
            ]
            if again < self.config.refinement_passes:
                g = [self._refine(i, g, found[i]) for i in range(len(g))]
        return found

    def _refine(self, i: int, g: list[np.ndarray], scores: dict[int | None, float]) -> np.ndarray:
        chances = np.exp(np.array(list(scores.values())))
        chances /= chances.sum()
        expected = sum(chance * g[i if j is None else j] for chance, j in zip(chances, scores, strict=True))
        gate = 1 / (1 + np.exp(-self._linear("gate", np.concatenate([g[i], expected]))))
        return gate * g[i] + (1 - gate) * expected


def keep(score: dict[tuple[int, int], float], count: int) -> list[tuple[int, int]]:
    """Keep the best spans that do not cross, by comparing each with all that are kept."""
    kept: list[tuple[int, int]] = []
    for one in sorted(score, key=lambda span: -score[span]):
        crosses = any(a[0] < b[0] <= a[1] < b[1] for other in kept for a, b in ((one, other), (other, one)))
        if not crosses and len(kept) < count:
            kept.append(one)
    return sorted(kept)


def loop_loss(found: list[dict[int | None, float]], kept: list[tuple[int, int]], labels: list[list[int]]) -> float:
    cluster = {(first, last): number for first, last, number in labels}
    losses = []
    for i, scores in enumerate(found):
        own = cluster.get(kept[i])
        right = [j for j in scores if j is not None and own is not None and cluster.get(kept[j]) == own] or [None]
        losses.append(np.log(sum(map(np.exp, scores.values()))) - np.log(sum(np.exp(scores[j]) for j in right)))
    return float(np.mean(losses))


def read_by_head(model: ElmoForCoreferenceResolution, batch: Batch) -> list[np.ndarray]:
    """The mix of the layers at the words of each sentence."""
    with torch.no_grad():
        mixed = model.elmo(**batch).last_hidden_state.double().numpy()
    lengths = batch["attention_mask"].sum(dim=1).tolist()
    return [part[1 : length - 1] for part, length in zip(mixed, lengths, strict=True)]


@pytest.mark.parametrize("passes", [0, 1, 2])
@pytest.mark.parametrize("speakers", [False, True])
def test_scores_and_loss_are_those_of_a_loop_in_numpy(passes: int, speakers: bool) -> None:
    model = make_model(refinement_passes=passes, use_speakers=speakers)
    batch = document(model, 5, 1, 7, 6)
    voices = torch.arange(4)[:, None].expand(batch["input_ids"].shape) % 2
    loop = NumpyHead(model)

    expected = loop.run(read_by_head(model, batch), [0] * 5 + [1] + [0] * 7 + [1] * 6 if speakers else None)
    # two clusters and a single mention, and one that is not among the spans
    labels = [[*span, number] for span, number in zip(loop.kept, (0, 1, 0, 2, 0, 1), strict=False)] + [[0, 10, 1]]
    more = {"speaker_ids": voices} if speakers else {}
    output = model(**batch, labels=torch.tensor(labels), **more)

    assert output.spans[0].tolist() == [list(span) for span in loop.kept]
    np.testing.assert_allclose(output.mention_scores[0].detach(), loop.mention_scores, atol=1e-4)
    for scores, numbers, wanted in zip(
        output.antecedent_scores[0].tolist(), output.antecedents[0].tolist(), expected, strict=True
    ):
        assert scores[0] == 0
        found = {number: score for number, score in zip(numbers, scores[1:], strict=True) if number != NONE}
        assert found == pytest.approx({j: score for j, score in wanted.items() if j is not None}, abs=1e-3)
    assert output.loss.item() == pytest.approx(loop_loss(expected, loop.kept, labels), abs=1e-4)
    # the labels matter
    assert output.loss.item() != pytest.approx(loop_loss(expected, loop.kept, []), abs=1e-3)


def test_spans_are_chosen_as_by_comparing_each_with_all() -> None:
    generator = torch.Generator().manual_seed(0)
    for size in (1, 2, 7, 30):
        spans = list_spans(torch.arange(size) // 9, 6)
        scores = torch.randint(0, 12, (len(spans),), generator=generator).float()
        for count in (1, size // 2 + 1, 1000):
            expected = keep(
                {tuple(span): score for span, score in zip(spans.tolist(), scores.tolist(), strict=True)}, count
            )
            found = spans[choose_spans(spans, scores, count)]

            assert [tuple(span) for span in found.tolist()] == expected


def test_spans_stay_within_a_sentence() -> None:
    spans = list_spans(torch.tensor([4, 4, 9]), 2)

    assert spans.tolist() == [[0, 0], [0, 1], [1, 1], [2, 2]]
    assert list_spans(torch.tensor([], dtype=torch.long), 2).shape == (0, 2)


def test_links_become_clusters() -> None:
    # 1 -> 0, 2 -> nothing, 3 -> 1, 4 -> 2; 2 contains 1
    spans = torch.tensor([[0, 0], [3, 3], [2, 4], [6, 6], [8, 9], [NONE, NONE]])
    antecedents = torch.tensor([[NONE, NONE], [0, NONE], [1, 0], [1, 2], [2, 3], [NONE, NONE]])
    low = torch.finfo().min
    scores = torch.tensor(
        [[0, low, low], [0, 0.5, low], [0, -1, -2], [0, 3, 1], [0, 2, 2], [-100, -100, -100]], dtype=torch.float
    )

    assert find_clusters(spans, antecedents, scores) == [[(0, 0), (3, 3), (6, 6)], [(2, 4), (8, 9)]]


def test_a_score_that_is_not_above_nothing_links_nothing() -> None:
    found = find_clusters(torch.tensor([[0, 0], [1, 1]]), torch.tensor([[NONE], [0]]), torch.zeros(2, 2))

    assert found == []


def test_a_mention_whose_antecedents_are_not_among_the_compared_refers_to_nothing() -> None:
    spans = torch.tensor([[0, 0], [1, 1], [2, 2]])
    antecedents = torch.tensor([[NONE], [0], [1]])
    scores = torch.tensor([[0, torch.finfo().min], [0, 1.0], [0, 2.0]])
    labels = torch.tensor([[0, 0, 5], [2, 2, 5]])

    loss = marginal_loss(Antecedents(spans, scores[:, 0], antecedents, scores), labels)

    nothing = [0, np.log(1 + np.exp(1)), np.log(1 + np.exp(2))]
    assert loss.item() == pytest.approx(np.mean(nothing))


def test_gradients_are_those_of_small_steps() -> None:
    model = make_model(refinement_passes=1, use_speakers=True).double()
    batch = document(model, 4, 5)
    labels = torch.tensor([[0, 0, 0], [3, 3, 0], [5, 5, 0], [1, 2, 1], [7, 8, 1]])
    more = {"labels": labels, "speaker_ids": batch["attention_mask"].cumsum(dim=1) % 3}
    model(**batch, **more).loss.backward()

    names = [
        "head.widths.weight", "head.distances.weight", "head.same_speaker.weight", "head.attention.weight",
        "head.coarse.weight", "head.gate.weight", "head.pair_scorer.product.weight",
        "head.mention_scorer.first.weight",        "head.encoder.layers.0.recurrent_weight", "elmo.scalar_mix.weights",
    ]  # fmt: skip
    for name in names:
        parameter = model.get_parameter(name)
        place = parameter.grad.abs().argmax()
        assert parameter.grad.flatten()[place] != 0, name
        losses = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                parameter.view(-1)[place] += step
                losses.append(model(**batch, **more).loss.item())
                parameter.view(-1)[place] -= step
        assert (losses[0] - losses[1]) / 2e-5 == pytest.approx(parameter.grad.flatten()[place].item(), rel=1e-3), name


def test_every_weight_of_the_head_is_trained() -> None:
    model = make_model(refinement_passes=1).train()
    model(**document(model, 6, 6), labels=torch.tensor([[0, 0, 0], [7, 7, 0]])).loss.backward()

    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(refinement_passes=1)
    batch = document(model, 9, 8)
    whole = model(**batch)
    for name in ("SPANS_AT_ONCE", "PAIRS_AT_ONCE", "SCORES_AT_ONCE"):
        monkeypatch.setattr(f"elmo_hf.model.coreference_elmo.{name}", 3)

    parts = model(**batch)

    torch.testing.assert_close(parts.antecedent_scores, whole.antecedent_scores, atol=1e-4, rtol=1e-4)
    assert torch.equal(parts.spans, whole.spans)


def test_dropout_can_be_switched_off() -> None:
    model = make_model(classifier_dropout=0.0).train()
    batch = document(model, 4, 4)

    assert torch.equal(model(**batch).antecedent_scores, model(**batch).antecedent_scores)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[0, 1]], r"`labels` is \(1, 2\) where the batch takes \(1, mentions, 3\)"),
        ([[0, 9, 0]], r"`labels` has \[0, 9, 0\], but the document has the words 0 to 8"),
        ([[2, 1, 0]], r"`labels` has \[2, 1, 0\]"),
        ([[0, 1, -1]], r"`labels` has \[0, 1, -1\]"),
        ([[0.0, 1.0, 1.0]], "`labels` is of torch.float32: pass integers"),
    ],
)
def test_labels_that_are_refused(labels: list[list[float]], message: str) -> None:
    model = make_model()

    with pytest.raises(ValueError, match=message):
        model(**document(model, 4, 5), labels=torch.tensor(labels))


def test_combinations_of_documents_are_found_as_alone() -> None:
    model = make_model(spans_per_word=0.7)
    documents = [document(model, 5, 6), document(model, 1, seed=7), document(model, 2, 3, 8, seed=11)]
    alone = [model(**part) for part in documents]
    clusters = [model.decode(output)[0] for output in alone]
    assert sum(map(len, clusters)) > 1

    for order in itertools.permutations(range(3)):
        output = model(**several([documents[number] for number in order]))

        assert model.decode(output) == [clusters[number] for number in order]
        for number, scores in zip(order, output.antecedent_scores, strict=True):
            own = alone[number].antecedent_scores[0]
            torch.testing.assert_close(scores[: len(own)], own, atol=1e-4, rtol=1e-4)
