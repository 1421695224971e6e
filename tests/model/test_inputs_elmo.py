"""`model.inputs_elmo`: neighbours, sentences and labels of rows of words, wherever the padding is."""

import pytest
import torch

from elmo_hf.model.inputs_elmo import check_labels, check_numbers, find_sentences, label_fraction, neighbours


BOS, EOS = 1, 2


def find(*rows: list[int], bos: object = BOS, eos: object = EOS) -> tuple[list, list]:
    ids = torch.tensor(rows)
    sentence, words = find_sentences(ids, ids != 0, bos, eos)
    return sentence.tolist(), words.long().tolist()


def test_neighbours_are_found_over_padding() -> None:
    ids = torch.tensor([[5, 0, 6, 7], [0, 0, 8, 0]])

    following, previous = neighbours(ids, ids != 0).tolist()

    assert following == [[6, -100, 7, -100], [-100] * 4]
    assert previous == [[-100, -100, 5, 6], [-100] * 4]


def test_a_sentence_has_words_between_its_boundaries() -> None:
    assert find([0, 1, 7, 8, 2, 0]) == ([[0, 1, 1, 1, 1, 0]], [[0, 0, 1, 1, 0, 0]])


def test_a_pair_has_two_sentences() -> None:
    sentence, words = find([1, 7, 2, 1, 8, 9, 2, 0], [0, 1, 2, 1, 2, 0, 0, 0])

    assert sentence == [[1, 1, 1, 2, 2, 2, 2, 0], [0, 1, 1, 2, 2, 0, 0, 0]]
    assert words == [[0, 1, 0, 0, 1, 1, 0, 0], [0] * 8]


def test_boundaries_in_the_text_are_words() -> None:
    assert find([1, 7, 1, 8, 2, 9, 2]) == ([[1] * 7], [[0, 1, 1, 1, 1, 1, 0]])


def test_a_row_without_boundaries_is_one_sentence() -> None:
    assert find([7, 8, 9, 0]) == ([[1, 1, 1, 0]], [[1, 1, 1, 0]])
    assert find([1, 7, 2], bos=None, eos=None) == ([[1, 1, 1]], [[1, 1, 1]])


def test_several_ids_may_end_a_sentence() -> None:
    assert find([1, 7, 3], [1, 7, 2], eos=[2, 3]) == ([[1] * 3] * 2, [[0, 1, 0]] * 2)


@pytest.mark.parametrize("label", [3, -1, -101])
def test_a_label_that_the_model_has_not_is_named(label: int) -> None:
    with pytest.raises(ValueError, match=f"`labels` has {label}, which is not one of 0 to 2: load the model with"):
        check_labels(torch.tensor([[0, -100], [label, 1]]), torch.Size([2, 2]), 3)


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"`labels` is \(1, 2\) of torch.int64 where the batch takes integers \(1, 3\)"
    ):
        check_labels(torch.tensor([[0, 1]]), torch.Size([1, 3]), 3)


def test_a_batch_has_its_label_fraction_the_labels_of_a_step() -> None:
    labels = torch.tensor([[0, 1, -100], [2, -100, -100]])

    assert label_fraction(labels, None) == 1
    assert label_fraction(labels, 12) == 0.25


def test_a_step_without_labels_has_no_share() -> None:
    nothing = torch.full((2, 3), -100)

    assert label_fraction(nothing, torch.tensor(0)) == 0
    assert label_fraction(nothing, 0) == 0
    # a number to predict may be any
    assert label_fraction(torch.tensor([-100.0, 1.0]), 4) == 0.5


def test_numbers_take_the_type_and_shape_of_the_scores() -> None:
    assert check_numbers(torch.tensor([1, 2]), torch.zeros(2, 1)).dtype == torch.float32
    assert check_numbers(torch.ones(2, 3, dtype=torch.int64), torch.zeros(2, 3)).shape == (2, 3)
    for labels, logits in ((torch.zeros(2, 2), torch.zeros(2, 1)), (torch.zeros(2), torch.zeros(2, 3))):
        with pytest.raises(ValueError, match=r"`labels` is .* where the batch takes .* a number for each label"):
            check_numbers(labels, logits)
