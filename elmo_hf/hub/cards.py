"""Model cards: a new one of what a folder holds, and the metadata that one lacks which somebody wrote."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import RepoCard
from huggingface_hub.repocard_data import CardData

from elmo_hf.errors import ElmoError, one_line
from elmo_hf.inspection import describe, read_config, read_json
from elmo_hf.model.configuration_elmo import ElmoConfig


CARD = "README.md"

# what a card calls its model before it has a name on the Hub
PLACEHOLDER = "path/to/this/folder"

# the draft that `elmo-hf convert` writes, as long as it is not filled in
DRAFT = re.compile(
    r"---\n[^-]*- elmo\n[^\n]*\n---\n\n# ELMo, converted from .*\"path/to/this/folder\".*\"path/to/this/folder\".*"
    r"Converted by [^\n]*; the original options are in [^\n]*\s+The licence of the source is not\s+recorded here\.\n",
    re.DOTALL,
)

# ends each card that is made here, with a hash of its text, by which one knows that nobody has edited it
MARK = "<!-- made by elmo-hf {} -->\n"
MARKED = re.compile(r"\n<!-- made by elmo-hf ([0-9a-f]{16}) -->\s*\Z")

# the metadata between two lines of ---, at the beginning
HEAD = re.compile(r"\A(\s*---[ \t]*\r?\n)(.*?)(^---[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)

# what the Hub calls the tasks of the classes
TASKS = {
    "ElmoForMaskedLM": "fill-mask",
    "ElmoForPreTraining": "fill-mask",
    "ElmoForTokenClassification": "token-classification",
    "ElmoForSequenceClassification": "text-classification",
}
VECTORS = "feature-extraction"

# figures of `Trainer` that are of the machine, or of the training
NOT_OF_THE_MODEL = re.compile(r"runtime|per_second|_time$|^epoch$|flos|mem_|samples")

# by which one knows a card that `Trainer` has made
TRAINERS_TAG = "generated_from_trainer"

INTRODUCTION = {
    VECTORS: "It gives a vector for each word in its sentence.",
    "fill-mask": "It gives a vector for each word in its sentence, and predicts words from those around them.",
    "token-classification": "Fine-tuned to label words.",
    "text-classification": "Fine-tuned to label sentences, or pairs of them.",
}

VECTORS_EXAMPLE = """\
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}", trust_remote_code=True)
model = AutoModel.from_pretrained("{name}", trust_remote_code=True)
batch = tokenizer([["EU-wide", "measures"]], is_split_into_words=True, return_tensors="pt")
output = model(**batch, output_hidden_states=True)
"""

PACKAGE_EXAMPLE = """\
import elmo_hf
from transformers import AutoModel

model = AutoModel.from_pretrained("{name}")
"""

TASK_EXAMPLE = """\
from transformers import pipeline

{variable} = pipeline("{task}", "{name}", trust_remote_code=True)
print({call})
"""

CALLS = {
    "fill-mask": ("fill", 'fill(f"The bank raised {fill.tokenizer.mask_token} .")'),
    "token-classification": ("tagger", 'tagger("Ann Lee met Bob in New York .")'),
    "text-classification": ("classifier", 'classifier("The bank raised rates .")'),
    "pairs": ("classifier", 'classifier({"text": "The bank raised rates .", "text_pair": "Rates rose ."})'),
}

TEXT = """\
# {title}

ELMo, a bidirectional language model (Peters et al. 2018, "Deep contextualized word representations"). {introduction}

| | |
|---|---|
{facts}

## Use

{examples}
`output.last_hidden_state` is the mix of the layers, the ELMo vector; `output.hidden_states` are the layers, the token
layer first. The words that the tokenizer puts around each sentence have vectors too.

`trust_remote_code` runs the code files of this repository. Where the package `elmo_hf` is installed, its own runs:

```python
{package}```

## Intended use and limits

{intended} It knows the language and the kind of text that it was trained on, split into words in the same way, and has
learned what that text says of people: see what it does with yours before you rely on it. It writes no text.{cut}

## Source

{source}
{figures}"""

INTENDED = {
    VECTORS: "Vectors of words as the input of models for a task, or to compare words in context.",
    "fill-mask": "Vectors of words as the input of models for a task, and words for a gap, ranked.",
    "token-classification": "Labels of words, of texts like those that it was fine-tuned on.",
    "text-classification": "Labels of sentences, of texts like those that it was fine-tuned on.",
}


def split_card(text: str) -> tuple[str, dict[str, Any]]:
    """Separate the text of a card, and read its metadata.

    Args:
        text: The card, with or without metadata.

    Returns:
        The text behind the metadata, and these by name.

    Raises:
        ElmoError: If the metadata are no YAML, or have no names.
    """
    head = HEAD.match(text)
    if head is None:
        return text, {}
    try:
        return text[head.end() :], RepoCard(f"---\n{head[2]}\n---\n").data.to_dict()
    except Exception as error:
        # the YAML, or a field of it, can be anything
        raise ElmoError(f"{CARD} has metadata that cannot be read ({one_line(error)}): correct them.") from error


def complete_card(text: str, name: str, wanted: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Add the metadata that a card lacks; all else stays as it is, but for the name in its examples.

    Args:
        text: The card.
        name: What the model is called on the Hub, which stands for the placeholder in the cards of `elmo-hf convert`.
        wanted: Metadata.

    Returns:
        The card, and the names of what was added.

    Raises:
        ElmoError: If its metadata cannot be read.
    """
    text = text.removeprefix("\ufeff").replace(PLACEHOLDER, name)
    _, known = split_card(text)
    missing = {key: value for key, value in wanted.items() if value and not known.get(key)}
    if not missing:
        return text, []
    end = "\r\n" if "\r\n" in text else "\n"
    added = CardData(**missing).to_yaml(line_break=end).rstrip() + end
    head = HEAD.match(text)
    if head is None:
        return f"---{end}{added}---{end}{end}{text}", list(missing)
    kept = _without(head[2], missing)
    return head[1] + kept + added + head[3] + text[head.end() :], list(missing)


