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
"""ELMo tokenizer: a word is a token, with its id in the language model's vocabulary and its characters.

Shape notation: `B` sentences, `T` words with the boundary words `<S>` and `</S>`, `C` characters a word.
"""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from transformers.tokenization_utils_base import BatchEncoding, TruncationStrategy
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast
from transformers.utils.generic import PaddingStrategy, TensorType, to_numpy, to_py_obj

from .arrays_elmo import depth, framework_of, from_numpy, one_mapping, stack
from .backend_elmo import (
    BOS,
    EOS,
    PAD,
    PATTERNS,
    UNK,
    Example,
    Sentence,
    check_words,
    for_rust,
    make_backend,
    make_pre_tokenizer,
    name_of,
    read_examples,
    with_model,
    word_model,
)
from .characters_elmo import BYTES, CharacterDictionary, Spelling, number_characters
from .word_batches_elmo import ElmoBatchEncoding, cut_words, frame_of, given_words, lay_out


VOCAB_FILES_NAMES = {"tokenizer_file": "tokenizer.json", "char_vocab_file": "char_vocab.json"}

# the boundary words and the unknown word, by how words are spelled: in bytes, by dictionary
SPECIAL_WORDS = {"bytes": (BOS, EOS, UNK), "dictionary": ("<bos>", "<eos>", "<oov>")}


