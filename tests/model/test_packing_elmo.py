"""`model.packing_elmo`: the words of a batch, in the order in which a recurrence comes to them."""

import torch

from elmo_hf.model.packing_elmo import pack_words


def test_packs_words_wherever_the_padding_is() -> None:
    # a hole, padding at the left, nothing, padding at the right
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()

    packing = pack_words(mask)

    assert packing.sentences.tolist() == [0, 1, 3, 2]
    assert packing.batch_sizes == [3, 2, 1]
    # position = 4 * sentence + word
    assert packing.words[:, :6].tolist() == [[0, 6, 12, 2, 7, 3], [3, 7, 12, 2, 6, 0]]
