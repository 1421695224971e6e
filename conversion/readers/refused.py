"""Known things that are no biLM weights, or that no reader reads yet: each is refused by its own name, in one line."""

from collections.abc import Callable

from .base import InputFile, Refusal
from .bilm_hdf5 import Content, content_of
from .content import HEAD, Kind, inflated_head


#: What the configuration of a Transformer-based language model says in an AllenNLP archive, and its published name.
TRANSFORMER_MARKS = (b"bidirectional_language_model_transformer", b"stacked_bidirectional_transformer")
TRANSFORMER_NAME = "transformer-elmo"


def _kind(*kinds: Kind) -> Callable[[list[InputFile]], InputFile | None]:
    """The first file of one of these kinds that the user named, or that is all there is."""
    return lambda files: next(
        (file for file in files if file.kind in kinds and (file.explicit or len(files) == 1)), None
    )


def _hdf5(content: Content) -> Callable[[list[InputFile]], InputFile | None]:
    return lambda files: next((file for file in files if file.kind is Kind.HDF5 and content_of(file) is content), None)


def _many_langs(files: list[InputFile]) -> InputFile | None:
    names = {file.basename: file for file in files}
    if {"config.json", "encoder.pkl"} <= names.keys():
        return names["encoder.pkl"]
    return None


def _tensorflow_checkpoint(files: list[InputFile]) -> InputFile | None:
    return next((file for file in files if ".ckpt" in file.basename or file.basename == "checkpoint"), None)


def _tensorflow_hub(files: list[InputFile]) -> InputFile | None:
    return next((file for file in files if file.basename in ("saved_model.pb", "tfhub_module.pb")), None)


def _transformer(files: list[InputFile]) -> InputFile | None:
    return next((file for file in files if file.kind is Kind.TAR_GZ and _is_transformer(file)), None)


def _is_transformer(file: InputFile) -> bool:
    if TRANSFORMER_NAME in file.basename:
        return True
    with file.location.open("rb") as raw:
        # AllenNLP puts config.json first
        head = inflated_head(raw.read(HEAD))
    return any(mark in head for mark in TRANSFORMER_MARKS)


REFUSALS = (
    Refusal(
        _many_langs,
        "{name} is part of an ELMoForManyLangs model, which this version does not convert. "
        "Give a model in HDF5 with its options.",
    ),
    Refusal(
        _transformer,
        "{name} is a Transformer language model that was published under ELMo's name: it has no LSTM, "
        "and is not converted. Give an LSTM ELMo.",
    ),
    Refusal(
        _kind(Kind.TAR_GZ, Kind.TAR),
        "{name} is a tar archive, as AllenNLP's are, which this version does not convert. "
        "Give the HDF5 weights and the options that its model was made with.",
    ),
    Refusal(
        _tensorflow_hub,
        "{name} is part of a TensorFlow Hub module, which this version does not convert. "
        "Give the HDF5 weights and the options of the same model.",
    ),
    Refusal(
        _tensorflow_checkpoint,
        "{name} is part of a TensorFlow checkpoint, which this version does not convert. "
        "Dump it to HDF5 with bilm-tf's `dump_weights`, and give that with its options.",
    ),
    Refusal(
        _kind(Kind.TORCH, Kind.PICKLE),
        "{name} is a PyTorch or pickle file (such as AllenNLP's weights.th), which this version does not convert. "
        "Give the HDF5 weights and the options.",
    ),
    Refusal(
        _hdf5(Content.TOKEN_CACHE),
        "{name} holds an array `embedding` alone: a cache of token vectors, not the weights. "
        "Give the file that also has the groups RNN_0 and RNN_1.",
    ),
    Refusal(
        _hdf5(Content.VECTORS),
        "{name} is a dump of vectors, the output of an ELMo, not the weights of one. "
        "Give the file that has the groups RNN_0 and RNN_1.",
    ),
    Refusal(
        _hdf5(Content.OTHER),
        "{name} is HDF5, but has none of a biLM's arrays. Give the file that has the groups RNN_0 and RNN_1.",
    ),
    Refusal(_kind(Kind.EMPTY), "{name} is empty (0 bytes). Download it again."),
    Refusal(
        _kind(Kind.WEB_PAGE), "{name} is a web page, not a model. Download the file itself, not the page about it."
    ),
    Refusal(_kind(Kind.LFS_POINTER), "{name} is a Git LFS pointer, not the file itself. Run `git lfs pull` there."),
)

__all__ = ["REFUSALS"]
