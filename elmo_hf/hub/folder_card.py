"""The model card that `elmo-hf push` generates from the files of a model folder."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub.repocard_data import CardData

from elmo_hf.inspection import describe, read_config, read_json
from elmo_hf.model.configuration_elmo import ElmoConfig

from .cards import Card, code_block, render_card, table, task_example, vectors_example


# task of each class, as the Hub calls it
TASKS = {
    "ElmoForMaskedLM": "fill-mask",
    "ElmoForPreTraining": "fill-mask",
    "ElmoForTokenClassification": "token-classification",
    "ElmoForSequenceClassification": "text-classification",
}
VECTORS = "feature-extraction"

# metrics of `Trainer` that describe the machine or the training
NOT_OF_THE_MODEL = re.compile(r"runtime|per_second|_time$|^epoch$|flos|mem_|samples")

ABOUT = 'ELMo, a bidirectional language model (Peters et al. 2018, "Deep contextualized word representations"). '

INTRODUCTION = {
    VECTORS: "It gives a vector for each word in its sentence.",
    "fill-mask": "It gives a vector for each word in its sentence, and predicts words from those around them.",
    "token-classification": "Fine-tuned to label words.",
    "text-classification": "Fine-tuned to label sentences, or pairs of them.",
}

PACKAGE_EXAMPLE = """\
import elmo_hf
from transformers import AutoModel

model = AutoModel.from_pretrained("{name}")
"""

OUTPUTS = """\
`output.last_hidden_state` is the mix of the layers, the ELMo vector; `output.hidden_states` are the layers, the token
layer first. The words that the tokenizer puts around each sentence have vectors too."""

CODE = """\
`trust_remote_code` runs the code files of this repository. Where the package `elmo_hf` is installed, its own runs:"""

LIMITS = """\
{intended} It knows the language and the kind of text that it was trained on, split into words in the same way, and has
learned what that text says of people: see what it does with yours before you rely on it. It writes no text.{cut}"""

INTENDED = {
    VECTORS: "Vectors of words as the input of models for a task, or to compare words in context.",
    "fill-mask": "Vectors of words as the input of models for a task, and words for a gap, ranked.",
    "token-classification": "Labels of words, of texts like those that it was fine-tuned on.",
    "text-classification": "Labels of sentences, of texts like those that it was fine-tuned on.",
}


def make_card(folder: Path, name: str, metadata: Mapping[str, Any]) -> str:
    """Generate the card of a model folder.

    Args:
        folder: A model folder whose files have been checked.
        name: Name of the model on the Hub.
        metadata: Head of the card.

    Returns:
        The card; the same folder gives the same text.
    """
    config = read_config(folder)
    task = task_of(folder)
    facts = [row for row in describe(folder) if not row[0].startswith((" ", "origin"))]
    return render_card(
        Card(
            title=name.rpartition("/")[2],
            blocks=[
                ABOUT + INTRODUCTION[task],
                table(("", ""), facts),
                "## Use",
                *_examples(name, task, config),
                OUTPUTS,
                CODE,
                code_block(PACKAGE_EXAMPLE.format(name=name), "python"),
                "## Intended use and limits",
                LIMITS.format(intended=INTENDED[task], cut=_longest_word(folder, config)),
                "## Source",
                *_source(folder, config),
                *_figures(recorded_metrics(folder)),
            ],
            metadata=CardData(**dict(sorted(metadata.items()))),
            generated=True,
        )
    )


def task_of(folder: Path) -> str:
    """Return the task of a model folder, as the Hub calls it; `fill-mask` needs a mask token in the tokenizer."""
    task = TASKS.get((read_config(folder).architectures or [""])[0], VECTORS)
    mask_token = read_json(folder / "tokenizer_config.json").get("mask_token")
    return VECTORS if task == "fill-mask" and not mask_token else task


def recorded_metrics(folder: Path) -> dict[str, dict[str, float]]:
    """Read the metrics that `Trainer.save_metrics` left in a folder, by split and name."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(folder.glob("*_results.json")):
        split = path.name.removesuffix("_results.json")
        metrics = {key.removeprefix(f"{split}_"): value for key, value in read_json(path).items()}
        metrics = {
            key: float(value)
            for key, value in metrics.items()
            if isinstance(value, int | float) and not NOT_OF_THE_MODEL.search(key)
        }
        if metrics and split not in ("all", "train"):
            found[split] = metrics
    return found


def _examples(name: str, task: str, config: ElmoConfig) -> list[str]:
    of_task = [] if task == VECTORS else [task_example(task, name, pairs=config.head == "esim")]
    return [vectors_example(name), *of_task]


def _longest_word(folder: Path, config: ElmoConfig) -> str:
    """Write how much of a long word the model reads, if it reads characters."""
    if not config.char_embedding_dim:
        return ""
    spelling = read_json(folder / "tokenizer_config.json").get("spelling")
    unit = "characters" if spelling == "dictionary" else "bytes"
    return f" Of a word it reads {config.max_characters_per_token - 2} {unit} at most."


def _source(folder: Path, config: ElmoConfig) -> list[str]:
    values = read_json(folder / "provenance.json")
    if not values:
        saved = f"Saved by Transformers {config.transformers_version}"
        return [f"{saved}; what it was trained on is not recorded in its files."]
    origin = dict(describe(folder))["origin"]
    rows = [
        (source.get("url") or source["name"], f"{source['size']:,}", f"`{source['sha256']}`")
        for source in values.get("sources", [])
    ]
    return [
        f"An original ELMo, {origin}. Its options are in provenance.json.",
        table(("file", "bytes", "sha256"), rows),
    ]


def _figures(metrics: Mapping[str, Mapping[str, float]]) -> list[str]:
    rows = [(split, name, f"{value:.4f}") for split, part in metrics.items() for name, value in part.items()]
    return ["## Figures", table(("split", "metric", "value"), rows)] if rows else []


__all__ = ["make_card", "recorded_metrics", "task_of"]
