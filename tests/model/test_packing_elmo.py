"""`model.packing_elmo`: the words of a batch, in the order in which a recurrence comes to them."""

import pytest
import torch

from elmo_hf.model import packing_elmo
from elmo_hf.model.packing_elmo import ROWS_AT_ONCE, fill_up, pack_words
from support.tiny_models import sentence, tiny_config, tiny_model


def test_packs_words_wherever_the_padding_is() -> None:
    # a hole, padding at the left, nothing, padding at the right
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()

    packing = pack_words(mask)

    assert packing.sentences.tolist() == [0, 1, 3, 2]
    assert packing.batch_sizes == [3, 2, 1]
    # position = 4 * sentence + word
    assert packing.words[:, :6].tolist() == [[0, 6, 12, 2, 7, 3], [3, 7, 12, 2, 6, 0]]


def test_mixed_precision_computes_products_of_few_different_sizes() -> None:
    ids, mask = torch.arange(90).reshape(45, 2), torch.ones(3, 15, dtype=torch.bool)

    with torch.autocast("cpu", torch.bfloat16):
        filled, packing = fill_up(ids), pack_words(mask)

    assert len(filled) == packing.words.shape[1] == 64 == 2 * ROWS_AT_ONCE
    # what is added is read by nobody: the first row, again and again
    assert torch.equal(filled[:45], ids)
    assert (filled[45:] == ids[0]).all()
    # in full precision, only the rows that keep a sentence's bits
    assert fill_up(ids) is ids
    assert pack_words(mask).words.shape[1] == 45 + packing_elmo.FEWEST_ROWS - 1


def test_rows_that_are_added_change_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model().train()
    parameters = list(model.parameters())
    found = []
    for at_once in (ROWS_AT_ONCE, 1):
        monkeypatch.setattr(packing_elmo, "ROWS_AT_ONCE", at_once)
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16):
            output = model(**sentence(21, tiny_config())).last_hidden_state
        found.append(torch.autograd.grad(output.float().square().sum(), parameters, allow_unused=True))

    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, atol=2e-2 * float(other.abs().max()), rtol=0)
