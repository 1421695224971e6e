"""Transformers' common model tests, on a model that reads characters and on one that reads words."""

import unittest

import torch
from transformers.models.auto import modeling_auto
from transformers.testing_utils import torch_device
from transformers_tests.test_configuration_common import ConfigTester
from transformers_tests.test_modeling_common import ModelTesterMixin

from elmo_hf import (
    ElmoConfig,
    ElmoForCoreferenceResolution,
    ElmoForMaskedLM,
    ElmoForMultipleChoice,
    ElmoForPreTraining,
    ElmoForQuestionAnswering,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
)


# the mixin looks up here which labels a class wants, and tests no training of a class that is not listed
modeling_auto.MODEL_MAPPING_NAMES["elmo"] = "ElmoModel"
modeling_auto.MODEL_FOR_PRETRAINING_MAPPING_NAMES["elmo"] = "ElmoForPreTraining"
modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES["elmo"] = "ElmoForMaskedLM"
modeling_auto.MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES["elmo"] = "ElmoForMultipleChoice"
modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES["elmo"] = "ElmoForQuestionAnswering"
modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES["elmo"] = "ElmoForSequenceClassification"
modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES["elmo"] = "ElmoForTokenClassification"


class ElmoModelTester:
    """Makes the tiny configuration and the inputs that the mixin asks for."""

    # read by the mixin
    is_training = True
    batch_size = 5
    seq_length = 7
    hidden_size = 16
    num_hidden_layers = 2
    num_labels = 3
    num_choices = 4
    vocab_size = 41
    max_characters_per_token = 10

    def __init__(
        self,
        parent: unittest.TestCase,
        *,
        char_embedding_dim: int = 4,
        word_embedding_dim: int = 0,
        head: str | None = None,
        **own: object,
    ) -> None:
        self.parent = parent
        self.char_embedding_dim = char_embedding_dim
        self.word_embedding_dim = word_embedding_dim
        self.head = head
        # words and characters of the task
        self.own = own

    def get_config(self) -> ElmoConfig:
        """Return a new configuration."""
        return ElmoConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=12,
            num_hidden_layers=self.num_hidden_layers,
            char_embedding_dim=self.char_embedding_dim,
            word_embedding_dim=self.word_embedding_dim,
            max_characters_per_token=self.max_characters_per_token,
            char_filters=[[1, 4], [2, 6]] if self.char_embedding_dim else [],
            num_highway_layers=1 if self.char_embedding_dim else 0,
            num_labels=self.num_labels,
            head=self.head,
            head_hidden_size=6,
            # the mixin wants a gradient of every parameter
            freeze_bilm=False,
            **self.own,
        )

    def prepare_config_and_inputs_for_common(self) -> tuple[ElmoConfig, dict[str, torch.Tensor]]:
        """Return a configuration and a batch whose second row is padded."""
        generator = torch.Generator().manual_seed(0)
        attention_mask = torch.ones(self.batch_size, self.seq_length, dtype=torch.long)
        attention_mask[1, -2:] = 0
        input_ids = torch.randint(1, self.vocab_size, (self.batch_size, self.seq_length), generator=generator)
        inputs = {"input_ids": input_ids * attention_mask, "attention_mask": attention_mask}
        if self.char_embedding_dim:
            size = (self.batch_size, self.seq_length, self.max_characters_per_token)
            inputs["char_ids"] = torch.randint(1, 262, size, generator=generator) * attention_mask[..., None]
        if self.own:
            inputs["task_word_ids"] = input_ids % 9 + attention_mask
            inputs["task_word_ids"] *= attention_mask
        if self.head == "alternating-lstm":
            inputs["token_type_ids"] = input_ids % 2 * attention_mask
        return self.get_config(), {name: ids.to(torch_device) for name, ids in inputs.items()}


def with_labels(inputs: dict[str, torch.Tensor], model_class: type) -> dict[str, torch.Tensor]:
    """Add the labels that the mixin leaves to each model's own tests."""
    if model_class is ElmoForCoreferenceResolution:
        labels = torch.tensor([[0, 0, 0], [1, 2, 0], [4, 4, 0]], device=torch_device)
        return {**inputs, "labels": labels.expand(len(inputs["input_ids"]), -1, -1)}
    if model_class not in (ElmoForPreTraining, ElmoForMaskedLM):
        return inputs
    return {**inputs, "labels": inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)}