def _without(yaml: str, keys: Mapping[str, Any]) -> str:
    """Take out keys without a value, which would be there twice."""
    names = "|".join(map(re.escape, keys))
    return re.sub(rf"^(?:{names}):[ \t]*(?:null|~|\[\]|)[ \t]*\r?\n", "", yaml, flags=re.MULTILINE)


def make_card(folder: Path, name: str, metadata: Mapping[str, Any]) -> str:
    """Write a new card of what a folder holds.

    Args:
        folder: The model's, whose files are good.
        name: What the model is called on the Hub.
        metadata: For the head of the card.

    Returns:
        The card, the same for the same folder.
    """
    config = read_config(folder)
    task = task_of(folder)
    rows = describe(folder)
    facts = [row for row in rows if not row[0].startswith((" ", "origin"))]
    examples = [VECTORS_EXAMPLE.format(name=name)]
    if task != VECTORS:
        variable, call = CALLS["pairs" if config.head == "esim" else task]
        examples.append(TASK_EXAMPLE.format(variable=variable, task=task, name=name, call=call))
    values = read_json(folder / "tokenizer_config.json")
    unit = "characters" if values.get("spelling") == "dictionary" else "bytes"
    cut = f" Of a word it reads {config.max_characters_per_token - 2} {unit} at most."
    text = TEXT.format(
        title=name.rpartition("/")[2],
        introduction=INTRODUCTION[task],
        facts="\n".join(f"| {key} | {_cell(value)} |" for key, value in facts),
        examples="\n".join(f"```python\n{example}```\n" for example in examples),
        package=PACKAGE_EXAMPLE.format(name=name),
        intended=INTENDED[task],
        cut=cut if config.char_embedding_dim else "",
        source=_source(folder, config),
        figures=_figures(recorded_metrics(folder)),
    )
    head = CardData(**dict(sorted(metadata.items())))
    return f"---\n{head.to_yaml()}\n---\n\n{text}\n{MARK.format(_digest(text))}"


def is_unedited(card: str) -> bool:
    """Tell whether nobody has changed the text of a card since `make_card` or `elmo-hf convert` wrote it."""
    text = split_card(card)[0]
    mark = MARKED.search(text)
    return DRAFT.fullmatch(card) is not None or (mark is not None and _digest(text[: mark.start()]) == mark[1])


def _digest(text: str) -> str:
    """Compute a hash of a text that does not depend on its ends of lines."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


class KeepsCard:
    """Put before `Trainer` among the bases of a class, leaves a card alone that `Trainer` has not made.

    `Trainer.push_to_hub` writes a card of its own, over the one that is in the output folder.
    """

    args: Any

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write a card, as `Trainer` does, where there is none or one of its own."""
        path = Path(self.args.output_dir) / CARD
        tags = split_card(path.read_text(encoding="utf-8"))[1].get("tags") if path.is_file() else [TRAINERS_TAG]
        if TRAINERS_TAG in (tags or []):
            super().create_model_card(*args, **kwargs)  # type: ignore[misc]


def task_of(folder: Path) -> str:
    """Tell what the Hub calls the task of the class that a folder was saved by."""
    task = TASKS.get((read_config(folder).architectures or [""])[0], VECTORS)
    masked = read_json(folder / "tokenizer_config.json").get("mask_token")
    return VECTORS if task == "fill-mask" and not masked else task


def recorded_metrics(folder: Path) -> dict[str, dict[str, float]]:
    """Read the metrics that `Trainer.save_metrics` left in a folder, by split and name."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(folder.glob("*_results.json")):
        split = path.name.removesuffix("_results.json")
        if split not in ("all", "train"):
            figures = {key.removeprefix(f"{split}_"): value for key, value in read_json(path).items()}
            metrics = {
                key: float(value)
                for key, value in figures.items()
                if isinstance(value, int | float) and not NOT_OF_THE_MODEL.search(key)
            }
            found |= {split: metrics} if metrics else {}
    return found


def _figures(metrics: Mapping[str, Mapping[str, float]]) -> str:
    if not metrics:
        return ""
    rows = [f"| {split} | {name} | {value:.4f} |" for split, part in metrics.items() for name, value in part.items()]
    return "\n## Figures\n\n| split | metric | value |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _source(folder: Path, config: ElmoConfig) -> str:
    values = read_json(folder / "provenance.json")
    if not values:
        saved = f"Saved by Transformers {config.transformers_version}"
        return f"{saved}; what it was trained on is not recorded in its files."
    rows = [
        f"| {_cell(source.get('url') or source['name'])} | {source['size']:,} | `{source['sha256']}` |"
        for source in values.get("sources", [])
    ]
    return (
        f"An original ELMo, {dict(describe(folder))['origin']}. Its options are in provenance.json.\n\n"
        "| file | bytes | sha256 |\n|---|---|---|\n" + "\n".join(rows)
    )


def _cell(text: str) -> str:
    """Write a text so that it stays in its cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


__all__ = [
    "CARD",
    "KeepsCard",
    "complete_card",
    "is_unedited",
    "make_card",
    "recorded_metrics",
    "split_card",
    "task_of",
]
