"""Map the arrays of every original format to the parameters of `ElmoModel`, and back, by rules that are data.

The formats differ in names, axes, the order of gates and the sign of highway gates:

* bilm-tf multiplies `x @ W` and orders the gates i, g, f, o (TensorFlow calls g `j`). It adds 1 to the forget gate at
  run time, and gates highway layers as this package does.
* `torch.nn.Linear` multiplies `x @ W.T`, and this package orders i, f, g, o.
* AllenNLP and ELMoForManyLangs, which use PyTorch, order the gates as this package does and store the 1 in the bias
  (`config.forget_bias` is 0). Their highway gates have the opposite sign, so the rules negate those weights.

Every change permutes, pads or negates, so that converting and restoring gives the same bits.

Shape notation: `C` width of a cell, `P` of a projection, `F` filters in total, `V` words or characters, `L` layers.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from elmo_hf.model.configuration_elmo import ElmoConfig

from .readers.base import ConversionError, OriginalCheckpoint, Softmax


@dataclass(frozen=True)
class Change:
    """A change of layout and its inverse.

    Both take an iterable that reads each tensor only when asked for it, as a full-size kernel has 64 MB. Both return a
    tensor for each name of the rule.

    Attributes:
        convert: Turns original tensors into parameters.
        restore: Turns parameters into original tensors.
    """

    convert: Callable[[Iterable[Tensor]], Sequence[Tensor]]
    restore: Callable[[Iterable[Tensor]], Sequence[Tensor]]


@dataclass(frozen=True)
class Rule:
    """A group of original arrays and the parameters that they become.

    Attributes:
        sources: The original names, each with the shape that the configuration calls for.
        targets: The names in the state dict of `ElmoModel`; `softmax.*` belongs to `ElmoForPreTraining`.
        change: The change of layout between the two.
    """

    sources: dict[str, tuple[int, ...]]
    targets: tuple[str, ...]
    change: Change


def bilm_rules(config: ElmoConfig, *, words: int = 0, single_cell: bool = False) -> Iterator[Rule]:
    """List the rules for the HDF5 weights of bilm-tf.

    Args:
        config: The configuration.
        words: The number of rows of the original word table, for a model that reads words.
        single_cell: Whether the only layer is named `LSTMCell`, without `MultiRNNCell/Cell0`, as TensorFlow may do.

    Yields:
        The rules, in the order of the forward pass.
    """
    projection = config.hidden_size // 2
    if config.word_embedding_dim:
        yield Rule(
            {"embedding": (words, config.word_embedding_dim)},
            ("token_encoder.word_embeddings.weight",),
            padded_rows(config.vocab_size - 1 - words),
        )
    else:
        yield from _character_rules(config, projection)
    for layer in range(config.num_hidden_layers):
        cell = "LSTMCell" if single_cell else f"MultiRNNCell/Cell{layer}/LSTMCell"
        yield from _layer_rules(config, projection, [f"RNN_{d}/RNN/{cell}" for d in (0, 1)], f"layers.{layer}")


def _character_rules(config: ElmoConfig, projection: int) -> Iterator[Rule]:
    depth = config.char_embedding_dim
    yield Rule(
        {"char_embed": (config.char_vocab_size - 1, depth)},
        ("token_encoder.char_embeddings.weight",),
        padded_rows(0),
    )
    for i, (width, number) in enumerate(config.char_filters):
        target = f"token_encoder.convolutions.{i}"
        yield Rule({f"CNN/W_cnn_{i}": (1, width, depth, number)}, (f"{target}.weight",), CONVOLUTION)
        yield Rule({f"CNN/b_cnn_{i}": (number,)}, (f"{target}.bias",), SAME)
    filters = sum(number for _, number in config.char_filters)
    for k in range(config.num_highway_layers):
        for part, name in (("transform", "transform"), ("carry", "gate")):
            target = f"token_encoder.highways.{k}.{name}"
            yield Rule({f"CNN_high_{k}/W_{part}": (filters, filters)}, (f"{target}.weight",), TRANSPOSE)
            yield Rule({f"CNN_high_{k}/b_{part}": (filters,)}, (f"{target}.bias",), SAME)
    if filters != projection:
        target = "token_encoder.projection"
        yield Rule({"CNN_proj/W_proj": (filters, projection)}, (f"{target}.weight",), TRANSPOSE)
        yield Rule({"CNN_proj/b_proj": (projection,)}, (f"{target}.bias",), SAME)


def _layer_rules(config: ElmoConfig, projection: int, cells: list[str], layer: str) -> Iterator[Rule]:
    """List the rules of one layer.

    Args:
        config: The configuration.
        projection: The width `P` of a direction's output.
        cells: The original names of the forward and the backward cell.
        layer: The layer's name in `ElmoModel`.
    """
    width = config.intermediate_size
    yield Rule(
        {f"{cell}/W_0": (2 * projection, 4 * width) for cell in cells},
        (*(f"{layer}.input_projections.{d}.weight" for d in (0, 1)), f"{layer}.recurrent_weight"),
        LSTM_KERNELS,
    )
    yield Rule(
        {f"{cell}/B": (4 * width,) for cell in cells},
        tuple(f"{layer}.input_projections.{d}.bias" for d in (0, 1)),
        LSTM_BIAS,
    )
    if width != projection:
        yield Rule(
            {f"{cell}/W_P_0": (width, projection) for cell in cells}, (f"{layer}.output_weight",), BOTH_DIRECTIONS
        )


def _hdf5_rules(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> Iterator[Rule]:
    single_cell = "RNN_0/RNN/LSTMCell/W_0" in checkpoint.arrays
    yield from bilm_rules(config, words=_rows(checkpoint, "embedding"), single_cell=single_cell)
    if checkpoint.softmax is not None:
        yield from _softmax_rules(checkpoint.softmax, config)


def _tensorflow_rules(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> Iterator[Rule]:
    """List the rules of the HDF5 weights, with the names that the variables have in training."""
    single_cell = "lm/RNN_0/rnn/lstm_cell/kernel" in checkpoint.arrays
    for rule in bilm_rules(config, words=_rows(checkpoint, "lm/embedding"), single_cell=single_cell):
        yield replace(rule, sources={_variable(name): shape for name, shape in rule.sources.items()})
    if checkpoint.softmax is not None:
        yield from _softmax_rules(checkpoint.softmax, config)


def _softmax_rules(softmax: Softmax, config: ElmoConfig) -> Iterator[Rule]:
    words = config.vocab_size - 1
    if not config.tie_word_embeddings:
        yield Rule({softmax.weight: (words, config.hidden_size // 2)}, ("softmax.weight",), padded_rows(0))
    yield Rule({softmax.bias: (words,)}, ("softmax.bias",), padded_rows(0))


def _variable(name: str) -> str:
    """Turn a name of the HDF5 weights into that of the variable in training.

    Such as `RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0` into `lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/kernel`.
    """
    for dumped, trained in (
        ("/RNN/", "/rnn/"),
        ("/MultiRNNCell/Cell", "/multi_rnn_cell/cell_"),
        ("/LSTMCell/W_P_0", "/lstm_cell/projection/kernel"),
        ("/LSTMCell/W_0", "/lstm_cell/kernel"),
        ("/LSTMCell/B", "/lstm_cell/bias"),
    ):
        name = name.replace(dumped, trained)
    return f"lm/{name}"


def _hub_rules(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> Iterator[Rule]:  # noqa: ARG001 - all take both
    """List the rules of the HDF5 weights under the names of inference, where the character table has a padding row."""
    table: dict[str, tuple[int, ...]] = {"bilm/char_embed": (config.char_vocab_size, config.char_embedding_dim)}
    for rule in bilm_rules(config):
        sources = {f"bilm/{_inference_name(name)}": shape for name, shape in rule.sources.items()}
        if sources.keys() == table.keys():
            yield replace(rule, sources=table, change=SAME)
        else:
            yield replace(rule, sources=sources)


def _inference_name(name: str) -> str:
    """Turn a name of the HDF5 weights into that of the variable at inference.

    Such as `RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0` into `RNN_0/RNN/MultiRNNCell/Cell0/rnn/lstm_cell/kernel`.
    """
    for dumped, part in (("W_P_0", "projection/kernel"), ("W_0", "kernel"), ("B", "bias")):
        name = name.replace(f"/LSTMCell/{dumped}", f"/rnn/lstm_cell/{part}")
    return name


def _rows(checkpoint: OriginalCheckpoint, name: str) -> int:
    array = checkpoint.arrays.get(name)
    return array.shape[0] if array is not None and array.shape else 0


def _allennlp_rules(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> Iterator[Rule]:
    encoder = "_elmo_lstm._token_embedder"
    yield Rule(
        {f"{encoder}._char_embedding_weights": (config.char_vocab_size, config.char_embedding_dim)},
        ("token_encoder.char_embeddings.weight",),
        SAME,
    )
    for i, (width, number) in enumerate(config.char_filters):
        source, target = f"{encoder}.char_conv_{i}", f"token_encoder.convolutions.{i}"
        yield Rule({f"{source}.weight": (number, config.char_embedding_dim, width)}, (f"{target}.weight",), SAME)
        yield Rule({f"{source}.bias": (number,)}, (f"{target}.bias",), SAME)
    yield from torch_highway_rules(config, f"{encoder}._highways")
    filters, projection, target = config.char_feature_dim, config.hidden_size // 2, "token_encoder.projection"
    yield Rule({f"{encoder}._projection.weight": (projection, filters)}, (f"{target}.weight",), SAME)
    yield Rule({f"{encoder}._projection.bias": (projection,)}, (f"{target}.bias",), SAME)
    yield from torch_lstm_rules(config, "_elmo_lstm._elmo_lstm.")
    if (mix := checkpoint.mix) is not None:
        layers: dict[str, tuple[int, ...]] = {
            f"{mix}.scalar_parameters.{j}": (1,) for j in range(config.num_hidden_layers + 1)
        }
        yield Rule(layers, ("scalar_mix.weights",), JOINED)
        yield Rule({f"{mix}.gamma": (1,)}, ("scalar_mix.gamma",), SAME)
    if checkpoint.alignment is not None:
        shape = (config.hidden_size, config.hidden_size)
        yield Rule({checkpoint.alignment: shape}, ("scalar_mix.alignment.weight",), SAME)


def _many_langs_rules(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> Iterator[Rule]:  # noqa: ARG001 - all take both
    encoder, projection = "token_encoder", config.hidden_size // 2
    if config.word_embedding_dim:
        yield Rule(
            {"word_emb_layer.embedding.weight": (config.vocab_size - 1, config.word_embedding_dim)},
            (f"{encoder}.word_embeddings.weight",),
            padded_rows(0),
        )
    if config.char_embedding_dim:
        yield Rule(
            {"char_emb_layer.embedding.weight": (config.char_vocab_size - 1, config.char_embedding_dim)},
            (f"{encoder}.char_embeddings.weight",),
            padded_rows(0),
        )
        for i, (width, number) in enumerate(config.char_filters):
            source, target = f"convolutions.{i}", f"{encoder}.convolutions.{i}"
            yield Rule({f"{source}.weight": (number, config.char_embedding_dim, width)}, (f"{target}.weight",), SAME)
            yield Rule({f"{source}.bias": (number,)}, (f"{target}.bias",), SAME)
        yield from torch_highway_rules(config, "highways")
    joined = config.word_embedding_dim + config.char_feature_dim
    yield Rule({"projection.weight": (projection, joined)}, (f"{encoder}.projection.weight",), SAME)
    yield Rule({"projection.bias": (projection,)}, (f"{encoder}.projection.bias",), SAME)
    yield from torch_lstm_rules(config, "")


def torch_highway_rules(config: ElmoConfig, prefix: str) -> Iterator[Rule]:
    """List the rules of AllenNLP's highway layers: the transform comes first, then the gate of the carried input."""
    width = config.char_feature_dim
    for k in range(config.num_highway_layers):
        source, target = f"{prefix}._layers.{k}", f"token_encoder.highways.{k}"
        for part, shape in (("weight", (2 * width, width)), ("bias", (2 * width,))):
            yield Rule({f"{source}.{part}": shape}, (f"{target}.transform.{part}", f"{target}.gate.{part}"), HIGHWAY)


