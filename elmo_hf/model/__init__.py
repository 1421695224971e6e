"""The Hub files: configuration, tokenizer, model, and the modules that they are made of.

Saving a model copies these files beside its weights, so that Transformers loads it where this package is not
installed. They are flat, import each other as `from .name_elmo import ...`, and otherwise import only what every
reader of a checkpoint has. Other rooms may import any of them.

Importing this package, or any module in it, registers ELMo with Transformers' Auto classes.
"""

from importlib import import_module

import transformers

from elmo_hf.int8 import ElmoInt8Config

from .configuration_elmo import ElmoConfig
from .modeling_elmo import (
    AUTO_MAP,
    ElmoForCoreferenceResolution,
    ElmoForMaskedLM,
    ElmoForMultipleChoice,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoPreTrainedModel,
)
from .tokenization_elmo import ElmoTokenizer


def register_auto_classes() -> dict[str, type[ElmoPreTrainedModel]]:
    """Register every class of `AUTO_MAP`, and the tokenizer, with Transformers.

    `register` lets the Auto classes find them here. `register_for_auto_class` lets `save_pretrained` copy their code
    beside the weights, for readers without this package.

    Returns:
        The model classes by name.
    """
    models = {}
    for auto_name, reference in AUTO_MAP.items():
        module, name = reference.split(".")
        elmo_class = getattr(import_module(f".{module}", __name__), name)
        if not hasattr(transformers, auto_name):
            # of a task that has no Auto class: the code is saved all the same
            elmo_class._auto_class = auto_name
            models[name] = elmo_class
            continue
        elmo_class.register_for_auto_class(auto_name)
        if elmo_class is ElmoConfig:
            transformers.AutoConfig.register(ElmoConfig.model_type, ElmoConfig, exist_ok=True)
        else:
            getattr(transformers, auto_name).register(ElmoConfig, elmo_class, exist_ok=True)
            models[name] = elmo_class
    transformers.AutoTokenizer.register(ElmoConfig, fast_tokenizer_class=ElmoTokenizer, exist_ok=True)
    ElmoTokenizer.register_for_auto_class()
    return models


MODEL_CLASSES = register_auto_classes()

__all__ = [
    "MODEL_CLASSES",
    "ElmoConfig",
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
