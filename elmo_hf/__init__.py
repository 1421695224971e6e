"""ELMo as a first-class Hugging Face Transformers model.

`import elmo_hf` registers ELMo with Transformers: `AutoModel.from_pretrained` then loads it as any other model.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bundled import ELMO_SMALL_EN
from .errors import ElmoError


if TYPE_CHECKING:
    from .model import (
        ElmoConfig,
        ElmoForCoreferenceResolution,
        ElmoForMaskedLM,
        ElmoForMultipleChoice,
        ElmoForPreTraining,
        ElmoForQuestionAnswering,
        ElmoForSequenceClassification,
        ElmoForTokenClassification,
        ElmoInt8Config,
        ElmoModel,
        ElmoPreTrainedModel,
        ElmoTokenizer,
    )


__version__ = "0.1.0"

__all__ = [
    "ELMO_SMALL_EN",
    "ElmoConfig",
    "ElmoError",
    "ElmoForCoreferenceResolution",
    "ElmoForMaskedLM",
    "ElmoForMultipleChoice",
    "ElmoForPreTraining",
    "ElmoForQuestionAnswering",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoInt8Config",
    "ElmoModel",
    "ElmoPreTrainedModel",
    "ElmoTokenizer",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# hidden from type checkers, which would take every name for an attribute of this module
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the models when one of their names is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import model

        return getattr(model, name)


# Importing `elmo_hf.model` registers ELMo. It also imports torch and Transformers, which takes seconds and which
# `elmo-hf --help` does without: in the console script, the command that runs imports what it needs.
if Path(next(iter(sys.argv), "")).name.removesuffix(".exe") != "elmo-hf":
    from . import model as model
