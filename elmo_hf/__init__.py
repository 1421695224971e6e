"""ELMo as a first-class Hugging Face Transformers model."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from .bundled import ELMO_TINY_EN
from .errors import ElmoError
from .int8 import ElmoInt8Config
from .model.configuration_elmo import ElmoConfig
from .model.modeling_elmo import (
    ElmoForMaskedLM,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoPreTrainedModel,
)
from .model.tokenization_elmo import ElmoTokenizer


__version__ = "0.1.0"

# `AutoModel.from_pretrained` finds the classes here ...
AutoConfig.register(ElmoConfig.model_type, ElmoConfig, exist_ok=True)
AutoTokenizer.register(ElmoConfig, fast_tokenizer_class=ElmoTokenizer, exist_ok=True)
AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
AutoModelForPreTraining.register(ElmoConfig, ElmoForPreTraining, exist_ok=True)
AutoModelForMaskedLM.register(ElmoConfig, ElmoForMaskedLM, exist_ok=True)
AutoModelForSequenceClassification.register(ElmoConfig, ElmoForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)

# ... and what is saved from here carries its code to where this package is not installed
ElmoConfig.register_for_auto_class()
ElmoTokenizer.register_for_auto_class()
ElmoModel.register_for_auto_class("AutoModel")
ElmoForPreTraining.register_for_auto_class("AutoModelForPreTraining")
ElmoForMaskedLM.register_for_auto_class("AutoModelForMaskedLM")
ElmoForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
ElmoForTokenClassification.register_for_auto_class("AutoModelForTokenClassification")

__all__ = [
    "ELMO_TINY_EN",
    "ElmoConfig",
    "ElmoError",
    "ElmoForMaskedLM",
    "ElmoForPreTraining",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoInt8Config",
    "ElmoModel",
    "ElmoPreTrainedModel",
    "ElmoTokenizer",
]
