# Copyright 2026 The elmo_hf authors. All rights reserved.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""ELMo tokenizer: a token is a word, with its id in the language model's vocabulary and its characters.

Shape notation: `B` sentences, `T` words with the boundary tokens `<S>` and `</S>`, `C` characters a word.
"""

import copy
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from transformers.tokenization_utils_base import BatchEncoding, TruncationStrategy
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast
from transformers.utils.generic import PaddingStrategy, TensorType, to_numpy, to_py_obj

from .batch_encoding_elmo import (
    ElmoBatchEncoding,
    OutputOptions,
    WordIndex,
    make_batch,
    pad_values,
    restore_empty_words,
    stack,
    to_tensors,
    words_of_encoding,
)
from .characters_elmo import BYTES, DictionarySpelling, Spelling, number_characters
from .configuration_elmo import find_model
from .pre_tokenizers_elmo import PATTERNS, make_pre_tokenizer, name_of_pre_tokenizer
from .task_vocab_elmo import TaskVocab
from .tokenizer_backend_elmo import (
    BOS,
    EOS,
    PAD,
    UNK,
    BackendPool,
    copy_for_words,
    copy_with_model,
    look_up_words,
    make_backend,
    make_word_model,
    refuse_normalizer,
    truncating,
)
from .tokenizer_inputs_elmo import (
    Example,
    Sentence,
    as_mapping,
    check_words,
    count_axes,
    framework_of,
    prepare_for_rust,
    read_examples,
)
from .word_encoder_elmo import WordEncoder


VOCAB_FILES_NAMES = {
    "tokenizer_file": "tokenizer.json",
    "char_vocab_file": "char_vocab.json",
    "task_vocab_file": "task_vocab.json",
}

# the default boundary tokens and unknown token of each spelling
SPECIAL_TOKENS = {"bytes": (BOS, EOS, UNK), "dictionary": ("<bos>", "<eos>", "<oov>")}


class ElmoTokenizer(PreTrainedTokenizerFast):
    """Convert sentences to word ids and character ids.

    `tokenizer(texts)` cuts raw text into words, with offsets. `tokenizer(sentences, is_split_into_words=True)` takes
    sentences of words and makes one token of each word, whatever it contains. Both return `input_ids` `[B, T]`,
    `attention_mask` `[B, T]` and `char_ids` `[B, T, C]`, and every sentence begins with `<S>` and ends with `</S>`.
    `char_ids` are the UTF-8 bytes of a word in the layout that `characters_elmo` describes, and zero at padding.

    With `char_vocab`, which models of ELMoForManyLangs need, `char_ids` are code points by that dictionary, the
    boundary tokens are `<bos>` and `<eos>`, and the vocabulary is searched for the first `C - 2` characters of a word.

    With `task_vocab` there are also `task_word_ids` `[B, T]`, the ids of the words in a vocabulary of the task, of
    which its model has vectors beside ELMo; 0 is padding and 1 any other word, boundary tokens included.

    Args:
        vocab: Lines of the language model's vocabulary file. The id of a word is its line, counted from 1; 0 is
            padding. A word on several lines has the id of the last, as in bilm-tf. `<S>`, `</S>` and `<UNK>` are
            appended if missing. Without a vocabulary, every word has the id of `<UNK>`.
        max_characters_per_token: `C`. Of a word, its first `C - 2` bytes, or code points, are kept.
        pre_tokenizer: How raw text becomes words: `moses`, or `whitespace` for text that is already tokenized.
        char_vocab: The characters of the model's dictionary in order, or the number of each, counted from 0 as in
            `char.dic`; ids are one more. It must contain `<bow>`, `<eow>`, `<pad>`, `<oov>`, `<bos>` and `<eos>`.
            Without it, words are spelled in bytes.
        char_vocab_file: A file with `char_vocab`, which `save_pretrained` writes beside tokenizer.json.
        task_vocab: Different words, of which the ids count from 2.
        task_vocab_file: A file with `task_vocab`, which `save_pretrained` writes beside tokenizer.json.
        task_lookup: `exact`, the default with `task_vocab`, or `lower` to look up a word that is not in it in lower
            case.
        spelling: `bytes` or `dictionary`, from a saved tokenizer; by default, `dictionary` if there is a `char_vocab`.
        bos_token: Token that begins a sentence: `<S>`, or `<bos>` with `char_vocab`.
        eos_token: Token that ends a sentence: `</S>`, or `<eos>` with `char_vocab`.
        unk_token: Token for words outside the vocabulary: `<UNK>`, or `<oov>` with `char_vocab`.
        pad_token: Token that shows padding. The same letters in a text are an ordinary word.
        mask_token: Token for a word to be filled in, such as `<MASK>`; by default there is none. Raw text may contain
            it beside any character. Its id is its line in the vocabulary or else `vocab_size`, after the last line.
        **kwargs: Options of every Transformers tokenizer, such as `padding_side` or `model_max_length`.

    Raises:
        ValueError: If an option is out of range, or a word of the task occurs twice.
        TypeError: If a vocabulary is not a sequence of words.
    """

    vocab_files_names = VOCAB_FILES_NAMES
    model_input_names = ["input_ids", "attention_mask", "char_ids"]

    def __init__(
        self,
        vocab: Sequence[str] | None = None,
        max_characters_per_token: int = 50,
        pre_tokenizer: str = "moses",
        *,
        char_vocab: Sequence[str] | Mapping[str, int] | None = None,
        char_vocab_file: str | None = None,
        task_vocab: Sequence[str] | None = None,
        task_vocab_file: str | None = None,
        task_lookup: str | None = None,
        spelling: str | None = None,
        bos_token: str | AddedToken | None = BOS,
        eos_token: str | AddedToken | None = EOS,
        unk_token: str | AddedToken | None = UNK,
        pad_token: str | AddedToken = PAD,
        mask_token: str | AddedToken | None = None,
        **kwargs: Any,
    ) -> None:
        _check_options(max_characters_per_token, pre_tokenizer)
        self.max_characters_per_token = max_characters_per_token
        self.pre_tokenizer = pre_tokenizer
        if char_vocab is None and char_vocab_file is not None and spelling != "bytes":
            char_vocab = json.loads(Path(char_vocab_file).read_text(encoding="utf-8"))
        if char_vocab is None and spelling == "dictionary":
            raise ValueError(f"{kwargs.get('name_or_path')} has no char_vocab.json: save the tokenizer there.")
        if task_vocab is None and task_vocab_file is not None:
            task_vocab = json.loads(Path(task_vocab_file).read_text(encoding="utf-8"))
        if task_vocab is None and task_lookup is not None:
            raise ValueError(f"{kwargs.get('name_or_path')} has no task_vocab.json: save the tokenizer there.")
        # under the names of the options both would be saved in tokenizer_config.json, too
        self.task_words = None if task_vocab is None else TaskVocab(task_vocab, task_lookup or "exact")
        self.task_lookup = None if self.task_words is None else self.task_words.lookup
        self.char_numbers = None if char_vocab is None else number_characters(char_vocab)
        self._spelling: Spelling = BYTES if self.char_numbers is None else DictionarySpelling(self.char_numbers)
        self.spelling = "bytes" if self.char_numbers is None else "dictionary"
        special_tokens = SPECIAL_TOKENS[self.spelling]
        # the signature has the defaults of bytes; `None` is a choice of the caller
        bos_token, eos_token, unk_token = (
            default if given == in_bytes else given
            for given, in_bytes, default in zip(
                (bos_token, eos_token, unk_token), SPECIAL_TOKENS["bytes"], special_tokens, strict=True
            )
        )
        if kwargs.get("tokenizer_object") is None and kwargs.get("tokenizer_file") is None:
            self._tokenizer = make_backend([] if vocab is None else vocab, pre_tokenizer, special_tokens)
        if "add_bos_token" in kwargs or "add_eos_token" in kwargs:
            kwargs = {"add_bos_token": True, "add_eos_token": True, **kwargs}
        self._pool = BackendPool()
        if self.task_words is not None:
            kwargs.setdefault("model_input_names", [*self.model_input_names, "task_word_ids"])
        super().__init__(
            max_characters_per_token=max_characters_per_token,
            pre_tokenizer=pre_tokenizer,
            spelling=self.spelling,
            # in a file of its own
            char_vocab=None,
            char_vocab_file=None,
            task_vocab=None,
            task_vocab_file=None,
            task_lookup=self.task_lookup,
            bos_token=bos_token,
            eos_token=eos_token,
            unk_token=unk_token,
            pad_token=pad_token,
            mask_token=mask_token,
            **kwargs,
        )
        self._adapt_backend()

    # loading, saving and training

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str], *args: Any, **kwargs: Any
    ) -> "ElmoTokenizer":
        """Load as `PreTrainedTokenizerBase.from_pretrained` does, and `elmo-small-en` from the package elmo_hf."""
        return super().from_pretrained(find_model(pretrained_model_name_or_path), *args, **kwargs)

    @classmethod
    def convert_to_native_format(cls, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """Pass `tokenizer_file` on to `__init__`, because the parent rebuilds the backend, but not for remote code."""
        if kwargs.get("tokenizer_file") is None:
            raise ValueError(f"{kwargs.get('name_or_path')} has no tokenizer.json: save the tokenizer there.")
        return {key: value for key, value in kwargs.items() if key != "trust_remote_code"}

    @classmethod
    def _patch_mistral_regex(cls, tokenizer: Tokenizer, *_args: Any, **_kwargs: Any) -> Tokenizer:
        """Send no request to the Hub, where the parent checks large vocabularies for Mistral's models."""
        return tokenizer

    def _adapt_backend(self) -> None:
        """Give a backend that was loaded or trained the word model and the pre-tokenizer of this class."""
        backend = self.backend_tokenizer
        if isinstance(backend.model, WordLevel):
            model = make_word_model(backend.get_vocab(with_added_tokens=False), backend.model.unk_token)
            self._tokenizer = backend = copy_with_model(backend, model)
        # a checkpoint keeps its own version of the named one, and a pre-tokenizer that the user made stays
        if backend.pre_tokenizer is None or name_of_pre_tokenizer(backend.pre_tokenizer) not in (
            None,
            self.pre_tokenizer,
        ):
            backend.pre_tokenizer = make_pre_tokenizer(self.pre_tokenizer)
        template = json.loads(backend.post_processor.__getstate__()).get("single", [])
        tokens = [piece["SpecialToken"]["id"] for piece in template if "SpecialToken" in piece]
        self._add_bos_token, self._add_eos_token = self.bos_token in tokens, self.eos_token in tokens

    def _add_tokens(self, *args: Any, **kwargs: Any) -> int:
        self._pool.clear()
        return super()._add_tokens(*args, **kwargs)

    def _save_pretrained(
        self,
        save_directory: str | PathLike[str],
        file_names: tuple[str, ...],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
    ) -> tuple[str, ...]:
        """Save the dictionary of characters and the vocabulary of the task, too."""
        names = super()._save_pretrained(save_directory, file_names, legacy_format, filename_prefix)
        words = None if self.task_words is None else list(self.task_words.numbers)
        for kind, content in (("char_vocab_file", self.char_numbers), ("task_vocab_file", words)):
            if content is not None:
                path = Path(save_directory) / "-".join(filter(None, [filename_prefix, VOCAB_FILES_NAMES[kind]]))
                # a line for each entry; escapes keep whatever a word holds, line breaks and lone surrogates too
                path.write_text(json.dumps(content, indent=0) + "\n", encoding="utf-8")
                names = (*names, str(path))
        return names

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        """Write the vocabulary to `vocab.txt` as bilm-tf reads it: a word a line, without added tokens."""
        words = sorted(self.backend_tokenizer.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1])
        path = Path(save_directory) / "-".join(filter(None, [filename_prefix, "vocab.txt"]))
        # id 0 is padding, which has no line
        path.write_text("".join(f"{word}\n" for word, _ in words[1:]), encoding="utf-8")
        return (str(path),)

    def train_new_from_iterator(
        self, text_iterator: Iterable[Any], vocab_size: int, *args: Any, **kwargs: Any
    ) -> "ElmoTokenizer":
        """Make a tokenizer like this one whose vocabulary is the most frequent words of a corpus.

        Args:
            text_iterator: Texts, or batches of texts, which this tokenizer's pre-tokenizer cuts into words.
            vocab_size: Size of the vocabulary, with padding, `<S>`, `</S>` and `<UNK>`.
            *args: Passed on to `PreTrainedTokenizerFast.train_new_from_iterator`.
            **kwargs: Passed on, too.
        """
        backend = self.backend_tokenizer
        refuse_normalizer(backend)
        # the trainer of WordPiece would learn parts of words
        model = WordLevel(backend.get_vocab(with_added_tokens=False), backend.model.unk_token)
        view = self._with_backend(copy_with_model(backend, model))
        words = None if self.task_words is None else list(self.task_words.numbers)
        view.init_kwargs = {**self.init_kwargs, "char_vocab": self.char_numbers, "task_vocab": words}
        return super(ElmoTokenizer, view).train_new_from_iterator(text_iterator, vocab_size, *args, **kwargs)

    # encoding

    def _get_padding_truncation_strategies(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Take a `max_length` that Rust cannot count to, such as `model_max_length` by default, for no limit."""
        padding, truncation, max_length, others = super()._get_padding_truncation_strategies(*args, **kwargs)
        if max_length is not None and max_length > sys.maxsize:
            padding = PaddingStrategy.DO_NOT_PAD if padding == PaddingStrategy.MAX_LENGTH else padding
            truncation, max_length = TruncationStrategy.DO_NOT_TRUNCATE, None
        return padding, truncation, max_length, others

    def _encode_plus(  # type: ignore[override]
        self,
        text: Sentence | Sequence[Any],
        text_pair: Sentence | Sequence[Any] | None = None,
        *,
        is_split_into_words: bool = False,
        return_tensors: str | TensorType | None = None,
        return_char_ids: bool | None = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        """Encode raw text by the Rust backend, and given words in NumPy, which is faster, where it can."""
        refuse_normalizer(self.backend_tokenizer)
        examples, is_batched = read_examples(text, text_pair, is_split_into_words)
        if return_char_ids is None:
            return_char_ids = "char_ids" in self.model_input_names
        output = OutputOptions(is_batched, return_tensors, return_char_ids)
        if is_split_into_words:
            encoder = WordEncoder.for_call(self.backend_tokenizer, kwargs)
            batch = None if encoder is None else self._encode_words(encoder, examples, output)
            if batch is not None:
                return batch
        return self._encode_by_backend(examples, output, is_split_into_words=is_split_into_words, **kwargs)

    def _encode_words(
        self, encoder: WordEncoder, examples: list[Example], output: OutputOptions
    ) -> ElmoBatchEncoding | None:
        """Encode sentences of given words in NumPy; return `None` if only the backend can."""
        if "token_type_ids" in self.model_input_names or any(len(example) > 1 for example in examples):
            return None
        rows = encoder.add_boundary_tokens([sentence for (sentence,) in examples])
        # the parent warns of such a sentence
        if max(map(len, rows)) > self.model_max_length:
            return None
        options, view = encoder.options, self._with_backend(copy_for_words(self.backend_tokenizer))
        # now, because the settings of this tokenizer may change before somebody asks for the encodings
        view.set_truncation_and_padding(
            options.padding_strategy, TruncationStrategy.DO_NOT_TRUNCATE, 0, 0, None, options.padding_side
        )
        index = encoder.index_words(rows, self.padding_side)
        # the parent makes one array of the mask, or says that it cannot
        if isinstance(index.rows, list) and output.return_tensors is not None:
            return None
        return_mask = options.return_attention_mask
        if return_mask is None:
            return_mask = "attention_mask" in self.model_input_names
        tables = self._tables(index.distinct, output, return_attention_mask=return_mask)
        batch = make_batch(index, tables, output, pad_token=self.pad_token)
        batch.make_encodings = lambda: encoder.make_encodings(view.backend_tokenizer, rows)
        return batch

    def _encode_by_backend(
        self, examples: list[Example], output: OutputOptions, *, is_split_into_words: bool, **kwargs: Any
    ) -> BatchEncoding:
        """Let the Rust backend cut, truncate and pad; then look up the words as they are spelled."""
        shared = self.backend_tokenizer
        with_pairs = any(len(example) > 1 for example in examples)
        with (
            nullcontext(copy_for_words(shared)) if is_split_into_words else self._pool.borrow(shared) as backend,
            truncating(backend, kwargs, with_pairs=with_pairs),
        ):
            encoded = super(ElmoTokenizer, self._with_backend(backend))._encode_plus(
                # an empty batch is encoded as one empty text, which is then left out
                [prepare_for_rust(example) for example in examples] or [""],
                is_split_into_words=is_split_into_words,
                **kwargs,
            )
        data, encodings = dict(encoded), encoded.encodings
        if encodings is None:
            return encoded
        if not examples:
            encodings = []
            data = {key: [] if output.return_tensors is None else np.zeros((0, 0), dtype=np.int64) for key in data}
        sources = data.get("overflow_to_sample_mapping", range(len(examples)))
        words = [
            words_of_encoding(encoding, examples[source], is_split_into_words=is_split_into_words)
            for encoding, source in zip(encodings, sources, strict=True)
        ]
        if is_split_into_words and "offset_mapping" in data:
            data["offset_mapping"] = restore_empty_words(data["offset_mapping"], words)
        if kwargs.get("return_overflowing_tokens"):
            output = output._replace(is_batched=True)
        index = WordIndex.of_sentences(words)
        tables = self._tables(index.distinct, output, return_attention_mask=False)
        return make_batch(index, tables, output, pad_token=self.pad_token, data=data, encodings=encodings)

    def _with_backend(self, backend: Tokenizer) -> "ElmoTokenizer":
        """Return a tokenizer with the settings of this one and another backend."""
        view = copy.copy(self)
        view._tokenizer = backend
        return view

    def _tables(
        self, words: Sequence[str], output: OutputOptions, *, return_attention_mask: bool
    ) -> dict[str, np.ndarray]:
        """Return ids, mask, characters and the task's ids of `n` words; row 0 is that of padding.

        They are `[n + 1]`, but the characters `[n + 1, C]`.
        """
        known = self._spelling.vocabulary_words(words, self.max_characters_per_token)
        ids = look_up_words(self.backend_tokenizer, known, self.unk_token_id)
        tables = {"input_ids": np.array([self.pad_token_id or 0, *ids], dtype=np.int64)}
        if return_attention_mask:
            tables["attention_mask"] = np.arange(len(words) + 1).clip(max=1)
        if output.return_char_ids:
            # the row of the empty word makes room for that of padding
            tables["char_ids"] = self._spelling.words_to_char_ids(["", *words], self.max_characters_per_token)
            tables["char_ids"][0] = 0
        if self.task_words is not None and "task_word_ids" in self.model_input_names:
            tables["task_word_ids"] = np.array([0, *self.task_words.look_up(words)], dtype=np.int64)
        return tables

    def tokenize(
        self, text: str, pair: str | None = None, add_special_tokens: bool = False, **kwargs: Any
    ) -> list[str]:
        """Cut a text into its words, as it spells them.

        Args:
            text: The text.
            pair: A second text, whose words follow.
            add_special_tokens: Whether to add the boundary tokens.
            **kwargs: Other options of a call.
        """
        if isinstance(text, str) and pair is None and not add_special_tokens and not kwargs:
            return self._cut(text)
        options = {"return_char_ids": False, **kwargs}
        return self._encode_plus(text, pair, add_special_tokens=add_special_tokens, **options).tokens()

    def _cut(self, text: str) -> list[str]:
        """Cut a text into its words by the backend alone, which is several times faster than a call."""
        refuse_normalizer(self.backend_tokenizer)
        with self._pool.borrow(self.backend_tokenizer) as backend:
            # what an earlier call may have set
            backend.no_truncation()
            backend.no_padding()
            backend.encode_special_tokens = self.split_special_tokens
            offsets = backend.encode(prepare_for_rust((text,)), add_special_tokens=False).offsets
        return [text[start:end] for start, end in offsets]

    def words_to_char_ids(self, words: Sequence[str]) -> np.ndarray:
        """Convert words to character ids, `[n, C]` in int64 for `n` words.

        Raises:
            TypeError: If `words` is not a sequence of words.
        """
        if isinstance(words, (str, bytes)):
            raise TypeError(f"words_to_char_ids takes a list of words, got {type(words).__name__} {words!r}.")
        words = list(words)
        check_words(words, "words")
        return self._spelling.words_to_char_ids(words, self.max_characters_per_token)

    # padding

    def pad(
        self,
        encoded_inputs: Any,
        padding: bool | str | PaddingStrategy = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | TensorType | None = None,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Pad one encoded sentence or a batch of them, with their characters and the ids of the task.

        Args:
            encoded_inputs: What the tokenizer returned: lists, arrays or tensors, in one mapping or a list of one per
                sentence.
            padding: `True` or `longest`, `max_length`, or `False`.
            max_length: The length for `max_length`.
            pad_to_multiple_of: Round the length up to a multiple of this.
            padding_side: `left` or `right`; by default the tokenizer's own.
            return_attention_mask: Whether to return the mask; by default, yes.
            return_tensors: `pt` or `np`; by default the kind of the inputs.
            verbose: Whether to log warnings.

        Returns:
            The batch; its `char_ids` are `[B, T, C]`, zero at padding.

        Raises:
            ValueError: If `char_ids` or `task_word_ids` do not fit `input_ids`, or the width of the characters differs
                from this tokenizer's.
        """
        inputs = as_mapping(encoded_inputs)
        return_tensors = return_tensors or framework_of(inputs.get("input_ids"))
        # the shape of what a word has, of those keys that the parent does not know
        shapes = {"char_ids": (self.max_characters_per_token,), "task_word_ids": ()}
        others = {key: inputs.pop(key) for key in shapes if inputs.get(key) is not None}
        inputs = {key: to_py_obj(value) for key, value in inputs.items()}
        given = inputs.get("input_ids", [])
        data = dict(
            super().pad(
                # a copy, because the parent writes into what it is given
                dict(inputs),
                padding=padding,
                max_length=max_length,
                pad_to_multiple_of=pad_to_multiple_of,
                padding_side=padding_side,
                return_attention_mask=return_attention_mask,
                verbose=verbose,
            )
        )
        is_batched = not given or isinstance(given[0], (list, tuple))
        for key, values in others.items():
            padded = pad_values(
                key,
                values if is_batched else [values],
                given if is_batched else [given],
                data["input_ids"] if is_batched else [data["input_ids"]],
                shape=shapes[key],
                left=(padding_side or self.padding_side) == "left",
            )
            stacked = stack(padded, *shapes[key]) if is_batched else padded[0]
            data[key] = stacked if return_tensors else [row.tolist() for row in stacked]
        return BatchEncoding(to_tensors(data, return_tensors), tensor_type=return_tensors)

    # decoding

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str | list[str]:
        """Convert ids to words, joined by spaces.

        Args:
            token_ids: Word ids, `[T]` or `[B, T]`, or character ids, `[T, C]` or `[B, T, C]`: lists, arrays, tensors.
            skip_special_tokens: Whether to leave out boundary tokens and padding, and of word ids also `<UNK>` and
                the mask.
            **kwargs: Passed on to `PreTrainedTokenizerFast.decode` with word ids.

        Returns:
            The text, or a list of texts for a batch. U+FFFD stands for a character that was cut at `C` or that the
            dictionary lacks.

        Raises:
            ValueError: If ids with three axes are not character ids.
        """
        axes = count_axes(token_ids)
        if axes == 3:
            return [self._decode_characters(np.asarray(to_numpy(row)), skip_special_tokens) for row in token_ids]
        if axes == 2 and all(len(row) == self.max_characters_per_token for row in token_ids):
            char_ids = np.asarray(to_numpy(token_ids))
            if self._spelling.are_char_ids(char_ids):
                return self._decode_characters(char_ids, skip_special_tokens)
        return super().decode(token_ids, skip_special_tokens=skip_special_tokens, **kwargs)

    def _decode_characters(self, char_ids: np.ndarray, skip_special_tokens: bool) -> str:
        return self._spelling.decode(char_ids, self.pad_token, skip_special_tokens=skip_special_tokens)


def _check_options(max_characters_per_token: Any, pre_tokenizer: Any) -> None:
    if isinstance(max_characters_per_token, bool) or not isinstance(max_characters_per_token, int):
        raise ValueError(f"max_characters_per_token is {max_characters_per_token!r}; give an int, 50 as a rule.")
    if max_characters_per_token < 3:
        raise ValueError(
            f"max_characters_per_token is {max_characters_per_token}; a word needs 3: its begin, a byte and its end."
        )
    if not isinstance(pre_tokenizer, str) or pre_tokenizer not in PATTERNS:
        raise ValueError(f"pre_tokenizer is {pre_tokenizer!r}; it can be one of {sorted(PATTERNS)}.")


__all__ = ["ElmoBatchEncoding", "ElmoTokenizer"]
