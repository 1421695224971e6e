"""`torch.compile`: the same numbers, and nothing is compiled anew for sentences of another length."""

from collections.abc import Callable

import pytest
import torch

from elmo_hf import ElmoForMaskedLM, ElmoForTokenClassification, ElmoModel
from support.tiny_models import batch, tensors, tiny_model


# of the compiler, about what it does not compile
pytestmark = pytest.mark.filterwarnings("ignore")


class Backend:
    """Runs the graphs that the compiler finds as they are, and counts them."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., tuple[torch.Tensor, ...]]:
        """Take a graph."""
        self.graphs += 1
        return graph.forward


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (ElmoModel, {}),
        (ElmoForTokenClassification, {"num_labels": 3}),
        pytest.param(ElmoForMaskedLM, {"vocab_size": 30}, marks=pytest.mark.slow),
    ],
    ids=["model", "tagger", "masked"],
)
def test_other_lengths_are_not_compiled_anew(cls: type, fields: dict) -> None:
    torch.compiler.reset()
    model, backend = tiny_model(cls, **fields), Backend()
    compiled = torch.compile(model, backend=backend, dynamic=True)
    compiled(**batch([4, 7, 2], **fields))
    once = backend.graphs

    for lengths in ([9, 3], [5, 5, 2, 12, 1]):
        inputs = batch(lengths, **fields)
        with torch.no_grad():
            torch.testing.assert_close(tensors(compiled(**inputs)), tensors(model(**inputs)), atol=1e-6, rtol=0)
        compiled(**inputs)

    assert (once > 0) == (cls is not ElmoModel)
    assert backend.graphs <= 2 * once


@pytest.mark.slow
def test_gradients_are_the_same_compiled() -> None:
    torch.compiler.reset()
    fields = {"num_labels": 3, "freeze_bilm": False, "classifier_dropout": 0.0, "hidden_dropout_prob": 0.0}
    model = tiny_model(ElmoForTokenClassification, **fields).train()
    inputs = batch([4, 7, 2], **fields)
    labels = inputs["input_ids"] % 3
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]

    found = torch.autograd.grad(torch.compile(model, backend="aot_eager")(**inputs, labels=labels).loss, trained)

    wanted = torch.autograd.grad(model(**inputs, labels=labels).loss, trained)
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)
