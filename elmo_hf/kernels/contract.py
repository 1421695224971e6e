"""What the Hub files pass to a backend, and what they expect of it.

The Hub files have tuples of their own with these fields, so a backend reads the fields and never checks the class.

Shape notation: `B` sentences, `N` words of the batch without padding, `D` width of the layer below, `P` width of one
direction's output, `C` width of the cell, `G` gates: 4, or 5 with a highway. The leading 2 is the direction: 0 reads a
sentence from its first word, 1 from its last. A layer that reads in one direction has 1 there.
"""

from typing import NamedTuple, Protocol

import torch


class LstmWeights(NamedTuple):
    """The weights of a step and its clips.

    Attributes:
        recurrent: `[2, P, G * C]`.
        output: The projection, `[2, C, P]`; `None` if there is none.
        cell_clip: The limit of the cell; `None` if it is not clipped.
        projection_clip: The limit of the projected hidden state; `None` if it is not clipped.
    """

    recurrent: torch.Tensor
    output: torch.Tensor | None
    cell_clip: float | None
    projection_clip: float | None


class LinearMaps(NamedTuple):
    """The maps from the layer below to the inputs of the gates.

    Attributes:
        weights: The weight of each direction, `[G * C, D]`.
        bias: `[2, G * C]` in float32, the forget bias included.
    """

    weights: list[torch.Tensor]
    bias: torch.Tensor


class LstmCall(NamedTuple):
    """One layer to run over packed words, as torch's `PackedSequence` orders them.

    Attributes:
        inputs: `[2, N + spare, G * C]`, the inputs of the gates i, f, g, o, and r with a highway, with the bias; with
            `projections`, `[2, N + spare, D]`, the output of the layer below.
        projections: The maps from `inputs` to gate inputs, or `None`.
        batch_sizes: The number of running sentences at each time.
        state: `[2, B, P]` and `[2, B, C]`, the initial hidden and cell state, longest sentence first.
        weights: The weights of a step.
        carried: `[2, N + spare, C]`, what a highway carries around the cell: the hidden state is `r` times that of an
            LSTM and `1 - r` times this. `None` without a highway. A layer with one has no projection.
        dropout: `[2, B, P]`, factors of every hidden state of a sentence, longest sentence first. `None` without
            dropout. A layer with it has no projection.
    """

    inputs: torch.Tensor
    projections: LinearMaps | None
    batch_sizes: list[int]
    state: tuple[torch.Tensor, torch.Tensor]
    weights: LstmWeights
    carried: torch.Tensor | None = None
    dropout: torch.Tensor | None = None


class Saved(NamedTuple):
    """What the backward pass reads.

    Attributes:
        gates: `[2, N, G * C]`, after their non-linearities.
        cells: `[2, N, C]`.
        outputs: `[2, N, P]`, the hidden states.
        initial_hidden: `[2, B, P]`.
        initial_cell: `[2, B, C]`.
        carried: As in the call.
        dropout: As in the call.
    """

    gates: torch.Tensor
    cells: torch.Tensor
    outputs: torch.Tensor
    initial_hidden: torch.Tensor
    initial_cell: torch.Tensor
    carried: torch.Tensor | None = None
    dropout: torch.Tensor | None = None


# the hidden states `[2, N, P]`, and the state after each sentence's last word
Output = tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]
# of the gate inputs `[2, N, G * C]`, the hidden states before clip and dropout `[2, N, P]`, and the initial state
Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


class Backend(Protocol):
    """One implementation of the recurrence.

    Attributes:
        name: The value of `ELMO_HF_RECURRENCE` that chooses it.
    """

    name: str

    def missing(self, call: LstmCall) -> str | None:
        """Return why this machine cannot run the backend on the call's device and dtype; `None` if it can."""

    def declines(self, call: LstmCall) -> str | None:
        """Return why the backend does not take a call; `None` if it does. Nothing is compiled for this."""

    def forward(self, call: LstmCall, buffers: tuple[torch.Tensor, torch.Tensor] | None) -> Output:
        """Run all steps.

        Args:
            call: The layer. Its weights have the dtype of its inputs.
            buffers: `gates` and `cells` of `Saved`, to be filled; `None` if no backward pass follows.

        Returns:
            The hidden states `[2, N, P]`, and the state after each sentence's last word, as in `call`.
        """

    def backward(
        self,
        saved: Saved,
        batch_sizes: list[int],
        weights: LstmWeights,
        gradients: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> Gradients:
        """Run all steps backward.

        Args:
            saved: What the forward pass saved.
            batch_sizes: As in the call.
            weights: As in the call.
            gradients: Of the hidden states `[2, N, P]`, and of the final state `[2, B, P]` and `[2, B, C]`.

        Returns:
            The gradients of the gate inputs `[2, N, G * C]`, of the hidden states before clip and dropout
            `[2, N, P]`, and of the initial state `[2, B, P]` and `[2, B, C]`.
        """


__all__ = ["Backend", "Gradients", "LinearMaps", "LstmCall", "LstmWeights", "Output", "Saved"]
