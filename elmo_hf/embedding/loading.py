"""Load a model and its tokenizer, or say in one line what is missing or damaged."""

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars
from safetensors import safe_open
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled

from elmo_hf.bundled import model_folder
from elmo_hf.errors import ElmoError, one_line


# `from_pretrained` exchanges functions of Transformers while it runs: two threads at once would leave the wrong ones
_LOADING = threading.RLock()


def load(
    folder: str | Path, model_class: type[Any] = AutoModel, *, remedy: str = "convert it again"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model with all of its weights, and its tokenizer.

    `AutoModel.from_pretrained` only warns when weights are missing, and continues with random numbers. It also accepts
    weights that the configuration does not call for, integers, and NaN. `load` raises an error for each of these.

    Args:
        folder: A model folder, as `elmo-hf convert` writes it, or `elmo-small-en`, which comes with the package.
        model_class: The class to load; by default the model without a head.
        remedy: What to do with a damaged model, for the messages of errors.

    Returns:
        The model, in evaluation mode, and the tokenizer.

    Raises:
        ElmoError: If a part of the folder is missing or damaged, or the class has a softmax and the folder has none.
    """
    folder = model_folder(folder)
    with _naming_the_damaged(folder, "model", remedy):
        integers = _integer_weights(folder)
        with quiet_loading():
            model, report = model_class.from_pretrained(folder, output_loading_info=True, ignore_mismatched_sizes=True)
    if not hasattr(model, "has_bilm") and model.config.mix_at == "none":
        raise ElmoError(
            f"{folder} is a task's model without ELMo (its mix_at is 'none'), which has no vectors to give."
        )
    _check_softmax(folder, model, report)
    problems = {
        "lack, or have in another shape,": [
            *report["missing_keys"],
            *(name for name, *_ in report["mismatched_keys"]),
        ],
        "hold what config.json does not call for,": _unexpected_weights(model, report),
        "hold integers in": integers,
        "hold NaN or infinite numbers in": [
            name for name, parameter in model.named_parameters() if not parameter.isfinite().all()
        ],
    }
    for problem, names in problems.items():
        if names:
            raise ElmoError(f"The weights in {folder} {problem} {first_of(names)}: {remedy}.")
    with _naming_the_damaged(folder, "tokenizer", remedy):
        return model, AutoTokenizer.from_pretrained(folder)


def _check_softmax(folder: str | Path, model: PreTrainedModel, report: dict[str, Any]) -> None:
    softmax = {name for name, _ in model.named_parameters() if name.startswith("softmax.")}
    if softmax and softmax <= set(report["missing_keys"]):
        raise ElmoError(
            f"{folder} has no softmax, so it gives vectors but predicts no words: convert a checkpoint of a training, "
            "such as bilm-tf's, with its vocabulary, or train a language model."
        )


def _unexpected_weights(model: PreTrainedModel, report: dict[str, Any]) -> list[str]:
    """Return the names of weights that belong to a part of the model, but have no place in it.

    The weights of a task head are not expected either, but belong to no part of the model without a head.
    """
    parts = tuple(f"{name}." for part in (model, model.base_model) for name, _ in part.named_children())
    prefix = f"{model.base_model_prefix}."
    return [name for name in report["unexpected_keys"] if name.removeprefix(prefix).startswith(parts)]


@contextmanager
def _naming_the_damaged(folder: str | Path, part: str, remedy: str) -> Iterator[None]:
    """Turn whatever Transformers raises at a damaged folder, which can be anything, into one line that names it."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise ElmoError(f"{folder} has a name that is not valid UTF-8: rename it.") from error
    except Exception as error:
        reason = one_line(error) or type(error).__name__
        raise ElmoError(f"The {part} in {folder} is missing or damaged ({reason}): {remedy}.") from error


def _integer_weights(folder: Path) -> list[str]:
    """Return the names of weights that are not floating point, which Transformers would cast."""
    names = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="numpy") as file:
            dtypes = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 - no dictionary
        # int8 weights have scales beside them (docs/clients.md)
        names += [
            name
            for name, dtype in dtypes.items()
            if not dtype.startswith(("F", "BF")) and ".parametrizations." not in name
        ]
    return names


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Hide the report of `from_pretrained` on missing and unexpected weights, for code that judges them itself.

    The bar that counts the weights is hidden, too. One thread is in such a block at a time.
    """
    with _LOADING, _hidden_reports():
        yield


@contextmanager
def _hidden_reports() -> Iterator[None]:
    logger = logging.getLogger("transformers.modeling_utils")
    had_bars, had_hub_bars = is_progress_bar_enabled(), not are_progress_bars_disabled()
    logger.addFilter(_is_no_report)
    if had_bars:
        disable_progress_bar()
    try:
        yield
    finally:
        logger.removeFilter(_is_no_report)
        if had_bars:
            enable_progress_bar()
            if not had_hub_bars:
                disable_progress_bars()


def _is_no_report(record: logging.LogRecord) -> bool:
    return "LOAD REPORT" not in record.getMessage()


def first_of(names: Collection[str]) -> str:
    """Return the first of some names in alphabetical order, and how many more there are."""
    first = ", ".join(sorted(names)[:4])
    return f"{first} and {len(names) - 4} more" if len(names) > 4 else first


def move_to_device(model: PreTrainedModel, device: str) -> None:
    """Move a model to a device.

    Args:
        model: The model.
        device: The name that torch has for the device, such as `"cuda"`.

    Raises:
        ElmoError: If there is no such device.
    """
    try:
        torch.nn.Module.to(model, torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise ElmoError(f"There is no device {device!r} ({one_line(error)}): choose another.") from error


__all__ = ["first_of", "load", "move_to_device", "quiet_loading"]
