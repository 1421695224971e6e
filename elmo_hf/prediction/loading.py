"""Load a model with a head, or say which command is for a model without one."""

from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from elmo_hf.embedding.loading import load as load_model
from elmo_hf.errors import ElmoError
from elmo_hf.hub.fetching import fetch_model
from elmo_hf.inspection import read_config

from .tasks import TASKS


CLASSES = {cls.__name__: cls for cls in TASKS}
LANGUAGE_MODELS = {"ElmoForPreTraining", "ElmoForMaskedLM"}


def load(name: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a fine-tuned model with all of its weights, and its tokenizer.

    Code that comes with the model is never run: this package has the code.

    Args:
        name: A model folder, or the name of a model on the Hub, `ORG/NAME`.

    Returns:
        The model, in evaluation mode, and the tokenizer.

    Raises:
        ElmoError: If there is no such model, a part of it is missing or damaged, or it has no head for a task.
    """
    folder = fetch_model(name)
    names = read_config(folder).architectures or []
    cls = next((CLASSES[each] for each in names if each in CLASSES), None)
    if cls is None:
        raise ElmoError(f"{name} {_lack_of_head(names)}: fine-tune it for a task first.")
    return load_model(folder, cls, remedy="save it again after training")


def _lack_of_head(names: list[str]) -> str:
    """Return why a model of these classes predicts nothing of sentences, and which commands are for it."""
    if LANGUAGE_MODELS & set(names):
        return (
            "is a language model without the head of a task (`elmo-hf fill` fills in words with it, and "
            "`elmo-hf embed` computes vectors)"
        )
    return "is a model without the head of a task (`elmo-hf embed` computes its vectors)"


__all__ = ["load"]
