"""Every foreign name and axis convention, as data.

A rule turns arrays of the original file into parameters of `ElmoModel`, and back. bilm-tf multiplies `x @ W` and
orders the gates i, g, f, o (TensorFlow calls g `j`); `torch.nn.Linear` multiplies `x @ W.T`, and this package orders
i, f, g, o. Both add 1 to the forget gate when they run. Highway layers are gated as in bilm-tf, so no sign changes.
Programs in PyTorch have our order of gates and the 1 in their bias (`config.forget_bias` is 0), but gate highway
layers the other way round, hence their negated weights.

Every change is a permutation, a padding or a change of sign: there and back again is the same to the bit.

Letters: `C` cell, `P` projection, `F` filters in all, `V` words or characters.
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
    """A change of layout and the way back.

    Both take tensors that are read when the change asks for the next one (a full-size kernel has 64 MB), and give as
    many as the rule has names.
    """

    convert: Callable[[Iterable[Tensor]], Sequence[Tensor]]
    restore: Callable[[Iterable[Tensor]], Sequence[Tensor]]


@dataclass(frozen=True)
class Rule:
    """Arrays of the original file, and the parameters that are made of them.

    Attributes:
        sources: Each original name, with the shape that the configuration calls for.
        targets: Names in the state dict of `ElmoModel`; `softmax.*` is beside it.
        change: Between the two.
    """

    sources: dict[str, tuple[int, ...]]
    targets: tuple[str, ...]
    change: Change


def bilm_rules(config: ElmoConfig, *, words: int = 0, single_cell: bool = False) -> Iterator[Rule]:
    """List the rules for a checkpoint of this shape.

    Args:
        config: The configuration.
        words: Rows of the original's word embedding; used where the model reads words.
        single_cell: The only layer is named `LSTMCell`, without `MultiRNNCell/Cell0`, as TensorFlow does.

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
    """Rules of one layer; `cells` holds the original names of the forward and the backward one."""
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
        yield Rule({f"{cell}/W_P_0": (width, projection) for cell in cells}, (f"{layer}.output_weight",), BOTH_WAYS)


