"""The model card of a folder, from its files: what the model is, how to use it, its trainings, results and sources."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub.repocard_data import CardData

from elmo_hf.history import HUB_NAME, trainings
from elmo_hf.inspection import describe, read_json
from elmo_hf.model.configuration_elmo import ElmoConfig

from .cards import Card, render_card, table
from .results import Scores, data_sets, model_index, recorded_metrics, result_blocks, training_blocks
from .usage import NO_ANSWER, ROLES, VECTORS, Model, hub_tags, read_model, usage_blocks


# labels that a card lists
MOST_LABELS = 50

ABOUT = 'ELMo, a bidirectional language model (Peters et al. 2018, "Deep contextualized word representations"). '

WITHOUT_ELMO = (
    "A model of the words of its task, without the ELMo of Peters et al. 2018, to compare with one that has it. "
)

INTRODUCTION = {
    VECTORS: "It gives a vector for each word in its sentence.",
    "fill-mask": "It gives a vector for each word in its sentence, and predicts words from those around them.",
    "token-classification": "Fine-tuned to label words.",
    ROLES: "Fine-tuned to find the semantic roles of words for a predicate of their sentence: who did what to whom.",
    "text-classification": "Fine-tuned to label sentences.",
    "pairs": "Fine-tuned to label pairs of sentences.",
    "regression": "Fine-tuned to give sentences a number.",
    "regression of pairs": "Fine-tuned to give pairs of sentences a number.",
    "multiple-choice": "Fine-tuned to choose the answer to a question.",
    "question-answering": "Fine-tuned to find the answer to a question in a text.",
    NO_ANSWER: "Fine-tuned to find the answer to a question in a text, or that the text has none.",
    "coreference-resolution": "Fine-tuned to find the mentions of the same thing in a document.",
}

LIMITS = """\
{intended} It knows the language and the kind of text that it was trained on, split into words in the same way, and has
learned what that text says of people: see what it does with yours before you rely on it. It writes no text.{cut}"""

INTENDED = {
    VECTORS: "Vectors of words as the input of models for a task, or to compare words in context.",
    "fill-mask": "Vectors of words as the input of models for a task, and words for a gap, ranked.",
    "token-classification": "Labels of words, of texts like those that it was fine-tuned on.",
    ROLES: "Roles in sentences like those that it was fine-tuned on, for predicates that are known.",
    "text-classification": "Labels of sentences, of texts like those that it was fine-tuned on.",
    "pairs": "Labels of pairs of sentences, of texts like those that it was fine-tuned on.",
    "regression": "Numbers for sentences like those that it was fine-tuned on.",
    "regression of pairs": "Numbers for pairs of sentences like those that it was fine-tuned on.",
    "multiple-choice": "Answers to questions like those that it was fine-tuned on.",
    "question-answering": "Answers to questions, and texts that hold them, like those that it was fine-tuned on.",
    NO_ANSWER: "Questions and texts like those that it was fine-tuned on, also where the text has no answer.",
    "coreference-resolution": "Mentions in documents like those that it was fine-tuned on.",
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
    sections = card_sections(folder, read_model(folder, name), recorded_metrics(folder))
    return render_card(
        Card(
            title=name.rpartition("/")[2],
            blocks=join_sections(sections),
            metadata=CardData(**dict(sorted(metadata.items()))),
            generated=True,
        )
    )


def card_sections(folder: Path, model: Model, scores: Scores) -> dict[str, list[str]]:
    """Write the sections of the card of a model folder.

    Args:
        folder: The model folder.
        model: The model, from `read_model`.
        scores: The metrics of its task by split.

    Returns:
        The blocks of each section by its heading; an empty section has none.
    """
    config = model.config
    facts = [row for row in describe(folder) if not row[0].startswith((" ", "origin", "training"))]
    if model.task in ("token-classification", "text-classification"):
        facts.insert(1, ("labels", _labels(config)))
    return {
        "": [(WITHOUT_ELMO if config.mix_at == "none" else ABOUT) + INTRODUCTION[model.kind], table(("", ""), facts)],
        "Use": usage_blocks(model),
        "Training": training_blocks(config),
        "Results": result_blocks(config, scores),
        "Intended use and limits": [
            LIMITS.format(intended=INTENDED[model.kind], cut=_longest_word(folder, config)),
        ],
        "Source": _source(folder, config),
    }


def join_sections(sections: Mapping[str, list[str]]) -> list[str]:
    """Return the blocks of all sections with their headings, without empty sections."""
    return [
        block
        for heading, blocks in sections.items()
        if blocks
        for block in ([f"## {heading}", *blocks] if heading else blocks)
    ]


def folder_metadata(folder: Path, name: str, datasets: list[str]) -> dict[str, Any]:
    """Return the metadata that the files of a model folder determine.

    Args:
        folder: The model folder.
        name: The name of the model on the Hub.
        datasets: Data sets on the Hub that the user names; by default those that the record names.
    """
    model = read_model(folder, name)
    datasets = datasets or data_sets(model.config)
    scores = recorded_metrics(folder)
    records = trainings(model.config)
    base = records[-1].get("base_model", "") if records else ""
    # results belong to the data set of the last training
    results = model_index(name.rpartition("/")[2], model.task, datasets[-1], scores) if datasets else []
    metadata = {
        "library_name": "transformers",
        **hub_tags(model.task),
        # a folder means nothing on the Hub
        "base_model": base if "/" in base and HUB_NAME.fullmatch(base) and not Path(base).exists() else None,
        "datasets": datasets,
        "model-index": results,
    }
    return {key: value for key, value in metadata.items() if value}


def _labels(config: ElmoConfig) -> str:
    names = [str(name) for name in (config.id2label or {}).values()]
    left = len(names) - MOST_LABELS
    return ", ".join(names) if left <= 0 else f"{', '.join(names[:MOST_LABELS])} and {left} more"


def _longest_word(folder: Path, config: ElmoConfig) -> str:
    """Write how much of a long word the model reads, if it reads characters."""
    if not config.char_embedding_dim:
        return ""
    spelling = read_json(folder / "tokenizer_config.json").get("spelling")
    unit = "characters" if spelling == "dictionary" else "bytes"
    return f" Of a word it reads {config.max_characters_per_token - 2} {unit} at most."


def _source(folder: Path, config: ElmoConfig) -> list[str]:
    values = read_json(folder / "provenance.json")
    if values:
        origin = dict(describe(folder))["origin"]
        rows = [
            (source.get("url") or source["name"], f"{source['size']:,}", f"`{source['sha256']}`")
            for source in values.get("sources", [])
        ]
        return [
            f"An original ELMo, {origin}. Its options are in provenance.json.",
            table(("file", "bytes", "sha256"), rows),
        ]
    if config.training_history:
        return []
    saved = f"Saved by Transformers {config.transformers_version}"
    return [f"{saved}; what it was trained on is not recorded in its files."]


__all__ = ["card_sections", "folder_metadata", "join_sections", "make_card"]
