"""`heads_elmo`: the encoders against torch's LSTM, the models of sentences, pairs and answers against NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from elmo_hf.model.heads_elmo import (
    SENTENCE_HEADS,
    SPAN_HEADS,
    TAGGING_HEADS,
    ElmoBcnHead,
    ElmoBidafHead,
    ElmoEsimHead,
    ElmoHighwayLstm,
    ElmoPairClassifier,
    ElmoPoolingHead,
    ElmoRoleHead,
    ElmoSpanClassifier,
    ElmoSpanHead,
    ElmoTaskEncoder,
    ElmoTaskLstm,
    ElmoTrilinear,
    ElmoVariationalDropout,
    attend,
    choose_head,
    max_over_words,
    mean_over_words,
)
from elmo_hf.model.modeling_elmo import ElmoForTokenClassification
from elmo_hf.model.packing_elmo import pack_words
from support.tiny_models import tiny_config


Array = np.ndarray

# rows of a batch, words at odd places: nothing may depend on where they are
WORDS = torch.tensor([[0, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0]]).bool()


def random_weights(module: nn.Module) -> nn.Module:
    """Set every parameter, as a model does that holds the module; biases too, so that none can be forgotten."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.double().eval()


def as_torch_lstm(layer: ElmoTaskLstm) -> nn.LSTM:
    """Give torch's LSTM the same weights; its gates are i, f, g, o, too."""
    width = layer.recurrent_weight.shape[1]
    lstm = nn.LSTM(layer.input_projections[0].in_features, width, bidirectional=True, batch_first=True).double()
    with torch.no_grad():
        for way, suffix in enumerate(("", "_reverse")):
            getattr(lstm, f"weight_ih_l0{suffix}").copy_(layer.input_projections[way].weight)
            getattr(lstm, f"bias_ih_l0{suffix}").copy_(layer.input_projections[way].bias)
            getattr(lstm, f"bias_hh_l0{suffix}").zero_()
            getattr(lstm, f"weight_hh_l0{suffix}").copy_(layer.recurrent_weight[way].T)
    return lstm


def read(layer: ElmoTaskLstm, words: Array) -> Array:
    """Run torch's LSTM on the words of one sentence, `[n, D]`."""
    with torch.no_grad():
        return as_torch_lstm(layer)(torch.from_numpy(words)[None])[0][0].numpy()


def linear(layer: nn.Linear, values: Array) -> Array:
    return values @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def softmax(scores: Array) -> Array:
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def config_of(head: str, **fields: object) -> object:
    return tiny_config(head=head, head_hidden_size=5, classifier_dropout=0.5, **fields)