def _hdf5_rules(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> Iterator[Rule]:
    return bilm_rules(
        config, words=_rows(checkpoint, "embedding"), single_cell="RNN_0/RNN/LSTMCell/W_0" in checkpoint.arrays
    )


def _tensorflow_rules(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> Iterator[Rule]:
    """The rules of HDF5, under the names that the variables had in training."""
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
    """`RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0` -> `lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/kernel`."""
    for dumped, trained in (
        ("/RNN/", "/rnn/"),
        ("/MultiRNNCell/Cell", "/multi_rnn_cell/cell_"),
        ("/LSTMCell/W_P_0", "/lstm_cell/projection/kernel"),
        ("/LSTMCell/W_0", "/lstm_cell/kernel"),
        ("/LSTMCell/B", "/lstm_cell/bias"),
    ):
        name = name.replace(dumped, trained)
    return f"lm/{name}"


def _hub_rules(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> Iterator[Rule]:  # noqa: ARG001 - as all
    """The rules of HDF5, under the names that the variables have at inference, where padding has its row."""
    table: dict[str, tuple[int, ...]] = {"bilm/char_embed": (config.char_vocab_size, config.char_embedding_dim)}
    for rule in bilm_rules(config):
        sources = {f"bilm/{_inference_name(name)}": shape for name, shape in rule.sources.items()}
        if sources.keys() == table.keys():
            yield replace(rule, sources=table, change=SAME)
        else:
            yield replace(rule, sources=sources)


def _inference_name(name: str) -> str:
    """`RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0` -> `RNN_0/RNN/MultiRNNCell/Cell0/rnn/lstm_cell/kernel`."""
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


def _many_langs_rules(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> Iterator[Rule]:  # noqa: ARG001 - as all
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
    """Rules of AllenNLP's highway layers: the transformed half first, then the gate of what is kept."""
    width = config.char_feature_dim
    for k in range(config.num_highway_layers):
        source, target = f"{prefix}._layers.{k}", f"token_encoder.highways.{k}"
        for part, shape in (("weight", (2 * width, width)), ("bias", (2 * width,))):
            yield Rule({f"{source}.{part}": shape}, (f"{target}.transform.{part}", f"{target}.gate.{part}"), HIGHWAY)


def torch_lstm_rules(config: ElmoConfig, prefix: str) -> Iterator[Rule]:
    """Rules of the layers of AllenNLP's `ElmoLstm`, of which ELMoForManyLangs has a copy."""
    width, cell = config.hidden_size // 2, config.intermediate_size
    for layer in range(config.num_hidden_layers):
        ways = [f"{prefix}{way}_layer_{layer}" for way in ("forward", "backward")]
        target = f"layers.{layer}"
        inputs = [f"{target}.input_projections.{d}" for d in (0, 1)]
        for sources, shape, targets, change in (
            ("input_linearity.weight", (4 * cell, width), [f"{name}.weight" for name in inputs], SAME),
            ("state_linearity.weight", (4 * cell, width), [f"{target}.recurrent_weight"], BOTH_WAYS_TRANSPOSED),
            ("state_linearity.bias", (4 * cell,), [f"{name}.bias" for name in inputs], SAME),
            ("state_projection.weight", (width, cell), [f"{target}.output_weight"], BOTH_WAYS_TRANSPOSED),
        ):
            yield Rule({f"{way}.{sources}": shape for way in ways}, tuple(targets), change)


def to_state_dict(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> dict[str, Tensor]:
    """Convert a checkpoint.

    Names and shapes are compared before a number is read; then each rule's arrays are read, converted and let go.

    Args:
        checkpoint: The original.
        config: Its configuration.

    Returns:
        The parameters of `ElmoModel`, but for the mix of the layers where the original has none, and the softmax where
        it is there; a softmax that is the table of the words is not there twice.

    Raises:
        ConversionError: If an array is missing, left over, misshapen or not finite.
    """
    rules = rules_of(checkpoint, config)
    _check(checkpoint, rules)
    state: dict[str, Tensor] = {}
    # the largest first, while there is most room
    for rule in sorted(rules, key=_size, reverse=True):
        arrays = (torch.from_numpy(checkpoint.arrays[name].read()) for name in rule.sources)
        state.update(zip(rule.targets, rule.change.convert(arrays), strict=True))
    return state


def rules_of(checkpoint: OriginalCheckpoint, config: ElmoConfig) -> list[Rule]:
    """List the rules for a checkpoint, as its format has them."""
    return [*RULES[checkpoint.format](checkpoint, config)]


def _size(rule: Rule) -> int:
    return sum(math.prod(shape) for shape in rule.sources.values())


def to_original(state: Mapping[str, Tensor], rules: list[Rule]) -> dict[str, np.ndarray]:
    """Restore the original arrays from the parameters: `to_state_dict`, backwards."""
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
    """A change of each tensor for itself."""
    return Change(lambda tensors: [*map(convert, tensors)], lambda tensors: [*map(restore, tensors)])


def padded_rows(after: int) -> Change:
    """`[V, ...]` <-> `[1 + V + after, ...]`: id 0 is padding, words that the vocabulary lacks have rows of zeros."""
    return each(
        lambda table: torch.nn.functional.pad(table, (0, 0) * (table.ndim - 1) + (1, after)),
        lambda table: table[1 : len(table) - after].contiguous(),
    )


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _transposed(matrix: Tensor) -> Tensor:
    """`[n, m]` -> `[m, n]`."""
    return matrix.T.contiguous()


def _convolution(kernel: Tensor) -> Tensor:
    """`[1, width, in, out]` -> `[out, in, width]`."""
    return kernel.squeeze(0).permute(2, 1, 0).contiguous()


def _original_convolution(weight: Tensor) -> Tensor:
    """`[out, in, width]` -> `[1, width, in, out]`."""
    return weight.permute(2, 1, 0).unsqueeze(0).contiguous()


def _swap_gates(tensor: Tensor) -> Tensor:
    """`[..., 4C]` between the orders i, g, f, o and i, f, g, o; the same both ways."""
    first, second, third, last = tensor.chunk(4, dim=-1)
    return torch.cat([first, third, second, last], dim=-1)


def _lstm_kernels(kernels: Iterable[Tensor]) -> list[Tensor]:
    """Forward and backward `[2P, 4C]` -> two input weights `[4C, P]` and the recurrent weight `[2, P, 4C]`.

    The rows of a kernel are those of the input, then those of the recurrence.
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
    """The way back."""
    forward, backward, recurrent = weights
    return [
        torch.cat([_swap_gates(of_input.T), _swap_gates(of_state)])
        for of_input, of_state in zip((forward, backward), recurrent, strict=True)
    ]


def _both_ways(matrices: Iterable[Tensor]) -> list[Tensor]:
    """Forward and backward `[C, P]` -> `[2, C, P]`."""
    return [torch.stack([*matrices])]


def _each_way(stacked: Iterable[Tensor]) -> list[Tensor]:
    """`[2, C, P]` -> forward and backward `[C, P]`."""
    (matrices,) = stacked
    return [*matrices.unbind()]


def _joined(parts: Iterable[Tensor]) -> list[Tensor]:
    """`L + 1` times `[1]` -> `[L + 1]`."""
    return [torch.cat([*parts])]


def _parted(joined: Iterable[Tensor]) -> list[Tensor]:
    """`[L + 1]` -> `L + 1` times `[1]`."""
    (whole,) = joined
    return [*whole.split(1)]


def _highway(joined: Iterable[Tensor]) -> list[Tensor]:
    """`[2F, ...]` -> transformation and gate, `[F, ...]` each; their gate opens to the input, ours closes to it."""
    (whole,) = joined
    transform, carry = whole.chunk(2)
    return [transform.contiguous(), -carry]


def _original_highway(parts: Iterable[Tensor]) -> list[Tensor]:
    """The way back."""
    transform, gate = parts
    return [torch.cat([transform, -gate])]


SAME = each(_same, _same)
TRANSPOSE = each(_transposed, _transposed)
CONVOLUTION = each(_convolution, _original_convolution)
LSTM_BIAS = each(_swap_gates, _swap_gates)
LSTM_KERNELS = Change(_lstm_kernels, _original_lstm_kernels)
BOTH_WAYS = Change(_both_ways, _each_way)
BOTH_WAYS_TRANSPOSED = Change(
    lambda matrices: _both_ways(matrix.T for matrix in matrices),
    lambda stacked: [*map(_transposed, _each_way(stacked))],
)
JOINED = Change(_joined, _parted)
HIGHWAY = Change(_highway, _original_highway)

#: The rules of each format, by its name.
RULES: dict[str, Callable[[OriginalCheckpoint, ElmoConfig], Iterator[Rule]]] = {
    "allennlp-torch": _allennlp_rules,
    "bilm-hdf5": _hdf5_rules,
    "bilm-tensorflow": _tensorflow_rules,
    "many-langs": _many_langs_rules,
    "tensorflow-hub": _hub_rules,
}

__all__ = ["Change", "Rule", "bilm_rules", "rules_of", "to_original", "to_state_dict"]
