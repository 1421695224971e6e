"""Refuse known files that are not weights of a biLM, each with a message of its own."""

import re
from collections.abc import Callable

from .base import InputFile, Refusal
from .bilm_hdf5 import Content, content_of
from .content import HEAD, Kind


#: Marks of a Transformer-based language model in the configuration of an AllenNLP archive, and its published name.
TRANSFORMER_MARKS = (b"bidirectional_language_model_transformer", b"stacked_bidirectional_transformer")
TRANSFORMER_NAME = "transformer-elmo"

#: The end of the name of a part of a split archive, such as `bilm-output-result.tgz.part-00`.
SPLIT_PART = re.compile(r"\.(tgz|tar|tar\.gz|tar\.bz2|zip)\.(part-?)?(\d{2,3}|a[a-z])$")

#: Files that only a module of TensorFlow Hub has.
HUB_NAMES = ("saved_model.pb", "tfhub_module.pb")


def _kind(*kinds: Kind) -> Callable[[list[InputFile]], InputFile | None]:
    """Find the first file of these kinds that the user named, or that is the only file."""
    return lambda files: next(
        (file for file in files if file.kind in kinds and (file.explicit or len(files) == 1)), None
    )


def _hdf5(content: Content) -> Callable[[list[InputFile]], InputFile | None]:
    return lambda files: next((file for file in files if file.kind is Kind.HDF5 and content_of(file) is content), None)


def _tensorflow_checkpoint(files: list[InputFile]) -> InputFile | None:
    return next((file for file in files if ".ckpt" in file.basename or file.basename == "checkpoint"), None)


def _tensorflow_hub(files: list[InputFile]) -> InputFile | None:
    return next((file for file in files if file.basename in HUB_NAMES), None)


def _many_langs_dictionary(files: list[InputFile]) -> InputFile | None:
    return next((file for file in files if file.basename in ("word.dic", "char.dic")), None)


def _split_part(files: list[InputFile]) -> InputFile | None:
    return next((file for file in files if SPLIT_PART.search(file.basename)), None)


def _transformer(files: list[InputFile]) -> InputFile | None:
    """Find the archive whose name or configuration says that it is a Transformer."""
    for file in files:
        archive = file.archive or file
        if TRANSFORMER_NAME in archive.basename or (file.kind is Kind.JSON and _is_transformer(file)):
            return archive
    return None


def _is_transformer(file: InputFile) -> bool:
    with file.location.open("rb") as raw:
        head = raw.read(HEAD)
    return any(mark in head for mark in TRANSFORMER_MARKS)


REFUSALS = (
    Refusal(
        _transformer,
        "{name} is a Transformer language model that was published under ELMo's name: it has no LSTM, "
        "and is not converted. Give an LSTM ELMo.",
    ),
    Refusal(
        _split_part,
        "{name} is one part of a split archive. Join all parts in order, as in `cat model.tgz.part-* > model.tgz`, "
        "and give the whole.",
    ),
    Refusal(
        _many_langs_dictionary,
        "{name} is part of an ELMoForManyLangs model, but token_embedder.pkl and encoder.pkl are missing. "
        "Give all files of the model.",
    ),
    Refusal(
        _tensorflow_hub,
        "{name} is part of a TensorFlow Hub module, but not all of one is here. "
        "Give its folder or archive, with variables/variables.index and variables/variables.data-00000-of-00001.",
    ),
    Refusal(
        _tensorflow_checkpoint,
        "{name} is part of a TensorFlow checkpoint, but not all of one is here. "
        "Give its folder, with options.json, model.ckpt-N.index and model.ckpt-N.data-00000-of-00001.",
    ),
    Refusal(
        _kind(Kind.TORCH, Kind.PICKLE),
        "{name} is a PyTorch or pickle file without an ELMo by AllenNLP in it. "
        "Give a model's weights.th or model.tar.gz, or HDF5 weights and their options.",
    ),
    Refusal(
        _hdf5(Content.SOFTMAX),
        "{name} holds a softmax alone. Give the weights that it belongs to, their options and vocabulary as well.",
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
    Refusal(_kind(Kind.CUT), "{name} is truncated: it breaks off within its first 8 bytes. Download it again."),
    Refusal(_kind(Kind.EMPTY), "{name} is empty (0 bytes). Download it again."),
    Refusal(
        _kind(Kind.WEB_PAGE), "{name} is a web page, not a model. Download the file itself, not the page about it."
    ),
)

__all__ = ["REFUSALS"]
