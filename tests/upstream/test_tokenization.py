"""Transformers' common tokenizer tests, those of tokenizers with a Rust backend included."""

import tempfile
import unittest

from transformers_tests.test_tokenization_common import TokenizerTesterMixin
from transformers_tests.test_tokenizers_backend_mixin import TokenizersBackendTesterMixin

from elmo_hf import ElmoTokenizer


VOCABULARY = ["<S>", "</S>", "<UNK>", "the", ".", ",", "this", "is", "a", "test", "This", "Hello", "world", "sequence"]


class ElmoTokenizationTest(TokenizerTesterMixin, unittest.TestCase):
    """The tests that every tokenizer passes."""

    tokenizer_class = ElmoTokenizer
    task_vocab: tuple[str, ...] | None = None

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        ElmoTokenizer(vocab=VOCABULARY, task_vocab=cls.task_vocab).save_pretrained(folder.name)
        cls.from_pretrained_id = folder.name
        super().setUpClass()

    @unittest.skip("it wants every output to be (sentences, words), and `char_ids` is (sentences, words, characters)")
    def test_batch_encode_dynamic_overflowing(self) -> None:
        pass


class ElmoTaskTokenizationTest(ElmoTokenizationTest):
    """The same tests of a tokenizer with a vocabulary of a task."""

    task_vocab = ("this", "test")


class ElmoTokenizersBackendTest(TokenizersBackendTesterMixin, unittest.TestCase):
    """The tests of offsets, alignment and training, which need a Rust backend."""

    tokenizer_class = ElmoTokenizer

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        ElmoTokenizer(vocab=VOCABULARY).save_pretrained(folder.name)
        cls.from_pretrained_id = folder.name
        super().setUpClass()