class ElmoTokenizer(PreTrainedTokenizerFast):
    """Turn sentences into word ids and character ids.

    `tokenizer(texts)` cuts raw text into words, with offsets; `tokenizer(sentences, is_split_into_words=True)` takes
    sentences of words, one token a word, whatever it holds. Both return `input_ids` `[B, T]`, `attention_mask`
    `[B, T]` and `char_ids` `[B, T, C]`, and every sentence begins with `<S>` and ends with `</S>`. `char_ids` are the
    word's UTF-8 bytes, framed as `characters_elmo` says, and zero at padding.

    With `char_vocab`, as models of ELMoForManyLangs need it, `char_ids` are code points by that dictionary; the
    boundary words are `<bos>` and `<eos>`, and a word longer than `C - 2` is looked up in the vocabulary as it is cut.

    Args:
        vocab: Lines of the language model's vocabulary file: a word's id is its line, counted from 1, and 0 is
            padding. A word on several lines has the id of the last, as in bilm-tf. `<S>`, `</S>` and `<UNK>` are
            appended if missing. Without a vocabulary every word's id is that of `<UNK>`.
        max_characters_per_token: `C`; a word has room for two bytes, or code points, less.
        pre_tokenizer: How raw text becomes words: `moses`, or `whitespace` for text that is tokenised already.
        char_vocab: The characters of the model's dictionary in order, or the number of each, counted from 0 as in
            `char.dic`; ids are one more. With `<bow>`, `<eow>`, `<pad>`, `<oov>`, `<bos>` and `<eos>`. Without it,
            words are spelled in bytes.
        char_vocab_file: The same, as `save_pretrained` writes it beside tokenizer.json.
        spelling: `bytes` or `dictionary`, as a saved tokenizer says it; by default whether there is a `char_vocab`.
        bos_token: Word that begins a sentence; `<S>`, with `char_vocab` `<bos>`.
        eos_token: Word that ends a sentence; `</S>`, with `char_vocab` `<eos>`.
        unk_token: Word that stands for those outside the vocabulary; `<UNK>`, with `char_vocab` `<oov>`.
        pad_token: What padding is shown as; the same letters in a text are an ordinary word.
        mask_token: Word that stands for one to be filled in, such as `<MASK>`; by default there is none. Raw text may
            have it beside any character. Its id is its line's or, if it has none, `vocab_size`, one after the last.
        **kwargs: Options of every Transformers tokenizer, such as `padding_side` or `model_max_length`.

    Raises:
        ValueError: If an option is out of range.
        TypeError: If the vocabulary is not a sequence of words.
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
        spelling: str | None = None,
        bos_token: str | AddedToken | None = BOS,
        eos_token: str | AddedToken | None = EOS,
        unk_token: str | AddedToken | None = UNK,
        pad_token: str | AddedToken = PAD,
        mask_token: str | AddedToken | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(max_characters_per_token, bool) or not isinstance(max_characters_per_token, int):
            raise ValueError(f"max_characters_per_token is {max_characters_per_token!r}; give an int, 50 as a rule.")
        if max_characters_per_token < 3:
            raise ValueError(
                f"max_characters_per_token is {max_characters_per_token}; a word needs 3: a frame and one inside."
            )
        if not isinstance(pre_tokenizer, str) or pre_tokenizer not in PATTERNS:
            raise ValueError(f"pre_tokenizer is {pre_tokenizer!r}; it can be one of {sorted(PATTERNS)}.")
        self.max_characters_per_token = max_characters_per_token
        self.pre_tokenizer = pre_tokenizer
        if char_vocab is None and char_vocab_file is not None and spelling != "bytes":
            char_vocab = json.loads(Path(char_vocab_file).read_text(encoding="utf-8"))
        if char_vocab is None and spelling == "dictionary":
            raise ValueError(f"{kwargs.get('name_or_path')} has no char_vocab.json: save the tokenizer there.")
        # not under the name of the option, or it would be saved in tokenizer_config.json, too
        self.char_numbers = None if char_vocab is None else number_characters(char_vocab)
        self._spelling: Spelling = BYTES if self.char_numbers is None else CharacterDictionary(self.char_numbers)
        self.spelling = "bytes" if self.char_numbers is None else "dictionary"
        usual = SPECIAL_WORDS[self.spelling]
        # the defaults are those of bytes; `None` is a wish
        bos_token, eos_token, unk_token = (
            word if given == in_bytes else given
            for given, in_bytes, word in zip(
                (bos_token, eos_token, unk_token), SPECIAL_WORDS["bytes"], usual, strict=True
            )
        )
        if kwargs.get("tokenizer_object") is None and kwargs.get("tokenizer_file") is None:
            self._tokenizer = make_backend([] if vocab is None else vocab, pre_tokenizer, usual)
        if "add_bos_token" in kwargs or "add_eos_token" in kwargs:
            kwargs = {"add_bos_token": True, "add_eos_token": True, **kwargs}
        super().__init__(
            max_characters_per_token=max_characters_per_token,
            pre_tokenizer=pre_tokenizer,
            spelling=self.spelling,
            # in a file of its own
            char_vocab=None,
            char_vocab_file=None,
            bos_token=bos_token,
            eos_token=eos_token,
            unk_token=unk_token,
            pad_token=pad_token,
            mask_token=mask_token,
            **kwargs,
        )
        self._adapt_backend()

    @classmethod
    def convert_to_native_format(cls, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """Hand `tokenizer_file` to `__init__`: the parent rebuilds a backend here, and not for remote code."""
        if kwargs.get("tokenizer_file") is None:
            raise ValueError(f"{kwargs.get('name_or_path')} has no tokenizer.json: save the tokenizer there.")
        return {key: value for key, value in kwargs.items() if key != "trust_remote_code"}

    @classmethod
    def _patch_mistral_regex(cls, tokenizer: Tokenizer, *_args: Any, **_kwargs: Any) -> Tokenizer:
        """Ask the Hub nothing: the parent looks for Mistral's models behind every large vocabulary."""
        return tokenizer

    def _adapt_backend(self) -> None:
        """Make a backend that came from a file or from training one of ours."""
        backend = self.backend_tokenizer
        if isinstance(backend.model, WordLevel):
            model = word_model(backend.get_vocab(with_added_tokens=False), backend.model.unk_token)
            self._tokenizer = backend = with_model(backend, model)
        # a checkpoint keeps its own cut of that name, and a pre-tokenizer that the user made stays
        if backend.pre_tokenizer is None or name_of(backend.pre_tokenizer) not in (None, self.pre_tokenizer):
            backend.pre_tokenizer = make_pre_tokenizer(self.pre_tokenizer)
        template = json.loads(backend.post_processor.__getstate__()).get("single", [])
        words = [piece["SpecialToken"]["id"] for piece in template if "SpecialToken" in piece]
        self._add_bos_token, self._add_eos_token = self.bos_token in words, self.eos_token in words

    def words_to_char_ids(self, words: Sequence[str]) -> np.ndarray:
        """Spell words as character ids, `[n, C]` in int64 for `n` words.

        Raises:
            TypeError: If `words` is no sequence of words.
        """
        if isinstance(words, (str, bytes)):
            raise TypeError(f"words_to_char_ids takes a list of words, got {type(words).__name__} {words!r}.")
        words = list(words)
        check_words(words, "words")
        return self._spelling.words_to_char_ids(words, self.max_characters_per_token)

    def _encode_plus(  # type: ignore[override]
        self,
        text: Sentence | Sequence[Any],
        text_pair: Sentence | Sequence[Any] | None = None,
        *,
        is_split_into_words: bool = False,
        return_tensors: str | TensorType | None = None,
        return_overflowing_tokens: bool = False,
        return_char_ids: bool | None = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        """Let Rust find words, offsets, boundaries, truncation and padding; then look up ids and characters."""
        examples, is_batched = read_examples(text, text_pair, is_split_into_words)
        if return_char_ids is None:
            return_char_ids = "char_ids" in self.model_input_names
        if is_split_into_words and not return_overflowing_tokens:
            laid = self._lay_words(examples, is_batched, return_char_ids, return_tensors, kwargs)
            if laid is not None:
                return laid
        encoded = super(ElmoTokenizer, self._view(is_split_into_words))._encode_plus(
            # an empty batch goes through as one empty text, which is then left out
            [for_rust(example) for example in examples] or [""],
            is_split_into_words=is_split_into_words,
            return_tensors=None,
            return_overflowing_tokens=return_overflowing_tokens,
            **kwargs,
        )
        data, encodings = dict(encoded), encoded.encodings
        if encodings is None:
            return encoded
        if not examples:
            data, encodings = {key: np.zeros((0, 0), dtype=np.int64) if return_tensors else [] for key in data}, []
        sources = data.get("overflow_to_sample_mapping", range(len(examples)))
        read = given_words if is_split_into_words else cut_words
        words = [read(encoding, examples[source]) for encoding, source in zip(encodings, sources, strict=True)]
        if is_split_into_words and "offset_mapping" in data:
            data["offset_mapping"] = [
                [(0, 0) if word == "" else span for word, span in zip(*row, strict=True)]
                for row in zip(words, data["offset_mapping"], strict=True)
            ]
        data.update(self._look_up(words, return_char_ids=return_char_ids, return_tensors=return_tensors))
        if return_tensors is None and not is_batched and not return_overflowing_tokens:
            data = {key: value[0] if isinstance(value[0], list) else value for key, value in data.items()}
        batch = ElmoBatchEncoding(from_numpy(data, return_tensors), encodings, tensor_type=return_tensors)
        pad_token = self.pad_token
        batch.words = [[pad_token if word is None else word for word in row] for row in words]
        return batch

    def _lay_words(
        self,
        examples: list[Example],
        is_batched: bool,
        return_char_ids: bool,
        return_tensors: str | TensorType | None,
        options: dict[str, Any],
    ) -> ElmoBatchEncoding | None:
        """Do without Rust where it is known what it finds, and until it is asked for it; else return `None`."""
        frame, side = frame_of(self.backend_tokenizer, options), options.get("padding_side")
        if frame is None or "token_type_ids" in self.model_input_names or max(map(len, examples), default=2) > 1:
            return None
        rows = [[*frame[0], *words, *frame[1]] for (words,) in examples]
        padding = options.get("padding_strategy", PaddingStrategy.DO_NOT_PAD)
        is_even = padding == PaddingStrategy.LONGEST or len({len(row) for row in rows}) == 1
        if max(map(len, rows)) > self.model_max_length or not (is_even or return_tensors is None):
            return None
        view, begin, end = self._view(True), len(frame[0]), len(frame[1])
        # not on first use, because what is set on this tokenizer may change until then
        view.set_truncation_and_padding(padding, TruncationStrategy.DO_NOT_TRUNCATE, 0, 0, None, side)
        backend, marks = view.backend_tokenizer, options.get("add_special_tokens", True)
        distinct, index, cut = lay_out(rows, padded=is_even, left=(side or self.padding_side) == "left")
        tables = self._tables(distinct, return_char_ids)
        wanted = options.get("return_attention_mask")
        if wanted or (wanted is None and "attention_mask" in self.model_input_names):
            mask = np.arange(len(distinct) + 1).clip(max=1)
            tables = {"input_ids": tables.pop("input_ids"), "attention_mask": mask, **tables}
        if return_tensors is None:
            data: dict[str, Any] = {key: [table[row].tolist() for row in cut] for key, table in tables.items()}
            data = data if is_batched else {key: value[0] for key, value in data.items()}
        else:
            data = {key: table[index] for key, table in tables.items()}
        batch = ElmoBatchEncoding(from_numpy(data, return_tensors), tensor_type=return_tensors, n_sequences=1)
        names = np.array([self.pad_token, *distinct], dtype=object)
        batch.words = [names[row].tolist() for row in cut]
        batch.make_encodings = lambda: backend.encode_batch(
            [for_rust((row[begin : len(row) - end],)) for row in rows], is_pretokenized=True, add_special_tokens=marks
        )
        return batch

    def _view(self, is_split_into_words: bool) -> "ElmoTokenizer":
        """Make a tokenizer for one call, around the same vocabulary.

        Truncation and padding are settings of the Rust object, so that two threads would change each other's. A
        new one is made in a microsecond, because it shares the model.
        """
        shared, view = self.backend_tokenizer, copy.copy(self)
        view._tokenizer = backend = Tokenizer(shared.model)
        backend.post_processor = shared.post_processor
        if not is_split_into_words:
            backend.normalizer, backend.pre_tokenizer = shared.normalizer, shared.pre_tokenizer
            # ours the pre-tokenizer finds where they stand alone
            added = sorted(shared.get_added_tokens_decoder().items())
            backend.add_tokens([token for _, token in added if token.content not in (PAD, BOS, EOS, UNK)])
        return view

    def _look_up(
        self, words: list[list[str | None]], *, return_char_ids: bool, return_tensors: str | TensorType | None
    ) -> dict[str, Any]:
        """Find the ids and the characters of each word, each distinct word once; `None` is padding."""
        numbers: dict[str | None, int] = {None: 0}
        rows = [[numbers.setdefault(word, len(numbers)) for word in row] for row in words]
        distinct = [word for word in numbers if word is not None]
        tables = self._tables(distinct, return_char_ids)
        if return_tensors is None:
            return {key: [table[row].tolist() for row in rows] for key, table in tables.items()}
        # [B, T], an array of arrays where sentences have several lengths
        index = stack([np.array(row, dtype=np.int64) for row in rows])
        if index.dtype == object:
            return {key: stack([table[row] for row in index]) for key, table in tables.items()}
        # [B, T], [B, T, C]
        return {key: table[index] for key, table in tables.items()}

    def _tables(self, words: Sequence[str], return_char_ids: bool) -> dict[str, np.ndarray]:
        """Find the ids `[n + 1]` and characters `[n + 1, C]` of `n` words; the first row is that of padding."""
        tables = {"input_ids": np.array([self.pad_token_id or 0, *self._word_ids(words)], dtype=np.int64)}
        if return_char_ids:
            spelled = self._spelling.words_to_char_ids(words, self.max_characters_per_token)
            tables["char_ids"] = np.concatenate([np.zeros_like(spelled, shape=(1, spelled.shape[1])), spelled])
        return tables

    def _word_ids(self, words: Iterable[str]) -> Iterator[int]:
        unknown, find = self.unk_token_id, self.backend_tokenizer.token_to_id
        if self.char_numbers is not None:
            room, boundaries = self.max_characters_per_token - 2, self._spelling.boundaries
            words = (word if word in boundaries else word[:room] for word in words)
        for word in words:
            try:
                # a word that is spelled like padding is none
                found = None if word == PAD else find(word)
            except UnicodeEncodeError:
                # a lone surrogate is in no vocabulary
                found = None
            yield unknown if found is None else found

    def tokenize(
        self, text: str, pair: str | None = None, add_special_tokens: bool = False, **kwargs: Any
    ) -> list[str]:
        """Cut a text into its words, as they are spelled in it."""
        options = {"return_char_ids": False, **kwargs}
        return self._encode_plus(text, pair, add_special_tokens=add_special_tokens, **options).tokens()

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
        """Pad one encoded sentence or a batch of them, the characters too.

        Args:
            encoded_inputs: What the tokenizer returned: lists, arrays or tensors, in one mapping or one a sentence.
            padding: `True` or `longest`, `max_length`, or `False`.
            max_length: The length for `max_length`.
            pad_to_multiple_of: Round the length up to a multiple of this.
            padding_side: `left` or `right`; by default the tokenizer's own.
            return_attention_mask: Whether to return the mask; by default, yes.
            return_tensors: `pt` or `np`; by default what the inputs are.
            verbose: Whether to log warnings.

        Returns:
            The batch; its `char_ids` are `[B, T, C]`, zero at padding.

        Raises:
            ValueError: If `char_ids` do not fit `input_ids`, or have another width than this tokenizer's.
        """
        inputs = one_mapping(encoded_inputs)
        return_tensors = return_tensors or framework_of(inputs.get("input_ids"))
        char_ids = inputs.pop("char_ids", None)
        inputs = {key: to_py_obj(value) for key, value in inputs.items()}
        given = inputs.get("input_ids")
        # lists of its own, because the parent writes into what it is given
        data = dict(
            super().pad(
                dict(inputs),
                padding=padding,
                max_length=max_length,
                pad_to_multiple_of=pad_to_multiple_of,
                padding_side=padding_side,
                return_attention_mask=return_attention_mask,
                verbose=verbose,
            )
        )
        if char_ids is not None:
            is_batched = not given or isinstance(given[0], (list, tuple))
            laid = self._pad_characters(
                char_ids if is_batched else [char_ids],
                given if is_batched else [given],
                data["input_ids"] if is_batched else [data["input_ids"]],
                left=(padding_side or self.padding_side) == "left",
            )
            characters = stack(laid, self.max_characters_per_token) if is_batched else laid[0]
            data["char_ids"] = characters if return_tensors else [row.tolist() for row in characters]
        return BatchEncoding(from_numpy(data, return_tensors), tensor_type=return_tensors)

    def _pad_characters(self, char_ids: Sequence[Any], given: Any, padded: Any, *, left: bool) -> list[np.ndarray]:
        """Lay each sentence's characters, `[T, C]`, into zeros `[padded T, C]`."""
        if len(char_ids) != len(given):
            raise ValueError(f"char_ids are of {len(char_ids)} sentences, input_ids of {len(given)}.")
        laid = [np.zeros((len(row), self.max_characters_per_token), dtype=np.int64) for row in padded]
        for number, (characters, row) in enumerate(zip(char_ids, given, strict=True)):
            length = len(row)
            # an empty list knows no width
            if length == 0 and len(characters) == 0:
                continue
            spelled = np.asarray(to_numpy(characters))
            if spelled.shape != (length, self.max_characters_per_token):
                raise ValueError(
                    f"char_ids of sentence {number} are {list(spelled.shape)}; its {length} input_ids and this "
                    f"tokenizer's max_characters_per_token need {[length, self.max_characters_per_token]}."
                )
            start = len(laid[number]) - length if left else 0
            laid[number][start : start + length] = spelled
        return laid

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str | list[str]:
        """Turn ids back into words, joined by spaces.

        Args:
            token_ids: Word ids, `[T]` or `[B, T]`, or character ids, `[T, C]` or `[B, T, C]`: lists, arrays, tensors.
            skip_special_tokens: Leave out boundaries and padding, and of word ids `<UNK>` and the mask.
            **kwargs: As in the parent.

        Returns:
            The text, or a list of texts for a batch. A character that was cut at `C`, or that the dictionary lacks,
            shows as U+FFFD.

        Raises:
            ValueError: If ids with three axes are no character ids.
        """
        axes = depth(token_ids)
        if axes == 3:
            return [self._decode_characters(np.asarray(to_numpy(row)), skip_special_tokens) for row in token_ids]
        if axes == 2 and all(len(row) == self.max_characters_per_token for row in token_ids):
            characters = np.asarray(to_numpy(token_ids))
            if self._spelling.are_char_ids(characters):
                return self._decode_characters(characters, skip_special_tokens)
        return super().decode(token_ids, skip_special_tokens=skip_special_tokens, **kwargs)

    def _decode_characters(self, char_ids: np.ndarray, skip_special_tokens: bool) -> str:
        if char_ids.any() and not self._spelling.are_char_ids(char_ids):
            raise ValueError(f"Ids {list(char_ids.shape)} in a batch are no character ids: a row is not framed.")
        words = self._spelling.char_ids_to_words(char_ids) if char_ids.size else []
        if skip_special_tokens:
            return " ".join(word for word in words if word is not None and word not in self._spelling.boundaries)
        return " ".join(self.pad_token if word is None else word for word in words)

    def _save_pretrained(
        self,
        save_directory: str | PathLike[str],
        file_names: tuple[str, ...],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
    ) -> tuple[str, ...]:
        """Save the dictionary of characters, too."""
        names = super()._save_pretrained(save_directory, file_names, legacy_format, filename_prefix)
        if self.char_numbers is None:
            return names
        path = Path(save_directory) / "-".join(filter(None, [filename_prefix, VOCAB_FILES_NAMES["char_vocab_file"]]))
        path.write_text(json.dumps(self.char_numbers, indent=0) + "\n", encoding="utf-8")
        return (*names, str(path))

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        """Write the vocabulary as bilm-tf reads it, a word a line, without added words, to `vocab.txt`."""
        words = sorted(self.backend_tokenizer.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1])
        path = Path(save_directory) / "-".join(filter(None, [filename_prefix, "vocab.txt"]))
        # id 0 is padding, which is no line
        path.write_text("".join(f"{word}\n" for word, _ in words[1:]), encoding="utf-8")
        return (str(path),)

    def train_new_from_iterator(
        self, text_iterator: Iterable[Any], vocab_size: int, *args: Any, **kwargs: Any
    ) -> "ElmoTokenizer":
        """Make a tokenizer like this one with the most frequent words of a corpus as its vocabulary.

        Args:
            text_iterator: Texts, or batches of texts; this tokenizer's pre-tokenizer cuts them.
            vocab_size: Words of the vocabulary, padding, `<S>`, `</S>` and `<UNK>` included.
            *args: As in the parent.
            **kwargs: As in the parent.
        """
        backend, view = self.backend_tokenizer, copy.copy(self)
        # WordPiece would be trained on parts of words
        words = WordLevel(backend.get_vocab(with_added_tokens=False), backend.model.unk_token)
        view._tokenizer = with_model(backend, words)
        view.init_kwargs = {**self.init_kwargs, "char_vocab": self.char_numbers}
        return super(ElmoTokenizer, view).train_new_from_iterator(text_iterator, vocab_size, *args, **kwargs)


__all__ = ["ElmoBatchEncoding", "ElmoTokenizer"]
