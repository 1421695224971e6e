"""The part of a model card that shows how to use the model: code for its task, with words that the model knows."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from elmo_hf.data.tagged import tag_scheme
from elmo_hf.history import gives_no_answer, trainings
from elmo_hf.inspection import read_config, read_json
from elmo_hf.model.configuration_elmo import ElmoConfig

from .cards import PLACEHOLDER, code_block


# task of each class, as the Hub calls it
TASKS = {
    "ElmoForMaskedLM": "fill-mask",
    "ElmoForPreTraining": "fill-mask",
    "ElmoForTokenClassification": "token-classification",
    "ElmoForSequenceClassification": "text-classification",
    "ElmoForMultipleChoice": "multiple-choice",
    "ElmoForQuestionAnswering": "question-answering",
    "ElmoForCoreferenceResolution": "coreference-resolution",
}
VECTORS = "feature-extraction"
# the task of taggers with this head, which read a predicate
ROLES, ROLES_HEAD = "semantic-role-labeling", "alternating-lstm"
NO_ANSWER = "question-answering with no answer"
# the Hub has them as tags, and not among the tasks
ONLY_TAGS = ("coreference-resolution", ROLES)

# words of an example, and its words where nothing tells the language: names and numbers
LENGTH = 6
NEUTRAL_WORDS = ("ELMo", "2018", "NAACL", "2018", "ELMo", "2018")

# `{trust}` is the argument with which a program without the package loads the model
TRUST = ", trust_remote_code=True"

VECTORS_CODE = """\
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}"{trust})
model = AutoModel.from_pretrained("{name}"{trust})
batch = tokenizer({words}, is_split_into_words=True, return_tensors="pt")
with torch.no_grad():
    output = model(**batch, output_hidden_states=True)
vectors = output.last_hidden_state[0, 1:-1]  # one for each word
print(vectors.shape)
"""

PIPELINE_CODE = """\
from transformers import pipeline

{variable} = pipeline("{task}", "{name}"{options}{trust})
"""

FILL_CODE = """\
for guess in fill("{left} {mask} {right}"):
    if guess["token"] != fill.tokenizer.unk_token_id:
        print(guess["token_str"], guess["score"])
"""
SPANS_CODE = """\
spans = tag("{text}")
for span in spans:
    print(span["word"], span["entity_group"], span["score"])
print(len(spans), "spans found")
"""
TAGS_CODE = """\
for word in tag("{text}"):
    print(word["word"], word["entity"], word["score"])
"""
TEXT_CODE = """\
print(classify("{text}"))
"""
PAIR_CODE = """\
print(classify({{"text": "{left}", "text_pair": "{right}"}}))
"""

CHOICE_CODE = """\
import torch
from transformers import AutoModelForMultipleChoice, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}"{trust})
model = AutoModelForMultipleChoice.from_pretrained("{name}"{trust})
question, answers = "{left}", ["{right}", "{text}"]
batch = tokenizer([question] * len(answers), answers, padding=True, return_tensors="pt")
with torch.no_grad():
    # the model reads several questions: [questions, answers, words]
    scores = model(**{{name: part[None] for name, part in batch.items()}}).logits[0]
print(answers[scores.argmax()])
"""

ROLES_CODE = """\
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}"{trust})
model = AutoModelForTokenClassification.from_pretrained("{name}"{trust})
words, predicate = {words}, 1  # the number of the predicate's word, counted from 0
batch = tokenizer(words, is_split_into_words=True, return_tensors="pt")
# 1 at the predicate, which stands behind the boundary token, and 0 elsewhere
batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
batch["token_type_ids"][0, 1 + predicate] = 1
with torch.no_grad():
    tags = model(**batch).logits[0, 1:-1].argmax(dim=1)
for word, tag in zip(words, tags.tolist()):
    print(word, model.config.id2label[tag])
"""

ANSWER_CODE = """\
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}"{trust})
model = AutoModelForQuestionAnswering.from_pretrained("{name}"{trust})
question, context = "{left}", "{text}"
batch = tokenizer(question, context, return_offsets_mapping=True, return_tensors="pt")
offsets = batch.pop("offset_mapping")[0]
in_context = torch.tensor([part == 1 for part in batch.sequence_ids()])
with torch.no_grad():
    output = model(**batch)
first = output.start_logits[0].where(in_context, -torch.inf).argmax()
last = first + output.end_logits[0].where(in_context, -torch.inf)[first:].argmax()
print(context[offsets[first, 0] : offsets[last, 1]])
"""

MENTIONS_CODE = """\
import torch
from transformers import AutoTokenizer{imports}

tokenizer = AutoTokenizer.from_pretrained("{name}"{trust})
{load}
# a document, sentence by sentence
document = [sentence.split() for sentence in ["{left}", "{right}"]]
batch = tokenizer(document, is_split_into_words=True, padding=True, return_tensors="pt")
with torch.no_grad():
    clusters = model.decode(model(**batch))[0]