def as_pairs(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Put boundary tokens around a question of a word and a context, and nowhere else."""
    input_ids = inputs["input_ids"]
    input_ids = input_ids.masked_fill((input_ids == 1) | (input_ids == 2), 3)
    input_ids[:, [0, 3]], input_ids[:, 2] = 1, 2
    return {**inputs, "input_ids": input_ids}


class ElmoTesterMixin(ModelTesterMixin):
    """Makes the batch of each class from that of the tester."""

    def _prepare_for_class(self, inputs_dict: dict, model_class: type, return_labels: bool = False) -> dict:
        if model_class is ElmoForMultipleChoice and "char_ids" in inputs_dict:
            # the mixin repeats `[B, n]` for each choice
            inputs_dict = {**inputs_dict, "char_ids": inputs_dict["char_ids"].flatten(1)}
        if model_class is ElmoForQuestionAnswering:
            inputs_dict = as_pairs(inputs_dict)
        if model_class is ElmoForCoreferenceResolution:
            # documents of one sentence, without padding in which a marked word could be
            inputs_dict = {
                name: part.unsqueeze(1) if isinstance(part, torch.Tensor) else part
                for name, part in inputs_dict.items()
            }
        inputs = super()._prepare_for_class(inputs_dict, model_class, return_labels)
        return with_labels(inputs, model_class) if return_labels else inputs

    @unittest.skip("`get_input_embeddings` is a table of characters or words, `inputs_embeds` the whole token layer")
    def test_inputs_embeds(self) -> None: ...

    @unittest.skip("as test_inputs_embeds")
    def test_inputs_embeds_matches_input_ids(self) -> None: ...


class ElmoModelTest(ElmoTesterMixin, unittest.TestCase):
    """A model that reads characters, as every released English one does."""

    all_model_classes = (
        ElmoModel,
        ElmoForPreTraining,
        ElmoForMaskedLM,
        ElmoForTokenClassification,
        ElmoForSequenceClassification,
        ElmoForMultipleChoice,
        ElmoForQuestionAnswering,
    )
    has_attentions = False
    # `get_input_embeddings` is the table of characters, whose size is that of a byte and some markers
    test_resize_embeddings = False

    def setUp(self) -> None:
        self.model_tester = ElmoModelTester(self)
        self.config_tester = ConfigTester(
            self, config_class=ElmoConfig, hidden_size=16, common_properties=["hidden_size", "num_hidden_layers"]
        )

    def test_config(self) -> None:
        self.config_tester.run_common_tests()

    @unittest.skip("a model that reads characters has no table of words that could be tied")
    def test_tied_weights_keys(self) -> None: ...

    @unittest.skip("the size of the vocabulary changes no weight of a model that reads characters")
    def test_load_with_mismatched_shapes(self) -> None: ...


class ElmoWordModelTest(ElmoTesterMixin, unittest.TestCase):
    """A model that reads word ids only, whose vocabulary can be resized."""

    all_model_classes = (
        ElmoModel,
        ElmoForPreTraining,
        ElmoForMaskedLM,
        ElmoForTokenClassification,
        ElmoForSequenceClassification,
        ElmoForMultipleChoice,
        ElmoForQuestionAnswering,
    )
    has_attentions = False

    def setUp(self) -> None:
        self.model_tester = ElmoModelTester(self, char_embedding_dim=0, word_embedding_dim=8)


class ElmoTaggingHeadTest(ElmoModelTest):
    """The paper's named entity recogniser."""

    all_model_classes = (ElmoForTokenClassification,)

    def setUp(self) -> None:
        super().setUp()
        self.model_tester = ElmoModelTester(self, head="bilstm-crf")


class ElmoRoleHeadTest(ElmoModelTest):
    """The paper's model of semantic roles."""

    all_model_classes = (ElmoForTokenClassification,)

    def setUp(self) -> None:
        super().setUp()
        self.model_tester = ElmoModelTester(self, head="alternating-lstm")


class ElmoAnswerHeadTest(ElmoModelTest):
    """The paper's model of SQuAD."""

    all_model_classes = (ElmoForQuestionAnswering,)

    def setUp(self) -> None:
        super().setUp()
        self.model_tester = ElmoModelTester(self, head="bidaf")


class ElmoSentenceHeadTest(ElmoModelTest):
    """The paper's model of SST-5."""

    all_model_classes = (ElmoForSequenceClassification,)

    def setUp(self) -> None:
        super().setUp()
        self.model_tester = ElmoModelTester(self, head="bcn")


class ElmoTaskWordsTest(ElmoModelTest):
    """Task models that read words and characters of their own beside ELMo."""

    all_model_classes = (
        ElmoForTokenClassification,
        ElmoForSequenceClassification,
        ElmoForMultipleChoice,
        ElmoForQuestionAnswering,
    )

    def setUp(self) -> None:
        super().setUp()
        self.model_tester = ElmoModelTester(
            self,
            num_task_words=12,
            task_word_embedding_dim=5,
            train_task_words=True,
            task_char_embedding_dim=3,
            task_char_filters=[[3, 4]],
        )


class ElmoTaskWordsHeadTest(ElmoTaskWordsTest):
    """The paper's named entity recogniser as a whole: words, characters and ELMo."""

    all_model_classes = (ElmoForTokenClassification,)

    def setUp(self) -> None:
        super().setUp()
        self.model_tester.head = "bilstm-crf"


class ElmoCoreferenceTest(ElmoModelTest):
    """The paper's model of coreference, of which a document is one sentence here."""

    all_model_classes = (ElmoForCoreferenceResolution,)