def batch(width: int = 16, seed: int = 0) -> torch.Tensor:
    return torch.randn(*WORDS.shape, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_the_lstm_equals_torchs_on_each_sentence() -> None:
    layer, vectors = random_weights(ElmoTaskLstm(16, 5)), batch()

    result = layer(vectors, WORDS).detach()

    for row, words in enumerate(WORDS):
        expected = read(layer, vectors[row][words].numpy())
        np.testing.assert_allclose(result[row][words].numpy(), expected, rtol=0, atol=1e-12)
        assert not result[row][~words].any()


def test_the_gradients_of_the_lstm_equal_torchs() -> None:
    layer, vectors = random_weights(ElmoTaskLstm(16, 5)), batch()
    lstm, weights = as_torch_lstm(layer), batch(10, seed=1)
    (layer(vectors, WORDS)[1] * weights[1]).sum().backward()

    (lstm(vectors[1:2])[0][0] * weights[1]).sum().backward()

    torch.testing.assert_close(layer.recurrent_weight.grad[1], lstm.weight_hh_l0_reverse.grad.T)
    torch.testing.assert_close(layer.input_projections[0].weight.grad, lstm.weight_ih_l0.grad)
    torch.testing.assert_close(layer.input_projections[0].bias.grad, lstm.bias_ih_l0.grad)


@pytest.mark.parametrize("mix_at", ["input", "both"])
def test_an_encoder_stacks_layers_and_puts_the_mix_behind(mix_at: str) -> None:
    encoder = random_weights(ElmoTaskEncoder(config_of("bilstm-crf", mix_at=mix_at), num_layers=2))
    vectors, mix = batch(), batch(seed=1) if mix_at == "both" else None

    result = encoder(vectors, WORDS, mix).detach()

    assert result.shape[2] == encoder.output_size
    for row, words in enumerate(WORDS):
        expected = read(encoder.layers[1], read(encoder.layers[0], vectors[row][words].numpy()))
        np.testing.assert_allclose(result[row][words][:, :10].numpy(), expected, rtol=0, atol=1e-12)
        if mix is not None:
            torch.testing.assert_close(result[row][words][:, 10:], mix[row][words])
        assert not result[row][~words].any()


def test_means_and_maxima_are_over_words_only() -> None:
    vectors = batch()
    words = torch.cat([WORDS[:2], torch.zeros(1, 6).bool()])

    means, maxima = mean_over_words(vectors, words), max_over_words(vectors, words)

    for row in range(2):
        np.testing.assert_allclose(means[row].numpy(), vectors[row][words[row]].numpy().mean(axis=0), atol=1e-15)
        np.testing.assert_array_equal(maxima[row].numpy(), vectors[row][words[row]].numpy().max(axis=0))
    # of a sentence without words
    assert not means[2].any()
    assert not maxima[2].any()


def test_attention_passes_over_what_is_no_word() -> None:
    vectors = batch() * WORDS[:, :, None]
    scores = torch.randn(3, 2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    result = attend(scores, vectors, WORDS)

    for row, words in enumerate(WORDS):
        shares = softmax(scores[row][:, words].numpy())
        np.testing.assert_allclose(result[row].numpy(), shares @ vectors[row][words].numpy(), atol=1e-14)
    assert not attend(scores, torch.zeros_like(vectors), torch.zeros_like(WORDS)).any()


@pytest.mark.parametrize("name", ["mean", "max"])
def test_a_pooling_head_compares_the_sentences_of_a_pair(name: str) -> None:
    vectors, numbers = batch(), torch.tensor([[1, 1, 0, 2, 2, 2], [0, 1, 1, 0, 0, 2], [1, 1, 1, 1, 0, 0]])
    pool = {"mean": np.mean, "max": np.max}[name]

    result = ElmoPoolingHead(config_of(name))(vectors, numbers, numbers != 0, None)

    for row in range(2):
        first, second = (pool(vectors[row][numbers[row] == number].numpy(), axis=0) for number in (1, 2))
        expected = np.concatenate([first, second, abs(first - second), first * second])
        np.testing.assert_allclose(result[row].numpy(), expected, atol=1e-14)
    # a single sentence
    np.testing.assert_allclose(result[2, :16].numpy(), pool(vectors[2][:4].numpy(), axis=0), atol=1e-14)
    assert not result[2, 16:].any()


def test_the_classifier_of_pairs_is_linear_in_all_features() -> None:
    classifier, features = random_weights(ElmoPairClassifier(16, 3)), torch.randn(2, 64, dtype=torch.float64)

    weight = np.concatenate([classifier.weight.detach().numpy(), classifier.pair_weight.detach().numpy()], axis=1)

    expected = features.numpy() @ weight.T + classifier.bias.detach().numpy()
    np.testing.assert_allclose(classifier(features).detach().numpy(), expected, atol=1e-14)


def test_a_new_classifier_of_pairs_has_no_weights_for_what_only_pairs_have() -> None:
    assert not ElmoPairClassifier(16, 3).pair_weight.any()


def bcn(head: ElmoBcnHead, words: Array, mix: Array | None) -> Array:
    """Follow McCann et al. 2017, section 5, with one sentence."""
    encoded = read(head.encoder.layers[0], words)
    if mix is not None:
        encoded = np.concatenate([encoded, mix], axis=1)
    attended = softmax(encoded @ encoded.T) @ encoded
    integrated = read(head.integrator, np.concatenate([encoded, encoded - attended, encoded * attended], axis=1))
    shares = softmax(linear(head.attention, integrated)[:, 0])
    features = np.concatenate(
        [integrated.max(axis=0), integrated.mean(axis=0), integrated.min(axis=0), shares @ integrated]
    )
    for maxout in head.maxouts:
        features = linear(maxout.linear, features).reshape(-1, 4).max(axis=1)
    return features


def esim(head: ElmoEsimHead, first: Array, second: Array, mixes: tuple[Array, Array] | None) -> Array:
    """Follow Chen et al. 2017, section 3, with one pair."""
    encoded = [read(head.encoder.layers[0], words) for words in (first, second)]
    if mixes is not None:
        encoded = [np.concatenate(parts, axis=1) for parts in zip(encoded, mixes, strict=True)]
    likeness = encoded[0] @ encoded[1].T
    attended = [softmax(likeness) @ encoded[1], softmax(likeness.T) @ encoded[0]]
    pooled = []
    for own, other in zip(encoded, attended, strict=True):
        joined = np.concatenate([own, other, own - other, own * other], axis=1)
        composed = read(head.composition, np.maximum(linear(head.projection, joined), 0))
        pooled += [composed.mean(axis=0), composed.max(axis=0)]
    return np.tanh(linear(head.summary, np.concatenate(pooled)))


@pytest.mark.parametrize("mix_at", ["input", "both"])
def test_the_model_of_sentences_equals_numpy_on_each(mix_at: str) -> None:
    head = random_weights(ElmoBcnHead(config_of("bcn", mix_at=mix_at)))
    vectors, mix = batch(), batch(seed=1) if mix_at == "both" else None

    result = head(vectors, WORDS.long(), WORDS, mix).detach()

    assert result.shape == (3, head.output_size)
    for row, words in enumerate(WORDS):
        own = None if mix is None else mix[row][words].numpy()
        np.testing.assert_allclose(result[row].numpy(), bcn(head, vectors[row][words].numpy(), own), atol=1e-12)


@pytest.mark.parametrize("mix_at", ["input", "both"])
def test_the_model_of_pairs_equals_numpy_on_each(mix_at: str) -> None:
    head = random_weights(ElmoEsimHead(config_of("esim", mix_at=mix_at)))
    vectors, mix = batch(), batch(seed=1) if mix_at == "both" else None
    sentence = torch.tensor([[0, 1, 1, 0, 2, 2], [1, 1, 1, 1, 2, 2], [0, 2, 0, 1, 1, 2]])

    result = head(vectors, sentence, sentence != 0, mix).detach()

    assert result.shape == (3, head.output_size)
    for row, numbers in enumerate(sentence):
        first, second = (vectors[row][numbers == number].numpy() for number in (1, 2))
        mixes = None if mix is None else tuple(mix[row][numbers == number].numpy() for number in (1, 2))
        np.testing.assert_allclose(result[row].numpy(), esim(head, first, second, mixes), atol=1e-12)


# two boundaries and padding besides words: where each row begins is no word
SENTENCES = torch.tensor([[1, 1, 1, 2, 2, 2, 2], [0, 1, 1, 0, 2, 2, 0], [1, 0, 1, 1, 1, 2, 0]])
BEGINS = torch.tensor([0, 1, 0])


def rows_of_questions() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Vectors, the numbers of sentences, and where the words are."""
    words = SENTENCES != 0
    words[range(3), BEGINS] = False
    vectors = torch.randn(3, 7, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return vectors, SENTENCES, words


def trilinear(layer: ElmoTrilinear, rows: Array, columns: Array) -> Array:
    weight = layer.linear.weight.detach().numpy()[0]
    bias = 0.0 if layer.linear.bias is None else layer.linear.bias.item()
    return np.array([[weight @ np.concatenate([x, y, x * y]) + bias for y in columns] for x in rows])


def bidaf(head: ElmoBidafHead, question: Array, context: Array, mixes: tuple[Array, Array] | None) -> Array:
    """Follow Clark and Gardner 2018, section 3.1, with one question and the context behind `<S>`: `[m, 2, 2 * C]`."""
    encoded = [read(head.encoder.layers[0], words) for words in (question, context)]
    if mixes is not None:
        encoded = [np.concatenate(parts, axis=1) for parts in zip(encoded, mixes, strict=True)]
    asking, told = encoded
    scores = trilinear(head.similarity, told, asking)
    found = softmax(scores) @ asking
    asked = softmax(scores.max(axis=1)) @ told
    aware = np.maximum(linear(head.projection, np.concatenate([told, found, told * found, told * asked], axis=1)), 0)
    block = head.self_attention
    states = read(block.lstm, aware)
    scores = trilinear(block.similarity, states, states)
    attended = np.zeros_like(states)
    for word in range(len(states)):
        others = [other for other in range(len(states)) if other != word]
        # the last is no word
        shares = softmax(np.append(scores[word, others], 0.0))[:-1]
        attended[word] = shares @ states[others]
    joined = np.concatenate([states, attended, states * attended], axis=1)
    aware = aware + np.maximum(linear(block.projection, joined), 0)
    start = read(head.start, aware)
    return np.stack([start, read(head.end, np.concatenate([start, aware], axis=1))], axis=1)


@pytest.mark.parametrize("mix_at", ["input", "both"])
def test_the_model_of_answers_equals_numpy_on_each(mix_at: str) -> None:
    head = random_weights(ElmoBidafHead(config_of("bidaf", mix_at=mix_at)))
    vectors, sentences, words = rows_of_questions()
    mix = None if mix_at == "input" else vectors.flip(1)

    result = head(vectors, sentences, words, mix).detach()
    candidates = head.find_candidates(sentences, words)

    assert result.shape == (3, 7, 2, head.output_size)
    for row in range(3):
        asking, told = words[row] & (sentences[row] == 1), words[row] & (sentences[row] == 2)
        told[BEGINS[row]] = True
        assert torch.equal(candidates[row], told)
        own = [vectors[row][part].numpy() for part in (asking, told)]
        mixes = None if mix is None else [mix[row][part].numpy() for part in (asking, told)]
        np.testing.assert_allclose(result[row][told].numpy(), bidaf(head, *own, mixes), atol=1e-12)
        assert not result[row][~told].any()


def test_the_linear_model_of_answers_compares_each_word_with_the_question() -> None:
    vectors, sentences, words = rows_of_questions()

    result = ElmoSpanHead(config_of("linear"))(vectors, sentences, words, None)

    for row in range(3):
        question = vectors[row][words[row] & (sentences[row] == 1)].mean(dim=0)
        for word in range(7):
            own = vectors[row, word]
            torch.testing.assert_close(result[row, word], torch.cat([own, (own - question).abs(), own * question]))


def test_each_score_of_an_answer_has_features_of_its_own() -> None:
    classifier = random_weights(ElmoSpanClassifier(5, 2))
    features = torch.randn(3, 7, 2, 5, dtype=torch.float64)

    result = classifier(features)

    for score in range(2):
        expected = features[:, :, score] @ classifier.weight[score] + classifier.bias[score]
        torch.testing.assert_close(result[:, :, score], expected)


def test_variational_dropout_drops_the_same_features_at_all_words() -> None:
    torch.manual_seed(0)
    dropout, vectors = ElmoVariationalDropout(0.5), torch.ones(4, 6, 50)

    result = dropout(vectors)

    assert set(result.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(result, result[:, :1].expand_as(result))
    assert not torch.equal(result[0], result[1])
    assert torch.equal(dropout.eval()(vectors), vectors)


@pytest.mark.parametrize("name", SPAN_HEADS)
def test_a_question_or_a_context_without_words_gives_finite_features_that_no_padding_changes(name: str) -> None:
    head, vectors = random_weights(SPAN_HEADS[name](config_of(name))), batch().requires_grad_()
    sentences = torch.tensor([[1, 1, 1, 2, 0, 0], [1, 2, 2, 2, 0, 0], [1, 2, 0, 0, 0, 0]])
    words = torch.tensor([[0, 1, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]]).bool()

    result = head(vectors, sentences, words, None)
    shorter = head(vectors[:, :4], sentences[:, :4], words[:, :4], None)
    result.sum().backward()

    assert vectors.grad.isfinite().all()
    here = head.find_candidates(sentences, words)[:, :4]
    torch.testing.assert_close(result[:, :4][here], shorter[here])


@pytest.mark.parametrize("name", ["bcn", "esim"])
def test_a_sentence_without_words_gives_finite_features_and_gradients(name: str) -> None:
    head, vectors = random_weights(SENTENCE_HEADS[name](config_of(name))), batch().requires_grad_()
    sentence = torch.tensor([[0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0], [2, 2, 0, 0, 0, 0]])

    result = head(vectors, sentence, sentence != 0, None)
    result.sum().backward()

    assert result.isfinite().all()
    assert vectors.grad.isfinite().all()


def highway_lstm(layer: ElmoHighwayLstm, words: Array, kept: Array | float) -> Array:
    """Follow He et al. 2017, section 2.2, with one sentence, in the order in which the layer reads it."""
    weight, bias = (part.detach().numpy() for part in layer.input_projections[0].parameters())
    around, recurrent = layer.highways[0].weight.detach().numpy(), layer.recurrent_weight[0].detach().numpy()
    width = len(around)
    hidden, cell, states = np.zeros(width), np.zeros(width), np.zeros((len(words), width))
    order = reversed(range(len(words))) if layer.direction else range(len(words))
    for word in order:
        i, f, g, o, r = np.split(weight @ words[word] + bias + hidden @ recurrent, 5)
        i, f, o, r = (1 / (1 + np.exp(-gate)) for gate in (i, f, o, r))
        cell = f * cell + i * np.tanh(g)
        hidden = kept * (r * o * np.tanh(cell) + (1 - r) * (around @ words[word]))
        states[word] = hidden
    return states


def predicates_of_words() -> torch.Tensor:
    """One word, two words, and none."""
    return torch.tensor([[0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]])


@pytest.mark.parametrize("mix_at", ["input", "both"])
def test_the_model_of_roles_equals_numpy_on_each_sentence(mix_at: str) -> None:
    head = random_weights(ElmoRoleHead(config_of("alternating-lstm", mix_at=mix_at)))
    vectors, mix, predicates = batch(), batch(seed=1) if mix_at == "both" else None, predicates_of_words()

    result = head(vectors, WORDS.long(), WORDS, mix, predicates).detach()

    assert result.shape[2] == head.output_size
    assert [layer.direction for layer in head.layers] == [0, 1, 0, 1, 0, 1, 0, 1]
    table = head.predicate_embeddings.weight.detach().numpy()
    for row, words in enumerate(WORDS):
        states = np.concatenate([vectors[row][words].numpy(), table[predicates[row][words].numpy()]], axis=1)
        for layer in head.layers:
            states = highway_lstm(layer, states, 1.0)
        expected = states if mix is None else np.concatenate([states, mix[row][words].numpy()], axis=1)
        np.testing.assert_allclose(result[row][words].numpy(), expected, rtol=0, atol=1e-12)
        assert not result[row][~words].any()


def test_dropout_of_the_model_of_roles_removes_the_same_features_from_a_whole_sentence() -> None:
    layer = random_weights(ElmoHighwayLstm(16, 50, direction=1, dropout=0.5)).train()
    vectors = batch()

    result = layer(vectors, pack_words(WORDS)).detach()

    dropped = [(result[row][words] == 0).all(dim=0) for row, words in enumerate(WORDS)]
    for row, words in enumerate(WORDS):
        kept = 2.0 * ~dropped[row].numpy()
        # each hidden state that the next word reads lacks them, too
        expected = highway_lstm(layer, vectors[row][words].numpy(), kept)
        np.testing.assert_allclose(result[row][words].numpy(), expected, rtol=0, atol=1e-12)
    assert 10 < sum(part.sum() for part in dropped) / 3 < 40
    assert not torch.equal(dropped[0], dropped[1])


@torch.no_grad()
def test_a_sentence_has_the_same_roles_to_the_bit_alone_as_in_a_batch() -> None:
    # products of fewer columns than a register holds depend on where a row is
    head = random_weights(ElmoRoleHead(tiny_config(head="alternating-lstm", head_hidden_size=16))).float()
    vectors, predicates = batch().float(), predicates_of_words()

    together = head(vectors, WORDS.long(), WORDS, None, predicates)

    for row, words in enumerate(WORDS):
        alone = torch.ones(1, int(words.sum()), dtype=torch.bool)
        result = head(vectors[row][words][None], alone.long(), alone, None, predicates[row][words][None])
        assert torch.equal(result[0], together[row][words])


def test_new_weights_of_the_model_of_roles_are_orthogonal_and_its_cells_remember() -> None:
    config = tiny_config(head="alternating-lstm", head_hidden_size=4, num_labels=3)
    model = ElmoForTokenClassification(config)
    layer = model.head.layers[1]

    for block in (*layer.input_projections[0].weight.split(4), layer.highways[0].weight,
                  *layer.recurrent_weight[0].split(4, dim=1)):  # fmt: skip
        torch.testing.assert_close(block @ block.T, torch.eye(4))
    torch.testing.assert_close(model.classifier.weight @ model.classifier.weight.T, torch.eye(3))
    assert layer.input_projections[0].bias.tolist() == [0] * 4 + [1] * 4 + [0] * 12
    assert model.head.predicate_embeddings.weight.any(dim=1).all()


def test_a_head_that_the_task_has_not_is_refused() -> None:
    with pytest.raises(
        ValueError, match="`head` is 'bcn'; for this task choose one of linear, bilstm-crf, alternating-lstm"
    ):
        choose_head(config_of("bcn"), TAGGING_HEADS)


@pytest.mark.parametrize("name", ["mean", "max"])
def test_a_mix_at_the_output_of_no_encoder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"the head '{name}' has no encoder: leave `mix_at` at 'input'"):
        choose_head(config_of(name, mix_at="both"), SENTENCE_HEADS)


def test_the_first_head_is_the_default() -> None:
    assert choose_head(tiny_config(), TAGGING_HEADS) is None
    assert choose_head(tiny_config(), SENTENCE_HEADS) is ElmoPoolingHead