words = sum(document, [])
print([[" ".join(words[first : last + 1]) for first, last in cluster] for cluster in clusters])
"""
# Transformers has no Auto class for this task
MENTIONS_IMPORTS = {
    True: "\nfrom transformers.dynamic_module_utils import get_class_from_dynamic_module",
    False: "",
}
MENTIONS_LOADING = {
    True: """\
cls = get_class_from_dynamic_module("modeling_elmo.ElmoForCoreferenceResolution", "{name}")
model = cls.from_pretrained("{name}")""",
    False: """\
model = elmo_hf.ElmoForCoreferenceResolution.from_pretrained("{name}")""",
}

OUTPUTS = """\
`output.last_hidden_state` is the mix of the layers, the ELMo vector; `output.hidden_states` are the layers, the token
layer first. The tokens `{begin}` and `{end}` around each sentence have vectors, too."""

EXAMPLE_WORDS = "The examples string together frequent words. Put in sentences of your own."
NO_WORDS = "Nothing here tells the language of the model: put in sentences of your own."

WITH_PACKAGE = """\
{trusted} runs the code files of this repository. With the package `elmo_hf` you do without, and the model is
faster:"""
LOADING = re.compile(r"from transformers |model = |.* = pipeline\(|.*\.from_pretrained\(")
PIPELINE_CALL = re.compile(r'\b(?:fill|tag|classify)\((?:"[^"]*"|\{.*?\})\)')

DOWNLOAD = "; `hf download {name} --local-dir {folder}` makes the folder."

# the first two read a folder, the others a name on the Hub as well
COMMANDS = {
    VECTORS: "`elmo-hf embed FILE --model {folder} --output vectors.hdf5` writes the vectors of a file" + DOWNLOAD,
    "fill-mask": "`elmo-hf perplexity {folder} FILE` measures how well the model predicts a text" + DOWNLOAD,
    "token-classification": "`elmo-hf predict {name} FILE` labels the words of a file.",
    ROLES: "`elmo-hf predict {name} FILE` finds the roles for the verbs of a file, such as one in CoNLL-U.",
    "text-classification": "`elmo-hf predict {name} FILE` labels the sentences of a file.",
    "pairs": "`elmo-hf predict {name} FILE` labels the pairs of a file, such as a table in CSV.",
    "regression": "`elmo-hf predict {name} FILE` gives each sentence of a file a number.",
    "regression of pairs": "`elmo-hf predict {name} FILE` gives each pair of a file, such as a CSV table, a number.",
    "multiple-choice": "`elmo-hf predict {name} FILE` answers the questions of a file in JSON Lines.",
    "question-answering": "`elmo-hf predict {name} FILE` answers the questions of a file, such as SQuAD's.",
    NO_ANSWER: "`elmo-hf predict {name} FILE --no-answer` answers the questions of a file, such as SQuAD's, with null "
    "where no answer is more probable. The code above always gives one.",
    "coreference-resolution": "`elmo-hf predict {name} FILE` finds the mentions in a document, one sentence a line.",
}


@dataclass(frozen=True)
class Model:
    """What the examples of a card depend on.

    Attributes:
        name: The name of the model on the Hub, or of its folder.
        config: Its configuration.
        task: Its task, as the Hub calls it.
        words: Words of its language, at least one; empty if nothing tells it.
        tokens: The special tokens by name, such as `mask_token`, those that the tokenizer has.
        pairs: Whether it reads pairs of texts.
    """

    name: str
    config: ElmoConfig
    task: str
    words: Sequence[str]
    tokens: Mapping[str, str]
    pairs: bool

    @property
    def kind(self) -> str:
        """The task, or what the model does instead: `pairs`, `regression`, `regression of pairs`, or `NO_ANSWER`."""
        if self.task == "question-answering" and gives_no_answer(self.config):
            return NO_ANSWER
        if self.task != "text-classification":
            return self.task
        # a single label is a number, unless the model says otherwise
        problem, labels = self.config.problem_type, self.config.id2label or {}
        if problem == "regression" or (problem is None and len(labels) == 1):
            return "regression of pairs" if self.pairs else "regression"
        return "pairs" if self.pairs else self.task


def read_model(folder: Path, name: str = PLACEHOLDER) -> Model:
    """Read what the examples of a card depend on.

    Args:
        folder: The model folder.
        name: The name of the model on the Hub; `elmo-hf push` replaces the default, a placeholder.

    Raises:
        ElmoError: If the folder is no model folder.
    """
    config = read_config(folder)
    tokens = {
        # older versions of Transformers saved options with a token
        name: str(value["content"] if isinstance(value, dict) else value)
        for name, value in read_json(folder / "tokenizer_config.json").items()
        if name.endswith("_token") and value
    }
    task = task_of((config.architectures or [""])[0], config)
    records = trainings(config)
    # a head of its own for pairs, or a model that was trained on them
    pairs = config.head == "esim" or bool(records and records[-1].get("inputs") == "pairs")
    words = example_words(read_json(folder / "tokenizer.json").get("model", {}).get("vocab", {}))
    frequent = [word for record in reversed(records) for word in record.get("frequent_words", [])]
    return Model(
        name=name,
        config=config,
        # filling in needs a mask token in the tokenizer
        task=VECTORS if task == "fill-mask" and "mask_token" not in tokens else task,
        words=words or example_words(frequent),
        tokens=tokens,
        pairs=pairs,
    )


def example_words(words: Iterable[str]) -> list[str]:
    """Return the first words that have letters and nothing else, as many as an example has."""
    return list(islice(filter(_is_word, words), LENGTH))


def _is_word(word: object) -> bool:
    """Return whether a word has letters, and their marks, only."""
    kinds = [unicodedata.category(character)[0] for character in str(word)]
    return "L" in kinds and set(kinds) <= {"L", "M"}


def usage_blocks(model: Model) -> list[str]:
    """Write the section that shows how to use a model.

    Args:
        model: The model, from `read_model`.

    Returns:
        Paragraphs and code, without the heading.
    """
    codes = [VECTORS_CODE] if model.task in (VECTORS, "fill-mask") else []
    codes += [] if model.task == VECTORS else [task_code(model)]
    outputs = OUTPUTS.format(begin=model.tokens.get("bos_token", "<S>"), end=model.tokens.get("eos_token", "</S>"))
    command = COMMANDS[model.kind]
    folder = model.name.rpartition("/")[2]
    return [
        *(code_block(fill_in(code, model, trust=TRUST), "python") for code in codes),
        EXAMPLE_WORDS if model.words else NO_WORDS,
        *([outputs] if VECTORS_CODE in codes else []),
        WITH_PACKAGE.format(trusted="This" if model.task in ONLY_TAGS else "`trust_remote_code`"),
        code_block(_with_package(fill_in(codes[-1], model, trust="")), "python"),
        command.format(folder=folder, name=model.name),
    ]


def _with_package(code: str) -> str:
    """Shorten an example to how the model is loaded and, if it is a pipeline, one call."""
    lines = [line for line in code.splitlines() if LOADING.match(line)]
    call = PIPELINE_CALL.search(code)
    return "\n".join(["import elmo_hf", *lines, *([f"print({call[0]})"] if call else [])])


def task_code(model: Model) -> str:
    """Return the code for the task of a model, to be filled in."""
    if model.task == "multiple-choice":
        return CHOICE_CODE
    if model.task == ROLES:
        return ROLES_CODE
    if model.task == "question-answering":
        return ANSWER_CODE
    if model.task == "coreference-resolution":
        return MENTIONS_CODE
    labels: Any = model.config.id2label or {}
    if model.task == "fill-mask":
        call, variable, options = FILL_CODE, "fill", ""
    elif model.task == "token-classification":
        # the pipeline joins spans of this scheme only
        spans = tag_scheme(labels.values()) == "IOB2"
        call, variable = (SPANS_CODE, "tag") if spans else (TAGS_CODE, "tag")
        options = ', aggregation_strategy="simple"' if spans else ", ignore_labels=[]"
    else:
        call, variable = (PAIR_CODE if model.pairs else TEXT_CODE), "classify"
        options = ", top_k=None" if model.config.problem_type == "multi_label_classification" else ""
    return PIPELINE_CODE.replace("{variable}", variable).replace("{options}", options) + call


def fill_in(code: str, model: Model, *, trust: str) -> str:
    """Put names and words into the code of an example.

    Args:
        code: The code.
        model: The model.
        trust: The argument with which the model is loaded.
    """
    if code == MENTIONS_CODE:
        code = code.replace("{imports}", MENTIONS_IMPORTS[bool(trust)]).replace(
            "{load}", MENTIONS_LOADING[bool(trust)]
        )
    words = list(islice(cycle(model.words or NEUTRAL_WORDS), LENGTH))
    half = LENGTH // 2

    def quoted(text: str) -> str:
        """Return what stands for a text between the quotes of a string."""
        return json.dumps(text, ensure_ascii=False)[1:-1]

    return code.format(
        name=quoted(model.name),
        task=model.task,
        trust=trust,
        words=json.dumps(words, ensure_ascii=False),
        text=" ".join(words),
        left=" ".join(words[:half]),
        right=" ".join(words[half:]),
        mask=quoted(model.tokens.get("mask_token", "")),
    )


def task_of(cls: str, config: ElmoConfig) -> str:
    """Return the task of a model, as the Hub calls it.

    Args:
        cls: The name of its class.
        config: Its configuration.
    """
    task = TASKS.get(cls, VECTORS)
    return ROLES if task == "token-classification" and config.head == ROLES_HEAD else task


def hub_tags(task: str) -> dict[str, Any]:
    """Return the metadata by which the Hub finds models of a task."""
    if task in ONLY_TAGS:
        return {"tags": ["elmo", task]}
    return {"pipeline_tag": task, "tags": ["elmo"]}


__all__ = [
    "ROLES",
    "TASKS",
    "VECTORS",
    "Model",
    "example_words",
    "fill_in",
    "hub_tags",
    "read_model",
    "task_code",
    "task_of",
    "usage_blocks",
]
