"""Write a model as an ONNX file, for programs without PyTorch."""

import importlib.util
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModel, PreTrainedModel

from elmo_hf import __version__
from elmo_hf.embedding.loading import load
from elmo_hf.errors import ElmoError, one_line
from elmo_hf.files import check_new_file, naming_errors, new_file
from elmo_hf.inspection import read_config
from elmo_hf.model.modeling_elmo import (
    ElmoForCoreferenceResolution,
    ElmoForMaskedLM,
    ElmoForMultipleChoice,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoPreTrainedModel,
)


PACKAGES = ("onnx", "onnxscript")

# a protobuf holds at most 2 GiB
MOST_BYTES = 2**31 - 2**24

# heads without a loop
HEADS = (None, "linear", "mean", "max")

# folders of these classes are exported with their logits, all others as vectors
CLASSES_WITH_LOGITS = {
    cls.__name__: cls for cls in (ElmoForMaskedLM, ElmoForSequenceClassification, ElmoForTokenClassification)
}


class _FlatModel(nn.Module):
    """A model that returns a tuple of tensors, which is what the exporter takes."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def run(self, inputs: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
        """Return the tensors of the model's result by name, and each layer under a name of its own."""
        options = {"output_hidden_states": isinstance(self.model, ElmoModel), "return_dict": True}
        named: dict[str, torch.Tensor] = {}
        for name, value in self.model(**inputs, **options).items():
            if isinstance(value, torch.Tensor):
                named[name] = value
            elif name == "hidden_states":
                named |= {f"{name}.{number}": layer for number, layer in enumerate(value)}
        return named

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        char_ids: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Compute what the model does.

        Args:
            input_ids: Ids of the words, `[B, T]`.
            attention_mask: 1 for words and 0 for padding, `[B, T]`.
            char_ids: Ids of the characters of each word, `[B, T, S]`.
        """
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "char_ids": char_ids}
        return tuple(self.run(inputs).values())


def export_onnx(model: ElmoPreTrainedModel | str | Path, path: str | Path) -> Path:
    """Write a model as ONNX, for any number of sentences and words.

    The file takes what the tokenizer returns, in int64: `attention_mask`; `char_ids` if the model reads characters;
    `input_ids` if it reads words or classifies sentences. It returns `last_hidden_state`, which is the mix, and the
    layers `hidden_states.0` to `hidden_states.L`; or the `logits` of a task or language model. Its metadata have the
    name of the `model`, its `class`, and the number of characters of a word, `max_characters`. A classifier that was
    trained on single sentences reads only those.

    Args:
        model: A model; or a model folder, or `elmo-small-en`. A folder is exported with the logits of its task or
            masked language model if it was saved with one, and else as vectors.
        path: The file to create; it must not exist.

    Returns:
        `path`.

    Raises:
        ElmoError: If onnx or onnxscript is missing, the model cannot be exported, or the file cannot be written.
    """
    path = Path(path)
    _check_packages()
    check_new_file(path)
    loaded = model if isinstance(model, PreTrainedModel) else _load(model)
    _check_model(loaded)
    training = loaded.training
    try:
        # evaluation mode leaves dropout out of the file
        with _without_pairs(loaded):
            program = _export(_FlatModel(loaded.eval()))
    finally:
        loaded.train(training)
    width = loaded.config.max_characters_per_token if loaded.config.char_embedding_dim else 0
    program.model.producer_name, program.model.producer_version = "elmo_hf", __version__
    program.model.metadata_props.update(
        {"model": str(loaded.name_or_path), "class": type(loaded).__name__, "max_characters": str(width)}
    )
    with new_file(path) as temporary, naming_errors(path):
        program.save(temporary, external_data=False)
    return path


def _load(folder: str | Path) -> PreTrainedModel:
    architectures = read_config(folder).architectures or [""]
    model, _ = load(folder, CLASSES_WITH_LOGITS.get(architectures[0], AutoModel))
    return model.float()


def _check_packages() -> None:
    if any(importlib.util.find_spec(name) is None for name in PACKAGES):
        raise ElmoError('ONNX needs the packages onnx and onnxscript: run pip install "elmo_hf[onnx]".')
    if not hasattr(torch.compiler, "is_exporting"):
        raise ElmoError(
            f"torch {torch.__version__} cannot export the loop over the words: upgrade it to 2.9 or later."
        )


def _check_model(model: PreTrainedModel) -> None:
    name = type(model).__name__
    if isinstance(model, (ElmoForMultipleChoice, ElmoForQuestionAnswering, ElmoForCoreferenceResolution)):
        raise ElmoError(f"{name} has no ONNX form: export its biLM, `model.elmo`, and run the head on its layers.")
    if getattr(model, "heads", None) and model.config.head not in HEADS:
        raise ElmoError(
            f"The head {model.config.head!r} of this {name} has no ONNX form: export its biLM, `model.elmo`, and run "
            "the head on its layers."
        )
    if getattr(model, "task_embeddings", None) is not None:
        raise ElmoError(
            f"This {name} reads words of its task, which have no ONNX form: export its biLM, `model.elmo`."
        )
    dtypes = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    if dtypes != {torch.float32}:
        raise ElmoError(f"This {name} is in {model.dtype}: load it with dtype=torch.float32 to export it.")
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    if size > MOST_BYTES:
        raise ElmoError(
            f"This {name} takes {size:,} bytes and an ONNX file holds {MOST_BYTES:,}: export `model.elmo`."
        )


@contextmanager
def _without_pairs(model: PreTrainedModel) -> Iterator[None]:
    """Let a model that has learned nothing about pairs read single sentences only, which takes half of the time."""
    if isinstance(model, ElmoForSequenceClassification) and not model.classifier.get_parameter("pair_weight").any():
        num_sentences, model.head.num_sentences = model.head.num_sentences, (1,)
        try:
            yield
        finally:
            model.head.num_sentences = num_sentences
    else:
        yield


def _export(flat: _FlatModel) -> torch.onnx.ONNXProgram:
    """Trace the model on two sentences, of three words and of two."""
    config = flat.model.config
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]], device=flat.model.device)
    inputs = {"attention_mask": mask}
    if config.word_embedding_dim or isinstance(flat.model, ElmoForSequenceClassification):
        # each row begins with the boundary token, and so is one sentence
        inputs["input_ids"] = mask * torch.tensor([config.bos_token_id or 1, config.unk_token_id or 1, 1]).to(mask)
    if config.char_embedding_dim:
        inputs["char_ids"] = mask[:, :, None].repeat(1, 1, config.max_characters_per_token)
    with torch.no_grad(), _silenced():
        outputs = list(flat.run(inputs))
        try:
            program = torch.onnx.export(
                flat,
                kwargs=inputs,
                dynamo=True,
                dynamic_shapes={name: {0: "batch", 1: "words"} for name in inputs},
                output_names=outputs,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            raise ElmoError(
                f"torch {torch.__version__} cannot export this model ({one_line(error)}): upgrade torch, onnx and "
                "onnxscript."
            ) from error
    if program is None:
        raise ElmoError(f"torch {torch.__version__} made no ONNX of this model: upgrade it.")
    return program


@contextmanager
def _silenced() -> Iterator[None]:
    """Hide the exporter's notes on itself, and on torchvision, which ELMo does not need."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


__all__ = ["export_onnx"]