def torch_lstm_rules(config: ElmoConfig, prefix: str) -> Iterator[Rule]:
    """List the rules of AllenNLP's `ElmoLstm`, of which ELMoForManyLangs has a copy."""
    width, cell = config.hidden_size // 2, config.intermediate_size
    for layer in range(config.num_hidden_layers):
        cells = [f"{prefix}{direction}_layer_{layer}" for direction in ("forward", "backward")]
        target = f"layers.{layer}"
        inputs = [f"{target}.input_projections.{d}" for d in (0, 1)]
        for source, shape, targets, change in (
            ("input_linearity.weight", (4 * cell, width), [f"{name}.weight" for name in inputs], SAME),
            ("state_linearity.weight", (4 * cell, width), [f"{target}.recurrent_weight"], BOTH_DIRECTIONS_TRANSPOSED),
            ("state_linearity.bias", (4 * cell,), [f"{name}.bias" for name in inputs], SAME),
            ("state_projection.weight", (width, cell), [f"{target}.output_weight"], BOTH_DIRECTIONS_TRANSPOSED),
        ):
            yield Rule({f"{name}.{source}": shape for name in cells}, tuple(targets), change)


def to_state_dict(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> dict[str, Tensor]:
    """Convert the arrays of a checkpoint to parameters.

    Names and shapes are checked before any number is read. Then each rule's arrays are read, converted and released.

    Args:
        checkpoint: The original.
        config: Its configuration.

    Returns:
        The parameters of `ElmoModel`, without a layer mix if the original has none, and with `softmax.*` if it has a
        softmax. A softmax that shares the word table appears there only.

    Raises:
        ConversionError: If an array is missing, left over, of the wrong shape or not finite.
    """
    rules = rules_of(checkpoint, config)
    _check(checkpoint, rules)
    state: dict[str, Tensor] = {}
    # The largest come first, while most memory is free.
    for rule in sorted(rules, key=_size, reverse=True):
        arrays = (torch.from_numpy(checkpoint.arrays[name].read()) for name in rule.sources)
        state.update(zip(rule.targets, rule.change.convert(arrays), strict=True))
    return state


def rules_of(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> list[Rule]:
    """List the rules for a checkpoint of any format."""
    return [*RULES[checkpoint.format](checkpoint, config)]


def _size(rule: Rule) -> int:
    return sum(math.prod(shape) for shape in rule.sources.values())


def to_original(state: Mapping[str, Tensor], rules: list[Rule]) -> dict[str, np.ndarray]:
    """Restore the original arrays from parameters: the inverse of `to_state_dict`."""
    arrays: dict[str, np.ndarray] = {}
    for rule in rules:
        restored = rule.change.restore(state[name] for name in rule.targets)
        arrays.update((name, tensor.numpy()) for name, tensor in zip(rule.sources, restored, strict=True))
    return arrays


def _check(checkpoint: OriginalCheckpoint, rules: list[Rule]) -> None:
    shapes = {name: shape for rule in rules for name, shape in rule.sources.items()}
    for name, shape in shapes.items():
        array = checkpoint.arrays.get(name)
        if array is not None and array.shape != shape:
            raise ConversionError(
                f"{checkpoint.weights_name}: array {name} is {array.shape}, {checkpoint.options_name} calls for "
                f"{shape}. Give the options of this model."
            )
    missing, leftover = sorted(shapes.keys() - checkpoint.arrays), sorted(checkpoint.arrays.keys() - shapes)
    for names, what in (
        (missing, f"lacks arrays that {checkpoint.options_name} calls for"),
        (leftover, f"has arrays that {checkpoint.options_name} does not call for"),
    ):
        if names:
            shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            raise ConversionError(f"{checkpoint.weights_name} {what}: {shown}. Give the options of this model.")


def each(convert: Callable[[Tensor], Tensor], restore: Callable[[Tensor], Tensor]) -> Change:
    """Make a change that treats each tensor by itself."""
    return Change(lambda tensors: [*map(convert, tensors)], lambda tensors: [*map(restore, tensors)])


def padded_rows(after: int) -> Change:
    """Make the change `[V, ...]` <-> `[1 + V + after, ...]`.

    Row 0 is that of padding; the rows after the table are zeros for special words that the vocabulary lacks.
    """
    return each(
        lambda table: torch.nn.functional.pad(table, (0, 0) * (table.ndim - 1) + (1, after)),
        lambda table: table[1 : len(table) - after].contiguous(),
    )


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _transposed(matrix: Tensor) -> Tensor:
    """Turn `[n, m]` into `[m, n]`."""
    return matrix.T.contiguous()


def _convolution(kernel: Tensor) -> Tensor:
    """Turn `[1, width, in, out]` into `[out, in, width]`."""
    return kernel.squeeze(0).permute(2, 1, 0).contiguous()


def _original_convolution(weight: Tensor) -> Tensor:
    """Turn `[out, in, width]` into `[1, width, in, out]`."""
    return weight.permute(2, 1, 0).unsqueeze(0).contiguous()


def _swap_gates(tensor: Tensor) -> Tensor:
    """Swap the inner gates of `[..., 4C]`: from i, g, f, o to i, f, g, o, and from that back."""
    first, second, third, last = tensor.chunk(4, dim=-1)
    return torch.cat([first, third, second, last], dim=-1)


def _lstm_kernels(kernels: Iterable[Tensor]) -> list[Tensor]:
    """Split a kernel `[2P, 4C]` per direction into two input weights `[4C, P]` and one recurrent weight `[2, P, 4C]`.

    The first rows of a kernel multiply the input, the others the hidden state.
    """
    inputs, recurrent = [], []
    for kernel in kernels:
        # [P, 4C] each
        of_input, of_state = kernel.chunk(2)
        # [4C, P], [P, 4C]
        inputs.append(_swap_gates(of_input).T.contiguous())
        recurrent.append(_swap_gates(of_state))
    return [*inputs, torch.stack(recurrent)]


def _original_lstm_kernels(weights: Iterable[Tensor]) -> list[Tensor]:
    """Invert `_lstm_kernels`."""
    forward, backward, recurrent = weights
    return [
        torch.cat([_swap_gates(of_input.T), _swap_gates(of_state)])
        for of_input, of_state in zip((forward, backward), recurrent, strict=True)
    ]


def _stacked(matrices: Iterable[Tensor]) -> list[Tensor]:
    """Stack the directions' `[C, P]` to `[2, C, P]`."""
    return [torch.stack([*matrices])]


def _unstacked(stacked: Iterable[Tensor]) -> list[Tensor]:
    """Invert `_stacked`."""
    (matrices,) = stacked
    return [*matrices.unbind()]


def _joined(parts: Iterable[Tensor]) -> list[Tensor]:
    """Join `L + 1` tensors `[1]` to `[L + 1]`."""
    return [torch.cat([*parts])]


def _parted(joined: Iterable[Tensor]) -> list[Tensor]:
    """Invert `_joined`."""
    (whole,) = joined
    return [*whole.split(1)]


def _highway(joined: Iterable[Tensor]) -> list[Tensor]:
    """Split `[2F, ...]` into transform and gate, `[F, ...]` each; AllenNLP's gate has the opposite sign."""
    (whole,) = joined
    transform, carry = whole.chunk(2)
    return [transform.contiguous(), -carry]


def _original_highway(parts: Iterable[Tensor]) -> list[Tensor]:
    """Invert `_highway`."""
    transform, gate = parts
    return [torch.cat([transform, -gate])]


SAME = each(_same, _same)
TRANSPOSE = each(_transposed, _transposed)
CONVOLUTION = each(_convolution, _original_convolution)
LSTM_BIAS = each(_swap_gates, _swap_gates)
LSTM_KERNELS = Change(_lstm_kernels, _original_lstm_kernels)
BOTH_DIRECTIONS = Change(_stacked, _unstacked)
BOTH_DIRECTIONS_TRANSPOSED = Change(
    lambda matrices: _stacked(matrix.T for matrix in matrices),
    lambda stacked: [*map(_transposed, _unstacked(stacked))],
)
JOINED = Change(_joined, _parted)
HIGHWAY = Change(_highway, _original_highway)

#: Lists the rules for a checkpoint of each format, by the format's name.
RULES: dict[str, Callable[[OriginalCheckpoint, ElmoConfig], Iterator[Rule]]] = {
    "allennlp-torch": _allennlp_rules,
    "bilm-hdf5": _hdf5_rules,
    "bilm-tensorflow": _tensorflow_rules,
    "many-langs": _many_langs_rules,
    "tensorflow-hub": _hub_rules,
}

__all__ = ["Change", "Rule", "bilm_rules", "rules_of", "to_original", "to_state_dict"]
